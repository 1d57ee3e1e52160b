//! Packets in flight to one target, and recovery of lost ones. No socket and no clock.
//!
//! ```text
//!  begin ─► Flights, the oldest first ─ transmit ─►
//!                  ▲  ◄─ position_of, take: by packet id, in any order ─ a reply
//!  timeout ─► status: next expected packet id ─► packets before that id: ask for the reply again
//!                                              └ from that id on:        send the request again
//!                                              └ neither fits:           the target was reset, or another client numbers packets
//! ```
//! A target does each packet id once and in order, so a repeated request is not done twice. `T` is what the client or the hub keeps with a
//! packet until the reply.

mod flight;
mod round_trip;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::wire::{Header, STATUS_BYTES, Status, WORD_BYTES, resend, status_request};
pub(crate) use flight::Flight;
use flight::Need;
use round_trip::RoundTrip;

const STATUS_REQUEST: [u8; STATUS_BYTES] = status_request();

/// Most packets in flight over UDP; a target with fewer buffers has a smaller window.
const WINDOW: usize = 16;

/// Most packets in flight over a stream, which buffers them.
const STREAM_WINDOW: usize = 48;

/// How replies are matched to packets, and whether lost packets are recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// By packet id: the target does each id once and keeps its reply, so lost packets are recovered.
    Numbered,
    /// By transaction id: UDP on a target where another client numbers packets. Lost packets that change something are not repeated.
    Unnumbered,
    /// In the order of the packets, and none is lost: a stream.
    InTurn,
}

/// Counts of packets to and from a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets sent for the first time.
    pub sent: u64,
    /// Packets sent again, because the target had not received them.
    pub requests_repeated: u64,
    /// Replies asked for again.
    pub replies_repeated: u64,
    /// Status requests sent.
    pub statuses: u64,
    /// Received packets that match no request: late duplicates, and packets for others.
    pub strange: u64,
}

/// Why the packets in flight are given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// A packet was not answered within the timeout.
    NoAnswer,
    /// The target was reset: it expects an earlier packet id; `sent` was the last id sent.
    Restarted { sent: u16 },
    /// Another client numbers packets on this target.
    Conflict { seen: String },
}

/// A status request: to be sent when `sent` is `None`, else in flight.
#[derive(Clone, Copy, Debug)]
struct Probe {
    sent: Option<Instant>,
    first_sent: Instant,
}

/// Consecutive statuses whose next expected packet id was answered long ago.
#[derive(Clone, Copy, Debug)]
struct Behind {
    since: Instant,
    statuses: u32,
}

impl Behind {
    /// Whether they show a reset. Delayed statuses arrive in bursts, so their count alone proves nothing: there must also have been no
    /// current status for a quarter of the timeout.
    fn is_reset(self, now: Instant, whole: Duration) -> bool {
        self.statuses >= 3 && now.saturating_duration_since(self.since) >= whole / 4
    }
}

/// Steps from one packet id to another, skipping 0.
fn steps(from: u16, to: u16) -> u16 {
    if to >= from { to - from } else { (u16::MAX - from) + to }
}

/// The packets in flight to one target, and what is known of the target.
#[derive(Debug)]
pub(crate) struct Sequence<T> {
    numbering: Numbering,
    /// The id of the next packet; unknown until the target has reported it.
    next_id: Option<u16>,
    /// Most packets in flight.
    window: usize,
    /// Size of each of the target's buffers; `usize::MAX` until the target has reported it.
    buffer_bytes: usize,
    round_trip: RoundTrip,
    /// How long a packet may take, repeats included.
    timeout: Duration,
    flights: VecDeque<Flight<T>>,
    /// Over a stream: packets are added until the window is full.
    is_filling: bool,
    probe: Option<Probe>,
    behind: Option<Behind>,
    resend: [u8; WORD_BYTES],
    /// Buffers of earlier packets, to be used again.
    spare: Vec<Vec<u8>>,
    counts: PacketCounts,
}

impl<T> Sequence<T> {
    pub(crate) fn new(numbering: Numbering, timeout: Duration) -> Sequence<T> {
        Sequence {
            numbering,
            next_id: None,
            window: WINDOW,
            buffer_bytes: usize::MAX,
            round_trip: RoundTrip::new(timeout),
            timeout,
            flights: VecDeque::new(),
            is_filling: false,
            probe: None,
            behind: None,
            resend: [0; WORD_BYTES],
            spare: Vec::new(),
            counts: PacketCounts::default(),
        }
    }

    pub(crate) fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// Sends unnumbered packets from now on; no packet may be in flight.
    pub(crate) fn stop_numbering(&mut self) {
        self.numbering = Numbering::Unnumbered;
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The mean round trip, once it was measured.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.mean()
    }

    pub(crate) fn counts(&self) -> PacketCounts {
        self.counts
    }

    /// Size of each of the target's buffers, in bytes; `usize::MAX` until the target has reported it.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Whether no packet is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// The packets in flight, the oldest first.
    pub(crate) fn flights(&self) -> impl Iterator<Item = &Flight<T>> {
        self.flights.iter()
    }

    /// Counts a received packet that matches no request.
    pub(crate) fn stray(&mut self) {
        self.counts.strange += 1;
    }

    /// Whether the next expected packet id has to be asked for before anything is sent.
    pub(crate) fn is_unknown(&self) -> bool {
        self.numbering == Numbering::Numbered && self.next_id.is_none()
    }

    /// Asks for the next expected packet id before the next packet, because other clients may have used the target.
    pub(crate) fn distrust(&mut self) {
        if self.flights.is_empty() {
            self.next_id = None;
        }
    }

    /// Announces that packets wait to be sent: requests the status if the next expected packet id is unknown.
    pub(crate) fn want(&mut self, now: Instant) {
        if self.is_unknown() && self.probe.is_none() {
            self.probe = Some(Probe { sent: None, first_sent: now });
        }
    }

    /// Whether [`Sequence::transmit`] has something to send.
    pub(crate) fn has_to_repeat(&self) -> bool {
        self.probe.is_some_and(|probe| probe.sent.is_none())
            || self.flights.iter().any(|flight| flight.need != Need::Nothing)
    }

    /// What has to be sent before any new packet: a status request, a lost request, or a resend packet.
    pub(crate) fn transmit(&mut self, now: Instant) -> Option<&[u8]> {
        if let Some(probe) = self.probe.as_mut().filter(|probe| probe.sent.is_none()) {
            probe.sent = Some(now);
            self.counts.statuses += 1;
            return Some(&STATUS_REQUEST);
        }
        let flight = self.flights.iter_mut().find(|flight| flight.need != Need::Nothing)?;
        (flight.sent, flight.is_repeated) = (now, true);
        if std::mem::replace(&mut flight.need, Need::Nothing) == Need::Reply {
            self.counts.replies_repeated += 1;
            self.resend = resend(flight.id);
            return Some(&self.resend);
        }
        self.counts.requests_repeated += 1;
        Some(&flight.bytes)
    }

    /// Most packets in flight.
    pub(crate) fn window(&self) -> usize {
        self.window
    }

    /// Whether another packet may be sent: the target has to keep all replies from the oldest packet in flight on.
    pub(crate) fn may_begin(&self) -> bool {
        if self.is_unknown() {
            return false;
        }
        match (self.flights.front(), self.next_id) {
            (Some(oldest), Some(next)) if self.numbering == Numbering::Numbered => {
                usize::from(steps(oldest.id, next)) < self.window
            }
            // Over a stream, one write takes many packets; the next write follows when half of their replies are there.
            _ if self.numbering == Numbering::InTurn => {
                self.is_filling || self.flights.len() <= STREAM_WINDOW / 2
            }
            _ => self.flights.len() < self.window,
        }
    }

    /// The id for a new packet; 0 when packets are unnumbered.
    pub(crate) fn next_id(&mut self) -> u16 {
        match self.numbering {
            Numbering::Numbered => {
                let id = self.next_id.unwrap_or(1);
                self.next_id = Some(Header::id_behind(id));
                id
            }
            Numbering::Unnumbered | Numbering::InTurn => 0,
        }
    }

    /// An empty buffer to write a packet into.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps the buffer of a finished packet for later ones.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.spare.len() < WINDOW {
            self.spare.push(buffer);
        }
    }

    /// Adds a packet to those in flight and returns its bytes. `is_safe`: it only reads, and may be sent again whatever was lost.
    pub(crate) fn begin(&mut self, now: Instant, id: u16, bytes: Vec<u8>, is_safe: bool, kept: T) -> &[u8] {
        self.counts.sent += 1;
        self.flights.push_back(Flight::new(now, id, bytes, is_safe, kept));
        self.is_filling = self.flights.len() < STREAM_WINDOW;
        self.flights.back().map_or(&[], |flight| &flight.bytes)
    }

    /// Index of the first packet in flight that satisfies a condition.
    pub(crate) fn position_of(&self, is_it: impl Fn(&Flight<T>) -> bool) -> Option<usize> {
        self.flights.iter().position(is_it)
    }

    /// The packet at an index.
    pub(crate) fn at(&self, index: usize) -> &Flight<T> {
        &self.flights[index]
    }

    /// Removes the packet at an index, which was answered.
    pub(crate) fn take(&mut self, index: usize, now: Instant) -> Option<Flight<T>> {
        let flight = self.flights.remove(index)?;
        self.behind = None;
        self.is_filling = false;
        match flight.is_repeated {
            true => self.round_trip.answered(),
            false => self.round_trip.measure(now.saturating_duration_since(flight.sent)),
        }
        Some(flight)
    }

    /// Receives a status. Returns whether it was asked for.
    ///
    /// # Errors
    /// When it does not fit the packets in flight.
    pub(crate) fn status(&mut self, status: &Status, now: Instant) -> Result<bool, Lost> {
        if self.probe.is_none() && self.behind.is_none() {
            return Ok(false);
        }
        self.probe = None;
        self.round_trip.answered();
        let Some(next) = self.next_id else {
            self.next_id = Some(status.next_id);
            self.window = status.packets_in_flight().min(WINDOW);
            // This status itself has been in one of its buffers.
            self.buffer_bytes = (status.buffer_bytes as usize).max(STATUS_BYTES);
            return Ok(true);
        };
        let Some(oldest) = self.flights.front().map(|flight| flight.id) else { return Ok(true) };
        let had = steps(oldest, status.next_id);
        if had > steps(oldest, next) {
            return self.out_of_step(oldest, status.next_id, now).map(|()| true);
        }
        self.behind = None;
        for flight in &mut self.flights {
            flight.need = if steps(oldest, flight.id) < had { Need::Reply } else { Need::Request };
        }
        Ok(true)
    }

    /// Handles a status that expects none of the packets in flight.
    fn out_of_step(&mut self, oldest: u16, expected: u16, now: Instant) -> Result<(), Lost> {
        let sent = self.flights.back().map_or(oldest, |latest| latest.id);
        // Packets of another client move the expected id ahead. An id behind is an old status, or the target was reset.
        if steps(oldest, expected) <= u16::MAX / 2 {
            let seen = format!("it expects packet {expected} while {oldest} to {sent} are in flight");
            return Err(Lost::Conflict { seen });
        }
        let behind = self.behind.get_or_insert(Behind { since: now, statuses: 0 });
        behind.statuses += 1;
        if behind.is_reset(now, self.timeout) {
            return Err(Lost::Restarted { sent });
        }
        // The next status request is a timeout away, so that a current status can still arrive.
        self.flights.iter_mut().for_each(|flight| flight.sent = now);
        Ok(())
    }

    /// When [`Sequence::expire`] has to be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timeout = self.round_trip.timeout();
        if let Some(probe) = self.probe {
            let end = probe.first_sent + self.timeout;
            return Some(probe.sent.map_or(end, |sent| end.min(sent + timeout)));
        }
        let of_flight = |flight: &Flight<T>| {
            let end = flight.first_sent + self.timeout;
            match self.numbering {
                Numbering::InTurn => end,
                Numbering::Numbered | Numbering::Unnumbered => end.min(flight.sent + timeout),
            }
        };
        self.flights.iter().map(of_flight).min()
    }

    /// Handles timeouts: decides what has to be asked for or sent again.
    ///
    /// # Errors
    /// When a packet or a status request has exceeded its timeout.
    pub(crate) fn expire(&mut self, now: Instant) -> Result<(), Lost> {
        let (timeout, whole) = (self.round_trip.timeout(), self.timeout);
        let is_over = |first_sent: Instant| now.saturating_duration_since(first_sent) >= whole;
        let mut begun = self.flights.iter().map(|flight| flight.first_sent);
        if begun.any(is_over) || self.probe.is_some_and(|probe| is_over(probe.first_sent)) {
            return Err(Lost::NoAnswer);
        }
        let is_late = |sent: Instant| now.saturating_duration_since(sent) >= timeout;
        if let Some(probe) = &mut self.probe {
            if probe.sent.is_some_and(is_late) {
                probe.sent = None;
                self.round_trip.pass();
            }
            return Ok(());
        }
        let mut late =
            self.flights.iter_mut().filter(|flight| flight.need == Need::Nothing && is_late(flight.sent));
        match self.numbering {
            Numbering::InTurn => {}
            Numbering::Numbered => {
                if late.next().is_some() {
                    self.probe = Some(Probe { sent: None, first_sent: now });
                    self.round_trip.pass();
                }
            }
            // Unnumbered packets are repeated only if they just read: a change may already have been done.
            Numbering::Unnumbered => {
                let mut any = false;
                for flight in late {
                    match flight.is_safe {
                        true => (flight.need, any) = (Need::Request, true),
                        false => flight.sent = now,
                    }
                }
                if any {
                    self.round_trip.pass();
                }
            }
        }
        Ok(())
    }

    /// Gives up all packets in flight; the next expected packet id is unknown afterwards.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = Flight<T>> + '_ {
        (self.next_id, self.probe, self.behind) = (None, None, None);
        self.flights.drain(..)
    }
}
