//! Replays of recordings that were damaged: recovered ones end, and what is missing is the recording's loss; one that was not
//! recovered fails, and its summary says how many bytes were not read. What a recorded run had no space for is its replay's loss, too.

use std::path::Path;

use serde_json::Value;

use crate::boards::boards_at;
use crate::process::{Ended, Folder, assert_ledger_balances, number, run_directory, thalweg};
use crate::storage::{mounted, report};

/// A run of this configuration, whose raw table is damaged in its middle and recovered, and its replay.
fn replay_of_a_recovered_run(
    folder: &Folder,
    (configuration, tables): (&str, &str),
    end: &[&str],
) -> (Value, Ended) {
    let text = format!(
        "{configuration}[record]\ndirectory = \"{}\"\ntables = [{tables}, \"raw\"]\nbatch_bytes = 50000\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let first = thalweg(&[&["run", &file, "--json"], end].concat()).done().json();
    assert_ledger_balances(&first);
    let run = run_directory(&first);
    flip_a_byte_in_the_middle(&Path::new(&run).join("raw.arrows"));
    thalweg(&["recover", &run, "--json"]).done();
    let again = thalweg(&["replay", &run, "--directory", &folder.at("again"), "--json"]);
    (first, again)
}

/// Damages the payload of the batch that lies over the middle of the file: the end of a batch is payload.
fn flip_a_byte_of_payload(file: &Path) {
    let mut bytes = std::fs::read(file).expect("recorded");
    // A batch begins with four bytes of ones, and the length of its description.
    let begins = |at: &usize| {
        let length =
            bytes[*at..].get(..8).map(|head| u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        bytes[*at..].starts_with(&[0xFF; 4])
            && length.is_some_and(|length| length % 8 == 0 && (200..5000).contains(&length))
    };
    let next = (bytes.len() / 16 * 8..bytes.len()).step_by(8).find(begins);
    let at = next.expect("there are many batches") - 1000;
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).expect("written");
}

/// The replay of a run that was damaged and not recovered fails, and what it says is lost is unknown, with the bytes that
/// it did not read as the bound. Returns the text that says so.
#[track_caller]
fn replay_of_a_damaged_run(folder: &Folder, configuration: &str, tables: &str, end: &[&str]) -> String {
    let text = format!(
        "{configuration}[record]\ndirectory = \"{}\"\ntables = [{tables}, \"raw\"]\nbatch_bytes = 50000\n",
        folder.at("runs")
    );
    let first = thalweg(&[&["run", &folder.file("run.toml", &text), "--json"], end].concat()).done().json();
    let run = run_directory(&first);
    flip_a_byte_of_payload(&Path::new(&run).join("raw.arrows"));
    let replay = |json: &[&str]| {
        let again = thalweg(&[&["replay", &run, "--directory", &folder.at("again")], json].concat());
        assert_eq!(again.code, Some(1), "{again:#?}");
        again
    };
    let again = replay(&["--json"]).json();
    assert_eq!((&again["state"], &again["ledger_closed"]), (&"failed".into(), &true.into()), "{again:#}");
    assert!(again["failures"].to_string().contains("raw.arrows"), "{again:#}");
    let received = |summary: &Value, key: &str| -> u64 {
        let ledger = summary["ledger"].as_array().expect("a list").iter();
        let of_bytes = ledger.filter(|line| line["stage"] == "receive" && line["unit"] == "bytes");
        of_bytes.map(|line| line[key].as_u64().or(line[key]["recording_damaged"].as_u64()).unwrap_or(0)).sum()
    };
    let unread = number(&again, "bytes_unread");
    assert!(unread > 0 && received(&again, "out") > 0, "{again:#}");
    assert_eq!(received(&again, "lost"), unread, "{again:#}");
    assert_eq!(received(&again, "out") + unread, received(&first, "out"), "nothing else is missing");
    let total = &again["loss"]["totals"][0];
    assert_eq!(
        (&total["quality"], &total["bound"]["unit"]),
        (&"unknown".into(), &"bytes".into()),
        "{total:#}"
    );
    assert!(number(&total["bound"], "count") >= unread, "{total:#}");
    let text = replay(&[]).out;
    let words = total["text"].as_str().expect("words");
    assert!(
        text.contains(words) && words.contains(" lost: unknown, ") && words.contains(" bytes (≥ "),
        "{words}\n{text}"
    );
    assert!(text.contains(&format!("bytes unread: {unread} in damaged files\n")), "{text}");
    for wrong in ["no hits lost", "no fragments lost", "none lost"] {
        assert!(!text.contains(wrong), "\"{wrong}\" in\n{text}");
    }
    let verified = thalweg(&["verify", &run_directory(&again)]).out;
    assert!(verified.contains(words) && verified.contains("bytes unread in damaged files"), "{verified}");
    words.to_owned()
}

#[test]
fn a_replay_of_hits_that_were_damaged_and_not_recovered_says_how_many_bytes_it_did_not_read() {
    let folder = Folder::new();
    let source = "[run]\n hits = 20000\n[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nchannels = 8\n\
                  [source.emulate]\nchannels = 8\nrate_hz = 5000\n";
    let words = replay_of_a_damaged_run(&folder, source, r#""hits""#, &["--seconds", "60"]);
    assert!(words.starts_with("hits lost: unknown, ≥ "), "{words}");
}

#[test]
fn a_replay_of_triggered_boards_that_were_damaged_and_not_recovered_says_how_many_bytes_it_did_not_read() {
    let folder = Folder::new();
    let boards = BOARDS.replace("boards = 2", "boards = 1");
    let words =
        replay_of_a_damaged_run(&folder, &format!("{boards}{TRIGGER}"), r#""events", "fragments""#, &[]);
    assert!(words.starts_with("fragments lost: unknown, ≥ "), "{words}");
}

fn flip_a_byte_in_the_middle(file: &Path) {
    let mut bytes = std::fs::read(file).expect("recorded");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(file, bytes).expect("written");
}

/// What is lost: stage, reason, unit, count.
fn losses(summary: &Value) -> Vec<(String, String, String, u64)> {
    let word = |loss: &Value, key: &str| loss[key].as_str().unwrap_or_default().to_owned();
    let losses = summary["losses"].as_array().expect("a list").iter();
    losses
        .map(|loss| (word(loss, "stage"), word(loss, "reason"), word(loss, "unit"), number(loss, "count")))
        .collect()
}

#[track_caller]
fn assert_lost_by_the_recording_alone(summary: &Value, stage: &str, unit: &str) {
    assert_ledger_balances(summary);
    let all = losses(summary);
    let found = all.iter().any(|(at, reason, of, count)| {
        (at.as_str(), reason.as_str(), of.as_str()) == (stage, "recording_damaged", unit) && *count > 0
    });
    assert!(found, "{all:#?}");
    let others: Vec<_> = all.iter().filter(|(_, reason, _, _)| reason != "recording_damaged").collect();
    assert!(others.is_empty(), "{others:#?}");
    let bytes = |(at, _, of, _): &&(String, String, String, u64)| at == "receive" && of == "bytes";
    assert!(all.iter().any(|loss| bytes(&loss)), "{all:#?}");
}

/// Two boards of which a fraction of a run waits in the memory for it.
const BOARDS: &str = "[[source]]\nname = \"lab\"\nformat = \"sitcp\"\nprofile = \"recbe\"\nurl = \"emulate://\"\nboards = 2\n\
                      memory_bytes = 1572864\nblock_bytes = 65536\n";
const TRIGGER: &str = "[trigger]\nrate_hz = 8000.0\ntriggers = 6000\n[build]\ndepth = 8192\nage_ms = 60000\n";

fn boards(folder: &Folder, more: &str) -> (Value, Value) {
    let configuration = (format!("{BOARDS}{TRIGGER}{more}"), r#""events", "fragments""#);
    let (first, again) = replay_of_a_recovered_run(folder, (&configuration.0, configuration.1), &[]);
    (first, again.done().json())
}

#[test]
fn a_replay_of_triggered_boards_ends_behind_a_gap_that_is_the_recordings_loss() {
    let folder = Folder::new();
    let (first, again) = boards(&folder, "");
    assert_lost_by_the_recording_alone(&again, "receive", "bytes");
    // Fragments and not events: where the damaged batch held one board alone, every event is there, some without it.
    let recorded = |summary: &Value| number(&summary["events"], "fragments_recorded");
    let (all, left) = (recorded(&first), recorded(&again));
    assert!(left < all && left > all * 3 / 4, "{left} of {all}");
    let lost: u64 = losses(&again)
        .iter()
        .filter(|(stage, _, unit, _)| stage == "wire" && unit == "fragments")
        .map(|(.., count)| count)
        .sum();
    assert!(lost <= all - left, "{lost} fragments, {all} and {left} recorded");
}

#[test]
fn a_replay_ends_behind_a_gap_although_incomplete_events_are_waited_for() {
    let folder = Folder::new();
    let (_, again) = boards(&folder, "incomplete = \"wait\"\n");
    // Where the gap is at the end of a board, no trigger number shows which fragments lay in it.
    assert_lost_by_the_recording_alone(&again, "receive", "bytes");
}

/// Half a second of hits, damaged, recovered and replayed.
fn hits(source: &str, unit: &str) {
    let folder = Folder::new();
    let configuration = format!("[run]\n hits = 20000\n{source}");
    let (first, again) =
        replay_of_a_recovered_run(&folder, (&configuration, r#""hits""#), &["--seconds", "60"]);
    let again = again.done().json();
    assert_lost_by_the_recording_alone(&again, "wire", unit);
    let recorded = |summary: &Value| number(summary, "hits_recorded");
    let (all, left) = (recorded(&first), recorded(&again));
    assert!(left < all && left > 0, "{left} of {all}");
}

#[test]
fn a_replay_of_hits_over_tcp_names_a_gap_as_the_recordings_loss() {
    let folder = Folder::new();
    let settings = folder.file("board.toml", "transport = \"tcp\"\nchannels = 8\nrate_hz = 5000.0\n");
    let _board = boards_at("127.0.3.40", &settings);
    let source = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"dig2://127.0.3.40\"\n";
    hits(source, "frames");
}

#[test]
fn a_replay_of_hits_in_datagrams_names_a_gap_as_the_recordings_loss() {
    let source = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nchannels = 8\n\
                  [source.emulate]\nchannels = 8\nrate_hz = 5000\n";
    hits(source, "datagrams");
}

#[test]
fn a_replay_of_time_slices_ends_behind_a_gap_that_is_the_recordings_loss() {
    let folder = Folder::new();
    let text = "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 2\ntick_ps = 1000\n\
                memory_bytes = 1572864\nblock_bytes = 65536\n\
                [source.emulate]\npayload_bytes = 200\ntick_ps = 1000\nstream = true\n\
                [trigger]\nrate_hz = 8000.0\ntriggers = 6000\n\
                [slices]\nslice_ps = 5000000000\nsilence_ms = 20_000\n[build]\nfull = \"hold\"\nage_ms = 60000\n";
    let (_, again) = replay_of_a_recovered_run(&folder, (text, r#""events", "fragments""#), &[]);
    let again = again.done().json();
    assert_ledger_balances(&again);
    let all = losses(&again);
    assert!(all.iter().any(|(_, reason, ..)| reason == "recording_damaged"), "{all:#?}");
    let named = |reason: &str| reason == "recording_damaged" || reason == "missing_fragment";
    assert!(all.iter().all(|(_, reason, ..)| named(reason)), "{all:#?}");
}

#[test]
fn a_replay_says_what_its_recorded_run_had_no_space_for() {
    let folder = Folder::new();
    std::fs::create_dir(folder.at("runs")).expect("made");
    folder.file(
        "run.toml",
        "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nchannels = 8\n\
         [source.emulate]\nchannels = 8\nrate_hz = 40000\n\
         [record]\ndirectory = \"runs\"\ntables = [\"raw\"]\nbatch_bytes = 50000\n",
    );
    let ended = mounted(
        &folder,
        "mount -t tmpfs -o size=16m none runs || exit 9",
        "head -c 14500000 /dev/zero > runs/filler\n\
         \"$0\" run run.toml --seconds 20 --json > first.json; [ $? = 1 ] || exit 8\n\
         \"$0\" replay runs/000001 --directory again --json > again.json",
    );
    let Some(ended) = ended else { return };
    assert_eq!(ended.code, Some(0), "the run failed for its disk, and is replayed: {ended:#?}");
    let (first, again) = (report(&folder, "first.json"), report(&folder, "again.json"));
    assert_ledger_balances(&again);
    let ledger = first["ledger"].as_array().expect("a list");
    let not_written = ledger
        .iter()
        .filter(|entry| (&entry["stage"], &entry["unit"]) == (&"raw".into(), &"bytes".into()))
        .flat_map(|entry| entry["lost"].as_object().expect("by reason").values())
        .filter_map(Value::as_u64);
    let not_written = not_written.sum::<u64>();
    let said = losses(&again);
    let of_source = said.iter().find(|(at, reason, unit, _)| {
        (at.as_str(), reason.as_str(), unit.as_str()) == ("receive", "recording_damaged", "bytes")
    });
    assert!(not_written > 0 && of_source.is_some_and(|(.., count)| *count == not_written), "{said:#?}");
    let total = &again["loss"]["totals"][0];
    assert_eq!((&total["unit"], &total["quality"]), (&"hits".into(), &"unknown".into()), "{total:#}");
}
