//! Decodes CoMPASS records to hits.
//!
//! ```text
//!  record ─► Hit { time, channel, energies, flags }
//!      └──► Extra { raw flags, probe code, samples and calibrated energy as slices }
//! ```

use thalweg_data::hit::Layout;
use thalweg_data::{Counters, Decode, Extra, Flags, Frames, Hit, Hits, LossReason, Slice, SourceId, Unit};

use super::settings::{Settings, SettingsError};
use super::unpack::tag;
use super::wire::{Limits, Look, Record, RecordLayout, event};

const LOST: u32 = event::DEAD_TIME | event::MEMORY_FULL | event::TRIGGER_LOST | event::TRIGGERS_LOST;
const SATURATED: u32 = event::SATURATING | event::INPUT_SATURATING;
const FAKE_FOR_A_REASON: u32 = event::FAKE_CLOCK | event::FAKE_TEMPERATURE | event::FAKE_SHUTDOWN;
const SAID_BY_FLAGS: u32 = LOST | SATURATED | event::PILE_UP | event::FINE_TIME | event::FAKE;

/// The hit flags of event flags, with [`Flags::EXTRA`] if some event flags have no hit flag.
#[inline]
pub fn flags(raw: u32) -> Flags {
    let when = |mask: u32, flag: Flags| if raw & mask != 0 { flag } else { Flags::NONE };
    when(LOST, Flags::TRIGGER_LOST)
        | when(SATURATED, Flags::SATURATION)
        | when(event::PILE_UP, Flags::PILE_UP)
        | when(event::FINE_TIME, Flags::FINE_TIME)
        | when(event::FAKE | FAKE_FOR_A_REASON, Flags::FAKE)
        | when(!SAID_BY_FLAGS, Flags::EXTRA)
}

/// Makes one hit of each record.
#[derive(Clone, Debug)]
pub struct CompassDecode {
    source: SourceId,
    limits: Limits,
    channels_per_board: u16,
    first_channel: u16,
    time_offset_ps: i64,
    counters: Counters,
}

impl CompassDecode {
    /// Creates a decoder of the units of `source`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<CompassDecode, SettingsError> {
        settings.validate()?;
        Ok(CompassDecode {
            source,
            limits: settings.limits(),
            channels_per_board: settings.channels_per_board,
            first_channel: settings.first_channel,
            time_offset_ps: settings.time_offset_ps,
            counters: Counters::default(),
        })
    }

    fn run(&mut self, slice: Slice, units: &Frames, hits: &mut Hits) {
        let bytes = units.bytes(slice);
        let layout = RecordLayout::of(tag::fields(slice.tag));
        let (mut at, mut records, mut beyond, mut beyond_bytes) = (0, 0, 0, 0);
        let slices_before = hits.slices.len();
        let reason = loop {
            match Record::look(&bytes[at..], layout, &self.limits) {
                Look::Record(record) => {
                    let bytes = record.bytes().len();
                    match self.hit(record, at, slice, hits) {
                        Some(()) => records += 1,
                        None => (beyond, beyond_bytes) = (beyond + 1, beyond_bytes + bytes as u64),
                    }
                    at += bytes;
                }
                Look::Short => break LossReason::TruncatedHit,
                Look::Implausible(reason) => break reason,
            }
        };
        if hits.slices.len() > slices_before {
            hits.leases.add_for(slice, &units.leases);
        }
        self.close(records, at as u64 - beyond_bytes, reason, u64::from(slice.length) - beyond_bytes);
        if beyond > 0 {
            for (unit, count) in [(Unit::Frames, beyond), (Unit::Bytes, beyond_bytes)] {
                self.counters.input(unit, count);
                self.counters.lost(LossReason::TimeRange, unit, count);
            }
        }
    }

    /// Counts a slice of `length` bytes: `records` hits in `used` of them, and the incomplete rest.
    fn close(&mut self, records: u64, used: u64, reason: LossReason, length: u64) {
        let rest = length - used;
        let broken = u64::from(rest > 0);
        self.counters.input(Unit::Frames, records + broken);
        self.counters.output(Unit::Frames, records);
        self.counters.input(Unit::Bytes, length);
        self.counters.output(Unit::Bytes, used);
        self.counters.input(Unit::Hits, records);
        self.counters.output(Unit::Hits, records);
        if rest > 0 {
            self.counters.lost(reason, Unit::Frames, broken);
            self.counters.lost(reason, Unit::Bytes, rest);
        }
    }

    /// Makes a hit; `None` if its time with the source's offset is beyond 64 bits of picoseconds.
    #[inline]
    fn hit(&self, record: Record<'_>, at: usize, slice: Slice, hits: &mut Hits) -> Option<()> {
        let (energy, energy_short) = (record.energy(), record.energy_short());
        let raw_flags = record.flags();
        let mut flags = flags(raw_flags);
        if energy.is_none() {
            flags |= Flags::NO_ENERGY;
        }
        if energy_short.is_none() {
            flags |= Flags::NO_ENERGY_SHORT;
        }
        let (samples, calibrated) = (record.samples_range(), record.calibrated_range());
        if !samples.is_empty() || calibrated.is_some() {
            flags |= Flags::EXTRA;
        }
        let time_ps = i128::from(record.time_ps()) + i128::from(self.time_offset_ps);
        let hit = Hit {
            time_ps: i64::try_from(time_ps).ok()?,
            channel: self.first_channel + record.board() * self.channels_per_board + record.channel(),
            energy: energy.unwrap_or(0),
            energy_short: energy_short.unwrap_or(0),
            flags,
        };
        hits.hits.push(hit);
        if flags.has(Flags::EXTRA) {
            let mut extra = Extra::of(&hit, self.source);
            extra.raw_flags = raw_flags;
            extra.number = record.probe().map_or(0, u32::from);
            let mut chain = |range: std::ops::Range<usize>| {
                let part = slice.part(at + range.start, range.len()).expect("a field is inside its record");
                hits.slices.push(part.tagged(0));
                (hits.slices.len() as u32 - 1, 1)
            };
            if !samples.is_empty() {
                extra.layout = Layout::Plain;
                (extra.samples_first, extra.samples_count) = chain(samples);
            }
            if let Some(range) = calibrated {
                (extra.words_first, extra.words_count) = chain(range);
            }
            hits.extras.push(extra);
        }
        Some(())
    }
}

impl Decode for CompassDecode {
    fn decode(&mut self, units: &Frames, hits: &mut Hits) {
        hits.header = units.header;
        for slice in &units.slices {
            self.run(*slice, units, hits);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
