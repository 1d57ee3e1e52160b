//! PAUSE: how often the two ends of a link have asked each other to wait, as a card counts it.
//!
//! ```text
//!  address ─► card ─► genetlink "ethtool": PAUSE frames ──────────────────┐
//!                 └─► the driver's own counts: pause, xon, xoff, flow control ─┴─► PauseReading ─► two of them: what has moved
//! ```
//! Most drivers of 2020 and later answer the first; older ones have names of their own. Virtual cards have neither.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::card::card_to;
use super::counters::Counter;
use super::{ethtool, statistics};

/// Words in the names that drivers give to their counts of flow control.
const NAMES: [&str; 5] = ["pause", "xon", "xoff", "flow_control", "flow_ctrl"];

/// The counts of a card, or why they are not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCounts {
    /// Its counts, since the card was started.
    Known(Vec<Counter>),
    /// The counts are unknown, for this reason.
    Unknown(String),
}

/// PAUSE as one card counts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseReading {
    /// The card, or the address whose card was not found.
    pub card: String,
    /// The counts.
    pub counts: PauseCounts,
}

impl PauseReading {
    /// Reads the card through which this host reaches an address, or that has it.
    pub fn at(address: IpAddr) -> PauseReading {
        match card_to(address) {
            Some(card) => PauseReading { counts: counts(&card), card },
            None => PauseReading {
                card: address.to_string(),
                counts: PauseCounts::Unknown("no card leads to this address".to_owned()),
            },
        }
    }

    /// Returns the counts that differ from those of `before`, each with its difference; a count that fell counts from 0 again.
    ///
    /// # Errors
    /// When one of the readings is not known, or is of another card: why, in words.
    pub fn moved_since(&self, before: &PauseReading) -> Result<Vec<Counter>, String> {
        if self.card != before.card {
            return Err(format!("the card was {}, and is {}", before.card, self.card));
        }
        let (now, start) = match (&self.counts, &before.counts) {
            (PauseCounts::Known(now), PauseCounts::Known(start)) => (now, start),
            (PauseCounts::Unknown(why), _) | (_, PauseCounts::Unknown(why)) => return Err(why.clone()),
        };
        let moved = |count: &Counter| {
            let earlier = start.iter().find(|own| own.name == count.name).map_or(0, |own| own.total);
            let by = count.total.checked_sub(earlier).unwrap_or(count.total);
            (count.total != earlier).then(|| Counter { name: count.name.clone(), total: by })
        };
        Ok(now.iter().filter_map(moved).collect())
    }
}

fn counts(card: &str) -> PauseCounts {
    match ethtool::pause_frames(card) {
        Ok((received, sent)) => {
            let counter = |(name, total): (&str, u64)| Counter { name: name.to_owned(), total };
            PauseCounts::Known(
                [("PAUSE frames received", received), ("PAUSE frames sent", sent)].map(counter).into(),
            )
        }
        Err(why) => of_driver(statistics::of_card(card), &why),
    }
}

/// Selects the counts of flow control among the driver's own; the driver has answered `why` before.
fn of_driver(own: Result<Vec<Counter>, String>, why: &str) -> PauseCounts {
    let all = match own {
        Ok(all) => all,
        Err(other) => {
            return PauseCounts::Unknown(format!("of PAUSE frames: {why}; of its own counts: {other}"));
        }
    };
    let is_pause = |counter: &Counter| {
        let name = counter.name.to_ascii_lowercase();
        NAMES.iter().any(|word| name.contains(word))
    };
    let found: Vec<Counter> = all.into_iter().filter(is_pause).collect();
    match found.is_empty() {
        true => PauseCounts::Unknown(format!(
            "of PAUSE frames: {why}; none of its own counts is one of flow control"
        )),
        false => PauseCounts::Known(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(name: &str, total: u64) -> Counter {
        Counter { name: name.to_owned(), total }
    }

    fn reading(counts: &[(&str, u64)]) -> PauseReading {
        let counts = counts.iter().map(|(name, total)| counter(name, *total)).collect();
        PauseReading { card: "eth1".to_owned(), counts: PauseCounts::Known(counts) }
    }

    #[test]
    fn the_difference_of_two_readings_is_what_moved_and_a_restarted_count_has_moved() {
        let before = reading(&[("rx_pause", 4), ("tx_pause", 9)]);
        assert_eq!(before.moved_since(&before), Ok(Vec::new()));
        let after = reading(&[("rx_pause", 7), ("tx_pause", 2)]);
        assert_eq!(after.moved_since(&before), Ok(vec![counter("rx_pause", 3), counter("tx_pause", 2)]));
    }

    #[test]
    fn a_reading_that_is_not_known_or_is_of_another_card_is_no_standstill() {
        let known = reading(&[("rx_pause", 4)]);
        let unknown = PauseReading { counts: PauseCounts::Unknown("no answer".to_owned()), ..known.clone() };
        let other = PauseReading { card: "eth2".to_owned(), ..known.clone() };
        assert_eq!(known.moved_since(&unknown), Err("no answer".to_owned()));
        assert_eq!(unknown.moved_since(&known), Err("no answer".to_owned()));
        assert_eq!(other.moved_since(&known), Err("the card was eth1, and is eth2".to_owned()));
    }

    #[test]
    fn of_a_drivers_own_counts_those_of_flow_control_count() {
        let own = |names: &[&str]| Ok(names.iter().map(|name| counter(name, 1)).collect());
        let names = ["rx_packets", "port.link_xoff_rx", "tx_flow_control_xon", "tx_PAUSE_ctrl_phy"];
        match of_driver(own(&names), "no such thing") {
            PauseCounts::Known(found) => assert_eq!(found.len(), 3, "{found:?}"),
            PauseCounts::Unknown(why) => panic!("{why}"),
        }
        let none = of_driver(own(&["rx_packets"]), "no such thing");
        assert!(matches!(none, PauseCounts::Unknown(why) if why.contains("no such thing; none of")));
        let none = of_driver(Err("not supported".to_owned()), "no such thing");
        assert!(matches!(none, PauseCounts::Unknown(why) if why.ends_with("not supported")));
    }

    #[test]
    fn the_loopback_has_no_pause_frames_and_says_so() {
        let read = PauseReading::at(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(read.card, "lo");
        assert!(matches!(read.counts, PauseCounts::Unknown(why) if !why.is_empty()));
    }
}
