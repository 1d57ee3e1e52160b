//! Accepts a burst only if its real send times build the intended queue.
//!
//! ```text
//!  asked for: events, separation ─► peak ─┐
//!                                         ├─ differ by more than 2 % of the depth ─► invalid
//!  real times of emission ────────► peak ─┘
//!  overflow ── pause ──► probe: of the events behind the pause alone, in a queue that the overflow has left full
//! ```
//! Lateness alone says little: an event that comes 90 us late changes nothing where events are a millisecond apart. A sender
//! that is starved to the rate of the output loses nothing at all, and looks like a deep buffer.

use super::burst::{Queue, peak_bytes_from};

/// The difference of the peaks that is allowed, as a fraction of the depth.
const TOLERANCE: f64 = 0.02;

/// A burst that was emitted otherwise than asked.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EmissionError {
    /// The queue behind a pause was another one.
    #[error(
        "the burst behind the pause filled the queue up to {emitted_bytes:.0} bytes instead of {asked_bytes:.0}: it was not sent when it was asked for; free the sender's core"
    )]
    OtherProbe {
        /// The peak of the real times, in bytes.
        emitted_bytes: f64,
        /// The peak of the times that were asked for, in bytes.
        asked_bytes: f64,
    },
    /// Not every event was sent.
    #[error("{sent} of {asked} events were sent; the trial says nothing")]
    Incomplete {
        /// Events that were sent.
        sent: u64,
        /// Events that were asked for.
        asked: u64,
    },
    /// The queue was another one.
    #[error(
        "the burst filled the queue up to {emitted_bytes:.0} bytes instead of {asked_bytes:.0}: it was not sent at the separation that was asked for; free the sender's core, or ask for a larger separation"
    )]
    OtherPeak {
        /// The peak of the real times, in bytes.
        emitted_bytes: f64,
        /// The peak of the times that were asked for, in bytes.
        asked_bytes: f64,
    },
}

/// Checks a burst by the times in seconds at which its events were due and those at which they were sent, `event_bytes` each.
///
/// `queue` is what is known of the device: its rate from the static test, and as its depth the highest peak that lost
/// nothing so far; before anything is known, a device is taken to hold what is asked of it.
///
/// # Errors
/// When the burst was not emitted as asked: the trial is invalid, whatever was lost.
pub fn check_emission(
    queue: Queue,
    event_bytes: f64,
    asked_s: &[f64],
    times_s: &[f64],
) -> Result<(), EmissionError> {
    let (sent, asked) = (times_s.len() as u64, asked_s.len() as u64);
    if sent != asked {
        return Err(EmissionError::Incomplete { sent, asked });
    }
    let unlimited = Queue { depth_bytes: f64::INFINITY, ..queue };
    compare(0, unlimited, event_bytes, [asked_s, times_s], queue.depth_bytes)
        .map_err(|[emitted_bytes, asked_bytes]| EmissionError::OtherPeak { emitted_bytes, asked_bytes })
}

/// Checks the events from `first` on, which follow an overflow behind a pause. The peak of the whole is that of the overflow, and says nothing
/// of them: a probe that is sent late finds more space than one that is sent in time.
///
/// # Errors
/// When they were not emitted as asked.
pub fn check_probe(
    first: usize,
    queue: Queue,
    event_bytes: f64,
    asked_s: &[f64],
    times_s: &[f64],
) -> Result<(), EmissionError> {
    let is_known = queue.depth_bytes > 0.0;
    let held = Queue { depth_bytes: if is_known { queue.depth_bytes } else { f64::INFINITY }, ..queue };
    compare(first, held, event_bytes, [asked_s, times_s], queue.depth_bytes)
        .map_err(|[emitted_bytes, asked_bytes]| EmissionError::OtherProbe { emitted_bytes, asked_bytes })
}

/// Compares the peaks of the real times and of those that were asked for; returns them where they differ.
fn compare(
    first: usize,
    queue: Queue,
    event_bytes: f64,
    [asked_s, times_s]: [&[f64]; 2],
    depth_bytes: f64,
) -> Result<(), [f64; 2]> {
    let asked_bytes = peak_bytes_from(first, queue, asked_s, event_bytes);
    let is_known = times_s.iter().all(|time_s| time_s.is_finite());
    let emitted_bytes = if is_known { peak_bytes_from(first, queue, times_s, event_bytes) } else { f64::NAN };
    match (emitted_bytes - asked_bytes).abs() <= TOLERANCE * depth_bytes.max(asked_bytes) {
        true => Ok(()),
        // Comparisons with NaN are false: times that are no numbers come here, too.
        false => Err([emitted_bytes, asked_bytes]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::burst::even_times;
    use super::*;

    const QUEUE: Queue = Queue { depth_bytes: 1e6, rate_bytes_per_s: 37.5e6 };
    const EVENT_BYTES: f64 = 16.0 * 1066.0;

    fn check(events: u64, separation_s: f64, times_s: &[f64]) -> Result<(), EmissionError> {
        check_emission(QUEUE, EVENT_BYTES, &even_times(events, separation_s), times_s)
    }

    #[test]
    fn lateness_of_some_events_is_harmless() {
        let late = |(event, time_s): (usize, f64)| time_s + if event % 7 == 0 { 90e-6 } else { 0.0 };
        let times_s: Vec<f64> = even_times(110, 0.2e-3).into_iter().enumerate().map(late).collect();
        assert_eq!(check(110, 0.2e-3, &times_s), Ok(()));
    }

    #[test]
    fn a_sender_that_is_starved_to_the_drain_rate_is_invalid_and_not_lossless() {
        // 1 kB at 300 Mb/s: what is emitted at the rate of the output never fills the queue.
        let starved_s = EVENT_BYTES / QUEUE.rate_bytes_per_s;
        let error = check(110, 0.2e-3, &even_times(110, starved_s)).expect_err("not as asked");
        let EmissionError::OtherPeak { emitted_bytes, asked_bytes } = error else { panic!("{error}") };
        assert!((emitted_bytes - EVENT_BYTES).abs() < 1.0 && asked_bytes > QUEUE.depth_bytes, "{error}");
    }

    #[test]
    fn a_pause_within_the_burst_and_missing_events_are_invalid() {
        let mut times_s = even_times(110, 0.2e-3);
        times_s[60..].iter_mut().for_each(|time_s| *time_s += 5e-3);
        assert!(matches!(check(110, 0.2e-3, &times_s), Err(EmissionError::OtherPeak { .. })));
        let incomplete = check(110, 0.2e-3, &times_s[..109]);
        assert_eq!(incomplete, Err(EmissionError::Incomplete { sent: 109, asked: 110 }));
        let mut unknown_s = even_times(3, 0.2e-3);
        unknown_s[1] = f64::NAN;
        assert!(check(3, 0.2e-3, &unknown_s).is_err());
    }
}
