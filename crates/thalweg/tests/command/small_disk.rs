//! What runs say that keep their hits or events in one form alone, when the disk does not take it.
//!
//! ```text
//!  unshare -m: mount tmpfs ─► run until the disk is full ─► summary, verify and list of runs say the same
//! ```

use serde_json::Value;

use crate::process::{Folder, assert_ledger_balances, number};
use crate::storage::{mounted, report};

/// What a run with this configuration says whose disk is full soon, then `verify` and the list of runs; `None` where nothing can be mounted.
fn said(configuration: &str, record: &str) -> Option<[Value; 3]> {
    let folder = Folder::new();
    std::fs::create_dir(folder.at("runs")).expect("made");
    let record = format!("[record]\ndirectory = \"runs\"\nbatch_bytes = 50000\nbatch_age_s = 0.05\n{record}");
    folder.file("run.toml", &format!("{configuration}{record}"));
    let ended = mounted(
        &folder,
        "mount -t tmpfs -o size=3m none runs || exit 9",
        "\"$0\" run run.toml --seconds 60 --json > summary.json; code=$?\n\
         \"$0\" verify runs/000001 --json > verified.json\n\
         \"$0\" runs list --runs runs --json > runs.json || exit 8\nexit $code",
    )?;
    assert_eq!(ended.code, Some(1), "the run failed: {ended:#?}");
    let [summary, verified, runs] =
        ["summary.json", "verified.json", "runs.json"].map(|name| report(&folder, name));
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    assert_eq!(totals(&summary["loss"]["totals"]), totals(&verified["ledger"]["loss"]["totals"]));
    Some([summary, verified, runs])
}

fn totals(totals: &Value) -> Vec<String> {
    let totals = totals.as_array().expect("a list").iter();
    totals.map(|total| total["text"].as_str().expect("a text").to_owned()).collect()
}

const HITS: &str = "[[source]]\nname = \"a\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
                    [source.emulate]\nrate_hz = 20000.0\n";

#[test]
fn a_run_of_raw_bytes_alone_has_lost_what_the_disk_did_not_take() {
    let Some([summary, _, runs]) = said(HITS, "tables = [\"raw\"]\n") else { return };
    let lost = totals(&summary["loss"]["totals"]);
    let is_bound = lost[0].starts_with("hits lost: unknown, ≥ ") && lost[0].contains(" datagrams (≥ ");
    assert!(is_bound && summary["hits_lost"].is_null(), "{lost:?}");
    assert!(runs.to_string().contains(&lost[0]), "{runs:#}");
}

#[test]
fn hits_in_time_slices_that_the_disk_did_not_take_are_lost() {
    let slices = format!("{HITS}[slices]\nslice_ps = 5_000_000_000\n");
    let Some([summary, verified, _]) = said(&slices, "tables = [\"events\", \"fragments\"]\n") else {
        return;
    };
    assert_ledger_balances(&summary);
    let (recorded, lost) = (number(&summary, "hits_recorded"), number(&summary, "hits_lost"));
    let bytes = number(&verified["events"], "payload_bytes");
    assert!(
        lost > 0 && recorded == bytes / 16,
        "{recorded} recorded, {lost} lost, {bytes} bytes: {summary:#}"
    );
    assert_eq!(number(&verified["ledger"], "hits_recorded"), recorded);
}
