//! Opens the triggered sources of a run: links, framing, register control, emulated boards.
//!
//! ```text
//!  [[source]] … ─► links, in the order of the source table ─► Group
//!                    └─ their other ends, if emulated ─► one trigger for all of them: HostedBoards
//! ```

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use thalweg_data::{
    Busy, DeviceControl, FragmentRecord, Fragments, LinkId, Pool, Source as _, SourceError, SourceId,
};
use thalweg_readout::host::triggered::{AcceptedNumbers, Feed, HostedBoards, HostedLink, TriggeredSettings};
use thalweg_readout::links::{self, LinkSettings};
use thalweg_readout::{BlockPolicy, Group, GroupSettings, Inputs, Link, RunClock, pool_refusal};
use thalweg_record::RawReplay;

use super::{Origin, Recording, refused};
use crate::config::{Configuration, SourceSettings};
use crate::error::RunError;
use crate::pipeline::{RecordedLink, ReplayedLinks};
use crate::slow_control::ControlledBoard;
use crate::source_table::SourceTable;

/// One link's place among the counters, and how it is treated.
pub(crate) struct OpenedPlace {
    /// The source whose counters count its bytes.
    pub(crate) link: SourceId,
    /// The boards on the link.
    pub(crate) boards: Range<u16>,
    /// Bytes without datagrams.
    pub(crate) stream: bool,
    /// True if what the builder does not take is refused: datagrams cannot wait.
    pub(crate) drops: bool,
    /// The boards count what they send.
    pub(crate) counts_frames: bool,
    pub(crate) block_bytes: u64,
    /// The pool into which its bytes are received.
    pub(crate) pool: Pool,
}

/// A triggered board of this process.
pub(crate) struct EmulatedBoard {
    /// The source that the board belongs to.
    pub(crate) source: SourceId,
    /// The record of what the board has answered, and of what has come of it.
    pub(crate) record: Arc<FragmentRecord>,
}

/// All triggered sources of a run, and what belongs to them.
pub(crate) struct OpenedLinks {
    pub(crate) links: Box<dyn Inputs<Fragments>>,
    pub(crate) places: Vec<OpenedPlace>,
    /// The other ends of emulated links, and the boards they stand for.
    pub(crate) hosted: Vec<HostedLink>,
    pub(crate) emulated: Vec<EmulatedBoard>,
    pub(crate) controls: Vec<ControlledBoard>,
    /// Descriptions by the source's index in the configuration.
    pub(crate) descriptions: Vec<(usize, String)>,
}

/// Opens the links of some `[[source]]`s, given by their places in the configuration. Nothing flows yet.
///
/// # Errors
/// When one cannot be opened, or its settings do not fit.
pub(crate) fn open_links(
    configuration: &Configuration,
    origin: &Origin,
    (source_table, sources): (&SourceTable, &[usize]),
    clock: RunClock,
    busy: &Arc<Busy>,
) -> Result<OpenedLinks, RunError> {
    match origin {
        Origin::Configured => open_live(configuration, (source_table, sources), clock, busy),
        Origin::Recorded(recording) => open_recorded(configuration, (source_table, sources), recording),
    }
}

fn open_live(
    configuration: &Configuration,
    (source_table, sources): (&SourceTable, &[usize]),
    clock: RunClock,
    busy: &Arc<Busy>,
) -> Result<OpenedLinks, RunError> {
    let mut all: Vec<Link<Fragments>> = Vec::new();
    let (mut places, mut controls, mut descriptions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut hosted, mut emulated): (Vec<HostedLink>, Vec<EmulatedBoard>) = (Vec::new(), Vec::new());
    for &index in sources {
        let (source, entry) = (&configuration.sources[index], &source_table.entries[index]);
        let Some(first) = entry.links.first() else { continue };
        let Some(settings) = source.links(SourceId(first.boards.start)) else { continue };
        let endpoint = configuration.located_endpoint(source);
        let mut own = links::open_links(&LinkSettings { endpoint: &endpoint, ..settings }, clock, busy)?;
        let plan = own.plan;
        let boards = entry.links.iter().flat_map(|place| place.boards.clone()).map(SourceId);
        let records = own.ask_boards(configuration.trigger_rate_hz());
        for ((link, pool), place) in own.links.iter().zip(own.pools).zip(&entry.links) {
            let stream = link.live.is_stream();
            places.push(OpenedPlace {
                link: place.link,
                boards: place.boards.clone(),
                stream,
                drops: !stream && source.endpoint.policy == BlockPolicy::Drop,
                counts_frames: !link.framing.wire_counters().is_empty(),
                block_bytes: plan.block_bytes as u64,
                pool,
            });
        }
        let first_link = own.links.first().map(|link| link.live.description()).unwrap_or_default();
        let line = match plan.links {
            1 => first_link,
            links => format!("{links} links; the first: {first_link}"),
        };
        descriptions.push((index, line));
        emulated.extend(boards.zip(records).map(|(source, record)| EmulatedBoard { source, record }));
        hosted.extend(own.hosted);
        all.extend(own.links);
        controls.extend(board_controls(source, own.controls));
    }
    let group = Group::new(all, GroupSettings::default(), clock)?;
    let links = Box::new(group);
    Ok(OpenedLinks { links, places, hosted, emulated, controls, descriptions })
}

/// Returns the controls of the boards of a source, numbered where there are several.
fn board_controls(
    source: &SourceSettings,
    controls: Vec<Box<dyn DeviceControl>>,
) -> impl Iterator<Item = ControlledBoard> {
    let is_alone = controls.len() == 1;
    controls.into_iter().enumerate().map(move |(number, control)| ControlledBoard {
        name: if is_alone { source.head.name.clone() } else { format!("{}-{number}", source.head.name) },
        url: source.endpoint.url.to_string(),
        parameters: source.endpoint.parameters.clone(),
        control: Arc::new(Mutex::new(control)),
    })
}

/// The emulated boards of all sources, triggered together once `may_begin` is set, where there is one. What numbers the trigger has given
/// is noted in `accepted`.
///
/// # Errors
/// When a socket cannot be made.
pub(crate) fn host(
    configuration: &Configuration,
    links: Vec<HostedLink>,
    feed: Feed,
    busy: &Arc<Busy>,
    (may_begin, accepted): (Option<Arc<AtomicBool>>, Option<Arc<AcceptedNumbers>>),
) -> Result<HostedBoards, RunError> {
    let settings = TriggeredSettings {
        first_number: configuration.trigger.first_number,
        readout_ns: configuration.trigger.readout_ns,
        busy: Some(busy.clone()),
        may_begin,
        accepted,
        ..TriggeredSettings::new(links, feed)
    };
    Ok(HostedBoards::new(settings)?)
}

/// The links of a raw recording, with pools of the same shape.
fn open_recorded(
    configuration: &Configuration,
    (source_table, sources): (&SourceTable, &[usize]),
    Recording { path, pace, .. }: &Recording,
) -> Result<OpenedLinks, RunError> {
    let (mut links, mut places, mut descriptions) = (Vec::new(), Vec::new(), Vec::new());
    for &index in sources {
        let (source, entry) = (&configuration.sources[index], &source_table.entries[index]);
        let Some(first) = entry.links.first() else { continue };
        let Some(settings) = source.links(SourceId(first.boards.start)) else { continue };
        let plan = settings.plan().map_err(|message| refused(configuration, source, message))?;
        for (number, place) in entry.links.iter().enumerate() {
            let failed = |error: thalweg_data::PoolError| SourceError {
                place: path.display().to_string(),
                message: pool_refusal(&error),
            };
            let pool = Pool::of(plan.blocks, plan.block_bytes, source.endpoint.memory()).map_err(failed)?;
            let replay = RawReplay::open(path, place.link, pool.clone())?;
            let stream = replay.is_stream();
            let framing = settings
                .framing(LinkId::from_index(number), stream)
                .map_err(|message| refused(configuration, source, message))?;
            places.push(OpenedPlace {
                link: place.link,
                boards: place.boards.clone(),
                stream,
                drops: !stream && source.endpoint.policy == BlockPolicy::Drop,
                counts_frames: !framing.wire_counters().is_empty(),
                block_bytes: plan.block_bytes as u64,
                pool,
            });
            let has_gaps = replay.content().gap_count() > 0;
            let replay = Box::new(replay);
            links.push(RecordedLink { source: place.link, replay, has_gaps, framing });
        }
        descriptions.push((index, format!("replay of {} link(s)", entry.links.len())));
    }
    let links = Box::new(ReplayedLinks::new(links, pace.clone()));
    let (hosted, emulated, controls) = (Vec::new(), Vec::new(), Vec::new());
    Ok(OpenedLinks { links, places, hosted, emulated, controls, descriptions })
}
