//! Bars in groups: one quantity in few conditions, each measured beside what it is compared with.
//!
//! ```text
//!  groups × bars ─► bars_svg ─► one SVG file, the value above each bar, the names in one line
//! ```

use super::colour;
use super::panel::{Frame, GREY, INK, page};
use super::scale::{Scale, short_number, three_digits};
use super::svg::{Area, Svg, Type};

/// The contents of the chart.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// Above it.
    pub title: String,
    /// The measurement in smaller letters, below the title.
    pub subtitle: String,
    /// Along y, with its unit.
    pub y_title: String,
    /// Below each group of bars, in two lines: its name, and what is to be said of it.
    pub groups: Vec<[String; 2]>,
    /// The bars that each group has.
    pub bars: Vec<Bar>,
}

/// One bar of each group.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is.
    pub name: String,
    /// Its height in each group.
    pub values: Vec<f64>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
/// Width of a letter of the names, in pixels, at most.
const LETTER_WIDTH: f64 = 6.4;

/// Draws the chart. Heights begin at 0.
pub fn bars_svg(chart: &BarChart) -> String {
    let mut svg = page(WIDTH, HEIGHT, &chart.title, &chart.subtitle);
    name_bars(&mut svg, &chart.bars);
    let area = Area { x: 76.0, y: 104.0, width: WIDTH - 76.0 - 28.0, height: HEIGHT - 104.0 - 54.0 };
    let highest = chart.bars.iter().flat_map(|bar| &bar.values).copied().filter(|value| value.is_finite());
    let most = highest.fold(0.0, f64::max);
    let frame = Frame {
        area,
        x: Scale::linear(0.0, chart.groups.len() as f64),
        y: Scale::linear(0.0, most * 1.12),
        numbers: (false, true),
    };
    frame.draw_y(&mut svg);
    frame.name_axes(&mut svg, "", &chart.y_title);
    let group_width = area.width / chart.groups.len().max(1) as f64;
    let bar_width = 0.7 * group_width / chart.bars.len().max(1) as f64;
    for (group, [name, remark]) in chart.groups.iter().enumerate() {
        let left = area.x + group_width * (group as f64 + 0.15);
        let middle = left + 0.35 * group_width;
        svg.label(middle, area.bottom() + 19.0, Type::new(11.5, INK).middle(), name);
        svg.label(middle, area.bottom() + 36.0, Type::new(11.5, GREY).middle(), remark);
        for (index, bar) in chart.bars.iter().enumerate() {
            let Some(value) = bar.values.get(group).copied().filter(|value| value.is_finite()) else {
                continue;
            };
            let top = frame.down(value);
            let x = left + bar_width * index as f64;
            let drawn = Area {
                x: x + 0.04 * bar_width,
                y: top,
                width: 0.92 * bar_width,
                height: area.bottom() - top,
            };
            svg.mark(drawn, colour::of_source(index), 1.0, &format!("{}, {name}: {value:.4e}", bar.name));
            let middle = x + bar_width / 2.0;
            svg.label(
                middle,
                drawn.y - 5.0,
                Type::new(11.0, INK).middle(),
                &short_number(three_digits(value)),
            );
        }
    }
    svg.line((area.x, area.bottom()), (area.right(), area.bottom()), GREY);
    let said: Vec<String> = chart.bars.iter().map(|bar| format!("{} {:?}", bar.name, bar.values)).collect();
    let names: Vec<&str> = chart.groups.iter().map(|[name, _]| name.as_str()).collect();
    svg.finish(&chart.title, &format!("{}, {}: {}", chart.y_title, names.join(", "), said.join("; ")))
}

/// Colours and names, in one line above the bars.
fn name_bars(svg: &mut Svg, bars: &[Bar]) {
    let mut x = 76.0;
    for (index, bar) in bars.iter().enumerate() {
        let area = Area { x, y: 71.0, width: 11.0, height: 11.0 };
        svg.rectangle(area, colour::of_source(index), "none");
        svg.label(x + 17.0, 81.0, Type::new(11.5, INK), &bar.name);
        x += 17.0 + LETTER_WIDTH * bar.name.chars().count() as f64 + 22.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_drawn_named_and_numbered() {
        let bar = |name: &str, values: [f64; 2]| Bar { name: name.to_owned(), values: values.to_vec() };
        let chart = BarChart {
            title: "a < b".to_owned(),
            subtitle: "of c".to_owned(),
            y_title: "bytes / s".to_owned(),
            groups: [["memory", "half"], ["disk", "all"]].map(|group| group.map(str::to_owned)).to_vec(),
            bars: vec![bar("ours", [1.5e9, 9e8]), bar("bare", [2.0e9, f64::NAN])],
        };
        let text = bars_svg(&chart);
        for words in
            ["a &lt; b", ">memory<", ">disk<", ">half<", ">ours<", ">bare<", ">1.5G<", ">900M<", ">2G<"]
        {
            assert!(text.contains(words), "{words}");
        }
        assert_eq!(text.matches("<title>").count(), 1 + 3, "of what was not measured there is no bar");
        assert!(!bars_svg(&BarChart { bars: Vec::new(), ..chart }).contains("NaN"));
    }
}
