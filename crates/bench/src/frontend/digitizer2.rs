//! Measures the speed of the decoder, against copying the same bytes.
//!
//! ```text
//!  1 GiB of aggregates in pool blocks ─ decode block by block into one recycled batch ─► hits/s
//!                                     └ copy   block by block into one recycled buffer ─► the baseline
//! ```
//! Input comes from memory, output stays near the cache, for subject and baseline alike.

use std::hint::black_box;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Comparison, Measurement, PAGE_BYTES, compare, half_a_page_apart};
use thalweg_data::waveform::Samples;
use thalweg_data::{Decode, Frames, Framing, Hits, Pool, PoolError, SourceId, Unit};

use thalweg_frontend::digitizer2::emit::{self, HitFields, ScopeFields};
use thalweg_frontend::digitizer2::wire::{EventHeader, WaveInfo};
use thalweg_frontend::digitizer2::{Decoder, Firmware, Settings, UdpUnpack};

const INPUT_BYTES: usize = 1 << 30;
const BLOCK_BYTES: usize = 256 << 10;

/// A bench that cannot run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no memory for the input.
    #[error("the bench needs 1 GiB of free memory: {0}")]
    Memory(#[from] PoolError),
    /// The decoded hits differ from the emitted ones.
    #[error("decoded {decoded} hits of {emitted} that were emitted")]
    Wrong {
        /// The decoded hits.
        decoded: u64,
        /// The emitted hits.
        emitted: u64,
    },
}

/// Input in blocks, each a batch of its own, and what there is to decode.
struct Input {
    batches: Vec<Frames>,
    bytes: u64,
    hits: u64,
    events: u64,
}

/// Fills [`INPUT_BYTES`] with events: `event` appends one and returns its number of hits.
fn input(mut event: impl FnMut(&mut Vec<u8>, u64) -> u64) -> Result<Input, BenchError> {
    let pool = Pool::new(INPUT_BYTES / BLOCK_BYTES, BLOCK_BYTES)?;
    let mut input = Input { batches: Vec::new(), bytes: 0, hits: 0, events: 0 };
    let mut bytes = Vec::new();
    let mut next_hits = event(&mut bytes, 0);
    while let Some(mut writer) = pool.take() {
        let mut frames = Frames::default();
        frames.leases.add(writer.lease());
        while let Some(slice) = writer.append(&bytes) {
            let format = EventHeader(u64::from_be_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]))).format();
            frames.slices.push(slice.tagged(u32::from(format.number())));
            input.bytes += bytes.len() as u64;
            input.hits += next_hits;
            input.events += 1;
            bytes.clear();
            next_hits = event(&mut bytes, input.events);
        }
        input.batches.push(frames);
    }
    Ok(input)
}

/// The baseline: every block copied into one buffer.
fn copy(input: &Input, buffer: &mut [u8]) -> Duration {
    let begin = Instant::now();
    for frames in &input.batches {
        let (Some(first), Some(last)) = (frames.slices.first(), frames.slices.last()) else { continue };
        let length = (last.end() - first.offset as usize) as u32;
        let whole = thalweg_data::Slice { length, ..*first };
        let bytes = frames.bytes(whole);
        let at = half_a_page_apart(buffer, bytes);
        buffer[at..at + bytes.len()].copy_from_slice(bytes);
        black_box(buffer.as_ptr());
    }
    begin.elapsed()
}

/// Decodes all input; `then` does what a reader would do with each batch.
fn decode_all(
    input: &Input,
    decoder: &mut Decoder,
    hits: &mut Hits,
    mut then: impl FnMut(&Hits),
) -> Duration {
    let begin = Instant::now();
    for frames in &input.batches {
        hits.clear();
        decoder.decode(frames, hits);
        then(hits);
        black_box(hits.hits.as_ptr());
    }
    begin.elapsed()
}

fn comparison(
    input: &Input,
    firmware: Firmware,
    repeats: usize,
    mut then: impl FnMut(&Hits),
) -> Result<Comparison, BenchError> {
    let settings = Settings { firmware: Some(firmware), ..Settings::default() };
    let mut decoder = Decoder::new(SourceId(0), &settings).expect("default settings are valid");
    let mut hits = Hits::with_capacity(BLOCK_BYTES / 8);
    let mut buffer = vec![0; BLOCK_BYTES + PAGE_BYTES];
    let comparison = compare(
        Clock::Wall,
        repeats,
        || decode_all(input, &mut decoder, &mut hits, &mut then),
        || copy(input, &mut buffer),
    );
    let (decoded, emitted) =
        (decoder.counters().total_output(Unit::Hits), input.hits * (repeats.max(1) as u64 + 1));
    match decoded == emitted {
        true => Ok(comparison),
        false => Err(BenchError::Wrong { decoded, emitted }),
    }
}

fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn fields(number: u64) -> HitFields {
    let random = spread(number);
    HitFields {
        channel: (random >> 58) as u8,
        timestamp: number * 3,
        fine: (random >> 40) as u16,
        energy: random as u16,
        energy_short: (random >> 16) as u16,
        flags_low: 0x40,
        flags_high: 0x40 | u8::from(random >> 20 & 63 == 0),
    }
}

fn plain_aggregates(hits_per_aggregate: u64) -> Result<Input, BenchError> {
    let mut number = 0;
    input(|out, event| {
        let start = emit::begin_aggregate(out, event as u32, false, false);
        for _ in 0..hits_per_aggregate {
            emit::hit(out, &fields(number));
            number += 1;
        }
        emit::end_aggregate(out, start);
        hits_per_aggregate
    })
}

/// Plain hits of 16 bytes, in aggregates of 512.
///
/// # Errors
/// When memory is short.
pub fn decode(repeats: usize) -> Result<Measurement, BenchError> {
    let input = plain_aggregates(512)?;
    let compared = comparison(&input, Firmware::Psd, repeats, |_| {})?;
    Ok(Measurement::of_rate("decode", "hits/s", input.hits as f64, "copy of the same bytes", compared)
        .with("input_bytes", input.bytes)
        .with("hits_per_aggregate", 512)
        .repeated(repeats))
}

/// Hits of 2072 bytes with 510 samples, every sample expanded into arrays.
///
/// # Errors
/// When memory is short.
pub fn decode_waveforms(repeats: usize) -> Result<Measurement, BenchError> {
    const SAMPLES: usize = 510;
    const HITS: u64 = 16;
    let info = WaveInfo::default();
    let samples: Vec<u32> = (0..SAMPLES as u64).map(|index| (spread(index) >> 32) as u32).collect();
    let mut number = 0;
    let input = input(|out, event| {
        let start = emit::begin_aggregate(out, event as u32, false, false);
        for _ in 0..HITS {
            emit::wave_hit(out, &fields(number), &info, &samples, false);
            number += 1;
        }
        emit::end_aggregate(out, start);
        HITS
    })?;
    let mut expanded = Samples::default();
    let compared = comparison(&input, Firmware::Psd, repeats, |hits| {
        for extra in &hits.extras {
            expanded.read(extra, &hits.slices, &hits.leases);
            black_box(expanded.analog_1.as_ptr());
        }
    })?;
    let baseline = "copy of the same bytes";
    Ok(Measurement::of_rate("decode-waveforms", "bytes/s", input.bytes as f64, baseline, compared)
        .with("hits", input.hits)
        .with("samples_per_hit", SAMPLES)
        .repeated(repeats))
}

/// Scope events of 64 channels with 64 samples each.
///
/// # Errors
/// When memory is short.
pub fn scope(repeats: usize) -> Result<Measurement, BenchError> {
    const SAMPLES: usize = 64;
    let wave: Vec<u16> = (0..SAMPLES as u64).map(|index| spread(index) as u16).collect();
    let waveforms = vec![wave.as_slice(); 64];
    let input = input(|out, event| {
        let fields = ScopeFields {
            trigger_id: event as u32,
            timestamp: event * 125,
            channel_mask: u64::MAX,
            ..ScopeFields::default()
        };
        emit::scope_event(out, &fields, &waveforms);
        64
    })?;
    let compared = comparison(&input, Firmware::Scope, repeats, |_| {})?;
    let baseline = "copy of the same bytes";
    Ok(Measurement::of_rate("scope", "events/s", input.events as f64, baseline, compared)
        .with("channels", 64)
        .with("samples_per_channel", SAMPLES)
        .with("input_bytes", input.bytes)
        .repeated(repeats))
}

/// Datagrams of 8972 bytes found, their hashes undone and their events followed.
///
/// # Errors
/// When memory is short.
pub fn unpack_udp(repeats: usize) -> Result<Measurement, BenchError> {
    const HITS: u64 = 559; // 8952 bytes of one aggregate: the largest that fits with its footer
    let (mut number, mut data) = (0, Vec::new());
    let mut input = input(|out, event| {
        data.clear();
        let start = emit::begin_aggregate(&mut data, event as u32, false, false);
        for _ in 0..HITS {
            emit::hit(&mut data, &fields(number));
            number += 1;
        }
        emit::end_aggregate(&mut data, start);
        emit::datagram(out, &data, (event >> 6) as u16, event as u32 & 63, true, event & 63 == 63);
        HITS
    })?;
    input.batches.iter_mut().flat_map(|frames| &mut frames.slices).for_each(|slice| slice.tag = 0);
    let (mut units, mut buffer, mut found) = (Frames::default(), vec![0; BLOCK_BYTES + PAGE_BYTES], 0);
    let compared = compare(
        Clock::Wall,
        repeats,
        || {
            let mut unpack = UdpUnpack::new(SourceId(0), BLOCK_BYTES as u64);
            let begin = Instant::now();
            for frames in &input.batches {
                units.clear();
                unpack.frame(frames, &mut units);
                black_box(units.slices.as_ptr());
            }
            let took = begin.elapsed();
            found += unpack.counters().total_output(Unit::Frames) * HITS;
            took
        },
        || copy(&input, &mut buffer),
    );
    let emitted = input.hits * (repeats.max(1) as u64 + 1);
    if found != emitted {
        return Err(BenchError::Wrong { decoded: found, emitted });
    }
    let baseline = "copy of the same bytes";
    Ok(Measurement::of_rate("unpack-udp", "bytes/s", input.bytes as f64, baseline, compared)
        .with("datagram_bytes", 8 * (2 * HITS + 2))
        .repeated(repeats))
}

/// A bench by its name.
pub type Bench = (&'static str, fn(usize) -> Result<Measurement, BenchError>);

/// Every bench of this folder.
pub const ALL: [Bench; 4] = [
    ("decode", decode),
    ("decode-waveforms", decode_waveforms),
    ("scope", scope),
    ("unpack-udp", unpack_udp),
];
