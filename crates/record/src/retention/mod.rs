//! A detector that records for ever: the tables of the oldest runs go when there are too many, or too little space.
//!
//! ```text
//!  runs directory ─► bytes, runs, free bytes ─ a rule is broken ─► oldest run that has ended ─► its tables are removed
//!                          ▲────────────────────────────────────────────────────┘ until none is
//! ```
//! Never touched: the newest run, a run whose record does not say that it has ended, a run that a program has open, what is no run,
//! links, files that are no tables, and what another rule keeps ([`OldRuns::with_rule`]), such as tables without copies. What remains
//! of a run is `run.json`, its ledger, its spectra.

mod removal;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::directory::RunDirectory;
use crate::directory_lock::DirectoryLock;
use crate::error::RecordError;
use crate::ipc::file::TableSummary;
use crate::removed::RemovedTables;
use crate::settings::{Retention, Settings};
use crate::system;
use crate::table_part::{KeptPart, TablePart};
use removal::{Removal, remove_tables};

/// File systems that do not give space back at once do so within this time after a removal; meanwhile free bytes say nothing.
const SETTLES_WITHIN: Duration = Duration::from_secs(6);
/// A disk with more than this, which is more than a batch takes, is not full: what refuses to be written then has met a quota or a
/// limit on the size of files, and to remove runs would not help.
const FULL_BELOW_BYTES: u64 = 1 << 29;
/// A full disk is given at least so much space, where there are runs enough: the end of a run needs some, too.
const SPACE_WHEN_FULL_BYTES: u64 = 1 << 26;
/// Most time that is spent on removing before the others of the thread have their turn.
const LONGEST: Duration = Duration::from_millis(200);
/// A check takes at most one part in so many of all time, however many runs there are.
const SHARE: u32 = 50;
/// The file that takes the note on a removal when the disk is full.
const RESERVE_FILE: &str = ".retention-room";
/// Its least length.
const LEAST_ROOM_BYTES: u64 = 1 << 20;
/// Its greatest.
const MOST_ROOM_BYTES: u64 = 1 << 26;
/// Runs of which it is remembered that they were complained of.
const MOST_REPORTED: usize = 1024;

/// A run whose tables were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedRun {
    /// Its directory.
    pub path: PathBuf,
    /// What is gone.
    pub removed: RemovedTables,
}

/// What one check has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Runs whose tables were removed, oldest first.
    pub removed: Vec<RemovedRun>,
    /// What cannot be done, each said once.
    pub warnings: Vec<String>,
    /// The recording waits for space, and nothing was removed: nothing may be, or it would not help.
    pub is_out_of_space: bool,
}

/// The policy on the runs of one directory. Whoever takes runs there checks now and then.
#[derive(Debug)]
pub struct OldRuns {
    directory: PathBuf,
    rules: Retention,
    /// No check before.
    next: Option<Instant>,
    /// Since when freed space is still to be seen.
    unsettled: Option<Instant>,
    /// It was said that a rule cannot be kept.
    reported_short: bool,
    /// Runs of which it was said that they cannot be removed.
    reported: BTreeSet<u64>,
    rule: KeepRule,
}

/// Why the tables of the run at a path must stay, for as long as they must.
type ReasonToKeep = dyn Fn(&Path, &[TableSummary]) -> Option<String> + Send;

/// What keeps tables beyond the bounds.
#[derive(Default)]
struct KeepRule(Option<Box<ReasonToKeep>>);

impl KeepRule {
    fn reason_to_keep(&self, run: &Path, tables: &[TableSummary]) -> Option<String> {
        self.0.as_ref().and_then(|rule| rule(run, tables))
    }
}

impl std::fmt::Debug for KeepRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "KeepRule(…)" } else { "KeepRule" })
    }
}

/// One run that has tables.
struct Recorded {
    run: RunDirectory,
    bytes: u64,
    record_bytes: u64,
}

/// What the rules are about.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    bytes: u64,
    runs: u64,
    /// `None` while it says nothing.
    free_bytes: Option<u64>,
    /// By removing runs, at this check.
    freed_bytes: u64,
    is_full: bool,
}

impl OldRuns {
    /// The policy that these settings ask for, if they do.
    pub fn new(settings: &Settings) -> Option<OldRuns> {
        let rules = settings.retention?;
        let directory = settings.directory.clone();
        Some(OldRuns {
            directory,
            rules,
            next: None,
            unsettled: None,
            reported_short: false,
            reported: BTreeSet::new(),
            rule: KeepRule::default(),
        })
    }

    /// The same with a rule by which tables stay, whatever the bounds are: it says why, or nothing. It is asked while the run is locked.
    #[must_use]
    pub fn with_rule(
        self,
        reason_to_keep: impl Fn(&Path, &[TableSummary]) -> Option<String> + Send + 'static,
    ) -> OldRuns {
        OldRuns { rule: KeepRule(Some(Box::new(reason_to_keep))), ..self }
    }

    /// Looks, and removes what has to go. `is_full` says that the recording waits for space on the disk. Takes a fraction of a second;
    /// what is not done then is done at the next check.
    ///
    /// # Errors
    /// When the runs cannot be listed.
    pub fn check(&mut self, now: Instant, is_full: bool) -> Result<Retained, RecordError> {
        let before = system::bytes_left(&self.directory).ok();
        let retained = self.check_at(now, is_full, before)?;
        let removed: u64 = retained.removed.iter().map(|run| run.removed.bytes).sum();
        let gained = system::bytes_left(&self.directory)
            .ok()
            .zip(before)
            .map(|(now, before)| now.saturating_sub(before));
        if gained.is_some_and(|gained| gained >= removed / 2) {
            self.unsettled = None;
        }
        Ok(retained)
    }

    fn check_at(
        &mut self,
        now: Instant,
        is_full: bool,
        free_bytes: Option<u64>,
    ) -> Result<Retained, RecordError> {
        let is_early = self.next.is_some_and(|next| now < next) && !is_full;
        if is_early || !self.directory.is_dir() {
            return Ok(Retained::default());
        }
        // Of two programs with one directory, one checks at a time: both would remove for the same reason.
        let lock = DirectoryLock::exclusive(
            &self.directory.canonicalize().unwrap_or_else(|_| self.directory.clone()),
        );
        let failed = |cause| RecordError::io(&self.directory, "locking", cause);
        let Some(_lock) = lock.map_err(failed)? else { return Ok(Retained::default()) };
        let began = Instant::now();
        let runs = self.recorded()?;
        self.next = Some(now + began.elapsed() * SHARE);
        self.keep_reserve(&runs);
        let has_settled =
            self.unsettled.is_none_or(|since| now.saturating_duration_since(since) >= SETTLES_WITHIN);
        let standing = Standing {
            bytes: runs.iter().map(|run| run.bytes).sum(),
            runs: runs.len() as u64,
            free_bytes: free_bytes.filter(|_| has_settled),
            freed_bytes: 0,
            is_full: is_full && has_settled && free_bytes.is_some_and(|free| free < FULL_BELOW_BYTES),
        };
        let mut retained = self.remove_oldest(runs, standing, has_settled);
        if retained.removed.is_empty() {
            retained.is_out_of_space = is_full && has_settled;
        } else {
            self.unsettled = Some(now);
        }
        Ok(retained)
    }

    /// Removes the tables of one run after the other until every rule is kept.
    fn remove_oldest(&mut self, runs: Vec<Recorded>, mut standing: Standing, has_settled: bool) -> Retained {
        let mut retained = Retained::default();
        let (began, mut kept) = (Instant::now(), "there is none".to_owned());
        let older = runs.len().saturating_sub(1);
        for Recorded { run, bytes, .. } in runs.into_iter().take(older) {
            let Some(broken) = self.broken(&standing) else { break };
            if began.elapsed() > LONGEST && !retained.removed.is_empty() {
                return retained;
            }
            match remove_tables(&run, &broken, &self.directory.join(RESERVE_FILE), &self.rule) {
                Ok(Removal::Removed { removed, failed: None }) => {
                    standing.takes_away(bytes, removed.bytes);
                    retained.removed.push(RemovedRun { path: run.path().to_owned(), removed });
                }
                Ok(Removal::Removed { removed, failed: Some(error) }) => {
                    standing.takes_part_away(removed.bytes);
                    self.complain(&run, error.to_string(), &mut retained);
                    retained.removed.push(RemovedRun { path: run.path().to_owned(), removed });
                }
                Ok(Removal::NoTables) => standing.leaves_out(bytes),
                Ok(Removal::Kept(why)) => kept = why,
                Err(error) => {
                    kept = "the system refuses".to_owned();
                    self.complain(&run, error.to_string(), &mut retained);
                }
            }
        }
        let broken = self.broken(&standing);
        if let Some(broken) = &broken
            && !self.reported_short
        {
            let text = format!(
                "[record.retention]: {broken}, and no older run can be removed ({kept}); free space, or allow more"
            );
            retained.warnings.push(text);
        }
        self.reported_short = broken.is_some() || self.reported_short && !has_settled;
        retained
    }

    /// The rule that is not kept, in words.
    fn broken(&self, standing: &Standing) -> Option<String> {
        let Retention { most_bytes, least_free_bytes, most_runs } = self.rules;
        let Standing { bytes, runs, free_bytes, freed_bytes, is_full } = *standing;
        if let Some(most) = most_bytes.filter(|most| bytes > *most) {
            return Some(format!("most_bytes = {most}, and tables take {bytes}"));
        }
        if let Some(most) = most_runs.filter(|most| runs > *most) {
            return Some(format!("most_runs = {most}, and {runs} have tables"));
        }
        if let (Some(least), Some(free)) = (least_free_bytes, free_bytes)
            && free < least
        {
            return Some(format!("least_free_bytes = {least}, and {free} are free"));
        }
        let has_space = freed_bytes > 0 && free_bytes.is_some_and(|free| free >= SPACE_WHEN_FULL_BYTES);
        (is_full && !has_space).then(|| "the disk is full".to_owned())
    }

    fn complain(&mut self, run: &RunDirectory, text: String, retained: &mut Retained) {
        if self.reported.len() < MOST_REPORTED && self.reported.insert(run.number()) {
            retained
                .warnings
                .push(format!("[record.retention]: {text}; look at its permissions, or remove it by hand"));
        }
    }

    /// The runs that have tables, by number. What is no directory of a run is left out.
    fn recorded(&self) -> Result<Vec<Recorded>, RecordError> {
        let mut recorded = Vec::new();
        for run in RunDirectory::list(&self.directory)? {
            // Somebody may remove it meanwhile.
            let (Ok(files), false) = (run.files(), run.path().is_symlink()) else { continue };
            let Ok(record) = run.run_record().symlink_metadata() else { continue };
            let tables: Vec<u64> =
                files.iter().filter_map(|file| Some(TablePart::at(file)?.data.len())).collect();
            if record.is_file() && !tables.is_empty() {
                let kept: u64 = files.iter().filter_map(|file| Some(KeptPart::at(file)?.bytes)).sum();
                let bytes = tables.iter().sum::<u64>() + kept;
                recorded.push(Recorded { run, bytes, record_bytes: record.len() });
            }
        }
        Ok(recorded)
    }

    /// Keeps a file that is as long as any note may be: on a full disk there is no space for another.
    fn keep_reserve(&self, runs: &[Recorded]) {
        let path = self.directory.join(RESERVE_FILE);
        let longest = runs.iter().map(|run| run.record_bytes).max().unwrap_or(0);
        let wanted = longest.saturating_mul(2).clamp(LEAST_ROOM_BYTES, MOST_ROOM_BYTES);
        let lengthened = || {
            let mut file =
                File::options().create(true).append(true).custom_flags(libc::O_NOFOLLOW).open(&path)?;
            let missing = wanted.saturating_sub(file.metadata()?.len());
            if missing > 0 {
                file.write_all(&vec![0; missing as usize])?;
                file.sync_all()?;
            }
            Ok::<_, std::io::Error>(())
        };
        // On a disk that is full already there is no space for it yet.
        if let Err(cause) = lengthened() {
            tracing::debug!("{}: {cause}", path.display());
        }
    }
}

impl Standing {
    /// A run that has no tables, whatever lies there under such names.
    fn leaves_out(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.runs = self.runs.saturating_sub(1);
    }

    /// A run of so many bytes has none of its tables any more.
    fn takes_away(&mut self, bytes: u64, removed_bytes: u64) {
        self.takes_part_away(removed_bytes);
        self.leaves_out(bytes.saturating_sub(removed_bytes));
    }

    fn takes_part_away(&mut self, removed_bytes: u64) {
        self.bytes = self.bytes.saturating_sub(removed_bytes);
        self.free_bytes = self.free_bytes.map(|free| free.saturating_add(removed_bytes));
        self.freed_bytes = self.freed_bytes.saturating_add(removed_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::hit_writer::HitWriter;
    use crate::run_record::{RunRecord, RunRecordState};

    /// Runs without hits, which have tables all the same.
    fn write_runs(directory: &Path, count: usize) -> Vec<PathBuf> {
        let write = |_| {
            let run = RunDirectory::create(directory, "").expect("made");
            let mut writer = HitWriter::create(run.path(), &Settings::default(), &[]).expect("made");
            thalweg_data::Sink::finish(&mut writer).expect("written");
            let mut record = RunRecord::start(&run, "", "", &[]);
            record.stop(RunRecordState::Stopped, writer.summaries(), None);
            record.write(&run).expect("written");
            run.path().to_owned()
        };
        (0..count).map(write).collect()
    }

    #[test]
    fn a_run_that_a_rule_keeps_stays_and_the_next_one_goes() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let runs = write_runs(folder.path(), 3);
        let retention = Some(Retention { most_runs: Some(1), ..Retention::default() });
        let settings = Settings { directory: folder.path().to_owned(), retention, ..Settings::default() };
        let first = runs[0].clone();
        let keeps = move |run: &Path, tables: &[TableSummary]| {
            assert!(tables.iter().any(|table| table.file == "hits.arrows" && !table.crc32c.is_empty()));
            (run == first).then(|| "it has no copy".to_owned())
        };
        let mut old_runs = OldRuns::new(&settings).expect("it is asked for").with_rule(keeps);
        let retained = old_runs.check_at(Instant::now(), false, None).expect("listed");
        assert_eq!(retained.removed.iter().map(|run| &run.path).collect::<Vec<_>>(), [&runs[1]]);
        assert!(retained.warnings[0].contains("(it has no copy)"), "{:?}", retained.warnings);
        assert!(runs[0].join("hits.arrows").exists());
    }

    #[test]
    fn space_is_freed_step_by_step_and_the_end_of_it_is_reported() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let runs = write_runs(folder.path(), 3);
        let retention = Some(Retention { most_runs: Some(10), ..Retention::default() });
        let settings = Settings { directory: folder.path().to_owned(), retention, ..Settings::default() };
        let mut old_runs = OldRuns::new(&settings).expect("it is asked for");
        let start = Instant::now();
        let mut after = |seconds: u64, is_full, free| {
            old_runs.check_at(start + Duration::from_secs(seconds), is_full, Some(free)).expect("listed")
        };
        let full = SPACE_WHEN_FULL_BYTES;
        assert_eq!(after(0, false, full), Retained::default());
        let first = after(100, true, full);
        assert!(first.removed.len() == 1 && first.removed[0].removed.why == "the disk is full", "{first:?}");
        assert_eq!(after(101, true, full), Retained::default(), "the system may still be giving it back");
        let elsewhere = after(105 + 5, true, FULL_BELOW_BYTES);
        assert!(
            elsewhere.is_out_of_space && elsewhere.removed.is_empty(),
            "it would not help: {elsewhere:?}"
        );
        assert_eq!(after(120, true, full).removed.len(), 1);
        let last = after(130, true, 0);
        assert!(last.removed.is_empty() && last.is_out_of_space && last.warnings.len() == 1, "{last:?}");
        let again = after(140, true, 0);
        assert!(again.is_out_of_space && again.warnings.is_empty());
        let has_hits = |run: &PathBuf| run.join("hits.arrows").exists();
        assert_eq!(runs.iter().map(has_hits).collect::<Vec<_>>(), [false, false, true]);
    }
}
