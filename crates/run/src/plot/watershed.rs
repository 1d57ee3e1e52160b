//! The watershed of a device: trials in the plane of separation and events, and the curve that was fitted to them.
//!
//! ```text
//!  events (log) │        ×  │      ● lossless   × lossy   ○ not counted
//!               │   × ●  ╱  │      ── fitted edge, its interval shaded
//!               │ ● ─── ●   │      ┆  the separation at which the output is saturated
//!               └── separation ──
//! ```

use std::fmt::Write;

use thalweg_qualify::switch::burst::{Edge, Queue};
use thalweg_qualify::watershed::{Point, Watershed};

use super::panel::{Frame, GREY, INK};
use super::scale::Scale;
use super::svg::{Area, Svg, Type};

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 520.0;
const LOSSLESS: &str = "#1f5f8f";
const LOSSY: &str = "#b3261e";
const UNCOUNTED: &str = "#9aa5ae";
/// Places on the curve.
const STEPS: u32 = 240;

/// Draws the map.
pub fn watershed_svg(map: &Watershed) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT);
    svg.rectangle(Area { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT }, "#ffffff", "none");
    let title = format!("Synchronous bursts of {} sources, {} bytes each", map.sources, map.datagram_bytes);
    svg.words(28.0, 32.0, Type::new(16.0, INK).strong(), &title);
    let said = words(map);
    svg.words(28.0, 51.0, Type::new(11.5, GREY), &said);
    let frame = frame(map);
    frame.draw(&mut svg);
    frame.name_axes(&mut svg, "separation of events / µs", "events in a burst");
    if let Some(fit) = &map.fit {
        let [low, high] = fit.depth_interval_bytes;
        let edge = |depth_bytes: f64| Edge {
            queue: Queue { depth_bytes, rate_bytes_per_s: fit.rate_bytes_per_s },
            event_bytes: f64::from(map.sources) * f64::from(map.frame_bytes),
        };
        let band =
            [curve(&frame, edge(high), false), curve(&frame, edge(low), true).replacen('M', "L", 1)].concat();
        svg.path(&format!("{band}Z"), LOSSLESS, 0.18, "none", 0.0);
        svg.path(&curve(&frame, edge(fit.depth_bytes), false), "none", 0.0, LOSSLESS, 1.6);
        saturation(&mut svg, &frame, edge(fit.depth_bytes).saturation_separation_s());
    }
    map.points.iter().for_each(|point| mark(&mut svg, &frame, point));
    legend(&mut svg, frame.area);
    svg.finish(&title, &said)
}

fn words(map: &Watershed) -> String {
    match &map.fit {
        Some(fit) => {
            let percent = |[low, high]: [f64; 2], value: f64| 50.0 * (high - low) / value;
            format!(
                "depth {:.3} MB ± {:.2} %, drain rate {:.2} Mb/s ± {:.2} % (95 %); {} trials counted, {} not",
                fit.depth_bytes * 1e-6,
                percent(fit.depth_interval_bytes, fit.depth_bytes),
                fit.rate_bytes_per_s * 8e-6,
                percent(fit.rate_interval_bytes_per_s, fit.rate_bytes_per_s),
                fit.trials,
                fit.invalid
            )
        }
        None => format!("no depth and no rate: {}", map.remark),
    }
}

fn frame(map: &Watershed) -> Frame {
    let most = |value: fn(&Point) -> f64| map.points.iter().map(value).fold(1.0, f64::max);
    let least = map.points.iter().map(|point| point.events).min().unwrap_or(1).max(1);
    Frame {
        area: Area { x: 76.0, y: 74.0, width: WIDTH - 76.0 - 40.0, height: HEIGHT - 74.0 - 92.0 },
        x: Scale::linear(0.0, 1.12 * most(|point| point.separation_s * 1e6)),
        y: Scale::Logarithmic { from: least as f64 / 1.5, to: 2.0 * most(|point| point.events as f64) },
        numbers: (true, true),
    }
}

fn place(frame: &Frame, separation_s: f64, events: f64) -> (f64, f64) {
    let Area { x, width, height, .. } = frame.area;
    (
        x + width * frame.x.place(separation_s * 1e6),
        frame.area.bottom() - height * frame.y.place(events).clamp(0.0, 1.0),
    )
}

/// The most events that lose nothing: (depth − rate × separation) ÷ (event − rate × separation).
fn curve(frame: &Frame, edge: Edge, is_backwards: bool) -> String {
    let saturated_s = edge.saturation_separation_s();
    let at = |step: u32| {
        let separation_s = saturated_s * f64::from(step) / f64::from(STEPS);
        let drained = edge.queue.rate_bytes_per_s * separation_s;
        let events = (edge.queue.depth_bytes - drained) / (edge.event_bytes - drained);
        place(frame, separation_s, events)
    };
    let mut commands = String::new();
    for step in 0..STEPS {
        let (x, y) = at(if is_backwards { STEPS - 1 - step } else { step });
        let _ = write!(commands, "{}{x:.1} {y:.1}", if step == 0 { "M" } else { "L" });
    }
    commands
}

fn saturation(svg: &mut Svg, frame: &Frame, separation_s: f64) {
    let (x, bottom) = place(frame, separation_s, 0.0);
    if x > frame.area.right() {
        return;
    }
    svg.line((x, frame.area.y), (x, bottom), UNCOUNTED);
    let text = format!("saturated at {:.1} µs", separation_s * 1e6);
    svg.words(x - 5.0, frame.area.bottom() - 10.0, Type::new(11.0, GREY).end(), &text);
}

fn mark(svg: &mut Svg, frame: &Frame, point: &Point) {
    let (x, y) = place(frame, point.separation_s, point.events as f64);
    sign(svg, point.outcome, x, y);
}

fn sign(svg: &mut Svg, outcome: &str, x: f64, y: f64) {
    let disc = format!("M{:.1} {y:.1}a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0", x - 3.4);
    match outcome {
        "lossless" => svg.path(&disc, LOSSLESS, 0.85, "none", 0.0),
        "lossy" => {
            let cross = format!("M{:.1} {:.1}l7 7m0 -7l-7 7", x - 3.5, y - 3.5);
            svg.path(&cross, "none", 0.0, LOSSY, 1.5);
        }
        _ => svg.path(&disc, "none", 0.0, UNCOUNTED, 1.2),
    }
}

fn legend(svg: &mut Svg, area: Area) {
    let y = area.bottom() + 66.0;
    let mut x = area.x;
    for (outcome, text) in [
        ("lossless", "nothing was lost"),
        ("lossy", "something was lost"),
        ("invalid", "does not count: not emitted as asked, or the host itself was the cause"),
    ] {
        sign(svg, outcome, x, y - 4.0);
        svg.words(x + 10.0, y, Type::new(11.5, INK), text);
        x += 30.0 + 6.4 * text.len() as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(separation_s: f64, events: u64, outcome: &'static str) -> Point {
        Point {
            separation_s,
            events,
            outcome,
            why: String::new(),
            sent: 16 * events,
            lost: 0,
            dropped: None,
            lateness_median_s: 0.0,
            skew_median_s: 0.0,
        }
    }

    #[test]
    fn a_map_without_a_fit_is_drawn_with_the_reason() {
        let points = vec![point(1e-4, 8, "lossless"), point(1e-4, 90, "lossy"), point(5e-4, 20, "invalid")];
        let map = Watershed {
            sources: 16,
            datagram_bytes: 8972,
            frame_bytes: 9014,
            true_depth_bytes: 8_040_000,
            true_rate_bits_per_s: 8e8,
            fitted_depth_bytes: None,
            fitted_depth_interval: None,
            fitted_rate_bits_per_s: None,
            fitted_rate_interval: None,
            fit: None,
            remark: "2 columns are too few".to_owned(),
            columns: Vec::new(),
            points,
            seconds: 1.0,
        };
        let text = watershed_svg(&map);
        assert!(text.contains("2 columns are too few") && !text.contains("NaN"), "{text}");
        assert!(text.contains(LOSSY) && text.contains(UNCOUNTED) && !text.contains("saturated"));
    }
}
