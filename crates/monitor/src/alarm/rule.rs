//! `[[alarm]]`: one rule.
//!
//! ```text
//!  [[alarm]]                         value > 1e6 ──► for 5 s ──► raised
//!  name = "too hot to handle"        value ≤ 9e5 ──► for 10 s ──► cleared
//!  quantity = "hit_rate_hz"
//!  source = "*"                      each source by itself
//!  above = 1e6
//!  hysteresis = 1e5
//!  for_s = 5
//!  clear_for_s = 10
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::{Quantity, Subjects};

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// To be known.
    Info,
    /// To be watched.
    #[default]
    Warning,
    /// Data are being lost, or will be.
    Error,
}

impl Level {
    /// The lower-case word.
    pub fn word(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it is called; unique.
    pub name: String,
    /// What is watched.
    pub quantity: Quantity,
    /// Of which source, clock, board or destination of `[ship]`. `"*"` watches each by itself. Without it the whole is watched: their sum for rates and losses, the
    /// worst one for the others.
    #[serde(default)]
    pub source: Option<String>,
    /// With `quantity = "series"`, the name of the series.
    #[serde(default)]
    pub series: Option<String>,
    /// Raised when the value is above this.
    #[serde(default)]
    pub above: Option<f64>,
    /// Raised when the value is below this.
    #[serde(default)]
    pub below: Option<f64>,
    /// Cleared when the value is back behind the threshold by so much.
    #[serde(default)]
    pub hysteresis: f64,
    /// For how long it must be so before the alarm is raised, seconds.
    #[serde(default)]
    pub for_s: f64,
    /// For how long it must be well again before the alarm is cleared, seconds.
    #[serde(default)]
    pub clear_for_s: f64,
    /// How bad it is.
    #[serde(default)]
    pub level: Level,
    /// What to do, for who reads it at night.
    #[serde(default)]
    pub text: String,
}

/// Alarms that are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlarmError {
    /// A rule.
    #[error("[[alarm]] \"{name}\": {message}")]
    Rule {
        /// Its name.
        name: String,
        /// What was found, and what to write.
        message: String,
    },
    /// Who is notified.
    #[error("[notify] {0}")]
    Notify(String),
}

impl Rule {
    /// The threshold, and whether values above it are bad.
    pub fn threshold(&self) -> (f64, bool) {
        match (self.above, self.below) {
            (Some(above), _) => (above, true),
            (None, below) => (below.unwrap_or(f64::NEG_INFINITY), false),
        }
    }

    /// Whether the rule can be meant.
    ///
    /// # Errors
    /// What was found, and what to write.
    pub fn check(&self) -> Result<(), AlarmError> {
        let refuse =
            |message: &str| Err(AlarmError::Rule { name: self.name.clone(), message: message.to_owned() });
        if self.name.is_empty() || self.name.len() > 100 || self.name.contains(char::is_control) {
            return refuse("a name is one line of 1 to 100 bytes");
        }
        let (threshold, _) = self.threshold();
        if self.above.is_some() == self.below.is_some() || !threshold.is_finite() {
            return refuse("write `above` or `below`, one of them, with a number");
        }
        if !(self.hysteresis.is_finite() && self.hysteresis >= 0.0) {
            return refuse("hysteresis is a number, 0 or more");
        }
        let is_time = |seconds: f64| (0.0..=86_400.0 * 365.0).contains(&seconds);
        if !is_time(self.for_s) || !is_time(self.clear_for_s) {
            return refuse("for_s and clear_for_s are times in seconds, 0 or more");
        }
        if (self.quantity == Quantity::Series) != self.series.is_some() {
            return refuse("`series` and quantity = \"series\" belong together");
        }
        if self.series.as_deref().is_some_and(|name| name.starts_with('/')) {
            let names = Quantity::names();
            return refuse(&format!(
                "`series` is the name of a value of slow control; for a number of the live state write `quantity` as one of {names}"
            ));
        }
        if self.source.is_some() && self.quantity.subjects() == Subjects::Run {
            return refuse("this quantity is not of a source; leave `source` out");
        }
        Ok(())
    }
}
