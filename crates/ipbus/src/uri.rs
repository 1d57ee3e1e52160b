//! URIs: the address of a target, the transport, and options of the connection.
//!
//! ```text
//!  ipbusudp-2.0://HOST:PORT                        datagrams
//!  ipbustcp-2.0://HOST:PORT                        a stream
//!  chtcp-2.0://HUB:PORT?target=HOST:PORT           through a hub
//!    ?max_payload_size=BYTES  &reliable=auto|on|off  &timeout_ms=MS  &busy_poll=on|off
//! ```
//! The schemes, `target` and `max_payload_size` are those of the original software; the other keys are thalweg's own.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use url::Url;

use crate::client::PacketLimits;
use crate::wire::Target;

/// Longest packet in bytes, unless the URI sets it.
const PAYLOAD_BYTES: usize = 1400;
/// Largest allowed `max_payload_size` over a stream, in bytes.
const MOST_PAYLOAD_BYTES: usize = 1 << 20;
/// Largest allowed `max_payload_size` over UDP, in bytes.
const MOST_DATAGRAM_BYTES: usize = 65_507;
/// Default port of a hub.
pub const HUB_PORT: u16 = 10_203;

/// An invalid URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{uri}`: {message}")]
pub struct UriError {
    /// The URI as written.
    pub uri: String,
    /// What is wrong, and what to write.
    pub message: String,
}

/// How packets are transported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One packet per datagram.
    Udp,
    /// In a stream, each packet after its length.
    Tcp,
    /// In a stream of chunks to a hub, which serves this target.
    Hub(Target),
}

/// Whether packets are numbered, so that lost ones are recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// As long as no other client numbers packets on the target.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// A parsed URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// The URI as written.
    pub text: String,
    /// The address that packets are sent to: the target's, or its hub's.
    pub place: SocketAddr,
    /// How packets are transported.
    pub transport: Transport,
    /// The longest packets.
    pub limits: PacketLimits,
    /// Over UDP: whether lost packets are recovered.
    pub reliability: Reliability,
    /// How long a packet may take, repeats included.
    pub timeout: Duration,
    /// Spins for an answer instead of sleeping: saves a wake-up, but takes a whole core.
    pub busy_poll: bool,
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(format!("`{key}` is `{value}`; `on` and `off` are allowed")),
    }
}

fn resolved(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut addresses =
        (host, port).to_socket_addrs().map_err(|cause| format!("`{host}` cannot be resolved: {cause}"))?;
    // Targets and hubs support IPv4 only.
    addresses.find(SocketAddr::is_ipv4).ok_or_else(|| format!("`{host}` has no IPv4 address"))
}

fn target(text: &str) -> Result<Target, String> {
    let wrong = || format!("`target` is `{text}`; write HOST:PORT, as in target=192.168.0.2:50001");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    match resolved(host, port.parse().map_err(|_| wrong())?)? {
        SocketAddr::V4(address) => Ok(Target { address: *address.ip(), port: address.port() }),
        SocketAddr::V6(_) => Err(wrong()),
    }
}

impl Uri {
    fn parse(text: &str) -> Result<Uri, String> {
        let url = Url::parse(text).map_err(|error| {
            format!("{error}; write ipbusudp-2.0://HOST:PORT, ipbustcp-2.0://HOST:PORT or chtcp-2.0://HUB:PORT?target=HOST:PORT")
        })?;
        let mut transport = match url.scheme() {
            "ipbusudp-2.0" => Transport::Udp,
            "ipbustcp-2.0" => Transport::Tcp,
            "chtcp-2.0" => Transport::Hub(Target { address: [0, 0, 0, 0].into(), port: 0 }),
            scheme @ ("ipbusudp-1.3" | "ipbustcp-1.3" | "chtcp-1.3") => {
                return Err(format!(
                    "`{scheme}` is IPbus 1.3, which is not supported; for firmware of IPbus 2.0 write `-2.0`"
                ));
            }
            scheme => {
                return Err(format!("`{scheme}` is unknown; use ipbusudp-2.0, ipbustcp-2.0 or chtcp-2.0"));
            }
        };
        let host = url.host_str().ok_or("there is no host")?;
        let is_hub = matches!(transport, Transport::Hub(_));
        let port = url.port().or(is_hub.then_some(HUB_PORT)).ok_or("there is no port; 50001 is usual")?;
        let mut uri = Uri {
            text: text.to_owned(),
            place: resolved(host, port)?,
            transport,
            limits: PacketLimits::both(PAYLOAD_BYTES),
            reliability: Reliability::default(),
            timeout: Duration::from_secs(1),
            busy_poll: false,
        };
        let mut has_target = false;
        for (key, value) in url.query_pairs() {
            match &*key {
                "target" if is_hub => (transport, has_target) = (Transport::Hub(target(&value)?), true),
                "max_payload_size" => uri.limits = limits(&value, transport)?,
                "reliable" if transport == Transport::Udp => {
                    uri.reliability = match &*value {
                        "auto" => Reliability::Auto,
                        other => {
                            if switch(&key, other)? {
                                Reliability::On
                            } else {
                                Reliability::Off
                            }
                        }
                    };
                }
                "timeout_ms" => {
                    let wrong = || format!("`timeout_ms` is `{value}`; allowed is 1 to 3600000");
                    let ms: u64 = value.parse().map_err(|_| wrong())?;
                    uri.timeout = Duration::from_millis(ms);
                    (1..=3_600_000).contains(&ms).then_some(()).ok_or_else(wrong)?;
                }
                "busy_poll" => uri.busy_poll = switch(&key, &value)?,
                other => {
                    let keys = match transport {
                        Transport::Udp => "max_payload_size, reliable, timeout_ms and busy_poll",
                        Transport::Tcp => "max_payload_size, timeout_ms and busy_poll",
                        Transport::Hub(_) => "target, max_payload_size, timeout_ms and busy_poll",
                    };
                    return Err(format!("`{other}` is not a key of `{}`; there are {keys}", url.scheme()));
                }
            }
        }
        if is_hub && !has_target {
            return Err("a hub needs the target: add ?target=HOST:PORT".to_owned());
        }
        Ok(Uri { transport, ..uri })
    }
}

fn limits(value: &str, transport: Transport) -> Result<PacketLimits, String> {
    let most = if transport == Transport::Udp { MOST_DATAGRAM_BYTES } else { MOST_PAYLOAD_BYTES };
    let bytes: Option<usize> = value.parse().ok();
    let bytes = bytes.filter(|bytes| (64..=most).contains(bytes));
    bytes
        .map(PacketLimits::both)
        .ok_or_else(|| format!("`max_payload_size` is `{value}`; allowed is 64 to {most}"))
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Uri, UriError> {
        Uri::parse(text).map_err(|message| UriError { uri: text.to_owned(), message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<Uri>().expect_err("refused").to_string()
    }

    #[test]
    fn uris_of_the_original_are_parsed() {
        let uri: Uri = "ipbusudp-2.0://127.0.0.1:50001".parse().expect("a URI");
        assert_eq!(
            (uri.transport, uri.reliability, uri.timeout),
            (Transport::Udp, Reliability::Auto, Duration::from_secs(1))
        );
        assert_eq!(uri.place, "127.0.0.1:50001".parse().expect("an address"));
        let uri: Uri = "ipbustcp-2.0://localhost:60001?max_payload_size=8000".parse().expect("a URI");
        assert_eq!((uri.transport, uri.limits), (Transport::Tcp, PacketLimits::both(8000)));
        let uri: Uri = "chtcp-2.0://localhost:10203?target=127.0.0.1:50001".parse().expect("a URI");
        let target = Target { address: [127, 0, 0, 1].into(), port: 50001 };
        assert_eq!((uri.transport, uri.place.port()), (Transport::Hub(target), 10_203));
        let uri: Uri =
            "ipbusudp-2.0://127.0.0.1:1?reliable=off&timeout_ms=20&busy_poll=on".parse().expect("a URI");
        assert_eq!((uri.reliability, uri.timeout.as_millis(), uri.busy_poll), (Reliability::Off, 20, true));
    }

    #[test]
    fn an_invalid_uri_is_refused_with_what_to_write() {
        for (text, word) in [
            ("127.0.0.1:50001", "write ipbusudp-2.0://HOST:PORT"),
            ("http://127.0.0.1:50001", "use ipbusudp-2.0"),
            ("ipbusudp-1.3://127.0.0.1:50001", "IPbus 1.3"),
            ("ipbusudp-2.0://127.0.0.1", "no port"),
            ("chtcp-2.0://127.0.0.1", "add ?target=HOST:PORT"),
            ("chtcp-2.0://127.0.0.1?target=1.2.3.4", "write HOST:PORT"),
            ("ipbusudp-2.0://127.0.0.1:1?target=1.2.3.4:5", "`target` is not a key of"),
            ("ipbustcp-2.0://127.0.0.1:1?reliable=on", "`reliable` is not a key of"),
            ("ipbusudp-2.0://127.0.0.1:1?max_payload_size=9", "allowed is 64 to 65507"),
            ("ipbusudp-2.0://127.0.0.1:1?reliable=maybe", "`on` and `off`"),
            ("ipbusudp-2.0://127.0.0.1:1?timeout_ms=0", "allowed is 1 to 3600000"),
        ] {
            assert!(refused(text).contains(word), "{}", refused(text));
        }
    }
}
