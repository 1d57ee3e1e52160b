//! A target: packets of all clients in one sequence, in turn. No socket.
//!
//! ```text
//!  packets of clients ─► FairQueue ─► Sequence ─► datagrams
//!  datagrams ─► the packet that is answered, with the header that its client gave it
//! ```

use std::time::{Duration, Instant};

use super::client::{ClientKey, Ticket};
use super::counts::{TargetCounts, TargetState};
use super::fair::FairQueue;
use crate::sequence::{Flight, Lost, Numbering, Sequence};
use crate::wire::{Control, HubCode, Info, Packet, Status, Target, TransactionHeader, WORD_BYTES, renumber};

/// A target that nobody has used for so long is asked anew what it expects: others may have sent it something meanwhile.
const TRUSTED: Duration = Duration::from_secs(5);

/// A packet of a client.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) bytes: Vec<u8>,
    /// It changes nothing.
    pub(super) is_safe: bool,
}

/// What is kept until the reply comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    ticket: Ticket,
    /// The first word of the client's packet, as it was.
    header: [u8; WORD_BYTES],
}

/// Takes a reply, or the code of why there is none.
pub(super) type Answers<'a> = &'a mut dyn FnMut(Ticket, HubCode, &[u8]);

/// One target.
#[derive(Debug)]
pub(super) struct TargetSide {
    pub(super) target: Target,
    sequence: Sequence<Sent>,
    queue: FairQueue<Waiting>,
    counts: TargetCounts,
    last_used: Instant,
}

impl TargetSide {
    pub(super) fn new(target: Target, timeout: Duration, now: Instant) -> TargetSide {
        TargetSide {
            target,
            sequence: Sequence::new(Numbering::Numbered, timeout),
            queue: FairQueue::default(),
            counts: TargetCounts::default(),
            last_used: now,
        }
    }

    /// Takes a client's packet.
    pub(super) fn push(&mut self, ticket: Ticket, packet: &[u8], is_safe: bool, now: Instant) {
        if now.saturating_duration_since(self.last_used) > TRUSTED {
            self.sequence.distrust();
        }
        self.last_used = now;
        let mut bytes = self.sequence.room();
        bytes.extend_from_slice(packet);
        self.queue.push(ticket.client, Waiting { ticket, bytes, is_safe });
    }

    /// The next datagram to be sent; `None` before something has come or time has passed.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<&[u8]> {
        if !self.queue.is_empty() {
            self.sequence.want(now);
        }
        if self.sequence.has_to_repeat() {
            return self.sequence.transmit(now);
        }
        let next = if self.sequence.may_begin() { self.queue.pop() } else { None };
        let Waiting { ticket, mut bytes, is_safe } = next?;
        let id = self.sequence.next_id();
        let header = bytes.first_chunk().copied().unwrap_or_default();
        renumber(&mut bytes, id);
        Some(self.sequence.begin(now, id, bytes, is_safe, Sent { ticket, header }))
    }

    /// A datagram has come.
    pub(super) fn receive(&mut self, bytes: &mut [u8], now: Instant, answers: Answers<'_>) {
        self.last_used = now;
        match Packet::check(bytes) {
            Ok(Packet::Control(control)) => match self.place_of(control) {
                Ok(Some(place)) => self.reply(place, bytes, now, answers),
                Ok(None) => self.sequence.stray(),
                Err(lost) => self.lose(lost, answers),
            },
            Ok(Packet::Status(status)) => {
                match Status::check(status).map(|status| self.sequence.status(&status, now)) {
                    Ok(Ok(true)) => {}
                    Ok(Ok(false)) | Err(_) => self.sequence.stray(),
                    Ok(Err(lost)) => self.lose(lost, answers),
                }
            }
            Ok(Packet::Resend(_)) | Err(_) => self.sequence.stray(),
        }
    }

    /// Which packet a reply is to.
    fn place_of(&self, control: Control<'_>) -> Result<Option<usize>, Lost> {
        let Some(place) = self.sequence.place_of(|flight| flight.id == control.id) else { return Ok(None) };
        let asked = Packet::check(&self.sequence.at(place).bytes).and_then(Packet::control);
        let Some(asked) = asked.ok().filter(|asked| asked.body.order() == control.body.order()) else {
            return Ok(None);
        };
        match is_reply_to(asked, control) {
            true => Ok(Some(place)),
            false => {
                let seen = format!("the reply to packet {} is to another", control.id);
                Err(Lost::Conflict { seen })
            }
        }
    }

    fn reply(&mut self, place: usize, bytes: &mut [u8], now: Instant, answers: Answers<'_>) {
        let Some(Flight { bytes: room, kept, first_sent, .. }) = self.sequence.take(place, now) else {
            return;
        };
        self.counts.latencies.add(now.saturating_duration_since(first_sent));
        self.sequence.give_back(room);
        bytes[..WORD_BYTES].copy_from_slice(&kept.header);
        answers(kept.ticket, HubCode::Fine, bytes);
    }

    /// When something has to be done although nothing has come.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.sequence.deadline()
    }

    /// Time has passed.
    pub(super) fn expire(&mut self, now: Instant, answers: Answers<'_>) {
        if let Err(lost) = self.sequence.expire(now) {
            self.lose(lost, answers);
        }
    }

    /// What was on its way is lost. What changes nothing is sent again, and what waits goes on, unless nobody answers.
    fn lose(&mut self, lost: Lost, answers: Answers<'_>) {
        let is_silent = lost == Lost::NoAnswer;
        let code = match lost {
            // It has not even said what it expects.
            Lost::NoAnswer if self.sequence.is_unknown() => HubCode::NoStatus,
            Lost::NoAnswer => HubCode::NoReply,
            Lost::Restarted { .. } => {
                self.counts.restarts += 1;
                HubCode::NoResend
            }
            Lost::Conflict { .. } => {
                self.counts.conflicts += 1;
                HubCode::NoResend
            }
        };
        let mut again = Vec::new();
        for Flight { mut bytes, is_safe, kept: Sent { ticket, header }, .. } in self.sequence.give_up() {
            match is_safe && !is_silent {
                true => {
                    bytes[..WORD_BYTES].copy_from_slice(&header);
                    again.push(Waiting { ticket, bytes, is_safe });
                }
                false => {
                    self.counts.refused.add(code);
                    answers(ticket, code, &[]);
                }
            }
        }
        // The oldest is to be the first again.
        for waiting in again.into_iter().rev() {
            self.queue.push_front(waiting.ticket.client, waiting);
        }
        if is_silent {
            for waiting in self.queue.drain() {
                self.counts.refused.add(code);
                answers(waiting.ticket, code, &[]);
            }
        }
    }

    /// A packet for it is refused before it is sent.
    pub(super) fn refuse(&mut self, code: HubCode) {
        self.counts.refused.add(code);
    }

    /// A client is gone: what it waits for is not sent. What is on its way comes back to nobody.
    pub(super) fn forget(&mut self, client: ClientKey) {
        for waiting in self.queue.forget(client) {
            self.sequence.give_back(waiting.bytes);
        }
    }

    /// Whether nobody waits for it, and nobody has for so long.
    pub(super) fn is_idle(&self, now: Instant, since: Duration) -> bool {
        self.sequence.is_empty()
            && self.queue.is_empty()
            && now.saturating_duration_since(self.last_used) > since
    }

    pub(super) fn state(&self) -> TargetState {
        TargetState {
            target: self.target,
            counts: TargetCounts { packets: self.sequence.counts(), ..self.counts },
            in_flight: self.sequence.flights().count(),
            waiting: self.queue.len(),
        }
    }
}

/// Whether a reply begins as the reply to a packet does: its first transaction has the number and the operation that were asked for.
fn is_reply_to(asked: Control<'_>, reply: Control<'_>) -> bool {
    let header = |control: Control<'_>| control.body.get(0).map(TransactionHeader::of_word);
    match (header(asked), header(reply)) {
        (Some(Ok(asked)), Some(Ok(reply))) => {
            // What else the header of a transaction that was none says is not always true.
            reply.info == Info::BadHeader || (asked.id, asked.operation) == (reply.id, reply.operation)
        }
        // A request that is none, a reply that says so or says nothing.
        _ => true,
    }
}
