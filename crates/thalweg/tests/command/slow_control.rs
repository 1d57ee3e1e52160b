//! Slow control of a run: devices that are set before it, read in it, and switched with its trigger and BUSY.

use std::collections::HashMap;
use std::net::UdpSocket;

use serde_json::{Value, json};

use crate::boards::wait_for_control_port;
use crate::process::{Folder, Running, free_port, run_directory, thalweg, wait_until};

const TABLE: &str = r#"<node>
  <node id="CTRL" address="0x10"><node id="MODE" mask="0x0F"/><node id="TRIGGER" mask="0x10"/><node id="BUSY" mask="0x20"/></node>
  <node id="RESET" address="0x11" parameters="emulate=self_clearing"/>
  <node id="TICKS" address="0x20" permission="r" parameters="emulate=counter;value=1000"/>
  <node id="TEMPERATURE" address="0x21"/>
</node>"#;

struct Lab {
    folder: Folder,
    device: Running,
    place: String,
}

impl Lab {
    fn new() -> Lab {
        let folder = Folder::new();
        let (table, place) = (folder.file("crate.xml", TABLE), format!("127.0.0.1:{}", free_port()));
        let device = Running::start(&["ipbus", "device", "--udp", &place, "--table", &table, "--json"]);
        device.wait_for_text("serving ipbusudp");
        Lab { folder, device, place }
    }

    /// A configuration with a board, the device, and more.
    fn configuration(&self, parameters: &str, more: &str) -> String {
        let text = format!(
            "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 4\n\
             [source.emulate]\nchannels = 4\nrate_hz = 2e3\n\
             [record]\ndirectory = \"{}\"\n\
             [[control]]\nname = \"crate\"\nurl = \"ipbusudp-2.0://{}?reliable=off\"\naddress_table = \"crate.xml\"\n\
             parameters = {parameters}\n{more}",
            self.folder.at("runs"),
            self.place
        );
        self.folder.file("run.toml", &text)
    }

    /// What a register of the device reads.
    fn reads(&self, register: &str) -> Value {
        let (uri, table) =
            (format!("ipbusudp-2.0://{}?reliable=off", self.place), self.folder.at("crate.xml"));
        thalweg(&["ipbus", "read", &uri, register, "--table", &table, "--json"]).done().json()[0]["words"][0]
            .clone()
    }
}

const PARAMETERS: &str =
    "[[\"CTRL.MODE\", \"0xA\"], [\"TEMPERATURE\", \"336\"], [\"RESET\", \"1\"]]\nunchecked = [\"RESET\"]";
const SERIES: &str = "[[series]]\nname = \"ticks\"\nof = \"crate\"\npath = \"TICKS\"\nevery_s = 0.05\n\
                      [[series]]\nname = \"temperature\"\nof = \"crate\"\npath = \"TEMPERATURE\"\nevery_s = 0.05\nscale = 0.0625\n\
                      offset = -1\nunit = \"degC\"\n";

#[test]
fn a_device_is_set_before_a_run_and_read_in_it_and_both_are_on_file() {
    let lab = Lab::new();
    let file = lab.configuration(PARAMETERS, SERIES);
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let is_read = |state: &Value| state["series"]["ticks"]["value"].as_f64() >= Some(1005.0);
    let state = run.wait_for_state("it is read", is_read);
    assert_eq!(state["series"]["temperature"], json!({"value": 20.0, "unit": "degC"}), "336 / 16 - 1");
    run.signal("INT");
    let recorded = run_directory(&run.wait().done().json());
    thalweg(&["verify", &recorded]).done();
    let inspected = thalweg(&["inspect", &recorded, "--json"]).done().json();
    let tables = inspected["tables"].as_array().expect("a list");
    let rows = tables.iter().find(|table| table["table"] == "series").map(|table| table["rows"].as_u64());
    assert!(rows.flatten() >= Some(10), "{inspected:#}");
    let record: Value =
        serde_json::from_slice(&std::fs::read(format!("{recorded}/run.json")).expect("a file"))
            .expect("JSON");
    let set = &record["details"]["controls"]["crate"]["parameters"];
    assert_eq!(set[0], json!({"path": "CTRL.MODE", "set": "0xA", "read": "10"}));
    assert_eq!(set[2], json!({"path": "RESET", "set": "1", "read": "0"}));
    let plotted = thalweg(&["plot", &recorded, "--series"]).done();
    assert!(plotted.out.trim_end().ends_with("series.svg"), "{plotted:#?}");
    let picture = std::fs::read_to_string(format!("{recorded}/series.svg")).expect("drawn");
    for words in ["2 series, ", "degC", "temperature", "ticks"] {
        assert!(picture.contains(words), "{words}: {picture}");
    }
}

#[test]
fn a_run_without_series_has_no_picture_of_them() {
    let lab = Lab::new();
    let file = lab.configuration("[]", "");
    let recorded = run_directory(&thalweg(&["run", &file, "--seconds", "0.5", "--json"]).done().json());
    let ended = thalweg(&["plot", &recorded, "--series"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.error.contains("no series to plot") && ended.error.contains("[[series]]"), "{ended:#?}");
}

#[test]
fn a_device_that_does_not_hold_what_was_set_prevents_the_run_and_says_so() {
    let lab = Lab::new();
    let file = lab.configuration("[[\"RESET\", \"1\"]]", "");
    let ended = thalweg(&["run", &file, "--seconds", "1"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    for words in ["line 12", "\"crate\"", "`RESET` was set to 1 and reads 0", "unchecked"] {
        assert!(ended.error.contains(words), "{words} in {ended:#?}");
    }
    let file = lab.configuration("[[\"CTRL.MOOD\", \"1\"]]", "");
    let ended = thalweg(&["run", &file, "--seconds", "1"]);
    assert!(ended.error.contains("no node `CTRL.MOOD`"), "{ended:#?}");
}

#[test]
fn a_device_that_goes_away_costs_its_values_and_not_the_run() {
    let lab = Lab::new();
    let file = lab.configuration("[]", SERIES);
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    run.wait_for_state("it is read", |state| state["series"]["ticks"]["value"].is_number());
    lab.device.signal("KILL");
    let state = run.wait_for_state("it is unknown", |state| state["series"]["ticks"]["value"].is_null());
    assert_eq!(state["state"], "running");
    run.signal("INT");
    let ended = run.wait().done();
    assert!(ended.error.contains("series \"ticks\" is unknown"), "{ended:#?}");
    thalweg(&["verify", &run_directory(&ended.json())]).done();
}

#[test]
fn a_trigger_is_enabled_and_busy_lowered_while_data_are_taken_and_only_then() {
    let lab = Lab::new();
    let switches = "[trigger.enable]\nof = \"crate\"\npath = \"CTRL.TRIGGER\"\n[busy]\nregister = { of = \"crate\", path = \"CTRL.BUSY\" }\n";
    let file = lab.configuration("[]", switches);
    let is = |trigger: u64, busy: u64| {
        (lab.reads("CTRL.TRIGGER"), lab.reads("CTRL.BUSY")) == (json!(trigger), json!(busy))
    };
    let explained = thalweg(&["run", &file, "--explain", "--json"]).done().json();
    let control = |to: &str, kind: &str| json!({"from": "run", "to": to, "kind": kind});
    assert_eq!(
        explained["controls"],
        json!([control("crate CTRL.BUSY", "busy"), control("crate CTRL.TRIGGER", "gate")])
    );
    let explained = thalweg(&["run", &file, "--explain"]).done().out;
    assert!(explained.contains("crate CTRL.BUSY     run       busy"), "{explained}");
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    run.wait_until_running();
    wait_until("triggers are let through", || is(1, 0));
    run.signal("INT");
    run.wait().done();
    assert!(is(0, 1), "nobody reads what a trigger would bring");
}

#[test]
fn names_of_devices_that_are_none_are_refused_with_their_line() {
    let lab = Lab::new();
    for (more, words) in [
        ("[[series]]\nname = \"t\"\nof = \"crater\"\npath = \"T\"\n", ["line ", "\"crate\""]),
        ("[[series]]\nname = \"t\"\nof = \"crate\"\npath = \"T\"\nevery_s = 0\n", ["line ", "every_s"]),
        (
            "[[alarm]]\nname = \"hot\"\nquantity = \"series\"\nseries = \"heat\"\nabove = 4\n",
            ["line ", "no [[series]]"],
        ),
        ("[trigger.enable]\nof = \"none\"\npath = \"T\"\n", ["line ", "\"crate\""]),
        ("[busy]\nregister = { of = \"none\", path = \"T\" }\n", ["line ", "\"crate\""]),
        ("[[control]]\nname = \"board\"\nurl = \"rbcp://127.0.0.1\"\n", ["line ", "\"board\""]),
        ("[[control]]\nname = \"x\"\nurl = \"ftp://127.0.0.1\"\n", ["line ", "rbcp://"]),
    ] {
        let ended = thalweg(&["run", &lab.configuration("[]", more), "--explain"]);
        assert_eq!(ended.code, Some(2), "{more}: {ended:#?}");
        for word in words {
            assert!(ended.error.contains(word), "{word} in {ended:#?}");
        }
    }
}

#[test]
fn all_registers_of_a_board_go_to_a_file_and_come_back_from_it() {
    let lab = Lab::new();
    let (uri, table) = (format!("ipbusudp-2.0://{}", lab.place), lab.folder.at("crate.xml"));
    let board =
        |what: &str, more: &[&str]| thalweg(&[&["board", what, &uri], more, &["--table", &table]].concat());
    board("set", &["CTRL.MODE=5", "TEMPERATURE=0x150"]).done();
    assert_eq!(board("get", &["TEMPERATURE", "0x10"]).done().out, "TEMPERATURE = 336\n0x10 = 5\n");
    let file = lab.folder.at("crate.toml");
    board("dump", &["--output", &file]).done();
    let dumped = std::fs::read_to_string(&file).expect("written");
    assert!(dumped.contains("[\"CTRL.MODE\", \"5\"]") && dumped.contains("# TICKS = 1000"), "{dumped}");
    board("set", &["CTRL.MODE=0", "TEMPERATURE=0"]).done();
    let loaded = board("load", &[&file, "--json"]).done().json();
    assert!(loaded.as_array().is_some_and(|all| all.len() == 6), "{loaded:#}");
    assert_eq!((lab.reads("CTRL.MODE"), lab.reads("TEMPERATURE")), (json!(5), json!(336)));
    let refused = board("set", &["RESET=1"]);
    assert!(refused.code == Some(1) && refused.error.contains("reads 0"), "{refused:#?}");
    board("set", &["RESET=1", "--unchecked", "RESET"]).done();
    let nonsense = lab.folder.file("bad.toml", "parameters = 3\n");
    assert_eq!(board("load", &[&nonsense]).code, Some(2));
    assert_eq!(thalweg(&["board", "get", "udp://127.0.0.1:1", "x"]).code, Some(2));
}

#[test]
fn parameters_of_an_emulated_digitizer_are_listed_and_set() {
    let _boards =
        Running::start(&["emulate", "--boards", "1", "--address", "127.0.3.40", "--seconds", "100"]);
    wait_for_control_port("127.0.3.40");
    let url = "dig2://127.0.3.40";
    let listed = thalweg(&["board", "dump", url, "--json"]).done().json();
    let paths: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|one| one["path"].as_str()).collect();
    assert!(
        paths.contains(&"/par/numch") && paths.iter().any(|path| path.starts_with("/ch/0/par/")),
        "{paths:?}"
    );
    let set = thalweg(&["board", "set", url, "/ch/0/par/chenable=False"]).done();
    assert!(set.out.contains("reads False"), "{set:#?}");
}

#[test]
fn a_board_that_sends_data_is_read_by_the_one_connection_that_it_takes() {
    let folder = Folder::new();
    let boards =
        ["emulate", "--boards", "1", "--address", "127.0.3.41", "--rate", "2000", "--seconds", "100"];
    let _boards = Running::start(&boards);
    wait_for_control_port("127.0.3.41");
    let text = format!(
        "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"dig2://127.0.3.41\"\nmemory_bytes = 16_777_216\n\
         parameters = [[\"/ch/1/par/chenable\", \"False\"]]\n[record]\ndirectory = \"{}\"\n\
         [[series]]\nname = \"channels\"\nof = \"board\"\npath = \"/par/numch\"\nevery_s = 0.1\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let is_read = |state: &Value| state["series"]["channels"]["value"].is_number();
    let state = run.wait_for_state("it is read", is_read);
    assert_eq!(state["series"]["channels"]["value"], 64.0);
    run.signal("INT");
    let recorded = run_directory(&run.wait().done().json());
    let record = std::fs::read(format!("{recorded}/run.json")).expect("a file");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let set = &record["details"]["controls"]["board"]["parameters"];
    assert_eq!(*set, json!([{"path": "/ch/1/par/chenable", "set": "False", "read": "False"}]));
}

/// The registers of a SiTCP board: bytes of memory, by the protocol's document and not by this project's code. It serves as long as the
/// test lives.
fn sitcp_registers() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let place = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut memory, mut datagram) = (HashMap::new(), [0; 1024]);
        while let Ok((count, from)) = socket.recv_from(&mut datagram) {
            let (header, data) = datagram[..count].split_at(8);
            let first = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            let is_read = header[1] & 0x40 != 0;
            let mut answer = header.to_vec();
            answer[1] |= 0x08;
            for place in 0..u32::from(header[3]) {
                let byte = memory.entry(first.wrapping_add(place)).or_insert(0);
                if !is_read {
                    *byte = data[place as usize];
                }
                answer.push(*byte);
            }
            socket.send_to(&answer, from).expect("loopback");
        }
    });
    format!("rbcp://{place}")
}

#[test]
fn registers_of_a_sitcp_board_are_set_read_back_and_recorded() {
    let (url, folder) = (sitcp_registers(), Folder::new());
    let board = |what: &str, more: &[&str]| thalweg(&[&["board", what, &url], more].concat());
    board("set", &["mode=suppressed", "window=32", "0x1c:2=0x0102"]).done();
    assert_eq!(board("get", &["window", "0x1d"]).done().out, "window = 32\n0x1d = 2\n");
    assert_eq!(board("set", &["windows=1"]).code, Some(1));
    let text = format!(
        "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 4\n\
         [source.emulate]\nchannels = 4\nrate_hz = 2e3\n[record]\ndirectory = \"{}\"\n\
         [[control]]\nname = \"chamber\"\nurl = \"{url}\"\nparameters = [[\"window\", \"48\"]]\n\
         [[series]]\nname = \"threshold\"\nof = \"chamber\"\npath = \"0x1c:2\"\nevery_s = 0.05\n\
         [busy]\nregister = {{ of = \"chamber\", path = \"0x1e\" }}\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let is_read = |state: &Value| state["series"]["threshold"]["value"] == 258.0;
    run.wait_for_state("it is read", is_read);
    let busy = || board("get", &["0x1e"]).done().out;
    wait_until("the board may send", || busy() == "0x1e = 0\n");
    run.signal("INT");
    let recorded = run_directory(&run.wait().done().json());
    assert_eq!(busy(), "0x1e = 1\n");
    let record = std::fs::read(format!("{recorded}/run.json")).expect("a file");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let set = &record["details"]["controls"]["chamber"]["parameters"];
    assert_eq!(*set, json!([{"path": "window", "set": "48", "read": "48"}]));
    thalweg(&["verify", &recorded]).done();
}
