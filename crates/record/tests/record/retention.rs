//! The policy on old runs: what it removes, what it never touches, and what is left to be read.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::example_events;
use crate::example_events::{Blocks, Planned, SOURCES};
use crate::example_run;
use crate::example_run::{copy_run, folder};
use proptest::prelude::*;
use thalweg_record::{
    OldRuns, RemovedTables, Retained, Retention, RunDirectory, RunRecord, RunRecordState, Settings, Table,
    VerifyReport, inspect, raw_sources, recover, verify,
};

/// A run of hits that has ended and that nobody holds.
fn write_run(parent: &Path, hits: usize) -> PathBuf {
    example_run::write_run(parent, &Settings::default(), hits, 160).path().to_owned()
}

fn policy(parent: &Path, rules: Retention) -> OldRuns {
    let settings = Settings { directory: parent.to_owned(), retention: Some(rules), ..Settings::default() };
    OldRuns::new(&settings).expect("it is asked for")
}

fn at_most(runs: u64) -> Retention {
    Retention { most_runs: Some(runs), ..Retention::default() }
}

/// Checks until nothing more goes: a check that has taken long leaves the rest to the next.
fn checked(old_runs: &mut OldRuns) -> Retained {
    let (mut all, mut now) = (Retained::default(), Instant::now());
    loop {
        let Retained { removed, warnings, .. } = old_runs.check(now, false).expect("the runs can be listed");
        let is_end = removed.is_empty();
        all.removed.extend(removed);
        all.warnings.extend(warnings);
        if is_end {
            return all;
        }
        now += Duration::from_secs(3600);
    }
}

fn tables(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run).expect("readable").map(|entry| entry.expect("readable").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".arrows"));
    names.sort();
    names
}

fn bytes(run: &Path) -> u64 {
    tables(run).iter().map(|name| run.join(name).metadata().expect("there").len()).sum()
}

fn verified(run: &Path) -> VerifyReport {
    verify(run).expect("a run")
}

fn record_of(run: &Path) -> RunRecord {
    RunRecord::read(&run.join("run.json")).expect("readable")
}

fn set_state(run: &Path, state: RunRecordState) {
    let directory = RunDirectory::open(run).expect("a run");
    RunRecord { state, ..record_of(run) }.write(&directory).expect("written");
}

#[test]
fn the_oldest_runs_lose_their_tables_first_and_keep_their_ledger() {
    let folder = folder();
    let runs: Vec<PathBuf> = (0..5).map(|_| write_run(folder.path(), 2000)).collect();
    // Neither is a table that the run has recorded.
    for name in ["notes.txt", "raw-of-somebody.arrows"] {
        fs::write(runs[0].join(name), "x").expect("written");
    }
    let (bytes_before, names) = (bytes(&runs[1]), tables(&runs[1]));
    let retained = checked(&mut policy(folder.path(), at_most(2)));
    let removed: Vec<&PathBuf> = retained.removed.iter().map(|run| &run.path).collect();
    assert_eq!(removed, [&runs[0], &runs[1], &runs[2]]);
    assert_eq!(retained.warnings, Vec::<String>::new());
    assert_eq!(tables(&runs[0]), ["raw-of-somebody.arrows"]);
    assert!(runs[0].join("notes.txt").exists() && tables(&runs[1]).is_empty());
    assert_eq!(tables(&runs[4]), names);
    for file in ["run.json", "ledger.bin"] {
        assert!(runs[1].join(file).exists(), "{file}");
    }
    let note = record_of(&runs[1]).removed.expect("written down");
    assert_eq!((note.bytes, note.rows_of(Table::Hits)), (bytes_before, 2000));
    assert!(note.at.ends_with('Z') && note.why.contains("most_runs = 2"), "{note}");
    for run in &runs[1..] {
        let report = verified(run);
        assert!(report.ok && report.ledger.closed, "{:?}", report.problems);
        assert_eq!(report.removed.is_some(), *run < runs[3]);
    }
    assert_eq!(checked(&mut policy(folder.path(), at_most(2))), Retained::default(), "once is enough");
}

#[test]
fn every_command_says_that_tables_were_removed() {
    let folder = folder();
    let runs: Vec<PathBuf> = (0..2).map(|_| write_run(folder.path(), 500)).collect();
    checked(&mut policy(folder.path(), at_most(1)));
    let run = &runs[0];
    let inspected = inspect(run, 3).expect("a run");
    let removed = inspected.removed.expect("it is said");
    assert!(inspected.problems.is_empty() && inspected.tables.is_empty() && removed.rows > 500);
    let recovered = recover(run).expect("nothing is wrong");
    assert!(!recovered.changed && recovered.removed == Some(removed.clone()));
    assert_eq!(record_of(run).state, RunRecordState::Stopped);
    // As if bytes had been recorded raw: that they never were is another refusal.
    let mut record = record_of(run);
    let mut note = removed.clone();
    note.tables[0].table = "raw".to_owned();
    record.removed = Some(note);
    record.write(&RunDirectory::open(run).expect("a run")).expect("written");
    let words = raw_sources(run).expect_err("it cannot be replayed").to_string();
    assert!(words.contains("[record.retention]") && words.contains(&removed.at), "{words}");
}

#[test]
fn a_run_that_has_not_ended_or_is_held_is_left_alone() {
    let folder = folder();
    let runs: Vec<PathBuf> = (0..5).map(|_| write_run(folder.path(), 200)).collect();
    set_state(&runs[0], RunRecordState::Running);
    fs::write(runs[1].join("run.json"), "{").expect("written");
    let reader = RunDirectory::open(&runs[2]).expect("a run");
    let mut old_runs = policy(folder.path(), at_most(1));
    let first = checked(&mut old_runs);
    assert_eq!(first.removed.iter().map(|run| &run.path).collect::<Vec<_>>(), [&runs[3]]);
    assert_eq!(first.warnings.len(), 2, "one cannot be read, and the rule cannot be kept: {first:?}");
    for run in [&runs[0], &runs[1], &runs[2], &runs[4]] {
        assert!(!tables(run).is_empty(), "{}", run.display());
    }
    let hour = Duration::from_secs(3600);
    let later = Instant::now() + 2 * hour;
    assert_eq!(old_runs.check(later, false).expect("listed"), Retained::default(), "it is said once");
    drop(reader);
    let later = old_runs.check(later + hour, false).expect("listed");
    assert_eq!(later.removed.len(), 1, "nobody reads it any more");
    assert!(tables(&runs[2]).is_empty() && !tables(&runs[4]).is_empty());
}

#[test]
fn a_run_that_is_written_is_held() {
    let folder = folder();
    let written = example_run::write_run(folder.path(), &Settings::default(), 200, 160);
    write_run(folder.path(), 200);
    assert!(checked(&mut policy(folder.path(), at_most(1))).removed.is_empty());
    assert!(!tables(written.path()).is_empty());
}

#[test]
fn links_lead_nowhere() {
    let folder = folder();
    let elsewhere = folder.path().join("elsewhere");
    let outside = write_run(&elsewhere, 200);
    let parent = folder.path().join("runs");
    fs::create_dir(&parent).expect("made");
    symlink(&outside, parent.join("000000-linked")).expect("made");
    let runs: Vec<PathBuf> = (0..2).map(|_| write_run(&parent, 200)).collect();
    // A table that was moved to another disk, with a link in its place.
    let moved = folder.path().join("moved.arrows");
    fs::rename(runs[0].join("hits.arrows"), &moved).expect("moved");
    symlink(&moved, runs[0].join("hits.arrows")).expect("made");
    symlink(&moved, parent.join(".retention-room")).expect("made");
    let before = moved.metadata().expect("there").len();
    checked(&mut policy(&parent, at_most(1)));
    assert_eq!(tables(&runs[0]), ["hits.arrows"], "the link stays, the others are gone");
    assert_eq!(moved.metadata().expect("there").len(), before);
    assert!(!tables(&outside).is_empty() && verified(&outside).ok);
    let note = record_of(&runs[0]).removed.expect("written down");
    assert!(note.rows_in("hits.arrows").is_none() && note.rows_in("extras.arrows").is_some());
}

#[test]
fn what_is_no_run_is_left_alone() {
    let folder = folder();
    let other = folder.path().join("000000-not-a-run");
    fs::create_dir(&other).expect("made");
    fs::write(other.join("hits.arrows"), "x").expect("written");
    let copied = write_run(folder.path(), 200);
    let renamed = folder.path().join("000007-copy");
    fs::rename(&copied, &renamed).expect("renamed");
    let runs: Vec<PathBuf> = (0..2).map(|_| write_run(folder.path(), 200)).collect();
    checked(&mut policy(folder.path(), at_most(1)));
    assert!(other.join("hits.arrows").exists() && !tables(&renamed).is_empty());
    assert!(tables(&runs[0]).is_empty() && !tables(&runs[1]).is_empty());
    let absent = policy(&folder.path().join("absent"), at_most(1)).check(Instant::now(), true);
    assert_eq!(absent.expect("no run yet"), Retained::default());
}

#[test]
fn nothing_goes_that_was_not_written_down() {
    let folder = folder();
    let runs: Vec<PathBuf> = (0..3).map(|_| write_run(folder.path(), 200)).collect();
    // In the way of the new record.
    fs::create_dir(runs[0].join(".run.json.new")).expect("made");
    let retained = checked(&mut policy(folder.path(), at_most(1)));
    assert_eq!(retained.removed.len(), 1, "the others have their turn");
    assert!(retained.warnings.iter().any(|words| words.contains("run.json")), "{:?}", retained.warnings);
    assert!(verified(&runs[0]).ok && verified(&runs[0]).removed.is_none() && tables(&runs[1]).is_empty());
}

#[test]
fn a_missing_table_without_a_note_is_a_problem() {
    let folder = folder();
    let runs: Vec<PathBuf> = (0..2).map(|_| write_run(folder.path(), 200)).collect();
    fs::remove_file(runs[1].join("hits.arrows")).expect("removed");
    fs::rename(runs[0].join("statistics.arrows"), folder.path().join("away")).expect("moved");
    checked(&mut policy(folder.path(), at_most(1)));
    let [first, second] = [verified(&runs[0]), verified(&runs[1])];
    assert!(first.removed.is_some() && !first.ok, "statistics went before: {first:?}");
    assert!(first.problems.iter().all(|words| words.contains("statistics")), "{:?}", first.problems);
    assert!(second.problems.iter().any(|words| words.contains("hits.arrows")), "{:?}", second.problems);
    // A note that does not agree with the ledger.
    let mut record = record_of(&runs[0]);
    let note = record.removed.as_mut().expect("written down");
    note.tables.iter_mut().filter(|table| table.table == "hits").for_each(|table| table.rows = 199);
    record.write(&RunDirectory::open(&runs[0]).expect("a run")).expect("written");
    let problems = verified(&runs[0]).problems;
    assert!(problems.iter().any(|words| words.contains("199 hits on file or removed")), "{problems:?}");
}

/// A removal that is killed behind each of its steps.
fn killed_anywhere(parent: &Path, run: &Path) {
    let before = copy_run(&RunDirectory::open(run).expect("a run"), &parent.join("before"));
    checked(&mut policy(parent, at_most(1)));
    assert!(tables(run).is_empty(), "it is removed");
    // Hits are the last to go.
    let mut order = tables(&before);
    order.sort_by_key(|name| name == "hits.arrows");
    for gone in 0..=order.len() {
        let copy = copy_run(&RunDirectory::open(&before).expect("a run"), &parent.join("killed"));
        fs::copy(run.join("run.json"), copy.join("run.json")).expect("copied");
        order[..gone].iter().for_each(|name| fs::remove_file(copy.join(name)).expect("removed"));
        let report = verified(&copy);
        assert!(report.ok, "{gone} gone: {:?}", report.problems);
        assert_eq!(report.removed.map_or(0, |removed| removed.tables.len()), gone);
        assert!(!recover(&copy).expect("a run").changed);
    }
}

#[test]
fn a_removal_that_is_killed_anywhere_leaves_a_run_that_verifies() {
    let folder = folder();
    let run = write_run(folder.path(), 2000);
    write_run(folder.path(), 200);
    killed_anywhere(folder.path(), &run);
    let folder = example_run::folder();
    let planned: Vec<Planned> = (0..200).map(example_events::planned).collect();
    let write = || {
        let mut blocks = Blocks::new(false, 1);
        let settings = Settings::default();
        let run = example_events::write_run(folder.path(), &settings, &planned, 20, SOURCES, &mut blocks);
        run.path().to_owned()
    };
    let (run, _newest) = (write(), write());
    killed_anywhere(folder.path(), &run);
}

#[test]
fn a_table_is_not_removed_with_what_recover_had_kept_of_it() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = example_run::write_run(folder.path(), &settings, 400, 20).path().to_owned();
    write_run(folder.path(), 200);
    let hits = run.join("hits.arrows");
    let mut bytes = fs::read(&hits).expect("there");
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&hits, bytes).expect("written");
    assert!(recover(&run).expect("recovered").changed);
    let before = copy_run(&RunDirectory::open(&run).expect("a run"), &folder.path().join("before"));
    checked(&mut policy(folder.path(), at_most(1)));
    assert!(tables(&run).is_empty(), "it is removed");
    // What was kept goes first: as if the removal was killed behind it.
    let killed = before;
    fs::copy(run.join("run.json"), killed.join("run.json")).expect("copied");
    fs::remove_file(killed.join("hits.arrows.damaged")).expect("kept");
    let report = verified(&killed);
    assert!(report.ok && report.removed.is_none(), "{report:?}");
    RemovedTables::refuse(&killed, Table::Hits).expect("the table is there");
    // Nor when another table has gone.
    fs::remove_file(killed.join("extras.arrows")).expect("there");
    let removed = verified(&killed).removed.expect("extras");
    assert!(removed.has(Table::Extras) && !removed.has(Table::Hits), "{removed}");
    // What somebody takes of it is missed as ever.
    let hits = killed.join("hits.arrows");
    let file = fs::OpenOptions::new().write(true).open(&hits).expect("there");
    file.set_len(hits.metadata().expect("there").len() / 2).expect("cut");
    let report = recover(&killed).expect("recovered");
    assert!(
        report.missing.iter().any(|missing| missing.table == "hits" && missing.rows > Some(0)),
        "{report:?}"
    );
}

#[test]
fn a_removal_goes_on_where_it_was_interrupted() {
    let folder = folder();
    let run = write_run(folder.path(), 500);
    write_run(folder.path(), 200);
    let before = copy_run(&RunDirectory::open(&run).expect("a run"), &folder.path().join("before"));
    checked(&mut policy(folder.path(), at_most(1)));
    let note = record_of(&run).removed.expect("written down");
    fs::copy(before.join("hits.arrows"), run.join("hits.arrows")).expect("copied");
    let again = checked(&mut policy(folder.path(), at_most(1)));
    assert_eq!(again.removed.len(), 1);
    assert!(tables(&run).is_empty() && record_of(&run).removed == Some(note), "it was written down before");
}

#[test]
fn a_failed_run_that_names_no_tables_goes_as_well() {
    let folder = folder();
    let run = write_run(folder.path(), 500);
    write_run(folder.path(), 200);
    let record =
        RunRecord { state: RunRecordState::Failed, tables: Vec::new(), ledger: None, ..record_of(&run) };
    record.write(&RunDirectory::open(&run).expect("a run")).expect("written");
    // No table, whatever its name says.
    fs::write(run.join("raw-list.arrows"), "a list").expect("written");
    checked(&mut policy(folder.path(), at_most(1)));
    assert_eq!(tables(&run), ["raw-list.arrows"]);
    assert_eq!(record_of(&run).removed.expect("written down").rows_of(Table::Hits), 500, "they were counted");
}

#[test]
fn a_disk_with_too_little_left_is_freed_at_once() {
    let folder = folder();
    let runs: Vec<PathBuf> = (0..4).map(|_| write_run(folder.path(), 200)).collect();
    let never = Retention { least_free_bytes: Some(u64::MAX / 2), ..Retention::default() };
    let mut old_runs = policy(folder.path(), never);
    let retained = checked(&mut old_runs);
    assert_eq!((retained.removed.len(), retained.warnings.len()), (3, 1));
    assert!(!retained.is_out_of_space, "the run goes on");
    assert!(!tables(&runs[3]).is_empty());
    let free = RunDirectory::open(&runs[0]).expect("a run").bytes_left().expect("known");
    let enough = Retention { least_free_bytes: Some(free / 2), ..Retention::default() };
    assert_eq!(checked(&mut policy(folder.path(), enough)), Retained::default());
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Ended,
    Running,
    Held,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![4 => Just(Kind::Ended), 1 => Just(Kind::Running), 1 => Just(Kind::Held)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever there is: the oldest that may go have gone, no more than needed, and all else is as it was.
    #[test]
    fn the_oldest_that_may_go_have_gone_and_no_more(
        planned in prop::collection::vec((1..1500usize, kinds()), 1..7),
        share in 0.0..1.2f64,
        most_runs in prop::option::of(1..7u64),
    ) {
        let folder = folder();
        let mut runs = Vec::new();
        let mut held = Vec::new();
        for (hits, kind) in planned {
            let run = write_run(folder.path(), hits);
            match kind {
                Kind::Ended => {}
                Kind::Running => set_state(&run, RunRecordState::Running),
                Kind::Held => held.push(RunDirectory::open(&run).expect("a run")),
            }
            let size = bytes(&run);
            runs.push((run, kind, size));
        }
        let total: u64 = runs.iter().map(|(.., size)| size).sum();
        let most_bytes = (total as f64 * share) as u64;
        let rules = Retention { most_bytes: Some(most_bytes), most_runs, least_free_bytes: None };
        let retained = checked(&mut policy(folder.path(), rules));
        // A plain model of the rule.
        let (mut left_bytes, mut left_runs, mut expected) = (total, runs.len() as u64, BTreeSet::new());
        for (run, kind, size) in &runs[..runs.len() - 1] {
            let is_over = left_bytes > most_bytes || most_runs.is_some_and(|most| left_runs > most);
            if is_over && *kind == Kind::Ended {
                (left_bytes, left_runs) = (left_bytes - size, left_runs - 1);
                expected.insert(run.clone());
            }
        }
        let removed: BTreeSet<PathBuf> = retained.removed.iter().map(|run| run.path.clone()).collect();
        prop_assert_eq!(&removed, &expected);
        let is_short = left_bytes > most_bytes || most_runs.is_some_and(|most| left_runs > most);
        prop_assert_eq!(retained.warnings.len(), usize::from(is_short));
        for (run, kind, size) in &runs {
            let is_gone = expected.contains(run);
            prop_assert_eq!(bytes(run), if is_gone { 0 } else { *size });
            let report = verified(run);
            prop_assert_eq!(report.ok, *kind != Kind::Running, "{:?}", report.problems);
            prop_assert_eq!(report.removed.map_or(0, |removed| removed.bytes), if is_gone { *size } else { 0 });
        }
    }
}
