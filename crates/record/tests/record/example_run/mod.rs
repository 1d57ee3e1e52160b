//! A small run, written as a real one would be: hits of two sources, some with waveforms and user words.
#![allow(dead_code)] // Each test uses a part.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use thalweg_data::batch::Share;
use thalweg_data::hit::Layout;
use thalweg_data::waveform_facts::{SampleRange, WaveformFacts};
use thalweg_data::{
    Counters, Extra, Flags, Hit, Hits, Ledger, Mark, Pool, Sink, SourceId, Stage, Statistics, Unit,
};
use thalweg_record::{HitWriter, RunDirectory, RunRecord, RunRecordState, Settings};

/// The names of the sources.
pub fn sources() -> Vec<String> {
    vec!["left".to_owned(), "right".to_owned()]
}

/// A folder in memory where the system has one: some tests write thousands of files.
pub fn folder() -> tempfile::TempDir {
    let shared_memory = Path::new("/dev/shm");
    let made = match shared_memory.is_dir() {
        true => tempfile::tempdir_in(shared_memory),
        false => tempfile::tempdir(),
    };
    made.expect("temporary folder")
}

/// What is known of their waveforms.
pub fn waveforms() -> Vec<WaveformFacts> {
    let left = WaveformFacts {
        samples: SampleRange::Unsigned16,
        sample_ps: Some(8000.0),
        decimation: Some(1),
        samples_before_trigger: Some(4),
        analog_probes: &["adc_input"],
        digital_probes: &[],
    };
    vec![left, WaveformFacts { samples: SampleRange::Unsigned16, ..WaveformFacts::default() }]
}

/// The k-th hit of the example.
pub fn hit(index: usize) -> Hit {
    let flags = match index % 10 {
        0 => Flags::EXTRA,
        3 => Flags::NO_ENERGY_SHORT,
        4 => Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT,
        7 => Flags::PILE_UP | Flags::FINE_TIME,
        _ => Flags::NONE,
    };
    Hit {
        time_ps: index as i64 * 1_000 - 5_000,
        channel: (index % 33) as u16,
        energy: if flags.has(Flags::NO_ENERGY) { 0 } else { (index * 13) as u16 },
        energy_short: if flags.has(Flags::NO_ENERGY_SHORT) { 0 } else { (index * 5) as u16 },
        flags,
    }
}

/// Sample `sample` of the waveform of the k-th hit.
pub fn sample(index: usize, sample: usize) -> i32 {
    ((index * 31 + sample * 257) % 65_536) as i32
}

/// User word of the k-th hit.
pub fn user_word(index: usize) -> u64 {
    (index as u64).wrapping_mul(0x0102_0304_0506_0708)
}

/// Hits `range` of the example, with what belongs to them; their bytes lie in blocks of `pool`.
pub fn batch(pool: &Pool, range: std::ops::Range<usize>, mark: Mark) -> Hits {
    let mut hits = Hits::default();
    hits.header.mark = mark;
    let mut writer = pool.take().expect("a block is free");
    for index in range.clone() {
        let hit = hit(index);
        hits.hits.push(hit);
        if hit.flags.has(Flags::EXTRA) {
            let samples: Vec<u8> =
                (0..index % 7 * 4).flat_map(|k| (sample(index, k) as u16).to_le_bytes()).collect();
            let source = SourceId((index % 2) as u16);
            let mut extra =
                Extra { raw_flags: index as u32, layout: Layout::Plain, ..Extra::of(&hit, source) };
            extra.samples_first = hits.slices.len() as u32;
            extra.samples_count = 1;
            hits.slices.push(writer.append(&samples).expect("space"));
            extra.words_first = hits.slices.len() as u32;
            extra.words_count = 1;
            hits.slices.push(writer.append(&user_word(index).to_be_bytes()).expect("space"));
            extra.truncated = index.is_multiple_of(20);
            hits.extras.push(extra);
        }
    }
    hits.leases.add(writer.lease());
    let right = range.len() as u32 / 3;
    hits.shares.push(Share { source: SourceId(0), hits: range.len() as u32 - right });
    hits.shares.push(Share { source: SourceId(1), hits: right });
    hits.statistics.push(Statistics {
        source: SourceId(0),
        channel: 3,
        real_time_ps: 10,
        dead_time_ps: 1,
        triggers: range.end as u64,
        saved: range.end as u64,
        ..Statistics::default()
    });
    hits
}

/// Writes a run of `count` hits in batches of `step`, with snapshot and `run.json`.
pub fn write_run(parent: &Path, settings: &Settings, count: usize, step: usize) -> RunDirectory {
    let directory = RunDirectory::create(parent, "example").expect("made");
    let mut record = RunRecord::start(&directory, "example", "# nothing\n", &sources());
    record.write(&directory).expect("written");
    let mut writer =
        HitWriter::create_of(directory.path(), settings, &sources(), &waveforms()).expect("made");
    let pool = Pool::new(2, 1 << 20).expect("small");
    for start in (0..count).step_by(step) {
        let hits = batch(&pool, start..(start + step).min(count), Mark(start as u64));
        writer.write(&hits).expect("written");
    }
    writer.finish().expect("written");
    let snapshot = publish(&directory, &writer);
    record.stop(RunRecordState::Stopped, writer.summaries(), Some(&snapshot));
    record.write(&directory).expect("written");
    directory
}

/// Puts a sink's counters into the run's ledger file.
pub fn publish(directory: &RunDirectory, writer: &HitWriter) -> thalweg_data::LedgerSnapshot {
    let _ = std::fs::remove_file(directory.ledger());
    let ledger = Ledger::create(Some(&directory.ledger()), &sources()).expect("made");
    for source in [SourceId(0), SourceId(1)] {
        ledger.open(Stage::Record, source, &[Unit::Hits]).publish(writer.counters(source));
    }
    ledger.snapshot()
}

/// Reads a file with the arrow crate's own reader.
pub fn stock_read(path: &Path) -> Result<Vec<RecordBatch>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader = StreamReader::try_new(BufReader::new(file), None).map_err(|error| error.to_string())?;
    reader.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
}

/// Rows that the stock reader finds.
pub fn stock_rows(path: &Path) -> usize {
    stock_read(path).expect("a stock reader reads it").iter().map(RecordBatch::num_rows).sum()
}

/// In, out, held and lost hits of a set of counters.
pub fn slot(counters: &Counters) -> [u64; 4] {
    let unit = Unit::Hits;
    let (input, output, lost) =
        (counters.total_input(unit), counters.total_output(unit), counters.total_lost_any(unit));
    let held = {
        let ledger = Ledger::create(None, &["one".to_owned()]).expect("memory");
        ledger.open(Stage::Record, SourceId(0), &[unit]).publish(counters);
        ledger.snapshot().entries()[0].held
    };
    [input, output, held, lost]
}

/// Copies a run's files into a new directory.
/// The same run, as nobody has it open any more.
pub fn unlocked(run: RunDirectory) -> RunDirectory {
    let path = run.path().to_owned();
    drop(run);
    let parent = path.parent().expect("a run lies in a directory");
    let runs = RunDirectory::list(parent).expect("readable");
    runs.into_iter().find(|run| run.path() == path).expect("it is there")
}

pub fn copy_run(from: &RunDirectory, to: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from.path()).expect("readable") {
        let path = entry.expect("readable").path();
        std::fs::copy(&path, to.join(path.file_name().expect("a file"))).expect("copied");
    }
    to.to_owned()
}
