//! A run of one emulated board over loopback UDP, as the live benches take it.
//!
//! ```text
//!  settings of the board, tables, processing ─► configuration ─► run ─► what was sent, taken, lost
//! ```

use std::path::Path;

use serde_json::Value;
use thalweg_frontend::digitizer2::emulate::Settings;
use thalweg_run::config::Configuration;
use thalweg_run::supervise::{EndWhen, Watch};

/// Payload bytes per second over 10 Gb/s Ethernet, as published for a board.
pub(crate) const LINK_BYTES_PER_S: f64 = 1.14e9;
/// Processing that fills no spectra.
pub(crate) const NO_SPECTRA: &str = "[spectra]\nenabled = false\n";

/// The board, and what is done with its data.
pub(crate) struct LiveBoard<'a> {
    /// The name of the bench.
    pub(crate) bench: &'a str,
    pub(crate) board: &'a Settings,
    /// Keys of the source beside its name, format and URL, as in a configuration file.
    pub(crate) source: &'a str,
    /// The sections between source and recording, likewise.
    pub(crate) processing: &'a str,
    /// The tables that are recorded, likewise.
    pub(crate) tables: &'a str,
    /// The folder in which runs are recorded, and removed.
    pub(crate) folder: &'a Path,
}

/// The result of one run.
pub(crate) struct LiveTurn {
    pub(crate) hits_sent: u64,
    /// Hits that came to the end of the path, recorded or not.
    pub(crate) hits_taken: u64,
    pub(crate) hits_lost: u64,
    pub(crate) elapsed_s: f64,
    /// Scope records that continue the one before, where waveforms are recorded.
    pub(crate) records_joined: Option<u64>,
}

impl LiveBoard<'_> {
    /// Runs for so many seconds.
    pub(crate) fn run(&self, seconds: f64) -> Result<LiveTurn, String> {
        let folder = self.folder.join(format!("thalweg-{}-{}", self.bench, std::process::id()));
        let LiveBoard { bench, source, processing, tables, .. } = self;
        let emulate = changed_keys(self.board)?;
        let text = format!(
            "[run]\ntitle = \"{bench}\"\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
             {source}[source.emulate]\n{emulate}{processing}[record]\ndirectory = {folder:?}\ntables = {tables}\n"
        );
        let configuration =
            Configuration::parse(Path::new("(bench)"), text).map_err(|error| error.to_string())?;
        let end = EndWhen { seconds: Some(seconds), ..EndWhen::default() };
        let summary = thalweg_run::run(&configuration, end, &mut Watch::nobody());
        let cleaned = std::fs::remove_dir_all(&folder);
        let summary = summary.map_err(|error| error.to_string())?;
        cleaned.map_err(|error| format!("{}: {error}", folder.display()))?;
        if !summary.is_good() {
            return Err(format!("the run failed: {:?} {:?}", summary.failures, summary.discrepancies));
        }
        Ok(LiveTurn {
            hits_sent: summary.hits_sent.ok_or("the emulated board did not say what it sent")?,
            hits_taken: summary.hits_recorded + summary.hits_left_out,
            hits_lost: summary.hits_lost.ok_or("how many hits the run lost is not known")?,
            elapsed_s: summary.elapsed_seconds,
            records_joined: summary.scope_joins.map(|joins| joins.joined),
        })
    }
}

/// The settings that are not those of every board, one `key = value` to a line.
fn changed_keys(board: &Settings) -> Result<String, String> {
    let object = |board: &Settings| match serde_json::to_value(board) {
        Ok(Value::Object(keys)) => Ok(keys),
        Ok(other) => Err(format!("settings of a board are a table, not {other}")),
        Err(error) => Err(error.to_string()),
    };
    let usual = object(&Settings::default())?;
    let changed = object(board)?.into_iter().filter(|(key, value)| usual.get(key) != Some(value));
    Ok(changed.map(|(key, value)| format!("{key} = {value}\n")).collect())
}
