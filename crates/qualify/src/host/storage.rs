//! The disk of the recording: what it is, how much is free, and how long that lasts.
//!
//! ```text
//!  directory ─► statvfs, /proc/self/mounts ─► Check …
//! ```
//! The write rate is not read but measured, and not here.

use std::path::{Path, PathBuf};

use super::check::{Check, Severity};
use super::needs::Needs;
use super::reading::HostFiles;

/// The time for which a recording should find space, s.
const LEAST_S: f64 = 3600.0;

/// All checks of the recording's disk.
pub(super) fn checks(files: &HostFiles, needs: &Needs) -> Vec<Check> {
    match &needs.directory {
        Some(directory) => vec![room(directory, needs), file_system(files, directory)],
        None => Vec::new(),
    }
}

/// The directory, or the nearest one above it that is there.
fn existing(directory: &Path) -> PathBuf {
    let whole = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    whole.ancestors().find(|path| path.exists()).map_or(whole.clone(), Path::to_owned)
}

fn room(directory: &Path, needs: &Needs) -> Check {
    let why = "a full disk pauses or ends the run";
    let check = Check::of(format!("disk ({})", directory.display()), Severity::Warning, why)
        .wanting("space for an hour: free some, record fewer tables, set `[record.retention]`, or let the run end by time");
    match rustix::fs::statvfs(existing(directory)) {
        Ok(found) => lasts(check, found.f_bavail * found.f_frsize, needs.disk_left_s),
        Err(why) => check.unknown(why),
    }
}

fn lasts(check: Check, free_bytes: u64, left_s: Option<f64>) -> Check {
    let free = format!("{:.1} GB free", free_bytes as f64 * 1e-9);
    match left_s {
        Some(left_s) => check.found(format!("{free}, for {:.0} minutes", left_s / 60.0), left_s >= LEAST_S),
        None => check.noted(format!("{free}; how long that lasts is known while a run is taken")),
    }
}

fn file_system(files: &HostFiles, directory: &Path) -> Check {
    let why =
        "file systems in memory forget the recording, and those of other hosts are as fast as the way there";
    let check = Check::of(format!("file system ({})", directory.display()), Severity::Warning, why)
        .wanting("xfs or ext4 on a disk of this host");
    let mounts = match files.text("/proc/self/mounts") {
        Ok(mounts) => mounts,
        Err(why) => return check.unknown(why),
    };
    let here = existing(directory);
    match mounted(&mounts, &here.canonicalize().unwrap_or(here)) {
        Some((place, kind)) => {
            let is_bad = matches!(kind, "tmpfs" | "ramfs" | "nfs" | "nfs4" | "cifs" | "overlay");
            check.found(format!("{kind} at {place}"), !is_bad)
        }
        None => check.unknown("no mounted file system holds it"),
    }
}

/// The last one mounted over the longest path that holds `directory`: place and kind.
fn mounted<'m>(mounts: &'m str, directory: &Path) -> Option<(&'m str, &'m str)> {
    let fields = |line: &'m str| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    };
    let holds = |(place, _): &(&str, &str)| directory.starts_with(place);
    mounts.lines().filter_map(fields).filter(holds).max_by_key(|(place, _)| place.len())
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckVerdict;
    use super::*;

    #[test]
    fn a_disk_is_held_against_what_is_recorded() {
        let check = || Check::of("disk", Severity::Error, "");
        let short = lasts(check(), 2_500_000_000, Some(625.0));
        assert!(
            short.verdict == CheckVerdict::Bad && short.value == "2.5 GB free, for 10 minutes",
            "{short:?}"
        );
        assert_eq!(lasts(check(), 2_500_000_000, None).verdict, CheckVerdict::Unknown);
    }

    #[test]
    fn the_file_system_is_that_of_the_longest_path() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /data tmpfs rw 0 0\n/dev/b /data/disk xfs rw 0 0";
        let of = |path: &str| mounted(mounts, Path::new(path));
        assert_eq!(of("/data/disk/runs"), Some(("/data/disk", "xfs")));
        assert_eq!(of("/data/diskette"), Some(("/data", "tmpfs")));
        assert_eq!(of("/home"), Some(("/", "ext4")));
    }
}
