//! Raw recordings run again: the same bytes, the same hits.

use std::io::Write as _;
use std::net::TcpListener;
use std::ops::Range;

use serde_json::Value;

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg};
use crate::refused::datagram;

/// Boards that send everything there is, into a recording with the raw table.
fn configuration(folder: &Folder, (of_sources, order): (&str, &str)) -> String {
    let source = |name: &str, board: u16| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
             {of_sources}channels = 8\nfirst_channel = {}\n\
             [source.emulate]\nboard = {board}\nboards = 2\nchannels = 8\nrate_hz = 20000\n\
             waveform_samples = 16\nstatistics_interval_ms = 100\n",
            8 * board
        )
    };
    let text = format!(
        "{}{}[order]\n{order}\n[record]\ndirectory = \"{}\"\n\
         tables = [\"hits\", \"extras\", \"waveforms\", \"raw\"]\n",
        source("left", 0),
        source("right", 1).replace("waveform_samples = 16", "waveform_samples = 0"),
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// Takes a run of two boards and replays it; see [`differences`].
fn differences_of_a_replay(of_sources: &str) -> Vec<String> {
    let folder = Folder::new();
    let file = configuration(&folder, (of_sources, "stall_ms = 500"));
    differences(&folder, &file, &["hits", "extras", "waveforms"])
}

/// Takes a run and replays it; both have the same number of hits. Gives the tables whose bytes differ, each with its first difference.
fn differences(folder: &Folder, file: &str, tables: &[&str]) -> Vec<String> {
    let run = Running::start(&["run", file, "--seconds", "100", "--json", "--states", "0.1"]);
    let first = run.stop_when("hits", |state| number(state, "hits_recorded") > 20_000).done().json();
    assert_ledger_balances(&first);
    let again = thalweg(&["replay", &run_directory(&first), "--directory", &folder.at("again"), "--json"]);
    let again = again.done().json();
    assert_ledger_balances(&again);
    assert_eq!(number(&first, "hits_recorded"), number(&again, "hits_recorded"));
    let mut differences = Vec::new();
    for table in tables {
        let bytes = |summary| std::fs::read(format!("{}/{table}.arrows", run_directory(summary)));
        let (one, two) = (bytes(&first).expect("recorded"), bytes(&again).expect("recorded"));
        if one != two {
            let at = one.iter().zip(&two).position(|(one, two)| one != two);
            differences.push(format!("{table}: {} bytes against {}, from byte {at:?}", one.len(), two.len()));
        }
    }
    differences
}

#[test]
fn a_replay_gives_the_same_files_bit_by_bit() {
    assert_eq!(differences_of_a_replay(""), [""; 0]);
}

#[test]
fn a_run_that_was_short_of_blocks_is_replayed_bit_by_bit() {
    // Within 20 ms, for which hits may wait, more comes than the blocks hold; lost datagrams leave gaps in what of it waits.
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"a\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 6_291_456\nchannels = 8\n\
         [source.faults]\ndrop = 0.02\nduplicate = 0.02\nseed = 48\n\
         [source.emulate]\nchannels = 8\nrate_hz = 5000.0\ndatagram_bytes = 8000\naggregate_hits = 20\n\
         aligned_datagrams = false\nwaveform_samples = 2000\nwaveform_every = 1\n\
         [record]\ndirectory = \"{}\"\ntables = [\"hits\", \"waveforms\", \"raw\"]\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    assert_eq!(differences(&folder, &file, &["hits", "waveforms"]), [""; 0]);
}

#[test]
fn boards_that_share_a_reading_thread_are_replayed_bit_by_bit() {
    assert_eq!(differences_of_a_replay("reader = \"boards\"\n"), [""; 0]);
    let folder = Folder::new();
    let file = configuration(&folder, ("reader = \"boards\"\n", ""));
    let explained = thalweg(&["run", &file, "--explain"]).done().out;
    assert!(explained.contains("receives, finds units, decodes of left, right"), "{explained}");
}

#[test]
fn a_reading_thread_with_the_name_of_another_is_refused_with_its_source() {
    let folder = Folder::new();
    let file = configuration(&folder, ("reader = \"order\"\n", ""));
    let ended = thalweg(&["run", &file, "--explain"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.error.contains("another thread of this run has that name"), "{}", ended.error);
}

#[test]
fn a_run_without_raw_bytes_says_so_when_it_is_replayed() {
    let folder = Folder::new();
    let summary =
        thalweg(&["demo", "--seconds", "0.5", "--json", "--directory", &folder.at("runs")]).done().json();
    let run = run_directory(&summary);
    if std::path::Path::new(&run).join("raw.arrows").exists() {
        std::fs::remove_file(format!("{run}/raw.arrows")).expect("removed");
    }
    let ended = thalweg(&["replay", &run, "--directory", &folder.at("again")]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.error.contains("raw"), "{}", ended.error);
}

#[test]
fn several_boards_behind_one_port_are_replayed_into_the_same_events() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"lab\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 4\n\
         [trigger]\nrate_hz = 500.0\ntriggers = 200\n[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\", \"raw\"]\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let first = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
    assert_ledger_balances(&first);
    let again = thalweg(&["replay", &run_directory(&first), "--directory", &folder.at("again"), "--json"]);
    let again = again.done().json();
    assert_ledger_balances(&again);
    let recorded = |summary: &Value| {
        let events = &summary["events"];
        (number(events, "events_recorded"), number(events, "fragments_recorded"))
    };
    assert!(recorded(&first).0 > 100, "{first:#}");
    assert_eq!(recorded(&first), recorded(&again));
}

#[test]
fn a_replay_of_a_board_that_connected_again_loses_what_the_run_lost() {
    let (folder, listener) = (Folder::new(), TcpListener::bind("127.0.0.1:0").expect("loopback is there"));
    let text = format!(
        "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"tcp://{}\"\nfirst_board = 10\n[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\", \"raw\"]\n",
        listener.local_addr().expect("bound"),
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let whole = |triggers: Range<u64>| triggers.flat_map(|trigger| datagram(10, 7, trigger));
    // The first connection ends inside a fragment.
    let (mut first, _) = listener.accept().expect("the run connects");
    let cut: Vec<u8> = whole(0..10).chain(datagram(10, 7, 10).into_iter().take(30)).collect();
    first.write_all(&cut).expect("it reads");
    drop(first);
    let (mut second, _) = listener.accept().expect("the run connects again");
    second.write_all(&whole(11..20).collect::<Vec<u8>>()).expect("it reads");
    let are_recorded = |state: &Value| state["events"]["events_recorded"].as_u64() == Some(19);
    let first = run.stop_when("events", are_recorded).done().json();
    let again = thalweg(&["replay", &run_directory(&first), "--directory", &folder.at("again"), "--json"]);
    for summary in [first, again.done().json()] {
        assert_ledger_balances(&summary);
        assert_eq!(number(&summary["events"], "events_recorded"), 19, "{summary:#}");
        let losses = summary["losses"].as_array().expect("a list").iter();
        let lost: Vec<String> =
            losses.map(|loss| format!("{} {} {}", loss["count"], loss["unit"], loss["reason"])).collect();
        assert_eq!(lost, ["30 \"bytes\" \"unfinished\"", "1 \"frames\" \"unfinished\""], "{summary:#}");
    }
}
