//! The thread that records the values of slow control.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_readout::RunClock;
use thalweg_record::ipc::file::TableSummary;
use thalweg_record::{RunDirectory, SeriesList};

use super::Values;
use crate::config::Configuration;
use crate::config::SeriesSettings;
use crate::error::RunError;
use crate::pipeline::{Signals, joined};
use crate::plan::Placement;
use crate::plan::thread_names;

/// The interval at which it checks for new readings.
const WAKE_EVERY: Duration = Duration::from_millis(250);

/// The recording of slow control while a run goes on.
pub(crate) struct Recorder {
    values: Arc<Values>,
    /// Dropped to end the thread.
    going_on: Option<Sender<()>>,
    thread: Option<JoinHandle<SeriesList>>,
}

impl Recorder {
    /// Makes the table, and starts the thread.
    ///
    /// # Errors
    /// When the file or the thread cannot be made.
    pub(crate) fn start(
        configuration: &Configuration,
        directory: &RunDirectory,
        values: &Arc<Values>,
        (clock, placement): (RunClock, &Placement),
    ) -> Result<Recorder, RunError> {
        let names: Vec<_> = configuration.series.iter().map(SeriesSettings::name).collect();
        let list = SeriesList::create(directory, &names, configuration.record.sync)?;
        let (going_on, ended) = channel();
        let of_thread = values.clone();
        let work = move || record(list, &of_thread, clock, &ended);
        let thread = std::thread::Builder::new().name(thread_names::SERIES.to_owned());
        let started = placement.at(thread_names::SERIES, || thread.spawn(work))?;
        let thread =
            started.map_err(|cause| RunError::Thread { name: thread_names::SERIES.to_owned(), cause })?;
        Ok(Recorder { values: values.clone(), going_on: Some(going_on), thread: Some(thread) })
    }

    /// Ends the thread and writes what is left. What could not be written is a failure of the run.
    pub(crate) fn finish(mut self, signals: &Signals) -> Option<TableSummary> {
        self.going_on = None;
        let mut list = joined(self.thread.take()?, signals)?;
        take(&mut list, &self.values);
        if let Err(error) = list.finish() {
            signals.note_failure(error.to_string());
        }
        let not_kept = list.not_kept() + self.values.not_kept();
        if not_kept > 0 {
            signals.note_failure(format!("{not_kept} readings of slow control are not in series.arrows"));
        }
        Some(list.summary())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.going_on = None;
        if let Some(thread) = self.thread.take() {
            // The run did not come to its end: there is a reason already, whatever the thread reports.
            let _list = thread.join();
        }
    }
}

fn take(list: &mut SeriesList, values: &Values) {
    let mut readings = Vec::new();
    values.take(&mut readings);
    list.take(&mut readings);
}

fn record(mut list: SeriesList, values: &Values, clock: RunClock, ended: &Receiver<()>) -> SeriesList {
    let mut said = String::new();
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(WAKE_EVERY) {
        take(&mut list, values);
        if let Err(error) = list.advance(clock.mark().0) {
            let text = error.to_string();
            if said != text {
                tracing::warn!("slow control is not recorded: {text}; it is tried again");
                said = text;
            }
        }
    }
    list
}
