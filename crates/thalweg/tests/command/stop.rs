//! A stop while events are open: whatever waits in the sockets by then is read, and every fragment is in the ledger.
//!
//! ```text
//!  boards of this test ─ one is silent ─► events stay open ─► no space ─► sockets fill ─► stop ─► all of it recorded
//! ```

use std::net::{TcpListener, TcpStream};
use std::{io::Write, ops::Range};

use serde_json::Value;
use thalweg_data::BoardId;
use thalweg_frontend::fragment::emit;
use thalweg_frontend::fragment::wire::Header;

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg};
use crate::units::unit;

/// Boards on the network.
struct Detector {
    folder: Folder,
    listeners: Vec<TcpListener>,
    payload: Vec<u8>,
}

impl Detector {
    fn new(boards: usize, payload_bytes: usize) -> Detector {
        let listener = |_| TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let listeners = (0..boards).map(listener).collect();
        Detector { folder: Folder::new(), listeners, payload: vec![7; payload_bytes] }
    }

    /// Starts a run with these keys of the source and of `[build]`, whose events wait for much longer than a test may take.
    fn run(&self, source: &str, build: &str, more: &str) -> (Running, Vec<TcpStream>) {
        let port = |listener: &TcpListener| listener.local_addr().expect("bound").port().to_string();
        let ports: Vec<String> = self.listeners.iter().map(port).collect();
        // What waits in a socket fits its buffer, whatever the system would choose.
        let text = format!(
            "[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"tcp://127.0.0.1:{{{}}}\"\n\
             receive_buffer_bytes = 212992\n{source}\n[build]\nage_ms = 600000\nfirst_trigger = 0\n{build}\n{more}\
             [record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
            ports.join(","),
            self.folder.at("runs")
        );
        let file = self.folder.file("run.toml", &text);
        let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.05"]);
        let client = |listener: &TcpListener| listener.accept().expect("the run comes").0;
        (run, self.listeners.iter().map(client).collect())
    }

    /// These boards answer; it returns when the system has taken all of it.
    fn answer(&self, clients: &mut [TcpStream], boards: Range<usize>, triggers: Range<u64>) {
        for trigger in triggers {
            for board in boards.clone() {
                let (header, mut bytes) =
                    (Header { board: BoardId(board as u16), trigger, ..Header::default() }, Vec::new());
                emit::stream(&header, &self.payload, true, &mut bytes);
                clients[board].write_all(&bytes).expect("the run is there");
            }
        }
    }
}

/// Waits until so many fragments were read.
#[track_caller]
fn wait_for_fragments(run: &Running, wanted: u64) {
    run.wait_for_state("there is no room", |state| {
        let sources = state["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
        sources.iter().filter_map(|source| source["fragments"].as_u64()).sum::<u64>() >= wanted
    });
}

/// Waits until events stay open and nothing more is read, then stops; everything that was sent is recorded, and nothing else is lost than
/// what the silent board did not say.
fn all_is_read_at_the_stop(
    detector: &Detector,
    (run, mut clients): (Running, Vec<TcpStream>),
    (taken, sent): (u64, u64),
) -> Value {
    let answering = clients.len() as u64 - 1;
    detector.answer(&mut clients, 0..answering as usize, 0..sent);
    wait_for_fragments(&run, taken * answering);
    run.signal("INT");
    let summary = run.wait().done().json();
    assert_ledger_balances(&summary);
    assert_eq!(summary["failures"], Value::Array(Vec::new()), "{summary:#}");
    let events = &summary["events"];
    assert_eq!(number(events, "fragments_recorded"), answering * sent, "{events:#}");
    assert_eq!(number(events, "events_partial"), sent, "{events:#}");
    for loss in summary["losses"].as_array().expect("a list") {
        assert_eq!(loss["reason"], "missing_fragment", "{:#}", summary["losses"]);
    }
    thalweg(&["verify", &run_directory(&summary)]).done();
    summary
}

/// Small blocks, each of which holds one fragment of the boards here: more than the recording keeps.
const SMALL_BLOCKS: &str = "block_bytes = 4096\nmemory_bytes = 6488064";
/// How many of them each of three boards has.
const BLOCKS: u64 = 528;

#[test]
fn a_stop_reads_what_waits_while_open_events_hold_every_block() {
    let detector = Detector::new(3, 3000);
    let run = detector.run(SMALL_BLOCKS, "depth = 4096", "");
    let summary = all_is_read_at_the_stop(&detector, run, (BLOCKS, BLOCKS + 40));
    let closed = &summary["events"]["closed"];
    assert!(number(closed, "depth") >= 40, "{closed:#}");
}

#[test]
fn a_stop_reads_what_waits_while_open_events_have_all_the_memory_of_the_builder() {
    let detector = Detector::new(2, 30_000);
    let run = detector.run("", "source_bytes = 200000", "");
    all_is_read_at_the_stop(&detector, run, (7, 10));
}

#[test]
fn events_whose_answers_wait_in_a_socket_at_a_stop_are_complete() {
    let detector = Detector::new(2, 3000);
    let (run, mut clients) = detector.run("block_bytes = 4096\nmemory_bytes = 4325376", "depth = 4096", "");
    let triggers = BLOCKS + 40;
    detector.answer(&mut clients, 0..1, 0..triggers);
    wait_for_fragments(&run, BLOCKS);
    detector.answer(&mut clients, 1..2, 0..triggers);
    run.signal("INT");
    let summary = run.wait().done().json();
    assert_ledger_balances(&summary);
    let events = &summary["events"];
    assert_eq!(number(&events["closed"], "complete"), triggers, "{events:#}");
    assert_eq!(number(events, "fragments_recorded"), 2 * triggers, "{events:#}");
}

#[test]
fn a_stop_reads_what_waits_of_a_board_that_is_ahead_of_all_others() {
    let detector = Detector::new(2, 3000);
    let run = detector.run("", "depth = 64\nfull = \"hold\"", "");
    all_is_read_at_the_stop(&detector, run, (40, 90));
}

#[test]
fn a_stop_with_open_events_is_no_failure_although_incomplete_events_stop_the_run() {
    let detector = Detector::new(3, 3000);
    let run = detector.run(SMALL_BLOCKS, "depth = 4096\nincomplete = \"stop\"", "");
    all_is_read_at_the_stop(&detector, run, (BLOCKS, BLOCKS + 40));
}

#[test]
fn a_stop_of_readout_units_reads_what_waits_while_open_events_hold_every_block() {
    let detector = Detector::new(3, 3000);
    let units = unit("readout", "readout", "sources = [\"boards\"]")
        + &unit("builder", "builder", "")
        + &unit("manager", "manager", "");
    let run = detector.run(SMALL_BLOCKS, "depth = 4096", &units);
    all_is_read_at_the_stop(&detector, run, (BLOCKS, BLOCKS + 40));
}
