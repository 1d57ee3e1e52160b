//! How fast a recording is read again, where that is not as fast as possible.
//!
//! ```text
//!  mark, time since the first call ─► Pace ─► how long until what arrived then is due
//! ```

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use thalweg_data::Mark;

/// The pace of a replay that keeps to the arrival marks. Clones are one clock, which starts at the first call of [`Pace::until`] of any of them: so all
/// sources of a replay keep time together. A replay that was held up reads as fast as it can until it has caught up.
#[derive(Clone, Debug)]
pub struct Pace {
    speed: f64,
    start: Arc<OnceLock<Instant>>,
}

impl Pace {
    /// A pace that is so many times that of the recording: 1 is real time. `None` unless `speed` is a finite number above 0.
    pub fn new(speed: f64) -> Option<Pace> {
        (speed > 0.0 && speed.is_finite()).then(|| Pace { speed, start: Arc::default() })
    }

    /// How many times as fast as the data came.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// How long it is until what arrived at `mark` is due; zero when it is.
    pub fn until(&self, mark: Mark) -> Duration {
        until(mark, self.speed, self.start.get_or_init(Instant::now).elapsed())
    }
}

fn until(mark: Mark, speed: f64, elapsed: Duration) -> Duration {
    let left_s = mark.0 as f64 / 1e9 / speed - elapsed.as_secs_f64();
    // What is further away than a duration can say is never due.
    if left_s > 0.0 { Duration::try_from_secs_f64(left_s).unwrap_or(Duration::MAX) } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_due_when_its_time_has_passed_at_the_speed() {
        let second = Mark(1_000_000_000);
        let left = |speed, elapsed_ms| until(second, speed, Duration::from_millis(elapsed_ms));
        assert_eq!(left(1.0, 0), Duration::from_secs(1));
        assert_eq!(left(1.0, 750), Duration::from_millis(250));
        assert_eq!(left(1.0, 1000), Duration::ZERO);
        assert_eq!(left(1.0, 5000), Duration::ZERO, "it is late");
        assert_eq!(left(10.0, 0), Duration::from_millis(100));
        assert_eq!(left(0.25, 3000), Duration::from_secs(1));
        assert_eq!(until(Mark(u64::MAX), f64::MIN_POSITIVE, Duration::ZERO), Duration::MAX);
        assert_eq!(until(Mark(0), f64::MIN_POSITIVE, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_pace_is_a_finite_number_above_zero() {
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Pace::new(speed).is_none(), "{speed}");
        }
        assert_eq!(Pace::new(0.1).map(|pace| pace.speed()), Some(0.1));
    }
}
