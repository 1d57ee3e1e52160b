//! Formats of the TCP streams of SiTCP boards, one file per profile, as checked views.
//!
//! ```text
//!  bytes ─► Block::look ─► Whole(header) · Short · Impossible(reason)
//! ```
//! SiTCP itself has no framing: the stream is what the board's logic writes. A block is a header and the number of
//! bytes in its length field; [`str_tdc`] has no header but two words behind each frame.

pub mod adc_sitcp;
pub mod recbe;
pub mod str_tdc;

use thalweg_data::{BoardId, LossReason};

/// Fields of a block's header that all profiles have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the block, with its header.
    pub total_bytes: usize,
    /// The board's number in the header.
    pub board: BoardId,
    /// The trigger's number.
    pub trigger: u32,
    /// The time of the trigger in the board's ticks; 0 if the header has none.
    pub ticks: u32,
    /// The board's counter of sent blocks; 0 if the header has none.
    pub sent_number: u16,
}

/// A kind of block that starts with a header.
pub(super) trait Block {
    /// Bytes of the header.
    const HEADER_BYTES: usize;
    /// Bits of the block counter; 0 if there is none.
    const SENT_NUMBER_BITS: u32;

    /// Reads a header, or returns why it is invalid. The caller checks the length against the settings.
    fn head(header: &[u8]) -> Result<Head, LossReason>;
}
