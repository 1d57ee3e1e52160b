//! Samples out of the words in which a board sent them.
//!
//! ```text
//!  Extra ─ chain of slices ─► bytes as received ─► Samples { analog 1, analog 2, digital }
//! ```
//! A waveform stays where it was received until somebody wants its samples: the recorder once, the page
//! for the few it draws. Layouts are those of CAEN's x27xx boards (PSD/PHA two probes, Open DPP and
//! scope packed) and plain little-endian arrays.

use crate::hit::{Extra, Layout};
use crate::pool::Leases;
use crate::slice::Slice;

/// The samples of one waveform. Reused from one to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// First analog probe, or the only one.
    pub analog_1: Vec<i32>,
    /// Second analog probe; empty when the layout has none.
    pub analog_2: Vec<i32>,
    /// Digital probes 1–4 in bits 0–3; empty when the layout has none.
    pub digital: Vec<u8>,
}

impl Samples {
    fn clear(&mut self) {
        self.analog_1.clear();
        self.analog_2.clear();
        self.digital.clear();
    }

    /// Replaces the content by the samples behind `extra`, whose chain lies in `slices` and whose bytes
    /// `leases` gives the right to read. Bytes that fill no whole word are left out.
    pub fn read(&mut self, extra: &Extra, slices: &[Slice], leases: &Leases) {
        self.clear();
        let first = extra.samples_first as usize;
        let chain = slices.get(first..first + usize::from(extra.samples_count)).unwrap_or(&[]);
        let mut word_index = 0;
        for slice in chain {
            let bytes = leases.bytes(*slice);
            match extra.layout {
                Layout::None => {}
                Layout::DualProbe => self.dual_probe(bytes, extra.info),
                Layout::Packed => self.packed(bytes),
                Layout::Interleaved => {
                    word_index = self.interleaved(bytes, word_index, extra.info);
                }
                Layout::Plain => {
                    self.analog_1.extend(
                        bytes.as_chunks::<2>().0.iter().map(|pair| i32::from(u16::from_le_bytes(*pair))),
                    );
                }
            }
        }
    }

    fn dual_probe(&mut self, bytes: &[u8], info: u64) {
        let (first, second) = (Analog::from_info(info), Analog::from_info(info >> 6));
        let words = bytes.as_chunks::<8>().0;
        let pairs = || {
            words.iter().flat_map(|word| {
                let word = u64::from_be_bytes(*word);
                [word as u32, (word >> 32) as u32]
            })
        };
        self.analog_1.extend(pairs().map(|sample| first.value(sample)));
        self.analog_2.extend(pairs().map(|sample| second.value(sample >> 16)));
        self.digital.extend(pairs().map(|sample| (sample >> 14 & 0b11 | sample >> 28 & 0b1100) as u8));
    }

    fn packed(&mut self, bytes: &[u8]) {
        self.analog_1.extend(bytes.as_chunks::<8>().0.iter().flat_map(|word| four_samples(*word)));
    }

    fn interleaved(&mut self, bytes: &[u8], word_index: usize, info: u64) -> usize {
        let (stride, first) = ((info >> 16 & 0xFFFF).max(1) as usize, (info & 0xFFFF) as usize);
        let words = bytes.as_chunks::<8>().0;
        let skip = (first + stride - word_index % stride) % stride;
        self.analog_1.extend(words.iter().skip(skip).step_by(stride).flat_map(|word| four_samples(*word)));
        word_index + words.len()
    }
}

#[inline]
fn four_samples(word: [u8; 8]) -> [i32; 4] {
    let word = u64::from_be_bytes(word);
    [word, word >> 16, word >> 32, word >> 48].map(|sample| i32::from(sample as u16))
}

/// How one analog probe's 14 bits become a value (caen-digitizer2, wave info).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Analog {
    signed: bool,
    factor: i32,
}

impl Analog {
    fn from_info(info: u64) -> Analog {
        Analog { signed: info >> 3 & 1 == 1, factor: [1, 4, 8, 16][(info >> 4 & 0b11) as usize] }
    }

    #[inline]
    fn value(self, sample: u32) -> i32 {
        let raw = (sample & 0x3FFF) as i32;
        let sign = if self.signed { (raw & 0x2000) << 1 } else { 0 };
        (raw - sign) * self.factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_probes_as_in_the_worked_example() {
        // Probe 1 signed x1: -1, 2, -3, 4; probe 2 unsigned x4: 1, 2, 3, 4; digital 1 = 1,0,0,0; 4 = 0,0,0,1.
        let bytes = [0x0002_0002_0001_7fff_u64, 0x8004_0004_0003_3ffd].map(u64::to_be_bytes).concat();
        let mut samples = Samples::default();
        samples.dual_probe(&bytes, 0x0003_2321_0488);
        assert_eq!(samples.analog_1, [-1, 2, -3, 4]);
        assert_eq!(samples.analog_2, [4, 8, 12, 16]);
        assert_eq!(samples.digital, [1, 0, 0, 8]);
    }

    #[test]
    fn channels_of_a_scope_event_are_told_apart_across_slices() {
        let bytes: Vec<u8> =
            (0u64..6).flat_map(|word| (word * 0x0001_0001_0001_0001).to_be_bytes()).collect();
        let mut samples = Samples::default();
        let index = samples.interleaved(&bytes[..24], 0, 2 << 16 | 1);
        samples.interleaved(&bytes[24..], index, 2 << 16 | 1);
        assert_eq!(samples.analog_1, [1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5]);
    }
}
