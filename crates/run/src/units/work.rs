//! What each kind of unit does beside talking: take events in, write events out, hold the trigger back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_build::Histogram;
use thalweg_build::unit::{Address, BuilderUnit, EventManager, Gate, Machine, Outbox, ReadoutUnit};
use thalweg_data::ring::Downstream;
use thalweg_data::{Busy, EventSink, Events, Mark, Message, SinkError, Unit};
use thalweg_record::EventWriter;

use crate::pipeline::{BusyShare, Ledgered, Outcome, Signals};
use crate::supervise::BuildGauges;

/// Events that a builder unit writes at a time.
const EVENTS_PER_WRITE: usize = 256;
/// Events are on file at this age at the latest, whatever the age of a batch: until then readout units keep them.
const FLUSH_NS: u64 = 100_000_000;

/// A unit's machine, and its part in the data path.
pub(crate) trait Work: Send {
    /// The rules.
    fn machine(&mut self) -> &mut dyn Machine;
    /// Moves data on; whether there was any.
    fn step(&mut self, now: Mark, signals: &Signals) -> bool;
    /// Whether nothing is left to do in this run.
    fn is_over(&self, signals: &Signals) -> bool;
    /// The last thing it does.
    fn finish(&mut self, signals: &Signals);
    /// How long it may be left alone when no peer says anything.
    fn rest(&self) -> Duration {
        Duration::from_millis(1)
    }
}

/// A readout unit that is asked to let go of what it keeps is waited for so long: what is missing of a range may come only then.
const LET_GO_NS: u64 = 500_000_000;

/// A readout unit: events of its own builder come in by a ring.
pub(crate) struct ReadoutWork {
    pub(crate) unit: ReadoutUnit,
    pub(crate) inlet: Downstream<Events>,
    pub(crate) waiting: Option<Events>,
    /// A batch behind which everything is to be written, and since when: it goes back when nothing is kept.
    pub(crate) write_all: Option<(Events, Mark)>,
    pub(crate) ended: bool,
    pub(crate) ship: Ledgered,
}

impl Work for ReadoutWork {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, now: Mark, _signals: &Signals) -> bool {
        let has_let_go =
            |since: Mark, unit: &ReadoutUnit| unit.held_events() == 0 || now.since_ns(since) >= LET_GO_NS;
        if let Some((events, _)) = self.write_all.take_if(|(_, since)| has_let_go(*since, &self.unit)) {
            self.inlet.give_back(events);
        }
        if self.waiting.is_none() {
            self.waiting = self.inlet.receive();
        }
        let mut any = false;
        if let Some(mut events) = self.waiting.take() {
            match events.events.is_empty() || self.unit.insert(&mut events) {
                true => {
                    any = true;
                    let write_all = events.write_all;
                    events.clear();
                    match write_all {
                        true => self.write_all = Some((events, now)),
                        false => self.inlet.give_back(events),
                    }
                }
                // It keeps as much as it may: the reader is held up, and so are the boards.
                false => self.waiting = Some(events),
            }
        } else if !self.ended && self.inlet.is_finished() {
            self.ended = true;
            self.unit.end_run();
        }
        self.ship.publish_at(now.0, self.unit.tally());
        any
    }

    fn rest(&self) -> Duration {
        // The ring of events has no descriptor.
        Duration::from_micros(100)
    }

    fn is_over(&self, signals: &Signals) -> bool {
        self.ended && (self.unit.is_idle() || signals.units_given_up())
    }

    fn finish(&mut self, signals: &Signals) {
        self.ship.publish(self.unit.tally());
        if !self.unit.is_idle() {
            signals.fail(format!(
                "{} events were kept for builder units that did not write them in time",
                self.unit.held_events()
            ));
        }
        signals.readout_is_over();
    }
}

/// A builder unit: whole events go to its files.
pub(crate) struct BuilderWork {
    pub(crate) unit: BuilderUnit,
    pub(crate) sink: EventWriter,
    /// Of what its files say.
    pub(crate) outcome: Outcome,
    pub(crate) batch: Events,
    /// The unit takes no more events, because space is waited for.
    pub(crate) on_hold: bool,
    pub(crate) filing: Filing,
    /// The unit's own account of events, and its recording's.
    pub(crate) build: Ledgered,
    pub(crate) record: Ledgered,
    pub(crate) gauges: Arc<BuildGauges>,
    pub(crate) event_bytes: Histogram,
    pub(crate) build_ns: Histogram,
}

/// What was given to the files and may not be there yet. Only what is there may be forgotten elsewhere: what a file's writer holds dies
/// with the process.
#[derive(Debug)]
pub(crate) struct Filing {
    /// The unit's position behind each write, by how many events had been given then.
    given: VecDeque<(u64, u64)>,
    /// When the first event was given that nobody has asked to be on file.
    since: Option<Mark>,
    /// So many events wait at most.
    most_waiting: u64,
}

impl Filing {
    /// Nothing was given; the unit holds `slots` events at most, until they are on file.
    pub(crate) fn new(slots: u32) -> Filing {
        // With all of them in a writer's hands nothing would come any more.
        Filing { given: VecDeque::new(), since: None, most_waiting: u64::from(slots / 4).max(1) }
    }

    /// Events were given, `given` since the start, and the unit is at this position.
    fn give(&mut self, given: u64, position: u64, now: Mark) {
        self.given.push_back((given, position));
        self.since = self.since.or(Some(now));
    }

    /// Whether it is time to put on file what was given.
    fn is_due(&self, settled: u64, now: Mark) -> bool {
        self.since.is_some_and(|since| self.is_urgent(settled) || now.since_ns(since) >= FLUSH_NS)
    }

    /// Whether so many events wait that soon none could come any more: not even `[record] sync` by time is waited for.
    fn is_urgent(&self, settled: u64) -> bool {
        self.given.back().map_or(0, |(given, _)| given - settled) >= self.most_waiting
    }

    /// The unit's position up to which everything is on file, when that is news.
    fn settle(&mut self, settled: u64) -> Option<u64> {
        let done = self.given.partition_point(|(given, _)| *given <= settled);
        let last = self.given.drain(..done).next_back();
        if self.given.is_empty() {
            self.since = None;
        }
        last.map(|(_, position)| position)
    }
}

impl BuilderWork {
    fn publish_at(&mut self, now: Mark) {
        self.build.publish_at(now.0, self.unit.tally());
        self.record.publish_at(now.0, self.sink.tally());
    }

    fn publish(&self) {
        self.build.publish(self.unit.tally());
        self.record.publish(self.sink.tally());
    }

    fn write(&mut self, now: Mark, signals: &Signals) {
        for event in &self.batch.events {
            self.event_bytes.add(event.bytes);
            self.build_ns.add(event.closed.since_ns(event.first_arrival));
        }
        self.gauges.passed_on(&self.batch);
        let result = self.sink.write(&self.batch);
        self.batch.clear();
        self.filing.give(self.sink.tally().total_input(Unit::Events), self.unit.position(), now);
        self.heed(result, signals);
    }

    /// Does what a result of the sink asks for.
    fn heed(&mut self, result: Result<(), SinkError>, signals: &Signals) {
        self.outcome.heed(result, signals);
        if self.outcome.is_waiting() != self.on_hold {
            self.on_hold = self.outcome.is_waiting();
            self.unit.hold(self.on_hold);
        }
    }

    /// Lets others forget what is on file, and sees to it that it gets there.
    fn file(&mut self, now: Mark, signals: &Signals) {
        let settled = self.sink.events_settled();
        let is_urgent = self.filing.is_urgent(settled);
        if is_urgent || self.filing.is_due(settled, now) {
            self.filing.since = None;
            let result = if is_urgent { self.sink.force() } else { self.sink.flush() };
            self.heed(result, signals);
        }
        if let Some(position) = self.filing.settle(self.sink.events_settled()) {
            self.unit.written(position);
        }
    }
}

impl Work for BuilderWork {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, now: Mark, signals: &Signals) -> bool {
        let any = self.unit.pull(&mut self.batch, EVENTS_PER_WRITE, now);
        if any {
            self.write(now, signals);
        } else {
            let result = self.sink.advance(now);
            self.heed(result, signals);
        }
        self.file(now, signals);
        if self.build.is_due(now.0) {
            self.publish_at(now);
            self.gauges.look_at(&self.unit, &self.event_bytes, &self.build_ns);
        }
        any
    }

    fn is_over(&self, signals: &Signals) -> bool {
        signals.readouts_are_over() && self.unit.is_idle() || signals.units_given_up()
    }

    fn finish(&mut self, signals: &Signals) {
        signals.builder_closes_its_files();
        self.outcome.close(&mut self.sink, EventSink::complete, EventSink::finish, signals);
        self.publish();
        self.gauges.look_at(&self.unit, &self.event_bytes, &self.build_ns);
        signals.builder_is_over();
    }
}

/// The event manager: nothing but talk.
pub(crate) struct ManagerWork {
    pub(crate) unit: EventManager,
}

impl Work for ManagerWork {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, _now: Mark, _signals: &Signals) -> bool {
        false
    }

    fn is_over(&self, signals: &Signals) -> bool {
        signals.readouts_are_over() && signals.builders_are_over() || signals.units_given_up()
    }

    fn finish(&mut self, _signals: &Signals) {}
}

/// The side of the trigger: raises this process's BUSY as long as the event manager says so, or nothing.
pub(crate) struct GateWork {
    machine: GateMachine,
    busy: BusyShare,
    gauges: Arc<BuildGauges>,
    first_word: FirstWord,
}

/// Until the event manager says for the first time that triggers may come, emulated boards wait for it: to refuse their triggers
/// meanwhile would be a loss of nothing but the start.
pub(crate) struct FirstWord {
    /// Set then.
    pub(crate) may_begin: Arc<AtomicBool>,
    /// The event manager, and where it is looked for.
    pub(crate) manager: String,
    /// When it began to be looked for.
    pub(crate) since: Option<Mark>,
    /// The run fails when it has not come by then; `None` where nobody waits for it, or any more.
    pub(crate) most_ms: Option<u64>,
}

impl FirstWord {
    fn step(&mut self, gate: &Gate, now: Mark, signals: &Signals) {
        if !gate.is_closed(now) {
            self.may_begin.store(true, Ordering::Release);
            self.most_ms = None;
        }
        let since = *self.since.get_or_insert(now);
        let Some(most_ms) = self.most_ms.filter(|most_ms| now.since_ns(since) >= most_ms * 1_000_000) else {
            return;
        };
        self.most_ms = None;
        let (manager, seconds) = (&self.manager, most_ms as f64 / 1000.0);
        let words = match gate.has_heard() {
            false => format!(
                "the event manager {manager} was not heard within {seconds} s: start the node that hosts it, and look at its log"
            ),
            true => format!(
                "the event manager {manager} has said nothing but \"busy\" for {seconds} s: look at the log of its node for the units that are missing"
            ),
        };
        signals.fail(format!(
            "no trigger came, since emulated boards wait for the event manager: {words}; `[build.units] first_word_ms` is how long they wait"
        ));
    }
}

struct GateMachine(Gate);

impl GateWork {
    /// Raised until the event manager is heard. How long it was raised is shown in `gauges`.
    pub(crate) fn new(
        gate: Gate,
        busy: Arc<Busy>,
        gauges: Arc<BuildGauges>,
        first_word: FirstWord,
    ) -> GateWork {
        let mut busy = BusyShare::new(busy);
        busy.set(true, Mark(0));
        GateWork { machine: GateMachine(gate), busy, gauges, first_word }
    }
}

impl Machine for GateMachine {
    fn connected(&mut self, _to: Address, _now: Mark) {}

    fn disconnected(&mut self, from: Address, _now: Mark, outbox: &mut Outbox) {
        outbox.forget(from);
    }

    fn on_message(&mut self, _from: Address, message: &Message, now: Mark) {
        self.0.on_message(message, now);
    }

    fn poll(&mut self, _now: Mark, _outbox: &mut Outbox) {}
}

impl Work for GateWork {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.machine
    }

    fn step(&mut self, now: Mark, signals: &Signals) -> bool {
        self.busy.set(self.machine.0.is_closed(now), now);
        self.first_word.step(&self.machine.0, now, signals);
        self.gauges.set_busy(self.busy.share(now));
        false
    }

    fn is_over(&self, signals: &Signals) -> bool {
        signals.readouts_are_over() || signals.units_given_up()
    }

    fn finish(&mut self, _signals: &Signals) {
        self.busy.lower();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_file_is_told_and_it_gets_there_in_time() {
        let mut filing = Filing::new(400);
        assert!(!filing.is_due(0, Mark(u64::MAX)), "nothing was given");
        filing.give(10, 0, Mark(5));
        filing.give(70, 1, Mark(6));
        assert_eq!((filing.is_due(0, Mark(7)), filing.is_due(0, Mark(5 + FLUSH_NS))), (false, true));
        assert_eq!((filing.settle(9), filing.settle(69)), (None, Some(0)));
        filing.give(170, 3, Mark(8));
        assert!(filing.is_due(69, Mark(9)), "101 of 400 slots wait");
        assert_eq!((filing.settle(170), filing.settle(170)), (Some(3), None));
        assert!(!filing.is_due(170, Mark(u64::MAX)));
    }
}
