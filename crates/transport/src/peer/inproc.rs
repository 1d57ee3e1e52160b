//! Messages between threads of one process: handed over as they are.
//!
//! ```text
//!  Message ─► circuit of queue_messages ─► Message         both ways; slices and leases change hands, nothing is copied
//!                  └─ bell: a descriptor, rung only for whoever waits on it
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

/// Most connections that wait at an endpoint.
const MOST_WAITING: usize = 64;

/// A sender that waits for room looks so often before it sleeps, and then sleeps so long between two looks.
const LOOKS: u32 = 200;
const LOOK_STEP: Duration = Duration::from_micros(20);

/// Every name that somebody listens under.
static ENDPOINTS: Mutex<BTreeMap<String, Arc<UnitEndpoint>>> = Mutex::new(BTreeMap::new());

fn endpoints() -> MutexGuard<'static, BTreeMap<String, Arc<UnitEndpoint>>> {
    ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bell(place: &str) -> Result<Arc<Bell>, PeerError> {
    Bell::new().map_err(|cause| PeerError::System { place: place.to_owned(), call: "eventfd", cause })
}

/// Where connections wait for a listener.
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

    /// Closes it: nobody finds the name any more, and who waits is let go.
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
        return Err(PeerError::Refused { place, words: format!("{MOST_WAITING} connections wait already") });
    }
    waiting.push_back(far);
    drop(waiting);
    endpoint.bell.ring();
    Ok(near)
}

/// What one end tells the other beside messages.
struct End {
    bell: Arc<Bell>,
    /// It has closed the connection, rather than died.
    said_bye: AtomicBool,
}

impl End {
    fn new(place: &str) -> Result<Arc<End>, PeerError> {
        Ok(Arc::new(End { bell: bell(place)?, said_bye: AtomicBool::new(false) }))
    }
}

/// One end of a connection inside the process.
pub(super) struct InprocPeer {
    /// `None` once we have closed it.
    up: Option<Upstream<Message>>,
    down: Downstream<Message>,
    /// An empty message for the next that is sent.
    empty: Option<Message>,
    mine: Arc<End>,
    theirs: Arc<End>,
    other: String,
    place: String,
    longest_payload: u64,
    /// Messages that wait for the other end at most.
    capacity: usize,
    counts: Counts,
}

impl InprocPeer {
    fn closed(&self) -> PeerError {
        PeerError::Closed { place: self.place.clone() }
    }

    /// Nothing comes any more: whether in order.
    fn end(&self) -> Result<Received, PeerError> {
        if self.theirs.said_bye.load(Ordering::Acquire) {
            return Ok(Received::End);
        }
        Err(PeerError::Lost {
            place: self.place.clone(),
            cause: "the unit is gone without a word".to_owned(),
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
            let cause = "the unit is gone".to_owned();
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
        // Looked at before the messages: what was sent before it ended is received before its end.
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
        // All has been handed over; what may be waited for is room for the next. Half of all room, or the two ends would wake each
        // other for every single message.
        self.empty = self.empty.take().or_else(|| up.empty());
        if self.empty.is_none() && !wait.is_zero() {
            let (until, mut looks) = (Instant::now() + wait, 0);
            while 2 * up.in_flight() > self.capacity && !up.is_closed() && Instant::now() < until {
                looks += 1;
                if looks < LOOKS { std::thread::yield_now() } else { std::thread::sleep(LOOK_STEP.min(wait)) }
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
