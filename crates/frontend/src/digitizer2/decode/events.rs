//! Decodes scope events and special events.
//!
//! ```text
//!  scope event ─► one hit per channel of its mask, all pointing at one chain of interleaved samples
//!  start, stop ─► Signal
//! ```

use thalweg_data::hit::Layout;
use thalweg_data::{Extra, Flags, Hit, Hits, LossReason, Signal, Unit};

use super::cursor::Cursor;
use super::{Decoder, words_bytes};
use crate::digitizer2::wire::{EventHeader, ScopeHeader, SpecialHeader, SpecialId, SpecialWord};

impl Decoder {
    /// Decodes a scope event. In the extras, `raw_flags` contains the 13 flags and, in bits 15..13, the samples
    /// overlapped; `number` is the trigger id.
    pub(super) fn scope(
        &mut self,
        header: EventHeader,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> Result<(), LossReason> {
        let mut word = || cursor.word().ok_or(LossReason::TruncatedHit);
        let scope = ScopeHeader(header.0, word()?, word()?);
        let words = scope.words_per_channel().ok_or(LossReason::BadSamples)?;
        let mask = scope.channel_mask();
        if mask.checked_shr(u32::from(self.plan.channels)).unwrap_or(0) != 0 {
            return Err(LossReason::BadChannel);
        }
        let channels = mask.count_ones();
        let samples_first = hits.slices.len() as u32;
        let bytes = words_bytes(words as usize * channels as usize);
        let samples_count = cursor.take(bytes, &mut hits.slices).ok_or(LossReason::BadSamples)?;
        let count = self.clock.long(scope.timestamp());
        self.clock.set(count);
        let fail = if header.board_fail() { Flags::BOARD_FAIL } else { Flags::NONE };
        let hit = Hit {
            time_ps: self.scale.ps(count, 0).ok_or(LossReason::TimeRange)?,
            flags: fail | Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA,
            ..Hit::default()
        };
        let extra = Extra {
            raw_flags: u32::from(scope.flags()) | u32::from(scope.samples_overlapped()) << 13,
            number: header.counter(),
            samples_first,
            samples_count,
            layout: if samples_count > 0 { Layout::Interleaved } else { Layout::None },
            ..Extra::of(&hit, self.source)
        };
        let before = hits.hits.len();
        append_hits(&mut hits.hits, hit, self.plan.first_channel, mask);
        append_extras(&mut hits.extras, extra, channels);
        self.counters.input(Unit::Hits, u64::from(channels));
        self.counters.output(Unit::Hits, (hits.hits.len() - before) as u64);
        Ok(())
    }

    pub(super) fn special(
        &mut self,
        header: EventHeader,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> Result<(), LossReason> {
        let special = SpecialHeader(header.0);
        if !special.is_consistent() {
            return Err(LossReason::BadLength);
        }
        let signal = match special.id() {
            SpecialId::Start => {
                self.starts_read += 1;
                self.restart(self.clock.now());
                start(cursor)
            }
            SpecialId::Stop => {
                let (mut time, mut dead_time_counts) = (0, 0);
                while let Some(word) = cursor.word().map(SpecialWord) {
                    match word.kind() {
                        0 => time = word.as_time(),
                        1 => dead_time_counts = word.as_number(),
                        _ => {}
                    }
                }
                let time_ps = self.scale.ps(self.clock.long(time), 0).ok_or(LossReason::TimeRange)?;
                Signal::Stop { time_ps, dead_time_counts }
            }
            SpecialId::Unknown(_) => return Err(LossReason::UnknownFormat),
        };
        hits.signals.push((self.source, signal));
        Ok(())
    }
}

/// Appends one hit like `hit` for each channel of the mask. This function and the next are not inlined: the compiler
/// inlines all other decoding into one long function, which would run out of registers.
#[inline(never)]
fn append_hits(hits: &mut Vec<Hit>, hit: Hit, first_channel: u16, mask: u64) {
    let mut left = mask;
    hits.extend((0..mask.count_ones()).map(move |_| {
        let channel = first_channel + left.trailing_zeros() as u16;
        left &= left - 1;
        Hit { channel, ..hit }
    }));
}

/// Appends one row like `extra` for each of `channels` channels; all refer to the same samples.
#[inline(never)]
fn append_extras(extras: &mut Vec<Extra>, extra: Extra, channels: u32) {
    extras.extend((0..channels).map(move |index| Extra { info: u64::from(channels << 16 | index), ..extra }));
}

fn start(cursor: &mut Cursor<'_>) -> Signal {
    let (mut acquisition_width, mut traces, mut log2_decimation) = (0, 0, 0);
    let (mut channel_mask, mut halves) = (0, 0);
    while let Some(word) = cursor.word().map(SpecialWord) {
        match word.kind() {
            1 if halves < 2 => {
                channel_mask |= u64::from(word.as_number()) << (32 * halves);
                halves += 1;
            }
            2 => {
                (acquisition_width, traces, log2_decimation) =
                    (word.width(), word.traces(), word.log2_decimation());
            }
            _ => {}
        }
    }
    Signal::Start { acquisition_width, traces, log2_decimation, channel_mask }
}
