//! `thalweg ipbus`: an emulated board, and registers by name and address.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Ended, Folder, Running, free_port, number, thalweg, wait_until};
use crate::retention::{get, get_as};

const TABLE: &str = r#"<node>
  <node id="CONTROL" address="0x10"><node id="ENABLE" mask="0x1"/><node id="GAIN" mask="0xFF0"/></node>
  <node id="TICKS" address="0x20" permission="r" parameters="emulate=counter;value=7"/>
  <node id="MEMORY" address="0x1000" mode="block" size="0x100"/>
  <node id="BROKEN" address="0x30" parameters="emulate=timeout"/>
</node>"#;

struct Board {
    folder: Folder,
    device: Running,
    uri: String,
}

fn board() -> Board {
    let folder = Folder::new();
    let (table, place) = (folder.file("board.xml", TABLE), format!("127.0.0.1:{}", free_port()));
    let device =
        Running::start(&["ipbus", "device", "--udp", &place, "--tcp", &place, "--table", &table, "--json"]);
    device.wait_for_text(&format!("serving ipbustcp-2.0://{place}"));
    Board { folder, device, uri: format!("ipbusudp-2.0://{place}") }
}

impl Board {
    fn ipbus(&self, what: &str, more: &[&str]) -> Ended {
        let table = self.folder.at("board.xml");
        thalweg(&[&["ipbus", what, &self.uri], more, &["--table", &table, "--json"]].concat())
    }

    fn words(&self, register: &str, more: &[&str]) -> Value {
        let ended = self.ipbus("read", &[&[register], more].concat()).done();
        ended.json()[0]["words"].clone()
    }
}

#[test]
fn registers_of_an_emulated_board_are_read_and_written_by_name_and_address() {
    let board = board();
    board.ipbus("write", &["CONTROL.GAIN=0xAB", "CONTROL.ENABLE=1", "0x1002=0xCAFE"]).done();
    assert_eq!(board.words("CONTROL", &[]), json!([0xAB1]));
    assert_eq!(board.words("CONTROL.GAIN", &[]), json!([0xAB]));
    assert_eq!(board.words("0x10", &[]), json!([0xAB1]));
    assert_eq!(board.words("MEMORY", &["--words", "4"]), json!([0, 0, 0xCAFE, 0]));
    assert_eq!((board.words("TICKS", &[]), board.words("TICKS", &[])), (json!([7]), json!([8])));
    let status = board.ipbus("status", &[]).done().json();
    assert_eq!((status["buffers"].as_u64(), status["buffer_bytes"].as_u64()), (Some(4), Some(2040)));
    assert!(status["next_id"].as_u64() > Some(5), "{status}");
    board.device.signal("INT");
    let counts = board.device.wait().done().json();
    assert!(counts["done"].as_u64() >= Some(8) && counts["refused"] == 0, "{counts}");
}

#[test]
fn a_register_is_changed_in_one_step_and_says_what_it_was() {
    let board = board();
    let change = |register: &str, more: &[&str]| {
        board.ipbus("rmw", &[&[register], more].concat()).done().json()["before"].clone()
    };
    board.ipbus("write", &["CONTROL=0xAB1"]).done();
    assert_eq!(change("CONTROL.GAIN", &["--set", "0x04", "--clear", "0x80"]), json!(0xAB));
    assert_eq!(change("CONTROL", &["--add", "1"]), json!(0x2F1));
    assert_eq!(change("0x10", &["--clear", "0xF"]), json!(0x2F2));
    assert_eq!(board.words("CONTROL", &[]), json!([0x2F0]));
    for (register, more, word) in [
        ("CONTROL.GAIN", ["--add", "1"], "a sum could carry into the bits above it"),
        ("CONTROL.GAIN", ["--set", "0x100"], "0x100 exceeds its maximum 0xff"),
        ("TICKS", ["--set", "1"], "`TICKS` is read-only"),
    ] {
        let ended = board.ipbus("rmw", &[&[register], &more[..]].concat());
        assert!(ended.code == Some(1) && ended.error.contains(word), "{ended:#?}");
    }
    assert_eq!(board.ipbus("rmw", &["CONTROL"]).code, Some(2), "nothing is to be changed");
}

#[test]
fn a_block_goes_to_a_file_and_comes_back_from_it() {
    let board = board();
    let words: Vec<u8> = (0..0x100u32).flat_map(|word| (word * 0x0101_0101).to_le_bytes()).collect();
    let (written, read) = (board.folder.at("written.bin"), board.folder.at("read.bin"));
    std::fs::write(&written, &words).expect("a file");
    board.ipbus("block", &["MEMORY", "--from", &written]).done();
    let ended = board.ipbus("block", &["MEMORY", "--to", &read]).done().json();
    assert_eq!(ended["words"], 0x100, "those of the node");
    assert_eq!(std::fs::read(&read).expect("it was written"), words);
    board.ipbus("block", &["0x1001", "--to", &read, "--words", "2"]).done();
    assert_eq!(std::fs::read(&read).expect("it was written"), words[4..12]);
    std::fs::write(&written, &words[..7]).expect("a file");
    for (more, code, word) in [
        (&["MEMORY", "--from", &written][..], 2, "7 bytes are no whole words, 3 are left"),
        (&["0x1000", "--to", &read], 2, "say --words"),
        (
            &["MEMORY", "--to", &read, "--words", "257"],
            1,
            "has 256 word(s); 257 from offset 0 on were requested",
        ),
        (&["MEMORY"], 2, "--from"),
        (&["MEMORY", "--to", "/no/such/folder"], 1, "/no/such/folder"),
    ] {
        let ended = board.ipbus("block", more);
        assert!(ended.code == Some(code) && ended.error.contains(word), "{ended:#?}");
    }
}

#[test]
fn a_dump_has_every_word_that_can_be_read_and_says_which_did_not_come() {
    let board = board();
    board.ipbus("write", &["CONTROL=0xAB1"]).done();
    let values = |dumped: &Value| -> Vec<(String, Value)> {
        let one = |one: &Value| (one["register"].as_str().expect("a name").to_owned(), one["value"].clone());
        dumped.as_array().expect("a list").iter().map(one).collect()
    };
    let expected = |all: &[(&str, Value)]| -> Vec<(String, Value)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    let dumped = board.ipbus("dump", &["CONTROL*"]).done().json();
    let control = [("CONTROL", json!(0xAB1)), ("CONTROL.ENABLE", json!(1)), ("CONTROL.GAIN", json!(0xAB))];
    assert_eq!(values(&dumped), expected(&control));
    let all = board.ipbus("dump", &[]);
    assert_eq!(all.code, Some(1), "one of them has refused");
    let rest = [("TICKS", json!(7)), ("BROKEN", Value::Null)];
    assert_eq!(values(&all.json()), expected(&[&control[..], &rest].concat()));
    let broken = all.json()[4]["error"].as_str().unwrap_or_default().to_owned();
    assert!(broken.contains("bus timeout on a read"), "{broken}");
    let none = board.ipbus("dump", &["MEM*"]);
    assert!(none.code == Some(2) && none.error.contains("no register to be read"), "{none:#?}");
}

#[test]
fn watched_registers_come_one_look_after_the_other_and_are_summed_up() {
    let board = board();
    let ended = board.ipbus("watch", &["TICKS", "0x10", "--every-ms", "1", "--count", "5"]).done();
    let looks: Vec<Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).expect("JSON in every line")).collect();
    let ticks: Vec<&Value> = looks[..5].iter().map(|look| &look["values"]["TICKS"]).collect();
    assert_eq!(ticks, [7, 8, 9, 10, 11]);
    let watched = &looks[5]["registers"];
    assert_eq!(
        watched[0],
        json!({ "register": "TICKS", "read": 5, "missing": 0, "smallest": 7, "largest": 11, "last": 11 })
    );
    assert_eq!(watched[1]["last"], 0);
    let broken = board.ipbus("watch", &["BROKEN", "0x10", "--every-ms", "1", "--count", "2"]);
    assert_eq!(broken.code, Some(1), "nothing ever came of one: {broken:#?}");
    let first: Value = serde_json::from_str(broken.out.lines().next().unwrap_or_default()).expect("JSON");
    assert_eq!((&first["values"]["BROKEN"], &first["values"]["0x10"]), (&Value::Null, &json!(0)));
    let unknown = board.ipbus("watch", &["TOCKS"]);
    assert!(unknown.code == Some(2) && unknown.error.contains("there is no node `TOCKS`"), "{unknown:#?}");
}

#[test]
fn firmware_is_held_against_every_rule_as_far_as_it_may_be() {
    let board = board();
    let report = board.ipbus("conformance", &["--register", "CONTROL"]).done().json();
    assert_eq!((&report["failing"], &report["open"]), (&json!(0), &json!(0)), "{report:#}");
    let careful = board.ipbus("conformance", &[]);
    let open = &careful.json()["open"];
    assert!(careful.code == Some(1) && *open == 3, "nothing may be written: {careful:#?}");
    for (uri, register, word) in [
        (board.uri.replace("udp", "tcp"), "CONTROL", "give ipbusudp-2.0://HOST:PORT"),
        (board.uri.clone(), "CONTRO", "there is no node `CONTRO`"),
    ] {
        let table = board.folder.at("board.xml");
        let ended = thalweg(&["ipbus", "conformance", &uri, "--register", register, "--table", &table]);
        assert!(ended.code == Some(2) && ended.error.contains(word), "{ended:#?}");
    }
}

/// A capture of datagrams between a client and a board.
fn capture(datagrams: &[(bool, Vec<u8>)]) -> Vec<u8> {
    let (client, board) = ("10.0.0.1:4000".parse().expect("plain"), "10.0.0.2:50001".parse().expect("plain"));
    let mut writer = thalweg_readout::pcap::CaptureWriter::new(Vec::new()).expect("memory");
    for (number, (is_reply, bytes)) in datagrams.iter().enumerate() {
        let (from, to) = if *is_reply { (board, client) } else { (client, board) };
        writer.datagram(1_000_000_000 + number as u64 * 50_000, from, to, bytes).expect("memory");
    }
    writer.finish().expect("memory")
}

#[test]
fn what_went_over_the_network_is_decoded_packet_by_packet() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let folder = Folder::new();
    let file = folder.at("bus.pcap");
    let datagrams = [
        (false, words(&[0x2000_07F0, 0x2001_010F, 0x20, 0x2002_011F, 0x10, 0xAB])),
        (true, words(&[0x2000_07F0, 0x2001_0100, 7, 0x2002_0110])),
        (false, words(&[0x2000_08F0, 0x2001_010F, 0x30])),
        (true, words(&[0x2000_08F0, 0x2001_0006])),
        (false, words(&[0x2000_07F2])),
        (false, words(&[0x2000_09F0, 0x2001_051F, 0x10])),
        (false, b"something else".to_vec()),
    ];
    std::fs::write(&file, capture(&datagrams)).expect("written");
    let table = folder.file("board.xml", TABLE);
    let ended = thalweg(&["ipbus", "trace", &file, "--table", &table]).done();
    for line in [
        "1.000000  10.0.0.1:4000 > 10.0.0.2:50001  request 7",
        "    read TICKS (0x00000020), 1 word(s)",
        "    write CONTROL (0x00000010) 0x000000ab",
        "reply 7, 50.0 µs after its request",
        "    read TICKS (0x00000020) = 0x00000007",
        "    write CONTROL (0x00000010) done",
        "    read BROKEN (0x00000030): bus timeout on a read, after 0 word(s)",
        "resend 7",
        "damaged 9",
        "6 packets of IPbus: 2 requests, 2 replies, 0 statuses, 1 resends, 1 damaged; 1 other datagrams",
    ] {
        assert!(ended.out.contains(line), "{line} in {}", ended.out);
    }
    let ended = thalweg(&["ipbus", "trace", &file, "--packets", "2", "--json"]).done();
    let lines: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines[1]["round_trip_us"].as_f64(), lines[2]["packets"].as_u64()), (Some(50.0), Some(2)));
    let ended = thalweg(&["ipbus", "trace", &table]);
    assert!(ended.code == Some(1) && ended.error.contains("board.xml"), "{ended:#?}");
}

#[test]
fn what_went_through_streams_is_decoded_in_its_order() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let framed = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let [client, target, hub] =
        ["10.0.0.1:4000", "10.0.0.2:50001", "10.0.0.3:10203"].map(|end| end.parse().expect("plain"));
    let read = words(&[0x2000_00F0, 0x2001_010F, 0x20]);
    let answer = |value: u32| words(&[0x2000_00F0, 0x2001_0100, value]);
    // Behind the length: address and port of the board, words; on the way back, bytes, address, port, error.
    let board = words(&[0x0A00_0005, 0xC351_0003]);
    let ask = framed(&[board.as_slice(), &read].concat());
    let reply = |bytes: u32, code: u32, packet: &[u8]| {
        framed(&[words(&[bytes, 0x0A00_0005, 0xC351_0000 | code]).as_slice(), packet].concat())
    };
    let asked: Vec<u8> = [&ask[..], &ask, &ask].concat();
    let answered: Vec<u8> = [reply(20, 0, &answer(1)), reply(20, 0, &answer(2)), reply(8, 1, &[])].concat();
    let direct = framed(&read);
    let mut writer = thalweg_readout::pcap::CaptureWriter::new(Vec::new()).expect("memory");
    let segments = [
        // A connection to a target that was there before the capture: the end of something, and a request.
        ((client, target), 990, &b"the end of it"[..]),
        ((client, target), 1003, &direct),
        ((client, hub), 5, &asked[..30]),
        ((hub, client), u32::MAX - 9, &answered[..40]),
        // The last comes first, one is sent again, and one begins before what is there.
        ((client, hub), 45, &asked[40..]),
        ((client, hub), 35, &asked[30..40]),
        ((client, hub), 35, &asked[30..40]),
        ((hub, client), 20, &answered[30..]),
    ];
    for (number, (ends, sequence, bytes)) in segments.into_iter().enumerate() {
        let time_ns = 1_000_000_000 + number as u64 * 50_000;
        writer.segment(time_ns, ends, sequence, bytes).expect("memory");
    }
    let folder = Folder::new();
    let file = folder.at("streams.pcap");
    std::fs::write(&file, writer.finish().expect("memory")).expect("written");
    let ended = thalweg(&["ipbus", "trace", &file, "--table", &folder.file("board.xml", TABLE)]).done();
    for line in [
        "10.0.0.1:4000 > 10.0.0.2:50001  request 0\n    read TICKS (0x00000020), 1 word(s)",
        "10.0.0.1:4000 > 10.0.0.3:10203 for 10.0.0.5:50001  request 0\n    read TICKS",
        "10.0.0.3:10203 > 10.0.0.1:4000 for 10.0.0.5:50001  reply 0, 50.0 µs after its request\n    read TICKS (0x00000020) = 0x00000001",
        "reply 0, 100.0 µs after its request\n    read TICKS (0x00000020) = 0x00000002",
        "refused 0, 100.0 µs after its request\n    the target did not answer the control packet",
        "7 packets of IPbus: 4 requests, 2 replies, 0 statuses, 0 resends, 0 damaged; 0 other datagrams; 1 replies that a hub did not \
         have; 13 bytes of streams are no IPbus",
    ] {
        assert!(ended.out.contains(line), "{line} in {}", ended.out);
    }
}

#[test]
fn boards_of_a_network_are_found() {
    let board = board();
    let place = board.uri.split("//").nth(1).expect("a place");
    let port = place.split(':').nth(1).expect("a port");
    let network = format!("127.0.0.0/30:{port}");
    let found = thalweg(&["ipbus", "scan", &network, "--wait-ms", "50", "--json"]).done().json();
    assert_eq!((&found["asked"], &found["targets"][0]["target"]), (&json!(4), &json!(place)));
    assert_eq!(found["targets"].as_array().map(Vec::len), Some(1));
    let silent = thalweg(&["ipbus", "scan", &format!("127.0.0.1:{}", free_port()), "--wait-ms", "1"]);
    assert!(silent.code == Some(1) && silent.out.contains("0 of 1 addresses answered"), "{silent:#?}");
    let wide = thalweg(&["ipbus", "scan", "10.0.0.0/8"]);
    assert!(wide.code == Some(2) && wide.error.contains("65536 are asked at most"), "{wide:#?}");
}

#[test]
fn what_cannot_be_done_is_said_before_or_by_whom() {
    let board = board();
    for (what, register, code, word) in [
        ("write", "TICKS=1", 1, "`TICKS` is read-only"),
        ("write", "CONTROL.GAIN=0x100", 1, "has the bits 0x00000ff0: 0x100 exceeds its maximum 0xff"),
        ("read", "CONTROL.GAINS", 1, "there is no node `CONTROL.GAINS`"),
        ("read", "BROKEN", 1, "bus timeout on a read"),
        ("write", "CONTROL", 2, "write REGISTER=VALUE"),
    ] {
        let ended = board.ipbus(what, &[register]);
        assert!(ended.code == Some(code) && ended.error.contains(word), "{ended:#?}");
    }
    let ended = thalweg(&["ipbus", "read", "ipbusudp-1.3://127.0.0.1:1", "0"]);
    assert!(ended.code == Some(2) && ended.error.contains("IPbus 1.3"), "{ended:#?}");
    let ended =
        thalweg(&["ipbus", "read", &format!("ipbusudp-2.0://127.0.0.1:{}?timeout_ms=50", free_port()), "0"]);
    assert!(ended.code == Some(1) && ended.error.contains("no answer within 50ms"), "{ended:#?}");
    let ended = thalweg(&["ipbus", "device"]);
    assert!(ended.code == Some(2) && ended.error.contains("--udp ADDRESS:PORT"), "{ended:#?}");
}

#[test]
fn tables_are_checked_with_file_and_line() {
    let folder = Folder::new();
    let good = folder.file("good.xml", TABLE);
    let odd = folder.file(
        "odd.xml",
        "<node>\n<node id=\"A\" address=\"1\"/>\n<node id=\"B\" address=\"1\" size=\"2\"/>\n</node>",
    );
    let bad = folder.file("bad.xml", "<node>\n<node id=\"A\" adress=\"1\"/>\n</node>");
    let connections = folder.file(
        "connections.xml",
        "<connections><connection id=\"a\" uri=\"ipbusudp-2.0://127.0.0.1:1\" address_table=\"file://good.xml\"/></connections>",
    );
    let checked = thalweg(&["ipbus", "check", &good, &connections, "--json"]).done().json();
    assert_eq!((checked["ok"].as_bool(), checked["nodes"].as_u64()), (Some(true), Some(12)));
    assert_eq!(checked["found"], json!([]));
    let checked = thalweg(&["ipbus", "check", &odd]).done().out;
    for word in [
        "odd.xml:3: `size` has no meaning without `mode`",
        "odd.xml:3: `B` at 0x00000001 overlaps `A`",
        "2 nodes, 2 odd",
    ] {
        assert!(checked.contains(word), "{checked}");
    }
    let checked = thalweg(&["ipbus", "check", &bad]);
    assert!(
        checked.code == Some(1) && checked.out.contains("bad.xml:2: `adress` is not an attribute of a node"),
        "{checked:#?}"
    );
}

#[test]
fn a_hub_serves_what_its_rules_allow_and_says_what_it_has_done() {
    let board = board();
    let (listen, target) =
        (format!("127.0.0.1:{}", free_port()), board.uri.split("//").nth(1).expect("a place"));
    let rules = board.folder.file(
        "hub.toml",
        "targets = [\"127.0.0.0/8\"]\n[[rule]]\naddresses = \"0x1000..=0x10FF\"\naccess = \"read\"\n",
    );
    let page = format!("127.0.0.1:{}", free_port());
    let hub = Running::start(&["hub", "--listen", &listen, "--rules", &rules, "--page", &page, "--json"]);
    hub.wait_for_text(&format!("page at http://{page}/"));
    let uri = format!("chtcp-2.0://{listen}?target={target}");
    thalweg(&["ipbus", "write", &uri, "0x10=0xCAFE"]).done();
    let read = thalweg(&["ipbus", "read", &uri, "0x10", "0x1000", "--json"]).done().json();
    assert_eq!((&read[0]["words"], &read[1]["words"]), (&json!([0xCAFE]), &json!([0])));
    let ended = thalweg(&["ipbus", "write", &uri, "0x1000=1"]);
    assert!(
        ended.code == Some(1) && ended.error.contains("its rules forbid the access; 1 of 1 were not done"),
        "{ended:#?}"
    );
    // The page has it a quarter of a second later.
    let shown = || get(&page, "/state");
    wait_until("the page shows what was asked", || shown()["clients"][0]["asked"] == 4);
    let shown = shown();
    let metrics = get_as("localhost", &page, "/metrics").1;
    for line in [
        format!("thalweg_hub_packets_total{{target=\"{target}\"}} 3"),
        format!("thalweg_hub_latency_seconds_count{{target=\"{target}\"}} 3"),
        "thalweg_hub_client_refused_total{client=\"127.0.0.1\",code=\"7\"} 1".to_owned(),
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    }
    let (head, body) = get_as("localhost", &page, "/");
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("<title>thalweg hub</title>"), "{head}");
    assert!(get_as("localhost", &page, "/elsewhere").0.starts_with("HTTP/1.1 404"));
    assert!(get_as("evil.example", &page, "/state").0.starts_with("HTTP/1.1 421"), "a rebound name");
    hub.signal("INT");
    let state = hub.wait().done().json();
    assert_eq!(state["targets"], shown["targets"], "one truth");
    let (client, board) = (&state["clients"][0], &state["targets"][0]);
    assert_eq!(
        (&client["asked"], &client["answered"], &client["refused"]),
        (&json!(4), &json!(3), &json!({ "7": 1 }))
    );
    assert_eq!((board["target"].as_str(), &board["answered"]), (Some(target), &json!(3)), "{state}");
}

/// The processor time that a process has taken, in ticks of a hundredth of a second.
fn ticks(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let fields: Vec<&str> = text.rsplit(')').next().expect("a name").split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a count")).sum()
}

#[test]
fn a_hub_without_a_free_descriptor_turns_clients_away_and_does_not_spin() {
    let board = board();
    let (listen, target) =
        (format!("127.0.0.1:{}", free_port()), board.uri.split("//").nth(1).expect("a place"));
    let uri = format!("chtcp-2.0://{listen}?target={target}");
    let hub = Running::start_as(&["prlimit", "--nofile=24"], &["hub", "--listen", &listen, "--json"]);
    wait_until("the hub answers", || thalweg(&["ipbus", "read", &uri, "0x10"]).code == Some(0));
    let mut clients: Vec<TcpStream> =
        (0..32).map(|_| TcpStream::connect(&listen).expect("the system accepts it")).collect();
    let is_closed = |mut client: &TcpStream| {
        client.set_nonblocking(true).expect("it is set");
        !matches!(client.read(&mut [0]), Err(cause) if cause.kind() == ErrorKind::WouldBlock)
    };
    let turned_away = || clients.iter().filter(|client| is_closed(client)).count();
    wait_until("clients are turned away", || turned_away() >= 8);
    let (before, began) = (ticks(hub.id()), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let (taken, waited) = (ticks(hub.id()) - before, began.elapsed().as_millis() as u64 / 10);
    assert!(taken < waited / 2, "{taken} of {waited} ticks");
    let turned_away = turned_away() as u64;
    clients.clear();
    wait_until("there is room again", || thalweg(&["ipbus", "read", &uri, "0x10"]).code == Some(0));
    hub.signal("INT");
    let state = hub.wait().done().json();
    assert!(state["turned_away"].as_u64() >= Some(turned_away), "{turned_away}: {state}");
}

#[test]
fn what_a_hub_cannot_be_asked_is_said_with_file_and_place() {
    let folder = Folder::new();
    for (option, text, word) in [
        (
            "--rules",
            "[[rule]]\naccess = \"all\"",
            "unknown variant `all`, expected one of `none`, `read`, `write`",
        ),
        (
            "--rules",
            "[[rule]]\naccess = \"read\"\n[[rule]]\naccess = \"read\"\naddresses = \"9..=5\"",
            "rule 2: `9..=5` are no addresses",
        ),
        (
            "--rules",
            "targets = [\"board\"]",
            "`board` is neither an address nor a network; write 192.168.0.2",
        ),
        ("--rules", "target = []", "unknown field `target`"),
        ("--allow", "10.0.0.1 # a board\n10.0.0.1:x\n", "line 2: `10.0.0.1:x` is a target without a port"),
        ("--allow", "# nobody\n", "it has no target"),
    ] {
        let file = folder.file("hub.txt", text);
        let ended = thalweg(&["hub", "--listen", "127.0.0.1:0", option, &file]);
        assert!(
            ended.code == Some(2) && ended.error.contains(word) && ended.error.contains("hub.txt"),
            "{text}: {ended:#?}"
        );
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let ended = thalweg(&["hub", "--listen", &taken.local_addr().expect("bound").to_string()]);
    assert!(ended.code == Some(1) && ended.error.contains("choose another port"), "{ended:#?}");
}

#[test]
fn a_board_is_measured_and_gives_back_what_was_written() {
    let board = board();
    let measured = |more: &[&str]| board.ipbus("perf", &[&["--seconds", "0.2"], more].concat()).done().json();
    let single = measured(&["--register", "MEMORY"]);
    assert_eq!(single["words"], single["dispatches"]);
    assert!(single["round_trip_us"]["p50"].as_f64() > Some(0.0), "{single}");
    let validated = measured(&["--register", "MEMORY", "--words", "20", "--transactions", "5", "--validate"]);
    let dispatches = validated["dispatches"].as_u64().expect("a count");
    assert_eq!(validated["words"].as_u64(), Some(dispatches * 20 * 5 * 2), "each is written and read");
    assert_eq!(validated["words_that_came_back_other"], 0);
    let ended = board.ipbus("perf", &["--register", "BROKEN", "--seconds", "0.1"]);
    assert!(ended.code == Some(1) && ended.error.contains("bus timeout"), "{ended:#?}");
    let ended = board.ipbus("perf", &["--register", "NOBODY"]);
    assert!(ended.code == Some(2) && ended.error.contains("there is no node `NOBODY`"), "{ended:#?}");
}

#[test]
fn a_sweep_is_a_point_for_each_size_and_two_pictures() {
    let board = board();
    let picture = board.folder.at("sweep.svg");
    let stream = board.uri.replace("udp", "tcp");
    let sweep_of = |uri: &str, kind: &str, more: &[&str]| {
        let options = ["ipbus", "perf", uri, "--sweep", kind, "--seconds", "0.02", "--output", &picture];
        thalweg(&[&options, more, &["--validate", "--json"]].concat()).done().json()
    };
    let sweep = |kind: &str, more: &[&str]| sweep_of(&board.uri, kind, more);
    let points = sweep("transactions", &[]);
    let places: Vec<u64> = points.as_array().expect("points").iter().map(|one| number(one, "at")).collect();
    assert_eq!(places, [1, 3, 10, 30, 100, 300]);
    assert!(points[5]["words_per_s"].as_f64() > points[0]["words_per_s"].as_f64(), "{points:#}");
    assert_eq!(sweep_of(&stream, "clients", &["--words", "3"]).as_array().map(Vec::len), Some(8));
    assert_eq!(sweep("targets", &["--also", &stream]).as_array().map(Vec::len), Some(2));
    for file in [&picture, &board.folder.at("sweep.round-trip.svg")] {
        assert!(std::fs::read_to_string(file).expect("drawn").contains("targets at once"), "{file}");
    }
    assert_eq!(board.ipbus("perf", &["--sweep", "words", "--also", &stream]).code, Some(2));
}

#[test]
fn words_that_come_back_other_than_they_were_written_fail_the_measurement() {
    let folder = Folder::new();
    let table = folder.file(
        "board.xml",
        r#"<node><node id="PULSE" address="0x10" parameters="emulate=self_clearing"/></node>"#,
    );
    let place = format!("127.0.0.1:{}", free_port());
    let device = Running::start(&["ipbus", "device", "--udp", &place, "--table", &table]);
    device.wait_for_text("serving ipbusudp");
    let uri = format!("ipbusudp-2.0://{place}");
    let ended = thalweg(&["ipbus", "perf", &uri, "--register", "0x10", "--validate", "--seconds", "0.1"]);
    assert!(ended.code == Some(1) && ended.out.contains("words came back OTHER"), "{ended:#?}");
}
