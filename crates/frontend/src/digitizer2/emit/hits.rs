//! Encodes aggregates and their records.

use super::{packed_samples, word};
use crate::digitizer2::wire::{
    CounterInfo, EventHeader, ExtraWord, HitWords, TIME_MASK, WaveHeader, WaveInfo, ZleCounter,
};

/// The content of a hit's two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HitFields {
    /// Channel of the board, 0 to 127.
    pub channel: u8,
    /// Time stamp in sampling periods; 48 bits are sent, 32 in a one-word hit.
    pub timestamp: u64,
    /// Fine time in 1/1024 of a time stamp count.
    pub fine: u16,
    /// Energy, or long-gate charge.
    pub energy: u16,
    /// Short-gate charge (PSD, Open DPP).
    pub energy_short: u16,
    /// Low-priority flags, 12 bits.
    pub flags_low: u16,
    /// High-priority flags.
    pub flags_high: u8,
}

impl HitFields {
    #[inline]
    fn word_0(&self) -> u64 {
        (u64::from(self.channel) & 0x7F) << 56 | self.timestamp & TIME_MASK
    }

    #[inline]
    fn word_1(&self) -> u64 {
        (u64::from(self.flags_low) & 0xFFF) << 50
            | u64::from(self.flags_high) << 42
            | u64::from(self.energy_short) << 26
            | (u64::from(self.fine) & 0x3FF) << 16
            | u64::from(self.energy)
    }
}

/// The start of an aggregate that is being written.
#[derive(Debug)]
#[must_use = "an aggregate is complete when `end_aggregate` has written its size"]
pub struct AggregateStart(usize);

/// Appends the header of an aggregate; hits follow, then [`end_aggregate`].
pub fn begin_aggregate(out: &mut Vec<u8>, counter: u32, flush: bool, board_fail: bool) -> AggregateStart {
    let start = AggregateStart(out.len());
    word(out, EventHeader::aggregate(counter, flush, board_fail).0);
    start
}

/// Writes the size of the aggregate that started at `start` into its header. Nothing before `start` may have been
/// removed in between.
pub fn end_aggregate(out: &mut [u8], start: AggregateStart) {
    let words = (out.len().saturating_sub(start.0) / 8) as u32;
    if let Some(size) = out.get_mut(start.0 + 4..start.0 + 8) {
        size.copy_from_slice(&words.to_be_bytes());
    }
}

/// Changes the counter of the aggregate, or the trigger id of the scope event, at the start of `bytes`. The hash of a datagram does not cover it.
pub fn set_event_counter(bytes: &mut [u8], counter: u32) {
    if let Some(field) = bytes.get_mut(1..4) {
        field.copy_from_slice(&counter.to_be_bytes()[1..]);
    }
}

/// Appends a plain hit: 16 bytes.
#[inline]
pub fn hit(out: &mut Vec<u8>, fields: &HitFields) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&fields.word_0().to_be_bytes());
    bytes[8..].copy_from_slice(&(HitWords::LAST | fields.word_1()).to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends a hit of one word: 8 bytes, without short energy, fine time and low flags, 32 bits of time.
#[inline]
pub fn one_word_hit(out: &mut Vec<u8>, fields: &HitFields) {
    word(
        out,
        HitWords::LAST
            | (u64::from(fields.channel) & 0x7F) << 56
            | u64::from(fields.flags_high) << 48
            | (fields.timestamp & 0xFFFF_FFFF) << 16
            | u64::from(fields.energy),
    );
}

/// One 32-bit sample of a PSD or PHA waveform: two analog probes of 14 bits, digital probes 1 to 4 in bits 0 to 3.
#[inline]
pub fn wave_sample(analog_1: i16, analog_2: i16, digital: u8) -> u32 {
    (analog_1 as u32 & 0x3FFF)
        | (u32::from(digital) & 0b11) << 14
        | (analog_2 as u32 & 0x3FFF) << 16
        | (u32::from(digital) & 0b1100) << 28
}

/// Appends a PSD or PHA hit with a waveform of 32-bit samples ([`wave_sample`]); if their number is odd, the last word
/// is padded with zeros. At most 8190 samples are written.
pub fn wave_hit(out: &mut Vec<u8>, fields: &HitFields, info: &WaveInfo, samples: &[u32], truncated: bool) {
    let samples = &samples[..samples.len().min(2 * WaveHeader::MOST_WORDS)];
    word(out, fields.word_0());
    word(out, HitWords::WAVE | fields.word_1());
    word(out, ExtraWord::new(0, info.to_data(), true).0);
    word(out, WaveHeader::new(samples.len().div_ceil(2) as u16, truncated).0);
    for pair in samples.chunks(2) {
        let odd = pair.get(1).copied().unwrap_or(0);
        word(out, u64::from(odd) << 32 | u64::from(pair[0]));
    }
}

/// Appends an Open DPP hit: `info` and `special` of word 0, user words (63 bits each), and 16-bit samples if there are
/// any (at most 16380, padded to a whole word with zeros).
pub fn packed_hit(
    out: &mut Vec<u8>,
    fields: &HitFields,
    info: u8,
    special: bool,
    user_words: &[u64],
    samples: Option<&[u16]>,
) {
    let special = if special { HitWords::SPECIAL } else { 0 };
    word(out, fields.word_0() | special | (u64::from(info) & 0x7F) << 48);
    // A waveform needs an extra word before it: word 1 cannot be the last if the wave bit is set.
    let padding: &[u64] = if samples.is_some() && user_words.is_empty() { &[0] } else { &[] };
    let words = user_words.iter().chain(padding);
    let count = user_words.len() + padding.len();
    let last = if count == 0 { HitWords::LAST } else { 0 };
    let wave = if samples.is_some() { HitWords::WAVE } else { 0 };
    word(out, last | wave | fields.word_1());
    for (index, user) in words.enumerate() {
        let last = if index + 1 == count { HitWords::LAST } else { 0 };
        word(out, user & !HitWords::LAST | last);
    }
    if let Some(samples) = samples {
        packed_wave(out, samples, false);
    }
}

fn packed_wave(out: &mut Vec<u8>, samples: &[u16], truncated: bool) {
    let samples = &samples[..samples.len().min(4 * WaveHeader::MOST_WORDS)];
    word(out, WaveHeader::new(samples.len().div_ceil(4) as u16, truncated).0);
    packed_samples(out, samples);
}

/// The content of a statistics record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StatisticsFields {
    /// Channel of the board.
    pub channel: u8,
    /// Real time in sampling periods, 48 bits.
    pub real_time: u64,
    /// Dead time in sampling periods, 48 bits.
    pub dead_time: u64,
    /// Triggers seen, modulo 2^24.
    pub triggers: u32,
    /// Hits saved, modulo 2^24.
    pub saved: u32,
}

/// Appends a statistics record: 32 bytes.
pub fn statistics(out: &mut Vec<u8>, fields: &StatisticsFields) {
    let channel = (u64::from(fields.channel) & 0x7F) << 56;
    word(out, channel | HitWords::SPECIAL | fields.real_time & TIME_MASK);
    word(out, 0);
    word(out, ExtraWord::new(1, fields.dead_time & TIME_MASK, false).0);
    word(out, ExtraWord::new(2, CounterInfo::new(fields.triggers, fields.saved).0, true).0);
}

/// The content of the head of a zero-length-encoding record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ZleFields {
    /// Channel of the board.
    pub channel: u8,
    /// Time stamp, 48 bits.
    pub timestamp: u64,
    /// Whether the event is complete with this record.
    pub last_channel: bool,
    /// The value of every suppressed sample.
    pub default_value: u16,
    /// Whether runs 0, 2, 4, … are good.
    pub even_are_good: bool,
}

/// Appends a zero-length-encoding record. `runs` alternate between good and suppressed, in samples; `good` contains
/// only the good samples. Without runs, one of 0 samples is written.
pub fn zle_record(out: &mut Vec<u8>, fields: &ZleFields, runs: &[u32], good: &[u16]) {
    let special = if fields.last_channel { HitWords::SPECIAL } else { 0 };
    word(out, (u64::from(fields.channel) & 0x7F) << 56 | special | fields.timestamp & TIME_MASK);
    let (first, rest) = runs.split_first().unwrap_or((&0, &[]));
    let counter = |samples: u32, last: bool| u64::from(ZleCounter::new(samples, last).0);
    let last = if rest.is_empty() { HitWords::LAST } else { 0 };
    let wave = if good.is_empty() { 0 } else { HitWords::WAVE };
    word(
        out,
        last | wave
            | u64::from(fields.default_value) << 36
            | u64::from(fields.even_are_good) << 32
            | counter(*first, rest.is_empty()),
    );
    let mut pairs = rest.chunks(2).peekable();
    while let Some(pair) = pairs.next() {
        let end = pairs.peek().is_none();
        let low = counter(pair[0], end && pair.len() == 1);
        let high = pair.get(1).map_or(0, |samples| counter(*samples, end) << 32);
        word(out, if end { HitWords::LAST } else { 0 } | high | low);
    }
    if !good.is_empty() {
        packed_wave(out, good, false);
    }
}
