//! A bench at several sizes: one figure stands for it, and all of them are in its parameters and its picture.

use serde_json::{Value, json};
use thalweg_data::measure::Measurement;

use super::Measured;
use thalweg_run::plot::{Chart, Series, lines_svg};

/// Measurements along one quantity, of one or several kinds.
pub(crate) struct Sweep {
    /// The name to type.
    pub(crate) bench: &'static str,
    /// The title of the picture.
    pub(crate) title: String,
    /// The parameter along x.
    pub(crate) along: &'static str,
    /// The text below the axis.
    pub(crate) x_title: &'static str,
    /// The parameter that distinguishes lines; without it there is one.
    pub(crate) lines: Option<&'static str>,
    /// All measurements.
    pub(crate) points: Vec<Measurement>,
    /// True if the picture shows ratios to the baseline instead of values.
    pub(crate) shows_ratio: bool,
    /// True if x has equal ratios.
    pub(crate) logarithmic_x: bool,
    /// True if y has equal ratios; otherwise it begins at 0.
    pub(crate) logarithmic_y: bool,
    /// Lines that were not measured, to compare with.
    pub(crate) guides: Vec<Series>,
}

impl Sweep {
    /// The measurement that stands for the sweep: that with the lowest ratio to its baseline. All are in its parameter
    /// `sweep`, and drawn.
    ///
    /// # Panics
    /// Of a sweep without a point.
    pub(crate) fn measured(self) -> Measured {
        let plot = lines_svg(&self.chart());
        let all: Vec<Value> = self.points.iter().map(point).collect();
        let worst = self.points.into_iter().min_by(|one, other| one.ratio.total_cmp(&other.ratio));
        let named = Measurement { bench: self.bench.to_owned(), ..worst.expect("a sweep has points") };
        Measured { measurement: named.with("sweep", all), plot: Some(plot) }
    }

    fn chart(&self) -> Chart {
        let mut series: Vec<Series> = self.guides.clone();
        for point in &self.points {
            let name = self.lines.map_or(String::new(), |lines| said(&point.parameters, lines));
            let x = point.parameters.get(self.along).and_then(Value::as_f64).unwrap_or(f64::NAN);
            let y = if self.shows_ratio { point.ratio } else { point.value };
            match series.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((x, y)),
                None => series.push(Series { name, points: vec![(x, y)] }),
            }
        }
        let first = self.points.first();
        let (unit, baseline) = first.map_or(("", ""), |point| (&point.unit, &point.baseline));
        Chart {
            title: self.title.clone(),
            subtitle: format!("baseline: {baseline}"),
            x_title: self.x_title.to_owned(),
            y_title: if self.shows_ratio { "÷ baseline".to_owned() } else { unit.to_owned() },
            logarithmic_x: self.logarithmic_x,
            logarithmic_y: self.logarithmic_y,
            series,
        }
    }
}

fn said(parameters: &std::collections::BTreeMap<String, Value>, name: &str) -> String {
    match parameters.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => format!("{} {value}", name.replace('_', " ")),
        None => String::new(),
    }
}

/// A measurement as a parameter of another.
pub(crate) fn point(measured: &Measurement) -> Value {
    json!({
        "value": measured.value,
        "unit": measured.unit,
        "baseline_value": measured.baseline_value,
        "ratio": measured.ratio,
        "ratio_range": measured.ratio_range,
        "parameters": measured.parameters,
    })
}
