//! What each kind of unit does beside talking: take events in, write events out, hold the trigger back.

use std::sync::Arc;
use std::time::Duration;

use thalweg_build::Histogram;
use thalweg_build::unit::{Address, BuilderUnit, EventManager, Gate, Machine, Outbox, ReadoutUnit};
use thalweg_data::ring::Downstream;
use thalweg_data::{Busy, EventSink, Events, Mark, Message, SinkError};
use thalweg_record::{EventWriter, OnFull};

use crate::pipeline::{Ledgered, Signals};
use crate::supervise::BuildGauges;

/// Events that a builder unit writes at a time.
const EVENTS_PER_WRITE: usize = 256;

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

/// A readout unit: events of its own builder come in by a ring.
pub(crate) struct ReadoutWork {
    pub(crate) unit: ReadoutUnit,
    pub(crate) inlet: Downstream<Events>,
    pub(crate) waiting: Option<Events>,
    pub(crate) ended: bool,
    pub(crate) ship: Ledgered,
}

impl Work for ReadoutWork {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, now: Mark, _signals: &Signals) -> bool {
        if self.waiting.is_none() {
            self.waiting = self.inlet.receive();
        }
        let mut any = false;
        if let Some(mut events) = self.waiting.take() {
            match events.events.is_empty() || self.unit.insert(&mut events) {
                true => {
                    any = true;
                    events.clear();
                    self.inlet.give_back(events);
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
    pub(crate) on_full: OnFull,
    pub(crate) batch: Events,
    pub(crate) failed: bool,
    /// The unit's own account of events, and its recording's.
    pub(crate) build: Ledgered,
    pub(crate) record: Ledgered,
    pub(crate) gauges: Arc<BuildGauges>,
    pub(crate) event_bytes: Histogram,
    pub(crate) build_ns: Histogram,
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

    fn write(&mut self, signals: &Signals) {
        for event in &self.batch.events {
            self.event_bytes.add(event.bytes);
            self.build_ns.add(event.closed.since_ns(event.first_arrival));
        }
        self.gauges.passed_on(&self.batch);
        match self.sink.write(&self.batch) {
            Ok(()) => {
                signals.set_paused(false);
                self.unit.hold(false);
            }
            Err(SinkError::Full { .. }) if self.on_full == OnFull::Pause => {
                signals.set_paused(true);
                self.unit.hold(true);
            }
            Err(error) if self.failed => tracing::debug!("{error}"),
            Err(error) => {
                self.failed = true;
                signals.fail(error.to_string());
            }
        }
        self.batch.clear();
        self.unit.written(self.unit.position());
    }
}

impl Work for BuilderWork {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.unit
    }

    fn step(&mut self, now: Mark, signals: &Signals) -> bool {
        let any = self.unit.pull(&mut self.batch, EVENTS_PER_WRITE, now);
        if any {
            self.write(signals);
        } else if let Err(error) = self.sink.advance(now)
            && !std::mem::replace(&mut self.failed, true)
        {
            signals.fail(error.to_string());
        }
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
        if let Err(error) = self.sink.finish()
            && !self.failed
        {
            signals.fail(error.to_string());
        }
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
    busy: Arc<Busy>,
    raised: bool,
}

struct GateMachine(Gate);

impl GateWork {
    pub(crate) fn new(gate: Gate, busy: Arc<Busy>) -> GateWork {
        busy.raise();
        GateWork { machine: GateMachine(gate), busy, raised: true }
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

    fn step(&mut self, now: Mark, _signals: &Signals) -> bool {
        let closed = self.machine.0.is_closed(now);
        match (closed, self.raised) {
            (true, false) => self.busy.raise(),
            (false, true) => self.busy.lower(),
            _ => {}
        }
        self.raised = closed;
        false
    }

    fn is_over(&self, signals: &Signals) -> bool {
        signals.readouts_are_over() || signals.units_given_up()
    }

    fn finish(&mut self, _signals: &Signals) {
        if std::mem::take(&mut self.raised) {
            self.busy.lower();
        }
    }
}
