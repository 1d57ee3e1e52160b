//! The ledger: every byte and every hit that entered is recorded, filtered, held, or lost for a stated
//! reason at a stated place, and the sums close exactly, per source.
//!
//! ```text
//!             datagrams · bytes                frames                hits
//!  Sender ──► Wire ──► Receive ──► Unpack ──► Decode ──► Order ──► Record
//!               │         │          │           │          │         │
//!               └────── lost{reason}, overhead, filtered, held ───────┘
//!                              fragments          events
//!  Trigger    Sender ──► Wire … Unpack ──► Build ──► Ship ──► Record
//! ```
//! What must balance, checked by [`LedgerSnapshot::discrepancies`], is read from the [topology](crate::topology) of the run:
//!
//! 1. *inside* a stage: `in = out + overhead + filtered + lost + held`; of what comes into being there, as frames where they are
//!    framed, `in` is what did;
//! 2. *between* stages: what one put out is what those took in that it feeds;
//! 3. what two count by different means, as sequence numbers and framing, is the same;
//! 4. *in a builder*, over all boards: fragments in events + fragments missing = boards × events. Boards are read apart, so this
//!    holds at the end of a run and not at a marker.
//!
//! Every number is counted where the thing happens, by one writer, from the containers themselves; none is
//! the remainder of others. So a forgotten increment shows: take any one away and the ledger does not balance.
//! What was refused here was found to be missing on the wire, too: it has filled that gap, and is one loss.
//! Counters have a copy in a mapped file, so that they survive the process; [`Counters`] are published between batches.

mod added;
mod carrier;
mod claims;
mod counters;
mod description;
mod file;
mod losses;
mod mirror;
mod reasons;
#[cfg(debug_assertions)]
pub mod site;
mod snapshot;
mod stages;
mod vocabulary;

pub use added::{Added, MOST_ADDED, WordError};
pub use carrier::Carrier;
pub use counters::{Counters, UnitCounts};
pub use file::{CounterSlot, Ledger, LedgerError};
pub use losses::{LossKind, LossReport, LossTotal, LostCount, percent_of};
pub use reasons::{LossNature, LossReasonDescription, Quality};
pub use snapshot::{CounterSnapshot, Discrepancy, Entries, LedgerSnapshot, Loss};
pub use stages::{StageDescription, StageRole};
pub use vocabulary::{LossReason, Noted, Stage, Unit};
