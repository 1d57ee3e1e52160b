//! `thalweg demo`: the whole path without a configuration.

use std::net::TcpStream;

use serde_json::Value;

use crate::process::{
    Folder, Running, assert_ledger_balances, free_port, number, run_directory, thalweg, wait_until,
};
use crate::retention::get;

/// A demo whose runs are in `runs`, and its page, which answers.
#[track_caller]
fn with_page(folder: &Folder, arguments: &[&str]) -> (Running, String) {
    let page = format!("127.0.0.1:{}", free_port());
    let (ends, runs) = (["demo", "--seconds", "600", "--json", "--listen", &page], folder.at("runs"));
    let running = Running::start(&[&ends[..], arguments, &["--directory", &runs]].concat());
    wait_until("the page answers", || TcpStream::connect(&page).is_ok());
    (running, page)
}

/// The summary of a demo that is stopped at the first live state of its page of which `wanted` holds; its runs are in `runs`.
#[track_caller]
pub fn demo_until(folder: &Folder, arguments: &[&str], what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let (running, page) = with_page(folder, arguments);
    wait_until(what, || wanted(&get(&page, "/api/state")));
    running.signal("INT");
    running.wait().done().json()
}

#[test]
fn the_demo_records_what_it_sends_and_its_recording_verifies() {
    let folder = Folder::new();
    let summary =
        demo_until(&folder, &[], "snapshot are taken", |state| state["snapshots"].as_u64() > Some(0));
    assert_ledger_balances(&summary);
    assert!(number(&summary, "hits_sent") > 1000, "{summary:#}");
    assert!(
        number(&summary, "snapshots") >= 1,
        "snapshots of the ledger was taken while it ran: {summary:#}"
    );
    let run = run_directory(&summary);
    let verified = thalweg(&["verify", &run, "--json"]).done().json();
    assert_eq!(verified["ok"], true, "{verified:#}");
    let plotted = thalweg(&["plot", &run, "--output", &folder.at("plot.svg")]).done();
    assert!(plotted.out.contains("plot.svg"));
    let plot = std::fs::read_to_string(folder.path().join("plot.svg")).expect("the plot was written");
    assert!(plot.starts_with("<svg ") && plot.contains("Rate, all channels"));
}

#[test]
fn the_demo_for_people_says_where_the_run_and_the_plot_are() {
    let folder = Folder::new();
    let ended = thalweg(&["demo", "--seconds", "1", "--directory", &folder.at("runs")]).done();
    for word in ["recorded in", "spectra: ", "the ledger balances"] {
        assert!(ended.out.contains(word), "{word} in {}", ended.out);
    }
}

#[test]
fn a_demo_says_when_its_first_hit_came() {
    let folder = Folder::new();
    let arguments = ["demo", "--seconds", "0.5", "--json", "--directory", &folder.at("runs")];
    let first_hit_ms = thalweg(&arguments).done().json()["first_hit_ms"].as_f64().expect("hits came");
    assert!(first_hit_ms > 0.0, "{first_hit_ms} ms after the start");
}

#[test]
fn the_loss_of_a_demo_is_in_its_summary_and_its_last_words() {
    let folder = Folder::new();
    let arguments = ["demo", "--seconds", "1.5", "--loss", "0.05", "--no-page", "--directory"];
    let ended = thalweg(&[&arguments[..], &[&folder.at("runs")]].concat()).done();
    for word in ["--loss 0.05: ", "datagram_gap", "frame_gap"] {
        assert!(ended.out.contains(word), "{word} in {}", ended.out);
    }
    assert!(!ended.out.contains("--loss 0.05: 0 of"), "{}", ended.out);
}

#[test]
fn the_page_of_a_demo_has_pulses_and_its_clocks_are_locked() {
    let folder = Folder::new();
    let (running, page) = with_page(&folder, &[]);
    let locked = |state: &Value| {
        let clocks = state["clocks"].as_array();
        clocks.is_some_and(|clocks| !clocks.is_empty() && clocks.iter().all(|clock| clock["locked"] == true))
    };
    let has_pulses = || get(&page, "/api/pulses/0").to_string().contains("\"analog\"");
    wait_until("the clocks are locked", || locked(&get(&page, "/api/state")));
    wait_until("there are pulses", has_pulses);
    running.signal("INT");
    running.wait().done();
}

#[test]
fn options_of_a_demo_that_cannot_be_are_refused_before_anything_is_announced() {
    let folder = Folder::new();
    for (option, value, words) in [
        ("--loss", "2", "must be a fraction from 0 to 1"),
        ("--loss", "nan", "must be a fraction from 0 to 1"),
        ("--seconds", "0", "must be a number of seconds above 0"),
        ("--seconds", "inf", "must be a number of seconds above 0"),
        ("--rate", "-1", "rate_hz"),
    ] {
        let ended = thalweg(&["demo", &format!("{option}={value}"), "--directory", &folder.at("runs")]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.error.contains(words), "{words} in {ended:#?}");
        assert!(!ended.error.contains("emulated board(s)"), "{ended:#?}");
    }
    let refused = thalweg(&["emulate", "--loss", "2", "--seconds", "0.1"]);
    assert!(refused.code == Some(2) && refused.error.contains("must be a fraction"), "{refused:#?}");
}
