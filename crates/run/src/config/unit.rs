//! `[[unit]]`: one of the units that build events together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_transport::peer::Endpoint;

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
    /// Of a builder unit: memory for what it receives from readout units of other processes, bytes; over `shm://` for what is copied.
    #[serde(default = "default_memory_bytes")]
    pub memory_bytes: u64,
}

fn default_memory_bytes() -> u64 {
    64 << 20
}

impl UnitSettings {
    /// Returns true if it builds of what processes of this host have received, and reads that in their memory.
    pub(crate) fn reads_shared_memory(&self) -> bool {
        let is_shared = |url: &String| matches!(Endpoint::parse(url), Ok(Endpoint::Shm(_)));
        self.kind == UnitKind::Builder && self.listen.as_ref().is_some_and(is_shared)
    }

    /// Returns the URL at which the unit listens.
    pub(crate) fn url(&self) -> String {
        self.listen.clone().unwrap_or_else(|| format!("inproc://{}", self.name))
    }
}
