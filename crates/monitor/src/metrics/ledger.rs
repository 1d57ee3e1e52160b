//! The books as metrics: a family for each entry and unit, a sample for each stage, source and reason.
//!
//! ```text
//!  order, board0, hits: in 50, out 45, late 2 ─► thalweg_input_hits_total{stage="order",source="board0",unit="hits"} 50, …
//! ```

use std::collections::BTreeMap;

use thalweg_data::Unit;
use thalweg_data::ledger::Entries;

use super::exposition::{Exposition, Kind};

/// Names of one unit's families: names of metrics are fixed, so they are written down and not made.
struct Names {
    unit: Unit,
    input: &'static str,
    output: &'static str,
    overhead: &'static str,
    filtered: &'static str,
    held: &'static str,
    lost: &'static str,
    noted: &'static str,
}

macro_rules! names {
    ($($unit:ident $word:literal),+ $(,)?) => {
        [$(Names {
            unit: Unit::$unit,
            input: concat!("thalweg_input_", $word),
            output: concat!("thalweg_output_", $word),
            overhead: concat!("thalweg_overhead_", $word),
            filtered: concat!("thalweg_filtered_", $word),
            held: concat!("thalweg_held_", $word),
            lost: concat!("thalweg_lost_", $word),
            noted: concat!("thalweg_noted_", $word),
        }),+]
    };
}

const NAMES: [Names; Unit::COUNT] = names![
    Datagrams "datagrams", Bytes "bytes", Frames "frames", Hits "hits", Fragments "fragments", Events "events",
];

/// Writes all entries.
pub(super) fn write(exposition: &mut Exposition, entries: &[Entries]) {
    for names in &NAMES {
        let word = names.unit.word();
        let of_unit = || entries.iter().filter(|entry| entry.unit == names.unit);
        type Count = fn(&Entries) -> u64;
        let families: [(&str, Kind, &str, Count); 5] = [
            (names.input, Kind::Counter, "Came into a stage.", |entry| entry.input),
            (names.output, Kind::Counter, "Passed on by a stage.", |entry| entry.output),
            (names.overhead, Kind::Counter, "Framing that has done its work.", |entry| entry.overhead),
            (names.filtered, Kind::Counter, "Left out on request.", |entry| entry.filtered),
            (names.held, Kind::Gauge, "In a stage's containers now.", |entry| entry.held),
        ];
        for (name, kind, help, count) in families {
            let mut family = exposition.family(name, kind, word, help);
            for entry in of_unit() {
                let labels = [("stage", entry.stage.word()), ("source", &entry.source), ("unit", word)];
                family.sample(&labels, count(entry) as f64);
            }
        }
        type Counts = fn(&Entries) -> &BTreeMap<&'static str, u64>;
        let named: [(&str, &str, &str, Counts); 2] = [
            (names.lost, "reason", "Lost, by reason.", |entry| &entry.lost),
            (names.noted, "what", "Told beside what became of them: late but kept, unseen.", |entry| {
                &entry.noted
            }),
        ];
        for (name, by, help, counts) in named {
            let mut family = exposition.family(name, Kind::Counter, word, help);
            for entry in of_unit() {
                for (each, count) in counts(entry) {
                    let labels = [
                        ("stage", entry.stage.word()),
                        ("source", &entry.source),
                        ("unit", word),
                        (by, each),
                    ];
                    family.sample(&labels, *count as f64);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_its_names() {
        for (names, unit) in NAMES.iter().zip(Unit::ALL) {
            assert_eq!(names.unit, *unit);
            assert!(names.lost.ends_with(unit.word()));
        }
    }
}
