//! The shape of a pulse as the board's ADC sees it, and what the trigger and the gates make of it.
//!
//! ```text
//!  Pulse ─ two decay constants, baseline noise ─► samples ─ probes of the firmware ─► Trace
//! ```
//! The fast and the slow part of the light are chosen so that a gate of a fifth of the long one holds the charge that
//! the hit's `energy_short` says: the waveform shows what the numbers tell.

use rand::Rng;

use super::Pulse;

/// One sample as the board's probes show it: two analog values of 14 bits, four digital bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The ADC's input.
    pub input: u16,
    /// The second probe: baseline (PSD) or trapezoid (PHA).
    pub second: u16,
    /// Digital probes 1 to 4 in bits 0 to 3.
    pub digital: u8,
}

/// How traces are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Samples before the trigger.
    pub before_trigger: usize,
    /// Long gate, samples.
    pub gate: usize,
    /// ADC counts per energy channel at the pulse's top.
    pub height_per_energy: f32,
    /// Second probe is a trapezoid.
    pub trapezoid: bool,
}

/// Where the baseline lies, ADC counts of 14 bits.
pub const BASELINE: f32 = 1500.0;
/// The highest ADC count.
pub const FULL_SCALE: f32 = 16_383.0;
const RISE_SAMPLES: f32 = 1.5;
const FAST_SAMPLES: f32 = 6.0;
const SLOW_SAMPLES: f32 = 45.0;

/// Replaces `samples` by the trace of a pulse, `length` samples long. Digital probes: trigger, long gate, short
/// gate (PSD) or peaking (PHA), over threshold.
pub fn trace(pulse: &Pulse, shape: &Shape, length: usize, random: &mut impl Rng, samples: &mut Vec<Sample>) {
    let tail = if pulse.energy > 0.0 { 1.0 - pulse.energy_short / pulse.energy } else { 0.0 };
    let slow = (tail * 0.35).clamp(0.0, 0.5);
    let height = pulse.energy * shape.height_per_energy;
    let phase = (pulse.time_fine % super::FINE) as f32 / super::FINE as f32;
    let decays = [RISE_SAMPLES, FAST_SAMPLES, SLOW_SAMPLES].map(|constant| (-1.0 / constant).exp());
    let mut parts =
        [RISE_SAMPLES, FAST_SAMPLES, SLOW_SAMPLES].map(|constant| ((phase - 1.0) / constant).exp());
    let short = shape.gate / 5;
    samples.clear();
    samples.extend((0..length).map(|index| {
        let since = index as i64 - shape.before_trigger as i64;
        let mut level = 0.0;
        if since >= 0 {
            level = height * ((1.0 - slow) * parts[1] + slow * parts[2] - parts[0]).max(0.0);
            parts.iter_mut().zip(decays).for_each(|(part, decay)| *part *= decay);
        }
        let noise = f32::from((random.next_u32() & 0xFF) as u8 ^ 0x80) / 32.0 - 4.0;
        let input = (BASELINE + level + noise).clamp(0.0, FULL_SCALE) as u16;
        let second = if shape.trapezoid { trapezoid(since, shape.gate, height) } else { BASELINE };
        let within = |samples: usize| (0..samples as i64).contains(&since);
        let digital = u8::from(since == 0)
            | u8::from(within(shape.gate)) << 1
            | u8::from(within(short)) << 2
            | u8::from(level > 20.0) << 3;
        Sample { input, second: second.clamp(0.0, FULL_SCALE) as u16, digital }
    }));
}

/// A trapezoid that rises for half a gate, stays for a quarter, and falls.
fn trapezoid(since: i64, gate: usize, height: f32) -> f32 {
    let (rise, since) = ((gate / 2).max(1) as f32, since as f32);
    let fall = 1.5 * rise + rise - since;
    BASELINE + 0.6 * height * (since / rise).min(fall / rise).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_pulse_rises_at_its_trigger_and_neutrons_fall_slower() {
        let shape = Shape { before_trigger: 16, gate: 50, height_per_energy: 0.2, trapezoid: false };
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let mut tails = [0.0f64; 2];
        for (index, energy_short) in [8600.0, 7000.0].into_iter().enumerate() {
            let pulse = Pulse { time_fine: 512, energy: 10_000.0, energy_short, channel: 0, marks: 0 };
            let mut samples = Vec::new();
            trace(&pulse, &shape, 128, &mut random, &mut samples);
            assert_eq!(samples.len(), 128);
            let before = samples[..16].iter().map(|sample| sample.input).max();
            let top = samples.iter().map(|sample| sample.input).max();
            assert!(before < Some(1510) && top > Some(2300), "{before:?} {top:?}");
            assert_eq!(samples.iter().filter(|sample| sample.digital & 1 != 0).count(), 1);
            assert_eq!(samples.iter().filter(|sample| sample.digital & 2 != 0).count(), 50);
            tails[index] = samples[40..80].iter().map(|sample| f64::from(sample.input) - 1500.0).sum();
        }
        assert!(tails[1] > 1.2 * tails[0], "{tails:?}");
    }
}
