//! `order --workers N`: decoding on N threads and time order on a tree of threads, what each thread costs, and what they would do together
//! on cores of their own.
//!
//! ```text
//!  boards 0 1 ─► decode ═╗
//!  boards 2 3 ─► decode ═╩═► time order ═╗
//!  boards 4 5 ─► decode ═╦═► time order ═╩═► time order ─► all hits      the subject
//!  boards 6 7 ─► decode ═╝
//!  baseline: the same decoding, and one time order of all boards
//! ```
//! Every thread's processor time is measured while all of them run, with the rings between them, so that what it costs to take hits from
//! another core's cache is counted. The figure is that of the slowest thread: what so many cores would do if nothing else were on them.
//! A machine with fewer cores takes the threads in turn, and what they do to each other's caches then is counted, too.

use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{Hits, SourceId};
use thalweg_order::{Late, Pushed, Settings, TimeOrder};
use thalweg_run::bench::OUTPUT_HITS;
use thalweg_transport::thread_cpu_time;

use super::path::{Input, Shape};
use super::reader::{DECODED_BATCHES, Reader, WAIT};
use super::{BenchError, Conditions, Measured};

const SHAPE: Shape = Shape { boards: 8, board_rate_hz: 5e6, seconds: 0.5, prepared: false };
/// Threads whose hits one time order of the tree merges.
const FAN_IN: usize = 2;

type Spent = Result<Duration, String>;

/// Processor time of every thread.
#[derive(Clone, Debug, Default)]
struct Turn {
    decode: Vec<Duration>,
    /// By level of the tree, from the decoders on.
    order: Vec<Vec<Duration>>,
}

impl Turn {
    fn threads(&self) -> impl Iterator<Item = &Duration> {
        self.decode.iter().chain(self.order.iter().flatten())
    }

    fn slowest(&self) -> Duration {
        self.threads().max().copied().unwrap_or_default()
    }
}

/// Runs the bench with so many decoding threads: 1, 2, 4 or 8.
pub(super) fn order_tree(conditions: &Conditions, workers: u16) -> Result<Measured, BenchError> {
    let fail = |message: String| BenchError::Room { bench: "order", message };
    let input = Input::new(SHAPE).map_err(fail)?;
    let mut failure = None;
    let mut turn = |fan_in: usize| {
        let turn = std::thread::scope(|scope| run(&input, workers, fan_in, scope));
        turn.unwrap_or_else(|message| {
            failure = Some(message);
            Turn::default()
        })
    };
    let turn = std::cell::RefCell::new(&mut turn);
    let (mut last, mut last_of_one) = (Turn::default(), Turn::default());
    let comparison = compare(
        Clock::Processor,
        conditions.repeats,
        || {
            last = turn.borrow_mut()(FAN_IN);
            last.slowest()
        },
        || {
            last_of_one = turn.borrow_mut()(usize::MAX);
            last_of_one.slowest()
        },
    );
    if let Some(message) = failure {
        return Err(fail(message));
    }
    let ns_per_hit =
        |times: &[Duration]| times.iter().sum::<Duration>().as_nanos() as f64 / input.hits as f64;
    let levels = |turn: &Turn| turn.order.iter().map(|level| ns_per_hit(level)).collect::<Vec<f64>>();
    let slowest: Vec<f64> = last.order.iter().map(|level| slowest_ns(level, input.hits)).collect();
    Ok(Measurement::of_rate("order", "hits/s", input.hits as f64, "one time order of all boards", comparison)
        .repeated(conditions.repeats)
        .with("workers", workers)
        .with("boards", SHAPE.boards)
        .with("hits", input.hits)
        .with("threads", last.threads().count())
        .with("decode_ns_per_hit", ns_per_hit(&last.decode))
        .with("order_ns_per_hit_by_level", levels(&last))
        .with("slowest_order_thread_ns_by_level", slowest)
        .with("slowest_decode_thread_ns", slowest_ns(&last.decode, input.hits))
        .with("one_order_thread_ns_per_hit", levels(&last_of_one))
        .into())
}

/// The time of the slowest of some threads, by all hits.
fn slowest_ns(times: &[Duration], hits: u64) -> f64 {
    times.iter().max().map_or(0.0, |time| time.as_nanos() as f64 / hits as f64)
}

/// The decoders and a tree of time orders, each of which merges up to `fan_in` threads.
fn run<'s, 'e: 's>(
    input: &'e Input,
    workers: u16,
    fan_in: usize,
    scope: &'s Scope<'s, 'e>,
) -> Result<Turn, String> {
    let boards = SHAPE.boards;
    let each = boards / workers;
    let mut decode = Vec::new();
    let mut branches = Vec::new();
    for first in (0..boards).step_by(usize::from(each)) {
        let (outlet, inlet) = circuit(DECODED_BATCHES, Hits::default);
        let reader = Reader::new(first..first + each)?;
        decode.push(scope.spawn(move || {
            let start = thread_cpu_time();
            reader.read_all(&input.batches, outlet);
            Ok(thread_cpu_time() - start)
        }));
        branches.push(Branch { inlet, sources: first..first + each });
    }
    let mut order = Vec::new();
    loop {
        let mut level = Vec::new();
        let mut next = Vec::new();
        let is_top = branches.len() <= fan_in;
        while !branches.is_empty() {
            let own: Vec<Branch> = branches.drain(..branches.len().min(fan_in)).collect();
            let number = next.len() as u16;
            let (outlet, inlet) = circuit(DECODED_BATCHES, || Hits::with_capacity(OUTPUT_HITS));
            next.push(Branch { inlet, sources: number..number + 1 });
            let outlet = (!is_top).then_some((outlet, SourceId(number)));
            level.push(scope.spawn(move || Node::new(own, outlet).run(input.hits)));
        }
        order.push(level);
        branches = next;
        if is_top {
            break;
        }
    }
    Ok(Turn { decode: joined(decode)?, order: order.into_iter().map(joined).collect::<Result<_, _>>()? })
}

fn joined(threads: Vec<ScopedJoinHandle<'_, Spent>>) -> Result<Vec<Duration>, String> {
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
        .collect()
}

/// Hits that come in order by their marks, of these sources.
struct Branch {
    inlet: Downstream<Hits>,
    sources: std::ops::Range<u16>,
}

/// One time order of the tree, on its thread.
struct Node {
    branches: Vec<Branch>,
    /// The next batch of each branch.
    waiting: Vec<Option<Hits>>,
    order: TimeOrder,
    first: u16,
    /// Where its hits go, as those of which source; nowhere at the top.
    outlet: Option<(Upstream<Hits>, SourceId)>,
}

impl Node {
    fn new(branches: Vec<Branch>, outlet: Option<(Upstream<Hits>, SourceId)>) -> Node {
        let (first, end) = (branches[0].sources.start, branches[branches.len() - 1].sources.end);
        // Late hits would be dropped, and found missing at the end.
        let settings = Settings { late: Late::Drop, stall_ms: 60_000, ..Settings::default() };
        let order = TimeOrder::new(&settings, usize::from(end - first), OUTPUT_HITS);
        Node { waiting: branches.iter().map(|_| None).collect(), branches, order, first, outlet }
    }

    /// Orders everything. The node at the top must get `all` hits.
    fn run(mut self, all: u64) -> Spent {
        let (mut out, mut came_out) = (Hits::with_capacity(OUTPUT_HITS), 0);
        let start = thread_cpu_time();
        while let Some((branch, mut batch)) = self.next() {
            batch.header.source.0 -= self.first;
            if self.order.push(&mut batch).map_err(|error| error.to_string())? == Pushed::Full {
                return Err("the memory for ordering is too small for this bench".to_owned());
            }
            self.branches[branch].inlet.give_back(batch);
            while self.order.pull(&mut out) {
                came_out += out.hits.len() as u64;
                match &mut self.outlet {
                    Some((outlet, number)) => {
                        out.header.source = *number;
                        out.shares.clear();
                        if !outlet.exchange(&mut out) {
                            return Err("the next thread has ended early".to_owned());
                        }
                    }
                    None => _ = std::hint::black_box(&mut out),
                }
            }
        }
        match self.outlet.is_some() || came_out == all {
            true => Ok(thread_cpu_time() - start),
            false => Err(format!("{came_out} of {all} hits came out")),
        }
    }

    /// The first batch by mark, then source, of all branches; each must have one to know which is the first.
    fn next(&mut self) -> Option<(usize, Hits)> {
        for (branch, waiting) in self.branches.iter_mut().zip(&mut self.waiting) {
            while waiting.is_none() && !branch.inlet.is_finished() {
                *waiting = branch.inlet.receive_wait(WAIT);
            }
        }
        let place = |batch: &Hits| (batch.header.mark, batch.header.source);
        let waiting = self.waiting.iter().enumerate();
        let first = waiting.filter_map(|(branch, batch)| Some((place(batch.as_ref()?), branch))).min()?.1;
        self.waiting[first].take().map(|batch| (first, batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_any_shape_orders_all_hits() {
        let input = Input::new(Shape { board_rate_hz: 1e5, seconds: 0.1, ..SHAPE }).expect("made");
        for (workers, threads) in [(1, vec![1]), (2, vec![1]), (4, vec![2, 1]), (8, vec![4, 2, 1])] {
            let turn =
                std::thread::scope(|scope| run(&input, workers, FAN_IN, scope)).expect("every hit comes out");
            assert_eq!(turn.decode.len(), usize::from(workers));
            assert_eq!(turn.order.iter().map(Vec::len).collect::<Vec<_>>(), threads);
        }
    }
}
