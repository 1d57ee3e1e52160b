//! The list of runs, as a table.

use std::fmt::Write;

use thalweg_run::recording::{Catalogue, LossTotal, Note, RunEntry};

use crate::report::si;

const HEAD: [&str; 10] =
    ["run", "title", "started (UTC)", "duration", "state", "hits", "events", "bytes", "losses", "labels"];
/// Whether the column is of numbers, which are set to the right.
const OF_NUMBERS: [bool; 10] = [true, false, false, true, false, true, true, true, false, false];
/// A longer title is cut.
const MOST_TITLE: usize = 32;
/// What is not known.
const UNKNOWN: &str = "-";

/// The catalogue, of which `all` runs were there before some were chosen.
pub(super) fn listed(catalogue: &Catalogue, all: usize) -> String {
    let rows: Vec<[String; 10]> = catalogue.runs.iter().map(row).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        let head = HEAD.map(str::to_owned);
        let widths: [usize; 10] = std::array::from_fn(|column| {
            let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        });
        [&head].into_iter().chain(&rows).for_each(|row| write_row(row, &widths, &mut text));
    }
    let directory = catalogue.directory.display();
    let _ = match (rows.len(), all) {
        (_, 0) => writeln!(text, "no run in {directory}"),
        (1, 1) => writeln!(text, "1 run in {directory}"),
        (count, all) if count == all => writeln!(text, "{count} runs in {directory}"),
        (count, all) => writeln!(text, "{count} of {all} runs in {directory}"),
    };
    for note in &catalogue.notes_for_next {
        let _ = writeln!(text, "for the next run: {}", note_line(note));
    }
    let problems = catalogue.runs.iter().flat_map(|run| &run.problems).chain(&catalogue.problems);
    problems.for_each(|problem| {
        let _ = writeln!(text, "problem: {}", plain(problem));
    });
    text
}

fn row(run: &RunEntry) -> [String; 10] {
    let known = |text: String| if text.is_empty() { UNKNOWN.to_owned() } else { text };
    let count =
        |count: Option<u64>| count.map_or(UNKNOWN.to_owned(), |count| si(count as f64).trim_end().to_owned());
    [
        run.number.to_string(),
        known(shortened(&plain(&run.title))),
        known(moment(&run.started)),
        run.seconds.map_or(UNKNOWN.to_owned(), duration),
        state_and_origin(run),
        count(run.hits),
        count(run.events),
        format!("{}B", si(run.bytes as f64)),
        short_losses(run.loss.as_deref()),
        run.labels.join(" "),
    ]
}

fn write_row(row: &[String; 10], widths: &[usize; 10], text: &mut String) {
    let mut line = String::new();
    for (column, cell) in row.iter().enumerate() {
        let padding = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
        let cell = if OF_NUMBERS[column] { format!("{padding}{cell}") } else { format!("{cell}{padding}") };
        line.push_str(&cell);
        line.push_str("  ");
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

/// Where a run stands, and whether its tables are still there.
pub(super) fn state(run: &RunEntry) -> String {
    let removed = if run.removed.is_some() { ", tables removed" } else { "" };
    format!("{}{removed}", run.state.word())
}

/// The same, and of a replay what it is one of.
fn state_and_origin(run: &RunEntry) -> String {
    let origin = run.replay.as_ref().map(|replay| format!(", {}", plain(&replay.brief())));
    state(run) + &origin.unwrap_or_default()
}

/// What a run has lost, as its ledger says it: the totals that are not zero.
fn short_losses(totals: Option<&[LossTotal]>) -> String {
    match totals {
        Some(totals) if !totals.is_empty() && totals.iter().all(LossTotal::is_none) => "no losses".to_owned(),
        Some(totals) => {
            losses(Some(&totals.iter().filter(|total| !total.is_none()).cloned().collect::<Vec<_>>()))
        }
        None => losses(None),
    }
}

/// The same with every total.
pub(super) fn losses(totals: Option<&[LossTotal]>) -> String {
    match totals {
        None => "unknown".to_owned(),
        Some([]) => UNKNOWN.to_owned(),
        Some(totals) => totals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// A note on one line.
pub(super) fn note_line(note: &Note) -> String {
    format!("{}: {}", written_by(&note.time, &note.author), plain(&note.text))
}

/// When something was written, and by whom, if that is known.
pub(super) fn written_by(time: &str, author: &str) -> String {
    let author = if author.is_empty() { String::new() } else { format!(" {}", plain(author)) };
    format!("{}{author}", moment(time))
}

/// A time to the second, as `2026-11-21 02:18:04`.
pub(super) fn moment(time: &str) -> String {
    time.get(..19).map_or_else(|| plain(time), |time| plain(&time.replacen('T', " ", 1)))
}

/// What people or broken files say, without characters that would move the cursor or colour the terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

fn shortened(title: &str) -> String {
    match title.chars().count() > MOST_TITLE {
        true => title.chars().take(MOST_TITLE - 1).chain(['…']).collect(),
        false => title.to_owned(),
    }
}

/// A time as people say it: `12.3 s`, `4 min 05 s`, `3 h 07 min`, `2 d 04 h`.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{:.1} s", seconds.max(0.0)),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_what_is_not_known_has_a_sign() {
        let run = |number, title: &str| RunEntry { number, title: title.to_owned(), ..RunEntry::default() };
        let mut known = run(42, "a title that is too long for a column of this table");
        known.started = "2026-11-21T02:18:04.123Z".to_owned();
        known.seconds = Some(3725.0);
        known.hits = Some(3_214_000);
        known.labels = vec!["good".to_owned(), "cosmics".to_owned()];
        let mut unknown = run(7, "es\u{1b}[31mcape");
        unknown.problems = vec!["runs/000007: has no run.json".to_owned()];
        let catalogue =
            Catalogue { directory: "runs".into(), runs: vec![unknown, known], ..Catalogue::default() };
        let text = listed(&catalogue, 5);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("run  title") && lines[1].starts_with("  7  es [31mcape"), "{text}");
        assert!(lines[1].contains("no record") && lines[1].ends_with("unknown"), "{text}");
        assert!(
            lines[2].contains("…  2026-11-21 02:18:04  1 h 02 min") && lines[2].contains("3.21 M"),
            "{text}"
        );
        assert!(lines[2].ends_with("good cosmics"), "{text}");
        assert_eq!(lines[3..], ["2 of 5 runs in runs", "problem: runs/000007: has no run.json"]);
        assert_eq!(
            listed(&Catalogue { directory: "runs".into(), ..Catalogue::default() }, 0),
            "no run in runs\n"
        );
    }

    #[test]
    fn times_have_two_units_at_most() {
        let said = [0.25, 59.94, 61.0, 3599.0, 11_220.0, 187_200.0].map(duration);
        assert_eq!(said, ["0.2 s", "59.9 s", "1 min 01 s", "59 min 59 s", "3 h 07 min", "2 d 04 h"]);
    }
}
