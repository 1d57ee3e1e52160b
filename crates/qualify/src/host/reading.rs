//! Reads the kernel's files, below a root that tests make themselves.
//!
//! ```text
//!  /proc, /sys ─► text, number, numbers ─► or Unread: there is no such file, or it says something else
//! ```

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The host's files.
#[derive(Clone, Debug)]
pub struct HostFiles {
    root: PathBuf,
}

/// Why a value is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// There is no such file.
    #[error("{0} is not there; in a container or virtual machine the host has it")]
    Missing(String),
    /// It cannot be read.
    #[error("{0} cannot be read: {1}")]
    Refused(String, String),
    /// It has something else in it.
    #[error("{0} says \"{1}\"")]
    Odd(String, String),
}

impl HostFiles {
    /// Those of this host.
    pub fn of_host() -> HostFiles {
        HostFiles::below(Path::new("/"))
    }

    /// Those below another root.
    pub fn below(root: &Path) -> HostFiles {
        HostFiles { root: root.to_owned() }
    }

    /// Returns the location of `path` (`/proc/…`).
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A whole file, without white space at its ends.
    pub(crate) fn text(&self, path: &str) -> Result<String, Unread> {
        std::fs::read_to_string(self.at(path)).map(|text| text.trim().to_owned()).map_err(|cause| match cause
            .kind()
        {
            std::io::ErrorKind::NotFound => Unread::Missing(path.to_owned()),
            _ => Unread::Refused(path.to_owned(), cause.to_string()),
        })
    }

    /// A file with one number.
    pub(crate) fn number<N: FromStr>(&self, path: &str) -> Result<N, Unread> {
        let text = self.text(path)?;
        text.parse().map_err(|_| Unread::Odd(path.to_owned(), text))
    }

    /// A file with several numbers in a line.
    pub(super) fn numbers(&self, path: &str) -> Result<Vec<u64>, Unread> {
        let text = self.text(path)?;
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        numbers.map_err(|_| Unread::Odd(path.to_owned(), text))
    }

    /// The names in a folder, sorted; none where there is no such folder.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A number of bytes as people write it: `64 MiB`.
pub(super) fn bytes(count: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if count >= 1 << shift {
            let value = count as f64 / (1u64 << shift) as f64;
            return if value.fract() == 0.0 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
    }
    format!("{count} B")
}
