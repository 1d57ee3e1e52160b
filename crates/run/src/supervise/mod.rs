//! A run from its start to its balanced ledger: the state machine around the threads.
//!
//! ```text
//!  Plan ─► assemble ─► Ready ─► Running ⇄ Paused ─► Stopping ─► Stopped
//!                                  │ progress, snapshots        └─► Summary, run.json
//! ```

mod dead_time;
mod file_growth;
mod flow_places;
mod handle;
mod progress;
mod rates;
mod refused;
mod spectra_left_out;
mod summary;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, mpsc};
use std::time::{Duration, Instant};

use thalweg_data::{Busy, BusyTime, Ledger, LedgerSnapshot, Mark, RunState, StageRole, Unit};
use thalweg_monitor::state::LiveRun;
pub use thalweg_monitor::state::{
    BuildSample, Completeness, DeadTime, DeadTimeOf, EndWhen, EventState, LiveState, PausedBy, RateWindow,
    RefusedUnit, SourceState, TriggerState,
};
use thalweg_readout::RunClock;
use thalweg_record::RunDirectory;

pub(crate) use dead_time::{TriggerCounts, busy_time, dead_by_busy, normalised_events};
#[cfg(test)]
pub(crate) use flow_places::of as flow_places;
pub use handle::{CommandError, RunCommand, RunHandle};
pub(crate) use progress::{configured_sources, corrected_rate, dead_time};
pub(crate) use spectra_left_out::MOST_SPECTRA_BYTES;
pub use spectra_left_out::SpectraLeftOut;
pub use summary::{ChannelSummary, EventSummary, ScopeJoins, SourceSummary, Summary};
pub(crate) use summary::{no_data, unplaced_loss};

use crate::gauges::{BuildGauges, GaugesOf, RefusedGauges};
use crate::observed::Observed;
use crate::pipeline::Signals;
use crate::slow_control::Values;
use crate::source_table::SourceTable;
use progress::StateInputs;
pub(crate) use rates::{Beside, Rates};

/// The interval at which the state is sampled.
const TICK: Duration = Duration::from_millis(20);
/// The interval at which it is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);
/// The interval at which the ledger is taken under a number.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// The time for which a snapshot is waited for.
const SNAPSHOT_GIVEN_UP: Duration = Duration::from_secs(5);

/// The observer of a run, which may end it.
pub struct Watch<'w> {
    /// Called a few times a second.
    pub show: &'w mut dyn FnMut(&Arc<LiveState>),
    /// Set, as by a signal handler, to end the run in good order.
    pub stop: &'w AtomicBool,
    /// The handle for other threads, which read the run's state and command it.
    pub handle: RunHandle,
}

impl Watch<'static> {
    /// Returns a watch without an observer: the run goes on until it ends by itself.
    pub fn nobody() -> Watch<'static> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        // A closure without captures: nothing is allocated, so nothing leaks.
        Watch { show: Box::leak(Box::new(|_: &Arc<LiveState>| {})), stop: &NEVER, handle: RunHandle::new() }
    }
}

/// Everything that the supervisor samples while the threads work.
pub(crate) struct Watched {
    pub(crate) signals: Arc<Signals>,
    pub(crate) ledger: Ledger,
    pub(crate) source_table: Arc<SourceTable>,
    pub(crate) gauges: GaugesOf,
    pub(crate) build: Option<Arc<BuildGauges>>,
    pub(crate) refused: Arc<RefusedGauges>,
    pub(crate) busy: Arc<Busy>,
    pub(crate) directory: RunDirectory,
    pub(crate) title: String,
    pub(crate) keeps_data: bool,
    /// Whether its time is that of a replay, and not that in which data were taken.
    pub(crate) is_replay: bool,
    pub(crate) started: Instant,
    /// For how long data were taken, once the run is being stopped, seconds.
    pub(crate) took_seconds: OnceLock<f64>,
    /// That of the marks of its batches.
    pub(crate) clock: RunClock,
    pub(crate) handle: RunHandle,
    /// The values that slow control reads.
    pub(crate) values: Arc<Values>,
    pub(crate) rates: Mutex<Rates>,
}

/// The paths of a run, as its supervisor sees them.
pub(crate) trait WatchedPaths {
    /// Returns true if nothing more will come although no thread has ended.
    fn are_silent(&self) -> bool;

    /// Returns the counts of the trigger, where it reports.
    fn trigger(&self) -> Option<TriggerCounts>;

    /// Closes or opens the vetoes of emulated boards of hits: while they are closed, no hits are taken.
    fn inhibit(&self, inhibited: bool);
}

/// Snapshots of the ledger that did not balance while the run went on.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotAudit {
    pub(crate) taken: u64,
    pub(crate) open: Vec<String>,
}

impl SnapshotAudit {
    fn take(&mut self, ledger: &Ledger, number: u32) -> Option<LedgerSnapshot> {
        let counts = ledger.snapshot_at(number)?;
        self.taken += 1;
        let wrong = counts.discrepancies().into_iter().map(|each| format!("snapshot {number}: {each}"));
        self.open.extend(wrong.take(8usize.saturating_sub(self.open.len())));
        Some(counts)
    }
}

/// The supervisor's rounds: what it did when.
struct Rounds {
    shown: Instant,
    published: Instant,
    asked: Instant,
    /// The snapshot that is waited for, or 0.
    number: u32,
    audit: SnapshotAudit,
    /// A pause that was asked for.
    pausing: bool,
    /// BUSY is raised for a pause, and the vetoes of emulated boards are closed.
    inhibiting: bool,
}

impl Watched {
    /// Watches until the run ends by itself, by its limits, or because it was asked to.
    pub(crate) fn until_end(
        &self,
        mut end: EndWhen,
        paths: &dyn WatchedPaths,
        watch: &mut Watch<'_>,
    ) -> SnapshotAudit {
        let now = Instant::now();
        let mut rounds = Rounds {
            shown: now,
            published: now,
            asked: now,
            number: 0,
            audit: SnapshotAudit::default(),
            pausing: false,
            inhibiting: false,
        };
        self.handle.set_ledger(&self.ledger);
        self.handle.set_signals(&self.signals);
        while self.signals.threads_left() > 0 {
            std::thread::sleep(TICK);
            let wishes = self.handle.wishes();
            end = wishes.end.unwrap_or(end);
            let over =
                self.is_reached(end) || wishes.stop || watch.stop.load(std::sync::atomic::Ordering::Acquire);
            if over || paths.are_silent() || self.signals.stop_requested() {
                break;
            }
            self.pause(wishes.pause, &mut rounds, paths);
            self.take_snapshot(&mut rounds, paths);
            if rounds.published.elapsed() >= LiveState::EVERY {
                rounds.published = Instant::now();
                let state = self.publish(self.state(&rounds), end, &rounds.audit, paths.trigger(), None);
                if rounds.shown.elapsed() >= SHOW_EVERY {
                    rounds.shown = Instant::now();
                    (watch.show)(&state);
                }
            }
        }
        self.took_seconds.get_or_init(|| self.started.elapsed().as_secs_f64());
        let mark = self.mark();
        self.busy.end(mark);
        if rounds.inhibiting {
            // Boards stay inhibited: what comes after a pause that ends with the run belongs to neither.
            self.busy.lower(mark);
        }
        self.publish(RunState::Stopping, end, &rounds.audit, paths.trigger(), None);
        rounds.audit
    }

    /// Shows what becomes of a run that is being stopped until `finish` has waited for its threads: to empty long queues takes a while.
    pub(crate) fn while_stopping<T>(
        &self,
        (end, audit, trigger): (EndWhen, &SnapshotAudit, Option<TriggerCounts>),
        finish: impl FnOnce() -> T,
    ) -> T {
        let (is_finishing, finished) = mpsc::channel::<()>();
        let show = move || {
            while finished.recv_timeout(LiveState::EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                self.publish(RunState::Stopping, end, audit, trigger, None);
            }
        };
        std::thread::scope(|scope| {
            // Without a thread, the state stays as it was at the stop.
            if let Err(error) = std::thread::Builder::new().name("state".to_owned()).spawn_scoped(scope, show)
            {
                tracing::debug!("no thread shows the run while it is being stopped: {error}");
            }
            let result = finish();
            drop(is_finishing);
            result
        })
    }

    /// For how long data were taken, so far or until the run was stopped.
    pub(crate) fn elapsed_seconds(&self) -> f64 {
        self.took_seconds.get().copied().unwrap_or_else(|| self.started.elapsed().as_secs_f64())
    }

    fn is_reached(&self, end: EndWhen) -> bool {
        let kept = |role, unit| self.ledger.output_at(role, unit);
        // Built events and coincidences are counted in one unit: a run that has both distinguishes them.
        let events = || match (self.source_table.events, self.source_table.coincidences) {
            (Some(_), Some(_)) => self.source_table.events_recorded(&self.ledger.snapshot()),
            _ => kept(StageRole::Recording, Unit::Events),
        };
        end.seconds.is_some_and(|seconds| self.started.elapsed().as_secs_f64() >= seconds)
            || end.hits.is_some_and(|hits| kept(self.source_table.kept.hits_end, Unit::Hits) >= hits)
            || end.events.is_some_and(|wanted| events() >= wanted)
    }

    /// Raises BUSY, closes vetoes, and has the hits of other boards left out; or lets all of them go on. While the recording waits for disk
    /// space, BUSY is raised and vetoes are closed without a command, too: what boards send meanwhile could not be taken.
    fn pause(&self, wanted: bool, rounds: &mut Rounds, paths: &dyn WatchedPaths) {
        let inhibits = wanted || self.signals.is_paused();
        if std::mem::replace(&mut rounds.inhibiting, inhibits) != inhibits {
            match inhibits {
                true => {
                    self.busy.raise(self.mark());
                    self.rates().pause(self.started.elapsed().as_secs_f64());
                }
                false => {
                    self.busy.lower(self.mark());
                    let trigger = paths.trigger().unwrap_or_default();
                    self.rates().resume(self.started.elapsed().as_secs_f64(), trigger);
                }
            }
            paths.inhibit(inhibits);
        }
        if std::mem::replace(&mut rounds.pausing, wanted) != wanted {
            self.signals.set_on_hold(wanted);
        }
    }

    fn take_snapshot(&self, rounds: &mut Rounds, paths: &dyn WatchedPaths) {
        let Rounds { number, asked, audit, .. } = rounds;
        if *number > 0 {
            let whole = audit.take(&self.ledger, *number);
            // A source that has ended passes no more markers: counts of that number stay incomplete.
            if whole.is_some() || asked.elapsed() >= SNAPSHOT_GIVEN_UP {
                *number = 0;
            }
            if let Some(counts) = whole {
                self.take_rates(&counts, *asked, paths);
            }
        }
        let elapsed_seconds = self.started.elapsed().as_secs_f64();
        if self.rates().is_overdue(elapsed_seconds) {
            self.take_rates(&self.ledger.snapshot(), Instant::now(), paths);
        }
        let after_seconds = self.rates().snapshot_after_seconds(elapsed_seconds);
        if *number == 0 && asked.elapsed().as_secs_f64() >= after_seconds {
            *asked = Instant::now();
            *number = self.signals.request_snapshot();
            self.keep_ledger_file();
        }
    }

    /// Restores the ledger's file whenever it was removed or changed from outside.
    pub(crate) fn keep_ledger_file(&self) {
        match self.ledger.repair_file() {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "{}: another program has truncated, removed or replaced this file while it was written; it was written again, and no count is lost",
                self.directory.ledger().display()
            ),
            // The next round tries again; a directory that has vanished is reported by the tables.
            Err(error) => tracing::debug!("{error}"),
        }
    }

    /// Takes counts that were asked for at `asked` for the rates.
    fn take_rates(&self, counts: &LedgerSnapshot, asked: Instant, paths: &dyn WatchedPaths) {
        let asked_seconds = asked.saturating_duration_since(self.started).as_secs_f64();
        let (observed, trigger) = (self.handle.observed(), paths.trigger());
        let beside = Beside {
            elapsed_seconds: self.started.elapsed().as_secs_f64(),
            events: self.build.as_ref().map_or(0, |gauges| gauges.events()),
            trigger: trigger.unwrap_or_default(),
            busy_time: self.busy_time(trigger).unwrap_or_default(),
            coincidences: observed.map_or(0, Observed::coincidences_kept),
            bytes_recorded: RunDirectory::bytes_in(self.directory.path()),
            channels: observed.map(Observed::channel_hits).unwrap_or_default(),
        };
        self.rates().take(counts, &self.source_table, asked_seconds, beside);
    }

    /// The time of now: that of the marks, which in a replay is that of its recording.
    fn mark(&self) -> Mark {
        match self.is_replay {
            true => self.build.as_ref().map_or(Mark(0), |gauges| gauges.sampled()),
            false => self.clock.mark(),
        }
    }

    /// For how long BUSY was raised, where that is known.
    fn busy_time(&self, trigger: Option<TriggerCounts>) -> Option<BusyTime> {
        let here = self.build.as_ref().and_then(|gauges| gauges.busy_time(self.mark()));
        busy_time(trigger, here, self.elapsed_seconds())
    }

    fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn state(&self, rounds: &Rounds) -> RunState {
        // Until rates begin anew, the run is paused for its readers, too.
        match rounds.inhibiting || self.signals.is_paused() {
            true => RunState::Paused,
            false => RunState::Running,
        }
    }

    /// Reports how the run has ended.
    pub(crate) fn publish_last(&self, summary: &Summary, end: EndWhen, trigger: Option<TriggerCounts>) {
        for discrepancy in &summary.discrepancies {
            tracing::error!("run {}: the ledger does not balance: {discrepancy}", self.directory.number());
        }
        let state = if summary.is_good() { RunState::Stopped } else { RunState::Failed };
        let audit = SnapshotAudit { taken: summary.snapshots, open: summary.discrepancies.clone() };
        self.keep_ledger_file();
        self.publish(state, end, &audit, trigger, Some(&summary.failures));
    }

    /// Puts the state of now together, and gives it to everyone who holds the run. At the end, `failures` are all that there were; until
    /// then those of the threads.
    fn publish(
        &self,
        state: RunState,
        end: EndWhen,
        audit: &SnapshotAudit,
        trigger: Option<TriggerCounts>,
        failures: Option<&[String]>,
    ) -> Arc<LiveState> {
        let disk = self.signals.is_paused();
        let paused_by = if disk { PausedBy::Disk } else { PausedBy::Command };
        let path = self.directory.path();
        let counts = self.ledger.snapshot();
        self.handle.observed().into_iter().for_each(|observed| observed.take_losses(&counts));
        let run = LiveRun {
            number: self.directory.number(),
            name: path.file_name().map(|name| name.to_string_lossy().into_owned()),
            title: self.title.clone(),
            comment: String::new(),
            elapsed_seconds: self.elapsed_seconds(),
            limits: end,
            directory: path.display().to_string(),
            keeps_data: self.keeps_data,
        };
        let known = LiveState {
            state,
            paused_by: (state == RunState::Paused).then_some(paused_by),
            title: run.title.clone(),
            run_directory: run.directory.clone(),
            elapsed_seconds: run.elapsed_seconds,
            end,
            run,
            bytes_recorded: RunDirectory::bytes_in(path),
            busy: self.busy.is_raised(),
            refused: self.refused.all(),
            snapshots: audit.taken,
            discrepancies: audit.open.clone(),
            failures: failures.map_or_else(|| self.signals.failures(), <[String]>::to_vec),
            series: self.values.latest(),
            disk_free_bytes: self.directory.bytes_left().unwrap_or(0),
            ..LiveState::default()
        };
        let state = self.rates().state(StateInputs {
            counts: &counts,
            source_table: &self.source_table,
            gauges: &self.gauges,
            build: self.build.as_ref().map(|gauges| gauges.latest()),
            busy_time: self.busy_time(trigger),
            trigger,
            is_replay: self.is_replay,
            observed: self.handle.observed(),
            known,
        });
        self.handle.publish(state)
    }
}
