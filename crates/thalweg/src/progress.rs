//! The state of a run while it goes on: a few lines that stay in place on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use thalweg_run::recording::LossTotal;
use thalweg_run::supervise::{DeadTimeOf, EventState, LiveState, SourceState};
use thalweg_run::{Kept, RunState};

use crate::report::si;
use crate::terminal;

/// Plain lines come this often.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Shows a run's progress on standard error, where it disturbs no result, and holds up no one who calls.
pub(crate) struct Display(Arc<Mutex<Lines>>);

/// The lines on the terminal; touched only on the terminal's thread, because a terminal may stop accepting output.
enum Lines {
    /// One line per source and one for the whole, redrawn in place.
    Live { all: MultiProgress, sources: Vec<ProgressBar>, total: ProgressBar },
    /// A line now and then.
    Plain { last: Instant },
    /// No lines.
    Silent,
}

impl Display {
    /// Returns the display that suits standard error; none when only one JSON object is wanted.
    pub(crate) fn new(json: bool) -> Display {
        let lines = if json {
            Lines::Silent
        } else if std::io::stderr().is_terminal() {
            let all = MultiProgress::new();
            let total = all.add(line());
            Lines::Live { all, sources: Vec::new(), total }
        } else {
            Lines::Plain { last: Instant::now() }
        };
        Display(Arc::new(Mutex::new(lines)))
    }

    /// Shows the newest state.
    pub(crate) fn show(&self, state: &Arc<LiveState>) {
        let state = state.clone();
        self.draw(move |lines| lines.show(&state));
    }

    /// Removes the lines.
    pub(crate) fn finish(&self) {
        self.draw(|lines| lines.finish());
    }

    fn draw(&self, work: impl FnOnce(&mut Lines) + Send + 'static) {
        let lines = self.0.clone();
        terminal::draw(move || work(&mut lines.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

impl Lines {
    fn show(&mut self, progress: &LiveState) {
        match self {
            Lines::Silent => {}
            Lines::Plain { last } => {
                if last.elapsed() >= PLAIN_EVERY {
                    *last = Instant::now();
                    progress.events.iter().for_each(|events| terminal::notice(&event_line(events)));
                    terminal::notice(&total_line(progress));
                }
            }
            Lines::Live { all, sources, total } => {
                while sources.len() < progress.sources.len() {
                    sources.push(all.insert_before(total, line()));
                }
                let width =
                    progress.sources.iter().map(|source| source.name.chars().count()).max().unwrap_or(0);
                for (bar, source) in sources.iter().zip(&progress.sources) {
                    bar.set_message(source_line(source, width));
                }
                match &progress.events {
                    Some(events) => {
                        total.set_message(format!("{}\n{}", event_line(events), total_line(progress)))
                    }
                    None => total.set_message(total_line(progress)),
                }
            }
        }
    }

    fn finish(&mut self) {
        if let Lines::Live { sources, total, .. } = self {
            sources.iter().for_each(ProgressBar::finish_and_clear);
            total.finish_and_clear();
        }
    }
}

fn source_line(source: &SourceState, width: usize) -> String {
    let lost = source.loss.as_ref().map_or(String::new(), in_red_text);
    let (rate_hz, what) = match source.links {
        0 => (source.hit_rate_hz, "hits/s"),
        _ => (source.fragment_rate_hz, "fragments/s"),
    };
    format!(
        "  {:width$}  {:>9}{what}  {:>8}B/s  ring {}  pool {}  {lost}",
        source.name,
        known(rate_hz, many),
        known(source.byte_rate_hz, si),
        gauge(source.ring_fill),
        gauge(source.pool_fill),
    )
}

/// Any lines on a terminal that stay in place.
pub(crate) struct StandingLines {
    all: MultiProgress,
    bars: Vec<ProgressBar>,
}

impl StandingLines {
    /// None where standard error is no terminal, or JSON is all that is wanted.
    pub(crate) fn on_terminal(json: bool) -> Option<StandingLines> {
        let is_shown = !json && std::io::stderr().is_terminal();
        is_shown.then(|| StandingLines { all: MultiProgress::new(), bars: Vec::new() })
    }

    /// Replaces the shown lines by these.
    pub(crate) fn show(&mut self, texts: Vec<String>) {
        while self.bars.len() < texts.len() {
            self.bars.push(self.all.add(line()));
        }
        let drawn = self.bars.clone();
        terminal::draw(move || {
            let texts = texts.into_iter().chain(std::iter::repeat(String::new()));
            drawn.iter().zip(texts).for_each(|(bar, text)| bar.set_message(text));
        });
    }

    /// Removes the shown lines.
    pub(crate) fn finish(self) {
        terminal::draw(move || {
            self.bars.iter().for_each(ProgressBar::finish_and_clear);
            // A terminal that is gone shows nothing more.
            let _ = self.all.clear();
        });
    }
}

/// A line that stays in place.
fn line() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}").expect("the template is a constant");
    ProgressBar::new_spinner().with_style(style)
}

fn total_line(progress: &LiveState) -> String {
    let mark = match progress.state {
        RunState::Running => "●",
        RunState::Failed | RunState::Paused => "▲",
        _ => "■",
    };
    let left = progress.disk_left_seconds.map_or("unknown".to_owned(), duration);
    let hits = match progress.events.is_some() && progress.hits_recorded == 0 {
        true => String::new(),
        false => format!(
            "  {:>9}hits/s  {:>9}{}",
            known(progress.recorded_rate_hz, many),
            many(progress.hits_recorded as f64),
            progress.hits_kept.words_of_hits()
        ),
    };
    format!(
        "{mark} {}  {}{hits}  {}{}  disk {}B free, {left} left",
        progress.state,
        duration(progress.elapsed_seconds),
        progress.loss.iter().map(in_red_text).collect::<Vec<_>>().join("; "),
        dead_time(progress),
        si(progress.disk_free_bytes as f64),
    )
}

/// Formats a loss, in capitals where there is one.
fn in_red_text(loss: &LossTotal) -> String {
    if loss.is_none() { loss.to_string() } else { loss.text.replacen(" lost:", " LOST:", 1) }
}

/// Formats how much is not taken.
fn dead_time(progress: &LiveState) -> String {
    let Some(dead) = progress.dead_time else { return String::new() };
    let what = match dead.of {
        DeadTimeOf::Triggers => "of the triggers refused",
        DeadTimeOf::Busy => "of the time BUSY",
        DeadTimeOf::Boards => "of the time, as the boards report",
    };
    format!("  dead time {:.1} % ({what})", 100.0 * dead.fraction)
}

/// The events of a triggered run: how fast, how whole, how long they wait for their last fragment.
fn event_line(events: &EventState) -> String {
    let incomplete = events.completeness.iter().filter(|board| board.built < board.expected);
    let worst = incomplete.max_by_key(|board| board.expected - board.built);
    let missing = worst.map_or(String::new(), |board| {
        let missing = board.expected - board.built;
        format!("  {} MISSING {missing} of {}", board.name, board.expected)
    });
    let sample = &events.sample;
    let busy = sample
        .busy_share
        .map_or(String::new(), |fraction| format!("  BUSY {:>3.0} % of the time", 100.0 * fraction));
    let recorded = match events.events_kept {
        Kept::Rows => format!("{:>9}recorded", many(events.events_recorded as f64)),
        Kept::RawBytes => "raw bytes recorded".to_owned(),
        Kept::Nothing => "not recorded".to_owned(),
    };
    format!(
        "  {:>9}events/s  {recorded}  {} partial  {:>8}B each  {:>6} open  build latency p50 {:>5.0} µs{busy}{missing}",
        known(events.event_rate_hz, many),
        si(sample.partial() as f64).trim_end(),
        si(sample.median_event_bytes as f64),
        sample.open_events,
        sample.median_build_ns as f64 / 1e3,
    )
}

/// A number in front of what it counts, which is no unit: `1.35 M hits`.
fn many(value: f64) -> String {
    format!("{} ", si(value).trim_end())
}

/// A rate as it is written, or a dash where it is not known.
fn known(rate_hz: Option<f64>, written: fn(f64) -> String) -> String {
    rate_hz.map_or_else(|| "– ".to_owned(), written)
}

/// A fill level in eighths of a cell: five cells wide.
fn gauge(fill: f64) -> String {
    const CELLS: usize = 5;
    let eighths = (fill.clamp(0.0, 1.0) * (CELLS * 8) as f64).round() as usize;
    (0..CELLS)
        .map(|cell| match eighths.saturating_sub(cell * 8).min(8) {
            0 => '·',
            part => char::from_u32(0x2590 - part as u32).unwrap_or('█'),
        })
        .collect()
}

fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} m {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} m", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_have_one_width() {
        for fill in [0.0, 0.03, 0.5, 0.99, 1.0, 7.0] {
            assert_eq!(gauge(fill).chars().count(), 5);
        }
        assert_eq!(gauge(1.0), "█████");
    }

    #[test]
    fn a_rate_that_is_not_known_is_no_0() {
        let line = |recorded_rate_hz| total_line(&LiveState { recorded_rate_hz, ..LiveState::default() });
        assert!(line(Some(0.0)).contains(" 0 hits/s "), "{}", line(Some(0.0)));
        assert!(line(None).contains(" – hits/s "), "{}", line(None));
        let source = source_line(&SourceState::default(), 4);
        assert!(source.contains(" – hits/s ") && source.contains(" – B/s"), "{source}");
    }

    #[test]
    fn durations_read_as_people_say_them() {
        assert_eq!(duration(59.9), "59 s");
        assert_eq!(duration(3_720.0), "1 h 02 m");
    }
}
