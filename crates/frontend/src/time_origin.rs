//! The origin of the times of a source, for boards whose clocks started so long ago that 64 bits of picoseconds, 106
//! days, cannot express their times.
//!
//! ```text
//!  first unit ─ framing ─► origin ─► decoders: time = (count − origin) × tick
//! ```

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The origin of the times of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeOrigin {
    /// The board's count of 0. Times beyond 106 days are lost as `time_range`.
    #[default]
    Board,
    /// The source's first hit, for clocks that count since 1970 or similar. Sources with this origin have no common
    /// time.
    FirstHit,
}

/// The count that becomes time 0. The framing, which sees all units in order, sets it; its decoders share it, so that
/// it does not depend on which of them is first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedOrigin(Option<Arc<OnceLock<i128>>>);

impl SharedOrigin {
    pub(crate) fn of(origin: TimeOrigin) -> SharedOrigin {
        SharedOrigin((origin == TimeOrigin::FirstHit).then(Arc::default))
    }

    /// Called for each unit; the count of the first one is the origin.
    #[inline]
    pub(crate) fn see(&self, count: impl FnOnce() -> i128) {
        if let Some(origin) = &self.0 {
            origin.get_or_init(count);
        }
    }

    /// The origin: 0 for that of the board; `count` if there was no unit before.
    #[inline]
    pub(crate) fn count(&self, count: impl FnOnce() -> i128) -> i128 {
        self.0.as_ref().map_or(0, |origin| *origin.get_or_init(count))
    }
}
