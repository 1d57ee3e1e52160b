//! `thalweg demo`: the whole path without a configuration.

use crate::process::{Folder, assert_books_close, number, run_directory, thalweg};

#[test]
fn the_demo_records_what_it_sends_and_its_recording_verifies() {
    let folder = Folder::new();
    let ended = thalweg(&["demo", "--seconds", "2", "--json", "--directory", &folder.at("runs")]).done();
    let summary = ended.json();
    assert_books_close(&summary);
    assert!(number(&summary, "hits_sent") > 1000, "{summary:#}");
    assert!(number(&summary, "snapshots") >= 1, "books were taken while it ran: {summary:#}");
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
    for word in ["recorded in", "spectra: ", "the books close"] {
        assert!(ended.out.contains(word), "{word} in {}", ended.out);
    }
}

#[test]
fn the_first_hit_is_there_within_a_tenth_of_a_second() {
    let folder = Folder::new();
    let arguments = ["demo", "--seconds", "0.5", "--json", "--directory", &folder.at("runs")];
    // A machine that is busy compiling may stall any one start; the best of three says what the program needs.
    let first_hit = || thalweg(&arguments).done().json()["first_hit_ms"].as_f64().expect("hits came");
    let best = (0..3).map(|_| first_hit()).fold(f64::MAX, f64::min);
    assert!(best < 100.0, "{best} ms");
}
