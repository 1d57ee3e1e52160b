//! What is done with hits between decoding and recording, resolved against the sources of a run.
//!
//! ```text
//!  [channels], [[channel]], sources ─► ChannelMap ─┬─► Aligner ─► time order
//!  [clocks], [[cut]], [coincidence], [spectra] ────┴─► HitCuts, Processor ─► spectra, events
//! ```

use std::path::Path;
use std::sync::Arc;

use thalweg_analysis::channels::{ChannelError, ChannelMap, SourceChannels, table};
use thalweg_analysis::clocks::Aligner;
use thalweg_analysis::process::{self, Stages};
use thalweg_data::SourceId;

use crate::config::Configuration;

/// The stages of one run.
pub(crate) struct Processing {
    pub(crate) map: Arc<ChannelMap>,
    pub(crate) aligner: Aligner,
    pub(crate) stages: Stages,
}

impl Processing {
    /// Makes the stages; `None` of a run without hits, and of one whose sources number their channels alike, if nothing is asked of
    /// them: which channel is whose is not known then, but hits can be recorded.
    ///
    /// # Errors
    /// What is invalid, and what to write.
    pub(crate) fn of(configuration: &Configuration) -> Result<Option<Processing>, String> {
        let names: Vec<String> =
            configuration.hit_sources().map(|(source, _)| source.head.name.clone()).collect();
        let Some(map) = map_of(configuration) else { return Ok(None) };
        let map = Arc::new(map.map_err(|error| error.to_string())?);
        let aligner = Aligner::new(&configuration.process.clocks, &names, &map);
        let stages =
            process::stages(&configuration.process, &map, &names).map_err(|error| error.to_string())?;
        Ok(Some(Processing { map, aligner, stages }))
    }

    /// Returns true if a run has these stages, and the thread for them.
    pub(crate) fn is_in(configuration: &Configuration) -> bool {
        map_of(configuration).is_some()
    }
}

/// The channels, where there is anything to do with them.
fn map_of(configuration: &Configuration) -> Option<Result<ChannelMap, ChannelMapError>> {
    configuration.hit_sources().next()?;
    match channel_map(configuration) {
        Err(ChannelMapError::Channels(ChannelError::Shared { .. })) if !asks_for_anything(configuration) => {
            None
        }
        map => Some(map),
    }
}

/// Why there is no channel map.
#[derive(Debug, thiserror::Error)]
enum ChannelMapError {
    #[error(transparent)]
    Channels(#[from] ChannelError),
    #[error(
        "[channels] file = \"{file}\": {cause}; give the path of a readable table, relative to the configuration"
    )]
    File { file: String, cause: std::io::Error },
}

fn channel_map(configuration: &Configuration) -> Result<ChannelMap, ChannelMapError> {
    let sources: Vec<SourceChannels> = configuration
        .hit_sources()
        .enumerate()
        .filter_map(|(index, (source, format))| {
            // A source that makes no hits has no channel.
            let (first, count) = format.channels();
            let last = first.saturating_add(count.checked_sub(1)?);
            Some(SourceChannels {
                source: SourceId(index as u16),
                name: source.head.name.clone(),
                channels: first..=last,
            })
        })
        .collect();
    let rows = match &configuration.channels.file {
        Some(file) => read_table(&configuration.beside(file))?,
        None => Vec::new(),
    };
    Ok(ChannelMap::new(&sources, &configuration.channel, &rows)?)
}

fn read_table(path: &Path) -> Result<Vec<thalweg_analysis::channels::ChannelSettings>, ChannelMapError> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|cause| ChannelMapError::File { file: name.clone(), cause })?;
    Ok(table::read(&name, &text)?)
}

/// Returns true if anything is configured that needs to know which channel belongs to which source.
pub(crate) fn asks_for_anything(configuration: &Configuration) -> bool {
    let process = &configuration.process;
    !configuration.channel.is_empty()
        || configuration.channels.file.is_some()
        || !process.stages.is_empty()
        || !process.cuts.is_empty()
        || process.coincidence.is_some()
        || !process.own_spectra.is_empty()
        || process.clocks != Default::default()
}
