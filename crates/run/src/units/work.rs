//! The work of each kind of unit besides messages: take events in, write events out, hold the trigger back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use thalweg_build::Histogram;
use thalweg_build::unit::{Address, BuilderUnit, EventManager, Gate, Machine, Outbox, ReadoutUnit};
use thalweg_data::ring::{Downstream, Upstream};
use thalweg_data::{Busy, Events, Mark, Message};

use super::ranges::{KnownManager, RangeNotes};
use crate::gauges::BuildGauges;
use crate::pipeline::{BusyStage, Given, Ledgered, Signals};
use crate::plan::capacity::EVENTS_PER_BATCH;

/// A unit's machine, and its part in the data path.
pub(crate) trait Work: Send {
    /// The rules.
    fn machine(&mut self) -> &mut dyn Machine;
    /// Moves data on; whether there was any.
    fn step(&mut self, now: Mark, signals: &Signals) -> bool;
    /// Returns true if nothing is left to do in this run.
    fn is_over(&self, signals: &Signals) -> bool;
    /// The last thing it does.
    fn finish(&mut self, signals: &Signals);
    /// How long it may be left alone when nobody says anything: its own clocks go by tens of milliseconds.
    fn rest(&self) -> Duration {
        Duration::from_millis(5)
    }
    /// Has `waker` woken when something comes that no descriptor reports; `false` when that has come.
    fn register(&self, _waker: &Waker) -> bool {
        true
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
    pub(crate) ranges: RangeNotes,
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
        let epoch = self.unit.epoch();
        self.ranges.take(self.unit.ranges(), epoch);
        self.ship.publish_at(now.0, self.unit.counters());
        any
    }

    fn register(&self, waker: &Waker) -> bool {
        // Work for which there is no space is let in by messages of its peers.
        self.waiting.is_some() || self.ended || self.inlet.register(waker)
    }

    fn is_over(&self, signals: &Signals) -> bool {
        self.ended && (self.unit.is_idle() || signals.units_given_up())
    }

    fn finish(&mut self, signals: &Signals) {
        self.unit.close_ranges();
        let epoch = self.unit.epoch();
        self.ranges.take(self.unit.ranges(), epoch);
        if let Err(text) = self.ranges.check(self.unit.counters()) {
            signals.fail(text);
        }
        if !self.unit.is_idle() {
            signals.fail(format!(
                "{} events were kept for builder units that did not write them in time",
                self.unit.held_events()
            ));
            self.unit.give_up();
        }
        self.ship.publish(self.unit.counters());
        signals.readout_is_over();
    }
}

/// A builder unit: whole events go to the thread of its files.
pub(crate) struct BuilderWork {
    pub(crate) unit: BuilderUnit,
    /// The outlet to the thread of its files; `None` when the unit has come to its end.
    pub(crate) outlet: Option<Upstream<Events>>,
    pub(crate) spare: Option<Events>,
    /// The events given to that thread, and the thread's reports of them.
    pub(crate) given: Given,
    /// The unit takes no more events, because space is waited for.
    pub(crate) on_hold: bool,
    /// The unit's own counters of events.
    pub(crate) build: Ledgered,
    pub(crate) ranges: RangeNotes,
    pub(crate) gauges: Arc<BuildGauges>,
    pub(crate) event_bytes: Histogram,
    pub(crate) build_ns: Histogram,
}

impl BuilderWork {
    /// Hands whole events to the thread of the files, as long as that keeps up; whether there were any.
    fn pass_on(&mut self, now: Mark) -> bool {
        let Some(outlet) = &mut self.outlet else { return false };
        if self.spare.is_none() {
            self.spare = outlet.empty();
        }
        let Some(events) = &mut self.spare else { return false };
        if !self.unit.pull(events, EVENTS_PER_BATCH, now) {
            return false;
        }
        for event in &events.events {
            self.event_bytes.add(event.bytes);
            self.build_ns.add(event.closed.since_ns(event.first_arrival));
        }
        self.gauges.passed_on(events);
        self.given.give(events.events.len() as u64, self.unit.position());
        self.spare.take().into_iter().for_each(|events| outlet.send(events));
        true
    }

    /// Lets others forget what is on file, and takes nothing while space is waited for.
    fn follow_files(&mut self) {
        if let Some(position) = self.given.settle() {
            self.unit.written(position);
        }
        if self.given.is_on_hold() != self.on_hold {
            self.on_hold = !self.on_hold;
            self.unit.hold(self.on_hold);
        }
    }
}

impl Work for BuilderWork {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, now: Mark, _signals: &Signals) -> bool {
        let any = self.pass_on(now);
        self.follow_files();
        let epoch = self.unit.epoch();
        self.ranges.take(self.unit.ranges(), epoch);
        if self.build.is_due(now.0) {
            self.build.publish_at(now.0, self.unit.counters());
            self.gauges.set_unit(&self.unit, &self.event_bytes, &self.build_ns);
        }
        any
    }

    fn rest(&self) -> Duration {
        // The thread of its files says what is written by a number, and readout units wait for that.
        Duration::from_millis(1)
    }

    fn is_over(&self, signals: &Signals) -> bool {
        let is_done = signals.readouts_are_over() && self.unit.is_idle();
        is_done || self.given.is_given_up() || signals.units_given_up()
    }

    fn finish(&mut self, signals: &Signals) {
        // Its end of the ring: the thread of the files ends when this is gone.
        self.outlet = None;
        self.unit.close_ranges();
        let epoch = self.unit.epoch();
        self.ranges.take(self.unit.ranges(), epoch);
        if let Err(text) = self.ranges.check(self.unit.counters()) {
            signals.fail(text);
        }
        self.build.publish(self.unit.counters());
        self.gauges.set_unit(&self.unit, &self.event_bytes, &self.build_ns);
        signals.builder_is_over();
    }
}

/// The event manager: nothing but talk.
pub(crate) struct ManagerWork {
    pub(crate) unit: EventManager,
    pub(crate) known: KnownManager,
}

impl Work for ManagerWork {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, _now: Mark, _signals: &Signals) -> bool {
        // Its own: it rises above that of a manager before it.
        self.known.note(self.unit.epoch());
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
    busy: BusyStage,
    /// Time of the latest step.
    latest: Mark,
    first_word: FirstWord,
}

/// Until the event manager says for the first time that triggers may come, emulated boards wait for it: to refuse their triggers
/// meanwhile would be a loss of nothing but the start.
pub(crate) struct FirstWord {
    /// Set then.
    pub(crate) may_begin: Arc<AtomicBool>,
    /// The event manager, and where it is looked for.
    pub(crate) manager: String,
    /// When the wait for it began.
    pub(crate) since: Option<Mark>,
    /// The time at which the run fails if it has not come; `None` where it is not waited for, or no longer.
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
        let text = match gate.has_manager() {
            false => format!(
                "the event manager {manager} did not report within {seconds} s: start the node that hosts it, and look at its log"
            ),
            true => format!(
                "the event manager {manager} has said nothing but \"busy\" for {seconds} s: look at the log of its node for the units that are missing"
            ),
        };
        signals.fail(format!(
            "no trigger came, since emulated boards wait for the event manager: {text}; `[build.units] first_word_ms` is how long they wait"
        ));
    }
}

struct GateMachine(Gate);

impl GateWork {
    /// Raised until a message of the event manager comes. For how long it is raised is shown in `gauges`.
    pub(crate) fn new(gate: Gate, busy: Arc<Busy>, gauges: &BuildGauges, first_word: FirstWord) -> GateWork {
        let mut busy = BusyStage::new(busy, gauges);
        busy.set(true, Mark(0));
        GateWork { machine: GateMachine(gate), busy, latest: Mark(0), first_word }
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
        self.latest = now;
        self.busy.set(self.machine.0.is_closed(now), now);
        self.first_word.step(&self.machine.0, now, signals);
        false
    }

    fn is_over(&self, signals: &Signals) -> bool {
        signals.readouts_are_over() || signals.units_given_up()
    }

    fn finish(&mut self, _signals: &Signals) {
        self.busy.set(false, self.latest);
    }
}
