//! The ABCD event file: records of sixteen bytes, little-endian, nothing else.
//!
//! ```text
//!  | time | q_short | q_long | baseline | channel | group counter |
//!    u64     u16       u16      u16         u8          u8
//! ```

use std::fmt;

/// A view of one event in sixteen bytes. Every combination of bytes is an event: the format has neither a mark nor a
/// checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record<'a>(pub &'a [u8; Record::BYTES]);

impl Record<'_> {
    /// Bytes of a record.
    pub const BYTES: usize = 16;
    /// Offset of the baseline in a record.
    pub const BASELINE_AT: usize = 12;

    #[inline(always)]
    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    /// Time in ticks, as defined by the analysis on the digitizer's host.
    #[inline(always)]
    pub fn time(&self) -> u64 {
        u64::from_le_bytes(*self.0.first_chunk().expect("a record has sixteen bytes"))
    }

    /// Charge in the short gate.
    #[inline(always)]
    pub fn q_short(&self) -> u16 {
        self.word(8)
    }

    /// Charge in the long gate.
    #[inline(always)]
    pub fn q_long(&self) -> u16 {
        self.word(10)
    }

    /// Baseline before the pulse.
    #[inline(always)]
    pub fn baseline(&self) -> u16 {
        self.word(Self::BASELINE_AT)
    }

    /// Channel.
    #[inline(always)]
    pub fn channel(&self) -> u8 {
        self.0[14]
    }

    /// Number of events found in the same waveform.
    #[inline(always)]
    pub fn group_counter(&self) -> u8 {
        self.0[15]
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} at {}: {}, {})", self.channel(), self.time(), self.q_long(), self.q_short())
    }
}
