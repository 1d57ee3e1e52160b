//! Files that real digitizers filled, through the whole path.

use thalweg_prerequisite::recorded;

use crate::process::{Folder, number, run_directory, text, thalweg};

fn run_file(file: &str, format: &str, more: &str, hits: u64) {
    let Some(data) = recorded(file) else { return };
    let folder = Folder::new();
    let url = format!("file://{}", text(&data));
    let configuration = folder.file(
        "run.toml",
        &format!(
            "[run]\ntitle = \"{format}\"\n[[source]]\nname = \"board\"\nformat = \"{format}\"\nurl = \"{url}\"\n{more}\n\
             [record]\ndirectory = \"{}\"\n",
            folder.at("runs")
        ),
    );
    let summary = thalweg(&["run", &configuration, "--json"]).done().json();
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    assert_eq!(number(&summary, "hits_recorded"), hits, "{summary:#}");
    assert_eq!(number(&summary, "hits_lost"), 0, "{summary:#}");
    let verified = thalweg(&["verify", &run_directory(&summary), "--json"]).done().json();
    assert_eq!(verified["ok"], true, "{verified:#}");
}

#[test]
fn compass_file_of_102_hits() {
    run_file("compass_test_data.BIN", "compass", "", 102);
}

#[test]
fn abcd_file_of_a_plastic_scintillator() {
    let file = "example_data_DT5725_Ch0_Plastic_Cf-252_source_events.ade";
    run_file(file, "abcd", "tick_ps = 3.90625", 91_952);
}

#[test]
fn abcd_file_of_three_detectors_that_is_not_sorted() {
    let file = "example_data_DT5730_Ch2_LaBr3_Ch4_LYSO_Ch6_YAP_events.ade";
    run_file(file, "abcd", "tick_ps = 1.953125", 101_746);
}
