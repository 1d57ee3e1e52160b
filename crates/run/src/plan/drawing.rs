//! The path of a run as a picture: a column per stage, a box per place, a line per edge.
//!
//! ```text
//!  receive     unpack      decode     order
//!  [ left  ]──[ left  ]──[ left  ]─╮
//!                                  ├─[ hits ]──…
//!  [ right ]──[ right ]──[ right ]─╯
//! ```
//! Of many equal nodes the first and the last are drawn, with the number of those between them.

use std::collections::HashMap;

use thalweg_data::topology::{FlowPath, Node, Stop, Topology, Via};

use super::Plan;
use crate::plot::svg::{Area, Svg, Type};

const COLUMN_PX: f64 = 150.0;
const BOX_PX: (f64, f64) = (112.0, 34.0);
const ROW_PX: f64 = 46.0;
const LEFT_PX: f64 = 24.0;
/// Title of the picture, and heading of a flow path.
const TOP_PX: f64 = 64.0;
const HEAD_PX: f64 = 56.0;
const FOOT_PX: f64 = 30.0;
/// Boxes of one column: beyond, those between the first and the last are one.
const MOST_ROWS: usize = 9;

const INK: &str = "#1f2933";
const FAINT: &str = "#6b7785";
const EDGE: &str = "#8896a5";
const AUDIT: &str = "#d9a441";
const FILL: &str = "#eef3f8";
const FILL_AT_THE_END: &str = "#ffffff";

/// A box: one node, or the many between the first and the last.
enum Drawn<'t> {
    Node(&'t Node),
    More(usize),
}

/// The boxes of a stop.
fn boxes<'t>(stop: &Stop<'t>) -> Vec<Drawn<'t>> {
    let count = stop.nodes.len();
    if count <= MOST_ROWS {
        return stop.nodes.iter().map(|node| Drawn::Node(node)).collect();
    }
    let first = stop.nodes[..MOST_ROWS - 2].iter().map(|node| Drawn::Node(node));
    let last = stop.nodes[count - 1];
    first.chain([Drawn::More(count - MOST_ROWS + 1), Drawn::Node(last)]).collect()
}

impl Plan {
    /// The path of the run as an SVG document.
    pub fn svg(&self) -> String {
        let stops = self.topology.path();
        let paths: Vec<(&str, Vec<&Stop<'_>>)> =
            [(FlowPath::Hits, "hits"), (FlowPath::Events, "triggered boards and events")]
                .into_iter()
                .map(|(flow_path, title)| {
                    (title, stops.iter().filter(|stop| stop.flow_path == flow_path).collect::<Vec<_>>())
                })
                .filter(|(_, stops)| !stops.is_empty())
                .collect();
        let columns = paths.iter().map(|(_, stops)| stops.len()).max().unwrap_or(0);
        let rows = |stops: &[&Stop<'_>]| stops.iter().map(|stop| boxes(stop).len()).max().unwrap_or(0) as f64;
        let height_px = |stops: &[&Stop<'_>]| HEAD_PX + rows(stops) * ROW_PX;
        let height = TOP_PX
            + paths.iter().map(|(_, stops)| height_px(stops)).sum::<f64>()
            + self.notes().len() as f64 * 18.0
            + FOOT_PX;
        let width = (2.0 * LEFT_PX + columns as f64 * COLUMN_PX).max(560.0);
        let mut svg = Svg::new(width, height);
        svg.rectangle(Area { x: 0.0, y: 0.0, width, height }, "#ffffff", "none");
        let title = if self.title.is_empty() { "path of the run" } else { &self.title };
        svg.label(LEFT_PX, 30.0, Type::new(17.0, INK).strong(), title);
        let legend = "lines: what one hands to the next, bold from thread to thread · yellow: counted twice, by different means · white: counted at the end";
        svg.label(LEFT_PX, 50.0, Type::new(11.0, FAINT), legend);
        let mut places = HashMap::new();
        let mut top = TOP_PX;
        for (_, stops) in &paths {
            place_boxes(stops, top + HEAD_PX, rows(stops), &mut places);
            top += height_px(stops);
        }
        draw_lines(&mut svg, &self.topology, &places);
        let mut top = TOP_PX;
        for (title, stops) in &paths {
            svg.label(LEFT_PX, top + 14.0, Type::new(12.0, FAINT).strong(), title);
            draw_stops(&mut svg, stops, top, rows(stops), &places);
            top += height_px(stops);
        }
        for (number, note) in self.notes().iter().enumerate() {
            svg.label(LEFT_PX, top + 16.0 + 18.0 * number as f64, Type::new(11.0, FAINT), note);
        }
        svg.finish(title, "Stages of the run from left to right, and what each hands to the next")
    }

    /// Returns the back-pressure in the path, a line for each.
    fn notes(&self) -> Vec<String> {
        let note = |control: &thalweg_data::topology::ControlEdge| {
            format!("held back by {}: {} by {}", control.kind.word(), control.to, control.from)
        };
        let mut notes: Vec<String> = self.topology.controls.iter().map(note).collect();
        notes.truncate(MOST_ROWS);
        notes
    }
}

/// Places the box of each node: its left edge, and the middle of its height. Nodes between the first and the last share one.
fn place_boxes<'t>(stops: &[&Stop<'t>], top: f64, rows: f64, places: &mut HashMap<&'t str, (f64, f64)>) {
    for (column, stop) in stops.iter().enumerate() {
        let drawn = boxes(stop);
        let first = top + (rows - drawn.len() as f64) * ROW_PX / 2.0;
        let x = LEFT_PX + column as f64 * COLUMN_PX;
        let middle = |row: usize| first + row as f64 * ROW_PX + BOX_PX.1 / 2.0;
        let between = drawn.iter().position(|each| matches!(each, Drawn::More(_)));
        for (row, each) in drawn.iter().enumerate() {
            if let Drawn::Node(node) = each {
                places.insert(&node.id, (x, middle(row)));
            }
        }
        for node in &stop.nodes {
            places.entry(&node.id).or_insert((x, middle(between.unwrap_or(0))));
        }
    }
}

fn draw_lines(svg: &mut Svg, topology: &Topology, places: &HashMap<&str, (f64, f64)>) {
    // Next to the row of boxes: data counted twice above, data handed on below.
    let mut line = |from: &str, to: &str, aside: f64, stroke: &str, width: f64| {
        if let (Some(from), Some(to)) = (places.get(from), places.get(to)) {
            svg.path(&way(*from, *to, aside), "none", 0.0, stroke, width);
        }
    };
    for audit in &topology.audits {
        line(&audit.auditor, &audit.audited, -ROW_PX / 2.0, AUDIT, 1.0);
    }
    for edge in &topology.edges {
        let width = if edge.via == Via::Call { 1.2 } else { 2.4 };
        edge.to.iter().for_each(|to| line(&edge.from, to, ROW_PX / 2.0, EDGE, width));
    }
}

/// Returns the line from the right of one box to the left of another; past the columns between them, `aside` of the row of the first.
fn way((left, y1): (f64, f64), (x2, y2): (f64, f64), aside: f64) -> String {
    const TURN_PX: f64 = 20.0;
    let x1 = left + BOX_PX.0;
    if x2 - left < 1.5 * COLUMN_PX {
        let middle = (x1 + x2) / 2.0;
        return format!("M{x1:.1} {y1:.1}C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {x2:.1} {y2:.1}");
    }
    let (y, out, back) = (y1 + aside, x1 + TURN_PX, x2 - TURN_PX);
    let (turned, turning) = (x1 + 2.0 * TURN_PX, x2 - 2.0 * TURN_PX);
    format!(
        "M{x1:.1} {y1:.1}C{out:.1} {y1:.1} {out:.1} {y:.1} {turned:.1} {y:.1}\
         L{turning:.1} {y:.1}C{back:.1} {y:.1} {back:.1} {y2:.1} {x2:.1} {y2:.1}"
    )
}

fn draw_stops(svg: &mut Svg, stops: &[&Stop<'_>], top: f64, rows: f64, places: &HashMap<&str, (f64, f64)>) {
    for (column, stop) in stops.iter().enumerate() {
        let x = LEFT_PX + column as f64 * COLUMN_PX;
        let middle = x + BOX_PX.0 / 2.0;
        svg.label(middle, top + 40.0, Type::new(12.5, INK).strong().middle(), stop.stage.word());
        let drawn = boxes(stop);
        let first = top + HEAD_PX + (rows - drawn.len() as f64) * ROW_PX / 2.0;
        for (row, each) in drawn.iter().enumerate() {
            let y = first + row as f64 * ROW_PX;
            let area = Area { x, y, width: BOX_PX.0, height: BOX_PX.1 };
            match each {
                Drawn::More(count) => {
                    svg.label(
                        middle,
                        y + 21.0,
                        Type::new(11.0, FAINT).middle(),
                        &format!("… {count} more …"),
                    );
                }
                Drawn::Node(node) => {
                    debug_assert!(places.contains_key(&node.id[..]));
                    let fill = if node.thread.is_some() { FILL } else { FILL_AT_THE_END };
                    svg.rectangle(area, fill, EDGE);
                    svg.label(middle, y + 15.0, Type::new(11.5, INK).middle(), &shortened(node.of()));
                    let thread = node.thread.as_deref().unwrap_or("at the end");
                    svg.label(middle, y + 28.0, Type::new(9.5, FAINT).middle(), &shortened(thread));
                }
            }
        }
    }
}

/// Returns as much of a name as fits its box.
fn shortened(name: &str) -> String {
    const MOST: usize = 18;
    match name.chars().count() {
        0..=MOST => name.to_owned(),
        _ => name.chars().take(MOST - 1).chain(['…']).collect(),
    }
}
