//! How fast hits become a file, against writing the same bytes as they are.
//!
//! ```text
//!  hits in memory ──► HitWriter ──► file            value
//!  bytes in memory ──► write ──► file               yardstick: as many bytes, the same sync policy
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use thalweg_data::batch::Share;
use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::{Flags, Hit, Hits, Sink, SourceId};

use super::{default_directory, fresh, is_in_memory};
use thalweg_record::begin_write_back;
use thalweg_record::hit_writer::HitWriter;
use thalweg_record::settings::{Compression, Settings};

/// Hits per turn: 512 MiB of columns.
const TURN_HITS: usize = 32 << 20;
/// Hits per incoming batch: 256 KiB, as they come from time order.
const BATCH_HITS: usize = 16 * 1024;
/// Different batches in turn: 2 MiB, so that hits come from the cache that the order stage leaves them in.
const BATCHES: usize = 8;
/// Bytes per write of the yardstick.
const YARDSTICK_BYTES: usize = 1 << 20;
/// Writes of the yardstick after which write-back begins: 8 MiB, as in a table's file.
const WRITE_BACK_TURNS: u64 = 8;

/// Records hits, uncompressed, `repeats` times. A disk is measured to the last byte on it; in memory (see the parameter
/// `file_system_in_memory`) there is nothing to wait for.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record(repeats: usize) -> Measurement {
    record_in(&default_directory(), repeats, Compression::None)
}

/// As [`record`], into `parent` and with a compression.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record_in(parent: &Path, repeats: usize, compression: Compression) -> Measurement {
    let directory = parent.join(format!("thalweg-bench-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("the directory of a bench can be written");
    let settings = Settings { compression, ..Settings::default() };
    let batches = example_batches();
    let mut file_bytes = 0;
    let comparison = compare(
        Clock::Wall,
        repeats,
        || {
            let took;
            (took, file_bytes) = record_once(&directory, &settings, &batches);
            took
        },
        || write_once(&directory, TURN_HITS * size_of::<Hit>()),
    );
    // A temporary directory that stays behind harms nobody.
    let _ = fs::remove_dir_all(&directory);
    let in_memory = is_in_memory(parent);
    let yardstick = "sequential write of the same bytes, uncompressed, with the same sync policy";
    Measurement::of_rate("record", "hits/s", TURN_HITS as f64, yardstick, comparison)
        .with("directory", parent.display().to_string())
        .with("file_system_in_memory", in_memory)
        .with("hits_per_turn", TURN_HITS)
        .with("file_bytes", file_bytes)
        .with("compression", format!("{compression:?}").to_lowercase())
        .with("sync", "at the end")
        .repeated(repeats)
}

fn record_once(directory: &Path, settings: &Settings, batches: &[Hits]) -> (Duration, u64) {
    let run = fresh(directory, TURN_HITS * size_of::<Hit>());
    let mut writer =
        HitWriter::create(&run, settings, &["bench".to_owned()]).expect("a fresh directory takes files");
    let start = Instant::now();
    for batch in batches.iter().cycle().take(TURN_HITS / BATCH_HITS) {
        writer.write(batch).expect("the disk of a bench has room");
    }
    writer.finish().expect("the disk of a bench has room");
    let took = start.elapsed();
    let bytes = writer.summaries().iter().map(|summary| summary.bytes).sum();
    drop(writer);
    let _ = fs::remove_dir_all(&run);
    (took, bytes)
}

/// Writes so many bytes, in whole megabytes, to a file of their own.
pub(super) fn write_once(directory: &Path, count: usize) -> Duration {
    let bytes = vec![0x5A; YARDSTICK_BYTES];
    let run = fresh(directory, count);
    let mut file = File::create(run.join("bytes")).expect("a fresh directory takes files");
    let start = Instant::now();
    for turn in 0..(count / bytes.len()) as u64 {
        file.write_all(&bytes).expect("the disk of a bench has room");
        if (turn + 1) % WRITE_BACK_TURNS == 0 {
            let length = WRITE_BACK_TURNS * bytes.len() as u64;
            begin_write_back(&file, (turn + 1) * bytes.len() as u64 - length, length);
        }
    }
    file.sync_data().expect("the disk of a bench works");
    let took = start.elapsed();
    drop(file);
    let _ = fs::remove_dir_all(&run);
    took
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
