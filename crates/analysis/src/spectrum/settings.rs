//! `[spectra]` and `[[spectrum]]`: which spectra there are.
//!
//! ```text
//!  [spectra]                         [[spectrum]]
//!  energy_bins = 4096                name = "neutron energies"
//!  planes = true                     x = { field = "energy", bins = 1024, low = 0, high = 65536 }
//!                                    cut = "psd > 0.2"
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::axis::AxisSettings;
use crate::channels::ChannelList;

/// `[spectra]`: those that every run has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether there are any.
    pub enabled: bool,
    /// Bins of the energy spectrum of each channel, over all that 16 bits can say.
    #[schemars(range(min = 16, max = 65_536))]
    pub energy_bins: u32,
    /// Whether each channel has a plane of energy against pulse shape.
    pub planes: bool,
    /// Bins of a plane along energy and along pulse shape.
    pub plane_bins: [u32; 2],
    /// Bins of the time differences of each channel, over the window of the coincidence.
    #[schemars(range(min = 16, max = 65_536))]
    pub time_bins: u32,
    /// Where the calibrated spectra end, keV.
    pub highest_kev: f64,
    /// Most memory for those that every run has, bytes: where the planes of all channels do not fit, there are none, and where their
    /// energies do not fit, there are none of them either.
    pub memory_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            enabled: true,
            energy_bins: 4096,
            planes: true,
            plane_bins: [256, 256],
            time_bins: 1024,
            highest_kev: 4096.0,
            memory_bytes: 512 << 20,
        }
    }
}

/// `[[spectrum]]`: one of the user's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpectrumSettings {
    /// What it is called; unique.
    pub name: String,
    /// Its first axis.
    pub x: AxisSettings,
    /// Its second axis, of a plane.
    #[serde(default)]
    pub y: Option<AxisSettings>,
    /// Which hits are filled in, as an expression; without it, all.
    #[serde(default)]
    pub cut: Option<String>,
    /// Where they are taken from.
    #[serde(default)]
    pub at: At,
    /// Channels whose hits are filled in; with none here and no `groups`, all.
    #[serde(default)]
    pub channels: ChannelList,
    /// Groups whose hits are filled in.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Of a plane of pairs: channels and groups of the other hit in the event, whose field is along the second axis.
    #[serde(default)]
    pub partner: Option<Partner>,
}

/// The other hit of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Partner {
    /// Its channels.
    pub channels: ChannelList,
    /// And all channels of these groups.
    pub groups: Vec<String>,
}

/// Where on the path a spectrum is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// Behind time order: every hit.
    #[default]
    Received,
    /// Behind the cuts on hits.
    Kept,
    /// Behind coincidence and the cuts on events: the members of events.
    Events,
}

/// Invalid spectra, or spectra that are not there.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpectrumError {
    /// An invalid description.
    #[error("[[spectrum]] \"{name}\": {message}")]
    Spectrum {
        /// The spectrum.
        name: String,
        /// What is wrong, and what to write.
        message: String,
    },
    /// Bins that cannot be.
    #[error("[spectra] {0}")]
    Settings(String),
    /// A number that no spectrum has.
    #[error("there is no spectrum {0}; the list of them says which there are")]
    Unknown(u32),
}
