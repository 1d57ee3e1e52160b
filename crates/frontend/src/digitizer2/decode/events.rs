//! Decodes scope events and special events.
//!
//! ```text
//!  scope event ─► one hit per channel of its mask, all pointing at one chain of interleaved samples
//!  part of one ─► the same, at the time of its first sample
//!  start, stop ─► Signal
//! ```

use thalweg_data::hit::Layout;
use thalweg_data::record_part::RecordPart;
use thalweg_data::{Extra, Flags, Frames, Hit, Hits, LossReason, Noted, Signal, Slice, Unit};

use super::{Decoder, words_bytes};
use crate::digitizer2::cursor::Cursor;
use crate::digitizer2::record_parts::RecordParts;
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
        let scope = scope_header(header, cursor)?;
        let words = scope.words_per_channel().ok_or(LossReason::BadSamples)?;
        let bytes = words_bytes(words as usize * scope.channel_mask().count_ones() as usize);
        self.append_record(scope, None, bytes, cursor, hits)
    }

    /// Decodes a part of a scope event, which comes behind the event's header. Each part is a hit of every channel at the
    /// time of its first sample: the first one as if it were the whole record, and the others are marked as no pulses of
    /// their own. The header is counted with the first part, and the frame with the last.
    #[cold]
    pub(super) fn part(&mut self, chain: &[Slice], units: &Frames, hits: &mut Hits) {
        let all: u64 = chain.iter().map(|slice| u64::from(slice.length)).sum();
        let first_slice = hits.slices.len();
        let decoded =
            Cursor::new(chain, &units.leases).ok_or(LossReason::BadLength).and_then(|mut cursor| {
                let header = EventHeader(cursor.word().ok_or(LossReason::TruncatedHit)?);
                let scope = scope_header(header, &mut cursor)?;
                let divided = RecordParts::of_tag(scope, chain[0].tag)
                    .filter(|(parts, part)| cursor.remaining() as u64 == parts.bytes(part.index));
                Ok((scope, divided.ok_or(LossReason::WordCount)?.1, cursor))
            });
        let part = decoded.as_ref().ok().map(|(_, part, _)| *part);
        let is_last = part.is_none_or(|part| part.index + 1 == part.count);
        let is_first = part.is_none_or(|part| part.index == 0);
        let bytes = if is_first { all } else { all - words_bytes(ScopeHeader::WORDS) as u64 };
        self.counters.input(Unit::Frames, u64::from(is_last));
        self.counters.input(Unit::Bytes, bytes);
        let outcome = decoded.and_then(|(scope, part, mut cursor)| {
            let rows = cursor.remaining();
            self.append_record(scope, Some(part), rows, &mut cursor, hits)?;
            Ok(u64::from(scope.channel_mask().count_ones()))
        });
        match outcome {
            Ok(channels) => {
                self.counters.output(Unit::Bytes, bytes);
                self.counters.output(Unit::Frames, u64::from(is_last));
                if !is_last {
                    self.counters.noted(Noted::Continued, Unit::Hits, channels);
                }
            }
            Err(reason) => {
                self.counters.lost(reason, Unit::Bytes, bytes);
                self.counters.lost(reason, Unit::Frames, u64::from(is_last));
            }
        }
        hits.slices[first_slice..].iter().for_each(|slice| hits.leases.add_for(*slice, &units.leases));
    }

    /// Decodes the samples of all channels of a record or of a part of one, `bytes` from the cursor on.
    fn append_record(
        &mut self,
        scope: ScopeHeader,
        part: Option<RecordPart>,
        bytes: usize,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> Result<(), LossReason> {
        let mask = scope.channel_mask();
        if mask.checked_shr(u32::from(self.plan.channels)).unwrap_or(0) != 0 {
            return Err(LossReason::BadChannel);
        }
        let channels = mask.count_ones();
        let samples_first = hits.slices.len() as u32;
        let samples_count = cursor.take(bytes, &mut hits.slices).ok_or(LossReason::BadSamples)?;
        let count = self.clock.long(scope.timestamp());
        self.clock.set(count);
        let is_further = part.is_some_and(|part| part.index > 0);
        // Where it is not known how many samples the board combines, all parts have the time of the trigger.
        let counts_per_sample = self.plan.decimation.map_or(0, i64::from);
        let later = part.map_or(0, |part| part.first_sample() as i64 * counts_per_sample);
        let fail = if scope.event().board_fail() { Flags::BOARD_FAIL } else { Flags::NONE };
        let further = if is_further { Flags::FAKE } else { Flags::NONE };
        let hit = Hit {
            time_ps: self.scale.ps(count + later, 0).ok_or(LossReason::TimeRange)?,
            flags: fail | further | Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA,
            ..Hit::default()
        };
        let overlapped = if is_further { 0 } else { scope.samples_overlapped() };
        let extra = Extra {
            raw_flags: u32::from(scope.flags()) | u32::from(overlapped) << 13,
            number: scope.event().counter(),
            info: part.map_or(0, RecordPart::to_info),
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

/// The header of a scope event, behind its first word.
fn scope_header(header: EventHeader, cursor: &mut Cursor<'_>) -> Result<ScopeHeader, LossReason> {
    let mut word = || cursor.word().ok_or(LossReason::TruncatedHit);
    Ok(ScopeHeader(header.0, word()?, word()?))
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
    extras.extend(
        (0..channels)
            .map(move |index| Extra { info: extra.info | u64::from(channels << 16 | index), ..extra }),
    );
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
