//! Decodes ABCD records to hits.
//!
//! ```text
//!  16 bytes ─► Hit { time = ticks × tick, channel, energy = q_long, energy_short = q_short }
//! ```

use thalweg_data::{Counters, Decode, Extra, Flags, Frames, Hit, Hits, LossReason, SourceId, Tick, Unit};

use super::settings::{Settings, SettingsError};
use super::unpack::AbcdUnpack;
use super::wire::Record;
use crate::time_origin::{SharedOrigin, TimeOrigin};

/// Makes one hit of each record.
#[derive(Clone, Debug)]
pub struct AbcdDecode {
    source: SourceId,
    tick: Tick,
    clock: Clock,
    /// Largest count that can be multiplied by the tick within 64 bits.
    most_ticks: u64,
    /// The origin is not that of the board.
    rebased: bool,
    origin: SharedOrigin,
    channels: u16,
    first_channel: u16,
    keep_baseline: bool,
    time_offset_ps: i64,
    counters: Counters,
}

impl AbcdDecode {
    /// Creates a decoder of the units of `source`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<AbcdDecode, SettingsError> {
        let tick = settings.validate()?;
        let Settings { channels, first_channel, keep_baseline, time_offset_ps, .. } = *settings;
        let clock = Clock::of(tick);
        Ok(AbcdDecode {
            source,
            tick,
            clock,
            most_ticks: tick.from_time(i64::MAX - time_offset_ps.max(0)).max(0) as u64,
            rebased: settings.time_origin == TimeOrigin::FirstHit,
            origin: SharedOrigin::of(settings.time_origin),
            channels,
            first_channel,
            keep_baseline,
            time_offset_ps,
            counters: Counters::default(),
        })
    }

    /// The same, with the time origin of `unpack`, which sees first what this and other decoders decode.
    pub fn behind(self, unpack: &AbcdUnpack) -> AbcdDecode {
        AbcdDecode { origin: unpack.origin(), ..self }
    }

    fn records(&mut self, bytes: &[u8], hits: &mut Hits) {
        let (records, rest) = bytes.as_chunks::<{ Record::BYTES }>();
        let before = hits.hits.len();
        // The bits that are set in any of the times: if these fit, all times fit.
        let ones = match self.clock {
            _ if self.rebased => u64::MAX,
            Clock::Dyadic { numerator, shift } => {
                let to_ps = |ticks| ((u128::from(ticks) * u128::from(numerator)) >> shift) as i64;
                self.hits(records, to_ps, hits)
            }
            Clock::Any(tick) => {
                let (numerator, denominator) = tick.parts();
                let to_ps =
                    |ticks| (u128::from(ticks) * u128::from(numerator) / u128::from(denominator)) as i64;
                self.hits(records, to_ps, hits)
            }
        };
        let beyond = match ones <= self.most_ticks {
            true => 0,
            false => {
                hits.hits.truncate(before);
                self.hits_in_range(records, hits)
            }
        };
        let made = (hits.hits.len() - before) as u64;
        if self.keep_baseline {
            self.baselines(records, before, hits);
        }
        self.count(records.len() as u64, (made, beyond), rest.len() as u64);
    }

    /// Decodes the records whose time fits in 64 bits of picoseconds; returns how many others of the source's channels
    /// there are.
    #[cold]
    fn hits_in_range(&self, records: &[[u8; Record::BYTES]], hits: &mut Hits) -> u64 {
        let mut beyond = 0;
        for bytes in records.iter().filter(|bytes| self.is_ours(bytes)) {
            match self.time_ps(Record(bytes).time()) {
                Some(time_ps) => hits.hits.push(self.hit(bytes, time_ps)),
                None => beyond += 1,
            }
        }
        beyond
    }

    /// The exact time of a count from the origin; `None` beyond 64 bits of picoseconds.
    fn time_ps(&self, ticks: u64) -> Option<i64> {
        let ticks = i128::from(ticks) - self.origin.count(|| i128::from(ticks));
        self.tick.time_ps(ticks, self.time_offset_ps)
    }

    #[inline(always)]
    fn hit(&self, bytes: &[u8; Record::BYTES], time_ps: i64) -> Hit {
        let record = Record(bytes);
        Hit {
            time_ps,
            // This does not overflow for channels of the source; others are left out.
            channel: self.first_channel.wrapping_add(u16::from(record.channel())),
            energy: record.q_long(),
            energy_short: record.q_short(),
            flags: if self.keep_baseline { Flags::EXTRA } else { Flags::NONE },
        }
    }

    /// Decodes all records, whatever their times; returns the bits that are set in any of the times.
    #[inline(always)]
    fn hits(&self, records: &[[u8; Record::BYTES]], to_ps: impl Fn(u64) -> i64, hits: &mut Hits) -> u64 {
        let mut ones = 0;
        let hit = |bytes| {
            let ticks = Record(bytes).time();
            ones |= ticks;
            self.hit(bytes, to_ps(ticks).wrapping_add(self.time_offset_ps))
        };
        if self.channels > u16::from(u8::MAX) {
            hits.hits.extend(records.iter().map(hit));
        } else {
            hits.hits.extend(records.iter().filter(|bytes| self.is_ours(bytes)).map(hit));
        }
        ones
    }

    #[inline(always)]
    fn is_ours(&self, bytes: &[u8; Record::BYTES]) -> bool {
        u16::from(Record(bytes).channel()) < self.channels
    }

    fn baselines(&self, records: &[[u8; Record::BYTES]], first_hit: usize, hits: &mut Hits) {
        let is_kept =
            |bytes: &&[u8; Record::BYTES]| self.is_ours(bytes) && self.is_in_range(Record(bytes).time());
        let kept = records.iter().filter(is_kept);
        let extra = |(bytes, hit)| Extra {
            number: u32::from(Record(bytes).baseline()),
            ..Extra::of(hit, self.source)
        };
        hits.extras.extend(kept.zip(&hits.hits[first_hit..]).map(extra));
    }

    fn is_in_range(&self, ticks: u64) -> bool {
        !self.rebased && ticks <= self.most_ticks || self.time_ps(ticks).is_some()
    }

    fn count(&mut self, records: u64, (made, beyond): (u64, u64), rest: u64) {
        let size = Record::BYTES as u64;
        let broken = u64::from(rest > 0);
        self.counters.input(Unit::Frames, records + broken);
        self.counters.input(Unit::Bytes, records * size + rest);
        self.counters.output(Unit::Frames, made);
        self.counters.output(Unit::Bytes, made * size);
        self.counters.input(Unit::Hits, made);
        self.counters.output(Unit::Hits, made);
        let losses = [
            (LossReason::BadChannel, records - made - beyond, size),
            (LossReason::TimeRange, beyond, size),
            (LossReason::TruncatedHit, broken, rest),
        ];
        for (reason, frames, bytes_each) in losses.into_iter().filter(|(_, frames, _)| *frames > 0) {
            self.counters.lost(reason, Unit::Frames, frames);
            self.counters.lost(reason, Unit::Bytes, frames * bytes_each);
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

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Converts ticks to picoseconds. The usual tick, 2 ns / 1024, has a power of two as denominator, so that no division
/// is needed.
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
