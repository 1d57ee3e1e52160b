//! One hop: links of equal rate into one output with a buffer before it.
//!
//! ```text
//!  source ─ link ─┐
//!  source ─ link ─┼─► buffer: depth ─► output: rate
//!  source ─ link ─┘   a frame enters when its last bit is in
//! ```

use crate::switch::burst::{Edge, Queue};
use crate::switch::frame::Frame;

/// The most links of one hop.
const MOST_LINKS: u32 = 65_536;

/// Why a hop cannot be predicted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HopError {
    /// A value is out of range.
    #[error("{what} is {found}; {allowed}")]
    Value {
        /// The value's name.
        what: &'static str,
        /// The value given.
        found: f64,
        /// The values allowed.
        allowed: &'static str,
    },
    /// Triggers that cannot be.
    #[error("{0}")]
    Triggers(#[from] thalweg_frontend::trigger::SettingsError),
}

/// One hop, with values that have been checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hop {
    links: u32,
    link_bytes_per_s: f64,
    queue: Queue,
    frame: Frame,
}

impl Hop {
    /// A hop of `links` at `link_rate` into an output at `output_rate`, in bits per second, with a buffer in bytes.
    ///
    /// # Errors
    /// When a value is not a number above 0, or there are no links or too many.
    pub fn new(
        links: u32,
        link_rate_bits_per_s: f64,
        output_rate_bits_per_s: f64,
        depth_bytes: f64,
        frame: Frame,
    ) -> Result<Hop, HopError> {
        if !(1..=MOST_LINKS).contains(&links) {
            let found = f64::from(links);
            return Err(HopError::Value { what: "the number of links", found, allowed: "give 1 to 65536" });
        }
        for (what, found) in [
            ("the rate of a link", link_rate_bits_per_s),
            ("the rate of the output", output_rate_bits_per_s),
            ("the depth of the buffer", depth_bytes),
        ] {
            if !(found > 0.0 && found.is_finite()) {
                return Err(HopError::Value { what, found, allowed: "give a number above 0" });
            }
        }
        let queue = Queue { depth_bytes, rate_bytes_per_s: output_rate_bits_per_s / 8.0 };
        Ok(Hop { links, link_bytes_per_s: link_rate_bits_per_s / 8.0, queue, frame })
    }

    /// Number of links.
    pub fn links(&self) -> u32 {
        self.links
    }

    /// Returns the frame that each source sends at a trigger.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// Depth of the buffer in bytes.
    pub fn depth_bytes(&self) -> f64 {
        self.queue.depth_bytes
    }

    /// The edge of loss of the buffer, in wire bytes.
    pub fn edge(&self) -> Edge {
        let event_bytes = f64::from(self.links) * f64::from(self.frame.wire_bytes());
        Edge { queue: self.queue, event_bytes }
    }

    /// Returns the time that a frame takes on its link, in seconds: events cannot be closer.
    pub fn link_time_s(&self) -> f64 {
        f64::from(self.frame.wire_bytes()) / self.link_bytes_per_s
    }

    /// The rate of triggers, per second, that output and links carry for ever.
    pub fn static_limit_hz(&self) -> f64 {
        self.edge().static_limit_hz().min(1.0 / self.link_time_s())
    }

    /// The most events back to back on the links that lose nothing; `None` when any number does.
    pub fn events_back_to_back(&self) -> Option<u64> {
        self.edge().largest_burst(self.link_time_s())
    }
}
