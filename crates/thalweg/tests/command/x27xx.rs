//! Boards of the x27xx family, emulated in a process of their own: their parameters, their start, their lock, their firmware.

use std::path::Path;

use serde_json::Value;

use crate::boards::{boards_at, wait_for_control_port};
use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg};

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn record(run: &str) -> Value {
    serde_json::from_str(&text(&Path::new(run).join("run.json"))).expect("whole")
}

/// A configuration of one source per name, address and further keys, which ends at so many hits.
fn configuration(folder: &Folder, hits: u32, sources: &[(&str, &str, &str)]) -> String {
    let source = |(number, (name, address, keys)): (usize, &(&str, &str, &str))| {
        let first_channel = number * 64;
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"dig2://{address}\"\nfirst_channel = {first_channel}\n{keys}\n"
        )
    };
    let sources: String = sources.iter().enumerate().map(source).collect();
    let end = format!("[run]\n hits = {hits}\n");
    folder.file("run.toml", &format!("{end}{sources}[record]\ndirectory = \"{}\"\n", folder.at("runs")))
}

/// Runs an example of the repository against the emulated board that it names.
fn example(name: &str, board: &str, address: &str) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = Folder::new();
    let _boards = boards_at(address, &examples.join("boards").join(board).display().to_string());
    let configured = text(&examples.join(name))
        .replace("dig2://127.0.0.2", &format!("dig2://{address}"))
        .replace("directory   = \"runs\"", &format!("directory = \"{}\"", folder.at("runs")))
        .replace("[run]\n", "[run]\n hits = 2000\n");
    let file = folder.file("run.toml", &configured);
    let summary = thalweg(&["run", &file, "--seconds", "100", "--json"]).done().json();
    assert_ledger_balances(&summary);
    assert!(number(&summary, "hits_recorded") >= 2000, "{summary:#}");
    let run = run_directory(&summary);
    let controls = record(&run)["details"]["controls"].clone();
    let (_, board) = controls.as_object().expect("a table").iter().next().expect("one board");
    let parameters = board["parameters"].as_array().expect("a list");
    let lines = configured.lines().filter(|line| line.trim_start().starts_with("[\"/")).count();
    assert_eq!(parameters.len(), lines, "every parameter of the example is in the record");
    for parameter in parameters {
        let read = parameter["read"].as_str().unwrap_or_else(|| panic!("{parameter} was not read"));
        assert!(!read.is_empty() && !read.contains(", "), "all channels have one value: {parameter}");
    }
    for when in ["armed", "ended"] {
        assert_eq!(board[when]["is_locked"], true, "{board:#}");
    }
    thalweg(&["verify", &run]).done();
}

#[test]
fn the_example_of_dpp_psd_takes_data_and_every_parameter_is_read_back() {
    example("dpp-psd.toml", "psd.toml", "127.0.3.50");
}

#[test]
fn the_example_of_dpp_pha_takes_data_and_every_parameter_is_read_back() {
    example("dpp-pha.toml", "pha.toml", "127.0.3.51");
}

#[test]
fn the_example_of_scope_takes_data_and_every_parameter_is_read_back() {
    example("scope.toml", "scope.toml", "127.0.3.52");
}

/// Its aggregates have more than 1 MB with the waveforms, and the blocks of the source 128 KiB.
#[test]
fn aggregates_that_are_larger_than_a_block_arrive_with_every_hit() {
    let folder = Folder::new();
    let settings = "transport = \"tcp\"\nchannels = 8\nrate_hz = 5000.0\naggregate_hits = 20000\nflush_ms = 5000.0\n\
                    waveform_samples = 52\nwaveform_every = 5\n";
    let _boards = boards_at("127.0.3.61", &folder.file("board.toml", settings));
    let keys = "block_bytes = 131072\nworkers = 2";
    let file = configuration(&folder, 45_000, &[("left", "127.0.3.61", keys)]);
    let summary = thalweg(&["run", &file, "--seconds", "100", "--json"]).done().json();
    assert_ledger_balances(&summary);
    assert_eq!(summary["losses"], Value::Array(Vec::new()), "{summary:#}");
    let ledger = summary["ledger"].as_array().expect("a list");
    let decoded = |unit: &str| {
        let line = ledger.iter().find(|line| line["stage"] == "decode" && line["unit"] == unit);
        number(line.unwrap_or_else(|| panic!("{unit} in {summary:#}")), "out")
    };
    let (hits, frames) = (decoded("hits"), decoded("frames"));
    // Starts and stops are frames, too.
    assert!(hits >= 45_000 && hits / frames > 4000, "{hits} hits in {frames} aggregates");
    thalweg(&["verify", &run_directory(&summary)]).done();
}

#[test]
fn a_parameter_that_no_board_takes_is_explained_before_any_board_is_set() {
    let folder = Folder::new();
    let settings = folder.file("board.toml", "channels = 32\nsampling_mhz = 500\n");
    let _boards = boards_at("127.0.3.53", &settings);
    let refused = |parameter: &str, words: &[&str]| {
        let keys = format!("parameters = [[\"/ch/0..31/par/DCOffset\", \"70\"], {parameter}]");
        let ended = thalweg(&["run", &configuration(&folder, 10, &[("left", "127.0.3.53", &keys)])]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        for word in ["left", "dig2://127.0.3.53"].iter().chain(words) {
            assert!(ended.error.contains(word), "{word} in {}", ended.error);
        }
    };
    refused("[\"/ch/0..31/par/TriggerThr\", \"70000\"]", &["70000", "1 to 8191", "ADC counts"]);
    refused("[\"/ch/0..31/par/GateLongLen\", \"400\"]", &["none of that name", "GateLongLengthT"]);
    refused("[\"/ch/0..63/par/ChEnable\", \"True\"]", &["32", "/ch/0..31"]);
    refused("[\"/ch/0/par/EnergyFilterFlatTopT\", \"80\"]", &["firmware pha", "psd"]);
    refused("[\"/ch/0/par/EventTriggerSource\", \"Ch64Trigger | Soft\"]", &["SwTrg", "joined by"]);
    refused("[\"/vga/0/par/VGAGain\", \"20\"]", &["hardware"]);
    assert!(!folder.path().join("runs").exists(), "a refused start leaves no run");
    let offset = thalweg(&["board", "get", "dig2://127.0.3.53", "/ch/0/par/DCOffset"]).done();
    assert!(offset.out.contains("= 20"), "nothing was set: {}", offset.out);
}

#[test]
fn a_board_that_another_run_has_is_refused_by_name_before_any_board_is_changed() {
    let folder = Folder::new();
    let arguments =
        ["emulate", "--boards", "2", "--address", "127.0.3.54", "--rate", "500", "--seconds", "200"];
    let _boards = Running::start(&arguments);
    ["127.0.3.54", "127.0.3.55"].into_iter().for_each(wait_for_control_port);
    let (left, right) = (("left", "127.0.3.54", ""), ("right", "127.0.3.55", ""));
    let first = configuration(&folder, 1_000_000_000, &[right]);
    let first = Running::start(&["run", &first, "--json", "--states", "0.1"]);
    let recorded = |state: &Value| state["hits_recorded"].as_u64().unwrap_or(0);
    first.wait_for_state("it records", |state| recorded(state) > 1000);
    let both = configuration(&folder, 10, &[left, right]);
    let refused = thalweg(&["run", &both]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    for word in
        ["was not started", "\"right\"", "dig2://127.0.3.55", "another program", "running, clock locked"]
    {
        assert!(refused.error.contains(word), "{word} in {}", refused.error);
    }
    let status = thalweg(&["board", "get", "dig2://127.0.3.54", "/par/AcquisitionStatus"]).done();
    assert!(status.out.contains("= 8\n"), "not armed, its clock valid: {}", status.out);
    let then = recorded(&first.wait_for_state("a state", |_| true));
    first.wait_for_state("it goes on", |state| recorded(state) > then + 1000);
    first.signal("INT");
    let summary = first.wait().done().json();
    assert_ledger_balances(&summary);
    assert_eq!(summary["losses"], Value::Array(Vec::new()), "{summary:#}");
    assert_ledger_balances(&thalweg(&["run", &both, "--seconds", "100", "--json"]).done().json());
}

#[test]
fn a_board_that_somebody_stops_in_a_run_is_gone_at_once_and_started_again() {
    let folder = Folder::new();
    let settings = folder.file("board.toml", "channels = 8\nrate_hz = 1000.0\n");
    let _boards = boards_at("127.0.3.73", &settings);
    let file = configuration(&folder, 1_000_000_000, &[("left", "127.0.3.73", "")]);
    let running = Running::start(&["run", &file, "--json", "--states", "0.1"]);
    let recorded = |state: &Value| state["hits_recorded"].as_u64().unwrap_or(0);
    running.wait_for_state("it records", |state| recorded(state) > 1000);
    thalweg(&["board", "disarm", "dig2://127.0.3.73"]).done();
    running.wait_for_text("does not run any more");
    running.wait_for_text("the board is back");
    let then = recorded(&running.wait_for_state("a state", |_| true));
    running.wait_for_state("it goes on", |state| recorded(state) > then + 1000);
    running.signal("INT");
    let summary = running.wait().done().json();
    assert_ledger_balances(&summary);
    let losses = summary["losses"].as_array().expect("a list");
    assert!(losses.iter().any(|loss| loss["reason"] == "board_gone"), "{summary:#}");
}

#[test]
fn a_board_that_a_killed_run_has_left_running_is_disarmed_and_runs_again() {
    let folder = Folder::new();
    let settings = folder.file("board.toml", "transport = \"tcp\"\nchannels = 8\nrate_hz = 1000.0\n");
    let _boards = boards_at("127.0.3.74", &settings);
    let file = configuration(&folder, 1_000_000, &[("left", "127.0.3.74", "")]);
    let killed = Running::start(&["run", &file, "--json", "--states", "0.1"]);
    killed.wait_for_state("it records", |state| state["hits_recorded"].as_u64() > Some(100));
    drop(killed);
    let refused = thalweg(&["run", &file]);
    assert!(refused.code == Some(1) && refused.error.contains("thalweg board disarm"), "{refused:#?}");
    let disarmed = thalweg(&["board", "disarm", "dig2://127.0.3.74"]).done();
    assert!(disarmed.out.contains("not armed"), "{}", disarmed.out);
    assert_ledger_balances(&thalweg(&["run", &file, "--seconds", "1", "--json"]).done().json());
    let text = std::fs::read_to_string(&file).expect("written");
    let short = text.replace("hits = 1000000", "hits = 100");
    let unattended =
        folder.file("unattended.toml", &format!("{short}\n[unattended]\nrestart_after_s = 1.0\n"));
    let killed = Running::start(&["run", &file, "--json", "--states", "0.1"]);
    killed.wait_for_state("it records", |state| state["hits_recorded"].as_u64() > Some(100));
    drop(killed);
    let refused = thalweg(&["run", &unattended]);
    assert!(refused.code == Some(1) && refused.error.contains("thalweg board disarm"), "{refused:#?}");
    let service = Running::start(&["serve", &unattended, "--start", "--json", "--listen", "127.0.0.1:0"]);
    service.wait_for_text("it is made idle, since a service with [unattended]");
    let stopped = || {
        let runs = std::fs::read_dir(folder.path().join("runs")).expect("a directory of runs").flatten();
        let records = runs.filter_map(|run| std::fs::read_to_string(run.path().join("run.json")).ok());
        records.filter(|record| record.contains("\"state\": \"stopped\"")).count()
    };
    service.wait_until("the run has come to its end", || stopped() == 2);
    service.signal("INT");
    assert!(service.wait().done().json()["hits_recorded"].as_u64() > Some(0));
}

#[test]
fn a_board_that_arms_late_ends_the_start_unless_it_is_given_the_time() {
    let folder = Folder::new();
    let settings = folder.file("board.toml", "channels = 4\n[control_faults]\narm_ms = 1500\n");
    let _boards = boards_at("127.0.3.68", &settings);
    let run = |keys: &str| {
        let file = configuration(&folder, 200, &[("left", "127.0.3.68", keys)]);
        thalweg(&["run", &file, "--seconds", "100", "--json"])
    };
    let ended = run("arm_timeout_s = 0.3");
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    for word in ["the run was not started", "\"left\"", "not armed 0.3 s later", "`arm_timeout_s`"] {
        assert!(ended.error.contains(word), "{word} in {}", ended.error);
    }
    assert_ledger_balances(&run("arm_timeout_s = 30").done().json());
    let refused = run("arm_timeout_s = 0");
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(
        refused.error.contains("`arm_timeout_s` = 0; allowed are 0.1 to 3600 seconds"),
        "{}",
        refused.error
    );
}

#[test]
fn a_board_that_starts_by_a_signal_is_armed_and_started_by_the_first_of_the_chain() {
    let folder = Folder::new();
    let arguments =
        ["emulate", "--boards", "2", "--address", "127.0.3.56", "--rate", "1000", "--seconds", "100"];
    let _boards = Running::start(&arguments);
    ["127.0.3.56", "127.0.3.57"].into_iter().for_each(wait_for_control_port);
    let last = "parameters = [[\"/par/StartSource\", \"SINedge\"], [\"/par/RunDelay\", \"0\"]]";
    let first = "parameters = [[\"/par/StartSource\", \"SWcmd\"], [\"/par/RunDelay\", \"48\"]]";
    // The last board comes first: it is armed before the first one is started all the same.
    let sources = [("last", "127.0.3.56", last), ("first", "127.0.3.57", first)];
    let file = configuration(&folder, 5000, &sources);
    let summary = thalweg(&["run", &file, "--seconds", "100", "--json"]).done().json();
    assert_ledger_balances(&summary);
    for source in summary["sources"].as_array().expect("a list") {
        assert!(number(source, "hits") > 0, "{source:#}");
    }
    let controls = record(&run_directory(&summary))["details"]["controls"].clone();
    assert_eq!(controls["last"]["starts_by"], "SINedge", "{controls:#}");
    assert!(controls["first"].get("starts_by").is_none(), "{controls:#}");
    assert_eq!(controls["first"]["parameters"][1]["read"], "48", "{controls:#}");
}

#[test]
fn a_lost_lock_is_a_message_with_the_name_of_the_board_and_in_the_record() {
    let folder = Folder::new();
    let settings = folder.file("board.toml", "channels = 4\n[control_faults]\nunlock_ms = 500\n");
    let _boards = boards_at("127.0.3.58", &settings);
    let file = configuration(&folder, 1_000_000_000, &[("left", "127.0.3.58", "")]);
    let running = Running::start(&["run", &file, "--json"]);
    running.wait_for_text("has lost its lock");
    running.signal("INT");
    let ended = running.wait().done();
    assert!(ended.error.contains("\"left\", dig2://127.0.3.58"), "{}", ended.error);
    let board = record(&run_directory(&ended.json()))["details"]["controls"]["left"].clone();
    assert_eq!((&board["armed"]["is_locked"], &board["ended"]["is_locked"]), (&true.into(), &false.into()));
    assert!(board["news"][0].as_str().expect("a text").contains("LMK04832 unlocked"), "{board:#}");
}

#[test]
fn another_firmware_than_in_the_last_run_is_named() {
    let folder = Folder::new();
    let file = configuration(&folder, 200, &[("left", "127.0.3.59", "")]);
    let run = |firmware: &str| {
        let settings = folder.file("board.toml", &format!("channels = 4\nfirmware = \"{firmware}\"\n"));
        let boards = boards_at("127.0.3.59", &settings);
        let ended = thalweg(&["run", &file, "--seconds", "100", "--json"]).done();
        boards.signal("TERM");
        boards.wait().done();
        ended
    };
    let first = run("psd");
    let same = run("psd");
    for ended in [&first, &same] {
        let details = record(&run_directory(&ended.json()))["details"].clone();
        assert!(details.get("board_changes").is_none(), "{details:#}");
    }
    let changed = run("pha");
    let expected = "source \"left\", the VX2740 with serial number 10000, has firmware pha";
    assert!(changed.error.contains(expected), "{}", changed.error);
    let changes = record(&run_directory(&changed.json()))["details"]["board_changes"].clone();
    let change = changes[0].as_str().expect("one change");
    assert!(change.contains(expected) && change.contains("in run 2 it had psd"), "{change}");
}

#[test]
fn settings_of_compass_become_sources_and_what_has_no_public_meaning_is_listed() {
    let folder = Folder::new();
    let entry = |key: &str, value: &str| {
        format!("<entry><key>{key}</key><value><value>{value}</value></value></entry>")
    };
    let parameters = entry("SRV_PARAM_CH_THRESHOLD", "60.0") + &entry("SRV_PARAM_NOBODY_KNOWS", "7");
    let settings = folder.file(
        "settings.xml",
        &format!(
            "<configuration><board><modelName>VX2740</modelName><serialNumber>17</serialNumber><label>left</label>\
             <dppType>DPP_PSD</dppType><parameters>{parameters}</parameters></board></configuration>"
        ),
    );
    let imported = folder.at("imported.toml");
    let ended = thalweg(&["board", "import", &settings, "--output", &imported]).done();
    assert!(ended.out.contains("1 parameters") && ended.out.contains("1 settings"), "{}", ended.out);
    let written = text(Path::new(&imported));
    assert!(written.contains("#   SRV_PARAM_NOBODY_KNOWS = 7"), "{written}");
    let address = "127.0.3.60";
    let _boards = boards_at(address, &folder.file("board.toml", ""));
    let source = written.replace("dig2://ADDRESS", &format!("dig2://{address}"));
    let file = folder.file(
        "run.toml",
        &format!("[run]\n hits = 100\n{source}\n[record]\ndirectory = \"{}\"\n", folder.at("runs")),
    );
    let summary = thalweg(&["run", &file, "--seconds", "100", "--json"]).done().json();
    let board = record(&run_directory(&summary))["details"]["controls"]["board-0"].clone();
    assert_eq!(board["parameters"][0]["read"], "60", "{board:#}");
    let none = thalweg(&["board", "import", &file]);
    assert_eq!((none.code, none.error.contains("not XML")), (Some(2), true), "{none:#?}");
}

/// What `dump` writes, `load` and a run take, without a word that is edited in between.
fn dumped_and_loaded(board: &str, address: &str) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = Folder::new();
    let _boards = boards_at(address, &examples.join("boards").join(board).display().to_string());
    let (url, file) = (format!("dig2://{address}"), folder.at("left.toml"));
    thalweg(&["board", "dump", &url, "--output", &file]).done();
    let dumped = text(Path::new(&file));
    assert!(dumped.contains("# /par/registeruser"), "what is no state is a comment: {dumped}");
    thalweg(&["board", "load", &url, &file]).done();
    assert_eq!(thalweg(&["board", "dump", &url]).done().out.trim_end(), dumped.trim_end());
    let run = configuration(&folder, 10, &[("left", address, &dumped)]);
    assert_ledger_balances(&thalweg(&["run", &run, "--seconds", "100", "--json"]).done().json());
}

#[test]
fn a_dump_of_a_psd_board_is_loaded_as_it_is() {
    dumped_and_loaded("psd.toml", "127.0.3.70");
}

#[test]
fn a_dump_of_a_pha_board_is_loaded_as_it_is() {
    dumped_and_loaded("pha.toml", "127.0.3.71");
}

#[test]
fn a_dump_of_a_scope_board_is_loaded_as_it_is() {
    dumped_and_loaded("scope.toml", "127.0.3.72");
}
