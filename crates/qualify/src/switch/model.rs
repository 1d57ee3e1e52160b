//! Which buffer a switch has: one that all inputs share, or a queue per input.
//!
//! ```text
//!  trials with 8, 16, 32 sources ─┬─► fit: shared      events × all frames ≤ depth + …      ─┐
//!                                 └─► fit: per source  events × one frame ≤ depth + … / sources ─┴─► likelihood ratio
//! ```
//! With one number of sources the two are the same queue in other units. Only trials with several numbers distinguish them
//! apart: a shared buffer holds fewer events of more sources, and queues per input hold the same events of each. Sources that are stacked
//! behind one input have one queue together.

use schemars::JsonSchema;
use serde::Serialize;

use super::fit::{Buffering, Fit, FitError, Trial, fit_as};

/// The logarithm of the likelihood ratio from which one model is said to be right: 1 against 20 000. Stalls move it by a
/// few, a wrong model by hundreds.
const DECIDED: f64 = 10.0;

/// The model that the trials favour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BufferVerdict {
    /// One buffer that all inputs share.
    Shared,
    /// A queue per input.
    PerSource,
    /// The trials fit both alike: measure with other numbers of ports.
    Undecided,
}

/// Both models, fitted to the same trials.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The model.
    pub verdict: BufferVerdict,
    /// Log likelihood of the shared buffer minus that of queues per input; `None` when one of them is no queue at all.
    pub log_likelihood_difference: Option<f64>,
    /// The shared buffer; `None` when no such buffer fits.
    pub shared: Option<Fit>,
    /// Queues per input, the depth being that of each; `None` when no such queues fit.
    pub per_source: Option<Fit>,
}

/// Fits both models to trials with several numbers of sources.
///
/// # Errors
/// When the trials fit neither: see [`FitError`].
pub fn compare(trials: &[Trial]) -> Result<Comparison, FitError> {
    let fits = (fit_as(trials, Buffering::Shared), fit_as(trials, Buffering::PerSource));
    let (verdict, log_likelihood_difference) = match &fits {
        (Err(error), Err(_)) => return Err(error.clone()),
        (Ok(_), Err(_)) => (BufferVerdict::Shared, None),
        (Err(_), Ok(_)) => (BufferVerdict::PerSource, None),
        (Ok(shared), Ok(per_source)) => {
            let difference = shared.log_likelihood - per_source.log_likelihood;
            let verdict = match difference {
                shared if shared > DECIDED => BufferVerdict::Shared,
                per_source if per_source < -DECIDED => BufferVerdict::PerSource,
                _ => BufferVerdict::Undecided,
            };
            (verdict, Some(difference))
        }
    };
    Ok(Comparison { verdict, log_likelihood_difference, shared: fits.0.ok(), per_source: fits.1.ok() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::search::{Search, Settings as SearchSettings};
    use crate::switch::simulate::{Buffers, Device, Settings, Stalls};

    const FRAME_BYTES: f64 = 1066.0;
    const RATE_BYTES_PER_S: f64 = 12.5e6;

    /// Trials of a device with stalls, in columns for each number of sources.
    fn swept(buffers: Buffers, sources: &[u32], seed: u64) -> Vec<Trial> {
        let stalls = Some(Stalls { rate_hz: 2.0, mean_s: 1e-3, noticed_s: 8e-3 });
        let mut device = Device::new(Settings {
            buffers,
            rate_bytes_per_s: RATE_BYTES_PER_S,
            burst_bytes: 5e3,
            stalls,
            seed,
        });
        let columns = 12 / sources.len();
        let mut trials = Vec::new();
        for sources in sources {
            let saturation_s = f64::from(*sources) * FRAME_BYTES / RATE_BYTES_PER_S;
            let mut search = Search::new(SearchSettings::spread(columns, saturation_s));
            trials.extend(device.explore(&mut search, *sources, FRAME_BYTES));
        }
        trials
    }

    #[test]
    fn a_sweep_of_the_ports_reveals_a_shared_buffer_by_its_depth_and_rate() {
        for seed in 0..2 {
            let depth_bytes = 800e3 + 50e3 * seed as f64;
            let found = compare(&swept(Buffers::Shared { depth_bytes }, &[8, 16, 32], seed)).expect("fits");
            assert_eq!(found.verdict, BufferVerdict::Shared, "{found:?}");
            let fit = found.shared.expect("fits");
            assert!((fit.depth_bytes / (depth_bytes + 5e3) - 1.0).abs() < 0.02, "{fit:?}");
            assert!((fit.rate_bytes_per_s / RATE_BYTES_PER_S - 1.0).abs() < 0.01, "{fit:?}");
        }
    }

    #[test]
    fn a_sweep_of_the_ports_reveals_queues_per_input_by_the_depth_of_each() {
        for seed in 0..2 {
            let depth_bytes = 60e3 + 10e3 * seed as f64;
            let found =
                compare(&swept(Buffers::PerSource { depth_bytes }, &[8, 16, 32], seed)).expect("fits");
            assert_eq!(found.verdict, BufferVerdict::PerSource, "{found:?}");
            let fit = found.per_source.expect("fits");
            assert!((fit.depth_bytes / depth_bytes - 1.0).abs() < 0.02, "{fit:?}");
            assert!((fit.rate_bytes_per_s / RATE_BYTES_PER_S - 1.0).abs() < 0.01, "{fit:?}");
        }
    }

    #[test]
    fn stacked_sources_have_the_queue_of_their_input_together() {
        for seed in 0..2 {
            let depth_bytes = 120e3 + 20e3 * seed as f64;
            let buffers = Buffers::PerInput { depth_bytes, stacking: 3 };
            let trials = swept(buffers, &[6, 15, 30], seed);
            let found = compare(&trials).expect("fits");
            assert_eq!(found.verdict, BufferVerdict::PerSource, "{found:?}");
            let fit = found.per_source.expect("fits");
            assert!((fit.depth_bytes / depth_bytes - 1.0).abs() < 0.02, "{fit:?}");
            assert!((fit.rate_bytes_per_s / RATE_BYTES_PER_S - 1.0).abs() < 0.01, "{fit:?}");
            // Without knowledge of the stack, the queue of an input is taken for that of a source, a third as deep.
            let apart: Vec<Trial> =
                trials.into_iter().map(|trial| Trial { sources_per_input: 1, ..trial }).collect();
            let fit = compare(&apart).expect("fits").per_source.expect("fits");
            assert!((3.0 * fit.depth_bytes / depth_bytes - 1.0).abs() < 0.05, "{fit:?}");
        }
    }

    #[test]
    fn one_number_of_ports_decides_nothing() {
        for buffers in [Buffers::Shared { depth_bytes: 1e6 }, Buffers::PerSource { depth_bytes: 62e3 }] {
            let found = compare(&swept(buffers, &[16], 1)).expect("fits");
            assert_eq!(found.verdict, BufferVerdict::Undecided, "{found:?}");
            assert!(found.log_likelihood_difference.is_some_and(|difference| difference.abs() < 1.0));
        }
    }

    #[test]
    fn trials_that_fit_neither_say_why() {
        assert_eq!(compare(&[]), Err(FitError::NoValidTrial(0)));
        let few = swept(Buffers::Shared { depth_bytes: 1e6 }, &[8, 16, 32], 1);
        let few: Vec<Trial> = few.into_iter().filter(|trial| trial.sources == 8).collect();
        assert_eq!(compare(&few), Err(FitError::TooFewColumns { seen: 4 }));
    }
}
