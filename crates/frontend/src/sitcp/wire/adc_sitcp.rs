//! Events of the ADC-SiTCP board (16 channels of waveforms) with its first firmware.
//!
//! ```text
//!  0     1 … 3           4 … 7    8 … 11    12 …
//!  0x01  user (module)   length   trigger   samples × 16 channels × 16 bits
//! ```
//! All numbers are big-endian. Source: the public reader h-sendai/AdcSitcp and its recording. The vendor's later
//! firmware (FV02) sends another header without a trigger number, from which events cannot be built; it is not
//! supported.

use thalweg_data::{BoardId, LossReason};

use super::{Block, Head};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 12;
/// The first byte of every header.
pub const TYPE: u8 = 0x01;
/// Channels of a board.
pub const CHANNELS: usize = 16;
/// Bytes of one sample of all channels.
pub const SAMPLE_BYTES: usize = 2 * CHANNELS;

/// A checked view of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a>(&'a [u8; HEADER_BYTES]);

impl<'a> Header<'a> {
    /// Checks a header: its type must be known, and its length must be of whole samples.
    ///
    /// # Errors
    /// `WrongConstant` for another type (or fewer than 12 bytes), `BadLength` for an incomplete sample.
    #[inline]
    pub fn check(bytes: &'a [u8]) -> Result<Header<'a>, LossReason> {
        let bytes = bytes.first_chunk().ok_or(LossReason::WrongConstant)?;
        let header = Header(bytes);
        if bytes[0] != TYPE {
            return Err(LossReason::WrongConstant);
        }
        let whole = header.body_bytes().is_multiple_of(SAMPLE_BYTES as u32);
        if whole { Ok(header) } else { Err(LossReason::BadLength) }
    }

    #[inline]
    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// A value set by the user, 24 bits; the lowest byte is the module's number.
    #[inline]
    pub fn user(&self) -> u32 {
        self.word(0) & 0x00FF_FFFF
    }

    /// The module's number.
    #[inline]
    pub fn module(&self) -> u8 {
        self.0[3]
    }

    /// Bytes of the samples.
    #[inline]
    pub fn body_bytes(&self) -> u32 {
        self.word(4)
    }

    /// Number of the trigger.
    #[inline]
    pub fn trigger(&self) -> u32 {
        self.word(8)
    }
}

/// The only kind of block.
#[derive(Debug)]
pub(in crate::sitcp) enum AdcSitcp {}

impl Block for AdcSitcp {
    const HEADER_BYTES: usize = HEADER_BYTES;
    const SENT_NUMBER_BITS: u32 = 0;

    #[inline]
    fn head(header: &[u8]) -> Result<Head, LossReason> {
        let header = Header::check(header)?;
        Ok(Head {
            // A length beyond the address space is also beyond every limit.
            total_bytes: (header.body_bytes() as usize).saturating_add(HEADER_BYTES),
            board: BoardId(header.module().into()),
            trigger: header.trigger(),
            ticks: 0,
            sent_number: 0,
        })
    }
}

/// A checked view of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    /// Checks that the body has whole samples of all channels.
    ///
    /// # Errors
    /// `BadSamples` if the last sample is incomplete.
    pub fn check(body: &'a [u8]) -> Result<Body<'a>, LossReason> {
        if body.len().is_multiple_of(SAMPLE_BYTES) { Ok(Body(body)) } else { Err(LossReason::BadSamples) }
    }

    /// Samples of each channel.
    pub fn samples(&self) -> usize {
        self.0.len() / SAMPLE_BYTES
    }

    /// The value (12 bits) of a channel at a sample.
    pub fn adc(&self, channel: usize, sample: usize) -> Option<u16> {
        let at = sample * SAMPLE_BYTES + 2 * channel;
        let within = channel < CHANNELS && sample < self.samples();
        within.then(|| u16::from_be_bytes([self.0[at], self.0[at + 1]]))
    }
}
