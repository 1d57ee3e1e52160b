//! Rates over whole snapshots of the ledger.
//!
//! ```text
//!  snapshot 7 ─┐  all sources passed the same marker
//!  snapshot 8 ─┼─► counts of 9 − counts of 7, by the time between their requests ─► rates
//!  snapshot 9 ─┘
//! ```
//! What is on file grows by whole batches, and what stages publish is of different moments: rates of either beat with the batches.
//! A snapshot is of one moment, and hits count when they are decoded, ordered and given to the recording. Where a source has
//! ended, snapshots do not become whole any more; then the ledger as they stand are taken instead.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_data::ledger::Entries;
use thalweg_data::topology::{FlowPath, Node};
use thalweg_data::{BusyTime, LedgerSnapshot, SourceId, Stage, StageRole, Unit};
use thalweg_monitor::state::{FlowPlace, RateWindow};

use super::dead_time::TriggerCounts;
use super::file_growth::FileGrowth;
use crate::source_table::SourceTable;

/// Rates are taken over at least this time, once the run is that old.
pub(super) const WINDOW_SECONDS: f64 = 2.5;
/// The time without a whole snapshot after which the ledger is taken as it stands.
const PATIENCE_SECONDS: f64 = 2.0;
/// Between the first snapshots, which are asked for sooner: rates are shown soon after the start.
const FIRST_SECONDS: f64 = 0.2;

/// Counts of one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Seconds since the start of the run.
    pub(super) elapsed_seconds: f64,
    ordered: u64,
    kept: u64,
    lost_coincidences: u64,
    /// The counts that go with the ledger, and the time at which they were sampled.
    beside: Beside,
    sources: Vec<Counts>,
    /// Expected and built, by board.
    pub(super) boards: Vec<(u64, u64)>,
    /// The entries by `[[source]]`.
    entries: Arc<Vec<Entries>>,
}

/// The counts of one `[[source]]` so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) hits: u64,
    pub(super) fragments: u64,
    pub(super) bytes: u64,
    /// Lost data, each loss in its finest unit.
    pub(super) lost: u64,
}

impl Counts {
    /// Returns the counts of one `[[source]]`.
    pub(super) fn of(by_source: &LedgerSnapshot, index: usize) -> Counts {
        let source = SourceId(index as u16);
        let received = by_source.slot_at(StageRole::Intake, source);
        Counts {
            hits: by_source.made_of(source, Unit::Hits),
            fragments: by_source.made_of(source, Unit::Fragments),
            bytes: received.map_or(0, |slot| slot.counters.total_output(Unit::Bytes)),
            lost: by_source.lost_once(source),
        }
    }
}

/// All rates of one `[[source]]`, per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SourceRates {
    pub(super) hits_hz: Option<f64>,
    pub(super) fragments_hz: Option<f64>,
    pub(super) bytes_hz: Option<f64>,
    pub(super) lost_hz: Option<f64>,
}

/// The samples of the last seconds, and what can be said by them: a rate that is not known is `None`, and no 0.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: VecDeque<Sample>,
    files: FileGrowth,
    /// The run takes no more data, and its rates are 0.
    is_over: bool,
    /// Seconds from the start of the run to the end of its last pause, during which nothing was to come.
    resumed_seconds: f64,
    /// Seconds from the start of the run to a pause that goes on.
    paused_since: Option<f64>,
    /// How long the pauses lasted that are over.
    paused_seconds: f64,
    /// What the trigger had counted then.
    resumed_trigger: TriggerCounts,
    pub(super) free_at_start: Option<u64>,
    /// The stops of the path, once looked up.
    pub(super) flow_places: Option<Arc<Vec<FlowPlace>>>,
}

/// Counts sampled with the ledger that the ledger does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// The time of the sample, since the start of the run.
    pub(crate) elapsed_seconds: f64,
    pub(crate) events: u64,
    pub(crate) trigger: TriggerCounts,
    /// For how long BUSY was raised, where that is known.
    pub(crate) busy_time: BusyTime,
    /// Coincidences that the cuts on events kept.
    pub(crate) coincidences: u64,
    /// The bytes that the files of the run take.
    pub(crate) bytes_recorded: u64,
    /// Hits of each channel, by row of the channel map.
    pub(crate) channels: Vec<u64>,
}

impl Beside {
    /// Returns how fast a count has grown since `before`.
    fn per_second(&self, before: &Beside, count: impl Fn(&Beside) -> u64) -> f64 {
        let seconds = (self.elapsed_seconds - before.elapsed_seconds).max(1e-3);
        count(self).saturating_sub(count(before)) as f64 / seconds
    }
}

impl Rates {
    /// Those of a run to whose files a batch comes after `batch_age_seconds` at the latest.
    pub(crate) fn new(batch_age_seconds: f64) -> Rates {
        Rates { files: FileGrowth::new(batch_age_seconds), ..Rates::default() }
    }

    /// Those of a run that takes no more data.
    pub(super) fn over() -> Rates {
        Rates { is_over: true, ..Rates::default() }
    }

    /// A pause begins: nothing is to come.
    pub(super) fn pause(&mut self, elapsed_seconds: f64) {
        self.paused_since = Some(elapsed_seconds);
    }

    /// Begins anew behind a pause: no window covers it.
    pub(super) fn resume(&mut self, elapsed_seconds: f64, trigger: TriggerCounts) {
        self.paused_seconds += self.paused_since.take().map_or(0.0, |since| elapsed_seconds - since);
        self.samples.clear();
        self.files.clear();
        self.resumed_seconds = elapsed_seconds;
        self.resumed_trigger = trigger;
    }

    /// For how long the run has taken data, pauses left out.
    pub(super) fn taking_seconds(&self, elapsed_seconds: f64) -> f64 {
        self.paused_since.unwrap_or(elapsed_seconds) - self.paused_seconds
    }

    /// Returns when the next snapshot is due, seconds after the last.
    pub(super) fn snapshot_after_seconds(&self, elapsed_seconds: f64) -> f64 {
        ((elapsed_seconds - self.resumed_seconds) / 2.0)
            .clamp(FIRST_SECONDS, super::SNAPSHOT_EVERY.as_secs_f64())
    }

    /// Returns true if the ledger is to be taken as it stands, because no snapshot has become whole.
    pub(super) fn is_overdue(&self, elapsed_seconds: f64) -> bool {
        let latest = self.samples.back().map_or(self.resumed_seconds, |sample| sample.elapsed_seconds);
        elapsed_seconds - latest >= PATIENCE_SECONDS
    }

    /// Takes a sample at counts that were asked for at `asked_seconds` since the start of the run.
    pub(crate) fn take(
        &mut self,
        counts: &LedgerSnapshot,
        source_table: &SourceTable,
        asked_seconds: f64,
        beside: Beside,
    ) {
        let is_old = self.samples.back().is_some_and(|latest| latest.elapsed_seconds >= asked_seconds);
        if is_old || asked_seconds < self.resumed_seconds {
            return;
        }
        let by_source = counts.grouped(source_table.groups());
        // Given to the recording: what it has on file, and what waits in it.
        let kept = counts.at(source_table.kept.hits_end);
        let kept = kept.map(|own| own.counters.total_output(Unit::Hits) + own.counters.held(Unit::Hits));
        self.files.take(beside.elapsed_seconds, beside.bytes_recorded);
        self.samples.push_back(Sample {
            elapsed_seconds: asked_seconds,
            ordered: ordered(counts),
            kept: kept.sum(),
            lost_coincidences: counts.lost_coincidences().unwrap_or(0),
            beside,
            sources: (0..source_table.entries.len()).map(|index| Counts::of(&by_source, index)).collect(),
            boards: source_table
                .boards
                .clone()
                .map(|board| expected_and_built(counts, SourceId(board)))
                .collect(),
            entries: Arc::new(by_source.entries()),
        });
        let oldest = asked_seconds - WINDOW_SECONDS;
        while self.samples.len() > 2 && self.samples[1].elapsed_seconds <= oldest {
            self.samples.pop_front();
        }
    }

    /// The earliest sample of the window and the latest; `None` before there are two.
    pub(super) fn ends(&self) -> Option<(&Sample, &Sample)> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        (self.samples.len() > 1).then_some((first, last))
    }

    /// The ledger at both ends.
    pub(super) fn window(&self) -> RateWindow {
        let none = || RateWindow { is_over: self.is_over, ..RateWindow::default() };
        self.ends().map_or_else(none, |(before, now)| RateWindow {
            is_over: false,
            seconds: now.elapsed_seconds - before.elapsed_seconds,
            before: before.entries.clone(),
            now: now.entries.clone(),
            channels_hz: self.channels_hz(before, now),
        })
    }

    /// A rate by both ends of the window.
    fn over_window(&self, rate: impl Fn(&Sample, &Sample) -> f64) -> Option<f64> {
        let known = self.ends().map(|(before, now)| rate(before, now));
        known.or(self.is_over.then_some(0.0))
    }

    fn per_second(&self, count: impl Fn(&Sample) -> u64) -> Option<f64> {
        self.over_window(|before, now| {
            let seconds = now.elapsed_seconds - before.elapsed_seconds;
            count(now).saturating_sub(count(before)) as f64 / seconds
        })
    }

    /// Hits put into time order per second.
    pub(super) fn ordered_hz(&self) -> Option<f64> {
        self.per_second(|sample| sample.ordered)
    }

    /// Hits given to the recording per second.
    pub(super) fn kept_hz(&self) -> Option<f64> {
        self.per_second(|sample| sample.kept)
    }

    /// Returns how fast a count grows that is sampled with the ledger.
    fn beside_per_second(&self, count: impl Fn(&Beside) -> u64) -> Option<f64> {
        self.over_window(|before, now| now.beside.per_second(&before.beside, &count))
    }

    /// Events built per second.
    pub(super) fn events_hz(&self) -> Option<f64> {
        self.beside_per_second(|beside| beside.events)
    }

    /// Coincidences kept per second.
    pub(super) fn coincidences_hz(&self) -> Option<f64> {
        self.beside_per_second(|beside| beside.coincidences)
    }

    /// Coincidences lost per second.
    pub(super) fn lost_coincidences_hz(&self) -> Option<f64> {
        self.per_second(|sample| sample.lost_coincidences)
    }

    /// Bytes that come to the files per second.
    pub(super) fn bytes_recorded_hz(&self) -> Option<f64> {
        self.files.bytes_hz().or(self.is_over.then_some(0.0))
    }

    /// Hits of each channel per second, by row of the channel map.
    fn channels_hz(&self, before: &Sample, now: &Sample) -> Vec<f64> {
        let count = |row: usize| move |beside: &Beside| beside.channels.get(row).copied().unwrap_or(0);
        let rows = 0..now.beside.channels.len();
        rows.map(|row| now.beside.per_second(&before.beside, count(row))).collect()
    }

    /// Returns the part of the time since the early end of the window in which BUSY was raised, of what it is `now`; `None` where there is no
    /// window.
    pub(super) fn busy_fraction(&self, now: BusyTime) -> Option<f64> {
        let (before, _) = self.ends()?;
        now.since(before.beside.busy_time).fraction()
    }

    /// Returns the counts of the trigger at the early end of the window; where there is none, at the start, or behind the last pause. `None` of a
    /// run that takes no more data.
    pub(super) fn trigger_before(&self) -> Option<TriggerCounts> {
        let before = || self.ends().map_or(self.resumed_trigger, |(before, _)| before.beside.trigger);
        (!self.is_over).then(before)
    }

    /// The rates of one `[[source]]`.
    pub(super) fn of_source(&self, index: usize) -> SourceRates {
        let of =
            |count: fn(&Counts) -> u64| self.per_second(|sample| sample.sources.get(index).map_or(0, count));
        SourceRates {
            hits_hz: of(|counts| counts.hits),
            fragments_hz: of(|counts| counts.fragments),
            bytes_hz: of(|counts| counts.bytes),
            lost_hz: of(|counts| counts.lost),
        }
    }
}

/// Hits put into time order: by the stage to which they go, on their own way, from where they come into being.
fn ordered(counts: &LedgerSnapshot) -> u64 {
    let path = counts.path();
    let makers: Vec<&Node> = path.makers(Unit::Hits).collect();
    let orders: Vec<Stage> = path
        .takers(&makers, Unit::Hits)
        .into_iter()
        .filter(|node| node.flow_path == FlowPath::Hits)
        .map(|node| node.stage)
        .collect();
    let slots = counts.slots.iter().filter(|slot| orders.contains(&slot.stage));
    slots.map(|slot| slot.counters.total_output(Unit::Hits)).sum()
}

/// Events that a board should have answered, and those that it has.
pub(super) fn expected_and_built(counts: &LedgerSnapshot, board: SourceId) -> (u64, u64) {
    counts.slot_at(StageRole::SequenceNumbers, board).map_or((0, 0), |slot| {
        (slot.counters.total_input(Unit::Fragments), slot.counters.total_output(Unit::Fragments))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_snapshots_come_soon_and_later_ones_every_second() {
        let mut rates = Rates::default();
        let after = |rates: &Rates, from: f64| {
            [0.0, 0.2, 0.6, 1.6, 100.0].map(|seconds| rates.snapshot_after_seconds(from + seconds))
        };
        assert_eq!(after(&rates, 0.0), [0.2, 0.2, 0.3, 0.8, 1.0]);
        rates.resume(64.0, TriggerCounts::default());
        assert_eq!(after(&rates, 64.0).map(|seconds| (10.0 * seconds).round()), [2.0, 2.0, 3.0, 8.0, 10.0]);
    }

    #[test]
    fn rates_begin_anew_behind_a_pause() {
        let (mut rates, source_table) = (Rates::default(), SourceTable::default());
        let take = |rates: &mut Rates, seconds: f64, events: u64| {
            let beside = Beside { elapsed_seconds: seconds, events, ..Beside::default() };
            rates.take(&LedgerSnapshot::default(), &source_table, seconds, beside);
        };
        for (seconds, events) in [(1.0, 1000), (2.0, 2000), (3.0, 2000)] {
            take(&mut rates, seconds, events);
        }
        let paused = TriggerCounts { offered: 3000, refused: 1000, ..TriggerCounts::default() };
        rates.resume(3.5, paused);
        assert_eq!((rates.window().seconds, rates.events_hz()), (0.0, None), "nothing is known yet");
        assert!(!rates.is_overdue(5.0) && rates.is_overdue(5.5));
        take(&mut rates, 3.25, 2000);
        take(&mut rates, 3.75, 2250);
        assert_eq!(rates.window().seconds, 0.0, "one of them was asked for in the pause");
        assert_eq!(rates.trigger_before(), Some(paused), "what the pause has refused is not of late");
        take(&mut rates, 4.0, 2500);
        assert_eq!((rates.window().seconds, rates.events_hz()), (0.25, Some(1000.0)));
    }

    #[test]
    fn busy_of_late_begins_anew_behind_a_pause() {
        let (mut rates, source_table) = (Rates::default(), SourceTable::default());
        let busy = |raised_ms: u64, of_ms: u64| BusyTime {
            raised_ns: raised_ms * 1_000_000,
            of_ns: of_ms * 1_000_000,
        };
        let take = |rates: &mut Rates, of_ms: u64, raised_ms: u64| {
            let elapsed_seconds = of_ms as f64 * 1e-3;
            let beside = Beside { elapsed_seconds, busy_time: busy(raised_ms, of_ms), ..Beside::default() };
            rates.take(&LedgerSnapshot::default(), &source_table, elapsed_seconds, beside);
        };
        take(&mut rates, 1000, 0);
        assert_eq!(rates.busy_fraction(busy(500, 2000)), None, "there is no window yet");
        take(&mut rates, 2000, 500);
        assert_eq!(rates.busy_fraction(busy(500, 3000)), Some(0.25));
        rates.pause(3.0);
        rates.resume(63.0, TriggerCounts::default());
        take(&mut rates, 63_200, 60_500);
        take(&mut rates, 63_400, 60_500);
        assert_eq!(
            rates.busy_fraction(busy(60_500, 63_400)),
            Some(0.0),
            "what the pause took is not of late"
        );
    }

    #[test]
    fn rates_are_unknown_before_the_second_look() {
        let (mut rates, source_table) = (Rates::default(), SourceTable::default());
        let take = |rates: &mut Rates, asked_seconds: f64, events: u64| {
            let channels = vec![events, 2 * events];
            let beside = Beside { elapsed_seconds: asked_seconds, events, channels, ..Beside::default() };
            rates.take(&LedgerSnapshot::default(), &source_table, asked_seconds, beside);
        };
        take(&mut rates, 1.0, 50);
        assert_eq!((rates.window().seconds, rates.events_hz()), (0.0, None), "not 0: nobody knows");
        assert_eq!(
            (rates.of_source(0).hits_hz, rates.window().per_second(5, 3), rates.window().channel_hz(0)),
            (None, None, None)
        );
        take(&mut rates, 2.0, 1050);
        take(&mut rates, 1.5, 700);
        assert_eq!((rates.window().seconds, rates.events_hz()), (1.0, Some(1000.0)));
        assert_eq!(rates.window().channels_hz, [1000.0, 2000.0]);
        (3..20).for_each(|second| take(&mut rates, f64::from(second), 1000 * second as u64 + 50));
        assert!((2.5..=4.0).contains(&rates.window().seconds), "{}", rates.window().seconds);
        assert!(rates.is_overdue(21.0) && !rates.is_overdue(20.0));
        let over = Rates::over();
        assert_eq!(
            (over.events_hz(), over.window().per_second(5, 3)),
            (Some(0.0), Some(0.0)),
            "nothing comes"
        );
    }
}
