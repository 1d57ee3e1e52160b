//! The live state as metrics. What a run does not have is left out.
//!
//! ```text
//!  LiveState { sources: [SourceState { name: "board0", hit_rate_hz: 5e6, … }], … }
//!                                             ─► thalweg_source_hit_rate_hertz{source="board0"} 5000000
//! ```

use thalweg_analysis::clocks::ClockState;
use thalweg_data::RunState;

use super::exposition::{Exposition, Kind};
use crate::state::{ChannelState, CopyState, CutReport, LiveState, SourceState};

/// A family of numbers of `T`.
struct Metric<T> {
    name: &'static str,
    kind: Kind,
    /// With a unit, the name ends with it.
    unit: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<f64>,
}

const fn metric<T>(
    kind: Kind,
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<f64>,
) -> Metric<T> {
    Metric { name, kind, unit, help, read }
}

const fn gauge<T>(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<f64>,
) -> Metric<T> {
    metric(Kind::Gauge, name, unit, help, read)
}

const fn counter<T>(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<f64>,
) -> Metric<T> {
    metric(Kind::Counter, name, unit, help, read)
}

const OF_THE_RUN: [Metric<LiveState>; 23] = [
    gauge("thalweg_run_number", "", "Number of the run.", |state| Some(state.run.number as f64)),
    gauge("thalweg_run_elapsed_seconds", "seconds", "Since the start of the run.", |state| {
        Some(state.elapsed_seconds)
    }),
    counter("thalweg_recorded_hits", "hits", "Hits recorded.", |state| Some(state.hits_recorded as f64)),
    counter("thalweg_recorded_bytes", "bytes", "Bytes recorded.", |state| Some(state.bytes_recorded as f64)),
    counter("thalweg_recorded_events", "events", "Events recorded.", |state| {
        Some(state.events.as_ref()?.events_recorded as f64)
    }),
    gauge("thalweg_recorded_rate_hertz", "hertz", "Hits recorded per second.", |state| {
        state.recorded_rate_hz
    }),
    gauge("thalweg_recorded_bytes_per_second", "", "Bytes recorded per second.", |state| state.byte_rate_hz),
    // It falls when something that was missing comes late.
    gauge("thalweg_lost", "", "Lost, each loss in its finest unit.", |state| Some(state.lost as f64)),
    gauge("thalweg_disk_free_bytes", "bytes", "Free where the run is recorded.", |state| {
        Some(state.disk_free_bytes as f64)
    }),
    gauge("thalweg_disk_left_seconds", "seconds", "How long that lasts.", |state| state.disk_left_seconds),
    gauge("thalweg_event_rate_hertz", "hertz", "Events built per second.", |state| {
        state.events.as_ref()?.event_rate_hz
    }),
    gauge("thalweg_busy_ratio", "ratio", "Time BUSY, of all time: the dead time by the clock.", |state| {
        Some(state.busy_time?.fraction)
    }),
    gauge("thalweg_live_time_seconds", "seconds", "Time without BUSY.", |state| {
        Some(state.busy_time?.live_seconds)
    }),
    gauge(
        "thalweg_dead_time_ratio",
        "ratio",
        "Triggers refused, of all offered: the dead time by triggers.",
        |state| state.trigger?.dead_time_fraction,
    ),
    counter("thalweg_triggers_offered", "", "Triggers that came.", |state| {
        Some(state.trigger?.offered as f64)
    }),
    counter("thalweg_triggers_refused", "", "Triggers refused while BUSY.", |state| {
        Some(state.trigger?.refused as f64)
    }),
    gauge("thalweg_trigger_live_ratio", "ratio", "Triggers accepted, of all offered.", |state| {
        state.events.as_ref()?.normalised?.live_fraction
    }),
    gauge(
        "thalweg_trigger_corrected_rate_hertz",
        "hertz",
        "Triggers per second, refused and lost ones among them.",
        |state| state.events.as_ref()?.normalised?.rate_hz.value,
    ),
    gauge(
        "thalweg_events_loss_corrected",
        "",
        "Accepted triggers that the recorded events stand for.",
        |state| state.events.as_ref()?.normalised?.loss_corrected.value,
    ),
    gauge("thalweg_event_median_bytes", "bytes", "Half of all events are smaller.", |state| {
        Some(state.events.as_ref()?.sample.median_event_bytes as f64)
    }),
    gauge("thalweg_event_build_median_seconds", "seconds", "Half of all events are built sooner.", |state| {
        Some(state.events.as_ref()?.sample.median_build_ns as f64 * 1e-9)
    }),
    gauge("thalweg_event_build_p99_seconds", "seconds", "99 of 100 events are built sooner.", |state| {
        Some(state.events.as_ref()?.sample.p99_build_ns as f64 * 1e-9)
    }),
    gauge("thalweg_coincidence_rate_hertz", "hertz", "Coincidences per second.", |state| {
        state.coincidences.as_ref()?.rate_hz
    }),
];

const OF_SOURCES: [Metric<SourceState>; 7] = [
    gauge("thalweg_source_hit_rate_hertz", "hertz", "Hits decoded per second.", |source| source.hit_rate_hz),
    gauge("thalweg_source_fragment_rate_hertz", "hertz", "Fragments found per second.", |source| {
        source.fragment_rate_hz
    }),
    gauge("thalweg_source_bytes_per_second", "", "Bytes received per second.", |source| source.byte_rate_hz),
    gauge("thalweg_source_lost", "", "Lost, in the finest unit that is known.", |source| {
        Some(source.lost as f64)
    }),
    gauge(
        "thalweg_source_dead_time_ratio",
        "ratio",
        "Dead time that the boards report, mean of the channels.",
        |source| Some(source.dead_time?.fraction),
    ),
    gauge("thalweg_source_ring_fill_ratio", "ratio", "Fullest ring behind the receiver.", |source| {
        Some(source.ring_fill)
    }),
    gauge("thalweg_source_pool_fill_ratio", "ratio", "Blocks of memory on loan.", |source| {
        Some(source.pool_fill)
    }),
];

const OF_CUTS: [Metric<CutReport>; 2] = [
    counter("thalweg_cut_input", "", "Hits or events that a cut looked at.", |cut| Some(cut.input as f64)),
    counter("thalweg_cut_kept", "", "Hits or events that a cut kept.", |cut| Some(cut.kept as f64)),
];

const OF_CLOCKS: [Metric<ClockState>; 3] = [
    gauge("thalweg_clock_offset_seconds", "seconds", "How much later a clock is.", |clock| {
        Some(clock.offset_ps? * 1e-12)
    }),
    gauge("thalweg_clock_drift_ratio", "ratio", "How that changes, seconds per second.", |clock| {
        Some(clock.drift_ppb? * 1e-9)
    }),
    gauge("thalweg_clock_locked", "", "1 when a clock is where it should be.", |clock| {
        Some(f64::from(u8::from(clock.locked)))
    }),
];

const OF_COPIES: [Metric<CopyState>; 10] = [
    gauge("thalweg_ship_recorded_bytes", "bytes", "Of this run, recorded.", |copy| {
        Some(copy.recorded.bytes as f64)
    }),
    gauge("thalweg_ship_proved_bytes", "bytes", "Of these, proved at a destination.", |copy| {
        Some(copy.proved.bytes as f64)
    }),
    gauge("thalweg_ship_waiting_bytes", "bytes", "Of these, waiting or on their way.", |copy| {
        Some(copy.waiting.bytes as f64)
    }),
    gauge("thalweg_ship_refused_bytes", "bytes", "Of these, not to be shipped as they are.", |copy| {
        Some(copy.refused.bytes as f64)
    }),
    gauge("thalweg_ship_recorded_rows", "rows", "Rows of this run, recorded.", |copy| {
        copy.recorded.rows.map(|rows| rows as f64)
    }),
    gauge("thalweg_ship_proved_rows", "rows", "Of these, proved at a destination.", |copy| {
        copy.proved.rows.map(|rows| rows as f64)
    }),
    gauge("thalweg_ship_balances", "", "1 when these balance.", |copy| {
        copy.balances.map(|balances| f64::from(u8::from(balances)))
    }),
    gauge("thalweg_ship_backlog_bytes", "bytes", "Of all runs, not proved at a destination.", |copy| {
        Some(copy.backlog_bytes as f64)
    }),
    gauge("thalweg_ship_runs_behind", "", "Runs that are not proved at a destination.", |copy| {
        Some(copy.runs_behind as f64)
    }),
    gauge(
        "thalweg_ship_silent_seconds",
        "seconds",
        "Since anything was proved while something waits.",
        |copy| Some(copy.silent_seconds),
    ),
];

const STATES: [RunState; 7] = [
    RunState::Configured,
    RunState::Ready,
    RunState::Running,
    RunState::Paused,
    RunState::Stopping,
    RunState::Stopped,
    RunState::Failed,
];

/// Writes what the state has.
pub(super) fn write(exposition: &mut Exposition, state: &LiveState) {
    let mut states = exposition.family("thalweg_run_state", Kind::Gauge, "", "1 for the state of the run.");
    for each in STATES {
        states.sample(&[("state", each.word())], f64::from(u8::from(each == state.state)));
    }
    write_each(exposition, &OF_THE_RUN, std::slice::from_ref(state), |_| []);
    write_each(exposition, &OF_SOURCES, &state.sources, |source| [("source", &source.name)]);
    write_each(exposition, &OF_CUTS, &state.cuts, |cut| [("cut", &cut.name), ("on", cut.on.word())]);
    write_each(exposition, &OF_CLOCKS, &state.clocks, |clock| {
        [("source", &clock.source), ("reference", &clock.reference)]
    });
    write_each(exposition, &OF_COPIES, &state.copies, |copy| [("to", &copy.to)]);
    let mut alarms = exposition.family("thalweg_alarm_active", Kind::Gauge, "", "1 while an alarm stands.");
    for alarm in &state.alarms {
        let labels = [("alarm", &*alarm.name), ("subject", &alarm.subject), ("level", alarm.level.word())];
        alarms.sample(&labels, f64::from(u8::from(alarm.active)));
    }
    write_channels(exposition, state);
    write_boards(exposition, state);
    let mut series = exposition.family("thalweg_series", Kind::Gauge, "", "Values of slow control.");
    for (name, series_value) in &state.series {
        if let Some(value) = series_value.value {
            series.sample(&[("series", name), ("unit", &series_value.unit)], value);
        }
    }
}

fn write_each<T, const LABELS: usize>(
    exposition: &mut Exposition,
    metrics: &[Metric<T>],
    entries: &[T],
    labels: impl Fn(&T) -> [(&'static str, &str); LABELS],
) {
    for Metric { name, kind, unit, help, read } in metrics {
        let mut family = exposition.family(name, *kind, unit, help);
        for entry in entries {
            family.maybe(&labels(entry), read(entry));
        }
    }
}

const OF_CHANNELS: [Metric<ChannelState>; 3] = [
    gauge("thalweg_channel_hit_rate_hertz", "hertz", "Hits of a channel per second.", |channel| {
        channel.rate_hz
    }),
    gauge(
        "thalweg_channel_dead_time_ratio",
        "ratio",
        "Dead time of a channel since the start, as its board reports it.",
        |channel| channel.dead_time_fraction,
    ),
    gauge(
        "thalweg_channel_corrected_rate_hertz",
        "hertz",
        "Pulses of a channel per second of live time since the start, lost ones included.",
        |channel| channel.corrected_rate_hz,
    ),
];

fn write_channels(exposition: &mut Exposition, state: &LiveState) {
    for Metric { name, kind, unit, help, read } in OF_CHANNELS {
        let mut family = exposition.family(name, kind, unit, help);
        for source in &state.sources {
            for channel in &source.channels {
                let number = channel.channel.to_string();
                let labels = [
                    ("source", &*source.name),
                    ("channel", &number),
                    ("name", &channel.name),
                    ("group", channel.group.as_deref().unwrap_or_default()),
                ];
                family.maybe(&labels, read(channel));
            }
        }
    }
}

fn write_boards(exposition: &mut Exposition, state: &LiveState) {
    let help = "Fraction of the last seconds' events that a board answered.";
    let mut family = exposition.family("thalweg_board_completeness_ratio", Kind::Gauge, "ratio", help);
    for board in state.events.iter().flat_map(|events| &events.completeness) {
        family.maybe(&[("board", &board.name)], board.fraction());
    }
}
