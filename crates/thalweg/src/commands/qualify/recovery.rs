//! `qualify recovery`: how long a device takes after an overflow.

use std::fmt::Write as _;

use thalweg_qualify::recovery::{self, Attempt, Probe, Recovery};
use thalweg_qualify::report::{Report, Table, ValueVerdict};
use thalweg_run::plot::{Chart, Series, lines_svg};

use super::because;
use super::device::{Device, Outputs, flow_control_fact, flow_control_text};
use crate::arguments::QualifyRecovery;
use crate::commands::Ended;
use crate::report::CommandOutcome;
use crate::terminal;

pub(super) fn recovery(options: &QualifyRecovery, json: bool) -> Ended {
    let outputs = Outputs::new(&options.outputs)?;
    let device = Device::open(&options.device)?;
    let mut rig = device.rig(device.datagram_bytes())?;
    let found = recovery::measure(&mut rig, &mut |attempt| {
        if !json {
            terminal::notice(&attempt_text(attempt));
        }
    })?;
    outputs.finish((&found, json), words, svg, report)?;
    Ok(if found.remark.is_empty() { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn attempt_text(attempt: &Attempt) -> String {
    let sign = match attempt.lost {
        Some(0) => "●",
        Some(_) => "×",
        None => "?",
    };
    let lost = attempt.lost.map_or("it does not count".to_owned(), |lost| format!("{lost} lost"));
    format!(
        "{sign} {:>6} events {:>9.2} ms after the overflow: {lost}{}",
        attempt.probe_events,
        attempt.pause_s * 1e3,
        because(&attempt.why)
    )
}

fn pause_text(probe: &Probe) -> String {
    probe.lossless_pause_s.map_or("–".to_owned(), |pause_s| format!("{:.2}", pause_s * 1e3))
}

fn result(found: &Recovery) -> String {
    match found.of_draining.zip(found.lossless_events).zip(found.overflow_events) {
        Some(((of, lossless), overflow)) => format!(
            "the largest probe is lossless after {of:.2} times what a queue takes that just drains; {lossless} events lose nothing, {overflow} overflow"
        ),
        None => format!("not known: {}", found.remark),
    }
}

fn words(found: &Recovery) -> String {
    let mut text = format!(
        "{} sources of {} bytes, events {:.1} µs apart\n{:>8}  {:>10}  {:>14}  {:>14}  {:>12}\n",
        found.sources,
        found.datagram_bytes,
        found.separation_s * 1e6,
        "probe",
        "bytes",
        "lossless after",
        "lossy up to",
        "draining"
    );
    for probe in &found.probes {
        let _ = writeln!(
            text,
            "{:>8}  {:>7.3} MB  {:>11} ms  {:>11.2} ms  {:>9.2} ms",
            probe.events,
            probe.bytes * 1e-6,
            pause_text(probe),
            probe.lossy_pause_s * 1e3,
            probe.draining_s * 1e3
        );
    }
    if let Some(words) = flow_control_text(&found.flow_control) {
        let _ = writeln!(text, "flow control {words}");
    }
    text + "recovery     " + &result(found)
}

fn svg(found: &Recovery) -> String {
    let measured =
        found.probes.iter().filter_map(|probe| Some((probe.bytes * 1e-6, probe.lossless_pause_s? * 1e3)));
    let draining = found.probes.iter().map(|probe| (probe.bytes * 1e-6, probe.draining_s * 1e3));
    lines_svg(&Chart {
        title: "Recovery from overflow".to_owned(),
        subtitle: result(found),
        x_title: "what the next burst fills / MB".to_owned(),
        y_title: "pause after which nothing of it is lost / ms".to_owned(),
        logarithmic_x: false,
        logarithmic_y: false,
        series: vec![
            Series { name: "measured".to_owned(), points: measured.collect() },
            Series { name: "just draining".to_owned(), points: draining.collect() },
        ],
    })
}

fn report(found: &Recovery) -> Report {
    let row = |probe: &Probe| {
        vec![
            probe.events.to_string(),
            format!("{:.3}", probe.bytes * 1e-6),
            pause_text(probe),
            format!("{:.2}", probe.lossy_pause_s * 1e3),
            format!("{:.2}", probe.draining_s * 1e3),
        ]
    };
    Report {
        title: "Recovery from overflow".to_owned(),
        verdict: match found.remark.is_empty() {
            true => ValueVerdict::Found(result(found)),
            false => ValueVerdict::Fails(result(found)),
        },
        facts: [
            ("sources".to_owned(), found.sources.to_string()),
            ("datagram".to_owned(), format!("{} bytes", found.datagram_bytes)),
            ("separation of events".to_owned(), format!("{:.1} µs", found.separation_s * 1e6)),
            (
                "burst that overflows".to_owned(),
                found.overflow_events.map_or("not known".to_owned(), |events| format!("{events} events")),
            ),
        ]
        .into_iter()
        .chain(flow_control_fact(&found.flow_control))
        .collect(),
        pictures: vec![("The pause that a burst needs, against what it fills".to_owned(), svg(found))],
        tables: vec![Table {
            title: "Probes".to_owned(),
            columns: vec!["events", "fill / MB", "lossless after / ms", "lossy up to / ms", "draining / ms"],
            rows: found.probes.iter().map(row).collect(),
        }],
        raw: serde_json::to_string(found).unwrap_or_default(),
        raw_name: "recovery.json",
    }
}
