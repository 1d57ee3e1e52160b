//! Builds the live state once per tick and shares it with all clients.
//!
//! ```text
//!  Experiment::state ─► Frame { JSON, event text } ─► latest ─┬► stream 1      each takes the latest when it can:
//!        once per tick, if anybody watches                    └► stream 32     a slow one skips, a stalled one is let go
//! ```
//! A frame is shared, not copied: what is kept for slow readers is one frame each at most.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures_util::stream::{Stream, unfold};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};

use crate::experiment::Experiment;
use crate::state::LiveState;

/// Messages kept for those who come late.
const MESSAGES: usize = 100;

/// The state at one moment.
#[derive(Debug)]
pub(crate) struct Frame {
    made: Instant,
    /// As the experiment gave it.
    pub state: LiveState,
    /// As JSON, in one line.
    pub json: Bytes,
    /// As an event.
    event: Bytes,
    /// The latest messages as events, by number.
    messages: VecDeque<(u64, Bytes)>,
}

impl Frame {
    fn last_message(&self) -> u64 {
        self.messages.back().map_or(0, |(number, _)| *number)
    }
}

/// Makes frames and hands them out.
pub(crate) struct Hub {
    experiment: Arc<dyn Experiment>,
    period: Duration,
    latest: watch::Sender<Option<Arc<Frame>>>,
    making: Mutex<()>,
    places: Arc<Semaphore>,
    most: usize,
}

impl Hub {
    /// A hub for at most `streams` who watch.
    pub fn new(experiment: Arc<dyn Experiment>, period: Duration, streams: usize) -> Hub {
        let places = Arc::new(Semaphore::new(streams));
        Hub {
            experiment,
            period,
            latest: watch::Sender::new(None),
            making: Mutex::new(()),
            places,
            most: streams,
        }
    }

    /// How many watch.
    pub fn streams(&self) -> usize {
        self.most - self.places.available_permits()
    }

    /// Makes frames for ever, as long as anybody watches.
    pub async fn tick(&self) {
        let mut ticks = tokio::time::interval(self.period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.latest.receiver_count() > 0 {
                self.frame().await;
            }
        }
    }

    /// A frame that is no older than a tick; `None` when the experiment cannot say its state.
    pub async fn frame(&self) -> Option<Arc<Frame>> {
        let _making = self.making.lock().await;
        let before = self.latest.borrow().clone();
        // A little younger than a tick, so that the ticker itself always makes one.
        if let Some(frame) = before.as_ref().filter(|frame| frame.made.elapsed() < self.period * 9 / 10) {
            return Some(frame.clone());
        }
        let experiment = self.experiment.clone();
        let make = move || make(&*experiment, before.as_deref());
        let frame = match tokio::task::spawn_blocking(make).await {
            Ok(frame) => Arc::new(frame?),
            Err(failed) => {
                tracing::error!("the state for the page could not be made: {failed}");
                return None;
            }
        };
        self.latest.send_replace(Some(frame.clone()));
        Some(frame)
    }

    /// The events of one who watches: the state at once and then as it changes, each new message. `None` when all places are taken.
    pub fn watch(
        &self,
    ) -> Option<impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + 'static> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let seen = self.latest.borrow().as_ref().map_or(0, |frame| frame.last_message());
        let mut latest = self.latest.subscribe();
        latest.mark_changed();
        let waiting = VecDeque::from([Bytes::from_static(b"retry: 1000\n\n")]);
        let watcher = Watcher { latest, waiting, seen, _place: place };
        Some(unfold(watcher, |mut watcher| async move { Some((Ok(watcher.next().await?), watcher)) }))
    }
}

fn make(experiment: &dyn Experiment, before: Option<&Frame>) -> Option<Frame> {
    let mut messages = before.map(|frame| frame.messages.clone()).unwrap_or_default();
    for message in experiment.messages_after(messages.back().map_or(0, |(number, _)| *number)) {
        messages.push_back((message.number, event("message", &serde_json::to_vec(&message).ok()?)));
        if messages.len() > MESSAGES {
            messages.pop_front();
        }
    }
    let state = experiment.state();
    let json = serde_json::to_vec(&state).ok()?;
    let event = event("state", &json);
    Some(Frame { made: Instant::now(), state, json: json.into(), event, messages })
}

/// One event; JSON without line breaks is one line of data.
fn event(name: &str, json: &[u8]) -> Bytes {
    [b"event: ", name.as_bytes(), b"\ndata: ", json, b"\n\n"].concat().into()
}

struct Watcher {
    latest: watch::Receiver<Option<Arc<Frame>>>,
    waiting: VecDeque<Bytes>,
    /// Number of the last message that was handed out.
    seen: u64,
    _place: OwnedSemaphorePermit,
}

impl Watcher {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.waiting.pop_front() {
                return Some(bytes);
            }
            self.latest.changed().await.ok()?;
            let frame = self.latest.borrow_and_update().clone();
            if let Some(frame) = frame {
                let fresh = frame.messages.iter().filter(|(number, _)| *number > self.seen);
                self.waiting.extend(fresh.map(|(_, event)| event.clone()));
                self.seen = self.seen.max(frame.last_message());
                self.waiting.push_back(frame.event.clone());
            }
        }
    }
}
