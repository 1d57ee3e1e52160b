//! The event filter: which of the built events are recorded.
//!
//! ```text
//!  boards ─ TCP, UDP ─► built ─► [filter] ─► on file = those that the expression keeps; rejected + on file = built
//! ```
//! The header of our fragment format has the trigger number in bytes 16 to 23, the most significant first: bit 0 of byte 23 is its parity.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use thalweg_analysis::event_filter::Prescale;
use thalweg_record::EventFiles;
use thalweg_record::read::{MergedEvents, RecordedEvent};

use crate::process::{Folder, accepted_triggers, assert_ledger_balances, number, run_directory, thalweg};
use crate::units::{PATIENT, unit};

/// Keeps events with odd triggers.
const ODD: &str = "keep = 'bit(\"boards-1\", 23, 0)'";
const TRIGGERS: u64 = 2000;

/// Four boards over TCP; `sections` follow the source.
fn configuration(folder: &Folder, sections: &str, tables: &str) -> String {
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 4\n[source.emulate]\n\
         stream = true\npayload_bytes = 300\n[trigger]\nprogram = \"constant\"\nrate_hz = 4000.0\ntriggers = {TRIGGERS}\n\
         {sections}\n[record]\ndirectory = \"{}\"\ntables = [{tables}]\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// The triggers on file, in the order of the files' rows.
#[track_caller]
fn triggers(run: &str) -> Vec<u64> {
    let inside = std::fs::read_dir(run).expect("a run").flatten().map(|entry| entry.path());
    let is_events =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("events"));
    let files: Vec<EventFiles> = inside.filter(is_events).filter_map(|path| EventFiles::of(&path)).collect();
    let mut merged = MergedEvents::open(&files).expect("whole files");
    let (mut triggers, mut event) = (Vec::new(), RecordedEvent::default());
    while merged.next_event(&mut event).expect("whole files") {
        triggers.push(event.trigger);
    }
    triggers
}

/// A run that went well: its summary, and what the filter has done.
#[track_caller]
fn filtered(file: &str) -> (Value, Value) {
    let summary = thalweg(&["run", file, "--seconds", "60", "--json"]).done().json();
    assert_ledger_balances(&summary);
    assert_eq!(summary["failures"], Value::Array(Vec::new()), "{summary:#}");
    let (events, selection) = (&summary["events"], &summary["events"]["selection"]);
    let built = number(events, "events_built");
    assert_eq!(
        number(events, "events_recorded")
            + number(selection, "rejected")
            + number(selection, "undecided_lost"),
        built,
        "{events:#}"
    );
    let selection = selection.clone();
    (summary, selection)
}

#[test]
fn events_are_selected_by_their_bytes_in_order_and_the_rest_is_counted() {
    let folder = Folder::new();
    let filter = format!("[build]\nfull = \"hold\"\n[filter]\n{ODD}\nworkers = 3\n");
    let file = configuration(&folder, &filter, "\"events\", \"fragments\", \"raw\"");
    let (summary, selection) = filtered(&file);
    let run = run_directory(&summary);
    let on_file = triggers(&run);
    assert!(on_file.iter().all(|trigger| trigger % 2 == 1), "only odd ones are kept");
    assert!(on_file.is_sorted(), "in order");
    let built = number(&summary["events"], "events_built");
    assert_eq!(on_file.len() as u64 + number(&selection, "rejected"), built);
    assert!(on_file.len() as u64 >= built / 2 - 1, "{} of {built}", on_file.len());
    assert_eq!(number(&summary["events"], "fragments_recorded"), 4 * on_file.len() as u64);
    let verified = thalweg(&["verify", &run]).done().out;
    assert!(verified.contains("selected by the event filter: bit(\"boards-1\", 23, 0)"), "{verified}");
    let inspected = thalweg(&["inspect", &run]).done().out;
    assert!(inspected.contains("selected by the event filter: bit("), "{inspected}");

    let replayed = folder.at("replayed");
    let again = thalweg(&["replay", &run, "--directory", &replayed, "--json"]).done().json();
    assert_ledger_balances(&again);
    assert_eq!(triggers(&run_directory(&again)), on_file, "a replay selects the same events");
    let even = folder.file("even.toml", "[filter]\nkeep = '!bit(\"boards-1\", 23, 0)'\n");
    let others =
        thalweg(&["replay", &run, "--directory", &replayed, "--filter", &even, "--json"]).done().json();
    assert_ledger_balances(&others);
    let others = triggers(&run_directory(&others));
    assert!(others.iter().all(|trigger| trigger % 2 == 0));
    assert_eq!((others.len() + on_file.len()) as u64, built, "what one rejects the other one keeps");
    let none = folder.file("none.toml", "[filter]\nkeep = 'fragments == 0'\nworkers = 2\nprescale = 10\n");
    let chosen =
        thalweg(&["replay", &run, "--directory", &replayed, "--filter", &none, "--json"]).done().json();
    let all = on_file.iter().chain(&others).copied().collect::<BTreeSet<u64>>();
    let expected: Vec<u64> = all.into_iter().filter(|trigger| Prescale::new(10).takes(*trigger)).collect();
    assert_eq!(
        triggers(&run_directory(&chosen)),
        expected,
        "the prescale chooses by the trigger number alone"
    );
}

#[test]
fn builder_units_select_the_same_events_and_release_all_of_them() {
    let folder = Folder::new();
    let source = |name: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 2\n[source.emulate]\n\
             stream = true\npayload_bytes = 300\n"
        )
    };
    let units = unit("ru-left", "readout", "sources = [\"left\"]")
        + &unit("ru-right", "readout", "sources = [\"right\"]")
        + &unit("bu-0", "builder", "")
        + &unit("bu-1", "builder", "")
        + &unit("evm", "manager", "");
    let text = format!(
        "{}{}{units}[trigger]\nprogram = \"constant\"\nrate_hz = 2000.0\ntriggers = {TRIGGERS}\n[build]\nfull = \"hold\"\n\
         {PATIENT}[filter]\nkeep = 'bit(\"left-1\", 23, 0)'\nworkers = 2\nprescale = 10\n[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\"]\n",
        source("left"),
        source("right"),
        folder.at("runs")
    );
    let (summary, selection) = filtered(&folder.file("run.toml", &text));
    let run = run_directory(&summary);
    let on_file = triggers(&run);
    let (built, rejected) = (number(&summary["events"], "events_built"), number(&selection, "rejected"));
    let prescaled = number(&selection, "prescaled");
    assert_eq!(number(&summary["events"], "triggers_offered"), TRIGGERS, "{summary:#}");
    assert_eq!(built, accepted_triggers(&summary), "{summary:#}");
    assert_eq!(on_file.len() as u64 + rejected, built);
    let rejected_on_file: Vec<u64> = on_file.into_iter().filter(|trigger| trigger % 2 == 0).collect();
    assert_eq!(rejected_on_file.len() as u64, prescaled);
    assert!(prescaled > 0 && rejected > 5 * prescaled, "{selection:#}");
    let found: BTreeSet<u64> = rejected_on_file.into_iter().collect();
    let even = (0..=found.last().copied().unwrap_or(0)).step_by(2);
    let chosen: BTreeSet<u64> = even.filter(|trigger| Prescale::new(10).takes(*trigger)).collect();
    assert_eq!(found, chosen, "whichever unit got them");
    // Ranges of triggers hold all that was built, the tables what was selected of it.
    thalweg(&["verify", &run]).done();
}

#[test]
fn time_slices_of_hits_are_selected_by_their_bytes() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"ge\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nchannels = 4\n[source.emulate]\nchannels = 4\n\
         rate_hz = 100000.0\n[slices]\nslice_ps = 1_000_000_000\n[filter]\nkeep = 'fragment_bytes(\"ge/slices\") > 0 && trigger < 100'\n\
         [record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let summary = thalweg(&["run", &file, "--seconds", "1", "--json"]).done().json();
    assert_ledger_balances(&summary);
    let on_file = triggers(&run_directory(&summary));
    assert!(!on_file.is_empty() && on_file.iter().all(|number| *number < 100), "{on_file:?}");
    let selection = &summary["events"]["selection"];
    let built = number(&summary["events"], "events_built");
    assert_eq!(number(selection, "rejected") + on_file.len() as u64, built, "{selection:#}");
    thalweg(&["verify", &run_directory(&summary)]).done();
}

#[test]
fn filters_that_cannot_be_are_refused_with_line_place_and_what_there_is() {
    let folder = Folder::new();
    let refused = |filter: &str| {
        let file = configuration(&folder, &format!("[filter]\n{filter}\n"), "\"events\", \"fragments\"");
        let ended = thalweg(&["run", &file, "--explain"]);
        assert_ne!(ended.code, Some(0), "{filter}");
        ended.error
    };
    let unknown = refused("keep = 'present(\"boards-9\")'");
    assert!(
        unknown.contains("run.toml: line 14: [filter]: `keep`: no board is called \"boards-9\""),
        "{unknown}"
    );
    assert!(unknown.contains("boards-1, boards-2, boards-3, boards-4"), "{unknown}");
    assert!(unknown.contains("    present(\"boards-9\")\n            ^"), "{unknown}");
    assert!(refused("workers = 2").contains("missing field `keep`"));
    let workers = refused("keep = 'complete'\nworkers = 65");
    assert!(workers.contains("`workers = 65`: write 1 to 64"), "{workers}");
    let late = refused("keep = 'complete'\ndeadline_ms = 0");
    assert!(late.contains("`deadline_ms = 0`: write 1 to 86400000"), "{late}");
    assert!(refused("keep = 'complete'\nundecided = \"maybe\"").contains("`keep` or `drop`"));
    assert!(refused("keep = 'complete'\nkind = \"neural\"").contains("it has \"expression\""));
    let hits = "[[source]]\nname = \"ge\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n[filter]\nkeep = 'complete'\n";
    let none = thalweg(&["run", &folder.file("hits.toml", hits), "--explain"]).error;
    assert!(none.contains("it selects built events, and this run builds none"), "{none}");
}
