//! Zero-length encoding: a waveform without the samples near its baseline.
//!
//! ```text
//!  samples  ···········▁▃▇▅▃▂▁············
//!  runs     suppressed |   good   | suppressed
//! ```
//! A board decides sample by sample; here it is four by four, a word, so that good samples fill whole words.

use super::physics::pulse::BASELINE;
use crate::digitizer2::emit::{self, ZleFields};

/// The value of suppressed samples.
pub(super) const DEFAULT_VALUE: u16 = BASELINE as u16;
/// A sample is good if it is further than this from the baseline, in ADC counts: several times the noise.
const THRESHOLD: u16 = 25;
/// Samples of a word, which are good or suppressed together.
const WORD_SAMPLES: usize = 4;
/// Words before and behind a good one that are good, too.
const MARGIN_WORDS: usize = 2;

/// Most bytes of the record of a waveform.
pub(super) fn most_record_bytes(samples: usize) -> usize {
    // A run of either kind has a word at least; two runs have one counter word.
    16 + 8 * samples.div_ceil(2 * WORD_SAMPLES) + 8 + 2 * samples
}

/// The runs of a waveform and its good samples. Reused.
#[derive(Debug, Default)]
pub(super) struct ZleRuns {
    runs: Vec<u32>,
    good: Vec<u16>,
    begins_good: bool,
    words: Vec<bool>,
}

impl ZleRuns {
    /// Divides a waveform of whole words.
    pub(super) fn divide(&mut self, waveform: &[u16]) {
        self.runs.clear();
        self.good.clear();
        let words = waveform.as_chunks::<WORD_SAMPLES>().0;
        let is_good =
            |word: &[u16; WORD_SAMPLES]| word.iter().any(|sample| sample.abs_diff(DEFAULT_VALUE) > THRESHOLD);
        self.words.clear();
        self.words.extend(words.iter().map(is_good));
        let mut before = None;
        for (index, word) in words.iter().enumerate() {
            let near = index.saturating_sub(MARGIN_WORDS)..words.len().min(index + MARGIN_WORDS + 1);
            let good = self.words[near].contains(&true);
            if good {
                self.good.extend_from_slice(word);
            }
            match self.runs.last_mut().filter(|_| before == Some(good)) {
                Some(run) => *run += WORD_SAMPLES as u32,
                None => self.runs.push(WORD_SAMPLES as u32),
            }
            if index == 0 {
                self.begins_good = good;
            }
            before = Some(good);
        }
    }

    /// Bytes of the record.
    pub(super) fn record_bytes(&self) -> usize {
        let wave = if self.good.is_empty() { 0 } else { 8 + 2 * self.good.len() };
        16 + 8 * self.runs.len().saturating_sub(1).div_ceil(2) + wave
    }

    /// Appends the record of a channel.
    pub(super) fn append(&self, out: &mut Vec<u8>, channel: u8, timestamp: u64, last_channel: bool) {
        let fields = ZleFields {
            channel,
            timestamp,
            last_channel,
            default_value: DEFAULT_VALUE,
            even_are_good: self.begins_good,
        };
        emit::zle_record(out, &fields, &self.runs, &self.good);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_a_pulse_is_good_and_runs_add_up() {
        let mut waveform = vec![DEFAULT_VALUE + 3; 64];
        waveform[30..34].copy_from_slice(&[DEFAULT_VALUE + 500; 4]);
        let mut runs = ZleRuns::default();
        runs.divide(&waveform);
        // Words 7 and 8 have the pulse; two words on either side belong to it.
        assert_eq!((runs.runs.as_slice(), runs.begins_good), (&[20, 24, 20][..], false));
        assert_eq!(runs.good, waveform[20..44]);
        let mut out = Vec::new();
        runs.append(&mut out, 3, 100, true);
        assert_eq!(out.len(), runs.record_bytes());
        runs.divide(&[DEFAULT_VALUE; 64]);
        assert_eq!((runs.runs.as_slice(), runs.good.len(), runs.begins_good), (&[64][..], 0, false));
        runs.divide(&[0; 8]);
        assert_eq!((runs.runs.as_slice(), runs.begins_good), (&[8][..], true));
    }

    #[test]
    fn no_record_is_longer_than_the_longest() {
        let mut runs = ZleRuns::default();
        for period in 1..40 {
            let waveform: Vec<u16> =
                (0..256).map(|n| if n % period == 0 { 9000 } else { DEFAULT_VALUE }).collect();
            runs.divide(&waveform);
            assert!(runs.record_bytes() <= most_record_bytes(256), "{period}");
        }
    }
}
