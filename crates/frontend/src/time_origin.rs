//! Where the times of a source begin: for boards whose clocks count from a moment so far back that 64 bits of picoseconds, 106 days,
//! cannot say it.
//!
//! ```text
//!  first unit ─ framing ─► origin ─► decoders: time = (count − origin) × tick
//! ```

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is time 0 of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeOrigin {
    /// The board's own count of 0. Times beyond 106 days are lost as `time_range`.
    #[default]
    Board,
    /// The source's first hit: for clocks that count since 1970 or the like. Sources with this origin do not share a time.
    FirstHit,
}

/// The count that becomes time 0. The framing, which sees all units in order, finds it; its decoders share it, so that it does not
/// depend on which of them is first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedOrigin(Option<Arc<OnceLock<i128>>>);

impl SharedOrigin {
    pub(crate) fn of(origin: TimeOrigin) -> SharedOrigin {
        SharedOrigin((origin == TimeOrigin::FirstHit).then(Arc::default))
    }

    /// A unit of this count is seen: the first one is the origin.
    #[inline]
    pub(crate) fn see(&self, count: impl FnOnce() -> i128) {
        if let Some(origin) = &self.0 {
            origin.get_or_init(count);
        }
    }

    /// The origin, 0 where the board's own is; that of `count` where no unit was seen before.
    #[inline]
    pub(crate) fn count(&self, count: impl FnOnce() -> i128) -> i128 {
        self.0.as_ref().map_or(0, |origin| *origin.get_or_init(count))
    }
}
