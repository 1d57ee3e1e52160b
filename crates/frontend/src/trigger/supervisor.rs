//! Decides which triggers are accepted, and measures the effect of BUSY.
//!
//! ```text
//!  offered ──► busy? ─ no ─► accepted: the next number; the boards read it out, and are busy meanwhile
//!                └─ yes ─► refused, counted: Events in = out + lost { busy }
//! ```
//! The host sets and clears BUSY at the times at which it sees the change, and publishes the counters as those of the
//! stage `trigger`.

use thalweg_data::{Counters, LossReason, Unit};

use super::Trigger;

/// Numbers accepted triggers, and counts refused ones.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    next_number: u64,
    /// How long the boards read out an accepted trigger.
    readout_ns: u64,
    /// When they have read out the last one.
    read_out_at_ns: u64,
    /// Since when BUSY is raised; of what the readout has counted already, from its end on.
    busy_since_ns: Option<u64>,
    busy_ns: u64,
    raised: u64,
    counters: Counters,
}

impl Supervisor {
    /// Creates a supervisor that is not busy; the first accepted trigger gets `first_number`.
    pub fn new(first_number: u64) -> Supervisor {
        Supervisor { next_number: first_number, ..Supervisor::default() }
    }

    /// The same, of boards that are busy for `readout_ns` behind each trigger that they answer.
    #[must_use]
    pub fn reading_out(self, readout_ns: u64) -> Supervisor {
        Supervisor { readout_ns, ..self }
    }

    /// Sets BUSY at `now_ns`, in nanoseconds since run start. Repeating the same state has no effect.
    pub fn set_busy(&mut self, busy: bool, now_ns: u64) {
        match (busy, self.busy_since_ns) {
            (true, None) => {
                self.busy_since_ns = Some(now_ns.max(self.read_out_at_ns));
                self.raised += 1;
            }
            (false, Some(since_ns)) => {
                self.busy_ns += now_ns.saturating_sub(since_ns);
                self.busy_since_ns = None;
            }
            _ => {}
        }
    }

    /// Offers one trigger; returns it with its number if it is accepted.
    pub fn offer(&mut self, offered: Trigger) -> Option<Trigger> {
        self.counters.input(Unit::Events, 1);
        if self.is_busy() || offered.time_ns < self.read_out_at_ns {
            self.counters.lost(LossReason::Busy, Unit::Events, 1);
            return None;
        }
        self.counters.output(Unit::Events, 1);
        if self.readout_ns > 0 {
            self.busy_ns += self.readout_ns;
            self.read_out_at_ns = offered.time_ns.saturating_add(self.readout_ns);
        }
        let accepted = Trigger { number: self.next_number, ..offered };
        self.next_number = self.next_number.wrapping_add(1);
        Some(accepted)
    }

    /// Whether BUSY is raised.
    pub fn is_busy(&self) -> bool {
        self.busy_since_ns.is_some()
    }

    /// Time spent BUSY and reading out until `now_ns`, in nanoseconds.
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        let to_come_ns = self.read_out_at_ns.saturating_sub(now_ns);
        self.busy_ns.saturating_sub(to_come_ns)
            + self.busy_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }

    /// Returns how often BUSY was raised.
    pub fn raised(&self) -> u64 {
        self.raised
    }

    /// Number of the next accepted trigger.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Counters of offered, accepted, and refused triggers.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
