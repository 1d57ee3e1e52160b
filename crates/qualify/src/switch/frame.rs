//! The bytes that one UDP payload occupies: on the wire, in a Linux queue, as an IP packet.
//!
//! ```text
//!  wire   | preamble, gap 20 | Ethernet 14 (+4 a VLAN tag) | IPv4 20 | UDP 8 | payload | FCS 4 |
//!  Linux                     |<──────────── payload + 42 ─────────────────────────────>|
//!  IP                                                      |<── payload + 28 ─────────>|
//! ```
//! Which of them is right depends on what is asked: a line's time is wire bytes, a `tbf` or `bfifo` counts what
//! Linux hands it, and figures in papers are often IP bytes. A fit in one accounting gives a depth in the same.

/// Bytes of preamble, start of frame and gap to the next frame (IEEE 802.3).
const PREAMBLE_AND_GAP_BYTES: u32 = 20;
/// Bytes of the frame check sequence.
const CHECK_BYTES: u32 = 4;
/// Bytes of addresses and type.
const ETHERNET_BYTES: u32 = 14;
/// Bytes of one IEEE 802.1Q tag.
const VLAN_TAG_BYTES: u32 = 4;
/// Bytes of an IPv4 header without options, and of a UDP header.
const IP_AND_UDP_BYTES: u32 = 20 + 8;
/// The shortest frame, its check sequence included.
const SHORTEST_FRAME_BYTES: u32 = 64;
/// The longest payload of one frame that jumbo switches take: an MTU of 9216 bytes.
pub const LONGEST_PAYLOAD_BYTES: u32 = 9216 - IP_AND_UDP_BYTES;

/// A payload that one frame cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a UDP payload of {payload_bytes} bytes is more than one frame carries; use at most {LONGEST_PAYLOAD_BYTES} bytes"
)]
pub struct PayloadTooLong {
    /// The payload that was asked for, in bytes.
    pub payload_bytes: u32,
}

/// One UDP datagram over IPv4 in one Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    payload_bytes: u32,
    vlan_tags: u32,
}

impl Frame {
    /// An untagged frame with a payload in bytes.
    ///
    /// # Errors
    /// When the payload would be cut into several frames.
    pub fn new(payload_bytes: u32) -> Result<Frame, PayloadTooLong> {
        match payload_bytes <= LONGEST_PAYLOAD_BYTES {
            true => Ok(Frame { payload_bytes, vlan_tags: 0 }),
            false => Err(PayloadTooLong { payload_bytes }),
        }
    }

    /// The same frame with one VLAN tag (802.1Q), or two (802.1ad).
    pub fn with_vlan_tags(self, vlan_tags: u32) -> Frame {
        Frame { vlan_tags, ..self }
    }

    /// Bytes of the payload.
    pub fn payload_bytes(self) -> u32 {
        self.payload_bytes
    }

    /// Bytes of line time, from the preamble to the end of the gap: payload + 66, + 4 for each tag.
    pub fn wire_bytes(self) -> u32 {
        let headers_bytes = ETHERNET_BYTES + self.vlan_tags * VLAN_TAG_BYTES + IP_AND_UDP_BYTES;
        (self.payload_bytes + headers_bytes + CHECK_BYTES).max(SHORTEST_FRAME_BYTES) + PREAMBLE_AND_GAP_BYTES
    }

    /// Bytes that a Linux queueing discipline counts: payload + 42. The tag is put in later, as padding is.
    pub fn qdisc_bytes(self) -> u32 {
        self.payload_bytes + ETHERNET_BYTES + IP_AND_UDP_BYTES
    }

    /// Bytes of the IPv4 packet: payload + 28.
    pub fn ip_bytes(self) -> u32 {
        self.payload_bytes + IP_AND_UDP_BYTES
    }

    /// Fraction of a line's rate that is payload.
    pub fn efficiency(self) -> f64 {
        f64::from(self.payload_bytes) / f64::from(self.wire_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload_bytes: u32) -> Frame {
        Frame::new(payload_bytes).expect("fits into a frame")
    }

    #[test]
    fn a_payload_of_1024_bytes_is_1090_on_the_wire_and_1066_in_a_qdisc() {
        let bytes = (frame(1024).wire_bytes(), frame(1024).qdisc_bytes(), frame(1024).ip_bytes());
        assert_eq!(bytes, (1090, 1066, 1052));
        assert_eq!(frame(1024).with_vlan_tags(1).wire_bytes(), 1094);
        assert_eq!(frame(1024).with_vlan_tags(1).qdisc_bytes(), 1066);
    }

    #[test]
    fn a_short_frame_is_padded_to_64_bytes_before_preamble_and_gap() {
        assert_eq!([0, 17, 18, 19].map(|payload| frame(payload).wire_bytes()), [84, 84, 84, 85]);
        assert_eq!(frame(0).with_vlan_tags(1).wire_bytes(), 84, "the tag takes the place of padding");
        assert_eq!(frame(0).qdisc_bytes(), 42);
    }

    #[test]
    fn efficiency_is_that_of_the_wire() {
        for (payload_bytes, percent) in [(64, 49.2), (1024, 93.9), (8972, 99.3)] {
            let difference = frame(payload_bytes).efficiency() * 100.0 - percent;
            assert!(difference.abs() < 0.05, "{payload_bytes}: {difference}");
        }
    }

    #[test]
    fn a_payload_of_several_frames_is_refused() {
        assert_eq!(Frame::new(9189), Err(PayloadTooLong { payload_bytes: 9189 }));
        assert!(Frame::new(9188).is_ok());
    }
}
