//! How fast a target answers, and whether it gives back what was written.
//!
//! ```text
//!  for so long: queue so many transactions ─► dispatch ─► time of each dispatch, words that came, words that were others
//! ```

use std::time::{Duration, Instant};

use thalweg_ipbus::client::{Client, DispatchError};

use crate::arguments::IpbusPerf;
use crate::commands::Ended;
use crate::report::{Outcome, print, si};

/// Round trips whose times are kept; beyond, every second one is, and so on.
const MOST_TIMES: usize = 1 << 20;

/// Times of dispatches, evenly thinned.
struct Times {
    seconds: Vec<f64>,
    every: u64,
    seen: u64,
}

impl Times {
    fn add(&mut self, took: Duration) {
        if self.seen.is_multiple_of(self.every) {
            self.seconds.push(took.as_secs_f64());
        }
        self.seen += 1;
        if self.seconds.len() == MOST_TIMES {
            let mut keep = false;
            self.seconds.retain(|_| {
                keep = !keep;
                keep
            });
            self.every *= 2;
        }
    }

    /// The time in microseconds that a share of the dispatches took no longer than.
    fn quantile_us(&self, share: f64) -> f64 {
        let last = self.seconds.len().saturating_sub(1);
        1e6 * self.seconds.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

/// Steps of Knuth's MMIX generator: words that no register has by itself.
fn random_word(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 32) as u32
}

/// One dispatch; how many words came back other than they were written.
fn dispatch(
    client: &mut Client,
    options: &IpbusPerf,
    address: u32,
    written: &[u32],
    block: &mut [u32],
) -> Result<u64, DispatchError> {
    let words = options.words;
    let mut queue = client.queue();
    let address_of = |transaction: usize| address.wrapping_add((transaction * words) as u32);
    if options.write || options.validate {
        for (transaction, part) in written.chunks(words).enumerate() {
            queue.write_block(address_of(transaction), part);
        }
    }
    if !options.write {
        for (transaction, part) in block.chunks_mut(words).enumerate() {
            queue.read_block(address_of(transaction), part);
        }
    }
    queue.dispatch()?;
    let is_other = |(one, other): &(&u32, &u32)| one != other;
    Ok(if options.validate { written.iter().zip(&*block).filter(is_other).count() as u64 } else { 0 })
}

/// Measures a target for a while.
pub(super) fn perf(client: &mut Client, address: u32, options: &IpbusPerf, json: bool) -> Ended {
    let all = options.words * options.transactions;
    let (mut written, mut block, mut random) = (vec![0; all], vec![0; all], options.seed);
    let mut times = Times { seconds: Vec::new(), every: 1, seen: 0 };
    let (mut wrong, mut busy) = (0, Duration::ZERO);
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < options.seconds {
        if options.write || options.validate {
            written.iter_mut().for_each(|word| *word = random_word(&mut random));
        }
        let start = Instant::now();
        wrong += dispatch(client, options, address, &written, &mut block)?;
        let took = start.elapsed();
        busy += took;
        times.add(took);
    }
    times.seconds.sort_by(f64::total_cmp);
    let directions = if options.validate { 2 } else { 1 };
    let words = times.seen * all as u64 * directions;
    let rate_hz = words as f64 / busy.as_secs_f64();
    let counts = client.counts();
    let value = serde_json::json!({
        "dispatches": times.seen,
        "words": words,
        "words_per_s": rate_hz,
        "gigabits_per_s": 32e-9 * rate_hz,
        "round_trip_us": {
            "half_within": times.quantile_us(0.5),
            "99_percent_within": times.quantile_us(0.99),
            "most": times.quantile_us(1.0),
        },
        "words_that_came_back_other": options.validate.then_some(wrong),
        "requests_repeated": counts.requests_repeated,
        "replies_repeated": counts.replies_repeated,
    });
    print(&value, json, |_| {
        let again = counts.requests_repeated + counts.replies_repeated;
        let validated = match (options.validate, wrong) {
            (false, _) => String::new(),
            (true, 0) => "\nevery word came back as it was written".to_owned(),
            (true, wrong) => {
                format!("\n{wrong} of {} words came back OTHER than they were written", words / 2)
            }
        };
        format!(
            "{} dispatches of {all} words: half within {:.1} µs, 99 % within {:.1} µs, all within {:.1} µs\n{}words/s, {:.3} Gb/s; {again} packets sent or asked for again{validated}",
            times.seen,
            times.quantile_us(0.5),
            times.quantile_us(0.99),
            times.quantile_us(1.0),
            si(rate_hz),
            32e-9 * rate_hz,
        )
    })?;
    Ok(if wrong > 0 { Outcome::Failed } else { Outcome::Done })
}
