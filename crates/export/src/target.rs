//! Where an export goes: a hidden name until it is whole, and never over something that exists.
//!
//! ```text
//!  .NAME.part ─► written, forced to the disk ─► NAME      anything else: .NAME.part is removed
//! ```

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::error::ExportError;

/// Bytes that are collected before they go to the system.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file of an export. Who writes it flushes it.
pub(crate) type Output = BufWriter<PartFile>;

/// A file, or a directory of files, that is being written.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    part: PathBuf,
    is_directory: bool,
    failure: Arc<AtomicI32>,
    is_done: bool,
}

/// A file that remembers why the system refused a write: the writers of some formats pass only words on.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: File,
    failure: Arc<AtomicI32>,
}

impl Target {
    /// A target at `path`, where nothing may be yet.
    ///
    /// # Errors
    /// When something is there, or another export writes there, or the system refuses.
    pub fn new(path: &Path, is_directory: bool) -> Result<Target, ExportError> {
        let name = path.file_name().ok_or_else(|| {
            ExportError::Refused(format!("{}: no name of a file or directory; write one", path.display()))
        })?;
        refuse_existing(path)?;
        let part = path.with_file_name(format!(".{}.part", name.to_string_lossy()));
        let made = match is_directory {
            true => fs::create_dir(&part),
            false => File::create_new(&part).map(drop),
        };
        made.map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => ExportError::Refused(format!(
                "{}: another export to this name is going on, or was killed; remove it if none is",
                part.display()
            )),
            _ => ExportError::io(&part, "making it", cause),
        })?;
        let path = path.to_owned();
        Ok(Target { path, part, is_directory, failure: Arc::default(), is_done: false })
    }

    /// The name under which it appears.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The hidden name under which another program writes a target that is a file.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// A file of this target; a directory has one of each `name`, a file has no names.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn output(&self, name: &str) -> Result<Output, ExportError> {
        let path = if self.is_directory { self.part.join(name) } else { self.part.clone() };
        let file = File::create(&path).map_err(|cause| ExportError::io(&path, "making it", cause))?;
        Ok(BufWriter::with_capacity(BUFFER_BYTES, PartFile { file, failure: self.failure.clone() }))
    }

    /// The error of the system behind an error of a writer, where there is one.
    pub fn explained(&self, error: ExportError) -> ExportError {
        match (self.failure.load(Ordering::Relaxed), error) {
            (0, error) => error,
            (code, _) => ExportError::io(&self.path, "writing", io::Error::from_raw_os_error(code)),
        }
    }

    /// Forces everything to the disk and gives it its name; returns its bytes.
    ///
    /// # Errors
    /// When the system refuses, or something has come to be at its name meanwhile.
    pub fn commit(mut self) -> Result<u64, ExportError> {
        let failed = |cause| ExportError::io(&self.path, "forcing it to the disk", cause);
        let files = match self.is_directory {
            true => {
                let entries = fs::read_dir(&self.part).map_err(failed)?;
                entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
            }
            false => Ok(vec![self.part.clone()]),
        };
        let mut bytes = 0;
        for path in files.map_err(failed)? {
            let file = File::open(&path).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            bytes += file.metadata().map_err(failed)?.len();
        }
        self.rename()?;
        self.is_done = true;
        Ok(bytes)
    }

    fn rename(&self) -> Result<(), ExportError> {
        let failed = |cause| ExportError::io(&self.path, "naming it", cause);
        // A second name is refused where the first one exists, which renaming is not.
        if !self.is_directory && fs::hard_link(&self.part, &self.path).is_ok() {
            return fs::remove_file(&self.part).map_err(failed);
        }
        refuse_existing(&self.path)?;
        fs::rename(&self.part, &self.path).map_err(failed)
    }
}

fn refuse_existing(path: &Path) -> Result<(), ExportError> {
    match fs::symlink_metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(ExportError::io(path, "looking for it", cause)),
        Ok(_) => Err(ExportError::Refused(format!(
            "{}: exists already, and an export overwrites nothing; choose another name with --out, or remove it",
            path.display()
        ))),
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_done {
            // What cannot be removed keeps its hidden name, which the next export reports.
            let _ =
                if self.is_directory { fs::remove_dir_all(&self.part) } else { fs::remove_file(&self.part) };
        }
    }
}

impl Write for PartFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|cause| {
            if let Some(code) = cause.raw_os_error()
                && cause.kind() != io::ErrorKind::Interrupted
            {
                self.failure.store(code, Ordering::Relaxed);
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("a.csv");
        let written = |target: &Target| {
            let mut output = target.output("a.csv").expect("opened");
            output.write_all(b"12345").expect("written");
            output.flush().expect("written");
        };
        let target = Target::new(&path, false).expect("nothing is there");
        written(&target);
        assert!(Target::new(&path, false).is_err(), "another export is going on");
        drop(target);
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0);
        let target = Target::new(&path, false).expect("nothing is there");
        written(&target);
        assert_eq!(target.commit().expect("whole"), 5);
        assert_eq!(fs::read(&path).expect("there"), b"12345");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
        let refused = Target::new(&path, false).expect_err("exists").to_string();
        assert!(refused.contains("exists already"), "{refused}");
    }

    #[test]
    fn a_target_that_came_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for is_directory in [false, true] {
            let path = folder.path().join(format!("out-{is_directory}"));
            let target = Target::new(&path, is_directory).expect("nothing is there");
            fs::write(&path, "somebody else's").expect("written");
            assert!(target.commit().is_err());
            assert_eq!(fs::read(&path).expect("there"), b"somebody else's");
        }
    }

    #[test]
    fn a_full_disk_is_named_whatever_the_writer_says() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let target = Target::new(&folder.path().join("a"), false).expect("nothing is there");
        let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
        let mut part = PartFile { file: full, failure: target.failure.clone() };
        part.write(b"1").expect_err("full");
        let explained = target.explained(ExportError::writer("something failed"));
        assert!(matches!(explained, ExportError::Full { .. }), "{explained}");
    }
}
