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
        if !matches!(state, RunState::Stopped | RunState::Failed) || !is_idle {
            return;
        }
        if std::mem::replace(&mut self.seen_end, latest.sequence) != latest.sequence {
            let wait =
                |seconds: f64| Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
            self.failures = if state == RunState::Failed { self.failures + 1 } else { 0 };
            let start_at = match state {
                RunState::Stopped if rules.rotate => Some(Instant::now()),
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
            if run_control.start_at(start_at) && state == RunState::Failed {
                let seconds = rules.restart_after_s.unwrap_or_default();
                tracing::info!(
                    "the run has failed, the next one starts in {seconds} s; `stop` takes that back"
                );
            }
        }
        if run_control.is_due() {
            let run_control = run_control.clone();
            self.remove_old_runs();
            match run_control.start_if_due() {
                Some(Ok(_)) => tracing::info!("the next run is started, as [unattended] asks"),
                Some(Err(error)) => tracing::warn!("the next run could not be started: {error}"),
                // Somebody has asked for a stop, or has started a run, meanwhile.
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Configuration;
    use crate::run_control::{NewRun, RunControl};
    use crate::serve::MessageLog;
    use crate::supervise::RunCommand;

    const LIMIT: Duration = Duration::from_secs(120);

    /// Unattended operation of one emulated board, which looks only when a test has it look.
    fn watch(record: &Path, unattended: &str) -> (Arc<RunControl>, Watch) {
        let text = format!(
            "[[source]]\nname = \"board\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 1\n\
             [record]\ndirectory = {record:?}\n[unattended]\n{unattended}\n"
        );
        let configuration = Configuration::parse(Path::new("unattended.toml"), text).expect("valid");
        let run_control = Arc::new(RunControl::new(configuration.clone()));
        let subject = Subject::RunControl(run_control.clone());
        let served = Arc::new(Served::new(subject, configuration, MessageLog::default()));
        let watch = Watch {
            served,
            old_run_remover: None,
            alarms: Alarms::new(&[]).expect("none"),
            notifier: Notifier::start(&Default::default()).expect("nobody to notify"),
            began: Instant::now(),
            failures: 0,
            seen_end: 0,
        };
        (run_control, watch)
    }

    #[test]
    fn a_run_that_was_asked_to_stop_has_no_successor_although_it_failed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (run_control, mut watch) = watch(&folder.path().join("runs"), "restart_after_s = 0.0");
        let run = run_control.start(&NewRun::default()).expect("it starts");
        let (from, mut state) = (Instant::now(), run.state());
        while state.state != RunState::Running {
            assert!(from.elapsed() < LIMIT, "{state:#?}");
            state = run.newer_than(state.sequence, LIMIT).expect("a newer state");
        }
        // Where its run.json cannot be written, a run fails.
        std::fs::remove_dir_all(&state.run.directory).expect("removed");
        std::fs::write(&state.run.directory, "").expect("written");
        run_control.command(&RunCommand::Stop).expect("it runs");
        run_control.wait();
        assert_eq!(run.state().state, RunState::Failed);
        watch.follow();
        assert!(run_control.is_idle(), "no other run is started");
        assert_eq!(run_control.run().state().run.number, 1);
    }

    #[test]
    fn a_stop_takes_back_the_start_of_the_next_run() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let record = folder.path().join("runs");
        std::fs::write(&record, "not a directory").expect("written");
        let (run_control, mut watch) = watch(&record, "restart_after_s = 3600.0");
        let fail = |watch: &mut Watch| {
            run_control.start(&NewRun::default()).expect("its thread starts");
            run_control.wait();
            assert_eq!(run_control.run().state().state, RunState::Failed);
            watch.follow();
        };
        fail(&mut watch);
        let next_run_seconds = || watch.served.state().next_run_seconds;
        assert!(next_run_seconds().is_some_and(|wait| wait > 3000.0), "{:?}", next_run_seconds());
        assert_eq!(run_control.command(&RunCommand::Stop), Ok(()), "a start is waited for");
        assert_eq!(next_run_seconds(), None);
        let refused = run_control.command(&RunCommand::Stop).expect_err("nothing is waited for");
        assert_eq!(refused.to_string(), "`stop`: the run is failed; start a run first");
        // A stop between the end of a run and the look at it comes in time, too.
        run_control.start(&NewRun::default()).expect("its thread starts");
        run_control.wait();
        run_control.command(&RunCommand::Stop).expect_err("it is over");
        watch.follow();
        run_control.command(&RunCommand::Stop).expect_err("nothing is waited for");
        // The operator's own start is a new beginning.
        fail(&mut watch);
        assert_eq!(run_control.command(&RunCommand::Stop), Ok(()));
    }
}
