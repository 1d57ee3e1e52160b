//! Chooses coalesced (GRO) or slotted (`recvmmsg`) reads by the measured number of datagrams per message.
//!
//! ```text
//!  messages, datagrams ─► Choice ─ every window ─► coalesced or slots
//! ```
//! `UDP_GRO` stays on, so both modes see how many datagrams a message holds, and neither has to be probed. A coalesced read
//! costs one system call per message, which pays off when messages hold several datagrams. Two thresholds keep the choice
//! from flapping.

/// How the next datagrams are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMode {
    Coalesced,
    Slots,
}

/// Messages between two decisions.
const WINDOW_MESSAGES: u64 = 512;

/// Measures the datagrams per message and chooses the mode.
#[derive(Debug)]
pub(super) struct Choice {
    mode: ReadMode,
    fixed: bool,
    messages: u64,
    datagrams: u64,
    /// Datagrams per message in the last complete window.
    measured: f64,
    switches: u64,
}

impl Choice {
    /// Starts with `mode`; `fixed` keeps it for ever.
    pub(super) fn new(mode: ReadMode, fixed: bool) -> Choice {
        Choice { mode, fixed, messages: 0, datagrams: 0, measured: 0.0, switches: 0 }
    }

    pub(super) fn mode(&self) -> ReadMode {
        self.mode
    }

    /// Datagrams per message in the last complete window; until there is one, since the start.
    pub(super) fn datagrams_per_message(&self) -> f64 {
        if self.measured > 0.0 || self.messages == 0 {
            self.measured
        } else {
            self.datagrams as f64 / self.messages as f64
        }
    }

    /// How often the mode has changed.
    pub(super) fn switches(&self) -> u64 {
        self.switches
    }

    /// Counts one message.
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
            few if few < 1.5 => ReadMode::Slots,
            many if many > 2.5 => ReadMode::Coalesced,
            _ => self.mode,
        };
        if better != self.mode && !self.fixed {
            self.mode = better;
            self.switches += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_follows_the_measured_datagrams_per_message() {
        let mut choice = Choice::new(ReadMode::Coalesced, false);
        (0..WINDOW_MESSAGES).for_each(|_| choice.note(1));
        assert_eq!(choice.mode(), ReadMode::Slots);
        (0..WINDOW_MESSAGES).for_each(|_| choice.note(2));
        assert_eq!(choice.mode(), ReadMode::Slots, "between the thresholds nothing changes");
        (0..WINDOW_MESSAGES).for_each(|_| choice.note(40));
        assert_eq!((choice.mode(), choice.switches()), (ReadMode::Coalesced, 2));
    }

    #[test]
    fn a_fixed_mode_stays() {
        let mut choice = Choice::new(ReadMode::Coalesced, true);
        (0..10 * WINDOW_MESSAGES).for_each(|_| choice.note(1));
        assert_eq!(choice.mode(), ReadMode::Coalesced);
    }
}
