//! A worker of the event filter, and the link to it.
//!
//! ```text
//!  FilterStage ─ WorkerLink ══ Job: batch ══► FilterWorker: decide
//!                    ▲                            │
//!                    ╚══════ Job: answers ════════╝       a circuit of one job: it has one batch at most
//! ```

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{EventFilter, Events};

use super::BatchNumber;
use crate::pipeline::Signals;

const WAIT: Duration = Duration::from_millis(100);

/// What goes to a worker and comes back.
#[derive(Debug, Default)]
struct Job {
    batch: Option<(BatchNumber, Arc<Events>)>,
    keep: Vec<bool>,
}

/// A thread that decides.
pub(crate) struct FilterWorker {
    filter: Box<dyn EventFilter>,
    jobs: Downstream<Job>,
}

/// The end of the stage.
pub(crate) struct WorkerLink {
    name: String,
    jobs: Upstream<Job>,
    /// The job, while the worker has nothing to do.
    free: Option<Job>,
    asked: Option<Asked>,
}

/// The batch that a worker has.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: BatchNumber,
    events: usize,
    since: Instant,
    is_overdue: bool,
}

/// What a worker has said.
pub(super) enum Answer<'w> {
    /// Nothing new.
    None,
    /// Which events of a batch are kept.
    Of(BatchNumber, &'w mut Vec<bool>),
    /// It has ended in the midst of a batch.
    Never(BatchNumber),
}

impl FilterWorker {
    /// A worker, and the link to it.
    pub(crate) fn new(name: String, filter: Box<dyn EventFilter>) -> (WorkerLink, FilterWorker) {
        let (up, down) = circuit(1, Job::default);
        (WorkerLink { name, jobs: up, free: None, asked: None }, FilterWorker { filter, jobs: down })
    }

    /// Decides until the stage is gone.
    pub(crate) fn run(mut self) {
        while !self.jobs.is_finished() {
            let Some(mut job) = self.jobs.receive_wait(WAIT) else { continue };
            if let Some((_, events)) = &job.batch {
                job.keep.clear();
                job.keep.resize(events.events.len(), false);
                self.filter.decide(events, &mut job.keep);
            }
            self.jobs.give_back(job);
        }
    }
}

impl WorkerLink {
    /// Returns true if it has nothing to do.
    pub(super) fn is_free(&self) -> bool {
        self.free.is_some()
    }

    /// Returns true if no answer can be expected: it has not answered in time, or has ended.
    pub(super) fn is_out(&self) -> bool {
        self.jobs.is_closed() || self.asked.is_some_and(|asked| asked.is_overdue)
    }

    /// Asks it to decide a batch.
    ///
    /// # Panics
    /// When it is not free.
    pub(super) fn ask(&mut self, number: BatchNumber, events: Arc<Events>, now: Instant) {
        let mut job = self.free.take().expect("a worker that is free is asked");
        let count = events.events.len();
        self.asked = Some(Asked { number, events: count, since: now, is_overdue: false });
        job.batch = Some((number, events));
        self.jobs.send(job);
    }

    /// Takes what it has said since the last call.
    pub(super) fn answer(&mut self, signals: &Signals) -> Answer<'_> {
        // Before the job is looked for: what it has said before its end is there.
        let has_ended = self.jobs.is_closed();
        let Some(mut job) = self.jobs.empty() else {
            if let Some(asked) = self.asked.take_if(|_| has_ended) {
                signals.note_failure(format!(
                    "the event filter's worker \"{}\" panicked: its {} events are undecided, and it gets no more",
                    self.name, asked.events
                ));
                return Answer::Never(asked.number);
            }
            return Answer::None;
        };
        if let Some(asked) = self.asked.take_if(|asked| asked.is_overdue) {
            let seconds = asked.since.elapsed().as_secs_f64();
            tracing::warn!("the event filter's worker \"{}\" has answered after {seconds:.3} s", self.name);
        }
        self.asked = None;
        let batch = job.batch.take();
        let keep = &mut self.free.insert(job).keep;
        batch.map_or(Answer::None, |(number, _)| Answer::Of(number, keep))
    }

    /// When its answer is due; `None` if none is expected, or it is overdue already.
    pub(super) fn due(&self, deadline: Duration) -> Option<Instant> {
        self.asked.filter(|asked| !asked.is_overdue).map(|asked| asked.since + deadline)
    }

    /// Gives its batch up if the deadline has passed now.
    pub(super) fn expire(&mut self, now: Instant, deadline: Duration) -> Option<BatchNumber> {
        let is_due = self.due(deadline).is_some_and(|due| due <= now);
        let asked = self.asked.as_mut().filter(|_| is_due)?;
        asked.is_overdue = true;
        tracing::warn!(
            "the event filter's worker \"{}\" has not answered within {} ms: {} events are undecided, and it gets no more until it does",
            self.name,
            deadline.as_millis(),
            asked.events
        );
        Some(asked.number)
    }

    /// Has `waker` woken when it answers; `false` if it has.
    pub(super) fn register(&self, waker: &Waker) -> bool {
        self.asked.is_none() || self.jobs.register(waker)
    }

    /// At the end, in words, what it was asked and has not answered.
    pub(super) fn what_it_owes(&self) -> Option<String> {
        let Asked { events, since, .. } = self.asked?;
        let seconds = since.elapsed().as_secs();
        Some(format!(
            "the event filter's worker \"{}\" never answered for {events} events that it got {seconds} s ago: it hangs; look at what `[filter]` asks for",
            self.name
        ))
    }
}
