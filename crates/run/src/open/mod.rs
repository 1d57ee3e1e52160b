//! Opens the sources of a run: endpoints or recordings, faults, framing, decoders, emulated boards. Here are those of hits, in `links` the
//! triggered ones.
//!
//! ```text
//!  [[source]] ─► endpoint ─► (faults) ─┐
//!  recording ────────────► raw replay ─┴─► Opened { source, framing, decoders, control, board }
//! ```

mod links;
mod truth;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_data::{
    Busy, Decode, DeviceControl, Frames, Framing, Pool, SentRecord, Source, SourceError, SourceId, Unit,
};
use thalweg_frontend::format::{FramingInput, HitFormat};
use thalweg_readout::host::{HostSettings, HostedBoard, Place};
use thalweg_readout::{Faulty, RunClock, pool_refusal};
use thalweg_record::read::Pace;
use thalweg_record::{RawReplay, ReplayRecord};

use crate::config::{Configuration, SourceSettings};
use crate::error::RunError;
use crate::plan::Placement;
use crate::plan::capacity::replayed_blocks;
use crate::plan::thread_names;

pub(crate) use links::{EmulatedBoard, OpenedLinks, OpenedPlace, host, open_links};
pub(crate) use truth::TruthFile;

/// The origin of the bytes.
pub(crate) enum Origin {
    /// The endpoints of the configuration.
    Configured,
    /// A raw recording.
    Recorded(Recording),
}

/// A raw recording that is read again.
pub(crate) struct Recording {
    /// The run's directory.
    pub(crate) path: PathBuf,
    /// How fast it is read; as fast as possible without one.
    pub(crate) pace: Option<Pace>,
    /// What the new run says of its origin.
    pub(crate) replay: ReplayRecord,
}

/// One source, ready to be read.
pub(crate) struct Opened {
    pub(crate) source: Box<dyn Source>,
    pub(crate) framing: Box<dyn Framing<Output = Frames>>,
    /// One for inline decoding, or one per worker.
    pub(crate) decoders: Vec<Box<dyn Decode>>,
    pub(crate) wire_units: &'static [Unit],
    pub(crate) pool: Pool,
    pub(crate) control: Option<Box<dyn DeviceControl>>,
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
    (clock, placement): (RunClock, &Placement),
    busy: &Arc<Busy>,
) -> Result<OpenedAll, RunError> {
    let truth = configuration.truth.as_deref().map(TruthFile::create).transpose()?;
    let mut sources = Vec::new();
    for (index, (settings, format)) in configuration.hit_sources().enumerate() {
        let given = Given { configuration, settings, format, id: SourceId(index as u16), placement };
        let open = || match origin {
            Origin::Configured => given.configured(clock, busy, truth.as_ref()),
            Origin::Recorded(recording) => given.recorded(recording),
        };
        // Its blocks are near the core that will read it.
        sources.push(placement.near(settings.head.reader(), open)??);
    }
    Ok(OpenedAll { sources, truth })
}

/// One source of hits as the configuration gives it.
struct Given<'c> {
    configuration: &'c Configuration,
    settings: &'c SourceSettings,
    format: &'c dyn HitFormat,
    id: SourceId,
    placement: &'c Placement,
}

impl Given<'_> {
    fn configured(
        &self,
        clock: RunClock,
        busy: &Arc<Busy>,
        truth: Option<&TruthFile>,
    ) -> Result<Opened, RunError> {
        let Given { configuration, settings, .. } = *self;
        let endpoint = configuration.located_endpoint(settings);
        let opened = thalweg_readout::open(&endpoint, clock, busy)?;
        let board = match opened.address {
            Some(to) if settings.is_emulated() => Some(self.board(to, truth)?),
            _ => None,
        };
        let source: Box<dyn Source> = match &settings.head.faults {
            Some(faults) if faults.any() => {
                let faulty = Faulty::new(opened.source, faults.clone());
                Box::new(faulty.map_err(|error| self.refused(error.to_string()))?)
            }
            _ => opened.source,
        };
        let asked = board.as_ref().and_then(HostedBoard::sent_record).filter(|_| settings.asks_sender());
        let framed = self.framed(source, opened.pool, asked)?;
        Ok(Opened { control: opened.control, board, ..framed })
    }

    fn board(&self, to: SocketAddr, truth: Option<&TruthFile>) -> Result<HostedBoard, RunError> {
        let board = self.settings.emulated_board().map_err(|error| self.refused(error))?;
        let first_channel = self.format.channels().0;
        let truth = truth.map(|file| file.sink(first_channel));
        let host = HostSettings { board, place: Place::Stream { to }, loss: self.settings.head.loss, truth };
        let hosted = self.placement.near(thread_names::EMULATE, || HostedBoard::new(host))?;
        hosted.map_err(|error| self.refused(error.to_string()))
    }

    fn pool_shape(&self) -> Result<(usize, usize), RunError> {
        self.settings.endpoint.pool_shape().map_err(|message| self.refused(message))
    }

    /// One source of a raw recording, with blocks of the same size, so that units are cut where they were.
    fn recorded(&self, Recording { path, pace, .. }: &Recording) -> Result<Opened, RunError> {
        let (blocks, block_bytes) = self.pool_shape()?;
        let memory = self.settings.endpoint.memory();
        let pool = Pool::of(replayed_blocks(blocks), block_bytes, memory).map_err(|error| SourceError {
            place: path.display().to_string(),
            message: pool_refusal(&error),
        })?;
        let replay = RawReplay::open(path, self.id, pool.clone())?.paced(pace.clone());
        self.framed(Box::new(replay), pool, None)
    }

    /// `asked` is what the sender writes down, where it can be asked.
    fn framed(
        &self,
        source: Box<dyn Source>,
        pool: Pool,
        asked: Option<&Arc<SentRecord>>,
    ) -> Result<Opened, RunError> {
        let Given { settings, format, id, .. } = *self;
        let is_stream = source.is_stream();
        // As in the run, where a replay has more of them.
        let (blocks, block_bytes) = self.pool_shape()?;
        let input = FramingInput {
            source: id,
            is_stream,
            scheme: settings.endpoint.url.scheme(),
            asked,
            blocks,
            block_bytes,
        };
        let (framing, decoders) =
            format.framing(input, settings.head.workers.max(1)).map_err(|message| self.refused(message))?;
        Ok(Opened {
            source,
            framing,
            decoders,
            wire_units: format.wire_units(is_stream, asked.is_some()),
            pool,
            control: None,
            board: None,
            disorder_ps: disorder_ps(settings),
        })
    }

    fn refused(&self, message: String) -> RunError {
        refused(self.configuration, self.settings, message)
    }
}

/// Returns how far back in time the hits of a source may lie.
fn disorder_ps(settings: &SourceSettings) -> Option<u64> {
    // A file is read at once: it is sorted as a whole, up to the memory for ordering.
    settings.head.disorder_ps.or_else(|| is_file(settings).then_some(i64::MAX as u64 / 2))
}

fn is_file(settings: &SourceSettings) -> bool {
    settings.endpoint.url.scheme() == "file"
}

/// A configuration whose values do not fit together.
pub(crate) fn refused(configuration: &Configuration, settings: &SourceSettings, message: String) -> RunError {
    RunError::Configuration(configuration.invalid_source(settings, message))
}
