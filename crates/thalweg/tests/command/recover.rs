//! `recover`, `verify` and what they say of runs that are being written, damaged or incomplete.

use std::time::{Duration, Instant};

use crate::process::{Folder, Running, assert_books_close, number, run_directory, thalweg};

/// A configuration of one emulated board that records into `runs` of the folder, with more lines of `[record]`.
fn configuration(folder: &Folder, record: &str) -> String {
    let text = format!(
        "[run]\ntitle = \"one board\"\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
         [source.emulate]\nchannels = 8\nrate_hz = 20000.0\n[record]\ndirectory = \"{}\"\n{record}",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// The directory of the one run.
fn run_of(folder: &Folder) -> String {
    folder.at("runs/000001-one-board")
}

/// Waits until a file is there and longer than so many bytes.
fn wait_for_bytes(file: &str, bytes: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(file).map_or(0, |data| data.len()) <= bytes {
        assert!(Instant::now() < until, "{file} does not grow beyond {bytes} bytes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn recover_refuses_a_run_that_is_being_written() {
    let folder = Folder::new();
    let file = configuration(&folder, "batch_age_s = 0.05\n");
    let running = Running::start(&["run", &file, "--json"]);
    wait_for_bytes(&format!("{}/hits.arrows", run_of(&folder)), 20_000);
    let refused = thalweg(&["recover", &run_of(&folder)]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    let pid = format!("pid {}", running.id());
    assert!(
        refused.error.contains(&pid) && refused.error.contains("wait until it has ended"),
        "{refused:#?}"
    );
    running.signal("INT");
    let summary = running.wait().done().json();
    assert_books_close(&summary);
    let verified = thalweg(&["verify", &run_of(&folder), "--json"]).done().json();
    assert_eq!(
        (&verified["state"], number(&verified, "hits")),
        (&"stopped".into(), number(&summary, "hits_recorded"))
    );
}

#[test]
fn a_run_is_found_by_its_number() {
    let folder = Folder::new();
    let file = configuration(&folder, "");
    let summary = thalweg(&["run", &file, "--seconds", "0.3", "--json"]).done().json();
    assert_eq!(run_directory(&summary), run_of(&folder));
    let by_number = folder.at("runs/000001");
    for command in ["verify", "inspect", "recover", "plot"] {
        let ended = thalweg(&[command, &by_number]).done();
        assert!(command == "plot" || ended.out.contains("one-board"), "{ended:#?}");
    }
    let missing = thalweg(&["verify", &folder.at("runs/000002")]);
    assert!(missing.code == Some(1) && missing.error.contains("no such run directory"), "{missing:#?}");
    std::fs::create_dir(folder.at("runs/000001-other")).expect("made");
    let several = thalweg(&["verify", &by_number]);
    assert!(several.code == Some(1) && several.error.contains("000001-one-board and "), "{several:#?}");
}
