//! The data that a source sends at a trigger, cut into what its link carries.
//!
//! ```text
//!  answers: bytes of each datagram ─ carrier, MTU ─► Parts: (bytes on the wire, bytes of payload) … in their order
//! ```

use crate::switch::frame::{Frame, LONGEST_PAYLOAD_BYTES};

/// The carrier of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// UDP: what finds a buffer full is lost.
    Datagrams,
    /// TCP: what finds a buffer full waits at its source.
    Stream,
    /// Messages of a fabric without loss, whose own bytes alone are counted.
    Messages,
}

/// The time at which a source sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Emission {
    /// At every trigger, all sources together.
    Triggered,
    /// Each link by itself, at random: an answer whenever `hits` have come.
    Free {
        /// Answers of each link, per second.
        rate_hz: f64,
        /// Hits in an answer: with many of them answers come at nearly equal distances, with one at random.
        hits: f64,
    },
}

/// Boards that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The name in the configuration.
    pub name: String,
    /// Boards, each on a link of its own.
    pub links: u32,
    /// The carrier of the data.
    pub carrier: Carrier,
    /// The rule by which they send.
    pub emission: Emission,
    /// The answers that a board may send at a time, all equally probable: the payload bytes of each datagram, or of its part of the stream.
    pub answers: Vec<Vec<u32>>,
}

/// The bytes that occupy a link at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    /// Bytes on a link and in a switch.
    pub(super) wire_bytes: f64,
    /// Bytes in the host.
    pub(super) payload_bytes: f64,
}

/// Ethernet with preamble and gap, bytes: the overhead of each packet.
const FRAME_BYTES: u32 = 14 + 4 + 20;
const IP_BYTES: u32 = 20;
const UDP_BYTES: u32 = 8;
/// Header of TCP with time stamps.
const TCP_BYTES: u32 = 32;
/// The shortest that a frame with preamble and gap can be.
const SHORTEST_BYTES: u32 = 64 + 20;
/// Packets of a stream where no MTU is said.
const STREAM_MTU_BYTES: u32 = 1500;

impl Source {
    /// Every answer in parts; none of them empty.
    pub(super) fn parts(&self, mtu_bytes: Option<u32>) -> Vec<Vec<Part>> {
        let cut = |bytes: &u32| cut(*bytes, self.carrier, mtu_bytes);
        self.answers.iter().map(|answer| answer.iter().flat_map(cut).collect()).collect()
    }

    /// Returns what each link sends at a time, in the mean.
    pub(super) fn mean(&self, mtu_bytes: Option<u32>) -> Part {
        let parts = self.parts(mtu_bytes);
        let count = parts.len().max(1) as f64;
        let sum = |value: fn(&Part) -> f64| parts.iter().flatten().map(value).sum::<f64>() / count;
        Part { wire_bytes: sum(|part| part.wire_bytes), payload_bytes: sum(|part| part.payload_bytes) }
    }

    /// Returns true if it can lose anything on the way.
    pub(super) fn can_lose(&self) -> bool {
        self.carrier == Carrier::Datagrams
    }
}

fn cut(bytes: u32, carrier: Carrier, mtu_bytes: Option<u32>) -> Vec<Part> {
    match (carrier, mtu_bytes) {
        (Carrier::Messages, _) => {
            vec![Part { wire_bytes: f64::from(bytes), payload_bytes: f64::from(bytes) }]
        }
        (Carrier::Stream, mtu_bytes) => {
            let headers_bytes = IP_BYTES + TCP_BYTES;
            let most = mtu_bytes.unwrap_or(STREAM_MTU_BYTES) - headers_bytes;
            chunks(bytes, most).map(|chunk| part(chunk, headers_bytes)).collect()
        }
        (Carrier::Datagrams, None) if bytes <= LONGEST_PAYLOAD_BYTES => {
            let frame = Frame::new(bytes).map_or(0, Frame::wire_bytes);
            vec![Part { wire_bytes: f64::from(frame), payload_bytes: f64::from(bytes) }]
        }
        (Carrier::Datagrams, mtu_bytes) => {
            let mtu_bytes = mtu_bytes.unwrap_or(LONGEST_PAYLOAD_BYTES + IP_BYTES + UDP_BYTES);
            // Fragments of IP: the header of UDP is in the first, and all but the last are multiples of 8 bytes.
            let whole = bytes + UDP_BYTES <= mtu_bytes - IP_BYTES;
            let most = if whole { bytes + UDP_BYTES } else { (mtu_bytes - IP_BYTES) & !7 };
            let cut = chunks(bytes + UDP_BYTES, most).enumerate();
            cut.map(|(index, chunk)| {
                let header_bytes = if index == 0 { UDP_BYTES } else { 0 };
                part(chunk - header_bytes, IP_BYTES + header_bytes)
            })
            .collect()
        }
    }
}

fn chunks(bytes: u32, most: u32) -> impl Iterator<Item = u32> {
    (0..bytes.div_ceil(most).max(1)).map(move |index| (bytes - index * most).min(most))
}

fn part(payload_bytes: u32, headers_bytes: u32) -> Part {
    let wire_bytes = (payload_bytes + headers_bytes + FRAME_BYTES).max(SHORTEST_BYTES);
    Part { wire_bytes: f64::from(wire_bytes), payload_bytes: f64::from(payload_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(parts: &[Part]) -> (usize, f64, f64) {
        let wire: f64 = parts.iter().map(|part| part.wire_bytes).sum();
        (parts.len(), wire, parts.iter().map(|part| part.payload_bytes).sum())
    }

    #[test]
    fn datagrams_streams_and_messages_are_cut_as_the_wire_carries_them() {
        for (bytes, carrier, mtu_bytes, expected) in [
            (1024, Carrier::Datagrams, None, (1, 1090.0, 1024.0)),
            (1024, Carrier::Datagrams, Some(1500), (1, 1090.0, 1024.0)),
            (1472, Carrier::Datagrams, Some(1500), (1, 1538.0, 1472.0)),
            // Two fragments: 1480 and 8 bytes after the header of IP; the second is padded.
            (1480, Carrier::Datagrams, Some(1500), (2, 1538.0 + 84.0, 1480.0)),
            (1448, Carrier::Stream, None, (1, 1538.0, 1448.0)),
            (6156, Carrier::Stream, None, (5, 6156.0 + 5.0 * 90.0, 6156.0)),
            (20_000, Carrier::Datagrams, None, (3, 20_000.0 + 3.0 * 58.0 + 8.0, 20_000.0)),
            (33_333, Carrier::Messages, None, (1, 33_333.0, 33_333.0)),
            (0, Carrier::Datagrams, None, (1, 84.0, 0.0)),
        ] {
            assert_eq!(sum(&cut(bytes, carrier, mtu_bytes)), expected, "{bytes} {carrier:?} {mtu_bytes:?}");
        }
    }
}
