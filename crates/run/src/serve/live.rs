//! The state as the page takes it: the run's own, with what is observed of its hits.
//!
//! ```text
//!  LiveState + Observed + what was seen two seconds ago ─► one JSON object, units in the names
//! ```

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Value, json};

use super::flow;
use super::recorded::bytes_in;
use crate::config::Configuration;
use crate::observed::Observed;
use crate::supervise::{LiveState, RunHandle, SourceState};

/// Rates are taken over this time.
const WINDOW_SECONDS: f64 = 2.0;
/// Looks that are kept for it, at most.
const MOST_LOOKS: usize = 64;

/// What was counted at one look.
#[derive(Clone, Debug, Default)]
struct Look {
    sequence: u64,
    elapsed_seconds: f64,
    /// By row of the channel map.
    channels: Vec<u64>,
    coincidences: u64,
    bytes_recorded: u64,
}

/// Remembers what was seen, so that rates can be told.
#[derive(Debug, Default)]
pub(super) struct Live {
    run: u64,
    looks: VecDeque<Look>,
}

impl Live {
    /// The state of now.
    pub fn look(&mut self, run: &RunHandle, configuration: &Configuration) -> Value {
        let state = run.state();
        let observed = run.observed();
        if self.run != state.run {
            self.run = state.run;
            self.looks.clear();
        }
        let now = Look::take(&state, observed);
        let before = self.before(&now);
        // A run that takes no more data has no rates.
        let seconds = match state.state.takes_data() {
            true => (now.elapsed_seconds - before.elapsed_seconds).max(1e-3),
            false => f64::INFINITY,
        };
        let mut page = serde_json::to_value(&*state).unwrap_or_default();
        // By source and stage: the page draws the sums, and `/metrics` has all of it.
        if let Some(fields) = page.as_object_mut() {
            fields.remove("ledger");
        }
        page["run"] = run_of(&state, configuration);
        page["sources"] = state
            .sources
            .iter()
            .map(|source| source_of(source, observed, configuration, (&now, &before, seconds)))
            .collect();
        page["flow"] = json!(flow::lines(&state));
        page["bytes_recorded"] = now.bytes_recorded.into();
        page["byte_rate_hz"] = rate_hz(now.bytes_recorded, before.bytes_recorded, seconds).into();
        if let Some(observed) = observed {
            let report = observed.report();
            page["cuts"] = json!(report.cuts);
            page["clocks"] = json!(report.clocks);
            page["coincidences"] = report.coincidences.as_ref().map_or(Value::Null, |coincidences| {
                json!({
                    "rate_hz": rate_hz(now.coincidences, before.coincidences, seconds),
                    "events": coincidences.kept, "made": coincidences.made, "cut_short": coincidences.cut_short,
                    "multiplicity": coincidences.multiplicity,
                })
            });
        }
        page
    }

    /// Keeps a look, and gives the oldest within the window; at first, the start of the run.
    fn before(&mut self, now: &Look) -> Look {
        let oldest = now.elapsed_seconds - WINDOW_SECONDS;
        while self.looks.len() > 1
            && (self.looks[1].elapsed_seconds <= oldest || self.looks.len() >= MOST_LOOKS)
        {
            self.looks.pop_front();
        }
        let before = self.looks.front().cloned().unwrap_or_default();
        if self.looks.back().is_none_or(|last| last.sequence < now.sequence) {
            self.looks.push_back(now.clone());
        }
        before
    }
}

impl Look {
    fn take(state: &LiveState, observed: Option<&Observed>) -> Look {
        let history = observed.map(|observed| observed.spectra.history());
        let channels = history.map(|history| (0..history.channels()).map(|row| history.channel(row).hits));
        let report = observed.map(Observed::report);
        Look {
            sequence: state.sequence,
            elapsed_seconds: state.elapsed_seconds,
            channels: channels.into_iter().flatten().collect(),
            coincidences: report.and_then(|report| Some(report.coincidences.as_ref()?.kept)).unwrap_or(0),
            bytes_recorded: bytes_in(Path::new(&state.run_directory)),
        }
    }
}

fn rate_hz(now: u64, before: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

fn run_of(state: &LiveState, configuration: &Configuration) -> Value {
    let name = Path::new(&state.run_directory).file_name();
    json!({
        "number": state.run, "name": name.map(|name| name.to_string_lossy()), "title": state.title,
        "comment": configuration.run.comment, "elapsed_seconds": state.elapsed_seconds, "limits": state.end,
        "directory": state.run_directory,
    })
}

fn source_of(
    source: &SourceState,
    observed: Option<&Observed>,
    configuration: &Configuration,
    (now, before, seconds): (&Look, &Look, f64),
) -> Value {
    let mut line = serde_json::to_value(source).unwrap_or_default();
    let is_of_hits = source.links == 0;
    line["kind"] = if is_of_hits { "hits" } else { "triggered" }.into();
    let number = configuration.hit_sources().position(|(settings, _)| settings.head.name == source.name);
    let (Some(observed), Some(number)) = (observed, number) else { return line };
    let rows = observed.channels.channels().iter().enumerate();
    let own = rows.filter(|(_, channel)| channel.source.index() == number);
    let counted = |looked: &Look, row: usize| looked.channels.get(row).copied().unwrap_or(0);
    line["channels"] = own
        .map(|(row, channel)| {
            let group = &observed.channels.groups()[usize::from(channel.group)];
            let counts = observed.spectra.history().channel(row);
            json!({
                "channel": channel.number, "name": channel.name,
                "group": (channel.group > 0).then_some(group), "enabled": channel.enabled,
                "rate_hz": rate_hz(counted(now, row), counted(before, row), seconds),
                "hits": counts.hits, "dead_share": dead_share(counts.dead_time_ps, counts.real_time_ps),
            })
        })
        .collect();
    line
}

/// Dead time as a share of the real time, where the board tells.
fn dead_share(dead_ps: i64, real_ps: i64) -> Option<f64> {
    (real_ps > 0).then(|| dead_ps as f64 / real_ps as f64)
}
