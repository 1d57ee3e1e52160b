//! The thread that keeps the list of losses, away from the data path and from the thread that commands the run.
//!
//! ```text
//!  ledger ── once a second ──► LossList ──► losses.arrows
//! ```
//! A slow disk holds up this thread alone. Rows that it cannot write it tries again with the next ones.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_data::{Ledger, LedgerSnapshot, SourceId};
use thalweg_readout::RunClock;
use thalweg_record::ipc::file::TableSummary;
use thalweg_record::{LossBounds, LossList, RecordError, RunDirectory, TriggerRange};

use super::{Signals, Site, joined};
use crate::error::RunError;
use crate::gauges::BuildGauges;
use crate::plan::thread_names;

/// The interval at which the thread checks whether a reading is due.
const WAKE_EVERY: Duration = Duration::from_millis(250);

/// The rows of the list of losses at the end of the run, and the error if some of them could not be written.
pub(super) type ListedLosses = (TableSummary, Result<(), RecordError>);

/// The list of losses while the run goes on.
pub(super) struct LossKeeper {
    directory: RunDirectory,
    clock: RunClock,
    build: Option<Arc<BuildGauges>>,
    /// Dropped to end the thread.
    going_on: Option<Sender<()>>,
    thread: Option<JoinHandle<LossList>>,
}

impl LossKeeper {
    /// Makes the table, and starts the thread.
    ///
    /// # Errors
    /// When the file or the thread cannot be made.
    pub(super) fn start(
        site: &Site<'_>,
        sources: &[String],
        build: Option<Arc<BuildGauges>>,
    ) -> Result<LossKeeper, RunError> {
        let (directory, ledger, clock) = (site.directory.clone(), site.ledger.clone(), site.clock);
        let sync = site.configuration.record.sync;
        let list = LossList::create(&directory, sources, sync, LossBounds::default())?;
        let (going_on, ended) = channel();
        let gauges = build.clone();
        let work = move || keep(list, &ledger, gauges.as_deref(), clock, &ended);
        site.claims.threads(thread_names::LOSSES, 1);
        let thread = std::thread::Builder::new().name(thread_names::LOSSES.to_owned());
        let thread = site.placement.at(thread_names::LOSSES, || thread.spawn(work))?;
        let thread =
            thread.map_err(|cause| RunError::Thread { name: thread_names::LOSSES.to_owned(), cause })?;
        Ok(LossKeeper { directory, clock, build, going_on: Some(going_on), thread: Some(thread) })
    }

    /// Ends the thread, and writes what this ledger, the last of the run, have more; returns what the table holds. `None` when the
    /// thread panicked, which is a failure of the run.
    pub(super) fn finish(mut self, snapshot: &LedgerSnapshot, signals: &Signals) -> Option<ListedLosses> {
        self.going_on = None;
        let mut list = joined(self.thread.take()?, signals)?;
        let missed = |board, counted| missed_by(self.build.as_deref(), board, counted);
        let written = list.finish(&self.directory, snapshot, &missed, self.clock.mark().0);
        Some((list.summary(), written))
    }
}

impl Drop for LossKeeper {
    fn drop(&mut self) {
        self.going_on = None;
        if let Some(thread) = self.thread.take() {
            // The run did not come to its end: there is a reason already, whatever the thread reports.
            let _list = thread.join();
        }
    }
}

/// Triggers that a board has missed, where events are built in this process.
fn missed_by(build: Option<&BuildGauges>, board: SourceId, counted: u64) -> Vec<TriggerRange> {
    build.map_or(Vec::new(), |build| build.missed().take(board, counted))
}

fn keep(
    mut list: LossList,
    ledger: &Ledger,
    build: Option<&BuildGauges>,
    clock: RunClock,
    ended: &Receiver<()>,
) -> LossList {
    let missed = |board, counted| missed_by(build, board, counted);
    let mut said = String::new();
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(WAKE_EVERY) {
        let now_ns = clock.mark().0;
        if !list.is_due(now_ns) {
            continue;
        }
        if let Err(error) = list.take(&ledger.snapshot(), &missed, now_ns) {
            let text = error.to_string();
            if said != text {
                tracing::warn!(
                    "the list of losses is not written: {text}; the ledger has every loss all the same"
                );
                said = text;
            }
        }
    }
    list
}
