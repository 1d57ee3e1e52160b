//! `[clocks]`: how boards' clocks are brought together, and how they are watched.
//!
//! ```text
//!  [clocks]
//!  reference = "left"               the others are compared with it
//!  tolerance_ps = 50000             a peak further away is an alarm
//!  [[clocks.source]]
//!  name = "right"
//!  offset_ps = -12500               added to its times
//!  drift_ppb = 35.0                 and so much of the time itself
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of the boards' clocks, and how it is watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The source with which the others are compared; without it nothing is measured.
    pub reference: Option<String>,
    /// How far from zero a coincidence peak is looked for, picoseconds.
    pub range_ps: i64,
    /// A board whose peak lies further from zero than this has lost its synchronisation, picoseconds.
    pub tolerance_ps: i64,
    /// A peak is looked for in so much data time, seconds, and again in the next.
    pub interval_s: f64,
    /// Corrections, by source.
    pub source: Vec<Correction>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            reference: None,
            range_ps: 1_000_000,
            tolerance_ps: 100_000,
            interval_s: 2.0,
            source: Vec::new(),
        }
    }
}

/// What is added to the times of one source before they are ordered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Its name.
    pub name: String,
    /// Picoseconds, at most 10¹⁸ either way (eleven days).
    #[serde(default)]
    pub offset_ps: i64,
    /// Parts of 10⁹ of the time since run start: a clock that is slow by as much.
    #[serde(default)]
    pub drift_ppb: f64,
}

/// Invalid settings of clocks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClockError {
    /// A source that is not there.
    #[error("[clocks] {key} names \"{name}\", and no source of hits is called so; there are: {known}")]
    UnknownSource {
        /// Where it is named.
        key: &'static str,
        /// What was found.
        name: String,
        /// What there is.
        known: String,
    },
    /// A source that is corrected twice.
    #[error("[clocks] two [[clocks.source]] are called \"{0}\"; keep one")]
    Twice(String),
    /// A number that is no clock's.
    #[error("[clocks] {key} = {found}: write {write}")]
    Number {
        /// The key.
        key: &'static str,
        /// What was found.
        found: f64,
        /// What is possible.
        write: &'static str,
    },
}

impl Settings {
    /// Whether the numbers can be meant, and every name is that of one of `sources`.
    ///
    /// # Errors
    /// What was found, and what to write.
    pub fn check(&self, sources: &[String]) -> Result<(), ClockError> {
        let known = |key, name: &String| match sources.contains(name) {
            true => Ok(()),
            false => Err(ClockError::UnknownSource { key, name: name.clone(), known: sources.join(", ") }),
        };
        self.reference.iter().try_for_each(|name| known("reference", name))?;
        let number = |key, found: f64, least: f64, most: f64, write| match (least..=most).contains(&found) {
            true => Ok(()),
            false => Err(ClockError::Number { key, found, write }),
        };
        for (index, correction) in self.source.iter().enumerate() {
            known("[[clocks.source]] name", &correction.name)?;
            if self.source[..index].iter().any(|other| other.name == correction.name) {
                return Err(ClockError::Twice(correction.name.clone()));
            }
            number("drift_ppb", correction.drift_ppb, -1e6, 1e6, "-1000000 to 1000000")?;
            let offset_ps = correction.offset_ps as f64;
            number("[[clocks.source]] offset_ps", offset_ps, -1e18, 1e18, "-10^18 to 10^18, eleven days")?;
        }
        number("range_ps", self.range_ps as f64, 1e3, 1e9, "1000 to 1000000000")?;
        number("tolerance_ps", self.tolerance_ps as f64, 1.0, 1e9, "1 to 1000000000")?;
        number("interval_s", self.interval_s, 0.01, 3600.0, "0.01 to 3600")
    }
}
