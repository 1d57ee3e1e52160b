//! Puts the live state of a run together: what the terminal shows, what a page draws, what a server sends.
//!
//! ```text
//!  ledger, gauges, source table, disk ─ supervisor, each 50 ms ─► LiveState ─► terminal · JSON · page
//! ```
//! One [type](thalweg_monitor::state) for runs of hits, of events, and of both. What is only looked at on request, as the channels, is
//! put in by `serve`.

use thalweg_analysis::normalise::Corrected;
use thalweg_data::{BusyTime, LedgerSnapshot, SourceId};
use thalweg_monitor::state::{
    BuildSample, CoincidenceState, Completeness, DeadTime, EventState, LiveState, RunDeadTime, SourceKind,
    SourceState, TriggerCounts, TriggerState,
};

use super::dead_time::{dead_by_busy, normalised_events, reported_dead_time, reported_rate};
use super::rates::{Counts, Rates, Sample, SourceRates, expected_and_built};
use crate::gauges::{Gauges, GaugesOf, add_drop_counters};
use crate::observed::{CoincidenceReport, Observed};
use crate::source_table::{Entry, SourceTable};

/// How long a run has to write before it is said how long the disk lasts, s: what it writes at once at its start, and by whole batches, is
/// no rate.
const LEAST_WRITING_SECONDS: f64 = 5.0;

/// The parts of a run from which its live state is put together.
pub(crate) struct StateInputs<'l> {
    pub(crate) counts: &'l LedgerSnapshot,
    pub(crate) source_table: &'l SourceTable,
    pub(crate) gauges: &'l GaugesOf,
    pub(crate) build: Option<BuildSample>,
    /// For how long BUSY was raised, where that is known.
    pub(crate) busy_time: Option<BusyTime>,
    pub(crate) trigger: Option<TriggerCounts>,
    /// Whether the time of the run is that of a replay.
    pub(crate) is_replay: bool,
    pub(crate) observed: Option<&'l Observed>,
    /// The known part of the state: the phase of the run, its name, its end.
    pub(crate) known: LiveState,
}

impl Rates {
    /// Completes what is known with counts and rates.
    pub(crate) fn state(&mut self, at: StateInputs<'_>) -> LiveState {
        let StateInputs { counts, source_table, gauges, build, trigger, observed, known, .. } = at;
        let flow_places = self.flow_places(counts, source_table);
        let by_source = counts.grouped(source_table.groups());
        let disk_left_seconds = self.disk_left_seconds(&known);
        let over = Rates::over();
        let rates = if known.state.takes_data() { &*self } else { &over };
        let before = rates.trigger_before();
        let recent_busy_fraction = at.busy_time.and_then(|now| rates.busy_fraction(now));
        let busy_time = dead_by_busy(at.busy_time, known.elapsed_seconds);
        let live_here = busy_time.filter(|_| !at.is_replay);
        let normalised = normalised_events(counts, source_table, trigger, live_here);
        let report = source_table.loss_report(&by_source);
        let sources: Vec<SourceState> = (0..source_table.entries.len())
            .map(|index| {
                let of_source = (&source_table.entries[index], index);
                SourceState {
                    loss: report.of_source(SourceId(index as u16)).cloned(),
                    dead_time: dead_time(observed, source_table, index),
                    ..source_state(of_source, (&by_source, gauges), rates)
                }
            })
            .collect();
        let lost_coincidences = counts.lost_coincidences();
        let report_of_hits = observed.map(Observed::report).unwrap_or_default();
        let trigger = trigger.map(|trigger| TriggerState::of(trigger, before));
        LiveState {
            trigger,
            busy_time,
            recent_busy_fraction,
            dead_time: RunDeadTime::of(
                trigger,
                busy_time.map(|time| (time, recent_busy_fraction)),
                sources.iter().filter_map(|own| own.dead_time),
            ),
            lost: sources.iter().map(|source| source.lost).chain(lost_coincidences).sum(),
            sources,
            flow_places,
            loss: report.totals,
            ordered_rate_hz: rates.ordered_hz(),
            recorded_rate_hz: rates.kept_hz(),
            rate_window_seconds: rates.window().seconds,
            rate_window: rates.window(),
            hits_recorded: source_table.kept.hits_recorded(counts).unwrap_or(0),
            hits_kept: source_table.kept.hits,
            byte_rate_hz: rates.bytes_recorded_hz(),
            cuts: report_of_hits.cuts,
            clocks: report_of_hits.clocks,
            applied: observed.map(|observed| observed.view.standing()).unwrap_or_default(),
            coincidences: report_of_hits
                .coincidences
                .map(|report| coincidence_state(report, lost_coincidences, rates)),
            coincidences_recorded: source_table
                .coincidences
                .map(|_| source_table.coincidences_recorded(counts)),
            events: build.map(|sample| {
                // One number for every screen. Behind the end of a run BUSY stays raised, and holds nothing back.
                let busy = sample.busy && known.state.takes_data();
                let sample = BuildSample { busy, busy_share: busy_time.map(|busy| busy.fraction), ..sample };
                EventState { normalised, ..event_state(sample, (source_table, counts), rates) }
            }),
            losses: source_table.grouped_losses(&by_source),
            ledger: Some(by_source.entries()),
            disk_left_seconds,
            ..known
        }
    }

    /// How long the free space lasts at mean rates: that of the run's own files while it takes data, and that at which other programs fill
    /// the disk. So it is known, and not too long, behind a pause and while others free space. Not known in the first seconds.
    fn disk_left_seconds(&mut self, known: &LiveState) -> Option<f64> {
        let free = known.disk_free_bytes;
        let filled_by_all = self.free_at_start.get_or_insert(free).saturating_sub(free);
        let filled_by_others = filled_by_all.saturating_sub(known.bytes_recorded);
        let taking_seconds = self.taking_seconds(known.elapsed_seconds);
        if taking_seconds < LEAST_WRITING_SECONDS {
            return None;
        }
        let own_hz = known.bytes_recorded as f64 / taking_seconds;
        let filled_hz = own_hz + filled_by_others as f64 / known.elapsed_seconds;
        (filled_hz > 0.0).then(|| free as f64 / filled_hz)
    }
}

/// The state of event building, by the builder's sample and by the counts.
fn event_state(
    sample: BuildSample,
    (source_table, counts): (&SourceTable, &LedgerSnapshot),
    rates: &Rates,
) -> EventState {
    EventState {
        event_rate_hz: rates.events_hz(),
        events_built: sample.events(),
        events_partial: sample.partial(),
        events_recorded: source_table.events_recorded(counts),
        events_kept: source_table.kept.events,
        selection: source_table.event_selection(counts),
        normalised: None,
        completeness: completeness(source_table, counts, rates),
        sample,
    }
}

/// Returns the dead time that the boards of a `[[source]]` of hits report.
pub(crate) fn dead_time(
    observed: Option<&Observed>,
    source_table: &SourceTable,
    index: usize,
) -> Option<DeadTime> {
    reported_dead_time(observed?, number_of_hits(source_table, index)?)
}

/// Returns the rate of a `[[source]]` of hits per second of live time.
pub(crate) fn corrected_rate(
    observed: Option<&Observed>,
    source_table: &SourceTable,
    index: usize,
) -> Corrected {
    let number = number_of_hits(source_table, index);
    observed.zip(number).map_or(Corrected::UNKNOWN, |(observed, number)| reported_rate(observed, number))
}

/// The index among the sources of hits of a `[[source]]`, if it is one.
fn number_of_hits(source_table: &SourceTable, index: usize) -> Option<usize> {
    let is_of_hits = |entry: &&Entry| entry.links.is_empty();
    let number = source_table.entries[..index].iter().filter(is_of_hits).count();
    is_of_hits(&&source_table.entries[index]).then_some(number)
}

/// The state of coincidences, by what has become of them and what was lost of them.
fn coincidence_state(report: CoincidenceReport, lost: Option<u64>, rates: &Rates) -> CoincidenceState {
    CoincidenceState {
        rate_hz: rates.coincidences_hz(),
        events: report.kept,
        made: report.made,
        lost: lost.unwrap_or(0),
        lost_rate_hz: rates.lost_coincidences_hz(),
        cut_short: report.cut_short,
        multiplicity: report.multiplicity,
    }
}

/// The state of a `[[source]]` of this index, by the counts, the gauges and the rates.
fn source_state(
    (entry, index): (&Entry, usize),
    (by_source, gauges): (&LedgerSnapshot, &GaugesOf),
    rates: &Rates,
) -> SourceState {
    let counts = Counts::of(by_source, index);
    let SourceRates { hits_hz, fragments_hz, bytes_hz, lost_hz } = rates.of_source(index);
    let own = || entry.all.iter().filter_map(|source| gauges.get(source));
    let fullest = |of: fn(&Gauges) -> f64| own().map(|gauges| of(gauges)).fold(0.0, f64::max);
    SourceState {
        hit_rate_hz: hits_hz,
        fragment_rate_hz: fragments_hz,
        byte_rate_hz: bytes_hz,
        lost_rate_hz: lost_hz,
        hits: counts.hits,
        fragments: counts.fragments,
        bytes: counts.bytes,
        lost: counts.lost,
        ring_fill: fullest(Gauges::ring_fill),
        pool_fill: fullest(Gauges::pool_fill),
        pool_bytes: own().map(|gauges| gauges.pool_bytes()).sum(),
        drop_counters: add_drop_counters(own()),
        ..configured_source(entry)
    }
}

/// Returns what is known of a source before it runs.
fn configured_source(entry: &Entry) -> SourceState {
    SourceState {
        name: entry.name.clone(),
        kind: if entry.links.is_empty() { SourceKind::Hits } else { SourceKind::Triggered },
        links: entry.links.len(),
        boards: entry.links.iter().map(|link| link.boards.len()).sum(),
        ..SourceState::default()
    }
}

/// The sources of a run that has not begun.
pub(crate) fn configured_sources(source_table: &SourceTable) -> Vec<SourceState> {
    source_table.entries.iter().map(configured_source).collect()
}

fn completeness(source_table: &SourceTable, counts: &LedgerSnapshot, rates: &Rates) -> Vec<Completeness> {
    let boards = source_table.boards.clone().enumerate().map(|(index, board)| {
        let of = |sample: &Sample| sample.boards.get(index).copied().unwrap_or_default();
        let (before, now) = rates.ends().map(|(before, now)| (of(before), of(now))).unwrap_or_default();
        let (expected, built) = expected_and_built(counts, SourceId(board));
        Completeness {
            name: source_table.names[usize::from(board)].clone(),
            expected: now.0.saturating_sub(before.0),
            built: now.1.saturating_sub(before.1),
            missing: expected.saturating_sub(built),
        }
    });
    boards.collect()
}

#[cfg(test)]
mod tests {
    use thalweg_data::{Counters, Ledger, LossReason, RunState, Stage, Unit};

    use super::super::rates::Beside;
    use super::*;

    #[test]
    fn coincidences_that_could_not_be_recorded_are_losses_of_the_run() {
        let ledger = Ledger::create(None, &["coincidences".to_owned()]).expect("memory");
        let slots = [Stage::Coincide, Stage::Record].map(|at| ledger.open(at, SourceId(0), &[Unit::Events]));
        let source_table = SourceTable { coincidences: Some(SourceId(0)), ..SourceTable::default() };
        let mut rates = Rates::default();
        for (seconds, lost) in [(1.0, 0), (3.0, 4)] {
            let (mut made, mut recorded) = (Counters::default(), Counters::default());
            made.output(Unit::Events, 10);
            recorded.output(Unit::Events, 10 - lost);
            recorded.lost(LossReason::DiskFull, Unit::Events, lost);
            slots[0].publish(&made);
            slots[1].publish(&recorded);
            rates.take(&ledger.snapshot(), &source_table, seconds, Beside::default());
        }
        let state = rates.state(StateInputs {
            counts: &ledger.snapshot(),
            source_table: &source_table,
            gauges: &GaugesOf::default(),
            build: None,
            busy_time: None,
            trigger: None,
            is_replay: false,
            observed: None,
            known: LiveState { state: RunState::Running, ..LiveState::default() },
        });
        let texts: Vec<&str> = state.loss.iter().map(|total| total.text.as_str()).collect();
        assert_eq!((state.lost, texts), (4, vec!["coincidences lost: 4 (40.0 %)"]));
        assert_eq!(rates.lost_coincidences_hz(), Some(2.0));
    }

    #[test]
    fn a_pause_does_not_make_the_disk_last_longer() {
        let mut rates = Rates::default();
        let left = |rates: &mut Rates, elapsed_seconds: f64, disk_free_bytes, bytes_recorded| {
            rates.disk_left_seconds(&LiveState {
                elapsed_seconds,
                disk_free_bytes,
                bytes_recorded,
                ..LiveState::default()
            })
        };
        assert_eq!(left(&mut rates, 0.0, 1000, 0), None);
        assert_eq!(left(&mut rates, 10.0, 900, 100), Some(90.0));
        rates.pause(10.0);
        assert_eq!(left(&mut rates, 40.0, 900, 100), Some(90.0), "time passes, and nothing is written");
        rates.resume(60.0, TriggerCounts::default());
        assert_eq!(left(&mut rates, 70.0, 800, 200), Some(80.0));
        rates.pause(70.0);
        rates.resume(90.0, TriggerCounts::default());
        assert_eq!(left(&mut rates, 100.0, 700, 300), Some(70.0), "all pauses are left out");
        assert_eq!(left(&mut rates, 100.0, 400, 300), Some(400.0 / 13.0), "others write in pauses, too");
    }

    #[test]
    fn the_disk_lasts_as_long_as_the_run_lets_it_whatever_other_programs_do() {
        let mut rates = Rates::default();
        let mut left = |elapsed_seconds: f64, disk_free_bytes, bytes_recorded| {
            rates.disk_left_seconds(&LiveState {
                elapsed_seconds,
                disk_free_bytes,
                bytes_recorded,
                ..LiveState::default()
            })
        };
        assert_eq!(left(0.0, 1000, 0), None, "nothing is written yet");
        assert_eq!(left(0.9, 990, 10), None, "what is written at once at the start is no rate");
        assert_eq!(left(10.0, 900, 100), Some(90.0));
        assert_eq!(left(20.0, 600, 200), Some(30.0), "another program writes, too");
        assert_eq!(left(30.0, 1500, 300), Some(150.0), "another program has freed space");
    }
}
