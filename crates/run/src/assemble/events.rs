//! The path of triggered boards, from their links to recorded events.
//!
//! ```text
//!  [[source]] ─► links ─ Group ─► reader: receive, split, build ══events══► recorder
//!  [trigger]  ─► emulated boards, triggered together ▲     ╚══frames══► raw recorder
//!                             └──────── BUSY ────────┘
//! ```

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_data::ring::Downstream;
use thalweg_data::{BusyTime, Counters, Events, LossReason, SourceId, Stage, StageRole, Unit};
use thalweg_readout::host::triggered::{HostedBoards, TriggeredTotals};
use thalweg_record::EventWriter;
use thalweg_record::ipc::file::TableSummary;

use super::event_filter::{event_inlet, event_writer};
use super::event_readers::Reading;
use super::leading::Leading;
use super::unit_threads::{UnitThreads, UnitsTaken};
use super::{RawLinks, Site, joined};
use crate::emulate::spread_us;
use crate::error::RunError;
use crate::gauges::{BuildGauges, Gauges};
use crate::open::{EmulatedBoard, Origin, host};
use crate::pipeline::{EventRecorder, FilterSlots, Recorded, RecordingState};
use crate::plan::UnitPlan;
use crate::plan::thread_names;
use crate::slow_control::ControlledBoards;
use crate::supervise::{
    BuildSample, EventSummary, TriggerCounts, TriggerState, busy_time, dead_by_busy, normalised_events,
};

/// The time that emulated boards may take to send what they have answered, once triggers are stopped.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// The triggered sources and their threads while a run is under way.
pub(super) struct EventPath {
    /// One line per `[[source]]`, by its place in the configuration.
    pub(super) descriptions: Vec<(usize, String)>,
    pub(super) gauges: Arc<BuildGauges>,
    /// Gauges by the number of the link.
    pub(super) link_gauges: Vec<(SourceId, Arc<Gauges>)>,
    /// The counters of what the trigger did.
    events: SourceId,
    /// The emulated boards, and what they stand for.
    boards: Option<(HostedBoards, Vec<EmulatedBoard>)>,
    /// The time for which BUSY held back the emulated trigger until it was stopped, nanoseconds.
    busy_ns: u64,
    controls: ControlledBoards,
    readers: Vec<JoinHandle<()>>,
    recording: Recording,
}

/// The destination of built events.
enum Recording {
    /// Straight to the recorder.
    Here(JoinHandle<EventRecorder>),
    /// Builder units, in this process or another one.
    Units(UnitThreads),
}

/// The remains of the path after its threads have ended.
pub(super) struct EventsTaken {
    /// The event writers of this process.
    pub(super) sinks: Vec<EventWriter>,
    emulated: Option<TriggeredTotals>,
    /// The time for which BUSY held back the emulated trigger until it was stopped, nanoseconds.
    busy_ns: u64,
    /// For how long BUSY was raised, where the trigger is held back from here.
    busy_time: Option<BusyTime>,
    sample: BuildSample,
    /// The counters of those that built the events that were recorded.
    builders: Vec<SourceId>,
    /// The lists of ranges of units, and the epochs of the event managers that these know.
    pub(super) ranges: Vec<TableSummary>,
    pub(super) managers: Vec<u64>,
}

impl EventPath {
    /// Opens every link and starts the threads. Nothing flows yet. `None` of a run without triggered sources.
    ///
    /// # Errors
    /// When a link cannot be opened, or a file, a connection or a thread cannot be made.
    pub(super) fn open(site: &Site<'_>, raw: &mut RawLinks) -> Result<Option<EventPath>, RunError> {
        let has_links = site.source_table.links.iter().flatten().next().is_some();
        let Some(events) = site.source_table.events.filter(|_| has_links) else { return Ok(None) };
        let gauges = Arc::new(BuildGauges::default());
        let plan = match site.origin {
            Origin::Configured => UnitPlan::of(site.configuration, site.source_table)?,
            // Recorded events are built again in this process.
            Origin::Recorded(_) => None,
        };
        let mut leading = Leading::of(site.configuration, site.source_table)?;
        let (readers, recording) = match plan {
            None => {
                let triggered = site.source_table.entries.iter().enumerate();
                let sources: Vec<usize> =
                    triggered.filter(|(_, entry)| !entry.links.is_empty()).map(|(index, _)| index).collect();
                let reading = Reading {
                    name: thread_names::BUILD,
                    taker: thread_names::RECORD,
                    sources: &sources,
                    boards: site.source_table.boards.clone(),
                    events,
                    gauges: gauges.clone(),
                    leader: leading.leader_of(&sources),
                    for_readout_unit: false,
                    accepted: leading.accepted_of(site, &sources),
                };
                let (reader, outlet) = reading.start(site, raw)?;
                (vec![reader], Recording::Here(recorder(site, events, outlet, &gauges)?))
            }
            Some(plan) => {
                let (readers, units) = UnitThreads::start(site, raw, plan, &gauges, &mut leading)?;
                (readers, Recording::Units(units))
            }
        };
        let mut path = EventPath {
            descriptions: Vec::new(),
            gauges,
            link_gauges: Vec::new(),
            events,
            boards: None,
            busy_ns: 0,
            controls: ControlledBoards::default(),
            readers: Vec::new(),
            recording,
        };
        let (mut hosted, mut emulated) = (Vec::new(), Vec::new());
        for reader in readers {
            path.readers.push(reader.thread);
            path.controls.extend(reader.controls);
            path.descriptions.extend(reader.descriptions);
            path.link_gauges.extend(reader.gauges);
            hosted.extend(reader.hosted);
            emulated.extend(reader.emulated);
        }
        if !hosted.is_empty() {
            let feed = leading.feed(site)?;
            let may_begin = match &path.recording {
                Recording::Here(_) => None,
                Recording::Units(units) => units.may_begin.clone(),
            };
            let numbers = (may_begin, leading.accepted());
            let host = || host(site.configuration, hosted, feed, site.busy, numbers);
            let boards = site.placement.near(thread_names::EMULATE, host)??;
            site.claims.shared_threads(thread_names::EMULATE);
            path.boards = Some((boards, emulated));
        }
        Ok(Some(path))
    }

    /// Sets the registers of real boards.
    ///
    /// # Errors
    /// When one does not take them.
    pub(super) fn arm(&mut self, site: &Site<'_>) -> Result<(), RunError> {
        self.controls.arm(site.values)
    }

    /// Lets triggers come; those of emulated boards of a run with units when the event manager lets them.
    ///
    /// # Errors
    /// When a real board is not started.
    pub(super) fn start(&mut self) -> Result<(), RunError> {
        self.controls.start()?;
        if let Some((boards, _)) = &self.boards {
            boards.start();
        }
        Ok(())
    }

    /// Stops the triggers, also those of boards elsewhere, and waits until emulated boards have sent what they have answered, if they can.
    pub(super) fn stop(&mut self, site: &Site<'_>) {
        let signals = site.signals;
        if let Some((boards, _)) = &mut self.boards {
            self.busy_ns = boards.totals().busy_ns;
            boards.stop();
        }
        // BUSY stays raised: from here on, data are read only until nothing more comes.
        site.busy.raise(site.clock.mark());
        if let Some((boards, _)) = &mut self.boards {
            let deadline = Instant::now() + FLUSH_LIMIT;
            while !boards.is_silent() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.controls.stop(signals);
        self.controls.disarm(site.values, signals);
    }

    /// Returns true if emulated boards have come to the end of their program, and everything they sent was given to a socket.
    pub(super) fn is_silent(&self) -> bool {
        self.boards.as_ref().is_some_and(|(boards, _)| boards.is_silent())
    }

    /// Returns the counts of the trigger, where it is emulated here.
    pub(super) fn trigger(&self) -> Option<TriggerCounts> {
        let totals = self.boards.as_ref()?.0.totals();
        Some(trigger_counts(&totals, totals.busy_ns))
    }

    /// Waits for the threads, which end once everything is written.
    pub(super) fn finish(self, site: &Site<'_>) -> EventsTaken {
        for reader in self.readers {
            joined(reader, site.signals);
        }
        let UnitsTaken { sinks, slots: builders, ranges, managers } = match self.recording {
            Recording::Here(recorder) => {
                let recorder = joined(recorder, site.signals);
                let sinks = recorder.map(|recorder| recorder.sink).into_iter().collect();
                UnitsTaken { sinks, slots: vec![self.events], ..UnitsTaken::default() }
            }
            Recording::Units(units) => units.finish(site),
        };
        // The boards hang up only now: a connection that ends before the run does is news.
        let emulated = self.boards.map(|(mut boards, emulated)| {
            boards.end();
            boards.failures().into_iter().for_each(|message| site.signals.fail(message));
            let totals = boards.totals();
            close_sender_slots(site, self.events, &totals, &emulated);
            totals
        });
        let (sample, busy_time) = (self.gauges.latest(), self.gauges.busy_time(self.gauges.sampled()));
        EventsTaken { sinks, emulated, busy_ns: self.busy_ns, busy_time, sample, builders, ranges, managers }
    }
}

/// The thread that records what the reader has built.
pub(super) fn recorder(
    site: &Site<'_>,
    events: SourceId,
    ring: Downstream<Events>,
    gauges: &Arc<BuildGauges>,
) -> Result<JoinHandle<EventRecorder>, RunError> {
    let Site { configuration, source_table, .. } = *site;
    let files = site.directory.events_of(None);
    let ordered = configuration.build.ordered;
    let sink = event_writer(site, &files, ordered)?;
    let boards = source_table.boards.clone();
    let of_each = |stage: &str| boards.clone().map(|board| site.slot(stage, SourceId(board))).collect();
    let slots =
        || FilterSlots { events: site.slot("filter events", events), sources: of_each("filter fragments") };
    let inlet = event_inlet(site, thread_names::RECORD, ring, slots, gauges)?;
    let recorder = EventRecorder::new(
        inlet,
        sink,
        RecordingState::new(Recorded::Events, &configuration.record),
        site.slot("record events", events),
        (boards.clone(), of_each("record fragments")),
    );
    site.spawn(thread_names::RECORD, move |signals| recorder.run(signals))
}

fn trigger_counts(totals: &TriggeredTotals, busy_ns: u64) -> TriggerCounts {
    let (offered, accepted, refused) = (totals.offered(), totals.accepted(), totals.refused());
    TriggerCounts { offered, accepted, refused, busy_ns, real_ns: totals.real_ns }
}

/// Enters what the trigger and the boards count: the first pages of the ledger of events and fragments.
fn close_sender_slots(
    site: &Site<'_>,
    events: SourceId,
    totals: &TriggeredTotals,
    emulated: &[EmulatedBoard],
) {
    for (EmulatedBoard { source, record }, board) in emulated.iter().zip(&totals.boards) {
        let (mut counters, mut units) = (Counters::default(), &[][..]);
        // A board does not report what it no longer remembers.
        if let Some(fates) = record.fates() {
            units = &[Unit::Fragments];
            counters.input(Unit::Fragments, board.fragments);
            counters.output(Unit::Fragments, fates.found);
            counters.lost(LossReason::Abandoned, Unit::Fragments, fates.discarded);
            counters.lost(LossReason::FrameGap, Unit::Fragments, fates.unsent);
            counters.lost(LossReason::NeverReceived, Unit::Fragments, fates.never_received);
        }
        site.ledger.open(Stage::Sender, *source, units).publish(&counters);
    }
    if site.configuration.slices.is_some() {
        // The number of built events is unrelated to how often the trigger fired.
        return;
    }
    let mut counters = Counters::default();
    counters.input(Unit::Events, totals.offered());
    counters.output(Unit::Events, totals.accepted());
    counters.lost(LossReason::Busy, Unit::Events, totals.refused());
    site.ledger.open(Stage::Trigger, events, &[Unit::Events]).publish(&counters);
}

impl EventsTaken {
    /// Returns the outcome of one recorder of time slices of hits and of the builder before it.
    pub(super) fn of_slices(
        recorder: Option<EventRecorder>,
        sample: BuildSample,
        events: SourceId,
    ) -> EventsTaken {
        let sinks = recorder.map(|recorder| recorder.sink).into_iter().collect();
        let (ranges, managers) = Default::default();
        let (emulated, busy_ns, busy_time, builders) = (None, 0, None, vec![events]);
        EventsTaken { sinks, emulated, busy_ns, busy_time, sample, builders, ranges, managers }
    }

    /// Returns the counts of the trigger, where it was emulated here.
    pub(super) fn trigger(&self) -> Option<TriggerCounts> {
        self.emulated.as_ref().map(|totals| trigger_counts(totals, self.busy_ns))
    }

    /// Summarizes the events at the end of the run, which took data for `elapsed_seconds`.
    pub(super) fn summary(&self, site: &Site<'_>, elapsed_seconds: f64) -> EventSummary {
        let snapshot = site.ledger.snapshot();
        let mut built = Counters::default();
        for slot in
            snapshot.making(Unit::Events).into_iter().filter(|own| self.builders.contains(&own.source))
        {
            built.add_all(&slot.counters);
        }
        let boards = &site.source_table.boards;
        let of_boards = |role| snapshot.at(role).filter(|own| boards.contains(&own.source.0));
        let missing = of_boards(StageRole::SequenceNumbers);
        let unused = of_boards(StageRole::Work);
        let sample = &self.sample;
        let trigger = self.trigger();
        let busy_time = busy_time(trigger, self.busy_time, elapsed_seconds);
        let busy_time = dead_by_busy(busy_time, elapsed_seconds);
        let live_here = busy_time.filter(|_| !matches!(site.origin, Origin::Recorded(_)));
        let closed = thalweg_data::Closing::ALL.iter().zip(sample.closed);
        EventSummary {
            triggers_offered: trigger.map(|trigger| trigger.offered),
            triggers_refused: trigger.map(|trigger| trigger.refused),
            events_built: built.total_output(Unit::Events),
            events_partial: sample.partial(),
            events_dropped: built.total_lost_any(Unit::Events),
            triggers_unseen: snapshot.triggers_unseen(),
            events_recorded: site.source_table.events_recorded(&snapshot),
            events_kept: site.source_table.kept.events,
            selection: site.source_table.event_selection(&snapshot),
            fragments_recorded: snapshot.output_at(StageRole::Recording, Unit::Fragments),
            fragments_missing: missing
                .map(|slot| slot.counters.total_lost(LossReason::MissingFragment, Unit::Fragments))
                .sum(),
            fragments_lost: unused.map(|slot| slot.counters.total_lost_any(Unit::Fragments)).sum(),
            closed: closed.filter(|(_, count)| *count > 0).map(|(why, count)| (why.word(), count)).collect(),
            median_event_bytes: sample.median_event_bytes,
            median_build_us: sample.median_build_ns as f64 / 1e3,
            p99_build_us: sample.p99_build_ns as f64 / 1e3,
            dead_time_fraction: trigger
                .and_then(|trigger| TriggerState::of(trigger, None).dead_time_fraction),
            busy_time,
            normalised: normalised_events(&snapshot, site.source_table, trigger, live_here),
            emulation: self.emulated.as_ref().map(|totals| {
                serde_json::json!({
                    "busy_ms": totals.busy_ns as f64 / 1e6,
                    "busy_raised": totals.busy_raised,
                    "refused_by_boards": totals.refused_by_boards,
                    "lateness_us": spread_us(&totals.lateness),
                    "skew_us": spread_us(&totals.skew),
                })
            }),
        }
    }
}
