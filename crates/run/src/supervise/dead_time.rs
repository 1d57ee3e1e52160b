//! Live time and dead time of a run, from what its trigger, its builder and its boards report.

use thalweg_data::SourceId;
pub(crate) use thalweg_monitor::state::TriggerCounts;
use thalweg_monitor::state::{BuildSample, DeadTime};

use crate::observed::Observed;

/// Returns the dead time that the boards of a source of hits report, as the mean over the channels that do; `number` is its index among the
/// sources of hits. `None` where no board reports its dead time.
pub(crate) fn reported_dead_time(observed: &Observed, number: usize) -> Option<DeadTime> {
    let rows = observed.channels.channels().iter().enumerate();
    let own = rows.filter(|(_, channel)| channel.source == SourceId(number as u16));
    let reported = own.map(|(row, _)| observed.spectra.history().channel(row));
    let times = reported.filter(|counts| counts.real_time_ps > 0);
    let sum = times.fold((0.0, 0.0, 0.0), |(dead, real, channels), counts| {
        (dead + counts.dead_time_ps as f64, real + counts.real_time_ps as f64, channels + 1.0)
    });
    let seconds = |sum_ps: f64| sum_ps * 1e-12 / f64::max(sum.2, 1.0);
    DeadTime::of(seconds(sum.0), seconds(sum.1))
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
