//! Boards on one host, the run on another, and a link between them that is slow, drops, delays, doubles, and is cut.
//!
//! ```text
//!  thalweg emulate FILE ─ shaped link ─► thalweg run FILE
//!     └ accepted, sent                     └ complete + partial + dropped; each fragment recorded, missing or lost
//! ```

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use thalweg_data::Closing;
use thalweg_record::EventFiles;
use thalweg_record::read::{MergedEvents, RecordedEvent};

use crate::network::Network;
use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg};

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

/// Cuts the link for two seconds: what a link is cut for may be longer or shorter, and costs the same kind of thing.
fn cut_link(network: &Network) {
    network.run.set_link(false);
    std::thread::sleep(Duration::from_secs(2));
    network.run.set_link(true);
}

/// Events that the run has put together, all of them and those of them that are complete.
fn built(state: &Value) -> (u64, u64) {
    (number(&state["events"], "events_built"), state["events"]["closed"][0].as_u64().expect("a count"))
}

/// Waits until so many more events are complete.
#[track_caller]
fn wait_for_events(run: &Running, more: u64) {
    let (_, before) = built(&run.wait_for_state("a state", |_| true));
    run.wait_for_state("events are built", |state| built(state).1 >= before + more);
}

/// Starts both ends, the run once the boards listen, and waits until data flow.
#[track_caller]
fn start(network: &Network, file: &str, triggers: &str) -> (Running, Running) {
    let boards =
        network.boards.start(&["emulate", file, "--triggers", triggers, "--seconds", "600", "--json"]);
    match std::fs::read_to_string(file).is_ok_and(|text| text.contains(BUSY)) {
        true => boards.wait_for_ports(&[], &[4999]),
        false => boards.wait_for_ports(&[5000, 5001, 5002, 5003, 5004, 5005, 5006, 5007], &[]),
    }
    let run = network.run.start(&["run", file, "--seconds", "600", "--json", "--states", "0.1"]);
    run.wait_for_state("events are built", |state| built(state).1 >= 20);
    (boards, run)
}

/// Ends TCP boards once all of their triggers have come and every answer is sent; the run ends when they have hung up.
#[track_caller]
fn end_tcp(boards: Running, run: Running) -> (Value, Value) {
    boards.wait_for_text("every answer is sent");
    boards.signal("TERM");
    (boards.wait().done().json(), run.wait().done().json())
}

/// The run went well, and its files are what they say.
#[track_caller]
fn went_well(summary: &Value) {
    assert_ledger_balances(summary);
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
    let (boards, run) = start(&network, &file, "1500");
    // More than can pass while there are triggers: what was refused was so because of the link.
    run.wait_for_state("they pass slowly", |state| built(state).0 >= 600);
    network.boards.shape(None);
    let (sent, summary) = end_tcp(boards, run);
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
    let (boards, run) = start(&network, &file, "1200");
    cut_link(&network);
    let (sent, summary) = end_tcp(boards, run);
    went_well(&summary);
    let (events, accepted) = (&summary["events"], number(&sent, "triggers_accepted"));
    assert_eq!(number(&sent, "fragments_discarded"), 0, "{sent:#}");
    assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#} {sent:#}");
    assert_eq!(number(events, "fragments_recorded"), BOARDS * accepted);
}

/// Runs UDP boards through a link to which `happens`, and checks that every fragment that was sent is in the ledger of its board,
/// and that the last events are complete.
fn udp_boards_behind(
    network: &Network,
    rate_hz: u32,
    happens: impl Fn(&Network, &Running),
) -> (Value, Value) {
    let folder = Folder::new();
    let sections = format!("[build]\nage_ms = 2000\n{BUSY}");
    let file = configuration(&folder, UDP, rate_hz, &sections);
    let (boards, run) = start(network, &file, "1000000");
    wait_for_events(&run, 300);
    happens(network, &run);
    // Of the events behind what was disturbed, fifty are looked at.
    wait_for_events(&run, 300);
    boards.signal("TERM");
    let sent = boards.wait().done().json();
    // Nothing delays packets any more: they have come, and what had come by the stop is taken.
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
    let (_, summary) = udp_boards_behind(&network, 300, |network, run| {
        network.boards.shape(Some("tbf rate 12mbit burst 4kb limit 20kb"));
        let partial = |state: &Value| built(state).0 - built(state).1;
        run.wait_for_state("events are partial", |state| partial(state) > 200);
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
    let (sent, summary) = udp_boards_behind(&network, 300, |network, _| cut_link(network));
    let (events, accepted) = (&summary["events"], number(&sent, "triggers_accepted"));
    let unseen = accepted - number(events, "events_recorded");
    assert!(unseen > 300, "{unseen} of {accepted}");
    assert_eq!(number(events, "triggers_unseen"), unseen, "{events:#}");
}

#[test]
fn delay_disorder_doubles_and_loss_of_packets_are_counted_to_the_last_one() {
    let options = ["--delay-ms", "2", "--jitter-ms", "20", "--double", "0.05", "--loss", "0.02"];
    let Some(mut network) = Network::relayed(&options) else { return };
    let (sent, summary, link) = {
        let folder = Folder::new();
        let file = configuration(&folder, UDP, 200, &format!("[build]\nage_ms = 5000\n{BUSY}"));
        let (boards, run) = start(&network, &file, "600");
        // Boards that send datagrams end with their program, and the link when it has passed everything on.
        let sent = boards.wait().done().json();
        let link = network.relayed_packets();
        run.signal("INT");
        let summary = run.wait().done().json();
        went_well(&summary);
        (sent, summary, link)
    };
    let events = &summary["events"];
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
    let (boards, run) = start(&network, &file, "200");
    let (sent, summary) = end_tcp(boards, run);
    went_well(&summary);
    let accepted = number(&sent, "triggers_accepted");
    assert_eq!(number(&sent, "fragments_discarded"), 0, "{sent:#}");
    assert_eq!(number(&summary["events"]["closed"], "complete"), accepted, "{:#}", summary["events"]);
}
