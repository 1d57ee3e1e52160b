//! Bytes to a disk and back: write as the recorder does, read, and both at once.
//!
//! ```text
//!  Chunk ─ number blocks ─► pwrite ─┬► write-back begins (buffered, every 8 MiB, as of the recorder)
//!                                   ├► fdatasync as `sync` asks
//!                                   └► RateRecorder
//!  file ─► pread ─► numbers as written? ─► RateRecorder
//!  both at once: the reader begins again at the file's start until the writer has ended
//! ```
//! Buffers are made before, and nothing is allocated while bytes go.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_record::Sync;
use thalweg_record::ipc::file::WRITE_BACK_BYTES;

use super::error::{StorageError, bytes_text};
use super::pattern::Chunk;
use super::series::{Rate, RateRecorder};
use super::space::Space;

/// The interval between two samples of the free space.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Through the page cache, or past it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Through the page cache, as the recorder.
    Buffered,
    /// Past it: `O_DIRECT`.
    Direct,
}

impl Access {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Access::Buffered => "buffered",
            Access::Direct => "direct",
        }
    }

    fn flags(self) -> i32 {
        match self {
            Access::Buffered => 0,
            Access::Direct => libc::O_DIRECT,
        }
    }
}

/// The policy for writing bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WritePolicy {
    pub sync: Sync,
    /// With `sync = "batch"`: the number of bytes after which data are forced to the disk.
    pub batch_bytes: u64,
    /// The space that is to stay free, bytes.
    pub floor_bytes: u64,
}

/// What was written.
#[derive(Debug)]
pub(super) struct Written {
    pub rate: Rate,
    /// The number of times that data were forced to the disk before the end.
    pub forces: u64,
}

/// A file of a measurement, of whole chunks.
#[derive(Debug)]
pub(super) struct TestFile {
    file: File,
    path: PathBuf,
    access: Access,
    bytes: u64,
    /// Makes the numbers in its blocks other ones than those of other files.
    key: u64,
}

impl TestFile {
    /// Makes a file, which must not be there. `None` where the file system refuses direct I/O.
    pub(super) fn make(
        path: &Path,
        access: Access,
        bytes: u64,
        key: u64,
    ) -> Result<Option<TestFile>, StorageError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).custom_flags(access.flags());
        match options.open(path) {
            Ok(file) => Ok(Some(TestFile { file, path: path.to_owned(), access, bytes, key })),
            Err(cause) if access == Access::Direct && cause.raw_os_error() == Some(libc::EINVAL) => {
                // The name may be there although the file could not be opened (open(2)).
                let _ = std::fs::remove_file(path);
                Ok(None)
            }
            Err(cause) => Err(StorageError::io(path, "making a file", cause)),
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Writes it from its start to its end, and forces it to the disk.
    pub(super) fn write(
        &mut self,
        chunk: &mut Chunk,
        policy: &WritePolicy,
        halts: &[&AtomicBool],
    ) -> Result<Written, StorageError> {
        let mut recorder = RateRecorder::new();
        let began = Instant::now();
        let mut progress = Progress { forced_at: began, checked_at: began, ..Progress::new(began) };
        let mut offset = 0;
        while offset < self.bytes {
            expect_no_halt(halts)?;
            chunk.number(offset, self.key);
            let before = Instant::now();
            self.put(chunk, offset)?;
            offset += chunk.bytes().len() as u64;
            self.settle(&mut progress, offset, policy)?;
            let now = Instant::now();
            recorder.add(now - began, now - before, chunk.bytes().len() as u64);
            if now - progress.checked_at >= CHECK_EVERY {
                progress.checked_at = now;
                Space::expect_floor(&self.path, policy.floor_bytes)?;
            }
        }
        let before = Instant::now();
        self.force()?;
        Ok(Written { rate: recorder.finish(before.elapsed()), forces: progress.forces })
    }

    fn put(&mut self, chunk: &Chunk, offset: u64) -> Result<(), StorageError> {
        self.file.write_all_at(chunk.bytes(), offset).map_err(|cause| match cause.raw_os_error() {
            Some(libc::ENOSPC) => {
                StorageError::Full { path: self.path.clone(), written: bytes_text(offset as f64) }
            }
            _ => StorageError::io(&self.path, "writing", cause),
        })
    }

    /// Does what the recorder does after a write: begins write-back, or waits for it where the policy asks for it.
    fn settle(&self, progress: &mut Progress, offset: u64, policy: &WritePolicy) -> Result<(), StorageError> {
        let fresh = offset - progress.begun_to;
        if self.access == Access::Buffered && fresh >= WRITE_BACK_BYTES {
            thalweg_record::begin_write_back(&self.file, progress.begun_to, fresh);
            progress.begun_to = offset;
        }
        let is_due = match policy.sync {
            Sync::None => false,
            Sync::Batch => offset - progress.forced_to >= policy.batch_bytes,
            Sync::Seconds(seconds) => progress.forced_at.elapsed().as_secs_f64() >= seconds,
        };
        if is_due {
            self.force()?;
            progress.forces += 1;
            (progress.forced_to, progress.forced_at) = (offset, Instant::now());
        }
        Ok(())
    }

    fn force(&self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(|cause| match cause.raw_os_error() {
            // Space that was not given yet when the bytes were taken.
            Some(libc::ENOSPC) => {
                StorageError::Full { path: self.path.clone(), written: "all of it".to_owned() }
            }
            _ => StorageError::io(&self.path, "forcing to the disk", cause),
        })
    }

    /// Lets the kernel forget the file, so that it comes from the disk; returns how many of its bytes stay in memory, where that is known.
    pub(super) fn forget(&self) -> Option<u64> {
        let _hint = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        super::kernel::cached_bytes(&self.file)
    }

    /// Reads it from its start to its end.
    pub(super) fn read(&self, chunk: &mut Chunk, halts: &[&AtomicBool]) -> Result<Rate, StorageError> {
        let mut recorder = RateRecorder::new();
        let began = Instant::now();
        self.read_once(chunk, halts, began, &mut recorder)?;
        Ok(recorder.finish(Duration::ZERO))
    }

    /// Reads it again and again until `over`.
    fn read_until(
        &self,
        chunk: &mut Chunk,
        stop: &AtomicBool,
        over: &AtomicBool,
    ) -> Result<Rate, StorageError> {
        let mut recorder = RateRecorder::new();
        let began = Instant::now();
        loop {
            match self.read_once(chunk, &[stop, over], began, &mut recorder) {
                Ok(()) => drop(self.forget()),
                Err(StorageError::Stopped) if !stop.load(Ordering::Acquire) => {
                    return Ok(recorder.finish(Duration::ZERO));
                }
                Err(failed) => return Err(failed),
            }
        }
    }

    fn read_once(
        &self,
        chunk: &mut Chunk,
        halts: &[&AtomicBool],
        began: Instant,
        recorder: &mut RateRecorder,
    ) -> Result<(), StorageError> {
        let mut offset = 0;
        while offset < self.bytes {
            expect_no_halt(halts)?;
            let before = Instant::now();
            self.file
                .read_exact_at(chunk.bytes_mut(), offset)
                .map_err(|cause| StorageError::io(&self.path, "reading back", cause))?;
            let now = Instant::now();
            recorder.add(now - began, now - before, chunk.bytes().len() as u64);
            if let Some(offset) = chunk.altered(offset, self.key) {
                return Err(StorageError::Altered { path: self.path.clone(), offset });
            }
            offset += chunk.bytes().len() as u64;
        }
        Ok(())
    }
}

/// The progress of writing a file: how far it is written, begun and forced.
#[derive(Debug)]
struct Progress {
    begun_to: u64,
    forced_to: u64,
    forced_at: Instant,
    checked_at: Instant,
    forces: u64,
}

impl Progress {
    fn new(now: Instant) -> Progress {
        Progress { begun_to: 0, forced_to: 0, forced_at: now, checked_at: now, forces: 0 }
    }
}

fn expect_no_halt(halts: &[&AtomicBool]) -> Result<(), StorageError> {
    match halts.iter().any(|halt| halt.load(Ordering::Acquire)) {
        true => Err(StorageError::Stopped),
        false => Ok(()),
    }
}

/// Writes `fresh` while `older` is read back, until all of `fresh` is written.
pub(super) fn write_while_reading(
    fresh: &mut TestFile,
    older: &TestFile,
    (write_chunk, read_chunk): (&mut Chunk, &mut Chunk),
    policy: &WritePolicy,
    stop: &AtomicBool,
) -> Result<(Written, Rate), StorageError> {
    let (over, read_failed) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let read = older.read_until(read_chunk, stop, &over);
            read_failed.store(read.is_err(), Ordering::Release);
            read
        });
        let written = fresh.write(write_chunk, policy, &[stop, &read_failed]);
        over.store(true, Ordering::Release);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (written, read) {
            // The writer stops for the reader: the reader's reason is the reason.
            (Err(StorageError::Stopped), Err(why)) => Err(why),
            (written, read) => Ok((written?, read?)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::pattern::BLOCK_BYTES;
    use super::*;

    const CHUNK: usize = 8 * BLOCK_BYTES;
    const BYTES: u64 = 12 * CHUNK as u64;

    fn policy(sync: Sync) -> WritePolicy {
        WritePolicy { sync, batch_bytes: 2 * CHUNK as u64, floor_bytes: 0 }
    }

    fn made(folder: &tempfile::TempDir, name: &str, access: Access, key: u64) -> Option<TestFile> {
        TestFile::make(&folder.path().join(name), access, BYTES, key).expect("made")
    }

    #[test]
    fn every_byte_is_written_forced_as_asked_and_comes_back() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut chunk = Chunk::new(CHUNK, 1);
        for (name, access) in [("buffered", Access::Buffered), ("direct", Access::Direct)] {
            let Some(mut file) = made(&folder, name, access, 9) else { continue };
            let written = file.write(&mut chunk, &policy(Sync::Batch), &[]).expect("written");
            assert_eq!((written.rate.bytes, written.forces), (BYTES, 6), "{name}");
            let read = file.read(&mut chunk, &[]).expect("read");
            assert_eq!(read.bytes, BYTES);
            assert_eq!(file.file().metadata().expect("it is there").len(), BYTES);
        }
    }

    #[test]
    fn a_disk_that_gives_back_something_else_is_found() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut chunk = Chunk::new(CHUNK, 1);
        let mut file = made(&folder, "file", Access::Buffered, 9).expect("buffered");
        file.write(&mut chunk, &policy(Sync::None), &[]).expect("written");
        file.file().write_all_at(&[1, 2, 3], 3 * BLOCK_BYTES as u64).expect("altered");
        let failed = file.read(&mut chunk, &[]).expect_err("it is altered").to_string();
        assert!(failed.contains("at byte 12288 something else comes back"), "{failed}");
        let mut fresh = made(&folder, "fresh", Access::Buffered, 4).expect("buffered");
        let stop = AtomicBool::new(false);
        let mut other = Chunk::new(CHUNK, 1);
        let both =
            write_while_reading(&mut fresh, &file, (&mut chunk, &mut other), &policy(Sync::None), &stop);
        // The writer may have ended before the reader came so far.
        assert!(matches!(both, Ok(_) | Err(StorageError::Altered { .. })), "{both:?}");
    }

    #[test]
    fn a_stop_ends_writing_and_reading() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut chunk = Chunk::new(CHUNK, 1);
        let mut file = made(&folder, "file", Access::Buffered, 9).expect("buffered");
        let stop = AtomicBool::new(true);
        let stopped = file.write(&mut chunk, &policy(Sync::None), &[&stop]);
        assert!(matches!(stopped, Err(StorageError::Stopped)));
        assert!(matches!(file.read(&mut chunk, &[&stop]), Err(StorageError::Stopped)));
    }
}
