//! Event building over many units: readout units (RU), builder units (BU) and an event manager (EvM), as pure state machines.
//!
//! ```text
//!  boards ─► Builder ─Events─► ReadoutUnit 0 ═══ Part ═══╗            ┌─► sink
//!                                 ▲   │                  ╠══► BuilderUnit 0 ─Events─┤
//!  boards ─► Builder ─Events─► ReadoutUnit 1 ═══ Part ═══╣            └─► ReadoutUnit of the next level
//!                                 ▲   │                  ╚══► BuilderUnit 1 ─Events─► …
//!            Assign, Release, State │   │ Progress             ▲      │ Credits, Done
//!                                 └ EventManager ◄─────────┴──────┘
//!                                       └─ Busy ─► trigger
//! ```
//!
//! # The protocol, version 3
//! A readout unit keeps what its boards sent, one row per trigger, until the event manager releases it. The manager gives
//! *ranges* of triggers to builder units; one message assigns many ranges, and one message carries a whole range, so that
//! what is done per message is done once per 16 to 256 events.
//!
//! ```text
//!  RU 0        RU 1               EvM               BU 0            BU 1
//!   │ ReadoutReport ─────────────► │ ◄── BuilderReport │ ◄───────────── │   on each connection: all that a unit knows
//!   │ ◄──────────── State ──────── │ ─── State ──────► │ ─────────────► │   … and all that it must know: epoch, open ranges
//!   │ Progress ──────────────────► │                   │                │   closed up to 128
//!   │ ◄──────────── Assign ─────── │ ── Assign ──────► │ ─────────────► │   0‥64 to BU 0, 64‥128 to BU 1
//!   │ Part 0‥64 ═════════════════════════════════════► │                │   RU 0 begins with BU 0, RU 1 with BU 1
//!   │              │ Part 64‥128 ══════════════════════════════════════► │
//!   │              │               │ ◄─────────── Done │  written        │   the credit is free again
//!   │ ◄──────────── Release ────── │ ── Release ─────► │                │   0‥64 may be forgotten
//! ```
//!
//! | message | from → to | says | when |
//! |---|---|---|---|
//! | `Hello` | anyone → anyone | who I am | first on a connection; read by the host |
//! | `ReadoutReport` | RU → EvM | incarnation, last epoch, progress, ranges assigned and not released | once per connection |
//! | `Progress` | RU → EvM | closed up to, lowest not assigned, assigned up to, busy, ended | when it changes, at most each `progress_us`; heartbeat |
//! | `BuilderReport` | BU → EvM | incarnation, epoch, what is on file, credits, ranges open and written | once per connection |
//! | `Credits` | BU → EvM | how many events it takes at a time, busy | when it changes; heartbeat |
//! | `Done` | BU → EvM | ranges written: attempt, whole and partial events, whose part was not in it, or in its first triggers only | some together, or after `progress_us` |
//! | `State` | EvM → RU, BU | epoch, assigned up to, every open range (of a BU: its own; to an RU also those done without it) | answer to a report |
//! | `Assign` | EvM → RU, BU | ranges, each with builder and attempt; assigned up to | when credits and progress allow |
//! | `Release` | EvM → RU, BU | ranges that are done | after `Done`; heartbeat |
//! | `Part` | RU → BU | a range's events: tables in the head, bytes in the payload | when the range is closed at the RU |
//! | `Busy` | EvM → trigger | whether to hold back | when it changes; heartbeat |
//!
//! **Closed.** A readout unit closes a trigger when its own builder has passed it on, in order. The manager assigns up to
//! what all readout units in good health have closed; one that stands still for `lag_ms` while others go on is passed over.
//! Triggers are expected to be numbered one by one; a hole longer than a range is jumped.
//!
//! **Credit.** A builder unit says how many events it takes at a time; the manager counts what is open there. So a credit
//! cannot be lost or doubled by a connection that breaks. No credit means no assignment; readout units fill up, and raise BUSY.
//!
//! **Epochs and attempts.** The manager holds soft state only. After a restart it has a higher epoch, collects reports from
//! all units (or waits `announce_ms`), and rebuilds its table: what any readout unit has seen released is done; what a
//! builder unit has written is done; what is open at a live builder stays there; the rest is assigned again, with an attempt
//! one higher. Messages of older epochs are refused. A builder unit that was silent for `dead_ms` is fenced: its ranges go to
//! others with a higher attempt, and what it still says of them is ignored. It may have written some of them: readers of several files
//! join the attempts of a trigger, a fragment of each source, and a row of one trigger and attempt is written once. A manager that had to begin
//! without the reports of some units gives new work a first attempt of 1 until it has them. A builder unit reports what is on
//! its files ([`OnFile`]), and what nobody else remembers is assigned with an attempt above that. (What cannot be known is what a
//! builder wrote that has died for good, of ranges that every other unit has forgotten as well.)
//!
//! **Written twice.** `OnFile` says how far the files reach, not which ranges they have. So when the manager, the builder of a range and every
//! readout unit that knew of its release have died, and one that did not know still keeps it, no report distinguishes a range that was written
//! from one that was not. It is taken for open: what that one keeps would be lost otherwise. The later attempt lacks what the dead had. Both
//! rows are on file; readers join them.
//!
//! **Death.** A readout unit that dies takes its boards' fragments of open events along: builders close those events
//! as [`UnitLost`](thalweg_data::Closing::UnitLost) when it has been gone for `dead_ms`, or at once when it is back and says that it no
//! longer has them. It goes on with the triggers that nobody was assigned yet.
//!
//! **Links** are reliable and ordered while they last (TCP, shared memory, a channel). The host notifies a unit of every
//! connection made ([`ReadoutUnit::connected`] and its like) and lost; a unit then says anew whatever may have been lost.
//!
//! **Memory.** A readout unit holds at most `keep_events` and `keep_bytes`; a builder unit at most its credits; the manager one row per
//! open range. [`Settings::builder_budget_bytes`] is the sum to plan with.

mod builder;
#[cfg(any(test, feature = "harness"))]
pub mod check;
mod manager;
pub mod message;
mod outbox;
mod part;
mod ranges;
mod readout;
mod remote;
mod rows;
mod settings;
#[cfg(any(test, feature = "harness"))]
pub mod simulate;
mod store;
#[cfg(test)]
mod tests;
mod watermarks;

use std::fmt;
use std::ops::Range;

use thalweg_data::{Event, Mark, Message, UnitId};

pub use builder::BuilderUnit;
pub use manager::{Counts, EventManager};
use message::Said;
pub use outbox::Outbox;
pub use part::{Part, PartError, PartHead};
pub use readout::ReadoutUnit;
pub use remote::{RemoteEvents, ShipEvents};
pub use settings::{AssignmentOrder, Settings, SettingsError};
pub use watermarks::{Gate, Watermarks};

/// A unit's name in the protocol. How it is reached is the host's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// The event manager.
    Manager,
    /// A readout unit, numbered from 0 in the order of its sources.
    Readout(UnitId),
    /// A builder unit, numbered from 0.
    Builder(UnitId),
    /// Whoever decides whether the trigger may fire.
    Trigger,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Manager => f.write_str("event manager"),
            Address::Readout(number) => write!(f, "readout {number}"),
            Address::Builder(number) => write!(f, "builder {number}"),
            Address::Trigger => f.write_str("trigger"),
        }
    }
}

/// Which units there are, and which sources belong to which readout unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitLayout {
    /// The sources of each readout unit, ascending and disjoint.
    pub readouts: Vec<Range<u16>>,
    /// How many builder units.
    pub builders: u16,
}

/// What every unit knows of itself from its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number among the units of its kind.
    pub number: UnitId,
    /// The run; messages of another run are refused.
    pub run: u32,
    /// Different after each start of the unit, such as the time of day of the start in nanoseconds.
    pub incarnation: u64,
}

/// A range of triggers that a builder unit is to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Assignment {
    /// First trigger.
    pub start: u64,
    /// How many trigger numbers it covers: 1 to [`Assignment::LONGEST`].
    pub length: u32,
    /// The builder unit, or [`Assignment::NOBODY`]. In the state for a readout unit, of a range that is done, its bits are no unit's
    /// number: they say for how many of the first trigger numbers the unit's part was in it.
    pub builder: UnitId,
    /// 0, or how often the range had to be given to another one.
    pub attempt: u8,
    /// In a builder's report: it is written. In the state for a readout unit: it is done, and the unit's part was not in it.
    pub written: bool,
}

impl Assignment {
    /// Longest range, in trigger numbers.
    pub const LONGEST: u32 = 1 << 16;
    /// The builder of a range that waits to be assigned again.
    pub const NOBODY: UnitId = UnitId(u16::MAX);

    /// First trigger behind the range.
    pub fn end(self) -> u64 {
        self.start + u64::from(self.length)
    }

    /// Whether it is the same work: same triggers, same attempt.
    fn is(self, other: Assignment) -> bool {
        (self.start, self.length, self.attempt) == (other.start, other.length, other.attempt)
    }

    /// Whether a later assignment of the same range replaces this one: of a higher attempt, or of who builds what nobody did.
    fn yields_to(self, later: Assignment) -> bool {
        later.attempt > self.attempt || (later.attempt == self.attempt && self.builder == Assignment::NOBODY)
    }
}

/// What the files of a builder unit have, of all its starts that it knows of: by this a system in which every other unit has forgotten
/// what was assigned does not write a trigger again with an attempt that a reader takes for an older one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnFile {
    /// Every trigger on file is below.
    pub until: u64,
    /// Highest attempt on file.
    pub attempt: u8,
}

impl OnFile {
    /// Notes an event.
    pub fn add(&mut self, event: &Event) {
        self.until = self.until.max(event.trigger.saturating_add(1));
        self.attempt = self.attempt.max(event.attempt);
    }
}

impl ranges::Ranged for Assignment {
    fn start(&self) -> u64 {
        self.start
    }
    fn end(&self) -> u64 {
        Assignment::end(*self)
    }
}

/// What the host of any unit does with it: notifies it of connections, hands it messages, and asks it for its own.
pub trait Machine: Send {
    /// A connection was made: what the other side may have missed will be said again.
    fn connected(&mut self, to: Address, now: Mark);
    /// A connection was lost, and what was on its way; what waits for it in the outbox is dropped.
    fn disconnected(&mut self, from: Address, now: Mark, outbox: &mut Outbox);
    /// Takes a message. Whatever is in it, nothing worse than a count comes of it.
    fn on_message(&mut self, from: Address, message: &Message, now: Mark);
    /// Lets time pass, and says what there is to say. To be called after messages, and at least each tenth of `heartbeat_ms`.
    fn poll(&mut self, now: Mark, outbox: &mut Outbox);
    /// In how many nanoseconds it says what it holds back now, if it does: to be polled again by then.
    fn next_word_ns(&self, now: Mark) -> Option<u64> {
        let _ = now;
        None
    }
}

macro_rules! machine {
    ($($unit:ty { $($next_word_ns:ident)? }),+) => {
        $(impl Machine for $unit {
            fn connected(&mut self, to: Address, now: Mark) {
                <$unit>::connected(self, to, now);
            }
            fn disconnected(&mut self, from: Address, now: Mark, outbox: &mut Outbox) {
                <$unit>::disconnected(self, from, now, outbox);
            }
            fn on_message(&mut self, from: Address, message: &Message, now: Mark) {
                <$unit>::on_message(self, from, message, now);
            }
            fn poll(&mut self, now: Mark, outbox: &mut Outbox) {
                <$unit>::poll(self, now, outbox);
            }
            $(fn $next_word_ns(&self, now: Mark) -> Option<u64> {
                <$unit>::$next_word_ns(self, now)
            })?
        })+
    };
}

machine!(ReadoutUnit { next_word_ns }, BuilderUnit { next_word_ns }, EventManager {});

/// Messages that a unit refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedMessages {
    /// Not understood: lengths, counts or version.
    pub damaged: u64,
    /// Of another run.
    pub wrong_run: u64,
    /// Of an event manager that has been replaced.
    pub old_epoch: u64,
    /// From someone who has no say in it, or about units or sources that are not configured.
    pub unexpected_sender: u64,
}

impl RefusedMessages {
    /// What a message of `run` says; one that is not understood or is of another run is counted instead.
    fn read<'m>(&mut self, run: u32, message: &'m Message) -> Option<Said<'m>> {
        match message::read(message) {
            Ok((of, said)) if of == run => return Some(said),
            Ok(_) => self.wrong_run += 1,
            Err(_) => self.damaged += 1,
        }
        None
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.damaged + self.wrong_run + self.old_epoch + self.unexpected_sender
    }
}
