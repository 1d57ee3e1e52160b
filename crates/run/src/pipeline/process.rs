//! The thread after time order: coincidence, cuts on events, spectra.
//!
//! ```text
//!  Selected ══► coincidence ─► events ─► cuts ─► recording of coincidences
//!                  └──────────────┴──► spectra, report, counters
//! ```

use std::sync::Arc;
use std::time::Duration;

use thalweg_analysis::cut::{Scope, Selected};
use thalweg_analysis::process::Processor;
use thalweg_data::ring::Downstream;
use thalweg_data::{HitEvents, SinkError, SnapshotNumber, SourceId, Unit};
use thalweg_record::CoincidenceWriter;
use thalweg_record::ipc::file::TableSummary;

use super::recording_state::RecordingState;
use super::{Ledgered, REPORT_EVERY_NS, Signals};
use crate::observed::{CoincidenceReport, CutReport, Observed, Report};

const WAIT: Duration = Duration::from_millis(20);
/// Between two times at which the spectra have every hit, of the arrival clock: in 50 ms, few channels have hits for a full fill buffer.
const SETTLE_SPECTRA_EVERY_NS: u64 = 200_000_000;

/// The counters of the events that are made of hits.
pub(crate) struct EventSlots {
    /// The slot in which they are made.
    pub(crate) coincide: Ledgered,
    /// The slot of the events that cuts keep.
    pub(crate) cut: Ledgered,
    /// The slot of the recorded events, if any are recorded.
    pub(crate) record: Option<Ledgered>,
}

/// The processing of the hits of a run.
pub(crate) struct Process {
    inlet: Downstream<Selected>,
    processor: Processor,
    /// The slots of what the spectra show, by source; empty where there are none.
    shown: Vec<Ledgered>,
    /// The slots of the hits in coincidence, by source; empty where there is none.
    hits: Vec<Ledgered>,
    events: Option<EventSlots>,
    observed: Observed,
    writer: Option<CoincidenceWriter>,
    recording: RecordingState,
    multiplicity: [u64; 17],
    reported_ns: u64,
    settled_ns: u64,
}

impl Process {
    pub(crate) fn new(
        inlet: Downstream<Selected>,
        processor: Processor,
        (shown, hits, events): (Vec<Ledgered>, Vec<Ledgered>, Option<EventSlots>),
        observed: Observed,
        (writer, recording): (Option<CoincidenceWriter>, RecordingState),
    ) -> Process {
        Process {
            inlet,
            processor,
            shown,
            hits,
            events,
            observed,
            writer,
            recording,
            multiplicity: [0; 17],
            reported_ns: 0,
            settled_ns: 0,
        }
    }

    /// Returns everything that can be observed.
    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Returns the summaries of its files.
    pub(crate) fn summaries(&self) -> Vec<TableSummary> {
        self.writer.as_ref().map(CoincidenceWriter::summaries).unwrap_or_default()
    }

    /// Processes until the order thread has ended, then closes the recording.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) -> Process {
        while !self.inlet.is_finished() {
            let Some(mut batch) = self.inlet.receive_wait(WAIT) else { continue };
            let result = self.take(&batch);
            self.recording.on_result(result, signals);
            batch.clear();
            self.inlet.give_back(batch);
        }
        let passed_on = self.pass_last_on();
        self.recording.on_result(passed_on, signals);
        if let Some(writer) = &mut self.writer {
            self.recording.close(writer, CoincidenceWriter::complete, CoincidenceWriter::finish, signals);
        }
        self.publish();
        self.publish_shown();
        self
    }

    fn take(&mut self, batch: &Selected) -> Result<(), SinkError> {
        let header = batch.hits.header;
        let Process { processor, writer, multiplicity, .. } = self;
        let mut result = writer.as_mut().map_or(Ok(()), |writer| writer.advance(header.mark));
        match batch.hits.is_empty() {
            true => processor.rest(header.mark),
            false => {
                let each = |events: &HitEvents| take(events, writer.as_mut(), multiplicity);
                result = result.and(processor.process(&batch.hits, batch.kept(), each));
            }
        }
        if let Some(number) = header.snapshot {
            self.snapshot(header.source, number);
        }
        if header.mark.0.saturating_sub(self.reported_ns) >= REPORT_EVERY_NS {
            self.reported_ns = header.mark.0;
            self.publish();
        }
        if header.mark.0.saturating_sub(self.settled_ns) >= SETTLE_SPECTRA_EVERY_NS {
            self.settled_ns = header.mark.0;
            self.publish_shown();
        }
        result
    }

    /// Makes the events that were still open: nothing follows.
    fn pass_last_on(&mut self) -> Result<(), SinkError> {
        let Process { processor, writer, multiplicity, .. } = self;
        processor.finish(|events: &HitEvents| take(events, writer.as_mut(), multiplicity))
    }

    /// Handles the marker of a snapshot that has come after one source's hits.
    fn snapshot(&mut self, source: SourceId, number: SnapshotNumber) {
        self.processor.settle();
        if let Some(slot) = self.shown.get(source.index()) {
            slot.snapshot(number, self.processor.shown_counters(source));
        }
        let counters = self.processor.coincidence_counters(source);
        if let (Some(slot), Some(counters)) = (self.hits.get(source.index()), counters) {
            slot.snapshot(number, counters);
        }
        // Events are of all sources together: one marker stands for all.
        if let Some(events) = self.events.as_ref().filter(|_| source == SourceId(0)) {
            let (made, kept) = self.processor.events_counters();
            events.coincide.snapshot(number, made);
            events.cut.snapshot(number, kept);
            if let (Some(slot), Some(writer)) = (&events.record, &self.writer) {
                slot.snapshot(number, writer.counters());
            }
        }
    }

    /// Publishes the spectra, and the counters of what they show.
    fn publish_shown(&mut self) {
        self.processor.settle_spectra();
        for (index, slot) in self.shown.iter().enumerate() {
            slot.publish(self.processor.shown_counters(SourceId(index as u16)));
        }
    }

    /// Publishes the counters of what is made of hits, and the report.
    fn publish(&mut self) {
        self.processor.settle_events();
        for (index, slot) in self.hits.iter().enumerate() {
            if let Some(counters) = self.processor.coincidence_counters(SourceId(index as u16)) {
                slot.publish(counters);
            }
        }
        if let Some(events) = &self.events {
            let (made, kept) = self.processor.events_counters();
            events.coincide.publish(made);
            events.cut.publish(kept);
            if let (Some(slot), Some(writer)) = (&events.record, &self.writer) {
                slot.publish(writer.counters());
            }
        }
        self.observed.set_rest(self.report());
    }

    fn report(&self) -> Report {
        let (made, kept) = self.processor.events_counters();
        let coincidences = self.processor.makes_events().then(|| CoincidenceReport {
            made: made.total_output(Unit::Events),
            kept: kept.total_output(Unit::Events),
            cut_short: self.processor.cut_short(),
            multiplicity: self.multiplicity,
        });
        let cuts = self.processor.passed().map(|cut| CutReport::new(cut, Scope::Event)).collect();
        Report { cuts, coincidences, clocks: self.processor.clocks() }
    }
}

/// Counts events, and records them.
fn take(
    events: &HitEvents,
    writer: Option<&mut CoincidenceWriter>,
    multiplicity: &mut [u64; 17],
) -> Result<(), SinkError> {
    for event in &events.events {
        multiplicity[usize::from(event.multiplicity).min(16)] += 1;
    }
    writer.map_or(Ok(()), |writer| writer.write(events))
}
