//! Converts values to positions on paper, and to the numbers written at the ticks.
//!
//! ```text
//!  value ─► Scale { linear | logarithmic, from..to } ─► place 0..1
//!                └─► ticks: (value, "2k")
//! ```

/// A stretch of values laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Equal steps.
    Linear {
        /// Value at the axis's start.
        from: f64,
        /// Value at its end, larger than `from`.
        to: f64,
    },
    /// Equal ratios.
    Logarithmic {
        /// Value at the axis's start, above 0.
        from: f64,
        /// Value at its end, larger than `from`.
        to: f64,
    },
}

impl Scale {
    /// A linear scale; a stretch without length is given some.
    pub fn linear(from: f64, to: f64) -> Scale {
        Scale::Linear { from, to: if to > from { to } else { from + 1.0 } }
    }

    /// A logarithmic scale of counts, from a little below one hit to a little above `most`.
    pub fn of_counts(most: f64) -> Scale {
        Scale::Logarithmic { from: 0.7, to: most.max(10.0) * 1.6 }
    }

    /// Returns the position of a value: 0 at the start, 1 at the end. Values beyond are drawn at the ends.
    pub fn place(self, value: f64) -> f64 {
        let place = match self {
            Scale::Linear { from, to } => (value - from) / (to - from),
            Scale::Logarithmic { from, to } => (value.max(from) / from).ln() / (to / from).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Values to mark, about `wanted` of them, round ones.
    pub fn ticks(self, wanted: usize) -> Vec<f64> {
        match self {
            Scale::Linear { from, to } => {
                let step = round_step((to - from) / wanted.max(1) as f64);
                let first = (from / step).ceil() as i64;
                let last = (to / step + 1e-9).floor() as i64;
                (first..=last).map(|number| number as f64 * step).collect()
            }
            Scale::Logarithmic { from, to } => {
                let (first, last) = (from.log10().ceil() as i32, to.log10().floor() as i32);
                let every = ((last - first + 1) as usize).div_ceil(wanted.max(1)).max(1);
                (first..=last).step_by(every).map(|power| 10f64.powi(power)).collect()
            }
        }
    }
}

/// The smallest of 1, 2, 5, 10, 20, … that is not below `step`.
pub fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|round| *round >= step * 0.999)
        .unwrap_or(power)
}

/// A number as short as it can be said: `1e-4`, `0.25`, `40`, `1.5k`, `12M`.
pub fn short_number(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.005 {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.2}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The value to three digits.
pub fn three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10f64.powf(value.abs().log10().floor() - 2.0);
    (value / unit).round() * unit
}

/// A count with its thousands apart: `12 345 678`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}'); // narrow space that does not break
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(Scale::linear(0.0, 1.0).ticks(4), [0.0, 0.5, 1.0]);
        assert_eq!(Scale::linear(0.0, 3800.0).ticks(4), [0.0, 1000.0, 2000.0, 3000.0]);
        assert_eq!(Scale::of_counts(5e3).ticks(9), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Scale::of_counts(1e7).ticks(4), [1.0, 100.0, 1e4, 1e6]);
    }

    #[test]
    fn places_never_leave_the_axis() {
        let counts = Scale::of_counts(100.0);
        assert_eq!(counts.place(0.0), 0.0);
        assert_eq!(counts.place(1e9), 1.0);
        assert_eq!(Scale::linear(5.0, 5.0).place(5.0), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.25, 40.0, 1500.0, 12e6, 1e9].map(short_number);
        assert_eq!([1e-3, 2.5e-6, 0.01].map(short_number), ["1e-3", "2.5e-6", "0.01"]);
        assert_eq!(texts, ["0", "0.25", "40", "1.5k", "12M", "1G"]);
        assert_eq!(grouped(12_345_678).replace('\u{202f}', " "), "12 345 678");
        assert_eq!(grouped(7), "7");
        assert_eq!([298_656.0, 9.894, 0.0].map(three_digits).map(short_number), ["299k", "9.89", "0"]);
    }
}
