//! The stages around time order, with their accounts: clocks before it, cuts, coincidence and spectra behind it.
//!
//! ```text
//!  batch of one source ─► align ─► (time order) ─► process ─► pass: which hits are kept
//!                                                      └─► events, spectra, report
//! ```

use thalweg_data::{HitEvents, Hits, SinkError, SnapshotNumber, SourceId};
use thalweg_record::CoincidenceWriter;

use super::Ledgered;
use crate::observed::{CoincidenceReport, CutReport, Observed, Report};
use crate::processing::Processing;

/// How often a report is made, and what the spectra wait for is counted: as often as an eye can follow.
const REPORT_EVERY_NS: u64 = 50_000_000;

/// One source's accounts of its hits.
pub(crate) struct HitBooks {
    /// What the cuts keep, where there are any.
    pub(crate) cut: Option<Ledgered>,
    /// What is in coincidence.
    pub(crate) coincide: Option<Ledgered>,
}

/// The accounts of the events that are made of hits.
pub(crate) struct EventBooks {
    /// Where they are made.
    pub(crate) coincide: Ledgered,
    /// What the cuts on events keep.
    pub(crate) cut: Ledgered,
    /// What is recorded of them, if anything is.
    pub(crate) record: Option<Ledgered>,
}

/// The stages of one run.
pub(crate) struct Stages {
    processing: Processing,
    /// By source; empty where hits are neither cut nor in coincidence.
    hits: Vec<HitBooks>,
    events: Option<EventBooks>,
    observed: Observed,
    pub(crate) writer: Option<CoincidenceWriter>,
    /// The writer has failed, and has told why.
    writer_failed: bool,
    multiplicity: [u64; 17],
    reported_ns: u64,
}

impl Stages {
    pub(crate) fn new(
        processing: Processing,
        hits: Vec<HitBooks>,
        (events, writer): (Option<EventBooks>, Option<CoincidenceWriter>),
        observed: Observed,
    ) -> Stages {
        let multiplicity = [0; 17];
        Stages {
            processing,
            hits,
            events,
            observed,
            writer,
            writer_failed: false,
            multiplicity,
            reported_ns: 0,
        }
    }

    /// What can be looked at.
    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Whose hits a channel's are, by number of the channel.
    pub(crate) fn sources_of_channels(&self) -> Box<[SourceId]> {
        let mut sources = vec![SourceId::default(); 1 << 16];
        for channel in self.processing.map.channels() {
            sources[usize::from(channel.number)] = channel.source;
        }
        sources.into()
    }

    /// How far the offsets of channels may disturb the order inside a source, picoseconds.
    pub(crate) fn disorder_ps(&self, source: SourceId) -> u64 {
        self.processing.aligner.disorder_ps(source)
    }

    /// Corrects the times of a batch of one source.
    pub(crate) fn align(&self, batch: &mut Hits) {
        self.processing.aligner.align(batch, &self.processing.map);
    }

    /// Takes the next ordered batch; says which of its hits the cuts keep, `None` when all, and what the recording of events could not do.
    pub(crate) fn process(&mut self, batch: &Hits) -> (Option<&[u8]>, Result<(), SinkError>) {
        let Stages { processing, writer, multiplicity, .. } = self;
        let advanced = writer.as_mut().map_or(Ok(()), |writer| writer.advance(batch.header.mark));
        if batch.is_empty() {
            processing.processor.rest();
            return (None, advanced);
        }
        let each = |events: &HitEvents| take(events, writer.as_mut(), multiplicity);
        let (pass, taken) = processing.processor.process(batch, each);
        (pass, advanced.and(taken))
    }

    /// Nothing follows.
    pub(crate) fn finish(&mut self) -> Result<(), SinkError> {
        let Stages { processing, writer, multiplicity, .. } = self;
        let passed_on =
            processing.processor.finish(|events: &HitEvents| take(events, writer.as_mut(), multiplicity));
        let written = writer.as_mut().map_or(Ok(()), CoincidenceWriter::finish);
        self.publish();
        passed_on.and(written)
    }

    /// A failure of the recording of events, to be told once.
    pub(crate) fn is_first_failure(&mut self) -> bool {
        !std::mem::replace(&mut self.writer_failed, true)
    }

    /// The marker of a snapshot has come behind one source's hits.
    pub(crate) fn snapshot(&mut self, source: SourceId, number: SnapshotNumber) {
        let processor = &mut self.processing.processor;
        processor.settle();
        let Some(books) = self.hits.get(source.index()) else { return };
        if let Some(account) = &books.cut {
            account.snapshot(number, processor.cut_tally(source));
        }
        if let (Some(account), Some(tally)) = (&books.coincide, processor.coincidence_tally(source)) {
            account.snapshot(number, tally);
        }
        // Events are of all sources together: one marker stands for all.
        if let Some(events) = self.events.as_ref().filter(|_| source == SourceId(0)) {
            let (made, kept) = processor.events_tallies();
            events.coincide.snapshot(number, made);
            events.cut.snapshot(number, kept);
            if let (Some(account), Some(writer)) = (&events.record, &self.writer) {
                account.snapshot(number, writer.tally());
            }
        }
    }

    /// Publishes the accounts and the report when it is time, by the arrival mark.
    pub(crate) fn publish_at(&mut self, mark_ns: u64) {
        if mark_ns.saturating_sub(self.reported_ns) >= REPORT_EVERY_NS {
            self.reported_ns = mark_ns;
            self.publish();
        }
    }

    fn publish(&mut self) {
        let processor = &mut self.processing.processor;
        processor.settle();
        for (index, books) in self.hits.iter().enumerate() {
            let source = SourceId(index as u16);
            if let Some(account) = &books.cut {
                account.publish(processor.cut_tally(source));
            }
            if let (Some(account), Some(tally)) = (&books.coincide, processor.coincidence_tally(source)) {
                account.publish(tally);
            }
        }
        if let Some(events) = &self.events {
            let (made, kept) = processor.events_tallies();
            events.coincide.publish(made);
            events.cut.publish(kept);
            if let (Some(account), Some(writer)) = (&events.record, &self.writer) {
                account.publish(writer.tally());
            }
        }
        self.observed.set_report(self.report());
    }

    fn report(&self) -> Report {
        use thalweg_data::Unit;
        let processor = &self.processing.processor;
        let cut = |(name, on, passed): (&str, _, thalweg_order::cut::Passed)| CutReport {
            name: name.to_owned(),
            on,
            input: passed.input,
            kept: passed.kept,
        };
        let coincidences = processor.makes_events().then(|| CoincidenceReport {
            made: processor.events_tallies().0.total_output(Unit::Events),
            kept: processor.events_tallies().1.total_output(Unit::Events),
            cut_short: processor.cut_short(),
            multiplicity: self.multiplicity,
        });
        Report { cuts: processor.passed().map(cut).collect(), coincidences, clocks: processor.clocks() }
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
