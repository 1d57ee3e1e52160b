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

mod host;
mod identity;
mod key;
mod plan;
mod ranges;
mod recall;
mod work;

pub(crate) use host::{UnitEndpoint, UnitHost};
pub(crate) use identity::{identity, identity_record, run_number};
pub(crate) use key::{has_key, shared_key};
pub use plan::UnitPlanError;
pub(crate) use plan::{
    BLOCK_BYTES, GATE_BLOCKS, Readout, TRIGGER, UnitPlan, drives_busy, drives_devices, gate, has_emulated,
};
pub(crate) use ranges::{HeardManager, Managers, RANGES_BYTES, RangeInbox, RangeNotes};
pub(crate) use recall::recall;
pub(crate) use work::{BuilderWork, FirstWord, GateWork, ManagerWork, ReadoutWork, Work};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a unit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnitKind {
    /// Reads sources, builds their events, and keeps them until a builder unit has written them.
    Readout,
    /// Puts the parts of all readout units together, and records.
    Builder,
    /// Gives ranges of triggers to builder units. There is one.
    Manager,
}

/// One `[[unit]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitSettings {
    /// A short name, unique in the file.
    pub name: String,
    /// What it does.
    pub kind: UnitKind,
    /// Of a readout unit: the names of its sources, neighbours in the file.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Of a builder unit and the manager: where the others reach it, `tcp://HOST:PORT` or `shm://NAME`; without it
    /// `inproc://` and the name, which is for units of one process.
    #[serde(default)]
    pub listen: Option<String>,
    /// The node that hosts it: `thalweg run FILE --node NAME`. Without `--node` one process hosts all.
    #[serde(default)]
    pub node: Option<String>,
    /// Of a builder unit: memory for what it receives from readout units of other processes, bytes.
    #[serde(default = "default_memory_bytes")]
    pub memory_bytes: u64,
}

fn default_memory_bytes() -> u64 {
    64 << 20
}

impl UnitSettings {
    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        self.listen.clone().unwrap_or_else(|| format!("inproc://{}", self.name))
    }
}

/// The thread of a builder unit's files.
pub(crate) fn files_of(builder: &UnitSettings) -> String {
    format!("{}-record", builder.name)
}
