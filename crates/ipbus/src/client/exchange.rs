//! One dispatch: packets out, replies in, what is lost found and got back. No socket and no clock.
//!
//! ```text
//!  jobs ─ Packing ─► Flights, as many as the target takes ─ transmit ─►
//!                      ▲  ◄─ receive: by number, in turn, by transaction ─ deliver ─► landings, outcomes
//!  time-out ─► status: what does it expect? ─► before that number: ask for the reply again
//!                                            └ from it on:         send the request again
//!                                            └ neither:            it was reset, or somebody else numbers packets
//! ```
//! A target does each number once, in their order, so that what is sent again is not done again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::job::{Job, Landing, Outcome};
use super::packing::{Packing, Part};
use super::session::{Numbering, Session};
use crate::wire::{
    Control, Header, Info, Packet, Replies, Reply, STATUS_BYTES, Status, WORD_BYTES, resend, status_request,
};

const STATUS_REQUEST: [u8; STATUS_BYTES] = status_request();

/// What a packet on its way needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    /// To be sent.
    Request,
    /// Its reply once more.
    Reply,
}

/// A packet on its way.
#[derive(Debug)]
struct Flight {
    id: u16,
    bytes: Vec<u8>,
    parts: Vec<Part>,
    need: Need,
    sent: Instant,
    first_sent: Instant,
    is_repeated: bool,
}

/// The target has been asked what it expects.
#[derive(Clone, Copy, Debug)]
struct Probe {
    sent: Option<Instant>,
    first_sent: Instant,
}

/// A dispatch on its way.
#[derive(Debug)]
pub(super) struct Exchange<'e, 'b> {
    session: &'e mut Session,
    jobs: &'e mut [Job<'b>],
    packing: Packing,
    flights: VecDeque<Flight>,
    probe: Option<Probe>,
    failure: Option<Failure>,
    resend: [u8; WORD_BYTES],
    behind: Option<Behind>,
}

/// Statuses in a row that expect a packet which was answered long ago.
#[derive(Clone, Copy, Debug)]
struct Behind {
    since: Instant,
    statuses: u32,
}

impl Behind {
    /// Whether they say that the target was reset. What the network has kept for long comes in bursts, so that a number of them alone
    /// says nothing: none that is in step has come for a quarter of the whole time-out either.
    fn is_reset(self, now: Instant, whole: Duration) -> bool {
        self.statuses >= 3 && now.saturating_duration_since(self.since) >= whole / 4
    }
}

/// Steps from one number to another, 0 left out.
fn steps(from: u16, to: u16) -> u16 {
    if to >= from { to - from } else { (u16::MAX - from) + to }
}

impl<'e, 'b> Exchange<'e, 'b> {
    pub(super) fn new(session: &'e mut Session, jobs: &'e mut [Job<'b>]) -> Exchange<'e, 'b> {
        let (packing, flights) = (Packing::default(), VecDeque::new());
        Exchange {
            session,
            jobs,
            packing,
            flights,
            probe: None,
            failure: None,
            resend: [0; WORD_BYTES],
            behind: None,
        }
    }

    /// Whether nothing is on its way and nothing more will be sent.
    pub(super) fn is_done(&self) -> bool {
        self.flights.is_empty() && (self.failure.is_some() || self.packing.is_done(self.jobs))
    }

    /// The next packet to be sent; `None` before something has come or time has passed.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<&[u8]> {
        if self.is_done() {
            return None;
        }
        if self.session.is_unknown() && self.probe.is_none() {
            self.probe = Some(Probe { sent: None, first_sent: now });
        }
        if let Some(probe) = self.probe.as_mut().filter(|probe| probe.sent.is_none()) {
            probe.sent = Some(now);
            self.session.counts.statuses += 1;
            return Some(&STATUS_REQUEST);
        }
        if let Some(place) = self.flights.iter().position(|flight| flight.need != Need::Nothing) {
            return Some(self.repeat(place, now));
        }
        self.may_begin().then(|| self.begin(now))
    }

    fn repeat(&mut self, place: usize, now: Instant) -> &[u8] {
        let flight = &mut self.flights[place];
        (flight.sent, flight.is_repeated) = (now, true);
        match std::mem::replace(&mut flight.need, Need::Nothing) {
            Need::Reply => {
                self.session.counts.replies_repeated += 1;
                self.resend = resend(flight.id);
                &self.resend
            }
            Need::Request | Need::Nothing => {
                self.session.counts.requests_repeated += 1;
                &flight.bytes
            }
        }
    }

    /// Whether another packet may be on its way: the target has to keep the replies of all, from the oldest on.
    fn may_begin(&self) -> bool {
        if self.failure.is_some() || self.packing.is_done(self.jobs) || self.session.is_unknown() {
            return false;
        }
        match (self.flights.front(), self.session.next_id) {
            (Some(oldest), Some(next)) if self.session.numbering == Numbering::Numbered => {
                usize::from(steps(oldest.id, next)) < self.session.window
            }
            _ => self.flights.len() < self.session.window,
        }
    }

    fn begin(&mut self, now: Instant) -> &[u8] {
        let session = &mut *self.session;
        let id = match session.numbering {
            Numbering::Numbered => {
                let id = session.next_id.unwrap_or(1);
                session.next_id = Some(Header::id_behind(id));
                id
            }
            Numbering::Unnumbered | Numbering::InTurn => 0,
        };
        let (mut bytes, mut parts) = (Vec::with_capacity(session.limits.request_bytes), Vec::new());
        let numbers = (id, &mut session.transaction);
        self.packing.pack(self.jobs, numbers, session.limits, (&mut bytes, &mut parts));
        session.counts.sent += 1;
        let flight =
            Flight { id, bytes, parts, need: Need::Nothing, sent: now, first_sent: now, is_repeated: false };
        self.flights.push_back(flight);
        self.flights.back().map_or(&[], |flight| &flight.bytes)
    }

    /// A packet has come.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Instant) {
        match Packet::check(bytes) {
            Ok(Packet::Control(control)) => self.reply(control, now),
            Ok(Packet::Status(status)) if self.probe.is_some() || self.behind.is_some() => {
                match Status::check(status) {
                    Ok(status) => self.status(&status, now),
                    Err(_) => self.session.counts.strange += 1,
                }
            }
            Ok(_) => self.stray("a status or resend packet"),
            Err(error) if self.session.numbering == Numbering::InTurn => self.fail(Failure::Broken(error)),
            Err(_) => self.session.counts.strange += 1,
        }
    }

    fn stray(&mut self, what: &str) {
        match self.session.numbering {
            Numbering::InTurn => self.fail(Failure::Mismatch(what.to_owned())),
            Numbering::Numbered | Numbering::Unnumbered => self.session.counts.strange += 1,
        }
    }

    fn reply(&mut self, control: Control<'_>, now: Instant) {
        let place = match self.session.numbering {
            Numbering::InTurn => (!self.flights.is_empty()).then_some(0),
            Numbering::Numbered => self.flights.iter().position(|flight| flight.id == control.id),
            Numbering::Unnumbered => {
                let first = Replies::of(control).next().and_then(Result::ok).map(|reply| reply.header.id);
                self.flights.iter().position(|flight| flight.parts.first().map(|part| part.id) == first)
            }
        };
        let Some(place) = place else { return self.stray("a reply to nothing") };
        if let Err(seen) = self.fits(&self.flights[place].parts, control) {
            return match self.session.numbering {
                Numbering::InTurn => self.fail(Failure::Mismatch(seen)),
                Numbering::Numbered => {
                    let seen = format!("the reply to packet {} is to another: {seen}", control.id);
                    self.fail(Failure::Conflict { seen });
                }
                Numbering::Unnumbered => self.session.counts.strange += 1,
            };
        }
        let Some(flight) = self.flights.remove(place) else { return };
        self.behind = None;
        match flight.is_repeated {
            true => self.session.round_trip.answered(),
            false => self.session.round_trip.measure(now.saturating_duration_since(flight.sent)),
        }
        self.deliver(&flight.parts, control);
    }

    /// Whether a reply is to these transactions: nothing has landed before all of it is known to be.
    fn fits(&self, parts: &[Part], control: Control<'_>) -> Result<(), String> {
        let mut parts = parts.iter();
        for reply in Replies::of(control) {
            let Reply { header, .. } = reply.map_err(|error| error.to_string())?;
            let part = parts.next().ok_or("it has more transactions than were asked for")?;
            let job = &self.jobs[part.job];
            let is_whole = header.info != Info::Success || header.words == part.words;
            // What else the header of a transaction that was none says is not always true.
            let is_it =
                header.info == Info::BadHeader || (header.id, header.operation) == (part.id, job.operation);
            if !is_it || !is_whole || header.words > part.words && header.info != Info::BadHeader {
                return Err(format!("{header:?}, where {part:?} was asked for"));
            }
            if header.info != Info::Success {
                return Ok(());
            }
        }
        match parts.next() {
            None => Ok(()),
            Some(part) => Err(format!("it ends before {part:?}, without an error")),
        }
    }

    fn deliver(&mut self, parts: &[Part], control: Control<'_>) {
        let mut parts = parts.iter();
        for (reply, part) in Replies::of(control).flatten().zip(parts.by_ref()) {
            let job = &mut self.jobs[part.job];
            let done = usize::from(reply.header.words.min(part.words));
            match &mut job.landing {
                Landing::Nothing => {}
                Landing::Word(word) => *word = reply.data.get(0).unwrap_or(*word),
                Landing::Block(block) => {
                    reply.data.copy_to(&mut block[part.offset..part.offset + usize::from(part.words)]);
                }
            }
            let info = reply.header.info;
            if info != Info::Success {
                job.done += if info == Info::BadHeader { 0 } else { done };
                job.outcome = Outcome::Failed { words: job.done, info };
                let (address, words) = (job.address_of(part.offset), part.words.into());
                let (operation, job) = (job.operation, part.job);
                self.failure.get_or_insert(Failure::Refused { job, operation, address, words, done, info });
                break;
            }
            job.done += done;
            if job.done == job.words && job.outcome == Outcome::Pending {
                job.outcome = Outcome::Done;
            }
        }
        // Behind a transaction that failed, none of this packet was done.
        for part in parts {
            let job = &mut self.jobs[part.job];
            if job.outcome == Outcome::Pending {
                job.outcome = Outcome::NotDone;
            }
        }
    }

    fn status(&mut self, status: &Status, now: Instant) {
        self.probe = None;
        self.session.round_trip.answered();
        let Some(next) = self.session.next_id else { return self.session.learn(status) };
        let Some(oldest) = self.flights.front().map(|flight| flight.id) else { return };
        let had = steps(oldest, status.next_id);
        if had > steps(oldest, next) {
            let sent = self.flights.back().map_or(oldest, |latest| latest.id);
            return self.out_of_step(status.next_id, (oldest, sent), now);
        }
        self.behind = None;
        for flight in &mut self.flights {
            flight.need = if steps(oldest, flight.id) < had { Need::Reply } else { Need::Request };
        }
    }

    /// The target expects none of the packets that are on their way.
    fn out_of_step(&mut self, expected: u16, (oldest, sent): (u16, u16), now: Instant) {
        // What others have sent moves the number ahead; behind is what was true some time ago, and what is true after a reset.
        if steps(oldest, expected) <= u16::MAX / 2 {
            let seen = format!("it expects packet {expected}, and {oldest} to {sent} are on their way");
            return self.fail(Failure::Conflict { seen });
        }
        let behind = self.behind.get_or_insert(Behind { since: now, statuses: 0 });
        behind.statuses += 1;
        if behind.is_reset(now, self.session.timeout) {
            return self.fail(Failure::Restarted { sent });
        }
        // The next status is asked for when the network has had time to say otherwise.
        self.flights.iter_mut().for_each(|flight| flight.sent = now);
    }

    /// When something has to be done although nothing has come.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let timeout = self.session.round_trip.timeout();
        let of_probe = self.probe.and_then(|probe| Some(probe.sent? + timeout));
        let ends = |first_sent: Instant| first_sent + self.session.timeout;
        let of_flights = self.flights.iter().map(|flight| match self.session.numbering {
            Numbering::InTurn => ends(flight.first_sent),
            Numbering::Numbered | Numbering::Unnumbered => {
                (flight.sent + timeout).min(ends(flight.first_sent))
            }
        });
        let end_of_probe = self.probe.map(|probe| ends(probe.first_sent));
        let flights = if of_probe.is_some() { None } else { of_flights.min() };
        [of_probe, end_of_probe, flights].into_iter().flatten().min()
    }

    /// Time has passed: what is missing is looked for, or given up.
    pub(super) fn expire(&mut self, now: Instant) {
        let (timeout, whole) = (self.session.round_trip.timeout(), self.session.timeout);
        let is_over = |first_sent: Instant| now.saturating_duration_since(first_sent) >= whole;
        let begun = self.flights.iter().map(|flight| flight.first_sent);
        if begun.chain(self.probe.map(|probe| probe.first_sent)).any(is_over) {
            return self.fail(Failure::NoAnswer(whole));
        }
        let is_late = |sent: Instant| now.saturating_duration_since(sent) >= timeout;
        if let Some(probe) = &mut self.probe {
            if probe.sent.is_some_and(is_late) {
                probe.sent = None;
                self.session.round_trip.pass();
            }
            return;
        }
        let late = |flight: &Flight| flight.need == Need::Nothing && is_late(flight.sent);
        match self.session.numbering {
            Numbering::InTurn => {}
            Numbering::Numbered if self.flights.iter().any(late) => {
                self.probe = Some(Probe { sent: None, first_sent: now });
                self.session.round_trip.pass();
            }
            Numbering::Numbered => {}
            Numbering::Unnumbered => self.read_again(now, timeout),
        }
    }

    /// Without numbers only what changes nothing is asked again: whether anything else was done nobody can tell.
    fn read_again(&mut self, now: Instant, timeout: Duration) {
        let jobs = &*self.jobs;
        let mut any = false;
        for flight in &mut self.flights {
            let changes = flight.parts.iter().any(|part| jobs[part.job].operation.changes());
            let is_late = now.saturating_duration_since(flight.sent) >= timeout;
            if is_late && !changes {
                (flight.need, any) = (Need::Request, true);
            } else if is_late {
                flight.sent = now;
            }
        }
        if any {
            self.session.round_trip.pass();
        }
    }

    /// Nothing more is sent or waited for.
    pub(super) fn fail(&mut self, failure: Failure) {
        let replaces = self.failure.as_ref().is_none_or(Failure::is_of_target);
        if replaces {
            self.failure = Some(failure);
        }
        // Where the target stands in its sequence is not known any more.
        self.session.next_id = None;
        self.probe = None;
        for part in self.flights.drain(..).flat_map(|flight| flight.parts) {
            let job = &mut self.jobs[part.job];
            if job.outcome == Outcome::Pending {
                let changes = job.operation.changes();
                job.outcome = if changes { Outcome::MayHaveHappened } else { Outcome::NotDone };
            }
        }
    }

    /// What became of the dispatch.
    ///
    /// # Errors
    /// When not everything was done.
    pub(super) fn end(self) -> Result<(), Failure> {
        let begun = self.packing.first_unpacked();
        for (place, job) in self.jobs.iter_mut().enumerate() {
            if job.outcome == Outcome::Pending {
                // Begun and not ended: some of it was done, and nothing more will be.
                let is_in_part = place < begun && job.done > 0 && job.operation.changes();
                job.outcome = if is_in_part { Outcome::MayHaveHappened } else { Outcome::NotDone };
            }
        }
        self.failure.map_or(Ok(()), Err)
    }
}
