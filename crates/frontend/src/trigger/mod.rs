//! Trigger programs: when emulated boards are triggered, which triggers are refused, and which boards answer.
//!
//! ```text
//!  Settings ─► Program ──► Trigger ─► Supervisor ─ accepted, numbered ─► Answer ─► bytes of each board
//!  fragments of a real board ─► Follower ──┘          └ refused while BUSY, counted
//! ```
//! Nothing here reads a clock: times are nanoseconds since run start, and the caller waits for them. The same settings
//! and seed give the same program on every machine.

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

/// One trigger, the same for all boards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// Its number: consecutive among accepted triggers.
    pub number: u64,
    /// Its time in nanoseconds since run start.
    pub time_ns: u64,
}

/// A board that answers triggers, without a socket or a clock.
pub trait Answer: Send {
    /// Appends the answer to one trigger to `bytes`. For datagrams, the end of each within `bytes` is appended to
    /// `ends`; for a stream nothing is.
    fn answer(&mut self, trigger: Trigger, bytes: &mut Vec<u8>, ends: &mut Vec<usize>);

    /// The trigger number in its answer to a trigger.
    fn answer_number(&self, trigger: Trigger) -> u64 {
        trigger.number
    }

    /// Number of answers that repeated an earlier one of the same length: a fault.
    fn doubled(&self) -> u64 {
        0
    }
}

/// A board with a host: it answers triggers, and may follow its connection and its registers.
pub trait Hosted: Answer {
    /// A client has connected to its link: unsent data are discarded.
    fn connected(&mut self) {}

    /// Applies changes of registers; called some hundred times per second. Returns whether the board was reset, so that
    /// its connection is closed.
    fn attend(&mut self) -> bool {
        false
    }
}
