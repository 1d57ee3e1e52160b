//! Source URLs.
//!
//! ```text
//!  udp://0.0.0.0:51940?from=board.lab    datagrams to this address, of this sender
//!  udp://0.0.0.0:5000?from=10.0.0.{1..9} datagrams to this address, of nine senders
//!  tcp://board.lab:4000                  a stream
//!  dig2://board.lab                      a board with the x27xx control protocol: opened, armed, started, stopped
//!  emulate://                            an emulated board of this process
//!  file://run/DataR_run.BIN              bytes as they stand; the path is relative to the configuration
//!  pcap://capture.pcapng?port=51940      the datagrams of a capture
//!  tcp://192.168.10.{16..120}:24         105 links of triggered boards; udp:// has ranges, too
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_frontend::format::{ControlEntry, Format};

use crate::url_range::{BadRange, expand};

/// A URL that names no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No scheme, or none that is known.
    #[error(
        "`{0}` names no source; write udp://ADDRESS:PORT, tcp://HOST:PORT, {boards}emulate://, file://PATH or pcap://PATH",
        boards = boards_of_schemes()
    )]
    Scheme(String),
    /// The part behind the scheme is not what it should be.
    #[error("`{url}`: {found} is not {expected}")]
    Part {
        /// The whole URL.
        url: String,
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// A query that this scheme does not have.
    #[error("`{url}` has an unknown query `{key}`; {allowed}")]
    Query {
        /// The whole URL.
        url: String,
        /// What stands before `=`.
        key: String,
        /// What may.
        allowed: &'static str,
    },
}

/// A host and a port, not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Name or number.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl HostPort {
    /// Looks the host up.
    ///
    /// # Errors
    /// When it has no address.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        let mut found = (self.host.as_str(), self.port).to_socket_addrs()?;
        found.next().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A host, and a port if that matters.
pub type HostAndPort = (String, Option<u16>);

/// What a URL means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Datagrams that come to `bind`.
    Udp {
        /// Local address.
        bind: SocketAddr,
        /// Only those of these hosts, and of their ports if given; anyone's where there is none.
        from: Vec<HostAndPort>,
    },
    /// A stream that is connected to.
    Tcp(HostPort),
    /// A board that is controlled over its own protocol and says where its data are, at its control port.
    Board {
        /// The control of its family.
        entry: &'static ControlEntry,
        /// Where it is.
        host: HostPort,
    },
    /// An emulated board of this process, over loopback datagrams.
    Emulate,
    /// The bytes of a file.
    File(PathBuf),
    /// The datagrams of a capture.
    Pcap {
        /// The capture.
        path: PathBuf,
        /// Only those to this UDP port.
        port: Option<u16>,
        /// Only those from these addresses; from any where there is none.
        from: Vec<IpAddr>,
    },
}

/// A parsed URL that still knows how it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct SourceUrl {
    text: String,
    /// At least one; several of a URL with ranges.
    endpoints: Vec<Endpoint>,
}

impl SourceUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it names no source; the message says what to write.
    pub fn parse(text: &str) -> Result<SourceUrl, UrlError> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").ok_or_else(|| UrlError::Scheme(text.to_owned()))?;
        let scheme = scheme.to_ascii_lowercase();
        // Braces are ranges where links are meant; in the name of a file they are braces.
        if !matches!(scheme.as_str(), "tcp" | "udp") {
            let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
            let endpoints = vec![one_endpoint(&scheme, Parts { text, rest, query })?];
            return Ok(SourceUrl { text: text.to_owned(), endpoints });
        }
        // Ranges of the query are of the senders at the other end of a link, and make no more links.
        let (links, query) = rest.split_once('?').unwrap_or((rest, ""));
        let expanded = expand(links).map_err(|bad| bad_range(text, bad))?;
        let mut endpoints = Vec::with_capacity(expanded.len());
        for rest in &expanded {
            endpoints.push(one_endpoint(&scheme, Parts { text, rest, query })?);
        }
        if let Some(twice) = first_twice(&endpoints) {
            return Err(UrlError::Part {
                url: text.to_owned(),
                found: format!("`{}`, which stands there twice,", expanded[twice]),
                expected: "another link",
            });
        }
        Ok(SourceUrl { text: text.to_owned(), endpoints })
    }

    /// What it means; of a URL with ranges, the first.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoints[0]
    }

    /// All that it stands for, in the order of its ranges: the links of a triggered source. Never empty.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The word before `://`.
    pub fn scheme(&self) -> &'static str {
        match self.endpoint() {
            Endpoint::Udp { .. } => "udp",
            Endpoint::Tcp(_) => "tcp",
            Endpoint::Board { entry, .. } => entry.scheme,
            Endpoint::Emulate => "emulate",
            Endpoint::File(_) => "file",
            Endpoint::Pcap { .. } => "pcap",
        }
    }

    /// The control of the board that it names, if that is a board with a control port.
    pub fn control(&self) -> Option<&'static ControlEntry> {
        match self.endpoint() {
            Endpoint::Board { entry, .. } => Some(entry),
            _ => None,
        }
    }

    /// The same with a relative path taken from `folder`.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> SourceUrl {
        for endpoint in &mut self.endpoints {
            if let Endpoint::File(path) | Endpoint::Pcap { path, .. } = endpoint {
                *path = folder.join(&path);
            }
        }
        self
    }
}

impl Default for SourceUrl {
    fn default() -> SourceUrl {
        SourceUrl { text: "emulate://".to_owned(), endpoints: vec![Endpoint::Emulate] }
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for SourceUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<SourceUrl, UrlError> {
        SourceUrl::parse(text)
    }
}

impl TryFrom<String> for SourceUrl {
    type Error = UrlError;

    fn try_from(text: String) -> Result<SourceUrl, UrlError> {
        SourceUrl::parse(&text)
    }
}

impl From<SourceUrl> for String {
    fn from(url: SourceUrl) -> String {
        url.text
    }
}

/// What a URL without ranges of links means.
fn one_endpoint(scheme: &str, parts: Parts<'_>) -> Result<Endpoint, UrlError> {
    match scheme {
        "udp" => parts.udp(),
        "tcp" => Ok(Endpoint::Tcp(parts.no_query()?.host_port(None)?)),
        "emulate" => parts.no_query()?.emulate(),
        "file" => Ok(Endpoint::File(parts.no_query()?.path()?)),
        "pcap" => parts.pcap(),
        _ => match Format::control_of(scheme).filter(|entry| entry.is_source) {
            Some(entry) => {
                Ok(Endpoint::Board { entry, host: parts.no_query()?.host_port(Some(entry.port))? })
            }
            None => Err(UrlError::Scheme(parts.text.to_owned())),
        },
    }
}

/// What to write for boards that say where their data are.
fn boards_of_schemes() -> String {
    let boards = Format::controls().filter(|entry| entry.is_source);
    boards.map(|entry| format!("{}://HOST, ", entry.scheme)).collect()
}

fn bad_range(url: &str, bad: BadRange) -> UrlError {
    UrlError::Part { url: url.to_owned(), found: format!("`{}`", bad.found), expected: bad.expected }
}

/// The place of the first endpoint that stands earlier, too. Port 0 may be asked for often: each time it is another.
fn first_twice(endpoints: &[Endpoint]) -> Option<usize> {
    let mut known = std::collections::HashSet::with_capacity(endpoints.len());
    endpoints.iter().position(|endpoint| {
        let name = match endpoint {
            Endpoint::Tcp(host) => host.to_string(),
            Endpoint::Udp { bind, .. } if bind.port() > 0 => bind.to_string(),
            _ => return false,
        };
        !known.insert(name)
    })
}

/// A URL, taken apart.
struct Parts<'t> {
    /// How all of it was written.
    text: &'t str,
    /// Between `://` and the query, without ranges of links.
    rest: &'t str,
    query: &'t str,
}

impl Parts<'_> {
    fn wrong(&self, found: &str, expected: &'static str) -> UrlError {
        let found = if found.is_empty() { "nothing".to_owned() } else { format!("`{found}`") };
        UrlError::Part { url: self.text.to_owned(), found, expected }
    }

    fn unknown(&self, key: &str, allowed: &'static str) -> UrlError {
        UrlError::Query { url: self.text.to_owned(), key: key.to_owned(), allowed }
    }

    fn queries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    fn no_query(self) -> Result<Self, UrlError> {
        if let Some((key, _)) = self.queries().next() {
            return Err(self.unknown(key, "this kind of URL has none"));
        }
        Ok(self)
    }

    fn path(&self) -> Result<PathBuf, UrlError> {
        match self.rest {
            "" => Err(self.wrong("", "the path of a file")),
            path => Ok(PathBuf::from(path)),
        }
    }

    fn emulate(&self) -> Result<Endpoint, UrlError> {
        match self.rest {
            "" | "/" => Ok(Endpoint::Emulate),
            more => Err(self.wrong(more, "the end: the board is described in [source.emulate]")),
        }
    }

    fn host_port(&self, default: Option<u16>) -> Result<HostPort, UrlError> {
        const EXPECTED: &str = "HOST:PORT";
        let rest = self.rest.trim_end_matches('/');
        let (host, port) = split_port(rest);
        let port = match (port, default) {
            (Some(port), _) => parse_port(port).ok_or_else(|| self.wrong(port, "a port, 1 to 65535"))?,
            (None, Some(default)) => default,
            (None, None) => return Err(self.wrong(rest, EXPECTED)),
        };
        match host {
            "" => Err(self.wrong(rest, EXPECTED)),
            host => Ok(HostPort { host: self.host(host)?, port }),
        }
    }

    fn udp(&self) -> Result<Endpoint, UrlError> {
        const EXPECTED: &str = "ADDRESS:PORT of this host, such as 0.0.0.0:51940";
        let rest = self.rest.trim_end_matches('/');
        let (host, port) = split_port(rest);
        let address = match host {
            "" | "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            number => number.parse().map_err(|_| self.wrong(rest, EXPECTED))?,
        };
        // Port 0 lets the system choose, which suits a board that is informed where to send.
        let port = port.and_then(|port| port.parse().ok()).ok_or_else(|| self.wrong(rest, EXPECTED))?;
        let mut from = Vec::new();
        for (key, value) in self.queries() {
            match key {
                "from" => from.extend(self.senders(value, |sender| self.sender(sender))?),
                other => return Err(self.unknown(other, "known is `from=HOST` or `from=HOST:PORT`")),
            }
        }
        Ok(Endpoint::Udp { bind: SocketAddr::new(address, port), from })
    }

    /// All that a text with ranges names, each once.
    fn senders<S: PartialEq>(
        &self,
        value: &str,
        read: impl Fn(&str) -> Result<S, UrlError>,
    ) -> Result<Vec<S>, UrlError> {
        let mut senders: Vec<S> = Vec::new();
        for text in expand(value).map_err(|bad| bad_range(self.text, bad))? {
            let sender = read(&text)?;
            if senders.contains(&sender) {
                return Err(UrlError::Part {
                    url: self.text.to_owned(),
                    found: format!("`{text}`, which stands there twice,"),
                    expected: "another sender",
                });
            }
            senders.push(sender);
        }
        Ok(senders)
    }

    fn sender(&self, value: &str) -> Result<HostAndPort, UrlError> {
        let (host, port) = split_port(value);
        let port = match port {
            Some(port) => Some(parse_port(port).ok_or_else(|| self.wrong(port, "a port, 1 to 65535"))?),
            None => None,
        };
        match host {
            "" => Err(self.wrong(value, "HOST or HOST:PORT of the sender")),
            host => Ok((self.host(host)?, port)),
        }
    }

    /// A name, or an address that every resolver reads alike: some take a number with a leading zero for an octal one.
    fn host(&self, host: &str) -> Result<String, UrlError> {
        let is_decimal = |part: &str| part.parse::<u8>().is_ok_and(|number| number.to_string() == part);
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if host.split('.').all(is_number) && !host.split('.').all(is_decimal) {
            return Err(
                self.wrong(host, "a host: write the numbers of an address, 0 to 255, without leading zeros")
            );
        }
        Ok(host.to_owned())
    }

    fn pcap(&self) -> Result<Endpoint, UrlError> {
        let (mut wanted_port, mut wanted_from) = (None, Vec::new());
        for (key, value) in self.queries() {
            match key {
                "port" => {
                    let port = parse_port(value).ok_or_else(|| self.wrong(value, "a port, 1 to 65535"))?;
                    wanted_port = Some(port);
                }
                "from" => {
                    let address =
                        |text: &str| text.parse::<IpAddr>().map_err(|_| self.wrong(text, "an IP address"));
                    wanted_from.extend(self.senders(value, address)?);
                }
                other => {
                    return Err(self.unknown(other, "known are `port=PORT` and `from=ADDRESS`"));
                }
            }
        }
        Ok(Endpoint::Pcap { path: self.path()?, port: wanted_port, from: wanted_from })
    }
}

fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

/// Splits `host:port`, `[v6]:port`, `host`, `[v6]`; brackets are taken off.
fn split_port(text: &str) -> (&str, Option<&str>) {
    if let Some(inside) = text.strip_prefix('[')
        && let Some((host, behind)) = inside.split_once(']')
    {
        return (host, behind.strip_prefix(':'));
    }
    match text.rsplit_once(':') {
        // More than one colon without brackets: an IPv6 address alone.
        Some((host, _)) if host.contains(':') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        SourceUrl::parse(text).expect(text).endpoint().clone()
    }

    #[test]
    fn every_kind_is_read() {
        let bind = "0.0.0.0:51940".parse().expect("an address");
        assert_eq!(endpoint("udp://0.0.0.0:51940"), Endpoint::Udp { bind, from: Vec::new() });
        assert_eq!(
            endpoint("udp://*:51940?from=board.lab:700"),
            Endpoint::Udp { bind, from: vec![("board.lab".into(), Some(700))] }
        );
        let bind = "[::1]:9".parse().expect("an address");
        assert_eq!(
            endpoint("udp://[::1]:9?from=fe80::2"),
            Endpoint::Udp { bind, from: vec![("fe80::2".into(), None)] }
        );
        assert_eq!(endpoint("tcp://host:4000/"), Endpoint::Tcp(HostPort { host: "host".into(), port: 4000 }));
        assert_eq!(
            endpoint("dig2://127.0.0.2"),
            Endpoint::Board {
                entry: Format::control_of("dig2").expect("a family has it"),
                host: HostPort { host: "127.0.0.2".into(), port: 51936 }
            }
        );
        assert_eq!(endpoint("emulate://"), Endpoint::Emulate);
        assert_eq!(endpoint("file://run/raw.bin"), Endpoint::File("run/raw.bin".into()));
        assert_eq!(
            endpoint("pcap:///data/x.pcapng?port=51940&from=10.0.0.2"),
            Endpoint::Pcap {
                path: "/data/x.pcapng".into(),
                port: Some(51940),
                from: vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))]
            }
        );
    }

    #[test]
    fn errors_say_what_to_write() {
        let message = |text: &str| SourceUrl::parse(text).expect_err(text).to_string();
        assert!(message("0.0.0.0:51940").contains("write udp://ADDRESS:PORT"));
        assert!(message("http://x").contains("names no source"));
        assert_eq!(
            message("udp://board.lab:51940"),
            "`udp://board.lab:51940`: `board.lab:51940` is not ADDRESS:PORT of this host, such as 0.0.0.0:51940"
        );
        assert!(message("udp://0.0.0.0:1?frm=a").contains("unknown query `frm`; known is `from=HOST`"));
        assert!(message("tcp://host").contains("`host` is not HOST:PORT"));
        assert!(message("tcp://host:0").contains("a port, 1 to 65535"));
        assert!(message("file://").contains("nothing is not the path of a file"));
        assert!(message("pcap://a?port=99999").contains("a port, 1 to 65535"));
        assert!(message("emulate://x").contains("[source.emulate]"));
    }

    #[test]
    fn a_range_is_many_links_in_order() {
        let url = SourceUrl::parse("tcp://192.168.10.{16..120}:24").expect("a range");
        assert_eq!((url.endpoints().len(), url.scheme()), (105, "tcp"));
        let last = HostPort { host: "192.168.10.120".into(), port: 24 };
        assert_eq!(url.endpoints().last(), Some(&Endpoint::Tcp(last)));
        assert_eq!(url.to_string(), "tcp://192.168.10.{16..120}:24");
        let url = SourceUrl::parse("udp://0.0.0.0:{5000..5003}?from=10.0.0.1").expect("a range");
        assert_eq!(url.endpoints().len(), 4);
        assert_eq!(SourceUrl::parse("file://{1..3}").expect("a name").endpoints().len(), 1);
        let message = |text: &str| SourceUrl::parse(text).expect_err(text).to_string();
        assert!(message("tcp://h:{5..1}").contains("`{5..1}` is not a range of numbers such as {16..120}"));
        assert!(message("tcp://h:{1..9999}").contains("at most 4096 links"));
        assert!(message("tcp://h:{1,1}").contains("`h:1`, which stands there twice,"));
        assert!(message("tcp://h:{0..3}").contains("a port, 1 to 65535"));
        assert!(message("udp://10.0.0.{250..260}:1").contains("ADDRESS:PORT of this host"));
    }

    #[test]
    fn names_of_a_range_keep_their_zeros_and_addresses_have_none() {
        let hosts = |text: &str| {
            let url = SourceUrl::parse(text).expect(text);
            url.endpoints().iter().map(|endpoint| format!("{endpoint:?}")).collect::<Vec<_>>()
        };
        assert_eq!(hosts("tcp://b{08..10}.lab:24"), hosts("tcp://b{08,09,10}.lab:24"));
        assert!(hosts("tcp://b{08..10}.lab:24")[0].contains("\"b08.lab\""));
        let message = |text: &str| SourceUrl::parse(text).expect_err(text).to_string();
        for text in ["tcp://10.0.0.{010..012}:24", "udp://0.0.0.0:1?from=10.0.0.{010..012}"] {
            assert!(message(text).contains("`10.0.0.010` is not a host: write"), "{}", message(text));
        }
        assert!(message("tcp://10.0.0.256:24").contains("0 to 255"));
    }

    #[test]
    fn a_range_of_senders_is_one_link() {
        let url = SourceUrl::parse("udp://0.0.0.0:{5000..5001}?from=10.0.{1..2}.{1..3}:9").expect("ranges");
        assert_eq!(url.endpoints().len(), 2);
        for endpoint in url.endpoints() {
            let Endpoint::Udp { from, .. } = endpoint else { panic!("{endpoint:?}") };
            let hosts: Vec<&str> = from.iter().map(|(host, _)| host.as_str()).collect();
            assert_eq!(hosts, ["10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.2.1", "10.0.2.2", "10.0.2.3"]);
            assert!(from.iter().all(|(_, port)| *port == Some(9)));
        }
        let Endpoint::Pcap { from, .. } = endpoint("pcap://x?from=10.0.0.{1..4}") else {
            panic!("a capture")
        };
        assert_eq!(from.len(), 4);
        let message = |text: &str| SourceUrl::parse(text).expect_err(text).to_string();
        assert!(message("udp://:1?from=10.0.0.{1,1}").contains("`10.0.0.1`, which stands there twice,"));
        assert!(message("udp://:1?from=10.0.0.{2..1}").contains("`{2..1}` is not a range of numbers"));
    }

    #[test]
    fn relative_paths_are_taken_from_the_configuration() {
        let url = SourceUrl::parse("file://run/raw.bin").expect("a file").relative_to(Path::new("/lab"));
        assert_eq!(url.endpoint(), &Endpoint::File("/lab/run/raw.bin".into()));
        assert_eq!(url.to_string(), "file://run/raw.bin");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_source_or_an_error(
            scheme in "(udp|tcp|dig2|emulate|file|pcap|x)?",
            rest in "(://)?[^ ]{0,40}",
        ) {
            let text = format!("{scheme}{rest}");
            if let Ok(url) = SourceUrl::parse(&text) {
                assert_eq!(SourceUrl::parse(&url.to_string()), Ok(url));
            }
        }
    }
}
