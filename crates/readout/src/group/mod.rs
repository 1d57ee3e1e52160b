//! Many links on one thread: the readout of triggered boards.
//!
//! ```text
//!  105 sockets ─ ReadySet ─► those with something to read, in turn ─ one receive each ─► Frames ─ split ─► Fragments ─► each
//!                              ├ idle: a mark each millisecond, so that time passes          (link, frames, fragments)
//!                              ├ paused, or no block free: not read; a stream's sender waits
//!                              └ gone: finished, counted, opened again with back-off
//! ```
//! A link gets one receive call per turn, of at most a block (a stream) or 256 KiB (datagrams): none starves another, and an
//! error of one touches no other. Nothing is allocated per turn; what is received lies in the link's own blocks.

mod member;
mod reconnect;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use thalweg_data::prefetch::prefetch;
use thalweg_data::{Fragments, Frames, Mark, Received, SourceError, SourceId, Split, Tally};
use thalweg_transport::ReadySet;

use crate::clock::RunClock;
use crate::live::Live;
use member::{Member, State};
use reconnect::Reconnector;

/// Opens a link's connection again. It may take the time that a connection takes: it is called on a thread of its own.
pub type Reopen = Box<dyn FnMut() -> Result<Box<dyn Live>, SourceError> + Send>;

/// A link's place in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The place as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One link as it is given to a group.
pub struct Link {
    /// Its first (or only) board.
    pub source: SourceId,
    /// The socket.
    pub live: Box<dyn Live>,
    /// Its framing.
    pub split: Box<dyn Split>,
    /// How to connect again when the other end is gone; without it, such a link has ended.
    pub reopen: Option<Reopen>,
}

/// How a group treats its links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// A link that has nothing to say still gets a mark so often.
    pub mark_every: Duration,
    /// A link that has never said anything for so long is reported, once.
    pub silence: Duration,
    /// The first wait before a link is opened again; each further one is twice as long.
    pub first_retry: Duration,
    /// The longest such wait.
    pub longest_retry: Duration,
}

impl Default for GroupSettings {
    fn default() -> GroupSettings {
        GroupSettings {
            mark_every: Duration::from_millis(1),
            silence: Duration::from_secs(10),
            first_retry: Duration::from_millis(100),
            longest_retry: Duration::from_secs(5),
        }
    }
}

/// What happened to a link beside data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The other end closed or broke the connection, or the socket failed; it is being opened again.
    Gone {
        /// Which.
        link: LinkId,
        /// What was seen.
        message: String,
    },
    /// Connected again: the board may count from the beginning.
    Back {
        /// Which.
        link: LinkId,
        /// How often it has come back.
        epoch: u32,
    },
    /// The link has ended for good.
    Ended {
        /// Which.
        link: LinkId,
    },
    /// The connection stands, and not one byte has come over it.
    Silent {
        /// Which.
        link: LinkId,
    },
}

/// What one turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Links that gave data.
    pub links: u32,
    /// The time of the turn: no data of any link that is handed over later arrived before it.
    pub mark: Mark,
}

/// Takes what a link has given in one turn: its frames (for raw recording; empty when only time passes or the link has
/// ended, which the header says) and their fragments, which may be swapped for an empty batch.
pub type Each<'e> = dyn FnMut(LinkId, &Frames, &mut Fragments) + 'e;

/// Many links, read by one thread.
pub struct Group {
    settings: GroupSettings,
    clock: RunClock,
    ready: ReadySet,
    members: Vec<Member>,
    reconnector: Reconnector,
    /// Links without a socket, which are asked in every turn; and whether one of them had something the last time.
    asked: Vec<usize>,
    asked_more: bool,
    /// Links whose pool is empty: tried again after a while.
    held: Vec<usize>,
    /// Links without a connection.
    away: Vec<usize>,
    frames: Frames,
    fragments: Fragments,
    news: Vec<News>,
    /// When idle links get their next mark.
    next_sweep: Mark,
    /// Time of the latest turn.
    latest: Mark,
    next_try: Instant,
    /// A link's connection has ended and is not accounted for yet.
    gone: bool,
    closing: bool,
}

/// Between two looks at links whose pool was empty, or that are away.
const TRY_EVERY: Duration = Duration::from_micros(200);

impl Group {
    /// A group of links, in the order of their [`LinkId`]s.
    ///
    /// # Errors
    /// When the system has no descriptor left to wait with.
    pub fn new(links: Vec<Link>, settings: GroupSettings, clock: RunClock) -> Result<Group, SourceError> {
        let failed = |cause: std::io::Error| SourceError {
            place: "waiting for many links".to_owned(),
            message: format!("{cause}; raise the limit of open files (`ulimit -n`)"),
        };
        let mut ready = ReadySet::new().map_err(failed)?;
        let mut members = Vec::with_capacity(links.len());
        let mut asked = Vec::new();
        for (key, link) in links.into_iter().enumerate() {
            match link.live.socket() {
                Some(socket) => ready.add(socket, key).map_err(failed)?,
                None => asked.push(key),
            }
            members.push(Member::new(LinkId(key as u32), link, &settings));
        }
        let latest = clock.mark();
        Ok(Group {
            settings,
            clock,
            ready,
            asked_more: !asked.is_empty(),
            asked,
            held: Vec::with_capacity(members.len()),
            away: Vec::with_capacity(members.len()),
            members,
            reconnector: Reconnector::default(),
            frames: Frames::default(),
            fragments: Fragments::default(),
            news: Vec::new(),
            next_sweep: latest,
            latest,
            next_try: Instant::now(),
            gone: false,
            closing: false,
        })
    }

    /// Waits at most `wait`, receives once from every link that has something, splits it, and hands it over.
    ///
    /// # Errors
    /// When the group is of no further use; what happens to one link is told by [`Group::news`].
    pub fn turn(&mut self, wait: Duration, each: &mut Each<'_>) -> Result<Turn, SourceError> {
        self.news.clear();
        let wait = self.bounded(wait);
        let mut turn = Turn::default();
        let keys = self.ready.wait(wait).map_err(|cause| SourceError {
            place: "waiting for many links".to_owned(),
            message: cause.to_string(),
        })?;
        // One look at the clock per turn; a batch has its own mark besides.
        turn.mark = self.clock.mark();
        self.latest = turn.mark;
        for (place, &key) in keys.iter().enumerate() {
            // What is known of the next links has left the cache since their last turn.
            if let Some(&second) = keys.get(place + 2) {
                prefetch(&self.members[second]);
            }
            if let Some(&next) = keys.get(place + 1) {
                self.members[next].prefetch();
            }
            let member = &mut self.members[key];
            match member.take(&mut self.frames, &mut self.fragments, each) {
                Received::Data => turn.links += 1,
                Received::Idle => {}
                Received::Full => {
                    member.state = State::Held;
                    self.held.push(key);
                }
                Received::End => self.gone = true,
            }
        }
        if !self.asked.is_empty() {
            turn.links += self.ask(each);
        }
        if self.gone || !self.held.is_empty() || !self.away.is_empty() {
            self.tend(each);
        }
        self.sweep(turn.mark, each);
        Ok(turn)
    }

    /// A wait within which every mark and every second try is in time.
    fn bounded(&self, wait: Duration) -> Duration {
        if wait.is_zero() || self.asked_more {
            return Duration::ZERO;
        }
        let sweep = Duration::from_nanos(self.next_sweep.since_ns(self.latest));
        let calm = self.held.is_empty() && self.asked.is_empty();
        wait.min(if calm { sweep } else { sweep.min(TRY_EVERY) })
    }

    /// Asks the links that have no socket to wait on; returns how many had something.
    fn ask(&mut self, each: &mut Each<'_>) -> u32 {
        let (mut given, members) = (0, &mut self.members);
        for &key in &self.asked {
            let member = &mut members[key];
            if member.paused || member.state != State::Reading {
                continue;
            }
            match member.take(&mut self.frames, &mut self.fragments, each) {
                Received::Data => given += 1,
                Received::End => self.gone = true,
                Received::Idle | Received::Full => {}
            }
        }
        self.asked.retain(|key| !matches!(members[*key].state, State::Ended));
        self.asked_more = given > 0;
        given
    }

    /// Looks after the links that are not simply read: full, gone, away.
    fn tend(&mut self, each: &mut Each<'_>) {
        // A level-triggered set tells of a held link without end: it leaves the set until there is room.
        for &key in &self.held {
            self.members[key].leave(&mut self.ready);
        }
        if std::mem::take(&mut self.gone) {
            for key in 0..self.members.len() {
                if self.members[key].state == State::Gone {
                    self.bury(key, each);
                }
            }
        }
        let now = Instant::now();
        if now < self.next_try {
            return;
        }
        self.next_try = now + TRY_EVERY;
        self.try_held(each);
        self.try_away(now);
    }

    /// Accounts for a link whose connection is gone, and sees whether it may come back.
    fn bury(&mut self, key: usize, each: &mut Each<'_>) {
        let comes_back = self.members[key].reopen.is_some() && !self.closing;
        let member = &mut self.members[key];
        let mark = self.clock.mark();
        member.finish(mark, !comes_back, (&mut self.frames, &mut self.fragments), each);
        let message = member.bury(&mut self.ready, comes_back);
        let link = member.link;
        if comes_back {
            self.away.push(key);
            self.news.push(News::Gone { link, message });
        } else {
            self.news.push(News::Ended { link });
        }
    }

    fn try_held(&mut self, each: &mut Each<'_>) {
        let mut index = 0;
        while index < self.held.len() {
            let key = self.held[index];
            let member = &mut self.members[key];
            let received = match member.paused {
                true => Received::Full,
                false => member.take(&mut self.frames, &mut self.fragments, each),
            };
            match received {
                Received::Full => {
                    index += 1;
                    continue;
                }
                Received::Data | Received::Idle => {
                    member.state = State::Reading;
                    self.gone |= !member.join(&mut self.ready);
                }
                Received::End => self.bury(key, each),
            }
            self.held.swap_remove(index);
        }
    }

    fn try_away(&mut self, now: Instant) {
        for &key in &self.away {
            let member = &mut self.members[key];
            if member.retry_at <= now
                && let Some(reopen) = member.reopen.take()
            {
                self.reconnector.ask(key, reopen);
            }
        }
        while let Some(outcome) = self.reconnector.outcome() {
            let member = &mut self.members[outcome.key];
            member.reopen = Some(outcome.reopen);
            match outcome.result {
                Ok(live) => {
                    self.gone |= !member.come_back(live, &mut self.ready, &self.settings);
                    self.away.retain(|key| *key != outcome.key);
                    self.news.push(News::Back { link: member.link, epoch: member.epoch });
                }
                Err(_) => member.postpone(now, &self.settings),
            }
        }
    }

    /// Lets time pass for the links that had nothing to say since the last sweep.
    fn sweep(&mut self, mark: Mark, each: &mut Each<'_>) {
        if mark < self.next_sweep {
            return;
        }
        let every_ns = self.settings.mark_every.as_nanos() as u64;
        self.next_sweep = Mark(mark.0 + every_ns);
        let now = Instant::now();
        for member in self.members.iter_mut().filter(|member| member.state != State::Ended) {
            if mark.since_ns(member.latest) < every_ns {
                continue;
            }
            member.pass_time(mark, (&mut self.frames, &mut self.fragments), each);
            if member.is_newly_silent(now) {
                self.news.push(News::Silent { link: member.link });
            }
        }
    }

    /// What happened to links in the last turn.
    pub fn news(&self) -> &[News] {
        &self.news
    }

    /// Stops reading a link: back-pressure. A stream's sender waits; datagrams gather in the kernel's buffer.
    pub fn pause(&mut self, link: LinkId) {
        let member = &mut self.members[link.index()];
        member.paused = true;
        member.leave(&mut self.ready);
    }

    /// Reads a link again that was paused.
    pub fn resume(&mut self, link: LinkId) {
        let member = &mut self.members[link.index()];
        member.paused = false;
        if member.state == State::Reading {
            self.gone |= !member.join(&mut self.ready);
        }
    }

    /// Opens nothing again from now on: the run is stopping, and boards may close.
    pub fn close(&mut self) {
        self.closing = true;
        self.away.clear();
    }

    /// Ends the run for every link that has not ended: what is unfinished is lost now, and each is told the end.
    pub fn finish(&mut self, each: &mut Each<'_>) {
        self.close();
        let mark = self.clock.mark();
        for member in self.members.iter_mut().filter(|member| member.state != State::Ended) {
            member.leave(&mut self.ready);
            member.finish(mark, true, (&mut self.frames, &mut self.fragments), each);
            member.state = State::Ended;
        }
    }

    /// Number of links.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no link.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Links from which something may still come.
    pub fn open_links(&self) -> usize {
        let ended = |state| state == State::Ended || self.closing && state == State::Away;
        self.members.iter().filter(|member| !ended(member.state)).count()
    }

    /// The links, in order.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.members.len() as u32).map(LinkId)
    }

    /// The link's first board.
    pub fn source(&self, link: LinkId) -> SourceId {
        self.members[link.index()].source
    }

    /// What a link has received, in datagrams and bytes, over all its connections: the account of the stage `receive`.
    pub fn receive_tally(&self, link: LinkId) -> Tally {
        self.members[link.index()].receive_tally()
    }

    /// A link's framing, for its tallies: the account of the stage `unpack`.
    pub fn split(&self, link: LinkId) -> &dyn Split {
        &*self.members[link.index()].split
    }

    /// How often a link's connection has come back.
    pub fn epoch(&self, link: LinkId) -> u32 {
        self.members[link.index()].epoch
    }

    /// Whether a link is held now because none of its blocks is free.
    pub fn is_held(&self, link: LinkId) -> bool {
        self.members[link.index()].state == State::Held
    }

    /// Bytes that wait to be received over a link; 0 of one that is not open.
    pub fn waiting_bytes(&self, link: LinkId) -> u64 {
        self.members[link.index()].waiting_bytes()
    }

    /// Throws away what waits in the sockets, and counts it as abandoned: the run has ended, and nobody will take it.
    ///
    /// # Errors
    /// When a socket is of no further use.
    pub fn abandon(&mut self) -> Result<(), SourceError> {
        self.members.iter_mut().try_for_each(Member::abandon)
    }

    /// Counters beside the books: those of the link's present connection.
    pub fn witnesses(&self, link: LinkId) -> Vec<(&'static str, u64)> {
        self.members[link.index()].witnesses()
    }

    /// What of a link's file could not be read, and where, in words; `None` when all of it was, and of what is no file.
    pub fn unreadable(&self, link: LinkId) -> Option<String> {
        self.members[link.index()].unreadable()
    }

    /// One line on a link's socket.
    pub fn description(&self, link: LinkId) -> String {
        self.members[link.index()].description()
    }
}
