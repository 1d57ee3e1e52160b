//! The triggers that boards answer: those of a program that no minimum gap leaves out and no readout refuses.
//!
//! ```text
//!  Program ─► minimum gap ─► Supervisor: readout ─► Accepted, one by one
//!  Settings ───────────────────────────────────────► rate in the mean, burst, variation of the gaps: closed forms
//! ```

use thalweg_frontend::trigger::{Kind, Program, Settings, SettingsError, Supervisor, Trigger};

/// Listed triggers that their mean rate is taken from.
const MOST_LISTED: usize = 1_000_000;
/// Bursts that the mean rate is taken from, where a readout may reach into the next one.
const BURSTS: u32 = 1000;
/// Dead times within a gap, from which on renewal theory has what is within half a percent of the sum.
const MOST_DEAD_TIMES: f64 = 100.0;
/// The part of 1 that rounding leaves.
const ROUNDING: f64 = 1e-9;

/// Accepted triggers, in the order of time.
pub(super) struct Accepted {
    program: Program,
    supervisor: Supervisor,
}

impl Accepted {
    /// Those of a program.
    ///
    /// # Errors
    /// When there can be no such triggers.
    pub(super) fn new(settings: &Settings) -> Result<Accepted, SettingsError> {
        let supervisor = Supervisor::new(settings.first_number).reading_out(settings.readout_ns);
        Ok(Accepted { program: Program::new(settings)?, supervisor })
    }
}

impl Iterator for Accepted {
    type Item = Trigger;

    fn next(&mut self) -> Option<Trigger> {
        let Accepted { program, supervisor } = self;
        program.find_map(|trigger| supervisor.offer(trigger))
    }
}

/// Accepted triggers per second, in the mean. Random triggers with three times of which each is longer than the one before (dead time, minimum
/// gap, readout) are known to about a percent.
pub fn mean_rate_hz(settings: &Settings) -> f64 {
    match settings.program {
        Kind::Constant => settings.rate_hz / taken_every(settings),
        Kind::Bursts => of_bursts(settings),
        Kind::Poisson => 1.0 / random_gap_s(settings),
        Kind::Times => {
            let times = Accepted::new(settings).into_iter().flatten().take(MOST_LISTED);
            let times: Vec<u64> = times.map(|trigger| trigger.time_ns).collect();
            match times.as_slice() {
                [first, .., last] if last > first => (times.len() - 1) as f64 * 1e9 / (last - first) as f64,
                _ => 0.0,
            }
        }
    }
}

/// The accepted triggers of a burst, and the time between them, s; `None` where the readout of the last reaches into the next burst.
pub(super) fn burst(settings: &Settings) -> Option<(u64, f64)> {
    let (every, gap_s) = (taken_every(settings), 1.0 / settings.rate_hz);
    let triggers = (settings.burst_triggers as f64 / every).ceil();
    let read_out_s = (triggers - 1.0) * every * gap_s + readout_s(settings);
    (read_out_s <= (1.0 + ROUNDING) / settings.burst_rate_hz).then_some((triggers as u64, every * gap_s))
}

/// The squared variation of the gaps of random triggers, where a gap is a constant time and a random one behind it; `None` otherwise.
pub(super) fn random_variation_squared(settings: &Settings) -> Option<f64> {
    let Settings { dead_time_ns, minimum_gap_ns, readout_ns, .. } = *settings;
    let kept_ns = dead_time_ns.max(minimum_gap_ns);
    // A longer time cuts the gaps before it short, at what is random only where no other time is in them.
    let is_plain =
        (dead_time_ns == 0 || dead_time_ns >= minimum_gap_ns) && (kept_ns == 0 || kept_ns >= readout_ns);
    is_plain.then(|| (settings.rate_hz * random_gap_s(settings)).powi(-2))
}

fn readout_s(settings: &Settings) -> f64 {
    settings.readout_ns as f64 * 1e-9
}

/// Of even triggers every so many is accepted.
fn taken_every(settings: &Settings) -> f64 {
    (readout_s(settings) * settings.rate_hz - ROUNDING).ceil().max(1.0)
}

fn of_bursts(settings: &Settings) -> f64 {
    let (every, gap_s) = (taken_every(settings), 1.0 / settings.rate_hz);
    let triggers = settings.burst_triggers as f64;
    let (mut free_s, mut accepted) = (0.0_f64, 0.0);
    for number in 0..BURSTS {
        let start_s = f64::from(number) / settings.burst_rate_hz;
        let refused = ((free_s - start_s) / gap_s - ROUNDING).ceil().max(0.0);
        if refused < triggers {
            let own = ((triggers - refused) / every).ceil();
            accepted += own;
            free_s = start_s + (refused + (own - 1.0) * every) * gap_s + readout_s(settings);
        }
    }
    accepted * settings.burst_rate_hz / f64::from(BURSTS)
}

/// From one accepted random trigger to the next in the mean, s.
fn random_gap_s(settings: &Settings) -> f64 {
    let (dead_s, least_s) = (settings.dead_time_ns as f64 * 1e-9, settings.minimum_gap_ns as f64 * 1e-9);
    let kept_s = passed_gap_s((dead_s, 1.0 / settings.rate_hz), least_s);
    let constant_s = dead_s.max(least_s);
    passed_gap_s((constant_s, kept_s - constant_s), readout_s(settings))
}

/// The mean time to the first trigger that is `least_s` behind an accepted one or later, of gaps that are a constant time and an exponential
/// one behind it: by Wald, a mean gap for each trigger, of which there is one more than those that come before `least_s`.
fn passed_gap_s((constant_s, random_s): (f64, f64), least_s: f64) -> f64 {
    let mean_s = constant_s + random_s;
    if least_s <= constant_s {
        return mean_s;
    }
    if least_s > MOST_DEAD_TIMES * constant_s {
        return least_s + mean_s * 0.5 * (1.0 + (random_s / mean_s).powi(2));
    }
    let early = (1..).map(|number| (number, least_s - f64::from(number) * constant_s));
    let early = early.take_while(|(_, left_s)| *left_s > 0.0);
    let early: f64 = early.map(|(number, left_s)| at_least(number, left_s / random_s)).sum();
    mean_s * (1.0 + early)
}

/// The probability of `number` or more, of what comes at random and `mean` times.
fn at_least(number: u32, mean: f64) -> f64 {
    let (mut term, mut fewer) = ((-mean).exp(), 0.0);
    for count in 0..number {
        fewer += term;
        term *= mean / f64::from(count + 1);
    }
    (1.0 - fewer).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisson() -> Settings {
        Settings { program: Kind::Poisson, rate_hz: 20_000.0, dead_time_ns: 0, ..Settings::default() }
    }

    /// The rate of the triggers themselves.
    fn seen_hz(settings: &Settings) -> f64 {
        let times: Vec<u64> =
            Accepted::new(settings).expect("triggers").take(40_000).map(|trigger| trigger.time_ns).collect();
        (times.len() - 1) as f64 * 1e9 / (times[times.len() - 1] - times[0]) as f64
    }

    #[test]
    fn readout_and_minimum_gap_leave_the_rate_that_the_triggers_themselves_have() {
        let random = |rate_hz: f64, [dead_time_ns, minimum_gap_ns, readout_ns]: [u64; 3], known: f64| {
            let settings = Settings { rate_hz, dead_time_ns, minimum_gap_ns, readout_ns, ..poisson() };
            let (formula, seen) = (mean_rate_hz(&settings), seen_hz(&settings));
            assert!((formula / known - 1.0).abs() < 2e-3, "{settings:?}: {formula}");
            assert!((seen / formula - 1.0).abs() < 0.02, "{settings:?}: {seen} {formula}");
        };
        // 1 / (50 µs + 200 µs)
        random(20_000.0, [0, 0, 200_000], 4000.0);
        random(20_000.0, [200_000, 0, 0], 4000.0);
        random(20_000.0, [200_000, 100_000, 50_000], 4000.0);
        random(2000.0, [300_000, 500_000, 0], 940.1);
        random(2000.0, [0, 300_000, 900_000], 714.2857 * 0.961_165);
        random(20_000.0, [1000, 0, 200_000], 3999.8);
        random(20_000.0, [20_000, 30_000, 100_000], 6323.0);
    }

    #[test]
    fn the_variation_of_random_gaps_is_known_where_one_time_alone_is_behind_them_all() {
        let seen = |settings: &Settings| {
            let triggers = Accepted::new(settings).expect("triggers").take(40_000);
            let times_ns: Vec<f64> = triggers.map(|trigger| trigger.time_ns as f64).collect();
            let gaps_ns: Vec<f64> = times_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean_ns = gaps_ns.iter().sum::<f64>() / gaps_ns.len() as f64;
            gaps_ns.iter().map(|gap_ns| (gap_ns / mean_ns - 1.0).powi(2)).sum::<f64>() / gaps_ns.len() as f64
        };
        let variation = |[dead_time_ns, minimum_gap_ns, readout_ns]: [u64; 3], is_known| {
            let settings = Settings { dead_time_ns, minimum_gap_ns, readout_ns, ..poisson() };
            let (formula, seen) = (random_variation_squared(&settings), seen(&settings));
            assert_eq!(formula.is_some(), is_known, "{settings:?}: {formula:?}, seen {seen}");
            assert!(
                formula.is_none_or(|formula| (formula / seen - 1.0).abs() < 0.05),
                "{settings:?}: {seen}"
            );
        };
        for one in [
            [0, 0, 0],
            [0, 0, 200_000],
            [0, 200_000, 180_000],
            [0, 200_000, 200_000],
            [200_000, 180_000, 180_000],
        ] {
            variation(one, true);
        }
        // The gap lies between triggers that are kept, the readout between those that are accepted: beside the one, the other is not alone.
        for several in
            [[0, 180_000, 200_000], [1, 0, 200_000], [100_000, 180_000, 0], [100_000, 180_000, 200_000]]
        {
            variation(several, false);
        }
    }

    #[test]
    fn of_even_triggers_and_bursts_those_are_accepted_that_come_behind_the_readout() {
        let even = |program, readout_ns| {
            let settings = Settings { program, readout_ns, burst_triggers: 7, ..poisson() };
            let formula = mean_rate_hz(&settings);
            assert!((seen_hz(&settings) / formula - 1.0).abs() < 1e-3, "{settings:?}: {formula}");
            (formula, burst(&settings))
        };
        // A trigger each 50 µs; 10 bursts per second.
        assert_eq!(even(Kind::Constant, 150_000).0.round(), 6667.0);
        assert_eq!(even(Kind::Constant, 150_001).0.round(), 5000.0);
        assert_eq!(even(Kind::Bursts, 0), (70.0, Some((7, 5e-5))));
        assert_eq!(even(Kind::Bursts, 100_000), (40.0, Some((4, 1e-4))));
        // The readout of one is over with the fourth trigger of the next.
        assert_eq!(even(Kind::Bursts, 100_150_000).1, None);
    }
}
