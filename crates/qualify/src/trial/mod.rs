//! One burst through a device: sent as asked, received to its end, and judged.
//!
//! ```text
//!  Schedule ─► Emission: events at their times, K datagrams each ─► device ─► Reception: counted by trial
//!                  │ times as they were                                         │ received, longest gap
//!                  └───────────────────────► gate ◄─────────────────────────────┘
//!                              lossless | lossy | invalid, and why
//! ```
//! **A trial counts only if it was emitted as asked**: a generator that is too slow loses nothing anywhere, which says nothing about the
//! device. And a loss counts only if nothing on this side of the device can have made it.

mod census;
mod emission;
mod payload;
mod reception;
mod schedule;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use census::{Census, MOST_EVENTS, MOST_SOURCES, SourceCensus};
pub use emission::{Emission, Emitter, LEAST_PAYLOAD_BYTES, PayloadSizes, quantile, soon, wait_until};
pub use reception::{Receiver, Reception};
pub use schedule::{Pattern, Schedule, Span};

use crate::switch::burst::Queue;
use crate::switch::fit::Trial;
use crate::switch::gate::{check_emission, check_probe};
use crate::switch::search::TrialOutcome;

/// A rate may be sent in a time that differs by this part, and by the longest gap.
const MOST_TIME_DEVIATION: f64 = 0.001;
/// A lossy trial in which nothing came for so long may have lost by a stall, s.
const LONGEST_GAP_S: f64 = 0.01;

/// A number for a run of sources that no other has, here or on another host: by the clock and the process.
pub fn new_run() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(32)
}

/// What is known of the path before anything is measured.
#[derive(Clone, Copy, Debug)]
pub struct KnownPath {
    /// Rate of the output as it is stated, bytes per second.
    pub rate_bytes_per_s: f64,
    /// What a frame takes in the device's accounting, bytes.
    pub frame_bytes: f64,
    /// Sources behind one input of the device.
    pub sources_per_input: u32,
    /// The highest queue that has lost nothing so far, bytes; 0 before any.
    pub lossless_bytes: f64,
    /// How long what is on its way may keep silent, and still come.
    pub silence: Duration,
}

/// A trial, and why it is what it is.
#[derive(Clone, Debug)]
pub struct Judged {
    /// For the fit.
    pub trial: Trial,
    /// For the search.
    pub outcome: TrialOutcome,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Those that came.
    pub received: u64,
    /// Of them, those of the second span of the schedule.
    pub of_second: u64,
    /// From the first that came to the last, s.
    pub span_s: f64,
    /// Those that the device says it has thrown away, where it can be asked.
    pub dropped: Option<u64>,
    /// Those that the receiving socket has thrown away.
    pub socket_drops: u64,
    /// Half of the events were later than this, s.
    pub lateness_median_s: f64,
    /// Half of the events took longer than this from the first source to the last, s.
    pub skew_median_s: f64,
}

impl Judged {
    /// Datagrams that did not come.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// `lossless`, `lossy` or `invalid`; of an invalid one, why.
    pub fn outcome_text(&self) -> (&'static str, String) {
        match &self.outcome {
            TrialOutcome::Lossless => ("lossless", String::new()),
            TrialOutcome::Lossy => ("lossy", String::new()),
            TrialOutcome::Invalid(why) => ("invalid", why.clone()),
        }
    }
}

/// What may be wrong with a trial, beside that something was lost.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// What the device says it has thrown away meanwhile, where it can be asked.
    pub dropped: Option<u64>,
    /// What the receiving socket has thrown away meanwhile.
    pub socket_drops: u64,
}

/// Judges a trial.
pub fn judge(
    schedule: &Schedule,
    path: KnownPath,
    sources: u32,
    emission: &Emission,
    reception: &Reception,
    beside: Beside,
) -> Judged {
    let outcome = match fault(schedule, path, sources, emission, reception, beside) {
        Some(why) => TrialOutcome::Invalid(why),
        None if reception.received < emission.sent => TrialOutcome::Lossy,
        None => TrialOutcome::Lossless,
    };
    let trial = Trial {
        separation_s: schedule.separation_s(),
        times_s: emission.times_s.clone(),
        sources,
        sources_per_input: path.sources_per_input,
        frame_bytes: path.frame_bytes,
        lossy: reception.received < emission.sent,
        valid: !matches!(outcome, TrialOutcome::Invalid(_)),
    };
    Judged {
        trial,
        outcome,
        sent: emission.sent,
        received: reception.received,
        of_second: reception.of_second,
        span_s: reception.span_s,
        dropped: beside.dropped,
        socket_drops: beside.socket_drops,
        lateness_median_s: emission.lateness_median_s(),
        skew_median_s: emission.skew_median_s(),
    }
}

fn fault(
    schedule: &Schedule,
    path: KnownPath,
    sources: u32,
    emission: &Emission,
    reception: &Reception,
    beside: Beside,
) -> Option<String> {
    if emission.failed > 0 {
        return Some(format!("{} datagrams could not be sent", emission.failed));
    }
    let lost = emission.sent.saturating_sub(reception.received);
    let emitted = match schedule.pattern {
        Pattern::Together => check_burst(schedule, path, sources, emission),
        Pattern::InTurn => check_steady(emission, lost),
    };
    if let Err(why) = emitted {
        return Some(why);
    }
    if reception.doubled > 0 {
        return Some(format!("{} datagrams came twice: another generator, or a loop", reception.doubled));
    }
    if beside.socket_drops > 0 {
        return Some(format!("{} datagrams were lost in the receiving socket", beside.socket_drops));
    }
    match beside.dropped {
        Some(dropped) if dropped != lost => Some(format!(
            "{lost} datagrams are missing and the device says {dropped}: the ledger does not balance"
        )),
        _ if lost > 0 && reception.longest_gap_s > LONGEST_GAP_S + expected_gap_s(schedule, path) => {
            Some(format!(
                "nothing came for {:.1} ms: the device or the receiver stood still",
                1e3 * reception.longest_gap_s
            ))
        }
        _ => None,
    }
}

/// The longest time without a datagram where nothing stands still, s: that of a pause, of a slow output for a frame, and of a source in turn.
fn expected_gap_s(schedule: &Schedule, path: KnownPath) -> f64 {
    let of_source_s = match schedule.pattern {
        Pattern::Together => 0.0,
        Pattern::InTurn => schedule.separation_s(),
    };
    schedule.longest_pause_s() + (path.frame_bytes / path.rate_bytes_per_s).max(of_source_s)
}

/// A burst fills the queue as it should: by its real times, up to the peak that was asked for.
fn check_burst(
    schedule: &Schedule,
    path: KnownPath,
    sources: u32,
    emission: &Emission,
) -> Result<(), String> {
    let event_bytes = f64::from(sources) * path.frame_bytes;
    let queue = Queue { depth_bytes: path.lossless_bytes, rate_bytes_per_s: path.rate_bytes_per_s };
    // As fast as they go is what it is.
    if schedule.separation_s() == 0.0 && emission.times_s.len() as u64 == schedule.events() {
        return Ok(());
    }
    let asked_s: Vec<f64> = schedule.times_s().collect();
    let checked = check_emission(queue, event_bytes, &asked_s, &emission.times_s);
    let checked = checked.and_then(|()| match schedule.spans.as_slice() {
        [first, _, ..] => {
            let probe = usize::try_from(first.events).unwrap_or(usize::MAX);
            check_probe(probe, queue, event_bytes, &asked_s, &emission.times_s)
        }
        _ => Ok(()),
    });
    checked.map_err(|error| {
        let late_us = 1e6 * emission.lateness_median_s();
        format!("{error} (lateness p50 {late_us:.1} µs)")
    })
}

/// A rate is sent in the time that it takes. What a sender that stood still sends in one go can overflow a device that carries the rate.
fn check_steady(emission: &Emission, lost: u64) -> Result<(), String> {
    let (asked_s, took_s, latest_s) = (emission.due_s, emission.took_s, emission.latest_s);
    if (took_s - asked_s).abs() > MOST_TIME_DEVIATION * asked_s + LONGEST_GAP_S {
        return Err(format!(
            "it was sent in {took_s:.3} s instead of {asked_s:.3} s; free the sender's core, or ask for less"
        ));
    }
    match lost > 0 && latest_s > LONGEST_GAP_S {
        true => {
            Err(format!("the sender stood still for {:.1} ms, and sent what was due at once", 1e3 * latest_s))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::burst::even_times;

    const WAY: KnownPath = KnownPath {
        rate_bytes_per_s: 1e8,
        frame_bytes: 9014.0,
        sources_per_input: 1,
        lossless_bytes: 0.0,
        silence: Duration::from_millis(1),
    };
    const EVENTS: u64 = 20;
    const NOTHING: Beside = Beside { dropped: Some(0), socket_drops: 0 };

    fn emission(separation_s: f64) -> Emission {
        Emission {
            times_s: even_times(EVENTS, separation_s),
            lateness_s: vec![0.0; 20],
            skew_s: vec![3e-5; 20],
            sent: 320,
            ..Emission::default()
        }
    }

    fn reception(received: u64) -> Reception {
        Reception { received, longest_gap_s: 1e-3, ..Reception::default() }
    }

    fn outcome(emission: &Emission, reception: &Reception, beside: Beside) -> TrialOutcome {
        judge(&Schedule::burst(EVENTS, 1e-3), WAY, 16, emission, reception, beside).outcome
    }

    #[test]
    fn a_trial_is_lossless_or_lossy_only_where_nothing_else_can_have_made_it_so() {
        assert_eq!(outcome(&emission(1e-3), &reception(320), NOTHING), TrialOutcome::Lossless);
        let dropped = |count| Beside { dropped: Some(count), ..NOTHING };
        assert_eq!(outcome(&emission(1e-3), &reception(310), dropped(10)), TrialOutcome::Lossy);
        let unknown = Beside { dropped: None, ..NOTHING };
        assert_eq!(outcome(&emission(1e-3), &reception(310), unknown), TrialOutcome::Lossy);
        let invalid = |outcome: TrialOutcome, word: &str| match outcome {
            TrialOutcome::Invalid(why) => assert!(why.contains(word), "{why}"),
            other => panic!("{other:?}, and not: {word}"),
        };
        invalid(outcome(&emission(1e-3), &reception(310), dropped(8)), "the ledger does not balance");
        let socket = Beside { socket_drops: 10, ..NOTHING };
        invalid(outcome(&emission(1e-3), &reception(310), socket), "receiving socket");
        let stalled = Reception { longest_gap_s: 0.05, ..reception(310) };
        invalid(outcome(&emission(1e-3), &stalled, dropped(10)), "nothing came for 50.0 ms");
        // A stall that loses nothing makes nothing lossless that is not.
        let stalled = Reception { longest_gap_s: 0.05, ..reception(320) };
        assert_eq!(outcome(&emission(1e-3), &stalled, NOTHING), TrialOutcome::Lossless);
        invalid(
            outcome(&Emission { failed: 2, ..emission(1e-3) }, &reception(318), NOTHING),
            "could not be sent",
        );
    }

    #[test]
    fn a_generator_that_is_as_slow_as_the_output_is_not_a_lossless_device() {
        match outcome(&emission(1.5e-3), &reception(320), NOTHING) {
            TrialOutcome::Invalid(why) => {
                assert!(why.contains("not sent at the separation that was asked for"), "{why}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_probe_behind_an_overflow_counts_only_where_its_pause_was_the_one_that_was_asked_for() {
        // 8.04 MB, 16 sources: the largest burst that is lossless, and one that overflows.
        let path = KnownPath { lossless_bytes: 8.04e6, ..WAY };
        let (event_bytes, rate) = (16.0 * path.frame_bytes, path.rate_bytes_per_s);
        let separation_s = 0.1 * event_bytes / rate;
        let (lossless, overflow) = (61, 80);
        for fraction in [0.25, 0.5, 0.75, 0.95] {
            let events = (fraction * f64::from(lossless)).round() as u64;
            let draining_s = (0.1 + 0.9 * events as f64) * event_bytes / rate;
            let schedule = Schedule::two_bursts((overflow, separation_s), draining_s, (events, separation_s));
            let outcome = |late_s: f64, from: usize| {
                let mut times_s: Vec<f64> = schedule.times_s().collect();
                times_s[from..].iter_mut().for_each(|time_s| *time_s += late_s);
                let sent = 16 * times_s.len() as u64;
                let emission = Emission { times_s, sent, ..Emission::default() };
                let beside = Beside { dropped: Some(100), ..NOTHING };
                judge(&schedule, path, 16, &emission, &reception(sent - 100), beside).outcome
            };
            let probe = overflow as usize;
            assert_eq!(outcome(1e-4, probe), TrialOutcome::Lossy, "{fraction}: 100 µs late");
            for (late_s, from) in [(0.02, probe), (0.05, probe), (0.1, probe), (0.02, probe + 1)] {
                let invalid = outcome(late_s, from);
                assert!(
                    matches!(&invalid, TrialOutcome::Invalid(why) if why.contains("behind the pause")),
                    "{fraction}, {late_s} s late from {from} on: {invalid:?}"
                );
            }
        }
    }

    #[test]
    fn a_rate_counts_where_it_was_sent_in_its_time_and_by_no_stall_of_the_sender() {
        let schedule = Schedule::steady(1e4, 1.0);
        let emission = |took_s: f64, latest_s: f64| Emission {
            took_s,
            due_s: 1.0,
            latest_s,
            sent: 10_000,
            ..Emission::default()
        };
        let outcome = |emission: &Emission, received: u64| {
            let beside = Beside { dropped: Some(10_000 - received), ..NOTHING };
            judge(&schedule, WAY, 1, emission, &reception(received), beside).outcome
        };
        assert_eq!(
            outcome(&emission(1.0, 0.05), 10_000),
            TrialOutcome::Lossless,
            "late, and it lost nothing"
        );
        assert_eq!(outcome(&emission(1.0, 1e-3), 9_990), TrialOutcome::Lossy);
        assert!(
            matches!(outcome(&emission(1.0, 0.05), 9_990), TrialOutcome::Invalid(why) if why.contains("stood still for 50.0 ms"))
        );
        assert!(
            matches!(outcome(&emission(1.05, 0.0), 10_000), TrialOutcome::Invalid(why) if why.contains("in 1.050 s instead of 1.000 s"))
        );
    }

    #[test]
    fn of_few_events_the_last_is_sent_in_its_time_and_what_is_lost_of_them_is_lost_by_the_device() {
        let (to, any) =
            (std::net::UdpSocket::bind("127.0.0.1:0").expect("a port"), ([127, 0, 0, 1], 0).into());
        let to = to.local_addr().expect("bound");
        let mut emitter = Emitter::open(1, &[any; 8], to, PayloadSizes::constant(100)).expect("opened");
        // Eight sources in turn, 25 ms apart: the last is due 175 ms behind the first.
        let schedule = Schedule::steady(5.0, 0.2);
        let emission = emitter.emit(1, 8, &schedule, soon());
        assert!((emission.due_s - 0.175).abs() < 1e-9 && emission.took_s >= 0.175, "{emission:?}");
        // As a quiet host sends it.
        let emission =
            Emission { took_s: emission.due_s + 1e-4, latest_s: 1e-4, sent: 8, failed: 0, ..emission };
        let outcome = |received, longest_gap_s| {
            let reception = Reception { received, longest_gap_s, ..Reception::default() };
            let beside = Beside { dropped: Some(8 - received), ..NOTHING };
            judge(&schedule, WAY, 8, &emission, &reception, beside).outcome
        };
        assert_eq!(outcome(8, 0.026), TrialOutcome::Lossless);
        assert_eq!(outcome(7, 0.051), TrialOutcome::Lossy);
        assert!(
            matches!(outcome(7, 0.3), TrialOutcome::Invalid(why) if why.contains("nothing came for 300.0 ms"))
        );
    }
}
