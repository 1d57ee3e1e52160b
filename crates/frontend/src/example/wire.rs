//! Datagrams of the example, big-endian: reads and writes them.
//!
//! ```text
//!  | "THEX" | board | hits | number |   then for each hit   | time | channel | energy |
//!     u32      u16     u16     u32                             u64     u16       u16
//! ```

use thalweg_data::{BoardId, LossReason};

use crate::unit_decode::BoardHit;

const MAGIC: [u8; 4] = *b"THEX";
const HEADER_BYTES: usize = 12;
pub(super) const HIT_BYTES: usize = 12;
/// Number of hits that fit an Ethernet frame.
pub(super) const HITS_PER_DATAGRAM: usize = 121;

/// A checked datagram: reading it cannot panic.
pub(super) struct Datagram<'a> {
    pub board: BoardId,
    pub number: u32,
    hits: &'a [[u8; HIT_BYTES]],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram, or returns the reason why it is refused.
    pub fn read(bytes: &'a [u8]) -> Result<Datagram<'a>, LossReason> {
        let (header, hits) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(LossReason::BadLength)?;
        let [m0, m1, m2, m3, b0, b1, h0, h1, n0, n1, n2, n3] = *header;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(LossReason::WrongConstant);
        }
        let (hits, rest) = hits.as_chunks();
        if !rest.is_empty() || hits.len() != usize::from(u16::from_be_bytes([h0, h1])) {
            return Err(LossReason::BadLength);
        }
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        Ok(Datagram { board: BoardId(u16::from_be_bytes([b0, b1])), number, hits })
    }

    pub fn hits(&self) -> impl Iterator<Item = BoardHit> + use<'a> {
        self.hits.iter().map(|&[t0, t1, t2, t3, t4, t5, t6, t7, c0, c1, e0, e1]| BoardHit {
            ticks: u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            channel: u16::from_be_bytes([c0, c1]),
            energy: u16::from_be_bytes([e0, e1]),
            ..BoardHit::default()
        })
    }
}

/// Appends a datagram.
pub(super) fn emit(board: BoardId, number: u32, hits: &[BoardHit], to: &mut Vec<u8>) {
    to.extend(MAGIC);
    to.extend(board.0.to_be_bytes());
    to.extend((hits.len() as u16).to_be_bytes());
    to.extend(number.to_be_bytes());
    for BoardHit { ticks, channel, energy, .. } in hits {
        to.extend(ticks.to_be_bytes());
        to.extend(channel.to_be_bytes());
        to.extend(energy.to_be_bytes());
    }
}
