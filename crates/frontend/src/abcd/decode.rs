//! Hits out of ABCD records.
//!
//! ```text
//!  16 bytes ─► Hit { time = ticks × tick, channel, energy = q_long, energy_short = q_short }
//! ```

use thalweg_data::{Decode, Extra, Flags, Frames, Hit, Hits, LossReason, SourceId, Tally, Tick, Unit};

use super::settings::{Settings, SettingsError};
use super::wire::Record;

/// Makes one hit of each record.
#[derive(Debug)]
pub struct AbcdDecode {
    source: SourceId,
    clock: Clock,
    channels: u16,
    first_channel: u16,
    keep_baseline: bool,
    time_offset_ps: i64,
    tally: Tally,
}

impl AbcdDecode {
    /// A decoder of the units of `source`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<AbcdDecode, SettingsError> {
        let tick = settings.validate()?;
        let Settings { channels, first_channel, keep_baseline, time_offset_ps, .. } = *settings;
        let clock = Clock::of(tick);
        Ok(AbcdDecode {
            source,
            clock,
            channels,
            first_channel,
            keep_baseline,
            time_offset_ps,
            tally: Tally::default(),
        })
    }

    fn records(&mut self, bytes: &[u8], hits: &mut Hits) {
        let (records, rest) = bytes.as_chunks::<{ Record::BYTES }>();
        let before = hits.hits.len();
        match self.clock {
            Clock::Dyadic { numerator, shift } => {
                let to_ps = |ticks| clamp((u128::from(ticks) * u128::from(numerator)) >> shift);
                self.hits(records, to_ps, hits);
            }
            Clock::Any(tick) => {
                let (numerator, denominator) = tick.parts();
                let to_ps =
                    |ticks| clamp(u128::from(ticks) * u128::from(numerator) / u128::from(denominator));
                self.hits(records, to_ps, hits);
            }
        }
        let made = (hits.hits.len() - before) as u64;
        if self.keep_baseline {
            self.baselines(records, before, hits);
        }
        self.count(records.len() as u64, made, rest.len() as u64);
    }

    #[inline(always)]
    fn hits(&self, records: &[[u8; Record::BYTES]], to_ps: impl Fn(u64) -> i64, hits: &mut Hits) {
        let hit = |bytes| {
            let record = Record(bytes);
            Hit {
                time_ps: to_ps(record.time()).saturating_add(self.time_offset_ps),
                // Does not overflow where the channel is one of the source's; others are left out below.
                channel: self.first_channel.wrapping_add(u16::from(record.channel())),
                energy: record.q_long(),
                energy_short: record.q_short(),
                flags: if self.keep_baseline { Flags::EXTRA } else { Flags::NONE },
            }
        };
        if self.channels > u16::from(u8::MAX) {
            hits.hits.extend(records.iter().map(hit));
        } else {
            hits.hits.extend(records.iter().filter(|bytes| self.is_ours(bytes)).map(hit));
        }
    }

    #[inline(always)]
    fn is_ours(&self, bytes: &[u8; Record::BYTES]) -> bool {
        u16::from(Record(bytes).channel()) < self.channels
    }

    fn baselines(&self, records: &[[u8; Record::BYTES]], first_hit: usize, hits: &mut Hits) {
        let kept = records.iter().filter(|bytes| self.is_ours(bytes));
        let extra = |(bytes, hit)| Extra {
            number: u32::from(Record(bytes).baseline()),
            ..Extra::of(hit, self.source)
        };
        hits.extras.extend(kept.zip(&hits.hits[first_hit..]).map(extra));
    }

    fn count(&mut self, records: u64, made: u64, rest: u64) {
        let size = Record::BYTES as u64;
        let broken = u64::from(rest > 0);
        self.tally.input(Unit::Frames, records + broken);
        self.tally.input(Unit::Bytes, records * size + rest);
        self.tally.output(Unit::Frames, made);
        self.tally.output(Unit::Bytes, made * size);
        self.tally.output(Unit::Hits, made);
        let losses =
            [(LossReason::BadChannel, records - made, size), (LossReason::TruncatedHit, broken, rest)];
        for (reason, frames, bytes_each) in losses.into_iter().filter(|(_, frames, _)| *frames > 0) {
            self.tally.lost(reason, Unit::Frames, frames);
            self.tally.lost(reason, Unit::Bytes, frames * bytes_each);
        }
    }
}

impl Decode for AbcdDecode {
    fn decode(&mut self, units: &Frames, hits: &mut Hits) {
        hits.header = units.header;
        for slice in &units.slices {
            self.records(units.bytes(*slice), hits);
        }
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// Ticks into picoseconds. The usual tick, 2 ns / 1024, has a power of two below the line: no division.
#[derive(Clone, Copy, Debug)]
enum Clock {
    Dyadic { numerator: u64, shift: u32 },
    Any(Tick),
}

impl Clock {
    fn of(tick: Tick) -> Clock {
        match tick.parts() {
            (numerator, denominator) if denominator.is_power_of_two() => {
                Clock::Dyadic { numerator, shift: denominator.trailing_zeros() }
            }
            _ => Clock::Any(tick),
        }
    }
}

#[inline(always)]
fn clamp(ps: u128) -> i64 {
    ps.min(i64::MAX as u128) as i64
}
