//! Where the triggers of emulated boards come from.
//!
//! ```text
//!  Program ─ those whose time has come ─┐
//!  Unpaced ─ as many as boards can take ┼─► triggers
//!  Follow  ─ those of a real board      ┘
//! ```

use thalweg_data::ring::Consumer;
use thalweg_frontend::trigger::{Program, Trigger};

/// Where triggers come from.
pub enum Feed {
    /// A program, in real time; BUSY refuses.
    Program(Program),
    /// As fast as the boards' FIFOs take them and nobody is BUSY: none is refused. For measuring what others can take.
    Unpaced {
        /// How many; without it until the boards are stopped.
        triggers: Option<u64>,
    },
    /// The triggers that another board was seen to answer, with its numbers. They are not refused but wait in the ring, whose
    /// writer counts what it finds no space for.
    Follow(Consumer<Trigger>),
}

/// What a feed has for the engine.
pub(super) enum Due {
    /// A trigger whose time has come.
    Now(Trigger),
    /// None before this time, nanoseconds since the start.
    At(u64),
    /// None now; when is not known.
    Later,
    /// None ever.
    Never,
}

/// A feed with the trigger that was taken from it and is not due yet.
pub(super) struct Source {
    feed: Feed,
    next: Option<Trigger>,
    unpaced: u64,
}

impl Source {
    pub(super) fn new(feed: Feed) -> Source {
        Source { feed, next: None, unpaced: 0 }
    }

    /// The next trigger, if its time has come at `now_ns`.
    pub(super) fn due(&mut self, now_ns: u64) -> Due {
        match &mut self.feed {
            Feed::Program(program) => match self.next.take().or_else(|| program.next()) {
                Some(trigger) if trigger.time_ns <= now_ns => Due::Now(trigger),
                Some(trigger) => {
                    self.next = Some(trigger);
                    Due::At(trigger.time_ns)
                }
                None => Due::Never,
            },
            Feed::Unpaced { triggers } => {
                if triggers.is_some_and(|most| self.unpaced >= most) {
                    return Due::Never;
                }
                self.unpaced += 1;
                Due::Now(Trigger { number: 0, time_ns: now_ns })
            }
            Feed::Follow(ring) => match ring.pop() {
                Some(trigger) => Due::Now(trigger),
                None if ring.is_closed() && ring.is_empty() => Due::Never,
                None => Due::Later,
            },
        }
    }

    /// Whether BUSY refuses triggers, rather than making them wait.
    pub(super) fn refuses(&self) -> bool {
        matches!(self.feed, Feed::Program(_))
    }

    /// Whether triggers keep the numbers that they came with.
    pub(super) fn has_numbers(&self) -> bool {
        matches!(self.feed, Feed::Follow(_))
    }
}
