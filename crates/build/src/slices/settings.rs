//! Defines the settings of time slices: the `[slices]` table of the configuration.

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
    /// How far after its arrival a time may lie, in milliseconds: what lies later is damaged. A wrong time within it moves its
    /// source on, and what comes before the source is there is late. 0 where times have nothing to do with the arrival, as in a
    /// file.
    pub ahead_ms: u64,
    /// A source from which nothing has come for so long, in milliseconds, has had nothing to say: its slices leave empty. With 0
    /// they wait for its next message, and are incomplete at `[build] age_ms`.
    pub silence_ms: u64,
    /// Memory for hits that wait for other sources and for the recording, in bytes, over all sources. Fragments lie in their
    /// sources' blocks.
    pub memory_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            slice_ps: 10_000_000_000,
            disorder_ps: 1_000_000_000,
            ahead_ms: 1000,
            silence_ms: 200,
            memory_bytes: 256 << 20,
        }
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

/// Bytes of the blocks that hits are copied into.
pub const HIT_BLOCK_BYTES: usize = 64 << 10;

impl Settings {
    /// Blocks for the hits of each of so many sources.
    pub fn hit_blocks(&self, sources: usize) -> usize {
        (self.memory_bytes / sources.max(1) as u64) as usize / HIT_BLOCK_BYTES
    }

    /// The builder of slices: their numbers begin at 0 with the run and never come round, and there are rows for all that may
    /// be open, with the margin that one source may be ahead of the others.
    pub fn builder(&self, build: &crate::Settings) -> crate::Settings {
        let open =
            build.age_ms.saturating_add(self.silence_ms).saturating_mul(1_000_000_000) / self.slice_ps.max(1);
        let depth = open.saturating_mul(4).clamp(16, 1 << 20).next_power_of_two() as usize;
        crate::Settings {
            depth: build.depth.max(depth),
            trigger_bits: 64,
            first_trigger: Some(0),
            ..build.clone()
        }
    }

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
