//! The thread that receives from triggered boards and builds their events.
//!
//! ```text
//!  Links ─ turn ─► (link, frames, fragments) ─ Feed ─► Builder ─ pull ─► Events ══► recorder
//!    ▲                     ╚══frames══► raw writer          │
//!    └── pause, resume: who is not wanted is not read ──────┘
//! ```
//! Receiving and building are neighbours on one thread: a fragment is built while its header is still in the cache. What
//! the builder does not take waits with its link, which is not read meanwhile; of datagrams it is refused and counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_build::Builder;
use thalweg_data::ring::Upstream;
use thalweg_data::{
    Busy, Events, Fragments, Frames, LossReason, Mark, SnapshotNumber, SourceId, Stage, Tally, Unit,
};
use thalweg_readout::group::{LinkId, News};

use super::lane::wait_for_empty;
use super::leader::Leader;
use super::links::Links;
use super::{Ledgered, Signals};
use crate::supervise::{BuildGauges, Gauges, RefusedGauges, RefusedUnit};

/// Batches of events between builder and recorder.
pub(crate) const EVENT_BATCHES: usize = 8;
/// Idle or not, a turn ends within this.
const TURN_WAIT: Duration = Duration::from_micros(500);
/// A batch is passed on with so many events, …
const EVENTS_PER_BATCH: usize = 256;
/// … or so much payload, …
const BATCH_BYTES: u64 = 1 << 20;
/// … or at this age at the latest.
const BATCH_AGE_NS: u64 = 20_000_000;
/// How often the books are published.
const PUBLISH_EVERY_NS: u64 = 50_000_000;
/// After a stop, sources that stay silent this long have said everything.
const DRAIN_SILENCE: Duration = Duration::from_millis(100);
/// After a stop, nobody is listened to for longer.
const DRAIN_LIMIT: Duration = Duration::from_millis(1000);

/// One link's accounts.
pub(crate) struct LinkBooks {
    /// Whose account its bytes are in.
    pub(crate) source: SourceId,
    /// What the socket received.
    pub(crate) receive: Ledgered,
    /// What was found in it.
    pub(crate) unpack: Ledgered,
    /// The boards behind it, the link itself if it is one board.
    pub(crate) boards: Vec<BoardBooks>,
    /// What does not fit is refused instead of held.
    pub(crate) drops: bool,
}

/// One board's accounts.
pub(crate) struct BoardBooks {
    pub(crate) source: SourceId,
    /// Of one board among several on a link: its fragments.
    pub(crate) unpack: Option<Ledgered>,
    pub(crate) wire: Ledgered,
    pub(crate) build: Ledgered,
}

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
    /// The raw recording has ended before its time.
    raw_lost: bool,
}

/// Everything that the thread owns.
pub(crate) struct EventReader {
    inputs: Links,
    feed: Feed,
    /// The account of the events themselves.
    events_books: Ledgered,
    outlet: Upstream<Events>,
    batch: Events,
    batch_since: Option<Mark>,
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
    pub(crate) outlet: Upstream<Events>,
    pub(crate) busy: Arc<Busy>,
    pub(crate) gauges: Arc<BuildGauges>,
    /// By link.
    pub(crate) link_gauges: Vec<Arc<Gauges>>,
    pub(crate) refused: RefusedOutlet,
    /// Of everything that has an account, by number.
    pub(crate) names: Arc<[String]>,
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
            outlet,
            busy,
            gauges,
            link_gauges,
            refused,
            names,
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
            raw_lost: false,
        };
        EventReader {
            inputs,
            feed,
            events_books,
            outlet,
            batch: Events::default(),
            batch_since: None,
            busy: BusyShare { busy, raised: false, since: Mark(0), total_ns: 0 },
            gauges,
            link_gauges,
            refused,
            names,
            published: Mark(0),
            latest: Mark(0),
            snapshot_sent: 0,
        }
    }

    /// Reads and builds until the links have ended, or a stop is asked for and everything on its way has come.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) {
        let mut drain = Drain::default();
        let mut goes_on = true;
        while goes_on && self.inputs.open_links() > 0 && !drain.is_over(signals) {
            goes_on = self.turn(&mut drain, signals);
        }
        self.end(signals);
    }

    fn turn(&mut self, drain: &mut Drain, signals: &Signals) -> bool {
        let feed = &mut self.feed;
        let turn = match self.inputs.turn(TURN_WAIT, &mut |link, frames, fragments| {
            feed.take(link, frames, fragments, signals);
        }) {
            Ok(turn) => turn,
            Err(error) => {
                signals.fail(error.to_string());
                return false;
            }
        };
        self.latest = turn.mark;
        if turn.links > 0 {
            drain.heard();
        }
        if signals.stop_requested() {
            self.inputs.close();
        }
        self.tell_news();
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
        passed_on && !self.feed.raw_lost
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

    /// Takes what is built and passes batches on that are due. `false` when nobody takes them any more.
    fn pull(&mut self, mark: Mark, signals: &Signals) -> bool {
        loop {
            let room = EVENTS_PER_BATCH - self.batch.events.len();
            let pulled = self.feed.builder.pull(&mut self.batch, room);
            if pulled {
                self.batch_since.get_or_insert(mark);
            }
            let bytes: u64 = self.batch.events.iter().map(|event| event.bytes).sum();
            let full = self.batch.events.len() >= EVENTS_PER_BATCH || bytes >= BATCH_BYTES;
            let aged = self.batch_since.is_some_and(|since| mark.since_ns(since) >= BATCH_AGE_NS);
            if (full || aged) && !self.pass_on(mark, None, false, signals) {
                return false;
            }
            if !full {
                return true;
            }
        }
    }

    fn pass_on(
        &mut self,
        mark: Mark,
        snapshot: Option<SnapshotNumber>,
        end: bool,
        signals: &Signals,
    ) -> bool {
        self.batch.header = thalweg_data::batch::Header { source: SourceId(0), mark, snapshot, end };
        self.batch_since = None;
        let next = self.outlet.empty().or_else(|| {
            // The recorder is behind: whoever triggers is told to wait.
            self.busy.set(true, mark);
            wait_for_empty(&mut self.outlet, signals)
        });
        let Some(mut next) = next else { return false };
        next.clear();
        std::mem::swap(&mut next, &mut self.batch);
        self.gauges.passed_on(&next);
        self.outlet.send(next);
        true
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
        match self.busy.raised {
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
            books.each(&self.inputs, &self.feed.builder, link, |account, tally| {
                account.snapshot(number, tally)
            });
            if let Some(raw) = &mut self.feed.raw
                && let Some(mut marker) = raw.empty_wait(DRAIN_LIMIT)
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
            books.each(&self.inputs, &self.feed.builder, link, |account, tally| account.publish(tally));
        }
        self.events_books.publish(self.feed.builder.events_tally());
        let fill = self.outlet.in_flight() as f64 / EVENT_BATCHES as f64;
        self.gauges.look(&self.feed.builder, self.busy.is_raised(), self.busy.share(mark), fill);
        self.refused.look(&self.inputs, &self.feed, &self.names);
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
        // Pending fragments make room for themselves as events leave; what still does not fit is counted.
        for _ in 0..2 {
            if !self.pull(mark, signals) {
                break;
            }
            self.hold_and_resume();
        }
        for pending in &mut self.feed.pending {
            self.feed.builder.refuse(&pending.batch, pending.taken);
            pending.clear();
        }
        self.feed.builder.end_run();
        // A builder that was stopped by an incomplete event gives nothing more: what it holds is in its books as held.
        while self.pull(mark, signals) && !self.feed.builder.is_empty() && self.feed.builder.stop().is_none()
        {
        }
        self.pass_on(mark, None, true, signals);
        self.busy.set(false, mark);
        self.publish(mark);
        self.witness();
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
        if end {
            if let Some(leader) = &mut self.leader {
                leader.end(self.links[link.index()].boards.iter().map(|board| board.source));
            }
            self.ending.push(link);
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

/// What is missing on the wire because it was refused here is put under the reason for that: as much as was refused, and no
/// more than is missing.
fn explain_missing(wire: &mut Tally, unpack: &Tally, build: &Tally) {
    use LossReason::{BadHash, BadLength, LateFragment, MissingFragment, OverBudget, TooLarge, Unfinished};
    let unit = Unit::Fragments;
    let refused =
        [BadHash, BadLength, Unfinished, TooLarge].map(|reason| (reason, unpack.total_lost(reason, unit)));
    let unused = [LateFragment, OverBudget].map(|reason| (reason, build.total_lost(reason, unit)));
    for (reason, count) in refused.into_iter().chain(unused).filter(|(_, count)| *count > 0) {
        wire.explain(MissingFragment, reason, unit, count);
    }
}

impl LinkBooks {
    /// Every account of the link with its tally of now.
    fn each(&self, inputs: &Links, builder: &Builder, link: LinkId, mut tell: impl FnMut(&Ledgered, &Tally)) {
        let split = inputs.split(link);
        tell(&self.receive, &inputs.receive_tally(link));
        tell(&self.unpack, split.tally());
        for (index, board) in self.boards.iter().enumerate() {
            if let (Some(account), Some(tally)) = (&board.unpack, split.board_tallies().get(index)) {
                tell(account, tally);
            }
            let mut wire = builder.wire_tally(board.source).clone();
            // A board's own tally; of one board alone it is the link's.
            let found = split.board_tallies().get(index).unwrap_or(split.tally());
            explain_missing(&mut wire, found, builder.tally(board.source));
            if let Some(sent) = split.wire_tallies().get(index) {
                wire.add_all(sent);
            }
            tell(&board.wire, &wire);
            tell(&board.build, builder.tally(board.source));
        }
    }
}

/// Where the first refused units are shown, and how many of this thread were shown already.
pub(crate) struct RefusedOutlet {
    gauges: Arc<RefusedGauges>,
    thread: String,
    shown: usize,
}

impl RefusedOutlet {
    pub(crate) fn new(gauges: &Arc<RefusedGauges>, thread: &str) -> RefusedOutlet {
        RefusedOutlet { gauges: gauges.clone(), thread: thread.to_owned(), shown: 0 }
    }

    /// Shows what was kept, if there is more of it than the last time.
    fn look(&mut self, inputs: &Links, feed: &Feed, names: &[String]) {
        let kept_by_links: usize = inputs.ids().map(|link| inputs.split(link).first_refused().len()).sum();
        let kept = kept_by_links + feed.builder.dumps().len();
        if kept == self.shown {
            return;
        }
        self.shown = kept;
        let mut units = Vec::with_capacity(kept);
        for link in inputs.ids() {
            let name = &names[feed.links[link.index()].source.index()];
            let refused = inputs.split(link).first_refused().iter();
            units.extend(refused.map(|refused| RefusedUnit::new(Stage::Unpack, refused, names, name)));
        }
        let dumps = feed.builder.dumps().iter();
        units.extend(dumps.map(|dump| RefusedUnit::new(Stage::Build, &dump.to_refused(), names, "?")));
        self.gauges.set(&self.thread, units);
    }
}

/// This thread's part in BUSY, and how long it was raised.
struct BusyShare {
    busy: Arc<Busy>,
    raised: bool,
    since: Mark,
    total_ns: u64,
}

impl BusyShare {
    fn set(&mut self, raised: bool, mark: Mark) {
        if raised == self.raised {
            return;
        }
        match raised {
            true => {
                self.busy.raise();
                self.since = mark;
            }
            false => {
                self.busy.lower();
                self.total_ns += mark.since_ns(self.since);
            }
        }
        self.raised = raised;
    }

    fn is_raised(&self) -> bool {
        self.raised
    }

    /// Share of the run so far, 0 to 1.
    fn share(&self, mark: Mark) -> f64 {
        let now = if self.raised { mark.since_ns(self.since) } else { 0 };
        (self.total_ns + now) as f64 / mark.0.max(1) as f64
    }
}

/// Listening on after a stop.
#[derive(Default)]
struct Drain {
    since: Option<Instant>,
    heard: Option<Instant>,
}

impl Drain {
    fn heard(&mut self) {
        self.heard = Some(Instant::now());
    }

    fn is_over(&mut self, signals: &Signals) -> bool {
        if !signals.stop_requested() {
            return false;
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let silent_since = self.heard.map_or(since, |heard| heard.max(since));
        now - silent_since >= DRAIN_SILENCE || now - since >= DRAIN_LIMIT
    }
}

/// The units of a link's accounts: a stream has no datagrams to count.
pub(crate) fn link_units(stream: bool, one_board: bool) -> Vec<Unit> {
    let received = if stream { &[Unit::Bytes][..] } else { &[Unit::Datagrams, Unit::Bytes] };
    received.iter().copied().chain(one_board.then_some(Unit::Fragments)).collect()
}
