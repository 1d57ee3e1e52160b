//! `qualify throughput`: the static test, by size of datagrams and number of ports.

use std::fmt::Write as _;

use serde::Serialize;
use thalweg_qualify::report::{Report, Table, ValueVerdict};
use thalweg_qualify::throughput::{self, LoadPoint, RatePoint, Throughput};
use thalweg_run::plot::{Chart, Series, lines_svg};

use super::device::{Device, Outputs, flow_control_fact, flow_control_text};
use super::{because, check_ports, sign};
use crate::arguments::QualifyThroughput;
use crate::commands::Ended;
use crate::report::CommandOutcome;
use crate::terminal;

/// An output that carries this fraction of what it is said to is at line rate: bounds are 0.2 % apart.
const LINE_RATE: f64 = 0.995;

/// All of a static test.
#[derive(Debug, Serialize)]
struct StaticTest {
    /// The results by size and number of ports.
    tests: Vec<Throughput>,
    /// The output against the input.
    linearity: Vec<LoadPoint>,
}

pub(super) fn throughput(options: &QualifyThroughput, json: bool) -> Ended {
    let mut outputs = Outputs::new(&options.outputs)?;
    let device = Device::open(&options.device)?;
    let sizes = match options.datagrams.is_empty() {
        true => vec![device.datagram_bytes()],
        false => options.datagrams.clone(),
    };
    let mut all = StaticTest { tests: Vec::new(), linearity: Vec::new() };
    for datagram_bytes in sizes {
        let mut rig = device.rig(datagram_bytes)?;
        check_ports(&options.ports, rig.sources())?;
        let ports = if options.ports.is_empty() { vec![rig.sources()] } else { options.ports.clone() };
        for sources in ports {
            rig.use_sources(sources);
            let seconds = (options.trial_seconds, options.hold_seconds);
            let found =
                throughput::search(&mut rig, seconds, &mut |point| notice(json, || rate_text(point)))?;
            all.tests.push(found);
            if let Some(steps) = options.linearity {
                let fractions: Vec<f64> =
                    (1..=steps).map(|step| 1.2 * f64::from(step) / f64::from(steps)).collect();
                let seen = &mut |point: &LoadPoint| notice(json, || load_text(point));
                all.linearity.extend(throughput::linearity(
                    &mut rig,
                    &fractions,
                    options.trial_seconds,
                    seen,
                )?);
            }
            outputs.live(|| report(&all, false));
        }
    }
    outputs.finish((&all, json), words, svg, |all| report(all, true))?;
    let is_found = all.tests.iter().all(|found| found.remark.is_empty());
    Ok(if is_found { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn notice(json: bool, words: impl FnOnce() -> String) {
    if !json {
        terminal::notice(&words());
    }
}

fn rate_text(point: &RatePoint) -> String {
    let RatePoint { rate_hz, outcome, why, sent, lost, seconds } = point;
    format!("{} {rate_hz:>10.1} Hz for {seconds:.1} s: {lost} of {sent} lost{}", sign(outcome), because(why))
}

fn load_text(point: &LoadPoint) -> String {
    let carried = point.carried_bits_per_s.map_or("–".to_owned(), |rate| format!("{:.2}", rate * 1e-6));
    format!(
        "{} {:>9.2} Mb/s in, {carried} Mb/s out: {} of {} lost{}",
        sign(point.outcome),
        point.offered_bits_per_s * 1e-6,
        point.lost,
        point.sent,
        because(&point.why)
    )
}

fn words(all: &StaticTest) -> String {
    all.tests.iter().map(test_text).collect::<Vec<_>>().join("\n\n")
}

/// Describes whether it is line rate.
fn verdict_text(found: &Throughput) -> String {
    match found.of_line_rate {
        Some(of) if of >= LINE_RATE => {
            format!("line rate: {:.2} % of what the output is said to carry", 100.0 * of)
        }
        Some(of) => format!("below line rate: {:.2} % of what the output is said to carry", 100.0 * of),
        None => "not known".to_owned(),
    }
}

fn test_text(found: &Throughput) -> String {
    let hz = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{rate:.1} Hz"));
    let mut text = format!(
        "{} sources of {} bytes, one behind the other\nlossless up to {}, lossy from {}; it is said to carry {:.1} Hz\n",
        found.sources,
        found.datagram_bytes,
        hz(found.lower_bound_hz),
        hz(found.upper_bound_hz),
        found.stated_rate_hz
    );
    if let Some(bits) = found.lower_bound_bits_per_s {
        let _ = writeln!(text, "output       {:.2} Mb/s in the accounting of the device", bits * 1e-6);
    }
    let _ = writeln!(text, "verdict      {}", verdict_text(found));
    if let Some(hidden) = found.hidden_overload {
        let _ = writeln!(
            text,
            "hidden       an overload of less than {:.2} % fills no buffer of this depth within a trial",
            100.0 * hidden
        );
    }
    if let (Some(held), Some(limit)) = (&found.held, found.loss_limit) {
        let _ = writeln!(
            text,
            "held         {:.1} s: 0 of {} lost; fewer than {limit:.1e} are, at 95 % confidence",
            held.seconds, held.sent
        );
    }
    if let Some(words) = flow_control_text(&found.flow_control) {
        let _ = writeln!(text, "flow control {words}");
    }
    match found.remark.is_empty() {
        true => text.trim_end().to_owned(),
        false => text + "no throughput: " + &found.remark,
    }
}

/// Draws the output against the input; without such points, the lossless rate against the size.
fn svg(all: &StaticTest) -> String {
    let of = |sources: u32, bytes: u32| format!("{sources} × {bytes} B");
    let names = || all.tests.iter().map(|found| (found.sources, found.datagram_bytes));
    let line = |(sources, bytes): (u32, u32)| {
        let own =
            all.linearity.iter().filter(|point| point.sources == sources && point.datagram_bytes == bytes);
        let place =
            |point: &LoadPoint| Some((point.offered_bits_per_s * 1e-6, point.carried_bits_per_s? * 1e-6));
        let points = own.filter(|point| point.outcome != "invalid").filter_map(place).collect();
        Series { name: of(sources, bytes), points }
    };
    let lossless =
        |found: &Throughput| Some((f64::from(found.datagram_bytes), found.lower_bound_bits_per_s? * 1e-6));
    let verdicts: Vec<String> = all
        .tests
        .iter()
        .map(|found| format!("{}: {}", of(found.sources, found.datagram_bytes), verdict_text(found)))
        .collect();
    let (x_title, y_title, series) = match all.linearity.is_empty() {
        false => ("sent / Mb/s", "received / Mb/s", names().map(line).collect()),
        true => {
            let points = all.tests.iter().filter_map(lossless).collect();
            (
                "payload of a datagram / bytes",
                "lossless / Mb/s",
                vec![Series { name: "lossless".to_owned(), points }],
            )
        }
    };
    lines_svg(&Chart {
        title: "Static test: sources one behind the other".to_owned(),
        subtitle: verdicts.first().cloned().unwrap_or_default(),
        x_title: x_title.to_owned(),
        y_title: y_title.to_owned(),
        logarithmic_x: false,
        logarithmic_y: false,
        series,
    })
}

fn report(all: &StaticTest, is_finished: bool) -> Report {
    let said = words(all);
    let good = all.tests.iter().all(|found| found.remark.is_empty());
    let is_line_rate = all.tests.iter().all(|found| found.of_line_rate.is_some_and(|of| of >= LINE_RATE));
    Report {
        title: "Static test: the rate without a loss".to_owned(),
        verdict: match (is_finished, good, is_line_rate) {
            (false, ..) => ValueVerdict::Measuring(format!("{} tests so far", all.tests.len())),
            (_, true, true) => ValueVerdict::Passes(said),
            (_, true, false) => ValueVerdict::Found(said),
            (_, false, _) => ValueVerdict::Fails(said),
        },
        facts: [("tests".to_owned(), all.tests.len().to_string())]
            .into_iter()
            .chain(all.tests.iter().filter_map(|found| flow_control_fact(&found.flow_control)))
            .collect(),
        pictures: vec![("Sent and received".to_owned(), svg(all))],
        tables: tables(all).into_iter().filter(|table| !table.rows.is_empty()).collect(),
        raw: if is_finished { serde_json::to_string(all).unwrap_or_default() } else { String::new() },
        raw_name: "throughput.json",
    }
}

/// Returns the tables of the rates, and of the output against the input.
fn tables(all: &StaticTest) -> [Table; 2] {
    let row = |found: &Throughput| {
        let hz = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{rate:.1}"));
        vec![
            found.sources.to_string(),
            found.datagram_bytes.to_string(),
            hz(found.lower_bound_hz),
            hz(found.upper_bound_hz),
            found.lower_bound_bits_per_s.map_or("–".to_owned(), |bits| format!("{:.2}", bits * 1e-6)),
            found.of_line_rate.map_or("–".to_owned(), |of| format!("{:.2} %", 100.0 * of)),
            found.remark.clone(),
        ]
    };
    let load = |point: &LoadPoint| {
        vec![
            point.sources.to_string(),
            point.datagram_bytes.to_string(),
            format!("{:.2}", point.offered_bits_per_s * 1e-6),
            point.carried_bits_per_s.map_or("–".to_owned(), |bits| format!("{:.2}", bits * 1e-6)),
            point.lost.to_string(),
            point.sent.to_string(),
            point.outcome.to_owned() + &because(&point.why),
        ]
    };
    [
        Table {
            title: "The highest rate without a loss".to_owned(),
            columns: vec![
                "ports",
                "payload / bytes",
                "lossless up to / Hz",
                "lossy from / Hz",
                "Mb/s",
                "of line rate",
                "remark",
            ],
            rows: all.tests.iter().map(row).collect(),
        },
        Table {
            title: "Linearity".to_owned(),
            columns: vec![
                "ports",
                "payload / bytes",
                "sent / Mb/s",
                "received / Mb/s",
                "lost",
                "of",
                "outcome",
            ],
            rows: all.linearity.iter().map(load).collect(),
        },
    ]
}
