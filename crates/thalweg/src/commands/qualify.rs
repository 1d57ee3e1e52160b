//! What a device under test can do, measured.
//!
//! ```text
//!  --testbed rate=…,depth=…,datagram=… ─► Testbed ─► Rig ─► map, search ─► text, JSON, SVG
//! ```

use std::fmt::Write as _;

use anyhow::{Context, anyhow};
use thalweg_qualify::predict::quantity;
use thalweg_qualify::rig::Rig;
use thalweg_qualify::testbed::{Testbed, TestbedSettings};
use thalweg_qualify::throughput::{self, RatePoint, Throughput};
use thalweg_qualify::watershed::{self, Point, Watershed};

use thalweg_run::plot::watershed_svg;

use super::{Ended, generate};
use crate::arguments::{Qualify, QualifyCommand, QualifyThroughput, QualifyWatershed};
use crate::report::{Failure, Outcome, print};
use crate::terminal;

/// What a shaper may send at once after a rest, where nothing is said: a stall of so many bytes is caught up.
const BURST_BYTES: f64 = 40_000.0;
const SOURCES: u16 = 16;
const MOST_SOURCES: u16 = 512;

pub(crate) fn qualify(options: &Qualify, json: bool) -> Ended {
    match &options.command {
        QualifyCommand::Watershed(options) => watershed(options, json),
        QualifyCommand::Throughput(options) => throughput(options, json),
        QualifyCommand::Emit(options) => generate::emit(options, json),
        QualifyCommand::Receive(options) => generate::receive(options, json),
    }
}

/// Makes the device; beside it, the payload of its datagrams in bytes.
fn testbed(text: &str) -> Result<(Testbed, u32), Failure> {
    let (settings, datagram_bytes) =
        testbed_settings(text).map_err(|message| Failure::Usage(anyhow!("--testbed: {message}")))?;
    Ok((Testbed::new(settings)?, datagram_bytes))
}

fn watershed(options: &QualifyWatershed, json: bool) -> Ended {
    let (testbed, datagram_bytes) = testbed(&options.testbed)?;
    let mut rig = Rig::open(&testbed, datagram_bytes)?;
    let show = |point: &Point| {
        if !json {
            terminal::notice(&point_words(point));
        }
    };
    let map = watershed::map(&mut rig, usize::from(options.columns), &mut |point| show(point))?;
    if let Some(file) = &options.svg {
        std::fs::write(file, watershed_svg(&map)).with_context(|| file.display().to_string())?;
    }
    print(&map, json, map_words)?;
    Ok(if map.fit.is_some() { Outcome::Done } else { Outcome::Failed })
}

fn throughput(options: &QualifyThroughput, json: bool) -> Ended {
    let (testbed, datagram_bytes) = testbed(&options.testbed)?;
    let mut rig = Rig::open(&testbed, datagram_bytes)?;
    let show = |point: &RatePoint| {
        if !json {
            terminal::notice(&rate_words(point));
        }
    };
    let seconds = (options.trial_seconds, options.hold_seconds);
    let found = throughput::search(&mut rig, seconds, &mut |point| show(point))?;
    print(&found, json, throughput_words)?;
    Ok(if found.remark.is_empty() { Outcome::Done } else { Outcome::Failed })
}

fn rate_words(point: &RatePoint) -> String {
    let RatePoint { rate_hz, outcome, why, sent, lost, seconds } = point;
    let because = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{} {rate_hz:>10.1} Hz for {seconds:.1} s: {lost} of {sent} lost{because}", sign(outcome))
}

fn throughput_words(found: &Throughput) -> String {
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
    let _ = writeln!(
        text,
        "hidden       an overload of less than {:.2} % fills no buffer of this depth within a trial",
        100.0 * found.hidden_overload
    );
    if let (Some(held), Some(limit)) = (&found.held, found.loss_limit) {
        let _ = writeln!(
            text,
            "held         {:.1} s: 0 of {} lost; fewer than {limit:.1e} are, at 95 % confidence",
            held.seconds, held.sent
        );
    }
    match found.remark.is_empty() {
        true => text.trim_end().to_owned(),
        false => text + "no throughput: " + &found.remark,
    }
}

fn sign(outcome: &str) -> &'static str {
    match outcome {
        "lossless" => "●",
        "lossy" => "×",
        _ => "?",
    }
}

/// Reads `rate=800Mbit,depth=8MB,datagram=8972,sources=16,burst=40kB`.
fn testbed_settings(text: &str) -> Result<(TestbedSettings, u32), String> {
    let (mut rate, mut depth, mut datagram, mut burst, mut sources) =
        (None, None, None, BURST_BYTES, SOURCES);
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').ok_or(format!("`{part}` is no KEY=VALUE"))?;
        let bytes = || quantity::bytes(value).map_err(|error| format!("{key}: {error}"));
        match key {
            "rate" => {
                rate = Some(quantity::bits_per_second(value).map_err(|error| format!("rate: {error}"))?)
            }
            "depth" => depth = Some(bytes()?),
            "burst" => burst = bytes()?,
            "datagram" => datagram = Some(bytes()?),
            "sources" => {
                let count = value.parse().ok().filter(|count| (1..=MOST_SOURCES).contains(count));
                sources =
                    count.ok_or(format!("sources: \"{value}\" is no number from 1 to {MOST_SOURCES}"))?;
            }
            _ => return Err(format!("there is no `{key}`; there are rate, depth, datagram, sources, burst")),
        }
    }
    let missing =
        |what: &str, example: &str| format!("`{what}` is missing; write for example {what}={example}");
    let settings = TestbedSettings {
        rate_bits_per_s: rate.ok_or_else(|| missing("rate", "800Mbit"))?,
        depth_bytes: depth.ok_or_else(|| missing("depth", "8MB"))? as u64,
        burst_bytes: burst as u64,
        sources,
    };
    Ok((settings, datagram.ok_or_else(|| missing("datagram", "8972"))? as u32))
}

fn point_words(point: &Point) -> String {
    let Point { separation_s, events, outcome, why, sent, lost, .. } = point;
    let because = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!(
        "{} {events:>6} events {:>9.1} µs apart: {lost} of {sent} lost{because}",
        sign(outcome),
        separation_s * 1e6
    )
}

fn map_words(map: &Watershed) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} sources of {} bytes; a frame takes {} bytes in the device",
        map.sources, map.datagram_bytes, map.frame_bytes
    );
    let _ = writeln!(
        text,
        "{:>14}  {:>9}  {:>9}  {:>7}  {:>7}",
        "separation", "lossless", "lossy", "trials", "invalid"
    );
    for column in &map.columns {
        let lossy = column.lossy_events.map_or("–".to_owned(), |events| events.to_string());
        let _ = writeln!(
            text,
            "{:>11.1} µs  {:>9}  {lossy:>9}  {:>7}  {:>7}  {}",
            column.separation_s * 1e6,
            column.lossless_events,
            column.trials,
            column.invalid,
            column.end
        );
    }
    if let Some(fit) = &map.fit {
        let (low, high) = (fit.depth_interval_bytes[0], fit.depth_interval_bytes[1]);
        let depth = fit.depth_bytes;
        let _ = writeln!(
            text,
            "depth        {:.3} MB [{:.3} to {:.3}], made as {:.3} MB: {:+.2} %",
            depth * 1e-6,
            low * 1e-6,
            high * 1e-6,
            map.true_depth_bytes as f64 * 1e-6,
            100.0 * (depth / map.true_depth_bytes as f64 - 1.0)
        );
        let rate = |bytes_per_s: f64| bytes_per_s * 8e-6;
        let _ = writeln!(
            text,
            "drain rate   {:.2} Mb/s [{:.2} to {:.2}], made as {:.2} Mb/s: {:+.2} %",
            rate(fit.rate_bytes_per_s),
            rate(fit.rate_interval_bytes_per_s[0]),
            rate(fit.rate_interval_bytes_per_s[1]),
            map.true_rate_bits_per_s * 1e-6,
            100.0 * (8.0 * fit.rate_bytes_per_s / map.true_rate_bits_per_s - 1.0)
        );
        let _ = writeln!(
            text,
            "the edge is {:.1} kB wide; columns lie {:.2} % off the curve (rms); {} trials count, {} do not",
            fit.width_bytes * 1e-3,
            100.0 * fit.residual_rms,
            fit.trials,
            fit.invalid
        );
    }
    if !map.remark.is_empty() {
        let _ = writeln!(text, "no depth and no rate: {}", map.remark);
    }
    let _ = write!(text, "{} trials in {:.0} s", map.points.len(), map.seconds);
    text
}
