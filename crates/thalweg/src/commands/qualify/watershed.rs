//! `qualify watershed`: the map of a buffer, in words, as a picture and as a page.

use std::fmt::Write as _;

use anyhow::anyhow;
use thalweg_qualify::report::{Report, Table, ValueVerdict};
use thalweg_qualify::rig::RateSource;
use thalweg_qualify::switch::fit::{Buffering, Fit};
use thalweg_qualify::switch::model;
use thalweg_qualify::watershed::{self, Point, Settings, Watershed};
use thalweg_run::plot::watershed_svg;

use super::device::{Device, Outputs, flow_control_text, start_text};
use super::{because, check_ports, outputs, sign};
use crate::arguments::QualifyWatershed;
use crate::commands::Ended;
use crate::report::{CommandOutcome, Failure};
use crate::terminal;

pub(super) fn watershed(options: &QualifyWatershed, json: bool) -> Ended {
    let mut outputs = Outputs::new(&options.outputs)?;
    let device = Device::open(&options.device)?;
    let mut rig = device.rig(device.datagram_bytes())?;
    if options.congested_outputs > rig.outputs() {
        return Err(Failure::Usage(anyhow!(
            "--outputs {}: the device has one output; a testbed has two with outputs=2",
            options.congested_outputs
        )));
    }
    check_ports(&options.ports, rig.sources())?;
    let settings = Settings {
        columns: usize::from(options.columns),
        ports: ports(
            &options.ports,
            (rig.sources(), rig.sources_per_input()),
            rig.testbed().is_some_and(|testbed| testbed.blind.is_some()),
        ),
        planned_rate_hz: options.planned_rate_hz,
    };
    if options.congested_outputs > 1 {
        return outputs::outputs(&mut rig, &Settings { ports: Vec::new(), ..settings }, &mut outputs, json);
    }
    let map = watershed::map(&mut rig, &settings, &mut |map| {
        if let Some(point) = map.points.last().filter(|_| !json) {
            terminal::notice(&point_text(point));
        }
        outputs.live(|| report(map, false));
    })?;
    outputs.finish((&map, json), map_text, watershed_svg, |map| report(map, true))?;
    let passes = map.acceptance.is_none_or(|acceptance| acceptance.passes);
    Ok(if map.fit.is_some() && passes { CommandOutcome::Done } else { CommandOutcome::Failed })
}

/// Returns the numbers of ports: the requested ones or, for an unknown device, three that reveal its queues, with whole inputs.
fn ports(asked: &[u32], (sources, per_input): (u32, u32), is_blind: bool) -> Vec<u32> {
    let whole = |parts: u32| sources.div_ceil(parts).next_multiple_of(per_input.max(1)).min(sources);
    match (asked.is_empty(), is_blind) {
        (true, true) => vec![whole(4), whole(2), sources],
        _ => asked.to_vec(),
    }
}

pub(super) fn point_text(point: &Point) -> String {
    let Point { sources, separation_s, events, outcome, why, sent, lost, .. } = point;
    format!(
        "{} {sources:>3} sources {events:>6} events {:>9.1} µs apart: {lost} of {sent} lost{}",
        sign(outcome),
        separation_s * 1e6,
        because(why)
    )
}

pub(super) fn map_text(map: &Watershed) -> String {
    let mut text = format!(
        "{} sources of {} bytes; a frame takes {} bytes in the device\n{:>7}  {:>14}  {:>9}  {:>9}  {:>9}  {:>7}  {:>7}\n",
        map.sources,
        map.datagram_bytes,
        map.frame_bytes,
        "sources",
        "separation",
        "lossless",
        "lossy",
        "predicted",
        "trials",
        "invalid"
    );
    for column in &map.columns {
        let (lossy, predicted) = (or_none(column.lossy_events), or_none(column.predicted_events));
        let _ = writeln!(
            text,
            "{:>7}  {:>11.1} µs  {:>9}  {lossy:>9}  {predicted:>9}  {:>7}  {:>7}  {}",
            column.sources,
            column.separation_s * 1e6,
            column.lossless_events,
            column.trials,
            column.invalid,
            column.end
        );
    }
    for (name, value) in results(map) {
        let _ = writeln!(text, "{name:<12} {value}");
    }
    if !map.remark.is_empty() {
        let _ = writeln!(text, "no depth and no rate: {}", map.remark);
    }
    let _ = write!(text, "{} trials in {:.0} s", map.points.len(), map.seconds);
    text
}

fn or_none(events: Option<u64>) -> String {
    events.map_or("–".to_owned(), |events| events.to_string())
}

/// Returns the results, each with its name and value.
pub(super) fn results(map: &Watershed) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if map.rate_source == RateSource::Measured {
        let rate = map.assumed_rate_bits_per_s * 1e-6;
        found.push((
            "output",
            format!("{rate:.2} Mb/s came while it was overloaded; columns were chosen by that"),
        ));
    }
    if let Some(fit) = &map.fit {
        found.extend(fit_results(map, fit));
    }
    if let Some(comparison) = &map.model {
        let difference = comparison
            .log_likelihood_difference
            .map_or("the other kind fits no trial".to_owned(), |difference| {
                format!("log likelihood ratio {difference:+.0} for one shared buffer")
            });
        let made =
            map.true_queues.map_or(String::new(), |queues| format!("; made as {}", queues_text(queues)));
        found.push(("queues", format!("{}: {difference}{made}", verdict_text(comparison.verdict))));
    }
    if let Some(acceptance) = map.acceptance {
        let word = if acceptance.passes { "passes" } else { "does NOT pass" };
        found.push((
            "acceptance",
            format!(
                "{word}: it holds {:.2} s of {:.1} triggers per second, and a second is asked for",
                acceptance.held_s, acceptance.planned_rate_hz
            ),
        ));
    }
    if map.testbed.is_none() {
        found.push(("start", start_text(map.start_skew)));
    }
    found.extend(flow_control_text(&map.flow_control).map(|words| ("flow control", words)));
    found
}

fn fit_results(map: &Watershed, fit: &Fit) -> Vec<(&'static str, String)> {
    let interval =
        |[low, high]: [f64; 2], factor: f64| format!("[{:.3} to {:.3}]", low * factor, high * factor);
    let made = |found: f64, made: Option<f64>, factor: f64, unit: &str| {
        made.map_or(String::new(), |made| {
            format!(", made as {:.3} {unit}: {:+.2} %", made * factor, 100.0 * (found / made - 1.0))
        })
    };
    let depth_name = if fit.buffering == Buffering::PerSource { "each queue" } else { "depth" };
    let bits = 8.0 * fit.rate_bytes_per_s;
    vec![
        (
            depth_name,
            format!(
                "{:.3} MB {}{}",
                fit.depth_bytes * 1e-6,
                interval(fit.depth_interval_bytes, 1e-6),
                made(fit.depth_bytes, map.true_depth_bytes.map(|bytes| bytes as f64), 1e-6, "MB")
            ),
        ),
        (
            "drain rate",
            format!(
                "{:.2} Mb/s {}{}",
                bits * 1e-6,
                interval(fit.rate_interval_bytes_per_s, 8e-6),
                made(bits, map.true_rate_bits_per_s, 1e-6, "Mb/s")
            ),
        ),
        (
            "fit",
            format!(
                "the edge is {:.1} kB wide; columns lie {:.2} % off the curve (rms); {} trials count, {} do not",
                fit.width_bytes * 1e-3,
                100.0 * fit.residual_rms,
                fit.trials,
                fit.invalid
            ),
        ),
    ]
}

fn queues_text(queues: Buffering) -> &'static str {
    match queues {
        Buffering::Shared => "one shared buffer",
        Buffering::PerSource => "a queue per input",
    }
}

fn verdict_text(verdict: model::BufferVerdict) -> &'static str {
    match verdict {
        model::BufferVerdict::Shared => queues_text(Buffering::Shared),
        model::BufferVerdict::PerSource => queues_text(Buffering::PerSource),
        model::BufferVerdict::Undecided => "undecided",
    }
}

pub(super) fn report(map: &Watershed, is_finished: bool) -> Report {
    let results = results(map);
    let found: Vec<String> = results.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let verdict = match (is_finished, &map.fit, map.acceptance) {
        (false, ..) => {
            ValueVerdict::Measuring(format!("{} trials in {:.0} s", map.points.len(), map.seconds))
        }
        (_, None, _) => ValueVerdict::Fails(format!("no depth and no rate: {}", map.remark)),
        (_, _, None) => ValueVerdict::Found(found.join("\n")),
        (_, _, Some(acceptance)) if acceptance.passes => ValueVerdict::Passes(found.join("\n")),
        (_, _, Some(_)) => ValueVerdict::Fails(found.join("\n")),
    };
    let named = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![
        named("sources", map.sources.to_string()),
        named(
            "datagram",
            format!("{} bytes; a frame takes {} bytes in the device", map.datagram_bytes, map.frame_bytes),
        ),
        named("trials", format!("{} in {:.0} s", map.points.len(), map.seconds)),
    ];
    facts.extend(results.into_iter().map(|(name, value)| named(name, value)));
    Report {
        title: "Buffer of a device under synchronous bursts".to_owned(),
        verdict,
        facts,
        pictures: vec![(
            "Every trial, and the edge between lossless and lossy bursts".to_owned(),
            watershed_svg(map),
        )],
        tables: tables(map).into_iter().filter(|table| !table.rows.is_empty()).collect(),
        // While it is measured the page is loaded every second: the numbers come at the end.
        raw: if is_finished { serde_json::to_string(map).unwrap_or_default() } else { String::new() },
        raw_name: "watershed.json",
    }
}

/// Separations, and trials that do not count.
pub(super) fn tables(map: &Watershed) -> [Table; 2] {
    let row = |column: &watershed::ColumnReport| {
        vec![
            column.sources.to_string(),
            format!("{:.1}", column.separation_s * 1e6),
            column.lossless_events.to_string(),
            or_none(column.lossy_events),
            or_none(column.predicted_events),
            column.trials.to_string(),
            column.invalid.to_string(),
            column.end.clone(),
        ]
    };
    let columns = Table {
        title: "Separations".to_owned(),
        columns: vec![
            "sources",
            "separation / µs",
            "lossless up to",
            "lossy from",
            "predicted",
            "trials",
            "invalid",
            "end",
        ],
        rows: map.columns.iter().map(row).collect(),
    };
    let invalid = map.points.iter().filter(|point| point.outcome == "invalid");
    let invalid_row = |point: &Point| {
        vec![
            point.sources.to_string(),
            format!("{:.1}", point.separation_s * 1e6),
            point.events.to_string(),
            point.why.clone(),
        ]
    };
    let reasons = Table {
        title: "Trials that do not count".to_owned(),
        columns: vec!["sources", "separation / µs", "events", "why"],
        rows: invalid.map(invalid_row).collect(),
    };
    [columns, reasons]
}
