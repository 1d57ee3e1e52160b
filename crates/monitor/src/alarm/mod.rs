//! Alarms: rules over the state, with thresholds, hysteresis and patience; and who is notified.
//!
//! ```text
//!  state, now ─► Rule: quantity of a subject ─► Machine ─► Change: raised, cleared ─► Notifier ─► log · webhook · command
//!                                                 └─► standing ones, part of the state
//! ```
//! [`Alarms`] is a pure state machine: time comes in as seconds. [`Notifier`] has a thread of its own and a bounded queue; sending to it never waits.

mod machine;
mod notify;
mod quantity;
mod rule;
mod watch;

pub use notify::{Notifier, NotifySettings};
pub use quantity::{Quantity, Subjects};
pub use rule::{AlarmError, Level, Rule};
pub use watch::{Alarm, Alarms, Change};
