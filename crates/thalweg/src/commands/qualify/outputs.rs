//! `qualify watershed --outputs 2`: whether outputs share a buffer, in words, as a picture and as a page.

use std::fmt::Write as _;

use thalweg_qualify::outputs::{self, OutputBuffers, OutputsMap};
use thalweg_qualify::report::{Report, ValueVerdict};
use thalweg_qualify::rig::Rig;
use thalweg_qualify::watershed::{Settings, Watershed};
use thalweg_run::plot::{Chart, Series, lines_svg, watershed_svg};

use super::device::Outputs;
use super::watershed::{map_text, point_text, report as map_report, results, tables};
use crate::commands::Ended;
use crate::report::CommandOutcome;
use crate::terminal;

pub(super) fn outputs(rig: &mut Rig<'_>, settings: &Settings, files: &mut Outputs<'_>, json: bool) -> Ended {
    let found = outputs::map(rig, settings, &mut |map| {
        if let Some(point) = map.points.last().filter(|_| !json) {
            terminal::notice(&point_text(point));
        }
        files.live(|| map_report(map, false));
    })?;
    files.finish((&found, json), words, svg, report)?;
    let is_decided =
        found.comparison.is_some_and(|comparison| comparison.verdict != OutputBuffers::Undecided);
    let passes = [&found.alone, &found.together]
        .iter()
        .all(|map| map.acceptance.is_none_or(|acceptance| acceptance.passes));
    Ok(if is_decided && passes { CommandOutcome::Done } else { CommandOutcome::Failed })
}

/// Both depths, their ratio and what that says.
fn result(found: &OutputsMap) -> String {
    let Some(comparison) = &found.comparison else { return format!("not known: {}", found.remark) };
    let depth = |map: &Watershed| {
        map.fitted_depth_bytes.map_or("–".to_owned(), |bytes| format!("{:.3} MB", bytes * 1e-6))
    };
    let [low, high] = comparison.ratio_interval;
    let mut text = format!(
        "{}: an output holds {} beside another one and {} alone, {:.3} [{low:.3} to {high:.3}] of it",
        comparison.verdict.text(),
        depth(&found.together),
        depth(&found.alone),
        comparison.ratio
    );
    if !found.remark.is_empty() {
        let _ = write!(text, "; {}", found.remark);
    }
    text
}

/// Formats the result so that it fits above a picture.
fn short_result(found: &OutputsMap) -> String {
    found.comparison.map_or("not known".to_owned(), |comparison| {
        let [low, high] = comparison.ratio_interval;
        let verdict = comparison.verdict.text();
        format!("{verdict}: depth together ÷ alone {:.3} [{low:.3} to {high:.3}]", comparison.ratio)
    })
}

fn words(found: &OutputsMap) -> String {
    format!(
        "one output congested\n{}\n\nboth outputs congested; depth and rate are those of each\n{}\n\noutputs      {}",
        map_text(&found.alone),
        map_text(&found.together),
        result(found)
    )
}

fn svg(found: &OutputsMap) -> String {
    let edge = |name: &str, map: &Watershed| {
        let bracketed = map.columns.iter().filter(|column| column.lossless_events > 0);
        let points = bracketed.map(|column| (column.separation_s * 1e6, column.lossless_events as f64));
        Series { name: name.to_owned(), points: points.collect() }
    };
    lines_svg(&Chart {
        title: "The most events without a loss, with one output congested and with both".to_owned(),
        subtitle: short_result(found),
        x_title: "separation of events / µs".to_owned(),
        y_title: "events in a burst".to_owned(),
        logarithmic_x: false,
        logarithmic_y: true,
        series: vec![edge("one output", &found.alone), edge("both outputs", &found.together)],
    })
}

fn report(found: &OutputsMap) -> Report {
    let verdict = match &found.comparison {
        None => ValueVerdict::Fails(result(found)),
        Some(comparison) if comparison.verdict == OutputBuffers::Undecided => {
            ValueVerdict::Fails(result(found))
        }
        Some(_) => ValueVerdict::Found(result(found)),
    };
    let maps = [("one output", &found.alone), ("both outputs", &found.together)];
    let fact = |(place, map): &(&str, &Watershed)| {
        let named = |(name, value): (&str, String)| (format!("{place}: {name}"), value);
        results(map).into_iter().map(named).collect::<Vec<_>>()
    };
    let mut pictures = vec![("The edges of both maps".to_owned(), svg(found))];
    pictures.extend(maps.iter().map(|(place, map)| (format!("Every trial: {place}"), watershed_svg(map))));
    let titled = |(place, map): &(&str, &Watershed)| {
        tables(map).map(|mut table| {
            table.title = format!("{}: {place}", table.title);
            table
        })
    };
    Report {
        title: "Buffers of two outputs under synchronous bursts".to_owned(),
        verdict,
        facts: maps.iter().flat_map(fact).collect(),
        pictures,
        tables: maps.iter().flat_map(titled).filter(|table| !table.rows.is_empty()).collect(),
        raw: serde_json::to_string(found).unwrap_or_default(),
        raw_name: "outputs.json",
    }
}
