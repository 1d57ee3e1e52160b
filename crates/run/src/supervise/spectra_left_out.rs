//! Spectra that a run has not filled or not saved, in its summary and its record.
//!
//! ```text
//!  [spectra] memory_bytes ─► not filled ─┬─► summary · run.json
//!  limit of spectra.json ──► not saved ──┘
//! ```

use std::fmt::Write;

use serde::Serialize;
use thalweg_analysis::spectrum::BeyondMemory;

/// Bytes of `spectra.json`, at most: eight boards of 64 channels with all their planes, which are mostly zeros, take 75 MB.
pub(crate) const MOST_SPECTRA_BYTES: usize = 128 << 20;
/// Spectra that the text names.
const NAMES_SHOWN: usize = 4;

/// Spectra that a run has not filled or not saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpectraLeftOut {
    /// Default spectra that were not filled because `[spectra] memory_bytes` has no space for them.
    pub beyond_memory: Option<BeyondMemory>,
    /// Names of the spectra that were filled and are not in `spectra.json`, which has a limit.
    pub beyond_file: Vec<String>,
}

impl SpectraLeftOut {
    /// Whether there are any.
    pub(crate) fn is_any(&self) -> bool {
        self.beyond_memory.is_some() || !self.beyond_file.is_empty()
    }

    /// The same for people.
    pub(super) fn write(&self, text: &mut String) -> std::fmt::Result {
        if let Some(beyond) = self.beyond_memory {
            let what = match beyond {
                BeyondMemory::All => "the default spectra of all channels",
                BeyondMemory::Planes => "the planes of energy against pulse shape of all channels",
            };
            writeln!(text, "  not filled, as `[spectra] memory_bytes` has no space for them: {what}")?;
        }
        if self.beyond_file.is_empty() {
            return Ok(());
        }
        let (count, most_mb) = (self.beyond_file.len(), MOST_SPECTRA_BYTES / 1_000_000);
        let names = self.beyond_file.iter().take(NAMES_SHOWN).map(|name| format!("\"{name}\""));
        let names = names.collect::<Vec<_>>().join(", ");
        write!(text, "  spectra that are not in spectra.json, which has at most {most_mb} MB: {names}")?;
        match count.checked_sub(NAMES_SHOWN) {
            Some(others @ 1..) => writeln!(text, " and {others} others; `run.json` names all"),
            _ => writeln!(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(left_out: &SpectraLeftOut) -> String {
        let mut text = String::new();
        left_out.write(&mut text).expect("a string takes all");
        text
    }

    #[test]
    fn spectra_that_are_not_saved_are_named_or_counted() {
        assert!(!SpectraLeftOut::default().is_any() && text(&SpectraLeftOut::default()).is_empty());
        let left_out = |count: u32| SpectraLeftOut {
            beyond_file: (0..count).map(|number| format!("plane {number}")).collect(),
            ..SpectraLeftOut::default()
        };
        assert_eq!(
            text(&left_out(2)),
            "  spectra that are not in spectra.json, which has at most 134 MB: \"plane 0\", \"plane 1\"\n"
        );
        assert!(text(&left_out(4)).ends_with("\"plane 3\"\n"));
        assert!(text(&left_out(6)).ends_with("\"plane 3\" and 2 others; `run.json` names all\n"));
    }

    #[test]
    fn spectra_without_memory_are_named_with_the_key() {
        let left_out = SpectraLeftOut { beyond_memory: Some(BeyondMemory::Planes), beyond_file: Vec::new() };
        assert!(left_out.is_any());
        let text = text(&left_out);
        assert!(text.contains("memory_bytes") && text.contains("planes"), "{text}");
    }
}
