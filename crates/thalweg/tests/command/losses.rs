//! Losses made on purpose, and snapshot that name every one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use thalweg_record::read::{EventsFile, LossesReader, RecordedEvent};
use thalweg_record::{LossRow, Table};

use crate::demo::demo_until;
use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg, wait_until};

#[test]
fn one_percent_of_the_datagrams_of_two_boards_dropped_by_a_seed_is_accounted_for_exactly() {
    let folder = Folder::new();
    let arguments = ["--boards", "2", "--loss", "0.01", "--seed", "11"];
    // Nine hundred datagrams of each board.
    let enough = |state: &Value| {
        let hits = |board: usize| state["sources"][board]["hits"].as_u64();
        hits(0).min(hits(1)) > Some(400_000)
    };
    let summary = demo_until(&folder, &arguments, "enough hits of both boards", enough);
    assert_ledger_balances(&summary);
    let (sent, lost) = (number(&summary, "hits_sent"), number(&summary, "hits_lost"));
    assert!(lost > 0, "{summary:#}");
    let fraction = lost as f64 / sent as f64;
    assert!((0.002..0.05).contains(&fraction), "{fraction} lost of {sent}");
    let losses = summary["losses"].as_array().expect("a list");
    for source in ["board-1", "board-2"].iter() {
        let gaps: Vec<_> = losses.iter().filter(|loss| loss["source"] == **source).collect();
        assert!(
            gaps.iter().any(|loss| loss["unit"] == "datagrams" && loss["quality"] == "exact"),
            "{gaps:#?}"
        );
    }
}

#[test]
fn without_loss_nothing_is_lost() {
    let folder = Folder::new();
    let arguments = ["demo", "--boards", "3", "--seconds", "1", "--rate", "2000", "--json"];
    let summary = thalweg(&[&arguments[..], &["--directory", &folder.at("runs")]].concat()).done().json();
    assert_ledger_balances(&summary);
    assert_eq!(number(&summary, "hits_lost"), 0, "{summary:#}");
}

/// How many were lost, by source, stage, reason and unit.
type Sums = BTreeMap<[String; 4], i64>;

/// What a run's list of losses adds up to.
#[track_caller]
fn listed(directory: &str) -> (Vec<LossRow>, Sums) {
    let file = Path::new(directory).join(Table::Losses.file_name());
    let rows = LossesReader::open(&file).and_then(LossesReader::read_all).expect("a list of losses");
    let mut sums = Sums::new();
    for row in &rows {
        let of = [row.subject.clone(), row.stage.clone(), row.reason.clone(), row.unit.clone()];
        *sums.entry(of).or_default() += row.count;
    }
    sums.retain(|_, count| *count != 0);
    (rows, sums)
}

/// The folder of a run that goes on among the runs of a test.
fn run_in(folder: &Folder) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder.at("runs")).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|path| path.is_dir())
}

/// How many batches a run's list of losses has so far.
fn batches(run: &Path) -> Option<usize> {
    let mut reader = LossesReader::open(&run.join(Table::Losses.file_name())).ok()?;
    let mut batches = 0;
    while reader.next_batch().ok()?.is_some() {
        batches += 1;
    }
    Some(batches)
}

/// What the ledger of a run that has ended has lost.
fn in_ledger(summary: &Value) -> Sums {
    let rows = summary["losses"].as_array().expect("a list");
    let word = |row: &Value, key: &str| row[key].as_str().expect("a word").to_owned();
    let key = |row| ["source", "stage", "reason", "unit"].map(|key| word(row, key));
    rows.iter().map(|row| (key(row), row["count"].as_i64().expect("a number"))).collect()
}

#[test]
fn the_list_of_losses_of_two_lossy_boards_adds_up_to_the_ledger() {
    let folder = Folder::new();
    let on_file = |_: &Value| run_in(&folder).as_deref().and_then(batches) >= Some(3);
    let arguments = ["--boards", "2", "--loss", "0.02"];
    let summary = demo_until(&folder, &arguments, "three batches of losses on file", on_file);
    let directory = run_directory(&summary);
    let (rows, sums) = listed(&directory);
    assert!(!sums.is_empty() && sums == in_ledger(&summary), "{sums:#?} in {summary:#}");
    let times: BTreeSet<u64> = rows.iter().map(|row| row.until_ns).collect();
    assert!(times.len() > 1, "losses all along the run have several times: {times:?}");
    assert!(rows.iter().all(|row| row.from_ns < row.until_ns && row.count > 0), "{rows:#?}");
    let verified = thalweg(&["verify", &directory, "--json"]).done().json();
    assert_eq!((&verified["ok"], number(&verified["losses"], "rows")), (&true.into(), rows.len() as u64));
    let inspected = thalweg(&["inspect", &directory]).done().out;
    assert!(inspected.contains("  lost from ") && inspected.contains("datagram_gap (exact)"), "{inspected}");
}

/// Triggers that the list of losses names. Where it joins some, this finds others beside them.
fn numbered(rows: &[LossRow]) -> Vec<u64> {
    let ranges = rows.iter().filter_map(|row| Some(row.first?..=row.last?));
    ranges.flatten().collect()
}

/// Triggers of incomplete events on file.
#[track_caller]
fn incomplete(directory: &str) -> Vec<u64> {
    let file = Path::new(directory).join(Table::Events.file_name());
    let (mut file, mut event) = (EventsFile::open_alone(&file).expect("events"), RecordedEvent::default());
    let mut found = Vec::new();
    while file.next_event(&mut event).expect("whole") {
        found.extend((!event.missing.is_empty()).then_some(event.trigger));
    }
    found
}

#[test]
fn the_list_of_losses_of_triggered_boards_with_faults_adds_up_to_the_ledger() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"lab\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nboards = 3\n\
         [source.emulate.faults]\ndouble_every = 70\n\
         [[source]]\nname = \"weak\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
         [source.emulate.faults]\nlose_every = 1000\n\
         [trigger]\nprogram = \"constant\"\nrate_hz = 2000.0\ntriggers = 4000\n[build]\nage_ms = 1000\n\
         [record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let summary = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
    assert_ledger_balances(&summary);
    let directory = run_directory(&summary);
    let (rows, sums) = listed(&directory);
    let has = |reason: &str| sums.keys().any(|[_, _, why, _]| why == reason);
    assert!(has("missing_fragment") && has("duplicate_fragment"), "{sums:#?}");
    assert_eq!(sums, in_ledger(&summary), "{summary:#}");
    thalweg(&["verify", &directory]).done();
    assert_eq!(
        numbered(&rows),
        incomplete(&directory),
        "the triggers that \"weak\" has not answered: {rows:#?}"
    );
    thalweg(&["plot", &directory]).done();
    let picture = std::fs::read_to_string(Path::new(&directory).join("events.svg")).expect("drawn");
    let missing: i64 =
        sums.iter().filter(|([_, _, why, _], _)| why == "missing_fragment").map(|(_, n)| n).sum();
    for words in [format!("missing_fragment at wire: {missing} fragments"), "fragments of weak".to_owned()] {
        assert!(picture.contains(&words), "{words}: {picture}");
    }
}

#[test]
fn a_run_that_is_killed_leaves_a_list_of_losses_that_is_read_and_recovered() {
    let folder = Folder::new();
    let arguments = ["demo", "--boards", "2", "--seconds", "600", "--loss", "0.02", "--json"];
    let running = Running::start(&[&arguments[..], &["--directory", &folder.at("runs")]].concat());
    wait_until("three batches of losses are on file", || {
        run_in(&folder).as_deref().and_then(batches) >= Some(3)
    });
    running.signal("KILL");
    let _killed = running.wait();
    let directory = run_in(&folder).expect("a run").display().to_string();
    let (rows, _) = listed(&directory);
    thalweg(&["recover", &directory]).done();
    assert_eq!(listed(&directory).0, rows, "what was whole stays");
    let verified = thalweg(&["verify", &directory]).done().out;
    assert!(verified.contains("hits lost: unknown, ≥ "), "what was in memory is counted nowhere: {verified}");
}
