//! `thalweg ipbus`: an emulated board, and registers by name and address.

use serde_json::{Value, json};

use crate::process::{Ended, Folder, Running, free_port, thalweg, wait_until};
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
    device.wait_for_words(&format!("serving ipbustcp-2.0://{place}"));
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
fn what_cannot_be_done_is_said_before_or_by_whom() {
    let board = board();
    for (what, register, code, word) in [
        ("write", "TICKS=1", 1, "`TICKS` is read-only"),
        ("write", "CONTROL.GAIN=0x100", 1, "has the bits 0x00000ff0: 0x100 is more than 0xff, the most"),
        ("read", "CONTROL.GAINS", 1, "there is no node `CONTROL.GAINS`"),
        ("read", "BROKEN", 1, "nothing on the bus answered to a read"),
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
        checked.code == Some(1) && checked.out.contains("bad.xml:2: `adress` is no attribute of a node"),
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
    hub.wait_for_words(&format!("page at http://{page}/"));
    let uri = format!("chtcp-2.0://{listen}?target={target}");
    thalweg(&["ipbus", "write", &uri, "0x10=0xCAFE"]).done();
    let read = thalweg(&["ipbus", "read", &uri, "0x10", "0x1000", "--json"]).done().json();
    assert_eq!((&read[0]["words"], &read[1]["words"]), (&json!([0xCAFE]), &json!([0])));
    let ended = thalweg(&["ipbus", "write", &uri, "0x1000=1"]);
    assert!(
        ended.code == Some(1)
            && ended.error.contains("its rules forbid what was asked; 1 of 1 were not done"),
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
        ("--rules", "targets = [\"board\"]", "`board` is no address and no network; write 192.168.0.2"),
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
    assert!(single["round_trip_us"]["half_within"].as_f64() > Some(0.0), "{single}");
    let validated = measured(&["--register", "MEMORY", "--words", "20", "--transactions", "5", "--validate"]);
    let dispatches = validated["dispatches"].as_u64().expect("a count");
    assert_eq!(validated["words"].as_u64(), Some(dispatches * 20 * 5 * 2), "each is written and read");
    assert_eq!(validated["words_that_came_back_other"], 0);
    let ended = board.ipbus("perf", &["--register", "BROKEN", "--seconds", "0.1"]);
    assert!(ended.code == Some(1) && ended.error.contains("nothing on the bus answered"), "{ended:#?}");
    let ended = board.ipbus("perf", &["--register", "NOBODY"]);
    assert!(ended.code == Some(2) && ended.error.contains("there is no node `NOBODY`"), "{ended:#?}");
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
    device.wait_for_words("serving ipbusudp");
    let uri = format!("ipbusudp-2.0://{place}");
    let ended = thalweg(&["ipbus", "perf", &uri, "--register", "0x10", "--validate", "--seconds", "0.1"]);
    assert!(ended.code == Some(1) && ended.out.contains("words came back OTHER"), "{ended:#?}");
}
