//! Blocks of the RECBE boards and of the Belle II drift chamber's front end: one board, two interpretations of its
//! header.
//!
//! ```text
//!  0     1      2 3    4 5      6 7      8 … 11    12 …
//!  type  ─────────    time     length   trigger   body of `length` bytes
//!        RECBE:   board (1 byte), block counter (2 bytes)
//!        Belle II: version 0 (1 byte), board (2 bytes)
//! ```
//! All numbers are big-endian. Sources: the public decoders of miya0034/Recbe and of basf2 (belle2/basf2, CDC
//! unpacker), which disagree in bytes 1 to 3; hence two profiles.

use thalweg_data::{BoardId, LossReason};

use super::{Block, Head};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 12;
/// Channels of a board.
pub const CHANNELS: usize = 48;
/// Bytes of one raw sample of all channels: an ADC word and a TDC word each.
pub const SAMPLE_BYTES: usize = CHANNELS * 4;
/// Longest body: its length field has 16 bits.
pub const LONGEST_BODY: usize = u16::MAX as usize;
/// The word that pads a suppressed body to a multiple of four bytes: channel 255, length 2.
pub const PAD: [u8; 2] = [0xFF, 0x02];
/// The trigger time has 15 bits; the top bit is not time.
pub const TIME_MASK: u16 = 0x7FFF;
/// Top bit of a raw TDC word: there was a hit. Top bit of a second suppressed TDC word: there were several.
pub const HIT: u16 = 0x8000;

/// How the body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every sample of every channel.
    Raw,
    /// Only channels with a hit.
    Suppressed,
}

impl Mode {
    /// The mode of this type byte.
    #[inline]
    pub const fn from_type(byte: u8) -> Option<Mode> {
        match byte {
            0x22 => Some(Mode::Raw),
            0x20 => Some(Mode::Suppressed),
            _ => None,
        }
    }

    /// Its type byte.
    pub const fn type_byte(self) -> u8 {
        match self {
            Mode::Raw => 0x22,
            Mode::Suppressed => 0x20,
        }
    }
}

/// A checked view of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    bytes: &'a [u8; HEADER_BYTES],
    mode: Mode,
}

impl<'a> Header<'a> {
    /// Checks a header: its type must be known, and its length possible: whole samples (raw) or an even number
    /// (suppressed).
    ///
    /// # Errors
    /// `WrongConstant` for another type (or fewer than 12 bytes), `BadLength` for an impossible length.
    #[inline]
    pub fn check(bytes: &'a [u8]) -> Result<Header<'a>, LossReason> {
        let bytes = bytes.first_chunk().ok_or(LossReason::WrongConstant)?;
        let mode = Mode::from_type(bytes[0]).ok_or(LossReason::WrongConstant)?;
        let header = Header { bytes, mode };
        let possible = match mode {
            Mode::Raw => header.body_bytes().is_multiple_of(SAMPLE_BYTES),
            Mode::Suppressed => header.body_bytes().is_multiple_of(2),
        };
        if possible { Ok(header) } else { Err(LossReason::BadLength) }
    }

    #[inline]
    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// How the body is written.
    #[inline]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// RECBE: the board's number.
    #[inline]
    pub fn board(&self) -> u8 {
        self.bytes[1]
    }

    /// RECBE: the board's counter of sent blocks. Its start, and whether it counts blocks without hits, are not
    /// documented publicly.
    #[inline]
    pub fn sent_number(&self) -> u16 {
        self.word(2)
    }

    /// Belle II: version of the format, always 0 so far.
    #[inline]
    pub fn belle2_version(&self) -> u8 {
        self.bytes[1]
    }

    /// Belle II: the board's number.
    #[inline]
    pub fn belle2_board(&self) -> u16 {
        self.word(2)
    }

    /// Time of the trigger, TDC counts (about 1 ns), 15 bits.
    #[inline]
    pub fn trigger_time(&self) -> u16 {
        self.word(4) & TIME_MASK
    }

    /// Bytes of the body; 0 for a trigger without hits.
    #[inline]
    pub fn body_bytes(&self) -> usize {
        usize::from(self.word(6))
    }

    /// Number of the trigger.
    #[inline]
    pub fn trigger(&self) -> u32 {
        u32::from_be_bytes([self.bytes[8], self.bytes[9], self.bytes[10], self.bytes[11]])
    }

    fn head(&self) -> Head {
        Head {
            total_bytes: HEADER_BYTES + self.body_bytes(),
            board: BoardId(self.board().into()),
            trigger: self.trigger(),
            ticks: u32::from(self.trigger_time()),
            sent_number: self.sent_number(),
        }
    }
}

/// A header with the board in byte 1.
#[derive(Debug)]
pub(in crate::sitcp) enum Recbe {}

impl Block for Recbe {
    const HEADER_BYTES: usize = HEADER_BYTES;
    const SENT_NUMBER_BITS: u32 = 16;

    #[inline]
    fn head(header: &[u8]) -> Result<Head, LossReason> {
        Header::check(header).map(|header| header.head())
    }
}

/// A header with the board in bytes 2 and 3.
#[derive(Debug)]
pub(in crate::sitcp) enum Belle2 {}

impl Block for Belle2 {
    const HEADER_BYTES: usize = HEADER_BYTES;
    const SENT_NUMBER_BITS: u32 = 0;

    #[inline]
    fn head(header: &[u8]) -> Result<Head, LossReason> {
        let header = Header::check(header)?;
        if header.belle2_version() != 0 {
            return Err(LossReason::WrongConstant);
        }
        Ok(Head { board: BoardId(header.belle2_board()), sent_number: 0, ..header.head() })
    }
}

/// A checked view of a raw body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawBody<'a>(&'a [u8]);

impl<'a> RawBody<'a> {
    /// Checks that the body has whole samples.
    ///
    /// # Errors
    /// `BadSamples` if the last sample is incomplete.
    pub fn check(body: &'a [u8]) -> Result<RawBody<'a>, LossReason> {
        if body.len().is_multiple_of(SAMPLE_BYTES) { Ok(RawBody(body)) } else { Err(LossReason::BadSamples) }
    }

    /// Samples of each channel.
    pub fn samples(&self) -> usize {
        self.0.len() / SAMPLE_BYTES
    }

    /// The ADC value (10 bits) of a channel at a sample.
    pub fn adc(&self, channel: usize, sample: usize) -> Option<u16> {
        self.word(channel, sample, 0)
    }

    /// The time of the hit in a channel at a sample, in TDC counts of 15 bits, on the scale of the trigger time.
    pub fn hit_time(&self, channel: usize, sample: usize) -> Option<u16> {
        let word = self.word(channel, sample, 2 * CHANNELS)?;
        (word & HIT != 0).then_some(word & !HIT)
    }

    fn word(&self, channel: usize, sample: usize, table: usize) -> Option<u16> {
        let within = channel < CHANNELS && sample < self.samples();
        let at = sample * SAMPLE_BYTES + table + 2 * channel;
        within.then(|| u16::from_be_bytes([self.0[at], self.0[at + 1]]))
    }
}

/// TDC counts from the trigger to the hit before it, at most 0: the drift time of RECBE's own decoder.
pub fn drift(hit_time: u16, trigger_time: u16) -> i32 {
    let apart = i32::from(hit_time & TIME_MASK) - i32::from(trigger_time & TIME_MASK);
    if apart > 0 { apart - 32_768 } else { apart }
}

/// A checked view of one channel's record in a suppressed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelRecord<'a>(&'a [u8]);

/// Bytes of a record before its times.
pub const RECORD_BYTES: usize = 6;

impl<'a> ChannelRecord<'a> {
    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// Channel, 0 to 47.
    pub fn channel(&self) -> u8 {
        self.0[0]
    }

    /// RECBE: samples over threshold. Belle II: time over threshold.
    pub fn over_threshold(&self) -> u16 {
        self.word(2)
    }

    /// Sum of the ADC values over threshold.
    pub fn adc_sum(&self) -> u16 {
        self.word(4)
    }

    /// Times of the hits before the trigger in TDC counts, as sent; in Belle II, the top bit of the second one marks
    /// several hits.
    pub fn times(&self) -> impl Iterator<Item = u16> + use<'a> {
        let words = self.0[RECORD_BYTES..].chunks_exact(2);
        words.map(|word| u16::from_be_bytes([word[0], word[1]]))
    }
}

/// The channel records of a suppressed body, without padding. After an error, the iterator ends.
#[derive(Clone, Debug)]
pub struct ChannelRecords<'a> {
    rest: &'a [u8],
}

impl<'a> ChannelRecords<'a> {
    /// The records of a body.
    pub fn new(body: &'a [u8]) -> ChannelRecords<'a> {
        ChannelRecords { rest: body }
    }
}

impl<'a> Iterator for ChannelRecords<'a> {
    type Item = Result<ChannelRecord<'a>, LossReason>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(rest) = self.rest.strip_prefix(&PAD) {
            self.rest = rest;
        }
        let (channel, length) = match self.rest {
            [] => return None,
            [channel, length, ..] => (usize::from(*channel), usize::from(*length)),
            [_] => (0, 0),
        };
        let reason = if channel >= CHANNELS {
            LossReason::BadChannel
        } else if length < RECORD_BYTES || length % 2 == 1 {
            LossReason::BadLength
        } else if length > self.rest.len() {
            LossReason::TruncatedHit
        } else {
            let (record, rest) = self.rest.split_at(length);
            self.rest = rest;
            return Some(Ok(ChannelRecord(record)));
        };
        self.rest = &[];
        Some(Err(reason))
    }
}
