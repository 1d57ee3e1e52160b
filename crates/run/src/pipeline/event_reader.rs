//! The thread that receives from triggered boards and builds their events.
//!
//! ```text
//!  Links ─ turn ─► (link, frames, fragments) ─ Feed ─► Builder ─ pull ─► Events ══► recorder
//!    ▲                     ╚══frames══► raw writer          │
//!    └── pause, resume: who is not wanted is not read ──────┘
//! ```
//! Receiving and building are neighbours on one thread: a fragment is built while its header is still in the cache. What
//! the builder does not take waits with its link, which is not read meanwhile; of datagrams it is refused and counted.

mod room;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_build::Builder;
use thalweg_build::slices::FragmentCutter;
use thalweg_data::ring::Upstream;
use thalweg_data::{Busy, Events, Fragments, Frames, LossReason, Mark, SnapshotNumber, Unit};
use thalweg_readout::group::{LinkId, News};
use thalweg_readout::host::triggered::AcceptedNumbers;

use super::busy_share::BusyShare;
use super::drain::{Drain, Drained};
use super::event_outlet::{EVENT_BATCHES, EventOutlet};
use super::lane::wait_for_empty;
use super::leader::Leader;
use super::link_books::LinkBooks;
use super::links::Links;
use super::refused_outlet::RefusedOutlet;
use super::{Ledgered, Signals};
use crate::supervise::{BuildGauges, Gauges};

/// Idle or not, a turn ends within this.
const TURN_WAIT: Duration = Duration::from_micros(500);
/// How often the books are published.
const PUBLISH_EVERY_NS: u64 = 50_000_000;
/// How often boards that are silent are looked for, of a run with time slices.
const TELL_CUTTERS_EVERY_NS: u64 = 5_000_000;
/// How often the builder gets a report of what was refused before it.
const TELL_BUILDER_EVERY_NS: u64 = 5_000_000;
/// So long is waited for the trigger's last number.
const TRIGGER_END: Duration = Duration::from_secs(2);
/// After a stop, boards that go on sending are listened to so long.
const DRAIN: Duration = Duration::from_millis(1000);

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

/// What stands between the links and the builder.
struct Feed {
    builder: Builder,
    links: Vec<LinkBooks>,
    pending: Vec<Pending>,
    /// Links that are not read: they have something pending, or are not wanted.
    held: Vec<LinkId>,
    /// Links that joined `held` in this turn.
    newly_held: Vec<LinkId>,
    /// Links whose end is to be told once nothing of them is pending.
    ending: Vec<LinkId>,
    raw: Option<Upstream<Frames>>,
    leader: Option<Leader>,
    /// By link, of a run with time slices.
    cutters: Vec<FragmentCutter>,
    /// What was cut and is not offered to the builder yet; empty between batches.
    cut: Fragments,
    /// When the cutters were last told the time.
    told_cutters: Mark,
    /// When the builder last got a report of what was refused before it.
    told_builder: Mark,
    /// The raw recording has ended before its time.
    raw_lost: bool,
}

/// Everything that the thread owns.
pub(crate) struct EventReader {
    inputs: Links,
    feed: Feed,
    /// The account of the events themselves.
    events_books: Ledgered,
    outlet: EventOutlet,
    busy: BusyShare,
    gauges: Arc<BuildGauges>,
    /// By link.
    link_gauges: Vec<Arc<Gauges>>,
    refused: RefusedOutlet,
    names: Arc<[String]>,
    published: Mark,
    /// Time of the latest turn.
    latest: Mark,
    snapshot_sent: SnapshotNumber,
    /// The recorder was asked to write everything, and nothing has come since.
    wrote_all: bool,
    /// Of a run that is being stopped: when each link gave something last, and since when links wait for room.
    heard: Vec<Mark>,
    held_up_since: Option<Mark>,
    /// Events go to a readout unit in place of a recorder.
    to_readout_unit: bool,
    accepted: Option<Arc<AcceptedNumbers>>,
}

/// What an event reader is made of.
pub(crate) struct EventReaderParts {
    pub(crate) inputs: Links,
    pub(crate) builder: Builder,
    pub(crate) links: Vec<LinkBooks>,
    pub(crate) events_books: Ledgered,
    pub(crate) raw: Option<Upstream<Frames>>,
    /// The board that emulated ones follow, if it is one of these.
    pub(crate) leader: Option<Leader>,
    /// By link, of a run with time slices; empty of one without.
    pub(crate) cutters: Vec<FragmentCutter>,
    pub(crate) outlet: Upstream<Events>,
    pub(crate) busy: Arc<Busy>,
    pub(crate) gauges: Arc<BuildGauges>,
    /// By link.
    pub(crate) link_gauges: Vec<Arc<Gauges>>,
    pub(crate) refused: RefusedOutlet,
    /// Of everything that has an account, by number.
    pub(crate) names: Arc<[String]>,
    /// Events go to a readout unit in place of a recorder.
    pub(crate) to_readout_unit: bool,
    /// Which numbers the trigger has given, where every board here answers that trigger alone.
    pub(crate) accepted: Option<Arc<AcceptedNumbers>>,
}

impl EventReader {
    pub(crate) fn new(parts: EventReaderParts) -> EventReader {
        let EventReaderParts {
            inputs,
            builder,
            links,
            events_books,
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
            links,
            held: Vec::new(),
            newly_held: Vec::new(),
            ending: Vec::new(),
            raw,
            leader,
            cutters,
            cut: Fragments::default(),
            told_cutters: Mark(0),
            told_builder: Mark(0),
            raw_lost: false,
        };
        EventReader {
            inputs,
            feed,
            events_books,
            outlet: EventOutlet::new(outlet, gauges.clone()),
            busy: BusyShare::new(busy),
            gauges,
            link_gauges,
            refused,
            names,
            published: Mark(0),
            latest: Mark(0),
            snapshot_sent: 0,
            wrote_all: false,
            heard: Vec::new(),
            held_up_since: None,
            to_readout_unit,
            accepted,
        }
    }

    /// Reads and builds until the links have ended, or a stop is asked for and everything on its way has come.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) {
        let mut drain = Drain::new(DRAIN, self.feed.links.len());
        let mut goes_on = true;
        let mut drained = Drained::No;
        while goes_on && self.inputs.open_links() > 0 && drained == Drained::No {
            goes_on = self.turn(&mut drain, signals);
            drained = drain.state(&self, signals);
        }
        if drained == Drained::GivenUp {
            self.abandon(&drain, signals);
        }
        self.end(signals);
    }

    /// What waits in the links is thrown away and counted: nobody takes it any more.
    fn abandon(&mut self, drain: &Drain, signals: &Signals) {
        if let Err(error) = self.inputs.abandon() {
            signals.note_failure(error.to_string());
        }
        let lost = |link| self.inputs.receive_tally(link).total_lost(LossReason::Abandoned, Unit::Bytes);
        signals.note_failure(drain.words(self.inputs.ids().map(lost).sum(), self, signals));
    }

    fn turn(&mut self, drain: &mut Drain, signals: &Signals) -> bool {
        let (feed, heard) = (&mut self.feed, &mut self.heard);
        drain.listen();
        let mut is_idle = true;
        let turn = match self.inputs.turn(TURN_WAIT, &mut |link, frames, fragments| {
            if !frames.slices.is_empty() {
                is_idle = false;
                drain.heard(link.index(), || frames.byte_count());
                // Empty before the stop.
                if let Some(heard) = heard.get_mut(link.index()) {
                    *heard = frames.header.mark;
                }
            }
            feed.take(link, frames, fragments, signals);
        }) {
            Ok(turn) => turn,
            Err(error) => {
                signals.fail(error.to_string());
                return false;
            }
        };
        if is_idle {
            drain.idle();
        }
        self.latest = turn.mark;
        if signals.stop_requested() {
            self.inputs.close();
        }
        self.tell_news();
        self.feed.tell_cutters(turn.mark);
        // Where a replay waits for blocks, events leave although no time passes.
        let told_ns = turn.mark.since_ns(self.feed.told_builder);
        if told_ns >= TELL_BUILDER_EVERY_NS || self.inputs.is_starved() {
            self.report_to_builder(turn.mark);
        }
        self.feed.builder.advance(turn.mark);
        let passed_on = self.pull(turn.mark, signals);
        self.hold_and_resume();
        self.follow_busy(turn.mark);
        if let Some(stop) = self.feed.builder.stop() {
            let first = stop.missing.first().map_or("nobody", |source| &self.names[source.index()]);
            signals.fail(format!(
                "trigger {} is incomplete and `[build] incomplete` is \"stop\": {} source(s) missing, the first is {first}",
                stop.trigger,
                stop.missing.len()
            ));
            return false;
        }
        self.publish_when_due(turn.mark, signals);
        let took_nothing = is_idle && turn.links == 0;
        self.wrote_all &= took_nothing;
        let goes_on = match signals.stop_requested() {
            _ if self.inputs.is_starved() => self.make_room_in_replay(turn.mark, signals),
            true => self.make_room_at_stop(turn.mark, took_nothing, drain, signals),
            false => true,
        };
        goes_on && passed_on && !self.feed.raw_lost
    }

    fn tell_news(&self) {
        let name = |link: &LinkId| &self.names[self.feed.links[link.index()].source.index()];
        for news in self.inputs.news() {
            match news {
                News::Gone { link, message } => {
                    tracing::warn!("{}: {message}; it is being opened again", name(link));
                }
                News::Back { link, epoch } => tracing::info!("{}: connected again ({epoch})", name(link)),
                News::Ended { link } => tracing::info!("{}: ended", name(link)),
                News::Silent { link } => tracing::warn!(
                    "{}: {}: connected, and not one byte has come; is the board's trigger running?",
                    name(link),
                    self.inputs.description(*link)
                ),
            }
        }
    }

    /// Tells the builder what the framing has refused, and what a recording could not give.
    fn report_to_builder(&mut self, mark: Mark) {
        let Feed { links, builder, told_builder, .. } = &mut self.feed;
        *told_builder = mark;
        for (link, books) in self.inputs.ids().zip(links) {
            books.report_to_builder(link, &self.inputs, builder);
        }
    }

    /// Takes what is built and passes batches on that are due. `false` when nobody takes them any more.
    fn pull(&mut self, mark: Mark, signals: &Signals) -> bool {
        let busy = &mut self.busy;
        // The recorder is behind: whoever triggers is told to wait.
        self.outlet.pull(&mut self.feed.builder, mark, &mut || busy.set(true, mark), signals)
    }

    fn pass_on(
        &mut self,
        mark: Mark,
        snapshot: Option<SnapshotNumber>,
        end: bool,
        signals: &Signals,
    ) -> bool {
        let busy = &mut self.busy;
        self.outlet.pass_on(mark, snapshot, end, &mut || busy.set(true, mark), signals)
    }

    fn hold_and_resume(&mut self) {
        let Feed { builder, links, pending, held, newly_held, ending, .. } = &mut self.feed;
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
        let recorder_behind = self.outlet.in_flight() + 1 >= EVENT_BATCHES;
        let recorder_caught_up = self.outlet.in_flight() <= EVENT_BATCHES / 2;
        let builder_busy = self.feed.builder.is_busy();
        match self.busy.is_raised() {
            false if builder_busy || recorder_behind => self.busy.set(true, mark),
            true if !builder_busy && recorder_caught_up => self.busy.set(false, mark),
            _ => {}
        }
    }

    fn publish_when_due(&mut self, mark: Mark, signals: &Signals) {
        let requested = signals.snapshot_requested();
        // Fragments on their way into the builder are in nobody's books: a snapshot waits for a turn without.
        if requested > self.snapshot_sent && self.feed.pending.iter().all(Pending::is_empty) {
            self.snapshot_sent = requested;
            self.snapshot(requested);
            self.pass_on(mark, Some(requested), false, signals);
        }
        if mark.since_ns(self.published) >= PUBLISH_EVERY_NS {
            self.published = mark;
            self.publish(mark);
        }
    }

    fn snapshot(&mut self, number: SnapshotNumber) {
        for (link, books) in self.inputs.ids().zip(&self.feed.links) {
            let tallies = (&self.inputs, self.feed.cutters.get(link.index()), &self.feed.builder);
            books.each(link, tallies, |account, tally| account.snapshot(number, tally));
            if let Some(raw) = &mut self.feed.raw
                && let Some(mut marker) = raw.empty_wait(DRAIN)
            {
                marker.clear();
                (marker.header.source, marker.header.snapshot) = (books.source, Some(number));
                raw.send(marker);
            }
        }
        self.events_books.snapshot(number, self.feed.builder.events_tally());
        self.witness();
    }

    fn publish(&mut self, mark: Mark) {
        for (link, books) in self.inputs.ids().zip(&self.feed.links) {
            let tallies = (&self.inputs, self.feed.cutters.get(link.index()), &self.feed.builder);
            books.each(link, tallies, |account, tally| account.publish(tally));
        }
        self.events_books.publish(self.feed.builder.events_tally());
        let fill = self.outlet.in_flight() as f64 / EVENT_BATCHES as f64;
        self.gauges.look(&self.feed.builder, self.busy.is_raised(), Some(self.busy.share(mark)), fill);
        let Feed { links, builder, .. } = &self.feed;
        self.refused.look((&self.inputs, links), (builder, &self.events_books), &self.names);
    }

    /// What the kernel counts, link by link.
    fn witness(&self) {
        for (link, gauges) in self.inputs.ids().zip(&self.link_gauges) {
            gauges.witness(self.inputs.witnesses(link));
        }
    }

    /// The run is over for every link: what waits leaves as it is, and the books are published for the last time.
    fn end(&mut self, signals: &Signals) {
        let feed = &mut self.feed;
        self.inputs.finish(&mut |link, frames, fragments| feed.take(link, frames, fragments, signals));
        let mark = self.latest;
        self.take_pending(mark, signals);
        for pending in &mut self.feed.pending {
            self.feed.builder.refuse(&pending.batch, pending.taken);
            pending.clear();
        }
        self.report_to_builder(mark);
        self.feed.builder.end_run();
        // A builder that was stopped by an incomplete event gives nothing more: what it holds is in its books as held.
        while self.pull(mark, signals) && !self.feed.builder.is_empty() && self.feed.builder.stop().is_none()
        {
        }
        let accepted = self.accepted_numbers();
        self.feed.builder.end_numbers(accepted);
        self.pass_on(mark, None, true, signals);
        for message in self.inputs.ids().filter_map(|link| self.inputs.unreadable(link)) {
            signals.note_failure(message);
        }
        self.busy.set(false, mark);
        self.publish(mark);
        self.witness();
    }
}

impl EventReader {
    /// The numbers that the trigger has given. A run that fails ends here first, and its trigger a moment later.
    fn accepted_numbers(&self) -> Option<RangeInclusive<u64>> {
        let accepted = self.accepted.as_ref()?;
        let deadline = Instant::now() + TRIGGER_END;
        while !accepted.is_final() && Instant::now() < deadline {
            std::thread::sleep(TURN_WAIT);
        }
        accepted.get()
    }
}

impl Feed {
    /// One link's share of a turn: received bytes to the raw recording, fragments to the builder.
    fn take(&mut self, link: LinkId, frames: &Frames, fragments: &mut Fragments, signals: &Signals) {
        if !frames.slices.is_empty() {
            self.raw_lost |= !self.send_raw(link, frames, signals);
        }
        if let Some(leader) = &mut self.leader {
            leader.look(fragments);
        }
        let end = frames.header.end;
        match self.cutters.is_empty() {
            true => self.offer(link, fragments),
            false => self.cut(link, fragments),
        }
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

    /// Tells the cutters what time it is, so that slices of silent boards leave, too.
    fn tell_cutters(&mut self, mark: Mark) {
        if self.cutters.is_empty() || mark.since_ns(self.told_cutters) < TELL_CUTTERS_EVERY_NS {
            return;
        }
        self.told_cutters = mark;
        for link in 0..self.cutters.len() as u32 {
            self.drain_cutter(LinkId(link), |cutter, cut| cutter.advance(mark, cut));
        }
    }

    /// Has the slices leave that every cutter keeps open. Whether there were any.
    fn open_slices_leave(&mut self, mark: Mark) -> bool {
        let held = |cutter: &FragmentCutter| {
            cutter.timelines().iter().any(|timeline| timeline.tally().held(Unit::Fragments) > 0)
        };
        let any = self.cutters.iter().any(held);
        for link in 0..self.cutters.len() as u32 {
            self.drain_cutter(LinkId(link), |cutter, cut| cutter.finish(mark, cut));
        }
        any
    }

    /// Has a link's cutter work until it says that it is done, and offers each time what it gave.
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
        batch.carried = frames.carried;
        batch.slices.extend_from_slice(&frames.slices);
        batch.leases.add_all(&frames.leases);
        raw.send(batch);
        true
    }
}
