//! What a described packet is worth without a decoder of its own: counted, and on request one hit.
//!
//! ```text
//!  packet ─► header: overhead · payload: used
//!      └──► Hit { time, channel of the part }  Extra { trigger, run, status, payload in place }
//! ```

use thalweg_data::{
    Decode, Extra, Flags, Frames, Hit, Hits, LossReason, Mark, Slice, SourceId, Tally, Tick, Unit,
};

use super::layout::{Head, HitLayout, Layout};
use super::number::Number;
use super::settings::{Settings, SettingsError};

/// Counts packets, and makes a hit of each where the description asks for it.
///
/// A hit's energies are absent. Its extra holds the trigger number in `info`, the status in `raw_flags`, the run in
/// `number`, and the payload as user words.
#[derive(Debug)]
pub struct GenericDecode {
    source: SourceId,
    layout: Layout,
    tally: Tally,
}

impl GenericDecode {
    /// A decoder of the units of `source`.
    ///
    /// # Errors
    /// When the description cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<GenericDecode, SettingsError> {
        Ok(GenericDecode { source, layout: Layout::of(settings)?, tally: Tally::default() })
    }

    fn packet(&mut self, slice: Slice, units: &Frames, hits: &mut Hits) {
        let bytes = units.bytes(slice);
        self.tally.input(Unit::Frames, 1);
        self.tally.input(Unit::Bytes, bytes.len() as u64);
        let made = match self.layout.head(bytes, Some(bytes.len())) {
            Ok(head) if head.total == bytes.len() => self.hit(head, bytes, slice, units, hits),
            Ok(_) => Err(LossReason::BadLength),
            Err(reason) => Err(reason),
        };
        match made {
            Ok(head) => {
                self.tally.output(Unit::Frames, 1);
                self.tally.overhead(Unit::Bytes, head.payload_at as u64);
                self.tally.output(Unit::Bytes, (head.total - head.payload_at) as u64);
            }
            Err(reason) => {
                self.tally.lost(reason, Unit::Frames, 1);
                self.tally.lost(reason, Unit::Bytes, bytes.len() as u64);
            }
        }
    }

    fn hit(
        &mut self,
        head: Head,
        bytes: &[u8],
        slice: Slice,
        units: &Frames,
        hits: &mut Hits,
    ) -> Result<Head, LossReason> {
        let (Some(layout), Some((time, tick))) = (self.layout.hits, self.layout.timestamp) else {
            return Ok(head);
        };
        let HitLayout { channel, channels, first_channel, time_offset_ps } = layout;
        let channel = channel.map_or(0, |number| number.read(bytes));
        if channel >= u64::from(channels) {
            return Err(LossReason::BadChannel);
        }
        let hit = Hit {
            time_ps: time_ps(time.read(bytes), time.bits(), tick, units.header.mark)
                .saturating_add(time_offset_ps),
            channel: first_channel + channel as u16,
            energy: 0,
            energy_short: 0,
            flags: Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA,
        };
        let read = |number: Option<Number>| number.map_or(0, |number| number.read(bytes));
        let payload =
            slice.part(head.payload_at, head.total - head.payload_at).expect("the payload is inside");
        let mut extra = Extra::of(&hit, self.source);
        extra.info = read(self.layout.trigger);
        extra.raw_flags = read(self.layout.status) as u32;
        extra.number = read(self.layout.run) as u32;
        if payload.length > 0 {
            (extra.words_first, extra.words_count) = (hits.slices.len() as u32, 1);
            hits.slices.push(payload.tagged(0));
            hits.leases.add_for(slice, &units.leases);
        }
        hits.hits.push(hit);
        hits.extras.push(extra);
        self.tally.output(Unit::Hits, 1);
        Ok(head)
    }
}

/// Picoseconds of a counter of `bits` bits. One that wraps within half of what 64 bits of picoseconds can say is
/// extended to the time nearest to its arrival: right while it arrives within half a wrap.
fn time_ps(ticks: u64, bits: u32, tick: Tick, arrival: Mark) -> i64 {
    let ps = |ticks: u128| {
        let (numerator, denominator) = tick.parts();
        ticks.saturating_mul(u128::from(numerator)) / u128::from(denominator)
    };
    let wrap_ticks = 1u128 << bits;
    if ps(wrap_ticks) >= 1 << 62 {
        return ps(u128::from(ticks)).min(i64::MAX as u128) as i64;
    }
    let arrival_ps = i64::try_from(u128::from(arrival.0) * 1000).unwrap_or(i64::MAX);
    let (arrival_ticks, wrap_ticks) = (i128::from(tick.from_time(arrival_ps)), wrap_ticks as i128);
    // The number of whole wraps that brings the time closest to the arrival; never before the start of time.
    let wraps = (arrival_ticks - i128::from(ticks) + wrap_ticks / 2).div_euclid(wrap_ticks).max(0);
    tick.to_ps((i128::from(ticks) + wraps * wrap_ticks).min(i128::from(i64::MAX)) as i64)
}

impl Decode for GenericDecode {
    fn decode(&mut self, units: &Frames, hits: &mut Hits) {
        hits.header = units.header;
        for slice in &units.slices {
            self.packet(*slice, units, hits);
        }
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_are_extended_by_the_arrival() {
        let tick = Tick::from_ps(1_000_000).expect("not zero");
        let at = |ticks, ms: u64| time_ps(ticks, 10, tick, Mark(ms * 1_000_000)) / 1_000_000;
        assert_eq!(at(5, 0), 5);
        assert_eq!(at(1000, 0), 1000, "never before the start");
        assert_eq!(at(5, 1), 1024 + 5);
        assert_eq!(at(1000, 1), 1000);
        assert_eq!(at(1000, 102), 99 * 1024 + 1000);
    }

    #[test]
    fn long_times_are_as_sent() {
        let tick = Tick::from_ps(100_000).expect("not zero");
        assert_eq!(time_ps(123_456_789, 64, tick, Mark(7)), 12_345_678_900_000);
        assert_eq!(time_ps(u64::MAX, 64, tick, Mark(7)), i64::MAX);
    }
}
