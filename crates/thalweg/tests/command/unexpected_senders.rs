//! What no good board sends, over real sockets: each is counted under its word, the run goes on, and its ledger balances.
//!
//! ```text
//!  three boards of this test ─ good fragments, and others ─► thalweg run ─► complete events of the good ones; counts of the others
//! ```

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};

use serde_json::Value;
use thalweg_data::BoardId;
use thalweg_frontend::fragment::emit;
use thalweg_frontend::fragment::wire::Header;

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg, wait_until};

const BOARDS: u16 = 3;
const PAYLOAD: [u8; 300] = [7; 300];

fn fragment(board: u16, trigger: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit::stream(&Header { board: BoardId(board), trigger, ..Header::default() }, &PAYLOAD, true, &mut bytes);
    bytes
}

/// Events wait for their last fragment for much longer than this test takes between two.
fn configuration(folder: &Folder, source: &str) -> String {
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"fragment\"\n{source}\n[build]\ndepth = 256\nage_ms = 1500\n\
         [record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// Ends the run, which takes what had come by then; it went well whatever came, and its files are what they say.
#[track_caller]
fn ended_well(run: Running) -> Value {
    run.signal("INT");
    let summary = run.wait().done().json();
    assert_ledger_balances(&summary);
    assert_eq!(summary["failures"], Value::Array(Vec::new()), "{summary:#}");
    thalweg(&["verify", &run_directory(&summary)]).done();
    summary
}

#[track_caller]
fn complete(summary: &Value) -> u64 {
    number(&summary["events"]["closed"], "complete")
}

/// How many units of a kind were lost for a reason, of all sources.
fn lost(summary: &Value, unit: &str, reason: &str) -> u64 {
    let losses = summary["losses"].as_array().expect("a list").iter();
    let of_it = losses.filter(|loss| loss["unit"] == unit && loss["reason"] == reason);
    of_it.map(|loss| number(loss, "count")).sum()
}

/// Boards that send datagrams from one socket.
struct Camera {
    socket: UdpSocket,
    to: SocketAddr,
    _folder: Folder,
}

impl Camera {
    fn start() -> (Camera, Running) {
        let folder = Folder::new();
        let free = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let to = free.local_addr().expect("bound");
        drop(free);
        let source = format!("url = \"udp://{to}\"\nboards = {BOARDS}\npolicy = \"drop\"");
        let file = configuration(&folder, &source);
        let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
        run.wait_until_running();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        socket.connect(to).expect("an address");
        (Camera { socket, to, _folder: folder }, run)
    }

    fn send(&self, bytes: &[u8]) {
        self.socket.send(bytes).expect("loopback takes it");
    }

    /// All boards answer these triggers.
    fn answer(&self, triggers: std::ops::Range<u64>) {
        for trigger in triggers {
            (0..BOARDS).for_each(|board| self.send(&fragment(board, trigger)));
            self.wait_for_receiver();
        }
    }

    /// Waits until the run has taken everything from its socket, whose buffer is so never full.
    fn wait_for_receiver(&self) {
        // Local port, nobody at the other end, state, bytes to send and bytes that wait (proc(5)).
        let empty = format!(":{:04X} 00000000:0000 07 00000000:00000000", self.to.port());
        wait_until("the run takes what was sent", || {
            std::fs::read_to_string("/proc/net/udp").is_ok_and(|sockets| sockets.contains(&empty))
        });
    }
}

#[test]
fn datagrams_that_cannot_be_cost_a_count_each() {
    let (camera, run) = Camera::start();
    camera.answer(0..100);
    for trigger in 100..110 {
        let whole = fragment(1, trigger);
        camera.send(&whole[..20]);
        camera.send(&whole[..whole.len() - 9]);
        camera.send(&[&whole[..], &[0; 11]].concat());
        let mut other_version = whole.clone();
        other_version[2] = 9;
        camera.send(&other_version);
        let mut damaged = whole.clone();
        damaged[20] ^= 4;
        camera.send(&damaged);
        camera.send(&fragment(77, trigger));
        camera.wait_for_receiver();
    }
    camera.answer(100..200);
    let summary = ended_well(run);
    assert_eq!(complete(&summary), 200, "{:#}", summary["events"]);
    assert_eq!(number(&summary["events"], "events_recorded"), 200);
    for (reason, count) in
        [("bad_length", 30), ("wrong_constant", 10), ("bad_hash", 10), ("unknown_source", 10)]
    {
        assert_eq!(lost(&summary, "datagrams", reason), count, "{reason}: {:#}", summary["losses"]);
    }
}

#[test]
fn two_boards_with_one_number_are_one_board_and_its_doubles() {
    let (camera, run) = Camera::start();
    for trigger in 0..200 {
        // Before the event is whole: what comes behind it is late.
        camera.send(&fragment(0, trigger));
        camera.send(&fragment(0, trigger));
        (1..BOARDS).for_each(|board| camera.send(&fragment(board, trigger)));
        camera.wait_for_receiver();
    }
    let summary = ended_well(run);
    assert_eq!(complete(&summary), 200, "{:#}", summary["events"]);
    let doubles =
        lost(&summary, "fragments", "duplicate_fragment") + lost(&summary, "fragments", "late_fragment");
    assert_eq!(doubles, 200, "{:#}", summary["losses"]);
    assert_eq!(lost(&summary, "fragments", "missing_fragment"), 0, "{:#}", summary["losses"]);
}

#[test]
fn numbers_from_the_past_and_the_far_future_move_no_event() {
    let (camera, run) = Camera::start();
    camera.answer(0..500);
    for step in 0..10 {
        camera.send(&fragment(1, 450 + step));
        camera.send(&fragment(1, 20 + step));
        camera.send(&fragment(2, 1_000_000 + step));
        camera.send(&fragment(0, u64::from(u32::MAX) + 1 + step));
        camera.wait_for_receiver();
    }
    // Whether far numbers are strays is known when nothing has followed them for a while.
    run.wait_for_state("strays are known", |state| lost(state, "fragments", "out_of_window") == 30);
    camera.answer(500..700);
    let summary = ended_well(run);
    assert_eq!(complete(&summary), 700, "{:#}", summary["events"]);
    assert_eq!(number(&summary["events"], "events_recorded"), 700, "{:#}", summary["events"]);
    let word = |reason| lost(&summary, "fragments", reason);
    let of_past = word("late_fragment") + word("duplicate_fragment");
    // Those of long ago, of the far future, and of more bits than boards have.
    assert_eq!((of_past, word("out_of_window")), (10, 30), "{:#}", summary["losses"]);
}

#[test]
fn a_board_that_resets_in_mid_run_is_missing_until_it_counts_with_the_others_again() {
    let (camera, run) = Camera::start();
    camera.answer(0..400);
    for trigger in 400..500 {
        (0..BOARDS - 1).for_each(|board| camera.send(&fragment(board, trigger)));
        camera.send(&fragment(BOARDS - 1, trigger - 400));
        camera.wait_for_receiver();
    }
    run.wait_for_state("events are closed without it", |state| {
        number(&state["events"], "events_partial") == 100
    });
    camera.answer(500..600);
    let summary = ended_well(run);
    let events = &summary["events"];
    assert_eq!((complete(&summary), number(events, "events_partial")), (500, 100), "{events:#}");
    assert_eq!(number(events, "fragments_missing"), 100, "{events:#}");
    let strays = lost(&summary, "fragments", "out_of_window") + lost(&summary, "fragments", "late_fragment");
    assert_eq!(strays, 100, "{:#}", summary["losses"]);
}

/// Boards that listen, each on a port of its own.
struct Detector {
    listeners: Vec<TcpListener>,
    folder: Folder,
}

impl Detector {
    fn new() -> Detector {
        let listener = |_| TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        Detector { listeners: (0..BOARDS).map(listener).collect(), folder: Folder::new() }
    }

    fn run(&self) -> Running {
        let port = |listener: &TcpListener| listener.local_addr().expect("bound").port().to_string();
        let ports: Vec<String> = self.listeners.iter().map(port).collect();
        let source = format!("url = \"tcp://127.0.0.1:{{{}}}\"", ports.join(","));
        let file = configuration(&self.folder, &source);
        Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"])
    }

    fn client(&self, board: usize) -> TcpStream {
        let (client, _) = self.listeners[board].accept().expect("the run comes");
        client.set_nodelay(true).expect("a socket");
        client
    }
}

/// Each board says all of it at once, which fits its socket: the run needs a block or two for it, however long events wait.
fn answer(clients: &mut [TcpStream], boards: std::ops::Range<u16>, triggers: std::ops::Range<u64>) {
    for (client, board) in clients.iter_mut().zip(boards) {
        let all: Vec<u8> = triggers.clone().flat_map(|trigger| fragment(board, trigger)).collect();
        client.write_all(&all).expect("the run reads");
    }
}

#[test]
fn a_board_that_hangs_up_half_way_through_a_fragment_comes_back_into_the_run() {
    let detector = Detector::new();
    let run = detector.run();
    let mut clients: Vec<TcpStream> = (0..usize::from(BOARDS)).map(|board| detector.client(board)).collect();
    answer(&mut clients, 0..BOARDS, 0..100);
    // Boards are never further from each other than events may wait.
    run.wait_for_state("these are built", |state| number(&state["events"], "events_built") == 100);
    let mut last = clients.pop().expect("three");
    last.write_all(&fragment(BOARDS - 1, 100)[..100]).expect("the run reads");
    // Half closed: it still listens, and never says anything again.
    last.shutdown(Shutdown::Write).expect("connected");
    answer(&mut clients, 0..BOARDS - 1, 100..200);
    clients.push(detector.client(usize::from(BOARDS) - 1));
    answer(&mut clients, 0..BOARDS, 200..300);
    run.wait_for_state("the last are built", |state| number(&state["events"], "events_built") == 300);
    let summary = ended_well(run);
    let events = &summary["events"];
    assert_eq!((complete(&summary), number(events, "events_partial")), (200, 100), "{events:#}");
    assert_eq!(number(events, "fragments_missing"), 100, "{events:#}");
    assert_eq!(lost(&summary, "bytes", "unfinished"), 100, "{:#}", summary["losses"]);
    drop(last);
}

#[test]
fn a_board_that_opens_and_says_nothing_or_nonsense_holds_up_no_other() {
    let detector = Detector::new();
    let run = detector.run();
    let mut clients: Vec<TcpStream> = (0..usize::from(BOARDS)).map(|board| detector.client(board)).collect();
    let silent = clients.pop().expect("three");
    let mut nonsense = clients.pop().expect("two");
    answer(&mut clients, 0..1, 0..100);
    run.wait_for_state("events are closed with one board", |state| {
        number(&state["events"], "events_built") == 100
    });
    nonsense.write_all(&[0xA5; 5000]).expect("the run reads");
    // It finds its words again, and its number is that of another board for a while.
    nonsense.write_all(&fragment(0, 100)).expect("the run reads");
    let mut both = vec![clients.pop().expect("one"), nonsense];
    answer(&mut both, 0..2, 100..200);
    run.wait_for_state("events are closed without them", |state| {
        number(&state["events"], "events_built") == 200
    });
    let summary = ended_well(run);
    let events = &summary["events"];
    assert_eq!(number(events, "events_recorded"), 200, "{events:#}");
    assert_eq!(number(events, "events_partial"), 200, "one board never spoke: {events:#}");
    assert_eq!(number(events, "fragments_missing"), 200 + 100, "{events:#}");
    assert!(
        lost(&summary, "bytes", "resynchronised") + lost(&summary, "bytes", "wrong_constant") >= 5000,
        "{:#}",
        summary["losses"]
    );
    drop(silent);
}
