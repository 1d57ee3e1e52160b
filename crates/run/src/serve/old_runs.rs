//! Frees disk space for the present run: checks old runs now and then, and reports what is done to them.
//!
//! ```text
//!  [record.retention] ─► OldRuns ─ removed, warnings ─► log, page
//!  the run waits for the disk ─┘ └ nothing is left to remove ─► the run ends, where `on_full` says so
//! ```

use std::collections::BTreeSet;
use std::time::Instant;

use thalweg_record::{OldRuns, OnFull, Settings};
use thalweg_ship::CopyRule;

use crate::supervise::RunHandle;

/// The policy on old runs, with the runs that it removes.
pub(super) struct OldRunRemover {
    old_runs: OldRuns,
    on_full: OnFull,
    /// Errors that were reported: each is reported once.
    reported: BTreeSet<String>,
}

/// The most different errors that are reported.
const MOST_REPORTED: usize = 16;

impl OldRunRemover {
    /// Makes what the settings ask for; `None` where old runs stay. With `[ship]`, tables stay until their copies are proved.
    pub(super) fn new(settings: &Settings, ship: Option<&thalweg_ship::Settings>) -> Option<OldRunRemover> {
        let mut old_runs = OldRuns::new(settings)?;
        if let Some(rule) = ship.map(CopyRule::new) {
            old_runs = old_runs.with_rule(move |run, tables| rule.reason_to_keep(run, tables));
        }
        Some(OldRunRemover { old_runs, on_full: settings.on_full, reported: BTreeSet::new() })
    }

    /// Looks at what is recorded, and removes what has to go. The run goes on, whatever comes of it, unless its disk is full and
    /// stays so.
    pub(super) fn check(&mut self, run: &RunHandle) {
        let is_full = run.waits_for_space();
        let retained = match self.old_runs.check(Instant::now(), is_full) {
            Ok(retained) => retained,
            Err(error) => {
                if self.reported.len() < MOST_REPORTED && self.reported.insert(error.to_string()) {
                    tracing::warn!("[record.retention]: {error}; old runs stay until that is mended");
                }
                return;
            }
        };
        for run in &retained.removed {
            tracing::info!("{}: {}", run.path.display(), run.removed);
        }
        for warning in &retained.warnings {
            tracing::warn!("{warning}");
        }
        if retained.is_out_of_space && self.on_full == OnFull::End {
            run.has_no_space();
        }
    }
}
