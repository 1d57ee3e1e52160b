//! Which directories of this host are locked now, and by whom: recordings that are open.
//!
//! ```text
//!  /proc/locks ─► process, inode ─► /proc/PID/fd ─► directory, file system, is it written
//!                                        └ of another user: cannot be read, and is said to be unknown
//! ```

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::directory_lock::lock_in;

/// A directory that a process has locked, as every writer and reader of a recording does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedDirectory {
    /// The process.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// The directory and the device number of its file system, as `stat` has it. `None` where only root may see what the
    /// process has open: what is locked may be a file then.
    pub directory: Option<(PathBuf, u64)>,
    /// Whether the process has a file in the directory open for writing.
    pub is_written: bool,
}

/// The directories that other processes have locked. Empty where the system does not list locks.
pub fn locked_directories() -> Vec<LockedDirectory> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let own = std::process::id();
    let mut held: Vec<(u32, u64)> = locks.lines().filter_map(lock_in).collect();
    held.sort_unstable();
    held.dedup();
    held.into_iter()
        .filter(|(process, _)| *process != own)
        .filter_map(|(process, inode)| described(process, inode))
        .collect()
}

/// What a process has locked; `None` when that is a file, or the process has ended.
fn described(process: u32, inode: u64) -> Option<LockedDirectory> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let name = fs::read_to_string(folder.join("comm")).ok()?.trim().to_owned();
    let Ok(open) = fs::read_dir(folder.join("fd")) else {
        return Some(LockedDirectory { process, name, directory: None, is_written: false });
    };
    let open: Vec<PathBuf> = open.flatten().map(|entry| entry.path()).collect();
    let (directory, device) = open.iter().find_map(|descriptor| {
        let found = fs::metadata(descriptor).ok().filter(|found| found.is_dir() && found.ino() == inode)?;
        Some((fs::read_link(descriptor).ok()?, found.dev()))
    })?;
    let is_written = open.iter().any(|descriptor| is_written_in(&folder, descriptor, &directory));
    Some(LockedDirectory { process, name, directory: Some((directory, device)), is_written })
}

/// Whether a descriptor of a process is a file below `directory` that is open for writing.
fn is_written_in(process: &Path, descriptor: &Path, directory: &Path) -> bool {
    let is_below =
        fs::read_link(descriptor).is_ok_and(|file| file != directory && file.starts_with(directory));
    let facts = || fs::read_to_string(process.join("fdinfo").join(descriptor.file_name()?)).ok();
    // The line `flags:` is octal; its lowest two bits are 0 for reading alone (proc(5), open(2)).
    let flags = |facts: String| {
        let line = facts.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    };
    is_below && facts().and_then(flags).is_some_and(|flags| flags & 3 != 0)
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_directory_that_another_process_has_locked_and_writes_in_is_listed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let script = "exec 8<. && flock -s 8 && exec 9>data && echo locked && exec cat";
        let started = Command::new("sh")
            .args(["-c", script])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut other = started.expect("there is a shell");
        let mut said = String::new();
        let read = std::io::BufReader::new(other.stdout.take().expect("piped")).read_line(&mut said);
        if !read.is_ok_and(|_| said.starts_with("locked")) {
            let _ = other.wait();
            return thalweg_prerequisite::skip("no `flock` (apt-get install util-linux)");
        }
        // `flock` has ended, and the lock is the shell's: the list names the process that asked for it.
        let device = fs::metadata(folder.path()).expect("it is there").dev();
        let found = described(other.id(), fs::metadata(folder.path()).expect("it is there").ino());
        drop(other.stdin.take());
        let _ = other.wait();
        let found = found.expect("it is locked");
        let (directory, found_device) = found.directory.expect("it is ours to see");
        assert_eq!((directory.file_name(), found_device), (folder.path().file_name(), device));
        assert!(found.is_written, "it has a file open for writing");
    }
}
