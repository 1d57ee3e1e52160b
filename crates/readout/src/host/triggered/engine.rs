//! The thread of emulated boards: which triggers are due, who answers, what goes out.
//!
//! ```text
//!  due ─► room in every FIFO? ─► waiting ─► at most 64 at a time ─► link by link: answer, write ─► times noted
//!                     └ no: BUSY, refused
//! ```
//! A trigger is accepted or refused when it falls due, as by real boards, and not when the thread comes to it: triggers that wait for
//! their answer are few, and those beyond are refused. So answers are late by no more than that, however many triggers are offered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_data::Busy;
use thalweg_frontend::trigger::{Supervisor, Trigger};
use thalweg_transport::TransportError;

use super::answering::Answering;
use super::datagrams::DatagramLink;
use super::feed::{Due, Source};
use super::stream::StreamLink;
use super::timing::Times;
use super::{
    AcceptedNumbers, BoardTotals, HostError, HostedLink, Outlet, Shared, TriggeredSettings, TriggeredTotals,
    lock,
};

/// Most triggers that are answered before anything is written: what a board says to them is still in the cache then.
const MOST_TRIGGERS: usize = 64;
/// So many triggers may wait for their answer although the FIFOs have no space for all of them: real boards would have sent some meanwhile,
/// and it is no fault of theirs that this thread did not run. At 2 kHz it is an eighth of a second.
const MOST_LATE: usize = 256;
/// Most triggers that wait for their answer, however short the answers are.
const MOST_WAITING: usize = 4096;
/// Between two looks at clients that may have come or gone.
const CLIENT_CHECK_EVERY: Duration = Duration::from_millis(10);
/// Between two publications of the totals.
const PUBLISH: Duration = Duration::from_millis(10);
/// Longest rest.
const REST: Duration = Duration::from_micros(250);
/// Rest while clients take nothing.
const FULL_REST: Duration = Duration::from_micros(50);
/// A sleep shorter than this is not worth its own lateness.
const LEAST_SLEEP: Duration = Duration::from_micros(20);
/// How long clients may take for what is left at the end.
const LAST_WAIT: Duration = Duration::from_secs(2);

enum LinkEnd {
    Stream(StreamLink),
    Datagrams(DatagramLink),
}

/// All that the thread has.
pub(super) struct Engine {
    links: Vec<LinkEnd>,
    source: Source,
    supervisor: Supervisor,
    busy: Option<Arc<Busy>>,
    may_begin: Option<Arc<AtomicBool>>,
    accepted: Option<Arc<AcceptedNumbers>>,
    shared: Arc<Shared>,
    spin: bool,
    start: Instant,
    /// Accepted, and not answered yet.
    waiting: VecDeque<Trigger>,
    /// Those of them that are answered in this round.
    answered: Vec<Trigger>,
    /// Triggers refused because a board had no space, and not because a stage asked for BUSY.
    refused_by_boards: u64,
    /// When it was last asked whether a trigger is due, nanoseconds since the start.
    asked_ns: u64,
    lateness: Times,
    skew: Times,
    exhausted: bool,
    clients_served: Instant,
    publish_at: Instant,
}

impl Engine {
    pub(super) fn new(settings: TriggeredSettings, shared: Arc<Shared>) -> Result<Engine, HostError> {
        let (fifo_bytes, send_buffer_bytes) = (settings.fifo_bytes, settings.send_buffer_bytes);
        let failed = |cause| {
            HostError::Transport(TransportError::System {
                place: "an emulated board".to_owned(),
                call: "setsockopt",
                cause,
            })
        };
        let mut links = Vec::with_capacity(settings.links.len());
        for HostedLink { outlet, boards, records, .. } in settings.links {
            let boards = Answering::new(boards, records);
            let stream = |ends, boards: Answering| {
                let link = StreamLink::new(ends, boards, fifo_bytes, send_buffer_bytes);
                link.map(LinkEnd::Stream).map_err(failed)
            };
            links.push(match outlet {
                Outlet::Listener(listener) => stream((Some(listener), None), boards)?,
                Outlet::Stream(client) => stream((None, Some(client)), boards)?,
                Outlet::Datagrams(to) => LinkEnd::Datagrams(DatagramLink::new(to, boards)?),
            });
        }
        let now = Instant::now();
        Ok(Engine {
            links,
            source: Source::new(settings.feed),
            supervisor: Supervisor::new(settings.first_number).reading_out(settings.readout_ns),
            busy: settings.busy,
            may_begin: settings.may_begin,
            accepted: settings.accepted,
            shared,
            spin: settings.spin,
            start: now,
            waiting: VecDeque::with_capacity(MOST_WAITING),
            answered: Vec::with_capacity(MOST_TRIGGERS),
            refused_by_boards: 0,
            asked_ns: 0,
            lateness: Times::default(),
            skew: Times::default(),
            exhausted: false,
            clients_served: now,
            publish_at: now,
        })
    }

    /// Runs until the boards are ended.
    pub(super) fn run(mut self) {
        while !self.is_ending() && !self.begins() {
            self.serve_clients(true);
            std::thread::sleep(REST);
        }
        self.start =
            lock(&self.shared.started).filter(|_| self.may_begin.is_none()).unwrap_or_else(Instant::now);
        self.serve_clients(true);
        let mut until = None;
        loop {
            if self.is_ending() {
                let until = *until.get_or_insert_with(|| Instant::now() + LAST_WAIT);
                if self.is_drained() || Instant::now() >= until {
                    break;
                }
            }
            let rest = self.turn();
            self.publish(false);
            self.rest(rest);
        }
        self.abandon();
        self.publish(true);
    }

    /// What no client has taken to the end is thrown away, and counted.
    fn abandon(&mut self) {
        self.answered.clear();
        self.answered.extend(self.waiting.drain(..));
        let mut failure = None;
        for link in &mut self.links {
            match link {
                LinkEnd::Stream(stream) => {
                    stream.lose_client();
                    stream.answer(&self.answered);
                }
                LinkEnd::Datagrams(datagrams) => {
                    if !datagrams.is_drained() {
                        self.shared.fail("not all datagrams of emulated boards could be sent".to_owned());
                    }
                    failure = failure.or(datagrams.answer(&self.answered, false).err());
                }
            }
        }
        if let Some(error) = failure {
            self.fail(&error);
        }
    }

    /// Whether the triggers were started and may begin, or were stopped before they could.
    fn begins(&self) -> bool {
        let may_begin = self.may_begin.as_ref().is_none_or(|may_begin| may_begin.load(Ordering::Acquire));
        lock(&self.shared.started).is_some() && (may_begin || self.shared.stopping.load(Ordering::Acquire))
    }

    fn is_ending(&self) -> bool {
        self.shared.ending.load(Ordering::Acquire)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// One round; returns how long nothing is to be done.
    fn turn(&mut self) -> Rest {
        self.serve_clients(false);
        let flushed = self.flush();
        let now_ns = self.now_ns();
        let next = match self.shared.stopping.load(Ordering::Acquire) {
            true => {
                self.supervisor.set_busy(false, now_ns);
                Due::Never
            }
            false => self.accept(now_ns),
        };
        if let (Due::Never, Some(numbers)) = (&next, &self.accepted) {
            numbers.end();
        }
        if self.answer() {
            return Rest::None;
        }
        self.exhausted = matches!(next, Due::Never);
        let longest = if flushed { REST } else { FULL_REST };
        match next {
            Due::Now(_) => Rest::None,
            Due::At(time_ns) => {
                let until = Duration::from_nanos(time_ns.saturating_sub(self.now_ns()));
                if until < longest { Rest::UntilTrigger(until) } else { Rest::Sleep(longest) }
            }
            Due::Later | Due::Never => Rest::Sleep(longest),
        }
    }

    /// Takes the triggers that are due and that every board has space for; the others are refused, or wait where they come from.
    fn accept(&mut self, now_ns: u64) -> Due {
        if !self.exhausted {
            self.asked_ns = now_ns;
        }
        let (room, refuses) = (self.room(), self.source.refuses());
        let room = if refuses { room } else { room.min(MOST_TRIGGERS) };
        let asked = self.busy.as_ref().is_some_and(|busy| busy.is_raised());
        let has_numbers = self.source.has_numbers();
        loop {
            let busy = asked || self.waiting.len() >= room;
            self.supervisor.set_busy(busy, now_ns);
            if busy && !refuses {
                return Due::Later;
            }
            let offered = match self.source.due(now_ns) {
                Due::Now(offered) => offered,
                none => return none,
            };
            match self.supervisor.offer(offered) {
                Some(accepted) => {
                    let trigger = if has_numbers { offered } else { accepted };
                    if let Some(numbers) = &self.accepted {
                        numbers.accept(trigger.number);
                    }
                    self.waiting.push_back(trigger);
                }
                None => self.refused_by_boards += u64::from(!asked),
            }
        }
    }

    /// Triggers that may wait for their answer: none while a board's FIFO is full.
    fn room(&self) -> usize {
        let room = |link: &LinkEnd| match link {
            LinkEnd::Stream(stream) if stream.has_client() => match stream.room() {
                0 => 0,
                room => room.max(MOST_LATE),
            },
            LinkEnd::Stream(_) => MOST_WAITING,
            // What the kernel takes later goes out later: these boards have no FIFO but this.
            LinkEnd::Datagrams(_) => MOST_LATE,
        };
        self.links.iter().map(room).fold(MOST_WAITING, usize::min)
    }

    /// Takes as many of the waiting triggers as every link can have the answers of now; returns whether there are any.
    fn take_answerable(&mut self) -> bool {
        let can = |link: &LinkEnd| match link {
            LinkEnd::Stream(stream) if stream.has_client() => stream.room(),
            LinkEnd::Datagrams(datagrams) if !datagrams.is_drained() => 0,
            _ => MOST_TRIGGERS,
        };
        let count = self.links.iter().map(can).fold(MOST_TRIGGERS.min(self.waiting.len()), usize::min);
        self.answered.clear();
        self.answered.extend(self.waiting.drain(..count));
        count > 0
    }

    /// Every board answers some of what was accepted, and its link writes at once; returns whether anything was to be answered.
    fn answer(&mut self) -> bool {
        if !self.take_answerable() {
            return false;
        }
        let first_ns = self.now_ns();
        let mut failure = None;
        for (index, link) in self.links.iter_mut().enumerate() {
            match link {
                LinkEnd::Stream(stream) => {
                    stream.answer(&self.answered);
                    stream.flush();
                }
                LinkEnd::Datagrams(datagrams) => {
                    let powered = !self.shared.dead[index].load(Ordering::Relaxed);
                    let sent = datagrams.answer(&self.answered, powered).and_then(|()| datagrams.flush());
                    failure = failure.or(sent.err());
                }
            }
        }
        let last_ns = self.now_ns();
        self.skew.add(last_ns.saturating_sub(first_ns), self.answered.len() as u64);
        if self.source.refuses() {
            for trigger in &self.answered {
                self.lateness.add(last_ns.saturating_sub(trigger.time_ns), 1);
            }
        }
        if let Some(error) = failure {
            self.fail(&error);
        }
        true
    }

    /// Sends what is left in the FIFOs; returns whether that was everything.
    fn flush(&mut self) -> bool {
        let (mut all, mut failure) = (true, None);
        for link in &mut self.links {
            all &= match link {
                LinkEnd::Stream(stream) => stream.flush(),
                LinkEnd::Datagrams(datagrams) => datagrams.flush().unwrap_or_else(|error| {
                    failure = Some(error);
                    false
                }),
            };
        }
        if let Some(error) = failure {
            self.fail(&error);
        }
        all
    }

    /// A socket is of no further use: the triggers end.
    fn fail(&self, error: &TransportError) {
        self.shared.fail(error.to_string());
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.ending.store(true, Ordering::Release);
    }

    fn is_drained(&self) -> bool {
        let all = self.links.iter().all(|link| match link {
            LinkEnd::Stream(stream) => stream.is_drained(),
            LinkEnd::Datagrams(datagrams) => datagrams.is_drained(),
        });
        all && self.waiting.is_empty()
    }

    fn serve_clients(&mut self, now: bool) {
        if !now && self.clients_served.elapsed() < CLIENT_CHECK_EVERY {
            return;
        }
        self.clients_served = Instant::now();
        let mut unattended = 0;
        for (index, link) in self.links.iter_mut().enumerate() {
            if let LinkEnd::Stream(stream) = link {
                let powered = !self.shared.dead[index].load(Ordering::Relaxed);
                if let Err(cause) = stream.serve(powered) {
                    self.shared.fail(format!("emulated board {index} takes no client: {cause}"));
                }
                unattended += usize::from(!stream.has_client());
            }
        }
        self.shared.unattended.store(unattended, Ordering::Release);
    }

    fn publish(&mut self, now: bool) {
        let silent = self.exhausted && self.is_drained();
        let newly_silent = silent && !self.shared.silent.load(Ordering::Relaxed);
        let moment = Instant::now();
        if !now && !newly_silent && moment < self.publish_at {
            return;
        }
        self.publish_at = moment + PUBLISH;
        let mut totals = lock(&self.shared.totals);
        let TriggeredTotals {
            trigger,
            refused_by_boards,
            busy_ns,
            real_ns,
            busy_raised,
            boards,
            lateness,
            skew,
        } = &mut *totals;
        *refused_by_boards = self.refused_by_boards;
        trigger.clone_from(self.supervisor.counters());
        *busy_ns = self.supervisor.busy_ns(self.now_ns());
        *real_ns = self.asked_ns;
        *busy_raised = self.supervisor.raised();
        boards.clear();
        boards.extend(self.links.iter().flat_map(|link| link.totals()));
        lateness.clone_from(&self.lateness);
        skew.clone_from(&self.skew);
        drop(totals);
        // Behind the totals: who sees it finds them whole.
        self.shared.silent.store(silent, Ordering::Release);
    }

    /// The clock is looked at all the time only before a trigger that is near.
    fn rest(&self, rest: Rest) {
        match rest {
            Rest::None => {}
            Rest::UntilTrigger(rest) if self.spin || rest < LEAST_SLEEP => {
                let until = Instant::now() + rest;
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            }
            Rest::UntilTrigger(rest) | Rest::Sleep(rest) => std::thread::sleep(rest),
        }
    }
}

/// What the thread does until its next round.
enum Rest {
    /// There is more to do.
    None,
    /// The next trigger is near.
    UntilTrigger(Duration),
    Sleep(Duration),
}

impl LinkEnd {
    fn totals(&self) -> &[BoardTotals] {
        match self {
            LinkEnd::Stream(stream) => stream.totals(),
            LinkEnd::Datagrams(datagrams) => datagrams.totals(),
        }
    }
}
