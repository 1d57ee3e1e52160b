//! The sources of a table of waveforms: which numbers hold their samples, and what the table says of them.
//!
//! ```text
//!  WaveformFacts of each source ──► columns (uint16, or int16 with wide ones beside) · `thalweg.waveforms` in the schema
//! ```

use std::sync::Arc;

use serde_json::{Value, json};
use thalweg_data::SourceId;
use thalweg_data::waveform_facts::{SampleRange, WaveformFacts};

use crate::table::{Column, Table};

/// What is known of the waveforms of all sources, by number. Of a source beyond the end nothing is.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaveformSources {
    facts: Arc<[WaveformFacts]>,
    /// Whether every sample of every source has 16 bits and no sign.
    is_unsigned: bool,
}

impl WaveformSources {
    /// Of these sources.
    pub fn new(facts: &[WaveformFacts]) -> WaveformSources {
        let has = |range| facts.iter().any(|facts| facts.samples == range);
        WaveformSources {
            facts: facts.into(),
            is_unsigned: has(SampleRange::Unsigned16) && !has(SampleRange::Scaled14),
        }
    }

    /// The columns of the table.
    pub fn columns(&self) -> &'static [Column] {
        Table::Waveforms.shapes()[usize::from(self.is_unsigned)]
    }

    /// What is known of a source.
    pub fn facts(&self, source: SourceId) -> WaveformFacts {
        self.facts.get(source.index()).copied().unwrap_or_default()
    }

    /// Whether numbers of 16 bits hold every sample within these bounds. Where all sources are unsigned, they do.
    pub fn fits(&self, (least, most): (i32, i32)) -> bool {
        self.is_unsigned || least >= i16::MIN.into() && most <= i16::MAX.into()
    }

    /// Whether there are columns for the samples that 16 bits do not hold.
    pub fn has_wide(&self) -> bool {
        !self.is_unsigned
    }

    /// What the schema says of the sources, as JSON: one object for each, in their order, with null for what is unknown.
    pub fn words(&self, names: &[String]) -> String {
        let name = |names: &[&str]| -> Value {
            let known = |name: &&str| if name.is_empty() { Value::Null } else { (*name).into() };
            if names.is_empty() { Value::Null } else { names.iter().map(known).collect() }
        };
        let sources = names.iter().enumerate().map(|(number, source)| {
            let facts = self.facts(SourceId(number as u16));
            json!({
                "source": source,
                "sample_ps": facts.sample_ps,
                "decimation": facts.decimation,
                "samples_before_trigger": facts.samples_before_trigger,
                "analog_probes": name(facts.analog_probes),
                "digital_probes": name(facts.digital_probes),
            })
        });
        Value::from_iter(sources).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(ranges: &[SampleRange]) -> WaveformSources {
        let facts =
            ranges.iter().map(|samples| WaveformFacts { samples: *samples, ..WaveformFacts::default() });
        WaveformSources::new(&facts.collect::<Vec<_>>())
    }

    #[test]
    fn unsigned_samples_need_no_wide_columns_and_others_have_them() {
        use SampleRange::{None, Scaled14, Unsigned16};
        let unsigned = sources(&[Unsigned16, None]);
        assert!(!unsigned.has_wide() && unsigned.fits((0, 65_535)));
        for mixed in [sources(&[Scaled14, Unsigned16]), sources(&[None]), sources(&[])] {
            assert!(mixed.has_wide() && mixed.fits((-32_768, 32_767)) && !mixed.fits((0, 65_535)));
            assert_eq!(mixed.columns(), Table::Waveforms.columns());
        }
    }

    #[test]
    fn the_schema_says_null_of_what_is_unknown() {
        let known = WaveformFacts {
            sample_ps: Some(8000.0),
            analog_probes: &["adc_input", ""],
            ..Default::default()
        };
        let words = WaveformSources::new(&[known]).words(&["a".to_owned(), "b".to_owned()]);
        let words: Value = serde_json::from_str(&words).expect("JSON");
        assert_eq!(words[0]["sample_ps"], 8000.0);
        assert_eq!(words[0]["analog_probes"], json!(["adc_input", null]));
        assert!(words[0]["samples_before_trigger"].is_null() && words[1]["analog_probes"].is_null());
    }
}
