//! Settings of a trigger program.
//!
//! ```text
//!  program = "bursts"        rate_hz          ▌▌▌▌      ▌▌▌▌      ▌▌▌▌
//!  rate_hz = 100_000                          ◄─► 1/rate_hz
//!  burst_triggers = 4        burst_rate_hz    ◄────────► 1/burst_rate_hz
//! ```
//! Every key has a default; unknown keys are refused, and so is a program that contradicts its minimum gap.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::times::{TimesError, parse_times};

/// Lowest rate per second: one in eleven days.
const LOWEST_RATE_HZ: f64 = 1e-6;
/// Highest rate: times have a resolution of one nanosecond.
const HIGHEST_RATE_HZ: f64 = 1e9;
/// Longest program in seconds: well below the limit of nanoseconds in 64 bits.
const LONGEST_S: f64 = 1e10;

/// Distribution of the triggers in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One each `1 / rate_hz`; with `triggers = N`, N pulses.
    #[default]
    Constant,
    /// `burst_triggers` at `rate_hz`, repeated at `burst_rate_hz`.
    Bursts,
    /// Random times with the mean rate `rate_hz`, none within `dead_time_ns` of the one before.
    Poisson,
    /// At the times listed in `times` or `times_file`.
    Times,
}

/// Settings of a trigger program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Distribution of the triggers in time.
    pub program: Kind,
    /// Triggers per second. For `bursts`, the rate within a burst; for `poisson`, the rate before dead time, so that
    /// `rate_hz / (1 + rate_hz × dead time)` remain.
    pub rate_hz: f64,
    /// Triggers in a burst.
    pub burst_triggers: u64,
    /// Bursts per second.
    pub burst_rate_hz: f64,
    /// For `poisson`: no trigger is within this time of the one before. The default is that of the NectarCAM camera.
    pub dead_time_ns: u64,
    /// For `times`: the times, one per line or separated by commas, such as `12.5 us`; units are ns (the default), us,
    /// ms, s. `#` starts a comment.
    pub times: Option<String>,
    /// For `times`: a file with the same text, which is read into `times` with the configuration.
    pub times_file: Option<PathBuf>,
    /// Start of the program in nanoseconds since run start; listed times count from there.
    pub first_ns: u64,
    /// Number of the first trigger.
    pub first_number: u64,
    /// The program ends after this many triggers.
    pub triggers: Option<u64>,
    /// The program ends after this time in seconds from its start.
    pub seconds: Option<f64>,
    /// Minimum time between two triggers in nanoseconds; a trigger that is earlier is left out.
    pub minimum_gap_ns: u64,
    /// Time in nanoseconds for which the boards read out an accepted trigger: those that come meanwhile are refused and counted, as while BUSY
    /// is raised, which this time is a part of. Of a program only; not of boards that follow another one.
    pub readout_ns: u64,
    /// The same seed gives the same times.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            program: Kind::Constant,
            rate_hz: 1000.0,
            burst_triggers: 10,
            burst_rate_hz: 10.0,
            dead_time_ns: 2000,
            times: None,
            times_file: None,
            first_ns: 0,
            first_number: 0,
            triggers: None,
            seconds: None,
            minimum_gap_ns: 0,
            readout_ns: 0,
            seed: 1,
        }
    }
}

/// Why a trigger program is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A key with a value that cannot be used.
    #[error("trigger program: `{key}` is {found}; allowed is {allowed}")]
    Value {
        /// The key, as in the configuration.
        key: &'static str,
        /// The value in the configuration.
        found: String,
        /// What to write instead.
        allowed: String,
    },
    /// `times` is empty.
    #[error("trigger program `times` has no times: write `times = \"0 us, 10 us\"` or give `times_file`")]
    NoTimes,
    /// A list of times that cannot be read.
    #[error("trigger program, {0}")]
    Times(#[from] TimesError),
}

fn value(
    fine: bool,
    key: &'static str,
    found: impl ToString,
    allowed: impl Into<String>,
) -> Result<(), SettingsError> {
    let error = || SettingsError::Value { key, found: found.to_string(), allowed: allowed.into() };
    if fine { Ok(()) } else { Err(error()) }
}

impl Settings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first key that cannot be used, or the first invalid line of the list.
    pub fn check(&self) -> Result<(), SettingsError> {
        let rates = LOWEST_RATE_HZ..=HIGHEST_RATE_HZ;
        let allowed = "0.000001 to 1000000000 per second";
        value(rates.contains(&self.rate_hz), "rate_hz", self.rate_hz, allowed)?;
        value(rates.contains(&self.burst_rate_hz), "burst_rate_hz", self.burst_rate_hz, allowed)?;
        let seconds = self.seconds.unwrap_or(0.0);
        value((0.0..=LONGEST_S).contains(&seconds), "seconds", seconds, "0 to 10000000000")?;
        let most = LONGEST_S as u64;
        for (key, found) in [
            ("dead_time_ns", self.dead_time_ns),
            ("minimum_gap_ns", self.minimum_gap_ns),
            ("readout_ns", self.readout_ns),
        ] {
            value(found <= most, key, found, "at most ten seconds, 10000000000")?;
        }
        match self.program {
            Kind::Constant => self.check_gap(),
            Kind::Bursts => self.check_gap().and_then(|()| self.check_bursts()),
            Kind::Poisson => Ok(()),
            Kind::Times => self.listed_times().map(drop),
        }
    }

    fn check_gap(&self) -> Result<(), SettingsError> {
        let gap = self.minimum_gap_ns;
        let allowed = format!("at most {} with `minimum_gap_ns = {gap}`", 1e9 / gap as f64);
        value(self.rate_hz * gap as f64 <= 1e9, "rate_hz", self.rate_hz, allowed)
    }

    fn check_bursts(&self) -> Result<(), SettingsError> {
        value(self.burst_triggers > 0, "burst_triggers", self.burst_triggers, "1 or more")?;
        let most = self.rate_hz / self.burst_rate_hz;
        let allowed = format!("at most {most:.0}: more do not fit between two bursts at these rates");
        value(self.burst_triggers as f64 <= most, "burst_triggers", self.burst_triggers, allowed)
    }

    /// The listed times in nanoseconds.
    pub(super) fn listed_times(&self) -> Result<Vec<u64>, SettingsError> {
        let times = parse_times(self.times.as_deref().unwrap_or_default())?;
        if times.is_empty() { Err(SettingsError::NoTimes) } else { Ok(times) }
    }
}
