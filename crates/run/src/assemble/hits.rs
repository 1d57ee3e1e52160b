//! The path of self-triggered boards, from their sources to recorded hits.
//!
//! ```text
//!  [[source]] ─► reader (one per source) ══hits══► order: align, time order, cuts, coincidence, record ══hits══► process
//!                        ║              └► time slices ══events══► recorder, if hits are cut
//!                        ╚══frames══► raw recorder, if received bytes are kept
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use thalweg_analysis::process::Stages;
use thalweg_build::slices::{self, HIT_BLOCK_BYTES, HitCutter};
use thalweg_build::{Builder, Full, Settings};
use thalweg_data::ring::circuit;
use thalweg_data::sent::SentCounts;
use thalweg_data::{Counters, Events, Frames, Ledger, LossReason, Pool, SourceId, Stage, Unit};
use thalweg_frontend::self_triggered::Totals;
use thalweg_order::TimeOrder;
use thalweg_readout::group::{Group, GroupSettings, Link};
use thalweg_readout::host::HostedBoard;
use thalweg_record::{CoincidenceWriter, HitWriter, RawSource, Table};

use super::events::{EventsTaken, recorder};
use super::{RawLinks, Site, joined};
use crate::config::{Configuration, SourceSettings};
use crate::error::RunError;
use crate::gauges::{BuildGauges, Gauges};
use crate::observed::Observed;
use crate::open::{Opened, OpenedAll, TruthFile, open_all};
use crate::pipeline::{
    AddedStages, Decoding, EventOutlet, EventRecorder, EventSlots, HitLink, Inlet, Ledgered, OrderThread,
    Process, ReaderSlots, Recorded, RecordingState, Selection, SelectionSlots, Signals, Slicer, SourceCutter,
    decode_stage,
};
use crate::plan::SLICES;
use crate::plan::capacity::{HITS_PER_BATCH, OUTPUT_HITS};
use crate::plan::thread_names;
use crate::processing::Processing;
use crate::slow_control::{ControlledBoard, ControlledBoards, Keeper};

/// The hits' sources and threads while a run is under way.
pub(super) struct HitPath {
    pub(super) descriptions: Vec<String>,
    pub(super) gauges: Vec<Arc<Gauges>>,
    controls: ControlledBoards,
    keepers: Vec<Keeper>,
    boards: Vec<Option<HostedBoard>>,
    truth: Option<TruthFile>,
    readers: Vec<JoinHandle<()>>,
    order_thread: JoinHandle<OrderThread>,
    process: Option<JoinHandle<Process>>,
    slices: Option<SliceRecorder>,
    /// The views of the hits while they flow.
    pub(super) observed: Option<Observed>,
}

/// The recorder of the time slices of a run.
struct SliceRecorder {
    thread: JoinHandle<EventRecorder>,
    gauges: Arc<BuildGauges>,
    events: SourceId,
}

/// The remains of the path after its threads have ended.
pub(super) struct HitsTaken {
    /// The order thread with its sink; `None` after a panic.
    pub(super) order_thread: Option<OrderThread>,
    /// The process thread with what it has recorded; `None` without such a thread, and after a panic.
    pub(super) process: Option<Process>,
    /// Hits that the senders count, where all of them report.
    pub(super) sent: Option<u64>,
    /// The time slices, in a run with them.
    pub(super) slices: Option<EventsTaken>,
}

impl HitPath {
    /// Opens every source of hits and starts their threads. Nothing flows yet. `None` of a run without such sources.
    ///
    /// # Errors
    /// When a source cannot be opened, or a file or thread cannot be made.
    pub(super) fn open(site: &Site<'_>, raw: &mut RawLinks) -> Result<Option<HitPath>, RunError> {
        if site.configuration.hit_sources().next().is_none() {
            return Ok(None);
        }
        let OpenedAll { sources: mut opened, truth } =
            open_all(site.configuration, site.origin, (site.clock, site.placement), site.busy)?;
        let descriptions = opened.iter().map(|source| source.source.description()).collect();
        let gauges: Vec<Arc<Gauges>> =
            opened.iter().map(|source| Arc::new(Gauges::new(Some(source.pool.clone())))).collect();
        let sources = site.configuration.hit_sources().map(|(source, _)| source);
        let controls = opened.iter_mut().zip(sources).filter_map(|(opened, source)| {
            Some(ControlledBoard {
                name: source.head.name.clone(),
                url: source.endpoint.url.to_string(),
                parameters: source.endpoint.parameters.clone(),
                control: Arc::new(Mutex::new(opened.control.take()?)),
            })
        });
        let controls = ControlledBoards::new(controls.collect());
        if !controls.all().is_empty() {
            site.claims.threads(thread_names::KEEPER, controls.all().len());
        }
        let boards: Vec<Option<HostedBoard>> = opened.iter_mut().map(|source| source.board.take()).collect();
        if boards.iter().any(Option::is_some) {
            site.claims.shared_threads(thread_names::EMULATE);
        }
        let (slicer, slices) = slices(site)?.unzip();
        let Behind { added, selection, process } = behind_order(site)?;
        let observed = process.as_ref().map(|process| process.observed().clone());
        let (readers, order_thread) = start_threads(site, opened, (&gauges, added, selection, slicer), raw)?;
        let start = |process: Process| site.spawn(thread_names::PROCESS, move |signals| process.run(signals));
        let process = process.map(start).transpose()?;
        Ok(Some(HitPath {
            descriptions,
            gauges,
            controls,
            keepers: Vec::new(),
            boards,
            truth,
            readers,
            order_thread,
            process,
            slices,
            observed,
        }))
    }

    /// Returns the gauges of the builder of time slices, in a run with them.
    pub(super) fn build_gauges(&self) -> Option<Arc<BuildGauges>> {
        self.slices.as_ref().map(|slices| slices.gauges.clone())
    }

    /// Arms the boards.
    ///
    /// # Errors
    /// When one is not armed in time.
    pub(super) fn arm(&mut self, site: &Site<'_>) -> Result<(), RunError> {
        self.controls.arm(site.values)
    }

    /// Lets hits flow.
    ///
    /// # Errors
    /// When a board is not started.
    pub(super) fn start(&mut self, site: &Site<'_>) -> Result<(), RunError> {
        self.controls.start()?;
        for board in self.controls.all() {
            match site.keeper(&board.name, &board.control) {
                Ok(keeper) => self.keepers.push(keeper),
                Err(error) => site.signals.fail(error.to_string()),
            }
        }
        self.boards.iter().flatten().for_each(HostedBoard::start);
        Ok(())
    }

    /// Stops the boards; what they have sent is still on its way.
    pub(super) fn stop(&mut self, site: &Site<'_>) {
        self.keepers.drain(..).for_each(|keeper| keeper.finish(site.signals));
        // They are disarmed when what they have measured is here.
        self.controls.stop(site.signals);
        // None of them goes on while others come to their end.
        self.boards.iter().flatten().for_each(HostedBoard::stop);
        for (board, (source, _)) in self.boards.iter_mut().zip(site.configuration.hit_sources()) {
            let Some(board) = board else { continue };
            board.end();
            if board.is_cut_short() {
                tracing::warn!(
                    "{}: the emulated board was far behind its time at the stop, and ended there; this computer is too slow for its rate",
                    source.head.name
                );
            }
        }
    }

    /// Closes or opens the vetoes of emulated boards.
    pub(super) fn inhibit(&self, inhibited: bool) {
        self.boards.iter().flatten().for_each(|board| board.inhibit(inhibited));
    }

    /// Waits for the threads, which end once everything is written.
    ///
    /// # Errors
    /// When the truth cannot be written to its end.
    pub(super) fn finish(self, site: &Site<'_>) -> Result<HitsTaken, RunError> {
        for reader in self.readers {
            joined(reader, site.signals);
        }
        self.controls.disarm(site.values, site.signals);
        let order_thread = joined(self.order_thread, site.signals);
        let process = self.process.and_then(|process| joined(process, site.signals));
        let slices = self.slices.map(|slices| {
            let recorder = joined(slices.thread, site.signals);
            EventsTaken::of_slices(recorder, slices.gauges.latest(), slices.events)
        });
        let sent = close_sender_slots(site.configuration, site.ledger, &self.boards, site.signals);
        drop(self.boards);
        self.truth.map(TruthFile::finish).transpose()?;
        Ok(HitsTaken { order_thread, process, sent, slices })
    }
}

/// Makes the slicer, which cuts hits into time slices, and the thread that records them; `None` in a run without.
fn slices(site: &Site<'_>) -> Result<Option<(Slicer, SliceRecorder)>, RunError> {
    let Site { configuration, source_table, placement, .. } = *site;
    let (Some(slices), Some(events)) = (&configuration.slices, source_table.events) else { return Ok(None) };
    let build = Settings {
        // Batches come in the order of their arrival: to hold one source back would hold all others.
        full: Full::Close,
        ..slices.builder(&configuration.build)
    };
    let mut builder = Builder::new(&build, source_table.boards.clone())?;
    builder.start_run(super::RUN);
    let mut sources = Vec::new();
    for (index, (settings, _)) in configuration.hit_sources().enumerate() {
        let (source, own_slices) =
            (SourceId(index as u16), SourceId(source_table.boards.start + index as u16));
        let blocks = slices.hit_blocks(source_table.boards.len());
        let pool = placement.near(thread_names::ORDER, || Pool::new(blocks, HIT_BLOCK_BYTES))??;
        site.claims.pools(SLICES, 1, (blocks, HIT_BLOCK_BYTES));
        let own = match settings.endpoint.url.scheme() {
            // Times in a file have nothing to do with when it is read.
            "file" => slices::Settings { ahead_ms: 0, silence_ms: 0, ..slices.clone() },
            _ => slices.clone(),
        };
        sources.push(SourceCutter {
            cutter: HitCutter::new(own_slices, &own, &pool)?,
            slices: site.slot("time_slice slices", source),
            wire: site.slot("wire slices", own_slices),
            build: site.slot("build slices/fragments", own_slices),
        });
    }
    let (inlet, outlet) =
        circuit(site.claims.ring(thread_names::ORDER, thread_names::RECORD), Events::default);
    let gauges = Arc::new(BuildGauges::default());
    let outlet_of_builder = EventOutlet::new(inlet, gauges.clone());
    let slots = site.slot("build slices", events);
    let slicer = Slicer::new(sources, builder, (outlet_of_builder, gauges.clone()), slots);
    let thread = recorder(site, events, outlet, &gauges)?;
    Ok(Some((slicer, SliceRecorder { thread, gauges, events })))
}

/// The stages after time order, with their counters.
struct Behind {
    /// The added stages on the order thread.
    added: AddedStages,
    /// The selection on the order thread and on the thread after it; `None` where channels cannot be distinguished.
    selection: Option<Selection>,
    process: Option<Process>,
}

fn behind_order(site: &Site<'_>) -> Result<Behind, RunError> {
    let Site { configuration, source_table, .. } = *site;
    let processing = site.placement.near(thread_names::PROCESS, || Processing::of(configuration))?;
    let invalid = |message| configuration.invalid(message);
    let Some(processing) = processing.map_err(invalid)? else {
        return Ok(Behind { added: AddedStages::default(), selection: None, process: None });
    };
    let observed = Observed::new(&processing);
    let Processing { map, aligner, stages: Stages { added, selector, mut processor, warnings, .. } } =
        processing;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    for (number, (_, format)) in configuration.hit_sources().enumerate() {
        processor.set_ns_per_sample(SourceId(number as u16), format.ns_per_sample());
    }
    let sources = (0..configuration.hit_sources().count() as u16).map(SourceId);
    let of_hits = |stage: &str, are_there: bool| -> Vec<Ledgered> {
        let (sources, node) = (sources.clone().filter(|_| are_there), format!("{stage} hits"));
        sources.map(|source| site.slot(&node, source)).collect()
    };
    let added = added.into_iter().map(|made| {
        let slots = of_hits(made.word(), true);
        (made, slots)
    });
    let added: Vec<_> = added.collect();
    let slots = SelectionSlots {
        cut: of_hits("cut", !selector.keeps_all()),
        coincide: of_hits("coincide", selector.makes_events()),
        made: source_table.coincidences.map(|slot| site.slot("coincide coincidences", slot)),
    };
    let shown = of_hits("spectra", processor.shows_hits());
    let keeps = configuration.record.keeps(Table::Coincidences);
    let events = source_table.coincidences.map(|slot| EventSlots {
        cut: site.slot("cut coincidences", slot),
        record: keeps.then(|| site.slot("record coincidences", slot)),
    });
    let names: Vec<String> =
        configuration.hit_sources().map(|(source, _)| source.head.name.clone()).collect();
    let create = || CoincidenceWriter::create(site.directory.path(), &configuration.record, &names);
    let writer = (events.is_some() && keeps).then(|| site.writer(create)).transpose()?;
    let writer = (writer, RecordingState::new(Recorded::Coincidences, &configuration.record));
    let batches = site.claims.ring(thread_names::ORDER, thread_names::PROCESS);
    let (selection, inlet) = Selection::new((map, aligner, selector), slots, observed.clone(), batches);
    let process = Process::new(inlet, processor, (shown, events), observed, writer);
    let added = AddedStages::new(added, selection.sources_of_channels());
    Ok(Behind { added, selection: Some(selection), process: Some(process) })
}

/// The recording of hits, which knows whose a channel is where that is known.
fn hit_writer(site: &Site<'_>, selection: Option<&Selection>) -> Result<HitWriter, RunError> {
    let Site { configuration, directory, .. } = *site;
    let names: Vec<String> =
        configuration.hit_sources().map(|(source, _)| source.head.name.clone()).collect();
    let waveforms: Vec<_> = configuration.hit_sources().map(|(_, format)| format.waveforms()).collect();
    let create = || HitWriter::create_of(directory.path(), &configuration.record, &names, &waveforms);
    let mut sink = site.writer(create)?;
    if configuration.record.keeps_hits() {
        site.claims.threads(thread_names::WRITE, 1);
        sink = site.placement.near(thread_names::WRITE, || sink.write_beside())??;
    }
    Ok(match selection {
        Some(selection) => sink.with_sources_of_channels(selection.sources_of_channels()),
        None => sink,
    })
}

/// The sources of one reading thread.
#[derive(Default)]
struct Reading {
    links: Vec<Link<Frames>>,
    work: Vec<HitLink>,
    raw: Vec<RawSource>,
}

fn start_threads(
    site: &Site<'_>,
    opened: Vec<Opened>,
    (gauges, added, selection, slicer): (&[Arc<Gauges>], AddedStages, Option<Selection>, Option<Slicer>),
    raw: &mut RawLinks,
) -> Result<(Vec<JoinHandle<()>>, JoinHandle<OrderThread>), RunError> {
    let Site { configuration, .. } = *site;
    let mut order = TimeOrder::new(&configuration.order, opened.len(), OUTPUT_HITS);
    let sink = hit_writer(site, selection.as_ref())?;
    let (mut inlets, mut work) = (Vec::new(), Vec::new());
    let mut readings: BTreeMap<String, Reading> = BTreeMap::new();
    for (index, (source, (settings, _))) in opened.into_iter().zip(configuration.hit_sources()).enumerate() {
        let id = SourceId(index as u16);
        let own_ps = source.disorder_ps.unwrap_or(configuration.order.disorder_ps);
        let offsets_ps = selection.as_ref().map_or(0, |selection| selection.disorder_ps(id));
        order.set_disorder_ps(id, own_ps.saturating_add(offsets_ps));
        let decode_batches = decode_batches(site, settings);
        let (decode, workers, outlets) =
            decode_stage(source.decoders, settings.head.workers, (decode_batches, HITS_PER_BATCH));
        site.claims.pools(&settings.head.name, 1, (source.pool.block_count(), source.pool.block_size()));
        let waits = site.waits_in_a_pause(settings);
        // An emulated board takes no hits in a pause: what still comes from it belongs to the run.
        let drains = !waits && !settings.is_emulated();
        inlets.push(Inlet::new(
            (outlets, drains),
            site.slot(&format!("decode {}", settings.head.name), id),
            site.slot("order hits", id),
            site.slot("record hits", id),
        ));
        let stream = source.source.is_stream();
        let slots = reader_slots(site, (id, &settings.head.name), stream, source.wire_units);
        let name = settings.head.name.clone();
        let reading = readings.entry(settings.head.reader().to_owned()).or_default();
        reading.raw.push(RawSource {
            source: id.0,
            name: name.clone(),
            stream,
            block_bytes: source.pool.block_size() as u64,
        });
        reading.links.push(Link { source: id, live: source.source, framing: source.framing, reopen: None });
        let group = format!("{name}-decode");
        reading.work.push(HitLink { id, name, waits, decode, slots, gauges: gauges[index].clone() });
        work.extend(workers.into_iter().zip(1..).map(|(worker, number)| (group.clone(), number, worker)));
    }
    let recording = RecordingState::new(Recorded::Hits, &configuration.record);
    let order_thread = OrderThread::new(inlets, order, (sink, recording), (added, selection, slicer));
    let order_thread = site.spawn(thread_names::ORDER, move |signals| order_thread.run(signals))?;
    let mut handles = Vec::new();
    for (group, number, worker) in work {
        let name = format!("{group}-{number}");
        handles.push(site.spawn_one_of(&group, &name, move |signals| worker.run(signals))?);
    }
    for (name, Reading { links, work, raw: sources }) in readings {
        let group = Group::new(links, GroupSettings::default(), site.clock)?;
        let reader = Decoding::readout(group, work, raw.link(site, &name, &sources));
        handles.push(site.spawn(&name, move |signals| reader.run(signals))?);
    }
    Ok((handles, order_thread))
}

/// The counters of a source's reading thread: a stream has no datagrams to count.
fn reader_slots(
    site: &Site<'_>,
    (id, name): (SourceId, &str),
    stream: bool,
    wire_units: &[Unit],
) -> ReaderSlots {
    let received = if stream { &[Unit::Bytes][..] } else { &[Unit::Datagrams, Unit::Bytes] };
    let unpacked: Vec<Unit> = received.iter().copied().chain([Unit::Frames]).collect();
    let slot = |stage: &str, units: &[Unit]| site.slot_of(&format!("{stage} {name}"), id, units);
    ReaderSlots {
        receive: slot("receive", received),
        unpack: slot("unpack", &unpacked),
        wire: (!wire_units.is_empty()).then(|| slot("wire", wire_units)),
    }
}

/// Batches of each decode worker of a source.
fn decode_batches(site: &Site<'_>, settings: &SourceSettings) -> usize {
    let (reader, workers) = (settings.head.reader(), settings.head.workers);
    let decoders = thread_names::decoders(settings);
    if workers == 0 {
        return site.claims.ring(reader, thread_names::ORDER);
    }
    site.claims.ring(&decoders, thread_names::ORDER);
    site.claims.ring(reader, &decoders) / workers
}

/// Enters what the senders count that can be asked: where the counts of the hits begin. Returns the sum of hits sent, if every source's
/// sender reports.
fn close_sender_slots(
    configuration: &Configuration,
    ledger: &Ledger,
    boards: &[Option<HostedBoard>],
    signals: &Signals,
) -> Option<u64> {
    let mut sum = Some(0);
    for (index, (board, (source, _))) in boards.iter().zip(configuration.hit_sources()).enumerate() {
        let sent = board.as_ref().map(|board| board.totals().sent);
        sum = sum.zip(sent).map(|(sum, sent)| sum + sent.hits);
        let Some(board) = board else { continue };
        board.failures().into_iter().for_each(|message| signals.fail(message));
        if let Some(record) = board.sent_record().filter(|_| source.asks_sender()) {
            let (counters, units) = sender_counters(&board.totals().sent, record.slot());
            ledger.open(Stage::Sender, SourceId(index as u16), units).publish(&counters);
        }
    }
    sum
}

/// Returns what a sender has sent up to the last datagram that came, and what it sent after that. The receiver knows of gaps between
/// datagrams that came; only the sender knows of those after the last one. Both are empty where the sender does not remember what was lost.
fn sender_counters(sent: &Totals, slot: Option<SentCounts>) -> (Counters, &'static [Unit]) {
    let mut counters = Counters::default();
    let Some(slot) = slot else { return (counters, &[]) };
    counters.input(Unit::Hits, sent.hits + sent.hits_inhibited);
    // Pulses of a pause, which are dropped on request.
    counters.filtered(Unit::Hits, sent.hits_inhibited);
    counters.output(Unit::Hits, slot.hits);
    counters.lost(LossReason::NeverReceived, Unit::Hits, slot.hits_behind);
    counters.input(Unit::Datagrams, sent.datagrams);
    counters.output(Unit::Datagrams, slot.datagrams);
    counters.lost(LossReason::NeverReceived, Unit::Datagrams, slot.datagrams_behind);
    (counters, &[Unit::Hits, Unit::Datagrams])
}
