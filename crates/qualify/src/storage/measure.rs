//! The measurement: every directory is looked at before the first byte is written, then each is measured by itself.
//!
//! ```text
//!  look at all ─► for each: Scratch ─► buffered: write, read, mixed ─► direct: the same ─► fill ─► fio ─► removed
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_record::{LockedDirectory, Sync, locked_directories};

use super::error::{StorageError, bytes_text};
use super::fio;
use super::kernel::{self, Placement};
use super::pattern::{Chunk, PATTERN};
use super::report::{DirectoryReport, PUBLISHED, Pass, Position, StorageReport, Work};
use super::scratch::{FIO_FILE, Scratch};
use super::site::Site;
use super::space::{KeepFree, Space};
use super::transfer::{Access, TestFile, WritePolicy, Written, write_while_reading};
use super::verdict::StorageVerdict;
use super::{POSITIONS, SCRATCH_DIRECTORY, StorageSettings};
use crate::host::{HostFiles, kernel_memory};

/// Files that are there at a time, without `--fill`.
const FILES_AT_A_TIME: u64 = 2;
/// The largest part of a file that may still be in memory after the kernel was asked to forget it.
const FORGOTTEN: f64 = 0.05;
/// The space that a file system takes for itself in addition to the bytes of files, as a part of them.
const OWN_BLOCKS: f64 = 0.005;
/// The page cache is the limit where less than this part of the direct rate goes through it.
const SLOW_CACHE: f64 = 0.7;
/// The time for which the space of removed files is waited for: other programs may have taken it.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at it.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// So often forced on the way, what was written is on the disk but for its end.
const FORCED_OFTEN: u64 = 3;

/// Measures, and describes each step to `seen` as it begins.
///
/// # Errors
/// When a directory may not be measured, the disk fails or is full, or `stop` was set. No file stays behind.
pub fn measure(
    settings: &StorageSettings,
    stop: &AtomicBool,
    seen: &mut dyn FnMut(&str),
) -> Result<StorageReport, StorageError> {
    settings.check()?;
    let began = Instant::now();
    let files = HostFiles::of_host();
    let looked_at: Vec<(Site, Vec<String>)> =
        settings.directories.iter().map(|directory| look_at(&files, directory)).collect::<Result<_, _>>()?;
    let mut measurement = Measurement {
        settings,
        stop,
        seen,
        memory_bytes: kernel_memory::host_bytes("MemTotal"),
        is_virtual: is_virtual(&files),
        chunk: Chunk::new(settings.chunk_bytes, settings.seed),
        read_chunk: Chunk::new(settings.chunk_bytes, settings.seed),
        files: 0,
    };
    let mut directories = Vec::new();
    for (site, remarks) in looked_at {
        directories.push(measurement.directory(site, remarks)?);
    }
    note_shared_disks(&mut directories);
    Ok(StorageReport {
        file_bytes: settings.whole_file_bytes(),
        chunk_bytes: settings.chunk_bytes as u64,
        batch_bytes: settings.batch_bytes,
        sync: settings.sync,
        pattern: PATTERN,
        seed: settings.seed,
        memory_bytes: measurement.memory_bytes,
        is_virtual: measurement.is_virtual,
        needs_bytes_per_s: settings.needs_bytes_per_s,
        directories,
        published: PUBLISHED,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Returns where a directory lies, and what cannot be known about the users of its disk.
fn look_at(files: &HostFiles, directory: &Path) -> Result<(Site, Vec<String>), StorageError> {
    let site = Site::of(files, directory)
        .map_err(|found| StorageError::Directory { path: directory.to_owned(), found })?;
    let mut remarks = Vec::new();
    for locked in locked_directories() {
        if let Some(remark) = expect_free(files, &site, &locked)? {
            remarks.push(remark);
        }
    }
    Ok((site, remarks))
}

/// Refuses a disk on which a process has a recording or a measurement open.
fn expect_free(
    files: &HostFiles,
    site: &Site,
    locked: &LockedDirectory,
) -> Result<Option<String>, StorageError> {
    let LockedDirectory { process, name, directory, is_written } = locked;
    let is_ours = name.starts_with("thalweg");
    let holder = format!("`{name}` (pid {process})");
    let Some((directory, device)) = directory else {
        let remark = format!(
            "{holder} is of another user, and whether it records to this disk is unknown; run as root to know"
        );
        return Ok(is_ours.then_some(remark));
    };
    if !(is_ours || *is_written) || !site.shares_a_disk(files, *device) {
        return Ok(None);
    }
    let does = match is_written {
        _ if directory.file_name().is_some_and(|name| name == SCRATCH_DIRECTORY) => "measures in",
        true => "records to",
        false => "reads the recording",
    };
    Err(StorageError::Occupied {
        path: site.directory.clone(),
        holder,
        does,
        directory: directory.display().to_string(),
        disk: site.disk_text(),
    })
}

/// Directories on the same disk are partitions of it, or the same.
fn note_shared_disks(directories: &mut [DirectoryReport]) {
    for index in 1..directories.len() {
        let (before, rest) = directories.split_at_mut(index);
        let shared = before.iter().find(|other| !other.site.disks.is_disjoint(&rest[0].site.disks));
        if let Some(other) = shared {
            let remark = format!(
                "it lies on the same disk as {}: both together are not faster",
                other.site.directory.display()
            );
            rest[0].remarks.push(remark);
        }
    }
}

/// Remarks on a slow page cache: writing through it more slowly than past it is not limited by the disk.
fn slow_cache(passes: &[Pass]) -> Option<String> {
    let written = |access: Access| {
        let pass = passes.iter().find(|pass| pass.work == Work::Write && pass.access == access)?;
        Some(pass.write.as_ref()?.bytes_per_s)
    };
    let (buffered, direct) = (written(Access::Buffered)?, written(Access::Direct)?);
    (buffered < SLOW_CACHE * direct).then(|| {
        format!(
            "through the page cache {}/s are written, and past it {}/s: the page cache is the limit and not the disk; in a virtual machine the first use of memory is slow, so measure again",
            bytes_text(buffered),
            bytes_text(direct)
        )
    })
}

/// Processors of virtual machines say so on x86.
fn is_virtual(files: &HostFiles) -> Option<bool> {
    let text = files.text("/proc/cpuinfo").ok()?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The common part of all directories' measurements.
struct Measurement<'m> {
    settings: &'m StorageSettings,
    stop: &'m AtomicBool,
    seen: &'m mut dyn FnMut(&str),
    memory_bytes: Option<u64>,
    is_virtual: Option<bool>,
    chunk: Chunk,
    read_chunk: Chunk,
    /// Files made so far.
    files: u64,
}

/// The directory that is measured now.
struct Here<'h> {
    site: &'h Site,
    scratch: &'h Scratch,
    policy: WritePolicy,
}

impl Measurement<'_> {
    fn directory(&mut self, site: Site, mut remarks: Vec<String>) -> Result<DirectoryReport, StorageError> {
        // A left-over takes space that is ours: it goes first.
        let scratch = Scratch::make(&site.directory)?;
        if let Some(bytes) = scratch.removed_bytes {
            remarks.push(format!(
                "a measurement that was killed had left {}; it was removed",
                bytes_text(bytes as f64)
            ));
        }
        let space = Space::of(&site.directory, self.settings.keep_free)?;
        space.allow(&site.directory, FILES_AT_A_TIME * self.settings.whole_file_bytes())?;
        let StorageSettings { sync, batch_bytes, .. } = *self.settings;
        let policy = WritePolicy { sync, batch_bytes, floor_bytes: space.floor_bytes };
        let here = Here { site: &site, scratch: &scratch, policy };
        let mut passes = Vec::new();
        for access in &self.settings.accesses {
            passes.extend(self.passes(&here, *access)?);
        }
        let positions = match self.settings.is_filled {
            true => {
                self.wait_for_space(&here, space.free_bytes)?;
                self.fill(&here, &mut remarks)?
            }
            false => Vec::new(),
        };
        let fio = if self.settings.has_fio { self.fio(&here, &passes)? } else { Vec::new() };
        drop(scratch);
        self.note_what_holds_always(&site, &mut remarks);
        if sync != Sync::Batch {
            remarks.extend(slow_cache(&passes));
        }
        let mut report = DirectoryReport {
            site,
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            floor_bytes: space.floor_bytes,
            passes,
            positions,
            fio,
            verdict: None,
            remarks,
        };
        report.verdict = self.settings.needs_bytes_per_s.and_then(|needs| StorageVerdict::of(&report, needs));
        Ok(report)
    }

    fn note_what_holds_always(&self, site: &Site, remarks: &mut Vec<String>) {
        if site.is_in_memory() {
            remarks.push("it lies in memory: these figures are of no disk".to_owned());
        } else if self.is_virtual == Some(true) {
            remarks.push(
                "this is a virtual machine: its host may cache what is written, and others use the same device"
                    .to_owned(),
            );
        }
    }

    fn say(&mut self, here: &Here<'_>, what: &str) {
        (self.seen)(&format!("{}: {what}", here.site.directory.display()));
    }

    fn make(
        &mut self,
        here: &Here<'_>,
        name: &str,
        access: Access,
        bytes: u64,
    ) -> Result<Option<TestFile>, StorageError> {
        self.files += 1;
        // An odd factor: each file has another key.
        let key = self.settings.seed.wrapping_add(self.files).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        TestFile::make(&here.scratch.path(name), access, bytes, key)
    }

    /// Writes a file, reads it back, and writes another while the first is read again.
    fn passes(&mut self, here: &Here<'_>, access: Access) -> Result<Vec<Pass>, StorageError> {
        let bytes = self.settings.whole_file_bytes();
        let Some(mut first) = self.make(here, "write.bin", access, bytes)? else {
            let remark =
                "this file system refuses direct I/O (O_DIRECT: EINVAL); nothing was measured".to_owned();
            let work = Work::Write;
            return Ok(vec![Pass {
                work,
                access,
                write: None,
                read: None,
                is_beyond_page_cache: None,
                remark,
            }]);
        };
        let words = format!("{}, {}", bytes_text(bytes as f64), access.word());
        self.say(here, &format!("writes {words}"));
        let written = first.write(&mut self.chunk, &here.policy, &[self.stop])?;
        let mut passes = vec![self.written_pass(here, Work::Write, access, written)];
        self.say(here, &format!("reads {words}"));
        let cached = first.forget();
        let read = first.read(&mut self.read_chunk, &[self.stop])?;
        let (is_beyond_page_cache, remark) = self.read_remark(here, access, bytes, cached);
        let (write, work) = (None, Work::Read);
        passes.push(Pass { work, access, write, read: Some(read), is_beyond_page_cache, remark });
        if let Some(mut second) = self.make(here, "mixed.bin", access, bytes)? {
            self.say(here, &format!("writes {words}, and reads back at once"));
            first.forget();
            let chunks = (&mut self.chunk, &mut self.read_chunk);
            let (written, read) = write_while_reading(&mut second, &first, chunks, &here.policy, self.stop)?;
            let pass = self.written_pass(here, Work::Mixed, access, written);
            passes.push(Pass { read: Some(read), ..pass });
        }
        for name in ["write.bin", "mixed.bin"] {
            here.scratch.remove(name)?;
        }
        Ok(passes)
    }

    fn written_pass(&self, here: &Here<'_>, work: Work, access: Access, written: Written) -> Pass {
        let Written { rate, forces } = written;
        let is_forced = here.policy.sync == Sync::Batch || forces >= FORCED_OFTEN;
        let (is_beyond_page_cache, remark) = match access {
            _ if here.site.is_in_memory() => (Some(false), "it lies in memory".to_owned()),
            Access::Direct => (Some(true), String::new()),
            Access::Buffered if is_forced => (Some(true), String::new()),
            Access::Buffered => self.against_memory(rate.bytes, "written"),
        };
        Pass { work, access, write: Some(rate), read: None, is_beyond_page_cache, remark }
    }

    fn read_remark(
        &self,
        here: &Here<'_>,
        access: Access,
        bytes: u64,
        cached: Option<u64>,
    ) -> (Option<bool>, String) {
        match (access, cached) {
            _ if here.site.is_in_memory() => (Some(false), "it lies in memory".to_owned()),
            (Access::Direct, _) => (Some(true), String::new()),
            (Access::Buffered, Some(cached)) if (cached as f64) < FORGOTTEN * bytes as f64 => {
                (Some(true), String::new())
            }
            (Access::Buffered, Some(cached)) => {
                let remark = format!(
                    "not sustained: {} of it lay in the page cache when reading began",
                    bytes_text(cached as f64)
                );
                (Some(false), remark)
            }
            (Access::Buffered, None) => self.against_memory(bytes, "read"),
        }
    }

    /// More than fits into memory does not lie in the page cache.
    fn against_memory(&self, bytes: u64, what: &str) -> (Option<bool>, String) {
        let Some(memory_bytes) = self.memory_bytes else {
            return (
                None,
                "whether it lies in the page cache is unknown: /proc/meminfo has no MemTotal".to_owned(),
            );
        };
        if bytes > memory_bytes {
            return (Some(true), String::new());
        }
        let [bytes, memory] = [bytes, memory_bytes].map(|bytes| bytes_text(bytes as f64));
        (
            Some(false),
            format!("not sustained: {bytes} were {what}, and the page cache may take up to {memory}"),
        )
    }

    /// Waits for the space of files that were removed: some file systems (xfs) give it back a little later.
    fn wait_for_space(&self, here: &Here<'_>, free_bytes: u64) -> Result<(), StorageError> {
        let until = Instant::now() + GIVEN_BACK_WITHIN;
        let enough = (free_bytes as f64 * (1.0 - OWN_BLOCKS)) as u64;
        let free = || Space::of(&here.site.directory, KeepFree::Bytes(0)).map(|space| space.free_bytes);
        while free()? < enough && Instant::now() < until && !self.stop.load(Ordering::Acquire) {
            std::thread::sleep(CHECK_EVERY);
        }
        Ok(())
    }

    /// Fills what is free down to the floor, then reads it all.
    fn fill(&mut self, here: &Here<'_>, remarks: &mut Vec<String>) -> Result<Vec<Position>, StorageError> {
        let usable =
            Space::of(&here.site.directory, KeepFree::Bytes(here.policy.floor_bytes))?.usable_bytes();
        let chunk = self.settings.chunk_bytes as u64;
        // The file system's own blocks come from what is free, too.
        let filled = (usable as f64 * (1.0 - OWN_BLOCKS)) as u64;
        let bytes = filled / u64::from(POSITIONS) / chunk * chunk;
        let mut positions = Vec::new();
        let mut files = Vec::new();
        for number in 0..POSITIONS {
            let name = format!("position-{number}.bin");
            let Some(mut file) = self.make_for_fill(here, &name, bytes)? else { break };
            self.say(
                here,
                &format!("fills: file {} of {POSITIONS}, {}", number + 1, bytes_text(bytes as f64)),
            );
            match file.write(&mut self.chunk, &here.policy, &[self.stop]) {
                Ok(written) => files.push((number, file, written.rate)),
                // The space that the file system keeps for itself comes from the free space, too: the disk is as full as it gets.
                Err(
                    StorageError::Full { written, .. } | StorageError::FloorReached { free: written, .. },
                ) if number > 0 => {
                    remarks
                        .push(format!("the file {name} found no space ({written}); {number} files fill it"));
                    here.scratch.remove(&name)?;
                    break;
                }
                Err(failed) => return Err(failed),
            }
        }
        for (number, file, write) in files {
            self.say(here, &format!("reads: file {} of {POSITIONS}", number + 1));
            file.forget();
            let read = file.read(&mut self.read_chunk, &[self.stop])?;
            let (placement, remark): (Option<Placement>, _) = match kernel::placement(file.file()) {
                Ok(found) => (Some(found), String::new()),
                Err(why) => (None, why),
            };
            positions.push(Position { file: number, placement, remark, write, read });
        }
        for number in 0..POSITIONS {
            here.scratch.remove(&format!("position-{number}.bin"))?;
        }
        Ok(positions)
    }

    /// A file past the page cache where that is wanted and possible: a position is one of the disk.
    fn make_for_fill(
        &mut self,
        here: &Here<'_>,
        name: &str,
        bytes: u64,
    ) -> Result<Option<TestFile>, StorageError> {
        if bytes == 0 {
            return Ok(None);
        }
        if self.settings.accesses.contains(&Access::Direct)
            && let Some(file) = self.make(here, name, Access::Direct, bytes)?
        {
            return Ok(Some(file));
        }
        self.make(here, name, Access::Buffered, bytes)
    }

    fn fio(&mut self, here: &Here<'_>, passes: &[Pass]) -> Result<Vec<fio::FioRate>, StorageError> {
        let amount = (self.settings.whole_file_bytes(), self.settings.chunk_bytes as u64);
        // Seconds are nothing that `fio` counts in.
        let forced_behind = (self.settings.sync == Sync::Batch).then_some(self.settings.batch_bytes);
        let mut rates = Vec::new();
        for access in &self.settings.accesses {
            let is_refused = passes
                .iter()
                .any(|pass| pass.access == *access && pass.write.is_none() && pass.read.is_none());
            if is_refused {
                continue;
            }
            self.say(here, &format!("fio, {}", access.word()));
            let file = here.scratch.path(FIO_FILE);
            rates.extend(fio::measure(&file, amount, (*access, forced_behind), self.stop)?);
            here.scratch.remove(FIO_FILE)?;
        }
        Ok(rates)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn site(name: &str, device_number: u64) -> Site {
        Site {
            directory: PathBuf::from(name),
            file_system: Some("ext4".to_owned()),
            mount_point: None,
            mount_options: None,
            device: None,
            disks: std::collections::BTreeSet::new(),
            model: None,
            is_rotating: None,
            device_bytes: None,
            partition_start_bytes: None,
            device_number,
        }
    }

    #[test]
    fn a_disk_with_an_open_recording_is_refused_with_who_has_it_open() {
        let files = HostFiles::of_host();
        let here = site("/data", 77);
        let locked = |name: &str, device, is_written| LockedDirectory {
            process: 4211,
            name: name.to_owned(),
            directory: Some((PathBuf::from("/data/runs/000007"), device)),
            is_written,
        };
        let of = |locked: LockedDirectory| expect_free(&files, &here, &locked);
        let refused = of(locked("thalweg", 77, true)).expect_err("it records").to_string();
        for words in ["/data", "`thalweg` (pid 4211) records to /data/runs/000007", "(ext4)"] {
            assert!(refused.contains(words), "{words}: {refused}");
        }
        let refused = of(locked("thalweg", 77, false)).expect_err("it reads").to_string();
        assert!(refused.contains("reads the recording"), "{refused}");
        assert!(of(locked("writer", 77, true)).is_err(), "whoever writes there");
        assert_eq!(of(locked("reader", 77, false)).expect("not ours"), None);
        assert_eq!(of(locked("thalweg", 78, true)).expect("another disk"), None);
        let unknown = LockedDirectory { directory: None, ..locked("thalweg", 77, false) };
        assert!(of(unknown).expect("not known").is_some_and(|remark| remark.contains("unknown")));
    }

    #[test]
    fn directories_on_one_disk_are_said_to_be() {
        let report = |name: &str| DirectoryReport {
            site: Site { disks: ["sda".to_owned()].into(), ..site(name, 1) },
            total_bytes: 1,
            free_bytes: 1,
            floor_bytes: 1,
            passes: Vec::new(),
            positions: Vec::new(),
            fio: Vec::new(),
            verdict: None,
            remarks: Vec::new(),
        };
        let mut both = [report("/one"), report("/two")];
        note_shared_disks(&mut both);
        assert!(both[0].remarks.is_empty() && both[1].remarks[0].contains("same disk as /one"), "{both:?}");
    }
}
