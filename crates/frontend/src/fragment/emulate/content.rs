//! The content of emulated fragments, which depends on board, trigger and seed alone.
//!
//! ```text
//!  prepared:  |…random, partly 0…|…as much again as the longest payload|
//!                   ▲ └ size(board, trigger) ┘
//!             start(board, trigger)
//! ```
//! The payload is a range of prepared bytes that starts at a position given by board and trigger. Nothing is computed
//! per byte, and a fragment with the content of another is detected, except for one in the number of positions (32768
//! by default).

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_data::BoardId;

use super::settings::{Settings, SettingsError};

/// Payloads start at multiples of this.
const STEP: u64 = 8;
/// Random and zero bytes alternate at this distance.
const STRIPE: usize = 64;

/// The prepared bytes, and the positions of payloads in them.
#[derive(Clone, Debug)]
pub struct Content {
    prepared: Vec<u8>,
    starts: u64,
    shortest: u32,
    sizes: u64,
    seed: u64,
    trigger_mask: u64,
}

impl Content {
    /// Prepares the content of the boards of these settings.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(settings: &Settings) -> Result<Content, SettingsError> {
        settings.check()?;
        let starts_bytes = settings.prepared_kib as usize * 1024;
        let mut prepared = vec![0; starts_bytes + settings.payload_bytes as usize];
        let mut random = Pcg64::seed_from_u64(settings.seed);
        for stripe in prepared.chunks_mut(STRIPE) {
            let exact = settings.random_share * stripe.len() as f64;
            let filled = (exact.floor() + f64::from(random.random_bool(exact.fract()))) as usize;
            random.fill_bytes(&mut stripe[..filled]);
        }
        let shortest = settings.shortest_payload_bytes();
        Ok(Content {
            prepared,
            starts: starts_bytes as u64 / STEP,
            shortest,
            sizes: u64::from(settings.payload_bytes - shortest) + 1,
            seed: settings.seed,
            trigger_mask: u64::MAX >> (64 - settings.trigger_bits),
        })
    }

    /// The payload of a board for a trigger.
    #[inline]
    pub fn payload(&self, board: BoardId, trigger: u64) -> &[u8] {
        let mixed = mix(self.seed ^ u64::from(board.0) << 48 ^ (trigger & self.trigger_mask));
        let start = scaled(mixed as u32, self.starts) * STEP;
        let size = u64::from(self.shortest) + scaled((mixed >> 32) as u32, self.sizes);
        &self.prepared[start as usize..][..size as usize]
    }

    /// Whether `payload` is that of this board for this trigger.
    pub fn is_payload(&self, board: BoardId, trigger: u64, payload: &[u8]) -> bool {
        self.payload(board, trigger) == payload
    }
}

/// A number below `limit`, which is below 2^32.
#[inline]
fn scaled(random: u32, limit: u64) -> u64 {
    (u64::from(random) * limit) >> 32
}

/// Spreads a number over all 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
#[inline]
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}
