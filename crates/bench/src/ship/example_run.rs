//! A run that has ended, to be shipped: events of 8 × 64 kB in several files.

use std::fs;
use std::path::{Path, PathBuf};

use thalweg_data::EventSink;
use thalweg_record::directory::EventFiles;
use thalweg_record::event_writer::EventWriter;
use thalweg_record::settings::Settings;
use thalweg_record::{FileLimits, RunDirectory, RunRecord, RunRecordState, TableSummary};

use crate::record::events::{EventShape, Example, Noise};

/// The run.
pub(super) struct ExampleRun {
    path: PathBuf,
    bytes: u64,
    files: usize,
}

impl ExampleRun {
    /// Records it in `runs`: so many bytes, in about so many files.
    ///
    /// # Panics
    /// When the directory cannot be written: there is nothing to measure then.
    pub(super) fn new(runs: &Path, bytes: u64, files: u64) -> ExampleRun {
        let run = RunDirectory::create(runs, "").expect("a fresh directory takes runs");
        let example = Example::new(EventShape::FEW_LARGE, Noise::Half);
        let (names, tables) = write_events(run.path(), &example, bytes, files);
        let record = RunRecord {
            state: RunRecordState::Stopped,
            number: run.number(),
            sources: names,
            tables,
            ..RunRecord::default()
        };
        record.write(&run).expect("the disk of a bench has room");
        let path = run.path().to_owned();
        let entries = fs::read_dir(&path).expect("it was made").flatten();
        let files = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count();
        ExampleRun { bytes: RunDirectory::bytes_in(&path), files, path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Name of its directory.
    pub(super) fn name(&self) -> &Path {
        self.path.file_name().expect("it has one").as_ref()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn files(&self) -> usize {
        self.files
    }

    /// Nothing is known of copies any more.
    pub(super) fn forget_copies(&self) {
        let _ = fs::remove_dir_all(self.path.join(".ship"));
    }
}

/// Records so many bytes in a directory, in about so many files; returns the names of the boards, and what was written.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub(super) fn write_events(
    directory: &Path,
    example: &Example,
    bytes: u64,
    files: u64,
) -> (Vec<String>, Vec<TableSummary>) {
    let shape = EventShape::FEW_LARGE;
    let files = FileLimits { most_bytes: Some(bytes / files), ..FileLimits::default() };
    let settings = Settings { files, ..Settings::default() };
    let names: Vec<String> = (0..shape.sources).map(|source| format!("board {source}")).collect();
    let paths = EventFiles::in_directory(directory, None);
    let mut writer =
        EventWriter::create(&paths, &settings, &names, false).expect("a fresh directory takes files");
    let mut written = 0;
    while written < bytes {
        for batch in &example.batches {
            writer.write(batch).expect("the disk of a bench has room");
        }
        written += example.payload_bytes(shape) as u64;
    }
    writer.finish().expect("the disk of a bench has room");
    (names, writer.summaries())
}
