//! Settings of an emulated SiTCP board.
//!
//! ```text
//!  configuration ─► Settings ─ validate ─► Board
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::emulated_settings::SettingsError;
use crate::emulated_settings::check;
use crate::sitcp::settings::Profile;
use crate::sitcp::wire::recbe::{CHANNELS, LONGEST_BODY, SAMPLE_BYTES};
use crate::sitcp::wire::{adc_sitcp, str_tdc};

/// The body of RECBE and Belle II blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every sample of every channel.
    Raw,
    /// Only channels with a hit.
    #[default]
    Suppressed,
}

/// Faults, each at every n-th trigger; 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// No block is sent for the trigger, but the board counts it.
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
    /// The format of the board's stream.
    pub profile: Profile,
    /// RECBE and Belle II: raw or suppressed.
    pub mode: Mode,
    /// Samples of each channel: raw mode and ADC-SiTCP.
    pub window: u16,
    /// Mean number of channels that are hit per trigger, or of edges per frame for the streaming TDC. By default 41 of
    /// 48 channels, which gives suppressed blocks of about 380 bytes, 4 of 16 channels for ADC-SiTCP, or 40 edges.
    pub hits: Option<f64>,
    /// Pads suppressed bodies to a multiple of four bytes, like Belle II boards.
    pub pads: bool,
    /// Number of the first trigger of a run, to test wraps of the number.
    pub first_trigger: u32,
    /// Number of different bodies, which are sent in turn.
    pub prepared: u16,
    /// Seed of the bodies.
    pub seed: u64,
    /// Faults.
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

/// Most samples of an emulated ADC-SiTCP event: 128 KiB.
const MOST_ADC_SAMPLES: usize = (128 << 10) / adc_sitcp::SAMPLE_BYTES;

impl Settings {
    /// Most different bodies.
    pub const MOST_PREPARED: u16 = 4096;

    /// Checks the settings.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    pub fn check(&self) -> Result<(), SettingsError> {
        let most = match self.profile {
            Profile::AdcSitcp => MOST_ADC_SAMPLES,
            _ => LONGEST_BODY / SAMPLE_BYTES,
        };
        let fits = usize::from(self.window) <= most;
        check(fits, "window", self.window, format!("at most {most}, which fills a block of this profile"))?;
        let most = match self.profile {
            Profile::Recbe | Profile::Belle2 => CHANNELS,
            Profile::AdcSitcp => adc_sitcp::CHANNELS,
            // Twice the mean must still fit a frame.
            Profile::StrTdc => str_tdc::LONGEST_DATA / str_tdc::WORD_BYTES / 2,
        };
        let hits = self.mean_hits();
        check((0.0..=most as f64).contains(&hits), "hits", hits, format!("0 to {most}"))?;
        let prepared = 1..=Self::MOST_PREPARED;
        let allowed = format!("1 to {}", Self::MOST_PREPARED);
        check(prepared.contains(&self.prepared), "prepared", self.prepared, allowed)
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
