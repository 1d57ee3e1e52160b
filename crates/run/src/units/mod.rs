//! Event building over several units, in this process or many: who there is, and what of it is hosted here.
//!
//! ```text
//!  [[unit]] kind = "readout" | "builder" | "manager" ─► UnitPlan ─► a thread each: machine, connections, and its work; a builder's files have one of their own
//!
//!  reader: receive, split, build ══Events══► readout unit ═══ peers ═══► builder unit: record
//!                                                  └── peers ── event manager ── peers ──┘
//! ```
//! Without any `[[unit]]` the events that the reader has built go straight to the recorder. The rules of the protocol are in
//! [`thalweg_build::unit`]; here are threads and connections.

mod earlier_starts;
mod host;
mod identity;
mod ranges;
mod work;

pub(crate) use earlier_starts::recall;
pub(crate) use host::{UnitEndpoint, UnitHost};
pub(crate) use identity::{identity, identity_record, run_number};
pub(crate) use ranges::{KnownManager, Managers, RangeInbox, RangeNotes};
pub(crate) use work::{BuilderWork, FirstWord, GateWork, ManagerWork, ReadoutWork, Work};
