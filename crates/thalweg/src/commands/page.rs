//! The live page, for one run or as the place from which runs are started.

use std::sync::Arc;
use std::time::Duration;

use thalweg_monitor::MonitorError;
use thalweg_run::config::Configuration;
use thalweg_run::plan::Plan;
use thalweg_run::run_control::{NewRun, RunControl};
use thalweg_run::serve::{MessageLog, Served, Subject, UnattendedOperation};
use thalweg_run::supervise::{RunCommand, RunHandle};

use super::Ended;
use super::data_taking::{outcome, report};
use crate::arguments;
use crate::report::{CommandOutcome, Failure};
use crate::signals::Signals;
use crate::terminal;

/// Between two looks at whether to end.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The page of one run; gone when dropped.
pub(crate) struct Page {
    url: String,
    // The order matters: no client learns of a run whose page is gone.
    _unattended: UnattendedOperation,
    _monitor: Option<thalweg_run::serve::Monitor>,
}

impl Page {
    /// Serves and watches a run, where its configuration has a `[monitor]`, alarms, or a policy on old runs.
    pub(crate) fn beside(
        run: &RunHandle,
        configuration: &Configuration,
        messages: &MessageLog,
    ) -> Result<Option<Page>, Failure> {
        let is_watched = !configuration.alarms.is_empty() || configuration.record.retention.is_some();
        if configuration.monitor.is_none() && !is_watched {
            return Ok(None);
        }
        let served = Served::new(Subject::Run(run.clone()), configuration.clone(), messages.clone());
        Page::start(&Arc::new(served)).map(Some)
    }

    fn start(served: &Arc<Served>) -> Result<Page, Failure> {
        let monitor = served.start().map_err(|error| Failure::Usage(error.into()))?;
        let unattended = UnattendedOperation::start(served)?;
        let url = monitor.as_ref().map(thalweg_run::serve::Monitor::url).unwrap_or_default();
        if !url.is_empty() {
            terminal::notice(&format!("live page: {url}"));
        }
        Ok(Page { url, _unattended: unattended, _monitor: monitor })
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// Has the page served at an address of the command line, whatever `[monitor]` says. What is wrong with it has no line in the file.
pub(super) fn listen_at(configuration: &mut Configuration, listen: &str) -> Result<(), Failure> {
    let monitor = configuration.monitor.get_or_insert_default();
    monitor.serve_at(listen);
    match monitor.check() {
        Err(error @ (MonitorError::Address { .. } | MonitorError::OpenToAll { .. })) => {
            Err(Failure::Usage(error.into()))
        }
        _ => Ok(()),
    }
}

/// Runs of one configuration, started and stopped from the page.
pub(crate) fn serve(options: &arguments::Serve, json: bool, messages: &MessageLog) -> Ended {
    let mut configuration = Configuration::read(&options.file)?;
    match &options.listen {
        Some(listen) => listen_at(&mut configuration, listen)?,
        None if configuration.monitor.get_or_insert_default().enabled || options.start => {}
        None => {
            return Err(Failure::Usage(anyhow::anyhow!(
                "{}: [monitor] enabled = false, and without a page nothing can start a run; give --listen ADDRESS:PORT, or --start to \
                 begin the first run at once",
                options.file.display()
            )));
        }
    }
    Plan::of(&configuration)?;
    let signals = Signals::install()?;
    let run_control = Arc::new(RunControl::new(configuration.clone().with_old_runs_removed()));
    let served =
        Arc::new(Served::new(Subject::RunControl(run_control.clone()), configuration, messages.clone()));
    let page = Page::start(&served)?;
    if options.start {
        run_control.start(&NewRun::default())?;
    } else if !json {
        terminal::notice(&format!("no run yet: start one on the page, at {}", page.url()));
    }
    let mut reported = None;
    while !signals.stop_requested() {
        signals.report_hangup();
        // The journal of a service has what became of each run; who reads JSON gets one object, that of the last.
        let ended = run_control.last().filter(|_| !json);
        if ended.as_ref().map(Arc::as_ptr) != reported.as_ref().map(Arc::as_ptr) {
            if let Some(Ok(summary)) = ended.as_deref() {
                report(summary, json)?;
            }
            reported = ended;
        }
        std::thread::sleep(CHECK_EVERY);
    }
    // Without a run there is none to stop.
    let _none = run_control.command(&RunCommand::Stop);
    let last = run_control.wait();
    let is_reported = last.as_ref().map(Arc::as_ptr) == reported.as_ref().map(Arc::as_ptr);
    match last.as_deref() {
        Some(Ok(summary)) if is_reported => Ok(outcome(summary)),
        Some(Ok(summary)) => report(summary, json),
        Some(Err(message)) => Err(Failure::Other(anyhow::anyhow!("{message}"))),
        None => Ok(CommandOutcome::Done),
    }
}
