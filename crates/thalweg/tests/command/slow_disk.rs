//! A disk on which every write, or every sync, takes long: nothing is lost without a count.
//!
//! ```text
//!  strace delays each write of the real binary ─► rings full ─► sockets full ─► stop ─► all of it taken, or counted as lost
//!         delays each sync ─► builder units wait for their files, and are not taken for dead
//! ```

use std::process::Command;

use crate::process::{
    Folder, Running, accepted_triggers, assert_ledger_balances, number, run_directory, thalweg,
};

const WRITES: &str = "write,writev,pwrite64,pwritev,pwritev2";
const SYNCS: &str = "fsync,fdatasync";

/// What delays every one of these calls by so many milliseconds; `None`, with a word, where processes cannot be traced.
fn slow(calls: &str, delay_ms: u32) -> Option<Vec<String>> {
    let works =
        Command::new("strace").args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "true"]).status();
    if !works.is_ok_and(|status| status.success()) {
        thalweg_prerequisite::skip(
            "no strace that may trace (apt-get install strace; in a container, --cap-add=SYS_PTRACE)",
        );
        return None;
    }
    let inject = format!("inject={calls}:delay_enter={}", delay_ms * 1000);
    let trace = format!("trace={calls}");
    let words = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    Some(words.map(str::to_owned).into())
}

#[test]
fn hits_of_a_run_on_a_slow_disk_are_recorded_or_counted_as_lost() {
    let Some(through) = slow(WRITES, 25) else { return };
    let through: Vec<&str> = through.iter().map(String::as_str).collect();
    // With room for all that waits everything is recorded; with little, the kernel drops what comes last, too.
    for receive_buffer_bytes in [64 << 20, 256 << 10] {
        let folder = Folder::new();
        let text = format!(
            "[run]\n hits = 200000\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
             channels = 8\nmemory_bytes = 6291456\nreceive_buffer_bytes = {receive_buffer_bytes}\n[source.emulate]\nchannels = 8\n\
             rate_hz = 100e3\n[record]\ndirectory = \"{}\"\ntables = [\"hits\", \"raw\"]\n",
            folder.at("runs")
        );
        let file = folder.file("run.toml", &text);
        let run = Running::start_as(&through, &["run", &file, "--seconds", "120", "--json"]);
        let summary = run.wait().done().json();
        assert_ledger_balances(&summary);
        let sent = number(&summary, "hits_sent");
        assert!(sent >= 200_000, "{summary:#}");
        if number(&summary, "hits_lost") > 0 {
            let losses = summary["losses"].as_array().expect("a list").iter();
            let placed = losses.filter(|loss| loss["unit"] == "datagrams").count();
            assert!(placed > 0, "lost datagrams have a place: {summary:#}");
        }
        thalweg(&["verify", &run_directory(&summary)]).done();
    }
}

#[test]
fn builder_units_on_a_slow_disk_are_not_taken_for_dead_and_nothing_is_built_twice() {
    // Each sync takes longer than a unit may be silent that is alive.
    let Some(through) = slow(SYNCS, 1500) else { return };
    let through: Vec<&str> = through.iter().map(String::as_str).collect();
    let folder = Folder::new();
    let units: String = [("bu-0", "builder", ""), ("bu-1", "builder", ""), ("evm", "manager", "")]
        .iter()
        .chain(&[("ru", "readout", "sources = [\"boards\"]")])
        .map(|(name, kind, more)| format!("[[unit]]\nname = \"{name}\"\nkind = \"{kind}\"\n{more}\n"))
        .collect();
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 4\nprofile = \"recbe\"\n\
         named_by = \"connection\"\n{units}[trigger]\nprogram = \"poisson\"\nrate_hz = 500.0\ntriggers = 100\n\
         [build]\nfull = \"hold\"\n[build.units]\ndead_ms = 1000\nage_ms = 60000\n[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\"]\nsync = \"batch\"\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let summary =
        Running::start_as(&through, &["run", &file, "--seconds", "60", "--json"]).wait().done().json();
    assert_ledger_balances(&summary);
    let events = &summary["events"];
    let accepted = accepted_triggers(&summary);
    assert_eq!(
        (number(events, "triggers_offered"), number(events, "events_recorded")),
        (100, accepted),
        "{events:#}"
    );
    thalweg(&["verify", &run_directory(&summary)]).done();
}
