//! What goes over a connection: a kind, a length, a checksum, and the bytes.
//!
//! ```text
//!  0      1 2 3   4        8         12
//!  kind   0       length   CRC-32C   payload: a message as JSON, or an offset and bytes of a file
//! ```
//! Numbers are little-endian. Every length has a limit before memory is taken for it.

use std::io::{self, Read};

use thalweg_data::checksum::{self, Crc32c};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 12;
/// Most bytes of a file in one frame.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Bytes before these: their place in the file.
pub const OFFSET_BYTES: usize = 8;
/// Most bytes of a message.
pub const MOST_TEXT_BYTES: usize = 64 << 10;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Versions and a nonce, of both ends, first of all.
    Hello = 1,
    /// That an end has the token.
    Proof = 2,
    /// A file that is to be shipped.
    Offer = 3,
    /// What is proved of it already.
    Have = 4,
    /// Bytes of it.
    Chunk = 5,
    /// The question to prove a range of them.
    Prove = 6,
    /// The proof.
    Proved = 7,
    /// The question to prove the whole file.
    Finish = 8,
    /// The proof.
    Finished = 9,
    /// No.
    Refused = 10,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Hello,
        Kind::Proof,
        Kind::Offer,
        Kind::Have,
        Kind::Chunk,
        Kind::Prove,
        Kind::Proved,
        Kind::Finish,
        Kind::Finished,
        Kind::Refused,
    ];

    fn of(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    fn most_bytes(self) -> usize {
        if self == Kind::Chunk { OFFSET_BYTES + CHUNK_BYTES } else { MOST_TEXT_BYTES }
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// What is in it.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The header before a payload that consists of these parts.
    pub fn header(kind: Kind, parts: &[&[u8]]) -> [u8; HEADER_BYTES] {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let checksum = parts.iter().fold(Crc32c::new(), |mut checksum, part| {
            checksum.add(part);
            checksum
        });
        let mut header = [0; HEADER_BYTES];
        header[0] = kind as u8;
        header[4..8].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        header[8..].copy_from_slice(&checksum.value().to_le_bytes());
        header
    }

    /// Reads one frame, into the memory of `spent`. Nothing longer than its kind allows is taken.
    ///
    /// # Errors
    /// When the bytes end, cannot be read, or are no frame ([`io::ErrorKind::InvalidData`]).
    pub fn read(from: &mut impl Read, spent: Vec<u8>) -> io::Result<Frame> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut header = [0; HEADER_BYTES];
        // An alert of TLS is shorter than a header.
        from.read_exact(&mut header[..4])?;
        let kind = Kind::of(header[0]).filter(|_| header[1..4] == [0; 3]);
        let kind = kind.ok_or_else(|| {
            // An alert or a greeting of TLS (RFC 8446, section 5.1).
            let is_tls = matches!(header[..2], [0x15 | 0x16, 3]);
            bad(if is_tls {
                "the other end speaks TLS, and this one does not; write receives://".to_owned()
            } else {
                "what came is no frame of this protocol".to_owned()
            })
        })?;
        from.read_exact(&mut header[4..])?;
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (length, checksum) = (number(4) as usize, number(8));
        if length > kind.most_bytes() {
            return Err(bad(format!("a frame of {length} bytes, and {} are allowed", kind.most_bytes())));
        }
        let mut payload = spent;
        payload.resize(length, 0);
        from.read_exact(&mut payload)?;
        match checksum::of(&payload) == checksum {
            true => Ok(Frame { kind, payload }),
            false => Err(bad("a frame was damaged on its way".to_owned())),
        }
    }

    /// Place and bytes of a chunk.
    pub fn chunk(&self) -> Option<(u64, &[u8])> {
        let (offset, bytes) = self.payload.split_first_chunk::<OFFSET_BYTES>()?;
        (self.kind == Kind::Chunk).then(|| (u64::from_le_bytes(*offset), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn emitted(kind: Kind, parts: &[&[u8]]) -> Vec<u8> {
        [&Frame::header(kind, parts)[..], &parts.concat()].concat()
    }

    #[test]
    fn a_length_beyond_the_limit_takes_no_memory() {
        let mut header = Frame::header(Kind::Offer, &[]);
        header[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = Frame::read(&mut &header[..], Vec::new()).expect_err("too long");
        assert!(error.to_string().contains("are allowed"), "{error}");
    }

    proptest! {
        #[test]
        fn a_frame_comes_out_as_it_went_in(bytes in proptest::collection::vec(any::<u8>(), 0..200), offset: u64) {
            let sent = emitted(Kind::Chunk, &[&offset.to_le_bytes(), &bytes]);
            let frame = Frame::read(&mut &sent[..], Vec::new()).expect("whole");
            prop_assert_eq!(frame.chunk(), Some((offset, &bytes[..])));
        }

        #[test]
        fn a_changed_bit_or_a_cut_is_found(bytes in proptest::collection::vec(any::<u8>(), 1..60), bit in 0usize..100, cut in 0usize..60) {
            let mut sent = emitted(Kind::Offer, &[&bytes]);
            let whole = sent.clone();
            let bit = bit % (sent.len() * 8);
            sent[bit / 8] ^= 1 << (bit % 8);
            // The kind alone may become another one: that its place is wrong is found by who reads.
            if bit >= 8 {
                prop_assert!(Frame::read(&mut &sent[..], Vec::new()).is_err());
            }
            prop_assert!(Frame::read(&mut &whole[..cut % whole.len()], Vec::new()).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Frame::read(&mut &bytes[..], Vec::new());
        }
    }
}
