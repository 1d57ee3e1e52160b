//! The thread after time order: cuts on events, spectra.
//!
//! ```text
//!  Selected ══► events ─► cuts ─► recording of coincidences
//!        └──► hits ─────────┴──► spectra, report, counters
//! ```

use std::sync::Arc;
use std::time::Duration;

use thalweg_analysis::cut::Scope;
use thalweg_analysis::process::{Processor, Selected};
use thalweg_data::ring::Downstream;
use thalweg_data::{HitEvents, SinkError, SnapshotNumber, SourceId, Unit};
use thalweg_record::CoincidenceWriter;
use thalweg_record::ipc::file::TableSummary;

use super::recording_state::RecordingState;
use super::{Ledgered, REPORT_EVERY_NS, Signals};
use crate::observed::{CoincidenceReport, CutReport, Observed, Report};

const WAIT: Duration = Duration::from_millis(20);

/// The counters of the events that are made of hits.
pub(crate) struct EventSlots {
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
    events: Option<EventSlots>,
    observed: Observed,
    writer: Option<CoincidenceWriter>,
    recording: RecordingState,
    multiplicity: [u64; 17],
    reported_ns: u64,
}

impl Process {
    pub(crate) fn new(
        inlet: Downstream<Selected>,
        processor: Processor,
        (shown, events): (Vec<Ledgered>, Option<EventSlots>),
        observed: Observed,
        (writer, recording): (Option<CoincidenceWriter>, RecordingState),
    ) -> Process {
        Process {
            inlet,
            processor,
            shown,
            events,
            observed,
            writer,
            recording,
            multiplicity: [0; 17],
            reported_ns: 0,
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
            let result = self.take(&mut batch);
            self.recording.on_result(result, signals);
            batch.clear();
            self.inlet.give_back(batch);
        }
        self.processor.finish();
        if let Some(writer) = &mut self.writer {
            self.recording.close(writer, CoincidenceWriter::complete, CoincidenceWriter::finish, signals);
        }
        self.publish();
        self
    }

    fn take(&mut self, batch: &mut Selected) -> Result<(), SinkError> {
        let header = batch.hits.header;
        let Process { processor, writer, multiplicity, .. } = self;
        let mut result = writer.as_mut().map_or(Ok(()), |writer| writer.advance(header.mark));
        match batch.is_empty() {
            true => processor.rest(header.mark),
            false => {
                let each = |events: &HitEvents| take(events, writer.as_mut(), multiplicity);
                result = result.and(processor.process(batch, each));
            }
        }
        if let Some(number) = header.snapshot {
            self.snapshot(header.source, number);
        }
        if header.mark.0.saturating_sub(self.reported_ns) >= REPORT_EVERY_NS {
            self.reported_ns = header.mark.0;
            self.publish();
        }
        result
    }

    /// Handles the marker of a snapshot that has come after one source's hits.
    fn snapshot(&mut self, source: SourceId, number: SnapshotNumber) {
        self.processor.settle();
        if let Some(slot) = self.shown.get(source.index()) {
            slot.snapshot(number, self.processor.shown_counters(source));
        }
        // Events are of all sources together: one marker stands for all.
        if let Some(events) = self.events.as_ref().filter(|_| source == SourceId(0)) {
            events.cut.snapshot(number, self.processor.events_counters());
            if let (Some(slot), Some(writer)) = (&events.record, &self.writer) {
                slot.snapshot(number, writer.counters());
            }
        }
    }

    /// Publishes the counters of what is shown, of the events, and the report.
    fn publish(&mut self) {
        self.processor.count_shown();
        for (index, slot) in self.shown.iter().enumerate() {
            slot.publish(self.processor.shown_counters(SourceId(index as u16)));
        }
        if let Some(events) = &self.events {
            events.cut.publish(self.processor.events_counters());
            if let (Some(slot), Some(writer)) = (&events.record, &self.writer) {
                slot.publish(writer.counters());
            }
        }
        self.observed.set_rest(self.report());
    }

    fn report(&self) -> Report {
        let coincidences = self.events.is_some().then(|| CoincidenceReport {
            kept: self.processor.events_counters().total_output(Unit::Events),
            multiplicity: self.multiplicity,
            ..CoincidenceReport::default()
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
