//! An emulated board: hits at random times, with random channels and energies.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::BoardId;

use super::wire;
use crate::emulated_settings::{SettingsError, check};
use crate::format::SelfTriggeredSettings;
use crate::self_triggered::{NumberedBoard, SelfTriggeredBoard};
use crate::unit_decode::BoardHit;

/// An emulated board.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Number of the board, in its datagrams.
    pub board: u16,
    /// Number of channels, 1 to 1024.
    pub channels: u16,
    /// Hits per second of all channels together, above 0 and at most 1e7.
    pub rate_hz: f64,
    /// The same seed gives the same hits.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { board: 0, channels: 16, rate_hz: 10_000.0, seed: 1 }
    }
}

impl SelfTriggeredSettings for Settings {
    fn check(&self) -> Result<(), SettingsError> {
        check((1..=1024).contains(&self.channels), "channels", self.channels, "1 to 1024")?;
        check(self.rate_hz > 0.0 && self.rate_hz <= 1e7, "rate_hz", self.rate_hz, "above 0, at most 1e7")
    }

    fn board(&self) -> Result<Box<dyn SelfTriggeredBoard>, SettingsError> {
        self.check()?;
        let (settings, board) = (self.clone(), BoardId(self.board));
        let run = move || settings.hits();
        let emit = move |number, hits: &[_], to: &mut _| wire::emit(board, number as u32, hits, to);
        Ok(Box::new(NumberedBoard::new(1000, wire::HITS_PER_DATAGRAM, run, emit)))
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn rate_hz(&self) -> f64 {
        self.rate_hz
    }
}

impl Settings {
    /// The hits of a run.
    fn hits(&self) -> impl Iterator<Item = BoardHit> + use<> {
        let Settings { channels, rate_hz, seed, .. } = *self;
        let (mut random, mut time_ns) = (Pcg64Mcg::seed_from_u64(seed), 0.0);
        std::iter::repeat_with(move || {
            // Intervals between random events have an exponential distribution.
            time_ns -= (1.0 - random.random::<f64>()).ln() / rate_hz * 1e9;
            let (channel, energy) = (random.random_range(0..channels), random.random_range(0..4096));
            BoardHit { ticks: time_ns as u64, channel, energy, ..BoardHit::default() }
        })
    }
}
