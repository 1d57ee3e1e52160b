//! Messages between threads of one process, handed over without a copy.
//!
//! ```text
//!  Message ─► circuit of queue_messages ─► Message         in both directions; slices and leases change hands
//!                  └─ bell: a descriptor, rung only if a thread waits on it
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{Message, Received};

use super::error::PeerError;
use super::settings::Settings;
use super::{Counts, Peer, Sent};
use crate::Bell;

/// The most connections that wait at an endpoint.
const MOST_WAITING: usize = 64;

/// How often a sender that waits for space checks for it before it sleeps between checks.
const SPINS: u32 = 200;
/// How long it then sleeps between two checks.
const SPACE_STEP: Duration = Duration::from_micros(20);

/// The open endpoints by name.
static ENDPOINTS: Mutex<BTreeMap<String, Arc<UnitEndpoint>>> = Mutex::new(BTreeMap::new());

fn endpoints() -> MutexGuard<'static, BTreeMap<String, Arc<UnitEndpoint>>> {
    ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bell(place: &str) -> Result<Arc<Bell>, PeerError> {
    Bell::new().map_err(|cause| PeerError::System { place: place.to_owned(), call: "eventfd", cause })
}

/// A listening endpoint with the connections that wait to be accepted.
pub(super) struct UnitEndpoint {
    name: String,
    settings: Settings,
    waiting: Mutex<VecDeque<InprocPeer>>,
    bell: Arc<Bell>,
}

impl UnitEndpoint {
    /// Opens an endpoint under a name.
    pub(super) fn open(name: &str, settings: Settings) -> Result<Arc<UnitEndpoint>, PeerError> {
        let place = format!("inproc://{name}");
        let bell = bell(&place)?;
        let mut endpoints = endpoints();
        if endpoints.contains_key(name) {
            return Err(PeerError::Taken { place });
        }
        let endpoint =
            Arc::new(UnitEndpoint { name: name.to_owned(), settings, waiting: Mutex::default(), bell });
        endpoints.insert(name.to_owned(), endpoint.clone());
        Ok(endpoint)
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<InprocPeer>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that has waited longest.
    pub(super) fn accept(&self) -> Option<InprocPeer> {
        let first = self.waiting().pop_front();
        if first.is_some() {
            return first;
        }
        self.bell.arm();
        self.waiting().pop_front()
    }

    /// Readable when a connection waits.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Closes the endpoint: frees its name, and drops the connections that wait.
    pub(super) fn close(&self) {
        endpoints().remove(&self.name);
        self.waiting().clear();
    }
}

/// Connects to the endpoint of a name.
pub(super) fn connect(name: &str, settings: &Settings) -> Result<InprocPeer, PeerError> {
    let place = format!("inproc://{name}");
    let endpoint =
        endpoints().get(name).cloned().ok_or_else(|| PeerError::Absent { place: place.clone() })?;
    let (up, far_down) = circuit(settings.queue_messages, Message::default);
    let (far_up, down) = circuit(endpoint.settings.queue_messages, Message::default);
    let (near_end, far_end) = (End::new(&place)?, End::new(&place)?);
    let near = InprocPeer {
        up: Some(up),
        down,
        empty: None,
        mine: near_end.clone(),
        theirs: far_end.clone(),
        other: endpoint.settings.name.clone(),
        place: place.clone(),
        longest_payload: endpoint.settings.longest_payload_bytes,
        capacity: settings.queue_messages,
        counts: Counts::default(),
    };
    let far = InprocPeer {
        up: Some(far_up),
        down: far_down,
        empty: None,
        mine: far_end,
        theirs: near_end,
        other: settings.name.clone(),
        place: place.clone(),
        longest_payload: settings.longest_payload_bytes,
        capacity: endpoint.settings.queue_messages,
        counts: Counts::default(),
    };
    let mut waiting = endpoint.waiting();
    if waiting.len() >= MOST_WAITING {
        return Err(PeerError::Refused { place, words: format!("{MOST_WAITING} connections already wait") });
    }
    waiting.push_back(far);
    drop(waiting);
    endpoint.bell.ring();
    Ok(near)
}

/// The state of one end that the other end sees beside messages.
struct End {
    bell: Arc<Bell>,
    /// Whether it has closed the connection in order.
    said_bye: AtomicBool,
}

impl End {
    fn new(place: &str) -> Result<Arc<End>, PeerError> {
        Ok(Arc::new(End { bell: bell(place)?, said_bye: AtomicBool::new(false) }))
    }
}

/// One end of a connection inside the process.
pub(super) struct InprocPeer {
    /// `None` once this end has closed the connection.
    up: Option<Upstream<Message>>,
    down: Downstream<Message>,
    /// An empty message to swap for the next one that is sent.
    empty: Option<Message>,
    mine: Arc<End>,
    theirs: Arc<End>,
    other: String,
    place: String,
    longest_payload: u64,
    /// The most messages that wait for the other end.
    capacity: usize,
    counts: Counts,
}

impl InprocPeer {
    fn closed(&self) -> PeerError {
        PeerError::Closed { place: self.place.clone() }
    }

    /// The result after the last message: [`Received::End`] if the other end has closed the connection in order.
    fn end(&self) -> Result<Received, PeerError> {
        if self.theirs.said_bye.load(Ordering::Acquire) {
            return Ok(Received::End);
        }
        Err(PeerError::Lost {
            place: self.place.clone(),
            cause: "the unit ended without closing it".to_owned(),
        })
    }

    fn next(&mut self, wait: Duration) -> Option<Message> {
        let first = if wait.is_zero() { self.down.receive() } else { self.down.receive_wait(wait) };
        if first.is_some() {
            return first;
        }
        self.mine.bell.arm();
        self.down.receive()
    }
}

impl Peer for InprocPeer {
    fn send(&mut self, message: &mut Message) -> Result<Sent, PeerError> {
        let closed = self.closed();
        let up = self.up.as_mut().ok_or(closed)?;
        if up.is_closed() {
            let cause = "the unit has ended".to_owned();
            return Err(PeerError::Lost { place: self.place.clone(), cause });
        }
        let (head, payload) = (message.head.len() as u64, message.payload_bytes());
        for (bytes, most) in [(head, Message::LONGEST_HEAD as u64), (payload, self.longest_payload)] {
            if bytes > most {
                return Err(PeerError::TooLong { place: self.place.clone(), bytes, most });
            }
        }
        let Some(mut empty) = self.empty.take().or_else(|| up.empty()) else { return Ok(Sent::Full) };
        std::mem::swap(&mut empty, message);
        up.send(empty);
        self.theirs.bell.ring();
        self.counts.sent_messages += 1;
        self.counts.sent_bytes += head + payload;
        Ok(Sent::Taken)
    }

    fn receive(&mut self, message: &mut Message, wait: Duration) -> Result<Received, PeerError> {
        message.clear();
        if self.up.is_none() {
            return Err(self.closed());
        }
        // Checked before the messages, so that all messages from before the end are received first.
        let ended = self.down.is_finished();
        let Some(mut next) = self.next(wait) else {
            return if ended || self.down.is_finished() { self.end() } else { Ok(Received::Idle) };
        };
        std::mem::swap(&mut next, message);
        self.down.give_back(next);
        self.counts.received_messages += 1;
        self.counts.received_bytes += message.head.len() as u64 + message.payload_bytes();
        Ok(Received::Data)
    }

    fn flush(&mut self, wait: Duration) -> Result<bool, PeerError> {
        let closed = self.closed();
        let up = self.up.as_mut().ok_or(closed)?;
        // All messages have been handed over; the caller may wait for space for the next one. Wait until half of the queue is free,
        // since otherwise the two ends would wake each other for every message.
        self.empty = self.empty.take().or_else(|| up.empty());
        if self.empty.is_none() && !wait.is_zero() {
            let (until, mut checks) = (Instant::now() + wait, 0);
            while 2 * up.in_flight() > self.capacity && !up.is_closed() && Instant::now() < until {
                checks += 1;
                if checks < SPINS {
                    std::thread::yield_now()
                } else {
                    std::thread::sleep(SPACE_STEP.min(wait))
                }
            }
            self.empty = up.empty();
        }
        Ok(true)
    }

    fn close(&mut self, wait: Duration) -> bool {
        self.mine.said_bye.store(true, Ordering::Release);
        let until = Instant::now() + wait;
        let Some(up) = self.up.take() else { return false };
        while up.in_flight() > 0 && !up.is_closed() && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        let all = up.in_flight() == 0;
        drop(up);
        self.theirs.bell.ring();
        all
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.mine.bell.as_fd()
    }

    fn name(&self) -> &str {
        &self.other
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl Drop for InprocPeer {
    fn drop(&mut self) {
        self.up = None;
        self.theirs.bell.ring();
    }
}
