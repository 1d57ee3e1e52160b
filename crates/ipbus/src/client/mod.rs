//! A client of one target: operations are queued, and a dispatch does them.
//!
//! ```text
//!  Queue: read, write, change … ─► jobs ─ dispatch ─► Exchange ⇄ packets ─► values, outcomes
//!                                                        ▲
//!                                    Session: the state that stays from one dispatch to the next
//! ```
//! With the feature `tokio` a dispatch is also a future: `dispatch_async`, `open_async`.

mod exchange;
mod failure;
mod job;
mod link;
mod packing;
mod queue;
#[cfg(feature = "tokio")]
mod reactor;
mod session;
#[cfg(test)]
mod simulation;

pub use crate::sequence::PacketCounts;
pub use failure::Failure;
pub use job::Outcome;
pub use packing::PacketLimits;
pub use queue::{Client, DispatchError, Done, OpenError, Queue, Value};
