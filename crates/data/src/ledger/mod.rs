//! The ledger: every byte and every hit that came in is recorded, filtered, held, or lost for a stated
//! reason at a stated stage, and the sums balance exactly for each source.
//!
//! ```text
//!             datagrams · bytes                frames                hits
//!  Sender ──► Wire ──► Receive ──► Unpack ──► Decode ──► Order ──► Record
//!               │         │          │           │          │         │
//!               └────── lost{reason}, overhead, filtered, held ───────┘
//!                              fragments          events
//!  Trigger    Sender ──► Wire … Unpack ──► Build ──► Ship ──► Record
//! ```
//! The balance equations follow from the [topology](crate::topology) of the run. [`LedgerSnapshot::discrepancies`] checks them:
//!
//! 1. *inside* a stage: `in = out + overhead + filtered + lost + held`. If a stage makes a unit, such as a framing that makes frames,
//!    `in` counts the units made;
//! 2. *between* stages: the `out` of a stage is the `in` of the stages that it feeds;
//! 3. two stages that count the same by different means, such as sequence numbers and framing, have the same number;
//! 4. *in a builder*, over all boards: fragments in events + fragments missing = boards × events. Boards are read independently, so
//!    this holds at the end of a run and not at a marker.
//!
//! Every number is counted where the event happens, by one writer, from the containers themselves; none is
//! the remainder of others. So a missing increment is found: without any single one, the ledger does not balance.
//! A datagram or fragment that is refused here was first found missing on the wire: it fills that gap, and counts as one loss.
//! A mapped file has a copy of the counters, which survives the process. Stages publish their [`Counters`] between batches.

mod added;
mod carrier;
mod claims;
mod counters;
mod description;
mod file;
mod kept;
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
pub use counters::{Counters, MOST_COUNT, UnitCounts};
pub use file::{CounterSlot, Ledger, LedgerError};
pub use kept::{DataKept, Kept, SLICED_HIT_BYTES};
pub use losses::{LossKind, LossReport, LossTotal, LostCount, percent_of};
pub use reasons::{LossNature, LossReasonDescription, Quality};
pub use snapshot::{CounterSnapshot, Discrepancy, Entries, LedgerSnapshot, Loss};
pub use stages::{StageDescription, StageRole};
pub use vocabulary::{LossReason, Noted, Stage, Unit};
