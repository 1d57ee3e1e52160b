//! Bytes as they stand in files: raw blobs, vendors' lists.
//!
//! ```text
//!  first file ─► continuation ─► continuation ─► one stream of bytes in blocks ─► Frames
//! ```
//! Files are read straight into blocks, as fast as the reader takes them; the mark is the time of reading.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::{Counters, Frames, Pool, Received, Source, SourceError, Unit};

use crate::clock::RunClock;

/// Waits for a block that is free, at most `wait`.
pub(crate) fn find_room(buffer: &mut StreamBuffer, wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    loop {
        match buffer.room() {
            Room::Tail(_) => return true,
            // A unit longer than a block never becomes whole. What is left over is given up; the framing sees that the next
            // slice does not begin with it, and counts it.
            Room::UnitTooLarge => buffer.carry(0),
            Room::NoBlock if Instant::now() >= deadline => return false,
            Room::NoBlock => std::thread::sleep(Duration::from_micros(50).min(wait)),
        }
    }
}

/// The bytes of files, one behind the other.
pub struct FileSource {
    files: Vec<(PathBuf, File, u64)>,
    current: usize,
    buffer: StreamBuffer,
    clock: RunClock,
    counters: Counters,
    description: String,
}

impl FileSource {
    /// Opens all files, so that a missing one is found before the run.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open(paths: &[PathBuf], pool: Pool, clock: RunClock) -> Result<FileSource, SourceError> {
        let files = paths.iter().map(|path| open_file(path)).collect::<Result<Vec<_>, _>>()?;
        let bytes: u64 = files.iter().map(|(_, _, length)| length).sum();
        let name = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
        let description = match files.len() {
            1 => format!("file://{name}: {bytes} bytes"),
            several => format!("file://{name} and {} more: {bytes} bytes", several - 1),
        };
        let smallest_tail = pool.block_size() / 8;
        let buffer = StreamBuffer::new(pool, smallest_tail);
        Ok(FileSource { files, current: 0, buffer, clock, counters: Counters::default(), description })
    }
}

pub(crate) fn open_file(path: &Path) -> Result<(PathBuf, File, u64), SourceError> {
    let failed = |cause: std::io::Error| SourceError {
        place: path.display().to_string(),
        message: format!("cannot be read: {cause}; relative paths are taken from the configuration's folder"),
    };
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok((path.to_owned(), file, about.len()))
}

impl Source for FileSource {
    fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError> {
        let received = self.read(frames, wait);
        frames.header.mark = self.clock.mark();
        received
    }

    fn carry(&mut self, bytes: usize) {
        self.buffer.carry(bytes);
    }

    fn give_carried(&mut self, frames: &mut Frames) {
        self.buffer.give_carried(frames);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        vec![("receive_moved_bytes", self.buffer.moved_bytes())]
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn is_stream(&self) -> bool {
        true
    }
}

impl FileSource {
    fn read(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError> {
        while let Some((path, file, _)) = self.files.get_mut(self.current) {
            if !find_room(&mut self.buffer, wait) {
                return Ok(Received::Full);
            }
            let Room::Tail(tail) = self.buffer.room() else { return Ok(Received::Full) };
            match file.read(tail) {
                Ok(0) => self.current += 1,
                Ok(length) => {
                    self.buffer.publish(length, frames);
                    for unit in [(Unit::Bytes, length as u64), (Unit::Datagrams, 1)] {
                        self.counters.input(unit.0, unit.1);
                        self.counters.output(unit.0, unit.1);
                    }
                    return Ok(Received::Data);
                }
                Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    let message = format!("reading failed: {cause}; what came before is kept");
                    return Err(SourceError { place: path.display().to_string(), message });
                }
            }
        }
        Ok(Received::End)
    }
}
