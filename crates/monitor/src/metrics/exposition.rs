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

/// What kind of numbers a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows, but for a new run.
    Counter,
    /// Any number.
    Gauge,
    /// Words, with the number 1.
    Info,
}

/// A text in the making.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

/// One family in the making: its head is written with its first sample.
#[derive(Debug)]
pub(super) struct Family<'e> {
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
            Kind::Gauge => "",
            Kind::Info => "_info",
        };
        let number = match value {
            value if value.is_nan() => "NaN".to_owned(),
            value if value.is_infinite() => (if value > 0.0 { "+Inf" } else { "-Inf" }).to_owned(),
            value => value.to_string(),
        };
        writeln!(self.text, "{}{suffix}{labels} {number}", self.name).expect("a string takes everything");
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
        exposition.family("nothing", Kind::Gauge, "", "Nothing.");
        let expected = "# TYPE x_hits counter\n# UNIT x_hits hits\n# HELP x_hits Hits.\nx_hits_total{a=\"1\\\"\\\\\\n\"} 3\nx_hits_total +Inf\n# EOF\n";
        assert_eq!(exposition.finish(), expected);
    }
}
