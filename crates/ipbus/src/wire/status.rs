//! The status packet: what a target has, and which packet it expects next.
//!
//! ```text
//!  word   0           1        2         3                 4 … 7      8 … 11           12 … 15
//!         0x200000F1  buffer   buffers   header expected   history    last received    last sent
//!                     bytes              next              16 events  4 headers        4 headers
//! ```
//! A request is the same with zeros. It disturbs no sequence, and is always big-endian.

use super::packet::{Header, Kind};
use super::words::{ByteOrder, WORD_BYTES, Words};
use super::{MOST_BUFFERS, WireError};

/// Bytes of a request, and of the answer.
pub const STATUS_BYTES: usize = 64;

/// What a target says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Bytes of each of its buffers: the longest packet.
    pub buffer_bytes: u32,
    /// Buffers for replies: so many packets may be on their way.
    pub buffers: u32,
    /// The number of the control packet that it takes next.
    pub next_id: u16,
    /// Its latest events, the oldest first, for people to look at.
    pub history: [u8; 16],
    /// The latest packet headers that it received.
    pub received: [u32; 4],
    /// The latest that it sent.
    pub sent: [u32; 4],
}

/// Asks for it.
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
    /// What an answer says. Only what a client goes by is held against what can be: buffers and the next header.
    ///
    /// # Errors
    /// When it has another length, or says what cannot be.
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

    /// How many packets may be on their way to it, whatever it says: at least one, and no more than anybody needs.
    pub fn packets_in_flight(&self) -> usize {
        (self.buffers as usize).clamp(1, MOST_BUFFERS)
    }

    /// The answer.
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
