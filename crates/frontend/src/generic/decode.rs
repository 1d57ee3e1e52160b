//! Counts generic packets, and makes one hit of each if the configuration asks for it.
//!
//! ```text
//!  packet ─► header: overhead · payload: used
//!      └──► Hit { time, channel of the part }  Extra { trigger, run, status, payload as a slice }
//! ```

use thalweg_data::{Counters, Decode, Extra, Flags, Frames, Hit, Hits, LossReason, Slice, SourceId, Unit};

use super::layout::{Head, HitLayout, Layout};
use super::number::Number;
use super::settings::{Settings, SettingsError};
use super::time::ClockCounters;
use super::unpack::GenericUnpack;

/// Counts packets, and makes a hit of each if the description asks for it.
///
/// A hit's energies are absent. Its extra holds the trigger number in `info`, the status in `raw_flags`, the run in
/// `number`, and the payload as user words.
#[derive(Clone, Debug)]
pub struct GenericDecode {
    source: SourceId,
    layout: Layout,
    /// For packets that become hits.
    clock_counters: Option<ClockCounters>,
    counters: Counters,
}

impl GenericDecode {
    /// Creates a decoder of the units of `source`.
    ///
    /// # Errors
    /// When the description cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<GenericDecode, SettingsError> {
        let layout = Layout::of(settings)?;
        let starts = layout.starts();
        Ok(GenericDecode {
            source,
            clock_counters: layout.counters(starts),
            layout,
            counters: Counters::default(),
        })
    }

    /// The same, with the counter starts of `unpack`, which sees first what this and other decoders decode.
    pub fn behind(mut self, unpack: &GenericUnpack) -> GenericDecode {
        self.clock_counters = self.layout.counters(unpack.starts());
        self
    }

    fn packet(&mut self, slice: Slice, units: &Frames, hits: &mut Hits) {
        let bytes = units.bytes(slice);
        self.counters.input(Unit::Frames, 1);
        self.counters.input(Unit::Bytes, bytes.len() as u64);
        let made = match self.layout.head(bytes, Some(bytes.len())) {
            Ok(head) if head.total == bytes.len() => self.hit(head, bytes, slice, units, hits),
            Ok(_) => Err(LossReason::BadLength),
            Err(reason) => Err(reason),
        };
        match made {
            Ok(head) => {
                self.counters.output(Unit::Frames, 1);
                self.counters.overhead(Unit::Bytes, head.payload_at as u64);
                self.counters.output(Unit::Bytes, (head.total - head.payload_at) as u64);
            }
            Err(reason) => {
                self.counters.lost(reason, Unit::Frames, 1);
                self.counters.lost(reason, Unit::Bytes, bytes.len() as u64);
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
        let (Some(layout), Some((time, _)), Some(counters)) =
            (self.layout.hits, self.layout.timestamp, &mut self.clock_counters)
        else {
            return Ok(head);
        };
        let HitLayout { channel, channels, first_channel, .. } = layout;
        let channel = channel.map_or(0, |number| number.read(bytes));
        if channel >= u64::from(channels) {
            return Err(LossReason::BadChannel);
        }
        let time_ps = counters.time_ps(slice.tag, time.read(bytes), units.header.mark);
        let hit = Hit {
            time_ps: time_ps.ok_or(LossReason::TimeRange)?,
            channel: first_channel + channel as u16,
            energy: 0,
            energy_short: 0,
            flags: Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA,
        };
        let read = |number: Option<Number>| number.map_or(0, |number| number.read(bytes));
        let payload = slice
            .part(head.payload_at, head.total - head.payload_at)
            .expect("the payload is inside the packet");
        let mut extra = Extra::of(&hit, self.source);
        extra.info = read(self.layout.trigger);
        extra.raw_flags = read(self.layout.status) as u32;
        extra.number = read(self.layout.run) as u32;
        if payload.length > 0 {
            (extra.words_first, extra.words_count) = (hits.slices.len() as u32, 1);
            hits.slices.push(payload.tagged(0));
            hits.leases.add_for(slice, &units.leases);
        }
        self.counters.input(Unit::Hits, 1);
        hits.hits.push(hit);
        hits.extras.push(extra);
        self.counters.output(Unit::Hits, 1);
        Ok(head)
    }
}

impl Decode for GenericDecode {
    fn decode(&mut self, units: &Frames, hits: &mut Hits) {
        hits.header = units.header;
        for slice in &units.slices {
            self.packet(*slice, units, hits);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
