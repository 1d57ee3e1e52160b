//! Live spectra, cut counters and clock monitors of a run.
//!
//! ```text
//!  process thread ─ fills ─► SpectrumSet ◄─ reads ─ page, export
//!                 └ every 50 ms ────────────────────────────┬─► Report
//!  order thread ─ what is cut, and which events are made ───┘
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_analysis::channels::ChannelMap;
use thalweg_analysis::clocks::ClockState;
use thalweg_analysis::normalise::SourceLoss;
use thalweg_analysis::pulse::PulseStore;
use thalweg_analysis::spectrum::SpectrumSet;
use thalweg_analysis::view::View;
use thalweg_data::ledger::LossReport;
use thalweg_data::{LedgerSnapshot, Noted, SourceId, StageRole, Unit};
pub use thalweg_monitor::state::CutReport;

use crate::processing::Processing;

/// The output of coincidence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoincidenceReport {
    /// Events that were made.
    pub made: u64,
    /// Events that the cuts on events kept.
    pub kept: u64,
    /// Events that were closed because they had grown too long.
    pub cut_short: u64,
    /// Events by how many different channels or groups they are of: from none to fifteen, and more.
    pub multiplicity: [u64; 17],
}

/// What coincidence says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MadeReport {
    pub(crate) made: u64,
    pub(crate) cut_short: u64,
}

/// The reports of the stages after time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Each cut, in the order in which they are made.
    pub cuts: Vec<CutReport>,
    /// The coincidences, in a run with them.
    pub coincidences: Option<CoincidenceReport>,
    /// The states of the clocks, in a run that watches them.
    pub clocks: Vec<ClockState>,
}

/// Everything that can be observed of a run. Cheap to clone; every clone is of the same run.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The known channels.
    pub channels: Arc<ChannelMap>,
    /// The spectra.
    pub spectra: SpectrumSet,
    /// The latest pulses of channels that send waveforms.
    pub pulses: PulseStore,
    /// The view of the run, which can be changed.
    pub view: View,
    reports: Arc<Mutex<Reports>>,
}

/// The latest of each thread.
#[derive(Debug, Default)]
struct Reports {
    of_hit_cuts: Vec<CutReport>,
    of_coincidence: MadeReport,
    of_the_rest: Report,
}

impl Observed {
    pub(crate) fn new(processing: &Processing) -> Observed {
        Observed {
            channels: processing.map.clone(),
            spectra: processing.stages.spectra.clone(),
            pulses: processing.stages.processor.pulse_store(),
            view: processing.stages.processor.view(),
            reports: Arc::default(),
        }
    }

    /// The latest report.
    pub fn report(&self) -> Report {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = reports.of_the_rest.clone();
        report.cuts.splice(..0, reports.of_hit_cuts.iter().cloned());
        if let Some(coincidences) = &mut report.coincidences {
            let MadeReport { made, cut_short } = reports.of_coincidence;
            (coincidences.made, coincidences.cut_short) = (made, cut_short);
        }
        report
    }

    /// Coincidences that the cuts on events have kept so far.
    pub(crate) fn coincidences_kept(&self) -> u64 {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.of_the_rest.coincidences.as_ref().map_or(0, |coincidences| coincidences.kept)
    }

    /// Hits of each channel so far, by row of the channel map.
    pub(crate) fn channel_hits(&self) -> Vec<u64> {
        let history = self.spectra.history();
        (0..history.channels()).map(|row| history.hits(row)).collect()
    }

    /// Takes what the ledger says of the losses of each source of hits on the way to the spectra: live time and losses are shown together.
    pub(crate) fn take_losses(&self, counts: &LedgerSnapshot) {
        let sources = self.channels.channels().iter().map(|channel| channel.source.0 + 1).max().unwrap_or(0);
        let made = self.reports.lock().unwrap_or_else(PoisonError::into_inner).of_coincidence;
        self.spectra.history().set_losses(source_losses(counts, sources, made.cut_short > 0));
    }

    /// Sets the counts of the hits that the cuts have kept, and of the events that coincidence has made.
    pub(crate) fn set_selected(&self, cuts: Vec<CutReport>, made: MadeReport) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        (reports.of_hit_cuts, reports.of_coincidence) = (cuts, made);
    }

    /// Sets everything except what [`Observed::set_selected`] sets.
    pub(crate) fn set_rest(&self, report: Report) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).of_the_rest = report;
    }
}

/// What the ledger says of the hits of each source, of so many; `is_cut_short` if an event was closed before its last hit.
fn source_losses(counts: &LedgerSnapshot, sources: u16, is_cut_short: bool) -> Vec<SourceLoss> {
    let report = LossReport::of(counts, StageRole::Display);
    let of_source = |source| {
        let loss = report.of_source(source).map_or(SourceLoss::UNKNOWN, SourceLoss::of);
        match is_cut_short || counts.noted_of(source, Noted::Late, Unit::Hits) > 0 {
            true => loss.with_hits_apart(),
            false => loss,
        }
    };
    (0..sources).map(SourceId).map(of_source).collect()
}

#[cfg(test)]
mod tests {
    use thalweg_analysis::normalise::{BoardCounters, Normalised, corrected_events};
    use thalweg_data::ledger::Quality;
    use thalweg_data::{Counters, Ledger, Stage};

    use super::*;

    #[test]
    fn events_are_exact_only_if_no_hit_was_late_and_none_was_cut_short() {
        let ledger = Ledger::create(None, &["a".to_owned(), "b".to_owned()]).expect("memory");
        let enter = |late| {
            for (source, late) in [(0, 0), (1, late)] {
                for (stage, late) in [(Stage::Decode, 0), (Stage::Order, late), (Stage::Spectra, 0)] {
                    let mut counters = Counters::default();
                    counters.input(Unit::Hits, 100);
                    counters.output(Unit::Hits, 100);
                    counters.noted(Noted::Late, Unit::Hits, late);
                    ledger.open(stage, SourceId(source), &[Unit::Hits]).publish(&counters);
                }
            }
        };
        let quality = |is_cut_short| {
            let losses = source_losses(&ledger.snapshot(), 2, is_cut_short);
            let channels: Vec<_> =
                losses.iter().map(|loss| Normalised::of(100, &BoardCounters::default(), loss)).collect();
            corrected_events(7, channels.iter().copied()).quality
        };
        enter(0);
        assert_eq!([false, true].map(quality), [Quality::Exact, Quality::Unknown]);
        enter(1);
        assert_eq!(quality(false), Quality::Unknown);
    }
}
