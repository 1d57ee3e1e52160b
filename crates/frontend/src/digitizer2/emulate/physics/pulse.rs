//! The shape of a pulse at the board's ADC, and its trigger and gate probes.
//!
//! ```text
//!  Pulse ─ fast and slow light from tables, baseline noise ─► input ─ probes of the firmware ─► Trace
//! ```
//! The fast and the slow fraction of the light follow from the hit's `energy_short`, so that waveform and energies
//! agree. Everything that does not depend on the pulse is computed once; a sample then costs a few additions.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_pcg::Pcg64Mcg;

use super::{FINE, Pulse};

/// The baseline in ADC counts of 14 bits.
pub const BASELINE: f32 = 1500.0;
/// The highest ADC count.
pub const FULL_SCALE: f32 = 16_383.0;
/// Digital probe bits: trigger, long gate, short gate or peaking, over threshold.
pub const DIGITAL: [u8; 4] = [1 << 0, 1 << 1, 1 << 2, 1 << 3];

const RISE_SAMPLES: f32 = 1.5;
const FAST_SAMPLES: f32 = 6.0;
const SLOW_SAMPLES: f32 = 45.0;
/// Positions of a pulse between two samples.
const PHASES: usize = 16;
/// Samples after which a pulse has ended.
const TABLE: usize = 512;
/// Samples of noise, of which a waveform takes a range: twice the longest waveform.
const NOISE: usize = 16_384;
const NOISE_COUNTS: f32 = 3.0;
const OVER_THRESHOLD: f32 = 20.0;

/// Settings of traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSettings {
    /// Samples of a trace, at most 8192.
    pub samples: usize,
    /// Samples before the trigger.
    pub before_trigger: usize,
    /// Long gate in samples.
    pub gate: usize,
    /// ADC counts per energy channel at the pulse's top.
    pub height_per_energy: f32,
    /// Whether the second probe is a trapezoid; otherwise it is the baseline.
    pub trapezoid: bool,
}

/// Draws traces; keeps the last one.
#[derive(Clone, Debug)]
pub struct Trace {
    settings: TraceSettings,
    /// Rise and fast fall, rise and slow fall: `TABLE` samples for each phase.
    fast: Vec<f32>,
    slow: Vec<f32>,
    noise: Vec<f32>,
    level: Vec<f32>,
    /// The ADC's input, 14 bits.
    pub input: Vec<u16>,
    /// The second analog probe: baseline or trapezoid.
    pub second: Vec<u16>,
    /// Digital probes, see [`DIGITAL`].
    pub digital: Vec<u8>,
}

impl Trace {
    /// Prepares tables for traces with these settings; the noise is the same for the same seed.
    pub fn new(settings: TraceSettings, seed: u64) -> Trace {
        let settings = TraceSettings { samples: settings.samples.min(NOISE / 2), ..settings };
        let table = |fall: f32| -> Vec<f32> {
            let value = |index: usize| {
                let since = (index % TABLE) as f32 + 1.0 - (index / TABLE) as f32 / PHASES as f32;
                (-since / fall).exp() - (-since / RISE_SAMPLES).exp()
            };
            if settings.samples > 0 { (0..PHASES * TABLE).map(value).collect() } else { Vec::new() }
        };
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let noise = if settings.samples > 0 { NOISE } else { 0 };
        Trace {
            fast: table(FAST_SAMPLES),
            slow: table(SLOW_SAMPLES),
            noise: (0..noise)
                .map(|_| BASELINE + NOISE_COUNTS * random.sample::<f32, _>(StandardNormal))
                .collect(),
            level: vec![0.0; settings.samples],
            input: vec![0; settings.samples],
            second: vec![BASELINE as u16; settings.samples],
            digital: vec![0; settings.samples],
            settings,
        }
    }

    /// Draws a pulse `delay` samples behind the trigger; `random` selects the noise.
    pub fn draw(&mut self, pulse: &Pulse, delay: usize, random: &mut impl Rng) {
        let samples = self.settings.samples;
        let start = (self.settings.before_trigger + delay).min(samples);
        let tail = if pulse.energy > 0.0 { 1.0 - pulse.energy_short / pulse.energy } else { 0.0 };
        let slow = (tail * 0.35).clamp(0.0, 0.5);
        let height = pulse.energy * self.settings.height_per_energy;
        let (fast_part, slow_part) = (height * (1.0 - slow), height * slow);
        let phase = (pulse.time_fine % FINE) as usize * PHASES / FINE as usize;
        let table = phase * TABLE..(phase + 1) * TABLE;
        self.level.fill(0.0);
        let shapes = self.fast[table.clone()].iter().zip(&self.slow[table]);
        for (level, (fast, slow)) in self.level[start..].iter_mut().zip(shapes) {
            *level = fast_part * fast + slow_part * slow;
        }
        let noise_start = random.next_u32() as usize % (NOISE / 2);
        let noise = &self.noise[noise_start..noise_start + samples];
        for ((input, level), noise) in self.input.iter_mut().zip(&self.level).zip(noise) {
            *input = (level + noise).clamp(0.0, FULL_SCALE) as u16;
        }
        self.probes(start, height);
    }

    fn probes(&mut self, start: usize, height: f32) {
        let samples = self.settings.samples;
        for (digital, level) in self.digital.iter_mut().zip(&self.level) {
            *digital = u8::from(*level > OVER_THRESHOLD) << 3;
        }
        let gate = self.settings.gate;
        for (length, bit) in [(1, DIGITAL[0]), (gate, DIGITAL[1]), (gate / 5, DIGITAL[2])] {
            self.digital[start..(start + length).min(samples)].iter_mut().for_each(|digital| *digital |= bit);
        }
        if self.settings.trapezoid {
            let rise = (gate / 2).max(1) as f32;
            for (index, second) in self.second.iter_mut().enumerate() {
                let since = index as f32 - start as f32;
                let level = (since / rise).min(2.5 - since / rise).clamp(0.0, 1.0);
                *second = (BASELINE + 0.6 * height * level).clamp(0.0, FULL_SCALE) as u16;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_rises_at_its_trigger_and_neutrons_fall_slower() {
        let settings = TraceSettings {
            samples: 128,
            before_trigger: 16,
            gate: 50,
            height_per_energy: 0.2,
            trapezoid: false,
        };
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let mut trace = Trace::new(settings, 1);
        let mut tails = [0.0f64; 2];
        for (index, energy_short) in [8600.0, 7000.0].into_iter().enumerate() {
            let pulse = Pulse { time_fine: 512, energy: 10_000.0, energy_short, channel: 0, marks: 0 };
            trace.draw(&pulse, 0, &mut random);
            let before = trace.input[..16].iter().max();
            let top = trace.input.iter().max();
            assert!(before < Some(&1515) && top > Some(&2300), "{before:?} {top:?}");
            for (bit, count) in [(DIGITAL[0], 1), (DIGITAL[1], 50), (DIGITAL[2], 10)] {
                assert_eq!(trace.digital.iter().filter(|digital| **digital & bit != 0).count(), count);
            }
            tails[index] = trace.input[40..80].iter().map(|input| f64::from(*input) - 1500.0).sum();
        }
        assert!(tails[1] > 1.2 * tails[0], "{tails:?}");
    }

    #[test]
    fn the_trapezoid_is_flat_at_its_top() {
        let settings = TraceSettings {
            samples: 256,
            before_trigger: 64,
            gate: 50,
            height_per_energy: 0.2,
            trapezoid: true,
        };
        let mut trace = Trace::new(settings, 1);
        let pulse = Pulse { time_fine: 0, energy: 10_000.0, energy_short: 0.0, channel: 0, marks: 0 };
        trace.draw(&pulse, 0, &mut Pcg64Mcg::seed_from_u64(3));
        assert_eq!(trace.second[..64], [1500; 64]);
        assert_eq!(trace.second[90..100], [2700; 10]);
        assert_eq!(trace.second[200], 1500);
    }
}
