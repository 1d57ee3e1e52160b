//! What an emulated board of fragments is asked to be.
//!
//! ```text
//!  configuration ─► Settings ─ check ─► Board
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::emulated_settings::SettingsError;
use crate::emulated_settings::check;
use crate::fragment::emit::piece_bytes;
use crate::fragment::wire::{HEADER_BYTES, MOST_PIECES};

/// Longest payload, bytes: what 128 datagrams of UDP hold.
const MOST_PAYLOAD_BYTES: u32 = 8 << 20;
/// Largest UDP payload over IPv4.
const MOST_DATAGRAM_BYTES: u32 = 65_507;

/// Settings of emulated boards that send fragments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Payload bytes of a fragment; the most, where `shortest_payload_bytes` is given.
    pub payload_bytes: u32,
    /// With it sizes are at random between this and `payload_bytes`, all alike probable.
    pub shortest_payload_bytes: Option<u32>,
    /// Largest datagram, header included, bytes. A longer fragment is sent in several.
    pub datagram_bytes: u32,
    /// Fragments leave in a stream instead of datagrams.
    pub stream: bool,
    /// Send the CRC-32C over header and payload.
    pub checksum: bool,
    /// Number of the run.
    pub run: u32,
    /// Bits of the trigger number that the board counts; higher ones are sent as 0.
    pub trigger_bits: u32,
    /// One count of the board's clock, picoseconds.
    pub tick_ps: u64,
    /// The same seed gives the same content.
    pub seed: u64,
    /// Share of the payload that is random, 0 to 1; the rest is 0. A compressor leaves about that share.
    pub random_share: f64,
    /// Prepared content, KiB. A large one stays incompressible also over many fragments; a small one stays in the cache.
    pub prepared_kib: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            payload_bytes: 1024,
            shortest_payload_bytes: None,
            datagram_bytes: 8972,
            stream: false,
            checksum: false,
            run: 0,
            trigger_bits: 64,
            tick_ps: 1000,
            seed: 1,
            random_share: 1.0,
            prepared_kib: 256,
        }
    }
}

impl Settings {
    /// Says whether a board can be like this.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    pub fn check(&self) -> Result<(), SettingsError> {
        let (bytes, shortest) = (self.payload_bytes, self.shortest_payload_bytes());
        check(bytes <= MOST_PAYLOAD_BYTES, "payload_bytes", bytes, "0 to 8388608")?;
        check(shortest <= bytes, "shortest_payload_bytes", shortest, "at most `payload_bytes`")?;
        let (datagram, least) = (self.datagram_bytes, HEADER_BYTES as u32 + 8);
        let sizes = least..=MOST_DATAGRAM_BYTES;
        check(sizes.contains(&datagram), "datagram_bytes", datagram, format!("{least} to 65507"))?;
        let most = MOST_PIECES * piece_bytes(datagram as usize);
        let fits = self.stream || bytes as usize <= most;
        check(fits, "payload_bytes", bytes, format!("at most {most}: a fragment has at most 128 datagrams"))?;
        check((1..=64).contains(&self.trigger_bits), "trigger_bits", self.trigger_bits, "1 to 64")?;
        check(self.tick_ps > 0, "tick_ps", self.tick_ps, "1 or more")?;
        let fraction = self.random_share;
        check((0.0..=1.0).contains(&fraction), "random_share", fraction, "0 to 1")?;
        check((1..=1 << 16).contains(&self.prepared_kib), "prepared_kib", self.prepared_kib, "1 to 65536")
    }

    /// Shortest payload that a board sends, bytes.
    pub fn shortest_payload_bytes(&self) -> u32 {
        self.shortest_payload_bytes.unwrap_or(self.payload_bytes)
    }
}
