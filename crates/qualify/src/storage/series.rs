//! The rate over time of one stream of bytes.
//!
//! ```text
//!  (time, duration, bytes) of each call ─► steps of 0.1 s, joined in pairs when there are many ─► Rate
//!                                     └──► whole seconds ─► the lowest        steps ─► Fall: where the rate drops for good
//! ```
//! Times come as arguments: no clock is read here.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

/// The first length of a step, ns.
const STEP_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Steps that are kept at most: then neighbours are joined.
const MOST_STEPS: usize = 2048;
/// The rate has fallen when what comes later is below this part of what came before.
const FALLEN: f64 = 0.7;
/// Steps on either side of a fall at least: a single stall is none.
const LEAST_FALL_STEPS: usize = 10;

/// How fast bytes went.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rate {
    /// Bytes.
    pub bytes: u64,
    /// From the first call to the end of the last, s.
    pub seconds: f64,
    /// How long the kernel was asked for at the end until everything lay on the disk, s; 0 of reading.
    pub forced_seconds: f64,
    /// Bytes ÷ both times: of writing, what has come to the disk.
    pub bytes_per_s: f64,
    /// Bytes of the whole second with the fewest; null where it took less than a second.
    pub lowest_second_bytes_per_s: Option<f64>,
    /// The longest that one call took, with the forcing to the disk that the policy asks for behind it, s.
    pub longest_call_s: f64,
    /// The point where the rate falls and stays low, as after the cache of a device is full; null where it does not.
    pub fall: Option<Fall>,
    /// Length of a step, s.
    pub step_s: f64,
    /// Rate in each whole step.
    pub steps_bytes_per_s: Vec<f64>,
}

/// A rate that falls for good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fall {
    /// Bytes before it.
    pub after_bytes: f64,
    /// The mean rate before.
    pub from_bytes_per_s: f64,
    /// The mean rate after it.
    pub to_bytes_per_s: f64,
}

impl Rate {
    /// The bytes that wait at most where they come evenly at `needs_bytes_per_s` and go as in the steps: what a buffer must hold.
    pub fn waiting_bytes(&self, needs_bytes_per_s: f64) -> f64 {
        let mut most = 0.0_f64;
        let mut waiting = 0.0_f64;
        for rate in &self.steps_bytes_per_s {
            waiting = (waiting + (needs_bytes_per_s - rate) * self.step_s).max(0.0);
            most = most.max(waiting);
        }
        most
    }
}

/// Takes calls as they end. Allocates nothing while bytes go.
#[derive(Debug)]
pub(super) struct RateRecorder {
    steps: Vec<u64>,
    step_ns: u64,
    bytes: u64,
    ended: Duration,
    longest: Duration,
    second: u64,
    second_bytes: u64,
    lowest_second_bytes: Option<u64>,
}

impl RateRecorder {
    pub(super) fn new() -> RateRecorder {
        RateRecorder {
            steps: Vec::with_capacity(MOST_STEPS),
            step_ns: STEP_NS,
            bytes: 0,
            ended: Duration::ZERO,
            longest: Duration::ZERO,
            second: 0,
            second_bytes: 0,
            lowest_second_bytes: None,
        }
    }

    /// A call ended at `at`, counted from the start, and took `took`.
    pub(super) fn add(&mut self, at: Duration, took: Duration, bytes: u64) {
        let at_ns = at.as_nanos() as u64;
        self.close_seconds(at_ns / SECOND_NS);
        self.second_bytes += bytes;
        while at_ns / self.step_ns >= MOST_STEPS as u64 {
            self.join_steps();
        }
        let step = (at_ns / self.step_ns) as usize;
        if self.steps.len() <= step {
            self.steps.resize(step + 1, 0);
        }
        self.steps[step] += bytes;
        self.bytes += bytes;
        self.ended = at;
        self.longest = self.longest.max(took);
    }

    /// Every second before this one is over: the present one, and those in which no call ended.
    fn close_seconds(&mut self, now: u64) {
        if now > self.second {
            let skipped = now > self.second + 1;
            let fewest = if skipped { 0 } else { self.second_bytes };
            self.lowest_second_bytes = Some(self.lowest_second_bytes.map_or(fewest, |old| old.min(fewest)));
            (self.second, self.second_bytes) = (now, 0);
        }
    }

    fn join_steps(&mut self) {
        let joined = self.steps.len().div_ceil(2);
        for index in 0..joined {
            self.steps[index] = self.steps[2 * index] + self.steps.get(2 * index + 1).copied().unwrap_or(0);
        }
        self.steps.truncate(joined);
        self.step_ns *= 2;
    }

    /// The rate, when forcing everything to the disk took `forced` after the last call.
    pub(super) fn finish(self, forced: Duration) -> Rate {
        let step_s = self.step_ns as f64 * 1e-9;
        let whole = (self.ended.as_nanos() as u64 / self.step_ns) as usize;
        let steps_bytes_per_s: Vec<f64> =
            self.steps.iter().take(whole).map(|bytes| *bytes as f64 / step_s).collect();
        let (seconds, forced_seconds) = (self.ended.as_secs_f64(), forced.as_secs_f64());
        let both = seconds + forced_seconds;
        Rate {
            bytes: self.bytes,
            seconds,
            forced_seconds,
            bytes_per_s: if both > 0.0 { self.bytes as f64 / both } else { 0.0 },
            lowest_second_bytes_per_s: self.lowest_second_bytes.map(|bytes| bytes as f64),
            longest_call_s: self.longest.as_secs_f64(),
            fall: fall(&steps_bytes_per_s, step_s),
            step_s,
            steps_bytes_per_s,
        }
    }
}

/// The step that parts the rates best in two means (least squares), where the second is much lower.
fn fall(rates: &[f64], step_s: f64) -> Option<Fall> {
    let all: f64 = rates.iter().sum();
    let mut before = 0.0;
    let mut best: Option<(f64, Fall)> = None;
    for (index, rate) in rates.iter().enumerate() {
        before += rate;
        let (first, second) = (index + 1, rates.len() - index - 1);
        if first < LEAST_FALL_STEPS || second < LEAST_FALL_STEPS {
            continue;
        }
        let (from, to) = (before / first as f64, (all - before) / second as f64);
        // The sum of squares between both parts: the larger, the less is left within them.
        let between = first as f64 * second as f64 * (from - to).powi(2);
        if best.is_none_or(|(most, _)| between > most) {
            let after_bytes = before * step_s;
            best = Some((between, Fall { after_bytes, from_bytes_per_s: from, to_bytes_per_s: to }));
        }
    }
    best.map(|(_, fall)| fall).filter(|fall| fall.to_bytes_per_s < FALLEN * fall.from_bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a recorder that was given these bytes, one entry at the end of each tenth of a second.
    fn tenths(bytes: impl IntoIterator<Item = u64>) -> RateRecorder {
        let mut recorder = RateRecorder::new();
        for (index, bytes) in bytes.into_iter().enumerate() {
            let at = Duration::from_millis(100 * index as u64 + 99);
            recorder.add(at, Duration::from_millis(99), bytes);
        }
        recorder
    }

    #[test]
    fn a_rate_has_its_mean_its_lowest_whole_second_and_its_longest_call() {
        let mut recorder = tenths([10; 25]);
        // A stall of two seconds: a whole second goes by without a byte.
        recorder.add(Duration::from_millis(4500), Duration::from_millis(2001), 10);
        let rate = recorder.finish(Duration::from_millis(500));
        assert_eq!((rate.bytes, rate.bytes_per_s, rate.longest_call_s), (260, 52.0, 2.001));
        assert_eq!(rate.lowest_second_bytes_per_s, Some(0.0));
        let brief = tenths([10; 5]).finish(Duration::ZERO);
        assert_eq!(brief.lowest_second_bytes_per_s, None, "no whole second went by");
        assert_eq!(tenths([10; 25]).finish(Duration::ZERO).lowest_second_bytes_per_s, Some(100.0));
    }

    #[test]
    fn steps_are_joined_and_no_byte_is_missing() {
        let recorder = tenths((0..5000).map(|_| 7));
        assert_eq!(recorder.steps.iter().sum::<u64>(), 35_000);
        let rate = recorder.finish(Duration::ZERO);
        assert!(rate.steps_bytes_per_s.len() <= MOST_STEPS && rate.step_s == 0.4, "{}", rate.step_s);
        assert!(rate.steps_bytes_per_s.iter().all(|rate| (rate - 70.0).abs() < 1e-9));
    }

    #[test]
    fn a_full_cache_shows_as_a_fall_and_a_stall_does_not() {
        let slower = |index: u64| if index < 40 { 1000 } else { 300 };
        let fall = tenths((0..100).map(slower)).finish(Duration::ZERO).fall.expect("it falls");
        assert!((fall.after_bytes - 40_000.0).abs() < 1.0, "{fall:?}");
        assert!((fall.from_bytes_per_s, fall.to_bytes_per_s) == (10_000.0, 3000.0), "{fall:?}");
        let stall = |index: u64| if index == 40 { 0 } else { 1000 + 30 * (index % 5) };
        assert_eq!(tenths((0..100).map(stall)).finish(Duration::ZERO).fall, None);
        assert_eq!(tenths([]).finish(Duration::ZERO).fall, None);
    }

    #[test]
    fn what_a_buffer_must_hold_is_the_most_that_waits() {
        let rate = tenths([10, 10, 0, 0, 10, 20, 0, 10]).finish(Duration::ZERO);
        // 100 B/s come: 10 wait after each empty step, and 10 go in the quick one.
        assert!((rate.waiting_bytes(100.0) - 20.0).abs() < 1e-9, "{}", rate.waiting_bytes(100.0));
        assert_eq!(rate.waiting_bytes(0.0), 0.0);
    }
}
