//! `qualify incast`: few events of more and more ports.

use std::fmt::Write as _;

use thalweg_qualify::incast::{self, Incast, PortsPoint};
use thalweg_qualify::report::{Report, Table, ValueVerdict};
use thalweg_run::plot::{Chart, Series, lines_svg};

use super::device::{Device, Outputs, flow_control_fact, flow_control_text};
use super::{because, sign};
use crate::arguments::QualifyIncast;
use crate::commands::Ended;
use crate::report::CommandOutcome;
use crate::terminal;

pub(super) fn incast(options: &QualifyIncast, json: bool) -> Ended {
    let outputs = Outputs::new(&options.outputs)?;
    let device = Device::open(&options.device)?;
    let mut rig = device.rig(device.datagram_bytes())?;
    let events = (options.events, options.separation_us * 1e-6);
    let found = incast::sweep(&mut rig, events, options.repeats, &mut |point| {
        if !json {
            terminal::notice(&point_text(point));
        }
    })?;
    outputs.finish((&found, json), words, svg, report)?;
    Ok(if found.remark.is_empty() { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn point_text(point: &PortsPoint) -> String {
    let PortsPoint { sources, outcome, why, sent, lost, separation_s, skew_median_s } = point;
    let apart =
        separation_s.map_or(String::new(), |separation_s| format!(", {:.1} µs apart", separation_s * 1e6));
    format!(
        "{} {sources:>3} ports{apart}, {:.1} µs from the first to the last: {lost} of {sent} lost{}",
        sign(outcome),
        skew_median_s * 1e6,
        because(why)
    )
}

fn result(found: &Incast) -> String {
    let Some(lossless) = found.lossless_sources else { return format!("{} events: not known", found.events) };
    let from = found
        .lossy_sources
        .map_or("no loss up to the last port".to_owned(), |ports| format!("loss from {ports} ports on"));
    format!("{} events: lossless up to {lossless} ports, {from}", found.events)
}

fn words(found: &Incast) -> String {
    let mut text = format!(
        "{} bytes each, {} trials with each number of ports\n{}",
        found.datagram_bytes,
        found.repeats,
        result(found)
    );
    if let Some(words) = flow_control_text(&found.flow_control) {
        let _ = write!(text, "\nflow control: {words}");
    }
    if !found.remark.is_empty() {
        let _ = write!(text, "\nnot everything counts: {}", found.remark);
    }
    text
}

fn svg(found: &Incast) -> String {
    let counted = found.points.iter().filter(|point| point.sent > 0);
    let part = |point: &PortsPoint| (f64::from(point.sources), 100.0 * point.lost as f64 / point.sent as f64);
    lines_svg(&Chart {
        title: format!("{} events of {} bytes from more and more ports", found.events, found.datagram_bytes),
        subtitle: result(found),
        x_title: "ports that send together".to_owned(),
        y_title: "datagrams lost / %".to_owned(),
        logarithmic_x: false,
        logarithmic_y: false,
        series: vec![Series { name: "lost".to_owned(), points: counted.map(part).collect() }],
    })
}

fn report(found: &Incast) -> Report {
    let row = |point: &PortsPoint| {
        let apart =
            point.separation_s.map_or("–".to_owned(), |separation_s| format!("{:.2}", separation_s * 1e6));
        vec![
            point.sources.to_string(),
            point.outcome.to_owned(),
            point.sent.to_string(),
            point.lost.to_string(),
            apart,
            format!("{:.2}", point.skew_median_s * 1e6),
            point.why.clone(),
        ]
    };
    Report {
        title: "Incast: events of many ports at once".to_owned(),
        verdict: match found.remark.is_empty() {
            true => ValueVerdict::Found(result(found)),
            false => ValueVerdict::Fails(format!("{}\n{}", result(found), found.remark)),
        },
        facts: [
            ("events".to_owned(), found.events.to_string()),
            ("datagram".to_owned(), format!("{} bytes", found.datagram_bytes)),
            ("trials with each number of ports".to_owned(), found.repeats.to_string()),
        ]
        .into_iter()
        .chain(flow_control_fact(&found.flow_control))
        .collect(),
        pictures: vec![("Datagrams lost against the number of ports".to_owned(), svg(found))],
        tables: vec![Table {
            title: "Ports".to_owned(),
            columns: vec!["ports", "outcome", "sent", "lost", "separation / µs", "first to last / µs", "why"],
            rows: found.points.iter().map(row).collect(),
        }],
        raw: serde_json::to_string(found).unwrap_or_default(),
        raw_name: "incast.json",
    }
}
