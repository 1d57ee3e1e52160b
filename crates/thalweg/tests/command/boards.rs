//! Emulated boards in one process, the run in another: as with real ones.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Folder, Running, assert_books_close, number, run_directory, thalweg};

#[test]
fn a_run_drives_two_boards_over_their_own_control_protocol() {
    let folder = Folder::new();
    let arguments =
        ["emulate", "--boards", "2", "--address", "127.0.3.2", "--rate", "2000", "--seconds", "60"];
    let boards = Running::start(&arguments);
    std::thread::sleep(Duration::from_millis(700));
    let source = |name: &str, address: &str| {
        format!("[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"dig2://{address}\"\n")
    };
    let text = format!(
        "{}{}[record]\ndirectory = \"{}\"\n",
        source("left", "127.0.3.2"),
        source("right", "127.0.3.3") + "first_channel = 64\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    // Twice: a board that has been disarmed can be armed again.
    for _ in 0..2 {
        let summary = thalweg(&["run", &file, "--seconds", "1.5", "--json"]).done().json();
        assert_books_close(&summary);
        assert!(number(&summary, "hits_recorded") > 1000, "{summary:#}");
        assert_eq!(number(&summary, "hits_lost"), 0, "{summary:#}");
        thalweg(&["verify", &run_directory(&summary)]).done();
    }
    boards.signal("TERM");
    boards.wait().done();
}

#[test]
fn a_board_that_is_not_there_is_said_to_be_so() {
    let folder = Folder::new();
    let file = folder.file(
        "run.toml",
        &format!(
            "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"dig2://127.0.3.99\"\n\
             [record]\ndirectory = \"{}\"\n",
            folder.at("runs")
        ),
    );
    let ended = thalweg(&["run", &file, "--seconds", "1"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.error.contains("127.0.3.99"), "{}", ended.error);
}

/// A port that is free at this moment.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    socket.local_addr().expect("bound").port()
}

/// A configuration that listens on these ports, one source each.
fn listening(folder: &Folder, ports: &[u16]) -> String {
    let source = |(index, port): (usize, &u16)| {
        format!(
            "[[source]]\nname = \"port-{port}\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:{port}\"\n\
             first_channel = {}\n",
            64 * index
        )
    };
    let sources: String = ports.iter().enumerate().map(source).collect();
    folder.file("run.toml", &format!("{sources}[record]\ndirectory = \"{}\"\n", folder.at("runs")))
}

/// Losses of one source in one unit.
fn lost(summary: &Value, source: &str, unit: &str) -> u64 {
    let losses = summary["losses"].as_array().expect("a list").iter();
    losses
        .filter(|loss| loss["source"] == source && loss["unit"] == unit)
        .map(|loss| number(loss, "count"))
        .sum()
}

#[test]
fn two_boards_with_seeded_loss_are_accounted_for_to_what_their_senders_dropped() {
    let folder = Folder::new();
    let ports = [free_port(), free_port()];
    let file = listening(&folder, &ports);
    let running = Running::start(&["run", &file, "--seconds", "30", "--json"]);
    std::thread::sleep(Duration::from_millis(1000));
    let send = |port: u16, seed: &str| {
        let to = format!("127.0.0.1:{port}");
        let settings =
            folder.file(&format!("board-{port}.toml"), "channels = 16\nduration_s = 1.5\nflush_ms = 1.0\n");
        let arguments = ["emulate", "--to", &to, "--settings", &settings, "--rate", "3000", "--seed", seed];
        thalweg(&[&arguments[..], &["--loss", "0.01", "--seconds", "20", "--json"]].concat()).done().json()
    };
    let sent = [send(ports[0], "5"), send(ports[1], "6")];
    std::thread::sleep(Duration::from_millis(500));
    running.signal("INT");
    let summary = running.wait().done().json();
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    let total = |key: &str| sent.iter().map(|report| number(report, key)).sum::<u64>();
    assert!(total("datagrams_dropped") > 0, "{sent:#?}");
    assert_eq!(number(&summary, "hits_recorded"), total("hits_sent") - total("hits_dropped"));
    for (port, report) in ports.iter().zip(&sent) {
        let missed = lost(&summary, &format!("port-{port}"), "datagrams");
        let dropped = number(report, "datagrams_dropped");
        // Behind the last datagram nothing comes that would tell of it: if that is among the dropped, only its sender knows.
        assert!(missed == dropped || missed + 1 == dropped, "{missed} of {dropped}: {:#}", summary["losses"]);
    }
}

#[test]
fn garbage_costs_counters_and_nothing_else() {
    let folder = Folder::new();
    let port = free_port();
    let file = listening(&folder, &[port]);
    let running = Running::start(&["run", &file, "--seconds", "30", "--json"]);
    std::thread::sleep(Duration::from_millis(1000));
    let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for length in (0..3000usize).map(|count| count * 37 % 9000) {
        let datagram: Vec<u8> = (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        sender.send_to(&datagram, ("127.0.0.1", port)).expect("loopback takes it");
    }
    std::thread::sleep(Duration::from_millis(300));
    running.signal("INT");
    let summary = running.wait().without_data().json();
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    assert!(lost(&summary, &format!("port-{port}"), "bytes") > 0, "{:#}", summary["losses"]);
    thalweg(&["verify", &run_directory(&summary)]).done();
}
