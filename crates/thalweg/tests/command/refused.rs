//! What a board sent that could not be used is shown: whose, which, why, what was expected, and its bytes.

use std::net::UdpSocket;

use crate::process::{Folder, Running, assert_ledger_balances, free_port, number};

/// A header of the fragment format with a right check (docs/formats/fragment.md), and a payload of 8 bytes.
pub fn datagram(board: u16, run: u32, trigger: u64) -> Vec<u8> {
    let mut bytes = vec![0x74, 0x57, 1, 0];
    bytes.extend(board.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(run.to_be_bytes());
    bytes.extend(8u32.to_be_bytes());
    bytes.extend(trigger.to_be_bytes());
    bytes.extend([0; 16]);
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    bytes[38..].copy_from_slice(&(!(sum as u16 + (sum >> 16) as u16)).to_be_bytes());
    bytes.extend(*b"payload.");
    bytes
}

const TWO: &str = "boards = 2";

/// A run of boards that are expected to send run 7, and that is sent `datagrams` twice. Events wait for as long as the run takes, so
/// that what comes again is known to be a double.
fn run(folder: &Folder, more: &str, json: bool, datagrams: &[Vec<u8>]) -> crate::process::Ended {
    let port = free_port();
    let text = format!(
        "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"udp://127.0.0.1:{port}\"\n\
         first_board = 10\nrun = 7\n{more}\n[build]\nage_ms = 60000\n[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let arguments = ["run", &file, "--seconds", "100", "--states", "0.1", "--json"];
    let running = Running::start(if json { &arguments } else { &arguments[..6] });
    running.wait_until_running();
    let board = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    for datagram in datagrams.iter().chain(datagrams) {
        board.send_to(datagram, ("127.0.0.1", port)).expect("loopback takes it");
    }
    // What had come by the stop is taken.
    running.signal("INT");
    running.wait().done()
}

#[test]
fn refused_datagrams_are_dumped_in_the_summary_and_in_run_json() {
    let folder = Folder::new();
    let datagrams = [datagram(10, 7, 1), datagram(11, 6, 1), datagram(13, 7, 1), vec![0xAB; 50]];
    let summary = run(&folder, TWO, true, &datagrams).json();
    assert_ledger_balances(&summary);
    let refused = summary["refused"].as_array().expect("a list");
    let first = |reason: &str| {
        let found = refused.iter().find(|unit| unit["reason"] == reason);
        found.unwrap_or_else(|| panic!("{reason} in {refused:#?}")).clone()
    };
    let wrong_run = first("wrong_run");
    assert_eq!((&wrong_run["source"], &wrong_run["trigger"]), (&"camera/1".into(), &1.into()));
    assert_eq!(wrong_run["expected"], "run 7; this is of run 6");
    assert!(
        wrong_run["head"].as_str().is_some_and(|head| head.starts_with("74570100000b0001")),
        "{wrong_run:#}"
    );
    let unexpected = first("unknown_source");
    assert_eq!((&unexpected["source"], &unexpected["stage"]), (&"camera".into(), &"unpack".into()));
    assert_eq!(unexpected["expected"], "board 10 to 11; this is board 13");
    assert_eq!(number(&first("wrong_constant"), "bytes"), 50);
    let doubled = first("duplicate_fragment");
    assert_eq!((&doubled["stage"], &doubled["source"]), (&"build".into(), &"camera/0".into()));
    let record = std::fs::read_to_string(format!("{}/run.json", crate::process::run_directory(&summary)));
    let record: serde_json::Value = serde_json::from_str(&record.expect("there")).expect("JSON");
    assert_eq!(record["details"]["refused"], summary["refused"]);
}

#[test]
fn the_text_shows_the_first_bytes_of_each_kind() {
    let folder = Folder::new();
    let text = run(&folder, TWO, false, &[datagram(10, 7, 5), datagram(11, 6, 5)]).out;
    assert!(text.contains("camera/1 at unpack: wrong_run: trigger 5, 48 bytes after"), "{text}");
    assert!(text.contains("expected run 7; this is of run 6"), "{text}");
    assert!(text.contains("    0000  74570100 000b0001 00000006 00000008\n"), "{text}");
    assert!(!text.contains("source 1"), "boards have names: {text}");
}

#[test]
fn a_dead_board_behind_a_shared_port_is_left_out_and_events_are_complete_without_it() {
    let folder = Folder::new();
    // Board 11 is dead but for a last word now and then.
    let mut trigger = 0;
    let mut both = |run| {
        trigger += 1;
        [datagram(10, run, trigger), datagram(12, run, trigger)]
    };
    let datagrams: Vec<Vec<u8>> = (0..20).flat_map(|_| both(7)).chain([datagram(11, 7, 3)]).collect();
    let summary = run(&folder, "boards = 3\nwithout = [11]", true, &datagrams).json();
    assert_ledger_balances(&summary);
    let events = &summary["events"];
    assert_eq!(
        (number(events, "events_partial"), number(&events["closed"], "complete")),
        (0, 20),
        "{events:#}"
    );
    assert_eq!(number(events, "fragments_missing"), 0);
    let lines = summary["ledger"].as_array().expect("a list");
    assert!(lines.iter().any(|line| line["source"] == "camera/2"), "names go on counting: {lines:#?}");
    assert!(!lines.iter().any(|line| line["source"] == "camera/1"), "{lines:#?}");
    let filtered = lines.iter().filter(|line| line["source"] == "camera" && line["unit"] == "datagrams");
    assert!(filtered.map(|line| number(line, "filtered")).sum::<u64>() > 0, "{lines:#?}");
}

#[test]
fn a_damaged_fragment_is_one_loss_and_no_gap() {
    let folder = Folder::new();
    let mut damaged = datagram(11, 7, 2);
    damaged.truncate(44);
    let datagrams = [datagram(10, 7, 1), datagram(11, 7, 1), datagram(10, 7, 2), damaged];
    let summary = run(&folder, TWO, true, &datagrams).json();
    assert_ledger_balances(&summary);
    let losses = summary["losses"].as_array().expect("a list");
    let of = |stage: &str, reason: &str| -> u64 {
        let alike = losses.iter().filter(|loss| loss["source"] == "camera/1" && loss["unit"] == "fragments");
        let found = alike.filter(|loss| loss["stage"] == stage && loss["reason"] == reason);
        found.map(|loss| number(loss, "count")).sum()
    };
    assert_eq!((of("wire", "bad_length"), of("wire", "missing_fragment")), (0, 0), "{losses:#?}");
    assert!(of("unpack", "bad_length") >= 1, "{losses:#?}");
    let lines = summary["ledger"].as_array().expect("a list").iter();
    let mut of_wire = lines.filter(|line| line["source"] == "camera/1" && line["stage"] == "wire");
    let wire = of_wire.find(|line| line["unit"] == "fragments").expect("a counter slot");
    assert_eq!((number(wire, "gap_opened"), number(wire, "gap_filled")), (1, 1), "{wire:#}");
    assert_eq!(number(&summary["events"], "fragments_missing"), 0);
}
