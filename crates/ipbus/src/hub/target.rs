//! A target: merges the packets of all clients into one sequence. No socket.
//!
//! ```text
//!  packets of clients ─► FairQueue ─► Sequence ─► datagrams
//!  datagrams ─► matched to a packet ─► reply, with the header that the client used
//! ```

use std::time::{Duration, Instant};

use super::client::{ClientKey, Ticket};
use super::counts::{TargetCounts, TargetState};
use super::fair::FairQueue;
use crate::sequence::{Flight, Lost, Numbering, Sequence};
use crate::wire::{Control, HubCode, Info, Packet, Status, Target, TransactionHeader, WORD_BYTES, renumber};

/// After this time without use, the next expected packet id is asked for again, because another client may have used the target.
const TRUSTED: Duration = Duration::from_secs(5);

/// What a packet asks of its target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// It only reads.
    pub(super) is_safe: bool,
    /// Length of the reply when everything is done.
    pub(super) reply_bytes: usize,
}

/// A packet of a client that waits to be sent.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    bytes: Vec<u8>,
    demand: Demand,
}

/// What the hub keeps with a packet until its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    ticket: Ticket,
    demand: Demand,
    /// The header of the client's packet.
    header: [u8; WORD_BYTES],
}

/// Receives a reply, or the error code in its index.
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

    /// Queues a client's packet.
    pub(super) fn push(&mut self, ticket: Ticket, packet: &[u8], demand: Demand, now: Instant) {
        if now.saturating_duration_since(self.last_used) > TRUSTED {
            self.sequence.distrust();
        }
        self.last_used = now;
        let mut bytes = self.sequence.take_buffer();
        bytes.extend_from_slice(packet);
        self.queue.push(ticket.client, Waiting { ticket, bytes, demand });
    }

    /// The next datagram to send; `None` until one is received or a timeout passes.
    pub(super) fn transmit(&mut self, now: Instant, answers: Answers<'_>) -> Option<&[u8]> {
        if !self.queue.is_empty() {
            self.sequence.want(now);
        }
        if self.sequence.has_to_repeat() {
            return self.sequence.transmit(now);
        }
        let Waiting { ticket, mut bytes, demand } = self.next(answers)?;
        let id = self.sequence.next_id();
        let header = bytes.first_chunk().copied().unwrap_or_default();
        renumber(&mut bytes, id);
        Some(self.sequence.begin(now, id, bytes, demand.is_safe, Sent { ticket, demand, header }))
    }

    /// The next packet that the target has a buffer for. A longer one is refused before it takes an id: the target would drop it, and then
    /// all packets behind it as out of turn.
    fn next(&mut self, answers: Answers<'_>) -> Option<Waiting> {
        while self.sequence.may_begin() {
            let waiting = self.queue.pop()?;
            if waiting.bytes.len().max(waiting.demand.reply_bytes) <= self.sequence.buffer_bytes() {
                return Some(waiting);
            }
            self.refuse(HubCode::NotAllowed);
            self.sequence.recycle(waiting.bytes);
            answers(waiting.ticket, HubCode::NotAllowed, &[]);
        }
        None
    }

    /// Handles a received datagram.
    pub(super) fn receive(&mut self, bytes: &mut [u8], now: Instant, answers: Answers<'_>) {
        self.last_used = now;
        match Packet::check(bytes) {
            Ok(Packet::Control(control)) => match self.position_of(control) {
                Ok(Some(index)) => self.reply(index, bytes, now, answers),
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

    /// Index of the packet that a reply belongs to.
    fn position_of(&self, control: Control<'_>) -> Result<Option<usize>, Lost> {
        let Some(index) = self.sequence.position_of(|flight| flight.id == control.id) else {
            return Ok(None);
        };
        let asked = Packet::check(&self.sequence.at(index).bytes).and_then(Packet::control);
        let Some(asked) = asked.ok().filter(|asked| asked.body.order() == control.body.order()) else {
            return Ok(None);
        };
        match is_reply_to(asked, control) {
            true => Ok(Some(index)),
            false => {
                let seen = format!("the reply to packet {} belongs to another client", control.id);
                Err(Lost::Conflict { seen })
            }
        }
    }

    fn reply(&mut self, index: usize, bytes: &mut [u8], now: Instant, answers: Answers<'_>) {
        let Some(Flight { bytes: buffer, kept, first_sent, .. }) = self.sequence.take(index, now) else {
            return;
        };
        self.counts.latencies.add(now.saturating_duration_since(first_sent));
        self.sequence.recycle(buffer);
        bytes[..WORD_BYTES].copy_from_slice(&kept.header);
        answers(kept.ticket, HubCode::Fine, bytes);
    }

    /// When [`TargetSide::expire`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.sequence.deadline()
    }

    /// Handles timeouts.
    pub(super) fn expire(&mut self, now: Instant, answers: Answers<'_>) {
        if let Err(lost) = self.sequence.expire(now) {
            self.lose(lost, answers);
        }
    }

    /// Handles the loss of all packets in flight. Packets that only read are queued again, unless the target does not answer at all; then
    /// the waiting packets are refused, too.
    fn lose(&mut self, lost: Lost, answers: Answers<'_>) {
        let is_silent = lost == Lost::NoAnswer;
        let code = match lost {
            // The target did not even answer the status request.
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
        for Flight { mut bytes, kept: Sent { ticket, demand, header }, .. } in self.sequence.give_up() {
            match demand.is_safe && !is_silent {
                true => {
                    bytes[..WORD_BYTES].copy_from_slice(&header);
                    again.push(Waiting { ticket, bytes, demand });
                }
                false => {
                    self.counts.refused.add(code);
                    answers(ticket, code, &[]);
                }
            }
        }
        // In reverse, so that the oldest packet is the first again.
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

    /// Counts a packet that was refused before it was sent.
    pub(super) fn refuse(&mut self, code: HubCode) {
        self.counts.refused.add(code);
    }

    /// Drops the waiting packets of a client that disconnected. Replies to its packets in flight are discarded later.
    pub(super) fn forget(&mut self, client: ClientKey) {
        for waiting in self.queue.forget(client) {
            self.sequence.recycle(waiting.bytes);
        }
    }

    /// Whether it has no packets, and has had none for longer than `since`.
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

/// Whether the first transaction of a reply has the id and the operation of the request's first transaction.
fn is_reply_to(asked: Control<'_>, reply: Control<'_>) -> bool {
    let header = |control: Control<'_>| control.body.get(0).map(TransactionHeader::of_word);
    match (header(asked), header(reply)) {
        (Some(Ok(asked)), Some(Ok(reply))) => {
            // In the reply to an unknown transaction, only the info code is reliable.
            reply.info == Info::BadHeader || (asked.id, asked.operation) == (reply.id, reply.operation)
        }
        // The request has no valid transaction, or the reply has none.
        _ => true,
    }
}
