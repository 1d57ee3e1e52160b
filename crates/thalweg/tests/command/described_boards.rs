//! Triggered boards without a decoder of their own: their packets are described in the configuration, built into events, replayed.
//!
//! ```text
//!  packets of a lab's own ─ UDP ─► [[source]] format = "generic", [source.fragments] ─► events ─► raw ─► the same events
//! ```

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;

use serde_json::Value;
use thalweg_record::EventFiles;
use thalweg_record::read::{MergedEvents, RecordedEvent};

use crate::process::{
    Folder, Running, accepted_triggers, assert_ledger_balances, free_port, number, run_directory, thalweg,
};

const EXAMPLE: &str = include_str!("../../../../examples/camera-of-your-own.toml");

/// The shipped example with other values of some of its keys. However long a busy machine lets a board wait, no fragment is late.
#[track_caller]
fn example(folder: &Folder, changes: &[(&str, &str)]) -> String {
    let runs = format!("directory = \"{}\"", folder.at("runs"));
    let own = [("directory = \"runs\"", runs.as_str()), ("age_ms     = 200", "age_ms = 60_000")];
    let text = changes.iter().chain(&own).fold(EXAMPLE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the example says `{from}`");
        text.replace(from, to)
    });
    folder.file("run.toml", &text)
}

fn recorded(summary: &Value) -> Vec<RecordedEvent> {
    let events = Path::new(&run_directory(summary)).join("events.arrows");
    let mut merged = MergedEvents::open(&[EventFiles::of(&events).expect("a pair of files")]).expect("whole");
    let (mut all, mut event) = (Vec::new(), RecordedEvent::default());
    while merged.next_event(&mut event).expect("readable") {
        all.push(event.clone());
    }
    all
}

/// Of one event its trigger, of each fragment source, time and bytes, and the sources that are missing.
type Content = (u64, Vec<(u16, u64, Vec<u8>)>, Vec<u16>);

/// What the boards sent, without the times of this host.
fn content(summary: &Value) -> Vec<Content> {
    let of = |event: RecordedEvent| {
        let fragments = event.fragments.iter();
        let fragments = fragments.map(|own| (own.source.0, own.ticks, event.payload(own).to_vec())).collect();
        (event.trigger, fragments, event.missing.iter().map(|source| source.0).collect())
    };
    recorded(summary).into_iter().map(of).collect()
}

/// How many of so many triggers were accepted, which some were.
#[track_caller]
fn accepted_of(offered: u64, summary: &Value) -> u64 {
    assert_eq!(number(&summary["events"], "triggers_offered"), offered, "{summary:#}");
    let accepted = accepted_triggers(summary);
    assert!(accepted > 0, "{summary:#}");
    accepted
}

#[track_caller]
fn assert_replayed_alike(summary: &Value, folder: &Folder) {
    let again = thalweg(&["replay", &run_directory(summary), "--directory", &folder.at("again"), "--json"])
        .done()
        .json();
    assert_ledger_balances(&again);
    assert_eq!(content(summary), content(&again));
    thalweg(&["verify", &run_directory(summary)]).done();
}

#[test]
fn the_example_of_a_described_camera_builds_its_events() {
    let folder = Folder::new();
    let some =
        [("boards   = 265", "boards   = 20"), ("rate_hz      = 1000.0", "rate_hz = 500.0\ntriggers = 300")];
    let file = example(&folder, &some);
    let summary = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
    assert_ledger_balances(&summary);
    let (events, accepted) = (recorded(&summary), accepted_of(300, &summary));
    assert_eq!((events.len() as u64, number(&summary["events"]["closed"], "complete")), (accepted, accepted));
    for event in &events {
        let header = |at: usize, bytes: usize, own: &[u8]| {
            own[at..at + bytes].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        for (module, own) in event.fragments.iter().enumerate() {
            let bytes = event.payload(own);
            assert_eq!(bytes.len(), 1024);
            assert_eq!(header(0, 2, bytes), 0xCA3E);
            assert_eq!(header(2, 2, bytes), module as u64);
            assert_eq!(header(4, 4, bytes), event.trigger);
            assert_eq!(header(12, 8, bytes), own.ticks);
        }
    }
    assert_replayed_alike(&summary, &folder);
}

#[test]
fn the_time_in_described_packets_cuts_them_into_slices() {
    let folder = Folder::new();
    let changes = [
        ("boards   = 265", "boards   = 3"),
        ("rate_hz      = 1000.0", "rate_hz = 2000.0\ntriggers = 2000"),
        ("[record]", "[slices]\nslice_ps = 100_000_000_000\nsilence_ms = 20_000\n\n[record]"),
        ("full       = \"close\"", ""),
    ];
    let file = example(&folder, &changes);
    let summary = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
    assert_ledger_balances(&summary);
    let (slices, mut packets) = (recorded(&summary), 0);
    assert!(slices.len() >= 9, "a second in slices of a tenth: {}", slices.len());
    for slice in &slices {
        for own in &slice.fragments {
            let mut rest = slice.payload(own);
            while rest.len() >= 1024 {
                let ticks = u64::from_be_bytes(rest[12..20].try_into().expect("eight bytes"));
                assert_eq!(ticks * 8000 / 100_000_000_000, slice.trigger, "each packet in its slice");
                (packets, rest) = (packets + 1, &rest[1024..]);
            }
        }
    }
    assert_eq!(packets, 3 * accepted_of(2000, &summary));
}

/// 8 bytes of header, no board number: event, sent number.
const BY_SENDER: &str = r#"
[[source]]
name   = "modules"
format = "generic"
byte_order   = "big"
header_bytes = 8
policy       = "drop"
trigger      = { field = "event" }
sequence     = { field = "sent" }
[source.field]
event = { offset = 0, width = 4 }
sent  = { offset = 4, width = 4 }
[source.fragments]
boards   = 3
named_by = "sender"
[build]
age_ms = 60_000
[record]
tables = ["events", "fragments", "raw"]
"#;

fn by_sender(folder: &Folder, url: &str) -> String {
    let text = BY_SENDER
        .replace("format =", &format!("url = \"{url}\"\nformat ="))
        .replace("[record]", &format!("[record]\ndirectory = \"{}\"", folder.at("runs")));
    folder.file("run.toml", &text)
}

#[test]
fn modules_that_write_no_number_are_numbered_by_their_address() {
    let folder = Folder::new();
    let port = free_port();
    let file = by_sender(&folder, &format!("udp://127.0.0.1:{port}?from=127.0.1.{{11..13}}"));
    let run = Running::start(&["run", &file, "--seconds", "100", "--states", "0.1", "--json"]);
    run.wait_until_running();
    let sockets: Vec<UdpSocket> = ["127.0.1.13:0", "127.0.1.11:0", "127.0.1.12:0", "127.0.1.14:0"]
        .map(|own| UdpSocket::bind(own).expect("loopback has these addresses"))
        .into();
    for trigger in 0..200u32 {
        for (sender, socket) in sockets.iter().enumerate() {
            // One module misses every fiftieth trigger.
            if sender == 2 && trigger % 50 == 25 {
                continue;
            }
            let packet = [trigger.to_be_bytes(), trigger.to_be_bytes(), [sender as u8; 4]].concat();
            socket.send_to(&packet, ("127.0.0.1", port)).expect("loopback takes it");
        }
    }
    run.signal("INT");
    let summary = run.wait().done().json();
    assert_ledger_balances(&summary);
    let losses = summary["losses"].as_array().expect("a list");
    let lost = |reason: &str, unit: &str| {
        let of_it = losses.iter().filter(|loss| loss["reason"] == reason && loss["unit"] == unit);
        of_it.map(|loss| number(loss, "count")).sum::<u64>()
    };
    assert_eq!(lost("unexpected_sender", "datagrams"), 200);
    assert_eq!(lost("frame_gap", "frames"), 4, "the module's own number says so: {losses:#?}");
    assert_eq!(lost("missing_fragment", "fragments"), 4);
    let events = recorded(&summary);
    assert_eq!(events.len(), 200);
    for event in &events {
        // The order of the URL, not that in which they answered.
        for (source, sender) in [(0, 1), (1, 2), (2, 0)] {
            let own = event.fragments.iter().find(|own| own.source.0 == source);
            let is_missing = source == 1 && event.trigger % 50 == 25;
            assert_eq!(own.is_none(), is_missing, "trigger {}", event.trigger);
            assert!(own.is_none_or(|own| event.payload(own)[8..] == [sender; 4]));
        }
    }
    let names: BTreeSet<&str> = losses.iter().filter_map(|loss| loss["source"].as_str()).collect();
    assert!(names.contains("modules/1"), "{names:?}");
    assert_replayed_alike(&summary, &folder);
}

#[test]
fn a_url_that_does_not_name_each_board_says_how() {
    let folder = Folder::new();
    let refused = |url: &str| {
        let ended = thalweg(&["run", &by_sender(&folder, url), "--explain"]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        ended.error
    };
    let two = refused("udp://127.0.0.1:5000?from=127.0.1.{11..12}");
    assert!(two.contains("3 boards are named by their senders, and the URL names 2"), "{two}");
    let stream = refused("tcp://127.0.0.1:5000");
    assert!(
        stream.contains("boards are named by the sender of their datagrams, which tcp:// does not know"),
        "{stream}"
    );
    let twice = refused("udp://127.0.0.1:5000?from=127.0.1.{11,11,12}");
    assert!(twice.contains("`127.0.1.11`, which stands there twice,"), "{twice}");
}
