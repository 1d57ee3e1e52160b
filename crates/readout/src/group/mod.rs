//! The links of one readout thread, one or many: what each has received is framed and handed over.
//!
//! ```text
//!  one source  ─ receive, which waits itself ──────────────────────────────────────┐
//!  105 sockets ─ ReadySet ─► those with something to read, in turn ─ one receive each ─┴► Frames ─ framing ─► Take
//!                              ├ idle: a mark each millisecond, so that time passes          (link, frames, units)
//!                              ├ paused, or no block free: not read; a stream's sender waits
//!                              └ gone: finished, counted, opened again with back-off
//! ```
//! A link gets one receive call per turn, of at most a block (a stream) or 256 KiB (datagrams): none starves another, and an
//! error of one touches no other. Nothing is allocated per turn; what is received lies in the link's own blocks.

mod inputs;
mod member;
mod reconnect;
mod take;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use thalweg_data::prefetch::prefetch;
use thalweg_data::{
    Counters, Framed, Frames, Framing, LinkId, Mark, Received, Source, SourceError, SourceId,
};
use thalweg_transport::ReadySet;

use crate::clock::RunClock;
pub use inputs::Inputs;
use member::{Member, State};
use reconnect::Reconnector;
pub use take::{Each, Take, each};

/// Opens a link's connection again. It may take the time that a connection takes: it is called on a thread of its own.
pub type Reopen = Box<dyn FnMut() -> Result<Box<dyn Source>, SourceError> + Send>;

/// One link as it is given to a group.
pub struct Link<O> {
    /// Its first (or only) board.
    pub source: SourceId,
    /// The source of its bytes.
    pub live: Box<dyn Source>,
    /// The framing that finds units in them.
    pub framing: Box<dyn Framing<Output = O>>,
    /// How to connect again when the other end is gone; without it, such a link has ended.
    pub reopen: Option<Reopen>,
}

/// Settings for the treatment of a group's links.
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

/// An event on a link other than data.
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
        /// Why, where it is no end that was to come: the source is of no further use.
        failure: Option<String>,
    },
    /// The connection stands, and not one byte has come over it.
    Silent {
        /// Which.
        link: LinkId,
    },
}

/// The result of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Links that gave data.
    pub links: u32,
    /// The time of the turn: no data of any link that is handed over later arrived before it.
    pub mark: Mark,
}

/// The links that one thread reads.
pub struct Group<O> {
    settings: GroupSettings,
    clock: RunClock,
    /// `None` with one link, which is received from directly.
    ready: Option<ReadySet>,
    members: Vec<Member<O>>,
    reconnector: Reconnector,
    /// Links without a socket, which are asked in every turn; and whether one of them had something the last time.
    asked: Vec<usize>,
    asked_more: bool,
    /// Links whose pool is empty: tried again after a while.
    held: Vec<usize>,
    /// Links without a connection.
    away: Vec<usize>,
    frames: Frames,
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

impl<O: Framed> Group<O> {
    /// A group of links, in the order of their [`LinkId`]s.
    ///
    /// # Errors
    /// When the system has no descriptor left to wait with.
    pub fn new(
        links: Vec<Link<O>>,
        settings: GroupSettings,
        clock: RunClock,
    ) -> Result<Group<O>, SourceError> {
        let failed = |cause: std::io::Error| SourceError {
            place: "waiting for many links".to_owned(),
            message: format!("{cause}; raise the limit of open files (`ulimit -n`)"),
        };
        let is_alone = links.len() == 1;
        let mut ready = (!is_alone).then(ReadySet::new).transpose().map_err(failed)?;
        let mut members = Vec::with_capacity(links.len());
        let mut asked = Vec::new();
        for (key, link) in links.into_iter().enumerate() {
            let joins = match (&mut ready, link.live.socket()) {
                (Some(ready), Some(socket)) => {
                    ready.add(socket, key).map_err(failed)?;
                    true
                }
                (Some(_), None) => {
                    asked.push(key);
                    false
                }
                (None, _) => false,
            };
            members.push(Member::new(LinkId::from_index(key), link, joins, &settings));
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
            news: Vec::new(),
            next_sweep: latest,
            latest,
            next_try: Instant::now(),
            gone: false,
            closing: false,
        })
    }

    /// Receives from the only link, which waits itself; returns how many links had something.
    fn receive_directly(&mut self, wait: Duration, taker: &mut dyn Take<O>) -> u32 {
        // Before the wait: what is handed over later has not arrived before this.
        self.latest = self.clock.mark();
        let member = &mut self.members[0];
        if member.paused || member.state != State::Reading {
            std::thread::sleep(wait);
            return 0;
        }
        let received = member.take(wait, &mut self.frames, taker);
        self.gone |= received == Received::End;
        u32::from(received == Received::Data)
    }

    /// Waits for those that are ready, and receives once from each; returns how many had something.
    fn receive_from_ready(&mut self, wait: Duration, taker: &mut dyn Take<O>) -> Result<u32, SourceError> {
        let wait = self.bounded(wait);
        let Group { ready: Some(ready), members, frames, held, gone, .. } = self else { return Ok(0) };
        let mut given = 0;
        let keys = ready.wait(wait).map_err(|cause| SourceError {
            place: "waiting for many links".to_owned(),
            message: cause.to_string(),
        })?;
        // One look at the clock per turn; a batch has its own mark besides.
        self.latest = self.clock.mark();
        for (place, &key) in keys.iter().enumerate() {
            // What is known of the next links has left the cache since their last turn.
            if let Some(&second) = keys.get(place + 2) {
                prefetch(&members[second]);
            }
            if let Some(&next) = keys.get(place + 1) {
                members[next].prefetch();
            }
            let member = &mut members[key];
            match member.take(Duration::ZERO, frames, taker) {
                Received::Data => given += 1,
                Received::Idle => {}
                Received::Full => {
                    member.state = State::Held;
                    held.push(key);
                }
                Received::End => *gone = true,
            }
        }
        if !self.asked.is_empty() {
            given += self.ask(taker);
        }
        Ok(given)
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
    fn ask(&mut self, taker: &mut dyn Take<O>) -> u32 {
        let (mut given, members) = (0, &mut self.members);
        for &key in &self.asked {
            let member = &mut members[key];
            if member.paused || member.state != State::Reading {
                continue;
            }
            match member.take(Duration::ZERO, &mut self.frames, taker) {
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
    fn service(&mut self, taker: &mut dyn Take<O>) {
        // A level-triggered set reports a held link without end: it leaves the set until there is space.
        for &key in &self.held {
            self.members[key].leave(self.ready.as_mut());
        }
        if std::mem::take(&mut self.gone) {
            for key in 0..self.members.len() {
                if self.members[key].state == State::Gone {
                    self.close_link(key, taker);
                }
            }
        }
        let now = Instant::now();
        if now < self.next_try {
            return;
        }
        self.next_try = now + TRY_EVERY;
        self.try_held(taker);
        self.try_away(now);
    }

    /// Counters for a link whose connection is gone, and sees whether it may come back.
    fn close_link(&mut self, key: usize, taker: &mut dyn Take<O>) {
        let comes_back = self.members[key].reopen.is_some() && !self.closing;
        let member = &mut self.members[key];
        let mark = self.clock.mark();
        member.finish(mark, !comes_back, &mut self.frames, taker);
        let seen = member.close(self.ready.as_mut(), comes_back);
        let link = member.link;
        if comes_back {
            self.away.push(key);
            self.news.push(News::Gone { link, message: seen.unwrap_or_default() });
        } else {
            self.news.push(News::Ended { link, failure: seen });
        }
    }

    fn try_held(&mut self, taker: &mut dyn Take<O>) {
        let mut index = 0;
        while index < self.held.len() {
            let key = self.held[index];
            let member = &mut self.members[key];
            let received = match member.paused {
                true => Received::Full,
                false => member.take(Duration::ZERO, &mut self.frames, taker),
            };
            match received {
                Received::Full => {
                    index += 1;
                    continue;
                }
                Received::Data | Received::Idle => {
                    member.state = State::Reading;
                    self.gone |= !member.join(self.ready.as_mut());
                }
                Received::End => self.close_link(key, taker),
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
            // An attempt that was under way at the close: its link counts as ended, and the connection is closed.
            if self.closing {
                continue;
            }
            let member = &mut self.members[outcome.key];
            member.reopen = Some(outcome.reopen);
            match outcome.result {
                Ok(live) => {
                    self.gone |= !member.come_back(live, self.ready.as_mut(), &self.settings);
                    self.away.retain(|key| *key != outcome.key);
                    self.news.push(News::Back { link: member.link, epoch: member.epoch });
                }
                Err(_) => member.postpone(now, &self.settings),
            }
        }
    }

    /// Lets time pass for the links that had nothing to say since the last sweep.
    fn sweep(&mut self, mark: Mark, taker: &mut dyn Take<O>) {
        if mark < self.next_sweep {
            return;
        }
        let every_ns = self.settings.mark_every.as_nanos() as u64;
        self.next_sweep = Mark(mark.0 + every_ns);
        let now = Instant::now();
        for member in self.members.iter_mut().filter(|member| member.state != State::Ended) {
            // One that is asked reports the time itself: a recording has its own.
            if !member.is_asked && mark.since_ns(member.latest) >= every_ns {
                member.pass_time(mark, &mut self.frames, taker);
            }
            if member.is_newly_silent(now) {
                self.news.push(News::Silent { link: member.link });
            }
        }
    }

    /// The links, in order.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<O> {
        (0..self.members.len()).map(LinkId::from_index)
    }

    /// The link's first board.
    pub fn source(&self, link: LinkId) -> SourceId {
        self.members[link.index()].source
    }

    /// Returns how often a link's connection has come back.
    pub fn epoch(&self, link: LinkId) -> u32 {
        self.members[link.index()].epoch
    }
}

impl<O: Framed> Inputs<O> for Group<O> {
    fn turn(&mut self, wait: Duration, taker: &mut dyn Take<O>) -> Result<Turn, SourceError> {
        self.news.clear();
        let mut turn = Turn::default();
        match self.ready {
            None => turn.links = self.receive_directly(wait, taker),
            Some(_) => turn.links = self.receive_from_ready(wait, taker)?,
        }
        turn.mark = self.latest;
        if self.gone || !self.held.is_empty() || !self.away.is_empty() {
            self.service(taker);
        }
        self.sweep(turn.mark, taker);
        Ok(turn)
    }

    fn news(&self) -> &[News] {
        &self.news
    }

    fn close(&mut self) {
        self.closing = true;
        self.away.clear();
    }

    fn finish(&mut self, taker: &mut dyn Take<O>) {
        self.links().for_each(|link| self.finish_link(link, taker));
    }

    fn finish_link(&mut self, link: LinkId, taker: &mut dyn Take<O>) {
        self.close();
        let member = &mut self.members[link.index()];
        if member.state != State::Ended {
            member.leave(self.ready.as_mut());
            member.finish(self.clock.mark(), true, &mut self.frames, taker);
            member.state = State::Ended;
        }
    }

    fn count(&self) -> usize {
        self.members.len()
    }

    fn open_links(&self) -> usize {
        let ended = |state| state == State::Ended || self.closing && state == State::Away;
        self.members.iter().filter(|member| !ended(member.state)).count()
    }

    fn pause(&mut self, link: LinkId) {
        let member = &mut self.members[link.index()];
        member.paused = true;
        member.leave(self.ready.as_mut());
    }

    fn resume(&mut self, link: LinkId) {
        let member = &mut self.members[link.index()];
        member.paused = false;
        if member.state == State::Reading {
            self.gone |= !member.join(self.ready.as_mut());
        }
    }

    fn is_held(&self, link: LinkId) -> bool {
        let member = &self.members[link.index()];
        member.state == State::Held || member.is_full
    }

    fn receive_counters(&self, link: LinkId) -> Counters {
        self.members[link.index()].receive_counters()
    }

    fn waiting_bytes(&self, link: LinkId) -> u64 {
        self.members[link.index()].waiting_bytes()
    }

    fn abandon(&mut self) -> Result<(), SourceError> {
        self.members.iter_mut().try_for_each(Member::abandon)
    }

    fn drop_counters(&self, link: LinkId) -> Vec<(&'static str, u64)> {
        self.members[link.index()].drop_counters()
    }

    fn unreadable(&self, link: LinkId) -> Option<String> {
        self.members[link.index()].unreadable()
    }

    fn framing(&self, link: LinkId) -> &dyn Framing<Output = O> {
        &*self.members[link.index()].framing
    }

    fn description(&self, link: LinkId) -> String {
        self.members[link.index()].description()
    }
}
