//! A line chart: one quantity against another, for measured sweeps.
//!
//! ```text
//!  Series { name, points } … ─► lines_svg ─► one SVG file, each line's name at its end
//! ```

use std::fmt::Write;

use super::colour;
use super::panel::{Frame, page};
use super::scale::Scale;
use super::svg::{Area, Svg, Type};

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Written at its end.
    pub name: String,
    /// Places, x rising.
    pub points: Vec<(f64, f64)>,
}

/// The contents of the chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// The measurement in smaller letters, below the title.
    pub subtitle: String,
    /// Along x, with its unit.
    pub x_title: String,
    /// Along y, with its unit.
    pub y_title: String,
    /// Equal ratios along x.
    pub logarithmic_x: bool,
    /// Equal ratios along y; otherwise y begins at 0.
    pub logarithmic_y: bool,
    /// The lines.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
/// Least distance of two names at the ends of lines.
const NAME_HEIGHT: f64 = 15.0;

/// Draws the chart.
pub fn lines_svg(chart: &Chart) -> String {
    let mut svg = page(WIDTH, HEIGHT, &chart.title, &chart.subtitle);
    let area = Area { x: 76.0, y: 74.0, width: WIDTH - 76.0 - 150.0, height: HEIGHT - 74.0 - 60.0 };
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let frame = Frame {
        area,
        x: scale(chart.logarithmic_x, false, points().map(|point| point.0)),
        y: scale(chart.logarithmic_y, true, points().map(|point| point.1)),
        numbers: (true, true),
    };
    frame.draw(&mut svg);
    frame.name_axes(&mut svg, &chart.x_title, &chart.y_title);
    let place = |(x, y): (f64, f64)| {
        (area.x + area.width * frame.x.place(x), area.bottom() - area.height * frame.y.place(y))
    };
    let mut ends = Vec::new();
    for (index, series) in chart.series.iter().enumerate() {
        let stroke = colour::of_source(index);
        let mut commands = String::new();
        for (number, point) in series.points.iter().enumerate() {
            let (x, y) = place(*point);
            // Writing to a String cannot fail.
            let _ = write!(commands, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
            let dot = format!("M{:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", x - 3.0);
            svg.path(&dot, stroke, 1.0, "none", 0.0);
        }
        svg.path(&commands, "none", 0.0, stroke, 1.6);
        if let Some(last) = series.points.last() {
            ends.push((place(*last), &series.name, stroke));
        }
    }
    name_ends(&mut svg, ends);
    let said: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
    svg.finish(&chart.title, &format!("{} against {}: {}", chart.y_title, chart.x_title, said.join(", ")))
}

/// Writes the names next to the lines' ends, each at least a line below the one above it.
pub(super) fn name_ends(svg: &mut Svg, mut ends: Vec<((f64, f64), &String, &'static str)>) {
    ends.sort_by(|one, other| one.0.1.total_cmp(&other.0.1));
    let mut lowest = f64::NEG_INFINITY;
    for ((x, y), name, fill) in ends {
        lowest = y.max(lowest + NAME_HEIGHT);
        svg.label(x + 9.0, lowest + 4.0, Type::new(11.5, fill).strong(), name);
    }
}

fn scale(logarithmic: bool, from_zero: bool, values: impl Iterator<Item = f64>) -> Scale {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    values.filter(|value| value.is_finite()).for_each(|value| {
        least = least.min(value);
        most = most.max(value);
    });
    match logarithmic {
        _ if most < least => Scale::linear(0.0, 1.0),
        true if least > 0.0 => Scale::Logarithmic { from: least / 1.25, to: most * 1.25 },
        _ if from_zero => Scale::linear(0.0, most * 1.08),
        _ => Scale::linear(least, most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named() {
        let line = |name: &str, factor: f64| Series {
            name: name.to_owned(),
            points: (1..5).map(|n| (f64::from(n) * 10.0, f64::from(n) * factor)).collect(),
        };
        let chart = Chart {
            title: "a < b".to_owned(),
            subtitle: String::new(),
            x_title: "size / B".to_owned(),
            y_title: "rate / Hz".to_owned(),
            logarithmic_x: true,
            logarithmic_y: false,
            series: vec![
                line("one", 1.0),
                line("two", 1.0001),
                Series { name: "none".to_owned(), points: vec![] },
            ],
        };
        let text = lines_svg(&chart);
        assert!(text.contains(">one<") && text.contains(">two<") && text.contains("a &lt; b"));
        assert!(!text.contains("NaN"));
        let empty = Chart { series: vec![], logarithmic_y: true, ..chart };
        assert!(!lines_svg(&empty).contains("NaN"));
    }
}
