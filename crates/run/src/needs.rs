//! Derives what a configuration asks of the host that takes its data.
//!
//! ```text
//!  [[source]], [record], plan ─► Needs ─► checks of the host
//! ```
//! Rates are those of emulated boards, triggered ones at the mean rate of their trigger: no configuration says how fast real ones send.

use std::net::{IpAddr, Ipv4Addr};

use thalweg_data::HugePages;
use thalweg_qualify::host::{Needs, RECEIVE_BUFFER_BYTES, SocketLoad};
use thalweg_qualify::predict::chain::mean_rate_hz;
use thalweg_readout::{Endpoint, HostPort};

use crate::config::{Configuration, SourceSettings};
use crate::predict::{links, sent};

/// Payload of a jumbo frame: longer datagrams travel in fragments wherever they go.
const JUMBO_PAYLOAD_BYTES: u64 = 8972;

/// Returns what a run of this configuration needs, with the `memory_bytes` that it takes where that is known.
pub fn needs(configuration: &Configuration, memory_bytes: Option<u64>) -> Needs {
    let mut needs = Needs {
        datagram_sockets: 0,
        receive_buffer_bytes: 0,
        receive_buffers_bytes: 0,
        datagram_bytes: 0,
        socket_loads: Vec::new(),
        directory: Some(configuration.record.directory.clone()),
        memory_bytes,
        ..Needs::default()
    };
    for source in &configuration.sources {
        let sockets_before = needs.datagram_sockets;
        add(&mut needs, source);
        let sockets = needs.datagram_sockets - sockets_before;
        needs.socket_loads.extend((sockets > 0).then(|| load(configuration, source, sockets)));
    }
    // A socket that listens on every address receives through every card.
    if needs.addresses.iter().any(IpAddr::is_unspecified) {
        needs.addresses.clear();
    }
    needs
}

fn add(needs: &mut Needs, source: &SourceSettings) {
    let settings = &source.endpoint;
    let literal = |host: &HostPort| host.host.parse::<IpAddr>().ok();
    for endpoint in settings.url.endpoints() {
        match endpoint {
            Endpoint::Tcp(host) => {
                needs.streams += 1;
                needs.addresses.extend(literal(host));
                continue;
            }
            Endpoint::Udp { bind, .. } => needs.addresses.push(bind.ip()),
            Endpoint::Board { host, .. } => {
                needs.boards.extend(literal(host));
                needs.addresses.extend(literal(host));
            }
            Endpoint::Emulate => {
                needs.addresses.push(Ipv4Addr::LOCALHOST.into());
                if source.gives_streams() {
                    needs.streams += links(source).map_or(1, u64::from);
                    continue;
                }
            }
            Endpoint::File(_) | Endpoint::Pcap { .. } => continue,
        }
        let asked = receive_buffer_bytes(source);
        needs.datagram_sockets += 1;
        needs.receive_buffer_bytes = needs.receive_buffer_bytes.max(asked);
        needs.receive_buffers_bytes += asked;
        let longest = u64::from(settings.datagram_bytes).min(JUMBO_PAYLOAD_BYTES);
        needs.datagram_bytes = needs.datagram_bytes.max(longest);
    }
    if settings.huge_pages == HugePages::Require {
        needs.huge_page_bytes += settings.memory_bytes();
    }
}

fn receive_buffer_bytes(source: &SourceSettings) -> u64 {
    source.endpoint.receive_buffer_bytes.map_or(RECEIVE_BUFFER_BYTES, u64::from)
}

/// What each of the `sockets` of a source has to take.
fn load(configuration: &Configuration, source: &SourceSettings, sockets: u64) -> SocketLoad {
    let known = match source.emulated_board() {
        _ if source.emulate.is_none() && !source.is_emulated() => None,
        Ok(board) => Some((board.bytes_per_s(), u64::from(board.datagram_bytes()))),
        Err(_) => triggered_load(configuration, source)
            .map(|(bytes_per_s, payload_bytes)| (bytes_per_s / sockets as f64, payload_bytes)),
    };
    let asked = SocketLoad {
        source: source.head.name.clone(),
        receive_buffer_bytes: receive_buffer_bytes(source),
        ..SocketLoad::default()
    };
    match known {
        Some((bytes_per_s, payload_bytes)) => {
            SocketLoad { bytes_per_s: Some(bytes_per_s), payload_bytes, ..asked }
        }
        None => asked,
    }
}

/// What emulated triggered boards send together, bytes per second, and the mean size of their datagrams; `None` of boards that follow a real
/// one, whose triggers they have.
fn triggered_load(configuration: &Configuration, source: &SourceSettings) -> Option<(f64, u64)> {
    let triggers = configuration.trigger_settings().ok().filter(|_| configuration.follow.is_none())?;
    let sent = sent(source, None).ok()?;
    let datagrams: Vec<u32> = sent.answers.concat();
    let bytes = datagrams.iter().map(|size| u64::from(*size)).sum::<u64>();
    let mean_answer = bytes as f64 / sent.answers.len().max(1) as f64;
    let bytes_per_s = mean_answer * mean_rate_hz(&triggers) * f64::from(sent.links);
    Some((bytes_per_s, bytes / (datagrams.len() as u64).max(1)))
        .filter(|(_, payload_bytes)| *payload_bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_those_of_the_sources() {
        let text = r#"
[[source]]
name = "a"
format = "digitizer2"
url = "dig2://192.168.1.11"
receive_buffer_bytes = 268435456

[[source]]
name = "b"
format = "digitizer2"
url = "udp://192.168.2.1:51940"
datagram_bytes = 1472
first_channel = 64

[[source]]
name = "c"
format = "fragment"
url = "tcp://192.168.3.{11..14}:24"
"#;
        let file = std::path::Path::new("needs.toml");
        let configuration = Configuration::parse(file, text.to_owned()).expect("it is valid");
        let needs = needs(&configuration, Some(1 << 30));
        assert_eq!((needs.datagram_sockets, needs.streams), (2, 4));
        assert_eq!((needs.receive_buffer_bytes, needs.receive_buffers_bytes), (256 << 20, 320 << 20));
        assert_eq!((needs.datagram_bytes, needs.boards.len(), needs.addresses.len()), (8972, 1, 6));
        let load = |name: &str, receive_buffer_bytes| SocketLoad {
            source: name.into(),
            receive_buffer_bytes,
            ..SocketLoad::default()
        };
        assert_eq!(needs.socket_loads, [load("a", 256 << 20), load("b", 64 << 20)], "nothing says a rate");
        assert_eq!(needs.memory_bytes, Some(1 << 30));
    }

    fn needs_of(text: &str) -> Needs {
        let configuration = Configuration::parse(std::path::Path::new("needs.toml"), text.to_owned());
        needs(&configuration.expect("it is valid"), None)
    }

    const CAMERA: &str = "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 265\n\
                          [source.emulate]\npayload_bytes = 1000\n[trigger]\nprogram = \"constant\"\nrate_hz = 1000\n";

    #[test]
    fn emulated_triggered_boards_send_their_answers_at_the_rate_of_the_trigger() {
        let needs = needs_of(CAMERA);
        let [load] = &needs.socket_loads[..] else { panic!("{needs:?}") };
        // A header of 40 bytes stands before the payload.
        assert_eq!((load.payload_bytes, load.bytes_per_s), (1040, Some(265.0 * 1040.0 * 1000.0)));
        let streams = "[[source]]\nname = \"cdc\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 105\nprofile = \"recbe\"\n";
        let needs = needs_of(streams);
        assert_eq!((needs.streams, needs.datagram_sockets, needs.socket_loads.len()), (105, 0, 0));
    }
}
