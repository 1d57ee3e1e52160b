//! Which runs are asked for.
//!
//! ```text
//!  words, labels, dates, state, source, losses ─► Query ── matches(RunEntry) ─► yes or no
//! ```
//! A run must match everything that is asked.

use jiff::civil::{Date, DateTime};

use super::entry::{EntryState, RunEntry};

/// What is asked of a run; nothing is, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Each of them occurs in the title, the comment, a note, a label, or the name of the directory; small and capital letters are the
    /// same.
    pub words: Vec<String>,
    /// It has each of them.
    pub labels: Vec<String>,
    /// It has none of them.
    pub without_labels: Vec<String>,
    /// It started then or later.
    pub since: Option<DateBound>,
    /// It started then or earlier; a date stands for the whole day.
    pub until: Option<DateBound>,
    /// It has lost something, or was killed, so that nobody knows.
    pub with_losses: bool,
    /// It has a source of this name.
    pub source: Option<String>,
    /// It stands there.
    pub state: Option<EntryState>,
    /// Only so many of those that match, the last ones.
    pub latest: Option<usize>,
}

/// A date or a time, UTC, as the beginning of what `run.json` has: `2026-11-21`, `2026-11-21T02:18`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateBound(String);

impl DateBound {
    /// Reads `2026-11-21`, `2026-11-21T02:18` or `2026-11-21T02:18:04`, with a space in place of the T, or a Z behind it.
    ///
    /// # Errors
    /// When it is none of them, in words.
    pub fn parse(text: &str) -> Result<DateBound, String> {
        let text = text.trim().trim_end_matches('Z').replacen(' ', "T", 1);
        let is_date = text.len() == 10 && text.parse::<Date>().is_ok();
        let is_time =
            matches!(text.len(), 16 | 19) && text.as_bytes()[10] == b'T' && text.parse::<DateTime>().is_ok();
        match is_date || is_time {
            true => Ok(DateBound(text)),
            false => Err("write a date or time of UTC, as 2026-11-21 or 2026-11-21T02:18".to_owned()),
        }
    }

    /// The beginning of a time that is as long as this one.
    fn start_of<'t>(&self, time: &'t str) -> Option<&'t str> {
        time.get(..self.0.len())
    }
}

impl Query {
    /// Whether a run is asked for.
    pub fn matches(&self, run: &RunEntry) -> bool {
        let has = |label: &String| run.labels.contains(label);
        let started_so = |bound: &DateBound, holds: fn(&str, &str) -> bool| {
            bound.start_of(&run.started).is_some_and(|start| holds(start, &bound.0))
        };
        self.labels.iter().all(has)
            && !self.without_labels.iter().any(has)
            && self.since.as_ref().is_none_or(|bound| started_so(bound, |start, bound| start >= bound))
            && self.until.as_ref().is_none_or(|bound| started_so(bound, |start, bound| start <= bound))
            && (!self.with_losses || run.has_losses())
            && self.source.as_ref().is_none_or(|source| run.sources.contains(source))
            && self.state.is_none_or(|state| run.state == state)
            && self.words.iter().all(|word| has_word(run, &word.to_lowercase()))
    }
}

fn has_word(run: &RunEntry, word: &str) -> bool {
    let own = [&run.title, &run.comment, &run.name].into_iter().chain(&run.labels);
    own.chain(run.notes.iter().map(|note| &note.text)).any(|text| text.to_lowercase().contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::Note;

    fn run() -> RunEntry {
        RunEntry {
            title: "Neutron gamma".to_owned(),
            started: "2026-11-21T02:18:04.123Z".to_owned(),
            labels: vec!["good".to_owned()],
            notes: vec![Note { text: "Vacuum at 3e-6, shift of Ána".to_owned(), ..Note::default() }],
            sources: vec!["left".to_owned()],
            state: EntryState::Ended,
            ..RunEntry::default()
        }
    }

    fn bound(text: &str) -> Option<DateBound> {
        Some(DateBound::parse(text).expect("a date"))
    }

    #[test]
    fn a_run_matches_what_is_asked_of_it() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let every = Query::default;
        let asked = [
            (true, every()),
            (true, Query { words: words(&["NEUTRON", "vacuum", "ána", "good"]), ..every() }),
            (false, Query { words: words(&["neutron", "proton"]), ..every() }),
            (true, Query { labels: words(&["good"]), without_labels: words(&["bad"]), ..every() }),
            (false, Query { labels: words(&["goo"]), ..every() }),
            (false, Query { without_labels: words(&["good"]), ..every() }),
            (true, Query { since: bound("2026-11-21"), until: bound("2026-11-21"), ..every() }),
            (true, Query { since: bound("2026-11-21T02:18"), until: bound("2026-11-21 02:18Z"), ..every() }),
            (false, Query { since: bound("2026-11-21T02:18:05"), ..every() }),
            (false, Query { until: bound("2026-11-20"), ..every() }),
            (false, Query { with_losses: true, ..every() }),
            (true, Query { source: Some("left".to_owned()), state: Some(EntryState::Ended), ..every() }),
            (false, Query { source: Some("right".to_owned()), ..every() }),
            (false, Query { state: Some(EntryState::Killed), ..every() }),
        ];
        for (is_asked, query) in asked {
            assert_eq!(query.matches(&run()), is_asked, "{query:?}");
        }
        let undated = RunEntry { started: String::new(), ..run() };
        assert!(
            !Query { since: bound("2000-01-01"), ..every() }.matches(&undated),
            "nobody knows when it was"
        );
    }

    #[test]
    fn a_date_is_refused_unless_there_is_such_a_day() {
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-02-30",
            "2026-11-21T25:00",
            "2026-11-21T02",
            "21.11.2026",
            "2026-11-21X02:18",
        ] {
            assert!(DateBound::parse(text).is_err(), "{text}");
        }
    }
}
