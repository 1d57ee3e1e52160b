//! The files of a sink: row groups become visible there, all tables of a group at once, and are forced to the disk when that is due.
//!
//! ```text
//!  row group ──► lost a file? ──► complete? next files ──► stage all ──► commit all ──► due? force all
//! ```
//! They count nothing: what was written is the sink's to count.

use std::time::{Duration, Instant};

use thalweg_data::Mark;

use crate::amounts::Amounts;
use crate::error::RecordError;
use crate::ipc::columns::Batch;
use crate::ipc::compress::Compressed;
use crate::ipc::file::{TableFile, TableSummary};
use crate::row_group::RowGroup;
use crate::settings::{Settings, Sync};
use crate::system;
use crate::table::Table;
use crate::written_log::WrittenLog;

/// Where the present files begin.
#[derive(Clone, Copy, Debug, Default)]
struct PartBegin {
    /// 0 for the first files.
    number: u32,
    /// When their first row group was begun.
    first_mark: Option<Mark>,
    /// Rows of the table of the sink that are in earlier files.
    first_row: u64,
}

/// Why the files do not have a row group.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// Nothing of it is visible.
    Refused(RecordError),
    /// It is visible, and nobody knows whether it is on the disk.
    Unforced(RecordError),
    /// Somebody has removed, replaced or cut a file: `gone` of what was visible is lost, and nothing of this group is visible.
    FileLost {
        /// The file.
        place: String,
        /// What happened, and what to do.
        message: String,
        /// Whose rows were there.
        gone: Amounts,
    },
}

/// The files of the tables of a sink.
pub(crate) struct GroupFiles {
    files: Vec<TableFile>,
    part: PartBegin,
    /// The directory that names the files is on the disk.
    is_named: bool,
    log: WrittenLog,
    /// Something is visible that was not forced to the disk.
    is_unforced: bool,
    synchronised: Instant,
    settings: Settings,
}

impl GroupFiles {
    /// Files that are committed in this order; the last one's rows are counted where a number of rows ends a file.
    pub fn new(files: Vec<TableFile>, settings: &Settings) -> GroupFiles {
        GroupFiles {
            files,
            part: PartBegin::default(),
            is_named: false,
            log: WrittenLog::default(),
            is_unforced: false,
            synchronised: Instant::now(),
            settings: settings.clone(),
        }
    }

    /// Makes a row group, which was begun at `begun`, visible in all tables or in none; `compressed` has the tables that are compressed.
    /// Returns whether all that is visible is on the disk now.
    pub fn write<C: RowGroup>(
        &mut self,
        group: &C,
        compressed: &[(Table, Compressed)],
        begun: Mark,
    ) -> Result<bool, WriteFailure> {
        self.expect_no_loss()?;
        let turned = self.turn_over_if_due(begun);
        turned.and_then(|()| self.put(group, compressed)).map_err(WriteFailure::Refused)?;
        self.log.add(&self.files, group.amounts());
        self.is_unforced = true;
        self.synchronise_if_due().map_err(WriteFailure::Unforced)
    }

    /// Stages all tables, then commits all: a full disk shows before any row is visible.
    fn put<C: RowGroup>(&mut self, group: &C, compressed: &[(Table, Compressed)]) -> Result<(), RecordError> {
        let compression = self.settings.compression;
        let staged = self.files.iter_mut().try_for_each(|file| {
            let compressed = compressed.iter().find(|(table, _)| *table == file.table());
            let batch = match compressed {
                Some((_, compressed)) => Some(compressed as &dyn Batch),
                None => group.batch(file.table()),
            };
            batch.map_or(Ok(()), |batch| file.stage(batch, compression))
        });
        let result = staged.and_then(|()| self.files.iter_mut().try_for_each(TableFile::commit));
        if result.is_err() {
            self.files.iter_mut().for_each(TableFile::discard);
        }
        result
    }

    /// Goes on in new files, where the present ones are complete: before the row group that begins with `begun`.
    fn turn_over_if_due(&mut self, begun: Mark) -> Result<(), RecordError> {
        let Some(last) = self.files.last() else { return Ok(()) };
        let rows = last.rows() - self.part.first_row;
        let first = *self.part.first_mark.get_or_insert(begun);
        let most_bytes = self.files.iter().map(TableFile::file_bytes).max().unwrap_or(0);
        let are_complete = self.settings.files.are_reached(most_bytes, begun.since_ns(first), rows);
        if rows == 0 || !are_complete {
            return Ok(());
        }
        // Those that have gone on in an earlier try, when the disk was full, are left.
        for file in self.files.iter_mut().filter(|file| file.part() == self.part.number) {
            file.turn_over(&self.settings.files.directories)?;
        }
        let first_row = self.files.last().map_or(0, TableFile::rows);
        self.part = PartBegin { number: self.part.number + 1, first_mark: Some(begun), first_row };
        self.log = WrittenLog::default();
        self.is_named = false;
        Ok(())
    }

    /// Forces what is visible to the disk where `[record] sync` says that it is time. Returns whether all of it is there now.
    pub fn synchronise_if_due(&mut self) -> Result<bool, RecordError> {
        let due = match self.settings.sync {
            _ if !self.is_unforced => false,
            Sync::None => false,
            Sync::Batch => true,
            Sync::Seconds(seconds) => {
                let interval = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
                self.synchronised.elapsed() >= interval
            }
        };
        if due { self.synchronise().map(|()| true) } else { Ok(false) }
    }

    /// Forces what is visible to the disk.
    pub fn synchronise(&mut self) -> Result<(), RecordError> {
        self.synchronised = Instant::now();
        self.files.iter_mut().try_for_each(TableFile::sync)?;
        self.name_files()?;
        self.is_unforced = false;
        Ok(())
    }

    /// Forces the directory to the disk once: without it a power cut takes the names of the files.
    fn name_files(&mut self) -> Result<(), RecordError> {
        if let (false, Some(file)) = (self.is_named, self.files.first()) {
            for directory in file.directories() {
                let synced = std::fs::File::open(directory).and_then(|opened| system::force_all(&opened));
                synced.map_err(|cause| RecordError::io(directory, "forcing to the disk", cause))?;
            }
            self.is_named = true;
        }
        Ok(())
    }

    /// Whether somebody has removed, replaced or cut a file: what was on file there is lost.
    pub fn expect_no_loss(&self) -> Result<(), WriteFailure> {
        let loss = self.files.iter().find_map(|file| Some((file, file.loss()?)));
        let Some((file, loss)) = loss else { return Ok(()) };
        let (place, message) = (file.path().display().to_string(), loss.message(file));
        Err(WriteFailure::FileLost { place, message, gone: self.log.gone(file, loss) })
    }

    /// Returns a summary of what the files hold.
    pub fn summaries(&self) -> Vec<TableSummary> {
        self.files.iter().map(TableFile::summary).collect()
    }

    /// Rows that are visible, of each table.
    pub fn rows_of_tables(&self) -> Vec<(Table, u64)> {
        self.files.iter().map(|file| (file.table(), file.rows())).collect()
    }

    /// The file that stands for all of them in a message.
    pub fn place(&self) -> String {
        self.files.first().map(|file| file.path().display().to_string()).unwrap_or_default()
    }

    #[cfg(test)]
    pub fn set_sync(&mut self, sync: Sync) {
        self.settings.sync = sync;
    }
}
