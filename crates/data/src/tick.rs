//! Converts board time to picoseconds, exactly.

use std::fmt;

/// The length of one count of a board's clock as an exact rational number of picoseconds.
///
/// `time_ps = floor(ticks * numerator / denominator)`: no floating point, so a time is the same on
/// every machine and in every replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    numerator: u64,
    denominator: u64,
}

/// Why a tick cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum TickError {
    /// Not a positive, finite number of picoseconds.
    #[error("a tick of {0} ps is not a positive number")]
    NotPositive(f64),
    /// It has no exact rational form that fits.
    #[error("a tick of {0} ps has no exact form with 32-bit terms; give a value such as 8000 or 1.953125")]
    NotExact(f64),
}

impl Tick {
    /// A tick of `numerator / denominator` picoseconds, in lowest terms. `None` if either is 0.
    pub const fn new(numerator: u64, denominator: u64) -> Option<Tick> {
        if numerator == 0 || denominator == 0 {
            return None;
        }
        let divisor = greatest_common_divisor(numerator, denominator);
        Some(Tick { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// A tick of a whole number of picoseconds. `None` if it is 0.
    pub const fn from_ps(ps: u64) -> Option<Tick> {
        Tick::new(ps, 1)
    }

    /// The exact rational number of a decimal such as `1.953125`.
    ///
    /// # Errors
    /// If the value is not positive, or needs a denominator above 2^32.
    pub fn from_ps_f64(ps: f64) -> Result<Tick, TickError> {
        if !ps.is_finite() || ps <= 0.0 {
            return Err(TickError::NotPositive(ps));
        }
        let mut denominator = 1u64;
        let mut scaled = ps;
        while scaled.fract() != 0.0 {
            denominator *= 2;
            scaled *= 2.0;
            if denominator > u64::from(u32::MAX) {
                // Not a dyadic fraction: decimals such as 0.1 are taken as written, to 9 digits.
                let decimal = (ps * 1e9).round();
                if decimal >= 1.0 && decimal < u64::MAX as f64 && (decimal / 1e9 - ps).abs() < 1e-12 * ps {
                    return Tick::new(decimal as u64, 1_000_000_000).ok_or(TickError::NotExact(ps));
                }
                return Err(TickError::NotExact(ps));
            }
        }
        if scaled >= u32::MAX as f64 * 1024.0 {
            return Err(TickError::NotExact(ps));
        }
        Tick::new(scaled as u64, denominator).ok_or(TickError::NotExact(ps))
    }

    /// The period of a clock of `mhz` megahertz.
    pub fn from_mhz(mhz: u64) -> Option<Tick> {
        Tick::new(1_000_000, mhz)
    }

    /// `1/n` of this tick, for a fine time. `None` if `n` is 0 or the denominator overflows.
    pub fn divided(self, n: u64) -> Option<Tick> {
        Tick::new(self.numerator, self.denominator.checked_mul(n)?)
    }

    /// Numerator and denominator, in lowest terms.
    pub const fn parts(self) -> (u64, u64) {
        (self.numerator, self.denominator)
    }

    /// The tick in picoseconds, if it is a whole number of them.
    pub const fn whole_ps(self) -> Option<u64> {
        if self.denominator == 1 { Some(self.numerator) } else { None }
    }

    /// `floor(ticks * tick)` in picoseconds, for lengths of time; saturates at the limits of `i64` (106 days). For times of hits and
    /// fragments, use [`Tick::time_ps`].
    #[inline]
    pub fn to_ps(self, ticks: i64) -> i64 {
        let product = i128::from(ticks) * i128::from(self.numerator);
        let ps = product.div_euclid(i128::from(self.denominator));
        ps.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// `floor(ticks * tick) + offset_ps`, exactly; `None` if it does not fit into 64 bits, which is a loss `time_range`.
    #[inline]
    pub fn time_ps(self, ticks: i128, offset_ps: i64) -> Option<i64> {
        let ps = ticks.checked_mul(i128::from(self.numerator))?.div_euclid(i128::from(self.denominator));
        i64::try_from(ps.checked_add(i128::from(offset_ps))?).ok()
    }

    /// The number of the last tick at or before `ps` picoseconds.
    #[inline]
    pub fn from_time(self, ps: i64) -> i64 {
        let product = i128::from(ps) * i128::from(self.denominator);
        product.div_euclid(i128::from(self.numerator)).clamp(i128::from(i64::MIN), i128::from(i64::MAX))
            as i64
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ps", self.numerator as f64 / self.denominator as f64)
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_become_exact_rationals() {
        assert_eq!(Tick::from_ps_f64(1.953125).map(Tick::parts), Ok((125, 64)));
        assert_eq!(Tick::from_ps_f64(8000.0).map(Tick::parts), Ok((8000, 1)));
        assert_eq!(Tick::from_ps_f64(0.1).map(Tick::parts), Ok((1, 10)));
        assert!(Tick::from_ps_f64(0.0).is_err());
        assert!(Tick::from_ps_f64(f64::NAN).is_err());
        assert!(Tick::from_ps_f64(-3.0).is_err());
    }

    #[test]
    fn to_ps_floors_below_zero_too() {
        let third = Tick::new(1, 3).expect("not zero");
        assert_eq!(third.to_ps(5), 1);
        assert_eq!(third.to_ps(-1), -1);
    }

    #[test]
    fn time_ps_is_exact_or_none() {
        let tick = Tick::from_ps(8000).expect("not zero");
        let last = i128::from(i64::MAX / 8000);
        assert_eq!(tick.time_ps(last, 0), Some(i64::MAX / 8000 * 8000));
        assert_eq!(tick.time_ps(last + 1, 0), None);
        assert_eq!(tick.time_ps(last + 1, -8000), Some(i64::MAX / 8000 * 8000));
        assert_eq!((tick.time_ps(i128::MAX, 0), tick.time_ps(i128::MIN, 0)), (None, None));
        assert_eq!(Tick::new(1, 3).expect("not zero").time_ps(-1, 5), Some(4));
    }

    #[test]
    fn from_time_inverts_to_ps_for_coarse_ticks() {
        let tick = Tick::from_ps(8000).expect("not zero");
        for ticks in [-5, 0, 1, 123_456_789_012] {
            assert_eq!(tick.from_time(tick.to_ps(ticks)), ticks);
        }
    }
}
