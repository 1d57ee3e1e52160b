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
use thalweg_qualify::switch::fit::{Buffering, Fit};
use thalweg_qualify::watershed::{Point, Watershed};

use super::panel::{Frame, GREY, INK, page};
use super::scale::Scale;
use super::svg::{Area, Svg, Type};

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 520.0;
const LOSSLESS: &str = "#1f5f8f";
const LOSSY: &str = "#b3261e";
const UNCOUNTED: &str = "#9aa5ae";
/// Places on the curve.
const STEPS: u32 = 240;

/// Draws the map; while it is measured, what there is of it.
pub fn watershed_svg(map: &Watershed) -> String {
    let ports: Vec<String> = map.ports.iter().map(u32::to_string).collect();
    let title =
        format!("Synchronous bursts of {} sources, {} bytes each", ports.join(", "), map.datagram_bytes);
    let said = words(map);
    let mut svg = page(WIDTH, HEIGHT, &title, &said);
    let frame = frame(map);
    frame.draw(&mut svg);
    frame.name_axes(&mut svg, "separation of events / µs", "events in a burst");
    if let Some(fit) = &map.fit {
        map.ports.iter().for_each(|ports| edge_of(&mut svg, &frame, map, fit, *ports));
    }
    map.points.iter().for_each(|point| mark(&mut svg, &frame, point));
    legend(&mut svg, frame.area);
    svg.finish(&title, &said)
}

/// Draws the fitted edge for `ports` ports, its interval shaded. Queues per input hold together what each of them holds.
fn edge_of(svg: &mut Svg, frame: &Frame, map: &Watershed, fit: &Fit, ports: u32) {
    let queues = if fit.buffering == Buffering::PerSource { f64::from(ports) } else { 1.0 };
    let edge = |depth_bytes: f64| Edge {
        queue: Queue { depth_bytes: queues * depth_bytes, rate_bytes_per_s: fit.rate_bytes_per_s },
        event_bytes: f64::from(ports) * f64::from(map.frame_bytes),
    };
    let [low, high] = fit.depth_interval_bytes;
    let band =
        [curve(frame, edge(high), false), curve(frame, edge(low), true).replacen('M', "L", 1)].concat();
    svg.path(&format!("{band}Z"), LOSSLESS, 0.18, "none", 0.0);
    svg.path(&curve(frame, edge(fit.depth_bytes), false), "none", 0.0, LOSSLESS, 1.6);
    let saturated_s = edge(fit.depth_bytes).saturation_separation_s();
    match map.ports.len() {
        1 => saturation(svg, frame, saturated_s),
        // Every edge leaves the picture at a place of its own.
        _ => {
            let (x, _) = place(frame, saturated_s, 0.0);
            let y = frame.area.y + 14.0;
            svg.label(
                x.min(frame.area.right()) - 12.0,
                y,
                Type::new(11.0, GREY).end(),
                &format!("{ports} sources"),
            );
        }
    }
}

fn words(map: &Watershed) -> String {
    match &map.fit {
        Some(fit) => {
            let percent = |[low, high]: [f64; 2], value: f64| 50.0 * (high - low) / value;
            let what = match (&map.model, fit.buffering) {
                (None, _) => "depth",
                (Some(_), Buffering::Shared) => "one shared buffer: depth",
                (Some(_), Buffering::PerSource) => "a queue per input: depth of each",
            };
            format!(
                "{what} {:.3} MB ± {:.2} %, drain rate {:.2} Mb/s ± {:.2} % (95 %); {} trials counted, {} not",
                fit.depth_bytes * 1e-6,
                percent(fit.depth_interval_bytes, fit.depth_bytes),
                fit.rate_bytes_per_s * 8e-6,
                percent(fit.rate_interval_bytes_per_s, fit.rate_bytes_per_s),
                fit.trials,
                fit.invalid
            )
        }
        None if map.remark.is_empty() => {
            format!("measuring: {} trials in {:.0} s", map.points.len(), map.seconds)
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
    svg.label(x - 5.0, frame.area.bottom() - 10.0, Type::new(11.0, GREY).end(), &text);
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
        svg.label(x + 10.0, y, Type::new(11.5, INK), text);
        x += 30.0 + 6.4 * text.len() as f64;
    }
}

#[cfg(test)]
mod tests {
    use thalweg_qualify::rig::{FlowControl, RateSource, StartSkew};

    use super::*;

    /// A map as the command prints it, with the fields that are drawn.
    fn map(ports: &[u32], points: Vec<Point>, remark: &str) -> Watershed {
        Watershed {
            sources: 16,
            sources_per_input: 1,
            ports: ports.to_vec(),
            datagram_bytes: 8972,
            frame_bytes: 9014,
            assumed_rate_bits_per_s: 8e8,
            rate_source: RateSource::Stated,
            start_skew: StartSkew::OneHost,
            flow_control: FlowControl::not_read(),
            testbed: None,
            true_depth_bytes: None,
            true_rate_bits_per_s: None,
            true_queues: None,
            fitted_depth_bytes: None,
            fitted_depth_interval: None,
            fitted_rate_bits_per_s: None,
            fitted_rate_interval: None,
            fit: None,
            model: None,
            acceptance: None,
            remark: remark.to_owned(),
            columns: Vec::new(),
            points,
            seconds: 1.0,
        }
    }

    fn point(separation_s: f64, events: u64, outcome: &'static str) -> Point {
        Point {
            sources: 16,
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
        let text = watershed_svg(&map(&[16], points, "2 columns are too few"));
        assert!(text.contains("2 columns are too few") && !text.contains("NaN"), "{text}");
        assert!(text.contains(LOSSY) && text.contains(UNCOUNTED) && !text.contains("saturated"));
        assert!(watershed_svg(&map(&[16], Vec::new(), "")).contains("measuring: 0 trials"));
    }

    #[test]
    fn every_number_of_ports_has_an_edge_of_its_own() {
        let fit = Fit {
            buffering: Buffering::PerSource,
            depth_bytes: 5e5,
            depth_interval_bytes: [4.9e5, 5.1e5],
            rate_bytes_per_s: 1e8,
            rate_interval_bytes_per_s: [0.99e8, 1.01e8],
            width_bytes: 1e3,
            stalls: 0.0,
            log_likelihood: -1.0,
            residual_rms: 0.0,
            wrong_side_fraction: 0.0,
            columns: 6,
            trials: 60,
            invalid: 0,
        };
        let points = vec![point(1e-4, 8, "lossless"), point(1e-4, 90, "lossy")];
        let text = watershed_svg(&Watershed { fit: Some(fit), ..map(&[4, 16], points, "") });
        assert!(
            text.contains(">4 sources<") && text.contains(">16 sources<") && !text.contains("NaN"),
            "{text}"
        );
    }
}
