//! Which triggers are accepted, and what BUSY cost.
//!
//! ```text
//!  offered ──► busy? ─ no ─► accepted: the next number
//!                └─ yes ─► refused, counted: Events in = out + lost { busy }
//! ```
//! The host raises and lowers BUSY at the times at which it saw it, and publishes them as the counters of the stage
//! `trigger`.

use thalweg_data::{Counters, LossReason, Unit};

use super::Trigger;

/// Numbers the triggers that the system can take, and counts the others.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    next_number: u64,
    busy_since_ns: Option<u64>,
    busy_ns: u64,
    raised: u64,
    counters: Counters,
}

impl Supervisor {
    /// Not busy; the first trigger accepted gets `first_number`.
    pub fn new(first_number: u64) -> Supervisor {
        Supervisor { next_number: first_number, ..Supervisor::default() }
    }

    /// Says how BUSY stands at `now_ns`, nanoseconds since run start. Saying the same again changes nothing.
    pub fn set_busy(&mut self, busy: bool, now_ns: u64) {
        match (busy, self.busy_since_ns) {
            (true, None) => {
                self.busy_since_ns = Some(now_ns);
                self.raised += 1;
            }
            (false, Some(since_ns)) => {
                self.busy_ns += now_ns.saturating_sub(since_ns);
                self.busy_since_ns = None;
            }
            _ => {}
        }
    }

    /// Offers one trigger; returns it with its number when it is accepted.
    pub fn offer(&mut self, offered: Trigger) -> Option<Trigger> {
        self.counters.input(Unit::Events, 1);
        if self.is_busy() {
            self.counters.lost(LossReason::Busy, Unit::Events, 1);
            return None;
        }
        self.counters.output(Unit::Events, 1);
        let accepted = Trigger { number: self.next_number, ..offered };
        self.next_number = self.next_number.wrapping_add(1);
        Some(accepted)
    }

    /// Whether triggers are refused now.
    pub fn is_busy(&self) -> bool {
        self.busy_since_ns.is_some()
    }

    /// Time spent BUSY until `now_ns`, nanoseconds.
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        self.busy_ns + self.busy_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }

    /// Returns how often BUSY was raised.
    pub fn raised(&self) -> u64 {
        self.raised
    }

    /// Number that the next accepted trigger gets.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Events offered, accepted, and refused while BUSY.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
