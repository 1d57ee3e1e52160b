//! What SiTCP boards write into their TCP stream, one file per profile, as checked views.
//!
//! ```text
//!  bytes ─► Block::look ─► Whole(header) · Short · Impossible(reason)
//! ```
//! SiTCP itself has no framing: the stream is what the user's logic writes. A block is a header and the bytes it
//! announces; [`str_tdc`] has no header but two words behind each frame.

pub mod adc_sitcp;
pub mod recbe;
pub mod str_tdc;

use thalweg_data::{BoardId, LossReason};

/// What the header of a block says, in the terms of every profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the block, header and all.
    pub total_bytes: usize,
    /// The board's number, as the header has it.
    pub board: BoardId,
    /// The trigger's number.
    pub trigger: u32,
    /// The time of the trigger in the board's ticks; 0 where the header has none.
    pub ticks: u32,
    /// The board's own count of blocks; 0 where the header has none.
    pub sent_number: u16,
}

/// A kind of block that begins with a header.
pub(super) trait Block {
    /// Bytes of the header.
    const HEADER_BYTES: usize;
    /// Bits of the count of blocks sent; 0 where there is none.
    const SENT_NUMBER_BITS: u32;

    /// Reads a header, or says why it is none. Whether the length is within the settings is for the caller to judge.
    fn head(header: &[u8]) -> Result<Head, LossReason>;
}
