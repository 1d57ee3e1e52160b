//! Encodes scope events, and start and stop of a run.

use super::word;
use crate::digitizer2::wire::{EventHeader, ScopeHeader, SpecialHeader, SpecialId, SpecialWord, TIME_MASK};

/// The content of a scope event's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ScopeFields {
    /// Trigger id, 24 bits.
    pub trigger_id: u32,
    /// Time stamp, 48 bits.
    pub timestamp: u64,
    /// Flags, 13 bits.
    pub flags: u16,
    /// Samples shared with the event before, 0 to 7.
    pub samples_overlapped: u8,
    /// Whether the board latched an error condition.
    pub board_fail: bool,
    /// One bit per channel that has samples.
    pub channel_mask: u64,
}

/// Appends a scope event. `waveforms` contains the samples of each channel of the mask, in ascending order; all are
/// shortened to the shortest, and to a multiple of four.
pub fn scope_event(out: &mut Vec<u8>, fields: &ScopeFields, waveforms: &[&[u16]]) {
    let channels = fields.channel_mask.count_ones() as usize;
    let waveforms = &waveforms[..waveforms.len().min(channels)];
    let mut words = waveforms.iter().map(|samples| samples.len() / 4).min().unwrap_or(0);
    if waveforms.len() < channels {
        words = 0;
    }
    let header = EventHeader::scope(fields.trigger_id, fields.board_fail)
        .with_word_count((ScopeHeader::WORDS + words * channels) as u32);
    word(out, header.0);
    let overlapped = (u64::from(fields.samples_overlapped) & 7) << 48;
    word(out, (u64::from(fields.flags) & 0x1FFF) << 51 | overlapped | fields.timestamp & TIME_MASK);
    word(out, fields.channel_mask);
    for index in 0..words {
        for samples in waveforms {
            word(out, super::four_samples(samples.as_chunks::<4>().0[index]));
        }
    }
}

/// The content of a start event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StartFields {
    /// Samples per acquisition window, 25 bits.
    pub acquisition_width: u32,
    /// Number of traces, 2 bits.
    pub traces: u8,
    /// Down-sampling as a power of two, 5 bits.
    pub log2_decimation: u8,
    /// Mask of the channels that take part.
    pub channel_mask: u64,
}

/// Appends the event that starts a run: 32 bytes.
pub fn start(out: &mut Vec<u8>, fields: &StartFields) {
    word(out, SpecialHeader::new(SpecialId::Start, 3).0);
    word(out, SpecialWord::acquisition(fields.acquisition_width, fields.traces, fields.log2_decimation).0);
    word(out, SpecialWord::number(fields.channel_mask as u32).0);
    word(out, SpecialWord::number((fields.channel_mask >> 32) as u32).0);
}

/// The content of a stop event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StopFields {
    /// Time of the stop in sampling periods, 48 bits.
    pub timestamp: u64,
    /// Dead time in the board's own counts.
    pub dead_time: u32,
}

/// Appends the event that ends a run: 24 bytes.
pub fn stop(out: &mut Vec<u8>, fields: &StopFields) {
    word(out, SpecialHeader::new(SpecialId::Stop, 2).0);
    word(out, SpecialWord::time(fields.timestamp).0);
    word(out, SpecialWord::number(fields.dead_time).0);
}
