//! Live time and dead time of a run, from what its trigger, its builder and its boards report.

use thalweg_analysis::normalise::{
    Corrected, EventCounts, FilteredCounts, NormalisedEvents, TriggerReport, rate_together_hz,
};
use thalweg_data::topology::FlowPath;
use thalweg_data::{BusyTime, LedgerSnapshot, SourceId, StageRole, Unit};
use thalweg_monitor::state::DeadTime;
pub(crate) use thalweg_monitor::state::TriggerCounts;

use crate::observed::Observed;
use crate::source_table::SourceTable;

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

/// Returns for how long BUSY was raised: as the trigger saw it, or else as this process raised it.
pub(crate) fn busy_time(
    trigger: Option<TriggerCounts>,
    here: Option<BusyTime>,
    elapsed_seconds: f64,
) -> Option<BusyTime> {
    let of_ns = (elapsed_seconds * 1e9) as u64;
    let of_trigger = trigger.map(|trigger| BusyTime { raised_ns: trigger.busy_ns, of_ns });
    of_trigger.or(here)
}

/// The same in seconds of the run; of a replay these are not those of its marks.
pub(crate) fn dead_by_busy(busy_time: Option<BusyTime>, elapsed_seconds: f64) -> Option<DeadTime> {
    DeadTime::of(busy_time?.fraction()? * elapsed_seconds, elapsed_seconds)
}

/// Returns what the events of a run stand for; `None` of time slices, which no trigger makes, and of a run without events. `live_here`: how
/// long BUSY was raised, as this process knows it; `None` in a replay, whose time is no time in which triggers came.
pub(crate) fn normalised_events(
    counts: &LedgerSnapshot,
    source_table: &SourceTable,
    trigger: Option<TriggerCounts>,
    live_here: Option<DeadTime>,
) -> Option<NormalisedEvents> {
    if source_table.events.is_none() || counts.at(StageRole::Slices).next().is_some() {
        return None;
    }
    let makers = counts.builders_of_recorded();
    let builders = makers.iter().filter(|own| Some(own.source) != source_table.coincidences);
    let (built, dropped) = builders.fold((0, 0), |(built, dropped), own| {
        (built + own.counters.total_output(Unit::Events), dropped + own.counters.total_lost_any(Unit::Events))
    });
    let knows_all_triggers = counts.knows_all_triggers();
    let unseen = if knows_all_triggers { counts.triggers_unseen() } else { 0 };
    let report = source_table.loss_report(counts);
    let seconds = |ns: u64| ns as f64 * 1e-9;
    Some(NormalisedEvents::of(EventCounts {
        built,
        recorded: source_table.events_recorded(counts),
        lost_before_building: dropped + unseen,
        knows_all_triggers,
        lost: report.total(Unit::Events),
        filtered: filtered_counts(counts, source_table),
        trigger: trigger.map(|own| TriggerReport {
            offered: own.offered,
            accepted: own.accepted,
            refused: own.refused,
            real_time_s: seconds(own.real_ns),
            live_time_s: seconds(own.real_ns.saturating_sub(own.busy_ns)),
        }),
        live_at_most_s: live_here.map(|time| time.live_seconds),
    }))
}

/// What the event filter did with the events of a run; `None` of a run without.
fn filtered_counts(counts: &LedgerSnapshot, source_table: &SourceTable) -> Option<FilteredCounts> {
    let selection = source_table.event_selection(counts)?;
    let recordings = counts.recorded_events(FlowPath::Events).into_iter();
    Some(FilteredCounts {
        rejected: selection.rejected,
        prescaled: selection.prescaled,
        undecided_kept: selection.undecided_kept,
        undecided_lost: selection.undecided_lost,
        lost_behind: recordings.map(|slot| slot.counters.total_lost_any(Unit::Events)).sum(),
    })
}
