//! The host's own counters: they show where datagrams were lost, and are never added to a loss.
//!
//! ```text
//!  /proc/net/snmp, snmp6, softnet_stat ─► HostCounters ─ since the start ─► drop counters
//! ```
//! They count for all programs of this network namespace, so they cannot be attributed to one source.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Counters of the host's network code at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCounters(BTreeMap<&'static str, u64>);

/// Our name and the one in `/proc/net/snmp`; `snmp6` has the same name behind `Udp6`. `InErrors` is not among them: beside the errors of these
/// kinds, it counts what the filter of a socket drops, which is no loss: the socket that holds the port of a ring drops what the ring
/// receives.
const UDP: [(&str, &str); 3] = [
    ("host_udp_receive_buffer_errors", "RcvbufErrors"),
    ("host_udp_checksum_errors", "InCsumErrors"),
    ("host_udp_memory_errors", "MemErrors"),
];

impl HostCounters {
    /// The counters now; a counter that cannot be read is absent.
    pub fn now() -> HostCounters {
        HostCounters::below(Path::new("/proc/net"))
    }

    /// Reads the counters from the files of another folder than `/proc/net`.
    pub fn below(folder: &Path) -> HostCounters {
        let read = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
        HostCounters::parse(&read("snmp"), &read("snmp6"), &read("softnet_stat"))
    }

    /// Each counter's name and value since the host started.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, value)| (*name, *value))
    }

    fn parse(snmp: &str, snmp6: &str, softnet: &str) -> HostCounters {
        let mut counters = BTreeMap::new();
        let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
        if let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                add(&mut counters, name, value);
            }
        }
        for line in snmp6.lines().filter_map(|line| line.strip_prefix("Udp6")) {
            if let Some((name, value)) = line.split_once(char::is_whitespace) {
                add(&mut counters, name, value.trim());
            }
        }
        for line in softnet.lines() {
            let mut columns = line.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
            let (dropped, squeezed) = (columns.nth(1).flatten(), columns.next().flatten());
            *counters.entry("host_softnet_dropped").or_default() += dropped.unwrap_or(0);
            *counters.entry("host_softnet_squeezed").or_default() += squeezed.unwrap_or(0);
        }
        HostCounters(counters)
    }

    /// Each counter's name and its increase since `earlier`.
    pub fn since(&self, earlier: &HostCounters) -> Vec<(&'static str, u64)> {
        let before = |name| earlier.0.get(name).copied().unwrap_or(0);
        self.0.iter().map(|(name, value)| (*name, value.saturating_sub(before(name)))).collect()
    }
}

fn add(counters: &mut BTreeMap<&'static str, u64>, name: &str, value: &str) {
    let known = UDP.iter().find(|(_, theirs)| *theirs == name);
    if let (Some((ours, _)), Ok(value)) = (known, value.parse::<u64>()) {
        *counters.entry(ours).or_default() += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_kernel_are_read() {
        let snmp = "Ip: A\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors \
                    IgnoredMulti MemErrors\nUdp: 10 1 5 9 4 0 1 0 2\nUdpLite: InErrors\nUdpLite: 7\n";
        let snmp6 = "Udp6InDatagrams     3\nUdp6RcvbufErrors      6\n";
        let softnet = "00000010 0000000a 00000002\n00000001 00000001 00000000\n";
        let counters = HostCounters::parse(snmp, snmp6, softnet);
        let since = counters.since(&HostCounters::default());
        assert_eq!(
            since,
            [
                ("host_softnet_dropped", 11),
                ("host_softnet_squeezed", 2),
                ("host_udp_checksum_errors", 1),
                ("host_udp_memory_errors", 2),
                ("host_udp_receive_buffer_errors", 10),
            ]
        );
    }

    #[test]
    fn missing_counters_are_absent() {
        assert!(HostCounters::parse("", "x", "").since(&HostCounters::default()).is_empty());
    }
}
