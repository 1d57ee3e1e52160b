//! What an emulated SiTCP board is asked to be.
//!
//! ```text
//!  configuration ─► Settings ─ validate ─► Board
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sitcp::settings::Profile;
use crate::sitcp::wire::recbe::{CHANNELS, LONGEST_BODY, SAMPLE_BYTES};
use crate::sitcp::wire::{adc_sitcp, str_tdc};

/// What RECBE and Belle II boards send of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every sample of every channel.
    Raw,
    /// Channels with a hit alone.
    #[default]
    Suppressed,
}

/// What goes wrong, each at every n-th trigger; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Nothing is sent for the trigger, but the board counts it.
    pub lose_every: u32,
    /// The block is sent twice.
    pub double_every: u32,
    /// The body is empty: a trigger without a hit.
    pub empty_every: u32,
    /// The body has 12 bytes, like a header (suppressed mode; the shortest one in others).
    pub twelve_every: u32,
}

/// Settings of an emulated board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What the board sends.
    pub profile: Profile,
    /// RECBE and Belle II: raw or suppressed.
    pub mode: Mode,
    /// Samples of each channel: raw mode and ADC-SiTCP.
    pub window: u16,
    /// Mean number of channels that are hit per trigger; of the streaming TDC edges per frame. Without it 41 of 48
    /// channels, which makes suppressed blocks of about 380 bytes, 4 of 16, and 40 edges.
    pub hits: Option<f64>,
    /// Fills suppressed bodies up to a multiple of four bytes, as Belle II boards do.
    pub pads: bool,
    /// Number of the run's first trigger, to try what happens where numbers wrap.
    pub first_trigger: u32,
    /// Different bodies, sent in turn.
    pub prepared: u16,
    /// Seed of the bodies.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Faults,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            profile: Profile::default(),
            mode: Mode::default(),
            window: 32,
            hits: None,
            pads: false,
            first_trigger: 0,
            prepared: 32,
            seed: 1,
            faults: Faults::default(),
        }
    }
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// More samples than a block can have.
    #[error("`window = {found}`: a block of this profile holds at most {most} samples")]
    Window {
        /// What was written.
        found: u16,
        /// Most samples.
        most: usize,
    },
    /// Not a possible mean.
    #[error("`hits = {found}` must be 0 to {most}")]
    Hits {
        /// What was written.
        found: f64,
        /// Highest mean.
        most: usize,
    },
    /// No body to send, or more than is worth the memory.
    #[error("`prepared = {found}` must be 1 to {}", Settings::MOST_PREPARED)]
    Prepared {
        /// What was written.
        found: u16,
    },
}

/// Most samples of an emulated ADC-SiTCP event: 128 KiB.
const MOST_ADC_SAMPLES: usize = (128 << 10) / adc_sitcp::SAMPLE_BYTES;

impl Settings {
    /// Most different bodies.
    pub const MOST_PREPARED: u16 = 4096;

    /// Whether the settings can be used.
    ///
    /// # Errors
    /// Says which value cannot, and what would.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let most = match self.profile {
            Profile::AdcSitcp => MOST_ADC_SAMPLES,
            _ => LONGEST_BODY / SAMPLE_BYTES,
        };
        if usize::from(self.window) > most {
            return Err(SettingsError::Window { found: self.window, most });
        }
        let most = match self.profile {
            Profile::Recbe | Profile::Belle2 => CHANNELS,
            Profile::AdcSitcp => adc_sitcp::CHANNELS,
            // Twice the mean still fits a frame.
            Profile::StrTdc => str_tdc::LONGEST_DATA / str_tdc::WORD_BYTES / 2,
        };
        if let Some(found) = self.hits
            && !(0.0..=most as f64).contains(&found)
        {
            return Err(SettingsError::Hits { found, most });
        }
        if !(1..=Self::MOST_PREPARED).contains(&self.prepared) {
            return Err(SettingsError::Prepared { found: self.prepared });
        }
        Ok(())
    }

    /// Mean number of channels that are hit, or of edges.
    pub fn mean_hits(&self) -> f64 {
        self.hits.unwrap_or(match self.profile {
            Profile::Recbe | Profile::Belle2 => 41.0,
            Profile::AdcSitcp => 4.0,
            Profile::StrTdc => 40.0,
        })
    }
}
