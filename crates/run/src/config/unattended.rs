//! `[unattended]`: what follows the end of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[unattended]`: what happens when a run has ended and nobody is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Unattended {
    /// A run that has come to its limit (`[run] seconds`, `hits`, `events`) is followed by the next. With `[record.retention]`
    /// this goes on for ever: the oldest runs free space.
    pub rotate: bool,
    /// A run that has failed is followed by the next, after so many seconds, 0 to 86 400; without it, by none. Nothing follows a run
    /// that was asked to stop; a stop asked for while the next run is waited for takes it back.
    pub restart_after_s: Option<f64>,
    /// So many failures in a row are enough.
    pub most_failures: u32,
}

impl Default for Unattended {
    fn default() -> Unattended {
        Unattended { rotate: false, restart_after_s: None, most_failures: 5 }
    }
}

impl Unattended {
    /// Longest `restart_after_s`: a day.
    const LONGEST_RESTART_S: f64 = 86_400.0;

    /// Whether runs follow each other with nobody there.
    pub(crate) fn follows_runs(&self) -> bool {
        self.rotate || self.restart_after_s.is_some()
    }

    /// Checks that the next run can be started as asked.
    ///
    /// # Errors
    /// Which value cannot be used, and what would.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.restart_after_s {
            Some(seconds) if !(0.0..=Self::LONGEST_RESTART_S).contains(&seconds) => {
                let longest = Self::LONGEST_RESTART_S;
                Err(format!(
                    "`restart_after_s = {seconds}`: write 0 to {longest} seconds; take the key out for no restart"
                ))
            }
            _ if self.most_failures == 0 => {
                Err("`most_failures = 0`: write 1 or more; take `restart_after_s` out for no restart"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }
}
