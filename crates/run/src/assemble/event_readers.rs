//! The threads that read triggered boards and build their events: one for all sources, or one per readout unit.

use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

use thalweg_build::Builder;
use thalweg_build::slices::FragmentCutter;
use thalweg_data::ring::{Downstream, circuit};
use thalweg_data::{Events, SourceId, Unit};
use thalweg_frontend::format::{BoardClock, FormatSettings};
use thalweg_readout::host::triggered::{AcceptedNumbers, HostedLink};
use thalweg_record::RawSource;

use super::{RawLinks, Site};
use crate::error::RunError;
use crate::gauges::{BuildGauges, Gauges};
use crate::open::{EmulatedBoard, OpenedLinks, OpenedPlace, open_links};
use crate::pipeline::{
    BoardSlots, Building, BuildingParts, Leader, LinkSlots, RefusedOutlet, Reported, link_units,
};
use crate::plan::thread_names;
use crate::slow_control::ControlledBoard;

/// The sources of one reader and what it needs to read them.
pub(super) struct Reading<'r> {
    /// The name of the thread.
    pub(super) name: &'r str,
    /// The name of the thread that takes the events.
    pub(super) taker: &'r str,
    /// Places of its sources in the configuration.
    pub(super) sources: &'r [usize],
    /// Their boards, one after another.
    pub(super) boards: Range<u16>,
    /// The counters of the events that it builds.
    pub(super) events: SourceId,
    pub(super) gauges: Arc<BuildGauges>,
    /// The board that emulated ones follow, if it is one of these.
    pub(super) leader: Option<Leader>,
    /// True if the consumer is a readout unit, which needs events in trigger order whatever `[build] ordered` says of recorded events.
    pub(super) for_readout_unit: bool,
    /// The numbers that the trigger has given, where every board here answers that trigger alone.
    pub(super) accepted: Option<Arc<AcceptedNumbers>>,
}

/// A reader that was started: nothing flows before the boards are.
pub(super) struct StartedReader {
    pub(super) thread: JoinHandle<()>,
    /// The other ends of emulated links, and the boards they stand for.
    pub(super) hosted: Vec<HostedLink>,
    pub(super) emulated: Vec<EmulatedBoard>,
    pub(super) controls: Vec<ControlledBoard>,
    pub(super) descriptions: Vec<(usize, String)>,
    /// Gauges by the number of the link.
    pub(super) gauges: Vec<(SourceId, Arc<Gauges>)>,
}

impl Reading<'_> {
    /// Opens the links and starts the thread; its events come out of the ring.
    ///
    /// # Errors
    /// When a link cannot be opened, or there is no thread.
    pub(super) fn start(
        self,
        site: &Site<'_>,
        raw: &mut RawLinks,
    ) -> Result<(StartedReader, Downstream<Events>), RunError> {
        let Site { configuration, source_table, .. } = *site;
        let open =
            || open_links(configuration, site.origin, (source_table, self.sources), site.clock, site.busy);
        let opened = site.placement.near(self.name, open)??;
        let OpenedLinks { links, places, hosted, emulated, controls, descriptions } = opened;
        self.claim(site, &places);
        let slices = configuration.slices.as_ref();
        let mut rules = match slices {
            Some(slices) => slices.builder(&configuration.build),
            None => configuration.build.clone(),
        };
        rules.ordered |= self.for_readout_unit;
        let mut builder = Builder::new(&rules, self.boards)?;
        let widths = self.sources.iter().filter(|_| slices.is_none());
        for (source, bits) in widths.flat_map(|index| trigger_bits(site, *index)) {
            builder.set_trigger_bits(source, bits)?;
        }
        builder.start_run(super::RUN);
        let raw_source = |place: &OpenedPlace| RawSource {
            source: place.link.0,
            name: source_table.names[place.link.index()].clone(),
            stream: place.stream,
            block_bytes: place.block_bytes,
        };
        let raw_sources: Vec<RawSource> = places.iter().map(raw_source).collect();
        let gauges_of = |place: &OpenedPlace| (place.link, Arc::new(Gauges::new(Some(place.pool.clone()))));
        let gauges: Vec<(SourceId, Arc<Gauges>)> = places.iter().map(gauges_of).collect();
        let (inlet, outlet) = circuit(site.claims.ring(self.name, self.taker), Events::default);
        let builder_node = format!("build {}", source_table.names[self.events.index()]);
        let reader = Building::readout(BuildingParts {
            inputs: links,
            builder,
            links: places.iter().map(|place| link_slots(site, &builder_node, place)).collect(),
            events_ledger: site.slot(&builder_node, self.events),
            raw: raw.link(site, self.name, &raw_sources),
            leader: self.leader,
            cutters: cutters(site, self.sources)?,
            outlet: inlet,
            busy: site.busy.clone(),
            gauges: self.gauges,
            link_gauges: gauges.iter().map(|(_, gauges)| gauges.clone()).collect(),
            refused: RefusedOutlet::new(site.refused, self.name),
            names: source_table.names.clone().into(),
            to_readout_unit: self.for_readout_unit,
            accepted: self.accepted,
        });
        let thread = site.spawn(self.name, move |signals| reader.run(signals))?;
        Ok((StartedReader { thread, hosted, emulated, controls, descriptions, gauges }, outlet))
    }

    /// Claims what the topology declares for this reader in addition to its thread and the ring after it.
    fn claim(&self, site: &Site<'_>, places: &[OpenedPlace]) {
        for entry in self.sources.iter().map(|index| &site.source_table.entries[*index]) {
            let is_of_it = |place: &&OpenedPlace| entry.links.iter().any(|link| link.link == place.link);
            for place in places.iter().filter(is_of_it) {
                site.claims.pools(&entry.name, 1, (place.pool.block_count(), place.pool.block_size()));
            }
        }
        if self.leader.is_some() {
            site.claims.ring(self.name, thread_names::EMULATE);
        }
    }
}

/// Makes the cutters that cut the fragments of each link by time; none in a run without time slices.
fn cutters(site: &Site<'_>, sources: &[usize]) -> Result<Vec<FragmentCutter>, RunError> {
    let Some(slices) = &site.configuration.slices else { return Ok(Vec::new()) };
    let no_clock = || site.configuration.invalid("[slices]: `tick_ps` of a source is missing or 0");
    let mut cutters = Vec::new();
    for index in sources {
        let FormatSettings::Triggered(boards) = &site.configuration.sources[*index].format else { continue };
        let tick = match boards.clock() {
            BoardClock::Tick(tick) => tick,
            BoardClock::Unstated => return Err(no_clock().into()),
            BoardClock::None => continue,
        };
        for place in &site.source_table.entries[*index].links {
            cutters.push(FragmentCutter::new(place.boards.clone(), slices, tick)?);
        }
    }
    Ok(cutters)
}

/// Returns the width of the trigger numbers of a source's boards in bits, where the format states it.
fn trigger_bits(site: &Site<'_>, index: usize) -> Vec<(SourceId, u32)> {
    let FormatSettings::Triggered(boards) = &site.configuration.sources[index].format else {
        return Vec::new();
    };
    let Some(bits) = boards.trigger_bits() else { return Vec::new() };
    let links = site.source_table.entries[index].links.iter();
    links.flat_map(|place| place.boards.clone()).map(|board| (SourceId(board), bits)).collect()
}

fn link_slots(site: &Site<'_>, builder: &str, place: &OpenedPlace) -> LinkSlots {
    let of = site.source_table.entry_of(place.link);
    let open = |stage: &str, source| site.slot(&format!("{stage} {of}"), source);
    let one_board = place.boards.len() == 1;
    let wire: &[Unit] =
        if place.counts_frames { &[Unit::Fragments, Unit::Frames] } else { &[Unit::Fragments] };
    let board = |source| BoardSlots {
        source,
        unpack: (!one_board).then(|| site.slot(&format!("unpack {of}/boards"), source)),
        wire: site.slot_of(&format!("wire {of}"), source, wire),
        slices: site.configuration.slices.as_ref().map(|_| open("time_slice", source)),
        build: site.slot(&format!("{builder}/fragments"), source),
        reported: Reported::default(),
    };
    LinkSlots {
        source: place.link,
        receive: site.slot_of(&format!("receive {of}"), place.link, link_units(place.stream)),
        unpack: open("unpack", place.link),
        boards: place.boards.clone().map(SourceId).map(board).collect(),
        drops: place.drops,
    }
}
