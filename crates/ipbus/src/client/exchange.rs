//! One dispatch: packs jobs into packets, and delivers replies to the jobs. No socket and no clock.
//!
//! ```text
//!  jobs ─ Packing ─► Sequence: packets in flight ─ transmit ─►
//!                      ▲  ◄─ receive: by packet id, in order, or by transaction id ─ deliver ─► landings, outcomes
//! ```

use std::time::{Duration, Instant};

use super::failure::Failure;
use super::job::{Job, Landing, Outcome};
use super::packing::{Packing, Part};
use super::session::Session;
use crate::sequence::{Lost, Numbering};
use crate::wire::{Control, HubCode, Info, Packet, Replies, Reply, Status, WORD_BYTES};

/// Longest time to spin for a reply. Waking a thread takes about ten microseconds, and several tens on a virtual machine.
const LONGEST_SPIN: Duration = Duration::from_micros(120);

/// A dispatch in progress.
#[derive(Debug)]
pub(super) struct Exchange<'e, 'b> {
    session: &'e mut Session,
    jobs: &'e mut [Job<'b>],
    packing: Packing,
    failure: Option<Failure>,
}

impl<'e, 'b> Exchange<'e, 'b> {
    pub(super) fn new(session: &'e mut Session, jobs: &'e mut [Job<'b>]) -> Exchange<'e, 'b> {
        let packing = Packing::of(jobs);
        Exchange { session, jobs, packing, failure: None }
    }

    /// Whether no packet is in flight and no more will be sent.
    pub(super) fn is_done(&self) -> bool {
        self.session.sequence.is_empty() && !self.wants_more()
    }

    /// Whether jobs are left to send.
    fn wants_more(&self) -> bool {
        self.failure.is_none() && !self.packing.is_done(self.jobs)
    }

    /// Most packets to send in one run: half the window, so that the target works on one half while the client sends the other.
    pub(super) fn run(&self) -> usize {
        self.session.sequence.window().div_ceil(2)
    }

    /// The next packet to send; `None` until a packet is received or a timeout passes.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<&[u8]> {
        if self.is_done() {
            return None;
        }
        if self.wants_more() {
            self.session.sequence.want(now);
        }
        // The question is separate from the call, because the borrow of a returned packet lasts to the end of this function.
        if self.session.sequence.has_to_repeat() {
            return self.session.sequence.transmit(now);
        }
        (self.wants_more() && self.session.sequence.may_begin() && !self.is_read_first())
            .then(|| self.begin(now))
    }

    /// Whether the next packet may change words that are still being read. An unnumbered read may have to be repeated, and must then give
    /// the words from before the change.
    fn is_read_first(&self) -> bool {
        let most = self.session.limits().request_bytes / WORD_BYTES;
        self.numbering() == Numbering::Unnumbered
            && self.session.sequence.flights().any(|flight| flight.is_safe)
            && self.packing.left(self.jobs).take(most).any(|job| job.operation.changes())
    }

    fn begin(&mut self, now: Instant) -> &[u8] {
        let limits = self.session.limits();
        let Session { sequence, transaction, .. } = &mut *self.session;
        let (id, mut bytes, mut parts) = (sequence.next_id(), sequence.take_buffer(), Vec::new());
        self.packing.pack(self.jobs, (id, transaction), limits, (&mut bytes, &mut parts));
        let is_safe = !parts.iter().any(|part| self.jobs[part.job].operation.changes());
        sequence.begin(now, id, bytes, is_safe, parts)
    }

    /// Handles a received packet.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Instant) {
        match Packet::check(bytes) {
            Ok(Packet::Control(control)) => self.reply(control, now),
            Ok(Packet::Status(status)) => match Status::check(status) {
                Ok(status) => self.status(&status, now),
                Err(_) => self.stray("an invalid status packet"),
            },
            Ok(Packet::Resend(_)) => self.stray("a resend packet"),
            Err(error) if self.numbering() == Numbering::InTurn => self.fail(Failure::Broken(error)),
            Err(_) => self.session.sequence.stray(),
        }
    }

    fn numbering(&self) -> Numbering {
        self.session.sequence.numbering()
    }

    fn stray(&mut self, what: &str) {
        match self.numbering() {
            Numbering::InTurn => self.fail(Failure::Mismatch(what.to_owned())),
            Numbering::Numbered | Numbering::Unnumbered => self.session.sequence.stray(),
        }
    }

    fn status(&mut self, status: &Status, now: Instant) {
        match self.session.sequence.status(status, now) {
            Ok(true) => {}
            Ok(false) => self.stray("a status packet"),
            Err(lost) => self.lose(lost),
        }
    }

    fn reply(&mut self, control: Control<'_>, now: Instant) {
        let sequence = &self.session.sequence;
        let index = match sequence.numbering() {
            Numbering::InTurn => (!sequence.is_empty()).then_some(0),
            Numbering::Numbered => sequence.position_of(|flight| flight.id == control.id),
            Numbering::Unnumbered => {
                let first = Replies::of(control).next().and_then(Result::ok).map(|reply| reply.header.id);
                sequence.position_of(|flight| flight.kept.first().map(|part| part.id) == first)
            }
        };
        let Some(index) = index else { return self.stray("a reply that matches no request") };
        if let Err(seen) = self.fits(&sequence.at(index).kept, control) {
            return match sequence.numbering() {
                Numbering::InTurn => self.fail(Failure::Mismatch(seen)),
                Numbering::Numbered => {
                    let seen =
                        format!("the reply to packet {} belongs to another client: {seen}", control.id);
                    self.lose(Lost::Conflict { seen });
                }
                Numbering::Unnumbered => self.session.sequence.stray(),
            };
        }
        let Some(flight) = self.session.sequence.take(index, now) else { return };
        self.deliver(&flight.kept, control);
        self.session.sequence.recycle(flight.bytes);
    }

    /// Checks that a reply is to these transactions. It is checked as a whole before any word is delivered.
    fn fits(&self, parts: &[Part], control: Control<'_>) -> Result<(), String> {
        let mut parts = parts.iter();
        for reply in Replies::of(control) {
            let Reply { header, .. } = reply.map_err(|error| error.to_string())?;
            let part = parts.next().ok_or("it has more transactions than the request")?;
            let job = &self.jobs[part.job];
            let is_whole = header.info != Info::Success || header.words == part.words;
            // In the reply to an unknown transaction, only the info code is reliable.
            let is_it =
                header.info == Info::BadHeader || (header.id, header.operation) == (part.id, job.operation);
            if !is_it || !is_whole || header.words > part.words && header.info != Info::BadHeader {
                return Err(format!("{header:?}, where {part:?} was requested"));
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
        // The target skips the rest of a packet after a failed transaction.
        for part in parts {
            let job = &mut self.jobs[part.job];
            if job.outcome == Outcome::Pending {
                job.outcome = Outcome::NotDone;
            }
        }
    }

    /// How long to spin for the next datagram before the thread sleeps; `None` when replies take longer than a wake-up. Never for a stream,
    /// because its hub and target may need the same cores.
    pub(super) fn spin_time(&self) -> Option<Duration> {
        if self.numbering() == Numbering::InTurn {
            return None;
        }
        let usual = self.session.sequence.round_trip().map(|mean| 2 * mean);
        usual.filter(|duration| *duration <= LONGEST_SPIN)
    }

    /// When [`Exchange::expire`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.session.sequence.deadline()
    }

    /// Handles timeouts: lost packets are repeated or given up.
    pub(super) fn expire(&mut self, now: Instant) {
        if let Err(lost) = self.session.sequence.expire(now) {
            self.lose(lost);
        }
    }

    fn lose(&mut self, lost: Lost) {
        match lost {
            Lost::NoAnswer => self.fail(Failure::NoAnswer(self.session.sequence.timeout())),
            Lost::Restarted { sent } => self.fail(Failure::Restarted { sent }),
            Lost::Conflict { seen } => {
                if !(self.session.falls_back && self.fall_back()) {
                    self.fail(Failure::Conflict { seen });
                }
                if self.session.falls_back {
                    self.session.sequence.stop_numbering();
                }
            }
        }
    }

    /// Repeats the packets in flight without packet ids. Returns `false` if that is unsafe, because some of them may change the target.
    fn fall_back(&mut self) -> bool {
        let flights = || self.session.sequence.flights();
        let first = flights().flat_map(|flight| &flight.kept).map(|part| part.job).min();
        let changed = |job: &Job<'_>| job.operation.changes() && job.done > 0;
        // A repeated read would return what a later job has already changed.
        let is_changed = first.is_some_and(|first| self.jobs[first..].iter().any(changed));
        if self.failure.is_some() || is_changed || !flights().all(|flight| flight.is_safe) {
            return false;
        }
        self.session.sequence.give_up().for_each(drop);
        for job in self.jobs.iter_mut() {
            if job.outcome == Outcome::Pending && !job.operation.changes() {
                job.done = 0;
            }
        }
        self.packing = Packing::of(self.jobs);
        true
    }

    /// Handles an error code of the hub in place of the next reply.
    pub(super) fn refuse(&mut self, code: HubCode) {
        // A packet that the hub did not send was not done.
        let was_sent = !matches!(code, HubCode::WrongVersion | HubCode::NotAllowed);
        let refused = self.session.sequence.flights().next().filter(|_| !was_sent);
        for part in refused.into_iter().flat_map(|flight| &flight.kept) {
            let job = &mut self.jobs[part.job];
            if job.outcome == Outcome::Pending && job.done == 0 {
                job.outcome = Outcome::NotDone;
            }
        }
        self.fail(Failure::Hub(code));
    }

    /// Ends the dispatch: nothing more is sent or waited for.
    pub(super) fn fail(&mut self, failure: Failure) {
        let replaces = self.failure.as_ref().is_none_or(Failure::is_of_target);
        if replaces {
            self.failure = Some(failure);
        }
        for part in self.session.sequence.give_up().flat_map(|flight| flight.kept) {
            let job = &mut self.jobs[part.job];
            if job.outcome == Outcome::Pending {
                let changes = job.operation.changes();
                job.outcome = if changes { Outcome::MayHaveHappened } else { Outcome::NotDone };
            }
        }
    }

    /// The result of the dispatch.
    ///
    /// # Errors
    /// When not all jobs were done.
    pub(super) fn end(self) -> Result<(), Failure> {
        let begun = self.packing.first_unpacked();
        for (index, job) in self.jobs.iter_mut().enumerate() {
            if job.outcome == Outcome::Pending {
                // Part of the job was done, and the rest will not be.
                let is_in_part = index < begun && job.done > 0 && job.operation.changes();
                job.outcome = if is_in_part { Outcome::MayHaveHappened } else { Outcome::NotDone };
            }
        }
        self.failure.map_or(Ok(()), Err)
    }
}
