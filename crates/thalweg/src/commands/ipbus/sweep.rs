//! Measures how fast targets answer at several sizes, and with several clients or targets at once: as a table and as two pictures.
//!
//! ```text
//!  --sweep transactions · words ─► one client, size after size ─┐
//!          clients · targets ────► so many threads at once ─────┴─► points ─► words/s.svg, round trip.svg
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde::Serialize;
use thalweg_ipbus::client::Client;
use thalweg_run::plot::{Chart, Series, lines_svg};

use super::perf::{Figures, Shape};
use super::usage;
use crate::arguments::{IpbusPerf, IpbusSweep};
use crate::commands::Ended;
use crate::report::{CommandOutcome, Failure, print, si};

const TRANSACTIONS: [usize; 6] = [1, 3, 10, 30, 100, 300];
const WORDS: [usize; 7] = [1, 10, 100, 347, 1000, 10_000, 100_000];
const MOST_CLIENTS: usize = 8;

/// One size.
#[derive(Serialize)]
struct Point {
    at: usize,
    /// All clients together.
    words_per_s: f64,
    gigabits_per_s: f64,
    /// Half of the dispatches took no longer: the mean of that over the clients.
    round_trip_us: f64,
    #[serde(skip)]
    wrong: u64,
}

/// Measures at one size after the other.
pub(super) fn sweep(uri: &str, address: u32, sweep: IpbusSweep, options: &IpbusPerf, json: bool) -> Ended {
    let targets: Vec<&str> = std::iter::once(uri).chain(options.also.iter().map(String::as_str)).collect();
    if !options.also.is_empty() && sweep != IpbusSweep::Targets {
        return Err(usage(anyhow!("--also belongs to --sweep targets")));
    }
    let shape = Shape::of(options);
    let mut points = Vec::new();
    match sweep {
        IpbusSweep::Transactions => {
            for transactions in TRANSACTIONS {
                let shape = Shape { transactions, ..shape };
                points.push(measured(transactions, &[uri], shape, address, options.seconds)?);
            }
        }
        IpbusSweep::Words => {
            for words in WORDS {
                points.push(measured(words, &[uri], Shape { words, ..shape }, address, options.seconds)?);
            }
        }
        IpbusSweep::Clients => {
            for clients in 1..=MOST_CLIENTS {
                points.push(measured(clients, &vec![uri; clients], shape, address, options.seconds)?);
            }
        }
        IpbusSweep::Targets => {
            for count in 1..=targets.len() {
                points.push(measured(count, &targets[..count], shape, address, options.seconds)?);
            }
        }
    }
    let pictures = draw(uri, sweep, options, &points)?;
    let line = |point: &Point| {
        let Point { at, words_per_s, gigabits_per_s, round_trip_us, .. } = point;
        format!(
            "{at:>8}  {:>9}words/s  {gigabits_per_s:7.3} Gb/s  round trip p50 {round_trip_us:9.1} µs\n",
            si(*words_per_s)
        )
    };
    print(&points, json, |points| {
        let lines: String = points.iter().map(line).collect();
        let [rates, times] = pictures.map(|picture| picture.display().to_string());
        format!("{:>8}\n{lines}drawn in {rates} and {times}", sweep.word())
    })?;
    Ok(if points.iter().any(|point| point.wrong > 0) { CommandOutcome::Failed } else { CommandOutcome::Done })
}

/// All targets at once, each with a client and a thread of its own.
fn measured(at: usize, targets: &[&str], shape: Shape, address: u32, seconds: f64) -> Result<Point, Failure> {
    let clients: Result<Vec<Client>, _> = targets.iter().map(|uri| Client::open(uri)).collect();
    let measure = |(number, mut client): (usize, Client)| {
        // Clients of one target write to places of their own.
        let place = address.wrapping_add((number * shape.words * shape.transactions) as u32);
        shape.measure(&mut client, place, seconds)
    };
    let found: Result<Vec<Figures>, _> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            clients?.into_iter().enumerate().map(|each| scope.spawn(move || measure(each))).collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .map_err(|_| anyhow!("a client panicked: a defect, please report it"))?
                .map_err(Into::into)
        });
        joined.collect::<Result<_, anyhow::Error>>()
    });
    let found = found?;
    let words_per_s = found.iter().map(|one| one.words_per_s).sum();
    let round_trip_us = found.iter().map(|one| one.p50_us).sum::<f64>() / found.len() as f64;
    let wrong = found.iter().map(|one| one.wrong).sum();
    Ok(Point { at, words_per_s, gigabits_per_s: 32e-9 * words_per_s, round_trip_us, wrong })
}

/// Draws rates into the requested file, and times into one next to it.
fn draw(
    uri: &str,
    sweep: IpbusSweep,
    options: &IpbusPerf,
    points: &[Point],
) -> Result<[PathBuf; 2], Failure> {
    let times = options.output.with_extension("round-trip.svg");
    let chart = |y_title: &str, y: fn(&Point) -> f64| Chart {
        title: format!("IPbus against {}", sweep.word()),
        subtitle: uri.to_owned(),
        x_title: sweep.word().to_owned(),
        y_title: y_title.to_owned(),
        logarithmic_x: matches!(sweep, IpbusSweep::Transactions | IpbusSweep::Words),
        logarithmic_y: matches!(sweep, IpbusSweep::Transactions | IpbusSweep::Words),
        series: vec![Series {
            name: if options.write { "write" } else { "read" }.to_owned(),
            points: points.iter().map(|point| (point.at as f64, y(point))).collect(),
        }],
    };
    let write = |file: &Path, chart: &Chart| {
        std::fs::write(file, lines_svg(chart)).with_context(|| file.display().to_string())
    };
    write(&options.output, &chart("Gb/s", |point| point.gigabits_per_s))?;
    write(&times, &chart("round trip / µs", |point| point.round_trip_us))?;
    Ok([options.output.clone(), times])
}

impl IpbusSweep {
    fn word(self) -> &'static str {
        match self {
            IpbusSweep::Transactions => "transactions of a dispatch",
            IpbusSweep::Words => "words of a block",
            IpbusSweep::Clients => "clients of one target",
            IpbusSweep::Targets => "targets at once",
        }
    }
}
