//! `recover`, `verify` and what they say of runs that are being written, damaged or incomplete.

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg, wait_until};

/// A configuration of one emulated board that records into `runs` of the folder, with more lines of `[record]`.
pub fn configuration(folder: &Folder, record: &str) -> String {
    let text = format!(
        "[run]\ntitle = \"one board\"\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
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
#[track_caller]
fn wait_for_bytes(file: &str, bytes: u64) {
    wait_until(&format!("{file} has more than {bytes} bytes"), || {
        std::fs::metadata(file).map_or(0, |data| data.len()) > bytes
    });
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
    assert_ledger_balances(&summary);
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

#[test]
fn a_table_that_is_removed_in_mid_run_ends_it_with_a_word_and_a_loss() {
    let folder = Folder::new();
    let file = configuration(&folder, "batch_age_s = 0.05\n");
    let running = Running::start(&["run", &file, "--json"]);
    let hits = format!("{}/hits.arrows", run_of(&folder));
    wait_for_bytes(&hits, 20_000);
    std::fs::remove_file(&hits).expect("removed");
    let ended = running.wait();
    let summary = ended.json();
    assert_eq!((ended.code, &summary["state"]), (Some(1), &"failed".into()), "{summary:#}");
    assert!(summary["failures"].to_string().contains("has removed this file"), "{summary:#}");
    assert_ledger_balances(&summary);
    assert!(number(&summary, "hits_recorded") == 0 && number(&summary, "hits_lost") > 0, "{summary:#}");
}

#[test]
fn a_disk_that_is_full_at_the_end_costs_neither_the_record_nor_the_spectra_nor_the_summary() {
    let folder = Folder::new();
    let probe = std::process::Command::new("unshare").args(["-m", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        thalweg_prerequisite::skip("a file system of its own needs root and `unshare`");
        return;
    }
    std::fs::create_dir(folder.at("runs")).expect("made");
    let file = configuration(&folder, "batch_age_s = 0.05\n");
    let script = format!(
        "mount -t tmpfs -o size=16m none '{runs}' || exit 9\n\
         \"$0\" run '{file}' --json > '{summary}' & pid=$!\n\
         until [ \"$(stat -c %s '{runs}/000001-one-board/hits.arrows' 2>/dev/null || echo 0)\" -gt 20000 ]; do\n\
         kill -0 $pid || break; sleep 0.02; done\n\
         cat /dev/zero > '{runs}/filler' 2>/dev/null\n\
         wait $pid; code=$?\n\
         [ -e '{runs}/000001-one-board/spectra.json' ] || exit 7\n\
         rm '{runs}/filler'; ls -A '{runs}/000001-one-board' > '{listing}'\n\
         \"$0\" verify '{runs}/000001' || exit 8\n\
         exit $code",
        runs = folder.at("runs"),
        summary = folder.at("summary.json"),
        listing = folder.at("listing"),
    );
    let output = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_thalweg")])
        .output()
        .expect("unshare");
    if output.status.code() == Some(9) {
        thalweg_prerequisite::skip("this system does not let root mount a tmpfs");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "the run failed, and verifies: {output:#?}");
    let summary = std::fs::read_to_string(folder.at("summary.json")).expect("printed");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("a summary");
    assert_ledger_balances(&summary);
    assert!(summary["failures"].to_string().contains("no space left"), "{summary:#}");
    assert!(summary["failures"].to_string().contains("of a replay --directory"), "{summary:#}");
    let listing = std::fs::read_to_string(folder.at("listing")).expect("written");
    assert!(!listing.contains(".room"), "{listing}");
}

#[test]
fn a_ledger_file_that_is_cut_in_mid_run_costs_neither_the_run_nor_a_count() {
    let folder = Folder::new();
    let file = configuration(&folder, "batch_age_s = 0.05\n");
    let running = Running::start(&["run", &file, "--json"]);
    wait_for_bytes(&format!("{}/hits.arrows", run_of(&folder)), 20_000);
    let ledger = format!("{}/ledger.bin", run_of(&folder));
    std::fs::write(&ledger, "").expect("cut");
    // Written again while the run goes on, so that it is there after a kill, too.
    wait_for_bytes(&ledger, 100);
    running.signal("INT");
    let ended = running.wait().done();
    assert!(ended.error.contains("no count is lost"), "{}", ended.error);
    assert_ledger_balances(&ended.json());
    thalweg(&["verify", &run_of(&folder)]).done();
}
