//! Whether the host is fit for taking data, and what its kernel and network cards have thrown away.
//!
//! ```text
//!  /proc, /sys, the run's state ─► checks: what was found, whether that will do, what to do if not
//!                                └► counters of losses, since the run started
//! ```
//! What the host does not tell, as a virtual machine its governor, is left out.

use std::path::Path;

use serde_json::{Value, json};

use crate::config::Configuration;
use crate::kernel_memory;
use crate::supervise::LiveState;

/// What is asked of the kernel for datagrams where the configuration asks for nothing.
const RECEIVE_BUFFER_BYTES: u64 = 64 << 20;
/// A run whose disk lasts no longer is in trouble.
const SHORT_SECONDS: f64 = 3600.0;
/// Of the host's memory, so much should be free.
const FREE_MEMORY_SHARE: f64 = 0.05;
/// The capability that lets a program have larger receive buffers than others.
const CAP_NET_ADMIN: u32 = 12;

/// All checks that can be made here.
pub(super) fn checks(state: &LiveState, configuration: &Configuration) -> Vec<Value> {
    let text = |path: &str| std::fs::read_to_string(path).ok();
    let has_datagrams = configuration
        .sources
        .iter()
        .any(|source| matches!(source.endpoint.url.scheme(), "udp" | "dig2" | "emulate"));
    let asked = configuration
        .sources
        .iter()
        .map(|source| source.endpoint.receive_buffer_bytes.map_or(RECEIVE_BUFFER_BYTES, u64::from));
    [
        (has_datagrams)
            .then(|| {
                let largest = text("/proc/sys/net/core/rmem_max")?.trim().parse().ok()?;
                let may_exceed = has_capability(&text("/proc/self/status")?, CAP_NET_ADMIN);
                Some(receive_buffer(asked.max().unwrap_or(0), largest, may_exceed))
            })
            .flatten(),
        governor(&governors(Path::new("/sys/devices/system/cpu"))),
        disk(state.disk_free_bytes, state.disk_left_seconds),
        text("/proc/meminfo").and_then(|text| memory(&text)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn check(name: &str, ok: bool, found: impl Into<String>, advice: &str) -> Value {
    json!({ "check": name, "ok": ok, "found": found.into(), "advice": if ok { "" } else { advice } })
}

fn receive_buffer(asked: u64, largest: u64, may_exceed: bool) -> Value {
    let ok = may_exceed || largest >= asked;
    let found = match may_exceed {
        true => format!("{} MiB asked, no limit for this program", asked >> 20),
        false => format!("{} MiB asked, at most {} KiB allowed", asked >> 20, largest >> 10),
    };
    check("receive buffer", ok, found, &format!("sysctl -w net.core.rmem_max={asked}"))
}

fn has_capability(status: &str, capability: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits >> capability & 1 == 1)
}

fn governors(cores: &Path) -> Vec<String> {
    let cores = std::fs::read_dir(cores).into_iter().flatten().flatten();
    let of_core =
        |core: std::fs::DirEntry| std::fs::read_to_string(core.path().join("cpufreq/scaling_governor")).ok();
    let mut found: Vec<String> = cores.filter_map(of_core).map(|word| word.trim().to_owned()).collect();
    found.sort();
    found.dedup();
    found
}

fn governor(found: &[String]) -> Option<Value> {
    let ok = found.iter().all(|word| word == "performance");
    (!found.is_empty())
        .then(|| check("frequency governor", ok, found.join(", "), "cpupower frequency-set -g performance"))
}

fn disk(free_bytes: u64, left_seconds: Option<f64>) -> Option<Value> {
    // Unknown before the first look.
    (free_bytes > 0).then(|| {
        let lasts =
            left_seconds.map_or(String::new(), |left| format!(", {:.0} minutes at this rate", left / 60.0));
        let found = format!("{:.1} GB free{lasts}", free_bytes as f64 * 1e-9);
        let advice = "make room, record fewer tables, or let the run end by time";
        check("disk", left_seconds.is_none_or(|left| left > SHORT_SECONDS), found, advice)
    })
}

fn memory(meminfo: &str) -> Option<Value> {
    let bytes = |key: &str| kernel_memory::bytes(meminfo, key).map(|bytes| bytes as f64);
    let (available, all) = (bytes("MemAvailable")?, bytes("MemTotal")?);
    let found = format!("{:.1} of {:.1} GB available", available * 1e-9, all * 1e-9);
    let advice = "end other programs, or lower the budgets that `thalweg run --explain` shows";
    Some(check("memory", available > FREE_MEMORY_SHARE * all, found, advice))
}

/// What this host has thrown away so far, by name.
pub(super) type Counters = Vec<(String, u64)>;

/// What was thrown away on this host since `start`: by the kernel always, by network cards where they have.
pub(super) fn counters_since(start: &Counters) -> Vec<Value> {
    difference(&counters(), start).map(|(name, total)| json!({ "name": name, "total": total })).collect()
}

fn difference<'c>(now: &'c Counters, start: &'c Counters) -> impl Iterator<Item = (&'c str, u64)> {
    now.iter().filter_map(move |(name, total)| {
        let before = start.iter().find(|(own, _)| own == name).map_or(0, |(_, before)| *before);
        let since = total.saturating_sub(before);
        // Cards are many: those that threw nothing away are not listed.
        (since > 0 || !name.contains(" rx_")).then_some((name.as_str(), since))
    })
}

/// Counters since the host started.
pub(super) fn counters() -> Counters {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut found = udp_counters(&text("/proc/net/snmp"));
    found.push(("softnet dropped".to_owned(), softnet_dropped(&text("/proc/net/softnet_stat"))));
    let cards = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    for card in cards {
        for counter in ["rx_dropped", "rx_missed_errors", "rx_fifo_errors"] {
            let total = text(&card.path().join("statistics").join(counter).to_string_lossy());
            let total: u64 = total.trim().parse().unwrap_or(0);
            if total > 0 {
                found.push((format!("{} {counter}", card.file_name().to_string_lossy()), total));
            }
        }
    }
    found
}

/// Of two lines that begin with `Udp:`, names and values.
fn udp_counters(snmp: &str) -> Vec<(String, u64)> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return Vec::new() };
    let pairs = names.split_whitespace().zip(values.split_whitespace());
    let wanted = pairs.filter(|(name, _)| matches!(*name, "RcvbufErrors" | "InErrors" | "InCsumErrors"));
    wanted.filter_map(|(name, value)| Some((format!("Udp{name}"), value.parse().ok()?))).collect()
}

/// A line per core; the second number counts what found no room.
fn softnet_dropped(text: &str) -> u64 {
    let of_core = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(of_core).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_receive_buffer_is_told_with_the_command_that_helps() {
        let told = receive_buffer(64 << 20, 212_992, false);
        assert_eq!(
            (&told["ok"], &told["found"]),
            (&json!(false), &json!("64 MiB asked, at most 208 KiB allowed"))
        );
        assert_eq!(told["advice"], "sysctl -w net.core.rmem_max=67108864");
        assert_eq!(receive_buffer(64 << 20, 212_992, true)["ok"], true);
        assert_eq!(receive_buffer(1 << 17, 212_992, false)["advice"], "");
        assert!(has_capability("Name:\tx\nCapEff:\t0000000000001000\n", CAP_NET_ADMIN));
        assert!(
            !has_capability("CapEff:\t0000000000000fff\n", CAP_NET_ADMIN)
                && !has_capability("", CAP_NET_ADMIN)
        );
    }

    #[test]
    fn cores_that_save_power_are_told_and_a_host_without_governors_is_not() {
        let root = tempfile::tempdir().expect("a directory");
        for (core, word) in [("cpu0", "performance\n"), ("cpu1", "powersave\n")] {
            let path = root.path().join(core).join("cpufreq");
            std::fs::create_dir_all(&path).expect("made");
            std::fs::write(path.join("scaling_governor"), word).expect("written");
        }
        let told = governor(&governors(root.path())).expect("told");
        assert_eq!((&told["ok"], &told["found"]), (&json!(false), &json!("performance, powersave")));
        assert_eq!(governor(&governors(&root.path().join("none"))), None);
    }

    #[test]
    fn disk_and_memory_are_told_in_words() {
        let short = disk(2_500_000_000, Some(600.0)).expect("told");
        assert_eq!(
            (&short["ok"], &short["found"]),
            (&json!(false), &json!("2.5 GB free, 10 minutes at this rate"))
        );
        assert_eq!(disk(1, None).expect("told")["ok"], true);
        assert_eq!(disk(0, None), None);
        let full = memory("MemTotal:  1000000 kB\nMemAvailable:   40000 kB\n").expect("told");
        assert_eq!(full["ok"], false);
        assert_eq!(memory("MemTotal: x kB"), None);
    }

    #[test]
    fn counters_are_those_since_the_start_of_the_run_and_not_of_the_host() {
        let counters = |errors: u64, card: u64| -> Counters {
            vec![("UdpInErrors".to_owned(), errors), ("eth0 rx_dropped".to_owned(), card)]
        };
        let (start, now) = (counters(24_031, 5), counters(24_033, 5));
        assert_eq!(difference(&now, &start).collect::<Vec<_>>(), [("UdpInErrors", 2)]);
        let now = counters(24_031, 6);
        let found: Vec<_> = difference(&now, &start).collect();
        assert_eq!(found, [("UdpInErrors", 0), ("eth0 rx_dropped", 1)]);
    }

    #[test]
    fn counters_are_read_by_name() {
        let snmp =
            "Udp: InDatagrams NoPorts InErrors RcvbufErrors\nUdp: 9 1 4 3\nUdpLite: InErrors\nUdpLite: 7\n";
        let expected = vec![("UdpInErrors".to_owned(), 4), ("UdpRcvbufErrors".to_owned(), 3)];
        assert_eq!(udp_counters(snmp), expected);
        assert_eq!(udp_counters(""), Vec::new());
        assert_eq!(softnet_dropped("00000001 0000000a 0\n00000001 00000006 0\n"), 16);
    }
}
