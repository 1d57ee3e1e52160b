//! `qualify soak`: hours at a load that a device carries, and one page of what came of them.

use std::fmt::Write as _;

use thalweg_qualify::report::{Report, Table, ValueVerdict};
use thalweg_qualify::soak::{self, Soak, SoakPoint};
use thalweg_run::plot::{Chart, Series, lines_svg};

use super::because;
use super::device::{Device, Outputs};
use crate::arguments::QualifySoak;
use crate::commands::Ended;
use crate::report::CommandOutcome;
use crate::terminal;

pub(super) fn soak(options: &QualifySoak, json: bool) -> Ended {
    let mut outputs = Outputs::new(&options.outputs)?;
    let device = Device::open(&options.device)?;
    let mut rig = device.rig(device.datagram_bytes())?;
    let seconds = (options.seconds, options.trial_seconds);
    let found = soak::soak(&mut rig, options.load, seconds, &mut |soak| {
        if let Some(point) = soak.points.last().filter(|_| !json) {
            terminal::notice(&point_text(point));
        }
        outputs.live(|| report(soak, false));
    })?;
    outputs.finish((&found, json), words, svg, |soak| report(soak, true))?;
    Ok(if found.passes() { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn point_text(point: &SoakPoint) -> String {
    let counted =
        point.counted.map_or("the device was not asked".to_owned(), |counted| format!("{counted} counted"));
    format!("{:>8.0} s: {} of {} lost, {counted}{}", point.at_s, point.lost, point.sent, because(&point.why))
}

fn words(soak: &Soak) -> String {
    let mut text = format!(
        "{} sources of {} bytes at {:.2} of the output, {:.1} Hz, for {:.0} s: {} of {} datagrams lost, {} of them nobody counts",
        soak.sources,
        soak.datagram_bytes,
        soak.load,
        soak.rate_hz,
        soak.seconds,
        soak.lost,
        soak.sent,
        soak.unexplained
    );
    if let Some(limit) = soak.loss_limit {
        let _ = write!(text, "\nfewer than {limit:.1e} are lost, at 95 % confidence");
    }
    if soak.disturbed > 0 {
        let _ = write!(
            text,
            "\n{} of {} trials were not sent as asked, or something stood still",
            soak.disturbed,
            soak.points.len()
        );
        if soak.sent_undisturbed() == 0 {
            text += ", so the load was never applied";
        }
    }
    if let Some(fault) = soak.flow_control.fault() {
        let _ = write!(text, "\n{fault}");
    }
    text
}

fn svg(soak: &Soak) -> String {
    let running = |of: fn(&SoakPoint) -> u64| {
        let mut sum = 0;
        let place = move |point: &SoakPoint| {
            sum += of(point);
            (point.at_s / 60.0, sum as f64)
        };
        soak.points.iter().map(place).collect()
    };
    lines_svg(&Chart {
        title: format!("{:.0} % of what the output carries, for {:.0} s", 100.0 * soak.load, soak.seconds),
        subtitle: words(soak).lines().next().unwrap_or_default().to_owned(),
        x_title: "time / min".to_owned(),
        y_title: "datagrams lost so far".to_owned(),
        logarithmic_x: false,
        logarithmic_y: false,
        series: vec![
            Series { name: "lost".to_owned(), points: running(|point| point.lost) },
            Series { name: "counted".to_owned(), points: running(|point| point.counted.unwrap_or(0)) },
        ],
    })
}

fn report(soak: &Soak, is_finished: bool) -> Report {
    let said = words(soak);
    let row = |point: &SoakPoint| {
        let counted = point.counted.map_or("not asked".to_owned(), |counted| counted.to_string());
        vec![
            format!("{:.0}", point.at_s),
            point.sent.to_string(),
            point.lost.to_string(),
            counted,
            point.why.clone(),
        ]
    };
    let eventful = |point: &&SoakPoint| point.lost > 0 || !point.why.is_empty();
    let eventful = Table {
        title: "Trials in which something was lost, or not as asked".to_owned(),
        columns: vec!["time / s", "sent", "lost", "counted", "why"],
        rows: soak.points.iter().filter(eventful).map(row).collect(),
    };
    Report {
        title: "Soak at a load that the device carries".to_owned(),
        verdict: match (is_finished, soak.passes()) {
            (false, _) => ValueVerdict::Measuring(said),
            (true, true) => ValueVerdict::Passes(said),
            (true, false) => ValueVerdict::Fails(said),
        },
        facts: vec![
            ("trials".to_owned(), soak.points.len().to_string()),
            (
                "load".to_owned(),
                format!("{:.2} of the output, {:.1} events per second", soak.load, soak.rate_hz),
            ),
            ("datagram".to_owned(), format!("{} bytes", soak.datagram_bytes)),
        ],
        pictures: vec![("What was lost, and what of it was counted".to_owned(), svg(soak))],
        tables: if eventful.rows.is_empty() { Vec::new() } else { vec![eventful] },
        raw: if is_finished { serde_json::to_string(soak).unwrap_or_default() } else { String::new() },
        raw_name: "soak.json",
    }
}
