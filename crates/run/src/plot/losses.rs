//! Losses over time: one lane for each kind of loss, with a mark where some was counted.
//!
//! ```text
//!  LossRow, LossRow, … ─► Lanes: (stage, reason, unit) × 240 stretches of time ─► marks, each with its words
//!   datagram_gap at wire: 1234 datagrams
//!   ▌  ▌▌▌   ▌        ▌▌
//! ```
//! What is missing on the wire because it was refused behind it is shown there, where it was refused, alone.

use std::collections::BTreeMap;

use thalweg_record::LossRow;

use super::colour;
use super::panel::{Frame, GREY, INK};
use super::scale::Scale;
use super::svg::{Area, Svg, Type};

/// Stretches of time over which losses of one kind are one mark.
const STRETCHES: usize = 240;
/// Kinds with a lane of their own; the rest shares the last one.
const MOST_LANES: usize = 8;
const LANE: f64 = 27.0;
const MARK: f64 = 9.0;
/// Above the lanes: their title. Below: numbers and name of the axis.
const TITLE: f64 = 26.0;
const AXIS: f64 = 52.0;
const SECONDS: f64 = 1e-9;

/// Losses of one kind in one stretch of time.
#[derive(Clone, Debug, Default)]
struct Mark {
    from_s: f64,
    until_s: f64,
    count: i64,
    /// The counts by subject.
    subjects: BTreeMap<String, i64>,
}

/// Losses of one kind.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// The kind of loss, such as `datagram_gap at wire`.
    kind: String,
    unit: String,
    count: i64,
    marks: BTreeMap<usize, Mark>,
}

/// The losses of a run, laid out over time.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    lanes: Vec<Lane>,
    end_s: f64,
}

impl Lanes {
    /// Lays out the rows of the list of losses, from the start of the run to `end_s` or the last of them.
    pub fn of(rows: &[LossRow], end_s: f64) -> Lanes {
        let end_s = rows.iter().map(|row| row.until_ns as f64 * SECONDS).fold(end_s, f64::max);
        let mut lanes = BTreeMap::<(String, String), Lane>::new();
        for row in rows.iter().filter(|row| !row.is_echo()) {
            let kind = match row.is_end_of_list() {
                true => "the list of losses is cut".to_owned(),
                false => format!("{} at {}", row.reason, row.stage),
            };
            let lane = lanes.entry((kind.clone(), row.unit.clone())).or_default();
            (lane.kind, lane.unit) = (kind, row.unit.clone());
            lane.add(row, end_s);
        }
        let mut lanes: Vec<Lane> = lanes.into_values().collect();
        // What takes long to write stands where it began to matter.
        lanes.sort_by(|one, other| one.began().total_cmp(&other.began()));
        if lanes.len() > MOST_LANES {
            let rest = lanes.split_off(MOST_LANES - 1);
            lanes.push(Lane::joined(&rest));
        }
        Lanes { lanes, end_s }
    }

    /// Height of the picture, pixels; 0 when nothing was lost.
    pub fn height(&self) -> f64 {
        if self.lanes.is_empty() { 0.0 } else { TITLE + LANE * self.lanes.len() as f64 + AXIS }
    }

    /// Returns the end of their time axis, seconds since the start of the run.
    pub fn end_s(&self) -> f64 {
        self.end_s
    }

    /// Draws them at `(x, y)`, `width` pixels wide.
    pub fn draw(&self, svg: &mut Svg, (x, y): (f64, f64), width: f64) {
        if self.lanes.is_empty() {
            return;
        }
        svg.label(x, y, Type::new(13.0, INK).strong(), "Losses, when they were counted");
        let height = LANE * self.lanes.len() as f64;
        let area = Area { x, y: y + TITLE - 14.0, width, height };
        let frame = Frame {
            area,
            x: Scale::linear(0.0, self.end_s),
            y: Scale::linear(0.0, 1.0),
            numbers: (true, false),
        };
        frame.draw_x(svg);
        frame.name_axes(svg, "time since the start of the run (s)", "");
        for (index, lane) in self.lanes.iter().enumerate() {
            lane.draw(svg, &frame, area.y + LANE * index as f64, colour::of_source(index));
        }
    }
}

impl Lane {
    fn add(&mut self, row: &LossRow, end_s: f64) {
        let (from_s, until_s) = (row.from_ns as f64 * SECONDS, row.until_ns as f64 * SECONDS);
        let middle = (from_s + until_s) / 2.0;
        let stretch = (middle / end_s.max(f64::MIN_POSITIVE) * STRETCHES as f64) as usize;
        let first = || Mark { from_s, until_s, ..Mark::default() };
        let mark = self.marks.entry(stretch.min(STRETCHES - 1)).or_insert_with(first);
        (mark.from_s, mark.until_s) = (mark.from_s.min(from_s), mark.until_s.max(until_s));
        mark.count += row.count;
        *mark.subjects.entry(row.subject.clone()).or_default() += row.count;
        self.count += row.count;
    }

    /// Several kinds as one. Their units differ: what is counted is marks.
    fn joined(lanes: &[Lane]) -> Lane {
        let mut all = Lane {
            kind: format!("{} other kinds", lanes.len()),
            unit: "of any unit".to_owned(),
            ..Lane::default()
        };
        for lane in lanes {
            all.count += lane.count;
            for (stretch, mark) in &lane.marks {
                let own = all.marks.entry(*stretch).or_insert_with(|| Mark {
                    count: 0,
                    subjects: BTreeMap::new(),
                    ..mark.clone()
                });
                (own.from_s, own.until_s) = (own.from_s.min(mark.from_s), own.until_s.max(mark.until_s));
                own.count += mark.count;
                *own.subjects.entry(format!("{} {}", lane.kind, lane.unit)).or_default() += mark.count;
            }
        }
        all
    }

    fn began(&self) -> f64 {
        self.marks.first_key_value().map_or(0.0, |(_, mark)| mark.from_s)
    }

    fn draw(&self, svg: &mut Svg, frame: &Frame, y: f64, fill: &str) {
        svg.label(
            frame.area.x,
            y + 11.0,
            Type::new(11.0, GREY),
            &format!("{}: {} {}", self.kind, self.count, self.unit),
        );
        let most = self.marks.values().map(|mark| mark.count).max().unwrap_or(0).max(1) as f64;
        for mark in self.marks.values().filter(|mark| mark.count > 0) {
            let (from, until) = (frame.across(mark.from_s), frame.across(mark.until_s));
            // One that is too short to be seen is made visible; of many a gap stays between two.
            let width = (until - from - 0.6).max(1.2);
            let opacity = 0.35 + 0.65 * (mark.count as f64).ln_1p() / most.ln_1p();
            let area = Area { x: from, y: y + 15.0, width, height: MARK };
            svg.mark(area, fill, opacity, &self.mark_text(mark));
        }
    }

    fn mark_text(&self, mark: &Mark) -> String {
        let Mark { from_s, until_s, count, subjects } = mark;
        let most = subjects.iter().max_by_key(|(_, count)| **count);
        let whose = match (subjects.len(), most) {
            (_, None) => String::new(),
            (1, Some((subject, _))) => format!(" of {subject}"),
            (subjects, Some((subject, own))) => format!(" of {subjects}, most of {subject} ({own})"),
        };
        format!("{from_s:.3} s to {until_s:.3} s: {count} {}{whose}: {}", self.unit, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(second: u64, subject: &str, reason: &str, count: i64) -> LossRow {
        LossRow {
            from_ns: second * 1_000_000_000,
            until_ns: (second + 1) * 1_000_000_000,
            subject: subject.to_owned(),
            stage: "wire".to_owned(),
            reason: reason.to_owned(),
            unit: "datagrams".to_owned(),
            count,
            ..LossRow::default()
        }
    }

    fn picture(rows: &[LossRow], end_s: f64) -> String {
        let (lanes, mut svg) = (Lanes::of(rows, end_s), Svg::new(1000.0, 500.0));
        lanes.draw(&mut svg, (80.0, 20.0), 800.0);
        svg.finish("losses", "")
    }

    #[test]
    fn losses_of_one_kind_are_a_lane_with_a_mark_for_each_stretch_of_time() {
        let rows = [
            row(1, "left", "datagram_gap", 5),
            row(1, "right", "datagram_gap", 2),
            row(7, "left", "datagram_gap", 1),
            row(7, "left", "frame_gap", 3),
        ];
        let text = picture(&rows, 10.0);
        for words in [
            "datagram_gap at wire: 8 datagrams",
            "1.000 s to 2.000 s: 7 datagrams of 2, most of left (5): datagram_gap at wire",
            "7.000 s to 8.000 s: 3 datagrams of left: frame_gap at wire",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(text.matches("<rect").count(), 3);
    }

    #[test]
    fn what_was_taken_back_or_is_counted_elsewhere_has_no_mark() {
        let rows = [
            row(1, "left", "datagram_gap", 5),
            row(2, "left", "datagram_gap", -5),
            row(2, "left", "bad_hash", 5),
        ];
        let text = picture(&rows, 10.0);
        assert!(text.contains("datagram_gap at wire: 0 datagrams") && !text.contains("bad_hash"), "{text}");
        assert_eq!(text.matches("<rect").count(), 1);
    }

    #[test]
    fn many_rows_and_kinds_make_a_bounded_picture_without_bad_numbers() {
        let reasons: Vec<String> = (0..20).map(|reason| format!("reason_{reason}")).collect();
        let rows: Vec<LossRow> = (0..50_000)
            .map(|index| row(index / 10, &format!("board-{}", index % 7), &reasons[index as usize % 20], 1))
            .map(|row| LossRow { stage: "unpack".to_owned(), ..row })
            .collect();
        for (rows, end_s) in [(&rows[..], 0.0), (&rows[..1], 0.0), (&[], 0.0)] {
            let text = picture(rows, end_s);
            assert!(text.matches("<rect").count() <= MOST_LANES * STRETCHES);
            for word in ["NaN", "inf", "=\"-"] {
                assert!(!text.contains(word), "{word}");
            }
        }
        assert!(picture(&rows, 0.0).contains("13 other kinds: "));
        assert_eq!(Lanes::of(&[], 5.0).height(), 0.0);
    }
}
