//! Measures how fast a target answers, and checks that it gives back what was written.
//!
//! ```text
//!  for so long: queue so many transactions ─► dispatch ─► time of each dispatch, words that came, words that were others
//! ```

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use thalweg_ipbus::client::{Client, DispatchError};

use crate::arguments::IpbusPerf;
use crate::commands::Ended;
use crate::report::{CommandOutcome, print, si};

/// The longest round trip that is distinguished from longer ones, nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Digits to which its time is known.
const DIGITS: u8 = 3;

/// Times of dispatches, nanoseconds.
struct Times(Histogram<u64>);

impl Times {
    fn new() -> Times {
        Times(
            Histogram::new_with_max(LONGEST_NS, DIGITS)
                .expect("a range of two and more, five digits or fewer"),
        )
    }

    fn add(&mut self, took: Duration) {
        self.0.saturating_record(took.as_nanos().try_into().unwrap_or(u64::MAX));
    }

    /// The time in microseconds that a fraction of the dispatches took no longer than (0.99: p99); NaN of none.
    fn quantile_us(&self, fraction: f64) -> f64 {
        if self.0.is_empty() { f64::NAN } else { 1e-3 * self.0.value_at_quantile(fraction) as f64 }
    }
}

/// Steps of Knuth's MMIX generator: words that no register has by itself.
fn random_word(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 32) as u32
}

/// The contents of each dispatch of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) words: usize,
    pub(super) transactions: usize,
    pub(super) write: bool,
    pub(super) validate: bool,
    pub(super) seed: u64,
}

/// The results of a measurement.
#[derive(Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) dispatches: u64,
    /// Words that went either way.
    pub(super) words: u64,
    pub(super) words_per_s: f64,
    /// Round trip of a dispatch, percentiles and the longest.
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) most_us: f64,
    /// Words that came back other than they were written.
    pub(super) wrong: u64,
}

impl Shape {
    pub(super) fn of(options: &IpbusPerf) -> Shape {
        let IpbusPerf { words, transactions, write, validate, seed, .. } = *options;
        Shape { words, transactions, write, validate, seed }
    }

    /// One dispatch; how many words came back other than they were written.
    fn dispatch(
        self,
        client: &mut Client,
        address: u32,
        written: &[u32],
        block: &mut [u32],
    ) -> Result<u64, DispatchError> {
        let Shape { words, write, validate, .. } = self;
        let mut queue = client.queue();
        let address_of = |transaction: usize| address.wrapping_add((transaction * words) as u32);
        if write || validate {
            for (transaction, part) in written.chunks(words).enumerate() {
                queue.write_block(address_of(transaction), part);
            }
        }
        if !write {
            for (transaction, part) in block.chunks_mut(words).enumerate() {
                queue.read_block(address_of(transaction), part);
            }
        }
        queue.dispatch()?;
        let is_other = |(one, other): &(&u32, &u32)| one != other;
        Ok(if validate { written.iter().zip(&*block).filter(is_other).count() as u64 } else { 0 })
    }

    /// Dispatches repeatedly for a given time.
    ///
    /// # Errors
    /// When one of them is not done.
    pub(super) fn measure(
        self,
        client: &mut Client,
        address: u32,
        seconds: f64,
    ) -> Result<Figures, DispatchError> {
        let all = self.words * self.transactions;
        let (mut written, mut block, mut random) = (vec![0; all], vec![0; all], self.seed);
        let mut times = Times::new();
        let (mut wrong, mut busy) = (0, Duration::ZERO);
        let begun = Instant::now();
        while begun.elapsed().as_secs_f64() < seconds {
            if self.write || self.validate {
                written.iter_mut().for_each(|word| *word = random_word(&mut random));
            }
            let start = Instant::now();
            wrong += self.dispatch(client, address, &written, &mut block)?;
            let took = start.elapsed();
            busy += took;
            times.add(took);
        }
        let dispatches = times.0.len();
        let words = dispatches * all as u64 * if self.validate { 2 } else { 1 };
        Ok(Figures {
            dispatches,
            words,
            words_per_s: words as f64 / busy.as_secs_f64(),
            p50_us: times.quantile_us(0.5),
            p99_us: times.quantile_us(0.99),
            most_us: times.quantile_us(1.0),
            wrong,
        })
    }
}

/// Measures a target for a while.
pub(super) fn perf(client: &mut Client, address: u32, options: &IpbusPerf, json: bool) -> Ended {
    let all = options.words * options.transactions;
    let found = Shape::of(options).measure(client, address, options.seconds)?;
    let counts = client.counts();
    let value = serde_json::json!({
        "dispatches": found.dispatches,
        "words": found.words,
        "words_per_s": found.words_per_s,
        "gigabits_per_s": 32e-9 * found.words_per_s,
        "round_trip_us": {
            "p50": found.p50_us,
            "p99": found.p99_us,
            "most": found.most_us,
        },
        "words_that_came_back_other": options.validate.then_some(found.wrong),
        "requests_repeated": counts.requests_repeated,
        "replies_repeated": counts.replies_repeated,
    });
    print(&value, json, |_| {
        let again = counts.requests_repeated + counts.replies_repeated;
        let validated = match (options.validate, found.wrong) {
            (false, _) => String::new(),
            (true, 0) => "\nevery word came back as it was written".to_owned(),
            (true, wrong) => {
                format!("\n{wrong} of {} words came back OTHER than they were written", found.words / 2)
            }
        };
        format!(
            "{} dispatches of {all} words: round trip p50 {:.1} µs, p99 {:.1} µs, longest {:.1} µs\n{}words/s, {:.3} Gb/s; {again} packets sent or asked for again{validated}",
            found.dispatches,
            found.p50_us,
            found.p99_us,
            found.most_us,
            si(found.words_per_s),
            32e-9 * found.words_per_s,
        )
    })?;
    Ok(if found.wrong > 0 { CommandOutcome::Failed } else { CommandOutcome::Done })
}
