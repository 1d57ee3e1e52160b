//! Builds the events of triggered boards on a readout thread.
//!
//! ```text
//!  Readout ─► (link, frames, fragments) ─ Feed ─► Builder ─ pull ─► Events ══► recorder
//!    ▲                     ╚══frames══► raw writer          │
//!    └── pause, resume: who is not wanted is not read ──────┘
//! ```
//! Receiving and building are neighbours on one thread: a fragment is built while its header is still in the cache. What
//! the builder does not take waits with its link, which is not read meanwhile; of datagrams it is refused and counted.

mod free_blocks;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_build::Builder;
use thalweg_build::slices::FragmentCutter;
use thalweg_data::ring::Upstream;
use thalweg_data::{Busy, Events, Fragments, Frames, LinkId, Mark, SnapshotNumber, Unit};
use thalweg_readout::group::{Inputs, Turn};
use thalweg_readout::host::triggered::AcceptedNumbers;

use super::busy_stage::BusyStage;
use super::decode_workers::wait_for_empty;
use super::drain::Drain;
use super::event_outlet::EventOutlet;
use super::leader::Leader;
use super::link_slots::LinkSlots;
use super::readout::{Readout, ReadoutWork, TURN_WAIT};
use super::refused_outlet::RefusedOutlet;
use super::{Ledgered, Signals};
use crate::gauges::{BuildGauges, Gauges};
use crate::plan::capacity::EVENT_BATCHES;

/// The interval at which the slots are published.
const PUBLISH_EVERY_NS: u64 = 50_000_000;
/// The interval at which silent boards are looked for, in a run with time slices.
const ADVANCE_CUTTERS_EVERY_NS: u64 = 5_000_000;
/// The interval at which the builder gets a report of what was refused before it.
const REPORT_TO_BUILDER_EVERY_NS: u64 = 5_000_000;
/// The time for which the trigger's last number is waited for.
const TRIGGER_END: Duration = Duration::from_secs(2);
/// The least time for which boards that go on sending are still read after a stop.
const DRAIN: Duration = Duration::from_millis(1000);
/// What holds up a thread that reads for a readout unit.
const KEPT_BY_UNIT: &str =
    "the readout unit keeps its events, which builder units have not written: look at the builder units";

/// Fragments that the builder has not taken yet.
#[derive(Default)]
struct Pending {
    batch: Fragments,
    taken: usize,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.taken == self.batch.fragments.len()
    }

    fn append(&mut self, more: &Fragments) {
        self.batch.header = more.header;
        self.batch.fragments.extend_from_slice(&more.fragments);
        self.batch.slices.extend_from_slice(&more.slices);
        self.batch.leases.add_all(&more.leases);
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.taken = 0;
    }
}

/// The state between the links and the builder.
struct Feed {
    builder: Builder,
    links: Vec<LinkSlots>,
    pending: Vec<Pending>,
    /// The fragments found on the link that is being taken; empty between links.
    framed: Fragments,
    /// Links that are not read: they have something pending, or are not wanted.
    held: Vec<LinkId>,
    /// Links that joined `held` in this turn.
    newly_held: Vec<LinkId>,
    /// Links whose end is to be reported once nothing of them is pending.
    ending: Vec<LinkId>,
    raw: Option<Upstream<Frames>>,
    leader: Option<Leader>,
    /// The cutters by link, in a run with time slices.
    cutters: Vec<FragmentCutter>,
    /// The cut fragments that the builder has not been offered yet; empty between batches.
    cut: Fragments,
    /// The mark at which the cutters last got the time.
    cutters_advanced: Mark,
    /// The mark at which the builder last got a report of what was refused before it.
    builder_informed: Mark,
    /// The raw recording has ended before its time.
    raw_lost: bool,
}

/// The work of such a thread on what its links give.
pub(crate) struct Building {
    feed: Feed,
    /// The counters of the events themselves.
    events_ledger: Ledgered,
    outlet: EventOutlet,
    busy: BusyStage,
    gauges: Arc<BuildGauges>,
    /// The gauges by link.
    link_gauges: Vec<Arc<Gauges>>,
    refused: RefusedOutlet,
    names: Arc<[String]>,
    published: Mark,
    /// Time of the latest turn.
    latest: Mark,
    snapshot_sent: SnapshotNumber,
    /// The recorder was asked to write everything, and nothing has come since.
    wrote_all: bool,
    /// In a run that is being stopped, the mark at which each link gave something last, and since when links wait for blocks.
    last_received: Vec<Mark>,
    held_up_since: Option<Mark>,
    /// Events go to a readout unit in place of a recorder.
    to_readout_unit: bool,
    accepted: Option<Arc<AcceptedNumbers>>,
}

/// The parts of such a thread.
pub(crate) struct BuildingParts {
    pub(crate) inputs: Box<dyn Inputs<Fragments>>,
    pub(crate) builder: Builder,
    pub(crate) links: Vec<LinkSlots>,
    pub(crate) events_ledger: Ledgered,
    pub(crate) raw: Option<Upstream<Frames>>,
    /// The board that emulated ones follow, if it is one of these.
    pub(crate) leader: Option<Leader>,
    /// The cutters by link, in a run with time slices; empty in one without.
    pub(crate) cutters: Vec<FragmentCutter>,
    pub(crate) outlet: Upstream<Events>,
    pub(crate) busy: Arc<Busy>,
    pub(crate) gauges: Arc<BuildGauges>,
    /// The gauges by link.
    pub(crate) link_gauges: Vec<Arc<Gauges>>,
    pub(crate) refused: RefusedOutlet,
    /// The names of everything that has a counter slot, by number.
    pub(crate) names: Arc<[String]>,
    /// Events go to a readout unit in place of a recorder.
    pub(crate) to_readout_unit: bool,
    /// The numbers that the trigger has given, where every board here answers that trigger alone.
    pub(crate) accepted: Option<Arc<AcceptedNumbers>>,
}

impl Building {
    pub(crate) fn readout(parts: BuildingParts) -> Readout<Building> {
        let BuildingParts {
            inputs,
            builder,
            links,
            events_ledger,
            raw,
            leader,
            cutters,
            outlet,
            busy,
            gauges,
            link_gauges,
            refused,
            names,
            to_readout_unit,
            accepted,
        } = parts;
        let feed = Feed {
            builder,
            pending: links.iter().map(|_| Pending::default()).collect(),
            framed: Fragments::default(),
            links,
            held: Vec::new(),
            newly_held: Vec::new(),
            ending: Vec::new(),
            raw,
            leader,
            cutters,
            cut: Fragments::default(),
            cutters_advanced: Mark(0),
            builder_informed: Mark(0),
            raw_lost: false,
        };
        let building = Building {
            feed,
            events_ledger,
            outlet: EventOutlet::new(outlet, gauges.clone()),
            busy: BusyStage::new(busy, &gauges),
            gauges,
            link_gauges,
            refused,
            names,
            published: Mark(0),
            latest: Mark(0),
            snapshot_sent: 0,
            wrote_all: false,
            last_received: Vec::new(),
            held_up_since: None,
            to_readout_unit,
            accepted,
        };
        Readout::new(inputs, building)
    }
}

impl ReadoutWork for Building {
    type Output = Fragments;

    const DRAIN: Duration = DRAIN;

    #[inline]
    fn batch(&mut self, _link: LinkId) -> &mut Fragments {
        &mut self.feed.framed
    }

    #[inline]
    fn take(&mut self, link: LinkId, received: &Frames, signals: &Signals) {
        // Empty before the stop.
        if let Some(last) = self.last_received.get_mut(link.index())
            && !received.slices.is_empty()
        {
            *last = received.header.mark;
        }
        self.feed.take(link, received, signals);
    }

    fn name(&self, link: LinkId) -> &str {
        &self.names[self.feed.links[link.index()].source.index()]
    }

    fn link_failed(&self, message: String, _signals: &Signals) {
        // Others go on: their events lack its fragments, and say so.
        tracing::warn!("{message}");
    }

    fn held_up_by(&self) -> String {
        let (standing, in_flight) = (self.feed.builder.standing(), self.outlet.in_flight());
        if !self.outlet.is_at_rest() {
            return match self.to_readout_unit {
                true => KEPT_BY_UNIT.to_owned(),
                false => format!(
                    "the recorder has not taken {in_flight} batches of events: look at the disk that is recorded on, and at `[filter]` if there is one"
                ),
            };
        }
        if standing.blocks > 0 {
            return format!(
                "{} open events hold {} blocks with {} bytes: raise `memory_bytes` of the sources, or lower `[build] age_ms`",
                standing.open_events, standing.blocks, standing.held_bytes
            );
        }
        let lent = self.gauges.lent();
        if lent > 0 {
            return format!(
                "{lent} workers of the event filter keep a batch and do not answer: look at what `[filter]` asks for"
            );
        }
        match self.feed.raw {
            Some(_) => "the raw recording holds the blocks: look at the disk that is recorded on".to_owned(),
            None if self.to_readout_unit => "it is taken more slowly than it came: where processors have time left, the blocks of the sources \
                                             wait until builder units have recorded them, so raise `memory_bytes` of the sources or lower \
                                             `[record] batch_age_s`; else lower the rate, or give the run more cores"
                .to_owned(),
            None => {
                "this thread takes it more slowly than it came: lower the rate, or give the run more cores"
                    .to_owned()
            }
        }
    }

    fn after_turn(
        readout: &mut Readout<Self>,
        turn: Turn,
        took_nothing: bool,
        drain: &mut Drain,
        signals: &Signals,
    ) -> bool {
        readout.build(turn, took_nothing, drain, signals)
    }

    fn end(readout: &mut Readout<Self>, signals: &Signals) {
        readout.end_building(signals);
    }
}

impl Readout<Building> {
    /// Builds what a turn has given, and passes events on that are due.
    fn build(&mut self, turn: Turn, took_nothing: bool, drain: &mut Drain, signals: &Signals) -> bool {
        let is_passing = turn.mark > std::mem::replace(&mut self.work.latest, turn.mark);
        if !is_passing && self.waits_for_its_time(took_nothing, signals) {
            self.publish_when_due(turn.mark, signals);
            return true;
        }
        self.work.feed.advance_cutters(turn.mark);
        // In a replay that waits for blocks, events leave although no time passes.
        let since_ns = turn.mark.since_ns(self.work.feed.builder_informed);
        if since_ns >= REPORT_TO_BUILDER_EVERY_NS || self.inputs.is_starved() {
            self.report_to_builder(turn.mark);
        }
        self.work.feed.builder.advance(turn.mark);
        let passed_on = self.pull(turn.mark, signals);
        self.hold_and_resume();
        self.follow_busy(turn.mark);
        if let Some(stop) = self.work.feed.builder.stop() {
            let first = stop.missing.first().map_or("nobody", |source| &self.work.names[source.index()]);
            signals.fail(format!(
                "trigger {} is incomplete and `[build] incomplete` is \"stop\": {} source(s) missing, the first is {first}",
                stop.trigger,
                stop.missing.len()
            ));
            return false;
        }
        self.publish_when_due(turn.mark, signals);
        self.work.wrote_all &= took_nothing;
        let goes_on = match signals.stop_requested() {
            _ if self.inputs.is_starved() => self.free_blocks_in_replay(turn.mark, signals),
            true => self.free_blocks_at_stop(turn.mark, took_nothing, drain, signals),
            false => true,
        };
        goes_on && passed_on && !self.work.feed.raw_lost
    }

    /// Returns true if a replay has read ahead and waits until that is due: whatever is built meanwhile would not have been built then in the
    /// run.
    fn waits_for_its_time(&self, took_nothing: bool, signals: &Signals) -> bool {
        took_nothing && !self.inputs.is_starved() && !signals.stop_requested()
    }

    /// Reports to the builder what the framing has refused, and what a recording could not give.
    fn report_to_builder(&mut self, mark: Mark) {
        let Feed { links, builder, builder_informed, .. } = &mut self.work.feed;
        *builder_informed = mark;
        for (link, slots) in self.inputs.links().zip(links) {
            slots.report_to_builder(link, &*self.inputs, builder);
        }
    }

    /// Takes what is built and passes batches on that are due. Returns `false` when no thread takes them any more.
    fn pull(&mut self, mark: Mark, signals: &Signals) -> bool {
        let busy = &mut self.work.busy;
        // The recorder is behind: the trigger is asked to wait.
        self.work.outlet.pull(&mut self.work.feed.builder, mark, &mut || busy.set(true, mark), signals)
    }

    fn pass_on(
        &mut self,
        mark: Mark,
        snapshot: Option<SnapshotNumber>,
        end: bool,
        signals: &Signals,
    ) -> bool {
        let busy = &mut self.work.busy;
        self.work.outlet.pass_on(mark, snapshot, end, &mut || busy.set(true, mark), signals)
    }

    fn hold_and_resume(&mut self) {
        let Feed { builder, links, pending, held, newly_held, ending, .. } = &mut self.work.feed;
        for link in newly_held.drain(..) {
            self.inputs.pause(link);
            held.push(link);
        }
        let inputs = &mut self.inputs;
        held.retain(|link| {
            let waiting = &mut pending[link.index()];
            if !waiting.is_empty() {
                waiting.taken += builder.insert_from(&waiting.batch, waiting.taken);
                if !waiting.is_empty() && links[link.index()].drops {
                    builder.refuse(&waiting.batch, waiting.taken);
                    waiting.taken = waiting.batch.fragments.len();
                }
            }
            let goes_on = waiting.is_empty() && builder.wants(links[link.index()].boards[0].source);
            if goes_on {
                waiting.clear();
                inputs.resume(*link);
            }
            !goes_on
        });
        ending.retain(|link| {
            let done = pending[link.index()].is_empty();
            if done {
                links[link.index()].boards.iter().for_each(|board| builder.end(board.source));
            }
            !done
        });
    }

    fn follow_busy(&mut self, mark: Mark) {
        // One batch left: the recorder is about to hold us up.
        let recorder_behind = self.work.outlet.in_flight() + 1 >= EVENT_BATCHES;
        let recorder_caught_up = self.work.outlet.in_flight() <= EVENT_BATCHES / 2;
        let builder_busy = self.work.feed.builder.is_busy();
        match self.work.busy.is_raised() {
            false if builder_busy || recorder_behind => self.work.busy.set(true, mark),
            true if !builder_busy && recorder_caught_up => self.work.busy.set(false, mark),
            _ => {}
        }
    }

    fn publish_when_due(&mut self, mark: Mark, signals: &Signals) {
        let requested = signals.snapshot_requested();
        // Fragments on their way into the builder are in no slot yet: a snapshot waits for a turn without them.
        if requested > self.work.snapshot_sent && self.work.feed.pending.iter().all(Pending::is_empty) {
            self.work.snapshot_sent = requested;
            self.snapshot(requested);
            self.pass_on(mark, Some(requested), false, signals);
        }
        if mark.since_ns(self.work.published) >= PUBLISH_EVERY_NS {
            self.work.published = mark;
            self.publish(mark);
        }
    }

    fn snapshot(&mut self, number: SnapshotNumber) {
        for (link, slots) in self.inputs.links().zip(&self.work.feed.links) {
            let counters =
                (&*self.inputs, self.work.feed.cutters.get(link.index()), &mut self.work.feed.builder);
            slots.each(link, counters, |slot, counters| slot.snapshot(number, counters));
            if let Some(raw) = &mut self.work.feed.raw
                && let Some(mut marker) = raw.empty_wait(DRAIN)
            {
                marker.clear();
                (marker.header.source, marker.header.snapshot) = (slots.source, Some(number));
                raw.send(marker);
            }
        }
        self.work.events_ledger.snapshot(number, self.work.feed.builder.events_counters());
        self.publish_drop_counters();
    }

    fn publish(&mut self, mark: Mark) {
        for (link, slots) in self.inputs.links().zip(&self.work.feed.links) {
            let counters =
                (&*self.inputs, self.work.feed.cutters.get(link.index()), &mut self.work.feed.builder);
            slots.each(link, counters, |slot, counters| slot.publish(counters));
        }
        self.work.events_ledger.publish(self.work.feed.builder.events_counters());
        let fill = self.work.outlet.fill();
        self.work.gauges.set_builder(&self.work.feed.builder, fill, mark);
        let Feed { links, builder, .. } = &self.work.feed;
        self.work.refused.collect(
            (&*self.inputs, links),
            (builder, &self.work.events_ledger),
            &self.work.names,
        );
    }

    /// Publishes the kernel's drop counters, link by link.
    fn publish_drop_counters(&self) {
        for (link, gauges) in self.inputs.links().zip(&self.work.link_gauges) {
            gauges.set_drop_counters(self.inputs.drop_counters(link));
        }
    }

    /// The run is over for every link: what waits leaves as it is, and the slots are published for the last time.
    fn end_building(&mut self, signals: &Signals) {
        let mark = self.work.latest;
        self.take_pending(mark, signals);
        for pending in &mut self.work.feed.pending {
            self.work.feed.builder.refuse(&pending.batch, pending.taken);
            pending.clear();
        }
        self.report_to_builder(mark);
        self.work.feed.builder.end_run();
        // A builder that was stopped by an incomplete event gives nothing more: what it holds is in its slots as held.
        while self.pull(mark, signals)
            && !self.work.feed.builder.is_empty()
            && self.work.feed.builder.stop().is_none()
        {}
        let accepted = self.accepted_numbers();
        self.work.feed.builder.end_numbers(accepted);
        self.pass_on(mark, None, true, signals);
        self.work.busy.set(false, mark);
        self.publish(mark);
        self.publish_drop_counters();
    }
}

impl Readout<Building> {
    /// The numbers that the trigger has given. A run that fails ends here first, and its trigger a moment later.
    fn accepted_numbers(&self) -> Option<RangeInclusive<u64>> {
        let accepted = self.work.accepted.as_ref()?;
        let deadline = Instant::now() + TRIGGER_END;
        while !accepted.is_final() && Instant::now() < deadline {
            std::thread::sleep(TURN_WAIT);
        }
        accepted.get()
    }
}

impl Feed {
    /// One link's share of a turn: received bytes to the raw recording, fragments to the builder.
    fn take(&mut self, link: LinkId, frames: &Frames, signals: &Signals) {
        if !frames.slices.is_empty() || frames.begins_anew {
            self.raw_lost |= !self.send_raw(link, frames, signals);
        }
        if let Some(leader) = &mut self.leader {
            leader.follow(&self.framed);
        }
        let end = frames.header.end;
        let mut framed = std::mem::take(&mut self.framed);
        match self.cutters.is_empty() {
            true => self.offer(link, &mut framed),
            false => self.cut(link, &framed),
        }
        framed.clear();
        self.framed = framed;
        if end {
            if let Some(leader) = &mut self.leader {
                leader.end(self.links[link.index()].boards.iter().map(|board| board.source));
            }
            self.drain_cutter(link, |cutter, cut| cutter.finish(frames.header.mark, cut));
            self.ending.push(link);
        }
    }

    /// Cuts a link's fragments by time, and offers the slices that have left.
    fn cut(&mut self, link: LinkId, fragments: &Fragments) {
        let mut first = 0;
        self.drain_cutter(link, |cutter, cut| {
            first += cutter.cut(fragments, first, cut);
            first == fragments.fragments.len()
        });
    }

    /// Reports the time to the cutters, so that slices of silent boards leave, too.
    fn advance_cutters(&mut self, mark: Mark) {
        if self.cutters.is_empty() || mark.since_ns(self.cutters_advanced) < ADVANCE_CUTTERS_EVERY_NS {
            return;
        }
        self.cutters_advanced = mark;
        for link in (0..self.cutters.len()).map(LinkId::from_index) {
            self.drain_cutter(link, |cutter, cut| cutter.advance(mark, cut));
        }
    }

    /// Makes the slices leave that every cutter keeps open. Returns whether there were any.
    fn open_slices_leave(&mut self, mark: Mark) -> bool {
        let held = |cutter: &FragmentCutter| {
            cutter.timelines().iter().any(|timeline| timeline.counters().held(Unit::Fragments) > 0)
        };
        let any = self.cutters.iter().any(held);
        for link in (0..self.cutters.len()).map(LinkId::from_index) {
            self.drain_cutter(link, |cutter, cut| cutter.finish(mark, cut));
        }
        any
    }

    /// Runs a link's cutter until it is done, and offers what it gave after each step.
    fn drain_cutter(
        &mut self,
        link: LinkId,
        mut work: impl FnMut(&mut FragmentCutter, &mut Fragments) -> bool,
    ) {
        let mut cut = std::mem::take(&mut self.cut);
        let mut done = false;
        while !done {
            let Some(cutter) = self.cutters.get_mut(link.index()) else { break };
            done = work(cutter, &mut cut);
            self.offer(link, &mut cut);
            cut.clear();
        }
        self.cut = cut;
    }

    /// Offers a link's fragments to the builder; what it does not take waits.
    fn offer(&mut self, link: LinkId, fragments: &mut Fragments) {
        let pending = &mut self.pending[link.index()];
        if !fragments.fragments.is_empty() {
            if pending.is_empty() {
                let taken = self.builder.insert(fragments);
                if taken < fragments.fragments.len() {
                    pending.taken = taken;
                    std::mem::swap(&mut pending.batch, fragments);
                }
            } else {
                pending.append(fragments);
            }
            if !pending.is_empty() || !self.builder.wants(self.links[link.index()].boards[0].source) {
                self.hold(link);
            }
        }
    }

    fn hold(&mut self, link: LinkId) {
        if !self.held.contains(&link) && !self.newly_held.contains(&link) {
            self.newly_held.push(link);
        }
    }

    /// Lends the raw writer what was received.
    fn send_raw(&mut self, link: LinkId, frames: &Frames, signals: &Signals) -> bool {
        let source = self.links[link.index()].source;
        let Some(raw) = &mut self.raw else { return true };
        let Some(mut batch) = wait_for_empty(raw, signals) else { return false };
        batch.clear();
        batch.header = frames.header;
        (batch.header.source, batch.header.snapshot) = (source, None);
        (batch.carried, batch.begins_anew) = (frames.carried, frames.begins_anew);
        batch.slices.extend_from_slice(&frames.slices);
        batch.leases.add_all(&frames.leases);
        raw.send(batch);
        true
    }
}
