//! The framing of messages in a stream of bytes: a checksummed header, the head, a table of what is lent, the payload.
//!
//! ```text
//!  stream: |header 32 B|head|table|payload|header|head|table|payload|…     Deframer ─► head and table bytes, payload ranges, ends
//! ```
//! Sans-I/O: bytes in, in chunks of any length, and parts out. A header is used only after its checksum has been verified, and no
//! length may exceed its limit. All fields are little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 0–3   | the letters `thwg` |
//! | 4–5   | version of the framing: before the agreement the highest that the sender supports, then the agreed one |
//! | 6–7   | kind |
//! | 8–11  | bytes of the head |
//! | 12–15 | entries of the table, of 16 bytes each; only between processes of a host, else 0 |
//! | 16–23 | bytes of the payload in the stream, without what is lent |
//! | 24–27 | number of the frame in this direction, from 0, modulo 2^32 |
//! | 28–31 | CRC-32C (Castagnoli) of bytes 0–27 |

use thalweg_data::checksum;

/// Bytes of a header; the same in every version, so that each version can read the others' version.
pub const HEADER_BYTES: usize = 32;
/// The first bytes of every frame.
pub const MAGIC: [u8; 4] = *b"thwg";
/// Longest head of a frame that is not a message, bytes.
pub(super) const LONGEST_CONTROL_HEAD: u32 = 4096;
/// Bytes of an entry of the table.
pub(super) const ENTRY_BYTES: usize = 16;
/// The most entries of the table of a message, which are as long then as the longest head.
pub(super) const MOST_ENTRIES: u32 = 1 << 20;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// The sender's name, versions and run: the first frame in each direction, or the first after the proofs.
    Hello = 1,
    /// A message.
    Message = 2,
    /// Shows that the sender is alive.
    Heartbeat = 3,
    /// Closes the connection in order; no frame follows.
    Bye = 4,
    /// Refuses the connection; the head is the reason as text.
    Refusal = 5,
    /// A nonce, to be answered with a proof: the first frame of an end that has a key.
    Challenge = 6,
    /// The proof that the sender has the key, for this connection.
    Proof = 7,
    /// Announces a pool of which the sender lends blocks.
    Pool = 8,
    /// Gives lent blocks back.
    Return = 9,
}

impl Kind {
    fn from_number(number: u16) -> Option<Kind> {
        use Kind::{Bye, Challenge, Heartbeat, Hello, Message, Pool, Proof, Refusal, Return};
        [Hello, Message, Heartbeat, Bye, Refusal, Challenge, Proof, Pool, Return]
            .into_iter()
            .find(|kind| *kind as u16 == number)
    }
}

/// Why a stream cannot be read as frames. The connection can no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Another protocol, or noise.
    #[error("bytes {0:02x?} where a frame begins: another program speaks here; check the address")]
    NotOurs([u8; 4]),
    /// A damaged header.
    #[error("a frame header whose checksum is wrong: memory or network damage it")]
    Checksum,
    /// A kind that this version does not have.
    #[error("a frame of unknown kind {0}: the other end is a newer version")]
    Kind(u16),
    /// A frame that only an end whose handshake is complete may send; its kind.
    #[error("a frame of kind {0} before the handshake is complete: the other end is not a unit")]
    Early(u16),
    /// A message of another version than the agreed one.
    #[error("a frame of version {seen} where version {agreed} was agreed upon")]
    Version {
        /// The version of the frame.
        seen: u16,
        /// The agreed version; 0 before the agreement.
        agreed: u16,
    },
    /// A head that is too long.
    #[error("a frame whose head has {bytes} bytes, at most {most}")]
    HeadTooLong {
        /// Length in the header, bytes.
        bytes: u32,
        /// The limit, bytes.
        most: u32,
    },
    /// A payload that is too long.
    #[error("a frame whose payload has {bytes} bytes, at most {most}: more pool blocks lift the limit")]
    PayloadTooLong {
        /// Length in the header, bytes.
        bytes: u64,
        /// The limit, bytes.
        most: u64,
    },
    /// More is lent than is possible, or over a connection that lends nothing.
    #[error("a frame with a table of {entries} entries, at most {most}")]
    TableTooLong {
        /// Entries in the header.
        entries: u32,
        /// The limit.
        most: u32,
    },
    /// What is lent, or given back, does not exist.
    #[error("a block on loan that cannot be: {0}")]
    Loan(&'static str),
    /// Frames are missing or duplicated, which cannot happen in a sound stream.
    #[error("frame {seen} where frame {expected} should come")]
    Sequence {
        /// The expected number.
        expected: u32,
        /// The number of the frame.
        seen: u32,
    },
}

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the framing.
    pub version: u16,
    /// Kind of the frame.
    pub kind: Kind,
    /// Bytes of the head.
    pub head_bytes: u32,
    /// Entries of the table of what is lent.
    pub table_entries: u32,
    /// Bytes of the payload, without what is lent.
    pub payload_bytes: u64,
    /// Number of the frame in this direction.
    pub sequence: u32,
}

impl Header {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6..8].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.head_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.table_entries.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.sequence.to_le_bytes());
        let checksum = checksum::of(&bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// When the bytes are no header, or it is damaged or of an unknown kind.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(FrameError::NotOurs(magic));
        }
        if word(28) != checksum::of(&bytes[..28]) {
            return Err(FrameError::Checksum);
        }
        Ok(Header {
            version: half(4),
            kind: Kind::from_number(half(6)).ok_or(FrameError::Kind(half(6)))?,
            head_bytes: word(8),
            table_entries: word(12),
            payload_bytes: u64::from(word(16)) | u64::from(word(20)) << 32,
            sequence: word(24),
        })
    }
}

/// The result of a step of the [`Deframer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The bytes that this step took, if any, belong to a header.
    Nothing,
    /// The bytes that this step took are the next of the frame's head.
    Head,
    /// The bytes that this step took are the next of the frame's table.
    Table,
    /// The bytes that this step took are the next of the frame's payload.
    Payload,
    /// The frame is complete.
    End(Kind),
}

/// Finds frames in a stream that comes in chunks of any length.
#[derive(Debug)]
pub struct Deframer {
    longest_head: u32,
    longest_payload: u64,
    most_entries: u32,
    /// The agreed version; messages are refused while it is `None`.
    version: Option<u16>,
    header: [u8; HEADER_BYTES],
    filled: usize,
    open: Option<Open>,
    next_sequence: u32,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    kind: Kind,
    head_left: u32,
    table_left: u32,
    payload_left: u64,
}

impl Deframer {
    /// A deframer at the start of a stream, with the longest head and payload of a message that it accepts, bytes.
    pub fn new(longest_head: u32, longest_payload: u64) -> Deframer {
        Deframer {
            longest_head,
            longest_payload,
            most_entries: 0,
            version: None,
            header: [0; HEADER_BYTES],
            filled: 0,
            open: None,
            next_sequence: 0,
        }
    }

    /// Sets the agreed version, which messages must have from now on.
    pub fn agree(&mut self, version: u16) {
        self.version = Some(version);
    }

    /// Accepts tables of what is lent, which are refused otherwise.
    pub fn accept_loans(&mut self) {
        self.most_entries = MOST_ENTRIES;
    }

    /// Whether the bytes so far end inside a frame, so that an end of the stream would truncate it.
    pub fn is_inside(&self) -> bool {
        self.filled > 0 || self.open.is_some()
    }

    /// How many bytes of the current header or head are missing.
    pub fn wanted(&self) -> usize {
        match self.open {
            None => HEADER_BYTES - self.filled,
            Some(Open { head_left, .. }) => head_left as usize,
        }
    }

    /// Takes some bytes from the start of `bytes`; returns how many, and what they are. Call it until it returns 0 and
    /// [`Part::Nothing`].
    ///
    /// # Errors
    /// When the stream cannot be read any further.
    #[inline]
    pub fn step(&mut self, bytes: &[u8]) -> Result<(usize, Part), FrameError> {
        match &mut self.open {
            None => self.take_header(bytes),
            Some(Open { kind, head_left: 0, table_left: 0, payload_left: 0 }) => {
                let kind = *kind;
                self.open = None;
                Ok((0, Part::End(kind)))
            }
            Some(_) if bytes.is_empty() => Ok((0, Part::Nothing)),
            Some(Open { head_left: 0, table_left: 0, payload_left, .. }) => {
                let taken = bytes.len().min(usize::try_from(*payload_left).unwrap_or(usize::MAX));
                *payload_left -= taken as u64;
                Ok((taken, Part::Payload))
            }
            Some(Open { head_left: 0, table_left, .. }) => {
                let taken = bytes.len().min(*table_left as usize);
                *table_left -= taken as u32;
                Ok((taken, Part::Table))
            }
            Some(Open { head_left, .. }) => {
                let taken = bytes.len().min(*head_left as usize);
                *head_left -= taken as u32;
                Ok((taken, Part::Head))
            }
        }
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<(usize, Part), FrameError> {
        let taken = bytes.len().min(HEADER_BYTES - self.filled);
        self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
        self.filled += taken;
        // Checks the letters as soon as they come: another program may never send as many bytes as a header has.
        let begun = self.filled.min(4);
        if self.header[..begun] != MAGIC[..begun] {
            let [first, second, third, fourth, ..] = self.header;
            return Err(FrameError::NotOurs([first, second, third, fourth]));
        }
        if self.filled == HEADER_BYTES {
            let header = Header::decode(&self.header)?;
            self.check(&header)?;
            self.filled = 0;
            self.next_sequence = self.next_sequence.wrapping_add(1);
            let Header { kind, head_bytes, table_entries, payload_bytes, .. } = header;
            let table_left = table_entries * ENTRY_BYTES as u32;
            self.open = Some(Open { kind, head_left: head_bytes, table_left, payload_left: payload_bytes });
        }
        Ok((taken, Part::Nothing))
    }

    fn check(&self, header: &Header) -> Result<(), FrameError> {
        let is_message = header.kind == Kind::Message;
        let agreed = self.version.unwrap_or_default();
        if is_message && self.version != Some(header.version) {
            return Err(FrameError::Version { seen: header.version, agreed });
        }
        if header.sequence != self.next_sequence {
            return Err(FrameError::Sequence { expected: self.next_sequence, seen: header.sequence });
        }
        let most = if is_message { self.longest_head } else { LONGEST_CONTROL_HEAD };
        if header.head_bytes > most {
            return Err(FrameError::HeadTooLong { bytes: header.head_bytes, most });
        }
        let most = if is_message { self.most_entries } else { 0 };
        if header.table_entries > most {
            return Err(FrameError::TableTooLong { entries: header.table_entries, most });
        }
        let most = if is_message { self.longest_payload } else { 0 };
        if header.payload_bytes > most {
            return Err(FrameError::PayloadTooLong { bytes: header.payload_bytes, most });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(kind: Kind, head_bytes: u32, payload_bytes: u64, sequence: u32) -> Header {
        Header { version: 1, kind, head_bytes, table_entries: 0, payload_bytes, sequence }
    }

    /// Kind, head, table, payload.
    type Frame = (Kind, Vec<u8>, Vec<u8>, Vec<u8>);

    /// The frames in a stream of `chunks`.
    fn deframe(chunks: &[&[u8]]) -> Result<Vec<Frame>, FrameError> {
        let mut deframer = Deframer::new(1 << 20, 1 << 20);
        deframer.agree(1);
        deframer.accept_loans();
        let (mut found, mut head, mut table, mut payload) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for chunk in chunks {
            let mut rest = *chunk;
            loop {
                let (taken, part) = deframer.step(rest)?;
                match part {
                    Part::Nothing if taken == 0 => break,
                    Part::Nothing => {}
                    Part::Head => head.extend_from_slice(&rest[..taken]),
                    Part::Table => table.extend_from_slice(&rest[..taken]),
                    Part::Payload => payload.extend_from_slice(&rest[..taken]),
                    Part::End(kind) => {
                        let parts = [&mut head, &mut table, &mut payload].map(std::mem::take);
                        let [head, table, payload] = parts;
                        found.push((kind, head, table, payload));
                    }
                }
                rest = &rest[taken..];
            }
        }
        Ok(found)
    }

    #[test]
    fn a_header_has_its_golden_bytes() {
        let header = Header { table_entries: 0x0405, ..header(Kind::Message, 0x0102, 0x0001_0000_0003, 7) };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        assert_eq!(
            bytes[..28],
            *b"thwg\x01\x00\x02\x00\x02\x01\x00\x00\x05\x04\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x00"
        );
        assert_eq!(bytes[28..], checksum::of(&bytes[..28]).to_le_bytes());
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_detected() {
        let bytes = header(Kind::Message, 5, 9, 0).encode();
        for bit in 0..8 * HEADER_BYTES {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn invalid_headers_are_refused() {
        let refused = |header: Header| deframe(&[&header.encode()]).expect_err("refused");
        assert_eq!(
            refused(header(Kind::Message, 0, 1 << 40, 0)),
            FrameError::PayloadTooLong { bytes: 1 << 40, most: 1 << 20 }
        );
        assert_eq!(
            refused(header(Kind::Hello, 5000, 0, 0)),
            FrameError::HeadTooLong { bytes: 5000, most: 4096 }
        );
        let lends = |kind, table_entries| Header { table_entries, ..header(kind, 0, 0, 0) };
        for (kind, entries, most) in [(Kind::Message, MOST_ENTRIES + 1, MOST_ENTRIES), (Kind::Return, 1, 0)] {
            assert_eq!(refused(lends(kind, entries)), FrameError::TableTooLong { entries, most });
        }
        let mut without = Deframer::new(1 << 20, 1 << 20);
        without.agree(1);
        assert_eq!(
            without.step(&lends(Kind::Message, 1).encode()),
            Err(FrameError::TableTooLong { entries: 1, most: 0 })
        );
        assert_eq!(refused(header(Kind::Message, 0, 0, 3)), FrameError::Sequence { expected: 0, seen: 3 });
        assert_eq!(
            refused(Header { version: 2, ..header(Kind::Message, 0, 0, 0) }),
            FrameError::Version { seen: 2, agreed: 1 }
        );
        assert_eq!(deframe(&[b"GE", b"T /"]).expect_err("refused"), FrameError::NotOurs(*b"GE\0\0"));
    }

    proptest! {
        #[test]
        fn frames_are_found_in_chunks_of_any_length(
            frames in proptest::collection::vec((0usize..300, 0usize..9, 0usize..3000), 1..20),
            lengths in proptest::collection::vec(1usize..700, 1..50),
        ) {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for (sequence, (head, entries, payload)) in frames.iter().enumerate() {
                let header = header(Kind::Message, *head as u32, *payload as u64, sequence as u32);
                bytes.extend(Header { table_entries: *entries as u32, ..header }.encode());
                let table = vec![3; *entries * ENTRY_BYTES];
                let (head, payload) = (vec![sequence as u8; *head], vec![!(sequence as u8); *payload]);
                bytes.extend(head.iter().chain(&table).chain(&payload));
                expected.push((Kind::Message, head, table, payload));
            }
            let (mut chunks, mut rest) = (Vec::new(), bytes.as_slice());
            for length in lengths.iter().cycle() {
                let (chunk, later) = rest.split_at((*length).min(rest.len()));
                chunks.push(chunk);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(deframe(&chunks).expect("whole frames"), expected);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = deframe(&[&MAGIC, &bytes]);
            let mut header = [0; HEADER_BYTES];
            let length = bytes.len().min(28);
            header[..length].copy_from_slice(&bytes[..length]);
            header[..4].copy_from_slice(&MAGIC);
            let checksum = checksum::of(&header[..28]);
            header[28..].copy_from_slice(&checksum.to_le_bytes());
            let _ = deframe(&[&header, &bytes]);
        }
    }
}
