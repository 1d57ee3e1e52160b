//! One axis of a spectrum: which number, and how it is divided.
//!
//! ```text
//!  low                         high
//!   │ 0 │ 1 │ 2 │ … │ bins - 1 │        below: underflow, at `high` and above: overflow
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cut::Field;

/// Bins of an axis, at most.
pub const MOST_BINS: u32 = 1 << 20;

/// An axis as it is described in `[[spectrum]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisSettings {
    /// Name of a field, as in cuts.
    pub field: String,
    /// How many bins.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub bins: u32,
    /// Where the first begins.
    pub low: f64,
    /// Where the last ends.
    pub high: f64,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Axis {
    /// What is written beside it.
    pub label: String,
    /// The unit, empty of a pure number.
    pub unit: &'static str,
    /// The field that is binned.
    #[serde(serialize_with = "name")]
    #[schemars(with = "String")]
    pub field: Field,
    /// How many bins.
    pub bins: u32,
    /// Where the first begins.
    pub low: f64,
    /// Where the last ends.
    pub high: f64,
    /// Bins per unit: divided once, not for each value.
    #[serde(skip)]
    scale: f64,
}

fn name<S: serde::Serializer>(field: &Field, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(field.name())
}

impl Axis {
    /// An axis of this field.
    pub fn new(field: Field, bins: u32, low: f64, high: f64) -> Axis {
        let label = field.name().replace('_', " ");
        Axis { label, unit: field.unit(), field, bins, low, high, scale: f64::from(bins) / (high - low) }
    }

    /// The same with another label.
    pub(super) fn labelled(self, label: &str) -> Axis {
        Axis { label: label.to_owned(), ..self }
    }

    /// An axis as it is described.
    ///
    /// # Errors
    /// What is invalid, and what to write.
    pub fn of(settings: &AxisSettings) -> Result<Axis, String> {
        let AxisSettings { field: name, bins, low, high } = settings;
        let field = Field::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = crate::cut::FIELDS.iter().map(|(_, name, ..)| *name).collect();
            format!("there is no field \"{name}\"; there are {}", known.join(", "))
        })?;
        if !(1..=MOST_BINS).contains(bins) {
            return Err(format!("bins = {bins}: write 1 to {MOST_BINS}"));
        }
        if !(low.is_finite() && high.is_finite() && low < high) {
            return Err(format!(
                "low = {low}, high = {high}: write two finite numbers, the first smaller than the second"
            ));
        }
        Ok(Axis::new(field, *bins, *low, *high))
    }

    /// Number of bins per unit.
    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// Where a bin begins, and the one before it ends.
    fn edge(&self, bin: i64) -> f64 {
        self.low + bin as f64 * (self.high - self.low) / f64::from(self.bins)
    }

    /// A value or an edge as both are compared.
    #[inline(always)]
    fn compared(&self, number: f64) -> f64 {
        if self.field.is_calibrated() { kev_compared(number) } else { number }
    }

    /// The bin of a value: `-1` below, `bins` above, `None` of what is not a number.
    #[inline(always)]
    pub(super) fn bin(&self, value: f64) -> Option<i64> {
        if value.is_nan() {
            return None;
        }
        let value = self.compared(value);
        if value < self.compared(self.low) {
            return Some(-1);
        }
        if value >= self.compared(self.high) {
            return Some(i64::from(self.bins));
        }
        // A cast of a float saturates, and leaves out what is behind the point.
        let near = (((value - self.low) * self.scale) as i64).min(i64::from(self.bins) - 1);
        // The product is rounded, and the edges that readers compute decide: of 49 per bin, 147 times the scale is less than 3.
        let edge = |bin| self.compared(self.edge(bin));
        let bin = near + i64::from(value >= edge(near + 1)) - i64::from(value < edge(near));
        Some(bin.min(i64::from(self.bins) - 1))
    }
}

/// An energy in keV as it is compared with edges, as in cuts: what is a whole number but for its last digits is that number. 100 times 0.29 is
/// less than 29.
#[inline(always)]
pub(super) fn kev_compared(kev: f64) -> f64 {
    f64::from(kev as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_begins_where_the_one_before_ends() {
        let axis = Axis::new(Field::Energy, 4, 0.0, 8.0);
        let bins = [-0.1, 0.0, 1.9, 2.0, 7.99, 8.0, f64::INFINITY].map(|value| axis.bin(value));
        assert_eq!(bins, [-1, 0, 0, 1, 3, 4, 4].map(Some));
        assert_eq!(axis.bin(f64::NAN), None);
    }

    #[test]
    fn a_value_on_an_edge_is_in_the_bin_above_whatever_its_width() {
        for (low, width) in [(0.0, 49.0), (0.0, 103.0), (-700.0, 107.0), (0.0, 0.1), (-3.3, 0.7)] {
            let bins = 1000;
            let axis = Axis::new(Field::Energy, bins, low, low + width * f64::from(bins));
            for bin in 0..i64::from(bins) {
                let edge = axis.edge(bin);
                assert_eq!(axis.bin(edge), Some(bin), "{bin} of {width}");
                assert_eq!(axis.bin(edge.next_down()), Some(bin - 1), "below {bin} of {width}");
            }
            assert_eq!(axis.bin(axis.high), Some(i64::from(bins)));
            assert_eq!(axis.bin(axis.high.next_down()), Some(i64::from(bins) - 1));
        }
    }

    #[test]
    fn invalid_axes_are_refused() {
        let message = |field: &str, bins, low, high| {
            Axis::of(&AxisSettings { field: field.into(), bins, low, high }).expect_err("no axis")
        };
        assert!(message("enrgy", 1, 0.0, 1.0).contains("there are energy"));
        assert!(message("energy", 0, 0.0, 1.0).contains("bins = 0"));
        assert!(message("energy", 1, 1.0, 1.0).contains("smaller"));
        for (low, high) in [(f64::NAN, 1.0), (0.0, f64::INFINITY), (f64::NEG_INFINITY, 0.0)] {
            assert!(message("energy", 1, low, high).contains("write two finite numbers, the first smaller"));
        }
    }
}
