//! A sweep of a prediction: utilisation and loss of each hop against what was swept, with the saturation marked.
//!
//! ```text
//!  utilisation │      ╱ ─ ─ 1     one line a hop, its name at its end
//!              │  ╱ ┆
//!  loss (log)  │    ┆ ╭──         ┆ a hop is saturated
//!              └── swept value ──
//! ```

use std::fmt::Write;

use thalweg_qualify::predict::chain::HopPrediction;
use thalweg_qualify::predict::chain::sweep::{Saturation, Swept, SweptPoint};

use super::colour;
use super::lines::name_ends;
use super::panel::{Frame, GREY, page};
use super::scale::{Scale, short_number, three_digits};
use super::svg::{Area, Svg, Type};

const WIDTH: f64 = 840.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 150.0;
const UPPER: Area = Area { x: LEFT, y: 78.0, width: WIDTH - LEFT - RIGHT, height: 226.0 };
const LOWER: Area = Area { x: LEFT, y: 338.0, width: WIDTH - LEFT - RIGHT, height: 226.0 };
const MARK: &str = "#b3261e";
/// The lowest loss that is drawn where none is lower.
const LEAST_LOSS: f64 = 1.5e-3;
/// The largest utilisation that is drawn: any load beyond it is lost in any case.
const MOST_UTILISATION: f64 = 4.0;

/// The value of a hop that a line shows.
type Value = fn(&HopPrediction) -> Option<f64>;

/// Draws a sweep.
pub fn prediction_svg(swept: &Swept) -> String {
    let title = "Predicted utilisation and loss, hop by hop";
    let said = subtitle(swept);
    let mut svg = page(WIDTH, HEIGHT, title, &said);
    let x = x_scale(swept);
    let upper = Frame { area: UPPER, x, y: utilisation_scale(swept), numbers: (false, true) };
    let lower = Frame { area: LOWER, x, y: loss_scale(swept), numbers: (true, true) };
    let unit = if swept.unit.is_empty() { String::new() } else { format!(" / {}", swept.unit) };
    for (frame, words, x_title, value) in [
        (&upper, "utilisation", "", utilisation as Value),
        (&lower, "lost frames ÷ frames that came", &*format!("{}{unit}", swept.parameter), loss as Value),
    ] {
        frame.draw(&mut svg);
        frame.name_axes(&mut svg, x_title, words);
        mark_saturations(&mut svg, frame, swept);
        draw_hops(&mut svg, frame, swept, value);
    }
    let full = upper.down(1.0);
    svg.line((UPPER.x, full), (UPPER.right(), full), MARK);
    name_saturations(&mut svg, &upper, swept);
    svg.label(LEFT, HEIGHT - 18.0, Type::new(11.0, GREY), &note(swept));
    svg.finish(title, &said)
}

fn utilisation(hop: &HopPrediction) -> Option<f64> {
    hop.utilisation.filter(|load| *load <= MOST_UTILISATION)
}

fn loss(hop: &HopPrediction) -> Option<f64> {
    hop.simulated.as_ref().map(|seen| seen.loss_probability).filter(|loss| *loss > 0.0)
}

fn values(swept: &Swept, value: Value) -> impl Iterator<Item = f64> {
    swept.points.iter().flat_map(|point| &point.prediction.hops).filter_map(value)
}

fn x_scale(swept: &Swept) -> Scale {
    let at = |point: Option<&SweptPoint>| point.map_or(1.0, |point| point.value);
    let (from, to) = (at(swept.points.first()), at(swept.points.last()));
    match swept.is_logarithmic {
        true if to > from => Scale::Logarithmic { from, to },
        _ => Scale::linear(from, to),
    }
}

fn utilisation_scale(swept: &Swept) -> Scale {
    Scale::linear(0.0, 1.08 * values(swept, utilisation).fold(1.1, f64::max))
}

fn loss_scale(swept: &Swept) -> Scale {
    let least = values(swept, loss).fold(LEAST_LOSS, f64::min);
    Scale::Logarithmic { from: 10f64.powf((least / 1.5).log10().floor()), to: 1.0 }
}

fn subtitle(swept: &Swept) -> String {
    let Some(SweptPoint { prediction, .. }) = swept.points.first() else { return String::new() };
    let unknown: Vec<&str> =
        prediction.hops.iter().filter(|hop| !hop.is_predicted).map(|hop| hop.name).collect();
    let mut words = format!("{} links", prediction.links);
    if let Some(bytes) = prediction.event_bytes {
        let _ = write!(words, ", {}B of payload an event", short_number(three_digits(bytes)));
    }
    let _ = write!(words, "; seed {}", prediction.seed);
    if !unknown.is_empty() {
        let _ = write!(words, "; not predicted: {}", unknown.join(", "));
    }
    words
}

fn note(swept: &Swept) -> String {
    let triggers = swept.points.iter().map(|point| point.prediction.triggers).min().unwrap_or(0);
    match triggers {
        0 => "No dot below: nothing was lost in the simulation.".to_owned(),
        count => format!("No dot below: nothing was lost of {count} simulated triggers."),
    }
}

fn draw_hops(svg: &mut Svg, frame: &Frame, swept: &Swept, value: Value) {
    let hops = swept.points.first().map_or(&[][..], |point| &point.prediction.hops);
    let mut ends = Vec::new();
    for (index, hop) in hops.iter().enumerate() {
        let stroke = colour::of_source(index);
        let (mut commands, mut before) = (String::new(), false);
        let mut last = None;
        for SweptPoint { value: at, prediction } in &swept.points {
            let Some(shown) = prediction.hops.get(index).and_then(value) else {
                before = false;
                continue;
            };
            let (x, y) = (frame.across(*at), frame.down(shown));
            // Writing to a String cannot fail.
            let _ = write!(commands, "{}{x:.1} {y:.1}", if before { "L" } else { "M" });
            let dot = format!("M{:.1} {y:.1}a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0 -4.8 0", x - 2.4);
            svg.path(&dot, stroke, 1.0, "none", 0.0);
            (before, last) = (true, Some((x, y)));
        }
        if let Some((x, y)) = last {
            svg.path(&commands, "none", 0.0, stroke, 1.6);
            ends.push(((x, y), hop.name.to_owned(), stroke));
        }
    }
    name_ends(svg, ends.iter().map(|(place, name, stroke)| (*place, name, *stroke)).collect());
}

fn mark_saturations(svg: &mut Svg, frame: &Frame, swept: &Swept) {
    for saturation in &swept.saturations {
        let x = frame.across(saturation.value);
        svg.line((x, frame.area.y), (x, frame.area.bottom()), colour_of(swept, saturation));
    }
}

/// The colour of the line of the hop.
fn colour_of(swept: &Swept, saturation: &Saturation) -> &'static str {
    let hops = swept.points.first().map_or(&[][..], |point| &point.prediction.hops);
    colour::of_source(hops.iter().position(|hop| hop.name == saturation.hop).unwrap_or(0))
}

/// Lists which hop is saturated where, in the upper corner on the side where utilisation is low.
fn name_saturations(svg: &mut Svg, frame: &Frame, swept: &Swept) {
    let most = |point: Option<&SweptPoint>| {
        let hops = point.map_or(&[][..], |point| &point.prediction.hops);
        hops.iter().filter_map(|hop| hop.utilisation).fold(0.0, f64::max)
    };
    let is_falling = most(swept.points.first()) > most(swept.points.last());
    for (index, saturation) in swept.saturations.iter().enumerate() {
        let y = frame.area.y + 12.0 + 15.0 * index as f64;
        let words = format!("{}: 100 % at {}", saturation.hop, with_unit(saturation.value, swept.unit));
        let style = Type::new(11.0, colour_of(swept, saturation)).strong();
        match is_falling {
            true => svg.label(frame.area.right() - 10.0, y, style.end(), &words),
            false => svg.label(frame.area.x + 10.0, y, style, &words),
        }
    }
}

/// A value of three digits with its unit: `3.29 kHz`.
fn with_unit(value: f64, unit: &str) -> String {
    let number = short_number(three_digits(value));
    let digits = number.trim_end_matches(char::is_alphabetic);
    format!("{digits} {}{unit}", &number[digits.len()..]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use thalweg_frontend::trigger::{Kind, Settings};
    use thalweg_qualify::predict::chain::sweep::Sweep;
    use thalweg_qualify::predict::chain::{Carrier, Emission, Network, Plan, Source};

    use super::*;

    #[test]
    fn every_hop_is_drawn_and_its_saturation_named() {
        let source = Source {
            name: "a < b".to_owned(),
            links: 44,
            carrier: Carrier::Datagrams,
            emission: Emission::Triggered,
            answers: vec![vec![1024]],
        };
        let mut plan = Plan {
            triggers: Settings { program: Kind::Poisson, ..Settings::default() },
            sources: vec![source],
            network: Network::default(),
            builders: 0,
            recorded_copies: 1,
            has_host: true,
            assumptions: Vec::new(),
        };
        let draw = |plan: &Plan, text: &str| {
            let sweep = Sweep::parse(text).expect("a sweep");
            prediction_svg(&sweep.run(plan, 500).expect("it can be"))
        };
        let unknown = draw(&plan, "rate_hz=1000:40000:4");
        assert!(unknown.contains("not predicted: source link, switch output") && !unknown.contains("NaN"));
        plan.network.switch.output_rate_bits_per_s = Some(10e9);
        plan.network.switch.depth_bytes = Some(1e6);
        plan.network.build.bytes_per_s = Some(1e9);
        for text in ["rate_hz=1000:40000:9", "depth=10kB:10MB:4:log", "links=10:60:3"] {
            let drawn = draw(&plan, text);
            assert!(drawn.contains(">switch output<") && drawn.contains(">builder<"), "{text}");
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{text}");
        }
        let drawn = draw(&plan, "rate_hz=1000:40000:9");
        // 26.1 kHz after a dead time of 2 us.
        assert!(drawn.contains("switch output: 100 % at 27.5 kHz"), "{drawn}");
        assert!(drawn.contains("nothing was lost of 500 simulated triggers"));
    }
}
