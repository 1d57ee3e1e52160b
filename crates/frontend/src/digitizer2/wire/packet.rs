//! The 32-byte header in front of every packet of a TCP data stream.
//!
//! ```text
//!  0..8 payload bytes | 8..12 events in this payload | 12 aligned | 13..32 zero
//! ```
//! Payloads form one blob up to the first packet with `aligned`; a payload of 0 bytes is the clear marker.

/// The header of a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketHeader {
    /// Bytes of payload behind the header; 0 is the clear marker.
    pub payload_bytes: u64,
    /// Number of events whose header word is in this payload.
    pub events: u32,
    /// Whether the payload ends on an event boundary.
    pub aligned: bool,
}

impl PacketHeader {
    /// Bytes of a header.
    pub const BYTES: usize = 32;
    /// Limit of a payload, above which it is damaged: boards hold less.
    pub const MOST_PAYLOAD_BYTES: u64 = 1 << 32;

    /// Reads a header; `None` if its size is too large, or `aligned` is neither 0 nor 1.
    #[inline]
    pub fn read(bytes: &[u8; Self::BYTES]) -> Option<PacketHeader> {
        let payload_bytes = u64::from_be_bytes(bytes[0..8].try_into().ok()?);
        let events = u32::from_be_bytes(bytes[8..12].try_into().ok()?);
        (payload_bytes <= Self::MOST_PAYLOAD_BYTES && bytes[12] <= 1).then_some(PacketHeader {
            payload_bytes,
            events,
            aligned: bytes[12] == 1,
        })
    }

    /// Reads a header during a search behind damage: reserved bytes must be zero, and size and number of events must fit.
    pub fn search(bytes: &[u8; Self::BYTES]) -> Option<PacketHeader> {
        let header = Self::read(bytes)?;
        let fits = header.payload_bytes > 0 && u64::from(header.events) * 8 <= header.payload_bytes;
        (fits && bytes[13..].iter().all(|byte| *byte == 0)).then_some(header)
    }

    /// The wire form.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.payload_bytes.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.events.to_be_bytes());
        bytes[12] = u8::from(self.aligned);
        bytes
    }

    /// Whether this marker voids everything before it.
    pub fn is_clear_marker(self) -> bool {
        self.payload_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let header = PacketHeader { payload_bytes: 40, events: 1, aligned: true };
        let words = [0x28_u64, 0x0000_0001_0100_0000, 0, 0].map(u64::to_be_bytes).concat();
        assert_eq!(header.to_bytes().as_slice(), words);
        assert_eq!(PacketHeader::read(&header.to_bytes()), Some(header));
        assert_eq!(PacketHeader::search(&header.to_bytes()), Some(header));
        assert_eq!(PacketHeader::read(&[0xFF; 32]), None);
    }
}
