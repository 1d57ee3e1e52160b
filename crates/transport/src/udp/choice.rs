//! Chooses coalesced (GRO) or slotted (`recvmmsg`) reads from what was measured.
//!
//! ```text
//!  messages, datagrams ─► Choice ─ every window ─► coalesced or slots
//! ```
//! The kernel is asked to coalesce all the time, so both ways see how many datagrams a message holds, and nothing needs
//! to be probed. A coalesced read costs one system call per message: it pays when messages hold several datagrams. Two
//! thresholds keep the choice from flapping.

/// How the next datagrams are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Coalesced,
    Slots,
}

/// Messages between two decisions.
const WINDOW_MESSAGES: u64 = 512;

/// Follows the datagrams per message.
#[derive(Debug)]
pub(super) struct Choice {
    way: Way,
    fixed: bool,
    messages: u64,
    datagrams: u64,
    /// Datagrams per message in the last whole window.
    measured: f64,
    switches: u64,
}

impl Choice {
    /// Starts with `way`; `fixed` keeps it.
    pub(super) fn new(way: Way, fixed: bool) -> Choice {
        Choice { way, fixed, messages: 0, datagrams: 0, measured: 0.0, switches: 0 }
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// Datagrams per message in the last window.
    pub(super) fn datagrams_per_message(&self) -> f64 {
        if self.measured > 0.0 || self.messages == 0 {
            self.measured
        } else {
            self.datagrams as f64 / self.messages as f64
        }
    }

    /// How often the way was changed.
    pub(super) fn switches(&self) -> u64 {
        self.switches
    }

    /// Takes note of one message.
    #[inline]
    pub(super) fn note(&mut self, datagrams: u64) {
        self.messages += 1;
        self.datagrams += datagrams;
        if self.messages >= WINDOW_MESSAGES {
            self.decide();
        }
    }

    fn decide(&mut self) {
        self.measured = self.datagrams as f64 / self.messages as f64;
        (self.messages, self.datagrams) = (0, 0);
        let better = match self.measured {
            few if few < 1.5 => Way::Slots,
            many if many > 2.5 => Way::Coalesced,
            _ => self.way,
        };
        if better != self.way && !self.fixed {
            self.way = better;
            self.switches += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_follows_what_is_measured() {
        let mut choice = Choice::new(Way::Coalesced, false);
        (0..WINDOW_MESSAGES).for_each(|_| choice.note(1));
        assert_eq!(choice.way(), Way::Slots);
        (0..WINDOW_MESSAGES).for_each(|_| choice.note(2));
        assert_eq!(choice.way(), Way::Slots, "between the thresholds nothing changes");
        (0..WINDOW_MESSAGES).for_each(|_| choice.note(40));
        assert_eq!((choice.way(), choice.switches()), (Way::Coalesced, 2));
    }

    #[test]
    fn a_fixed_way_stays() {
        let mut choice = Choice::new(Way::Coalesced, true);
        (0..10 * WINDOW_MESSAGES).for_each(|_| choice.note(1));
        assert_eq!(choice.way(), Way::Coalesced);
    }
}
