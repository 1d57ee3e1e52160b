//! A run whose tables go on in new files, taken, checked and replayed.
//!
//! ```text
//!  run, [record.files] ─► hits.arrows, hits.0001.arrows, … raw.arrows, … ─► verify, inspect ─► replay ─► the same files again
//! ```

use std::path::{Path, PathBuf};

use crate::process::{Folder, number, run_directory, thalweg};

fn configuration(folder: &Folder, files: &str) -> String {
    let text = format!(
        "[run]\n hits = 100000\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
         [source.emulate]\nchannels = 8\nrate_hz = 40000\nwaveform_samples = 8\n[spectra]\nenabled = false\n[record]\n\
         directory = \"{}\"\ntables = [\"hits\", \"extras\", \"waveforms\", \"raw\"]\nbatch_hits = 4000\n[record.files]\n{files}\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// The files of a table, first to last.
fn parts(run: &str, table: &str) -> Vec<PathBuf> {
    let first = Path::new(run).join(format!("{table}.arrows"));
    let later = (1..).map(|number| Path::new(run).join(format!("{table}.{number:04}.arrows")));
    std::iter::once(first).chain(later).take_while(|path| path.exists()).collect()
}

#[test]
fn a_run_goes_on_in_new_files_and_is_replayed_as_it_was() {
    let folder = Folder::new();
    let file = configuration(&folder, "most_rows = 20000");
    let report = thalweg(&["run", &file, "--json"]).done().json();
    let run = run_directory(&report);
    // The run ends behind the batch that reaches its number of hits.
    assert!(parts(&run, "hits").len() >= 5, "100000 hits, 20000 a file");
    assert_eq!(parts(&run, "hits").len(), parts(&run, "waveforms").len());
    let verified = thalweg(&["verify", &run, "--json"]).done().json();
    assert_eq!(
        (&verified["ok"], &verified["ledger"]["closed"]),
        (&true.into(), &true.into()),
        "{verified:#}"
    );
    let inspected = thalweg(&["inspect", &run, "--json"]).done().json();
    assert!(inspected["hits"] == verified["hits"] && number(&inspected, "hits") >= 100_000, "{inspected:#}");
    let exported = thalweg(&[
        "export",
        &run,
        "--to",
        "parquet",
        "--table",
        "hits",
        "--out",
        &folder.at("hits.parquet"),
        "--json",
    ]);
    let exported = exported.done().json();
    let tables = exported["tables"].as_array().expect("a list");
    assert!(
        tables.len() == 1 && tables[0]["rows"] == verified["hits"],
        "one table of all files: {exported:#}"
    );
    let again = thalweg(&["replay", &run, "--directory", &folder.at("again"), "--json"]).done().json();
    let again = run_directory(&again);
    for table in ["hits", "extras", "waveforms"] {
        let (first, second) = (parts(&run, table), parts(&again, table));
        assert_eq!(first.len(), second.len(), "{table}");
        for (one, other) in first.iter().zip(&second) {
            let bytes = |path: &Path| std::fs::read(path).expect("there");
            assert!(bytes(one) == bytes(other), "{} and {}", one.display(), other.display());
        }
    }
}

#[test]
fn a_run_with_a_directory_on_a_disk_that_is_not_mounted_does_not_begin() {
    let folder = Folder::new();
    let missing = folder.at("not-mounted/runs");
    let file = configuration(&folder, &format!("most_rows = 20000\ndirectories = [\"{missing}\"]"));
    let refused = thalweg(&["run", &file]);
    let words = format!(
        "{missing}: no such directory, and `directories` in `[record.files]` names it; mount its disk"
    );
    assert!(refused.code == Some(1) && refused.error.contains(&words), "{refused:#?}");
    assert!(!Path::new(&folder.at("not-mounted")).exists() && !Path::new(&folder.at("runs/000001")).exists());
}

#[test]
fn limits_of_files_that_cannot_be_meant_are_refused_in_words() {
    let folder = Folder::new();
    for (files, words) in [
        ("most_rows = 3", "`most_rows = 3` in `[record.files]`: write 1000 or more"),
        ("most_bytes = 10", "`most_bytes = 10` in `[record.files]`: write 1000000 or more"),
        ("most_s = 0.1", "`most_s = 0.1` in `[record.files]`: write 1 second or more"),
        ("directories = [\"/elsewhere\"]", "names /elsewhere, and no file ever ends"),
        (
            &format!("most_s = 10\ndirectories = [\"{}\"]", folder.at("runs")),
            "which is `[record] directory`; name others",
        ),
    ] {
        let refused = thalweg(&["run", &configuration(&folder, files)]);
        assert!(refused.code == Some(2) && refused.error.contains(words), "{}", refused.error);
    }
}
