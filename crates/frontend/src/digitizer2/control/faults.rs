//! What an emulated board does wrong on its control port, to try what a run does about it.
//!
//! ```text
//!  Faults ─► Server: /par/acquisitionstatus, /par/errorflags
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Faults of a board with a control port; an `emulate://` source has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Milliseconds from the command to arm until the board reports that it is armed.
    pub arm_ms: u32,
    /// Milliseconds from the command to arm until its clock loses its lock; without it, the clock stays locked.
    pub unlock_ms: Option<u32>,
}

impl Faults {
    pub(super) fn arm_ns(&self) -> u64 {
        u64::from(self.arm_ms) * 1_000_000
    }

    pub(super) fn unlock_ns(&self) -> u64 {
        self.unlock_ms.map_or(u64::MAX, |unlock_ms| u64::from(unlock_ms) * 1_000_000)
    }
}
