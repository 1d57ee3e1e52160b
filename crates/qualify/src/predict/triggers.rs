//! Triggers in time, and what theory says of a queue that they fill.
//!
//! ```text
//!  rate ─► dead time ─► accepted rate = rate / (1 + rate × dead time)
//!                       variation of the gaps, squared = 1 / (1 + rate × dead time)²;  constant: 0
//!  P(full) ≈ exp(-2 × events in the buffer × (1 - load) / variation²)
//! ```
//! The times themselves are those of the trigger programs that also drive emulated boards.

use thalweg_frontend::trigger::{Kind, Program, Settings, SettingsError};

use super::HEAVY_TRAFFIC_LOAD;

/// The distribution of triggers in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Process {
    /// Equal distances.
    Constant,
    /// Random times, with a time after each trigger in which there is no other.
    Poisson {
        /// That time, in nanoseconds.
        dead_time_ns: u64,
    },
}

/// Triggers of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triggers {
    /// The number of triggers per second, before dead time.
    pub rate_hz: f64,
    /// The distribution in time.
    pub process: Process,
    /// The same seed gives the same times.
    pub seed: u64,
}

impl Triggers {
    /// Returns the rate after dead time, per second.
    pub fn accepted_rate_hz(&self) -> f64 {
        self.rate_hz / (1.0 + self.rate_hz * self.dead_time_s())
    }

    /// The square of the variation of the gaps: their variance divided by their mean squared.
    pub fn gap_variation_squared(&self) -> f64 {
        match self.process {
            Process::Constant => 0.0,
            Process::Poisson { .. } => (1.0 + self.rate_hz * self.dead_time_s()).powi(-2),
        }
    }

    /// The probability that a trigger finds a queue of `depth_events` full, at an output that is busy for the fraction `load` of
    /// the time: the heavy-traffic approximation. `None` where it does not hold.
    pub fn full_probability(&self, load: f64, depth_events: f64) -> Option<f64> {
        match (load, self.gap_variation_squared()) {
            _ if depth_events < 1.0 => Some(1.0),
            (load, _) if load >= 1.0 => Some(1.0 - 1.0 / load),
            (_, 0.0) => Some(0.0),
            (load, _) if load < HEAVY_TRAFFIC_LOAD => None,
            (load, variation_squared) => Some((-2.0 * depth_events * (1.0 - load) / variation_squared).exp()),
        }
    }

    /// The program that gives their times.
    pub fn settings(&self) -> Settings {
        let (program, dead_time_ns) = match self.process {
            Process::Constant => (Kind::Constant, 0),
            Process::Poisson { dead_time_ns } => (Kind::Poisson, dead_time_ns),
        };
        let (rate_hz, seed) = (self.rate_hz, self.seed);
        Settings { program, rate_hz, dead_time_ns, seed, ..Settings::default() }
    }

    /// Their times, from the first on.
    ///
    /// # Errors
    /// When there can be no such triggers.
    pub fn program(&self) -> Result<Program, SettingsError> {
        Program::new(&self.settings())
    }

    fn dead_time_s(&self) -> f64 {
        match self.process {
            Process::Constant => 0.0,
            Process::Poisson { dead_time_ns } => dead_time_ns as f64 * 1e-9,
        }
    }
}
