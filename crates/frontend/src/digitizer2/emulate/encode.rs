//! Encodes a pulse as a hit of the board's firmware, and calculates the hit that a perfect reader records.
//!
//! ```text
//!  Pulse ─┬─ HitFields ─► words (by `emit`)
//!         └─ Hit: the truth
//! ```
//! The truth is computed from the pulse, not from the words, so that it checks both encoder and decoder.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use thalweg_data::{Flags, Hit, Tick};

use super::physics::pulse::{self, Trace, TraceSettings};
use super::physics::{FINE, Pulse, marks};
use super::settings::{Data, Firmware, Settings};
use crate::digitizer2::emit::{self, HitFields};
use crate::digitizer2::wire::{Probe, WaveInfo};

/// High-priority flag bits, by public decoders of VX2730 data.
mod high {
    pub const PILE_UP: u8 = 1 << 0;
    pub const SATURATION: u8 = 1 << 2;
    pub const POST_SATURATION: u8 = 1 << 3;
    pub const CHARGE_OVERFLOW: u8 = 1 << 4;
    pub const FINE_TIME: u8 = 1 << 6;
}

/// Low-priority flag bit: the channel triggered itself.
const LOW_SELF_TRIGGER: u16 = 1 << 6;

/// Encodes pulses as words and truth.
#[derive(Debug)]
pub(super) struct Encoder {
    firmware: Firmware,
    one_word: bool,
    tick: Tick,
    fine_tick: Tick,
    samples: usize,
    every: u32,
    /// Hits since the last one with a waveform, including that one.
    since_waveform: u32,
    info: WaveInfo,
    random: Pcg64Mcg,
    trace: Trace,
    dual: Vec<u32>,
}

/// The largest value of 16 bits.
const TOP: f32 = 65_535.0;

impl Encoder {
    pub(super) fn new(settings: &Settings) -> Encoder {
        let tick = Tick::from_mhz(settings.sampling_mhz.into()).expect("the sampling rate was checked");
        let samples = settings.waveform_samples as usize;
        let saturation = settings.detector.saturation_kev * settings.detector.gain_per_kev;
        let trace = TraceSettings {
            samples,
            before_trigger: settings.samples_before_trigger() as usize,
            gate: (settings.detector.gate_ns * f64::from(settings.sampling_mhz) / 1000.0) as usize,
            height_per_energy: ((pulse::FULL_SCALE - pulse::BASELINE) as f64 / (0.7 * saturation)) as f32,
            trapezoid: settings.firmware == Firmware::Pha,
        };
        Encoder {
            firmware: settings.firmware,
            one_word: settings.data == Data::OneWord,
            tick,
            fine_tick: tick.divided(FINE).expect("the sampling rate was checked"),
            samples,
            every: settings.waveform_every,
            since_waveform: 0,
            info: wave_info(settings.firmware),
            random: seed(settings),
            trace: Trace::new(trace, settings.seed),
            dual: Vec::new(),
        }
    }

    /// Restarts the noise.
    pub(super) fn restart(&mut self, settings: &Settings) {
        self.random = seed(settings);
        self.since_waveform = 0;
    }

    /// Advances to the next hit, and returns its number of bytes.
    pub(super) fn next_hit_bytes(&mut self) -> usize {
        self.since_waveform = if self.since_waveform >= self.every { 1 } else { self.since_waveform + 1 };
        self.hit_bytes()
    }

    fn has_waveform(&self) -> bool {
        self.samples > 0 && self.since_waveform <= 1
    }

    /// Bytes of the current hit.
    pub(super) fn hit_bytes(&self) -> usize {
        if self.has_waveform() || self.one_word { self.longest_hit_bytes() } else { 16 }
    }

    /// Bytes of the longest hit with these settings.
    pub(super) fn longest_hit_bytes(&self) -> usize {
        match self.firmware {
            _ if self.one_word => 8,
            _ if self.samples == 0 => 16,
            Firmware::Opendpp => 32 + 2 * self.samples,
            _ => 32 + 4 * self.samples,
        }
    }

    /// The content of a hit's words.
    #[inline]
    pub(super) fn fields(&self, pulse: &Pulse) -> HitFields {
        let mut flags_high = if self.one_word { 0 } else { high::FINE_TIME };
        for (mark, flag) in [
            (marks::PILE_UP, high::PILE_UP),
            (marks::SATURATION, high::SATURATION),
            (marks::POST_SATURATION, high::POST_SATURATION),
        ] {
            if pulse.marks & mark != 0 {
                flags_high |= flag;
            }
        }
        let has_short = matches!(self.firmware, Firmware::Psd | Firmware::Opendpp);
        if has_short && pulse.energy > TOP {
            flags_high |= high::CHARGE_OVERFLOW;
        }
        HitFields {
            channel: pulse.channel as u8,
            timestamp: pulse.time_fine / FINE,
            fine: (pulse.time_fine % FINE) as u16,
            energy: pulse.energy as u16,
            energy_short: if has_short { pulse.energy_short as u16 } else { 0 },
            flags_low: LOW_SELF_TRIGGER,
            flags_high,
        }
    }

    /// Appends a hit's words.
    #[inline]
    pub(super) fn hit(&mut self, pulse: &Pulse, out: &mut Vec<u8>) {
        let fields = self.fields(pulse);
        if self.one_word {
            return emit::one_word_hit(out, &fields);
        }
        if !self.has_waveform() {
            return match self.firmware {
                Firmware::Opendpp => emit::packed_hit(out, &fields, 0, false, &[], None),
                _ => emit::hit(out, &fields),
            };
        }
        self.trace.draw(pulse, 0, &mut self.random);
        if self.firmware == Firmware::Opendpp {
            emit::packed_hit(out, &fields, 0, false, &[], Some(&self.trace.input));
        } else {
            let probes = self.trace.input.iter().zip(&self.trace.second).zip(&self.trace.digital);
            self.dual.clear();
            self.dual.extend(probes.map(|((input, second), digital)| {
                emit::wave_sample(*input as i16, *second as i16, *digital)
            }));
            emit::wave_hit(out, &fields, &self.info, &self.dual, false);
        }
    }

    /// The hit that a perfect reader records, with the board's own channel number.
    pub(super) fn truth(&self, pulse: &Pulse) -> Hit {
        let mut flags = Flags::NONE;
        for (mark, flag) in [
            (marks::PILE_UP, Flags::PILE_UP),
            (marks::SATURATION, Flags::SATURATION),
            (marks::POST_SATURATION, Flags::POST_SATURATION),
        ] {
            if pulse.marks & mark != 0 {
                flags |= flag;
            }
        }
        let has_short = matches!(self.firmware, Firmware::Psd | Firmware::Opendpp);
        if has_short && pulse.energy > TOP {
            flags |= Flags::CHARGE_OVERFLOW;
        }
        let short = has_short && !self.one_word;
        if !short {
            flags |= Flags::NO_ENERGY_SHORT;
        }
        let time_ps = if self.one_word {
            self.tick.to_ps((pulse.time_fine / FINE) as i64)
        } else {
            flags |= Flags::FINE_TIME | Flags::SELF_TRIGGER;
            self.fine_tick.to_ps(pulse.time_fine as i64)
        };
        if self.has_waveform() {
            flags |= Flags::EXTRA;
        }
        let energy_short = if short { pulse.energy_short as u16 } else { 0 };
        Hit { time_ps, channel: pulse.channel, energy: pulse.energy as u16, energy_short, flags }
    }

    /// The hit that a perfect reader records for one channel of a scope event.
    pub(super) fn scope_truth(&self, channel: u16, timestamp: u64) -> Hit {
        let flags = Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA;
        Hit { time_ps: self.tick.to_ps(timestamp as i64), channel, energy: 0, energy_short: 0, flags }
    }

    /// The number of `pulses` within the window that the first one opens, and the end of that window in fine counts.
    pub(super) fn scope_window(&self, pulses: &[Pulse]) -> (usize, u64) {
        let end = pulses.first().map_or(0, |first| first.time_fine + self.samples as u64 * FINE);
        (pulses.partition_point(|pulse| pulse.time_fine < end), end)
    }

    /// The samples of every channel for one scope trigger; `pulses` are those within the window that the first one
    /// opens.
    pub(super) fn scope(&mut self, pulses: &[Pulse], channels: usize, waveforms: &mut Vec<Vec<u16>>) {
        waveforms.resize_with(channels, Vec::new);
        let quiet = Pulse { time_fine: 0, energy: 0.0, energy_short: 0.0, channel: 0, marks: 0 };
        let start = pulses.first().map_or(0, |pulse| pulse.time_fine / FINE);
        for (channel, waveform) in waveforms.iter_mut().enumerate() {
            let own = pulses.iter().find(|pulse| usize::from(pulse.channel) == channel);
            let delay = own.map_or(0, |pulse| (pulse.time_fine / FINE - start) as usize);
            self.trace.draw(own.unwrap_or(&quiet), delay, &mut self.random);
            waveform.clone_from(&self.trace.input);
        }
    }
}

fn seed(settings: &Settings) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(settings.seed ^ (u64::from(settings.board) << 40) ^ 0x5A3B1E)
}

/// The signals of the probes: input and baseline or energy filter; trigger, gates or peaking, over threshold.
fn wave_info(firmware: Firmware) -> WaveInfo {
    let pha = firmware == Firmware::Pha;
    let second = if pha { 2 } else { 1 };
    WaveInfo {
        analog: [Probe::default(), Probe { code: second, ..Probe::default() }],
        digital: if pha { [0, 6, 4, 1] } else { [0, 6, 8, 4] },
        threshold: 20,
        log2_decimation: 0,
    }
}
