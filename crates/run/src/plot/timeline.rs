//! What was recorded, over time: events and how they were built, bytes as they arrived, values of slow control.
//!
//! ```text
//!  (when, what) ─► Timeline: stretches of 1 ms, folded in pairs when time goes on ─► Panels ─► timeline_svg ─► one SVG file
//! ```
//! A stretch in which nothing came has no mean: its line has a gap there.

use std::fmt::Write;

use thalweg_record::LossRow;

use super::colour;
use super::losses::Lanes;
use super::panel::{Frame, GREY, INK};
use super::scale::Scale;
use super::svg::{Area, Svg, Type};

/// A sum over a stretch of time.
pub trait Sum: Clone + Default {
    /// Adds what another stretch has.
    fn join(&mut self, other: &Self);
}

/// Sums over stretches of time: at most 4096 of 1 ms, 2 ms, 4 ms, …
#[derive(Clone, Debug)]
pub struct Timeline<S> {
    sums: Vec<S>,
    width_ns: u64,
}

impl<S: Sum> Default for Timeline<S> {
    fn default() -> Timeline<S> {
        Timeline { sums: Vec::new(), width_ns: Timeline::<S>::NARROWEST_NS }
    }
}

impl<S: Sum> Timeline<S> {
    const MOST: usize = 4096;
    const NARROWEST_NS: u64 = 1_000_000;
    /// Stretches in a picture: each a few pixels wide.
    const DRAWN: usize = 240;

    /// The sum of the stretch that holds this time, nanoseconds since run start.
    pub fn at(&mut self, time_ns: u64) -> &mut S {
        while time_ns / self.width_ns >= Self::MOST as u64 {
            self.fold();
        }
        let index = (time_ns / self.width_ns) as usize;
        if self.sums.len() <= index {
            self.sums.resize(index + 1, S::default());
        }
        &mut self.sums[index]
    }

    fn fold(&mut self) {
        self.sums = joined(&self.sums, 2);
        self.width_ns = self.width_ns.saturating_mul(2);
    }

    /// Seconds of each stretch, and their sums, as many as a picture shows. The last one may be cut short by the end of the
    /// run, would look like a drop, and is left out where there are others.
    fn drawn(&self) -> (f64, Vec<S>) {
        let group = self.sums.len().div_ceil(Self::DRAWN).max(1);
        let mut drawn = joined(&self.sums, group);
        if drawn.len() > 3 {
            drawn.pop();
        }
        (self.width_ns as f64 * 1e-9 * group as f64, drawn)
    }

    /// One line of a panel: a value of each stretch, from its sum and its length in seconds; `None` where there is no value.
    pub fn line(&self, name: &str, mut value: impl FnMut(&S, f64) -> Option<f64>) -> Line {
        let (step_s, sums) = self.drawn();
        Line { name: name.to_owned(), step_s, values: sums.iter().map(|sum| value(sum, step_s)).collect() }
    }
}

fn joined<S: Sum>(sums: &[S], group: usize) -> Vec<S> {
    let join = |sums: &[S]| {
        sums.iter().fold(S::default(), |mut all, sum| {
            all.join(sum);
            all
        })
    };
    sums.chunks(group).map(join).collect()
}

/// One line over time.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name written next to the panel's name, in its colour, where there are several.
    pub name: String,
    /// Seconds from value to value.
    pub step_s: f64,
    /// The values, the first from time 0.
    pub values: Vec<Option<f64>>,
}

/// One panel of the picture.
#[derive(Clone, Debug)]
pub struct TimePanel {
    /// Above it.
    pub title: String,
    /// Along y, with its unit.
    pub y_title: String,
    /// The range that the y axis covers at least.
    pub y_range: (f64, f64),
    /// Its lines.
    pub lines: Vec<Line>,
}

/// The words of the picture.
#[derive(Clone, Copy, Debug)]
pub struct TimeFacts<'a> {
    /// The run's title.
    pub title: &'a str,
    /// A short summary of what was recorded and lost.
    pub summary: &'a str,
    /// The run's directory and start.
    pub footer: &'a str,
    /// Name and version of what recorded it.
    pub software: &'a str,
}

const WIDTH: f64 = 1240.0;
const LEFT: f64 = 88.0;
const RIGHT: f64 = 36.0;
const HEADER: f64 = 122.0;
const PANEL: f64 = 128.0;
const GAP: f64 = 78.0;

/// Draws the panels below each other, over one time axis, and the losses beneath them.
pub fn timeline_svg(panels: &[TimePanel], losses: &[LossRow], facts: &TimeFacts) -> String {
    let lines = || panels.iter().flat_map(|panel| &panel.lines);
    let end_s = lines().map(|line| line.step_s * line.values.len() as f64).fold(0.0, f64::max);
    let lanes = Lanes::of(losses, end_s);
    let end_s = if losses.is_empty() { end_s } else { lanes.end_s() };
    let lanes_y = HEADER + panels.len() as f64 * (PANEL + GAP);
    let height = lanes_y + lanes.height() + 24.0;
    let mut svg = Svg::new(WIDTH, height);
    svg.rectangle(Area { x: 0.0, y: 0.0, width: WIDTH, height }, "#fdfdfc", "none");
    svg.label(32.0, 48.0, Type::new(25.0, INK).strong(), facts.title);
    svg.label(32.0, 72.0, Type::new(13.0, GREY), facts.summary);
    for (index, panel) in panels.iter().enumerate() {
        let y = HEADER + index as f64 * (PANEL + GAP);
        draw_panel(&mut svg, panel, Area { x: LEFT, y, width: WIDTH - LEFT - RIGHT, height: PANEL }, end_s);
    }
    lanes.draw(&mut svg, (LEFT, lanes_y - 12.0), WIDTH - LEFT - RIGHT);
    svg.label(32.0, height - 22.0, Type::new(11.0, GREY), facts.footer);
    svg.label(WIDTH - RIGHT, height - 22.0, Type::new(11.0, GREY).end(), facts.software);
    svg.finish(facts.title, facts.summary)
}

fn draw_panel(svg: &mut Svg, panel: &TimePanel, area: Area, end_s: f64) {
    svg.label(area.x, area.y - 12.0, Type::new(13.0, INK).strong(), &panel.title);
    if panel.lines.len() > 1 {
        let mut x = area.right();
        for (index, line) in panel.lines.iter().enumerate().rev() {
            svg.label(x, area.y - 12.0, Type::new(12.0, colour::of_source(index)).end(), &line.name);
            x -= 7.5 * line.name.chars().count() as f64 + 22.0;
        }
    }
    let values = panel.lines.iter().flat_map(|line| line.values.iter().flatten());
    let (low, high) = values.fold(panel.y_range, |(low, high), value| (low.min(*value), high.max(*value)));
    let y = Scale::linear(low, if high > panel.y_range.1 { high * 1.1 } else { high });
    let frame = Frame { area, x: Scale::linear(0.0, end_s), y, numbers: (true, true) };
    frame.draw(svg);
    frame.name_axes(svg, "time since the start of the run (s)", &panel.y_title);
    for (index, line) in panel.lines.iter().enumerate() {
        draw_line(svg, &frame, line, colour::of_source(index));
    }
}

/// A line through the values; a value that stands alone between gaps is a short stroke.
fn draw_line(svg: &mut Svg, frame: &Frame, line: &Line, stroke: &str) {
    let mut path = String::new();
    for (index, value) in line.values.iter().enumerate() {
        let Some(value) = value else { continue };
        let before = index.checked_sub(1).and_then(|before| line.values[before]);
        let after = line.values.get(index + 1).copied().flatten();
        let middle = (index as f64 + 0.5) * line.step_s;
        let y = frame.down(*value);
        // Writing to a String cannot fail.
        let _ =
            write!(path, "{}{:.1} {y:.1}", if before.is_none() { "M" } else { "L" }, frame.across(middle));
        if before.is_none() && after.is_none() {
            let _ = write!(path, "h{:.1}", 2.0);
        }
    }
    if !path.is_empty() {
        svg.path(&path, "none", 0.0, stroke, 1.3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Count(u64);

    impl Sum for Count {
        fn join(&mut self, other: &Count) {
            self.0 += other.0;
        }
    }

    #[test]
    fn a_timeline_keeps_every_count_over_any_span() {
        let mut timeline = Timeline::<Count>::default();
        for seconds in [0, 1, 5, 4000, 80_000_000] {
            timeline.at(seconds * 1_000_000_000).0 += 1;
        }
        assert!(timeline.sums.len() <= 4096);
        assert_eq!(timeline.sums.iter().map(|count| count.0).sum::<u64>(), 5);
        timeline.at(u64::MAX).0 += 1;
        assert_eq!(timeline.sums.iter().map(|count| count.0).sum::<u64>(), 6);
    }

    #[test]
    fn a_picture_over_time_has_gaps_where_nothing_came_and_no_bad_numbers() {
        for times in [&[][..], &[0], &[0, 500_000_000, 20_000_000_000]] {
            let mut timeline = Timeline::<Count>::default();
            times.iter().for_each(|time| timeline.at(*time).0 += 1);
            let line = timeline.line("all", |count, step| (count.0 > 0).then(|| count.0 as f64 / step));
            let panel = TimePanel {
                title: "Rate".into(),
                y_title: "events/s".to_owned(),
                y_range: (0.0, 1.0),
                lines: vec![line],
            };
            let facts = TimeFacts { title: "a <run>", summary: "", footer: "", software: "" };
            let text = timeline_svg(&[panel], &[], &facts);
            assert!(
                text.starts_with("<svg ") && text.ends_with("</svg>\n") && text.contains("a &lt;run&gt;")
            );
            for word in ["NaN", "inf", "=\"-"] {
                assert!(!text.contains(word), "{word} of {times:?}");
            }
        }
    }
}
