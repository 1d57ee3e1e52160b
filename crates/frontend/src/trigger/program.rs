//! Calculates the trigger times of a program.
//!
//! ```text
//!  constant   k / rate                             bursts   b / burst_rate + k / rate
//!  poisson    dead time + exponential, summed      times    as listed
//! ```
//! Constant times are calculated from their number, so that rounding errors do not add up.

use rand::{RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_pcg::Pcg64;

use super::Trigger;
use super::settings::{Kind, Settings, SettingsError};

/// A trigger program: an iterator of triggers in the order of time.
#[derive(Clone, Debug)]
pub struct Program {
    times: Times,
    first_ns: u64,
    end_ns: u64,
    minimum_gap_ns: u64,
    latest_ns: Option<u64>,
    next_number: u64,
    left: u64,
    left_out: u64,
}

/// The source of times, in nanoseconds since the start of the program.
#[derive(Clone, Debug)]
enum Times {
    Constant { period_ns: f64, next: u64 },
    Bursts { period_ns: f64, triggers: u64, burst_period_ns: f64, burst: u64, next: u64 },
    Poisson(Box<Poisson>),
    Listed(std::vec::IntoIter<u64>),
}

#[derive(Clone, Debug)]
struct Poisson {
    random: Pcg64,
    mean_ns: f64,
    dead_time_ns: u64,
    time_ns: u64,
    /// Remainder of rounding down.
    fraction_ns: f64,
    begun: bool,
}

impl Program {
    /// Creates the program of these settings.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(settings: &Settings) -> Result<Program, SettingsError> {
        settings.check()?;
        let period_ns = 1e9 / settings.rate_hz;
        let times = match settings.program {
            Kind::Constant => Times::Constant { period_ns, next: 0 },
            Kind::Bursts => Times::Bursts {
                period_ns,
                triggers: settings.burst_triggers,
                burst_period_ns: 1e9 / settings.burst_rate_hz,
                burst: 0,
                next: 0,
            },
            Kind::Poisson => Times::Poisson(Box::new(Poisson {
                random: Pcg64::seed_from_u64(settings.seed),
                mean_ns: period_ns,
                dead_time_ns: settings.dead_time_ns,
                time_ns: 0,
                fraction_ns: 0.0,
                begun: false,
            })),
            Kind::Times => Times::Listed(settings.listed_times()?.into_iter()),
        };
        let length_ns = settings.seconds.map_or(u64::MAX, |seconds| (seconds * 1e9).round() as u64);
        Ok(Program {
            times,
            first_ns: settings.first_ns,
            end_ns: length_ns,
            minimum_gap_ns: settings.minimum_gap_ns,
            latest_ns: None,
            next_number: settings.first_number,
            left: settings.triggers.unwrap_or(u64::MAX),
            left_out: 0,
        })
    }

    /// Number of triggers that were left out so far because they were closer than the minimum gap to another.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Iterator for Program {
    type Item = Trigger;

    fn next(&mut self) -> Option<Trigger> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let since_ns = self.times.next().filter(|time| *time < self.end_ns)?;
            let early = self.latest_ns.is_some_and(|latest| since_ns - latest < self.minimum_gap_ns);
            if early {
                self.left_out += 1;
                continue;
            }
            self.latest_ns = Some(since_ns);
            let trigger = Trigger { number: self.next_number, time_ns: self.first_ns.checked_add(since_ns)? };
            self.next_number = self.next_number.wrapping_add(1);
            return Some(trigger);
        }
    }
}

impl Times {
    fn next(&mut self) -> Option<u64> {
        match self {
            Times::Constant { period_ns, next } => {
                let time = whole_ns(*next as f64 * *period_ns)?;
                *next += 1;
                Some(time)
            }
            Times::Bursts { period_ns, triggers, burst_period_ns, burst, next } => {
                if *next == *triggers {
                    (*burst, *next) = (*burst + 1, 0);
                }
                let start = whole_ns(*burst as f64 * *burst_period_ns)?;
                let time = start.checked_add(whole_ns(*next as f64 * *period_ns)?)?;
                *next += 1;
                Some(time)
            }
            Times::Poisson(poisson) => poisson.next(),
            Times::Listed(list) => list.next(),
        }
    }
}

impl Poisson {
    fn next(&mut self) -> Option<u64> {
        let exponential: f64 = self.random.sample(Exp1);
        let wait_ns = exponential * self.mean_ns + self.fraction_ns;
        let whole = whole_ns(wait_ns.floor())?;
        self.fraction_ns = wait_ns.fract();
        let dead_time_ns = if std::mem::replace(&mut self.begun, true) { self.dead_time_ns } else { 0 };
        self.time_ns = self.time_ns.checked_add(whole)?.checked_add(dead_time_ns)?;
        Some(self.time_ns)
    }
}

/// Converts a time to whole nanoseconds, if it fits 64 bits.
fn whole_ns(time_ns: f64) -> Option<u64> {
    (time_ns < u64::MAX as f64).then(|| time_ns.round() as u64)
}
