//! Nodes of one run that are verified together: range by range, and only nodes of that run.
//!
//! ```text
//!  one configuration ─► run A: boards, first, second ┐
//!                   └─► run B: boards, first, second ┴─► verify A A A: balanced   verify A B A, A A A-again: refused in words
//! ```

use std::path::Path;

use serde_json::Value;

use crate::process::{Folder, Running, accepted_triggers, number, run_directory, thalweg};
use crate::units::{three_nodes, went_well};

const TRIGGERS: u64 = 600;

/// Takes data on all nodes; gives their directories, that of the boards first, and how many events there were.
fn take_data(file: &str) -> ([String; 3], u64) {
    let talkative = ["env", "THALWEG_LOG=thalweg_run=info"];
    let node =
        |name| Running::start_as(&talkative, &["run", file, "--node", name, "--seconds", "60", "--json"]);
    let builders = ["first", "second"].map(node);
    // A builder unit that comes later finds the work done by the other.
    for (builder, unit) in builders.iter().zip(["bu-0", "bu-1"]) {
        builder.wait_for_text(&format!("{unit}: connected with event manager"));
    }
    let boards = node("boards").wait().done().json();
    builders.iter().for_each(|builder| builder.signal("TERM"));
    let [first, second] = builders.map(|builder| builder.wait().done().json());
    [&boards, &first, &second].into_iter().for_each(went_well);
    ([&boards, &first, &second].map(run_directory), accepted_triggers(&boards))
}

fn verified(directories: &[&str]) -> Value {
    thalweg(&[&["verify", "--json"], directories].concat()).json()
}

fn problems(report: &Value) -> Vec<String> {
    let problems = report["problems"].as_array().expect("a list").iter();
    problems.map(|problem| problem.as_str().expect("words").to_owned()).collect()
}

fn copy(from: &str, to: &str) {
    std::fs::create_dir_all(to).expect("space");
    for entry in std::fs::read_dir(from).expect("it is there").flatten() {
        std::fs::copy(entry.path(), Path::new(to).join(entry.file_name())).expect("space");
    }
}

#[test]
fn nodes_of_one_run_balance_range_by_range_and_those_of_another_run_are_refused() {
    let folder = Folder::new();
    let file = three_nodes(&folder, TRIGGERS);
    let ([boards, first, second], events) = take_data(&file);
    let report = verified(&[&boards, &first, &second]);
    assert!(problems(&report).is_empty() && report["ok"] == true, "{report:#}");
    assert_eq!(report["remarks"], Value::Array(Vec::new()), "{report:#}");
    let edges = report["edges"].as_array().expect("a list");
    assert_eq!(edges.len(), 4, "{edges:#?}");
    // What the ranges of a readout unit add up to is what its counters have.
    for unit in report["units"].as_array().expect("a list") {
        let own = edges.iter().filter(|edge| edge["readout"] == unit["unit"]);
        let sum = |key: &str| own.clone().map(|edge| number(edge, key)).sum::<u64>();
        assert_eq!(sum("acknowledged"), number(unit, "acknowledged"), "{report:#}");
        assert_eq!((sum("on_file"), sum("unacknowledged")), (number(unit, "on_file"), 0), "{report:#}");
        assert_eq!(number(unit, "acknowledged"), 4 * events, "{report:#}");
    }
    // A node that only reads has no hits to say anything of; one with a builder unit lists its ranges.
    let words = thalweg(&["verify", &boards]).done().out;
    assert!(!words.contains("time order") && words.contains("ranges-ru-left.arrows"), "{words}");
    let words = thalweg(&["verify", &boards, &first, &second]).done().out;
    assert!(words.contains("ru-left to bu-0: ") && words.contains("ru-right to bu-1: "), "{words}");
    older_ones_are_verified(&folder, [&boards, &first, &second], events);
    refused_together(&folder, &file, [&boards, &first, &second]);
    lists_are_missed([&boards, &first, &second]);
}

/// Recordings of a time before there were lists of ranges and an identity are verified as they were then, and what is not known is said.
fn older_ones_are_verified(folder: &Folder, directories: [&str; 3], events: u64) {
    let older = [0, 1, 2].map(|number| folder.at(&format!("older-{number}")));
    for (from, to) in directories.iter().zip(&older) {
        copy(from, to);
        for entry in std::fs::read_dir(to).expect("it is there").flatten() {
            if entry.file_name().to_string_lossy().starts_with("ranges") {
                std::fs::remove_file(entry.path()).expect("it is there");
            }
        }
        let path = format!("{to}/run.json");
        let text = std::fs::read(&path).expect("it is there");
        let mut record: Value = serde_json::from_slice(&text).expect("JSON");
        assert!(number(&record["identity"], "started_ns") > 0, "{record:#}");
        record.as_object_mut().expect("an object").remove("identity");
        record["tables"].as_array_mut().expect("a list").retain(|table| table["table"] != "ranges");
        std::fs::write(&path, record.to_string()).expect("space");
    }
    let report = verified(&older.each_ref().map(String::as_str));
    assert!(problems(&report).is_empty() && report["ok"] == true, "{report:#}");
    assert_eq!((number(&report, "events"), &report["edges"]), (events, &Value::Array(Vec::new())));
    let remark = report["remarks"][0].as_str().expect("a remark");
    assert!(remark.starts_with("not known of which run these are") && remark.contains(&older[2]), "{remark}");
}

/// A node of another run of the same configuration, or a copy of one, is not taken for a node of this run.
fn refused_together(folder: &Folder, file: &str, [boards, first, second]: [&str; 3]) {
    let ([_, other, _], _) = take_data(file);
    let found = problems(&verified(&[boards, &other, second]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("name the nodes of one run"), "{found:?}");
    assert!(found[0].contains(boards) && found[0].contains(&other), "{found:?}");
    let again = folder.at("elsewhere");
    copy(first, &again);
    let found = problems(&verified(&[boards, first, second, &again]));
    assert_eq!(found, [format!("{again} is a copy of {first}; name one of them")]);
}

/// Without the list of a readout unit, or the tables of a builder unit, what is missing is said, and nothing is called balanced that is not.
fn lists_are_missed([boards, first, second]: [&str; 3]) {
    std::fs::remove_file(format!("{second}/fragments-bu-1.arrows")).expect("it was written");
    let report = verified(&[boards, first, second]);
    assert!(problems(&report).is_empty() && report["ok"] == false, "{report:#}");
    let edge = &report["edges"][1];
    assert_eq!((&edge["builder"], number(edge, "unbalanced")), (&"bu-1".into(), 0), "{report:#}");
    assert_eq!(number(edge, "on_file"), number(edge, "acknowledged"), "by what bu-1 has noted: {report:#}");
    std::fs::remove_file(format!("{boards}/ranges-ru-left.arrows")).expect("it was written");
    let report = verified(&[boards, first, second]);
    let missing = &report["nodes"][0]["problems"];
    assert!(missing.to_string().contains("ranges-ru-left.arrows: run.json names it"), "{report:#}");
}
