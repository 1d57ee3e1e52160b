//! Readout units, builder units and an event manager, in one process and in three.
//!
//! ```text
//!  [[unit]] ─► thalweg run FILE            ─► files of both builder units = accepted triggers, each once
//!          └─► thalweg run FILE --node a|b|c ┘   also when a node is killed on the way
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use thalweg_data::Closing;
use thalweg_record::EventFiles;
use thalweg_record::read::{MergedEvents, RecordedEvent};

use crate::process::{
    Folder, Running, accepted_triggers, assert_ledger_balances, free_ports, number, run_directory, thalweg,
    wait_until,
};

const BOARDS: u64 = 4;

/// On a busy machine a unit may not be given a processor for longer than a unit is silent that is taken for dead: what it builds would be
/// built again, and what it waits for be left out.
pub const PATIENT: &str = "[build.units]\ndead_ms = 60000\nage_ms = 60000\n";

/// Two sources of emulated boards, and these units.
pub fn configuration(folder: &Folder, triggers: u64, units: &str) -> String {
    let source = |name: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = {BOARDS}\n\
             profile = \"recbe\"\nnamed_by = \"connection\"\n"
        )
    };
    let text = format!(
        "{}{}{units}[trigger]\nprogram = \"poisson\"\nrate_hz = 1500.0\ntriggers = {triggers}\n\
         [build]\nfull = \"hold\"\n{PATIENT}[record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
        source("left"),
        source("right"),
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// One `[[unit]]`; `more` are its other keys.
pub fn unit(name: &str, kind: &str, more: &str) -> String {
    format!("[[unit]]\nname = \"{name}\"\nkind = \"{kind}\"\n{more}\n")
}

/// Two readout units and two builder units, without a manager.
pub fn readouts_and_builders() -> String {
    unit("ru-left", "readout", "sources = [\"left\"]")
        + &unit("ru-right", "readout", "sources = [\"right\"]")
        + &unit("bu-0", "builder", "")
        + &unit("bu-1", "builder", "")
}

/// Events that a builder unit has recorded.
#[track_caller]
fn recorded_by(summary: &Value, builder: &str) -> u64 {
    let ledger = summary["ledger"].as_array().expect("a list");
    let of_it = ledger
        .iter()
        .find(|entry| entry["source"] == builder && entry["stage"] == "record" && entry["unit"] == "events");
    number(of_it.unwrap_or_else(|| panic!("a counter slot of {builder} in {summary:#}")), "out")
}

/// The run went well, and its files are what they say.
#[track_caller]
pub fn went_well(summary: &Value) {
    assert_ledger_balances(summary);
    assert_eq!(summary["failures"], Value::Array(Vec::new()), "{summary:#}");
    // A node without builder units has nothing to verify.
    if number(&summary["events"], "events_recorded") > 0 {
        thalweg(&["verify", &run_directory(summary)]).done();
    }
}

#[test]
fn two_readout_units_and_two_builder_units_of_one_process_lose_nothing() {
    let folder = Folder::new();
    let units = readouts_and_builders() + &unit("evm", "manager", "");
    let file = configuration(&folder, 3000, &units);
    let summary = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
    went_well(&summary);
    let (events, accepted) = (&summary["events"], accepted_triggers(&summary));
    assert_eq!(number(events, "triggers_offered"), 3000, "{events:#}");
    assert_eq!(number(events, "events_recorded"), accepted, "{events:#}");
    assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#}");
    assert_eq!(number(events, "fragments_recorded"), 2 * BOARDS * accepted, "{events:#}");
    let builders = ["bu-0", "bu-1"].map(|builder| recorded_by(&summary, builder));
    assert!(builders.iter().all(|count| *count > 0), "{builders:?}");
    assert_eq!(builders.iter().sum::<u64>(), accepted, "{builders:?}");
}

#[test]
fn readout_units_keep_the_order_of_triggers_whatever_the_recording_wants() {
    // The first triggers are answered while boards are still being connected to: some of their events are whole before earlier ones.
    for _ in 0..3 {
        let folder = Folder::new();
        let units = readouts_and_builders() + &unit("evm", "manager", "");
        let file = configuration(&folder, 300, &units);
        let text = std::fs::read_to_string(&file).expect("just written");
        let file = folder.file("run.toml", &text.replace("[build]\n", "[build]\nordered = false\n"));
        let summary = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
        went_well(&summary);
        let (events, accepted) = (&summary["events"], accepted_triggers(&summary));
        assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#}");
        assert_eq!(number(events, "fragments_recorded"), 2 * BOARDS * accepted, "{events:#}");
    }
}

/// Front-end builders of 21 boards each, and a back end of one builder unit or several that puts their events together.
#[test]
fn events_of_five_times_21_boards_are_built_in_two_levels() {
    const LEVELS: [&str; 5] = ["a", "b", "c", "d", "e"];
    let source = |name: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 21\n\
             profile = \"recbe\"\nnamed_by = \"connection\"\nmemory_bytes = 16777216\n"
        )
    };
    for builders in [1, 2] {
        let folder = Folder::new();
        let sources: String = LEVELS.map(source).concat();
        let front =
            LEVELS.map(|name| unit(&format!("ru-{name}"), "readout", &format!("sources = [\"{name}\"]")));
        let back: String = (0..builders).map(|number| unit(&format!("bu-{number}"), "builder", "")).collect();
        let file = folder.file(
            "run.toml",
            &format!(
                "{sources}{}{back}{}[trigger]\nprogram = \"poisson\"\nrate_hz = 400.0\ntriggers = 600\n\
                 [build]\nfull = \"hold\"\n{PATIENT}[record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
                front.concat(),
                unit("evm", "manager", ""),
                folder.at("runs")
            ),
        );
        let summary = thalweg(&["run", &file, "--seconds", "60", "--json"]).done().json();
        went_well(&summary);
        let (events, accepted) = (&summary["events"], accepted_triggers(&summary));
        assert_eq!(number(events, "triggers_offered"), 600, "{events:#}");
        assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#}");
        assert_eq!(number(events, "events_recorded"), accepted, "{events:#}");
        assert_eq!(number(events, "fragments_recorded"), 105 * accepted, "{events:#}");
    }
}

/// Addresses on loopback that are free at this moment.
pub fn free_urls<const N: usize>() -> [String; N] {
    free_ports::<N>().map(|port| format!("tcp://127.0.0.1:{port}"))
}

/// The same of memory that processes of this host share.
fn shared_urls<const N: usize>(folder: &Folder) -> [String; N] {
    let name = folder.at("").replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    std::array::from_fn(|number| format!("shm://{}-{number}", &name[name.len().saturating_sub(60)..]))
}

/// Two readout units on one node, a builder unit on each of two others, one of them with the event manager.
pub fn three_nodes(folder: &Folder, triggers: u64) -> String {
    three_nodes_at(folder, triggers, free_urls())
}

fn three_nodes_at(folder: &Folder, triggers: u64, [first, second, manager]: [String; 3]) -> String {
    let reached = |node: &str, url: &str| format!("node = \"{node}\"\nlisten = \"{url}\"");
    let units = unit("ru-left", "readout", "sources = [\"left\"]\nnode = \"boards\"")
        + &unit("ru-right", "readout", "sources = [\"right\"]\nnode = \"boards\"")
        + &unit("bu-0", "builder", &reached("first", &first))
        + &unit("bu-1", "builder", &reached("second", &second))
        + &unit("evm", "manager", &reached("first", &manager));
    configuration(folder, triggers, &units)
}

#[test]
fn three_processes_record_every_accepted_trigger_once() {
    let folder = Folder::new();
    record_every_accepted_trigger_once(&three_nodes(&folder, 3000));
}

#[test]
fn three_processes_that_share_memory_record_every_accepted_trigger_once() {
    let folder = Folder::new();
    record_every_accepted_trigger_once(&three_nodes_at(&folder, 3000, shared_urls(&folder)));
}

fn record_every_accepted_trigger_once(file: &str) {
    let node = |name| Running::start(&["run", file, "--node", name, "--seconds", "60", "--json"]);
    let (left, right) = (node("first"), node("second"));
    // It ends by itself once the last trigger's event is written at one of the builder units.
    let boards = node("boards").wait().done().json();
    left.signal("TERM");
    right.signal("TERM");
    let (left, right) = (left.wait().done().json(), right.wait().done().json());
    [&boards, &left, &right].into_iter().for_each(went_well);
    let builders = [recorded_by(&left, "bu-0"), recorded_by(&right, "bu-1")];
    assert_eq!(
        builders.iter().sum::<u64>(),
        accepted_triggers(&boards),
        "{builders:?} {:#}",
        boards["events"]
    );
    for summary in [&left, &right] {
        let events = &summary["events"];
        assert_eq!(number(events, "events_partial"), 0, "{events:#}");
        let fragments = 2 * BOARDS * number(events, "events_recorded");
        assert_eq!(number(events, "fragments_recorded"), fragments, "{events:#}");
    }
    nodes_agree(&[&boards, &left, &right].map(run_directory), accepted_triggers(&boards));
}

/// What `verify` says of several nodes of a run, as a list of problems between them, and the whole report.
fn verified_together(directories: &[String]) -> (Vec<String>, Value) {
    let words: Vec<&str> =
        ["verify", "--json"].into_iter().chain(directories.iter().map(String::as_str)).collect();
    let report = thalweg(&words).json();
    let problems = report["problems"].as_array().expect("a list").iter();
    (problems.map(|problem| problem.as_str().expect("words").to_owned()).collect(), report)
}

/// Asserts that all nodes of a folder balance with each other, those that were killed among them; gives what `verify` says.
fn balance(folder: &Folder) -> Value {
    let runs = std::fs::read_dir(folder.at("runs")).expect("there were runs").flatten();
    let runs = runs.map(|run| run.path()).filter(|run| run.join("run.json").exists());
    let runs: Vec<String> = runs.map(|run| run.to_string_lossy().into_owned()).collect();
    let (problems, report) = verified_together(&runs);
    assert!(problems.is_empty() && report["ok"] == true, "{report:#}");
    report
}

/// Whether three nodes balance with each other, and whether it is seen when they do not: a node is forgotten, files are gone, another
/// run's node is among them.
fn nodes_agree(directories: &[String; 3], events: u64) {
    let (problems, report) = verified_together(directories);
    assert!(problems.is_empty() && report["ok"] == true, "{report:#}");
    assert_eq!(number(&report, "events"), events);
    for unit in report["units"].as_array().expect("a list") {
        let amounts = ["given", "acknowledged", "on_file", "unknown"].map(|key| number(unit, key));
        assert_eq!(amounts, [BOARDS * events, BOARDS * events, BOARDS * events, 0], "{unit}");
        assert_eq!(unit["at_least"], false);
    }
    let (problems, _) = verified_together(&directories[..2]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("\"bu-1\" is in none of these directories"), "{problems:?}");
    let (problems, _) = verified_together(&[0, 1, 2, 1].map(|place: usize| directories[place].clone()));
    assert!(problems.iter().any(|words| words.contains("is named twice")), "{problems:?}");
    // One that has built something: on a busy machine the other one may have been asked for nothing.
    let edges = report["edges"].as_array().expect("a list");
    let (builder, place) =
        if edges.iter().any(|edge| edge["builder"] == "bu-1") { ("bu-1", 2) } else { ("bu-0", 1) };
    let remove = |table: &str| {
        std::fs::remove_file(format!("{}/{table}-{builder}.arrows", directories[place]))
            .expect("it was written");
    };
    // Its own node's word is for what is missing there; what is not counted is not said to be 0.
    remove("fragments");
    let (problems, report) = verified_together(directories);
    assert!(problems.is_empty() && report["ok"] == false, "{report:#}");
    assert_eq!((number(&report, "events"), &report["units"][0]["on_file"]), (events, &Value::Null));
    remove("events");
    let (problems, report) = verified_together(directories);
    assert_eq!((problems.len(), &report["ok"]), (2, &Value::Bool(false)), "{report:#}");
    assert!(problems[0].starts_with("ru-left: builder units have acknowledged"), "{problems:?}");
}

/// Two readout units on one node, two builder units and the manager on one each. A builder unit writes only when it has to: what it holds
/// when it is killed must be elsewhere.
pub fn four_nodes(folder: &Folder, triggers: u64, [first, second, manager]: [String; 3]) -> String {
    let reached = |node: &str, url: &str| format!("node = \"{node}\"\nlisten = \"{url}\"");
    let units = unit("ru-left", "readout", "sources = [\"left\"]\nnode = \"boards\"")
        + &unit("ru-right", "readout", "sources = [\"right\"]\nnode = \"boards\"")
        + &unit("bu-0", "builder", &reached("first", &first))
        + &unit("bu-1", "builder", &reached("second", &second))
        + &unit("evm", "manager", &reached("manager", &manager));
    let file = configuration(folder, triggers, &units);
    let text = std::fs::read_to_string(file).expect("just written");
    // Who is killed is missed soon.
    let text = text.replace(PATIENT, "").replace("[record]\n", "[record]\nbatch_age_s = 30.0\n");
    folder.file("run.toml", &text)
}

/// Every table of events below the runs of a folder.
fn event_files(folder: &Folder) -> Vec<PathBuf> {
    let runs = std::fs::read_dir(folder.at("runs")).into_iter().flatten().flatten();
    let inside = runs.filter_map(|run| std::fs::read_dir(run.path()).ok()).flatten().flatten();
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("events"));
    inside.map(|entry| entry.path()).filter(named).collect()
}

/// Waits until a unit has written something.
pub fn wait_for_rows_of(folder: &Folder, unit: &str) {
    let written = |path: &PathBuf| {
        path.to_string_lossy().contains(unit) && path.metadata().is_ok_and(|file| file.len() > 20_000)
    };
    wait_until(&format!("{unit} writes"), || event_files(folder).iter().any(written));
}

/// Distinct triggers of all files together, and rows of one trigger and attempt that are more than one.
fn merged(folder: &Folder) -> (u64, u64) {
    for run in std::fs::read_dir(folder.at("runs")).expect("there were runs").flatten() {
        thalweg(&["recover", &run.path().to_string_lossy()]);
    }
    let files: Vec<EventFiles> = event_files(folder).iter().filter_map(|path| EventFiles::of(path)).collect();
    let merged = MergedEvents::open(&files).expect("whole files");
    (merged.count(), merged.doubled())
}

/// Kills the node of this name in full swing, starts it again, and lets the run end: every accepted trigger is on file once.
fn survives_the_death_of(killed: &str) {
    let folder = Folder::new();
    let file = four_nodes(&folder, 4000, free_urls());
    costs_no_event(&folder, &file, killed);
}

fn costs_no_event(folder: &Folder, file: &str, killed: &str) {
    let node = |name: &str| {
        let talkative = ["env", "THALWEG_LOG=thalweg_run=info"];
        Running::start_as(&talkative, &["run", file, "--node", name, "--seconds", "60", "--json"])
    };
    let mut others: Vec<(&str, Running)> =
        ["first", "second", "manager"].into_iter().map(|name| (name, node(name))).collect();
    // Of units that are there when the first trigger is, each has its part in the run.
    for (builder, (_, unit)) in ["bu-0", "bu-1"].into_iter().zip(&others) {
        unit.wait_for_text(&format!("{builder}: connected with event manager"));
    }
    let boards = node("boards");
    wait_for_rows_of(folder, "bu-1");
    let place = others.iter().position(|(name, _)| *name == killed).expect("one of them");
    let (_, dying) = others.swap_remove(place);
    dying.signal("KILL");
    dying.wait();
    others.push((killed, node(killed)));
    let boards = boards.wait().done().json();
    went_well(&boards);
    // The manager last: builder units report to it what is written.
    others.sort_by_key(|(name, _)| *name == "manager");
    for (_, other) in others {
        other.signal("TERM");
        went_well(&other.wait().done().json());
    }
    assert_eq!(merged(folder), (accepted_triggers(&boards), 0), "{:#}", boards["events"]);
    balance(folder);
}

/// Why the events of all files together were closed, by their triggers.
fn closings(folder: &Folder) -> BTreeMap<u64, &'static str> {
    let files: Vec<EventFiles> = event_files(folder).iter().filter_map(|path| EventFiles::of(path)).collect();
    let mut merged = MergedEvents::open(&files).expect("whole files");
    let (mut closings, mut event) = (BTreeMap::new(), RecordedEvent::default());
    while merged.next_event(&mut event).expect("whole files") {
        closings.insert(event.trigger, event.closing.word());
    }
    closings
}

/// Two sources of boards in a process of their own, a readout node each, and a node for builder unit and manager.
fn boards_elsewhere(folder: &Folder) -> (String, Vec<u16>) {
    boards_of_units_at(folder, None)
}

/// The same with units that are reached there; else at addresses that are free. Fragments have 2 kB.
fn boards_of_units_at(folder: &Folder, units: Option<[String; 2]>) -> (String, Vec<u16>) {
    let urls = free_urls::<6>();
    let [builder, manager] = units.unwrap_or_else(|| [urls[4].clone(), urls[5].clone()]);
    let ports: Vec<&str> = urls.iter().filter_map(|url| url.rsplit_once(':')).map(|(_, port)| port).collect();
    let source = |name: &str, ports: &[&str]| {
        let ports = ports.join(",");
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"fragment\"\nurl = \"tcp://127.0.0.1:{{{ports}}}\"\n[source.emulate]\n\
             payload_bytes = 2000\n"
        )
    };
    let reached = |url: &str| format!("node = \"events\"\nlisten = \"{url}\"");
    let text = source("left", &ports[..2])
        + &source("right", &ports[2..4])
        + &unit("ru-left", "readout", "sources = [\"left\"]\nnode = \"left\"")
        + &unit("ru-right", "readout", "sources = [\"right\"]\nnode = \"right\"")
        + &unit("bu-0", "builder", &reached(&builder))
        + &unit("evm", "manager", &reached(&manager))
        + "[trigger]\nrate_hz = 1000.0\n[build]\nage_ms = 200\n[record]\nbatch_age_s = 0.05\n"
        + &format!("directory = \"{}\"\ntables = [\"events\", \"fragments\"]\n", folder.at("runs"));
    let ports = ports[..4].iter().map(|port| port.parse().expect("a port")).collect();
    (folder.file("run.toml", &text), ports)
}

/// The boards of that file, once they listen; triggered until they are ended.
fn listening_boards(file: &str, ports: &[u16]) -> Running {
    let boards = Running::start(&["emulate", file, "--seconds", "100", "--json"]);
    boards.wait_for_ports(ports, &[]);
    boards
}

/// Waits until a node has passed on so many more events that were closed for this reason.
#[track_caller]
fn wait_for_closed(node: &Running, closing: Closing, more: u64) {
    let count = |state: &Value| state["events"]["closed"][closing as usize].as_u64().expect("a count");
    let before = count(&node.wait_for_state("a state", |_| true));
    node.wait_for_state(closing.word(), |state| count(state) >= before + more);
}

#[test]
fn a_readout_unit_that_is_killed_costs_its_own_fragments_and_comes_back() {
    let folder = Folder::new();
    let (file, ports) = boards_elsewhere(&folder);
    costs_its_own_fragments(&folder, &file, &ports);
}

#[test]
fn a_readout_unit_that_is_killed_while_its_memory_is_read_costs_its_own_fragments() {
    let folder = Folder::new();
    let (file, ports) = boards_of_units_at(&folder, Some(shared_urls(&folder)));
    costs_its_own_fragments(&folder, &file, &ports);
}

/// Kills a readout unit, whose board goes on, and starts it again.
fn costs_its_own_fragments(folder: &Folder, file: &str, ports: &[u16]) {
    let boards = listening_boards(file, ports);
    let node = |name: &str| {
        Running::start(&["run", file, "--node", name, "--seconds", "100", "--json", "--states", "0.1"])
    };
    let (events, left, dying) = (node("events"), node("left"), node("right"));
    wait_for_closed(&events, Closing::Complete, 100);
    wait_for_rows_of(folder, "bu-0");
    dying.signal("KILL");
    dying.wait();
    // It is taken for dead, and events are built without it.
    wait_for_closed(&events, Closing::UnitLost, 600);
    let right = node("right");
    wait_for_closed(&events, Closing::Complete, 600);
    boards.signal("TERM");
    let sent = boards.wait().done().json();
    for readout in [left, right] {
        readout.signal("TERM");
        went_well(&readout.wait().done().json());
    }
    events.signal("TERM");
    went_well(&events.wait().done().json());
    let closings = closings(folder);
    assert_eq!(merged(folder), (closings.len() as u64, 0));
    assert_eq!(number(&balance(folder), "events"), closings.len() as u64);
    let count = |word: &str| closings.values().filter(|closing| **closing == word).count() as u64;
    let (complete, lost) = (count("complete"), count("unit_lost"));
    assert_eq!(
        closings.len() as u64,
        number(&sent, "triggers_accepted"),
        "complete {complete}, lost {lost}: {sent:#}"
    );
    assert!(lost > 500 && complete > 500, "complete {complete}, lost {lost}, of {}", closings.len());
    assert_eq!(closings.values().next_back(), Some(&"complete"), "it is back at the end");
}

#[test]
fn all_nodes_that_are_killed_go_on_where_their_files_end() {
    let folder = Folder::new();
    let (file, ports) = boards_elsewhere(&folder);
    let boards = listening_boards(&file, &ports);
    let talkative = ["env", "THALWEG_LOG=thalweg_run=info"];
    let node = |name: &str| {
        let arguments = ["run", &file, "--node", name, "--seconds", "100", "--json", "--states", "0.1"];
        Running::start_as(&talkative, &arguments)
    };
    let first = ["events", "left", "right"].map(node);
    wait_for_rows_of(&folder, "bu-0");
    first.iter().for_each(|node| node.signal("KILL"));
    first.into_iter().for_each(|node| drop(node.wait()));
    let [events, left, right] = ["events", "left", "right"].map(node);
    wait_for_closed(&events, Closing::Complete, 1000);
    boards.signal("TERM");
    let sent = boards.wait().done().json();
    for readout in [left, right] {
        readout.signal("TERM");
        went_well(&readout.wait().done().json());
    }
    events.signal("TERM");
    let events = events.wait().done();
    assert!(events.error.contains("bu-0: ") && events.error.contains("has triggers below"), "{events:?}");
    went_well(&events.json());
    let (count, doubled) = merged(&folder);
    let closings = closings(&folder);
    assert_eq!((count, doubled), (closings.len() as u64, 0));
    assert_eq!(number(&balance(&folder), "events"), count);
    // Two stretches, the first from the beginning and the second to the end: what is between them the boards threw away, or the dead had.
    let numbers: Vec<u64> = closings.keys().copied().collect();
    let holes = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let accepted = number(&sent, "triggers_accepted");
    let ends = (numbers.first().copied(), numbers.last().copied());
    assert_eq!((holes, ends), (1, (Some(0), Some(accepted - 1))), "{count} of {accepted} on file");
    assert!(number(&sent, "fragments_discarded") > 0 && count > 1000, "{count} of {accepted}: {sent:#}");
}

#[test]
fn a_builder_unit_that_is_killed_costs_no_event_and_doubles_none() {
    survives_the_death_of("second");
}

#[test]
fn a_builder_unit_that_is_killed_while_it_reads_memory_of_another_process_costs_no_event() {
    let folder = Folder::new();
    let file = four_nodes(&folder, 4000, shared_urls(&folder));
    costs_no_event(&folder, &file, "second");
}

#[test]
fn an_event_manager_that_is_killed_costs_no_event_and_doubles_none() {
    survives_the_death_of("manager");
}

/// What a run said went wrong, as one text.
pub fn failures(summary: &Value) -> String {
    summary["failures"].to_string()
}

/// Starts the boards of a run with one file and everything else with another, and lets both say what they think of each other: the words
/// that the one that connects must have in its failures. The one that listens may get it from anybody, and is none the worse for it.
fn refuse_each_other(change: impl Fn(&str) -> String, words: &str) {
    let folder = Folder::new();
    let [builder, manager] = free_urls();
    let reached = |url: &str| format!("node = \"events\"\nlisten = \"{url}\"");
    let units = unit("ru-both", "readout", "sources = [\"left\", \"right\"]\nnode = \"boards\"")
        + &unit("bu-0", "builder", &reached(&builder))
        + &unit("evm", "manager", &reached(&manager));
    let file = configuration(&folder, 50, &units);
    let text = std::fs::read_to_string(&file).expect("just written");
    let other = folder.file("other.toml", &change(&text));
    assert_ne!(text, change(&text));
    let node =
        |file: &str, name| Running::start(&["run", file, "--node", name, "--seconds", "100", "--json"]);
    let nodes = [node(&other, "boards"), node(&file, "events")];
    nodes.iter().for_each(|node| node.wait_for_text(words));
    nodes.iter().for_each(|node| node.signal("TERM"));
    let [boards, events] = nodes.map(Running::wait);
    assert!(failures(&boards.json()).contains(words), "`{words}` in {boards:#?}");
    assert!(events.error.contains(words), "`{words}` in {events:#?}");
    assert_eq!(events.json()["failures"], Value::Array(Vec::new()), "{events:#?}");
    for summary in [boards.json(), events.json()] {
        assert_eq!(number(&summary["events"], "events_recorded"), 0, "{summary:#}");
        assert_ledger_balances(&summary);
    }
}

#[test]
fn nodes_of_different_configurations_refuse_each_other() {
    let change = |text: &str| text.replace("[build]\n", "[build]\ndepth = 4096\n");
    refuse_each_other(change, "was started with another configuration");
}

#[test]
fn nodes_of_different_runs_refuse_each_other() {
    refuse_each_other(|text| format!("{text}[run]\nidentity = \"42\"\n"), "belongs to the run");
}

/// Asserts that a run of these units does not begin, and that the message has these words.
#[track_caller]
fn refused(units: &str, words: &[&str]) {
    refused_with(&[], units, words);
}

/// The same, hosting one node.
#[track_caller]
fn refused_at(node: &str, units: &str, words: &[&str]) {
    refused_with(&["--node", node], units, words);
}

#[track_caller]
fn refused_with(flags: &[&str], units: &str, words: &[&str]) {
    let folder = Folder::new();
    let file = configuration(&folder, 10, units);
    let ended = thalweg(&[&["run", &file, "--seconds", "1"], flags].concat());
    assert!(matches!(ended.code, Some(1 | 2)), "{ended:#?}");
    for word in words {
        assert!(ended.error.contains(word), "`{word}` in:\n{}", ended.error);
    }
}

#[test]
fn there_is_one_manager() {
    let manager = unit("evm", "manager", "");
    refused(&readouts_and_builders(), &["exactly one", "manager"]);
    let two = readouts_and_builders() + &manager + &unit("another", "manager", "");
    refused(&two, &["exactly one", "manager"]);
}

#[test]
fn a_source_belongs_to_one_readout_unit() {
    let others = unit("bu-0", "builder", "") + &unit("evm", "manager", "");
    let left = unit("ru-left", "readout", "sources = [\"left\"]");
    refused(&(left.clone() + &others), &["right", "no readout unit"]);
    let both = unit("ru-both", "readout", "sources = [\"left\", \"right\"]");
    refused(&(left.clone() + &both + &others), &["left", "two readout units"]);
    let unknown = unit("ru-right", "readout", "sources = [\"rihgt\"]");
    refused(&(left + &unknown + &others), &["ru-right", "rihgt"]);
}

#[test]
fn names_of_units_are_unique() {
    let units = readouts_and_builders() + &unit("bu-0", "manager", "");
    refused(&units, &["bu-0", "unique"]);
}

/// All units on the nodes "boards" and "events"; `builder` and `right` are more keys of one builder and one readout unit.
fn on_two_nodes(builder: &str, right: &str) -> String {
    unit("ru-left", "readout", "sources = [\"left\"]\nnode = \"boards\"")
        + &unit("ru-right", "readout", &format!("sources = [\"right\"]\n{right}"))
        + &unit("bu-0", "builder", builder)
        + &unit("evm", "manager", "node = \"events\"\nlisten = \"tcp://127.0.0.1:7099\"")
}

#[test]
fn a_node_is_one_that_a_unit_names() {
    let units = on_two_nodes("node = \"events\"\nlisten = \"tcp://127.0.0.1:7098\"", "node = \"boards\"");
    refused_at("bords", &units, &["bords", "nodes of this file: boards, events"]);
    refused_at("boards", &(readouts_and_builders() + &unit("evm", "manager", "")), &["boards", "none"]);
}

#[test]
fn every_unit_is_hosted_by_a_node() {
    let units = on_two_nodes("node = \"events\"\nlisten = \"tcp://127.0.0.1:7098\"", "");
    refused_at("events", &units, &["ru-right", "has no `node`"]);
}

#[test]
fn a_builder_unit_of_another_node_says_where_it_is_reached() {
    refused_at("events", &on_two_nodes("node = \"events\"", "node = \"boards\""), &["bu-0", "`listen ="]);
}

#[test]
fn units_that_other_hosts_reach_have_a_key() {
    let right = "node = \"boards\"";
    let open = on_two_nodes("node = \"events\"\nlisten = \"tcp://0.0.0.0:7098\"", right);
    refused_at("events", &open, &["bu-0", "other hosts reach", "key_file"]);
    let with_key = |key: &str| format!("{open}[run]\n{key}\n");
    refused_at("events", &with_key("key_file = \"units.key\""), &["units.key", "cannot be read"]);
    refused_at("events", &with_key("key_env = \"THALWEG_NO_SUCH_KEY\""), &["THALWEG_NO_SUCH_KEY", "not set"]);
}

#[test]
fn what_becomes_of_incomplete_events_is_decided_where_all_boards_are_seen() {
    let others = unit("bu-0", "builder", "") + &unit("evm", "manager", "");
    let apart = unit("ru-left", "readout", "sources = [\"left\"]")
        + &unit("ru-right", "readout", "sources = [\"right\"]");
    let together = unit("ru", "readout", "sources = [\"left\", \"right\"]");
    let folder = Folder::new();
    let run = |readouts: String, word: &str| {
        let file = configuration(&folder, 10, &(readouts + &others));
        let text = std::fs::read_to_string(&file).expect("the file");
        let text = text.replace("full = \"hold\"", &format!("full = \"hold\"\nincomplete = \"{word}\""));
        thalweg(&["run", &folder.file("run.toml", &text), "--seconds", "60", "--json"])
    };
    for word in ["drop", "wait", "stop"] {
        let ended = run(apart.clone(), word);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        for said in [&format!("incomplete = \"{word}\"")[..], "2 readout units", "keep = \"complete\""] {
            assert!(ended.error.contains(said), "`{said}` in:\n{}", ended.error);
        }
    }
    went_well(&run(together, "drop").done().json());
}

#[test]
fn emulated_boards_are_on_one_node() {
    let builder = "node = \"events\"\nlisten = \"tcp://127.0.0.1:7098\"";
    let units = on_two_nodes(builder, "node = \"elsewhere\"");
    refused_at("boards", &units, &["ru-left", "ru-right", "emulated boards on two nodes"]);
}
