//! `[run]`: the name of a run, and its end.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_monitor::state::EndWhen;

/// `[run]`: what the run is called and when it ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// A title, kept with the recording.
    pub title: String,
    /// Words about the run, kept with the recording.
    pub comment: String,
    /// What the nodes of one run have in common and those of another run do not, such as its number; a unit that was started with another
    /// identity is refused. Without it nodes are distinguished by their configuration only.
    pub identity: String,
    /// File whose first line is the key that the units of all nodes prove to each other that they have, relative to the configuration:
    /// at least 16 characters, such as the output of `openssl rand -hex 32`. Needed where a unit is reached by other hosts.
    pub key_file: Option<PathBuf>,
    /// The environment variable that has this key, in place of `key_file`.
    pub key_env: Option<String>,
    /// Stop after this many seconds, more than 0; without it, when the sources end or on a signal.
    pub seconds: Option<f64>,
    /// Stop when this many hits are recorded.
    pub hits: Option<u64>,
    /// Stop when this many events are recorded.
    pub events: Option<u64>,
}

impl RunSettings {
    /// Returns when the run ends by itself.
    pub fn end(&self) -> EndWhen {
        EndWhen { seconds: self.seconds, hits: self.hits, events: self.events }
    }

    /// Makes it end at another time.
    pub(crate) fn set_end(&mut self, end: EndWhen) {
        EndWhen { seconds: self.seconds, hits: self.hits, events: self.events } = end;
    }

    /// Checks that the run can end as asked.
    ///
    /// # Errors
    /// Which value cannot be used, and what would.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (key, limit) in [("hits", self.hits), ("events", self.events)] {
            if limit == Some(0) {
                return Err(format!("`{key} = 0` must be above 0; leave it out for no limit"));
            }
        }
        match self.seconds {
            Some(seconds) if seconds > 0.0 && seconds.is_finite() => Ok(()),
            Some(f64::INFINITY) => Err("`seconds = inf`: leave it out to run until stopped".to_owned()),
            Some(seconds) => {
                Err(format!("`seconds = {seconds}` must be above 0; leave it out to run until stopped"))
            }
            None => Ok(()),
        }
    }
}
