//! One panel: a frame with ticks, and what is drawn in it.
//!
//! ```text
//!  counts, scales, area ─► Frame (ticks, grid, words) ─► steps | map | curve
//! ```

use std::fmt::Write;

use super::colour;
use super::raster::Raster;
use super::scale::{Scale, short_number};
use super::spectra::Plane;
use super::svg::{Area, Svg, Type};

pub const INK: &str = "#22303c";
pub const GREY: &str = "#6b7883";
const GRID: &str = "#e9edf0";
const AXIS: &str = "#9aa5ae";
const TICK: Type = Type::new(10.5, GREY);

/// A white page with a title, and smaller letters below it.
pub fn page(width: f64, height: f64, title: &str, subtitle: &str) -> Svg {
    let mut svg = Svg::new(width, height);
    svg.rectangle(Area { x: 0.0, y: 0.0, width, height }, "#ffffff", "none");
    svg.label(28.0, 32.0, Type::new(16.0, INK).strong(), title);
    svg.label(28.0, 51.0, Type::new(11.5, GREY), subtitle);
    svg
}

/// The axes of a panel.
pub struct Frame {
    /// The area in which the data are drawn; ticks and words are outside, left and below.
    pub area: Area,
    /// Along x.
    pub x: Scale,
    /// Along y.
    pub y: Scale,
    /// True if the ticks of the x axis, and of the y axis, have numbers.
    pub numbers: (bool, bool),
}

impl Frame {
    /// Draws grid, axis lines and tick numbers.
    pub fn draw(&self, svg: &mut Svg) {
        self.draw_y(svg);
        self.draw_x(svg);
    }

    /// Draws the grid of the y axis alone, with its tick numbers.
    pub fn draw_y(&self, svg: &mut Svg) {
        let Area { x, width, height, .. } = self.area;
        for value in self.y.ticks((height / 34.0) as usize) {
            let at = self.down(value);
            svg.line((x, at), (x + width, at), GRID);
            if self.numbers.1 {
                svg.label(x - 7.0, at + 3.6, TICK.end(), &short_number(value));
            }
        }
    }

    /// Draws the x axis alone, with its tick numbers.
    pub fn draw_x(&self, svg: &mut Svg) {
        let Area { x, y, width, height } = self.area;
        for value in self.x.ticks((width / 60.0).max(2.0) as usize) {
            let at = self.across(value);
            svg.line((at, y + height), (at, y + height + 4.0), AXIS);
            if self.numbers.0 {
                svg.label(at, y + height + 16.5, TICK.middle(), &short_number(value));
            }
        }
        svg.line((x, y + height), (x + width, y + height), AXIS);
    }

    /// Writes what the axes show.
    pub fn name_axes(&self, svg: &mut Svg, x_title: &str, y_title: &str) {
        let Area { x, y, width, height } = self.area;
        let style = Type::new(11.5, GREY).middle();
        svg.label(x + width / 2.0, y + height + 34.0, style, x_title);
        svg.label_turned(x - 42.0, y + height / 2.0, -90.0, style, y_title);
    }

    /// Returns the position of a value on the x axis.
    pub fn across(&self, value: f64) -> f64 {
        self.area.x + self.area.width * self.x.place(value)
    }

    /// Returns the position of a value on the y axis.
    pub fn down(&self, value: f64) -> f64 {
        self.area.bottom() - self.area.height * self.y.place(value)
    }

    /// Draws counts in bins of `bin_width`, the first from value 0, as steps; filled below when `filled`.
    pub fn steps(&self, svg: &mut Svg, counts: &[f64], bin_width: f64, stroke: &str, filled: bool) {
        let base = self.area.bottom();
        let end = match self.x {
            Scale::Linear { to, .. } | Scale::Logarithmic { to, .. } => to,
        };
        let shown = counts.len().min((end / bin_width).ceil() as usize);
        let mut outline = format!("M{:.1} {base:.1}", self.across(0.0));
        let mut level = base;
        for (index, count) in counts[..shown].iter().enumerate() {
            let next = self.down(*count);
            if next != level {
                let _ = write!(outline, "H{:.1}V{next:.1}", self.across(index as f64 * bin_width));
                level = next;
            }
        }
        let _ = write!(outline, "H{:.1}V{base:.1}", self.across(shown as f64 * bin_width));
        svg.path(&outline, if filled { stroke } else { "none" }, 0.16, stroke, 1.1);
    }

    /// Draws values at the middles of stretches of `step`, the first from 0, as a line with the area below it tinted.
    pub fn curve(&self, svg: &mut Svg, values: &[f64], step: f64, stroke: &str) {
        let mut points = String::new();
        for (index, value) in values.iter().enumerate() {
            let at = self.across((index as f64 + 0.5) * step);
            let _ = write!(points, "{}{at:.1} {:.1}", if index == 0 { "M" } else { "L" }, self.down(*value));
        }
        if let Some(last) = values.len().checked_sub(1) {
            let (base, end, start) =
                (self.area.bottom(), self.across((last as f64 + 0.5) * step), self.across(0.5 * step));
            svg.path(
                &format!("{points}L{end:.1} {base:.1}L{start:.1} {base:.1}Z"),
                stroke,
                0.12,
                "none",
                0.0,
            );
            svg.path(&points, "none", 0.0, stroke, 1.3);
        }
    }
}

/// The part of the energy–PSD plane that holds nearly all hits, in cells large enough to be seen.
pub struct PlaneView {
    /// Counts, row by row from the largest fraction down.
    cells: Vec<u32>,
    columns: usize,
    /// Columns of the plane per column of this view.
    group: usize,
    rows: std::ops::Range<usize>,
}

/// The fraction that is left out at each side of the view.
const CUT_FRACTION: f64 = 0.005;
const MOST_COLUMNS: usize = 260;

impl PlaneView {
    /// The part to be shown; `None` when there is nothing to show.
    pub fn of(plane: &Plane) -> Option<PlaneView> {
        if plane.inside() < 100 {
            return None;
        }
        let row_sums: Vec<u64> = (0..Plane::ROWS).map(|row| sum(plane.row(row))).collect();
        let mut column_sums = vec![0; Plane::COLUMNS];
        for row in 0..Plane::ROWS {
            column_sums.iter_mut().zip(plane.row(row)).for_each(|(sum, count)| *sum += u64::from(*count));
        }
        let rows = holding(&row_sums, CUT_FRACTION);
        let margin = (rows.len() / 4).max(6);
        let rows = rows.start.saturating_sub(margin)..(rows.end + margin).min(Plane::ROWS);
        let end = holding(&column_sums, CUT_FRACTION).end.clamp(8, Plane::COLUMNS);
        let group = end.div_ceil(MOST_COLUMNS);
        let shown = |row| plane.row(row)[..end].chunks(group).map(|counts: &[u32]| counts.iter().sum());
        let cells: Vec<u32> = rows.clone().rev().flat_map(shown).collect();
        Some(PlaneView { cells, columns: end.div_ceil(group), group, rows })
    }

    /// Hits per row: the plane seen along the energy axis.
    pub fn projection(&self, plane: &Plane) -> Vec<f64> {
        (0..self.rows.end).map(|row| sum(plane.row(row)) as f64).collect()
    }

    /// The axes of this view.
    pub fn frame(&self, area: Area) -> Frame {
        let fraction = |row: usize| row as f64 / Plane::ROWS as f64;
        let end = (self.columns * self.group) as f64 * f64::from(Plane::COLUMN_WIDTH);
        let y = Scale::linear(fraction(self.rows.start), fraction(self.rows.end));
        Frame { area, x: Scale::linear(0.0, end), y, numbers: (true, true) }
    }

    /// Draws the map, and its colour bar at its right.
    pub fn draw(&self, svg: &mut Svg, area: Area) {
        let most = self.cells.iter().copied().max().unwrap_or(0);
        let scale = Scale::of_counts(f64::from(most) / 1.6);
        let index = |count: u32| match count {
            0 => 0,
            some => 1 + (scale.place(f64::from(some)) * 254.0) as u8,
        };
        let pixels = self.cells.iter().map(|count| index(*count)).collect();
        let raster = Raster { width: self.columns, pixels };
        svg.image(area, &raster.to_data_address(&palette()));
        let bar = Area { x: area.right() + 14.0, width: 11.0, ..area };
        let slice = bar.height / 64.0;
        for number in 0..64 {
            let [red, green, blue] = colour::cividis(1.0 - (f64::from(number) + 0.5) / 64.0);
            // Half a pixel more than its share, so that no seam shows between neighbours.
            let part = Area { y: bar.y + f64::from(number) * slice, height: slice + 0.5, ..bar };
            svg.rectangle(part, &format!("#{red:02x}{green:02x}{blue:02x}"), "none");
        }
        for value in scale.ticks((area.height / 34.0) as usize) {
            let at = bar.bottom() - bar.height * scale.place(value);
            svg.line((bar.right(), at), (bar.right() + 4.0, at), AXIS);
            svg.label(bar.right() + 8.0, at + 3.6, TICK, &short_number(value));
        }
    }
}

fn palette() -> [[u8; 3]; 256] {
    std::array::from_fn(|index| colour::cividis(index.saturating_sub(1) as f64 / 254.0))
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|count| u64::from(*count)).sum()
}

/// The bins without those at both ends that hold less than `fraction` of the sum each side.
fn holding(sums: &[u64], fraction: f64) -> std::ops::Range<usize> {
    let cut = (sums.iter().sum::<u64>() as f64 * fraction) as u64;
    let until_cut = |bins: &mut dyn Iterator<Item = &u64>| {
        let mut seen = 0;
        bins.take_while(|count| {
            seen += **count;
            seen <= cut
        })
        .count()
    };
    let (start, end) = (until_cut(&mut sums.iter()), sums.len() - until_cut(&mut sums.iter().rev()));
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_leaves_out_what_is_almost_empty() {
        let mut sums = vec![0u64; 100];
        sums[20..30].fill(1000);
        sums[90] = 5;
        assert_eq!(holding(&sums, 0.001), 20..30);
        assert_eq!(holding(&[0, 0], 0.001), 2..2);
    }

    #[test]
    fn an_empty_plane_has_no_view() {
        assert!(PlaneView::of(&Plane::default()).is_none());
    }
}
