//! The queue before an output while synchronous events come in: how high it gets, and what is lost.
//!
//! ```text
//!  bytes │         ╱│    ╱│ peak       q <- max(0, q - rate × gap) + bytes of one event
//!        │    ╱│  ╱ │  ╱  │
//!        │   ╱ │╱  event  │╲           lossless while the peak is at most the depth
//!        └──╱────────────────╲──► time
//! ```
//! Each event comes at once, as `sources × frame` bytes (store and forward). At a constant separation below
//! saturation the recursion has a closed form, the hyperbola of [`Edge`]; with the times of real emission only the
//! recursion is right.

/// A tail-drop queue before an output. Bytes are those of one accounting (see [`super::frame`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// The depth of the buffer, in bytes.
    pub depth_bytes: f64,
    /// The rate at which it drains, in bytes per second.
    pub rate_bytes_per_s: f64,
}

/// The highest level of a queue without limit, in bytes: one event of `event_bytes` at each of `times_s`, which ascend.
pub fn peak_bytes(times_s: &[f64], event_bytes: f64, rate_bytes_per_s: f64) -> f64 {
    peak_bytes_from(0, Queue { depth_bytes: f64::INFINITY, rate_bytes_per_s }, times_s, event_bytes)
}

/// The highest level that the events from `first` on ask of a queue, in bytes. It has what was before them, up to its depth: what does not
/// fit is lost, and fills nothing.
pub fn peak_bytes_from(first: usize, queue: Queue, times_s: &[f64], event_bytes: f64) -> f64 {
    let (mut level_bytes, mut peak_bytes, mut before_s) = (0.0_f64, 0.0_f64, f64::NEG_INFINITY);
    for (event, time_s) in times_s.iter().enumerate() {
        let asked_bytes = (level_bytes - queue.rate_bytes_per_s * (time_s - before_s)).max(0.0) + event_bytes;
        peak_bytes = if event >= first { peak_bytes.max(asked_bytes) } else { peak_bytes };
        level_bytes = asked_bytes.min(queue.depth_bytes);
        before_s = *time_s;
    }
    peak_bytes
}

/// Times in seconds of `events` at a constant separation, from 0 on.
pub fn even_times(events: u64, separation_s: f64) -> Vec<f64> {
    (0..events).map(|event| event as f64 * separation_s).collect()
}

/// Frames that a tail-drop queue loses, event by event. The queue takes whole frames only.
///
/// `times_s` ascend; at each of them `sources` frames of `frame_bytes` come.
pub fn lost_frames(queue: Queue, times_s: &[f64], sources: u32, frame_bytes: f64) -> u64 {
    let (mut level_bytes, mut lost, mut before_s) = (0.0_f64, 0, f64::NEG_INFINITY);
    for time_s in times_s {
        level_bytes = (level_bytes - queue.rate_bytes_per_s * (time_s - before_s)).max(0.0);
        let admitted = frames_that_fit(queue.depth_bytes - level_bytes, frame_bytes).min(u64::from(sources));
        level_bytes += admitted as f64 * frame_bytes;
        lost += u64::from(sources) - admitted;
        before_s = *time_s;
    }
    lost
}

/// Whole frames that fit into free bytes. A billionth of a frame is rounding, not a frame that is too long.
pub(crate) fn frames_that_fit(free_bytes: f64, frame_bytes: f64) -> u64 {
    (free_bytes / frame_bytes + 1e-9).floor().max(0.0) as u64
}

/// The edge of loss in the plane of separation and number of events: the "watershed" of one queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The queue.
    pub queue: Queue,
    /// Bytes of one event: sources × bytes of a frame.
    pub event_bytes: f64,
}

impl Edge {
    /// The separation in seconds at which the output is just busy all the time: its vertical asymptote.
    pub fn saturation_separation_s(&self) -> f64 {
        self.event_bytes / self.queue.rate_bytes_per_s
    }

    /// The rate of events, per second, that the output carries for ever.
    pub fn static_limit_hz(&self) -> f64 {
        self.queue.rate_bytes_per_s / self.event_bytes
    }

    /// The most events at a constant separation in seconds that lose nothing; `None` when any number does.
    pub fn largest_burst(&self, separation_s: f64) -> Option<u64> {
        let drained_bytes = self.queue.rate_bytes_per_s * separation_s;
        if self.event_bytes > self.queue.depth_bytes {
            return Some(0);
        }
        if drained_bytes >= self.event_bytes {
            return None;
        }
        let events = (self.queue.depth_bytes - drained_bytes) / (self.event_bytes - drained_bytes);
        Some((events + 1e-9).floor() as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME_BYTES: f64 = 1066.0;

    fn edge(depth_bytes: f64, rate_bytes_per_s: f64, sources: u32) -> Edge {
        let queue = Queue { depth_bytes, rate_bytes_per_s };
        Edge { queue, event_bytes: f64::from(sources) * FRAME_BYTES }
    }

    #[test]
    fn pauses_empty_the_queue_and_never_make_it_negative() {
        let times_s = [0.0, 0.001, 5.0, 5.001];
        assert_eq!(peak_bytes(&times_s, 1000.0, 500_000.0), 1500.0);
        assert_eq!(peak_bytes(&[], 1000.0, 500_000.0), 0.0);
    }

    #[test]
    fn an_event_larger_than_the_queue_is_lost_in_part_and_by_whole_frames() {
        let queue = Queue { depth_bytes: 2500.0, rate_bytes_per_s: 1e6 };
        assert_eq!(lost_frames(queue, &[0.0], 4, 1000.0), 2);
        assert_eq!(lost_frames(queue, &[0.0, 0.001, 0.002], 4, 1000.0), 2 + 3 + 3);
        assert_eq!(edge(1000.0, 1e6, 1).largest_burst(1.0), Some(0));
    }

    #[test]
    fn loss_is_what_stands_above_the_depth() {
        let queue = Queue { depth_bytes: 1e6, rate_bytes_per_s: 12.5e6 };
        let times_s = even_times(300, 0.5 * 16.0 * FRAME_BYTES / 12.5e6);
        let above_bytes = peak_bytes(&times_s, 16.0 * FRAME_BYTES, 12.5e6) - 1e6;
        let lost = lost_frames(queue, &times_s, 16, FRAME_BYTES) as f64;
        assert!((lost - above_bytes / FRAME_BYTES).abs() <= 2.0, "{lost} {}", above_bytes / FRAME_BYTES);
    }

    proptest! {
        #[test]
        fn the_closed_form_is_the_recursion(
            depth_bytes in 1e5..1e7_f64, rate in 1e6..1e9_f64, sources in 1..64_u32, fraction in 0.0..0.97_f64,
        ) {
            let edge = edge(depth_bytes, rate, sources);
            let separation_s = fraction * edge.saturation_separation_s();
            let events = edge.largest_burst(separation_s).expect("below saturation");
            let peak = |events| peak_bytes(&even_times(events, separation_s), edge.event_bytes, rate);
            prop_assert!(peak(events) <= depth_bytes * (1.0 + 1e-9));
            prop_assert!(peak(events + 1) > depth_bytes * (1.0 - 1e-9));
            if sources as f64 * FRAME_BYTES * 2.0 < depth_bytes {
                let lost = |events| lost_frames(edge.queue, &even_times(events, separation_s), sources, FRAME_BYTES);
                prop_assert_eq!(lost(events), 0);
                prop_assert!(lost(events + 2) > 0);
            }
        }

        #[test]
        fn a_peak_rises_with_events_and_falls_with_rate(
            gaps_s in prop::collection::vec(0.0..0.01_f64, 1..60), rate in 1e5..1e8_f64,
        ) {
            let times_s: Vec<f64> = gaps_s.iter().scan(0.0, |at, gap| { *at += gap; Some(*at) }).collect();
            let all = peak_bytes(&times_s, 16_000.0, rate);
            prop_assert!(peak_bytes(&times_s[..times_s.len() - 1], 16_000.0, rate) <= all);
            prop_assert!(peak_bytes(&times_s, 16_000.0, rate * 1.5) <= all);
        }

        #[test]
        fn deeper_queues_hold_longer_bursts_and_lose_less(
            depth_bytes in 1e4..1e6_f64, more in 1.0..3.0_f64, fraction in 0.0..0.99_f64, events in 1..200_u64,
        ) {
            let (shallow, deep) = (edge(depth_bytes, 1e7, 8), edge(depth_bytes * more, 1e7, 8));
            let separation_s = fraction * shallow.saturation_separation_s();
            prop_assert!(shallow.largest_burst(separation_s) <= deep.largest_burst(separation_s));
            let lost = |queue| lost_frames(queue, &even_times(events, separation_s), 8, FRAME_BYTES);
            prop_assert!(lost(shallow.queue) >= lost(deep.queue));
        }
    }
}
