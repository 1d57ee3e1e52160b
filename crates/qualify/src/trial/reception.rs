//! Counts what comes of a trial, on a thread for each socket, until all is there or nothing comes any more.
//!
//! ```text
//!  UdpReceiver of each output ─► label ─┬─ of this run and trial ─► received, longest gap at a socket
//!                                       └─ of another ────────────► left out
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_data::{Frames, Received};
use thalweg_transport::{TransportError, UdpReceiver};

use super::payload::Label;

/// A look at whether to end.
const WAIT: Duration = Duration::from_millis(20);
/// Between two looks at whether all is there.
const CHECK_EVERY: Duration = Duration::from_micros(500);

/// What came of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reception {
    /// Datagrams.
    pub received: u64,
    /// Of them, more than a source has sent events.
    pub doubled: u64,
    /// Of them, those of the second span of a schedule.
    pub of_second: u64,
    /// The longest time between two that came to a socket, s.
    pub longest_gap_s: f64,
    /// From the first that came to the last, s.
    pub span_s: f64,
}

/// The trial that is counted now.
#[derive(Default)]
struct Counting {
    run: u64,
    trial: u32,
    /// The first event of the second span.
    second: u64,
    received: u64,
    of_second: u64,
    of_source: Vec<u64>,
    first: Option<Instant>,
    last: Option<Instant>,
    longest_gap: Duration,
    /// When something last came, by socket: one that is busy hides no gap of another.
    last_of_socket: Vec<Option<Instant>>,
    drops_of_socket: Vec<u64>,
    failure: Option<String>,
}

impl Counting {
    fn count(&mut self, socket: usize, label: Label, now: Instant) {
        if (label.run, label.trial) != (self.run, self.trial) {
            return;
        }
        self.received += 1;
        self.of_second += u64::from(u64::from(label.event) >= self.second);
        let source = usize::from(label.source);
        if self.of_source.len() <= source {
            self.of_source.resize(source + 1, 0);
        }
        self.of_source[source] += 1;
        if let Some(last) = self.last_of_socket[socket].replace(now) {
            self.longest_gap = self.longest_gap.max(now.saturating_duration_since(last));
        }
        // Threads of two sockets may count in another order than they looked at the clock.
        self.first = Some(self.first.map_or(now, |first| first.min(now)));
        self.last = self.last.max(Some(now));
    }
}

/// The receiving side. Dropping it ends its threads.
pub struct Receiver {
    counting: Arc<Mutex<Counting>>,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

fn locked(counting: &Mutex<Counting>) -> MutexGuard<'_, Counting> {
    counting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    /// Counts what comes to these sockets, of one run.
    ///
    /// # Errors
    /// When there is no thread for one of them.
    pub fn start(run: u64, sockets: Vec<UdpReceiver>) -> std::io::Result<Receiver> {
        let of_sockets = sockets.len();
        let counting = Counting {
            run,
            last_of_socket: vec![None; of_sockets],
            drops_of_socket: vec![0; of_sockets],
            ..Counting::default()
        };
        let mut receiver = Receiver {
            counting: Arc::new(Mutex::new(counting)),
            ending: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        for (number, socket) in sockets.into_iter().enumerate() {
            let (own, end) = (receiver.counting.clone(), receiver.ending.clone());
            let thread = std::thread::Builder::new().name("receive trials".to_owned()).spawn(move || {
                if let Err(error) = receive(number, socket, &own, &end) {
                    locked(&own).failure = Some(error.to_string());
                }
            })?;
            receiver.threads.push(thread);
        }
        Ok(receiver)
    }

    /// Forgets the trial before: what comes of it now is counted nowhere. Events from `second` on are counted apart, too.
    pub fn begin(&self, trial: u32, second: u64) {
        let mut counting = locked(&self.counting);
        *counting = Counting {
            run: counting.run,
            trial,
            second,
            last_of_socket: vec![None; counting.last_of_socket.len()],
            drops_of_socket: std::mem::take(&mut counting.drops_of_socket),
            failure: counting.failure.take(),
            ..Counting::default()
        };
    }

    /// Waits until `sent` have come, of `events` from each source, or nothing has for `silence`.
    ///
    /// # Errors
    /// Why nothing can be received any more.
    pub fn finish(&self, sent: u64, events: u64, silence: Duration) -> Result<Reception, String> {
        let began = Instant::now();
        loop {
            let counting = locked(&self.counting);
            if let Some(failure) = &counting.failure {
                return Err(failure.clone());
            }
            let quiet = counting.last.map_or(began, |last| last.max(began)).elapsed();
            if counting.received >= sent || quiet >= silence {
                let doubled = counting.of_source.iter().map(|count| count.saturating_sub(events)).sum();
                let span =
                    counting.first.zip(counting.last).map_or(Duration::ZERO, |(first, last)| last - first);
                return Ok(Reception {
                    received: counting.received,
                    doubled,
                    of_second: counting.of_second,
                    longest_gap_s: counting.longest_gap.as_secs_f64(),
                    span_s: span.as_secs_f64(),
                });
            }
            drop(counting);
            std::thread::sleep(CHECK_EVERY);
        }
    }

    /// What the sockets have thrown away since they were opened.
    pub fn socket_drops(&self) -> u64 {
        locked(&self.counting).drops_of_socket.iter().sum()
    }
}

fn receive(
    number: usize,
    mut receiver: UdpReceiver,
    counting: &Mutex<Counting>,
    ending: &AtomicBool,
) -> Result<(), TransportError> {
    let mut frames = Frames::default();
    while !ending.load(Ordering::Acquire) {
        frames.clear();
        if receiver.receive(&mut frames, WAIT)? == Received::End {
            break;
        }
        let now = Instant::now();
        let mut counting = locked(counting);
        for slice in &frames.slices {
            if let Some(label) = Label::read(frames.bytes(*slice)) {
                counting.count(number, label, now);
            }
        }
        counting.drops_of_socket[number] = receiver.socket_drops();
    }
    Ok(())
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}
