//! The ledger as metrics: a family for each entry and unit, a sample for each stage, source and reason.
//!
//! ```text
//!  order, board0, hits: in 50, out 45, late 2 ─► thalweg_input_hits_total{stage="order",source="board0",unit="hits"} 50, …
//! ```

use std::collections::BTreeMap;

use thalweg_data::ledger::Entries;
use thalweg_data::{LossReason, Unit};

use super::exposition::{Exposition, Kind};

/// Names of one unit's families: names of metrics are fixed, so they are written down and not made.
struct Names {
    unit: Unit,
    input: &'static str,
    output: &'static str,
    overhead: &'static str,
    filtered: &'static str,
    held: &'static str,
    gap_opened: &'static str,
    gap_filled: &'static str,
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
            gap_opened: concat!("thalweg_gap_opened_", $word),
            gap_filled: concat!("thalweg_gap_filled_", $word),
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
        let families: [(&str, Kind, &str, Count); 7] = [
            (names.input, Kind::Counter, "Came into a stage.", |entry| entry.input),
            (names.output, Kind::Counter, "Passed on by a stage.", |entry| entry.output),
            (names.overhead, Kind::Counter, "Framing that has done its work.", |entry| entry.overhead),
            (names.filtered, Kind::Counter, "Left out on request.", |entry| entry.filtered),
            (names.held, Kind::Gauge, "In a stage's containers now.", |entry| entry.held),
            (names.gap_opened, Kind::Counter, "Found to be missing, by sequence numbers.", |entry| {
                entry.gap_opened
            }),
            (names.gap_filled, Kind::Counter, "Found to be missing, and come all the same.", |entry| {
                entry.gap_filled
            }),
        ];
        for (name, kind, help, count) in families {
            let mut family = exposition.family(name, kind, word, help);
            for entry in of_unit() {
                let labels = [("stage", entry.stage.word()), ("source", &entry.source), ("unit", word)];
                family.sample(&labels, count(entry) as f64);
            }
        }
        type Counts = fn(&Entries) -> BTreeMap<&'static str, u64>;
        let named: [(&str, &str, &str, Counts); 2] = [
            (names.lost, "reason", "Lost, by reason; of gaps, what was found to be missing.", found_lost),
            (names.noted, "what", "Noted beside what became of them: late but kept, unseen.", |entry| {
                entry.noted.clone()
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
                    family.sample(&labels, count as f64);
                }
            }
        }
    }
}

/// What was lost, by reason, as it was found: a counter does not fall when something that was missing comes.
fn found_lost(entry: &Entries) -> BTreeMap<&'static str, u64> {
    let mut lost = entry.lost.clone();
    if let Some(gap) = LossReason::gap_of(entry.unit).filter(|_| entry.gap_filled > 0) {
        *lost.entry(gap.word()).or_default() += entry.gap_filled;
    }
    lost
}

#[cfg(test)]
mod tests {
    use thalweg_data::{Counters, Ledger, SourceId, Stage};

    use super::*;

    #[test]
    fn what_was_missing_and_comes_makes_no_counter_fall() {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        let slot = ledger.open(Stage::Wire, SourceId(0), &[Unit::Fragments]);
        let mut counters = Counters::default();
        let mut samples = |count: &dyn Fn(&mut Counters)| {
            count(&mut counters);
            slot.publish(&counters);
            let mut exposition = Exposition::default();
            write(&mut exposition, &ledger.snapshot().entries());
            let text = exposition.finish();
            let of = |name: &str| {
                let line = text.lines().find(|line| line.starts_with(name));
                line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0)
            };
            ["thalweg_lost_", "thalweg_gap_opened_", "thalweg_gap_filled_"]
                .map(|name| of(&format!("{name}fragments_total{{")) as u64)
        };
        let opened = samples(&|counters| {
            counters.input(Unit::Fragments, 5);
            counters.lost(LossReason::MissingFragment, Unit::Fragments, 5);
        });
        let filled = samples(&|counters| {
            counters.output(Unit::Fragments, 2);
            counters.gap_filled(Unit::Fragments, 2);
        });
        assert_eq!((opened, filled), ([5, 5, 0], [5, 5, 2]));
        let entries = &ledger.snapshot().entries()[0];
        assert_eq!(entries.lost.values().sum::<u64>(), 3, "what is still missing");
    }

    #[test]
    fn every_unit_has_its_names() {
        for (names, unit) in NAMES.iter().zip(Unit::ALL) {
            assert_eq!(names.unit, *unit);
            assert!(names.lost.ends_with(unit.word()));
        }
    }
}
