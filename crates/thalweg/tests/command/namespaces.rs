//! Boards on one host, the run on another, and a link between them that is slow, drops, delays, doubles, and is cut.
//!
//! ```text
//!  thalweg emulate FILE ─ shaped link ─► thalweg run FILE
//!     └ accepted, sent                     └ complete + partial + dropped; each fragment recorded, missing or lost
//! ```

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_data::Closing;
use thalweg_record::EventFiles;
use thalweg_record::read::{MergedEvents, RecordedEvent};

use crate::network::Network;
use crate::process::{Folder, Running, assert_books_close, number, run_directory, thalweg};

const BOARDS: u64 = 8;
const TCP: &str = "url = \"tcp://10.77.0.1:{5000..5007}\"\nreconnect = false\n";
const UDP: &str =
    "url = \"udp://10.77.0.2:5000\"\nboards = 8\npolicy = \"drop\"\nreceive_buffer_bytes = 4194304\n";
const BUSY: &str = "[busy]\nudp = \"10.77.0.1:4999\"\n";

fn configuration(folder: &Folder, url: &str, rate_hz: u32, sections: &str) -> String {
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"fragment\"\n{url}[source.emulate]\npayload_bytes = 1200\n\
         [trigger]\nrate_hz = {rate_hz}.0\n{sections}[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

fn seconds(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

/// Waits for something, however slow the machine is.
#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes of fragments on file.
fn recorded_bytes(folder: &Folder) -> u64 {
    let runs = std::fs::read_dir(folder.at("runs")).into_iter().flatten().flatten();
    let files = runs.filter_map(|run| run.path().join("fragments.arrows").metadata().ok());
    files.map(|file| file.len()).sum()
}

/// Waits until twenty more triggers or so are on file.
#[track_caller]
fn wait_for_data(folder: &Folder) {
    let before = recorded_bytes(folder);
    wait_until("events are recorded", || recorded_bytes(folder) > before + 200_000);
}

/// Starts both ends, the run once the boards listen, and waits until data flow.
#[track_caller]
fn start(network: &Network, folder: &Folder, file: &str, triggers: &str) -> (Running, Running) {
    let boards =
        network.boards.start(&["emulate", file, "--triggers", triggers, "--seconds", "60", "--json"]);
    // The last port of the boards, or that of BUSY, as the kernel writes them.
    let sockets = format!("/proc/{}/net/", boards.id());
    let has = |table: &str, port: u16| {
        let sockets = std::fs::read_to_string(sockets.clone() + table).unwrap_or_default();
        sockets.contains(&format!(":{port:04X} 00000000:0000"))
    };
    wait_until("the boards listen", || has("tcp", 5007) || has("udp", 4999));
    let run = network.run.start(&["run", file, "--seconds", "60", "--json"]);
    wait_for_data(folder);
    (boards, run)
}

/// The run went well, and its files are what they say.
#[track_caller]
fn went_well(summary: &Value) {
    assert_books_close(summary);
    thalweg(&["verify", &run_directory(summary)]).done();
}

/// The closings of all recorded events, in the order of their triggers.
fn closings(summary: &Value) -> Vec<(u64, Closing)> {
    let path = PathBuf::from(run_directory(summary)).join("events.arrows");
    let files = EventFiles::of(&path).expect("a table of events");
    let mut events = MergedEvents::open(&[files]).expect("whole files");
    let (mut event, mut all) = (RecordedEvent::default(), Vec::new());
    while events.next_event(&mut event).expect("readable") {
        all.push((event.trigger, event.closing));
    }
    all
}

/// What was lost of each board in the run's ledger, for a reason at a stage.
fn lost(summary: &Value, stage: &str, reason: &str) -> Vec<u64> {
    let ledger = summary["ledger"].as_array().expect("a list").iter();
    let of_it = ledger.filter(|entry| {
        entry["stage"] == stage
            && entry["unit"] == "fragments"
            && entry["source"].as_str().is_some_and(|source| source.starts_with("boards/"))
    });
    of_it.map(|entry| entry["lost"][reason].as_u64().unwrap_or(0)).collect()
}

#[test]
fn events_of_tcp_boards_behind_a_slow_link_are_slower_and_all_complete() {
    let Some(network) = Network::wired() else { return };
    let folder = Folder::new();
    // 10 kB per trigger, 1000 triggers per second: 80 Mbit/s through a link of 20, for twice what all buffers hold.
    network.boards.shape(Some("tbf rate 20mbit burst 16kb limit 32kb"));
    let file = configuration(&folder, TCP, 1000, "[build]\nfull = \"hold\"\nage_ms = 30000\n");
    let (boards, run) = start(&network, &folder, &file, "1500");
    seconds(4.0);
    // What the FIFOs hold needs two seconds more at this rate; at the end the run sees the boards hang up.
    network.boards.shape(None);
    seconds(1.0);
    boards.signal("TERM");
    let (sent, summary) = (boards.wait().done().json(), run.wait().done().json());
    went_well(&summary);
    let (events, accepted) = (&summary["events"], number(&sent, "triggers_accepted"));
    assert!(number(&sent, "triggers_refused") > 0, "the link is too slow for all: {sent:#}");
    assert_eq!(number(&sent, "fragments_discarded"), 0, "{sent:#}");
    assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#} {sent:#}");
    assert_eq!(number(events, "events_recorded"), accepted);
    assert_eq!(number(events, "fragments_recorded"), BOARDS * accepted);
}

#[test]
fn a_link_that_is_cut_for_two_seconds_costs_tcp_boards_time_and_no_event() {
    let Some(network) = Network::wired() else { return };
    let folder = Folder::new();
    let file = configuration(&folder, TCP, 400, "[build]\nfull = \"hold\"\nage_ms = 30000\n");
    let (boards, run) = start(&network, &folder, &file, "2600");
    network.run.set_link(false);
    seconds(2.0);
    network.run.set_link(true);
    // Longer than TCP may sleep before it tries again.
    seconds(5.0);
    boards.signal("TERM");
    let (sent, summary) = (boards.wait().done().json(), run.wait().done().json());
    went_well(&summary);
    let (events, accepted) = (&summary["events"], number(&sent, "triggers_accepted"));
    assert_eq!(number(&sent, "fragments_discarded"), 0, "{sent:#}");
    assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#} {sent:#}");
    assert_eq!(number(events, "fragments_recorded"), BOARDS * accepted);
}

/// Runs UDP boards through a link to which `happens`, and checks that every fragment that was sent is in the books of its board,
/// and that the last events are complete.
fn udp_boards_behind(network: &Network, rate_hz: u32, happens: impl Fn(&Network)) -> (Value, Value) {
    let folder = Folder::new();
    let sections = format!("[build]\nage_ms = 300\n{BUSY}");
    let file = configuration(&folder, UDP, rate_hz, &sections);
    let (boards, run) = start(network, &folder, &file, "1000000");
    seconds(1.0);
    happens(network);
    // Events of what was disturbed have left after 300 ms; of those that follow, fifty are looked at.
    seconds(1.0);
    (0..4).for_each(|_| wait_for_data(&folder));
    boards.signal("TERM");
    let sent = boards.wait().done().json();
    seconds(0.5);
    run.signal("INT");
    let summary = run.wait().done().json();
    went_well(&summary);
    let events = &summary["events"];
    let (accepted, recorded) = (number(&sent, "triggers_accepted"), number(events, "events_recorded"));
    assert!(recorded <= accepted, "{events:#} {sent:#}");
    let closings = closings(&summary);
    assert_eq!(closings.len() as u64, recorded);
    let last: Vec<_> = closings.iter().rev().take(50).collect();
    assert!(last.iter().all(|(_, closing)| *closing == Closing::Complete), "{last:?}");
    // A board is missed in exactly the events that it is not in.
    let fragments = number(events, "fragments_recorded");
    let missing = lost(&summary, "wire", "missing_fragment");
    assert_eq!(missing.len() as u64, BOARDS, "{summary:#}");
    assert_eq!(missing.iter().sum::<u64>(), BOARDS * recorded - fragments, "{summary:#}");
    assert_eq!(number(events, "fragments_missing"), BOARDS * recorded - fragments);
    (sent, summary)
}

#[test]
fn what_a_queue_drops_of_udp_boards_is_missing_by_source_and_later_events_are_complete() {
    let Some(network) = Network::wired() else { return };
    // 10 kB per trigger, 300 per second: 24 Mbit/s, for a while through 12.
    let (_, summary) = udp_boards_behind(&network, 300, |network| {
        network.boards.shape(Some("tbf rate 12mbit burst 4kb limit 20kb"));
        seconds(1.5);
        network.boards.shape(None);
    });
    let events = &summary["events"];
    assert!(number(events, "events_partial") > 0, "{events:#}");
    assert!(number(&events["closed"], "complete") > 300, "{events:#}");
    let missing = lost(&summary, "wire", "missing_fragment");
    // Boards answer in turn, and a full queue drops what comes last.
    assert!(missing[7] > 100 && missing[7] >= missing[0], "{missing:?}");
}

#[test]
fn a_link_that_is_cut_for_two_seconds_costs_udp_boards_the_events_of_that_time() {
    let Some(network) = Network::wired() else { return };
    let (sent, summary) = udp_boards_behind(&network, 300, |network| {
        network.run.set_link(false);
        seconds(2.0);
        network.run.set_link(true);
        seconds(1.5);
    });
    let (events, accepted) = (&summary["events"], number(&sent, "triggers_accepted"));
    let unseen = accepted - number(events, "events_recorded");
    assert!(unseen > 300, "{unseen} of {accepted}");
    assert_eq!(number(events, "triggers_unseen"), unseen, "{events:#}");
}

#[test]
fn delay_disorder_doubles_and_loss_of_packets_are_counted_to_the_last_one() {
    let options = ["--delay-ms", "2", "--jitter-ms", "20", "--double", "0.05", "--loss", "0.02"];
    let Some(mut network) = Network::relayed(&options) else { return };
    let (sent, summary) = {
        let folder = Folder::new();
        let file = configuration(&folder, UDP, 200, &format!("[build]\nage_ms = 300\n{BUSY}"));
        let (boards, run) = start(&network, &folder, &file, "600");
        // Boards that send datagrams end with their program.
        let sent = boards.wait().done().json();
        seconds(1.0);
        run.signal("INT");
        let summary = run.wait().done().json();
        went_well(&summary);
        (sent, summary)
    };
    let (events, link) = (&summary["events"], network.relayed_packets());
    let all = BOARDS * number(&sent, "triggers_accepted");
    assert_eq!((number(&link, "packets"), number(&link, "unsent")), (all, 0), "{link:#} {sent:#}");
    assert!(number(&link, "doubled") > 0 && number(&link, "lost") > 0, "{link:#}");
    let [missing, late, double] =
        [("wire", "missing_fragment"), ("build", "late_fragment"), ("build", "duplicate_fragment")]
            .map(|(stage, reason)| lost(&summary, stage, reason).iter().sum::<u64>());
    assert_eq!(number(events, "events_recorded") * BOARDS, all, "no trigger goes unseen: {events:#}");
    assert_eq!(number(events, "fragments_recorded"), all - number(&link, "lost"), "{events:#} {link:#}");
    assert_eq!((missing, late + double), (number(&link, "lost"), number(&link, "doubled")), "{events:#}");
}

#[test]
fn delay_disorder_doubles_and_loss_of_packets_cost_tcp_boards_nothing() {
    let options = ["--delay-ms", "1", "--jitter-ms", "4", "--double", "0.02", "--loss", "0.005"];
    let Some(network) = Network::relayed(&options) else { return };
    let folder = Folder::new();
    let file = configuration(&folder, TCP, 100, "[build]\nfull = \"hold\"\nage_ms = 30000\n");
    let (boards, run) = start(&network, &folder, &file, "200");
    seconds(8.0);
    boards.signal("TERM");
    let (sent, summary) = (boards.wait().done().json(), run.wait().done().json());
    went_well(&summary);
    let accepted = number(&sent, "triggers_accepted");
    assert_eq!(number(&sent, "fragments_discarded"), 0, "{sent:#}");
    assert_eq!(number(&summary["events"]["closed"], "complete"), accepted, "{:#}", summary["events"]);
}
