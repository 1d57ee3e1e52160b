//! Writes metrics as OpenMetrics text.
//!
//! ```text
//!  family "thalweg_lost_hits", counter, unit "hits"      # TYPE thalweg_lost_hits counter
//!    sample [("stage", "order"), …], 3             ─►    # UNIT thalweg_lost_hits hits
//!                                                        thalweg_lost_hits_total{stage="order",…} 3
//! ```
//! OpenMetrics 1.0: a family's lines stand together, a label set stands once, a counter's sample ends with `_total`, the text with `# EOF`.

use std::collections::HashSet;
use std::fmt::Write as _;

/// The kind of numbers in a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, but for a new run.
    Counter,
    /// Any number.
    Gauge,
    /// Words, with the number 1.
    Info,
    /// Numbers by size: how many are no larger than each edge.
    Histogram,
}

/// A text in the making.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// One family in the making: its head is written with its first sample.
#[derive(Debug)]
pub struct Family<'e> {
    text: &'e mut String,
    name: &'static str,
    kind: Kind,
    head: Option<String>,
    seen: HashSet<String>,
}

impl Exposition {
    /// Begins a family. With a unit, the name ends with it.
    pub fn family(&mut self, name: &'static str, kind: Kind, unit: &str, help: &str) -> Family<'_> {
        debug_assert!(
            unit.is_empty() || name.ends_with(&format!("_{unit}")),
            "{name} ends with its unit {unit}"
        );
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
            Kind::Histogram => "histogram",
        };
        let unit = if unit.is_empty() { String::new() } else { format!("# UNIT {name} {unit}\n") };
        let head = format!("# TYPE {name} {word}\n{unit}# HELP {name} {help}\n");
        Family { text: &mut self.text, name, kind, head: Some(head), seen: HashSet::new() }
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

impl Family<'_> {
    /// Adds a number; a second one of the same labels is left out.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels = written(labels);
        if !self.seen.insert(labels.clone()) {
            return;
        }
        self.text.extend(self.head.take());
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
            Kind::Info => "_info",
        };
        let number = match value {
            value if value.is_nan() => "NaN".to_owned(),
            value if value.is_infinite() => (if value > 0.0 { "+Inf" } else { "-Inf" }).to_owned(),
            value => value.to_string(),
        };
        writeln!(self.text, "{}{suffix}{labels} {number}", self.name).expect("a string takes everything");
    }

    /// Adds what a histogram has: the numbers in each bin, of which the last is beyond the last edge, and their sum.
    pub fn bins(&mut self, labels: &[(&str, &str)], edges: &[f64], counts: &[u64], sum: f64) {
        if !self.seen.insert(written(labels)) {
            return;
        }
        self.text.extend(self.head.take());
        let mut count = 0;
        for (bin, more) in counts.iter().enumerate() {
            count += more;
            let edge = edges.get(bin).map_or("+Inf".to_owned(), f64::to_string);
            let labels = written(&[labels, &[("le", &edge)]].concat());
            writeln!(self.text, "{}_bucket{labels} {count}", self.name).expect("a string takes everything");
        }
        let labels = written(labels);
        writeln!(self.text, "{}_count{labels} {count}", self.name).expect("a string takes everything");
        writeln!(self.text, "{}_sum{labels} {sum}", self.name).expect("a string takes everything");
    }

    /// Adds a number, if there is one.
    pub fn maybe(&mut self, labels: &[(&str, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.sample(labels, value);
        }
    }
}

fn written(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_stands_together_and_once() {
        let mut exposition = Exposition::default();
        let mut family = exposition.family("x_hits", Kind::Counter, "hits", "Hits.");
        family.sample(&[("a", "1\"\\\n")], 3.0);
        family.sample(&[("a", "1\"\\\n")], 4.0);
        family.maybe(&[], Some(f64::INFINITY));
        family.maybe(&[("b", "")], None);
        exposition.family("y_seconds", Kind::Histogram, "seconds", "Times.").bins(
            &[("a", "b")],
            &[0.5, 1.0],
            &[1, 0, 2],
            7.5,
        );
        exposition.family("nothing", Kind::Gauge, "", "Nothing.");
        let expected = "# TYPE x_hits counter\n# UNIT x_hits hits\n# HELP x_hits Hits.\nx_hits_total{a=\"1\\\"\\\\\\n\"} 3\nx_hits_total +Inf\n# TYPE y_seconds histogram\n# UNIT y_seconds seconds\n# HELP y_seconds Times.\ny_seconds_bucket{a=\"b\",le=\"0.5\"} 1\ny_seconds_bucket{a=\"b\",le=\"1\"} 1\ny_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\ny_seconds_count{a=\"b\"} 3\ny_seconds_sum{a=\"b\"} 7.5\n# EOF\n";
        assert_eq!(exposition.finish(), expected);
    }
}
