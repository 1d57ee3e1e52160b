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
use super::{default_directory, fresh};
use thalweg_record::hit_writer::HitWriter;
use thalweg_record::settings::{Compression, Settings};

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
    record_in(&default_directory(), repeats, Compression::None)
}

/// Like [`record`], into `parent` and with a compression.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record_in(parent: &Path, repeats: usize, compression: Compression) -> Measurement {
    let batches = example_batches();
    let turn = Turn { bench: "record", hits: TURN_HITS, raw_bytes: TURN_HITS * size_of::<Hit>() };
    turn.measure(parent, (repeats, compression), |directory, settings| {
        record_once(directory, settings, &batches)
    })
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
