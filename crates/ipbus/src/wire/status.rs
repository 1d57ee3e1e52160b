//! The status packet: a target's buffers, and which packet it expects next.
//!
//! ```text
//!  word   0           1        2         3                 4 … 7      8 … 11           12 … 15
//!         0x200000F1  buffer   buffers   header expected   history    last received    last sent
//!                     bytes              next              16 events  4 headers        4 headers
//! ```
//! A status request has the same length and zeros after the first word. It does not affect the packet sequence, and is always big-endian.

use super::packet::{Header, Kind};
use super::words::{ByteOrder, WORD_BYTES, Words};
use super::{MOST_BUFFERS, WireError};

/// Length of a status request and of a status, in bytes.
pub const STATUS_BYTES: usize = 64;

/// The status that a target reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Size of each buffer in bytes: the longest packet.
    pub buffer_bytes: u32,
    /// Number of reply buffers: how many packets may be in flight.
    pub buffers: u32,
    /// The next expected packet id.
    pub next_id: u16,
    /// Its latest events, the oldest first; for diagnosis only.
    pub history: [u8; 16],
    /// The latest control packet headers that it received, the oldest first.
    pub received: [u32; 4],
    /// The latest control packet headers that it sent, the oldest first.
    pub sent: [u32; 4],
}

/// A status request.
pub const fn status_request() -> [u8; STATUS_BYTES] {
    let mut bytes = [0; STATUS_BYTES];
    let header = Header { id: 0, kind: Kind::Status }.word().to_be_bytes();
    let mut index = 0;
    while index < WORD_BYTES {
        bytes[index] = header[index];
        index += 1;
    }
    bytes
}

impl Status {
    /// Reads a status. Of its content, only the next expected header is validated.
    ///
    /// # Errors
    /// When the length is wrong, or the next expected header is not that of a numbered control packet.
    pub fn check(bytes: &[u8]) -> Result<Status, WireError> {
        if bytes.len() != STATUS_BYTES {
            let (least, most) = (STATUS_BYTES, STATUS_BYTES);
            return Err(WireError::Length { found: bytes.len(), least, most });
        }
        let words = Words::new(bytes, ByteOrder::Big);
        let word = |index| words.get(index).unwrap_or_default();
        let next = match Header::of_word(word(3)) {
            Some(Header { id: id @ 1.., kind: Kind::Control }) => id,
            _ => return Err(WireError::Status { next: word(3) }),
        };
        let mut history = [0; 16];
        history.copy_from_slice(&bytes[4 * WORD_BYTES..8 * WORD_BYTES]);
        Ok(Status {
            buffer_bytes: word(1),
            buffers: word(2),
            next_id: next,
            history,
            received: std::array::from_fn(|index| word(8 + index)),
            sent: std::array::from_fn(|index| word(12 + index)),
        })
    }

    /// How many packets may be in flight to the target: the number of buffers, limited to a sensible range.
    pub fn packets_in_flight(&self) -> usize {
        (self.buffers as usize).clamp(1, MOST_BUFFERS)
    }

    /// The status as a packet.
    pub fn bytes(&self) -> [u8; STATUS_BYTES] {
        let mut bytes = status_request();
        let header = Header::control(self.next_id).word();
        let words = [self.buffer_bytes, self.buffers, header].into_iter().zip(1..);
        let received = self.received.into_iter().zip(8..);
        let sent = self.sent.into_iter().zip(12..);
        for (word, index) in words.chain(received).chain(sent) {
            bytes[index * WORD_BYTES..(index + 1) * WORD_BYTES].copy_from_slice(&word.to_be_bytes());
        }
        bytes[4 * WORD_BYTES..8 * WORD_BYTES].copy_from_slice(&self.history);
        bytes
    }
}
