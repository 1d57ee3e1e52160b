//! What an operator can say about building: the `[build]` table of the configuration.
//!
//! ```text
//!  [build]
//!  depth = 2048             triggers that may be open at once
//!  age_ms = 1000            an event is waited for this long
//!  incomplete = "partial"   or "wait", "drop", "stop"
//!  full = "close"           or "hold", when newer triggers need the room
//!  trigger_bits = 32        width of the boards' trigger numbers
//!  ordered = true           events leave in the order of their numbers
//!  memory_bytes = 536870912
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;

/// Settings of a builder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How many triggers may be open at once, a power of two. One source alone may be ahead of all others by half of it.
    pub depth: usize,
    /// An event that is incomplete so many milliseconds after its first fragment is closed as `incomplete` says.
    pub age_ms: u64,
    /// What becomes of an event that is incomplete at its age, or when newer triggers need the room. With several readout units it is
    /// `partial`: none of them has all boards.
    pub incomplete: Incomplete,
    /// What happens when newer triggers need the room of an event that is incomplete and not yet of age. Where memory is short the
    /// sources wait in any case, until the oldest event is complete or of age; when the run is stopped, it leaves.
    pub full: Full,
    /// Width of the boards' trigger numbers in bits, 8 to 64: after 2^bits they begin at 0 again. A number that does not
    /// fit is counted as out of window, and with 63 or 64 bits one of 2^62 or more, since such numbers do not begin again.
    pub trigger_bits: u32,
    /// The number that every board gives to the run's first trigger. Left out, two sources that agree define it.
    pub first_trigger: Option<u64>,
    /// Whether events leave in the order of their trigger numbers. Otherwise a complete event leaves at once.
    pub ordered: bool,
    /// Most payload that may wait for other sources, in bytes, over all sources.
    pub memory_bytes: u64,
    /// Most payload of one source that may wait for others, in bytes; above it, the source is not read. Left out: an equal
    /// share of `memory_bytes`, and at least 1 MiB.
    pub source_bytes: Option<u64>,
    /// How many slices beyond the first of each fragment may wait, of fragments that came in several datagrams. Left out:
    /// one for every second fragment, and at least 4096.
    pub chained_slices: Option<usize>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            depth: 2048,
            age_ms: 1000,
            incomplete: Incomplete::Partial,
            full: Full::Close,
            trigger_bits: 32,
            first_trigger: None,
            ordered: true,
            memory_bytes: 512 << 20,
            source_bytes: None,
            chained_slices: None,
        }
    }
}

/// What becomes of an event for which not every source has answered in time. It is counted whatever becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Incomplete {
    /// It is waited for, for ever: the sources are not read meanwhile. At the end of the run what is there leaves.
    Wait,
    /// It leaves as it is, with the list of missing sources.
    #[default]
    Partial,
    /// Its fragments are lost for the reason [`Incomplete`](thalweg_data::LossReason::Incomplete).
    Drop,
    /// The run ends with an error.
    Stop,
}

/// What happens when newer triggers need the room of an event that is not yet of age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    /// The oldest event is closed as `incomplete` says. For datagrams, which cannot wait.
    #[default]
    Close,
    /// The sources are not read until the oldest event is complete or of age. For streams.
    Hold,
}

/// A fragment that comes in several datagrams has at least so many bytes in each: with less, headers would be cut.
const LEAST_CHAINED_BYTES: u64 = 16;

impl Settings {
    /// Most sources of one builder.
    pub const MOST_SOURCES: usize = 4096;

    /// Whether a builder can be made of these.
    ///
    /// # Errors
    /// Names the key that cannot be, and what could.
    pub fn check(&self) -> Result<(), BuildError> {
        let Settings { depth, trigger_bits: bits, .. } = *self;
        if !depth.is_power_of_two() || !(16..=1 << 20).contains(&depth) {
            return Err(BuildError::Depth { depth });
        }
        check_bits(depth, bits)?;
        if let Some(first) = self.first_trigger.filter(|first| *first > largest_number(bits)) {
            return Err(BuildError::FirstTrigger { first, bits });
        }
        let zero = [
            ("memory_bytes", self.memory_bytes == 0),
            ("source_bytes", self.source_bytes == Some(0)),
            ("chained_slices", self.chained_slices == Some(0)),
        ];
        if let Some((key, _)) = zero.into_iter().find(|(_, is_zero)| *is_zero) {
            return Err(BuildError::NoMemory { key });
        }
        let (memory_bytes, most) = (self.memory_bytes, (self.memory_bytes / LEAST_CHAINED_BYTES).max(4096));
        match self.chained_slices {
            Some(found) if found as u64 > most => {
                Err(BuildError::ChainedSlices { found, memory_bytes, most })
            }
            _ => Ok(()),
        }
    }

    /// Most payload of one of `sources` that may wait, bytes.
    pub fn bytes_per_source(&self, sources: usize) -> u64 {
        self.source_bytes.unwrap_or((self.memory_bytes / sources.max(1) as u64).max(1 << 20))
    }

    /// How many slices beyond the first of each fragment may wait.
    pub fn chained_slices_of(&self, sources: usize) -> usize {
        self.chained_slices.unwrap_or((sources * self.depth / 2).max(4096)).min(1 << 30)
    }
}

/// Whether numbers of `bits` bits can be distinguished around a window of `depth`.
pub(super) fn check_bits(depth: usize, bits: u32) -> Result<(), BuildError> {
    if !(8..=64).contains(&bits) {
        return Err(BuildError::TriggerBits { bits });
    }
    // As many numbers before the window as in it and beyond: late ones are distinguished from early ones.
    let most = 1u64 << (bits - 2);
    match depth as u64 > most {
        true => Err(BuildError::DepthBeyondBits { depth, bits, most }),
        false => Ok(()),
    }
}

/// The largest number of `bits` bits that is taken; of 63 and 64 bits it is below 2^62. No board counts so far, and neither the difference of
/// two such numbers nor a number beyond the window overflows.
pub(super) fn largest_number(bits: u32) -> u64 {
    u64::MAX >> (64 - bits).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_possible() {
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let refused = |settings: Settings| settings.check().expect_err("not possible").to_string();
        assert!(refused(Settings { depth: 1000, ..Settings::default() }).contains("power of two"));
        let narrow = refused(Settings { trigger_bits: 8, depth: 128, ..Settings::default() });
        assert!(narrow.contains("at most 64 triggers"), "{narrow}");
        let first = Settings { trigger_bits: 16, first_trigger: Some(70_000), ..Settings::default() };
        assert!(refused(first).contains("first_trigger"));
        assert!(refused(Settings { source_bytes: Some(0), ..Settings::default() }).contains("source_bytes"));
    }

    #[test]
    fn words_are_those_of_the_configuration() {
        let settings: Settings =
            serde_json::from_str(r#"{ "incomplete": "stop", "full": "hold" }"#).expect("valid");
        assert_eq!((settings.incomplete, settings.full), (Incomplete::Stop, Full::Hold));
        assert!(serde_json::from_str::<Settings>(r#"{ "dept": 1 }"#).is_err());
    }
}
