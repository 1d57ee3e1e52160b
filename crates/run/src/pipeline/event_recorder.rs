//! The thread that records events.
//!
//! ```text
//!  Events ══ring══► (filter) ─► EventWriter ─► files            of a builder unit also: what is on file ─► WriteLog
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use thalweg_data::{EventSink, SinkError, SourceId, Unit};
use thalweg_record::EventWriter;

use super::event_inlet::{EventBatch, EventInlet};
use super::recording_state::RecordingState;
use super::write_log::{Ask, WriteLog};
use super::{Ledgered, Signals};

const WAIT: Duration = Duration::from_millis(20);
/// The same where a builder unit waits for events to be on file.
const WAIT_OF_UNIT: Duration = Duration::from_millis(5);

/// Built events, on loan, into their files.
pub(crate) struct EventRecorder {
    pub(crate) inlet: EventInlet,
    pub(crate) sink: EventWriter,
    recording: RecordingState,
    /// The counters of the events themselves.
    events: Ledgered,
    /// Those of the sources' fragments, by source.
    sources: Vec<(SourceId, Ledgered)>,
    /// The log of what is on file, for a builder unit.
    write_log: Option<WriteLog>,
}

impl EventRecorder {
    pub(crate) fn new(
        inlet: EventInlet,
        sink: EventWriter,
        recording: RecordingState,
        events: Ledgered,
        sources: (Range<u16>, Vec<Ledgered>),
    ) -> EventRecorder {
        let sources = sources.0.map(SourceId).zip(sources.1).collect();
        EventRecorder { inlet, sink, recording, events, sources, write_log: None }
    }

    /// One that says what is on file, and sees to it that it gets there in time.
    pub(crate) fn with_write_log(self, write_log: WriteLog) -> EventRecorder {
        EventRecorder { write_log: Some(write_log), ..self }
    }

    /// Records until the builder has ended and its last batch is written.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) -> EventRecorder {
        let wait = if self.write_log.is_some() { WAIT_OF_UNIT } else { WAIT };
        while !self.inlet.is_finished() {
            match self.inlet.receive_wait(wait, signals) {
                Some(batch) => {
                    self.take(&batch, signals);
                    self.inlet.give_back(batch);
                }
                None => self.let_time_pass(signals),
            }
            self.file(signals);
        }
        self.inlet.finish(signals);
        self.recording.close(&mut self.sink, EventSink::complete, EventSink::finish, signals);
        self.events.publish(self.sink.counters());
        for (source, slot) in &self.sources {
            slot.publish(self.sink.source_counters(*source));
        }
        self
    }

    fn take(&mut self, batch: &EventBatch, signals: &Signals) {
        let (events, selected) = batch.parts();
        let header = events.header;
        let sink = &mut self.sink;
        let result = match selected {
            None => sink.write(events),
            Some(selected) => sink.write_selected(events, selected),
        };
        let result = if events.write_all { result.and_then(|()| sink.complete()) } else { result };
        let taken = sink.counters().total_input(Unit::Events);
        self.write_log.iter_mut().for_each(|write_log| write_log.wrote(events.events.len() as u64, taken));
        self.on_result(result, signals);
        match header.snapshot {
            Some(number) => self.events.snapshot(number, self.sink.counters()),
            None => self.events.publish_at(header.mark.0, self.sink.counters()),
        }
        for (source, slot) in &mut self.sources {
            let counters = self.sink.source_counters(*source);
            match header.snapshot {
                Some(number) => slot.snapshot(number, counters),
                None => slot.publish_at(header.mark.0, counters),
            }
        }
    }

    /// Lets time pass although no batch has come. With a builder unit that waits for events to be on file, the clock gives the time;
    /// otherwise batches alone do.
    fn let_time_pass(&mut self, signals: &Signals) {
        let Some(now) = self.write_log.as_ref().map(WriteLog::now) else { return };
        let result = self.sink.advance(now);
        self.on_result(result, signals);
        self.events.publish_at(now.0, self.sink.counters());
    }

    /// Sees to it that what was written gets to the disk in time, and says what is there.
    fn file(&mut self, signals: &Signals) {
        let waiting = self.sink.counters().total_input(Unit::Events) - self.sink.events_settled();
        let result = match self.write_log.as_mut().and_then(|write_log| write_log.ask(waiting)) {
            Some(Ask::Force) => Some(self.sink.force()),
            Some(Ask::Flush) => Some(self.sink.flush()),
            None => None,
        };
        result.into_iter().for_each(|result| self.on_result(result, signals));
        let Some(write_log) = &mut self.write_log else { return };
        if self.recording.gives_up(signals) {
            if !write_log.is_alone {
                // What has not settled by now is left to others, whatever is counted as lost here.
                return write_log.give_up();
            }
            // The unit would wait for it for ever, and the readout units with it.
            self.sink.abandon();
        }
        write_log.settled(self.sink.events_settled());
    }

    /// Does what a result of the sink asks for.
    fn on_result(&mut self, result: Result<(), SinkError>, signals: &Signals) {
        self.recording.on_result(result, signals);
        self.write_log.iter().for_each(|write_log| write_log.hold(self.recording.is_waiting()));
    }
}
