//! `path`: from received bytes in memory to a file, everything on one core.
//!
//! ```text
//!  datagrams of 4 boards, in blocks ─► unpack ─► decode ─► time order ─► Arrow file
//!  baseline: a copy of the same bytes
//! ```
//! What is left out is the receive call alone; that is `receive-udp`, and `live` has it all.

use std::path::Path;
use std::time::{Duration, Instant};

use thalweg_data::batch::Header;
use thalweg_data::measure::{Clock, Measurement, PAGE_BYTES, compare, half_a_page_apart};
use thalweg_data::{Frames, Hits, Mark, Pool, Sink, SourceId, Unit};
use thalweg_frontend::digitizer2::emulate::{Board, Settings as BoardSettings, settings::Rates};
use thalweg_frontend::self_triggered::{Outgoing, SelfTriggeredBoard};
use thalweg_order::{Pushed, TimeOrder};
use thalweg_record::HitWriter;

use super::reader::Reader;
use super::{BenchError, Conditions};
use thalweg_run::bench::OUTPUT_HITS;

const BOARDS: u16 = 4;
const SHAPE: Shape = Shape { boards: BOARDS, board_rate_hz: 10e6, seconds: 0.25, prepared: true };
const BATCH_BYTES: usize = 256 << 10;
/// Most bytes of one unit of a board.
pub(super) const LARGEST_UNIT_BYTES: u64 = 1 << 20;

/// Runs the bench.
pub(super) fn path(conditions: &Conditions) -> Result<Measurement, BenchError> {
    let fail = |message: String| BenchError::Room { bench: "path", message };
    let input = Input::new(SHAPE).map_err(fail)?;
    let folder = conditions.folder();
    let mut failure = None;
    let mut copied = input.room_for_copy();
    let comparison = compare(
        Clock::Wall,
        conditions.repeats,
        || match input.run(&folder) {
            Ok(time) => time,
            Err(message) => {
                failure = Some(message);
                Duration::from_secs(1)
            }
        },
        || input.copy(&mut copied),
    );
    if let Some(message) = failure {
        return Err(fail(message));
    }
    Ok(Measurement::of_rate("path", "hits/s", input.hits as f64, "copy of the received bytes", comparison)
        .repeated(conditions.repeats)
        .with("boards", BOARDS)
        .with("hits", input.hits)
        .with("bytes", input.bytes)
        .with("directory", folder.display().to_string()))
}

/// The boards, and the time for which they send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub boards: u16,
    pub board_rate_hz: f64,
    pub seconds: f64,
    /// Hits out of a ring, which says nothing of other boards; otherwise each is computed, coincidences with them.
    pub prepared: bool,
}

/// Datagrams as the receive stage would hand them over: batches in turn from each board.
pub(super) struct Input {
    pub batches: Vec<Frames>,
    pub hits: u64,
    pub bytes: usize,
}

impl Input {
    pub fn new(shape: Shape) -> Result<Input, String> {
        let per_board = (shape.board_rate_hz * shape.seconds * 18.0) as usize / BATCH_BYTES + 2;
        let pool = Pool::new(per_board * usize::from(shape.boards), BATCH_BYTES + (64 << 10))
            .map_err(|error| error.to_string())?;
        let mut batches = Vec::new();
        let mut hits = 0;
        for board in 0..shape.boards {
            let mut board_batches = Vec::new();
            hits += fill(board, shape, &pool, &mut board_batches)?;
            batches
                .extend(board_batches.into_iter().enumerate().map(|(index, frames)| (index, board, frames)));
        }
        batches.sort_by_key(|(index, board, _)| (*index, *board));
        // They are as far apart as they would come.
        let batch_seconds = shape.seconds * f64::from(shape.boards) / batches.len().max(1) as f64;
        let batches: Vec<Frames> = batches
            .into_iter()
            .map(|(index, board, mut frames)| {
                let mark = Mark((index as f64 * batch_seconds * 1e9) as u64);
                frames.header = Header { source: SourceId(board), mark, ..Header::default() };
                frames
            })
            .collect();
        let mut batches = batches;
        for board in 0..shape.boards {
            let last = batches.iter_mut().rev().find(|frames| frames.header.source == SourceId(board));
            last.into_iter().for_each(|frames| frames.header.end = true);
        }
        let bytes = batches.iter().map(|frames| frames.byte_count() as usize).sum();
        Ok(Input { batches, hits, bytes })
    }

    /// Room for [`Input::copy`].
    pub fn room_for_copy(&self) -> Vec<u8> {
        vec![0; self.bytes + self.batches.len() * PAGE_BYTES]
    }

    /// Copies all bytes; the baseline.
    pub fn copy(&self, into: &mut [u8]) -> Duration {
        let start = Instant::now();
        let mut at = 0;
        for frames in &self.batches {
            if let Some(first) = frames.slices.first() {
                at += half_a_page_apart(&into[at..], frames.bytes(*first));
            }
            for slice in &frames.slices {
                let bytes = frames.bytes(*slice);
                into[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            }
        }
        std::hint::black_box(&into);
        start.elapsed()
    }

    /// The whole path over all batches; returns its time, the file's closing included.
    fn run(&self, folder: &Path) -> Result<Duration, String> {
        let folder = folder.join(format!("thalweg-path-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let result = self.run_in(&folder);
        let cleaned =
            std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()));
        result.and_then(|time| cleaned.map(|()| time))
    }

    fn run_in(&self, folder: &Path) -> Result<Duration, String> {
        let names: Vec<String> = (0..BOARDS).map(|board| format!("board-{board}")).collect();
        let mut reader = Reader::new(0..BOARDS)?;
        let mut order = TimeOrder::new(&thalweg_order::Settings::default(), usize::from(BOARDS), OUTPUT_HITS);
        let mut writer = HitWriter::create(folder, &thalweg_record::Settings::default(), &names)
            .map_err(|error| error.to_string())?;
        let (mut hits, mut merged) = (Hits::default(), Hits::default());
        let start = Instant::now();
        for frames in &self.batches {
            reader.read(frames, &mut hits);
            if order.push(&mut hits).map_err(|error| error.to_string())? == Pushed::Full {
                return Err("the memory for ordering is too small for this bench".to_owned());
            }
            hits.clear();
            while order.pull(&mut merged) {
                writer.write(&merged).map_err(|error| error.to_string())?;
                merged.clear();
            }
        }
        writer.finish().map_err(|error| error.to_string())?;
        let time = start.elapsed();
        let recorded: u64 =
            (0..BOARDS).map(|board| writer.counters(SourceId(board)).total_output(Unit::Hits)).sum();
        if recorded != self.hits {
            return Err(format!("{recorded} of {} hits were recorded", self.hits));
        }
        Ok(time)
    }
}

/// One board's datagrams in blocks; returns its hits.
fn fill(board: u16, shape: Shape, pool: &Pool, batches: &mut Vec<Frames>) -> Result<u64, String> {
    let settings = BoardSettings {
        board,
        boards: shape.boards,
        prepared: shape.prepared,
        rate_hz: Rates::Each(shape.board_rate_hz / 64.0),
        start_stop_events: false,
        ..BoardSettings::default()
    };
    let mut source = Board::new(settings).map_err(|error| error.to_string())?;
    source.arm().and_then(|()| source.start(0)).map_err(|error| error.to_string())?;
    let mut out = Outgoing::new(BATCH_BYTES);
    loop {
        let more = source.produce((shape.seconds * 1e9) as u64, &mut out);
        let mut frames = Frames::default();
        let mut writer = pool.take().ok_or("the bench's pool is too small")?;
        for datagram in out.datagrams() {
            frames.slices.push(writer.append(datagram).ok_or("a batch is longer than its block")?);
        }
        frames.leases.add(writer.lease());
        batches.push(frames);
        out.clear();
        if !more {
            return Ok(source.totals().hits);
        }
    }
}
