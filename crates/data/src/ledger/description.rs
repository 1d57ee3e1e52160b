//! The description in a ledger file, which gives the meaning of its cells.
//!
//! ```text
//!  names in a file: stages, units, reasons, notes ─► Words: the index of each of its cells among the cells of this program
//!                                                    an unknown stage or reason takes one of the free slots for added ones
//! ```

use serde::{Deserialize, Serialize};

use super::counters::{CELLS, ROW, entry};
use super::stages::StageRole;
use super::vocabulary::{LossReason, Noted, Stage, Unit};
use crate::topology::Topology;

/// The description that follows the counters in a file.
#[derive(Serialize, Deserialize)]
pub(super) struct Description {
    stages: Vec<String>,
    units: Vec<String>,
    /// The entries before the losses of a unit. Older files do not list them.
    #[serde(default = "legacy_entries")]
    entries: Vec<String>,
    reasons: Vec<String>,
    /// Older files have none.
    #[serde(default)]
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
}

/// The meaning of the cells of a file.
pub(super) struct Words {
    pub stages: Vec<Stage>,
    pub units: Vec<Unit>,
    /// For each cell of a counter slot, its index among the cells of this program; `None` for the cell of a free slot for a reason.
    pub cells: Vec<Option<usize>>,
    /// Number of words of a counter slot, including its header.
    pub slot_words: usize,
}

/// The reasons in the order of the cells; `None` for a free slot.
fn reasons() -> Vec<Option<LossReason>> {
    let mut reasons: Vec<_> = LossReason::known().map(Some).collect();
    reasons.resize(LossReason::CAPACITY, None);
    reasons
}

fn legacy_entries() -> Vec<String> {
    entry::WORDS[..entry::LEGACY].iter().map(|word| (*word).to_owned()).collect()
}

/// Converts each of these names.
fn each<T>(words: &[String], of: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    words.iter().map(|word| of(word)).collect()
}

impl Description {
    /// The description of a ledger that is made now. A stage that is added later has no counters in it.
    pub fn of(topology: Option<&Topology>) -> Description {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
        Description {
            stages: words(&Stage::known().map(|each| each.word()).collect::<Vec<_>>()),
            units: words(&Unit::ALL.iter().map(|each| each.word()).collect::<Vec<_>>()),
            entries: words(&entry::WORDS),
            reasons: reasons().iter().map(|each| each.map_or("", LossReason::word).to_owned()).collect(),
            notes: words(&Noted::ALL.iter().map(|each| each.word()).collect::<Vec<_>>()),
            topology: topology.cloned(),
        }
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}

impl Words {
    /// The cells of a ledger that this program has just described.
    pub fn ours(description: &Description) -> Words {
        Words::of(description, (description.stages.len(), CELLS))
            .expect("a program can read its own description")
    }

    /// The cells of a file of version 1, which has no description, no notes and no counts of spectra.
    pub fn legacy() -> Words {
        let reasons: Vec<Option<LossReason>> = LossReason::ALL.iter().copied().map(Some).collect();
        let stages = Stage::ALL.iter().copied().filter(|stage| stage.role() != StageRole::Display).collect();
        let entries: Vec<usize> = (0..entry::LEGACY).collect();
        Words::by_index(stages, Unit::ALL.to_vec(), &entries, (&reasons, &[]))
    }

    /// Number of stages, and of cells per counter slot.
    pub fn shape(&self) -> (usize, usize) {
        (self.stages.len(), self.cells.len())
    }

    /// The cells of a file with this shape.
    ///
    /// # Errors
    /// A text that names the first word that this program does not know.
    pub fn of(description: &Description, shape: (usize, usize)) -> Result<Words, String> {
        let unknown = |word: &str| {
            format!(
                "it counts `{word}`, which this version does not know; use the version that wrote the file"
            )
        };
        let added = |error: super::WordError| format!("its description: {error}");
        let reason = |word: &str| match word {
            "" => Ok(None),
            word => LossReason::of_file(word).map(Some).map_err(added),
        };
        let stages = each(&description.stages, |word| Stage::of_file(word).map_err(added))?;
        let units = each(&description.units, |word| Unit::from_word(word).ok_or_else(|| unknown(word)))?;
        let index = |word: &str| entry::WORDS.iter().position(|known| *known == word);
        let entries = each(&description.entries, |word| index(word).ok_or_else(|| unknown(word)))?;
        let reasons = each(&description.reasons, reason)?;
        let notes = each(&description.notes, |word| Noted::from_word(word).ok_or_else(|| unknown(word)))?;
        let words = Words::by_index(stages, units, &entries, (&reasons, &notes));
        match words.shape() == shape {
            true => Ok(words),
            false => Err(format!(
                "its header says {} stages and {} cells, its description {} and {}",
                shape.0,
                shape.1,
                words.stages.len(),
                words.cells.len()
            )),
        }
    }

    fn by_index(
        stages: Vec<Stage>,
        units: Vec<Unit>,
        entries: &[usize],
        (reasons, notes): (&[Option<LossReason>], &[Noted]),
    ) -> Words {
        let reasons = reasons.iter().map(|reason| reason.map(|reason| entry::FIRST_LOSS + reason.index()));
        let notes = notes.iter().map(|what| Some(entry::FIRST_NOTE + *what as usize));
        let fixed = entries.iter().copied().map(Some);
        let entries: Vec<Option<usize>> = fixed.chain(reasons).chain(notes).collect();
        let row = |unit: &Unit| {
            let first = *unit as usize * ROW;
            entries.iter().map(move |entry| entry.map(|entry| first + entry)).collect::<Vec<_>>()
        };
        let cells: Vec<Option<usize>> = units.iter().flat_map(row).collect();
        let slot_words = super::file::LINE_WORDS + cells.len().next_multiple_of(super::file::LINE_WORDS);
        Words { stages, units, cells, slot_words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_is_added_while_a_ledger_is_made_has_no_counter_slot_in_it() {
        let description = Description::of(None);
        let late = Stage::add("added_meanwhile", "comes between").expect("a free slot");
        let reason = LossReason::add("lost_meanwhile", "comes between").expect("a free slot");
        let words = Words::ours(&description);
        assert_eq!(words.stages.len(), description.stages.len());
        assert!(!words.stages.contains(&late), "nor a name");
        let cell = Some(entry::FIRST_LOSS + reason.index());
        assert!(!words.cells.contains(&cell), "nor a cell that the file could not name");
    }
}
