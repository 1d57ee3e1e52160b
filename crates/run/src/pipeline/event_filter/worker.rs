//! A worker of the event filter, and the link to it.
//!
//! ```text
//!  FilterStage ─ WorkerLink ══ Job: events of a batch ══► FilterWorker: decide ─┐
//!                    ▲ ▲                                      │                 │
//!                    │ ╚═════════ Job, when it is done ═══════╝                 │ event by event
//!                    └─────────── AnswerSheet ◄─────────────────────────────────┘
//! ```
//! A circuit of one job: a worker has one batch at most.

use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{AnswerSheet, EventFilter, Events};

use super::BatchNumber;
use crate::pipeline::Signals;

const WAIT: Duration = Duration::from_millis(100);

/// What goes to a worker and comes back: what it decides, and where it answers.
#[derive(Debug, Default)]
struct Job(Option<(Arc<Events>, Arc<AnswerSheet>)>);

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
    /// Its answers: of the events that it has or, while it has none, of those that it had last.
    sheet: Arc<AnswerSheet>,
    asked: Option<Asked>,
}

/// The events that a worker has.
#[derive(Debug)]
struct Asked {
    number: BatchNumber,
    events: Arc<Events>,
    /// The event that it is at, and since when, as far as it was seen.
    at: usize,
    since: Instant,
    is_overdue: bool,
}

/// What a worker has said.
pub(super) enum Answer {
    /// It has decided what it was asked.
    Done,
    /// It has ended in the midst of it.
    Ended,
    /// It has answered or ended after it was given up.
    Late,
}

impl Asked {
    /// The event that it is at, in words.
    fn event(&self) -> String {
        match self.events.events.get(self.at) {
            Some(event) => format!("the event of trigger {}", event.trigger),
            None => "the end of its batch".to_owned(),
        }
    }
}

impl FilterWorker {
    /// A worker, and the link to it.
    pub(crate) fn new(name: String, filter: Box<dyn EventFilter>) -> (WorkerLink, FilterWorker) {
        let (up, down) = circuit(1, Job::default);
        let link = WorkerLink { name, jobs: up, free: None, sheet: Arc::default(), asked: None };
        (link, FilterWorker { filter, jobs: down })
    }

    /// Decides until the stage is gone.
    pub(crate) fn run(mut self) {
        while !self.jobs.is_finished() {
            let Some(job) = self.jobs.receive_wait(WAIT) else { continue };
            if let Job(Some((events, sheet))) = &job {
                self.filter.decide(events, &mut sheet.answers());
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
        self.jobs.is_closed() || self.asked.as_ref().is_some_and(|asked| asked.is_overdue)
    }

    /// Asks it to decide these events of a batch.
    ///
    /// # Panics
    /// When it is not free.
    pub(super) fn ask(&mut self, number: BatchNumber, batch: &Arc<Events>, due: Range<usize>, now: Instant) {
        let mut job = self.free.take().expect("a worker that is free is asked");
        let at = due.start;
        match Arc::get_mut(&mut self.sheet) {
            Some(sheet) => sheet.reset(due),
            None => self.sheet = Arc::new(AnswerSheet::of(due)),
        }
        self.asked = Some(Asked { number, events: batch.clone(), at, since: now, is_overdue: false });
        job.0 = Some((batch.clone(), self.sheet.clone()));
        self.jobs.send(job);
    }

    /// Takes what it has said since the last call: of which batch, and its answers to that.
    pub(super) fn answer(&mut self, signals: &Signals) -> Option<(Answer, BatchNumber, &AnswerSheet)> {
        // Before the job is looked for: what it has said before its end is there.
        let has_ended = self.jobs.is_closed();
        let Some(mut job) = self.jobs.empty() else {
            let mut asked = self.asked.take_if(|_| has_ended)?;
            asked.at = self.sheet.next_open(asked.at);
            signals.note_failure(format!(
                "the event filter's worker \"{}\" panicked at {}, which is undecided; it gets no more",
                self.name,
                asked.event()
            ));
            let answer = if asked.is_overdue { Answer::Late } else { Answer::Ended };
            return Some((answer, asked.number, &self.sheet));
        };
        job.0 = None;
        self.free = Some(job);
        let asked = self.asked.take()?;
        if asked.is_overdue {
            let seconds = asked.since.elapsed().as_secs_f64();
            tracing::warn!("the event filter's worker \"{}\" has answered after {seconds:.3} s", self.name);
            return Some((Answer::Late, asked.number, &self.sheet));
        }
        Some((Answer::Done, asked.number, &self.sheet))
    }

    /// When its next answer is due; `None` if none is expected, or it is overdue already.
    pub(super) fn due(&self, deadline: Duration) -> Option<Instant> {
        let asked = self.asked.as_ref().filter(|asked| !asked.is_overdue)?;
        Some(asked.since + deadline)
    }

    /// Sees how far it has come. Gives it up if it has been at one event for the deadline; returns the batch and its answers then.
    pub(super) fn expire(&mut self, now: Instant, deadline: Duration) -> Option<(BatchNumber, &AnswerSheet)> {
        let asked = self.asked.as_mut().filter(|asked| !asked.is_overdue)?;
        let at = self.sheet.next_open(asked.at);
        if at > asked.at {
            (asked.at, asked.since) = (at, now);
        }
        if asked.since + deadline > now {
            return None;
        }
        asked.is_overdue = true;
        tracing::warn!(
            "the event filter's worker \"{}\" has been at {} for {} ms: what it does not answer is undecided, and it gets no more until it does",
            self.name,
            asked.event(),
            deadline.as_millis()
        );
        Some((asked.number, &self.sheet))
    }

    /// Has `waker` woken when it answers; `false` if it has.
    pub(super) fn register(&self, waker: &Waker) -> bool {
        self.asked.is_none() || self.jobs.register(waker)
    }

    /// At the end, in words, what it was asked and has not answered.
    pub(super) fn what_it_owes(&self) -> Option<String> {
        let asked = self.asked.as_ref()?;
        Some(format!(
            "the event filter's worker \"{}\" never answered for {}, at which it has been for {} s: it hangs; look at what `[filter]` asks for",
            self.name,
            asked.event(),
            asked.since.elapsed().as_secs()
        ))
    }
}
