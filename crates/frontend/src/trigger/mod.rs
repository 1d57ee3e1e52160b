//! Trigger programs: when emulated boards are triggered, which triggers are refused, and who answers.
//!
//! ```text
//!  Settings ─► Program ──► Trigger ─► Supervisor ─ accepted, numbered ─► Answer ─► bytes of each board
//!  fragments of a real board ─► Follower ──┘          └ refused while BUSY, counted
//! ```
//! Nothing here reads a clock: times are nanoseconds since run start, and whoever drives a program waits for them. A
//! program is the same on every machine for the same settings and seed.

mod follow;
mod program;
mod settings;
mod supervisor;
#[cfg(test)]
mod tests;
mod times;

pub use follow::{FollowError, FollowSettings, Follower};
pub use program::Program;
pub use settings::{Kind, Settings, SettingsError};
pub use supervisor::Supervisor;
pub use times::{TimesError, parse_times};

/// One trigger, as every board sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// Its number: consecutive among the triggers that were accepted.
    pub number: u64,
    /// When it happened, nanoseconds since run start.
    pub time_ns: u64,
}

/// A board that answers triggers, without a socket or a clock.
pub trait Answer: Send {
    /// Appends what the board sends for one trigger to `bytes`; for datagrams pushes the end of each within `bytes` to
    /// `ends`; a stream pushes none.
    fn answer(&mut self, trigger: Trigger, bytes: &mut Vec<u8>, ends: &mut Vec<usize>);

    /// The number that its answer to a trigger carries.
    fn answer_number(&self, trigger: Trigger) -> u64 {
        trigger.number
    }

    /// How many of its answers so far were one that it had given already, of the same length: a fault.
    fn doubled(&self) -> u64 {
        0
    }
}

/// A board that is hosted: it answers triggers, and may learn of its client and of what was set in its registers.
pub trait Hosted: Answer {
    /// A client has connected to its link: what was not sent is gone.
    fn connected(&mut self) {}

    /// Looks at what was set meanwhile, some hundred times per second. Returns whether the board was reset, so that its
    /// connection is closed.
    fn attend(&mut self) -> bool {
        false
    }
}
