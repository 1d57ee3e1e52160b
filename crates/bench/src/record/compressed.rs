//! Measures how fast events become compressed files, against the codec alone on one core.
//!
//! ```text
//!  events in blocks ──► EventWriter, 1 or 2 workers ──► files     value
//!  the same bytes ────► codec ──► memory                          baseline: one core, nothing written, no checksum
//! ```
//! Seven of ten bytes are alike and three are noise, which is the compressibility that storage is tested with: lz4 leaves 0.38
//! of the bytes, Zstandard 0.31.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use thalweg_data::Events;
use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_record::settings::{Compression, Settings};

use super::events::{EventShape, Example, Noise, record_once};
use super::way::Way;

/// Level of Zstandard, as the recorder's.
const ZSTD_LEVEL: i32 = 1;
/// Size of an LZ4 block, as the recorder's.
const LZ4_BLOCK: lz4_flex::frame::BlockSize = lz4_flex::frame::BlockSize::Max256KB;
/// Payload of a turn.
const TURN_BYTES: usize = 512 << 20;

/// Records events with each codec and number of workers, into `parent`; one measurement for each.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record_compressed_in(parent: &Path, repeats: usize) -> Vec<Measurement> {
    let shape = EventShape::FEW_LARGE;
    let example = Example::new(shape, Noise::ThreeOfTen);
    let ways = [Compression::Lz4, Compression::Zstd].map(|codec| [(codec, 1), (codec, 2)]);
    let measured = ways.into_iter().flatten().map(|(compression, workers)| {
        let settings = Settings { compression, compression_workers: workers, ..Settings::default() };
        measure(parent, repeats, &settings, shape, &example)
    });
    measured.collect()
}

fn measure(
    parent: &Path,
    repeats: usize,
    settings: &Settings,
    shape: EventShape,
    example: &Example,
) -> Measurement {
    let directory = parent.join(format!("thalweg-bench-compressed-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("the directory of a bench can be written");
    let turns = TURN_BYTES.div_ceil(example.payload_bytes(shape));
    let way = Way::free(parent, repeats, settings.clone());
    let mut file_bytes = 0;
    let comparison = compare(
        Clock::Wall,
        repeats,
        || {
            let spent;
            (spent, file_bytes) = record_once(&directory, &way, shape, example, turns);
            spent.wall
        },
        || codec_alone(settings.compression, &example.batches, turns),
    );
    // A temporary directory that is not removed does no harm.
    let _ = fs::remove_dir_all(&directory);
    let payload = (turns * example.payload_bytes(shape)) as f64;
    let workers = settings.compression_workers;
    let ratio_per_core = comparison.baseline_s / comparison.subject_s / workers as f64;
    let baseline = "the codec alone over the same bytes, on one core";
    Measurement::of_rate("record-compressed", "B/s", payload, baseline, comparison)
        .with("compression", format!("{:?}", settings.compression).to_lowercase())
        .with("compression_workers", workers)
        .with("ratio_per_core", ratio_per_core)
        .with("file_bytes", file_bytes)
        .with("payload_bytes", payload)
        .with("compressed_fraction", file_bytes as f64 / payload)
        .with("directory", parent.display().to_string())
        .repeated(repeats)
}

/// Compresses the payload of every batch with a codec that is set up once; what comes out is dropped.
fn codec_alone(compression: Compression, batches: &[Events], turns: usize) -> Duration {
    let start = Instant::now();
    let (mut gathered, mut out) = (Vec::new(), Vec::new());
    let mut zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("a level that there is");
    let block = lz4_flex::frame::FrameInfo::new().block_size(LZ4_BLOCK);
    let mut lz4 = lz4_flex::frame::FrameEncoder::with_frame_info(block, Vec::new());
    for batch in std::iter::repeat_n(batches, turns).flatten() {
        let payload = batch.slices.iter().map(|slice| batch.leases.bytes(*slice));
        match compression {
            Compression::Zstd => {
                gathered.clear();
                payload.for_each(|bytes| gathered.extend_from_slice(bytes));
                out.resize(zstd::zstd_safe::compress_bound(gathered.len()), 0);
                zstd.compress_to_buffer(&gathered, &mut out[..]).expect("room for the worst");
                std::hint::black_box(&out);
            }
            Compression::Lz4 | Compression::None => {
                lz4.get_mut().clear();
                payload.for_each(|bytes| lz4.write_all(bytes).expect("memory takes everything"));
                lz4.try_finish().expect("memory takes everything");
                std::hint::black_box(lz4.get_ref());
            }
        }
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_of_ten_bytes_do_not_get_smaller() {
        let shape = EventShape::FEW_LARGE;
        let example = Example::new(shape, Noise::ThreeOfTen);
        let batch = &example.batches[0];
        let payload: Vec<u8> =
            batch.slices.iter().flat_map(|slice| batch.leases.bytes(*slice)).copied().collect();
        let fraction = |compressed: usize| compressed as f64 / payload.len() as f64;
        let zstd = zstd::bulk::compress(&payload, ZSTD_LEVEL).expect("memory takes everything");
        let lz4 = lz4_flex::compress(&payload);
        for fraction in [fraction(zstd.len()), fraction(lz4.len())] {
            assert!((0.3..0.4).contains(&fraction), "{fraction}");
        }
    }
}
