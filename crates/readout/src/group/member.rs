//! One link of a group: its connection, its framing, its counters over all its connections.
//!
//! ```text
//!  Reading ◄──► Held (no block free)          paused: beside all of these, not in the set
//!     │  ▲
//!     ▼  └──── opened again ────┐
//!   Gone ─ finished, counted ─► Away          or Ended, for good
//! ```

use std::time::{Duration, Instant};

use thalweg_data::{
    Counters, Framed, Frames, Framing, LinkId, Mark, Received, Source, SourceError, SourceId, Unit,
};
use thalweg_transport::ReadySet;

use super::{GroupSettings, Link, Reopen, Take};

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Reading,
    /// Its pool was empty.
    Held,
    /// Its connection has just ended, and is not accounted for yet.
    Gone,
    /// It is being opened again.
    Away,
    Ended,
}

pub(super) struct Member<O> {
    pub(super) link: LinkId,
    pub(super) source: SourceId,
    /// `None` while away and when ended.
    live: Option<Box<dyn Source>>,
    pub(super) framing: Box<dyn Framing<Output = O>>,
    /// Connections of its source that the framing knows of.
    connections: u32,
    /// `None` also while an attempt is under way.
    pub(super) reopen: Option<Reopen>,
    pub(super) state: State,
    pub(super) paused: bool,
    /// Whether it is asked in every turn, and so reports the time itself; else the group waits for its socket.
    pub(super) is_asked: bool,
    /// Whether the socket is in the group's set.
    joined: bool,
    /// No block was free at its last receive call.
    pub(super) is_full: bool,
    /// Mark of what was handed over last.
    pub(super) latest: Mark,
    pub(super) epoch: u32,
    pub(super) retry_at: Instant,
    retry_wait: Duration,
    first_retry: Duration,
    /// When an open connection without a byte is reported; `None` once it was, or has spoken.
    silent_at: Option<Instant>,
    /// Ledgers of connections that are gone.
    past: Box<Counters>,
    /// Why the connection is gone.
    failure: Option<String>,
    /// What of a file that has ended could not be read.
    unreadable: Option<String>,
    /// Counters beside the ledger of the connection that ended last.
    last_drop_counters: Vec<(&'static str, u64)>,
}

impl<O: Framed> Member<O> {
    /// A link whose socket is in the set already, if it `joins` one.
    pub(super) fn new(link: LinkId, given: Link<O>, joins: bool, settings: &GroupSettings) -> Member<O> {
        let now = Instant::now();
        Member {
            link,
            source: given.source,
            live: Some(given.live),
            framing: given.framing,
            connections: 0,
            reopen: given.reopen,
            state: State::Reading,
            paused: false,
            is_asked: !joins,
            joined: joins,
            is_full: false,
            latest: Mark(0),
            epoch: 0,
            retry_at: now,
            retry_wait: settings.first_retry,
            first_retry: settings.first_retry,
            silent_at: Some(now + settings.silence),
            past: Box::default(),
            failure: None,
            unreadable: None,
            last_drop_counters: Vec::new(),
        }
    }

    /// Asks the memory for what the next [`Member::take`] needs; the member itself was asked for before.
    #[inline]
    pub(super) fn prefetch(&self) {
        let Some(live) = &self.live else { return };
        live.prefetch();
        for counters in [live.counters(), self.framing.counters()] {
            counters.prefetch(Unit::Datagrams);
            counters.prefetch(Unit::Bytes);
        }
        self.framing.counters().prefetch(Unit::Fragments);
    }

    /// Receives once, frames, hands over. An end leaves the link as [`State::Gone`].
    #[inline]
    pub(super) fn take(&mut self, wait: Duration, frames: &mut Frames, taker: &mut dyn Take<O>) -> Received {
        let Some(live) = &mut self.live else { return Received::Idle };
        let received = live.receive(frames, wait).unwrap_or_else(|error| {
            self.failure = Some(error.to_string());
            Received::End
        });
        self.is_full = received == Received::Full;
        if received == Received::End {
            self.state = State::Gone;
        }
        let (mark, has_data) = (frames.header.mark, !frames.slices.is_empty());
        if has_data {
            // A board that takes connections only to drop them is not asked more and more often: data alone count.
            (self.silent_at, self.retry_wait) = (None, self.first_retry);
            self.hand_over(frames, taker);
        } else if frames.begins_anew {
            // A recording, of a connection that has ended and was opened again.
            self.latest = self.latest.max(mark);
            self.finish(mark, false, frames, taker);
            self.framing.begin_anew();
        } else if self.is_asked && received != Received::End && !frames.header.end {
            // The mark that a recording has of its source's end is handed over with that end, as it was in the run.
            self.pass_time(mark, frames, taker);
        }
        // The mark of a link that is found without a block was handed over to nobody: the next sweep does that.
        if has_data || self.is_asked {
            self.latest = self.latest.max(mark);
        }
        frames.clear();
        received
    }

    /// Frames what was received, and hands it over.
    #[inline]
    fn hand_over(&mut self, frames: &mut Frames, taker: &mut dyn Take<O>) {
        let Some(live) = &mut self.live else { return };
        // The end is handed over by `finish`, whatever a recording says of its last batch.
        (frames.header.source, frames.header.end) = (self.source, false);
        let units = taker.batch(self.link);
        *units.header_mut() = frames.header;
        let connections = live.connections();
        if connections != self.connections {
            self.connections = connections;
            frames.begins_anew = true;
        }
        if frames.begins_anew && live.is_stream() {
            // What the connection before had carried is gone with it.
            self.framing.finish(&Frames::default(), units);
            self.framing.begin_anew();
        }
        let before = units.unit_count();
        let left_over = self.framing.frame(frames, units);
        live.carry(left_over);
        let found = units.unit_count() - before;
        if let ([slice], true) = (&frames.slices[..], found > 0) {
            live.expect_units(unit_bytes((slice.length as usize).saturating_sub(left_over), found));
        }
        taker.take(self.link, frames);
    }

    /// Hands over a mark alone, where it is of use.
    pub(super) fn pass_time(&mut self, mark: Mark, frames: &mut Frames, taker: &mut dyn Take<O>) {
        if !taker.wants_mark(self.link, mark) {
            return;
        }
        frames.clear();
        (frames.header.source, frames.header.mark) = (self.source, mark);
        self.latest = mark;
        let units = taker.batch(self.link);
        *units.header_mut() = frames.header;
        // Datagrams that wait for those before them give them up as time passes, whether or not anything comes.
        if self.live.as_ref().is_some_and(|live| !live.is_stream()) {
            self.framing.frame(frames, units);
        }
        taker.take(self.link, frames);
        frames.clear();
    }

    /// The framing learns that its stream has ended, and what it gives is handed over; `end` when nothing follows in this run. To be
    /// called before the connection is given up, which keeps the bytes that wait for more.
    pub(super) fn finish(&mut self, mark: Mark, end: bool, frames: &mut Frames, taker: &mut dyn Take<O>) {
        // A recording has its own time.
        let mark = if self.is_asked { self.latest } else { mark };
        frames.clear();
        (frames.header.source, frames.header.mark, frames.header.end) = (self.source, mark, end);
        if let Some(live) = &mut self.live {
            live.give_carried(frames);
        }
        let units = taker.batch(self.link);
        *units.header_mut() = frames.header;
        self.framing.finish(frames, units);
        let header = frames.header;
        frames.clear();
        (frames.header, frames.begins_anew) = (header, !end);
        self.latest = mark;
        taker.take(self.link, frames);
        frames.clear();
    }

    /// Takes the socket out of the set.
    pub(super) fn leave(&mut self, ready: Option<&mut ReadySet>) {
        let socket = self.live.as_ref().and_then(|live| live.socket());
        if let (Some(socket), Some(ready), true) = (socket, ready, self.joined) {
            // It fails only for a socket that is not in the set any more.
            let _gone = ready.remove(socket);
            self.joined = false;
        }
    }

    /// Puts the socket back into the set, unless the link is paused. `false` leaves the link as [`State::Gone`].
    pub(super) fn join(&mut self, ready: Option<&mut ReadySet>) -> bool {
        let socket = self.live.as_ref().and_then(|live| live.socket());
        if let (Some(socket), Some(ready), false, false) = (socket, ready, self.joined, self.paused) {
            match ready.add(socket, self.link.index()) {
                Ok(()) => self.joined = true,
                Err(cause) => {
                    self.failure = Some(format!("cannot be waited for: {cause}"));
                    self.state = State::Gone;
                    return false;
                }
            }
        }
        true
    }

    /// Gives the connection up, keeps its counters; returns what was seen, where the other end did not just close it.
    pub(super) fn close(&mut self, ready: Option<&mut ReadySet>, comes_back: bool) -> Option<String> {
        self.leave(ready);
        let mut place = String::new();
        if let Some(live) = self.live.take() {
            self.past.add_all(live.counters());
            self.unreadable = live.unreadable();
            self.last_drop_counters = live.drop_counters();
            place = live.description();
        }
        self.state = if comes_back { State::Away } else { State::Ended };
        self.retry_at = Instant::now() + self.retry_wait;
        match (self.failure.take(), comes_back) {
            (Some(seen), true) => Some(format!("{place}: {seen}")),
            (None, true) => Some(format!("{place}: the other end closed the connection")),
            (seen, false) => seen,
        }
    }

    /// Goes on with a new connection; the framing has finished the one before. `false` leaves the link as [`State::Gone`].
    pub(super) fn come_back(
        &mut self,
        live: Box<dyn Source>,
        ready: Option<&mut ReadySet>,
        settings: &GroupSettings,
    ) -> bool {
        self.live = Some(live);
        self.framing.begin_anew();
        self.joined = false;
        self.state = State::Reading;
        self.epoch += 1;
        let now = Instant::now();
        self.silent_at = Some(now + settings.silence);
        self.retry_wait = (self.retry_wait * 2).min(settings.longest_retry);
        self.join(ready)
    }

    /// Doubles the wait before the next attempt.
    pub(super) fn postpone(&mut self, now: Instant, settings: &GroupSettings) {
        self.retry_at = now + self.retry_wait;
        self.retry_wait = (self.retry_wait * 2).min(settings.longest_retry);
    }

    /// Whether the connection stands for long without a byte, which is said once.
    pub(super) fn is_newly_silent(&mut self, now: Instant) -> bool {
        let silent = self.live.is_some() && !self.paused && self.silent_at.is_some_and(|at| at <= now);
        if silent {
            self.silent_at = None;
        }
        silent
    }

    pub(super) fn receive_counters(&self) -> Counters {
        let mut counters = (*self.past).clone();
        if let Some(live) = &self.live {
            counters.add_all(live.counters());
        }
        counters
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.waiting_bytes())
    }

    /// Throws away what waits in its socket, and counts it.
    pub(super) fn abandon(&mut self) -> Result<(), SourceError> {
        self.live.as_mut().map_or(Ok(()), |live| live.abandon())
    }

    pub(super) fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        self.live.as_ref().map_or_else(|| self.last_drop_counters.clone(), |live| live.drop_counters())
    }

    /// Returns what part of a file could not be read, and where.
    pub(super) fn unreadable(&self) -> Option<String> {
        self.live.as_ref().map_or_else(|| self.unreadable.clone(), |live| live.unreadable())
    }

    pub(super) fn description(&self) -> String {
        match &self.live {
            Some(live) => live.description(),
            None => format!("{}: not connected", self.source),
        }
    }
}

/// Length of the units that so many bytes were split into; 0 when they differ.
#[inline]
fn unit_bytes(bytes: usize, units: usize) -> usize {
    if bytes.is_multiple_of(units) { bytes / units } else { 0 }
}
