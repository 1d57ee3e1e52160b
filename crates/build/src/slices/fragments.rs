//! The fragments of boards, cut by their own time: references only, nothing is copied.
//!
//! ```text
//!  Fragments { ticks } ─► their slice ─► slices of the blocks where they were received ─► one fragment per board and slice
//! ```
//! For boards that stream without a trigger. Neighbours in a block are one slice, so that a stream makes few.

use std::ops::Range;

use thalweg_data::{Fragments, LossReason, Mark, SourceId, Tick, Unit};

use super::timeline::{Place, Timeline};
use super::{Settings, SliceError};

/// Cuts the fragments of the boards of one link into time slices.
pub struct FragmentCutter {
    timelines: Vec<Timeline>,
    first: SourceId,
    tick: Tick,
}

impl FragmentCutter {
    /// A cutter for boards that count in ticks of this length.
    ///
    /// # Errors
    /// When time cannot be cut as the settings say.
    pub fn new(boards: Range<u16>, settings: &Settings, tick: Tick) -> Result<FragmentCutter, SliceError> {
        let first = SourceId(boards.start);
        let timeline = |board| Timeline::new(SourceId(board), settings, Unit::Fragments);
        Ok(FragmentCutter { timelines: boards.map(timeline).collect::<Result<_, _>>()?, first, tick })
    }

    /// Takes fragments from number `first` of the batch on and appends the slices that have left to `out`. Returns how many
    /// were taken: fewer than all when `out` is full, which is then to be built and cleared.
    pub fn cut(&mut self, batch: &Fragments, first: usize, out: &mut Fragments) -> usize {
        (out.header.source, out.header.mark) = (batch.header.source, batch.header.mark);
        let mut taken = 0;
        for (fragment, slices) in batch.iter().skip(first) {
            let index = usize::from(fragment.source.offset_from(self.first));
            let Some(timeline) = self.timelines.get_mut(index) else {
                // Of a board that is not behind this link: in the ledger of its first.
                self.timelines[0].lose(LossReason::UnknownSource, 1);
                taken += 1;
                continue;
            };
            let bytes = slices.iter().map(|slice| u64::from(slice.length)).sum();
            let place = match self.tick.time_ps(i128::from(fragment.ticks), 0) {
                Some(time_ps) => timeline.place(time_ps, batch.header.mark, out),
                None => Place::Lost(LossReason::TimeRange),
            };
            match place {
                Place::Open(index) if timeline.open(index).has_capacity(bytes, slices.len()) => {
                    let open = timeline.open(index);
                    slices.iter().for_each(|slice| {
                        open.leases().add_for(*slice, &batch.leases);
                        open.add(*slice, 0);
                    });
                    open.count_one();
                }
                Place::Open(_) => timeline.counters.lost(LossReason::TooLarge, Unit::Fragments, 1),
                Place::Lost(reason) => timeline.counters.lost(reason, Unit::Fragments, 1),
                Place::Full => break,
            }
            timeline.counters.input(Unit::Fragments, 1);
            taken += 1;
        }
        self.timelines.iter_mut().for_each(Timeline::count_held);
        taken
    }

    /// Reports the time, as [`Timeline::advance`].
    pub fn advance(&mut self, mark: Mark, out: &mut Fragments) -> bool {
        self.timelines.iter_mut().all(|timeline| timeline.advance(mark, out))
    }

    /// Reports that nothing more will come, as [`Timeline::finish`].
    pub fn finish(&mut self, mark: Mark, out: &mut Fragments) -> bool {
        self.timelines.iter_mut().all(|timeline| timeline.finish(mark, out))
    }

    /// Returns the open slices of each board, and what became of its fragments.
    pub fn timelines(&self) -> &[Timeline] {
        &self.timelines
    }
}
