//! Invalid builder settings.

/// A builder that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No source, or more than a table of columns is made for.
    #[error("a builder of {sources} sources is not possible: 1 to {most}")]
    Sources {
        /// How many were asked for.
        sources: usize,
        /// Most that are possible.
        most: usize,
    },
    /// A depth that rows cannot be found by.
    #[error("`[build] depth = {depth}` is not possible: a power of two from 16 to 1048576 triggers")]
    Depth {
        /// The depth asked for.
        depth: usize,
    },
    /// A width that no trigger number has.
    #[error("`[build] trigger_bits = {bits}` is not possible: 8 to 64")]
    TriggerBits {
        /// The width asked for.
        bits: u32,
    },
    /// Numbers that come round before the window is through: old ones could not be distinguished from new ones.
    #[error(
        "`[build] depth = {depth}` does not go with trigger numbers of {bits} bits, which come round after 2^{bits}: \
         at most {most} triggers"
    )]
    DepthBeyondBits {
        /// The depth asked for.
        depth: usize,
        /// The width of the numbers.
        bits: u32,
        /// The deepest window for that width.
        most: u64,
    },
    /// A first trigger that the numbers cannot name.
    #[error("`[build] first_trigger = {first}` does not fit trigger numbers of {bits} bits")]
    FirstTrigger {
        /// The number asked for.
        first: u64,
        /// The width of the numbers.
        bits: u32,
    },
    /// More chained slices than payload.
    #[error(
        "`[build] chained_slices = {found}` is more than memory_bytes = {memory_bytes} can hold fragments in; at most {most}"
    )]
    ChainedSlices {
        /// How many were asked for.
        found: usize,
        /// The payload that may wait, bytes.
        memory_bytes: u64,
        /// How many are possible.
        most: u64,
    },
    /// No memory at all for what waits.
    #[error("`[build] {key} = 0` leaves no memory for fragments; leave the key out for a default")]
    NoMemory {
        /// The key.
        key: &'static str,
    },
}
