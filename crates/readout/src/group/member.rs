//! One link of a group: its connection, its framing, its books over all its connections.
//!
//! ```text
//!  Reading ◄──► Held (no block free)          paused: beside all of these, not in the set
//!     │  ▲
//!     ▼  └──── opened again ────┐
//!   Gone ─ finished, counted ─► Away          or Ended, for good
//! ```

use std::time::{Duration, Instant};

use thalweg_data::{Fragments, Frames, Mark, Received, SourceError, SourceId, Split, Tally, Unit};
use thalweg_transport::ReadySet;

use super::{Each, GroupSettings, Link, LinkId, Reopen};
use crate::live::Live;

/// How a link stands.
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

pub(super) struct Member {
    pub(super) link: LinkId,
    pub(super) source: SourceId,
    /// `None` while away and when ended.
    live: Option<Box<dyn Live>>,
    pub(super) split: Box<dyn Split>,
    /// `None` also while an attempt is under way.
    pub(super) reopen: Option<Reopen>,
    pub(super) state: State,
    pub(super) paused: bool,
    /// Whether the socket is in the group's set.
    joined: bool,
    /// Mark of what was handed over last.
    pub(super) latest: Mark,
    pub(super) epoch: u32,
    pub(super) retry_at: Instant,
    retry_wait: Duration,
    first_retry: Duration,
    /// When an open connection without a byte is reported; `None` once it was, or has spoken.
    silent_at: Option<Instant>,
    /// Books of connections that are gone.
    past: Box<Tally>,
    /// Why the connection is gone.
    failure: Option<String>,
    /// What of a file that has ended could not be read.
    unreadable: Option<String>,
}

impl Member {
    /// A link whose socket is in the set already.
    pub(super) fn new(link: LinkId, given: Link, settings: &GroupSettings) -> Member {
        let joined = given.live.socket().is_some();
        let now = Instant::now();
        Member {
            link,
            source: given.source,
            live: Some(given.live),
            split: given.split,
            reopen: given.reopen,
            state: State::Reading,
            paused: false,
            joined,
            latest: Mark(0),
            epoch: 0,
            retry_at: now,
            retry_wait: settings.first_retry,
            first_retry: settings.first_retry,
            silent_at: Some(now + settings.silence),
            past: Box::default(),
            failure: None,
            unreadable: None,
        }
    }

    /// Asks the memory for what the next [`Member::take`] needs; the member itself was asked for before.
    #[inline]
    pub(super) fn prefetch(&self) {
        let Some(live) = &self.live else { return };
        live.prefetch();
        for tally in [live.tally(), self.split.tally()] {
            tally.prefetch(Unit::Datagrams);
            tally.prefetch(Unit::Bytes);
        }
        self.split.tally().prefetch(Unit::Fragments);
    }

    /// Receives once, splits, hands over. An end leaves the link as [`State::Gone`].
    #[inline]
    pub(super) fn take(
        &mut self,
        frames: &mut Frames,
        fragments: &mut Fragments,
        each: &mut Each<'_>,
    ) -> Received {
        let Some(live) = &mut self.live else { return Received::Idle };
        let received = live.receive(frames, Duration::ZERO).unwrap_or_else(|error| {
            self.failure = Some(error.to_string());
            Received::End
        });
        match received {
            Received::Data => {
                frames.header.source = self.source;
                fragments.header = frames.header;
                let left_over = self.split.split(frames, fragments);
                live.carry(left_over);
                if let ([slice], false) = (&frames.slices[..], fragments.fragments.is_empty()) {
                    let bytes = (slice.length as usize).saturating_sub(left_over);
                    live.expect_units(unit_bytes(bytes, fragments.fragments.len()));
                }
                self.latest = frames.header.mark;
                // A board that takes connections only to drop them is not asked more and more often: data alone count.
                (self.silent_at, self.retry_wait) = (None, self.first_retry);
                each(self.link, frames, fragments);
            }
            Received::End => self.state = State::Gone,
            Received::Idle | Received::Full => {}
        }
        frames.clear();
        fragments.clear();
        received
    }

    /// Hands over a mark alone.
    pub(super) fn pass_time(
        &mut self,
        mark: Mark,
        (frames, fragments): (&mut Frames, &mut Fragments),
        each: &mut Each<'_>,
    ) {
        (frames.header.source, frames.header.mark) = (self.source, mark);
        fragments.header = frames.header;
        self.latest = mark;
        each(self.link, frames, fragments);
        frames.clear();
        fragments.clear();
    }

    /// Tells the framing that its stream has ended, and hands that over; `end` when nothing follows in this run. To be called
    /// before the connection is given up, which keeps the bytes that wait for more.
    pub(super) fn finish(
        &mut self,
        mark: Mark,
        end: bool,
        (frames, fragments): (&mut Frames, &mut Fragments),
        each: &mut Each<'_>,
    ) {
        if let Some(live) = &mut self.live {
            live.give_carried(frames);
        }
        self.split.finish(frames, fragments);
        frames.clear();
        (frames.header.source, frames.header.mark, frames.header.end) = (self.source, mark, end);
        fragments.header = frames.header;
        self.latest = mark;
        each(self.link, frames, fragments);
        frames.clear();
        fragments.clear();
    }

    /// Takes the socket out of the set.
    pub(super) fn leave(&mut self, ready: &mut ReadySet) {
        let socket = self.live.as_ref().and_then(|live| live.socket());
        if let (Some(socket), true) = (socket, self.joined) {
            // It fails only for a socket that is not in the set any more.
            let _gone = ready.remove(socket);
            self.joined = false;
        }
    }

    /// Puts the socket back into the set, unless the link is paused. `false` leaves the link as [`State::Gone`].
    pub(super) fn join(&mut self, ready: &mut ReadySet) -> bool {
        let socket = self.live.as_ref().and_then(|live| live.socket());
        if let (Some(socket), false, false) = (socket, self.joined, self.paused) {
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

    /// Gives the connection up, keeps its books; returns what was seen.
    pub(super) fn bury(&mut self, ready: &mut ReadySet, comes_back: bool) -> String {
        self.leave(ready);
        let mut place = String::new();
        if let Some(live) = self.live.take() {
            self.past.add_all(live.tally());
            self.unreadable = live.unreadable();
            place = live.description();
        }
        self.state = if comes_back { State::Away } else { State::Ended };
        self.retry_at = Instant::now() + self.retry_wait;
        let seen = self.failure.take().unwrap_or_else(|| "the other end closed the connection".to_owned());
        format!("{place}: {seen}")
    }

    /// Goes on with a new connection. `false` leaves the link as [`State::Gone`].
    pub(super) fn come_back(
        &mut self,
        live: Box<dyn Live>,
        ready: &mut ReadySet,
        settings: &GroupSettings,
    ) -> bool {
        self.live = Some(live);
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

    pub(super) fn receive_tally(&self) -> Tally {
        let mut tally = (*self.past).clone();
        if let Some(live) = &self.live {
            tally.add_all(live.tally());
        }
        tally
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.waiting_bytes())
    }

    /// Throws away what waits in its socket, and counts it.
    pub(super) fn abandon(&mut self) -> Result<(), SourceError> {
        self.live.as_mut().map_or(Ok(()), |live| live.abandon())
    }

    pub(super) fn witnesses(&self) -> Vec<(&'static str, u64)> {
        self.live.as_ref().map_or_else(Vec::new, |live| live.witnesses())
    }

    /// What of a file could not be read, and where.
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
