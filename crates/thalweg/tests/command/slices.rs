//! Time slices of trigger-less experiments, out of hits and out of fragments.
//!
//! ```text
//!  emulated boards ─► [slices] ─► events, one per slice ─► each hit in its window, none lost but what the ledger says
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use thalweg_record::EventFiles;
use thalweg_record::read::{MergedEvents, RecordedEvent};

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg};

const SLICE_PS: i64 = 5_000_000_000;
const HIT_BYTES: usize = 16;

/// Two boards, 20 kHz in each of eight channels.
fn two_boards(folder: &Folder, tables: &str, more: &str) -> String {
    let source = |name: &str, board: u16, keys: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n{keys}\
             channels = 8\nfirst_channel = {}\n[source.emulate]\nboard = {board}\nboards = 2\nchannels = 8\nrate_hz = 20000\n",
            8 * board
        )
    };
    let text = format!(
        "{}{}[slices]\nslice_ps = {SLICE_PS}\ndisorder_ps = 20_000_000_000\n{more}\n[record]\ndirectory = \"{}\"\ntables = {tables}\n",
        source("left", 0, ""),
        source("right", 1, "workers = 2\n"),
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// The entry of one stage, source and unit in the ledger.
#[track_caller]
fn entry<'s>(summary: &'s Value, source: &str, stage: &str, unit: &str) -> &'s Value {
    let ledger = summary["ledger"].as_array().expect("a list");
    let of_it = |one: &&Value| one["source"] == source && one["stage"] == stage && one["unit"] == unit;
    ledger.iter().find(of_it).unwrap_or_else(|| panic!("{source} {stage} {unit} in {ledger:#?}"))
}

/// How many events are on file, as a live state has it.
fn recorded_events(state: &Value) -> u64 {
    state["events"]["events_recorded"].as_u64().unwrap_or(0)
}

fn recorded(summary: &Value) -> Vec<RecordedEvent> {
    let events = Path::new(&run_directory(summary)).join("events.arrows");
    let files = EventFiles::of(&events).expect("a pair of files");
    let mut merged = MergedEvents::open(&[files]).expect("whole files");
    let (mut all, mut event) = (Vec::new(), RecordedEvent::default());
    while merged.next_event(&mut event).expect("readable") {
        all.push(event.clone());
    }
    all
}

/// How many hits lie in the slices; each is asserted to lie in the window of its own.
#[track_caller]
fn hits_in_their_windows(events: &[RecordedEvent]) -> u64 {
    let mut hits = 0;
    for event in events {
        for fragment in &event.fragments {
            for hit in event.payload(fragment).chunks(HIT_BYTES) {
                let time_ps = i64::from_le_bytes(hit[..8].try_into().expect("eight bytes"));
                assert_eq!(time_ps.div_euclid(SLICE_PS), event.trigger as i64, "source {}", fragment.source);
                hits += 1;
            }
        }
    }
    hits
}

/// How many slices each source has a fragment in; they are asserted to be the first ones, without a hole.
#[track_caller]
fn slices_by_source(events: &[RecordedEvent]) -> Vec<u64> {
    let mut slices = BTreeMap::<_, Vec<u64>>::new();
    for event in events {
        for fragment in &event.fragments {
            slices.entry(fragment.source).or_default().push(event.trigger);
        }
    }
    for (source, slices) in &slices {
        assert!(slices.iter().copied().eq(0..slices.len() as u64), "source {source}: {slices:?}");
    }
    slices.values().map(|slices| slices.len() as u64).collect()
}

#[test]
fn every_hit_of_two_boards_is_in_the_slice_of_its_time() {
    let folder = Folder::new();
    // However long a busy machine lets one board wait, none of its hits is late.
    let file = two_boards(
        &folder,
        r#"["hits", "events", "fragments"]"#,
        "silence_ms = 20_000\n[build]\nage_ms = 60_000",
    );
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let enough = |state: &Value| state["snapshots"].as_u64() > Some(0) && recorded_events(state) > 300;
    let summary = run
        .stop_when("three hundred slices, and snapshots of the ledger that were taken on the way", enough)
        .done()
        .json();
    assert_ledger_balances(&summary);
    assert_eq!(summary["failures"], Value::Array(Vec::new()), "{summary:#}");
    assert!(number(&summary, "snapshots") > 0, "the ledger balanced on the way, too: {summary:#}");
    thalweg(&["verify", &run_directory(&summary), "--json"]).done();
    let events = recorded(&summary);
    assert_eq!(events.len() as u64, number(&summary["events"], "events_recorded"));
    assert!(events.len() > 300, "{summary:#}");
    let numbers: Vec<u64> = events.iter().map(|event| event.trigger).collect();
    let all: Vec<u64> = (0..events.len() as u64).collect();
    assert_eq!(numbers, all, "from the start of the run, none is left out");
    let in_slices = hits_in_their_windows(&events);
    let without_holes = slices_by_source(&events);
    let mut counted = 0;
    for source in ["left", "right"] {
        let cut = entry(&summary, source, "time_slice", "hits");
        assert_eq!(cut["in"], entry(&summary, source, "decode", "hits")["out"], "{cut:#}");
        assert_eq!(number(cut, "in"), number(cut, "out"), "none is late: {cut:#}");
        counted += number(cut, "out");
        for stage in ["build", "record"] {
            let fragments = entry(&summary, &format!("{source}/slices"), stage, "fragments");
            assert_eq!(fragments["lost"], serde_json::json!({}), "{stage}: {fragments:#}");
            // Where the run ends, one board may have come further than the other.
            assert!(without_holes.contains(&number(fragments, "out")), "{stage}: {fragments:#}");
        }
    }
    assert_eq!(in_slices, counted);
    assert_eq!(in_slices, number(&summary, "hits_recorded"), "the hits of the table are those of the slices");
}

#[test]
fn slices_alone_can_be_recorded_and_a_replay_gives_the_same() {
    let folder = Folder::new();
    // However long a busy machine lets one board wait: what is late in the run is not in the replay.
    let file = two_boards(
        &folder,
        r#"["events", "fragments", "raw"]"#,
        "silence_ms = 20_000\n[build]\nage_ms = 60_000",
    );
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let first = run.stop_when("two hundred slices", |state| recorded_events(state) > 200).done().json();
    assert_ledger_balances(&first);
    let again = thalweg(&["replay", &run_directory(&first), "--directory", &folder.at("again"), "--json"]);
    let again = again.done().json();
    assert_ledger_balances(&again);
    let (one, two) = (recorded(&first), recorded(&again));
    assert!(hits_in_their_windows(&one) > 100_000, "{first:#}");
    assert!(one == two, "{} slices against {}", one.len(), two.len());
    let found = thalweg(&["inspect", &run_directory(&first), "--json"]).done().json();
    let tables = found["tables"].as_array().expect("a list");
    assert!(tables.iter().any(|table| table["table"] == "events"), "{found:#}");
    assert!(!tables.iter().any(|table| table["table"] == "hits"), "{found:#}");
}

#[test]
fn hits_that_come_too_late_for_their_slice_are_counted() {
    for tables in [r#"["events", "fragments"]"#, r#"["hits", "events", "fragments"]"#] {
        let folder = Folder::new();
        // Boards speak every few milliseconds: with so little patience they are taken to be silent, and come too late.
        let file = two_boards(&folder, tables, "silence_ms = 1");
        let text = std::fs::read_to_string(&file).expect("just written");
        let file =
            folder.file("strict.toml", &text.replace("disorder_ps = 20_000_000_000", "disorder_ps = 0"));
        let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
        let is_late = |loss: &Value| loss["stage"] == "time_slice" && loss["reason"] == "late";
        let some_are_late = |state: &Value| {
            recorded_events(state) > 0
                && state["losses"].as_array().is_some_and(|all| all.iter().any(is_late))
        };
        let summary = run.stop_when("hits that are late", some_are_late).done().json();
        assert_ledger_balances(&summary);
        let cuts = ["left", "right"].map(|source| entry(&summary, source, "time_slice", "hits"));
        let late: u64 = cuts.iter().map(|cut| cut["lost"]["late"].as_u64().unwrap_or(0)).sum();
        assert!(late > 0, "{cuts:#?}");
        let in_slices = hits_in_their_windows(&recorded(&summary));
        assert_eq!(in_slices, cuts.iter().map(|cut| number(cut, "out")).sum::<u64>());
        // What slices alone would keep is lost for good; beside a table of hits it is lost to the slices only.
        match tables.contains("hits") {
            true => assert!(number(&summary, "hits_lost") == 0, "{summary:#}"),
            false => assert!(number(&summary, "hits_lost") >= late, "{summary:#}"),
        }
        thalweg(&["verify", &run_directory(&summary), "--json"]).done();
    }
}

#[test]
fn fragments_of_boards_without_a_trigger_are_built_by_their_time() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nboards = 20\ntick_ps = 1000\n\
         [source.emulate]\npayload_bytes = 200\ntick_ps = 1000\nstream = true\n\
         [trigger]\nprogram = \"poisson\"\nrate_hz = 2000.0\n\
         [slices]\nslice_ps = {SLICE_PS}\nsilence_ms = 20_000\n\
         [build]\nfull = \"hold\"\n[run]\nevents = 300\n\
         [record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let summary = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
    assert_ledger_balances(&summary);
    thalweg(&["verify", &run_directory(&summary), "--json"]).done();
    let events = recorded(&summary);
    assert!(events.len() >= 300, "{} slices", events.len());
    // Each board's fragments lie in its part of the slice, one behind the other: 40 bytes of header with the time at byte 24.
    let mut fragments = 0u64;
    for event in &events {
        assert_eq!(event.fragments.len(), 20, "slice {}: {:?} missing", event.trigger, event.missing);
        for fragment in &event.fragments {
            for own in event.payload(fragment).chunks(240) {
                let ticks = u64::from_be_bytes(own[24..32].try_into().expect("eight bytes"));
                assert_eq!(ticks * 1000 / SLICE_PS as u64, event.trigger);
                fragments += 1;
            }
        }
    }
    let ledger = summary["ledger"].as_array().expect("a list");
    let cut = ledger.iter().filter(|one| one["stage"] == "time_slice" && one["unit"] == "fragments");
    assert_eq!(cut.map(|one| number(one, "out")).sum::<u64>(), fragments);
    assert!(fragments > 20 * 1000, "{fragments}");
}

#[test]
fn a_run_of_slices_that_is_stopped_leaves_whole_files() {
    let folder = Folder::new();
    let file = two_boards(&folder, r#"["events", "fragments"]"#, "");
    let running = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    running.wait_for_state("slices are recorded", |state| number(&state["events"], "events_recorded") > 100);
    running.signal("TERM");
    let summary = running.wait().done().json();
    assert_ledger_balances(&summary);
    thalweg(&["verify", &run_directory(&summary)]).done();
}

/// Asserts that a run does not begin, and that the message has these words.
#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let folder = Folder::new();
    let ended = thalweg(&["run", &folder.file("wrong.toml", text), "--seconds", "1"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    for word in words {
        assert!(ended.error.contains(word), "`{word}` in:\n{}", ended.error);
    }
}

#[test]
fn what_cannot_be_cut_is_refused_before_the_run() {
    let hits = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:0\"\n";
    let boards = "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"udp://127.0.0.1:0\"\n";
    refused(&format!("{hits}[slices]\nslice_ps = 10\n"), &["slice_ps = 10", "1 ns"]);
    refused(&format!("{hits}[slices]\nslize_ps = 10\n"), &["line 6", "slize_ps", "slice_ps"]);
    refused(&format!("{boards}[slices]\n"), &["camera", "tick_ps"]);
    refused(&format!("{hits}{boards}tick_ps = 1000\n[slices]\n"), &["both"]);
    refused(&format!("{hits}[slices]\n[record]\ntables = [\"hits\"]\n"), &["events", "fragments"]);
    refused(&format!("{hits}[slices]\nmemory_bytes = 65536\n"), &["memory_bytes", "or more"]);
    let sitcp =
        boards.replace("\"fragment\"", "\"sitcp\"").replace("udp://127.0.0.1:0", "tcp://127.0.0.1:24");
    refused(&format!("{sitcp}[slices]\n"), &["camera", "no time that goes on"]);
}
