//! Raw recordings that are replayed with other cuts, another calibration or another coincidence: the new run lies beside the old one and
//! says what it was made of.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::process::{Ended, Folder, Running, assert_ledger_balances, number, run_directory, thalweg};

const CHANNEL: &str = "[[channel]]\nnumber = 0\nname = \"LaBr3\"\ngroup = \"gamma\"\nenergy_kev = [0.0, 0.5]\n[[channel]]\nnumber = 4\ngroup = \"gamma\"\n";
const CUT: &str = "[[cut]]\nname = \"bright\"\nkeep = \"energy > 1000\"\n";
const COINCIDENCE: &str = "[coincidence]\nwindow_ps = 100_000\n";

/// A configuration of two boards that see the same decays, with everything that a replay can replace.
fn configuration(folder: &Folder) -> String {
    let source = |name: &str, board: u16| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 4\n\
             first_channel = {}\n[source.emulate]\nboard = {board}\nboards = 2\nchannels = 4\nrate_hz = 5e3\nseed = 3\nwaveform_samples = 0\n",
            4 * board
        )
    };
    let text = format!(
        "[run]\ntitle = \"decays\"\n hits = 20_000\n{}{}{CHANNEL}{CUT}{COINCIDENCE}[record]\ndirectory = \"{}\"\n\
         tables = [\"hits\", \"coincidences\", \"raw\"]\n",
        source("left", 0),
        source("right", 1),
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// A run of it; its directory.
fn recorded(folder: &Folder) -> String {
    let summary = thalweg(&["run", &configuration(folder), "--seconds", "100", "--json"]).done().json();
    assert_ledger_balances(&summary);
    run_directory(&summary)
}

/// A replay, whose ledger balances and whose recording verifies; its summary and its record.
#[track_caller]
fn replayed(run: &str, options: &[&str]) -> (Value, Value) {
    let summary = thalweg(&[&["replay", run, "--json"], options].concat()).done().json();
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    let new = run_directory(&summary);
    thalweg(&["verify", &new]).done();
    (summary, record(&new))
}

fn record(run: &str) -> Value {
    let text = std::fs::read_to_string(format!("{run}/run.json")).expect("recorded");
    serde_json::from_str(&text).expect("JSON")
}

/// Everything in the directory of a run.
fn files(run: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(run).expect("a directory").map(|entry| entry.expect("readable").path());
    entries.map(|path| (path.display().to_string(), std::fs::read(&path).expect("readable"))).collect()
}

/// The hits that a replay with this one cut keeps, and those that it was given.
#[track_caller]
fn cut_by(folder: &Folder, run: &str, keep: &str, options: &[&str]) -> (u64, u64) {
    let cuts = folder.file("cuts.toml", &format!("[[cut]]\nname = \"new\"\nkeep = \"{keep}\"\n"));
    let (_, record) = replayed(run, &[&["--cuts", &cuts], options].concat());
    let cut = &record["cuts"][0];
    assert_eq!(cut["name"], "new", "{cut}");
    (number(cut, "kept"), number(cut, "in"))
}

#[test]
fn a_replay_with_the_sections_of_its_run_is_bit_identical_lies_beside_it_and_says_its_origin() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let (before, file) = (files(&run), folder.at("run.toml"));
    let (summary, record) =
        replayed(&run, &["--cuts", &file, "--calibration", &file, "--coincidence", &file, "--speed", "40"]);
    let new = run_directory(&summary);
    for table in ["hits", "coincidences"] {
        let bytes = |run: &str| std::fs::read(format!("{run}/{table}.arrows")).expect("recorded");
        assert!(bytes(&run) == bytes(&new), "{table}");
    }
    assert!(files(&run) == before, "the recorded run stays as it was");
    assert!(new.ends_with("runs/000002-replay-of-decays"), "{new}");

    let (old, replay) = (self::record(&run), &record["replay"]);
    assert_eq!((&replay["number"], &replay["started"]), (&json!(1), &old["started"]), "{replay:#}");
    assert_eq!(replay["recorded_by"], old["versions"]["thalweg"], "{replay:#}");
    assert_eq!(replay["speed"], 40.0, "{replay:#}");
    let raw = old["tables"].as_array().expect("a list").iter().find(|table| table["table"] == "raw");
    assert_eq!(Some(&replay["raw"][0]), raw, "the raw data by their checksum");
    assert!(replay["raw"][0]["crc32c"][0].is_string(), "{replay:#}");
    let replaced: Vec<_> = replay["replaced"].as_array().expect("a list").iter().collect();
    let what: Vec<_> = replaced.iter().map(|by| (&by["what"], &by["sections"], &by["file"])).collect();
    let file = json!(file);
    let expected = [
        (json!("cuts"), json!(["cut"])),
        (json!("calibration"), json!(["channel"])),
        (json!("coincidence"), json!(["coincidence"])),
    ];
    assert_eq!(what, expected.iter().map(|(what, sections)| (what, sections, &file)).collect::<Vec<_>>());
    assert!(replaced.iter().all(|by| by["crc32c"] == replaced[0]["crc32c"] && by["crc32c"].is_string()));

    let runs = folder.at("runs");
    let listed = thalweg(&["runs", "list", "--runs", &runs]).done().out;
    assert!(listed.contains("replay of 1, other cuts, calibration, coincidence"), "{listed}");
    let shown = thalweg(&["runs", "show", "2", "--runs", &runs]).done().out;
    assert!(shown.contains("  replay of run 1 (") && shown.contains("with other cuts (cut of "), "{shown}");
    let listed = thalweg(&["runs", "list", "--runs", &runs, "--json"]).done().json();
    assert_eq!(
        (&listed["runs"][0]["replay"], &listed["runs"][1]["replay"]["number"]),
        (&Value::Null, &json!(1))
    );
}

#[test]
fn a_cut_on_a_channel_that_no_board_sends_is_a_warning_in_a_plan_and_in_a_replay() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let file = folder.file("cuts.toml", "[[cut]]\nname = \"far\"\nkeep = \"energy > 5 && channel == 99\"\n");
    let warning = "[[cut]] \"far\": `channel == 99` is true of no hit: in this run, `channel` is 0 to 7;";
    let replay = thalweg(&["replay", &run, "--cuts", &file]).done();
    assert!(replay.error.contains(warning), "{}", replay.error);
    let configured = std::fs::read_to_string(configuration(&folder)).expect("written");
    let cut = std::fs::read_to_string(&file).expect("written");
    let run = folder.file("far.toml", &format!("{configured}{cut}"));
    let plan = thalweg(&["run", &run, "--explain"]).done();
    assert!(plan.out.contains(&format!("warning: {warning}")), "{}", plan.out);
}

#[test]
fn cuts_of_a_file_decide_what_a_replay_keeps_and_calibrations_what_cuts_in_kev_keep() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let (above, all) = cut_by(&folder, &run, "energy > 1000", &[]);
    let (below, given) = cut_by(&folder, &run, "energy <= 1000", &[]);
    assert!(above > 0 && below > 0 && given == all, "{above} and {below} of {all}");
    let bright = record(&run)["cuts"][0].clone();
    assert_eq!((above, all), (number(&bright, "kept"), number(&bright, "in")), "as the cut of the run");

    let (of_run, _) = cut_by(&folder, &run, "keV > 500", &[]);
    let file = CHANNEL.replace("0.5]", "0.25]");
    let calibration = folder.file("calibration.toml", &file);
    let (of_file, _) = cut_by(&folder, &run, "keV > 250", &["--calibration", &calibration]);
    let (by_channel, _) = cut_by(&folder, &run, "channel == 0 && energy > 1000", &[]);
    assert!(of_run > 0 && of_file == of_run && by_channel == of_run, "{of_run}, {of_file}, {by_channel}");
}

#[test]
fn no_cut_at_all_is_a_replacement() {
    let folder = Folder::new();
    let (run, none) = (recorded(&folder), folder.file("none.toml", "cut = []\n"));
    let (_, record) = replayed(&run, &["--cuts", &none]);
    assert_eq!(
        (&record["cuts"], &record["replay"]["replaced"][0]["sections"]),
        (&json!([]), &json!(["cut"]))
    );
    assert!(record["configuration"].as_str().is_some_and(|text| text.contains("# keep = \"energy > 1000\"")));
}

#[test]
fn a_coincidence_of_a_file_makes_its_own_events_and_the_hits_stay() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let old = record(&run);
    let narrow = folder.file("narrow.toml", &format!("{COINCIDENCE}mode = \"majority\"\nat_least = 3\n"));
    let (summary, new) = replayed(&run, &["--coincidence", &narrow]);
    let made = |record: &Value| number(&record["coincidences"], "made");
    assert!(made(&old) > 100 && made(&new) < made(&old), "{} and {}", made(&old), made(&new));
    assert_eq!(number(&summary, "coincidences_recorded"), number(&new["coincidences"], "kept"));
    assert_eq!(new["coincidences"]["multiplicity"][2], 0, "three at least");
    let hits = |run: &str| std::fs::read(format!("{run}/hits.arrows")).expect("recorded");
    assert!(
        hits(&run) == hits(&run_directory(&summary)),
        "every hit is recorded, whatever it coincides with"
    );
}

#[test]
fn a_run_without_coincidence_is_given_one_and_the_replay_records_its_events() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(configuration(&folder)).expect("written");
    let file = folder.file("alone.toml", &text.replace(COINCIDENCE, "").replace("\"coincidences\", ", ""));
    let summary = thalweg(&["run", &file, "--seconds", "100", "--json"]).done().json();
    let given = folder.file("coincidence.toml", COINCIDENCE);
    let (summary, record) = replayed(&run_directory(&summary), &["--coincidence", &given]);
    let made = number(&record["coincidences"], "made");
    assert!(made > 100 && number(&summary, "coincidences_recorded") == made, "{summary:#}");
    let inspected = thalweg(&["inspect", &run_directory(&summary)]).done().out;
    assert!(inspected.contains(&format!("{made} coincidences of ")), "{inspected}");
}

#[track_caller]
fn refused(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:#?}");
    assert!(words.iter().all(|words| ended.error.contains(words)), "{words:?} in {}", ended.error);
}

#[test]
fn what_does_not_fit_is_refused_with_file_and_line_and_leaves_no_run() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let replay = |option: &str, text: &str, words: &[&str]| {
        let file = folder.file("other.toml", text);
        refused(&thalweg(&["replay", &run, option, &file]), 2, words);
    };
    replay("--cuts", "keep this\n", &["other.toml", "line 1"]);
    replay("--cuts", COINCIDENCE, &["other.toml: has no [[cut]], no [[polygon]]: --cuts takes these"]);
    replay("--cuts", "[[cut]]\nname = \"c\"\nkeep = \"enrgy > 3\"\n", &["other.toml: line 3", "\"enrgy\""]);
    replay("--cuts", "\n[[cut]]\nname = \"c\"\nkeep = \"inside(n)\"\n", &["other.toml: line 4", "\"n\""]);
    let point = "[[polygon]]\nname = \"n\"\nx = \"energy\"\ny = \"psd\"\npoints = [[0, 0]]\n";
    replay("--cuts", point, &["other.toml: line 1: [[polygon]] \"n\": 1 points"]);
    replay("--calibration", "[[channel]]\nnumber = 99\n", &["other.toml: line 1", "no source sends it"]);
    replay("--calibration", "[channels]\nfile = \"nowhere.csv\"\n", &["other.toml: line 2", "nowhere.csv"]);
    replay("--calibration", "[clocks]\nreference = \"middle\"\n", &["other.toml: line 2", "left, right"]);
    replay("--coincidence", "[coincidence]\ngroups = [\"labr\"]\n", &["other.toml: line 1", "\"labr\""]);
    refused(
        &thalweg(&["replay", &run, "--cuts", &folder.at("missing.toml")]),
        2,
        &["missing.toml: No such file"],
    );
    let listed = thalweg(&["runs", "list", "--runs", &folder.at("runs"), "--json"]).done().json();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed:#}");
}

#[test]
fn a_section_that_others_need_is_missed_where_they_stand() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let by_group = folder.file("group.toml", "[coincidence]\ngroups = [\"gamma\"]\n");
    let nameless = folder.file("nameless.toml", "[[channel]]\nnumber = 0\nenergy_kev = [0.0, 0.4]\n");
    replayed(&run, &["--coincidence", &by_group]);
    let ended = thalweg(&["replay", &run, "--coincidence", &by_group, "--calibration", &nameless]);
    refused(&ended, 2, &["group.toml: line 1", "there is no group \"gamma\""]);
}

#[test]
fn cuts_are_refused_of_a_run_without_hits() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"lab\"\nformat = \"fragment\"\nurl = \"emulate://\"\n[trigger]\nrate_hz = 500.0\ntriggers = 20\n\
         [record]\ndirectory = \"{}\"\ntables = [\"events\", \"raw\"]\n",
        folder.at("runs")
    );
    let summary =
        thalweg(&["run", &folder.file("run.toml", &text), "--seconds", "60", "--json"]).done().json();
    let ended = thalweg(&["replay", &run_directory(&summary), "--cuts", &folder.file("cuts.toml", CUT)]);
    refused(&ended, 2, &["cuts", "are of hits, and no source gives any"]);
}

#[test]
fn a_run_that_is_being_recorded_is_not_replayed_and_one_with_hits_alone_says_what_reads_them() {
    let folder = Folder::new();
    let file = configuration(&folder);
    let text = std::fs::read_to_string(&file).expect("written").replace(", \"raw\"]", "]");
    folder.file("run.toml", &text.replace(" hits = 20_000\n", ""));
    let running = Running::start(&["run", &file, "--json", "--states", "0.1"]);
    let state = running.wait_for_state("hits", |state| number(state, "hits_recorded") > 0);
    let run = state["run_directory"].as_str().expect("a run").to_owned();
    refused(&thalweg(&["replay", &run]), 1, &[&run, "is being recorded; replay it when it has ended"]);
    running.signal("INT");
    running.wait().done();
    let ended = thalweg(&["replay", &run, "--cuts", &folder.file("cuts.toml", CUT)]);
    refused(
        &ended,
        1,
        &["no raw bytes were recorded", "add \"raw\" to `[record] tables`", "`thalweg export`"],
    );
}
