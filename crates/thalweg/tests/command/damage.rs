//! Recordings that were damaged or whose writer was killed.

use std::path::Path;

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg, wait_until};
use crate::recover::configuration;
use serde_json::Value;
use thalweg::record::read::TableReader;

fn recorded(folder: &Folder) -> String {
    let arguments = ["demo", "--seconds", "1", "--json", "--directory", &folder.at("runs")];
    run_directory(&thalweg(&arguments).done().json())
}

/// One bit of what the batch in the middle of a table holds: a replay of a table whose batches cannot be found is refused before it begins.
fn flip_a_bit(file: &str) {
    let mut bytes = std::fs::read(file).expect("recorded");
    let mut table = TableReader::open(Path::new(file)).expect("a table");
    let middle = bytes.len() as u64 / 2;
    let held = loop {
        let batch = table.next_batch().expect("whole").expect("one in the middle");
        if batch.end() > middle {
            break batch.offset().midpoint(batch.end()) as usize;
        }
    };
    bytes[held] ^= 0x10;
    std::fs::write(file, bytes).expect("written");
}

#[test]
fn one_flipped_bit_is_found() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let hits = format!("{run}/hits.arrows");
    flip_a_bit(&hits);
    let ended = thalweg(&["verify", &run, "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert_eq!(ended.json()["ok"], false);
    let people = thalweg(&["verify", &run]);
    let said = people.out + &people.error;
    assert!(said.contains("hits") && said.contains("`thalweg recover`"), "the table and what to do: {said}");
}

/// Its ledger has closed, and knows nothing of the damage.
#[test]
fn what_a_damaged_run_has_lost_since_is_in_every_report() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let lost = |report: &Value| report["totals"].as_array().expect("totals")[0]["count"].clone();
    let verified = || thalweg(&["verify", &run, "--json"]).json()["ledger"]["loss"].clone();
    assert_eq!(lost(&verified()), 0);
    let hits = format!("{run}/hits.arrows");
    flip_a_bit(&hits);
    let missing = thalweg(&["recover", &run, "--json"]).done().json()["hits_not_on_file"].clone();
    assert!(missing.as_u64() > Some(0), "{missing}");
    assert_eq!(lost(&verified()), missing);
    assert_eq!(lost(&thalweg(&["inspect", &run, "--json"]).done().json()["loss"]), missing);
    let listed = ["runs", "list", "--runs", &folder.at("runs")];
    for text in [&["verify", &run][..], &["inspect", &run], &["runs", "show", &run], &listed] {
        let said = thalweg(text).done().out;
        assert!(!said.contains("no hits lost") && !said.contains("no losses"), "{text:?}: {said}");
    }
    let said = thalweg(&["verify", &run]).done().out;
    let place = format!("missing since: hits.arrows: {missing} rows missing");
    assert!(said.contains(&format!("hits lost: {missing}")) && said.contains(&place), "{said}");
    assert!(said.contains("the ledger balances, ") && said.contains(" hits recorded then"), "{said}");
    assert_eq!(thalweg(&["verify", &run, "--json"]).json()["ledger"]["hits_lost"], missing);
}

#[test]
fn a_replay_reports_a_changed_byte_once_and_is_refused_where_the_raw_table_is_cut() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let raw = format!("{run}/raw.arrows");
    let bytes = std::fs::read(&raw).expect("recorded");
    flip_a_bit(&raw);
    let ended = thalweg(&["replay", &run, "--directory", &folder.at("changed")]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let lines = |text: &str| text.lines().filter(|line| line.contains("a batch whose checksum is")).count();
    assert_eq!((lines(&ended.out), lines(&ended.error)), (1, 1), "three sources read one file: {ended:#?}");
    std::fs::write(&raw, &bytes[..bytes.len() * 2 / 3]).expect("written");
    let refused = thalweg(&["replay", &run, "--directory", &folder.at("cut")]);
    assert!(refused.code == Some(1) && refused.error.contains("`thalweg recover`"), "{refused:#?}");
    let mut there = std::fs::read_dir(folder.at("cut")).into_iter().flatten().flatten();
    assert!(!there.any(|entry| entry.path().is_dir()), "it makes no run");
}

#[test]
fn a_cut_file_is_found_recovered_and_verifies() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let hits = format!("{run}/hits.arrows");
    let bytes = std::fs::read(&hits).expect("recorded");
    std::fs::write(&hits, &bytes[..bytes.len() - 100]).expect("written");
    assert_eq!(thalweg(&["verify", &run]).code, Some(1));
    thalweg(&["recover", &run, "--json"]).done();
    let verified = thalweg(&["verify", &run, "--json"]);
    let text = verified.json();
    assert_eq!(verified.code, Some(0), "{text:#}");
}

#[test]
fn a_run_that_is_killed_is_recovered_up_to_its_last_batch() {
    let folder = Folder::new();
    let file = configuration(&folder, "batch_age_s = 0.05\ntables = [\"hits\", \"raw\"]\n");
    let running = Running::start(&["run", &file, "--seconds", "100", "--states", "0.1"]);
    running.wait_for_state("it records", |state| number(state, "hits_recorded") > 1000);
    running.signal("KILL");
    let _killed = running.wait();
    let run = std::fs::read_dir(folder.path().join("runs"))
        .expect("a run was begun")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.is_dir())
        .expect("a run was begun");
    let run = run.to_str().expect("plain");
    let replay = || thalweg(&["replay", run, "--directory", &folder.at("replays")]).error;
    let (warning, before) = (format!("use `thalweg recover {run}`"), replay());
    assert!(before.contains(&warning), "{before}");
    let recovered = thalweg(&["recover", run]).done().out;
    let came = recovered.lines().find(|line| line.contains(" hits had come to the recording; "));
    assert!(came.is_some_and(|line| line.matches("≥ ").count() == 2), "{recovered}");
    let said = thalweg(&["verify", run]).done().out;
    assert!(!said.contains("DOES NOT BALANCE"), "the ledger was not written to its end: {said}");
    let after = replay();
    assert!(!after.contains(&warning), "{after}");
    let inspected = thalweg(&["inspect", run, "--json"]).done().json();
    assert!(number(&inspected, "hits") > 1000, "{inspected:#}");
}

#[test]
fn a_run_that_is_asked_to_stop_ends_in_good_order() {
    for signal in ["INT", "TERM"] {
        let folder = Folder::new();
        let file = configuration(&folder, "batch_age_s = 0.05\n");
        let running = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
        running.wait_for_state("it records", |state| number(state, "hits_recorded") > 0);
        running.signal(signal);
        let summary = running.wait().done().json();
        crate::process::assert_ledger_balances(&summary);
        thalweg(&["verify", &run_directory(&summary)]).done();
    }
}

#[test]
fn a_run_whose_directory_vanishes_says_so_and_the_next_one_is_none_the_worse() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n[source.emulate]\nchannels = 8\n\
         rate_hz = 1000.0\n[record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let run = Running::start(&["run", &file, "--seconds", "100", "--states", "0.1"]);
    run.wait_until_running();
    // The run may write a file while its directory is emptied.
    wait_until("the directory is gone", || std::fs::remove_dir_all(folder.at("runs")).is_ok());
    run.signal("INT");
    let ended = run.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.error.contains("runs/000001: the directory of the run has vanished"), "{}", ended.error);
    let summary = thalweg(&["run", &file, "--seconds", "0.5", "--json"]).done().json();
    assert_ledger_balances(&summary);
}
