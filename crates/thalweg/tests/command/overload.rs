//! Ten times the triggers that can be taken: what is accepted is built, the rest is refused, and memory stays as it was.
//!
//! ```text
//!  20 kHz offered ─► 105 boards × 16 kB, 1 to 2 kHz taken ─► BUSY ─► accepted = complete events
//! ```
//! The ledger is what is asserted; `make soak` does a minute of it and looks at rates and times.

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg};

/// Resident memory of a process, KiB; `None` when it has ended.
fn resident_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn an_overload_of_five_seconds_costs_refused_triggers_and_nothing_else() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 105\n\
         [source.emulate]\nstream = true\npayload_bytes = 16000\nprepared_kib = 64\n\
         [trigger]\nrate_hz = 20000.0\ntriggers = 100000\n[build]\ndepth = 1024\nage_ms = 20000\nfull = \"hold\"\n\
         [record]\ndirectory = \"{}\"\ntables = [\"events\"]\n",
        folder.at("runs")
    );
    let run = Running::start(&["run", &folder.file("run.toml", &text), "--seconds", "60", "--json"]);
    let (process, mut sizes) = (run.id(), Vec::new());
    let samples = std::thread::spawn(move || {
        while let Some(size) = resident_kib(process) {
            sizes.push(size);
            // Looks at what goes on: however many there are, none may be beyond the limit.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        sizes
    });
    let summary = run.wait().done().json();
    let sizes = samples.join().expect("sampling does not panic");
    assert_ledger_balances(&summary);
    thalweg(&["verify", &run_directory(&summary)]).done();
    let events = &summary["events"];
    let (offered, refused) = (number(events, "triggers_offered"), number(events, "triggers_refused"));
    assert_eq!(offered, 100_000, "the run goes on to the last trigger");
    assert!(refused > 0 && refused < offered, "{events:#}");
    assert_eq!(number(&events["closed"], "complete"), offered - refused, "{events:#}");
    assert_eq!(number(events, "events_recorded"), offered - refused, "{events:#}");
    for none in ["events_partial", "events_dropped", "fragments_missing", "fragments_lost"] {
        assert_eq!(number(events, none), 0, "{none}: {events:#}");
    }
    // Settled at half of the time; a process that ends gives its memory back.
    let later = &sizes[sizes.len() / 2..];
    let (at_half, highest) = (later[0], later.iter().max().expect("some"));
    assert!(*highest < at_half + 16 * 1024, "from {at_half} to {highest} KiB: {sizes:?}");
}
