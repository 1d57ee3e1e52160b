//! What is known of a source's waveforms before the first one comes, and what each waveform says of itself.
//!
//! ```text
//!  format, configuration, board ─► WaveformFacts ─┐
//!  Extra ─► WaveformHead { probes, decimation } ──┴─► period of the samples, time of the first one: known or not
//! ```
//! What neither says is unknown, and is never replaced by 0 or by what is usual.

use serde::Serialize;

use crate::hit::{Extra, Layout};

/// The numbers that samples can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleRange {
    /// The format has no waveforms.
    #[default]
    None,
    /// Unsigned numbers of 16 bits.
    Unsigned16,
    /// Numbers of 14 bits, with or without a sign, that the board multiplies by up to 16.
    Scaled14,
}

/// What format, configuration and board say of all waveforms of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaveformFacts {
    /// The numbers that samples can be.
    pub samples: SampleRange,
    /// Picoseconds between samples where the board leaves none out.
    pub sample_ps: Option<f64>,
    /// How many samples the board combines to one, where a waveform does not say so itself.
    pub decimation: Option<u32>,
    /// Samples before the trigger.
    pub samples_before_trigger: Option<u32>,
    /// Names of the analog signals, by the code that a waveform has for them; empty where they are unknown.
    pub analog_probes: &'static [&'static str],
    /// Names of the digital signals, likewise.
    pub digital_probes: &'static [&'static str],
}

/// What a waveform says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaveformHead {
    /// Codes of the two analog signals.
    pub analog: [Option<u8>; 2],
    /// Codes of the four digital signals, four bits each, the first in bits 3..0.
    pub digital: Option<u16>,
    /// How many samples the board has combined to one.
    pub decimation: Option<u32>,
    /// Least and greatest value that the samples of either analog signal can have.
    pub bounds: [(i32, i32); 2],
}

impl WaveformHead {
    /// What the extra of a hit with samples says.
    pub fn of(extra: &Extra) -> WaveformHead {
        match extra.layout {
            Layout::DualProbe => {
                let probe = |bits: u64| (bits & 7) as u8;
                WaveformHead {
                    analog: [Some(probe(extra.info)), Some(probe(extra.info >> 6))],
                    digital: Some((extra.info >> 12) as u16),
                    decimation: Some(1 << (extra.info >> 44 & 3)),
                    bounds: [bounds_of(extra.info), bounds_of(extra.info >> 6)],
                }
            }
            Layout::Plain => {
                // CoMPASS says by a number which signal it has saved.
                let probe = u8::try_from(extra.number).ok();
                WaveformHead {
                    analog: [probe, None],
                    bounds: [UNSIGNED_16, (0, 0)],
                    ..WaveformHead::default()
                }
            }
            Layout::Packed | Layout::Interleaved => {
                WaveformHead { bounds: [UNSIGNED_16, (0, 0)], ..WaveformHead::default() }
            }
            Layout::None => WaveformHead::default(),
        }
    }
}

const UNSIGNED_16: (i32, i32) = (0, u16::MAX as i32);

/// The bounds of 14 bits with a sign (bit 3) or without, times the factor (bits 5..4).
fn bounds_of(info: u64) -> (i32, i32) {
    let factor = [1, 4, 8, 16][(info >> 4 & 3) as usize];
    if info >> 3 & 1 == 1 { (-0x2000 * factor, 0x1FFF * factor) } else { (0, 0x3FFF * factor) }
}

impl WaveformFacts {
    /// Picoseconds between the samples of a waveform; `None` where they are not known.
    pub fn sample_ps(&self, head: &WaveformHead) -> Option<f64> {
        let decimation = head.decimation.or(self.decimation)?;
        Some(self.sample_ps? * f64::from(decimation))
    }

    /// Picoseconds from the hit's time to the first sample, negative where that is before it; `None` where it is not known, as for
    /// a waveform in which samples are combined: boards differ in what they count then.
    pub fn first_sample_ps(&self, head: &WaveformHead) -> Option<i64> {
        let is_full_rate = head.decimation.or(self.decimation) == Some(1);
        let before = self.samples_before_trigger.filter(|_| is_full_rate)?;
        Some(-(self.sample_ps? * f64::from(before)).round() as i64)
    }

    /// The codes of a waveform's analog signals, if known: those that it says, or the only one that its source has.
    pub fn analog_codes(&self, head: &WaveformHead) -> [Option<u8>; 2] {
        let only = (self.analog_probes.len() == 1).then_some(0);
        [head.analog[0].or(only), head.analog[1]]
    }

    /// The name of an analog signal; `None` where it is not known.
    pub fn analog_name(&self, code: u8) -> Option<&'static str> {
        self.analog_probes.get(usize::from(code)).copied().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hit::Hit;
    use crate::id::SourceId;

    fn extra(layout: Layout, info: u64) -> Extra {
        Extra { layout, info, ..Extra::of(&Hit::default(), SourceId(0)) }
    }

    #[test]
    fn the_worked_example_says_which_probes_it_has_and_how_they_are_scaled() {
        // Probe 1 = ADC input signed x1, probe 2 = CFD (2) unsigned x4, digital 0, 1, 2, 3, threshold 50, every second sample.
        let head = WaveformHead::of(&extra(Layout::DualProbe, 0x1003_2321_0488));
        assert_eq!((head.analog, head.digital), ([Some(0), Some(2)], Some(0x3210)));
        assert_eq!(head.decimation, Some(2));
        assert_eq!(head.bounds, [(-8192, 8191), (0, 65_532)]);
    }

    #[test]
    fn what_nobody_says_is_unknown() {
        let packed = WaveformHead::of(&extra(Layout::Packed, 0));
        let unknown = WaveformFacts::default();
        assert_eq!((unknown.sample_ps(&packed), unknown.first_sample_ps(&packed)), (None, None));
        let clock = WaveformFacts { sample_ps: Some(8000.0), ..WaveformFacts::default() };
        assert_eq!(clock.sample_ps(&packed), None, "the board may combine samples");
        let known = WaveformFacts { decimation: Some(1), samples_before_trigger: Some(16), ..clock };
        assert_eq!(known.sample_ps(&packed), Some(8000.0));
        assert_eq!(known.first_sample_ps(&packed), Some(-128_000));
        let halved = WaveformHead::of(&extra(Layout::DualProbe, 1 << 44));
        assert_eq!((known.sample_ps(&halved), known.first_sample_ps(&halved)), (Some(16_000.0), None));
        assert_eq!((known.analog_name(0), known.analog_codes(&packed)), (None, [None, None]));
        let input = WaveformFacts { analog_probes: &["adc_input"], ..known };
        assert_eq!((input.analog_name(0), input.analog_codes(&packed)), (Some("adc_input"), [Some(0), None]));
    }
}
