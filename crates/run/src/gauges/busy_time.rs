//! How long the trigger was held back.

use thalweg_data::Mark;

/// How long the trigger was held back, and since when it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BusyTime {
    raised_since: Option<Mark>,
    /// Of the times that are over.
    total_ns: u64,
}

impl BusyTime {
    pub(crate) fn set(&mut self, raised: bool, mark: Mark) {
        match (self.raised_since, raised) {
            (None, true) => self.raised_since = Some(mark),
            (Some(since), false) => {
                self.total_ns += mark.since_ns(since);
                self.raised_since = None;
            }
            _ => {}
        }
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised_since.is_some()
    }

    /// It is not held back any more; since when it was does not count.
    pub(crate) fn forget(&mut self) {
        self.raised_since = None;
    }

    /// Fraction of the run up to `now`, 0 to 1.
    pub(crate) fn fraction(&self, now: Mark) -> f64 {
        let raised_ns = self.raised_since.map_or(0, |since| now.since_ns(since));
        ((self.total_ns + raised_ns) as f64 / now.0.max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_it_is_raised_goes_on() {
        let mut time = BusyTime::default();
        assert_eq!((time.is_raised(), time.fraction(Mark(0))), (false, 0.0));
        time.set(true, Mark(100));
        assert_eq!(
            (time.fraction(Mark(100)), time.fraction(Mark(200)), time.fraction(Mark(400))),
            (0.0, 0.5, 0.75)
        );
        time.set(true, Mark(150));
        time.set(false, Mark(200));
        assert_eq!(
            (time.is_raised(), time.fraction(Mark(200)), time.fraction(Mark(400))),
            (false, 0.5, 0.25)
        );
        time.set(true, Mark(400));
        time.forget();
        assert_eq!((time.is_raised(), time.fraction(Mark(1000))), (false, 0.1));
    }
}
