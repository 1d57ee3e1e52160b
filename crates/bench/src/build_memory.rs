//! Measures the cost of building per fragment, with fragments already in memory, for few sources and many.
//!
//! ```text
//!  fill the batches of all sources (not counted) ─► insert each · pull … ─► counted
//!                                        the same ─► bare table           the baseline
//! ```
//! The bare table does what cannot be avoided: it writes each fragment's place into an array and counts per trigger. It
//! knows no duplicates, no losses, no order, and gives nothing out.

use std::hint::black_box;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::{Events, Fragment, Fragments, Mark, Pool, PoolError, Slice, SourceId};

use thalweg_build::{Builder, Settings};

/// Numbers of sources that are measured.
pub const SOURCES: [u16; 5] = [2, 8, 105, 265, 512];
/// Bytes of a fragment: a zero-suppressed board's.
const FRAGMENT_BYTES: usize = 380;
const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS_PER_SOURCE: usize = 2;
/// Fragments that are filled, and then inserted, at a time.
const ROUND: usize = 8192;
/// Fragments per repeat.
const REPEAT: usize = 2_000_000;

/// The order in which fragments come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Each source is a stream, read for several triggers at a time.
    Streams,
    /// All sources send for one trigger, then for the next, to one socket.
    Synchronous,
}

impl Arrival {
    /// Both.
    pub const ALL: [Arrival; 2] = [Arrival::Streams, Arrival::Synchronous];

    /// The word for it in the results.
    pub fn word(self) -> &'static str {
        match self {
            Arrival::Streams => "streams",
            Arrival::Synchronous => "synchronous",
        }
    }
}

/// Measures building on one core: nanoseconds per fragment, insert and gather together, for every number of sources.
///
/// # Errors
/// When memory is short.
pub fn build_memory(repeats: usize) -> Result<Vec<Measurement>, PoolError> {
    let each = Arrival::ALL.into_iter().flat_map(|arrival| SOURCES.map(|sources| (arrival, sources)));
    each.map(|(arrival, sources)| build_memory_of(sources, arrival, repeats)).collect()
}

/// Measures building of so many sources.
///
/// # Errors
/// When memory is short.
///
/// # Panics
/// When not every event comes out whole: the measurement would be of something else.
pub fn build_memory_of(sources: u16, arrival: Arrival, repeats: usize) -> Result<Measurement, PoolError> {
    let mut feed = Feed::new(sources, arrival)?;
    let mut subject = Subject::new(sources, &feed);
    let mut table = Table::new(sources);
    let mut own = Feed::new(sources, arrival)?;
    let fragments = feed.fragments_per_repeat();
    let compared = compare(Clock::Wall, repeats, || subject.repeat(&mut feed), || table.repeat(&mut own));
    let built = subject.events * u64::from(sources);
    assert!(built == (repeats.max(1) as u64 + 1) * fragments, "every fragment is built");
    let per_fragment = |seconds: f64| seconds * 1e9 / fragments as f64;
    let mut measured = Measurement::of_rate(
        "build-memory",
        "ns/fragment",
        1.0,
        "bare table over the same fragments",
        compared,
    );
    (measured.value, measured.baseline_value) =
        (per_fragment(compared.subject_s), per_fragment(compared.baseline_s));
    Ok(measured
        .with("sources", sources)
        .with("arrival", arrival.word())
        .with("triggers_per_batch", feed.triggers)
        .with("fragments_per_repeat", fragments)
        .with("depth", Settings::default().depth)
        .repeated(repeats))
}

/// Fragments of all sources, filled again and again with their trigger numbers moved on.
struct Feed {
    _pool: Pool,
    /// Each source's slices, which go round.
    slices: Vec<Vec<Slice>>,
    batches: Vec<Fragments>,
    arrival: Arrival,
    /// Triggers per round.
    triggers: usize,
    next_trigger: u64,
}

impl Feed {
    fn new(sources: u16, arrival: Arrival) -> Result<Feed, PoolError> {
        let pool = Pool::new(usize::from(sources) * BLOCKS_PER_SOURCE, BLOCK_BYTES)?;
        let mut slices = vec![Vec::new(); usize::from(sources)];
        let per_batch = match arrival {
            Arrival::Streams => 1,
            Arrival::Synchronous => usize::from(sources),
        };
        let mut batches: Vec<Fragments> =
            (0..usize::from(sources) / per_batch).map(|_| Fragments::default()).collect();
        for (source, own) in slices.iter_mut().enumerate() {
            for mut writer in (0..BLOCKS_PER_SOURCE).map_while(|_| pool.take()) {
                batches[source / per_batch].leases.add(writer.lease());
                own.extend(std::iter::from_fn(|| writer.append(&[source as u8; FRAGMENT_BYTES])));
            }
        }
        let triggers = (ROUND / usize::from(sources)).min(Settings::default().depth / 8);
        Ok(Feed { _pool: pool, slices, batches, arrival, triggers, next_trigger: 0 })
    }

    fn rounds(&self) -> usize {
        REPEAT / (self.triggers * self.slices.len())
    }

    fn fragments_per_repeat(&self) -> u64 {
        (self.rounds() * self.triggers * self.slices.len()) as u64
    }

    fn fill(&mut self) {
        let (first, sources) = (self.next_trigger, self.slices.len());
        self.next_trigger += self.triggers as u64;
        for batch in &mut self.batches {
            batch.fragments.clear();
            batch.slices.clear();
            batch.header.mark = Mark(first * 1000);
        }
        let mut add = |batch: usize, source: usize, trigger: u64| {
            let (batch, own) = (&mut self.batches[batch], &self.slices[source]);
            let bytes = FRAGMENT_BYTES as u32;
            let id = SourceId(source as u16);
            batch.fragments.push(Fragment { trigger, ticks: trigger, bytes, source: id, slices: 1 });
            batch.slices.push(own[trigger as usize % own.len()]);
        };
        match self.arrival {
            Arrival::Streams => (0..sources).for_each(|source| {
                (first..self.next_trigger).for_each(|trigger| add(source, source, trigger));
            }),
            Arrival::Synchronous => (first..self.next_trigger).for_each(|trigger| {
                (0..sources).for_each(|source| add(0, source, trigger));
            }),
        }
    }

    /// Fills and has taken what makes one repeat; the time that taking costs.
    fn repeat(&mut self, mut take: impl FnMut(&[Fragments])) -> Duration {
        let mut spent = Duration::ZERO;
        for _ in 0..self.rounds() {
            self.fill();
            let begin = Instant::now();
            take(&self.batches);
            spent += begin.elapsed();
        }
        spent
    }
}

/// The builder under measurement.
struct Subject {
    builder: Builder,
    out: Events,
    most_events: usize,
    events: u64,
}

impl Subject {
    fn new(sources: u16, feed: &Feed) -> Subject {
        let settings = Settings { first_trigger: Some(0), ..Settings::default() };
        let mut builder = Builder::new(&settings, 0..sources).expect("the defaults are possible");
        builder.start_run(1);
        Subject { builder, out: Events::default(), most_events: feed.triggers, events: 0 }
    }

    fn repeat(&mut self, feed: &mut Feed) -> Duration {
        let Subject { builder, out, most_events, events } = self;
        feed.repeat(|batches| {
            for batch in batches {
                let taken = builder.insert(batch);
                assert!(taken == batch.fragments.len(), "there is space");
            }
            while builder.pull(out, *most_events) {
                *events += out.events.len() as u64;
                assert!(out.missing.is_empty());
                black_box(out.fragments.as_ptr());
                out.clear();
            }
        })
    }
}

/// The trigger of a fragment, its ticks, and its position.
type Place = (u64, u64, Slice);

/// The baseline.
struct Table {
    places: Vec<Place>,
    answers: Vec<u32>,
    sources: u32,
    complete: u64,
}

impl Table {
    fn new(sources: u16) -> Table {
        let depth = Settings::default().depth;
        Table {
            places: vec![Place::default(); usize::from(sources) * (depth + 2)],
            answers: vec![0; depth],
            sources: u32::from(sources),
            complete: 0,
        }
    }

    fn repeat(&mut self, feed: &mut Feed) -> Duration {
        let depth = self.answers.len();
        feed.repeat(|batches| {
            for (fragment, slice) in
                batches.iter().flat_map(|batch| batch.fragments.iter().zip(&batch.slices))
            {
                let row = fragment.trigger as usize & (depth - 1);
                let (trigger, ticks) = (fragment.trigger, fragment.ticks);
                self.places[fragment.source.index() * (depth + 2) + row] = (trigger, ticks, *slice);
                self.answers[row] += 1;
                if self.answers[row] == self.sources {
                    self.answers[row] = 0;
                    self.complete += 1;
                }
            }
            black_box(self.places.as_ptr());
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_is_built() {
        for arrival in Arrival::ALL {
            let measured = build_memory_of(8, arrival, 1).expect("memory");
            assert!(measured.value > 0.0 && measured.baseline_value > 0.0);
        }
    }
}
