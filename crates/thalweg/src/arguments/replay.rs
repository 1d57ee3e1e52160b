//! Arguments of `thalweg replay`.

use std::path::PathBuf;

use clap::Args;
use thalweg_run::config::{ConfigError, Replaceable, Replacement};
use thalweg_run::recording::Pace;

use super::runs::RunsDirectory;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The run's directory, or its number.
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) directory_of_runs: RunsDirectory,
    /// The directory of runs that the new run is kept in; without it, that of the recorded run.
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Cut by this file: its [[cut]] and [[polygon]] take the place of the recorded ones.
    #[arg(long, value_name = "FILE")]
    cuts: Option<PathBuf>,
    /// Calibrate by this file: its [channels], [[channel]] and [clocks] take the place of the recorded ones.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Make coincidences by this file: its [coincidence] takes the place of the recorded one.
    #[arg(long, value_name = "FILE")]
    coincidence: Option<PathBuf>,
    /// Select events by this file: its [filter] takes the place of the recorded one.
    #[arg(long, value_name = "FILE")]
    filter: Option<PathBuf>,
    /// Replay as fast as the data came, by their arrival marks; without it, as fast as possible.
    #[arg(long, conflicts_with = "speed")]
    real_time: bool,
    /// Replay so many times as fast as the data came, such as 10 or 0.1.
    #[arg(long, value_name = "FACTOR", value_parser = pace, allow_hyphen_values = true)]
    speed: Option<Pace>,
    /// Serve the live page there while the replay goes on.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Print the live state each so many seconds as a line of JSON; with --json, the summary at the end is one more.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) states: Option<f64>,
}

impl Replay {
    /// What takes the place of sections of the recorded configuration.
    ///
    /// # Errors
    /// When a file cannot be read, or is no part of a configuration.
    pub(crate) fn replaced(&self) -> Result<Vec<Replacement>, ConfigError> {
        let given = [
            (Replaceable::Cuts, &self.cuts),
            (Replaceable::Calibration, &self.calibration),
            (Replaceable::Coincidence, &self.coincidence),
            (Replaceable::Filter, &self.filter),
        ];
        let given = given.into_iter().filter_map(|(what, file)| Some((what, file.as_deref()?)));
        given.map(|(what, file)| Replacement::read(what, file)).collect()
    }

    /// How fast it is; `None` for as fast as possible.
    pub(crate) fn pace(&self) -> Option<Pace> {
        self.speed.clone().or_else(|| Pace::new(1.0).filter(|_| self.real_time))
    }
}

fn pace(text: &str) -> Result<Pace, String> {
    let expected =
        "write a number above 0, such as 10 or 0.1; without --speed, a replay is as fast as possible";
    text.parse().ok().and_then(Pace::new).ok_or_else(|| expected.to_owned())
}
