//! Files of recorded runs, found by comparing names with a listing.
//!
//! ```text
//!  "run-000017", "hits.arrows" ─► entries of the directory ─► the one of that name ─► open, if it is a plain file
//! ```
//! A name from a URL is never made into a path: what is opened is a name that the directory itself has listed. Links are not followed.

use std::ffi::OsStr;
use std::fs::{DirEntry, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Whether there is a run of this name.
pub(crate) fn has_run(runs: &Path, name: &str) -> bool {
    entry(runs, name).is_some_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// A file of a run, and its length in bytes now; `None` when there is none of these names.
pub(crate) fn open(runs: &Path, run: &str, file: &str) -> Option<(File, u64)> {
    let run = entry(runs, run).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))?;
    let found = entry(&run.path(), file)?;
    // Neither a link nor a pipe: opening a pipe would wait for its other end.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(found.path()).ok()?;
    let facts = file.metadata().ok()?;
    facts.is_file().then_some((file, facts.len()))
}

fn entry(directory: &Path, name: &str) -> Option<DirEntry> {
    std::fs::read_dir(directory)
        .ok()?
        .filter_map(Result::ok)
        .find(|entry| entry.file_name() == OsStr::new(name))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(root.path().join("runs/run-1/inner")).expect("made");
        std::fs::write(root.path().join("secret"), "secret").expect("written");
        std::fs::write(root.path().join("runs/run-1/hits.arrows"), "hits").expect("written");
        std::os::unix::fs::symlink("../../secret", root.path().join("runs/run-1/link")).expect("linked");
        std::os::unix::fs::symlink("..", root.path().join("runs/up")).expect("linked");
        root
    }

    #[test]
    fn plain_files_of_runs_are_found() {
        let root = tree();
        let runs = root.path().join("runs");
        let (mut file, length) = open(&runs, "run-1", "hits.arrows").expect("there");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("readable");
        assert_eq!((text.as_str(), length), ("hits", 4));
        assert!(has_run(&runs, "run-1") && !has_run(&runs, "run-2") && !has_run(&runs, "up"));
    }

    #[test]
    fn nothing_else_is() {
        let root = tree();
        let runs = root.path().join("runs");
        let tries = [
            ("..", "secret"),
            (".", "run-1"),
            ("run-1", "../../secret"),
            ("run-1", "link"),
            ("up", "secret"),
            ("run-1", "inner"),
            ("", ""),
            ("run-1", ""),
            ("run-1/..", "run-1"),
            ("/", "etc/passwd"),
            ("run-1", "hits.arrows\0"),
            ("run-1", "."),
        ];
        for (run, file) in tries {
            assert!(open(&runs, run, file).is_none(), "{run} {file}");
        }
        assert!(open(Path::new("/nonexistent"), "run-1", "hits.arrows").is_none());
    }

    proptest! {
        #[test]
        fn no_name_leads_out(run in "[./a-z0-9\\-]{0,12}", file in "[./a-z0-9\\-]{0,12}") {
            let root = tree();
            prop_assert!(open(&root.path().join("runs"), &run, &file).is_none_or(|(_, length)| length == 4));
        }
    }
}
