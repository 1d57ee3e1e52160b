//! The reports of recordings, for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use thalweg_run::recording::{
    EdgeReport, Inspection, LossReport, NodesReport, RecoverReport, RemovedTables, Table, VerifyReport,
    percent_of,
};

use crate::report::si;

pub(super) fn verified(report: &VerifyReport) -> String {
    let mut text = String::new();
    for table in &report.tables {
        let _ = writeln!(
            text,
            "  {:<20} {:>12} rows in {:>6} batches, {}B, checksums right",
            table.file,
            table.rows,
            table.batches,
            si(table.bytes as f64)
        );
    }
    removed(report.removed.as_ref(), &mut text);
    verified_rows(report, &mut text);
    let ledger = &report.ledger;
    // The ledger of the run still counts the rows that its files have lost since.
    let then = if report.missing.is_empty() { "" } else { " then" };
    let recorded = [
        (ledger.hits_recorded, ledger.hits_kept.words_of_hits()),
        (ledger.events_recorded, ledger.events_kept.words_of_events()),
    ];
    let mut recorded: Vec<String> =
        recorded.into_iter().filter_map(|(count, what)| Some(format!("{} {what}{then}", count?))).collect();
    recorded.extend(ledger.coincidences_recorded.map(|count| format!("{count} coincidences recorded{then}")));
    recorded.extend(left_out(ledger.hits_left_out));
    let verdict = if ledger.present { ledger.verdict } else { "is not there" };
    let _ = writeln!(
        text,
        "  the ledger {verdict}{}{}",
        if recorded.is_empty() { "" } else { ", " },
        recorded.join("; ")
    );
    if ledger.present {
        losses(Some(&ledger.loss), &ledger.beside, &mut text);
    }
    for missing in &report.missing {
        let _ = writeln!(text, "  missing since: {missing}");
    }
    edges(&report.edges, &mut text);
    for problem in &report.problems {
        let _ = writeln!(text, "  problem: {problem}");
    }
    let verdict = if report.ok { "verified" } else { "NOT VERIFIED" };
    format!("{verdict}: {}\n{text}", report.run_directory.display())
}

/// Writes what was checked of the rows of events, hits and coincidences.
fn verified_rows(report: &VerifyReport, text: &mut String) {
    let events = &report.events;
    if events.events > 0 {
        let _ = writeln!(
            text,
            "  events: {}, {} complete; {} fragments, {}B",
            events.events,
            events.complete,
            events.fragments,
            si(events.payload_bytes as f64)
        );
        let _ = writeln!(
            text,
            "  trigger order: {} out of order, {} doubled, {} of another attempt",
            events.out_of_order, events.doubled, events.superseded
        );
    }
    selected_by(events.filter.as_deref(), &events.selected, text);
    if report.tables.iter().any(|table| table.table == Table::Hits) {
        let _ = writeln!(
            text,
            "  time order: {} hits, {} out of order, {} late by their flag",
            report.hits, report.hits_out_of_order, report.hits_late
        );
    }
    let coincidences = &report.coincidences;
    if coincidences.events > 0 {
        let _ = writeln!(
            text,
            "  coincidences: {} of {} hits, {} out of order, {} that contradict themselves",
            coincidences.events, coincidences.hits, coincidences.out_of_order, coincidences.contradictory
        );
    }
}

/// Writes what went from readout units to builder units.
fn edges(edges: &[EdgeReport], text: &mut String) {
    for edge in edges {
        let at_least = if edge.at_least { "≥ " } else { "" };
        let EdgeReport { readout, builder, ranges, acknowledged, unacknowledged, .. } = edge;
        let _ = write!(
            text,
            "  {readout} to {builder}: {at_least}{ranges} ranges, {at_least}{acknowledged} fragments acknowledged, \
             {at_least}{unacknowledged} not; on file: {}",
            known(edge.on_file)
        );
        let _ = match edge.unbalanced {
            0 => writeln!(text),
            count => writeln!(text, "; {count} NOT BALANCED"),
        };
    }
}

fn known(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".to_owned(), |count| count.to_string())
}

pub(super) fn verified_nodes(report: &NodesReport) -> String {
    let mut text: String = report.nodes.iter().map(verified).collect();
    let verdict = if report.ok { "verified" } else { "NOT VERIFIED" };
    let _ = writeln!(text, "{verdict}: {} nodes together", report.nodes.len());
    let (events, superseded) = (known(report.events), report.superseded);
    let _ = writeln!(text, "  events on file: {events}; {superseded} rows of another attempt");
    for shipped in &report.units {
        let at_least = if shipped.at_least { "≥ " } else { "" };
        let on_file = known(shipped.on_file);
        let _ = writeln!(
            text,
            "  {}: {at_least}{} fragments given, {at_least}{} acknowledged, {at_least}{} of unknown fate; on file: {on_file}",
            shipped.unit, shipped.given, shipped.acknowledged, shipped.unknown
        );
    }
    edges(&report.edges, &mut text);
    for remark in &report.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    for problem in &report.problems {
        let _ = writeln!(text, "  problem: {problem}");
    }
    text
}

/// Writes which tables of a run were removed by the policy on old runs.
fn removed(removed: Option<&RemovedTables>, text: &mut String) {
    if let Some(removed) = removed {
        let _ = writeln!(text, "  not there any more: {removed}");
    }
}

/// Describes a run that recorded only what was requested.
fn left_out(hits: Option<u64>) -> Option<String> {
    hits.filter(|hits| *hits > 0).map(|hits| format!("{hits} hits left out on request"))
}

pub(super) fn recovered(report: &RecoverReport) -> String {
    let what = if report.changed { "recovered" } else { "whole already" };
    let mut text = format!("{what}: {}\n", report.run_directory.display());
    for table in &report.tables {
        let _ = write!(
            text,
            "  {:<20} {:>12} rows in {} batches",
            table.summary.file, table.summary.rows, table.summary.batches
        );
        if table.bytes_removed > 0 || !table.reason.is_empty() {
            let _ = write!(text, "; {} bytes taken away: {}", table.bytes_removed, table.reason);
        }
        if !table.backup.is_empty() {
            let _ = write!(text, "; what was replaced or cut off is kept as {}", table.backup);
        }
        text.push('\n');
    }
    for missing in &report.missing {
        let _ = writeln!(text, "  missing: {missing}");
    }
    removed(report.removed.as_ref(), &mut text);
    let came = [
        (report.hits_came, report.hits_not_on_file, "hits"),
        (report.events_came, report.events_not_on_file, "events"),
        (report.coincidences_came, report.coincidences_not_on_file, "coincidences"),
        (report.raw_bytes_came, report.raw_bytes_not_on_file, "raw bytes"),
    ];
    let at_least = if report.at_least { "≥ " } else { "" };
    for (came, missing, what) in came {
        if let (Some(came), Some(missing)) = (came, missing) {
            let _ = writeln!(
                text,
                "  {at_least}{came} {what} had come to the recording; {at_least}{missing} of them are not on file"
            );
        }
    }
    text
}

fn inspected_events(report: &Inspection, text: &mut String) {
    if let Some(events) = &report.events {
        let _ = writeln!(
            text,
            "  {} events over {:.3} s: {}events/s; {} complete, {} fragments, {}B, built within {:.3} ms on average",
            events.events,
            events.span_s,
            si(events.rate_hz),
            events.complete,
            events.fragments,
            si(events.bytes as f64),
            events.mean_building_ms
        );
        selected_by(events.filter.as_deref(), &events.selected, text);
        for (closing, count) in &events.closings {
            let _ = writeln!(text, "  closed by {closing:<10} {count:>12}");
        }
    }
}

/// By what an event filter has selected the events, if one has, and why each is recorded.
fn selected_by(filter: Option<&str>, selected: &BTreeMap<&'static str, u64>, text: &mut String) {
    if let Some(filter) = filter {
        let _ = writeln!(text, "  selected by the event filter: {filter}");
    }
    if !selected.is_empty() {
        let counts: Vec<String> = selected.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let _ = writeln!(text, "  of the recorded events: {}", counts.join(", "));
    }
}

fn inspected_coincidences(report: &Inspection, text: &mut String) {
    for cut in &report.cuts {
        let percent = percent_of(cut.kept, cut.input).unwrap_or(0.0);
        let _ = writeln!(
            text,
            "  cut {} on each {}: {} of {} kept, {percent:.1} %",
            cut.name, cut.on, cut.kept, cut.input
        );
    }
    if let Some(left_out) = left_out(report.hits_left_out) {
        let _ = writeln!(text, "  {left_out}");
    }
    let Some(coincidences) = &report.coincidences else { return };
    let _ = writeln!(
        text,
        "  {} coincidences of {} hits: {}/s",
        coincidences.events,
        coincidences.hits,
        si(coincidences.rate_hz)
    );
    for (multiplicity, count) in &coincidences.multiplicities {
        let _ = writeln!(text, "  of multiplicity {multiplicity:>3}  {count:>12}");
    }
    if !coincidences.first_events.is_empty() {
        let _ = writeln!(text, "  {:>20}  {:>9}  channel at ps after the reference", "time / ps", "event");
    }
    for event in &coincidences.first_events {
        let hits: Vec<String> = event.hits.iter().map(|(channel, dt)| format!("{channel} at {dt}")).collect();
        let _ = writeln!(text, "  {:>20}  {:>9}  {}", event.time_ps, event.event, hits.join(", "));
    }
}

fn inspected_losses(report: &Inspection, text: &mut String) {
    losses(report.loss.as_ref(), &report.beside, text);
    for kind in report.loss.iter().flat_map(|loss| &loss.kinds) {
        let _ = writeln!(text, "  {}", kind.what());
    }
    for row in &report.first_losses {
        let _ = writeln!(text, "  lost from {row}");
    }
    let listed = report.tables.iter().filter(|table| table.table == Table::Losses.word());
    let more = listed.map(|table| table.rows).sum::<u64>().saturating_sub(report.first_losses.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  … and {more} more rows in losses.arrows");
    }
}

/// Writes the total losses, and what the ledger cannot say.
fn losses(loss: Option<&LossReport>, beside: &[String], text: &mut String) {
    for total in loss.iter().flat_map(|loss| &loss.totals) {
        let _ = writeln!(text, "  {total}");
    }
    for line in beside {
        let _ = writeln!(text, "  {line}");
    }
}

pub(super) fn inspected(report: &Inspection) -> String {
    let mut text = format!("{}  {}\n", report.path.display(), report.title);
    if !report.started.is_empty() {
        let state = report.state.map_or(String::new(), |state| format!("{state:?}").to_lowercase());
        let stopped = if report.stopped.is_empty() { "at a time that is not known" } else { &report.stopped };
        let _ = writeln!(text, "  {state}, started {}, stopped {stopped}", report.started);
    }
    removed(report.removed.as_ref(), &mut text);
    inspected_events(report, &mut text);
    if report.events.is_none() && report.removed.is_none() || report.hits > 0 {
        let _ = writeln!(
            text,
            "  {} hits over {:.6} s: {}hits/s",
            report.hits,
            report.span_s,
            si(report.rate_hz)
        );
    }
    for channel in &report.channels {
        let mean =
            channel.mean_energy.map_or("no energy".to_owned(), |mean| format!("mean energy {mean:.1}"));
        let _ = writeln!(
            text,
            "  channel {:>5}  {:>12} hits  {:>9}hits/s  {mean}",
            channel.channel,
            channel.hits,
            si(channel.rate_hz)
        );
    }
    let flags =
        report.flags.iter().map(|(flag, count)| format!("{flag} {count}")).collect::<Vec<_>>().join(", ");
    if !flags.is_empty() {
        let _ = writeln!(text, "  flags: {flags}");
    }
    if !report.first_hits.is_empty() {
        let _ =
            writeln!(text, "  {:>20}  {:>7}  {:>6}  {:>6}  flags", "time / ps", "channel", "energy", "short");
    }
    for hit in &report.first_hits {
        let number = |value: Option<u16>| value.map_or("-".to_owned(), |value| value.to_string());
        let _ = writeln!(
            text,
            "  {:>20}  {:>7}  {:>6}  {:>6}  {}",
            hit.time_ps,
            hit.channel,
            number(hit.energy),
            number(hit.energy_short),
            hit.flags
        );
    }
    inspected_coincidences(report, &mut text);
    for table in &report.tables {
        let _ = writeln!(text, "  {:<20} {:>12} rows, {}B", table.file, table.rows, si(table.bytes as f64));
    }
    if let Some(verdict) = report.ledger_verdict {
        let _ = writeln!(text, "  the ledger {verdict}");
    }
    inspected_losses(report, &mut text);
    for note in &report.notes {
        let _ = writeln!(text, "  note {}: {}", note.time, note.text);
    }
    for problem in &report.problems {
        let _ = writeln!(text, "  problem: {problem}");
    }
    text
}
