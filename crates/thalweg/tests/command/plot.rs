//! `plot` of recordings that have no hits.
//!
//! ```text
//!  run with tables = ["events"] or ["raw"] ─► plot ─► events.svg, raw.svg │ a word when there is nothing
//! ```

use std::path::Path;

use crate::process::{Folder, run_directory, thalweg};

/// Runs emulated boards for a second with these tables, and gives the run's directory.
fn recorded(folder: &Folder, source: &str, tables: &str) -> String {
    let record = format!("[record]\ndirectory = \"{}\"\ntables = {tables}\n", folder.at("runs"));
    let file = folder.file("run.toml", &format!("{source}{record}"));
    run_directory(&thalweg(&["run", &file, "--seconds", "1", "--json"]).done().json())
}

const TRIGGERED: &str = "[[source]]\nname = \"tracker\"\nformat = \"fragment\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nboards = 4\n\
     [source.emulate]\npayload_bytes = 500\n[trigger]\nprogram = \"constant\"\nrate_hz = 500.0\n";
const HITS: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 8\n\
     [source.emulate]\nchannels = 8\nrate_hz = 20000.0\n";

/// The picture, which is without bad numbers.
#[track_caller]
fn picture(run: &str, name: &str) -> String {
    let plotted = thalweg(&["plot", run]).done();
    let file = Path::new(run).join(name);
    assert!(plotted.out.trim_end().ends_with(name), "{plotted:#?}");
    let text = std::fs::read_to_string(file).expect("the picture is in the run's directory");
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    text
}

#[test]
fn plot_draws_events_over_time_of_a_run_without_hits() {
    let folder = Folder::new();
    let run = recorded(&folder, TRIGGERED, "[\"events\", \"fragments\"]");
    let text = picture(&run, "events.svg");
    for words in [
        "events recorded",
        "all complete",
        "no fragments lost",
        "no events lost",
        "Event size, mean",
        "every board had answered",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn plot_draws_raw_bytes_over_time_of_a_run_without_hits_and_events() {
    let folder = Folder::new();
    let run = recorded(&folder, HITS, "[\"raw\"]");
    let text = picture(&run, "raw.svg");
    for words in ["Bytes received", "MB/s", "no hits lost", "the ledger balances"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn plot_says_that_there_is_nothing_to_plot_and_what_to_do() {
    let folder = Folder::new();
    let run = recorded(&folder, HITS, "[]");
    let plotted = thalweg(&["plot", &run]);
    assert_eq!(plotted.code, Some(1), "{plotted:#?}");
    for words in ["nothing to plot", "thalweg inspect", "[record] tables"] {
        assert!(plotted.error.contains(words), "{words}: {plotted:#?}");
    }
}
