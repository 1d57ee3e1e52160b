//! `[trigger]`: the program of the emulated boards' trigger, or the board that they follow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_frontend::trigger::{Kind, Program, Settings};

use super::{ConfigError, Configuration};

/// `[trigger.follow]`: emulated boards answer what another board, real or replayed, is seen to answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowTrigger {
    /// The `[[source]]` whose first board leads.
    pub source: String,
    /// Bits of its trigger number, 1 to 64; it wraps there.
    #[serde(default = "follow_bits")]
    pub trigger_bits: u32,
    /// One count of its time, picoseconds; without it the time of arrival is taken. Not of RECBE, Belle II and ADC-SiTCP boards,
    /// whose headers have no time that goes on.
    #[serde(default)]
    pub tick_ps: Option<f64>,
    /// Most missing numbers in a row that are filled in; a wider step is a reset.
    #[serde(default = "follow_gap")]
    pub longest_gap: u64,
}

fn follow_bits() -> u32 {
    32
}

fn follow_gap() -> u64 {
    1000
}

impl Configuration {
    /// Returns how often emulated boards are triggered; where a real board decides, the highest possible rate.
    pub(crate) fn trigger_rate_hz(&self) -> f64 {
        match (&self.follow, self.trigger.program) {
            (None, Kind::Constant | Kind::Bursts | Kind::Poisson) => self.trigger.rate_hz,
            (_, Kind::Times) | (Some(_), _) => f64::MAX,
        }
    }

    /// The trigger's settings, with the times of its file read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn trigger_settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = self.trigger.clone();
        if let Some(file) = &settings.times_file {
            let path = self.beside(file);
            let text = std::fs::read_to_string(&path).map_err(|cause| {
                self.invalid(format!("[trigger] times_file: {}: {cause}", path.display()))
            })?;
            settings.times = Some(text);
        }
        Ok(settings)
    }

    /// The trigger's program.
    ///
    /// # Errors
    /// When there can be no such program.
    pub(crate) fn trigger_program(&self) -> Result<Program, ConfigError> {
        Program::new(&self.trigger_settings()?).map_err(|error| self.invalid(format!("[trigger]: {error}")))
    }
}
