//! Opens the sources of a run: endpoints or recordings, faults, framing, decoders, emulated boards.
//!
//! ```text
//!  [[source]] ─► endpoint ─► (faults) ─┐
//!  recording ────────────► raw replay ─┴─► Opened { source, unpack, decoders, control, board }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_data::{Busy, Control, Decode, Pool, Source, SourceError, SourceId, Unit, Unpack};
use thalweg_readout::host::{HostSettings, HostedBoard, Place};
use thalweg_readout::{Faulty, RunClock};
use thalweg_record::RawReplay;

use crate::config::{ConfigError, Configuration, SourceSettings};
use crate::emulate::TruthFile;
use crate::error::RunError;
use crate::format::EmulateSettings;

/// Where the bytes come from.
pub(crate) enum Origin {
    /// From the endpoints of the configuration.
    Configured,
    /// From the raw recording in this directory.
    Recorded(PathBuf),
}

/// One source, ready to be read.
pub(crate) struct Opened {
    pub(crate) source: Box<dyn Source>,
    pub(crate) unpack: Box<dyn Unpack>,
    /// One for inline decoding, or one per worker.
    pub(crate) decoders: Vec<Box<dyn Decode>>,
    pub(crate) wire_units: &'static [Unit],
    pub(crate) pool: Pool,
    pub(crate) control: Option<Box<dyn Control>>,
    pub(crate) board: Option<HostedBoard>,
    pub(crate) disorder_ps: Option<u64>,
}

/// All sources of a run, and what belongs to them together.
pub(crate) struct OpenedAll {
    pub(crate) sources: Vec<Opened>,
    pub(crate) truth: Option<TruthFile>,
}

/// Opens every source. Nothing flows yet.
///
/// # Errors
/// When one cannot be opened, or its settings do not fit.
pub(crate) fn open_all(
    configuration: &Configuration,
    origin: &Origin,
    clock: RunClock,
) -> Result<OpenedAll, RunError> {
    let busy = Arc::new(Busy::default());
    let truth = configuration.truth.as_deref().map(TruthFile::create).transpose()?;
    let mut sources = Vec::new();
    for (index, settings) in configuration.sources.iter().enumerate() {
        let id = SourceId(index as u16);
        sources.push(match origin {
            Origin::Configured => configured(configuration, settings, id, clock, &busy, truth.as_ref())?,
            Origin::Recorded(path) => recorded(configuration, settings, id, path)?,
        });
    }
    Ok(OpenedAll { sources, truth })
}

fn configured(
    configuration: &Configuration,
    settings: &SourceSettings,
    id: SourceId,
    clock: RunClock,
    busy: &Arc<Busy>,
    truth: Option<&TruthFile>,
) -> Result<Opened, RunError> {
    let folder = configuration.file.parent().unwrap_or(Path::new("."));
    let mut endpoint = settings.endpoint.clone();
    endpoint.url = endpoint.url.relative_to(folder);
    endpoint.continuations.iter_mut().for_each(|path| *path = folder.join(&*path));
    let opened = thalweg_readout::open(&endpoint, clock, busy)?;
    let board = match opened.address {
        Some(to) if settings.endpoint.url.scheme() == "emulate" => {
            let first_channel = settings.format.channels().0;
            let host = HostSettings {
                board: match &settings.emulate {
                    Some(EmulateSettings::Digitizer2(board)) => (**board).clone(),
                    None => Default::default(),
                },
                place: Place::Stream { to },
                loss: settings.head.loss,
                truth: truth.map(|file| file.sink(first_channel)),
            };
            Some(
                HostedBoard::new(host)
                    .map_err(|error| refused(configuration, settings, error.to_string()))?,
            )
        }
        _ => None,
    };
    let source: Box<dyn Source> = match &settings.head.faults {
        Some(faults) if faults.any() => {
            let faulty = Faulty::new(opened.source, faults.clone());
            Box::new(faulty.map_err(|error| refused(configuration, settings, error.to_string()))?)
        }
        _ => opened.source,
    };
    let framed = framed(configuration, settings, id, source, opened.pool)?;
    Ok(Opened { control: opened.control, board, ..framed })
}

/// One source of a raw recording, with a pool of the same shape, so that units are cut where they were.
fn recorded(
    configuration: &Configuration,
    settings: &SourceSettings,
    id: SourceId,
    path: &Path,
) -> Result<Opened, RunError> {
    let (blocks, block_bytes) = settings.endpoint.pool_shape();
    let pool = Pool::new(blocks, block_bytes)
        .map_err(|error| SourceError { place: path.display().to_string(), message: error.to_string() })?;
    let replay = RawReplay::open(path, id, pool.clone())?;
    framed(configuration, settings, id, Box::new(replay), pool)
}

fn framed(
    configuration: &Configuration,
    settings: &SourceSettings,
    id: SourceId,
    source: Box<dyn Source>,
    pool: Pool,
) -> Result<Opened, RunError> {
    let refused = |message: String| refused(configuration, settings, message);
    let is_stream = source.is_stream();
    let unpack = settings.format.unpack(id, is_stream, is_file(settings), &pool).map_err(refused)?;
    let decoders =
        (0..settings.head.workers.max(1)).map(|_| settings.format.decode(id)).collect::<Result<_, _>>();
    Ok(Opened {
        source,
        unpack,
        decoders: decoders.map_err(refused)?,
        wire_units: settings.format.wire_units(is_stream),
        pool,
        control: None,
        board: None,
        disorder_ps: disorder_ps(settings),
    })
}

/// How far back in time the hits of a source may lie.
fn disorder_ps(settings: &SourceSettings) -> Option<u64> {
    // A file is read at once: it is sorted as a whole, up to the memory for ordering.
    settings.head.disorder_ps.or_else(|| is_file(settings).then_some(i64::MAX as u64 / 2))
}

fn is_file(settings: &SourceSettings) -> bool {
    settings.endpoint.url.scheme() == "file"
}

fn refused(configuration: &Configuration, settings: &SourceSettings, message: String) -> RunError {
    let (file, source_name) = (configuration.file.clone(), settings.head.name.clone());
    RunError::Configuration(ConfigError::Source { file, source_name, message })
}
