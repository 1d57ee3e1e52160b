//! The configuration that runs are taken with, and its file, which somebody may have changed since.
//!
//! ```text
//!  FILE ─ a run is started ─► as it was ──────────────────────────────► taken with what is in use
//!                          └► changed ─► allowed, can be planned ─────► in use from this run on
//!                                     └► is not, or cannot wait ─────► refused, and what is in use stays
//! ```
//! What the program itself is set up by stays as it was at its start: the page, alarms, and who restarts runs.

use serde_json::{Value, json};
use thalweg_monitor::Refused;
use thalweg_monitor::state::SourceState;

use crate::config::Configuration;
use crate::plan::Plan;
use crate::supervise::{self, EndWhen};

/// A configuration with what follows from it.
pub(super) struct InUse {
    pub configuration: Configuration,
    pub plan: Value,
    /// Its sources, for the time before the first run.
    pub sources: Vec<SourceState>,
    /// It stands in its file; that of the demonstration stands in none.
    is_on_file: bool,
}

/// The file as it is now.
enum FileNow {
    /// As it was read.
    Same,
    /// With other words, which can be used; these tables of it wait for the next start of the program.
    Changed(Box<Configuration>, Vec<&'static str>),
    /// It cannot be used, and why.
    Wrong(String),
}

impl InUse {
    pub fn of(configuration: Configuration) -> InUse {
        let plan = Plan::of(&configuration).ok();
        InUse {
            is_on_file: std::fs::read_to_string(&configuration.file)
                .is_ok_and(|text| text == configuration.text),
            configuration,
            sources: plan.as_ref().map_or_else(Vec::new, |plan| supervise::configured_sources(&plan.roster)),
            plan: plan.and_then(|plan| serde_json::to_value(plan).ok()).unwrap_or_default(),
        }
    }

    /// Reads the file again. `None`: it is as it was.
    ///
    /// # Errors
    /// When it has changed, and cannot be used.
    pub fn read_again(&self) -> Result<Option<InUse>, Refused> {
        match self.file_now() {
            FileNow::Same => Ok(None),
            FileNow::Changed(configuration, waiting) => {
                let file = configuration.file.display();
                tracing::info!("{file} has changed: runs are taken with what it says now");
                if !waiting.is_empty() {
                    let waiting = waiting.join(", ");
                    tracing::warn!("{waiting} of {file}: taken when the program is started again");
                }
                Ok(Some(InUse::of(*configuration)))
            }
            FileNow::Wrong(why) => Err(Refused::new(
                format!("the configuration has changed and cannot be used: {why}"),
                "mend the file, or write it back as it was",
            )),
        }
    }

    /// What is told of it, and of its file.
    pub fn told(&self) -> Value {
        let run = &self.configuration.run;
        let limits = EndWhen { seconds: run.seconds, hits: run.hits, events: run.events };
        let (changed, waiting, error) = match self.file_now() {
            FileNow::Same => (false, Vec::new(), None),
            FileNow::Changed(_, waiting) => (true, waiting, None),
            FileNow::Wrong(why) => (true, Vec::new(), Some(why)),
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
        let old = &self.configuration;
        if !self.is_on_file {
            return FileNow::Same;
        }
        let text = match std::fs::read_to_string(&old.file) {
            Ok(text) if text == old.text => return FileNow::Same,
            Ok(text) => text,
            Err(cause) => return FileNow::Wrong(format!("{}: {cause}", old.file.display())),
        };
        let mut new = match Configuration::parse(&old.file, text) {
            Ok(new) => new,
            Err(error) => return FileNow::Wrong(error.to_string()),
        };
        // What the command line has said is said still.
        new.node.clone_from(&old.node);
        new.truth.clone_from(&old.truth);
        if (&new.record.directory, &new.record.retention) != (&old.record.directory, &old.record.retention) {
            let why = "`directory` of [record] or [record.retention] has changed while old runs there are listed \
                       and removed; start the program again";
            return FileNow::Wrong(new.invalid(why).to_string());
        }
        let waiting = keep_what_the_program_is_set_up_by(&mut new, old);
        match Plan::of(&new) {
            Ok(_) => FileNow::Changed(Box::new(new), waiting),
            Err(error) => FileNow::Wrong(error.to_string()),
        }
    }
}

/// Puts back the tables that are taken when the program starts; gives the names of those that have changed. Where the page
/// listens may have been said on the command line, so the texts are compared.
fn keep_what_the_program_is_set_up_by(new: &mut Configuration, old: &Configuration) -> Vec<&'static str> {
    let as_written = Configuration::parse(&old.file, old.text.clone());
    let was = as_written.as_ref().unwrap_or(old);
    let changed = [
        ("[monitor]", new.monitor != was.monitor),
        ("[[alarm]]", new.alarms != was.alarms),
        ("[notify]", new.notify != was.notify),
        ("[unattended]", new.unattended != was.unattended),
    ];
    new.monitor.clone_from(&old.monitor);
    new.alarms.clone_from(&old.alarms);
    new.notify.clone_from(&old.notify);
    new.unattended.clone_from(&old.unattended);
    changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(table, _)| table).collect()
}
