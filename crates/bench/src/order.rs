//! Measures how fast time order is: eight boards through the whole stage, compared with copying their hits.
//!
//! ```text
//!  prepared streams ─ fill a batch (not counted) ─► push · pull · pull …   counted
//!                     fill a batch (not counted) ─► copy into a batch      the baseline
//! ```
//! Batches are filled just before they are pushed, as by a decoder on the same core, and are as long as a decoder
//! makes them: full, or what came in 20 ms. The baseline holds one batch per board, too, before it copies.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::{Hit, Hits, Mark, SourceId};

use thalweg_order::{Late, Pushed, Settings, TimeOrder};

/// Boards in every distribution.
const BOARDS: usize = 8;
/// Hits per batch, in and out.
const BATCH_HITS: usize = 8192;
/// Length of the prepared streams; they are fed again and again with their times moved on.
const PERIOD_PS: i64 = 100_000_000_000;
/// The number of times that the streams are fed in one repeat.
const PERIODS: i64 = 8;
/// A batch is pushed after this time even when it is not full.
const LONGEST_WAIT_PS: i64 = 20_000_000_000;
/// The largest distance by which a disordered hit lies back.
const DISORDER_PS: i64 = 500_000;

/// The distribution of the boards' hits in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Every board at the same mean rate, independently.
    Uniform,
    /// Bursts of some hundred hits 2 ns apart, half of them in all boards at once, half in one alone, and nothing
    /// between.
    Bursty,
    /// Three boards with a hundred times the rate of four others, one hit in five out of order, and a board without hits.
    Unequal,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 3] = [Distribution::Uniform, Distribution::Bursty, Distribution::Unequal];

    /// The word for it in the results.
    pub fn word(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Bursty => "bursty",
            Distribution::Unequal => "unequal",
        }
    }
}

/// Measures time order on one core; each repeat orders tens of millions of hits. One time order goes through all
/// repeats, as through a run: what it waits for and allocates at the start is in the first, which is not counted.
///
/// # Panics
/// When not every hit comes out: the measurement would be of something else.
pub fn order(distribution: Distribution, repeats: usize) -> Measurement {
    let streams = Streams::new(distribution);
    let mut subject = Subject::new(streams.disorder_ps);
    let comparison = compare(Clock::Wall, repeats, || subject.repeat(&streams), || streams.through_copy());
    subject.finish();
    let hits = streams.hits_per_repeat();
    Measurement::of_rate("order", "hits/s", hits as f64, "copying the hits", comparison)
        .with("distribution", distribution.word())
        .with("boards", BOARDS)
        .with("batch_hits", BATCH_HITS)
        .with("hits_per_repeat", hits)
        .repeated(repeats)
}

/// One batch to be fed: whose, which of its hits, when.
struct Feeding {
    at_ps: i64,
    board: usize,
    first: usize,
    until: usize,
}

/// One period of hits of every board, and the order in which its batches arrive.
struct Streams {
    boards: Vec<Vec<Hit>>,
    feedings: Vec<Feeding>,
    disorder_ps: u64,
}

impl Streams {
    fn new(distribution: Distribution) -> Streams {
        let mut random = Pcg64Mcg::seed_from_u64(0x7468_616c_7765_6721);
        let boards: Vec<Vec<Hit>> = match distribution {
            Distribution::Uniform => (0..BOARDS).map(|_| poisson(200_000.0, &mut random)).collect(),
            Distribution::Bursty => bursts(&mut random),
            Distribution::Unequal => [100, 1, 1, 100, 1, 1, 100, 0]
                .into_iter()
                .map(|share| match share {
                    0 => Vec::new(),
                    share => disorder(poisson(7_500_000.0 / f64::from(share), &mut random), &mut random),
                })
                .collect(),
        };
        let mut feedings: Vec<Feeding> =
            boards.iter().enumerate().flat_map(|(board, hits)| batches(board, hits)).collect();
        feedings.sort_by_key(|feeding| (feeding.at_ps, feeding.board));
        let disorder_ps = if distribution == Distribution::Unequal { DISORDER_PS as u64 } else { 0 };
        Streams { boards, feedings, disorder_ps }
    }

    fn hits_per_repeat(&self) -> usize {
        self.boards.iter().map(Vec::len).sum::<usize>() * PERIODS as usize
    }

    /// Fills a batch for every feeding and gives it to `stage`; the time that `stage` takes.
    fn feed(&self, first_period: i64, batch: &mut Hits, mut stage: impl FnMut(&mut Hits)) -> Duration {
        let mut spent = Duration::ZERO;
        for period in first_period..first_period + PERIODS {
            for feeding in &self.feedings {
                let offset_ps = period * PERIOD_PS;
                let hits = &self.boards[feeding.board][feeding.first..feeding.until];
                batch.hits.extend(hits.iter().map(|hit| Hit { time_ps: hit.time_ps + offset_ps, ..*hit }));
                batch.header.source = SourceId(feeding.board as u16);
                batch.header.mark = Mark(((feeding.at_ps + offset_ps) / 1000) as u64);
                let start = Instant::now();
                stage(batch);
                spent += start.elapsed();
            }
        }
        spent
    }

    /// Copies every batch after as many others have come as time order has to hold.
    fn through_copy(&self) -> Duration {
        let mut held: VecDeque<Hits> = (0..BOARDS).map(|_| Hits::with_capacity(BATCH_HITS)).collect();
        let (mut batch, mut out) = (Hits::with_capacity(BATCH_HITS), Hits::with_capacity(BATCH_HITS));
        self.feed(0, &mut batch, |batch| {
            held.push_back(std::mem::take(batch));
            *batch = held.pop_front().expect("as many are held as before");
            out.clear();
            out.hits.extend_from_slice(&batch.hits);
            std::hint::black_box(&mut out);
            batch.clear();
        })
    }
}

/// Time order under measurement, with the batches that go round.
struct Subject {
    order: TimeOrder,
    batch: Hits,
    out: Hits,
    next_period: i64,
    fed: usize,
    came_out: usize,
}

impl Subject {
    fn new(disorder_ps: u64) -> Subject {
        // Late hits would be dropped, and found missing at the end.
        let settings = Settings { stall_ms: 50, disorder_ps, late: Late::Drop, ..Settings::default() };
        Subject {
            order: TimeOrder::new(&settings, BOARDS, BATCH_HITS),
            batch: Hits::with_capacity(BATCH_HITS),
            out: Hits::with_capacity(BATCH_HITS),
            next_period: 0,
            fed: 0,
            came_out: 0,
        }
    }

    fn repeat(&mut self, streams: &Streams) -> Duration {
        let Subject { order, batch, out, next_period, fed, came_out } = self;
        let spent = streams.feed(*next_period, batch, |batch| {
            let taken = order.push(batch).expect("feedings are in order");
            assert!(taken == Pushed::Taken, "the memory suffices");
            while order.pull(out) {
                *came_out += out.hits.len();
            }
        });
        *next_period += PERIODS;
        *fed += streams.hits_per_repeat();
        spent
    }

    fn finish(mut self) {
        let mark = self.order.mark();
        for board in 0..BOARDS {
            self.batch.header.source = SourceId(board as u16);
            self.batch.header.mark = mark;
            self.batch.header.mark.0 += 1;
            self.batch.header.end = true;
            let taken = self.order.push(&mut self.batch).expect("every board ends once");
            assert!(taken == Pushed::Taken, "an end needs no memory");
            while self.order.pull(&mut self.out) {
                self.came_out += self.out.hits.len();
            }
        }
        assert!(self.came_out == self.fed, "every hit comes out");
    }
}

fn hit(time_ps: i64) -> Hit {
    Hit { time_ps, channel: 5, energy: 1000, energy_short: 700, ..Hit::default() }
}

fn gap_ps(mean_ps: f64, random: &mut Pcg64Mcg) -> i64 {
    (-mean_ps * (1.0 - random.random::<f64>()).ln()) as i64
}

fn poisson(mean_ps: f64, random: &mut Pcg64Mcg) -> Vec<Hit> {
    let next = |time_ps: &i64| Some(time_ps + gap_ps(mean_ps, random));
    std::iter::successors(Some(0), next).take_while(|time_ps| *time_ps < PERIOD_PS).map(hit).collect()
}

fn bursts(random: &mut Pcg64Mcg) -> Vec<Vec<Hit>> {
    let mut boards = vec![Vec::new(); BOARDS];
    let mut now = 0;
    while now < PERIOD_PS {
        let (first, until) = if random.random::<bool>() {
            (0, BOARDS)
        } else {
            let board = random.random_range(0..BOARDS);
            (board, board + 1)
        };
        for board in &mut boards[first..until] {
            let mut time_ps = now + gap_ps(100_000.0, random);
            for _ in 0..random.random_range(50..500) {
                time_ps += gap_ps(2_000.0, random);
                board.push(hit(time_ps));
            }
        }
        now += 2_000_000 + gap_ps(20_000_000.0, random);
    }
    boards.iter_mut().for_each(|board| {
        board.sort_by_key(|hit| hit.time_ps);
        board.retain(|hit| hit.time_ps < PERIOD_PS);
    });
    boards
}

fn disorder(mut hits: Vec<Hit>, random: &mut Pcg64Mcg) -> Vec<Hit> {
    for hit in &mut hits {
        if random.random_range(0..5) == 0 {
            hit.time_ps -= random.random_range(0..DISORDER_PS);
        }
    }
    hits
}

/// Cuts one board's hits into batches, each arriving with its last hit.
fn batches(board: usize, hits: &[Hit]) -> Vec<Feeding> {
    let mut feedings = Vec::new();
    let (mut first, mut opened_ps) = (0, 0);
    for (index, hit) in hits.iter().enumerate() {
        let waited = hit.time_ps - opened_ps >= LONGEST_WAIT_PS;
        if waited || index - first == BATCH_HITS || index + 1 == hits.len() {
            let until = if index + 1 == hits.len() { index + 1 } else { index };
            let at_ps = hit.time_ps.clamp(0, PERIOD_PS - 1);
            feedings.push(Feeding { at_ps, board, first, until });
            (first, opened_ps) = (until, hit.time_ps);
        }
    }
    feedings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_feeds_all_its_hits_in_order() {
        for distribution in Distribution::ALL {
            let streams = Streams::new(distribution);
            assert!(streams.hits_per_repeat() > 10_000_000);
            let fed: usize = streams.feedings.iter().map(|feeding| feeding.until - feeding.first).sum();
            assert_eq!(fed * PERIODS as usize, streams.hits_per_repeat());
        }
    }
}
