//! Run directories: one per run, numbered, never written twice.
//!
//! ```text
//!  runs/000042-neutron-gamma-2-boards/
//!      hits.arrows  extras.arrows  waveforms.arrows  statistics.arrows  raw.arrows
//!      events.arrows  fragments.arrows       or, of each builder unit, events-UNIT.arrows  fragments-UNIT.arrows
//!      coincidences.arrows   losses.arrows   ranges-UNIT.arrows   spectra.json   channels.csv
//!      ledger.bin   run.json   notes.jsonl   labels.jsonl
//! ```

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_data::checksum;

use crate::directory_lock::{DirectoryLock, Holder};
use crate::error::RecordError;
use crate::notes::Note;
use crate::system;
use crate::table::Table;

/// Digits of a run's number in the name of its directory.
const NUMBER_DIGITS: usize = 6;
/// Longest part of the title that goes into the name.
const TITLE_BYTES: usize = 48;
/// The file of a run's spectra.
const SPECTRA_FILE: &str = "spectra.json";
/// The copy of the table of channels that a run was taken with.
const CHANNELS_FILE: &str = "channels.csv";
/// Bytes that the last rows of the table `losses` take, of a run that has lost something in a few hundred ways, and besides of each
/// source, of which some twenty rows have room.
const LAST_LOSSES_BYTES: usize = 64 << 10;
const LAST_LOSSES_BYTES_OF_SOURCE: usize = 2 << 10;
/// The end of the name of a file that reserves space for another.
const RESERVE: &str = ".room";
/// The file that keeps two programs from taking the same number.
const LOCK_FILE: &str = ".numbers";

/// The directory of one run. One that was made or opened is locked until its last clone is gone: the policy on old runs and
/// `recover` leave it alone for so long.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
    number: u64,
    _lock: Option<Arc<DirectoryLock>>,
}

impl PartialEq for RunDirectory {
    fn eq(&self, other: &RunDirectory) -> bool {
        self.path == other.path
    }
}

impl Eq for RunDirectory {}

/// Keeps other programs from making a run, and from moving the notes for the next one, for as long as it lives.
pub(crate) struct NumbersLock {
    _file: File,
}

impl NumbersLock {
    /// Of a directory of runs; waits for other programs.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn of(runs: &Path) -> std::io::Result<NumbersLock> {
        let file = File::options().create(true).append(true).open(runs.join(LOCK_FILE))?;
        file.lock()?;
        Ok(NumbersLock { _file: file })
    }
}

/// A file of a run that is no table; part of `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentSummary {
    /// Name of the file.
    pub file: String,
    /// Bytes on file.
    pub bytes: u64,
    /// CRC-32C of these, in hexadecimal.
    pub crc32c: String,
}

impl DocumentSummary {
    /// Of a file with this name and content.
    pub(crate) fn of(file: &str, content: &[u8]) -> DocumentSummary {
        let crc32c = format!("{:08x}", checksum::of(content));
        DocumentSummary { file: file.to_owned(), bytes: content.len() as u64, crc32c }
    }
}

/// The two files that hold the events of one builder. Rows of one name rows of the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventFiles {
    /// The table `events`.
    pub events: PathBuf,
    /// The table `fragments`.
    pub fragments: PathBuf,
}

impl EventFiles {
    /// The files of a builder in a directory; `unit` is its name where there are several.
    pub fn in_directory(directory: &Path, unit: Option<&str>) -> EventFiles {
        let file = |table: Table| match unit {
            Some(unit) => directory.join(format!("{}-{}.arrows", table.word(), words_of(unit))),
            None => directory.join(table.file_name()),
        };
        EventFiles { events: file(Table::Events), fragments: file(Table::Fragments) }
    }

    /// The pair that `path`, a file of either table by its name, belongs to.
    pub fn of(path: &Path) -> Option<EventFiles> {
        let name = path.file_name()?.to_str()?;
        // A later part goes with its first file.
        Table::of_file_name(name)?;
        let rest =
            [Table::Events, Table::Fragments].iter().find_map(|table| name.strip_prefix(table.word()))?;
        let file = |table: Table| path.with_file_name(format!("{}{rest}", table.word()));
        (rest == ".arrows" || rest.starts_with('-') && rest.ends_with(".arrows"))
            .then(|| EventFiles { events: file(Table::Events), fragments: file(Table::Fragments) })
    }
}

impl RunDirectory {
    /// Makes the directory of a new run in `parent` (made, too, when missing): the number after the largest there, and
    /// the words of `title`. Two programs that do this at the same time get different numbers.
    ///
    /// # Errors
    /// When the system refuses, or the disk is full.
    pub fn create(parent: &Path, title: &str) -> Result<RunDirectory, RecordError> {
        let failed = |cause| RecordError::no_directory(parent, cause);
        fs::create_dir_all(parent).map_err(failed)?;
        let _numbers = NumbersLock::of(parent).map_err(failed)?;
        let number = RunDirectory::list(parent)?.last().map_or(1, |run| run.number.saturating_add(1));
        let name = match words_of(title) {
            words if words.is_empty() => format!("{number:0NUMBER_DIGITS$}"),
            words => format!("{number:0NUMBER_DIGITS$}-{words}"),
        };
        let path = parent.join(name);
        fs::create_dir(&path).map_err(failed)?;
        let lock = RunDirectory::lock_new(&path).inspect_err(|_| {
            // Nothing is in it: a run that does not begin leaves no number.
            let _still_used = fs::remove_dir(&path);
        })?;
        Ok(RunDirectory { path, number, _lock: lock })
    }

    /// Locks the directory of a run that begins, so that `recover` and the removal of old tables leave it alone.
    fn lock_new(path: &Path) -> Result<Option<Arc<DirectoryLock>>, RecordError> {
        let lock = DirectoryLock::shared(path)?;
        if lock.is_none() {
            tracing::warn!(
                "{}: could not be locked (its file system may have no locks): other programs cannot see that this run is being \
                 written; keep `recover` and other writers away from it until it has ended, or record to a local disk",
                path.display()
            );
        }
        Ok(lock.map(Arc::new))
    }

    /// An existing run's directory; `runs/000007` finds `runs/000007-title`, too. A path without a number, such as a copy of
    /// another name, counts as run 0.
    ///
    /// # Errors
    /// When there is no such directory, or it is being recovered, or its tables are being removed at this moment.
    pub fn open(path: &Path) -> Result<RunDirectory, RecordError> {
        let path = RunDirectory::find(path)?;
        let lock = DirectoryLock::shared(&path)?.map(Arc::new);
        Ok(RunDirectory { number: number_of(&path).unwrap_or(0), path, _lock: lock })
    }

    /// The run at a path that [`RunDirectory::find`] has found, not locked: for a look at files that are replaced or added to, and
    /// whole at every moment.
    pub fn unlocked(path: &Path) -> RunDirectory {
        RunDirectory { path: path.to_owned(), number: number_of(path).unwrap_or(0), _lock: None }
    }

    /// As [`RunDirectory::open`], locked against everybody else, to change what is in it.
    ///
    /// # Errors
    /// When there is no such directory, or another process has it open, or the file system does not say.
    pub(crate) fn open_exclusively(path: &Path) -> Result<RunDirectory, RecordError> {
        let path = RunDirectory::find(path)?;
        // A link leads to the run that it names, and the lock is on that one.
        let real = path.canonicalize().map_err(|cause| RecordError::io(&path, "opening", cause))?;
        let refused = |found: String| RecordError::Missing { path: path.clone(), found };
        match DirectoryLock::exclusive(&real) {
            Ok(Some(lock)) => {
                let number = number_of(&path).or(number_of(&real)).unwrap_or(0);
                Ok(RunDirectory { path, number, _lock: Some(Arc::new(lock)) })
            }
            Ok(None) => {
                let holder = Holder::of_path(&real);
                Err(refused(format!("{holder} has this run open; wait until it has ended, then try again")))
            }
            Err(cause) => Err(refused(format!(
                "it is unknown whether this run is being written, because it cannot be locked ({cause}); copy it to a local \
                 disk and recover the copy"
            ))),
        }
    }

    /// The directory at `path`; where there is only a number (`runs/000007`), the one run there that has this number.
    ///
    /// # Errors
    /// When there is none, or several have the number.
    pub fn find(path: &Path) -> Result<PathBuf, RecordError> {
        if path.is_dir() {
            return Ok(path.to_owned());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        one_of(path, &numbered(parent, path), &[parent])
    }

    /// As [`RunDirectory::find`], with `runs` for what is no path but a number or a name: `42` is the one run there, or in the present
    /// directory, that has this number.
    ///
    /// # Errors
    /// When there is none, or several have the number.
    pub fn find_in(runs: &Path, path: &Path) -> Result<PathBuf, RecordError> {
        let is_bare = path.parent().is_some_and(|parent| parent.as_os_str().is_empty());
        if path.is_dir() || !is_bare {
            return RunDirectory::find(path);
        }
        if number_of(path).is_some() && runs.join(path).is_dir() {
            return Ok(runs.join(path));
        }
        let here = Path::new(".");
        let mut found = numbered(runs, path);
        for here in numbered(here, path) {
            if !found.iter().any(|known| is_same(known, &here)) {
                found.push(here);
            }
        }
        if found.is_empty() && !runs.is_dir() {
            let found = "no such run, and no directory of runs";
            let found = format!("{found} {}; name one with --runs or THALWEG_RUNS", runs.display());
            return Err(RecordError::Missing { path: path.to_owned(), found });
        }
        one_of(path, &found, &[runs, here][..if runs == here { 1 } else { 2 }])
    }

    /// Whether a directory of this name is one of a run.
    pub fn is_name(name: &str) -> bool {
        number_of(Path::new(name)).is_some()
    }

    /// The runs in `parent`, by number. They are not locked.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn list(parent: &Path) -> Result<Vec<RunDirectory>, RecordError> {
        let failed = |cause| RecordError::io(parent, "listing runs", cause);
        let mut runs = Vec::new();
        for entry in fs::read_dir(parent).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let (Some(number), true) = (number_of(&path), path.is_dir()) {
                runs.push(RunDirectory { path, number, _lock: None });
            }
        }
        runs.sort_by(|one, other| (one.number, &one.path).cmp(&(other.number, &other.path)));
        Ok(runs)
    }

    /// Removes the directory of a run that has not begun, with everything in it; its number is given again. Its notes wait for the next
    /// run.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn discard(&self) -> Result<(), RecordError> {
        Note::give_back(self)?;
        let failed =
            |cause| RecordError::io(&self.path, "removing the directory of a run that has not begun", cause);
        fs::remove_dir_all(&self.path).map_err(failed)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The file of a table.
    pub fn table(&self, table: Table) -> PathBuf {
        self.path.join(table.file_name())
    }

    /// The file of one source's raw bytes, where each receiving thread writes its own.
    pub fn raw_of(&self, source_name: &str) -> PathBuf {
        self.path.join(format!("raw-{}.arrows", words_of(source_name)))
    }

    /// The file of what became of each range of triggers at a unit.
    pub fn ranges_of(&self, unit: &str) -> PathBuf {
        self.path.join(format!("ranges-{}.arrows", words_of(unit)))
    }

    /// All files of raw bytes, by name.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn raw_files(&self) -> Result<Vec<PathBuf>, RecordError> {
        self.files_of(Table::Raw)
    }

    /// All files of ranges of triggers, by name.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn range_files(&self) -> Result<Vec<PathBuf>, RecordError> {
        self.files_of(Table::Ranges)
    }

    fn files_of(&self, table: Table) -> Result<Vec<PathBuf>, RecordError> {
        let is_of_it = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            Table::of_file_name(&name) == Some(table)
        };
        Ok(self.files()?.into_iter().filter(is_of_it).collect())
    }

    /// The files of events of one builder; `unit` is its name where there are several.
    pub fn events_of(&self, unit: Option<&str>) -> EventFiles {
        EventFiles::in_directory(&self.path, unit)
    }

    /// All files of events, by name. Of a pair one may be missing.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn event_files(&self) -> Result<Vec<EventFiles>, RecordError> {
        let mut files: Vec<EventFiles> =
            self.files()?.iter().filter_map(|path| EventFiles::of(path)).collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Enters the files beside the tables that are there and not in the list, as of a run whose writer was killed.
    pub(crate) fn add_documents(&self, documents: &mut Vec<DocumentSummary>) {
        for name in [SPECTRA_FILE, CHANNELS_FILE] {
            let is_listed = documents.iter().any(|known| known.file == name);
            if let (false, Ok(content)) = (is_listed, fs::read(self.path.join(name))) {
                documents.push(DocumentSummary::of(name, &content));
            }
        }
    }

    /// The file of this name, when it is one of the run's.
    pub(crate) fn document(&self, name: &str) -> Option<PathBuf> {
        let is_it = |path: &PathBuf| path.file_name().is_some_and(|found| found == name);
        self.files().ok()?.into_iter().find(is_it)
    }

    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, RecordError> {
        let failed = |cause| RecordError::io(&self.path, "listing files", cause);
        let entries = fs::read_dir(&self.path).map_err(failed)?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut files = paths.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        files.sort();
        Ok(files)
    }

    /// The file of the ledger's counters.
    pub fn ledger(&self) -> PathBuf {
        self.path.join("ledger.bin")
    }

    /// The file that says what the run was.
    pub fn run_record(&self) -> PathBuf {
        self.path.join("run.json")
    }

    /// Checks that a file of a run is there: its record, its ledger or a table.
    ///
    /// # Errors
    /// When none of them is.
    pub fn check_has_run(&self) -> Result<(), RecordError> {
        let is_there = |path: PathBuf| path.symlink_metadata().is_ok();
        let mut files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut has_table =
            || files.any(|file| file.path().extension().is_some_and(|ending| ending == "arrows"));
        if is_there(self.run_record()) || is_there(self.ledger()) || has_table() {
            return Ok(());
        }
        let found = "no run is in this directory: it has no run.json, no ledger.bin and no table".to_owned();
        Err(RecordError::Missing { path: self.path.clone(), found })
    }

    /// The file of the operator's notes.
    pub fn notes(&self) -> PathBuf {
        self.path.join("notes.jsonl")
    }

    /// The file of its labels.
    pub fn labels(&self) -> PathBuf {
        self.path.join("labels.jsonl")
    }

    /// Bytes that the files of a run take together now, also of those that lie on another disk, where a link leads; a file that cannot
    /// be reached counts as 0. Space that is only reserved is left out: nothing is recorded in it.
    pub fn bytes_in(run: &Path) -> u64 {
        let is_reserved = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            name.as_encoded_bytes().starts_with(b".") && name.as_encoded_bytes().ends_with(RESERVE.as_bytes())
        };
        let entries = fs::read_dir(run).into_iter().flatten().flatten().filter(|entry| !is_reserved(entry));
        let files = entries.filter_map(|entry| fs::metadata(entry.path()).ok()).filter(fs::Metadata::is_file);
        files.map(|file| file.len()).sum()
    }

    /// The name of the directory.
    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The file of the run's spectra.
    pub fn spectra(&self) -> PathBuf {
        self.path.join(SPECTRA_FILE)
    }

    /// The copy of the table that `[channels] file` named, of a run that had one.
    pub fn channels(&self) -> PathBuf {
        self.path.join(CHANNELS_FILE)
    }

    /// Keeps a copy of the table of channels. What it returns belongs into [`RunRecord::documents`].
    ///
    /// [`RunRecord::documents`]: crate::RunRecord::documents
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn write_channels(&self, text: &[u8]) -> Result<DocumentSummary, RecordError> {
        self.replace(&self.channels(), text)?;
        Ok(DocumentSummary::of(CHANNELS_FILE, text))
    }

    /// Keeps a file of this name beside the tables, such as what an imported file says of its run. What it returns belongs into
    /// [`RunRecord::documents`].
    ///
    /// [`RunRecord::documents`]: crate::RunRecord::documents
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn write_document(&self, name: &str, content: &[u8]) -> Result<DocumentSummary, RecordError> {
        self.replace(&self.path.join(name), content)?;
        Ok(DocumentSummary::of(name, content))
    }

    /// Keeps the run's spectra, in place of older ones: whoever reads the file sees all of the old text or all of the new.
    /// `text` is JSON, histograms in the form of UHI. What it returns belongs into [`RunRecord::documents`], as the only one
    /// of this file.
    ///
    /// [`RunRecord::documents`]: crate::RunRecord::documents
    ///
    /// # Errors
    /// When the disk is full or fails; the older file stands then.
    pub fn write_spectra(&self, text: &[u8]) -> Result<DocumentSummary, RecordError> {
        self.replace(&self.spectra(), text)?;
        Ok(DocumentSummary::of(SPECTRA_FILE, text))
    }

    /// Reserves space on the disk for `run.json` as it will be when the run ends: a disk that is full then does not cost the run
    /// its record.
    ///
    /// # Errors
    /// When there is no space now.
    pub fn reserve_record(&self, bytes: usize) -> Result<(), RecordError> {
        let path = self.run_record();
        self.reserve(&path, bytes).map_err(|cause| RecordError::io(&path, "reserving space", cause))
    }

    /// The same for `spectra.json`, as far as an eighth of what is left on the disk goes.
    pub fn reserve_spectra(&self, bytes: usize) {
        let most = self.bytes_left().unwrap_or(0) / 8;
        // Spectra without space are reported at the end, and cost nothing else.
        let _ = self.reserve(&self.spectra(), bytes.min(usize::try_from(most).unwrap_or(usize::MAX)));
    }

    /// The same for the last rows of the table `losses` of so many sources.
    ///
    /// # Errors
    /// When there is no space now.
    pub(crate) fn reserve_losses(&self, sources: usize) -> Result<(), RecordError> {
        let bytes = LAST_LOSSES_BYTES + sources * LAST_LOSSES_BYTES_OF_SOURCE;
        self.reserve_rows(&self.table(Table::Losses), bytes)
    }

    /// Reserves space for the last rows of a table.
    ///
    /// # Errors
    /// When there is none now.
    pub(crate) fn reserve_rows(&self, table: &Path, bytes: usize) -> Result<(), RecordError> {
        self.reserve(table, bytes).map_err(|cause| RecordError::io(table, "reserving space", cause))
    }

    /// Gives back the space that was reserved for the last rows of a table: now they are written.
    pub(crate) fn release_rows(&self, table: &Path) {
        let _ = fs::remove_file(self.reserve_of(table));
    }

    fn reserve(&self, path: &Path, bytes: usize) -> std::io::Result<()> {
        let reserve = self.reserve_of(path);
        let file = File::options().write(true).create(true).truncate(true).open(&reserve)?;
        thalweg_data::memory::reserve(&file, bytes.max(1)).inspect_err(|_| {
            let _ = fs::remove_file(&reserve);
        })
    }

    /// Gives back what was reserved and is not needed.
    pub fn release_reserved(&self) {
        let ranges = self.range_files().unwrap_or_default();
        for path in [self.run_record(), self.spectra(), self.table(Table::Losses)].into_iter().chain(ranges) {
            let _ = fs::remove_file(self.reserve_of(&path));
        }
    }

    fn reserve_of(&self, path: &Path) -> PathBuf {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        self.path.join(format!(".{name}{RESERVE}"))
    }

    /// Puts a complete file in the place of an older one, by renaming it, and forces it to the disk. On a full disk it goes into
    /// the space that was reserved for it.
    pub(crate) fn replace(&self, path: &Path, content: &[u8]) -> Result<(), RecordError> {
        match self.replace_by_new(path, content) {
            Err(error) if error.is_full() => {
                self.replace_within(&self.reserve_of(path), path, content).map_err(|_| error)
            }
            replaced => replaced,
        }
    }

    fn replace_by_new(&self, path: &Path, content: &[u8]) -> Result<(), RecordError> {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let beside = self.path.join(format!(".{name}.new"));
        let written = || {
            let file = system::create(&beside)?;
            system::write_all_at(&file, content, 0)?;
            self.put(&file, &beside, path)
        };
        written().map_err(|cause| {
            let _ = fs::remove_file(&beside);
            match cause.kind() {
                std::io::ErrorKind::NotFound if !self.path.is_dir() => self.vanished(),
                _ => RecordError::io(path, "writing", cause),
            }
        })
    }

    fn vanished(&self) -> RecordError {
        let found = "the directory of the run has vanished while it was written: another program has moved or removed it, and the \
                     tables with it; leave runs where they are until they have ended";
        RecordError::Missing { path: self.path.clone(), found: found.to_owned() }
    }

    /// As [`RunDirectory::replace`], by a file that is there already, `reserve` on the same disk, and takes the content without
    /// needing more of it.
    pub(crate) fn replace_within(
        &self,
        reserve: &Path,
        path: &Path,
        content: &[u8],
    ) -> Result<(), RecordError> {
        let written = || {
            let file = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(reserve)?;
            if file.metadata()?.len() < content.len() as u64 {
                return Err(std::io::Error::from_raw_os_error(libc::ENOSPC));
            }
            system::write_all_at(&file, content, 0)?;
            file.set_len(content.len() as u64)?;
            self.put(&file, reserve, path)
        };
        written().map_err(|cause| RecordError::io(path, "writing", cause))
    }

    /// Gives a complete file its name, when all of it is on the disk.
    fn put(&self, file: &File, from: &Path, path: &Path) -> std::io::Result<()> {
        system::force_all(file)?;
        system::rename(from, path)?;
        system::force_all(&File::open(&self.path)?)
    }

    /// Bytes that can still be written to its disk.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn bytes_left(&self) -> Result<u64, RecordError> {
        system::bytes_left(&self.path)
            .map_err(|cause| RecordError::io(&self.path, "asking for disk space", cause))
    }

    /// Bytes that can still be written to the disk on which runs are to be; `runs` need not be there yet.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn bytes_left_for(runs: &Path) -> Result<u64, RecordError> {
        let there = runs.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        system::bytes_left(there).map_err(|cause| RecordError::io(there, "asking for disk space", cause))
    }
}

/// The runs in `parent` whose number is the last word of `path`.
fn numbered(parent: &Path, path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let number = name.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.parse().ok()).flatten();
    let Some(number): Option<u64> = number else { return Vec::new() };
    let runs = RunDirectory::list(parent).unwrap_or_default().into_iter();
    runs.filter(|run| run.number == number).map(|run| run.path).collect()
}

/// The one directory that was found for `path` in the directories `searched`, of which there is one, or why there is not one.
fn one_of(path: &Path, found: &[PathBuf], searched: &[&Path]) -> Result<PathBuf, RecordError> {
    let found = match found {
        [one] => return Ok(one.clone()),
        [one, other, ..] => format!(
            "several runs have this number ({} and {}); name one of them",
            one.display(),
            other.display()
        ),
        [] => {
            let name = |place: &&Path| match **place == *Path::new(".") {
                true => "the present directory".to_owned(),
                false => place.display().to_string(),
            };
            let places: Vec<String> = searched.iter().map(name).collect();
            let (places, runs) = (places.join(" or "), searched[0].display());
            format!(
                "no such run directory in {places}; `thalweg runs list --runs {runs}` lists those that are there"
            )
        }
    };
    Err(RecordError::Missing { path: path.to_owned(), found })
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let digits = name.split('-').next()?;
    (digits.len() >= NUMBER_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

/// Letters and digits of a title, lower case, words joined by `-`: a name that every file system and shell takes.
fn words_of(title: &str) -> String {
    let mut words = String::new();
    for character in title.chars().map(|character| character.to_ascii_lowercase()) {
        if words.len() >= TITLE_BYTES {
            break;
        }
        match character {
            'a'..='z' | '0'..='9' | '_' => words.push(character),
            _ if words.is_empty() || words.ends_with('-') => {}
            _ => words.push('-'),
        }
    }
    words.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_numbered_and_never_share_a_directory() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let parent = folder.path().join("runs");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let parent = parent.clone();
                std::thread::spawn(move || {
                    (0..5)
                        .map(|_| RunDirectory::create(&parent, "n/γ: 2 boards!").expect("made").number())
                        .collect()
                })
            })
            .collect();
        let mut numbers: Vec<u64> =
            threads.into_iter().flat_map(|thread| -> Vec<u64> { thread.join().expect("ends") }).collect();
        numbers.sort();
        assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
        let runs = RunDirectory::list(&parent).expect("readable");
        assert!(runs[19].path().ends_with("000020-n-2-boards"), "{runs:?}");
        assert!(runs[0].bytes_left().expect("known") > 0);
        assert_eq!(RunDirectory::create(&parent, "").expect("made").path(), parent.join("000021"));
    }

    #[test]
    fn a_new_run_is_not_written_into_a_directory_that_another_process_has_locked() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let holder = DirectoryLock::exclusive(folder.path()).expect("a directory").expect("free");
        let message = RunDirectory::lock_new(folder.path()).expect_err("held").to_string();
        assert!(message.contains("try again in a few seconds"), "{message}");
        drop(holder);
        assert!(RunDirectory::lock_new(folder.path()).expect("free").is_some());
    }

    #[test]
    fn a_number_is_looked_for_in_the_directory_of_runs() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let make = |name: &str| fs::create_dir_all(folder.path().join(name)).expect("made");
        ["000007-first", "000008", "000008-again", "notes"].into_iter().for_each(make);
        let find = |name: &str| RunDirectory::find_in(folder.path(), Path::new(name));
        let first = folder.path().join("000007-first");
        for name in ["7", "000007", "000007-first"] {
            assert_eq!(find(name).expect("there"), first, "{name}");
        }
        let refused = |name: &str| find(name).expect_err("refused").to_string();
        assert!(refused("8").contains("several runs have this number"), "{}", refused("8"));
        let (runs, nine) = (folder.path().display(), refused("9"));
        assert!(
            nine.contains(&format!("no such run directory in {runs} or the present directory; ")),
            "{nine}"
        );
        assert!(nine.contains(&format!("`thalweg runs list --runs {runs}`")), "{nine}");
        assert!(refused("notes").contains("no such run directory"), "only runs are named without a path");
        let nowhere = RunDirectory::find_in(Path::new("/no/runs"), Path::new("7")).expect_err("no runs");
        assert!(nowhere.to_string().contains("--runs or THALWEG_RUNS"), "{nowhere}");
        let path = first.to_str().expect("plain");
        assert_eq!(RunDirectory::find_in(Path::new("/no/runs"), Path::new(path)).expect("a path"), first);
    }

    #[test]
    fn a_run_that_cannot_be_made_is_refused_with_the_key_of_its_directory() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("file");
        fs::write(&file, "no directory").expect("written");
        for parent in [&*file, &file.join("runs"), Path::new("/proc/runs")] {
            let message = RunDirectory::create(parent, "").expect_err("no directory").to_string();
            assert!(
                message.starts_with(&format!("{}: making a run directory: ", parent.display())),
                "{message}"
            );
            assert!(message.contains("another directory: `[record] directory`"), "{message}");
        }
    }

    #[test]
    fn reserved_space_is_no_data_of_a_run() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let run = RunDirectory::create(&folder.path().join("runs"), "").expect("made");
        let before = RunDirectory::bytes_in(run.path());
        run.reserve_record(1_000_000).expect("there is space");
        run.reserve_spectra(100_000);
        run.reserve_losses(3).expect("there is space");
        assert_eq!(RunDirectory::bytes_in(run.path()), before);
        run.write_spectra(b"{}").expect("written");
        run.release_reserved();
        assert_eq!(RunDirectory::bytes_in(run.path()), before + 2);
    }

    #[test]
    fn a_missing_run_is_said_to_be_missing() {
        let message = RunDirectory::open(Path::new("/no/such/run")).expect_err("missing").to_string();
        assert!(message.contains("no such run directory"), "{message}");
    }
}
