//! When to say BUSY, and when to take it back: one rule for slots, bytes and disk, and the trigger's own.
//!
//! ```text
//!  level ─► Watermarks ─► raised from `high` on, until it has fallen to `low`
//!  Busy messages of the event manager ─► Gate ─► may the trigger fire?
//! ```
//! Two marks rather than one: a level that dances about a single mark would raise and lower BUSY with every event, and each
//! change costs a message to every trigger.

use thalweg_data::{Mark, Message};

use super::message::{self, Said};

/// Says whether a level is too high, with hysteresis. Any unit of level will do: events, bytes, bytes used on a disk.
#[derive(Clone, Copy, Debug)]
pub struct Watermarks {
    low: u64,
    high: u64,
    raised_since: Option<Mark>,
    raised_ns: u64,
    times: u64,
}

impl Watermarks {
    /// Raised at `high` and above, lowered at `low` and below. A `low` above `high` is taken as `high`.
    pub fn new(low: u64, high: u64) -> Watermarks {
        Watermarks { low: low.min(high), high, raised_since: None, raised_ns: 0, times: 0 }
    }

    /// Marks at parts of a whole, such as 0.5 and 0.75 of the slots that there are.
    pub fn of(whole: u64, low: f64, high: f64) -> Watermarks {
        let part = |fraction: f64| (whole as f64 * fraction.clamp(0.0, 1.0)) as u64;
        Watermarks::new(part(low), part(high).max(1))
    }

    /// Takes the level of this moment; returns whether BUSY is raised now.
    pub fn update(&mut self, level: u64, now: Mark) -> bool {
        match self.raised_since {
            None if level >= self.high => {
                self.raised_since = Some(now);
                self.times += 1;
            }
            Some(since) if level <= self.low => {
                self.raised_ns += now.since_ns(since);
                self.raised_since = None;
            }
            _ => {}
        }
        self.is_raised()
    }

    /// Whether BUSY is raised.
    pub fn is_raised(&self) -> bool {
        self.raised_since.is_some()
    }

    /// How long it was raised until now, in nanoseconds.
    pub fn raised_ns(&self, now: Mark) -> u64 {
        self.raised_ns + self.raised_since.map_or(0, |since| now.since_ns(since))
    }

    /// How often it was raised.
    pub fn times_raised(&self) -> u64 {
        self.times
    }
}

/// The trigger's side of BUSY: closed while the event manager says so, and while no message comes from it, since then nobody
/// could say so.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    run: u32,
    silence_ns: u64,
    epoch: u64,
    received: Option<Mark>,
    busy: bool,
}

impl Gate {
    /// A gate that closes after `silence_ns` without a message; closed until the first.
    pub fn new(run: u32, silence_ns: u64) -> Gate {
        Gate { run, silence_ns, epoch: 0, received: None, busy: true }
    }

    /// Takes a message of the event manager. Anything but a Busy of this run changes nothing, nor one of an older epoch while
    /// the manager of the newer counts.
    pub fn on_message(&mut self, message: &Message, now: Mark) {
        if let Ok((run, Said::Busy { epoch, busy })) = message::read(message)
            && run == self.run
            && (epoch >= self.epoch || self.is_silent(now))
        {
            (self.epoch, self.busy, self.received) = (epoch, busy, Some(now));
        }
    }

    /// Whether a trigger must be refused now.
    pub fn is_closed(&self, now: Mark) -> bool {
        self.busy || self.is_silent(now)
    }

    /// Whether a message of the event manager ever came.
    pub fn has_manager(&self) -> bool {
        self.received.is_some()
    }

    fn is_silent(&self, now: Mark) -> bool {
        self.received.is_none_or(|received| now.since_ns(received) > self.silence_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_raised_at_high_and_lowered_at_low() {
        let mut marks = Watermarks::new(50, 75);
        let raised: Vec<bool> = [10, 74, 75, 60, 51, 50, 74, 90]
            .iter()
            .enumerate()
            .map(|(at, level)| marks.update(*level, Mark(at as u64)))
            .collect();
        assert_eq!(raised, [false, false, true, true, true, false, false, true]);
        assert_eq!((marks.raised_ns(Mark(9)), marks.times_raised()), (3 + 2, 2));
    }

    #[test]
    fn a_gate_is_closed_by_word_and_by_silence() {
        let mut gate = Gate::new(1, 100);
        assert!(gate.is_closed(Mark(0)) && !gate.has_manager());
        let mut message = Message::default();
        message::busy(&mut message, 1, 7, false);
        gate.on_message(&message, Mark(10));
        assert!(!gate.is_closed(Mark(110)) && gate.is_closed(Mark(111)));
        message::busy(&mut message, 1, 6, false);
        gate.on_message(&message, Mark(60));
        assert!(gate.is_closed(Mark(111)), "an older epoch is refused");
        gate.on_message(&message, Mark(200));
        assert!(!gate.is_closed(Mark(200)), "but when the newer has gone silent");
        message::busy(&mut message, 1, 8, true);
        gate.on_message(&message, Mark(201));
        assert!(gate.is_closed(Mark(201)));
    }
}
