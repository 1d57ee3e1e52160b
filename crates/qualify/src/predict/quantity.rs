//! Rates and sizes as they are written on data sheets.
//!
//! ```text
//!  10Gbit  10 Gb/s  100Mbit/s  1e9 bit    ─► bits per second
//!  330MB  64MiB  12 kB  1e6 B             ─► bytes
//!  1.2GB/s  900 MB/s  1e9 B/s             ─► bytes per second
//! ```
//! `k`, `M`, `G`, `T` are powers of 1000, `Ki`, `Mi`, `Gi` of 1024. `b` is a bit and `B` a byte, and they are not mixed up
//! silently: a rate in bytes or a size in bits is refused, and so is a quantity without a unit: 800 was meant to be 800Mbit.

/// A quantity that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// There is no number in front.
    #[error("\"{0}\" does not begin with a number above 0; write for example {1}")]
    Number(String, &'static str),
    /// There is no unit.
    #[error("\"{0}\" has no unit; write for example {1}")]
    NoUnit(String, &'static str),
    /// The unit is another one.
    #[error("\"{0}\" has the unit \"{1}\"; write for example {2}")]
    Unit(String, String, &'static str),
}

const RATES: &str = "10Gbit, 1Gb/s or 100Mbit/s";
const SIZES: &str = "330MB, 64MiB or 12kB";
const BYTE_RATES: &str = "1.2GB/s or 900MB/s";

/// A rate in bits per second.
///
/// # Errors
/// When it is not a number above 0 with a unit of bits.
pub fn bits_per_second(text: &str) -> Result<f64, QuantityError> {
    let (number, unit) = split(text, RATES)?;
    let bits = unit.strip_suffix("ps").or(unit.strip_suffix("/s")).unwrap_or(unit);
    let prefix = bits.strip_suffix("bits").or(bits.strip_suffix("bit")).or(bits.strip_suffix('b'));
    match prefix.and_then(factor) {
        Some(factor) => Ok(number * factor),
        None => Err(QuantityError::Unit(text.to_owned(), unit.to_owned(), RATES)),
    }
}

/// A size in bytes.
///
/// # Errors
/// When it is not a number above 0 with a unit of bytes.
pub fn bytes(text: &str) -> Result<f64, QuantityError> {
    let (number, unit) = split(text, SIZES)?;
    match unit.strip_suffix('B').and_then(factor) {
        Some(factor) => Ok(number * factor),
        None => Err(QuantityError::Unit(text.to_owned(), unit.to_owned(), SIZES)),
    }
}

/// A rate in bytes per second.
///
/// # Errors
/// When it is not a number above 0 with a unit of bytes per second.
pub fn bytes_per_second(text: &str) -> Result<f64, QuantityError> {
    let (number, unit) = split(text, BYTE_RATES)?;
    match unit.strip_suffix("B/s").and_then(factor) {
        Some(factor) => Ok(number * factor),
        None => Err(QuantityError::Unit(text.to_owned(), unit.to_owned(), BYTE_RATES)),
    }
}

fn is_above_zero(number: f64) -> bool {
    number > 0.0 && number.is_finite()
}

/// Splits the number from its unit.
fn split<'a>(text: &'a str, example: &'static str) -> Result<(f64, &'a str), QuantityError> {
    let trimmed = text.trim();
    // The longest beginning that is a number: `1e9` has an e in it, and `1e` is none.
    let ends = trimmed.char_indices().map(|(index, _)| index).chain([trimmed.len()]).rev();
    let parsed =
        |end: usize| Some((trimmed[..end].trim_end().parse::<f64>().ok()?, trimmed[end..].trim_start()));
    match ends.filter_map(parsed).next() {
        Some((number, "")) if is_above_zero(number) => Err(QuantityError::NoUnit(text.to_owned(), example)),
        Some((number, unit)) if is_above_zero(number) => Ok((number, unit)),
        _ => Err(QuantityError::Number(text.to_owned(), example)),
    }
}

fn factor(prefix: &str) -> Option<f64> {
    let factors = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    let binary = [("Ki", 1024.0), ("Mi", 1024.0 * 1024.0), ("Gi", 1024.0 * 1024.0 * 1024.0)];
    factors.iter().chain(&binary).find(|(name, _)| *name == prefix).map(|(_, factor)| *factor)
}

/// Quantities in files: a text as above. A number without quotes has no unit.
pub(crate) mod written {
    use std::fmt;

    use serde::Deserializer;
    use serde::de::{Error, Visitor};

    use super::{BYTE_RATES, QuantityError, RATES, SIZES, bits_per_second, bytes, bytes_per_second};

    struct Quantity {
        read: fn(&str) -> Result<f64, QuantityError>,
        example: &'static str,
    }

    impl Visitor<'_> for Quantity {
        type Value = Option<f64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a quantity in quotes, for example {}", self.example)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Option<f64>, E> {
            (self.read)(text).map(Some).map_err(E::custom)
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<Option<f64>, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Option<f64>, E> {
            self.visit_str(&number.to_string())
        }
    }

    /// Reads bits per second.
    pub(crate) fn bit_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        from.deserialize_any(Quantity { read: bits_per_second, example: RATES })
    }

    /// Reads bytes.
    pub(crate) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        from.deserialize_any(Quantity { read: bytes, example: SIZES })
    }

    /// Reads bytes per second.
    pub(crate) fn byte_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        from.deserialize_any(Quantity { read: bytes_per_second, example: BYTE_RATES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_bits_however_they_are_written() {
        for text in
            ["10Gbit", "10 Gb/s", "10Gbit/s", "10Gbps", "1e10b", "10e9 bit/s", "10000Mbit", "10 Gbits/s"]
        {
            assert_eq!(bits_per_second(text), Ok(1e10), "{text}");
        }
    }

    #[test]
    fn sizes_are_in_bytes_with_powers_of_1000_or_of_1024() {
        for (text, expected) in [("330MB", 330e6), ("64 MiB", 67_108_864.0), ("12kB", 12e3), ("1e6B", 1e6)] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bits_and_bytes_are_not_mixed_up_and_nonsense_is_refused() {
        for text in ["10GB", "1GB/s", "10Gbyte", "1 furlong", "1e", "10 m bit"] {
            let error = bits_per_second(text).expect_err(text);
            assert!(
                matches!(error, QuantityError::Unit(..)) && error.to_string().contains("10Gbit"),
                "{error}"
            );
        }
        for text in ["330Mb", "330Mbit", "1 GB/s"] {
            let error = bytes(text).expect_err(text);
            assert!(
                matches!(error, QuantityError::Unit(..)) && error.to_string().contains("330MB"),
                "{error}"
            );
        }
        for text in ["", "-1MB", "0", "MB", "NaN", "inf", "ünfzig"] {
            assert!(matches!(bytes(text), Err(QuantityError::Number(..))), "{text}");
            assert!(matches!(bits_per_second(text), Err(QuantityError::Number(..))), "{text}");
            assert!(matches!(bytes_per_second(text), Err(QuantityError::Number(..))), "{text}");
        }
    }

    #[test]
    fn a_quantity_without_a_unit_is_refused_with_how_it_is_written() {
        let (rate, size, byte_rate) = (bits_per_second("800"), bytes("800"), bytes_per_second("800"));
        for (read, example) in [(rate, "10Gbit"), (size, "330MB"), (byte_rate, "1.2GB/s")] {
            let error = read.expect_err("no unit").to_string();
            assert!(error.contains("\"800\" has no unit") && error.contains(example), "{error}");
        }
    }

    #[test]
    fn rates_of_hosts_and_disks_are_in_bytes() {
        for (text, expected) in
            [("1.2GB/s", 1.2e9), ("1200 MB/s", 1.2e9), ("1.2e9B/s", 1.2e9), ("1 GiB/s", 1_073_741_824.0)]
        {
            assert_eq!(bytes_per_second(text), Ok(expected), "{text}");
        }
        for text in ["10Gbit", "10Gb/s", "1.2GB"] {
            let error = bytes_per_second(text).expect_err(text);
            assert!(error.to_string().contains("1.2GB/s"), "{error}");
        }
    }
}
