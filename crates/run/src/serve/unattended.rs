//! Unattended operation of a run: alarms, disk space, and the next run when one has ended.
//!
//! ```text
//!  state ─ twice a second ─► alarms ─► page, log, webhook, command
//!          └► old runs: what [record.retention] does not keep is removed
//!  a run has ended ─ by its limit ─► the next one   ─ by an error ─► the next one, after a while
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use thalweg_data::RunState;
use thalweg_monitor::Experiment;
use thalweg_monitor::alarm::{AlarmError, Alarms, Notifier};

use super::copies::CopyWatch;
use super::old_runs::OldRunRemover;
use super::{Served, Subject, copies};
use crate::run_control::NewRun;

/// Between two looks.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Between two looks at whether to stop.
const NAP: Duration = Duration::from_millis(50);

/// Looks after a run on a thread of its own, as long as it lives.
pub struct UnattendedOperation {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _copies: Option<CopyWatch>,
}

impl UnattendedOperation {
    /// Begins to look after what is served.
    ///
    /// # Errors
    /// When an alarm is invalid, or the system has no thread left.
    pub fn start(served: &Arc<Served>) -> Result<UnattendedOperation, AlarmError> {
        let in_use = served.in_use();
        let mut rules = in_use.configuration.alarms.clone();
        rules.extend(copies::alarms(in_use.configuration.ship.as_ref(), &rules));
        let alarms = Alarms::new(&rules)?;
        let notifier = Notifier::start(&in_use.configuration.notify)?;
        let stop = Arc::new(AtomicBool::new(false));
        let watch = Watch {
            served: served.clone(),
            old_run_remover: OldRunRemover::new(
                &in_use.configuration.record,
                in_use.configuration.ship.as_ref(),
            ),
            alarms,
            notifier,
            began: Instant::now(),
            failures: 0,
            seen_end: 0,
            restart_at: None,
        };
        let asked = stop.clone();
        let thread =
            std::thread::Builder::new().name("unattended".to_owned()).spawn(move || watch.run(&asked));
        // If there is no thread the run goes on; the lack is reported.
        if let Err(cause) = &thread {
            tracing::error!("no thread for alarms and old runs: {cause}; end other programs and start again");
        }
        Ok(UnattendedOperation { stop, thread: thread.ok(), _copies: CopyWatch::start(served) })
    }
}

impl Drop for UnattendedOperation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The thread itself has reported a panic.
            let _ = thread.join();
        }
    }
}

struct Watch {
    served: Arc<Served>,
    /// The directory in which old runs are removed.
    old_run_remover: Option<OldRunRemover>,
    alarms: Alarms,
    notifier: Notifier,
    began: Instant,
    /// Runs in a row that have failed.
    failures: u32,
    /// The number of the state with which the latest run ended, when that has been dealt with: a run may be over between two looks.
    seen_end: u64,
    restart_at: Option<Instant>,
}

impl Watch {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            let until = Instant::now() + CHECK_EVERY;
            self.check();
            self.follow();
            while Instant::now() < until && !stop.load(Ordering::Acquire) {
                std::thread::sleep(NAP);
                // No detector waits longer than necessary for its next run.
                self.follow();
            }
        }
        // The last run has ended.
        self.remove_old_runs();
    }

    fn remove_old_runs(&mut self) {
        if let Some(old_run_remover) = &mut self.old_run_remover {
            old_run_remover.check(&self.served.handle());
        }
    }

    fn check(&mut self) {
        let state = self.served.state();
        self.served.note(&state);
        let utc = thalweg_record::utc_text(SystemTime::now());
        for change in self.alarms.sample(self.began.elapsed().as_secs_f64(), &utc, &state) {
            self.notifier.send(&change);
        }
        self.served.set_alarms(self.alarms.standing());
        self.remove_old_runs();
    }

    /// Starts the next run where that is asked for.
    fn follow(&mut self) {
        let Subject::RunControl(run_control) = &self.served.subject else { return };
        let in_use = self.served.in_use();
        let rules = &in_use.configuration.unattended;
        let (latest, is_idle) = (run_control.run().state(), run_control.is_idle());
        let state = latest.state;
        if !matches!(state, RunState::Stopped | RunState::Failed) {
            // A run was started meanwhile.
            self.restart_at = None;
            return;
        }
        if !is_idle {
            return;
        }
        if std::mem::replace(&mut self.seen_end, latest.sequence) != latest.sequence {
            let wait =
                |seconds: f64| Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
            self.failures = if state == RunState::Failed { self.failures + 1 } else { 0 };
            self.restart_at = match state {
                RunState::Stopped if rules.rotate && run_control.ended_by_limit() => Some(Instant::now()),
                RunState::Failed if self.failures >= rules.most_failures => {
                    let times = self.failures;
                    tracing::error!(
                        "{times} runs in a row have failed, no other is started; see the messages of the page, and run.json where a run had begun"
                    );
                    None
                }
                RunState::Failed => rules.restart_after_s.map(wait),
                _ => None,
            };
        }
        if self.restart_at.is_some_and(|at| at <= Instant::now()) {
            self.restart_at = None;
            let run_control = run_control.clone();
            self.remove_old_runs();
            match run_control.start(&NewRun::default()) {
                Ok(_) => tracing::info!("the next run is started, as [unattended] asks"),
                Err(error) => tracing::warn!("the next run could not be started: {error}"),
            }
        }
    }
}
