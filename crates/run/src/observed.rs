//! What of a run's hits can be looked at while they flow: spectra, cuts, clocks.
//!
//! ```text
//!  order thread ─ fills ─► SpectrumSet ◄─ reads ─ page, export
//!               └ every 100 ms ─► Report
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use thalweg_order::channels::ChannelMap;
use thalweg_order::clocks::ClockState;
use thalweg_order::cut::Scope;
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
    report: Arc<Mutex<Arc<Report>>>,
}

impl Observed {
    pub(crate) fn new(processing: &Processing) -> Observed {
        Observed {
            channels: processing.map.clone(),
            spectra: processing.spectra.clone(),
            pulses: processing.processor.pulse_store(),
            report: Arc::default(),
        }
    }

    /// The latest report.
    pub fn report(&self) -> Arc<Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_report(&self, report: Report) {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(report);
    }
}
