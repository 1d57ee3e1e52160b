//! A prediction of several hops, for people.

use std::fmt::Write;

use thalweg_qualify::predict::chain::sweep::{Swept, SweptPoint};
use thalweg_qualify::predict::chain::{ChainPrediction, HopPrediction, TriggerLimit};
use thalweg_qualify::predict::published::{Figure, Reproduction};

use super::seconds;
use crate::report::si;

/// The text for an unknown value.
const UNKNOWN: &str = "–";

fn or_unknown(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Text columns, each as wide as its widest cell; the first stands left, the others right.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let blanks = " ".repeat(width - cell.chars().count());
            line.push_str(&if column == 0 { format!("{cell}{blanks}") } else { format!("  {blanks}{cell}") });
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A chain, hop by hop.
pub(super) fn of_prediction(p: &ChainPrediction) -> String {
    let mut text = String::new();
    let _ = match (p.mean_rate_hz, p.event_bytes) {
        (Some(rate_hz), Some(bytes)) => writeln!(
            text,
            "triggers         {}Hz in the mean, {}B of payload each, {} links\n",
            si(rate_hz),
            si(bytes),
            p.links
        ),
        (Some(rate_hz), None) => {
            writeln!(
                text,
                "triggers         {}Hz in the mean, beside boards that send by themselves, {} links\n",
                si(rate_hz),
                p.links
            )
        }
        _ => writeln!(text, "sources          {} links that send by themselves\n", p.links),
    };
    text.push_str(&hops(p));
    text.push('\n');
    let unknown = p.hops.iter().filter(|hop| !hop.unknown.is_empty());
    for hop in unknown {
        let keys = hop.unknown.join(", ");
        let _ = match hop.is_predicted {
            true => writeln!(text, "not known        {keys}; {} holds everything here", hop.name),
            false => writeln!(text, "not predicted    {}: {keys} is not known", hop.name),
        };
    }
    let _ = match (p.bottleneck, p.saturates_at_factor) {
        (Some(name), Some(factor)) => {
            writeln!(text, "first saturated  {name}, {}", at(p.saturates_at_hz, factor))
        }
        _ => writeln!(text, "first saturated  not known: no rate of any hop is"),
    };
    let _ = writeln!(text, "limited by       {}", verdict(p));
    let _ = match frames_in(p) {
        0 if p.triggers == 0 => writeln!(text, "simulated        nothing: no hop has a rate"),
        _ => writeln!(text, "simulated        {}, seed {}; {}", simulated(p), p.seed, lost(p)),
    };
    for assumption in &p.assumptions {
        let _ = writeln!(text, "taken as true    {assumption}");
    }
    text
}

fn at(rate_hz: Option<f64>, factor: f64) -> String {
    match rate_hz {
        Some(rate_hz) => format!("at {}Hz of triggers in the mean, {factor:.2} times these", si(rate_hz)),
        None => format!("at {factor:.2} times these rates"),
    }
}

fn verdict(p: &ChainPrediction) -> String {
    match (p.limited_by, p.limited_at) {
        (TriggerLimit::Rate, Some(name)) => format!("{name}: it is asked for more than it carries"),
        (TriggerLimit::Depth, Some(name)) => {
            format!("the depth of {name}: the mean rate fits, and groups of frames do not")
        }
        _ if p.bottleneck.is_none() => "not known".to_owned(),
        _ => "nothing that is known: no loss is expected".to_owned(),
    }
}

fn frames_in(p: &ChainPrediction) -> u64 {
    p.hops.iter().filter_map(|hop| hop.simulated.as_ref()).map(|seen| seen.frames_in).max().unwrap_or(0)
}

fn simulated(p: &ChainPrediction) -> String {
    match p.triggers {
        0 => format!("{} frames in {}s", frames_in(p), seconds(p.seconds)),
        triggers => format!("{triggers} triggers in {}s", seconds(p.seconds)),
    }
}

fn lost(p: &ChainPrediction) -> String {
    match p.loss_limit_95() {
        Some(limit) => {
            format!("no trigger damaged; below {limit:.1e} at 95 % confidence if losses are independent")
        }
        None if p.triggers > 0 => {
            format!("{:.3e} of all frames lost, of {} triggers", p.loss_probability, p.damaged_triggers)
        }
        None => format!("{:.3e} of all frames lost", p.loss_probability),
    }
}

fn hops(p: &ChainPrediction) -> String {
    let head = [
        "hop",
        "servers",
        "offered",
        "rate of each",
        "load",
        "saturates at",
        "depth",
        "queue full",
        "lost",
        "highest level",
        "longest delay",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(p.hops.iter().map(row));
    table(&rows)
}

fn row(hop: &HopPrediction) -> Vec<String> {
    let seen = hop.simulated.as_ref();
    let per_second = |bytes: f64| format!("{}B/s", si(bytes));
    let lost = seen.map(|seen| match (seen.lost_frames, seen.held_back_frames) {
        (0, 0) => "0".to_owned(),
        (0, held) => format!("0, {held} waited"),
        _ => format!("{:.2e}", seen.loss_probability),
    });
    vec![
        hop.name.to_owned(),
        hop.servers.to_string(),
        per_second(hop.offered_bytes_per_s),
        or_unknown(hop.rate_bytes_per_s.map(per_second)),
        or_unknown(hop.utilisation.map(|load| format!("{:.1} %", 100.0 * load))),
        or_unknown(hop.saturates_at_hz.map(|rate_hz| format!("{}Hz", si(rate_hz)))),
        or_unknown(hop.depth_bytes.map(|bytes| format!("{}B", si(bytes)))),
        or_unknown(hop.full_probability.map(|probability| format!("{probability:.1e}"))),
        or_unknown(lost),
        or_unknown(seen.map(|seen| format!("{}B", si(seen.peak_bytes)))),
        or_unknown(seen.map(|seen| format!("{}s", seconds(seen.longest_delay_s)))),
    ]
}

/// A sweep, value by value.
pub(super) fn swept(swept: &Swept) -> String {
    let hops: Vec<&str> = swept
        .points
        .first()
        .map_or(Vec::new(), |point| point.prediction.hops.iter().map(|hop| hop.name).collect());
    let mut head = vec![swept.parameter.to_owned()];
    let is_predicted =
        |index: usize| swept.points.iter().any(|point| point.prediction.hops[index].is_predicted);
    let shown: Vec<usize> = (0..hops.len()).filter(|index| is_predicted(*index)).collect();
    for index in &shown {
        head.extend([hops[*index].to_owned(), "lost".to_owned()]);
    }
    head.push("limited by".to_owned());
    let row = |SweptPoint { value, prediction }: &SweptPoint| {
        let mut row = vec![format!("{}{}", si(*value), swept.unit)];
        for index in &shown {
            let hop = &prediction.hops[*index];
            row.push(or_unknown(hop.utilisation.map(|load| format!("{:.1} %", 100.0 * load))));
            let lost = hop.simulated.as_ref().map(|seen| seen.loss_probability);
            row.push(or_unknown(
                lost.map(|lost| if lost == 0.0 { "0".to_owned() } else { format!("{lost:.1e}") }),
            ));
        }
        row.push(prediction.limited_at.unwrap_or("nothing").to_owned());
        row
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(swept.points.iter().map(row)).collect();
    let mut text = table(&rows);
    text.push('\n');
    for saturation in &swept.saturations {
        let _ =
            writeln!(text, "saturated        {} at {}{}", saturation.hop, si(saturation.value), swept.unit);
    }
    let Some(SweptPoint { prediction, .. }) = swept.points.first() else { return text };
    for hop in prediction.hops.iter().filter(|hop| !hop.is_predicted) {
        let _ = writeln!(text, "not predicted    {}: {} is not known", hop.name, hop.unknown.join(", "));
    }
    let _ = writeln!(text, "simulated        {} at each value", simulated(prediction));
    for assumption in &prediction.assumptions {
        let _ = writeln!(text, "taken as true    {assumption}");
    }
    text
}

/// A published installation.
pub(super) fn reproduction(r: &Reproduction) -> String {
    let mut text = format!("{}\n", r.title);
    for level in &r.levels {
        let _ = writeln!(text, "\n{}\n{}", level.name, of_prediction(&level.prediction).trim_end());
    }
    text.push('\n');
    let number = |value: f64| if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    let mut rows = vec![["beside", "published", "ours"].map(str::to_owned).to_vec()];
    for Figure { name, published, ours, .. } in &r.figures {
        rows.push(vec![(*name).to_owned(), or_unknown(published.map(number)), number(*ours)]);
    }
    for (line, reason) in
        table(&rows).lines().zip(std::iter::once("").chain(r.figures.iter().map(|figure| figure.reason)))
    {
        let _ = writeln!(text, "{}", format!("{line}  {reason}").trim_end());
    }
    for missing in &r.missing {
        let _ = writeln!(text, "not published    {missing}");
    }
    text
}
