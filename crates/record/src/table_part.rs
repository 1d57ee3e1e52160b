//! One file of a table, by its name: which table it belongs to, and where its bytes are.
//!
//! ```text
//!  runs/000042/hits.arrows       ─► hits, part 0
//!  runs/000042/hits.0001.arrows  ─► hits, part 1; a link of `[record.files] directories` ─► /other/disk/000042/hits.0001.arrows
//! ```
//! Any other link is no file of a table, and `recover` refuses it. The directory on the other disk names the run's own directory in `.run`:
//! a copy of the run, whatever its name is, has the same links, and the files are not its own. A run that was moved, or that is mounted at a
//! second path, is no copy.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::table::{Table, first_part_of, part_name};

/// A file with the name of a table, or of a later part of one.
#[derive(Clone, Debug)]
pub struct TablePart {
    /// The table.
    pub table: Table,
    /// Name of the table's first file.
    pub first: String,
    /// The number of the part; 0 is the first.
    pub part: u32,
    /// The file itself, on another disk if the name in the run's directory is a link there.
    pub file: PathBuf,
    /// What its file system says of it.
    pub data: Metadata,
}

impl TablePart {
    /// The file at a path in a run's directory; `None` if it is no file of a table, or not there.
    pub fn at(path: &Path) -> Option<TablePart> {
        let name = path.file_name()?.to_str()?;
        let (first, part) = first_part_of(name).unwrap_or_else(|| (name.to_owned(), 0));
        let table = Table::of_file_name(&first)?;
        let file = part_elsewhere(path).unwrap_or_else(|| path.to_owned());
        let data = file.symlink_metadata().ok().filter(Metadata::is_file)?;
        Some(TablePart { table, first, part, file, data })
    }

    /// Whether the table goes on in a later file, so that nothing more is written to this one. `path` is the one given to
    /// [`TablePart::at`].
    pub fn is_continued(&self, path: &Path) -> bool {
        path.with_file_name(part_name(&self.first, self.part + 1)).symlink_metadata().is_ok()
    }
}

/// The file of a directory on another disk that names the directory of the run.
const OWNER_FILE: &str = ".run";

/// What `recover` has kept of a damaged table beside it.
#[derive(Clone, Debug)]
pub(crate) struct KeptPart {
    /// Name of the table's first file.
    pub first: String,
    /// Its bytes.
    pub bytes: u64,
}

impl KeptPart {
    /// The one at a path in a run's directory; `None` if it is none, or not there.
    pub fn at(path: &Path) -> Option<KeptPart> {
        let name = kept_of(path.file_name()?.to_str()?)?;
        let first = first_part_of(name).map_or_else(|| name.to_owned(), |(first, _)| first);
        Table::of_file_name(&first)?;
        let file = part_elsewhere(path).unwrap_or_else(|| path.to_owned());
        let data = file.symlink_metadata().ok().filter(Metadata::is_file)?;
        Some(KeptPart { first, bytes: data.len() })
    }
}

/// The name of the file that is kept under this one: `hits.arrows` of `hits.arrows.damaged-2` and `hits.arrows.damaged-from-960`.
pub(crate) fn kept_of(kept: &str) -> Option<&str> {
    let (name, rest) = kept.rsplit_once(".damaged")?;
    let numbers = rest.strip_prefix("-from").unwrap_or(rest);
    numbers.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()).then_some(name)
}

/// The file to which a link of `[record.files] directories` leads: one of the same name, in a directory of the run's name. `recover` may
/// have renamed the link.
pub(crate) fn part_elsewhere(path: &Path) -> Option<PathBuf> {
    linked_part(path).filter(|target| has_run_name_of(path, target))
}

/// The file of the same name to which a link in the place of a later part leads, whatever the directories are called: a copy of a run
/// may have another name.
fn linked_part(path: &Path) -> Option<PathBuf> {
    let target = fs::read_link(path).ok()?;
    let name = path.file_name()?.to_str()?;
    let name = kept_of(name).unwrap_or(name);
    let is_part =
        first_part_of(name).is_some() && target.is_absolute() && target.file_name() == Some(OsStr::new(name));
    is_part.then_some(target)
}

/// Whether a file on another disk lies in a directory of the run's name.
fn has_run_name_of(path: &Path, target: &Path) -> bool {
    let run = |path: &Path| path.parent().and_then(Path::file_name).map(OsStr::to_owned);
    run(target) == run(path)
}

/// The file to which a link leads that stands in the place of a table's file, and that `[record.files] directories` has not made:
/// `recover` would write to a file that is not the run's. Where the disk of a part is not there, nobody can know.
pub(crate) fn foreign_target(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    Table::of_part_name(name)?;
    let target = fs::read_link(path).ok()?;
    let is_own = linked_part(path).is_some_and(|part| {
        let is_of_run = has_run_name_of(path, &part) || part.with_file_name(OWNER_FILE).is_file();
        part.symlink_metadata().map_or(true, |data| data.is_file() && is_of_run)
    });
    (!is_own).then_some(target)
}

/// The file to which a link leads that leads nowhere: its disk may not be mounted.
pub(crate) fn missing_target(path: &Path) -> Option<PathBuf> {
    let is_gone = || fs::metadata(path).is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound);
    fs::read_link(path).ok().filter(|_| is_gone())
}

/// Notes in a new directory on another disk which run has files there.
pub(crate) fn name_owner(directory: &Path, run: &Path) {
    let named =
        run.canonicalize().and_then(|run| fs::write(directory.join(OWNER_FILE), run.as_os_str().as_bytes()));
    // Only a copy of the run needs it.
    if let Err(cause) = named {
        tracing::debug!("{}: {cause}", directory.display());
    }
}

/// The run to which a file on another disk belongs, when it is not the run of this link: that is a copy, and the other is still there.
pub(crate) fn other_owner(link: &Path) -> Option<PathBuf> {
    let file = linked_part(link)?;
    let named = fs::read(file.with_file_name(OWNER_FILE)).ok()?;
    let owner =
        PathBuf::from(OsString::from_vec(named)).canonicalize().ok().filter(|owner| owner.is_dir())?;
    // One directory has several paths where it is mounted twice.
    let is_same = identity(link.parent()?)? == identity(&owner)?;
    (!is_same && leads_to(&owner, &file)).then_some(owner)
}

/// Device and number of a file or a directory, whatever its path is.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

/// Whether a run has a link to this file: where the run was moved, another may have its path by now. `recover` may have renamed the link.
fn leads_to(run: &Path, file: &Path) -> bool {
    // What nobody may list may have it.
    let Ok(entries) = fs::read_dir(run) else { return true };
    let is_named = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.map(|name| kept_of(name).unwrap_or(name)) == file.file_name().and_then(OsStr::to_str)
    };
    let wanted = identity(file);
    let mut named = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(is_named);
    wanted.is_some() && named.any(|path| identity(&path) == wanted)
}

/// Removes a directory on another disk in which a run has no file any more.
pub(crate) fn remove_if_empty(directory: &Path) {
    let Ok(mut entries) = fs::read_dir(directory) else { return };
    if entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == OWNER_FILE)) {
        let _not_there = fs::remove_file(directory.join(OWNER_FILE));
        // Somebody may have put a file there meanwhile.
        let _still_used = fs::remove_dir(directory);
    }
}
