//! The header in front of every datagram of a fragment, and of every fragment in a stream.
//!
//! ```text
//!  byte  bytes  field          (all numbers big-endian)
//!     0      2  mark           0x7457
//!     2      1  version        1
//!     3      1  flags          bit 0: there is a checksum; all others 0
//!     4      2  board          the board's number
//!     6      1  part           which datagram of the fragment, from 0
//!     7      1  parts          how many datagrams the fragment has, 1 to 128; in a stream 1
//!     8      4  run            number of the run
//!    12      4  length         payload bytes of the whole fragment
//!    16      8  trigger        number of the trigger
//!    24      8  ticks          the board's time of the trigger, in counts of its clock
//!    32      4  checksum       CRC-32C of bytes 0 to 31 and of the payload behind the header; 0 without its flag
//!    36      2  status         defined by the board
//!    38      2  header check   such that the Internet checksum (RFC 1071) of the 40 bytes is right
//!    40         payload
//! ```
//! A board's logic needs only a few adders for the header check, which makes it safe to use a length; it is always
//! there. The CRC covers the payload, too, and costs more than everything else together.

use thalweg_data::checksum::Crc32c;
use thalweg_data::{BoardId, LossReason};

/// First two bytes of a header.
pub const MARK: u16 = 0x7457;
/// The version of this format.
pub const VERSION: u8 = 1;
/// Flag: there is a checksum.
pub const FLAG_CHECKSUM: u8 = 1;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 40;
/// Bytes of the header that the checksum covers.
const CHECKSUM_COVERS: usize = 32;
/// Most datagrams of a fragment.
pub const MOST_PARTS: usize = 128;

/// The first three bytes of a header.
const CONSTANT: u64 = (MARK as u64) << 8 | VERSION as u64;

/// The content of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The board's number.
    pub board: BoardId,
    /// Index of the datagram in the fragment, from 0.
    pub part: u8,
    /// Number of datagrams of the fragment.
    pub parts: u8,
    /// Number of the run.
    pub run: u32,
    /// Payload bytes of the whole fragment.
    pub length: u32,
    /// Number of the trigger.
    pub trigger: u64,
    /// The board's time of the trigger, in counts of its clock.
    pub ticks: u64,
    /// CRC-32C of the first 32 bytes of the header and of the payload behind it, if the board sends one.
    pub checksum: Option<u32>,
    /// Status, defined by the board.
    pub status: u16,
}

impl Header {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// `bad_length` if there are fewer bytes than a header, `wrong_constant` with another mark or version, `bad_hash`
    /// if the header check is wrong, `bad_framing` with an unknown flag or invalid parts.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Header, LossReason> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(LossReason::BadLength) };
        let word = |index: usize| {
            let bytes = bytes[8 * index..].first_chunk::<8>().expect("a header has five words");
            u64::from_be_bytes(*bytes)
        };
        let words = [word(0), word(1), word(2), word(3), word(4)];
        if words[0] >> 40 != CONSTANT {
            return Err(LossReason::WrongConstant);
        }
        if internet_sum(words) != 0xFFFF {
            return Err(LossReason::BadHash);
        }
        let (flags, part, parts) = ((words[0] >> 32) as u8, (words[0] >> 8) as u8, words[0] as u8);
        let known = flags & !FLAG_CHECKSUM == 0;
        if !known || part >= parts || usize::from(parts) > MOST_PARTS {
            return Err(LossReason::BadFraming);
        }
        Ok(Header {
            board: BoardId((words[0] >> 16) as u16),
            part,
            parts,
            run: (words[1] >> 32) as u32,
            length: words[1] as u32,
            trigger: words[2],
            ticks: words[3],
            checksum: (flags & FLAG_CHECKSUM != 0).then_some((words[4] >> 32) as u32),
            status: (words[4] >> 16) as u16,
        })
    }

    /// The bytes of the header, with its check. The checksum is written as given.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        for (field, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            field.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Appends the same bytes. Word by word: an array of them would be stored in words and loaded several at a time, which a processor waits for.
    #[inline(always)]
    pub(super) fn append_to(&self, bytes: &mut Vec<u8>) {
        self.words().iter().for_each(|word| bytes.extend_from_slice(&word.to_be_bytes()));
    }

    #[inline(always)]
    fn words(&self) -> [u64; 5] {
        let flags = u64::from(self.checksum.is_some()) * u64::from(FLAG_CHECKSUM);
        let mut words = [
            CONSTANT << 40
                | flags << 32
                | u64::from(self.board.0) << 16
                | u64::from(self.part) << 8
                | u64::from(self.parts),
            u64::from(self.run) << 32 | u64::from(self.length),
            self.trigger,
            self.ticks,
            u64::from(self.checksum.unwrap_or(0)) << 32 | u64::from(self.status) << 16,
        ];
        words[4] |= u64::from(!internet_sum(words));
        words
    }

    /// Whether the payload of `unit`, which starts with this header, matches the checksum; true without a checksum.
    pub fn matches(&self, unit: &[u8]) -> bool {
        self.checksum.is_none_or(|sent| checksum(unit) == Some(sent))
    }
}

/// The CRC-32C of a header and the payload behind it; `None` if there are fewer bytes than a header.
pub fn checksum(unit: &[u8]) -> Option<u32> {
    let (header, payload) = unit.split_first_chunk::<HEADER_BYTES>()?;
    let mut covered = Crc32c::new();
    covered.add(&header[..CHECKSUM_COVERS]);
    covered.add(payload);
    Some(covered.value())
}

/// The sum of the 16-bit words with the carries added in again (RFC 1071), four words at a time.
#[inline(always)]
fn internet_sum(words: [u64; 5]) -> u16 {
    let mut sum = 0u64;
    for word in words {
        let (more, carried) = sum.overflowing_add(word);
        sum = more + u64::from(carried);
    }
    let sum = (sum >> 32) + (sum & 0xFFFF_FFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    ((sum >> 16) + (sum & 0xFFFF)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calculated by hand from the table.
    const GOLDEN: [u8; HEADER_BYTES] = [
        0x74, 0x57, 0x01, 0x00, 0x01, 0x08, 0x02, 0x05, // mark, version, flags, board 264, part 2 of 5
        0x00, 0x00, 0x00, 0x2A, 0x00, 0x00, 0x9C, 0x40, // run 42, 40000 bytes
        0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x07, // trigger 2^32 + 7
        0x00, 0x00, 0x00, 0x00, 0x3B, 0x9A, 0xCA, 0x00, // 10^9 ticks
        0x00, 0x00, 0x00, 0x00, 0xBE, 0xEF, 0x26, 0x9E, // no checksum, status, header check
    ];

    fn header() -> Header {
        Header {
            board: BoardId(264),
            part: 2,
            parts: 5,
            run: 42,
            length: 40_000,
            trigger: (1 << 32) + 7,
            ticks: 1_000_000_000,
            checksum: None,
            status: 0xBEEF,
        }
    }

    #[test]
    fn a_header_is_written_and_read_by_the_table() {
        assert_eq!(header().to_bytes(), GOLDEN);
        assert_eq!(Header::read(&GOLDEN), Ok(header()));
        // By its definition, the sum of all 16-bit words, with carries added in again, is 0xFFFF.
        let words = GOLDEN.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        for bit in 0..8 * HEADER_BYTES {
            let mut bytes = GOLDEN;
            bytes[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 24 { LossReason::WrongConstant } else { LossReason::BadHash };
            assert_eq!(Header::read(&bytes), Err(expected), "bit {bit}");
        }
    }

    #[test]
    fn invalid_headers_are_refused_by_reason() {
        assert_eq!(Header::read(&GOLDEN[..39]), Err(LossReason::BadLength));
        for (part, parts) in [(0, 0), (5, 5), (0, 129)] {
            let bytes = Header { part, parts, ..header() }.to_bytes();
            assert_eq!(Header::read(&bytes), Err(LossReason::BadFraming), "{part} of {parts}");
        }
        // An unknown flag with a correct check: 0x02 more in byte 3, 0x02 less in the check.
        let mut bytes = GOLDEN;
        (bytes[3], bytes[39]) = (0x02, 0x9C);
        assert_eq!(Header::read(&bytes), Err(LossReason::BadFraming));
    }

    #[test]
    fn the_checksum_is_crc_32c_of_header_and_payload() {
        // The check value of CRC-32C (RFC 3720, B.4: 32 bytes of 0) shows that it is that polynomial.
        assert_eq!(thalweg_data::checksum::of(&[0; 32]), 0x8A91_36AA);
        let mut unit = Header { checksum: Some(0), ..header() }.to_bytes().to_vec();
        unit.extend(b"payload");
        let sent = checksum(&unit);
        let covered = [&unit[..32], b"payload"].concat();
        assert_eq!(sent, Some(thalweg_data::checksum::of(&covered)));
        let header = Header { checksum: sent, ..header() };
        assert!(header.matches(&unit));
        unit[45] ^= 1;
        assert!(!header.matches(&unit));
    }
}
