//! A flight recorder: run after run, and the oldest free space.
//!
//! ```text
//!  thalweg serve, [unattended] rotate, [record.retention] ─► runs/000001 (snapshot) … runs/00000n (snapshot and tables)
//! ```

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{
    Folder, Running, accepted_triggers, assert_ledger_balances, free_port, number, thalweg, wait_until,
};

/// What a configuration of these tests says where they differ.
struct Keys<'k> {
    /// Of `[run]`.
    run: &'k str,
    rate_hz: u32,
    /// Of `[record]`.
    tables: &'k str,
    record: &'k str,
    /// Of `[record.retention]`; none of it when empty.
    retention: &'k str,
    /// Sections behind all others.
    sections: &'k str,
}

/// Hits of a tenth of a second each, kept until there are a hundred runs.
const USUAL: Keys<'_> = Keys {
    run: "",
    rate_hz: 12_000,
    tables: "\"hits\"",
    record: "batch_age_s = 0.1",
    retention: "most_runs = 100",
    sections: "",
};

/// Everything is written at the end of a run.
const AT_THE_END: &str = "batch_age_s = 100\nbatch_hits = 1000000";

/// Runs of emulated boards that write 128 B each second for each Hz.
fn configuration(folder: &Folder, keys: &Keys<'_>) -> String {
    let Keys { run, rate_hz, tables, record, retention, sections } = keys;
    let retention = match retention.is_empty() {
        true => String::new(),
        false => format!("[record.retention]\n{retention}\n"),
    };
    let text = format!(
        "[run]\n{run}\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
         [source.emulate]\nchannels = 8\nrate_hz = {rate_hz}\nwaveform_samples = 0\n[spectra]\nenabled = false\n[record]\ndirectory = \"{}\"\n\
         tables = [{tables}]\n{record}\n{retention}[unattended]\nrotate = true\n{sections}",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// The directories of the runs, by number.
fn runs(folder: &Folder) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.at("runs")).into_iter().flatten().flatten();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    runs.sort();
    runs
}

fn table_bytes(run: &Path) -> u64 {
    let entries = std::fs::read_dir(run).into_iter().flatten().flatten();
    let tables = entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "arrows"));
    tables.filter_map(|table| table.metadata().ok()).map(|data| data.len()).sum()
}

fn record(run: &Path) -> Value {
    let text = std::fs::read_to_string(run.join("run.json")).expect("there");
    serde_json::from_str(&text).expect("whole")
}

/// Asks a page's service by a host's name: the head and the body of its answer.
pub fn get_as(host: &str, address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it is served");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

/// Asks a page's service for JSON.
pub fn get(address: &str, path: &str) -> Value {
    let (_, body) = get_as("localhost", address, path);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[track_caller]
fn verified(run: &Path) -> Value {
    let report = thalweg(&["verify", &run.display().to_string(), "--json"]).done().json();
    assert_eq!((&report["ok"], &report["ledger"]["closed"]), (&true.into(), &true.into()), "{report:#}");
    report
}

#[test]
fn the_oldest_of_many_runs_make_room_for_the_next() {
    const MOST_BYTES: u64 = 1_500_000;
    // What is written between two looks, with a machine that is busy with other tests.
    const SLACK_BYTES: u64 = 1_500_000;
    let folder = Folder::new();
    // Shorter than the time between two looks at whether a run has ended.
    let retention = format!("most_bytes = {MOST_BYTES}");
    let keys = Keys { run: "seconds = 0.3", rate_hz: 10_000, retention: &retention, ..USUAL };
    let file = configuration(&folder, &keys);
    let address = format!("127.0.0.1:{}", free_port());
    let recorder = Running::start(&["serve", &file, "--listen", &address, "--start", "--json"]);
    let mut highest = 0;
    wait_until("runs follow each other", || {
        highest = highest.max(runs(&folder).iter().map(|run| table_bytes(run)).sum());
        runs(&folder).len() >= 8
    });
    let listed = get(&address, "/api/runs");
    recorder.signal("TERM");
    recorder.wait().done();
    let runs = runs(&folder);
    assert!(highest > MOST_BYTES / 2 && highest < MOST_BYTES + SLACK_BYTES, "at most {highest} bytes");
    let listed = listed.as_array().expect("a list");
    let first = listed.iter().find(|run| run["number"] == 1).expect("it is listed");
    assert!(number(first, "hits") > 0 && first["removed"]["at"].is_string(), "{first:#}");
    assert!(listed.iter().any(|run| run["removed"].is_null()), "{listed:#?}");

    let report = verified(&runs[0]);
    let (removed, note) = (&report["removed"], record(&runs[0])["removed"].clone());
    assert_eq!(removed, &note, "run.json has it");
    assert_eq!(
        (table_bytes(&runs[0]), number(removed, "rows")),
        (0, number(&report["ledger"], "hits_recorded"))
    );
    assert!(note["why"].as_str().is_some_and(|why| why.contains("most_bytes = 1500000")), "{note:#}");
    for run in &runs {
        assert_eq!(verified(run)["removed"].is_null(), table_bytes(run) > 0, "{}", run.display());
    }
    assert!(table_bytes(runs.last().expect("many")) > 0, "the newest stays");

    let run = runs[0].display().to_string();
    for command in ["verify", "inspect", "recover"] {
        let ended = thalweg(&[command, &run]).done();
        assert!(
            ended.out.contains("hits.arrows") && ended.out.contains("[record.retention]"),
            "{}",
            ended.out
        );
    }
    let replayed = thalweg(&["replay", &run, "--directory", &folder.at("again")]);
    // It never had raw bytes: that is what is said of it.
    assert!(replayed.code == Some(1) && replayed.error.contains("raw"), "{replayed:#?}");
    let plotted = thalweg(&["plot", &run]);
    assert!(plotted.code == Some(1) && plotted.error.contains("[record.retention]"), "{plotted:#?}");
    // Without the note it is a loss.
    let without =
        record(&runs[0]).as_object().cloned().map(|mut record| record.remove("removed").map(|_| record));
    let without = serde_json::to_string(&without).expect("plain data");
    std::fs::write(runs[0].join("run.json"), without).expect("written");
    let ended = thalweg(&["verify", &run]);
    assert!(ended.code == Some(1) && ended.out.contains("missing"), "{ended:#?}");
}

#[test]
fn single_runs_keep_to_it_and_a_removed_one_is_not_replayed() {
    let folder = Folder::new();
    let tables = "\"hits\", \"raw\"";
    let keys = Keys { run: "seconds = 0.5", rate_hz: 2000, tables, retention: "most_runs = 1", ..USUAL };
    let file = configuration(&folder, &keys);
    for _ in 0..3 {
        thalweg(&["run", &file, "--json"]).done();
    }
    let runs = runs(&folder);
    assert_eq!(runs.iter().map(|run| table_bytes(run) > 0).collect::<Vec<_>>(), [false, false, true]);
    runs.iter().for_each(|run| drop(verified(run)));
    let replayed = thalweg(&["replay", &runs[0].display().to_string(), "--directory", &folder.at("again")]);
    assert_eq!(replayed.code, Some(1), "{replayed:#?}");
    assert!(replayed.error.contains("removed by [record.retention]"), "{}", replayed.error);
    assert!(!folder.path().join("again").exists(), "nothing was begun");
}

/// Takes a run on a small disk on which a file leaves little space, until it says that it waits for the disk; a second later the file is removed.
/// Returns its summary, what it said, and how many hits the inhibited boards did not take.
fn after_a_wait(folder: &Folder, file: &str) -> Option<(Value, String, u64)> {
    let script = "head -c 15000000 /dev/zero >filler\n: >../states\n\
                  (until grep -q '\"paused_by\":\"disk\"' ../states || [ -e ../code ]; do sleep 0.1; done; sleep 1; rm filler) &\n\
                  \"$0\" run $FILE --states 0.1 --json >../states 2>../new.txt; echo $? >../code; wait\n\
                  grep -v sequence ../states >../new.json";
    let reports = on_a_small_disk(folder, 20, file, script)?;
    let said = words(folder, "new.txt");
    assert_eq!(words(folder, "code").trim(), "0", "{said}");
    let summary: Value = serde_json::from_str(&words(folder, "new.json")).expect("whole");
    assert_ledger_balances(&summary);
    assert!(reports.len() == 1 && reports[0]["ok"] == true, "{reports:#?}");
    let lines = summary["ledger"].as_array().expect("a list").iter();
    let inhibited = lines
        .filter(|line| line["stage"] == "sender" && line["unit"] == "hits")
        .map(|line| number(line, "filtered"))
        .sum();
    Some((summary, said, inhibited))
}

/// A run on a disk of its own of so many MiB. `script` has `$0` for the command, `$FILE` for the configuration, and is in the directory
/// of the runs. Returns what `verify` says of each run; `None` where this needs more rights than there are.
fn on_a_small_disk(folder: &Folder, mebibytes: u32, file: &str, script: &str) -> Option<Vec<Value>> {
    std::fs::create_dir(folder.at("runs")).expect("made");
    let script = format!(
        "FILE={file}\nmount -t tmpfs -o size={mebibytes}m none {runs} || exit 9\ncd {runs}\n{script}\n\
         for run in 0*; do \"$0\" verify $run --json; done >../verified.json\nexit 0",
        runs = folder.at("runs")
    );
    let ended = Running::start_as(&["unshare", "-m", "sh", "-c", &script], &[]).wait();
    match ended.code {
        Some(0) => {}
        _ if ended.error.contains("unshare") || ended.code == Some(9) => {
            thalweg_prerequisite::skip("a file system of its own needs root and `unshare`");
            return None;
        }
        _ => panic!("{ended:#?}"),
    }
    let text = std::fs::read_to_string(folder.at("verified.json")).expect("written");
    let reports = serde_json::Deserializer::from_str(&text).into_iter();
    Some(reports.collect::<Result<_, _>>().expect("one object each"))
}

/// Three short runs, and then one of so many seconds.
fn after_three_runs(folder: &Folder, file: &str, seconds: u32) -> Option<Vec<Value>> {
    let script = format!(
        "for old in 1 2 3; do \"$0\" run $FILE --seconds 1 --json >../old.json || exit 1; done\n\
         \"$0\" run $FILE --seconds {seconds} --json >../new.json 2>../new.txt; echo $? >../code"
    );
    on_a_small_disk(folder, 9, file, &script)
}

fn words(folder: &Folder, file: &str) -> String {
    std::fs::read_to_string(folder.at(file)).expect("written")
}

fn why_removed(report: &Value) -> Option<&str> {
    report["removed"]["why"].as_str()
}

#[test]
fn a_full_disk_takes_room_from_old_runs_first() {
    // Three runs of 1.5 MB, and then one of 6 MB on a disk of 9. It may be full in the middle of the run, or at its end.
    for record in [USUAL.record, AT_THE_END] {
        let folder = Folder::new();
        let file = configuration(&folder, &Keys { record, ..USUAL });
        let Some(reports) = after_three_runs(&folder, &file, 4) else { return };
        assert_eq!(words(&folder, "code").trim(), "0", "{}", words(&folder, "new.txt"));
        assert_eq!(why_removed(&reports[0]), Some("the disk is full"), "{:#}", reports[0]);
        assert!(reports.len() == 4 && why_removed(&reports[3]).is_none(), "{reports:#?}");
        reports.iter().for_each(|report| assert_eq!(report["ok"], true, "{report:#}"));
    }
}

#[test]
fn a_full_disk_without_an_older_run_ends_the_run() {
    // It does not fit, whatever goes before it.
    let folder = Folder::new();
    let file = configuration(&folder, &USUAL);
    let Some(reports) = after_three_runs(&folder, &file, 60) else { return };
    let (code, words) = (words(&folder, "code"), words(&folder, "new.txt"));
    assert!(code.trim() == "1" && words.contains("has no older run to remove"), "{code}{words}");
    assert!(
        words.contains("name another directory: `[record] directory`, of a replay --directory"),
        "{words}"
    );
    for report in &reports[..3] {
        assert!(report["ok"] == true && why_removed(report).is_some(), "{report:#}");
    }
    // Its own snapshot may have found no space at the end; its table is whole.
    let problems = reports[3]["problems"].as_array().into_iter().flatten();
    let mut problems = problems.map(|words| words.as_str().unwrap_or_default());
    assert!(problems.all(|words| words.starts_with("run.json")), "{:#}", reports[3]);
    assert!(number(&reports[3], "hits") > 100_000, "{:#}", reports[3]);
}

#[test]
fn a_run_that_ends_on_a_full_disk_waits_for_space_where_it_may() {
    // Everything is written at the end, beside a file that leaves no space and is removed a while later: where the machine is so slow
    // that it is gone by then, nothing is waited for, and the run ends as well.
    let folder = Folder::new();
    let file = configuration(
        &folder,
        &Keys {
            tables: "\"hits\", \"coincidences\", \"raw\"",
            record: &format!("{AT_THE_END}\non_full = \"pause\""),
            retention: "",
            sections: "[coincidence]\nwindow_ps = 2_000_000\n",
            ..USUAL
        },
    );
    let script = "head -c 15000000 /dev/zero >filler\n(sleep 5; rm filler) &\n\
                  \"$0\" run $FILE --seconds 2 --json >../new.json 2>../new.txt; echo $? >../code";
    let Some(reports) = on_a_small_disk(&folder, 18, &file, script) else { return };
    assert_eq!(words(&folder, "code").trim(), "0", "{}", words(&folder, "new.txt"));
    let summary: Value = serde_json::from_str(&words(&folder, "new.json")).expect("whole");
    assert_ledger_balances(&summary);
    assert_eq!(number(&summary, "hits_lost"), 0, "{summary:#}");
    assert!(reports.len() == 1 && reports[0]["ok"] == true, "{reports:#?}");
}

#[test]
fn emulated_boards_are_inhibited_while_a_run_waits_for_disk_space() {
    // A file leaves space for a part of the run. It is removed a second after the run has said that it waits: what boards would have measured
    // meanwhile goes by the clock.
    let folder = Folder::new();
    let record = format!("{}\non_full = \"pause\"", USUAL.record);
    let keys = Keys { run: " hits = 500_000", record: &record, retention: "", ..USUAL };
    let file = configuration(&folder, &keys);
    let Some((summary, said, inhibited)) = after_a_wait(&folder, &file) else { return };
    let pause = said.find("the run is paused: the disk is full").unwrap_or_else(|| panic!("{said}"));
    assert!(said[pause..].contains("the run goes on"), "{said}");
    // What was on its way when the disk was full finds no space; nothing follows it.
    let lost = number(&summary, "hits_lost");
    assert!(inhibited > 10_000 && lost < inhibited / 2, "{inhibited} not taken, {lost} lost: {summary:#}");
}

#[test]
fn a_run_that_waits_before_the_disk_is_full_loses_nothing() {
    let folder = Folder::new();
    let record = format!("{}\non_full = \"pause\"\nleast_free_bytes = 4_000_000", USUAL.record);
    let keys = Keys { run: " hits = 500_000", record: &record, retention: "", ..USUAL };
    let file = configuration(&folder, &keys);
    let Some((summary, said, inhibited)) = after_a_wait(&folder, &file) else { return };
    let pause = said.find("the run is paused: the disk has ").unwrap_or_else(|| panic!("{said}"));
    assert!(said[pause..].contains("fewer than [record] least_free_bytes; free some"), "{said}");
    assert!(said[pause..].contains("the run goes on"), "{said}");
    assert!(inhibited > 10_000 && number(&summary, "hits_lost") == 0, "{inhibited} not taken: {summary:#}");
}

#[test]
fn a_run_ends_in_words_before_the_disk_is_full() {
    let folder = Folder::new();
    let record = format!("{}\nleast_free_bytes = 4_000_000", USUAL.record);
    let file = configuration(&folder, &Keys { run: "seconds = 60", record: &record, retention: "", ..USUAL });
    let script = "\"$0\" run $FILE --json >../new.json 2>../new.txt; echo $? >../code; df --output=avail -B1 . | tail -1 >../left";
    let Some(reports) = on_a_small_disk(&folder, 12, &file, script) else { return };
    let said = words(&folder, "new.txt");
    assert_eq!(words(&folder, "code").trim(), "1", "{said}");
    assert!(
        said.contains("fewer than [record] least_free_bytes; free some, or name another directory"),
        "{said}"
    );
    assert!(
        words(&folder, "left").trim().parse::<u64>().expect("a number") > 500_000,
        "{}",
        words(&folder, "left")
    );
    let summary: Value = serde_json::from_str(&words(&folder, "new.json")).expect("whole");
    assert_eq!(number(&summary, "hits_lost"), 0, "{summary:#}");
    assert!(reports.len() == 1 && reports[0]["ok"] == true, "{reports:#?}");
}

#[test]
fn the_trigger_waits_for_the_disk_and_every_accepted_event_is_recorded() {
    let folder = Folder::new();
    let text = format!(
        "[run]\nevents = 3000\n[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 3\n[source.emulate]\n\
         payload_bytes = 1000\n[trigger]\nprogram = \"constant\"\nrate_hz = 800.0\n[record]\ndirectory = \"{}\"\nbatch_age_s = 0.1\n\
         on_full = \"pause\"\nleast_free_bytes = 2_000_000\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let Some((summary, said, _)) = after_a_wait(&folder, &file) else { return };
    assert!(said.contains("the run is paused: the disk has ") && said.contains("the run goes on"), "{said}");
    let states = words(&folder, "states");
    let states: Vec<Value> = states.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let waiting = states.iter().filter(|state| state["paused_by"] == "disk").collect::<Vec<_>>();
    assert!(!waiting.is_empty() && waiting.iter().all(|state| state["busy"] == true), "{waiting:#?}");
    let events = &summary["events"];
    assert_eq!(number(events, "events_recorded"), number(&events["closed"], "complete"), "{events:#}");
    let accepted = accepted_triggers(&summary);
    assert_eq!(number(events, "events_recorded"), accepted, "{events:#}");
    assert_eq!(number(events, "fragments_recorded"), 3 * number(events, "events_recorded"), "{events:#}");
    assert!(number(events, "triggers_refused") > 0, "{events:#}");
}
