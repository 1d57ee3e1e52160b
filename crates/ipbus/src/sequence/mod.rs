//! Packets on their way to one target, as many as it has room for: what is lost is found and got back. No socket and no clock.
//!
//! ```text
//!  begin ─► Flights, the oldest first ─ transmit ─►
//!                  ▲  ◄─ place_of, take: by number, in any order ─ a reply
//!  time-out ─► status: what does it expect? ─► before that number: ask for the reply again
//!                                            └ from it on:         send the request again
//!                                            └ neither:            it was reset, or somebody else numbers packets
//! ```
//! A target does each number once, in their order, so that what is sent again is not done again. A client has one target and a
//! hub many: `T` is what each of them keeps with a packet until its reply has come.

mod flight;
mod round_trip;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::wire::{Header, STATUS_BYTES, Status, WORD_BYTES, resend, status_request};
pub(crate) use flight::Flight;
use flight::Need;
use round_trip::RoundTrip;

const STATUS_REQUEST: [u8; STATUS_BYTES] = status_request();

/// Packets on their way at the same time, where the target does not say how many it takes.
const WINDOW: usize = 16;

/// The same over a stream, in whose buffers they wait.
const STREAM_WINDOW: usize = 48;

/// How replies find their packets, and whether lost ones come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// Each packet has a number, the target does each number once and keeps its reply.
    Numbered,
    /// No packet has one, and what is lost is lost: UDP beside others that move the numbers.
    Unnumbered,
    /// Replies come in the order of their packets, and none is lost: a stream.
    InTurn,
}

/// What was sent to a target and heard of it, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets that were sent for the first time.
    pub sent: u64,
    /// Packets that were sent again, because the target had not had them.
    pub requests_repeated: u64,
    /// Replies that were asked for again.
    pub replies_repeated: u64,
    /// Status packets that were asked for.
    pub statuses: u64,
    /// What came and belonged to nothing: late doubles, and what others have sent.
    pub strange: u64,
}

/// Why nothing that is on its way is waited for any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nothing was heard for the whole time.
    NoAnswer,
    /// The target expects a number as after a reset; `sent` was the last that it was sent.
    Restarted { sent: u16 },
    /// Somebody else moves the numbers.
    Conflict { seen: String },
}

/// The target has been asked what it expects.
#[derive(Clone, Copy, Debug)]
struct Probe {
    sent: Option<Instant>,
    first_sent: Instant,
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

/// What is on its way to one target, and what is known of it.
#[derive(Debug)]
pub(crate) struct Sequence<T> {
    numbering: Numbering,
    /// The number of the next packet; unknown until the target has said it.
    next_id: Option<u16>,
    /// Packets that may be on their way.
    window: usize,
    /// What the target's buffers hold, once it has said so.
    buffer_bytes: usize,
    round_trip: RoundTrip,
    /// So long a packet may take in all.
    timeout: Duration,
    flights: VecDeque<Flight<T>>,
    /// Over a stream: packets are being added until the window is full.
    is_filling: bool,
    probe: Option<Probe>,
    behind: Option<Behind>,
    resend: [u8; WORD_BYTES],
    /// What earlier packets were written in, to be used again.
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

    /// From now on packets have no numbers; none is on its way.
    pub(crate) fn stop_numbering(&mut self) {
        self.numbering = Numbering::Unnumbered;
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long an answer takes, once that was measured.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.mean()
    }

    pub(crate) fn counts(&self) -> PacketCounts {
        self.counts
    }

    /// Bytes that the target's buffers hold; as many as can be before it has said so.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// What is on its way, the oldest first.
    pub(crate) fn flights(&self) -> impl Iterator<Item = &Flight<T>> {
        self.flights.iter()
    }

    /// Something has come that belongs to nothing.
    pub(crate) fn stray(&mut self) {
        self.counts.strange += 1;
    }

    /// Whether the target has to be asked before anything is sent.
    pub(crate) fn is_unknown(&self) -> bool {
        self.numbering == Numbering::Numbered && self.next_id.is_none()
    }

    /// What the target expects is asked before the next packet: others may have sent it something.
    pub(crate) fn distrust(&mut self) {
        if self.flights.is_empty() {
            self.next_id = None;
        }
    }

    /// Packets wait to be sent: what has to be known for that is asked for.
    pub(crate) fn want(&mut self, now: Instant) {
        if self.is_unknown() && self.probe.is_none() {
            self.probe = Some(Probe { sent: None, first_sent: now });
        }
    }

    /// Whether [`Sequence::transmit`] has something.
    pub(crate) fn has_to_repeat(&self) -> bool {
        self.probe.is_some_and(|probe| probe.sent.is_none())
            || self.flights.iter().any(|flight| flight.need != Need::Nothing)
    }

    /// What has to be sent before any new packet: the status, and what was lost.
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

    /// Packets that may be on their way.
    pub(crate) fn window(&self) -> usize {
        self.window
    }

    /// Whether another packet may be on its way: the target has to keep the replies of all, from the oldest on.
    pub(crate) fn may_begin(&self) -> bool {
        if self.is_unknown() {
            return false;
        }
        match (self.flights.front(), self.next_id) {
            (Some(oldest), Some(next)) if self.numbering == Numbering::Numbered => {
                usize::from(steps(oldest.id, next)) < self.window
            }
            // Over a stream many go in one write, and the next when half of their replies have come.
            _ if self.numbering == Numbering::InTurn => {
                self.is_filling || self.flights.len() <= STREAM_WINDOW / 2
            }
            _ => self.flights.len() < self.window,
        }
    }

    /// The number of the packet that begins now.
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

    /// Room to write a packet in.
    pub(crate) fn room(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// The room of a packet that is over.
    pub(crate) fn give_back(&mut self, mut room: Vec<u8>) {
        room.clear();
        if self.spare.len() < WINDOW {
            self.spare.push(room);
        }
    }

    /// A packet of this number is on its way; gives its bytes. `is_safe`: it changes nothing, and may be sent again whatever was lost.
    pub(crate) fn begin(&mut self, now: Instant, id: u16, bytes: Vec<u8>, is_safe: bool, kept: T) -> &[u8] {
        self.counts.sent += 1;
        self.flights.push_back(Flight::new(now, id, bytes, is_safe, kept));
        self.is_filling = self.flights.len() < STREAM_WINDOW;
        self.flights.back().map_or(&[], |flight| &flight.bytes)
    }

    /// Which packet satisfies this.
    pub(crate) fn place_of(&self, is_it: impl Fn(&Flight<T>) -> bool) -> Option<usize> {
        self.flights.iter().position(is_it)
    }

    /// The packet at a place.
    pub(crate) fn at(&self, place: usize) -> &Flight<T> {
        &self.flights[place]
    }

    /// The packet at a place is answered.
    pub(crate) fn take(&mut self, place: usize, now: Instant) -> Option<Flight<T>> {
        let flight = self.flights.remove(place)?;
        self.behind = None;
        self.is_filling = false;
        match flight.is_repeated {
            true => self.round_trip.answered(),
            false => self.round_trip.measure(now.saturating_duration_since(flight.sent)),
        }
        Some(flight)
    }

    /// The target says what it has and expects. Whether that was asked for.
    ///
    /// # Errors
    /// When it fits to nothing that is on its way.
    pub(crate) fn status(&mut self, status: &Status, now: Instant) -> Result<bool, Lost> {
        if self.probe.is_none() && self.behind.is_none() {
            return Ok(false);
        }
        self.probe = None;
        self.round_trip.answered();
        let Some(next) = self.next_id else {
            self.next_id = Some(status.next_id);
            self.window = status.packets_in_flight().min(WINDOW);
            self.buffer_bytes = status.buffer_bytes as usize;
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

    /// The target expects none of the packets that are on their way.
    fn out_of_step(&mut self, oldest: u16, expected: u16, now: Instant) -> Result<(), Lost> {
        let sent = self.flights.back().map_or(oldest, |latest| latest.id);
        // What others have sent moves the number ahead; behind is what was true some time ago, and what is true after a reset.
        if steps(oldest, expected) <= u16::MAX / 2 {
            let seen = format!("it expects packet {expected}, and {oldest} to {sent} are on their way");
            return Err(Lost::Conflict { seen });
        }
        let behind = self.behind.get_or_insert(Behind { since: now, statuses: 0 });
        behind.statuses += 1;
        if behind.is_reset(now, self.timeout) {
            return Err(Lost::Restarted { sent });
        }
        // The next status is asked for when the network has had time to say otherwise.
        self.flights.iter_mut().for_each(|flight| flight.sent = now);
        Ok(())
    }

    /// When something has to be done although nothing has come.
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

    /// Time has passed: what is missing is looked for.
    ///
    /// # Errors
    /// When it has been looked for long enough.
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
            // Without numbers only what changes nothing is asked again: whether anything else was done nobody can tell.
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

    /// Nothing that is on its way is waited for any longer, and where the target stands is not known any more.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = Flight<T>> + '_ {
        (self.next_id, self.probe, self.behind) = (None, None, None);
        self.flights.drain(..)
    }
}
