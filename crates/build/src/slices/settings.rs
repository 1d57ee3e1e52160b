//! What an operator can say about time slices: the `[slices]` table of the configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::timeline::Timeline;

/// How time is cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Length of a slice in picoseconds.
    pub slice_ps: u64,
    /// How far before the latest time of its source a time may still lie, in picoseconds: a slice stays open so long. What
    /// comes later still is lost as late.
    pub disorder_ps: u64,
    /// How far after its arrival a time may lie, in milliseconds: what lies later is damaged, and would move its source on
    /// for good. Left out where times have nothing to do with the arrival, as in a file.
    pub ahead_ms: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { slice_ps: 10_000_000_000, disorder_ps: 1_000_000_000, ahead_ms: Some(1000) }
    }
}

/// Time that cannot be cut so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// Slices of no length, or of more than there is time.
    #[error("`[slices] slice_ps = {slice_ps}` is not possible: 1 ns to 1 hour, in picoseconds")]
    Length {
        /// The length asked for.
        slice_ps: u64,
    },
    /// More slices of one source open at once than it has places.
    #[error(
        "`[slices] disorder_ps = {disorder_ps}` keeps more than {most} slices of {slice_ps} ps open at once; \
         make slices longer, or sort the source first"
    )]
    Disorder {
        /// The disorder asked for.
        disorder_ps: u64,
        /// The length of a slice.
        slice_ps: u64,
        /// Most slices that are open at once.
        most: u64,
    },
}

impl Settings {
    /// Whether time can be cut so.
    ///
    /// # Errors
    /// Names the key that cannot be, and what could.
    pub fn check(&self) -> Result<(), SliceError> {
        let Settings { slice_ps, disorder_ps, .. } = *self;
        if !(1000..=3_600_000_000_000_000).contains(&slice_ps) {
            return Err(SliceError::Length { slice_ps });
        }
        let most = Timeline::MOST_OPEN;
        match disorder_ps / slice_ps + 2 > most {
            true => Err(SliceError::Disorder { disorder_ps, slice_ps, most }),
            false => Ok(()),
        }
    }
}
