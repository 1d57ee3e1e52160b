//! Asks boards for what the configuration leaves open, before the run is planned.
//!
//! ```text
//!  Configuration ─► each dig2:// board is asked ─► Configuration, whole · BoardReports ─► run.json ─► a replay
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use thalweg_frontend::format::{BoardFacts, FormatSettings};
use thalweg_record::RunRecord;

use crate::config::{ConfigError, Configuration, Replacement};
use crate::error::RunError;

/// The reports of the boards, by the names of their sources.
pub(crate) type BoardReports = BTreeMap<String, BoardFacts>;

/// The key of the reports among the details of a run's record.
pub(crate) const DETAIL: &str = "boards";

/// Asks the boards that can be asked; the configuration that is returned says what they say.
///
/// # Errors
/// When a board cannot be reached, or contradicts the configuration: with both values.
pub(crate) fn ask(configuration: &Configuration) -> Result<(Configuration, BoardReports), RunError> {
    let (mut whole, mut reports) = (configuration.clone(), BoardReports::new());
    for source in &mut whole.sources {
        let FormatSettings::Hits(format) = &source.format else { continue };
        if !format.takes_facts() {
            continue;
        }
        let facts = if source.is_emulated() {
            // The report was taken when the configuration was read.
            let board = source.emulated_board();
            board.map_err(|error| configuration.invalid_source(source, error))?.facts()
        } else if let Some(facts) = thalweg_readout::ask_board(&configuration.located_endpoint(source))? {
            source.complete(&facts).map_err(|error| configuration.invalid_source(source, error))?;
            facts
        } else {
            continue;
        };
        reports.insert(source.head.name.clone(), facts);
    }
    Ok((whole, reports))
}

/// The configuration of a recorded run, `file` being its `run.json`, with what its boards said then.
///
/// # Errors
/// When the recorded text is not a configuration any more.
pub(crate) fn recorded(file: &Path, record: &RunRecord) -> Result<Configuration, ConfigError> {
    recorded_but_for(file, record, &[])
}

/// The same with some sections `replaced`.
///
/// # Errors
/// When the recorded text is not a configuration any more, or does not fit what is replaced.
pub(crate) fn recorded_but_for(
    file: &Path,
    record: &RunRecord,
    replaced: &[Replacement],
) -> Result<Configuration, ConfigError> {
    let mut configuration = Configuration::parse_replaced(file, &record.configuration, replaced)?;
    let (reports, original) = (reports_of(record), configuration.clone());
    for source in &mut configuration.sources {
        if let Some(facts) = reports.get(&source.head.name) {
            let completed = source.complete(facts);
            completed.map_err(|error| original.invalid_source(source, error))?;
        }
    }
    Ok(configuration)
}

/// Returns the reports of the boards of a recorded run; empty for a run whose boards could not be asked.
pub(crate) fn reports_of(record: &RunRecord) -> BoardReports {
    let reports = record.details.get(DETAIL).cloned().unwrap_or_default();
    serde_json::from_value(reports).unwrap_or_default()
}
