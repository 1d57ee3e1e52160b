//! The board's own count of its aggregates: the only sign of loss inside the data.

use thalweg_data::{LossReason, Tally, Unit};

use crate::digitizer2::wire::{
    COUNTER_MASK, EventHeader, Format, SpecialHeader, SpecialId, counter_distance,
};

/// Follows the aggregate counter, modulo 2^24, and keeps the wire's account of frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameCounter {
    expected: Option<u32>,
}

impl FrameCounter {
    /// Forgets the count: the board begins anew.
    pub fn restart(&mut self) {
        self.expected = None;
    }

    /// One more frame was seen. A counter that goes back is a board that began anew, not a loss of 2^24 frames.
    pub fn see(&mut self, header: EventHeader, wire: &mut Tally) {
        let mut missing = 0;
        match header.format() {
            Format::Aggregate => {
                let distance =
                    self.expected.map_or(0, |expected| counter_distance(expected, header.counter()));
                if distance <= COUNTER_MASK / 2 {
                    missing = u64::from(distance);
                }
                self.expected = Some(header.counter().wrapping_add(1) & COUNTER_MASK);
            }
            Format::Special if SpecialHeader(header.0).id() == SpecialId::Start => self.restart(),
            Format::Special | Format::Scope | Format::Unknown(_) => {}
        }
        wire.input(Unit::Frames, 1 + missing);
        wire.output(Unit::Frames, 1);
        if missing > 0 {
            wire.lost(LossReason::FrameGap, Unit::Frames, missing);
        }
    }
}
