//! The stages around time order, with their accounts: clocks before it, cuts, coincidence and spectra behind it.
//!
//! ```text
//!  batch of one source ─► align ─► (time order) ─► process ─► pass: which hits are kept
//!                                                      └─► events, spectra, report
//! ```

use std::convert::Infallible;

use thalweg_data::{HitEvents, Hits, SnapshotNumber, SourceId};

use super::Ledgered;
use crate::observed::{CoincidenceReport, CutReport, Observed, Report};
use crate::processing::Processing;

/// How often a report is made.
const REPORT_EVERY_NS: u64 = 100_000_000;

/// One source's accounts of its hits.
pub(crate) struct HitBooks {
    /// What the cuts keep.
    pub(crate) cut: Ledgered,
    /// What is in coincidence.
    pub(crate) coincide: Option<Ledgered>,
}

/// The accounts of the events that are made of hits.
pub(crate) struct EventBooks {
    /// Where they are made.
    pub(crate) coincide: Ledgered,
    /// What the cuts on events keep.
    pub(crate) cut: Ledgered,
}

/// The stages of one run.
pub(crate) struct Stages {
    processing: Processing,
    /// By source; empty where hits are neither cut nor in coincidence.
    hits: Vec<HitBooks>,
    events: Option<EventBooks>,
    observed: Observed,
    multiplicity: [u64; 17],
    reported_ns: u64,
}

impl Stages {
    pub(crate) fn new(
        processing: Processing,
        hits: Vec<HitBooks>,
        events: Option<EventBooks>,
        observed: Observed,
    ) -> Stages {
        Stages { processing, hits, events, observed, multiplicity: [0; 17], reported_ns: 0 }
    }

    /// What can be looked at.
    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    /// How far the offsets of channels may disturb the order inside a source, picoseconds.
    pub(crate) fn disorder_ps(&self, source: SourceId) -> u64 {
        self.processing.aligner.disorder_ps(source)
    }

    /// Corrects the times of a batch of one source.
    pub(crate) fn align(&self, batch: &mut Hits) {
        self.processing.aligner.align(batch, &self.processing.map);
    }

    /// Takes the next ordered batch; says which of its hits the cuts keep, `None` when all.
    pub(crate) fn process(&mut self, batch: &Hits) -> Option<&[u8]> {
        let Stages { processing, multiplicity, .. } = self;
        if batch.is_empty() {
            processing.processor.rest();
            return None;
        }
        let count = |events: &HitEvents| count(events, multiplicity);
        // Counting cannot fail.
        processing.processor.process(batch, count).unwrap_or_default()
    }

    /// Nothing follows.
    pub(crate) fn finish(&mut self) {
        let Stages { processing, multiplicity, .. } = self;
        let finished = processing.processor.finish(|events: &HitEvents| count(events, multiplicity));
        debug_assert!(finished.is_ok(), "counting cannot fail");
        self.publish();
    }

    /// The marker of a snapshot has come behind one source's hits.
    pub(crate) fn snapshot(&mut self, source: SourceId, number: SnapshotNumber) {
        let processor = &mut self.processing.processor;
        processor.settle();
        let Some(books) = self.hits.get(source.index()) else { return };
        books.cut.snapshot(number, processor.cut_tally(source));
        if let (Some(account), Some(tally)) = (&books.coincide, processor.coincidence_tally(source)) {
            account.snapshot(number, tally);
        }
        // Events are of all sources together: one marker stands for all.
        if let Some(events) = self.events.as_ref().filter(|_| source == SourceId(0)) {
            let (made, kept) = processor.events_tallies();
            events.coincide.snapshot(number, made);
            events.cut.snapshot(number, kept);
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
            books.cut.publish(processor.cut_tally(source));
            if let (Some(account), Some(tally)) = (&books.coincide, processor.coincidence_tally(source)) {
                account.publish(tally);
            }
        }
        if let Some(events) = &self.events {
            let (made, kept) = processor.events_tallies();
            events.coincide.publish(made);
            events.cut.publish(kept);
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

fn count(events: &HitEvents, multiplicity: &mut [u64; 17]) -> Result<(), Infallible> {
    for event in &events.events {
        multiplicity[usize::from(event.multiplicity).min(16)] += 1;
    }
    Ok(())
}
