//! The list of places that no run misses, each with the reason; it may only become shorter.
//!
//! ```text
//!  unnoticed crates/order/src/x.rs | tally.filtered(Unit::Hits, 1) | why no law can see it
//!  unreached crates/record/src/y.rs | tally.lost(reason, unit, 3) | what would have to happen
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use super::source_text::Place;

/// Where the list stands.
const LIST: &str = "tests/run/mutation/reviewed.txt";

#[derive(Debug, PartialEq, Eq)]
struct Entry<'t> {
    kind: &'t str,
    file: &'t str,
    text: &'t str,
}

fn entries(list: &str) -> Vec<Entry<'_>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| entry(line).unwrap_or_else(|| panic!("no kind, place, line and reason in: {line}")))
        .collect()
}

/// A line may hold the separator itself, so the file is what stands before the first and the reason what stands behind the last.
fn entry(line: &str) -> Option<Entry<'_>> {
    let (kind, rest) = line.split_once(' ')?;
    let (place, reason) = rest.rsplit_once(" | ")?;
    let (file, text) = place.split_once(" | ")?;
    (!reason.is_empty()).then_some(Entry { kind, file, text })
}

/// Holds what was found against the list.
///
/// # Panics
/// When a place is missing in the list, or an entry names no place that counts.
pub fn hold_against(
    unnoticed: &[&Place],
    unreached: &[&Place],
    noticed: &BTreeSet<&Place>,
    all: &BTreeSet<Place>,
) {
    let list = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST)).expect("the list");
    let entries = entries(&list);
    let mut wrong = Vec::new();
    for (kind, places) in [("unnoticed", unnoticed), ("unreached", unreached)] {
        for place in places {
            let is_listed = |entry: &Entry<'_>| entry.file == place.file && entry.text == place.text;
            // On a slow machine a run comes where it does not come otherwise, and may not come there again.
            if !entries.iter().any(is_listed) {
                wrong.push(format!("{kind} {} | {} | line {}", place.file, place.text, place.line));
            }
        }
    }
    for entry in &entries {
        let of_it = |place: &&Place| place.file == entry.file && place.text == entry.text;
        if !all.iter().any(|place| of_it(&place)) {
            wrong.push(format!("listed, and is not in the source text: {entry:?}"));
        } else if noticed.iter().any(of_it) && entry.kind == "unnoticed" {
            println!("listed, and noticed this time: {entry:?}");
        }
    }
    assert!(wrong.is_empty(), "places that count and are not watched over:\n{}", wrong.join("\n"));
}
