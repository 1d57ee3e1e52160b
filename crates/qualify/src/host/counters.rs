//! Counters of what the host has thrown away: at which place, and since when.
//!
//! ```text
//!  HostCounters ─────► datagrams that found no space in a socket, or whose checksum was wrong; packets that found none on the way to one
//!  /sys/class/net/… ─► frames that a card had no space for, or that came damaged
//! ```
//! They count since the host started: before and after a run, the difference is the run's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_transport::HostCounters;

use super::reading::HostFiles;

/// One place where something is thrown away, and how much was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// `host_udp_receive_buffer_errors` as with the drop counters of a run, or `eth0 rx_missed_errors`.
    pub name: String,
    /// How many.
    pub total: u64,
}

/// The counters of a network card.
const OF_CARD: [&str; 6] =
    ["rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_crc_errors", "rx_frame_errors", "tx_dropped"];

impl Counter {
    /// Returns true if something was thrown away; a round of the kernel that ended early is no loss.
    fn is_loss(&self) -> bool {
        self.total > 0 && self.name != "host_softnet_squeezed"
    }
}

/// Describes what was thrown away, in a line; `None` where nothing was.
pub fn losses_text(counters: &[Counter]) -> Option<String> {
    let lost = counters.iter().filter(|counter| counter.is_loss());
    let text: Vec<String> = lost.map(|counter| format!("{} {}", counter.name, counter.total)).collect();
    (!text.is_empty()).then(|| format!("the host's counters meanwhile, of all programs: {}", text.join(", ")))
}

/// All of them, since the host started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossCounters(Vec<Counter>);

impl LossCounters {
    /// Those of now.
    pub fn read(files: &HostFiles) -> LossCounters {
        let of_kernel = HostCounters::below(&files.at("/proc/net"));
        let counter = |(name, total): (&str, u64)| Counter { name: name.to_owned(), total };
        let mut found: Vec<Counter> = of_kernel.each().map(counter).collect();
        for card in files.names("/sys/class/net") {
            for counter in OF_CARD {
                let path = format!("/sys/class/net/{card}/statistics/{counter}");
                let total = files.number(&path).unwrap_or(0);
                found.push(Counter { name: format!("{card} {counter}"), total });
            }
        }
        LossCounters(found)
    }

    /// Those of a device that was asked.
    pub(crate) fn of_device(counters: Vec<Counter>) -> LossCounters {
        LossCounters(counters)
    }

    /// Returns what was thrown away between `start` and these. Of network cards, which are many, those that threw nothing away are left
    /// out.
    pub fn since(&self, start: &LossCounters) -> Vec<Counter> {
        let grown = |now: &Counter| {
            let before = start.0.iter().find(|own| own.name == now.name).map_or(0, |own| own.total);
            Counter { name: now.name.clone(), total: now.total.saturating_sub(before) }
        };
        let is_shown = |counter: &Counter| counter.total > 0 || !is_of_card(&counter.name);
        self.0.iter().map(grown).filter(is_shown).collect()
    }

    /// Each of them.
    pub fn all(&self) -> &[Counter] {
        &self.0
    }
}

fn is_of_card(name: &str) -> bool {
    OF_CARD.iter().any(|counter| name.ends_with(&format!(" {counter}")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::host;
    use super::*;

    fn counter(name: &str, total: u64) -> Counter {
        Counter { name: name.to_owned(), total }
    }

    #[test]
    fn counters_are_those_since_the_start_of_the_run_and_not_of_the_host() {
        let counters = |errors, card| {
            LossCounters(vec![
                counter("host_udp_receive_buffer_errors", errors),
                counter("eth0 rx_dropped", card),
            ])
        };
        assert_eq!(
            counters(24_033, 5).since(&counters(24_031, 5)),
            [counter("host_udp_receive_buffer_errors", 2)]
        );
        let found = counters(24_031, 6).since(&counters(24_031, 5));
        assert_eq!(found, [counter("host_udp_receive_buffer_errors", 0), counter("eth0 rx_dropped", 1)]);
    }

    #[test]
    fn counters_of_kernel_and_cards_are_read_by_name() {
        let root = host(&[
            ("/proc/net/snmp", "Udp: InDatagrams InErrors RcvbufErrors\nUdp: 9 7 4"),
            ("/sys/class/net/eth0/statistics/rx_missed_errors", "7"),
        ]);
        let found = LossCounters::read(&HostFiles::below(root.path()));
        for wanted in [counter("host_udp_receive_buffer_errors", 4), counter("eth0 rx_missed_errors", 7)] {
            assert!(found.all().contains(&wanted), "{wanted:?} in {found:?}");
        }
    }
}
