//! The list of places that no run misses, each with the reason; it may only become shorter.
//!
//! ```text
//!  unnoticed crates/order/src/x.rs | counters.filtered(Unit::Hits, 1) | why no balance equation can see it
//!  unreached crates/record/src/y.rs | counters.lost(reason, unit, 3) | what would have to happen
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use super::source_text::Place;

/// Where the list stands.
const LIST: &str = "tests/run/mutation/reviewed.txt";

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    kind: String,
    file: String,
    text: String,
}

/// The list.
pub struct List(Vec<Entry>);

impl Entry {
    /// A line may hold the separator itself, so the file is what stands before the first and the reason what stands behind the last.
    fn of(line: &str) -> Option<Entry> {
        let (kind, rest) = line.split_once(' ')?;
        let (place, reason) = rest.rsplit_once(" | ")?;
        let (file, text) = place.split_once(" | ")?;
        let entry = Entry { kind: kind.to_owned(), file: file.to_owned(), text: text.to_owned() };
        (!reason.is_empty()).then_some(entry)
    }

    fn is(&self, place: &Place) -> bool {
        self.file == place.file && self.text == place.text
    }
}

impl List {
    /// Reads the list.
    ///
    /// # Panics
    /// When a line of it says too little.
    pub fn load() -> List {
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST)).expect("the list");
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entry =
            |line| Entry::of(line).unwrap_or_else(|| panic!("no kind, place, line and reason in: {line}"));
        List(lines.map(entry).collect())
    }

    /// Whether it says that no run notices this place.
    pub fn has_unnoticed(&self, place: &Place) -> bool {
        self.0.iter().any(|entry| entry.is(place) && entry.kind == "unnoticed")
    }

    /// Holds what was found against the list.
    ///
    /// # Panics
    /// When a place is missing in the list, or an entry names no place that counts.
    pub fn hold_against(
        &self,
        unnoticed: &[&Place],
        unreached: &[&Place],
        noticed: &BTreeSet<&Place>,
        all: &BTreeSet<Place>,
    ) {
        let mut wrong = Vec::new();
        for (kind, places) in [("unnoticed", unnoticed), ("unreached", unreached)] {
            for place in places {
                // On a slow machine a run comes where it does not come otherwise, and may not come there again.
                if !self.0.iter().any(|entry| entry.is(place)) {
                    wrong.push(format!("{kind} {} | {} | line {}", place.file, place.text, place.line));
                }
            }
        }
        for entry in &self.0 {
            if !all.iter().any(|place| entry.is(place)) {
                wrong.push(format!("listed, and is not in the source text: {entry:?}"));
            } else if noticed.iter().any(|place| entry.is(place)) && entry.kind == "unnoticed" {
                println!("listed, and noticed this time: {entry:?}");
            }
        }
        assert!(wrong.is_empty(), "places that count and are not watched over:\n{}", wrong.join("\n"));
    }
}
