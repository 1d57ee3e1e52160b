//! Measures how fast fragments are split and emulated, each against doing as little as possible with the same bytes.
//!
//! ```text
//!  2 MiB of datagrams in pool blocks, again and again ─ split, 64 at a time ─► fragments/s
//!                                                     └ one look at each    ─► the baseline
//!  triggers ─ emulated boards ─► fragments/s             └ a plain copy     ─► the baseline
//! ```
//! The input stays near the processor, where a receive call has just written it in a real run.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::{BoardId, Fragments, Frames, Framing, Mark, Pool, PoolError, SourceId};

use thalweg_frontend::fragment::emulate;
use thalweg_frontend::fragment::{Settings, Splitter, StreamSplitter};
use thalweg_frontend::trigger::{Answer, Trigger};

const INPUT_BYTES: usize = 2 << 20;
const BLOCK_BYTES: usize = 256 << 10;
/// Datagrams of one receive call.
const BATCH: usize = 64;
/// Fragments of one turn.
const FRAGMENTS: u64 = 4_000_000;

/// A bench that cannot run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no memory for the input.
    #[error("the bench needs 2 MiB of free memory: {0}")]
    Memory(#[from] PoolError),
    /// A board that cannot be.
    #[error(transparent)]
    Board(#[from] emulate::SettingsError),
    /// A link that cannot be.
    #[error(transparent)]
    Link(#[from] thalweg_frontend::fragment::SettingsError),
    /// The fragments split differ from those sent.
    #[error("split {split} fragments of {sent} that were sent")]
    Wrong {
        /// The fragments split.
        split: u64,
        /// The fragments sent.
        sent: u64,
    },
}

/// The data that the boards of one turn send.
struct Input {
    batches: Vec<Frames>,
    fragments: u64,
    /// The mark of the next round: so late that the one before is forgotten.
    mark: Mark,
}

/// Datagrams as a receive call leaves them, trigger by trigger; of a stream, one block each.
fn input(boards: u16, settings: &emulate::Settings) -> Result<Input, BenchError> {
    let pool = Pool::new(INPUT_BYTES / BLOCK_BYTES, BLOCK_BYTES)?;
    let mut boards = emulate::boards(BoardId(0), boards, settings)?;
    let mut input = Input { batches: Vec::new(), fragments: 0, mark: Mark(0) };
    let (mut bytes, mut ends, mut answered) = (Vec::new(), Vec::new(), 0u64);
    while let Some(mut writer) = pool.take() {
        let (mut frames, mut last) = (Frames::default(), false);
        while !last {
            let board = (answered % boards.len() as u64) as usize;
            let number = answered / boards.len() as u64;
            bytes.clear();
            ends.clear();
            boards[board].answer(Trigger { number, time_ns: number * 1000 }, &mut bytes, &mut ends);
            last = writer.remaining() < bytes.len();
            if !last {
                answered += 1;
                input.fragments += 1;
                let mut start = 0;
                if ends.is_empty() {
                    ends.push(bytes.len());
                }
                for end in &ends {
                    frames.slices.push(writer.append(&bytes[start..*end]).expect("room was found"));
                    start = *end;
                }
            }
            if last || frames.slices.len() >= BATCH && !settings.stream {
                frames.leases.add(writer.lease());
                input.batches.push(std::mem::take(&mut frames));
            }
        }
    }
    Ok(input)
}

impl Input {
    fn rounds(&self) -> u64 {
        FRAGMENTS.div_ceil(self.fragments)
    }

    /// The baseline: one word of each datagram is looked at.
    fn look(&self) -> Duration {
        let begin = Instant::now();
        let mut sum = 0u64;
        for frames in (0..self.rounds()).flat_map(|_| &self.batches) {
            for slice in &frames.slices {
                sum = sum.wrapping_add(frames.bytes(*slice)[23].into());
            }
        }
        black_box(sum);
        begin.elapsed()
    }

    fn split(
        &mut self,
        splitter: &mut dyn Framing<Output = Fragments>,
        fragments: &mut Fragments,
    ) -> (Duration, u64) {
        let (begin, mut split) = (Instant::now(), 0);
        for _ in 0..self.rounds() {
            self.mark.0 += 2_000_000_000;
            for frames in &mut self.batches {
                frames.header.mark = self.mark;
                fragments.clear();
                splitter.frame(frames, fragments);
                split += fragments.fragments.len() as u64;
                black_box(fragments.fragments.as_ptr());
            }
        }
        (begin.elapsed(), split)
    }
}

/// Fragments per second of so many boards, against a look at each datagram.
///
/// # Errors
/// When there is no memory, or fragments are missing.
pub fn split(boards: u16, board: &emulate::Settings, repeats: usize) -> Result<Measurement, BenchError> {
    let input = RefCell::new(input(boards, board)?);
    let link = Settings { boards, reassembly_ms: 1000, ..Settings::default() };
    let mut splitter: Box<dyn Framing<Output = Fragments>> = match board.stream {
        true => Box::new(StreamSplitter::new(SourceId(0), &link)?),
        false => Box::new(Splitter::new(SourceId(0), &link)?),
    };
    let (mut fragments, mut seen) = (Fragments::default(), 0);
    let compared = compare(
        Clock::Wall,
        repeats,
        || {
            let (took, split) = input.borrow_mut().split(splitter.as_mut(), &mut fragments);
            seen = split;
            took
        },
        || input.borrow().look(),
    );
    let input = input.into_inner();
    let sent = input.fragments * input.rounds();
    if seen != sent {
        return Err(BenchError::Wrong { split: seen, sent });
    }
    let measured = Measurement::of_rate(
        "fragment-split",
        "fragments/s",
        sent as f64,
        "a look at each datagram",
        compared,
    );
    Ok(measured
        .with("boards", boards)
        .with("payload_bytes", board.payload_bytes)
        .with("stream", board.stream)
        .with("checksum", board.checksum)
        .with("nanoseconds_per_fragment", compared.subject_s / sent as f64 * 1e9)
        .repeated(repeats))
}

/// Fragments per second that one core emulates, of so many boards in turn, against a copy of as many bytes.
///
/// # Errors
/// When no board can be like that.
pub fn emulate(boards: u16, settings: &emulate::Settings, repeats: usize) -> Result<Measurement, BenchError> {
    let mut boards = emulate::boards(BoardId(0), boards, settings)?;
    let (mut bytes, mut ends) = (Vec::with_capacity(BLOCK_BYTES), Vec::new());
    let triggers = FRAGMENTS / boards.len() as u64;
    let fragments = triggers * boards.len() as u64;
    let (source, mut copy) =
        (vec![0x5A; settings.payload_bytes as usize + 40], Vec::with_capacity(BLOCK_BYTES));
    let compared = compare(
        Clock::Wall,
        repeats,
        || {
            let begin = Instant::now();
            for number in 0..triggers {
                for board in &mut boards {
                    if bytes.len() > BLOCK_BYTES - 2 * source.len() {
                        black_box(bytes.as_ptr());
                        bytes.clear();
                        ends.clear();
                    }
                    board.answer(Trigger { number, time_ns: number * 10_000 }, &mut bytes, &mut ends);
                }
            }
            begin.elapsed()
        },
        || {
            let begin = Instant::now();
            for _ in 0..fragments {
                if copy.len() > BLOCK_BYTES - 2 * source.len() {
                    black_box(copy.as_ptr());
                    copy.clear();
                }
                copy.extend_from_slice(black_box(&source));
            }
            begin.elapsed()
        },
    );
    let name = "fragment-emulate";
    let measured =
        Measurement::of_rate(name, "fragments/s", fragments as f64, "copy of as many bytes", compared);
    Ok(measured
        .with("boards", boards.len())
        .with("payload_bytes", settings.payload_bytes)
        .with("checksum", settings.checksum)
        .repeated(repeats))
}
