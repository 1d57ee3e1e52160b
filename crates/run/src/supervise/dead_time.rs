//! Live time and dead time of a run, from what its trigger, its builder and its boards report.

use thalweg_analysis::normalise::{Corrected, rate_together_hz};
use thalweg_data::SourceId;
pub(crate) use thalweg_monitor::state::TriggerCounts;
use thalweg_monitor::state::{BuildSample, DeadTime};

use crate::observed::Observed;

/// Returns the dead time that the boards of a source of hits report, as the mean over the channels that do; `number` is its index among the
/// sources of hits. `None` where no board reports its dead time.
pub(crate) fn reported_dead_time(observed: &Observed, number: usize) -> Option<DeadTime> {
    let channels = observed.spectra.history().normalised_of(SourceId(number as u16));
    let times = channels.iter().filter_map(|channel| channel.real_time_s.zip(channel.live_time_s));
    let sum = times.fold((0.0, 0.0, 0.0), |(dead, real, channels), (own_real, own_live)| {
        (dead + own_real - own_live, real + own_real, channels + 1.0)
    });
    let mean = |seconds: f64| seconds / f64::max(sum.2, 1.0);
    DeadTime::of(mean(sum.0), mean(sum.1))
}

/// Returns the rate of all channels of a source of hits together, per second of live time; `number` is its index among these sources.
pub(crate) fn reported_rate(observed: &Observed, number: usize) -> Corrected {
    let channels = observed.spectra.history().normalised_of(SourceId(number as u16));
    rate_together_hz(channels.into_iter())
}

/// Returns how long BUSY was raised: as the trigger saw it, or else as the builder raised it.
pub(crate) fn busy_time(
    trigger: Option<TriggerCounts>,
    build: Option<&BuildSample>,
    elapsed_seconds: f64,
) -> Option<DeadTime> {
    let of_trigger = trigger.map(|trigger| trigger.busy_ns as f64 * 1e-9);
    let busy_seconds = of_trigger.or_else(|| Some(build?.busy_share? * elapsed_seconds))?;
    DeadTime::of(busy_seconds, elapsed_seconds)
}
