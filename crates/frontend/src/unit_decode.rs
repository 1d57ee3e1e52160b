//! The decoder of formats whose units consist of hits of one size without extras.
//!
//! ```text
//!  unit ─ UnitHits ─► BoardHit: ticks, channel, energy ─ HitMapping ─► Hit: picoseconds, channel of the experiment
//!                                                            └ bad_channel, time_range
//! ```
//! A format defines the layout of its hits; [`UnitDecode`] is then its decoder. A format with waveforms, or one so fast
//! that dividing times matters, has its own.

use thalweg_data::{Counters, Decode, Flags, Frames, Hit, Hits, LossReason, SourceId, Tick, Unit};

/// A hit as the board sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoardHit {
    /// Counts of the board's clock.
    pub ticks: u64,
    /// Channel of the board.
    pub channel: u16,
    /// Charge or pulse height.
    pub energy: u16,
    /// Absent fields and other properties.
    pub flags: Flags,
}

impl BoardHit {
    /// The hit at this time.
    pub fn at(&self, time_ps: i64) -> Hit {
        let flags = self.flags.with(Flags::NO_ENERGY_SHORT);
        Hit { time_ps, channel: self.channel, energy: self.energy, energy_short: 0, flags }
    }
}

/// The layout of a format's hits.
pub(crate) trait UnitHits: Clone + Send {
    /// Bytes of a hit.
    const HIT_BYTES: usize;

    /// The hits of a unit. The rest of it is its header.
    fn hits<'u>(&self, unit: &'u [u8]) -> impl Iterator<Item = BoardHit> + 'u;
}

/// Maps a board's counts and channels to those of the experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HitMapping {
    tick: Tick,
    time_offset_ps: i64,
    channels: u16,
    first_channel: u16,
}

impl HitMapping {
    /// Maps counts of `tick_ps` after `time_offset_ps`, and `channels` channels, of which channel 0 becomes
    /// `first_channel`.
    ///
    /// # Errors
    /// The key that cannot be used, and what is allowed.
    pub fn new(
        tick_ps: f64,
        time_offset_ps: i64,
        (channels, first_channel): (u16, u16),
    ) -> Result<HitMapping, String> {
        let tick = Tick::from_ps_f64(tick_ps).map_err(|error| format!("`tick_ps`: {error}"))?;
        if channels == 0 || first_channel.checked_add(channels - 1).is_none() {
            return Err(format!(
                "`channels = {channels}` from `first_channel = {first_channel}`: write 1 or more, to end at or below channel 65535"
            ));
        }
        Ok(HitMapping { tick, time_offset_ps, channels, first_channel })
    }

    /// The first of the experiment's channels, and their number.
    pub fn channels(&self) -> (u16, u16) {
        (self.first_channel, self.channels)
    }

    fn hit(&self, hit: BoardHit) -> Result<Hit, LossReason> {
        if hit.channel >= self.channels {
            return Err(LossReason::BadChannel);
        }
        let time_ps = self.tick.time_ps(i128::from(hit.ticks), self.time_offset_ps);
        let hit = hit.at(time_ps.ok_or(LossReason::TimeRange)?);
        Ok(Hit { channel: self.first_channel + hit.channel, ..hit })
    }
}

/// The decoder of such a format.
#[derive(Clone, Debug)]
pub(crate) struct UnitDecode<R> {
    format: R,
    source: SourceId,
    mapping: HitMapping,
    counters: Counters,
}

impl<R: UnitHits> UnitDecode<R> {
    /// Creates a decoder of the units of `source`.
    pub fn new(source: SourceId, format: R, mapping: HitMapping) -> UnitDecode<R> {
        UnitDecode { format, source, mapping, counters: Counters::default() }
    }

    fn unit(&mut self, unit: &[u8], hits: &mut Hits) {
        let (mut found, mut made) = (0, 0);
        for hit in self.format.hits(unit) {
            found += 1;
            match self.mapping.hit(hit) {
                Ok(hit) => {
                    hits.hits.push(hit);
                    made += 1;
                }
                Err(reason) => {
                    self.counters.lost(reason, Unit::Hits, 1);
                    self.counters.lost(reason, Unit::Bytes, R::HIT_BYTES as u64);
                }
            }
        }
        let (bytes, hit_bytes) = (unit.len() as u64, R::HIT_BYTES as u64);
        self.counters.input(Unit::Frames, 1);
        self.counters.output(Unit::Frames, 1);
        self.counters.input(Unit::Bytes, bytes);
        self.counters.output(Unit::Bytes, made * hit_bytes);
        self.counters.overhead(Unit::Bytes, bytes - found * hit_bytes);
        self.counters.input(Unit::Hits, found);
        self.counters.output(Unit::Hits, made);
    }
}

impl<R: UnitHits> Decode for UnitDecode<R> {
    fn decode(&mut self, units: &Frames, hits: &mut Hits) {
        hits.header = units.header;
        hits.header.source = self.source;
        for slice in &units.slices {
            self.unit(units.bytes(*slice), hits);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
