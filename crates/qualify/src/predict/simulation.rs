//! A hop event by event: what is lost under triggers in time.
//!
//! ```text
//!  trigger ─► each source's link: one frame behind the other ─► buffer: whole frames, tail drop ─► output
//! ```
//! All links are equal, and all sources are triggered together, so that one link is computed for all. Sources keep what their
//! link does not take at once, without limit. The same seed gives the same triggers, and so the same losses.

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_frontend::trigger::SettingsError;

use super::{Hop, Triggers};
use crate::switch::burst::frames_that_fit;

/// The result of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Simulated {
    /// Triggers that were simulated.
    pub triggers: u64,
    /// Their time, from the first to the last, in seconds.
    pub seconds: f64,
    /// The seed of their times.
    pub seed: u64,
    /// Frames that were sent.
    pub frames: u64,
    /// Frames that found the buffer full.
    pub lost_frames: u64,
    /// Triggers of which at least one frame was lost.
    pub damaged_triggers: u64,
    /// Lost frames divided by those that were sent.
    pub loss_probability: f64,
    /// The highest level of the buffer, in bytes.
    pub peak_bytes: f64,
    /// The longest time that a frame waited for its link, in seconds.
    pub link_delay_s: f64,
}

impl Simulated {
    /// The upper limit of the probability of loss at a confidence of 95 %, where nothing was lost.
    ///
    /// It assumes that losses of different triggers are independent. They come in groups, so that the true limit is higher.
    pub fn loss_limit_95(&self) -> Option<f64> {
        (self.lost_frames == 0 && self.triggers > 0).then(|| 3.0 / self.triggers as f64)
    }
}

/// Simulates `count` triggers.
///
/// # Errors
/// When there can be no such triggers.
pub(super) fn simulate(hop: &Hop, triggers: &Triggers, count: u64) -> Result<Simulated, SettingsError> {
    let queue = hop.edge().queue;
    let (frame_bytes, links) = (f64::from(hop.frame().wire_bytes()), u64::from(hop.links()));
    let mut seen = Simulated { seed: triggers.seed, ..Simulated::default() };
    let (mut level_bytes, mut link_free_s, mut before_s) = (0.0_f64, 0.0_f64, 0.0_f64);
    let (mut first_s, mut last_s) = (None, 0.0);
    for trigger in triggers.program()?.take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let trigger_s = trigger.time_ns as f64 * 1e-9;
        (first_s, last_s) = (first_s.or(Some(trigger_s)), trigger_s);
        seen.link_delay_s = seen.link_delay_s.max(link_free_s - trigger_s);
        link_free_s = link_free_s.max(trigger_s) + hop.link_time_s();
        level_bytes = (level_bytes - queue.rate_bytes_per_s * (link_free_s - before_s)).max(0.0);
        before_s = link_free_s;
        let admitted = frames_that_fit(queue.depth_bytes - level_bytes, frame_bytes).min(links);
        level_bytes = (level_bytes + admitted as f64 * frame_bytes).min(queue.depth_bytes);
        seen.triggers += 1;
        seen.frames += links;
        seen.lost_frames += links - admitted;
        seen.damaged_triggers += u64::from(admitted < links);
        seen.peak_bytes = seen.peak_bytes.max(level_bytes);
    }
    seen.seconds = last_s - first_s.unwrap_or(0.0);
    seen.loss_probability = seen.lost_frames as f64 / seen.frames.max(1) as f64;
    Ok(seen)
}
