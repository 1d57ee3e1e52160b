//! What boards say of themselves, before the run is planned: what the configuration leaves open is theirs to say.
//!
//! ```text
//!  Configuration ─► each dig2:// board is asked ─► Configuration, whole · BoardsTold ─► run.json ─► a replay
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use thalweg_frontend::digitizer2::BoardFacts;
use thalweg_frontend::format::{EmulateSettings, FormatSettings};
use thalweg_record::RunRecord;

use crate::config::{ConfigError, Configuration, SourceSettings};
use crate::error::RunError;
use crate::open::located_endpoint;

/// What the boards have said, by the names of their sources.
pub(crate) type BoardsTold = BTreeMap<String, BoardFacts>;

/// Where it stands among the details of a run's record.
pub(crate) const DETAIL: &str = "boards";

/// Asks the boards that can be asked; the configuration that is returned says what they say.
///
/// # Errors
/// When a board cannot be reached, or contradicts the configuration: with both values.
pub(crate) fn ask(configuration: &Configuration) -> Result<(Configuration, BoardsTold), RunError> {
    let (mut whole, mut told) = (configuration.clone(), BoardsTold::new());
    for source in &mut whole.sources {
        let FormatSettings::Hits(format) = &source.format else { continue };
        if !format.takes_facts() {
            continue;
        }
        let facts = if source.endpoint.url.scheme() == "emulate" {
            // What it says was taken when the configuration was read.
            source.emulated_board().facts()
        } else if let Some(facts) = thalweg_readout::ask_board(&located_endpoint(configuration, source))? {
            complete(source, &facts).map_err(|error| configuration.invalid_source(source, error))?;
            facts
        } else {
            continue;
        };
        told.insert(source.head.name.clone(), facts);
    }
    Ok((whole, told))
}

/// The configuration of a recorded run, `file` being its `run.json`, with what its boards said then.
///
/// # Errors
/// When the recorded text is not a configuration any more.
pub(crate) fn recorded(file: &Path, record: &RunRecord) -> Result<Configuration, ConfigError> {
    let mut configuration = Configuration::parse(file, record.configuration.clone())?;
    let (told, original) = (told(record), configuration.clone());
    for source in &mut configuration.sources {
        if let Some(facts) = told.get(&source.head.name) {
            let completed = complete(source, facts);
            completed.map_err(|error| original.invalid_source(source, error))?;
        }
    }
    Ok(configuration)
}

/// What the boards of a recorded run said; nothing of a run whose boards could not be asked.
pub(crate) fn told(record: &RunRecord) -> BoardsTold {
    let told = record.details.get(DETAIL).cloned().unwrap_or_default();
    serde_json::from_value(told).unwrap_or_default()
}

/// Fills in what the configuration does not say of a board.
///
/// # Errors
/// Where the board contradicts it: with both values.
pub(crate) fn complete(source: &mut SourceSettings, facts: &BoardFacts) -> Result<(), String> {
    match &mut source.format {
        FormatSettings::Hits(format) => format.complete(facts),
        FormatSettings::Triggered(_) => Ok(()),
    }
}

impl Configuration {
    /// Whether a board of this run is asked what it is.
    pub(crate) fn asks_boards(&self) -> bool {
        self.sources.iter().any(|source| source.endpoint.url.scheme() == "dig2")
    }
}

impl SourceSettings {
    /// The board behind an `emulate://` URL of self-triggered boards.
    pub(crate) fn emulated_board(&self) -> thalweg_frontend::digitizer2::emulate::Settings {
        match &self.emulate {
            Some(EmulateSettings::SelfTriggered(board)) => (**board).clone(),
            _ => Default::default(),
        }
    }
}
