//! Reads lists of times, as people and pulse generators write them.
//!
//! ```text
//!  # recorded 2015-03-04
//!  0            ─► 0 ns
//!  12.5 us      ─►    12_500 ns
//!  1 ms, 2 ms   ─► 1_000_000 ns, 2_000_000 ns
//! ```

/// Longest text that an error quotes.
const REPEATED: usize = 40;

/// Why a list of times cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimesError {
    /// Not a time.
    #[error(
        "line {line} of the times: `{found}` is not a time: write a number and ns, us, ms or s, such as `12.5 us`"
    )]
    NoTime {
        /// The line, from 1.
        line: usize,
        /// The text of the line.
        found: String,
    },
    /// A time below the resolution.
    #[error("line {line} of the times: `{found}` is finer than one nanosecond, or beyond 584 years")]
    Resolution {
        /// The line, from 1.
        line: usize,
        /// The text of the line.
        found: String,
    },
    /// A time out of order.
    #[error("line {line} of the times: {later} ns comes behind {earlier} ns; sort the list, each time once")]
    Order {
        /// The line, from 1.
        line: usize,
        /// The time before it.
        earlier: u64,
        /// The time of the line.
        later: u64,
    },
}

/// Reads the times of a list in nanoseconds, ascending: one per line or separated by commas.
///
/// # Errors
/// The first entry that is not a time, or is not later than the one before.
pub fn parse_times(text: &str) -> Result<Vec<u64>, TimesError> {
    let mut times: Vec<u64> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = (index + 1, line.split('#').next().unwrap_or_default());
        for part in line.1.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let found = || part.chars().take(REPEATED).collect();
            let (digits, scale_digits) =
                split_unit(part).ok_or_else(|| TimesError::NoTime { line: line.0, found: found() })?;
            let time = nanoseconds(digits, scale_digits)
                .ok_or_else(|| TimesError::Resolution { line: line.0, found: found() })?;
            if let Some(earlier) = times.last().copied().filter(|earlier| *earlier >= time) {
                return Err(TimesError::Order { line: line.0, earlier, later: time });
            }
            times.push(time);
        }
    }
    Ok(times)
}

/// Splits a time into its number as written, and the number of decimal places that make one nanosecond.
fn split_unit(text: &str) -> Option<(&str, usize)> {
    let units = [("ns", 0), ("us", 3), ("µs", 3), ("μs", 3), ("ms", 6), ("s", 9)];
    let found = units.iter().find_map(|(unit, places)| Some((text.strip_suffix(unit)?, *places)));
    let (number, places) = found.unwrap_or((text, 0));
    let number = number.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    (digits(whole) && digits(fraction) && whole.as_bytes()[0] != b'_').then_some((number, places))
}

/// Converts exactly, by shifting decimal places, without rounding.
fn nanoseconds(number: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.replace('_', "");
    let fraction = fraction.trim_end_matches('0');
    let zeros = places.checked_sub(fraction.len())?;
    let mut value = 0u64;
    for digit in whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    value.checked_mul(10u64.checked_pow(zeros as u32)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_comments_and_commas_are_read() {
        let text = "# from the log\n0\n500 ns # noise\n12.5 us, 12_600ns\r\n\n1ms\n0.25 s\n1.000000001 s\n";
        let times = [0, 500, 12_500, 12_600, 1_000_000, 250_000_000, 1_000_000_001];
        assert_eq!(parse_times(text).expect("a list"), times);
        assert!(parse_times(" # nothing\n").expect("empty").is_empty());
    }

    #[test]
    fn the_error_of_an_invalid_time_names_its_line() {
        for text in ["1\nsoon", "1\n-5 ns", "1\n1.2.3 us", "1\n1 h", "1\nus", "1\n1e3", "1\n.5 us", "1\n_ ns"]
        {
            let found = parse_times(text);
            assert!(matches!(found, Err(TimesError::NoTime { line: 2, .. })), "{text}: {found:?}");
        }
        for text in ["0.5 ns", "1.0001 us", "99999999999999999999", "18446744073710 s"] {
            assert!(matches!(parse_times(text), Err(TimesError::Resolution { line: 1, .. })), "{text}");
        }
        let order = TimesError::Order { line: 3, earlier: 2000, later: 2000 };
        let message = order.to_string();
        assert_eq!(parse_times("1\n2 us\n2 us"), Err(order));
        assert!(message.contains("line 3") && message.contains("sort the list"), "{message}");
    }
}
