//! What of a run's hits can be looked at while they flow: spectra, cuts, clocks.
//!
//! ```text
//!  process thread ─ fills ─► SpectrumSet ◄─ reads ─ page, export
//!                 └ every 50 ms ─┬─► Report
//!  order thread ─ what is cut ───┘
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use thalweg_order::channels::ChannelMap;
use thalweg_order::clocks::ClockState;
use thalweg_order::cut::{Passed, Scope};
use thalweg_order::pulse::PulseStore;
use thalweg_order::spectrum::SpectrumSet;

use crate::processing::Processing;

/// How much one cut kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CutReport {
    /// Its name.
    pub name: String,
    /// What it cuts.
    pub on: Scope,
    /// Came to it.
    #[serde(rename = "in")]
    pub input: u64,
    /// It kept.
    pub kept: u64,
}

impl CutReport {
    pub(crate) fn new((name, passed): (&str, Passed), on: Scope) -> CutReport {
        CutReport { name: name.to_owned(), on, input: passed.input, kept: passed.kept }
    }
}

/// What coincidence has made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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

/// What the stages behind time order say of themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Each cut, in the order in which they are made.
    pub cuts: Vec<CutReport>,
    /// Of a run with coincidence.
    pub coincidences: Option<CoincidenceReport>,
    /// Of a run whose clocks are watched.
    pub clocks: Vec<ClockState>,
}

/// Everything that can be looked at. Cheap to clone; every clone is of the same run.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What is known of each channel.
    pub channels: Arc<ChannelMap>,
    /// The spectra.
    pub spectra: SpectrumSet,
    /// The latest pulses of channels that send waveforms.
    pub pulses: PulseStore,
    reports: Arc<Mutex<Reports>>,
}

/// The latest of each thread.
#[derive(Debug, Default)]
struct Reports {
    of_hit_cuts: Vec<CutReport>,
    of_the_rest: Report,
}

impl Observed {
    pub(crate) fn new(processing: &Processing) -> Observed {
        Observed {
            channels: processing.map.clone(),
            spectra: processing.stages.spectra.clone(),
            pulses: processing.stages.processor.pulse_store(),
            reports: Arc::default(),
        }
    }

    /// The latest report.
    pub fn report(&self) -> Report {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = reports.of_the_rest.clone();
        report.cuts.splice(..0, reports.of_hit_cuts.iter().cloned());
        report
    }

    /// What the cuts on hits have kept.
    pub(crate) fn set_hit_cuts(&self, cuts: Vec<CutReport>) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).of_hit_cuts = cuts;
    }

    /// Everything else.
    pub(crate) fn set_rest(&self, report: Report) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).of_the_rest = report;
    }
}
