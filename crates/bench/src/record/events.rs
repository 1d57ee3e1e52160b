//! Measures how fast events become files, against gathering the same bytes into one.
//!
//! ```text
//!  per source: |fragment|fragment|…| in blocks ──► Events ──► EventWriter ──► events.arrows, fragments.arrows
//!  the same blocks, one after the other ─────────► writev ──► file             baseline
//! ```

use std::fs::{self, File};
use std::io::{IoSlice, Write};
use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_data::measure::Measurement;
use thalweg_data::{Closing, Event, EventSink, Events, Fragment, Leases, Mark, Pool, Slice, SourceId};

use super::way::{Spent, Way};
use super::{default_directory, fresh};
use thalweg_record::begin_write_back;
use thalweg_record::directory::EventFiles;
use thalweg_record::event_writer::EventWriter;
use thalweg_record::settings::Settings;

/// Payload per turn.
const TURN_BYTES: usize = 1 << 30;
/// Payload that is there in turn: as much as receivers leave in the cache and a little more.
const SET_BYTES: usize = 8 << 20;
/// Least bytes of a source's block.
const BLOCK_BYTES: usize = 64 << 10;
/// Payload of an incoming batch.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes after which the baseline's write-back begins, as in a table's file.
const WRITE_BACK_BYTES: u64 = 8 << 20;

/// The shape of the bench's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventShape {
    /// Sources, each with one fragment per event.
    pub sources: usize,
    /// Bytes of each fragment.
    pub fragment_bytes: usize,
}

impl EventShape {
    /// 105 SiTCP boards, zero-suppressed.
    pub const MANY_SMALL: EventShape = EventShape { sources: 105, fragment_bytes: 380 };
    /// Eight boards with waveforms.
    pub const FEW_LARGE: EventShape = EventShape { sources: 8, fragment_bytes: 64_000 };

    fn event_bytes(self) -> usize {
        self.sources * self.fragment_bytes
    }

    /// Bytes of a source's block: several fragments, and less than its part of the set, so that no cut of the recording
    /// finds the set's end and its beginning in one block.
    fn block_bytes(self) -> usize {
        (4 * self.fragment_bytes).next_multiple_of(64).max(BLOCK_BYTES)
    }

    fn events_in(self, bytes: usize) -> usize {
        (bytes / self.event_bytes()).max(1)
    }
}

/// Every byte that is no noise.
const ALIKE: u8 = 3;

/// How many bytes of a payload are noise; the others are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noise {
    /// Every other one: upper bytes of samples are alike, lower ones are noise, about what boards send.
    Half,
    /// Three of ten.
    ThreeOfTen,
}

impl Noise {
    fn is_at(self, place: usize) -> bool {
        match self {
            Noise::Half => place.is_multiple_of(2),
            // In runs that a codec can leave as they are.
            Noise::ThreeOfTen => place % 60 < 18,
        }
    }
}

/// Events in blocks, and the bytes as the baseline writes them.
pub(crate) struct Example {
    pub batches: Vec<Events>,
    /// The slices that each batch names, in the order of memory.
    extents: Vec<Vec<Slice>>,
    events: usize,
}

/// Records events, uncompressed, `repeats` times.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record_events(shape: EventShape, repeats: usize) -> Measurement {
    record_events_in(&Way::free(&default_directory(), repeats, Settings::default()), shape)
}

/// Like [`record_events`], in another way.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record_events_in(way: &Way, shape: EventShape) -> Measurement {
    let directory = way.parent.join(format!("thalweg-bench-events-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("the directory of a bench can be written");
    let example = Example::new(shape, Noise::Half);
    let turns = TURN_BYTES.div_ceil(example.payload_bytes(shape));
    let mut file_bytes = 0;
    let compared = way.compare(
        || {
            let spent;
            (spent, file_bytes) = record_once(&directory, way, shape, &example, turns);
            spent
        },
        || write_once(&directory, way, &example, turns),
    );
    // A temporary directory that is not removed does no harm.
    let _ = fs::remove_dir_all(&directory);
    let payload = (turns * example.payload_bytes(shape)) as f64;
    let baseline = "sequential writev of the same blocks, uncompressed, with the same sync policy";
    let figure = Measurement::of_rate("record-events", "B/s", payload, baseline, compared.comparison)
        .with("sources", shape.sources)
        .with("fragment_bytes", shape.fragment_bytes)
        .with("events_per_s", (turns * example.events) as f64 / compared.comparison.subject_s)
        .with("file_bytes", file_bytes);
    way.described(figure, &compared, payload)
}

/// Records the example so many times; returns how long that took, and the bytes on file.
pub(super) fn record_once(
    directory: &Path,
    way: &Way,
    shape: EventShape,
    example: &Example,
    turns: usize,
) -> (Spent, u64) {
    let run = fresh(directory, TURN_BYTES);
    let names: Vec<String> = (0..shape.sources).map(|source| format!("board {source}")).collect();
    let files = EventFiles::in_directory(&run, None);
    let mut writer =
        EventWriter::create(&files, &way.settings, &names, false).expect("a fresh directory takes files");
    let mut pacer = way.pace.begin();
    for _ in 0..turns {
        for batch in &example.batches {
            pacer.wait_for(batch.events.len() * shape.event_bytes());
            writer.write(batch).expect("the disk of a bench has room");
        }
    }
    writer.finish().expect("the disk of a bench has room");
    let spent = pacer.spent();
    let bytes = writer.summaries().iter().map(|summary| summary.bytes).sum();
    drop(writer);
    let _ = fs::remove_dir_all(&run);
    (spent, bytes)
}

fn write_once(directory: &Path, way: &Way, example: &Example, turns: usize) -> Spent {
    let run = fresh(directory, TURN_BYTES);
    let mut file = File::create(run.join("bytes")).expect("a fresh directory takes files");
    let (mut written, mut settled) = (0u64, 0u64);
    let mut pacer = way.pace.begin();
    for _ in 0..turns {
        for (batch, extents) in example.batches.iter().zip(&example.extents) {
            let bytes = extents.iter().map(|extent| batch.leases.bytes(*extent));
            let mut parts: Vec<IoSlice<'_>> = bytes.map(IoSlice::new).collect();
            let length = parts.iter().map(|part| part.len()).sum::<usize>();
            pacer.wait_for(length);
            written += length as u64;
            write_all(&mut file, &mut parts);
            if written - settled >= WRITE_BACK_BYTES {
                begin_write_back(&file, settled, written - settled);
                settled = written;
            }
        }
    }
    file.sync_data().expect("the disk of a bench works");
    let spent = pacer.spent();
    drop(file);
    let _ = fs::remove_dir_all(&run);
    spent
}

fn write_all(file: &mut File, parts: &mut [IoSlice<'_>]) {
    let mut rest = parts;
    while !rest.is_empty() {
        let written = file.write_vectored(rest).expect("the disk of a bench has room");
        IoSlice::advance_slices(&mut rest, written);
    }
}

impl Example {
    pub fn new(shape: EventShape, noise: Noise) -> Example {
        let events = shape.events_in(SET_BYTES);
        let blocks_each = events.div_ceil(shape.block_bytes() / shape.fragment_bytes);
        let pool = Pool::new(shape.sources * blocks_each, shape.block_bytes()).expect("a few hundred blocks");
        let (slices, leases) = fill(&pool, shape, events, noise);
        let per_batch = shape.events_in(BATCH_BYTES);
        let (mut batches, mut extents) = (Vec::new(), Vec::new());
        for first in (0..events).step_by(per_batch) {
            let range = first..events.min(first + per_batch);
            let batch = batch_of(shape, &slices, &leases, range.clone());
            // In the order of memory: a source's fragments are neighbours.
            let own = slices.iter().flat_map(|of_source| joined(&of_source[range.clone()]));
            extents.push(own.collect());
            batches.push(batch);
        }
        Example { batches, extents, events }
    }

    /// Payload of all events.
    pub fn payload_bytes(&self, shape: EventShape) -> usize {
        self.events * shape.event_bytes()
    }
}

/// Per source the slices of its fragments, as they lie one after the other.
fn fill(pool: &Pool, shape: EventShape, events: usize, noise: Noise) -> (Vec<Vec<Slice>>, Leases) {
    let (mut all, mut leases) = (Vec::new(), Leases::default());
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for _ in 0..shape.sources {
        let mut block = pool.take().expect("blocks were counted");
        let mut slices = Vec::with_capacity(events);
        for _ in 0..events {
            if block.remaining() < shape.fragment_bytes {
                block = pool.take().expect("blocks were counted");
            }
            let bytes = &mut block.tail()[..shape.fragment_bytes];
            random.fill_bytes(bytes);
            let others = bytes.iter_mut().enumerate().filter(|(place, _)| !noise.is_at(*place));
            others.for_each(|(_, byte)| *byte = ALIKE);
            slices.push(block.publish(shape.fragment_bytes));
            leases.add(block.lease());
        }
        all.push(slices);
    }
    (all, leases)
}

fn batch_of(
    shape: EventShape,
    slices: &[Vec<Slice>],
    leases: &Leases,
    range: std::ops::Range<usize>,
) -> Events {
    let mut batch = Events::default();
    for event in range {
        let trigger = event as u64;
        batch.events.push(Event {
            trigger,
            first_arrival: Mark(trigger * 1000),
            closed: Mark(trigger * 1000 + 500),
            bytes: shape.event_bytes() as u64,
            first_fragment: batch.fragments.len() as u32,
            fragments: shape.sources as u32,
            closing: Closing::Complete,
            ..Event::default()
        });
        for (source, own) in slices.iter().enumerate() {
            let (bytes, source) = (shape.fragment_bytes as u32, SourceId(source as u16));
            batch.fragments.push(Fragment { trigger, ticks: trigger, bytes, source, slices: 1 });
            batch.slices.push(own[event]);
            batch.leases.add_for(own[event], leases);
        }
    }
    batch
}

/// Slices that touch, as one.
fn joined(slices: &[Slice]) -> Vec<Slice> {
    let mut extents: Vec<Slice> = Vec::new();
    for slice in slices {
        match extents.last_mut() {
            Some(last) if last.block == slice.block && last.end() == slice.offset as usize => {
                last.length += slice.length;
            }
            _ => extents.push(*slice),
        }
    }
    extents
}
