//! What the state says, as metrics. What it does not say is left out.
//!
//! ```text
//!  {"sources": [{"name": "board0", "hit_rate_hz": 5e6, …}]} ─► thalweg_source_hit_rate_hertz{source="board0"} 5000000
//! ```

use serde_json::Value;
use thalweg_data::RunState;

use super::exposition::{Exposition, Kind};

/// A family of one number: name, kind, unit, help, where it is in the state (or where else), and what it is multiplied with.
type Single = (&'static str, Kind, &'static str, &'static str, &'static str, f64);

const SINGLES: [Single; 20] = [
    ("thalweg_run_number", Kind::Gauge, "", "Number of the run.", "/run/number /run", 1.0),
    (
        "thalweg_run_elapsed_seconds",
        Kind::Gauge,
        "seconds",
        "Since the start of the run.",
        "/run/elapsed_seconds /elapsed_seconds",
        1.0,
    ),
    ("thalweg_recorded_hits", Kind::Counter, "hits", "Hits recorded.", "/hits_recorded", 1.0),
    ("thalweg_recorded_bytes", Kind::Counter, "bytes", "Bytes recorded.", "/bytes_recorded", 1.0),
    ("thalweg_recorded_events", Kind::Counter, "events", "Events recorded.", "/events/events_recorded", 1.0),
    (
        "thalweg_recorded_rate_hertz",
        Kind::Gauge,
        "hertz",
        "Hits recorded per second.",
        "/recorded_rate_hz",
        1.0,
    ),
    (
        "thalweg_recorded_bytes_per_second",
        Kind::Gauge,
        "",
        "Bytes recorded per second.",
        "/byte_rate_hz",
        1.0,
    ),
    ("thalweg_lost", Kind::Counter, "", "Lost, each source in its finest unit.", "/lost", 1.0),
    (
        "thalweg_disk_free_bytes",
        Kind::Gauge,
        "bytes",
        "Free where the run is recorded.",
        "/disk_free_bytes",
        1.0,
    ),
    ("thalweg_disk_left_seconds", Kind::Gauge, "seconds", "How long that lasts.", "/disk_left_seconds", 1.0),
    (
        "thalweg_event_rate_hertz",
        Kind::Gauge,
        "hertz",
        "Events built per second.",
        "/events/event_rate_hz",
        1.0,
    ),
    (
        "thalweg_busy_ratio",
        Kind::Gauge,
        "ratio",
        "Time BUSY, of all time: the dead time by the clock.",
        "/busy_time/fraction",
        1.0,
    ),
    (
        "thalweg_live_time_seconds",
        Kind::Gauge,
        "seconds",
        "Time without BUSY.",
        "/busy_time/live_seconds",
        1.0,
    ),
    (
        "thalweg_dead_time_ratio",
        Kind::Gauge,
        "ratio",
        "Triggers refused, of all offered: the dead time by triggers.",
        "/trigger/dead_time_fraction",
        1.0,
    ),
    ("thalweg_triggers_offered", Kind::Counter, "", "Triggers that came.", "/trigger/offered", 1.0),
    ("thalweg_triggers_refused", Kind::Counter, "", "Triggers refused while BUSY.", "/trigger/refused", 1.0),
    (
        "thalweg_event_median_bytes",
        Kind::Gauge,
        "bytes",
        "Half of all events are smaller.",
        "/events/median_event_bytes",
        1.0,
    ),
    (
        "thalweg_event_build_median_seconds",
        Kind::Gauge,
        "seconds",
        "Half of all events are built sooner.",
        "/events/median_build_ns",
        1e-9,
    ),
    (
        "thalweg_event_build_p99_seconds",
        Kind::Gauge,
        "seconds",
        "99 of 100 events are built sooner.",
        "/events/p99_build_ns",
        1e-9,
    ),
    (
        "thalweg_coincidence_rate_hertz",
        Kind::Gauge,
        "hertz",
        "Coincidences per second.",
        "/coincidences/rate_hz",
        1.0,
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

/// A family with a number for each entry of a list: labels are `(label, key)`.
struct Listed {
    list: &'static str,
    labels: &'static [(&'static str, &'static str)],
    /// Name, kind, unit, help, key, and what the number is multiplied with.
    families: &'static [Single],
}

const LISTS: [Listed; 4] = [
    Listed {
        list: "/sources",
        labels: &[("source", "name")],
        families: &[
            (
                "thalweg_source_hit_rate_hertz",
                Kind::Gauge,
                "hertz",
                "Hits decoded per second.",
                "hit_rate_hz",
                1.0,
            ),
            (
                "thalweg_source_fragment_rate_hertz",
                Kind::Gauge,
                "hertz",
                "Fragments found per second.",
                "fragment_rate_hz",
                1.0,
            ),
            (
                "thalweg_source_bytes_per_second",
                Kind::Gauge,
                "",
                "Bytes received per second.",
                "byte_rate_hz",
                1.0,
            ),
            (
                "thalweg_source_lost",
                Kind::Counter,
                "",
                "Lost, in the finest unit that is known.",
                "lost",
                1.0,
            ),
            (
                "thalweg_source_dead_time_ratio",
                Kind::Gauge,
                "ratio",
                "Dead time that the boards report, mean of the channels.",
                "/dead_time/fraction",
                1.0,
            ),
            (
                "thalweg_source_ring_fill_ratio",
                Kind::Gauge,
                "ratio",
                "Fullest ring behind the receiver.",
                "ring_fill",
                1.0,
            ),
            (
                "thalweg_source_pool_fill_ratio",
                Kind::Gauge,
                "ratio",
                "Blocks of memory on loan.",
                "pool_fill",
                1.0,
            ),
        ],
    },
    Listed {
        list: "/cuts",
        labels: &[("cut", "name"), ("on", "on")],
        families: &[
            ("thalweg_cut_input", Kind::Counter, "", "Hits or events that a cut looked at.", "in", 1.0),
            ("thalweg_cut_kept", Kind::Counter, "", "Hits or events that a cut kept.", "kept", 1.0),
        ],
    },
    Listed {
        list: "/clocks",
        labels: &[("source", "source"), ("reference", "reference")],
        families: &[
            (
                "thalweg_clock_offset_seconds",
                Kind::Gauge,
                "seconds",
                "How much later a clock is.",
                "offset_ps",
                1e-12,
            ),
            (
                "thalweg_clock_drift_ratio",
                Kind::Gauge,
                "ratio",
                "How that changes, seconds per second.",
                "drift_ppb",
                1e-9,
            ),
            ("thalweg_clock_locked", Kind::Gauge, "", "1 when a clock is where it should be.", "locked", 1.0),
        ],
    },
    Listed {
        list: "/alarms",
        labels: &[("alarm", "name"), ("subject", "subject"), ("level", "level")],
        families: &[("thalweg_alarm_active", Kind::Gauge, "", "1 while an alarm stands.", "active", 1.0)],
    },
];

/// Writes what the state has.
pub(super) fn write(exposition: &mut Exposition, state: &Value) {
    if let Some(word) = state["state"].as_str() {
        let mut states =
            exposition.family("thalweg_run_state", Kind::Gauge, "", "1 for the state of the run.");
        for each in STATES {
            states.sample(&[("state", each.word())], f64::from(u8::from(each.word() == word)));
        }
    }
    for (name, kind, unit, help, place, scale) in SINGLES {
        let value = place.split(' ').find_map(|place| state.pointer(place).and_then(number));
        exposition.family(name, kind, unit, help).maybe(&[], value.map(|value| value * scale));
    }
    for Listed { list, labels, families } in LISTS {
        let entries = state.pointer(list).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (name, kind, unit, help, key, scale) in families {
            let mut family = exposition.family(name, *kind, unit, help);
            for entry in entries {
                let pairs: Vec<_> = labels.iter().map(|(label, key)| (*label, word(entry, key))).collect();
                family.maybe(&pairs, field(entry, key).and_then(number).map(|value| value * scale));
            }
        }
    }
    write_channels(exposition, state);
    write_boards(exposition, state);
    let mut series = exposition.family("thalweg_series", Kind::Gauge, "", "Values of slow control.");
    for (name, value) in state["series"].as_object().into_iter().flatten() {
        series.maybe(&[("series", name)], number(value).or_else(|| number(&value["value"])));
    }
}

fn write_channels(exposition: &mut Exposition, state: &Value) {
    let mut rates = exposition.family(
        "thalweg_channel_hit_rate_hertz",
        Kind::Gauge,
        "hertz",
        "Hits of a channel per second.",
    );
    for source in state["sources"].as_array().into_iter().flatten() {
        for channel in source["channels"].as_array().into_iter().flatten() {
            let number_of = channel["channel"].as_u64().map_or_else(String::new, |number| number.to_string());
            let labels = [
                ("source", word(source, "name")),
                ("channel", number_of.as_str()),
                ("name", word(channel, "name")),
                ("group", word(channel, "group")),
            ];
            rates.maybe(&labels, number(&channel["rate_hz"]));
        }
    }
}

fn write_boards(exposition: &mut Exposition, state: &Value) {
    let help = "Share of the last seconds' events that a board answered.";
    let mut family = exposition.family("thalweg_board_completeness_ratio", Kind::Gauge, "ratio", help);
    for board in state.pointer("/events/completeness").and_then(Value::as_array).into_iter().flatten() {
        let expected = number(&board["expected"]).filter(|expected| *expected > 0.0);
        let share = expected.and_then(|expected| Some(number(&board["built"])? / expected));
        family.maybe(&[("board", word(board, "name"))], share);
    }
}

/// A field by its name, or by its place.
fn field<'v>(entry: &'v Value, key: &str) -> Option<&'v Value> {
    if key.starts_with('/') { entry.pointer(key) } else { entry.get(key) }
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// A number, or a truth as 0 and 1.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|truth| f64::from(u8::from(truth))))
}
