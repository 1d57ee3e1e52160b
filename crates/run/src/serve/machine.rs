//! The host's figures for the page: cores, load, memory, and the kernel's counters.

use serde_json::{Value, json};

use thalweg_qualify::host::{self, HostFiles, LossCounters, Needs, Probe, kernel_memory};
use thalweg_transport::{ThreadTimes, thread_times};

use crate::config::Configuration;
use crate::needs::needs;
use crate::supervise::LiveState;

/// The system screen's object.
///
/// `at_start` are the counters of the host when the run started.
pub(super) fn sample(
    state: &LiveState,
    plan: &Value,
    configuration: &Configuration,
    at_start: &LossCounters,
) -> Value {
    let sources = state.sources.iter().map(|source| {
        json!({
            "name": source.name, "ring_fill": source.ring_fill, "pool_fill": source.pool_fill,
            "pool_bytes": source.pool_bytes, "drop_counters": source.drop_counters,
        })
    });
    let needs = Needs { disk_left_s: state.disk_left_seconds, ..needs(configuration, None) };
    let files = HostFiles::of_host();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": read("/proc/sys/kernel/hostname"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "load": loads(),
        "checks": host::checks(&files, &needs, Probe::Nothing),
        "counters": LossCounters::read(&files).since(at_start),
        "memory": memory(),
        "threads": threads(),
        "plan": plan,
        "sources": sources.collect::<Vec<_>>(),
        "ledger": state.ledger.as_deref().unwrap_or_default(),
        "disk_free_bytes": state.disk_free_bytes,
    })
}

fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

/// Processes that want to run, over one, five and fifteen minutes.
fn loads() -> Option<Vec<f64>> {
    read("/proc/loadavg")?.split_whitespace().take(3).map(|word| word.parse().ok()).collect()
}

/// This process and the host, bytes.
fn memory() -> Value {
    json!({
        "resident_bytes": kernel_memory::own_bytes("VmRSS"),
        "host_bytes": kernel_memory::host_bytes("MemTotal"),
        "host_available_bytes": kernel_memory::host_bytes("MemAvailable"),
    })
}

/// Threads of this process with the processor time that each has had, seconds.
fn threads() -> Vec<Value> {
    let mut threads = thread_times();
    threads.sort_by(|one, other| one.name.cmp(&other.name));
    let said = |thread: &ThreadTimes| json!({ "name": thread.name, "ran_seconds": thread.ran_s, "waited_seconds": thread.waited_s });
    threads.iter().map(said).collect()
}
