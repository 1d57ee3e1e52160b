//! Measures how fast streams are split and emulated boards send, each against doing as little as possible with the same bytes.
//!
//! ```text
//!  1 MiB of blocks in pool blocks, again and again ─ split, batch by batch ─► fragments/s
//!                                                  └ walk from header to header ─► the baseline
//!  triggers ─ emulated board ─► blocks/s      └ copy of as many bytes ─► the baseline
//! ```
//! The input stays near the processor, where a receive call has just written it in a real run.

use std::hint::black_box;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::{BoardId, Fragments, Frames, Framing, Pool, PoolError, SourceId};

use thalweg_frontend::sitcp::Splitter;
use thalweg_frontend::sitcp::emulate::{self, Board};
use thalweg_frontend::sitcp::wire::recbe::Header;
use thalweg_frontend::sitcp::{Profile, Settings};
use thalweg_frontend::trigger::{Answer, Trigger};

const TOTAL_BYTES: usize = 256 << 20;
const INPUT_BYTES: usize = 1 << 20;
const ROUNDS: usize = TOTAL_BYTES / INPUT_BYTES;
const BLOCK_BYTES: usize = 256 << 10;

/// A bench that cannot run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no memory for the input.
    #[error("the bench needs 1 MiB of free memory: {0}")]
    Memory(#[from] PoolError),
    /// The blocks split differ from those sent.
    #[error("split {split} blocks of {sent} that were sent")]
    Wrong {
        /// The blocks split.
        split: u64,
        /// The blocks sent.
        sent: u64,
    },
}

struct Input {
    batches: Vec<Frames>,
    blocks: u64,
}

fn settings(mode: emulate::Mode) -> emulate::Settings {
    emulate::Settings { profile: Profile::Recbe, mode, ..emulate::Settings::default() }
}

/// The stream of one board, in batches as large as a receive call makes them under load.
fn input(mode: emulate::Mode) -> Result<Input, BenchError> {
    let pool = Pool::new(INPUT_BYTES / BLOCK_BYTES, BLOCK_BYTES)?;
    let mut board = Board::new(BoardId(0), &settings(mode)).expect("the defaults are possible");
    let (mut input, mut bytes, mut ends) = (Input { batches: Vec::new(), blocks: 0 }, Vec::new(), Vec::new());
    let mut next = Trigger::default();
    while let Some(mut writer) = pool.take() {
        loop {
            let whole = bytes.len();
            board.answer(next, &mut bytes, &mut ends);
            if bytes.len() > BLOCK_BYTES {
                bytes.truncate(whole);
                break;
            }
            next = Trigger { number: next.number + 1, time_ns: next.time_ns + 10_000 };
            input.blocks += 1;
        }
        let mut frames = Frames::default();
        frames.slices.push(writer.append(&bytes).expect("no more than a block"));
        frames.leases.add(writer.lease());
        input.batches.push(frames);
        bytes.clear();
    }
    Ok(input)
}

/// The baseline: from header to header, the trigger numbers added up.
fn walk(input: &Input) -> Duration {
    let begin = Instant::now();
    let mut sum = 0u64;
    for frames in (0..ROUNDS).flat_map(|_| &input.batches) {
        let mut bytes = frames.bytes(frames.slices[0]);
        while let Ok(header) = Header::check(bytes) {
            sum += u64::from(header.trigger());
            bytes = &bytes[thalweg_frontend::sitcp::wire::recbe::HEADER_BYTES + header.body_bytes()..];
        }
    }
    black_box(sum);
    begin.elapsed()
}

fn split_all(input: &Input, splitter: &mut Splitter, fragments: &mut Fragments) -> (Duration, u64) {
    let (begin, mut split) = (Instant::now(), 0);
    for frames in (0..ROUNDS).flat_map(|_| &input.batches) {
        fragments.clear();
        splitter.frame(frames, fragments);
        split += fragments.fragments.len() as u64;
        black_box(fragments.fragments.as_ptr());
    }
    (begin.elapsed(), split)
}

/// Fragments per second out of the stream of one board, against a walk over the headers alone.
///
/// # Errors
/// When there is no memory, or blocks are missing.
pub fn split(mode: emulate::Mode, repeats: usize) -> Result<Measurement, BenchError> {
    let input = input(mode)?;
    let mut splitter = Splitter::new(SourceId(0), &Settings::default()).expect("defaults are possible");
    let mut fragments = Fragments::default();
    let mut seen = 0;
    let compared = compare(
        Clock::Wall,
        repeats,
        || {
            let (took, split) = split_all(&input, &mut splitter, &mut fragments);
            seen = split;
            took
        },
        || walk(&input),
    );
    let sent = input.blocks * ROUNDS as u64;
    if seen != sent {
        return Err(BenchError::Wrong { split: seen, sent });
    }
    let name = format!("sitcp-split-{mode:?}").to_lowercase();
    let blocks = sent as f64;
    Ok(Measurement::of_rate(&name, "fragments/s", blocks, "walk from header to header", compared)
        .with("nanoseconds_per_fragment", compared.subject_s / blocks * 1e9)
        .with("block_bytes", TOTAL_BYTES as f64 / blocks)
        .repeated(repeats))
}

/// Blocks per second that one core emulates, against a copy of as many bytes.
pub fn emulate(mode: emulate::Mode, repeats: usize) -> Measurement {
    let mut board = Board::new(BoardId(0), &settings(mode)).expect("the defaults are possible");
    let (mut bytes, mut ends) = (Vec::with_capacity(BLOCK_BYTES * 2), Vec::new());
    let (mut copy, source) = (Vec::with_capacity(BLOCK_BYTES), vec![0x5A; BLOCK_BYTES]);
    let triggers = TOTAL_BYTES as u64 / if mode == emulate::Mode::Raw { 6156 } else { 380 };
    let compared = compare(
        Clock::Wall,
        repeats,
        || {
            let begin = Instant::now();
            for number in 0..triggers {
                if bytes.len() > BLOCK_BYTES {
                    black_box(bytes.as_ptr());
                    bytes.clear();
                }
                board.answer(Trigger { number, time_ns: number * 10_000 }, &mut bytes, &mut ends);
            }
            begin.elapsed()
        },
        || {
            let begin = Instant::now();
            for _ in 0..TOTAL_BYTES / BLOCK_BYTES {
                copy.clear();
                copy.extend_from_slice(&source);
                black_box(copy.as_ptr());
            }
            begin.elapsed()
        },
    );
    let name = format!("sitcp-emulate-{mode:?}").to_lowercase();
    let measured =
        Measurement::of_rate(&name, "blocks/s", triggers as f64, "copy of as many bytes", compared);
    measured.repeated(repeats)
}
