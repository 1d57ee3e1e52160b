//! Asks boards for what the configuration leaves open, before the run is planned.
//!
//! ```text
//!  Configuration ─► each dig2:// board is asked ─► Configuration, whole · BoardReports ─► run.json ─► a replay
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use thalweg_frontend::format::{BoardFacts, FormatSettings};
use thalweg_record::{RunDirectory, RunRecord};

use crate::config::{ConfigError, Configuration, Replacement};
use crate::error::RunError;

/// The reports of the boards, by the names of their sources.
pub(crate) type BoardReports = BTreeMap<String, BoardFacts>;

/// The key of the reports among the details of a run's record.
pub(crate) const DETAIL: &str = "boards";

/// The key of what has changed at boards since the last run.
pub(crate) const CHANGES: &str = "board_changes";

/// Asks the boards that can be asked; the configuration that is returned says what they say.
///
/// # Errors
/// When a board cannot be reached, is used by another program, or contradicts the configuration: with both values.
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
        } else if let Some(asked) = thalweg_readout::ask_board(&configuration.located_endpoint(source))? {
            if let Some(error) = asked.taken {
                let name = source.head.name.clone();
                if !configuration.has_boards_to_itself() {
                    return Err(RunError::BoardInUse { name, error });
                }
                // Nobody is there to do it; a crash has left it so.
                tracing::warn!(
                    "\"{name}\", {error}; it is made idle, since a service with [unattended] has its boards to itself"
                );
                thalweg_readout::take_board(&configuration.located_endpoint(source))?;
            }
            let completed = source.complete(&asked.facts);
            completed.map_err(|error| configuration.invalid_source(source, error))?;
            if let Some(refused) = asked.refused {
                return Err(configuration.invalid_source(source, refused.to_string()).into());
            }
            asked.facts
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

/// Returns what is different at the boards since the last run in `runs`, in words; nothing where that run had no such source, or its boards
/// could not be asked.
pub(crate) fn changes(runs: &Path, now: &BoardReports) -> Vec<String> {
    let Some(last) = RunDirectory::list(runs).ok().and_then(|mut runs| runs.pop()) else { return Vec::new() };
    let record = RunRecord::read(&last.run_record());
    let before = record.map(|record| reports_of(&record)).unwrap_or_default();
    let change = |(name, now): (&String, &BoardFacts)| change(name, before.get(name)?, now, last.number());
    now.iter().filter_map(change).collect()
}

fn change(name: &str, before: &BoardFacts, now: &BoardFacts, run: u64) -> Option<String> {
    if (&before.model, &before.serial) != (&now.model, &now.serial) {
        return Some(format!("source \"{name}\" is {}; in run {run} it was {}", now.name(), before.name()));
    }
    let (had, has) = (firmware_of(before), firmware_of(now));
    (had != has)
        .then(|| format!("source \"{name}\", {}, has firmware {has}; in run {run} it had {had}", now.name()))
}

fn firmware_of(board: &BoardFacts) -> String {
    let firmware = board.firmware.as_deref().unwrap_or("of an unknown kind");
    board.firmware_version.as_ref().map_or(firmware.to_owned(), |version| format!("{firmware} ({version})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_firmware_version_or_board_than_in_the_last_run_is_named_with_both() {
        let board = |serial: &str, firmware: &str, version: &str| BoardFacts {
            model: "VX2730".to_owned(),
            serial: serial.to_owned(),
            firmware: Some(firmware.to_owned()),
            firmware_version: Some(version.to_owned()),
            ..BoardFacts::default()
        };
        let before = board("17", "psd", "FPGA 1.0.57");
        assert_eq!(change("left", &before, &before, 41), None);
        let updated = change("left", &before, &board("17", "psd", "FPGA 1.0.58"), 41);
        assert_eq!(
            updated.as_deref(),
            Some(
                "source \"left\", the VX2730 with serial number 17, has firmware psd (FPGA 1.0.58); in run 41 it had psd (FPGA 1.0.57)"
            )
        );
        let other = change("left", &before, &board("18", "pha", "FPGA 1.0.57"), 41).expect("another board");
        assert!(other.contains("serial number 18") && other.contains("serial number 17"), "{other}");
    }
}
