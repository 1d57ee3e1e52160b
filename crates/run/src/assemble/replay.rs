//! Runs a raw recording again through the same path, as it was or with some sections of its configuration replaced.
//!
//! ```text
//!  run.json ─ sections replaced ─► Configuration ─┐
//!  raw.arrows ─────────────────────── pace ───────┴─► the same path ─► a new run, which says what it was made of
//! ```
//! The recorded run is read and never written.

use std::path::{Path, PathBuf};

use thalweg_record::read::{Pace, expect_raw_files};
use thalweg_record::{
    EntryState, RecordError, RemovedTables, ReplayRecord, RunDirectory, RunEntry, RunRecord, RunRecordState,
    Table,
};

use super::{Planned, take_data};
use crate::boards;
use crate::config::{Configuration, Replacement};
use crate::error::RunError;
use crate::open::{Origin, Recording};
use crate::plan::{self, Placement};
use crate::source_table::SourceTable;
use crate::supervise::{EndWhen, Summary, Watch};

/// A raw recording that is ready to run again.
pub struct Replay {
    /// Open as long as it is read, so that its tables stay.
    directory: RunDirectory,
    record: RunRecord,
    configuration: Configuration,
    planned: Planned,
    replay: ReplayRecord,
    pace: Option<Pace>,
}

/// Runs a raw recording again as it was, as fast as possible, into a new run in `parent`.
///
/// # Errors
/// As of [`Replay::open`] and [`Replay::run`].
pub fn replay(recorded: &Path, parent: &Path, watch: &mut Watch<'_>) -> Result<Summary, RunError> {
    Replay::open(recorded, &[])?.into_directory(parent).run(watch)
}

impl Replay {
    /// Opens the run in the directory `recorded`, with these sections of its configuration replaced. The new run will be beside it.
    ///
    /// # Errors
    /// When the run has no raw recording, is still being recorded, or what is replaced does not fit the rest.
    pub fn open(recorded: &Path, replaced: &[Replacement]) -> Result<Replay, RunError> {
        // Before it is opened here: a run that a program has open counts as one that is being recorded.
        check_ended(recorded)?;
        RemovedTables::refuse(recorded, Table::Raw)?;
        let directory = RunDirectory::open(recorded)?;
        let record = RunRecord::read(&directory.run_record())?;
        expect_raw_files(&directory, &record)?;
        if record.was_killed() {
            tracing::warn!(
                "{}: its program was killed: the replay counts as lost what had come and is not on file, as far as the ledger says; what \
                 was received behind the last moment of the ledger is missing, too",
                directory.path().display()
            );
        }
        if directory.raw_files()?.is_empty() {
            return Err(without_raw(&directory, &record).into());
        }
        let mut configuration = boards::recorded_but_for(&directory.run_record(), &record, replaced)?;
        as_replay(&mut configuration, (&directory, &record), replaced);
        // One that is being written was refused.
        let was_killed = record.was_killed() || record.state == RunRecordState::Running;
        let planned = Planned {
            source_table: SourceTable { replays_killed_run: was_killed, ..SourceTable::of(&configuration)? },
            placement: Placement::default(),
            topology: plan::of_recording(&configuration)?,
        };
        let replay = ReplayRecord {
            was_killed,
            replaced: replaced.iter().map(Replacement::record).collect(),
            ..ReplayRecord::of(&directory, &record)
        };
        Ok(Replay { directory, record, configuration, planned, replay, pace: None })
    }

    /// The same at a pace: nothing is given before it is due. The result is the same.
    pub fn at_pace(mut self, pace: Pace) -> Replay {
        self.replay.speed = Some(pace.speed());
        Replay { pace: Some(pace), ..self }
    }

    /// The same with the new run in the directory of runs `parent`.
    pub fn into_directory(mut self, parent: &Path) -> Replay {
        self.configuration.record.directory = parent.to_owned();
        self
    }

    /// The same with a page at this address.
    pub fn with_page(mut self, listen: &str) -> Replay {
        let mut page = thalweg_monitor::Settings::default();
        page.serve_at(listen);
        self.configuration.monitor = Some(page);
        self
    }

    /// The configuration of the new run.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// One line: what is read again, what is done otherwise, and how long that will take where it is known.
    pub fn story(&self) -> String {
        let paced = self.record.seconds().zip(self.replay.speed);
        let duration = paced.map(|(seconds, speed)| format!(": about {:.1} s", seconds / speed));
        format!("{}{}", self.replay, duration.unwrap_or_default())
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the new run cannot be started. What goes wrong later is in the summary, and what was written verifies.
    pub fn run(self, watch: &mut Watch<'_>) -> Result<Summary, RunError> {
        let Replay { directory, record, configuration, planned, replay, pace } = self;
        let recording = Recording { path: directory.path().to_owned(), pace, replay };
        let origin = (&Origin::Recorded(recording), &boards::reports_of(&record));
        take_data(&configuration, origin, planned, EndWhen::default(), watch)
    }
}

/// Makes the configuration of a recorded run that of its replay: what it does beside the path was done for people who took data.
fn as_replay(
    configuration: &mut Configuration,
    (directory, record): (&RunDirectory, &RunRecord),
    replaced: &[Replacement],
) {
    let replaces = |section| replaced.iter().any(|by| by.replaces(section));
    configuration.record.directory = parent_of(directory.path());
    let tables = &mut configuration.record.tables;
    tables.retain(|table| *table != Table::Raw);
    // Where none were made there was no reason to keep them.
    if replaces("coincidence") && !tables.contains(&Table::Coincidences) {
        tables.push(Table::Coincidences);
    }
    configuration.record.retention = None;
    // The other disks of the host that took the data need not be there, and the recorded run has its files on them.
    configuration.record.files.directories.clear();
    configuration.run.title = match record.title.as_str() {
        "" => format!("replay of run {}", record.number),
        title => format!("replay of {title}"),
    };
    (configuration.monitor, configuration.ship) = (None, None);
    (configuration.alarms, configuration.notify) = Default::default();
    // The channels as they were when the run was recorded: the table itself may have changed or gone since.
    if let (Some(file), copy) = (&mut configuration.channels.file, directory.channels())
        && !replaces("channels")
        && copy.exists()
    {
        *file = std::path::absolute(&copy).unwrap_or(copy);
    }
    // The cores and nodes are those of the machine that recorded.
    for source in &mut configuration.sources {
        (source.endpoint.numa_node, source.endpoint.huge_pages) = Default::default();
    }
}

/// The directory in which a run is.
fn parent_of(run: &Path) -> PathBuf {
    // Through links, and where the path is only a name.
    let run = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    run.parent().map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Refuses a run that is being recorded: of what it will have, only a part is there. Warns of one that was killed.
fn check_ended(recorded: &Path) -> Result<(), RecordError> {
    let path = RunDirectory::find(recorded)?;
    match RunEntry::read(&RunDirectory::unlocked(&path)).state {
        EntryState::Running => Err(RecordError::Missing {
            path,
            found: "this run is being recorded; replay it when it has ended".to_owned(),
        }),
        EntryState::Killed | EntryState::RunningOrKilled => {
            let path = path.display();
            tracing::warn!(
                "{path}: run.json says that the run is being written: its program may have been killed, and what it had received and not \
                 written is missing here; if the program is gone, use `thalweg recover {path}`, and replay it again"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Why a run without raw bytes cannot be replayed, and what can be done with it.
fn without_raw(directory: &RunDirectory, record: &RunRecord) -> RecordError {
    let has_hits = record.rows_of(Table::Hits).is_some();
    let instead = match has_hits {
        true => {
            "; cuts and coincidence cannot be applied anew to its table `hits`, which `thalweg plot`, `thalweg export` and Python read"
        }
        false => "",
    };
    RecordError::Missing {
        path: directory.path().to_owned(),
        found: format!(
            "no raw bytes were recorded, and a replay begins with these; add \"raw\" to `[record] tables` for runs to come{instead}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_record::{MissingRows, TableSummary};

    use super::*;

    #[test]
    fn a_run_whose_raw_table_is_gone_is_not_one_that_recorded_none() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let directory = RunDirectory::create(folder.path(), "gone").expect("made");
        let run = directory.path().to_owned();
        let refused = |change: &dyn Fn(&mut RunRecord)| {
            let mut record = RunRecord::start(&directory, "gone", "", &[]);
            record.state = RunRecordState::Stopped;
            change(&mut record);
            record.write(&directory).expect("written");
            Replay::open(&run, &[]).err().expect("refused").to_string()
        };
        let (table, file) = ("raw".to_owned(), "raw.arrows".to_owned());
        let raw =
            TableSummary { table: table.clone(), file: file.clone(), rows: 24, ..TableSummary::default() };
        let words = refused(&|record| record.tables = vec![raw.clone()]);
        assert!(words.contains("raw.arrows: run.json names it, and it is missing; copy it back"), "{words}");
        let gone = MissingRows { table, file, rows: Some(24), ..MissingRows::default() };
        let words = refused(&|record| record.missing = vec![gone.clone()]);
        assert!(words.contains("the table `raw` is gone: raw.arrows: 24 rows missing"), "{words}");
        let words = refused(&|_| ());
        assert!(words.contains("no raw bytes were recorded"), "{words}");
    }
}
