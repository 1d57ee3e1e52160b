//! The event filter in front of the recorder, on its thread; the workers that decide are threads of their own.
//!
//! ```text
//!  builder ══events══► queue, in order: 7 6 5 4 ─► the oldest, once it is decided ─► recorder
//!                                       │ │ ╚══► worker 1 ══╗ answers, in any order
//!                                       │ ╚════► worker 2 ══╝
//!                                       └ waits for a worker that is free
//! ```
//! A worker reads a batch that others have, too: a worker that never answers keeps a reference to that one batch, whose blocks stay on loan.
//! It answers event by event. When it has been at one event for the deadline, that event is undecided, and another worker gets those that
//! follow:
//!
//! ```text
//!  keep reject keep  ?  · · ·        worker 1 hangs at the fourth
//!                       └─┴─┴──────► worker 2
//! ```

mod worker;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use thalweg_analysis::event_filter::{Prescale, Settings, Undecided};
use thalweg_data::ring::Downstream;
use thalweg_data::{AnswerSheet, Counters, Events, LossReason, Noted, Selected, SourceId, Unit};

use super::{Ledgered, Signals};
use crate::gauges::BuildGauges;
use worker::{Answer, WorkerLink};

pub(crate) use worker::FilterWorker;

/// The counter slots of the filter: of events, and of the fragments of each board from the first one on; empty where these are
/// entered elsewhere.
pub(crate) struct FilterSlots {
    pub(crate) events: Ledgered,
    pub(crate) sources: Vec<Ledgered>,
}

/// What the filter counts.
#[derive(Debug)]
struct FilterCounters {
    events: Counters,
    /// The number of the first board, and the fragments of each.
    first: SourceId,
    sources: Vec<Counters>,
}

/// The number of a batch in its run.
type BatchNumber = u64;

/// A batch that workers may read, too, with what is decided of its events. Its memory is used again.
#[derive(Debug, Default)]
struct SharedBatch {
    events: Arc<Events>,
    verdicts: Vec<Verdict>,
    selected: Vec<Option<Selected>>,
}

/// What is known of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is to be decided. The events behind it are, too.
    Open,
    Keep,
    Reject,
    /// A worker was given up at it.
    Undecided,
}

/// A batch in its turn.
#[derive(Debug)]
struct Queued {
    batch: SharedBatch,
    /// The batch of the ring in which they came: it goes back when they have been recorded.
    shell: Events,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its open events are for a worker that is free.
    Waiting,
    /// A worker has them.
    Asked,
    /// It has none.
    Decided,
}

/// A batch of which it is decided which events are recorded.
#[derive(Debug)]
pub(crate) struct Decided {
    batch: SharedBatch,
    shell: Events,
}

impl Decided {
    /// The events, and which of them are recorded, and why.
    pub(super) fn parts(&self) -> (&Events, &[Option<Selected>]) {
        (&self.batch.events, &self.batch.selected)
    }
}

/// The filter of one recorder.
pub(crate) struct FilterStage {
    inlet: Downstream<Events>,
    workers: Vec<WorkerLink>,
    /// Batches in their order.
    queue: VecDeque<Queued>,
    /// The number of the first of them.
    first: BatchNumber,
    /// The most batches in the queue.
    capacity: usize,
    /// For batches to come.
    spare: Vec<SharedBatch>,
    /// Recorded or left out, and still read by a worker that does not answer.
    lent: Vec<SharedBatch>,
    deadline: Duration,
    undecided: Undecided,
    prescale: Prescale,
    counters: FilterCounters,
    slots: FilterSlots,
    gauges: Arc<BuildGauges>,
    /// Wakes the thread that waits for batches.
    waker: Option<Waker>,
}

/// Lets a thread wait for several rings at once.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl FilterStage {
    /// A filter of what comes from `inlet`, by these workers, with at most `capacity` batches in their turn. The boards are
    /// numbered from `boards.0` on.
    pub(crate) fn new(
        inlet: Downstream<Events>,
        workers: Vec<WorkerLink>,
        settings: &Settings,
        capacity: usize,
        boards: (SourceId, usize),
        slots: FilterSlots,
        gauges: Arc<BuildGauges>,
    ) -> FilterStage {
        // Each worker may keep one for ever.
        let spare = (0..capacity + workers.len()).map(|_| SharedBatch::default()).collect();
        let sources = vec![Counters::default(); boards.1];
        FilterStage {
            inlet,
            lent: Vec::with_capacity(workers.len()),
            workers,
            queue: VecDeque::with_capacity(capacity),
            first: 0,
            capacity,
            spare,
            deadline: Duration::from_millis(settings.deadline_ms),
            undecided: settings.undecided,
            prescale: Prescale::new(settings.prescale),
            counters: FilterCounters { events: Counters::default(), first: boards.0, sources },
            slots,
            gauges,
            waker: None,
        }
    }

    /// Takes the next batch in its order, and waits at most `wait` for it.
    pub(crate) fn receive_wait(&mut self, wait: Duration, signals: &Signals) -> Option<Decided> {
        let until = Instant::now() + wait;
        loop {
            let now = Instant::now();
            self.step(now, signals);
            if let Some(decided) = self.pop() {
                return Some(decided);
            }
            if now >= until || self.is_finished() {
                return None;
            }
            let due = self.workers.iter().filter_map(|worker| worker.due(self.deadline)).min();
            self.sleep(due.map_or(until, |due| due.min(until)).saturating_duration_since(now));
        }
    }

    /// Gives back a batch that was recorded.
    pub(crate) fn give_back(&mut self, decided: Decided) {
        let Decided { mut batch, mut shell } = decided;
        match Arc::get_mut(&mut batch.events) {
            Some(own) => {
                std::mem::swap(own, &mut shell);
                shell.clear();
                self.spare.push(batch);
            }
            None => {
                self.lent.push(batch);
                self.gauges.set_lent(self.lent.len());
            }
        }
        self.inlet.give_back(shell);
    }

    /// Returns true if the builder has ended and nothing is left.
    pub(crate) fn is_finished(&self) -> bool {
        self.queue.is_empty() && self.inlet.is_finished()
    }

    /// The run is over: publishes the slots for the last time, and says which workers have not answered.
    pub(crate) fn finish(&mut self, signals: &Signals) {
        self.collect(signals);
        for worker in &self.workers {
            if let Some(text) = worker.what_it_owes() {
                signals.note_failure(text);
            }
        }
        self.slots.events.publish(&self.counters.events);
        for (slot, counters) in self.slots.sources.iter().zip(&self.counters.sources) {
            slot.publish(counters);
        }
    }

    /// The counters of one board's fragments.
    pub(crate) fn source_counters(&self, source: SourceId) -> Option<&Counters> {
        self.counters.sources.get(source.index().checked_sub(self.counters.first.index())?)
    }

    /// Brings everything a step on.
    fn step(&mut self, now: Instant, signals: &Signals) {
        self.collect(signals);
        self.expire(now);
        self.fill();
        self.hand_out(now);
    }

    /// Takes the answers of the workers.
    fn collect(&mut self, signals: &Signals) {
        let mut any = false;
        for worker in &mut self.workers {
            let Some((answer, number, sheet)) = worker.answer(signals) else { continue };
            any = true;
            let Some(queued) = queued(&mut self.queue, self.first, number) else { continue };
            match answer {
                Answer::Done => queued.done(sheet),
                Answer::Ended => queued.give_up(sheet),
                // An answer that comes late is as good as long as its batch has not left.
                Answer::Late => queued.enter(sheet),
            }
        }
        if any && !self.lent.is_empty() {
            self.reclaim();
        }
    }

    /// Takes batches back that workers have let go of.
    fn reclaim(&mut self) {
        let mut place = 0;
        while let Some(batch) = self.lent.get_mut(place) {
            match Arc::get_mut(&mut batch.events) {
                Some(own) => {
                    own.clear();
                    self.spare.push(self.lent.swap_remove(place));
                }
                None => place += 1,
            }
        }
        self.gauges.set_lent(self.lent.len());
    }

    /// An event at which a worker has been for the deadline is undecided.
    fn expire(&mut self, now: Instant) {
        for worker in &mut self.workers {
            let Some((number, sheet)) = worker.expire(now, self.deadline) else { continue };
            if let Some(queued) = queued(&mut self.queue, self.first, number) {
                queued.give_up(sheet);
            }
        }
    }

    /// Takes batches of the builder as long as there is space.
    fn fill(&mut self) {
        while self.queue.len() < self.capacity
            && let Some(mut batch) = self.spare.pop()
        {
            let Some(mut shell) = self.inlet.receive() else {
                self.spare.push(batch);
                break;
            };
            let state = if shell.events.is_empty() { State::Decided } else { State::Waiting };
            std::mem::swap(Arc::get_mut(&mut batch.events).expect("a spare batch has one owner"), &mut shell);
            batch.verdicts.clear();
            batch.verdicts.resize(batch.events.events.len(), Verdict::Open);
            self.queue.push_back(Queued { batch, shell, state });
        }
    }

    /// Gives open events to workers that are free. While none is there that answers, they are undecided at once.
    fn hand_out(&mut self, now: Instant) {
        let nobody_answers = self.workers.iter().all(WorkerLink::is_out);
        let waiting =
            (self.first..).zip(&mut self.queue).filter(|(_, queued)| queued.state == State::Waiting);
        for (number, queued) in waiting {
            if nobody_answers {
                queued.leave_open_undecided();
                continue;
            }
            let Some(worker) = self.workers.iter_mut().find(|worker| worker.is_free()) else { break };
            let SharedBatch { events, verdicts, .. } = &queued.batch;
            let open = verdicts.iter().position(|verdict| *verdict == Verdict::Open);
            worker.ask(number, events, open.unwrap_or(verdicts.len())..verdicts.len(), now);
            queued.state = State::Asked;
        }
    }

    /// Takes the oldest batch once it is decided, and counts it.
    fn pop(&mut self) -> Option<Decided> {
        self.queue.front().filter(|oldest| oldest.state == State::Decided)?;
        let Queued { mut batch, shell, .. } = self.queue.pop_front()?;
        self.first += 1;
        self.apply(&mut batch);
        self.counters.add(&batch);
        self.publish(&batch.events);
        Some(Decided { batch, shell })
    }

    /// Says which events are recorded, by the verdicts and by what was configured for those that are undecided or rejected.
    fn apply(&mut self, batch: &mut SharedBatch) {
        let SharedBatch { events, verdicts, selected } = batch;
        let undecided = (self.undecided == Undecided::Keep).then_some(Selected::Undecided);
        selected.clear();
        selected.extend(events.events.iter().zip(verdicts).map(|(event, verdict)| match verdict {
            Verdict::Keep => Some(Selected::Kept),
            Verdict::Reject => self.prescale.takes(event.trigger).then_some(Selected::Prescaled),
            Verdict::Open | Verdict::Undecided => undecided,
        }));
        for (mark, noted) in
            [(Selected::Prescaled, Noted::Prescaled), (Selected::Undecided, Noted::Undecided)]
        {
            let count = selected.iter().filter(|selected| **selected == Some(mark)).count() as u64;
            if count > 0 {
                self.counters.events.noted(noted, Unit::Events, count);
            }
        }
    }

    fn publish(&mut self, events: &Events) {
        let FilterSlots { events: slot, sources } = &mut self.slots;
        let counters = std::iter::once(&self.counters.events).chain(&self.counters.sources);
        for (slot, counters) in std::iter::once(slot).chain(sources).zip(counters) {
            match events.header.snapshot {
                Some(number) => slot.snapshot(number, counters),
                None => slot.publish_at(events.header.mark.0, counters),
            }
        }
    }

    /// Sleeps until a batch or an answer comes.
    fn sleep(&mut self, at_most: Duration) {
        let waker = self.waker.get_or_insert_with(|| Waker::from(Arc::new(Unpark(std::thread::current()))));
        let takes_more = self.queue.len() < self.capacity && !self.spare.is_empty();
        let waits_for_batch = takes_more && !self.inlet.is_finished();
        let nothing_came = !waits_for_batch || self.inlet.register(waker);
        if nothing_came && self.workers.iter().all(|worker| worker.register(waker)) {
            std::thread::park_timeout(at_most);
        }
    }
}

/// The batch of this number, if it has not left.
fn queued(queue: &mut VecDeque<Queued>, first: BatchNumber, number: BatchNumber) -> Option<&mut Queued> {
    queue.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
}

impl Queued {
    /// Enters what a worker has answered, where nothing is known yet.
    fn enter(&mut self, sheet: &AnswerSheet) {
        let verdicts = self.batch.verdicts.iter_mut().enumerate().skip(sheet.events().start);
        for (event, verdict) in verdicts {
            if let (Verdict::Open | Verdict::Undecided, Some(keep)) = (&verdict, sheet.get(event)) {
                *verdict = if keep { Verdict::Keep } else { Verdict::Reject };
            }
        }
        if !self.batch.verdicts.contains(&Verdict::Open) {
            self.state = State::Decided;
        }
    }

    /// A worker has decided all open events; one without an answer is undecided.
    fn done(&mut self, sheet: &AnswerSheet) {
        self.enter(sheet);
        self.leave_open_undecided();
    }

    /// A worker is given up at the first event without an answer. Another one gets those that follow, but if it does not answer for any of
    /// them, either: a filter that answers all at the end would take worker after worker.
    fn give_up(&mut self, sheet: &AnswerSheet) {
        self.enter(sheet);
        let Some(event) = self.batch.verdicts.iter_mut().find(|verdict| **verdict == Verdict::Open) else {
            return;
        };
        *event = Verdict::Undecided;
        let start = sheet.events().start;
        let is_rest = start > 0;
        match is_rest && sheet.get(start).is_none() || !self.batch.verdicts.contains(&Verdict::Open) {
            true => self.leave_open_undecided(),
            false => self.state = State::Waiting,
        }
    }

    fn leave_open_undecided(&mut self) {
        let open = self.batch.verdicts.iter_mut().filter(|verdict| **verdict == Verdict::Open);
        open.for_each(|verdict| *verdict = Verdict::Undecided);
        self.state = State::Decided;
    }
}

/// What becomes of an event in the filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Recorded,
    Rejected,
    Lost,
}

impl SharedBatch {
    /// What becomes of each event.
    fn fates(&self) -> impl Iterator<Item = Fate> {
        self.selected.iter().zip(&self.verdicts).map(|(selected, verdict)| match (selected, verdict) {
            (Some(_), _) => Fate::Recorded,
            (None, Verdict::Reject | Verdict::Keep) => Fate::Rejected,
            (None, Verdict::Open | Verdict::Undecided) => Fate::Lost,
        })
    }
}

impl FilterCounters {
    /// Counts a batch: what is selected goes on, and the rest is rejected or, if it is undecided, lost.
    fn add(&mut self, batch: &SharedBatch) {
        let enter = |counters: &mut Counters, unit, count, fate| {
            counters.input(unit, count);
            match fate {
                Fate::Recorded => counters.output(unit, count),
                Fate::Rejected => counters.filtered(unit, count),
                Fate::Lost => counters.lost(LossReason::Undecided, unit, count),
            }
        };
        for fate in [Fate::Recorded, Fate::Rejected, Fate::Lost] {
            let count = batch.fates().filter(|own| *own == fate).count() as u64;
            if count > 0 {
                enter(&mut self.events, Unit::Events, count, fate);
            }
        }
        for ((_, fragments), fate) in batch.events.iter().zip(batch.fates()) {
            for fragment in fragments {
                let place = fragment.source.index().wrapping_sub(self.first.index());
                let Some(counters) = self.sources.get_mut(place) else { continue };
                enter(counters, Unit::Fragments, 1, fate);
                enter(counters, Unit::Bytes, u64::from(fragment.bytes), fate);
            }
        }
    }
}

#[cfg(test)]
mod tests;
