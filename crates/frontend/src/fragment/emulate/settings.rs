//! Settings of emulated boards of fragments.
//!
//! ```text
//!  configuration ─► Settings ─ check ─► Board
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::emulated_settings::SettingsError;
use crate::emulated_settings::check;
use crate::fragment::emit::part_bytes;
use crate::fragment::wire::{HEADER_BYTES, MOST_PARTS};

/// Longest payload in bytes, which fits 128 UDP datagrams.
const MOST_PAYLOAD_BYTES: u32 = 8 << 20;
/// Largest UDP payload over IPv4.
const MOST_DATAGRAM_BYTES: u32 = 65_507;

/// Settings of emulated boards that send fragments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Payload bytes of a fragment, or the maximum if `shortest_payload_bytes` is given.
    pub payload_bytes: u32,
    /// Makes sizes random, uniformly between this and `payload_bytes`.
    pub shortest_payload_bytes: Option<u32>,
    /// Largest datagram in bytes, with its header. A longer fragment is sent in several.
    pub datagram_bytes: u32,
    /// Sends fragments in a stream instead of datagrams.
    pub stream: bool,
    /// Sends the CRC-32C over header and payload.
    pub checksum: bool,
    /// Run number in the headers.
    pub run: u32,
    /// Bits of the board's trigger counter; higher bits are sent as 0.
    pub trigger_bits: u32,
    /// One count of the board's clock in picoseconds.
    pub tick_ps: u64,
    /// The same seed gives the same content.
    pub seed: u64,
    /// Fraction of the payload that is random, 0 to 1; the rest is 0. A compressor leaves about this fraction.
    pub random_share: f64,
    /// Prepared content in KiB. A large one is incompressible over many fragments; a small one stays in the cache.
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
    /// Checks the settings.
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
        let most = MOST_PARTS * part_bytes(datagram as usize);
        let fits = self.stream || bytes as usize <= most;
        check(fits, "payload_bytes", bytes, format!("at most {most}: a fragment has at most 128 datagrams"))?;
        check((1..=64).contains(&self.trigger_bits), "trigger_bits", self.trigger_bits, "1 to 64")?;
        check(self.tick_ps > 0, "tick_ps", self.tick_ps, "1 or more")?;
        let fraction = self.random_share;
        check((0.0..=1.0).contains(&fraction), "random_share", fraction, "0 to 1")?;
        check((1..=1 << 16).contains(&self.prepared_kib), "prepared_kib", self.prepared_kib, "1 to 65536")
    }

    /// Shortest payload of a board in bytes.
    pub fn shortest_payload_bytes(&self) -> u32 {
        self.shortest_payload_bytes.unwrap_or(self.payload_bytes)
    }
}
