//! `build-rate`: events built per second against triggers offered per second, from far below what is possible to far above.
//!
//! ```text
//!  trigger program, constant ─► 105 emulated boards ─ TCP ─► Group ─► Builder ─► events, let go
//!              └── refused ◄─────── BUSY: a full FIFO, or the builder ───┘
//! ```
//! A system without BUSY builds fewer events the more are offered beyond its limit, or none. Here the baseline of each rate
//! is the rate that was offered or, above the limit, the highest one built at this or any lower rate: a ratio below 1 is a dip or a
//! collapse. Emulated boards that cannot follow the program answer late, and then triggers come at the rate that they can:
//! `lateness_p99_us` says so. Every trigger that was accepted is built; otherwise the bench fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::boards::{Over, Work};
use thalweg_data::measure::{Measurement, median};
use thalweg_data::{Busy, SourceError};
use thalweg_frontend::trigger;
use thalweg_readout::host::triggered::{Feed, HostedBoards, TriggeredSettings, TriggeredTotals};
use thalweg_readout::{Group, GroupSettings, RunClock};
use thalweg_transport::thread_cpu_time;

use super::building::Building;
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};
use thalweg_run::plot::Series;

const BENCH: &str = "build-rate";
const BOARDS: u16 = 105;
/// Bytes of a fragment, header included: zero-suppressed and raw.
const FRAGMENT_BYTES: [usize; 2] = [380, 6144];
/// Triggers offered per second.
const RATES_HZ: [f64; 11] = [50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 10e3, 20e3, 50e3, 100e3];
/// The time for which triggers are offered at each rate.
const OFFERED: Duration = Duration::from_secs(1);
/// The time by which accepted triggers are built, or never will be: a machine that is busy with other work lets a thread wait for half a
/// minute.
const LONGEST: Duration = Duration::from_secs(240);

/// Measures all rates of both sizes.
pub(super) fn build_rate(conditions: &Conditions) -> Result<Measured, BenchError> {
    let mut points = Vec::new();
    for bytes in FRAGMENT_BYTES {
        let mut highest = 0.0;
        for rate_hz in RATES_HZ {
            let measured = at_rate(rate_hz, bytes, highest, conditions.repeats)
                .map_err(|error| BenchError::Room { bench: BENCH, message: error.to_string() })?;
            highest = measured.value.max(highest);
            points.push(measured);
        }
    }
    let sweep = Sweep {
        bench: BENCH,
        title: format!("{BOARDS} boards over TCP: events built, by triggers offered"),
        along: "offered_hz",
        x_title: "triggers offered / Hz",
        lines: Some("fragments"),
        points,
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: true,
        guides: vec![Series { name: "offered".to_owned(), points: RATES_HZ.map(|rate| (rate, rate)).into() }],
    };
    Ok(sweep.measured())
}

/// One look at one rate.
struct Seen {
    built_hz: f64,
    /// Fraction of the time that the reading thread's processor worked.
    load: f64,
    totals: TriggeredTotals,
}

/// Builds at one rate, several times; `highest_hz` was built at lower rates.
fn at_rate(
    rate_hz: f64,
    fragment_bytes: usize,
    highest_hz: f64,
    repeats: usize,
) -> Result<Measurement, SourceError> {
    let all: Vec<Seen> =
        (0..repeats.max(1)).map(|_| once(rate_hz, fragment_bytes, OFFERED)).collect::<Result<_, _>>()?;
    let middle = |of: fn(&Seen) -> f64| median(&mut all.iter().map(of).collect::<Vec<_>>());
    let built_hz = middle(|seen| seen.built_hz);
    let possible = highest_hz.max(built_hz).min(rate_hz);
    Ok(Measurement {
        bench: BENCH.to_owned(),
        value: built_hz,
        unit: "events/s".to_owned(),
        baseline: "the rate offered or, above what is possible, the highest built until then".to_owned(),
        baseline_value: possible,
        ratio: built_hz / possible,
        cores: 2,
        repeats: repeats.max(1),
        ..Measurement::default()
    }
    .with("boards", BOARDS)
    .with("fragment_bytes", fragment_bytes)
    .with("fragments", format!("{fragment_bytes} B"))
    .with("offered_hz", rate_hz)
    .with("bytes_per_second", built_hz * f64::from(BOARDS) * fragment_bytes as f64)
    .with("refused_share", middle(|seen| seen.totals.refused() as f64 / seen.totals.offered().max(1) as f64))
    .with("load_of_reading_thread", middle(|seen| seen.load))
    .with("lateness_p99_us", middle(|seen| seen.totals.lateness.quantile_ns(0.99) as f64 / 1e3)))
}

/// Offers triggers for a time, and builds what was accepted to the last event.
fn once(rate_hz: f64, fragment_bytes: usize, offered: Duration) -> Result<Seen, SourceError> {
    let failed = |message: String| SourceError { place: BENCH.to_owned(), message };
    let (clock, busy) = (RunClock::start(), Arc::new(Busy::default()));
    let opened = Work::new(Over::Tcp, BOARDS, fragment_bytes).open_links(clock, &busy)?;
    let mut group = Group::new(opened.links, GroupSettings::default(), clock)?;
    let seconds = Some(offered.as_secs_f64());
    let program = trigger::Program::new(&trigger::Settings { rate_hz, seconds, ..Default::default() })
        .map_err(|error| failed(error.to_string()))?;
    let settings = TriggeredSettings {
        busy: Some(busy.clone()),
        ..TriggeredSettings::new(opened.hosted, Feed::Program(program))
    };
    let boards = HostedBoards::new(settings).map_err(|error| failed(error.to_string()))?;
    let mut building = Building::new(BOARDS)?;
    let (begun, work_begun) = (Instant::now(), thread_cpu_time());
    boards.start_at(begun);
    let (mut raised, mut last, mut work) = (false, Duration::ZERO, Duration::ZERO);
    while !(boards.is_silent() && building.built == boards.totals().accepted()) {
        if building.turn(&mut group)? > 0 {
            (last, work) = (begun.elapsed(), thread_cpu_time() - work_begun);
        }
        if building.builder.is_busy() != raised {
            raised = !raised;
            if raised { busy.raise(clock.mark()) } else { busy.lower(clock.mark()) }
        }
        if begun.elapsed() > offered + LONGEST {
            let accepted = boards.totals().accepted();
            return Err(failed(format!("{} of {accepted} accepted triggers were built", building.built)));
        }
    }
    let seconds = last.max(offered).as_secs_f64();
    let built_hz = building.built as f64 / seconds;
    Ok(Seen { built_hz, load: work.as_secs_f64() / seconds, totals: boards.totals() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_accepted_is_built() {
        let seen = once(200.0, 380, Duration::from_millis(100)).expect("loopback is there");
        assert_eq!(seen.totals.offered(), 20);
        assert!(seen.built_hz > 0.0 && seen.built_hz <= 201.0, "{}", seen.built_hz);
    }
}
