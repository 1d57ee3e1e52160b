//! The active configuration, and changes of its file.
//!
//! ```text
//!  FILE ─ a run is started ─► as it was ──────────────────────────────► taken with what is in use
//!                          └► changed ─► allowed, can be planned ─────► in use from this run on
//!                                     └► is not, or cannot wait ─────► refused, and what is in use stays
//! ```
//! What the program itself is set up by stays as it was at its start: the page, alarms, and who restarts runs.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use thalweg_monitor::RequestRefused;
use thalweg_monitor::state::SourceState;
use thalweg_record::{OnFull, Retention, Settings};

use crate::config::Configuration;
use crate::plan::Plan;
use crate::supervise;

/// A configuration with what follows from it.
pub(super) struct InUse {
    pub configuration: Configuration,
    pub plan: Value,
    /// Its sources, for the time before the first run.
    pub sources: Vec<SourceState>,
    /// What the program was started with, as its file had it: the command line may have said otherwise since. `None`: it stands
    /// in no file, as that of the demonstration.
    at_start: Option<Arc<Configuration>>,
    /// The tables of the file that wait for the next start of the program.
    waiting: Vec<&'static str>,
}

/// The file as it is now.
enum FileNow {
    /// The text is as it was read.
    Same,
    /// The text has changed and can be used; these tables of it wait for the next start of the program.
    Changed(Box<Configuration>, Vec<&'static str>),
    /// It cannot be used, and why.
    Wrong(String),
}

impl InUse {
    /// Makes the state with the configuration that the program is started with.
    pub fn of(configuration: Configuration) -> InUse {
        let text = std::fs::read_to_string(&configuration.file).ok();
        let on_file = text.filter(|text| *text == configuration.text);
        let as_written = on_file.and_then(|text| Configuration::parse(&configuration.file, text).ok());
        InUse::with(configuration, as_written.map(Arc::new), Vec::new())
    }

    fn with(
        configuration: Configuration,
        at_start: Option<Arc<Configuration>>,
        waiting: Vec<&'static str>,
    ) -> InUse {
        let plan = Plan::of(&configuration).ok();
        InUse {
            configuration,
            sources: plan
                .as_ref()
                .map_or_else(Vec::new, |plan| supervise::configured_sources(&plan.source_table)),
            plan: plan.and_then(|plan| serde_json::to_value(plan).ok()).unwrap_or_default(),
            at_start,
            waiting,
        }
    }

    /// Reads the file again. `None`: it is as it was.
    ///
    /// # Errors
    /// When it has changed, and cannot be used.
    pub fn read_again(&self) -> Result<Option<InUse>, RequestRefused> {
        match self.file_now() {
            FileNow::Same => Ok(None),
            FileNow::Changed(configuration, waiting) => {
                let file = configuration.file.display();
                tracing::info!("{file} has changed: runs are taken with what it says now");
                if !waiting.is_empty() {
                    let waiting = waiting.join(", ");
                    tracing::warn!("{waiting} of {file}: taken when the program is started again");
                }
                Ok(Some(InUse::with(*configuration, self.at_start.clone(), waiting)))
            }
            FileNow::Wrong(why) => Err(RequestRefused::new(
                format!("the configuration has changed and cannot be used: {why}"),
                "mend the file, or write it back as it was",
            )),
        }
    }

    /// The configuration as the page shows it, with the state of its file.
    pub fn as_json(&self) -> Value {
        let limits = self.configuration.run.end();
        let (changed, waiting, error) = match self.file_now() {
            FileNow::Same => (false, self.waiting.clone(), None),
            FileNow::Changed(_, waiting) => (true, waiting, None),
            FileNow::Wrong(why) => (true, self.waiting.clone(), Some(why)),
        };
        json!({
            "file": self.configuration.file.display().to_string(),
            "text": self.configuration.text,
            "plan": self.plan,
            "limits": limits,
            "changed": changed,
            "error": error,
            "waiting": waiting,
        })
    }

    fn file_now(&self) -> FileNow {
        let Some(at_start) = &self.at_start else { return FileNow::Same };
        let old = &self.configuration;
        match std::fs::read_to_string(&old.file) {
            Ok(text) if text == old.text => FileNow::Same,
            Ok(text) => self.judge(text, at_start),
            Err(cause) => FileNow::Wrong(format!("{}: {cause}", old.file.display())),
        }
    }

    /// Returns whether runs can be taken with this text.
    fn judge(&self, text: String, at_start: &Configuration) -> FileNow {
        let old = &self.configuration;
        let mut new = match Configuration::parse(&old.file, text) {
            Ok(new) => new,
            Err(error) => return FileNow::Wrong(error.to_string()),
        };
        // The settings of the command line stay.
        new.node.clone_from(&old.node);
        new.truth.clone_from(&old.truth);
        if policy_on_old_runs(&new.record) != policy_on_old_runs(&old.record) {
            let why = "`directory` of [record], [record.retention], or `on_full` beside that has changed while old runs there are \
                       listed and removed; start the program again";
            return FileNow::Wrong(new.invalid(why).to_string());
        }
        if new.ship != old.ship {
            let why = "[ship] has changed while tables are kept until their copies are proved by it; start the program again";
            return FileNow::Wrong(new.invalid(why).to_string());
        }
        let waiting = changed_since(at_start, &new);
        new.monitor.clone_from(&old.monitor);
        new.alarms.clone_from(&old.alarms);
        new.notify.clone_from(&old.notify);
        new.unattended.clone_from(&old.unattended);
        match Plan::of(&new) {
            Ok(_) => FileNow::Changed(Box::new(new), waiting),
            Err(error) => FileNow::Wrong(error.to_string()),
        }
    }
}

/// What the removal of old runs is set up by when the program starts. Without it, `on_full` is the run's own.
fn policy_on_old_runs(record: &Settings) -> (&Path, Option<(Retention, OnFull)>) {
    (&record.directory, record.retention.map(|retention| (retention, record.on_full)))
}

/// The tables that are taken when the program starts, and say something else than they did then.
fn changed_since(at_start: &Configuration, new: &Configuration) -> Vec<&'static str> {
    let changed = [
        ("[monitor]", new.monitor != at_start.monitor),
        ("[[alarm]]", new.alarms != at_start.alarms),
        ("[notify]", new.notify != at_start.notify),
        ("[unattended]", new.unattended != at_start.unattended),
    ];
    changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(table, _)| table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARD: &str =
        "[[source]]\nname = \"board\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 1\n";

    /// What becomes of the file when its `[record]` changes.
    fn read_again(before: &str, after: &str) -> Result<bool, String> {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("run.toml");
        let text = |record: &str| format!("{BOARD}[record]\n{record}\n");
        std::fs::write(&file, text(before)).expect("written");
        let in_use = InUse::of(Configuration::read(&file).expect("valid"));
        std::fs::write(&file, text(after)).expect("written");
        in_use.read_again().map(|new| new.is_some()).map_err(|refused| refused.error)
    }

    #[test]
    fn on_full_waits_for_a_restart_only_where_old_runs_are_removed_by_it() {
        let retention = "[record.retention]\nmost_runs = 3";
        let (end, pause) = ("on_full = \"end\"", "on_full = \"pause\"");
        assert_eq!(read_again(end, pause), Ok(true), "the run itself acts by it");
        let refused = read_again(&format!("{end}\n{retention}"), &format!("{pause}\n{retention}"));
        assert!(refused.as_ref().is_err_and(|why| why.contains("`on_full`")), "{refused:?}");
        let other =
            read_again(&format!("{end}\n{retention}"), &format!("{end}\nsync = \"none\"\n{retention}"));
        assert_eq!(other, Ok(true));
    }
}
