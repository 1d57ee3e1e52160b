//! The picture of a recording: its hits read back from the file and drawn.

use std::path::{Path, PathBuf};

use thalweg_record::read::HitsReader;
use thalweg_record::{RemovedTables, RunDirectory, RunRecord, Table};

use crate::config::Configuration;
use crate::plot::{Facts, PlotSource, Spectra, spectra_svg};

/// A picture that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The recording could not be read.
    #[error(transparent)]
    Record(#[from] thalweg_record::RecordError),
    /// The picture could not be written.
    #[error("{file}: {cause}; give another place with --output")]
    Write {
        /// The file.
        file: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// Draws the spectra of a recorded run into `output`, or into `spectra.svg` in its directory. Returns the file.
///
/// # Errors
/// When the recording cannot be read or the picture not written.
pub fn plot_run(run: &Path, output: Option<&Path>) -> Result<PathBuf, PlotError> {
    let directory = RunDirectory::open(run)?;
    RemovedTables::refuse(directory.path(), Table::Hits)?;
    let record = RunRecord::read(&directory.run_record())?;
    let mut reader = HitsReader::open(&directory.table(Table::Hits))?;
    let (mut spectra, mut hits) = (Spectra::default(), Vec::new());
    while reader.next_batch(&mut hits)? {
        spectra.fill(&hits);
    }
    let channels = channels_of(directory.path(), &record);
    let sources: Vec<PlotSource<'_>> = record
        .sources
        .iter()
        .zip(&channels)
        .map(|(name, (first_channel, channels))| PlotSource {
            name,
            first_channel: *first_channel,
            channels: *channels,
        })
        .collect();
    let lost = record.details.get("hits_lost").and_then(serde_json::Value::as_u64).unwrap_or(0);
    let facts = Facts {
        title: if record.title.is_empty() { "untitled run" } else { &record.title },
        run: &run.display().to_string(),
        started: &record.started,
        hits_recorded: spectra.hits(),
        hits_lost: lost,
        ledger_closed: record.ledger.as_ref().is_some_and(|ledger| ledger.closed),
        software: concat!("thalweg ", env!("CARGO_PKG_VERSION")),
        sources: &sources,
    };
    let file = output.map_or_else(|| directory.path().join("spectra.svg"), Path::to_owned);
    std::fs::write(&file, spectra_svg(&spectra, &facts))
        .map_err(|cause| PlotError::Write { file: file.clone(), cause })?;
    Ok(file)
}

/// First channel and number of channels of each source, as the recorded configuration says; where it cannot be read any
/// more, each source is taken to have every channel.
fn channels_of(run: &Path, record: &RunRecord) -> Vec<(u16, u16)> {
    match Configuration::parse(&run.join("run.json"), record.configuration.clone()) {
        Ok(configuration) => configuration.sources.iter().map(|source| source.format.channels()).collect(),
        Err(_) => vec![(0, u16::MAX); record.sources.len()],
    }
}
