//! A device under test that is known, because it is computed: for tests of search and fit, and to plan a measurement.
//!
//! ```text
//!  sources ─► one shared buffer              ─┐
//!          or one queue per source, or input  │
//!          or one buffer for all outputs     ─┴─► server: rate, stalls, catches up by so many bytes ─► lost or not
//! ```
//! All sources send a frame at each event. The server is a token bucket, as `tbf` is: while it is stalled it gathers
//! tokens up to its burst, and what it misses beyond that is lost to its rate. Its burst adds to the depth, therefore.
//! The same seed gives the same stalls.

use rand::{RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_pcg::Pcg64;

use super::burst::{even_times, frames_that_fit};
use super::fit::Trial;
use super::search::{Search, TrialOutcome};

/// The place where frames wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffers {
    /// All of them in one queue before the output.
    Shared {
        /// Its depth in bytes.
        depth_bytes: f64,
    },
    /// Those of each source in a queue of its own, and the output serves all in turn.
    PerSource {
        /// The depth of each in bytes.
        depth_bytes: f64,
    },
    /// A queue of its own for the frames of each input; several sources are stacked on each input.
    PerInput {
        /// The depth of each in bytes.
        depth_bytes: f64,
        /// Sources on each input; trials have a multiple of it.
        stacking: u32,
    },
    /// Those of several outputs in one buffer; each of the outputs gets an event of all its sources at once, and has a server of its own.
    OfOutputs {
        /// The depth of the buffer in bytes.
        depth_bytes: f64,
        /// Outputs that are congested at once.
        outputs: u32,
    },
}

/// Moments in which the server does nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// The number per second, at random.
    pub rate_hz: f64,
    /// Their mean length in seconds; lengths are exponential.
    pub mean_s: f64,
    /// Receivers see stalls that are this long, in seconds, and the trial is invalid.
    pub noticed_s: f64,
}

/// The properties of the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Its queues.
    pub buffers: Buffers,
    /// The rate of its output in bytes per second.
    pub rate_bytes_per_s: f64,
    /// The bytes that it catches up after a stall.
    pub burst_bytes: f64,
    /// Its stalls, if there are any.
    pub stalls: Option<Stalls>,
    /// Makes the stalls reproducible.
    pub seed: u64,
}

/// A simulated device. Every burst finds it idle and empty.
#[derive(Clone, Debug)]
pub struct Device {
    settings: Settings,
    random: Pcg64,
}

/// The observation of a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Frames that were lost.
    pub lost_frames: u64,
    /// The longest stall while frames waited, in seconds.
    pub longest_stall_s: f64,
}

/// Each of the equal queues that stand side by side: one, or one per source.
struct SwitchQueue {
    depth_bytes: f64,
    rate_bytes_per_s: f64,
    burst_bytes: f64,
    level_bytes: f64,
    token_bytes: f64,
}

impl SwitchQueue {
    fn advance(&mut self, elapsed_s: f64, is_stalled: bool) {
        self.token_bytes += self.rate_bytes_per_s * elapsed_s;
        if !is_stalled {
            self.serve();
        }
        self.token_bytes = self.token_bytes.min(self.burst_bytes);
    }

    fn serve(&mut self) {
        let served_bytes = self.level_bytes.min(self.token_bytes);
        self.level_bytes -= served_bytes;
        self.token_bytes -= served_bytes;
    }

    /// Takes as many of the frames as fit, and returns how many did not.
    fn offer(&mut self, frames: u64, frame_bytes: f64, is_stalled: bool) -> u64 {
        let passing_bytes = if is_stalled { 0.0 } else { self.token_bytes };
        let free_bytes = self.depth_bytes - self.level_bytes + passing_bytes;
        let admitted = frames_that_fit(free_bytes, frame_bytes).min(frames);
        self.level_bytes += admitted as f64 * frame_bytes;
        if !is_stalled {
            self.serve();
        }
        frames - admitted
    }
}

impl Device {
    /// A device with these settings.
    pub fn new(settings: Settings) -> Device {
        Device { settings, random: Pcg64::seed_from_u64(settings.seed) }
    }

    /// Returns the bytes that the whole device holds when `sources` send together to one output: its queues and its burst.
    pub fn effective_depth_bytes(&self, sources: u32) -> f64 {
        let queues_bytes = match self.settings.buffers {
            Buffers::Shared { depth_bytes } => depth_bytes,
            Buffers::PerSource { depth_bytes } => depth_bytes * f64::from(sources),
            Buffers::PerInput { depth_bytes, stacking } => {
                depth_bytes * f64::from(sources.div_ceil(stacking.max(1)))
            }
            Buffers::OfOutputs { depth_bytes, outputs } => depth_bytes / f64::from(outputs.max(1)),
        };
        queues_bytes + self.settings.burst_bytes
    }

    /// Sends a frame of `frame_bytes` from each of `sources` at each of `times_s`, which ascend.
    pub fn offer(&mut self, times_s: &[f64], sources: u32, frame_bytes: f64) -> Observation {
        let (mut queue, queues, frames) = self.queue(sources);
        let mut stalls = self.stalls(times_s);
        let (mut lost_frames, mut longest_stall_s) = (0, 0.0_f64);
        let mut now_s = times_s.first().copied().unwrap_or(0.0);
        let mut stall = stalls.next();
        for time_s in times_s {
            while let Some((from_s, until_s)) = stall.filter(|(_, until_s)| until_s <= time_s) {
                let begin_s = from_s.max(now_s);
                queue.advance((begin_s - now_s).max(0.0), false);
                if queue.level_bytes > 0.0 {
                    longest_stall_s = longest_stall_s.max(until_s - from_s);
                }
                queue.advance((until_s - begin_s).max(0.0), true);
                queue.serve();
                (now_s, stall) = (until_s.max(now_s), stalls.next());
            }
            let free_until_s = stall.map_or(*time_s, |(from_s, _)| from_s.clamp(now_s, *time_s));
            queue.advance(free_until_s - now_s, false);
            let is_stalled = stall.is_some_and(|(from_s, _)| from_s <= *time_s);
            queue.advance(time_s - free_until_s, is_stalled);
            lost_frames += queues * queue.offer(frames, frame_bytes, is_stalled);
            if let Some((from_s, until_s)) = stall.filter(|_| is_stalled) {
                longest_stall_s = longest_stall_s.max(until_s - from_s);
            }
            now_s = *time_s;
        }
        Observation { lost_frames, longest_stall_s }
    }

    /// One of the queues, how many there are, and the frames of one event in each.
    fn queue(&self, sources: u32) -> (SwitchQueue, u64, u64) {
        let Settings { rate_bytes_per_s, burst_bytes, .. } = self.settings;
        let (depth_bytes, queues, frames, of_server) = match self.settings.buffers {
            Buffers::Shared { depth_bytes } => (depth_bytes, 1, sources, 1.0),
            Buffers::PerSource { depth_bytes } => {
                (depth_bytes, sources.max(1), 1, 1.0 / f64::from(sources.max(1)))
            }
            Buffers::PerInput { depth_bytes, stacking } => {
                let inputs = sources.div_ceil(stacking.max(1)).max(1);
                (depth_bytes, inputs, sources / inputs, 1.0 / f64::from(inputs))
            }
            // Outputs that get the same at the same time hold the same: each its part of the buffer.
            Buffers::OfOutputs { depth_bytes, outputs } => {
                (depth_bytes / f64::from(outputs.max(1)), outputs.max(1), sources, 1.0)
            }
        };
        let (rate_bytes_per_s, burst_bytes) = (rate_bytes_per_s * of_server, burst_bytes * of_server);
        let queue = SwitchQueue {
            depth_bytes,
            rate_bytes_per_s,
            burst_bytes,
            level_bytes: 0.0,
            token_bytes: burst_bytes,
        };
        (queue, u64::from(queues), u64::from(frames))
    }

    fn sources_per_input(&self) -> u32 {
        match self.settings.buffers {
            Buffers::PerInput { stacking, .. } => stacking.max(1),
            Buffers::Shared { .. } | Buffers::PerSource { .. } | Buffers::OfOutputs { .. } => 1,
        }
    }

    /// The stalls of a burst in the order of time, from and until in seconds; they do not overlap.
    fn stalls(&mut self, times_s: &[f64]) -> std::vec::IntoIter<(f64, f64)> {
        let (mut stalls, mut at_s) = (Vec::new(), times_s.first().copied().unwrap_or(0.0));
        let end_s = times_s.last().copied().unwrap_or(0.0);
        while let Some(each) = self.settings.stalls {
            at_s += self.random.sample::<f64, _>(Exp1) / each.rate_hz;
            if at_s > end_s {
                break;
            }
            let until_s = at_s + self.random.sample::<f64, _>(Exp1) * each.mean_s;
            stalls.push((at_s, until_s));
            at_s = until_s;
        }
        stalls.into_iter()
    }

    /// Makes the trials that a search asks for, to its end, and returns all of them.
    pub fn explore(&mut self, search: &mut Search, sources: u32, frame_bytes: f64) -> Vec<Trial> {
        let mut trials = Vec::new();
        while let Some(request) = search.next() {
            let times_s = even_times(request.events, request.separation_s);
            let seen = self.offer(&times_s, sources, frame_bytes);
            let noticed_s = self.settings.stalls.map_or(f64::INFINITY, |stalls| stalls.noticed_s);
            let (valid, lossy) = (seen.longest_stall_s < noticed_s, seen.lost_frames > 0);
            search.report(match (valid, lossy) {
                (false, _) => {
                    TrialOutcome::Invalid(format!("the device stood still for {} s", seen.longest_stall_s))
                }
                (true, true) => TrialOutcome::Lossy,
                (true, false) => TrialOutcome::Lossless,
            });
            let separation_s = request.separation_s;
            let sources_per_input = self.sources_per_input();
            trials.push(Trial {
                separation_s,
                times_s,
                sources,
                sources_per_input,
                frame_bytes,
                lossy,
                valid,
            });
        }
        trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::burst::{Edge, Queue, lost_frames};

    const FRAME_BYTES: f64 = 1066.0;

    fn device(buffers: Buffers, burst_bytes: f64, stalls: Option<Stalls>) -> Device {
        Device::new(Settings { buffers, rate_bytes_per_s: 12.5e6, burst_bytes, stalls, seed: 5 })
    }

    #[test]
    fn without_stalls_and_burst_it_is_the_tail_drop_queue() {
        let mut device = device(Buffers::Shared { depth_bytes: 300e3 }, 0.0, None);
        let queue = Queue { depth_bytes: 300e3, rate_bytes_per_s: 12.5e6 };
        for (events, separation_s) in [(10, 1e-4), (60, 1e-4), (100, 5e-4), (400, 1.2e-3), (3000, 1.4e-3)] {
            let times_s = even_times(events, separation_s);
            let lost = device.offer(&times_s, 16, FRAME_BYTES).lost_frames;
            let expected = lost_frames(queue, &times_s, 16, FRAME_BYTES);
            assert!(lost.abs_diff(expected) <= 1, "{events} at {separation_s} s: {lost}, {expected}");
        }
    }

    #[test]
    fn the_burst_adds_to_the_depth() {
        for buffers in
            [Buffers::Shared { depth_bytes: 300e3 }, Buffers::PerSource { depth_bytes: 300e3 / 16.0 }]
        {
            let mut device = device(buffers, 40e3, None);
            let depth_bytes = device.effective_depth_bytes(16);
            assert_eq!(depth_bytes, 340e3);
            let queue = Queue { depth_bytes, rate_bytes_per_s: 12.5e6 };
            let edge = Edge { queue, event_bytes: 16.0 * FRAME_BYTES };
            let largest = edge.largest_burst(1e-3).expect("below saturation");
            let mut lost = |events| device.offer(&even_times(events, 1e-3), 16, FRAME_BYTES).lost_frames;
            assert_eq!(lost(largest), 0);
            assert!(lost(largest + 1) > 0);
        }
    }

    #[test]
    fn a_stalled_server_gathers_no_more_than_its_burst() {
        let mut queue = device(Buffers::Shared { depth_bytes: 300e3 }, 40e3, None).queue(16).0;
        queue.advance(1.0, false);
        assert_eq!(queue.token_bytes, 40e3);
        assert_eq!(queue.offer(200, 1000.0, true), 0);
        queue.advance(10e-3, true);
        assert_eq!(
            (queue.level_bytes, queue.token_bytes),
            (200e3, 40e3),
            "125 kB went by, and 40 kB are kept"
        );
        queue.advance(2e-3, false);
        assert_eq!((queue.level_bytes, queue.token_bytes), (200e3 - 40e3 - 25e3, 0.0));
    }

    #[test]
    fn stalls_cost_what_cannot_be_caught_up_and_are_the_same_for_a_seed() {
        let stalls = Some(Stalls { rate_hz: 20.0, mean_s: 3e-3, noticed_s: 1.0 });
        let times_s = even_times(1000, 1.38e-3);
        let lost = |burst_bytes| {
            let buffers = Buffers::Shared { depth_bytes: 60e3 };
            device(buffers, burst_bytes, stalls).offer(&times_s, 16, FRAME_BYTES)
        };
        assert!(lost(0.0).lost_frames > 0 && lost(0.0).longest_stall_s > 3e-3);
        assert_eq!(lost(0.0), lost(0.0));
        assert!(lost(1e6).lost_frames < lost(0.0).lost_frames);
    }
}
