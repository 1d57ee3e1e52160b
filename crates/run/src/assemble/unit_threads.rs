//! The threads of the units that this process hosts.
//!
//! ```text
//!  [[unit]] of this node ─► endpoint, machine, work ─► a thread each ─► joined at the end, sinks and snapshot with them
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_build::Histogram;
use thalweg_build::unit::{Address, BuilderUnit, EventManager, Gate, Identity, ReadoutUnit};
use thalweg_data::ring::{Upstream, circuit};
use thalweg_data::{Counters, EventSink, Events, Ledger, LedgerSnapshot, Pool, SourceId, UnitId};
use thalweg_record::ipc::file::TableSummary;
use thalweg_record::{EventWriter, ReadoutName, UnitNames};
use thalweg_transport::peer::{self, RunIdentity, SharedKey};

use super::event_filter::{event_inlet, event_writer};
use super::event_readers::{Reading, StartedReader};
use super::leading::Leading;
use super::range_lists::RangeKeeper;
use super::{RawLinks, Site, joined};
use crate::config::UnitSettings;
use crate::error::RunError;
use crate::gauges::BuildGauges;
use crate::pipeline::{
    EventRecorder, Filed, FilterSlots, Given, Ledgered, Recorded, RecordingState, WriteLog,
};
use crate::plan::capacity::{GATE_BLOCKS, UNIT_BLOCK_BYTES};
use crate::plan::thread_names;
use crate::plan::{Readout, TRIGGER, UnitPlan, gate, has_emulated, shared_key};
use crate::units::{
    BuilderWork, FirstWord, GateWork, KnownManager, ManagerWork, Managers, RangeNotes, ReadoutWork,
    UnitEndpoint, UnitHost, identity, recall, run_number,
};

/// The time without a ledger entry in this process after which units that have not ended are no longer waited for: the others do not answer
/// any more. A unit that still makes progress is waited for, however slow its machine.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Between two looks at the ledger while units are waited for.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// The silence of the event manager after which triggers are held back, nanoseconds.
const GATE_SILENCE_NS: u64 = 2_000_000_000;

/// All units of this process.
pub(super) struct UnitThreads {
    readouts: Vec<JoinHandle<UnitHost<ReadoutWork>>>,
    builders: Vec<BuilderThreads>,
    others: Vec<JoinHandle<()>>,
    /// The counters of the builder units.
    slots: Vec<SourceId>,
    /// The fate of each range at each unit.
    ranges: RangeKeeper,
    /// The event managers that units of this process know.
    managers: Arc<Managers>,
    /// Set when the event manager allows triggers for the first time; `None` where this process does not control the trigger.
    pub(super) may_begin: Option<Arc<AtomicBool>>,
}

/// The remains of the units after they have ended.
#[derive(Default)]
pub(super) struct UnitsTaken {
    /// The event writers of builder units.
    pub(super) sinks: Vec<EventWriter>,
    /// The counters of those.
    pub(super) slots: Vec<SourceId>,
    /// The lists of ranges.
    pub(super) ranges: Vec<TableSummary>,
    /// The epochs of the event managers that units know.
    pub(super) managers: Vec<u64>,
}

/// A builder unit and its files.
struct BuilderThreads {
    unit: JoinHandle<UnitHost<BuilderWork>>,
    files: JoinHandle<EventRecorder>,
    /// The state of those files.
    filed: Arc<Filed>,
}

/// What any unit needs to start.
struct Starting<'s> {
    site: &'s Site<'s>,
    plan: Arc<UnitPlan>,
    identity: RunIdentity,
    key: Option<SharedKey>,
    run: u32,
}

/// The time of the last new entry in the ledger of this process.
struct Progress<'l> {
    ledger: &'l Ledger,
    snapshot: LedgerSnapshot,
    sampled: Instant,
    last: Instant,
}

impl Progress<'_> {
    fn of(ledger: &Ledger) -> Progress<'_> {
        let now = Instant::now();
        Progress { ledger, snapshot: ledger.snapshot(), sampled: now, last: now }
    }

    /// Returns the time since the last new entry.
    fn sample(&mut self) -> Duration {
        let now = Instant::now();
        if now - self.sampled >= SAMPLE_EVERY {
            self.sampled = now;
            let snapshot = self.ledger.snapshot();
            if snapshot != self.snapshot {
                (self.snapshot, self.last) = (snapshot, now);
            }
        }
        now - self.last
    }
}

impl UnitThreads {
    /// Starts the units that this node hosts, and the readers of its readout units.
    ///
    /// # Errors
    /// When a link cannot be opened, or an endpoint, a file or a thread cannot be made.
    pub(super) fn start(
        site: &Site<'_>,
        raw: &mut RawLinks,
        plan: UnitPlan,
        gauges: &Arc<BuildGauges>,
        leading: &mut Leading,
    ) -> Result<(Vec<StartedReader>, UnitThreads), RunError> {
        site.configuration.unit_rules.check()?;
        let identity = identity(site.configuration, site.source_table, &plan);
        let run = run_number(&identity.run);
        let key = shared_key(site.configuration)?;
        let starting = Starting { site, plan: Arc::new(plan), identity, key, run };
        let plan = starting.plan.clone();
        let here = |unit: &UnitSettings| site.configuration.hosts(unit);
        let mut units = UnitThreads {
            readouts: Vec::new(),
            builders: Vec::new(),
            others: Vec::new(),
            slots: Vec::new(),
            ranges: RangeKeeper::default(),
            managers: Arc::default(),
            may_begin: None,
        };
        let numbers = |count: usize| (0..count).map(UnitId::from_index);
        let readouts: Vec<UnitId> = numbers(plan.readouts.len())
            .filter(|number| here(&plan.readouts[number.index()].settings))
            .collect();
        let builders: Vec<UnitId> =
            numbers(plan.builders.len()).filter(|number| here(&plan.builders[number.index()])).collect();
        site.signals.expect_units(readouts.len(), builders.len());
        if here(&plan.manager) {
            units.others.push(starting.manager(KnownManager::new(units.managers.clone()))?);
        }
        for number in builders {
            units.slots.push(site.source_table.unit(&plan.builders[number.index()].name));
            let notes = units.notes(site, &plan, &plan.builders[number.index()].name)?;
            units.builders.push(starting.builder(number, gauges, notes, &units.managers)?);
        }
        let mut readers = Vec::new();
        for number in &readouts {
            let notes = units.notes(site, &plan, &plan.readouts[number.index()].settings.name)?;
            let (reader, thread) = starting.readout(*number, raw, leading, notes)?;
            readers.push(reader);
            units.readouts.push(thread);
        }
        if gate(&plan.readouts, site.configuration).is_some_and(|number| readouts.contains(&number)) {
            let may_begin = Arc::<AtomicBool>::default();
            units.others.push(starting.gate(gauges, may_begin.clone())?);
            units.may_begin = Some(may_begin);
        }
        units.ranges.start(site)?;
        Ok((readers, units))
    }

    /// Makes the notes in which a unit records its ranges.
    fn notes(&mut self, site: &Site<'_>, plan: &UnitPlan, unit: &str) -> Result<RangeNotes, RunError> {
        let inbox = self.ranges.open(site, unit, &names(plan))?;
        Ok(RangeNotes::new(inbox, self.managers.clone()))
    }

    /// Waits until every unit has come to its end; what does not come in time is given up, and said.
    pub(super) fn finish(mut self, site: &Site<'_>) -> UnitsTaken {
        let mut progress = Progress::of(site.ledger);
        let left = || {
            let readouts = self.readouts.iter().any(|thread| !thread.is_finished());
            readouts || self.builders.iter().any(|builder| !builder.unit.is_finished())
        };
        while left() && progress.sample() < END_LIMIT {
            // A disk takes the time that it takes.
            if self.builders.iter().any(|builder| builder.filed.is_waited_for()) {
                progress.last = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if left() {
            let waited = END_LIMIT.as_secs();
            site.signals.fail(format!(
                "units did not come to their end: nothing more came from the others in {waited} s"
            ));
        }
        // The manager and the gate go when the others are gone; here at the latest.
        site.signals.give_units_up();
        for thread in self.readouts {
            joined(thread, site.signals);
        }
        let (units, files): (Vec<_>, Vec<_>) =
            self.builders.into_iter().map(|builder| (builder.unit, builder.files)).unzip();
        for thread in units {
            joined(thread, site.signals);
        }
        for thread in self.others {
            joined(thread, site.signals);
        }
        let files = files.into_iter().filter_map(|thread| joined(thread, site.signals));
        let files: Vec<EventRecorder> = files.collect();
        close_fragment_slots(site, &files);
        let sinks = files.into_iter().map(|files| files.sink).collect();
        let ranges = self.ranges.finish(site.signals);
        UnitsTaken { sinks, slots: self.slots, ranges, managers: self.managers.all() }
    }
}

/// The units, as the lists of ranges name them.
fn names(plan: &UnitPlan) -> UnitNames {
    let readouts = plan.readouts.iter().zip(&plan.layout.readouts);
    let readout = |(unit, boards): (&Readout, &std::ops::Range<u16>)| ReadoutName {
        name: unit.settings.name.clone(),
        boards: boards.clone(),
    };
    UnitNames {
        readouts: readouts.map(readout).collect(),
        builders: plan.builders.iter().map(|unit| unit.name.clone()).collect(),
    }
}

/// Enters what all builder units of this process have recorded of each source, and what their filters have selected.
fn close_fragment_slots(site: &Site<'_>, files: &[EventRecorder]) {
    if files.is_empty() {
        return;
    }
    for source in site.source_table.boards.clone().map(SourceId) {
        let sum_of = |counters: &mut dyn Iterator<Item = &Counters>| {
            let mut sum = Counters::default();
            counters.for_each(|own| sum.add_all(own));
            sum
        };
        if site.configuration.filter.is_some() {
            let filters = files.iter().filter_map(|files| files.inlet.filter());
            let selected = sum_of(&mut filters.filter_map(|filter| filter.source_counters(source)));
            site.ledger.claim("filter fragments", source).publish(&selected);
        }
        let recorded = sum_of(&mut files.iter().map(|files| files.sink.source_counters(source)));
        site.ledger.claim("record fragments", source).publish(&recorded);
    }
}

impl Starting<'_> {
    fn identity(&self, number: UnitId) -> Identity {
        Identity { number, run: self.run, incarnation: self.site.started_ns }
    }

    /// Returns the settings of a unit's connections to its peers, with memory for what it receives.
    fn peers(&self, unit: &UnitSettings) -> Result<peer::Settings, RunError> {
        self.peers_of(&unit.name, self.plan.blocks(unit, &self.site.configuration.unit_rules))
    }

    fn peers_of(&self, name: &str, blocks: usize) -> Result<peer::Settings, RunError> {
        let pool = self.site.placement.near(name, || Pool::new(blocks, UNIT_BLOCK_BYTES))??;
        self.site.claims.pools(name, 1, (blocks, UNIT_BLOCK_BYTES));
        let (identity, key) = (self.identity.clone(), self.key.clone());
        // All builder units together may have half of the blocks of a source on loan: the other half is there to receive into.
        let lends_one_in = 2 * self.plan.builders.len() as u32;
        Ok(peer::Settings { identity, key, lends_one_in, ..peer::Settings::new(name, pool) })
    }

    fn slot(&self, stage: &str, unit: &UnitSettings) -> Ledgered {
        self.site.slot(&format!("{stage} {}", unit.name), self.site.source_table.unit(&unit.name))
    }

    fn to_manager(&self) -> (Address, String) {
        (Address::Manager, self.plan.manager.url())
    }

    fn manager(&self, known: KnownManager) -> Result<JoinHandle<()>, RunError> {
        let (site, unit) = (self.site, &self.plan.manager);
        let endpoint = UnitEndpoint::open(Some(&unit.url()), &[], &self.peers(unit)?)?;
        let rules = &site.configuration.unit_rules;
        let machine =
            EventManager::new(self.run, site.started_ns, &self.plan.layout, rules, site.clock.mark());
        let work = ManagerWork { unit: machine, known };
        let host = UnitHost::new(&unit.name, work, endpoint, self.plan.clone(), site.clock)?;
        site.spawn(&unit.name, move |signals| drop(host.run(signals)))
    }

    fn builder(
        &self,
        number: UnitId,
        gauges: &Arc<BuildGauges>,
        ranges: RangeNotes,
        managers: &Managers,
    ) -> Result<BuilderThreads, RunError> {
        let (site, unit) = (self.site, &self.plan.builders[number.index()]);
        let Site { configuration, .. } = *site;
        let endpoint = UnitEndpoint::open(Some(&unit.url()), &[self.to_manager()], &self.peers(unit)?)?;
        let rules = &configuration.unit_rules;
        let mut machine =
            BuilderUnit::new(self.identity(number), &self.plan.layout, rules, site.clock.mark());
        let recalled = recall(site.directory, configuration, &unit.name)?;
        machine.recall(recalled.on_file);
        managers.add(recalled.managers);
        machine.keep_ranges();
        let (outlet, files, filed) = self.files(unit, gauges)?;
        let work = BuilderWork {
            unit: machine,
            outlet: Some(outlet),
            spare: None,
            given: Given::to(filed.clone()),
            on_hold: false,
            build: self.slot("build", unit),
            ranges,
            gauges: gauges.clone(),
            event_bytes: Histogram::default(),
            build_ns: Histogram::default(),
        };
        let host = UnitHost::new(&unit.name, work, endpoint, self.plan.clone(), site.clock)?;
        let files = site.spawn(&thread_names::files(unit), move |signals| files.run(signals))?;
        let unit = site.spawn(&unit.name, move |signals| host.run(signals))?;
        Ok(BuilderThreads { unit, files, filed })
    }

    /// The files of a builder unit, and the way to their thread.
    fn files(
        &self,
        unit: &UnitSettings,
        gauges: &Arc<BuildGauges>,
    ) -> Result<(Upstream<Events>, EventRecorder, Arc<Filed>), RunError> {
        let site = self.site;
        let configuration = site.configuration;
        let directory = site.directory.events_of(Some(&unit.name));
        // Ranges are written as they become whole.
        let ordered = false;
        let sink = event_writer(site, &directory, ordered)?;
        let recording = RecordingState::new(Recorded::Events, &configuration.record);
        let thread = thread_names::files(unit);
        let (outlet, ring) = circuit(site.claims.ring(&unit.name, &thread), Events::default);
        // As those of the recorder.
        let slots = || FilterSlots { events: self.slot("filter", unit), sources: Vec::new() };
        let inlet = event_inlet(site, &thread, ring, slots, gauges)?;
        let record = self.slot("record", unit);
        let (write_log, filed) =
            WriteLog::new(configuration.unit_rules.slots, site.clock, configuration.node.is_none());
        // Fragments are entered by source when all builder units of this process have ended.
        let recorder = EventRecorder::new(inlet, sink, recording, record, (0..0, Vec::new()));
        Ok((outlet, recorder.with_write_log(write_log), filed))
    }

    fn readout(
        &self,
        number: UnitId,
        raw: &mut RawLinks,
        leading: &mut Leading,
        ranges: RangeNotes,
    ) -> Result<(StartedReader, JoinHandle<UnitHost<ReadoutWork>>), RunError> {
        let (site, readout) = (self.site, &self.plan.readouts[number.index()]);
        let unit = &readout.settings;
        let reading = Reading {
            name: &thread_names::reader(unit),
            taker: &unit.name,
            sources: &readout.sources,
            boards: self.plan.layout.readouts[number.index()].clone(),
            events: site.source_table.unit(&unit.name),
            // The builder units' own figures are shown for event building.
            gauges: Arc::default(),
            leader: leading.leader_of(&readout.sources),
            for_readout_unit: true,
            accepted: leading.accepted_of(site, &readout.sources),
        };
        let (reader, inlet) = reading.start(site, raw)?;
        let builders = self.plan.builders.iter().enumerate();
        let mut others: Vec<_> = builders
            .map(|(number, unit)| (Address::Builder(UnitId::from_index(number)), unit.url()))
            .collect();
        others.push(self.to_manager());
        let endpoint = UnitEndpoint::open(None, &others, &self.peers(unit)?)?;
        let rules = &site.configuration.unit_rules;
        let mut machine = ReadoutUnit::new(self.identity(number), self.plan.layout.builders, rules);
        machine.keep_ranges();
        let work = ReadoutWork {
            unit: machine,
            inlet,
            waiting: None,
            write_all: None,
            ended: false,
            ship: self.slot("ship", unit),
            ranges,
        };
        let host = UnitHost::new(&unit.name, work, endpoint, self.plan.clone(), site.clock)?;
        Ok((reader, site.spawn(&unit.name, move |signals| host.run(signals))?))
    }

    /// The side of the trigger, where boards are.
    fn gate(&self, gauges: &BuildGauges, may_begin: Arc<AtomicBool>) -> Result<JoinHandle<()>, RunError> {
        let site = self.site;
        let hosts_boards = has_emulated(&self.plan.readouts, site.configuration);
        let first_word = FirstWord {
            may_begin,
            manager: format!("\"{}\" ({})", self.plan.manager.name, self.plan.manager.url()),
            since: None,
            most_ms: hosts_boards.then_some(site.configuration.unit_rules.first_word_ms),
        };
        let endpoint = UnitEndpoint::open(None, &[self.to_manager()], &self.peers_of(TRIGGER, GATE_BLOCKS)?)?;
        let gate = Gate::new(self.run, GATE_SILENCE_NS);
        let work = GateWork::new(gate, site.busy.clone(), gauges, first_word);
        let host = UnitHost::new(TRIGGER, work, endpoint, self.plan.clone(), site.clock)?;
        site.spawn(thread_names::GATE, move |signals| drop(host.run(signals)))
    }
}
