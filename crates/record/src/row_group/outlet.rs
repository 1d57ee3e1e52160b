//! The way of row groups to the files: on the thread that makes them, or beside it on one of its own.
//!
//! ```text
//!  row group ──► files                                      here: from where it was filled
//!  row groups, files ──► [ thread ] ──► row groups, files, what became of them
//! ```
//! The files go along with the row groups and come back with them. So nobody locks anything, and a disk that refuses a row group never has one
//! that came behind it: those come back as they were.

use std::collections::VecDeque;

use thalweg_data::Mark;

use super::{Begun, RowGroup};
use crate::amounts::Amounts;
use crate::group_files::{GroupFiles, WriteFailure};
use crate::ipc::file::TableSummary;
use crate::ipc::workers::{WorkerLost, Workers};
use crate::table::Table;

/// Whether all that is visible is on the disk, of a row group that was written.
pub(super) type Written = Result<bool, WriteFailure>;

/// Most row groups that wait for the thread, and most that it has at a time. As long as it is kept from its core, some milliseconds, whoever
/// gives rows goes on.
pub(crate) const MOST_GROUPS: usize = 3;

/// What the thread is to write, and where.
struct Errand<C> {
    files: Box<GroupFiles>,
    groups: Vec<Begun<C>>,
    /// The disk fails there as it would here.
    #[cfg(any(test, feature = "harness"))]
    faults: crate::faults::Here,
}

/// What became of it.
struct Done<C> {
    files: Box<GroupFiles>,
    groups: Vec<Returned<C>>,
}

/// A row group, and what became of it; `None` behind one that is not written.
pub(super) type Returned<C> = (Begun<C>, Option<Written>);

/// The files of a sink, and the thread that writes to them where there is one.
pub(super) struct Outlet<C: RowGroup> {
    /// `None` while the thread has them.
    files: Option<Box<GroupFiles>>,
    thread: Option<Workers<Errand<C>, Done<C>>>,
    /// Whose rows the thread has, if it has any.
    away: Option<Amounts>,
    /// Rows that are visible, as of when the files were here last.
    rows: Vec<(Table, u64)>,
    /// The file that stands for all of them in a message.
    place: String,
}

impl<C: RowGroup> Outlet<C> {
    pub fn new(files: GroupFiles) -> Outlet<C> {
        let (rows, place) = (files.rows_of_tables(), files.place());
        Outlet { files: Some(Box::new(files)), thread: None, away: None, rows, place }
    }

    /// Starts the thread.
    pub fn start_thread(&mut self) -> std::io::Result<()> {
        let write = |_: &mut (), errand: Errand<C>| {
            #[cfg(any(test, feature = "harness"))]
            errand.faults.take_over();
            let Errand { mut files, groups, .. } = errand;
            let mut goes_on = true;
            let write = |group: Begun<C>| {
                let written = goes_on.then(|| write_to(&mut files, &group));
                goes_on &= matches!(written, Some(Ok(_)));
                (group, written)
            };
            let groups = groups.into_iter().map(write).collect();
            Done { files, groups }
        };
        self.thread = Some(Workers::start("write", 1, 1, || (), write)?);
        Ok(())
    }

    /// Whether row groups are written beside the thread that makes them.
    pub fn has_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// Whose rows are with the thread.
    pub fn away(&self) -> Option<&Amounts> {
        self.away.as_ref()
    }

    /// Writes a row group here. Nothing may be with a thread.
    pub fn write(&mut self, group: &C, begun: Mark) -> Written {
        let files = self.files.as_mut().expect("written here only where there is no thread");
        let written = files.write(group, &[], begun);
        self.rows = files.rows_of_tables();
        written
    }

    /// Gives row groups to the thread, or writes the first here where there is none. Nothing may be with the thread.
    pub fn send(&mut self, groups: &mut VecDeque<Begun<C>>, most: usize) -> Vec<Returned<C>> {
        let Some(mut files) = self.files.take() else { return Vec::new() };
        let Some(thread) = &mut self.thread else {
            let written = groups.pop_front().map(|group| {
                let written = write_to(&mut files, &group);
                (group, Some(written))
            });
            self.come_back(files);
            return written.into_iter().collect();
        };
        let groups: Vec<Begun<C>> = groups.drain(..most.min(groups.len())).collect();
        let mut away = Amounts::default();
        groups.iter().for_each(|group| away.add_all(group.sealed.group.amounts()));
        self.away = Some(away);
        thread.submit(Errand {
            files,
            groups,
            #[cfg(any(test, feature = "harness"))]
            faults: crate::faults::Here::of_this_thread(),
        });
        Vec::new()
    }

    /// What became of the row groups with the thread; `None` when there are none, or it is not done. With `wait`, when it is done.
    pub fn next(&mut self, wait: bool) -> Option<Result<Vec<Returned<C>>, WorkerLost>> {
        match self.thread.as_mut()?.next(wait)? {
            Ok(Done { files, groups }) => {
                self.away = None;
                self.come_back(files);
                Some(Ok(groups))
            }
            Err(lost) => Some(Err(lost)),
        }
    }

    /// Expects nothing back from the thread any more.
    pub fn forget(&mut self) {
        self.away = None;
        self.thread = None;
    }

    fn come_back(&mut self, files: Box<GroupFiles>) {
        self.rows = files.rows_of_tables();
        self.files = Some(files);
    }

    /// The files; `None` while the thread has them, or when it has ended with them.
    pub fn files(&mut self) -> Option<&mut GroupFiles> {
        self.files.as_deref_mut()
    }

    /// What the files hold; nothing while the thread has them.
    pub fn summaries(&self) -> Vec<TableSummary> {
        self.files.as_ref().map_or(Vec::new(), |files| files.summaries())
    }

    /// Rows of one table that are visible.
    pub fn rows(&self, table: Table) -> u64 {
        self.rows.iter().filter(|(of, _)| *of == table).map(|(_, rows)| rows).sum()
    }

    /// The file that stands for all of them in a message.
    pub fn place(&self) -> &str {
        &self.place
    }
}

fn write_to<C: RowGroup>(files: &mut GroupFiles, group: &Begun<C>) -> Written {
    files.write(&group.sealed.group, &group.sealed.compressed, group.begun)
}
