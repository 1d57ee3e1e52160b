//! When files are shipped: times of day, UTC.
//!
//! ```text
//!  "22:00-06:00", seconds since 1970 ─► now, or not
//! ```

/// A time of day from one minute to another, over midnight where the second is the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from: u64,
    to: u64,
}

const SECONDS_OF_DAY: u64 = 86_400;

impl Window {
    /// Reads a window.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Window, String> {
        let time = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some((hour * 60 + minute) * 60)
        };
        let read = || {
            let (from, to) = text.split_once('-')?;
            Some(Window { from: time(from)?, to: time(to)? })
        };
        read().ok_or_else(|| format!("`{text}` is no time window; write, in UTC, such as \"22:00-06:00\""))
    }

    /// Whether a time, seconds since 1970, is in it.
    pub fn has(&self, seconds: u64) -> bool {
        let now = seconds % SECONDS_OF_DAY;
        match self.from < self.to {
            true => (self.from..self.to).contains(&now),
            false => now >= self.from || now < self.to,
        }
    }
}

/// Whether a time is in one of these; always without any.
pub fn is_open(windows: &[Window], seconds: u64) -> bool {
    windows.is_empty() || windows.iter().any(|window| window.has(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_go_over_midnight() {
        let night = Window::parse("22:00-06:30").expect("a window");
        let at = |hour: u64, minute: u64| 20_000 * SECONDS_OF_DAY + (hour * 60 + minute) * 60;
        assert!(
            night.has(at(22, 0)) && night.has(at(6, 29)) && !night.has(at(6, 30)) && !night.has(at(12, 0))
        );
        let day = Window::parse("8:00-9:00").expect("a window");
        assert!(day.has(at(8, 0)) && !day.has(at(9, 0)) && is_open(&[night, day], at(8, 30)));
        assert!(is_open(&[], 5) && Window::parse("24:00-1:00").is_err());
    }
}
