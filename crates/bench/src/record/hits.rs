//! Measures how fast hits become a file, against writing the same bytes as they are.
//!
//! ```text
//!  hits in memory ──► HitWriter ──► file            value
//!  bytes in memory ──► write ──► file               baseline: as many bytes, the same sync policy
//! ```

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use thalweg_data::batch::Share;
use thalweg_data::measure::Measurement;
use thalweg_data::{Flags, Hit, Hits, Sink, SourceId};

use super::turn::Turn;
use super::way::{Spent, Way};
use super::{default_directory, fresh};
use thalweg_record::hit_writer::HitWriter;
use thalweg_record::settings::{FileLimits, Settings};

/// Hits per turn: 512 MiB of columns.
const TURN_HITS: usize = 32 << 20;
/// Hits per incoming batch: 256 KiB, as they come from time order.
const BATCH_HITS: usize = 16 * 1024;
/// Different batches in turn: 2 MiB, so that hits come from the cache that the order stage leaves them in.
const BATCHES: usize = 8;

/// Records hits, uncompressed, `repeats` times. A disk is measured to the last byte on it; in memory (see the parameter
/// `file_system_in_memory`) there is nothing to wait for.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record(repeats: usize) -> Measurement {
    record_in(&Way::free(&default_directory(), repeats, Settings::default()))
}

/// Like [`record`], in another way.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record_in(way: &Way) -> Measurement {
    let batches = example_batches();
    let turn = Turn { bench: "record", hits: TURN_HITS, raw_bytes: TURN_HITS * size_of::<Hit>() };
    turn.measure(way, |directory| record_once(directory, way, &batches))
}

/// The longest time between two batches that were taken, where files end after `file_bytes`, against recordings of one file.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn change_of_files_in(way: &Way, file_bytes: u64) -> Measurement {
    let batches = example_batches();
    let directory = way.parent.join(format!("thalweg-bench-files-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("the directory of a bench can be written");
    let limits = FileLimits { most_bytes: Some(file_bytes), ..FileLimits::default() };
    let many = Way { settings: Settings { files: limits, ..way.settings.clone() }, ..way.clone() };
    let longest = |way: &Way| {
        let mut longest = Duration::ZERO;
        let (spent, _) = record_turn(&directory, way, &batches, |took| longest = longest.max(took));
        Spent { wall: longest, ..spent }
    };
    let compared = way.compare(|| longest(&many), || longest(way));
    // A temporary directory that is not removed does no harm.
    let _ = fs::remove_dir_all(&directory);
    let comparison = compared.comparison;
    let bytes = (TURN_HITS * size_of::<Hit>()) as f64;
    let figure = Measurement {
        bench: "record-files".to_owned(),
        value: 1e3 * comparison.subject_s,
        unit: "ms".to_owned(),
        baseline: "the longest time between two batches in a recording of one file".to_owned(),
        baseline_value: 1e3 * comparison.baseline_s,
        ratio: comparison.speed_ratio,
        ratio_range: Some(comparison.ratio_range),
        ..Measurement::default()
    };
    let figure = figure.with("file_bytes", file_bytes).with("changes", bytes as u64 / file_bytes);
    way.described(figure, &compared, bytes)
}

fn record_once(directory: &Path, way: &Way, batches: &[Hits]) -> (Spent, u64) {
    record_turn(directory, way, batches, |_| ())
}

/// Records a turn; `taken` gets the time that each batch took.
fn record_turn(
    directory: &Path,
    way: &Way,
    batches: &[Hits],
    mut taken: impl FnMut(Duration),
) -> (Spent, u64) {
    let run = fresh(directory, TURN_HITS * size_of::<Hit>());
    let mut writer =
        HitWriter::create(&run, &way.settings, &["bench".to_owned()]).expect("a fresh directory takes files");
    let mut pacer = way.pace.begin();
    for batch in batches.iter().cycle().take(TURN_HITS / BATCH_HITS) {
        pacer.wait_for(BATCH_HITS * size_of::<Hit>());
        let before = Instant::now();
        writer.write(batch).expect("the disk of a bench has room");
        taken(before.elapsed());
    }
    writer.finish().expect("the disk of a bench has room");
    let spent = pacer.spent();
    let bytes = writer.summaries().iter().map(|summary| summary.bytes).sum();
    drop(writer);
    let _ = fs::remove_dir_all(&run);
    (spent, bytes)
}

fn example_batches() -> Vec<Hits> {
    let hit = |index: usize| Hit {
        time_ps: index as i64 * 25_000,
        channel: (index * 7 % 64) as u16,
        energy: (index.wrapping_mul(2_654_435_761) >> 16) as u16 & 0x3FFF,
        energy_short: (index.wrapping_mul(2_246_822_519) >> 16) as u16 & 0x1FFF,
        flags: Flags::FINE_TIME,
    };
    let batch = |number: usize| Hits {
        hits: (number * BATCH_HITS..(number + 1) * BATCH_HITS).map(hit).collect(),
        shares: vec![Share { source: SourceId(0), hits: BATCH_HITS as u32 }],
        ..Hits::default()
    };
    (0..BATCHES).map(batch).collect()
}
