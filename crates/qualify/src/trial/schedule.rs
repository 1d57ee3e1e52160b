//! When the events of a trial are sent, and by how many of the sources.
//!
//! ```text
//!  Together:  │K│ │K│ │K│            │K│ │K│     spans: start, events, separation
//!  InTurn:    1  2  3  …  K  1  2  3  …  K       the same, each source at a time of its own
//! ```
//! It is data, so that a host elsewhere can be given it.

use serde::{Deserialize, Serialize};

/// Whether sources send together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// All of them at each event, one datagram behind the other as fast as they go.
    Together,
    /// One behind the other, evenly: nothing waits for anything but the rate of the output.
    InTurn,
}

/// Events at a constant separation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// When the first of them is due, s from the start of the trial.
    pub start_s: f64,
    /// How many.
    pub events: u64,
    /// From one to the next, s.
    pub separation_s: f64,
}

impl Span {
    fn end_s(&self) -> f64 {
        self.start_s + self.separation_s * self.events.saturating_sub(1) as f64
    }
}

/// A trial before it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Whether sources send together.
    pub pattern: Pattern,
    /// Spans of events, in the order of time.
    pub spans: Vec<Span>,
}

impl Schedule {
    /// So many events of all sources together, evenly.
    pub fn burst(events: u64, separation_s: f64) -> Schedule {
        Schedule { pattern: Pattern::Together, spans: vec![Span { start_s: 0.0, events, separation_s }] }
    }

    /// Events at a rate for so long, sources one behind the other.
    pub fn steady(rate_hz: f64, seconds: f64) -> Schedule {
        let events = (rate_hz * seconds).ceil().max(1.0) as u64;
        let spans = vec![Span { start_s: 0.0, events, separation_s: 1.0 / rate_hz }];
        Schedule { pattern: Pattern::InTurn, spans }
    }

    /// A burst behind another one; `pause_s` from the last event of the first to the first of the second.
    pub fn two_bursts(first: (u64, f64), pause_s: f64, second: (u64, f64)) -> Schedule {
        let span = |start_s, (events, separation_s)| Span { start_s, events, separation_s };
        let first = span(0.0, first);
        let second = span(first.end_s() + pause_s, second);
        Schedule { pattern: Pattern::Together, spans: vec![first, second] }
    }

    /// How many events there are; no sum of a schedule from elsewhere wraps.
    pub fn events(&self) -> u64 {
        self.spans.iter().fold(0, |sum, span| sum.saturating_add(span.events))
    }

    /// The separation of the first events, s.
    pub fn separation_s(&self) -> f64 {
        self.spans.first().map_or(0.0, |span| span.separation_s)
    }

    /// When the last event is due, s.
    pub fn end_s(&self) -> f64 {
        self.spans.iter().map(Span::end_s).fold(0.0, f64::max)
    }

    /// The time that the events stand for, s: at a steady rate, their number by the rate, whatever it was rounded to.
    pub fn lasts_s(&self) -> f64 {
        self.end_s() + self.spans.last().map_or(0.0, |span| span.separation_s)
    }

    /// The longest time without an event between two spans, s.
    pub fn longest_pause_s(&self) -> f64 {
        let pause = |pair: &[Span]| pair[1].start_s - pair[0].end_s();
        self.spans.windows(2).map(pause).fold(0.0, f64::max)
    }

    /// When each event is due, s.
    pub fn times_s(&self) -> impl Iterator<Item = f64> + '_ {
        let of_span = |span: &Span| {
            let Span { start_s, events, separation_s } = *span;
            (0..events).map(move |event| start_s + event as f64 * separation_s)
        };
        self.spans.iter().flat_map(of_span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_spans_ascend_and_a_pause_lies_between_the_last_event_and_the_next() {
        let schedule = Schedule::two_bursts((3, 1e-3), 5e-3, (2, 2e-3));
        let times_us: Vec<i64> = schedule.times_s().map(|time_s| (time_s * 1e6).round() as i64).collect();
        assert_eq!(times_us, [0, 1000, 2000, 7000, 9000]);
        assert_eq!((schedule.events(), (schedule.end_s() * 1e6).round() as i64), (5, 9000));
        assert!((schedule.longest_pause_s() - 5e-3).abs() < 1e-9);
        let steady = Schedule::steady(100.0, 0.5);
        assert_eq!((steady.events(), steady.separation_s()), (50, 0.01));
        // 9.5 events are sent as 10, and these take as long as 10.
        let rounded = Schedule::steady(1.9, 5.0);
        assert!((rounded.events() as f64 / rounded.lasts_s() - 1.9).abs() < 1e-9, "{rounded:?}");
    }
}
