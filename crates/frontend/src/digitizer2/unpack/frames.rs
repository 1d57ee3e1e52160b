//! Follows the board's count of its aggregates, which is the only sign of loss inside the data.

use thalweg_data::{Counters, LossReason, Unit};

use crate::digitizer2::wire::{
    COUNTER_MASK, EventHeader, Format, SpecialHeader, SpecialId, counter_distance,
};

/// Follows the aggregate counter, modulo 2^24, and counts the frames on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameCounter {
    expected: Option<u32>,
    /// Frames that came since and were refused, by reason: the count jumps by these, too.
    refused: [(LossReason, u64); 2],
    /// The first count of a run, if known.
    begins: Option<u32>,
    /// Number of starts of a run in the data.
    starts: u32,
}

impl Default for FrameCounter {
    fn default() -> FrameCounter {
        let refused = [LossReason::TooLarge, LossReason::BadFraming].map(|reason| (reason, 0));
        FrameCounter { expected: None, refused, begins: None, starts: 0 }
    }
}

impl FrameCounter {
    /// Creates the counter of a board that we arm. It starts at 0, so that a loss of the first aggregates is found.
    /// Aggregates before the marker of the arming are left over from another run.
    pub fn from_zero() -> FrameCounter {
        FrameCounter { begins: Some(0), ..FrameCounter::default() }
    }

    /// Forgets the count: the board has cleared its memory. Before the start, the count is 0; in a run, it is not
    /// known.
    pub fn restart(&mut self) {
        self.expected = self.begins.filter(|_| self.starts == 0);
    }

    /// Forgets the count: aggregates before the next one were missed.
    pub fn forget(&mut self) {
        self.expected = None;
    }

    /// Frames came and were refused, which is counted where it happens: for this reason they are missing here.
    pub fn refuse(&mut self, reason: LossReason, frames: u64) {
        self.refused.iter_mut().filter(|(each, _)| *each == reason).for_each(|(_, count)| *count += frames);
    }

    /// Number of starts of a run in the data; the decoder reads the same number.
    pub fn starts(&self) -> u32 {
        self.starts
    }

    fn start(&mut self, header: SpecialHeader) {
        self.starts += u32::from(header.is_consistent());
        self.expected = self.begins;
    }

    /// Counts a frame. A counter that goes back means that the board has restarted, not that 2^24 frames are lost.
    pub fn see(&mut self, header: EventHeader, wire: &mut Counters) {
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
            Format::Special if SpecialHeader(header.0).id() == SpecialId::Start => {
                self.start(SpecialHeader(header.0));
            }
            Format::Special | Format::Scope | Format::Unknown(_) => {}
        }
        wire.input(Unit::Frames, 1 + missing);
        wire.output(Unit::Frames, 1);
        if missing > 0 {
            self.lose(missing, wire);
        }
        if header.format() == Format::Aggregate {
            self.refused.iter_mut().for_each(|(_, count)| *count = 0);
        }
    }

    /// Counts frames that are missing: those that were refused, and the gap.
    #[cold]
    fn lose(&self, missing: u64, wire: &mut Counters) {
        let mut gap = missing;
        for (reason, count) in self.refused {
            let refused = gap.min(count);
            wire.lost(reason, Unit::Frames, refused);
            gap -= refused;
        }
        wire.lost(LossReason::FrameGap, Unit::Frames, gap);
    }
}
