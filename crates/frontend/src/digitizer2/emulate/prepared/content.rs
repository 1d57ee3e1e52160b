//! The content of a ring: events, and how they are divided into units and datagrams.
//!
//! ```text
//!  pulses ─► hits in aggregates ─┐                        ┌─ aligned:  a unit is one datagram of whole events
//!  pulses ─► scope events ───────┼─► events ─► units ─────┤
//!  external triggers ─► either ──┘                        └─ spanning: a unit is a network buffer, divided anywhere
//! ```
//! Events lie one behind the other in the ring's bytes, so that a datagram is a range of them in either layout.

use super::super::encode::Encoder;
use super::super::packer::datagram_data_bytes;
use super::super::physics::{BIN_PS, FINE, Physics, Pulse};
use super::super::settings::{Data, Detector, Firmware, Rates, Settings};
use super::stamp::{Stamp, StampedWord, Stamps};
use super::{PreparedDatagram, Ring};
use crate::digitizer2::emit::{self, ScopeFields};

/// Hits in a ring, if rate and memory allow: enough for a smooth spectrum.
const HITS_WANTED: f64 = 131_072.0;
/// Most bins of a ring: otherwise, that of slow boards would last for minutes.
const BINS_MAXIMUM: u64 = 4096;
/// Samples after which a ramp of 16 bits starts again.
const RAMP_SAMPLES: u64 = 1 << 16;
/// Energy of hits at external triggers, in channels.
const EXTERNAL_ENERGY: f32 = 1000.0;
/// Largest fraction of the time in which a prepared channel is blind.
const BLIND: f64 = 0.1;

/// The board that prepares the data. At rates that no detector can sustain, its dead time is shortened. Its rates are
/// raised to compensate for the remaining dead time, so that the ring has the requested number of hits.
pub(in crate::digitizer2::emulate) fn preparing(settings: &Settings) -> Settings {
    let rates: Vec<f64> = (0..settings.channels).map(|channel| settings.channel_rate_hz(channel)).collect();
    let highest = rates.iter().copied().fold(1.0, f64::max);
    let dead_time_s = (settings.detector.dead_time_ns / 1e9).min(BLIND / highest);
    let detector = Detector {
        dead_time_ns: dead_time_s * 1e9,
        gate_ns: settings.detector.gate_ns.min(dead_time_s * 1e9),
        ..settings.detector.clone()
    };
    let rate_hz = Rates::List(rates.iter().map(|rate| rate / (1.0 - rate * dead_time_s)).collect());
    Settings { rate_hz, total_rate_hz: None, detector, ..settings.clone() }
}

/// Time bins of a lap: a power of two, so that the periods of boards with different rates are multiples of each other.
fn bins_of(settings: &Settings, event_bytes: usize) -> u64 {
    let per_bin = settings.board_rate_hz().max(1e-3) * BIN_PS as f64 / 1e12;
    let fit = f64::from(settings.prepared_mib) * 1_048_576.0 / event_bytes as f64 * 0.95;
    let bins = (HITS_WANTED.min(fit) / per_bin).clamp(1.0, BINS_MAXIMUM as f64) as u64;
    1 << bins.ilog2()
}

/// The pulse at an external trigger.
fn external_pulse(channel: u16, count: u64) -> Pulse {
    let (energy, energy_short) = (EXTERNAL_ENERGY, EXTERNAL_ENERGY / 2.0);
    Pulse { time_fine: count * FINE, energy, energy_short, channel, marks: 0 }
}

/// Fills a ring. What does not fit into `prepared_mib` at the end of the lap is left out.
pub(super) struct Content<'a> {
    settings: &'a Settings,
    ring: &'a mut Ring,
    most_bytes: usize,
    /// Most bytes of a unit of several events.
    unit_bytes: usize,
    /// Clock counts after which a unit is sent, full or not.
    unit_counts: u64,
    data_bytes: usize,
    unit: OpenUnit,
    open: Option<OpenAggregate>,
}

/// The unit that is being written.
#[derive(Default)]
struct OpenUnit {
    start: usize,
    /// Offsets from its start.
    stamps: Vec<Stamp>,
    /// Ends of its events, from its start.
    ends: Vec<usize>,
    /// Clock counts of its first and its last hit.
    first_count: u64,
    last_count: u64,
}

/// The aggregate that is being written.
struct OpenAggregate {
    start: emit::AggregateStart,
    /// The place of its counter in the list of the unit.
    stamp: usize,
    hits: usize,
}

impl<'a> Content<'a> {
    pub fn new(settings: &'a Settings, ring: &'a mut Ring) -> Content<'a> {
        let data_bytes = datagram_data_bytes(settings);
        let buffer = data_bytes * settings.datagrams_per_buffer as usize;
        Content {
            settings,
            most_bytes: (settings.prepared_mib as usize) << 20,
            unit_bytes: if ring.is_spanning { buffer } else { data_bytes },
            unit_counts: (settings.flush_ms * 1000.0 * f64::from(settings.sampling_mhz)).max(1.0) as u64,
            data_bytes,
            unit: OpenUnit::default(),
            open: None,
            ring,
        }
    }

    /// Fills the ring with what external triggers make, which are `period` clock counts apart: scope records of a ramp, or a
    /// hit of each channel. Returns the clock counts of a lap.
    pub fn external_triggers(mut self, period: u64, encoder: &mut Encoder) -> f64 {
        let settings = self.settings;
        let is_scope = settings.firmware == Firmware::Scope;
        let trigger_bytes = match is_scope {
            true => settings.scope_event_bytes(),
            false => encoder.longest_hit_bytes() * usize::from(settings.channels),
        };
        // After this many triggers a ramp is where it began, and goes on in the next lap.
        let ramp_counts = RAMP_SAMPLES * u64::from(settings.decimation);
        let whole_ramps = ramp_counts >> period.trailing_zeros().min(ramp_counts.ilog2());
        let triggers = whole_ramps.min((self.most_bytes / trigger_bytes).max(1) as u64);
        let mut waveforms = vec![vec![0; settings.waveform_samples as usize]; settings.channels.into()];
        for count in (0..triggers).map(|trigger| trigger * period) {
            if is_scope {
                for (channel, waveform) in (0..).zip(&mut waveforms) {
                    let first = count / u64::from(settings.decimation) + channel;
                    (first..).zip(waveform).for_each(|(value, sample)| *sample = value as u16);
                }
                self.scope_event(count, &waveforms, encoder);
            } else {
                (0..settings.channels).for_each(|channel| self.hit(&external_pulse(channel, count), encoder));
            }
        }
        self.finish_unit();
        (triggers * period) as f64
    }

    /// Fills the ring with what the detectors' pulses make. Returns the clock counts of a lap.
    pub fn pulses(mut self, physics: &mut Physics, encoder: &mut Encoder) -> f64 {
        let settings = self.settings;
        let is_scope = settings.firmware == Firmware::Scope;
        let event_bytes = if is_scope { settings.scope_event_bytes() } else { encoder.longest_hit_bytes() };
        let bins = bins_of(settings, event_bytes);
        physics.restart();
        let start_fine = physics.bin_start_fine(0) / FINE * FINE;
        let until = physics.bin_start_fine(bins);
        let mut waveforms = Vec::new();
        while self.ring.bytes.len() < self.most_bytes {
            let pulses = physics.pulses_until(until);
            let Some(first) = pulses.first() else { break };
            let taken = if is_scope {
                let (window, end) = encoder.scope_window(pulses);
                if end > until {
                    // It would reach into the first record of the next lap.
                    break;
                }
                encoder.scope(&pulses[..window], settings.channels.into(), &mut waveforms);
                let count = (first.time_fine - start_fine) / FINE;
                self.scope_event(count, &waveforms, encoder);
                window
            } else {
                for pulse in pulses {
                    self.hit(&Pulse { time_fine: pulse.time_fine - start_fine, ..*pulse }, encoder);
                }
                pulses.len()
            };
            physics.take(taken);
        }
        self.finish_unit();
        physics.restart();
        let fine_per_lap = (BIN_PS * bins) as f64 * f64::from(settings.sampling_mhz) * FINE as f64 / 1e6;
        fine_per_lap * (1.0 + settings.drift_ppm / 1e6) / FINE as f64
    }

    /// Bytes of the unit so far.
    fn used(&self) -> usize {
        self.ring.bytes.len() - self.unit.start
    }

    /// Makes room for an event, or a hit, of `bytes` at that time: in a new unit if the open one is full, or too old.
    fn begin_event(&mut self, bytes: usize, count: u64) {
        let is_old = self.unit.first_count + self.unit_counts <= count;
        if self.used() > 0 && (is_old || self.used() + bytes > self.unit_bytes) {
            self.finish_unit();
        }
        if self.used() == 0 {
            self.unit.first_count = count;
        }
    }

    fn stamp(&mut self, word: StampedWord) -> usize {
        self.unit.stamps.push(Stamp { offset: self.used() as u32, word });
        self.unit.stamps.len() - 1
    }

    fn scope_event(&mut self, count: u64, waveforms: &[Vec<u16>], encoder: &Encoder) {
        let channels = self.settings.channels;
        self.begin_event(self.settings.scope_event_bytes(), count);
        self.stamp(StampedWord::Counter { hits: channels.into() });
        let (offset, word) = (self.used() as u32 + 8, StampedWord::Time);
        self.unit.stamps.push(Stamp { offset, word });
        let fields = ScopeFields {
            timestamp: count,
            channel_mask: u64::MAX >> (64 - channels),
            ..ScopeFields::default()
        };
        let views: Vec<&[u16]> = waveforms.iter().map(Vec::as_slice).collect();
        emit::scope_event(&mut self.ring.bytes, &fields, &views);
        self.unit.ends.push(self.used());
        self.unit.last_count = count;
        self.ring.truth.extend((0..channels).map(|channel| encoder.scope_truth(channel, count)));
    }

    fn hit(&mut self, pulse: &Pulse, encoder: &mut Encoder) {
        let hit_bytes = encoder.next_hit_bytes();
        if self.open.as_ref().is_some_and(|open| open.hits == self.ring.event_hits) {
            self.finish_aggregate();
        }
        let header = if self.open.is_some() { 0 } else { 8 };
        let count = pulse.time_fine / FINE;
        self.begin_event(header + hit_bytes, count);
        if self.open.is_none() {
            let stamp = self.stamp(StampedWord::Counter { hits: 0 });
            let start = emit::begin_aggregate(&mut self.ring.bytes, 0, false, false);
            self.open = Some(OpenAggregate { start, stamp, hits: 0 });
        }
        if self.ring.stamps == Stamps::Listed {
            let one_word = self.settings.data == Data::OneWord;
            self.stamp(if one_word { StampedWord::ShortTime } else { StampedWord::Time });
        }
        encoder.hit(pulse, &mut self.ring.bytes);
        self.ring.truth.push(encoder.truth(pulse));
        if let Some(open) = &mut self.open {
            open.hits += 1;
        }
        self.unit.last_count = count;
    }

    fn finish_aggregate(&mut self) {
        let Some(open) = self.open.take() else { return };
        emit::end_aggregate(&mut self.ring.bytes, open.start);
        self.unit.stamps[open.stamp].word = StampedWord::Counter { hits: open.hits as u32 };
        self.unit.ends.push(self.used());
    }

    /// Ends the unit, and divides it into datagrams.
    fn finish_unit(&mut self) {
        self.finish_aggregate();
        let end = self.ring.bytes.len();
        let OpenUnit { start: unit_start, stamps, ends, last_count, .. } = std::mem::take(&mut self.unit);
        self.unit.start = end;
        let (mut stamps, mut ends) = (stamps.into_iter().peekable(), ends.into_iter().peekable());
        let mut start = unit_start;
        while start < end {
            let stop = end.min(start + self.data_bytes);
            let (from, until) = (start - unit_start, stop - unit_start);
            let (mut hits, mut events) = (0, 0);
            while let Some(stamp) = stamps.next_if(|stamp| (stamp.offset as usize) < until) {
                if let StampedWord::Counter { hits: more } = stamp.word {
                    (hits, events) = (hits + more, events + 1);
                }
                if self.ring.stamps == Stamps::Listed {
                    self.ring.listed.push(Stamp { offset: stamp.offset - from as u32, ..stamp });
                }
            }
            let mut is_aligned = false;
            while let Some(end) = ends.next_if(|end| *end <= until) {
                is_aligned = end == until;
            }
            let truths = self.ring.truth_start.last().map_or(0, |before| before + hits as usize);
            self.ring.truth_start.push(truths);
            self.ring.datagrams.push(PreparedDatagram {
                start,
                end: stop,
                stamps_end: self.ring.listed.len(),
                hits,
                events,
                last_count,
                is_aligned,
                ends_unit: stop == end,
            });
            start = stop;
        }
    }
}
