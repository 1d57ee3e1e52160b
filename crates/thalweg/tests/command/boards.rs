//! Emulated boards in one process, the run in another: as with real ones.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use serde_json::Value;

use crate::process::{
    Folder, Running, assert_ledger_balances, free_port, number, run_directory, thalweg, wait_until,
};

#[test]
fn a_run_drives_two_boards_over_their_own_control_protocol() {
    let folder = Folder::new();
    let arguments =
        ["emulate", "--boards", "2", "--address", "127.0.3.2", "--rate", "2000", "--seconds", "60"];
    let boards = Running::start(&arguments);
    ["127.0.3.2", "127.0.3.3"].into_iter().for_each(wait_for_control_port);
    let source = |name: &str, address: &str| {
        format!("[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"dig2://{address}\"\n")
    };
    let text = format!(
        "[run]\n hits = 3000\n{}{}[record]\ndirectory = \"{}\"\n",
        source("left", "127.0.3.2"),
        source("right", "127.0.3.3") + "first_channel = 64\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    // Twice: a board that has been disarmed can be armed again.
    for _ in 0..2 {
        let summary = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
        assert_ledger_balances(&summary);
        assert!(number(&summary, "hits_recorded") >= 3000, "{summary:#}");
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

/// Emulated boards in a process of their own, whose control port answers.
pub fn boards_at(address: &str, settings: &str) -> Running {
    let boards =
        Running::start(&["emulate", "--address", address, "--settings", settings, "--seconds", "100"]);
    boards.wait_until(&format!("a board at {address}"), || can_be_asked(address));
    boards
}

fn can_be_asked(address: &str) -> bool {
    TcpStream::connect((address, 51_936)).is_ok()
}

/// Waits until a board can be asked.
#[track_caller]
pub fn wait_for_control_port(address: &str) {
    wait_until(&format!("a board at {address}"), || can_be_asked(address));
}

#[test]
fn a_board_says_what_it_is_and_a_contradicting_configuration_is_refused_with_both_values() {
    let folder = Folder::new();
    let settings = folder
        .file("board.toml", "channels = 16\nsampling_mhz = 500\nfirmware = \"pha\"\nrate_hz = 2000.0\n");
    let _boards = boards_at("127.0.3.10", &settings);
    let file = |name: &str, keys: &str| {
        let source = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"dig2://127.0.3.10\"\n";
        let record =
            format!("[record]\ndirectory = \"{}\"\ntables = [\"hits\", \"raw\"]\n", folder.at("runs"));
        folder.file(name, &format!("[run]\n hits = 3000\n{source}{keys}{record}"))
    };
    for (key, reported) in
        [("tick_ps = 8000", "2000"), ("channels = 64", "16"), ("firmware = \"psd\"", "pha")]
    {
        let ended = thalweg(&["run", &file("wrong.toml", &format!("{key}\n"))]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        let configured = key.replace('"', "");
        for word in [configured.as_str(), reported, "VX2730", "10000", "left"] {
            assert!(ended.error.contains(word), "{word} in {}", ended.error);
        }
    }
    assert!(!folder.path().join("runs").exists(), "a refused start leaves no run");
    let summary = thalweg(&["run", &file("run.toml", ""), "--seconds", "60", "--json"]).done().json();
    assert_ledger_balances(&summary);
    let run = run_directory(&summary);
    let reports = |run: &str| -> Value {
        let record = std::fs::read_to_string(format!("{run}/run.json")).expect("there");
        serde_json::from_str::<Value>(&record).expect("whole")["details"]["boards"]["left"].clone()
    };
    let board = serde_json::json!({
        "model": "VX2730", "serial": "10000", "firmware": "pha", "firmware_version": "FPGA 1.0.0, CUP 2025091500",
        "sampling_mhz": 500.0, "tick_ps": 2000.0, "channels": 16, "samples_before_trigger": 0
    });
    assert_eq!(reports(&run), board);
    // The replay has nobody to ask: it knows from the record.
    let replayed = thalweg(&["replay", &run, "--directory", &folder.at("again"), "--json"]).done().json();
    assert_eq!(reports(&run_directory(&replayed)), board);
    let bytes = |run: &str| std::fs::read(format!("{run}/hits.arrows")).expect("there");
    assert!(bytes(&run) == bytes(&run_directory(&replayed)), "the same times");
}

/// A board that is killed in mid-run and returns.
fn dies_and_returns(address: &str, transport: &str, workers: u32) {
    let folder = Folder::new();
    let settings =
        folder.file("board.toml", &format!("transport = \"{transport}\"\nchannels = 8\nrate_hz = 1000.0\n"));
    let boards = boards_at(address, &settings);
    let text = format!(
        "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"dig2://{address}\"\nworkers = {workers}\n\
         [record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    let arguments = ["run", &folder.file("run.toml", &text), "--seconds", "100", "--json", "--states", "0.1"];
    let run = Running::start(&arguments);
    let recorded = |state: &Value| state["hits_recorded"].as_u64().unwrap_or(0);
    let is_gone = |loss: &Value| loss["reason"] == "board_gone" && loss["quality"] == "unknown";
    let gone = |losses: &Value| losses.as_array().is_some_and(|losses| losses.iter().any(is_gone));
    run.wait_for_state("it records", |state| recorded(state) > 2000);
    boards.signal("KILL");
    run.wait_for_state("a loss", |state| gone(&state["losses"]));
    let again = boards_at(address, &settings);
    // What it had sent before is recorded meanwhile.
    run.wait_for_text("the board is back");
    let then = recorded(&run.wait_for_state("a state", |_| true));
    run.wait_for_state("it goes on", |state| recorded(state) > then + 2000);
    run.signal("INT");
    let ended = run.wait().done();
    let summary = ended.json();
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    assert!(gone(&summary["losses"]), "{:#}", summary["losses"]);
    assert!(ended.error.contains("the board is gone"), "{}", ended.error);
    let late = summary["ledger"].as_array().expect("a list").iter().filter(|line| line["stage"] == "order");
    assert!(
        late.clone().all(|line| line["lost"].as_object().is_some_and(|lost| lost.is_empty())),
        "{summary:#}"
    );
    thalweg(&["verify", &run_directory(&summary)]).done();
    again.signal("TERM");
}

#[test]
fn a_killed_board_is_a_loss_at_once_and_is_taken_again_when_it_returns_over_udp() {
    dies_and_returns("127.0.3.12", "udp", 0);
}

#[test]
fn a_killed_board_is_a_loss_at_once_and_is_taken_again_when_it_returns_over_tcp() {
    dies_and_returns("127.0.3.13", "tcp", 0);
}

#[test]
fn a_killed_board_with_several_workers_is_taken_again_when_it_returns_over_tcp() {
    dies_and_returns("127.0.3.14", "tcp", 3);
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
    let running = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    running.wait_until_running();
    let send = |port: u16, seed: &str| {
        let to = format!("127.0.0.1:{port}");
        let settings =
            folder.file(&format!("board-{port}.toml"), "channels = 16\nduration_s = 1.5\nflush_ms = 1.0\n");
        let arguments = ["emulate", "--to", &to, "--settings", &settings, "--rate", "3000", "--seed", seed];
        thalweg(&[&arguments[..], &["--loss", "0.01", "--seconds", "20", "--json"]].concat()).done().json()
    };
    let sent = [send(ports[0], "5"), send(ports[1], "6")];
    // What had come by the stop is taken.
    running.signal("INT");
    let summary = running.wait().done().json();
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    let total = |key: &str| sent.iter().map(|report| number(report, key)).sum::<u64>();
    assert!(total("datagrams_dropped") > 0, "{sent:#?}");
    assert_eq!(number(&summary, "hits_recorded"), total("hits_sent") - total("hits_dropped"));
    for (port, report) in ports.iter().zip(&sent) {
        let missed = lost(&summary, &format!("port-{port}"), "datagrams");
        let dropped = number(report, "datagrams_dropped");
        // Of datagrams that were dropped behind the last that came only the sender knows.
        let known = dropped - number(report, "datagrams_dropped_last")..=dropped;
        assert!(known.contains(&missed), "{missed} of {known:?}: {:#}", summary["losses"]);
    }
}

#[test]
fn garbage_costs_counters_and_nothing_else() {
    let folder = Folder::new();
    let port = free_port();
    let file = listening(&folder, &[port]);
    let running = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    running.wait_until_running();
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
    // What had come by the stop is taken.
    running.signal("INT");
    let summary = running.wait().without_data().json();
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    assert!(lost(&summary, &format!("port-{port}"), "bytes") > 0, "{:#}", summary["losses"]);
    thalweg(&["verify", &run_directory(&summary)]).done();
}

/// A message of the control protocol: the length of the JSON in 8 bytes, 24 bytes of 0, the JSON.
fn control_message(json: &str) -> Vec<u8> {
    [&(json.len() as u64).to_be_bytes()[..], &[0; 24], json.as_bytes()].concat()
}

/// A request with the keys, and in the order, in which a vendor client sends them.
pub fn vendor_request(command: &str, handle: u64, query: &str, value: &str) -> Vec<u8> {
    control_message(&format!(
        "{{\"cmd\":\"{command}\",\"handle\":{handle},\"multipleQuery\":[],\"multipleValue\":[],\
         \"query\":\"{query}\",\"value\":\"{value}\"}}"
    ))
}

fn done(command: &str, values: &str) -> Vec<u8> {
    control_message(&format!("{{\"cmd\":\"{command}\",\"result\":true,\"flag\":null,\"value\":[{values}]}}"))
}

/// Sends a request and returns as many bytes as are expected back, from the socket.
pub fn asked(control: &mut TcpStream, request: &[u8], bytes: usize) -> Vec<u8> {
    control.write_all(request).expect("sent");
    let mut answer = vec![0; bytes];
    control.read_exact(&mut answer).expect("answered");
    answer
}

/// A vendor client names the root by the handle 0: so it asks whether the board knows where to stream, with empty datagrams from the
/// port at which it listens for data, and it goes on only when the answer is another than 0.
#[test]
fn requests_with_the_handle_0_are_answered_for_the_root_byte_by_byte() {
    let folder = Folder::new();
    let settings = folder.file("board.toml", "channels = 4\ntransport = \"udp\"\nrate_hz = 100.0\n");
    let boards = boards_at("127.0.3.45", &settings);
    let mut control = TcpStream::connect(("127.0.3.45", 51_936)).expect("it listens");
    control.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("possible");
    control.set_nodelay(true).expect("possible");
    // By hand: 46 bytes of JSON, whose handle is whatever the client has, and 65 back.
    let connect = b"\0\0\0\0\0\0\0\x2e\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
          {\"cmd\":\"connect\",\"handle\":-1,\"value\":\"client\"}";
    let connected = b"\0\0\0\0\0\0\0\x41\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
          {\"cmd\":\"connect\",\"result\":true,\"flag\":null,\"value\":[\"1\",\"10402\"]}";
    assert_eq!(asked(&mut control, connect, connected.len()), connected);
    for (request, answer) in [
        (vendor_request("getValue", 0, "/par/registermisc", "0x8014"), done("getValue", "\"0\"")),
        (vendor_request("getValue", 0, "/par/NumCh", ""), done("getValue", "\"4\"")),
        (vendor_request("getHandle", 0, "", ""), done("getHandle", "\"1\"")),
        (vendor_request("getNodeProperties", 0, "/par", ""), done("getNodeProperties", "\"par\",\"FOLDER\"")),
        (vendor_request("setValue", 0, "/ch/1..2/par/ChEnable", "false"), done("setValue", "")),
        (vendor_request("getValue", 1, "/ch/2/par/chenable", ""), done("getValue", "\"False\"")),
        (
            vendor_request("getValue", 4_000_000, "/par/numch", ""),
            control_message(
                "{\"cmd\":\"getValue\",\"result\":false,\"flag\":null,\
                 \"value\":[\"no node has the handle 4000000; ask for handles anew after connecting\"]}",
            ),
        ),
    ] {
        let found = asked(&mut control, &request, answer.len());
        assert_eq!(found, answer, "{}", String::from_utf8_lossy(&found));
    }
    // A request in two chunks, and two in one.
    let (request, answer) =
        (vendor_request("getValue", 0, "/par/registermisc", "0x8014"), done("getValue", "\"0\""));
    let (head, tail) = request.split_at(37);
    control.write_all(head).expect("sent");
    assert_eq!(asked(&mut control, tail, answer.len()), answer);
    let twice = [answer.clone(), answer.clone()].concat();
    assert_eq!(asked(&mut control, &request.repeat(2), twice.len()), twice);

    let data = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let port = data.local_addr().expect("bound").port();
    // Five digits or fewer, as an ephemeral port has: the answer then is longer than that of 0 by so many bytes less one.
    let known = done("getValue", &format!("\"{port}\""));
    wait_until("the board knows where to stream", || {
        data.send_to(&[], ("127.0.3.45", 51_940)).expect("sent");
        let mut length = [0; 8];
        control.write_all(&request).expect("sent");
        control.read_exact(&mut length).expect("answered");
        let mut rest = vec![0; 24 + u64::from_be_bytes(length) as usize];
        control.read_exact(&mut rest).expect("answered");
        let found = [&length[..], &rest].concat();
        assert!(found == answer || found == known, "{}", String::from_utf8_lossy(&found));
        found == known
    });
    boards.signal("TERM");
    boards.wait().done();
}
