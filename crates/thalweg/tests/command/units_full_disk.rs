//! Builder units whose disk is full: in one process, and as a node among others.
//!
//! ```text
//!  unshare -m: mount tmpfs ─► one process: what waits is lost, counted, and the run ends
//!                         └─► a node among others: it ends, and others record what it could not
//! ```

use serde_json::Value;

use crate::process::{Ended, Folder, accepted_triggers, assert_ledger_balances, number};
use crate::storage::{mounted, report};
use crate::units::{configuration, failures, four_nodes, free_urls, readouts_and_builders, unit};

#[track_caller]
fn ended_with(code: i32, ended: &Ended, what: &str) {
    assert!(ended.code == Some(code) && !ended.error.contains("panicked"), "{what}: {ended:#?}");
}

/// What a run of units in one process says whose disk is full soon, and that waits for space or ends.
fn one_process(on_full: &str) -> Option<Value> {
    let folder = Folder::new();
    std::fs::create_dir(folder.at("runs")).expect("made");
    let units = readouts_and_builders() + &unit("evm", "manager", "");
    let text = std::fs::read_to_string(configuration(&folder, 3000, &units)).expect("written");
    folder.file("run.toml", &format!("{text}on_full = \"{on_full}\"\nbatch_bytes = 50000\n"));
    let ended = mounted(
        &folder,
        "mount -t tmpfs -o size=16m none runs || exit 9",
        "head -c 14500000 /dev/zero > runs/filler\n\
         \"$0\" run run.toml --seconds 2 --json > summary.json; code=$?\n\
         rm runs/filler; \"$0\" verify runs/000001 || exit 8\nexit $code",
    )?;
    ended_with(1, &ended, "the run failed, and verifies");
    Some(report(&folder, "summary.json"))
}

#[test]
fn in_one_process_what_waits_for_space_is_lost_and_the_run_comes_to_its_end() {
    for (on_full, words) in [("end", "no space left on the disk"), ("pause", "what waits for space is lost")]
    {
        let Some(summary) = one_process(on_full) else { return };
        assert_ledger_balances(&summary);
        assert!(failures(&summary).contains(words), "{on_full}: {}", failures(&summary));
        let ledger = summary["ledger"].as_array().expect("a list");
        let lost = ledger.iter().filter_map(|entry| entry["lost"]["disk_full"].as_u64());
        assert!(lost.sum::<u64>() > 0, "{on_full}: {summary:#}");
    }
}

#[test]
fn a_builder_node_whose_disk_is_full_costs_no_event() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(four_nodes(&folder, 3000, free_urls())).expect("written");
    // Each node has a directory of its own.
    let text = text.replace(&folder.at("runs"), "runs").replace("batch_age_s = 30.0", "batch_age_s = 0.05");
    folder.file("run.toml", &text);
    let ended = mounted(
        &folder,
        "for node in boards first second manager; do mkdir -p $node/runs; done\n\
         mount -t tmpfs -o size=16m none first/runs || exit 9",
        "head -c 14500000 /dev/zero > first/runs/filler\n\
         node() { cd $1; exec \"$0\" run ../run.toml --node $1 --seconds 120 --json > ../$1.json; }\n\
         node first & first=$!\nnode second & second=$!\nnode manager & manager=$!\n\
         (node boards); code=$?\nwait $first; [ $? = 1 ] || code=7\n\
         kill -TERM $second $manager; wait\n[ $code = 0 ] || exit $code\n\
         \"$0\" verify */runs/000001 --json > verified.json",
    );
    let Some(ended) = ended else { return };
    ended_with(
        0,
        &ended,
        "the boards' node went well, that with the full disk failed, and all verify together",
    );
    let (boards, verified) = (report(&folder, "boards.json"), report(&folder, "verified.json"));
    assert!(failures(&report(&folder, "first.json")).contains("no space left on the disk"));
    assert_eq!(number(&verified, "events"), accepted_triggers(&boards), "{verified:#}");
}
