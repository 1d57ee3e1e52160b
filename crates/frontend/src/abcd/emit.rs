//! Writes ABCD event files: the inverse of [`wire`](super::wire), for tests and prepared data.
//!
//! ```text
//!  Event ─► sixteen bytes
//! ```

/// The content of one record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Time in ticks.
    pub time: u64,
    /// Charge in the short gate.
    pub q_short: u16,
    /// Charge in the long gate.
    pub q_long: u16,
    /// Baseline.
    pub baseline: u16,
    /// Channel.
    pub channel: u8,
    /// Number of events of the same waveform.
    pub group_counter: u8,
}

/// Appends one record.
pub fn record(event: &Event, to: &mut Vec<u8>) {
    to.extend(event.time.to_le_bytes());
    for word in [event.q_short, event.q_long, event.baseline] {
        to.extend(word.to_le_bytes());
    }
    to.extend([event.channel, event.group_counter]);
}
