//! One source's fragments, cut by the board's own time: references only, nothing is copied.
//!
//! ```text
//!  Fragments { ticks } ─► their slice ─► pieces of the blocks where they were received ─► one fragment per slice
//! ```
//! For boards that stream without a trigger. Neighbours in a block are one piece, so that a stream makes few.

use thalweg_data::{Fragments, LossReason, Mark, SourceId, Tally, Tick, Unit};

use super::timeline::{Place, Timeline};
use super::{Settings, SliceError};

/// Cuts the fragments of one source into time slices.
pub struct FragmentCutter {
    timeline: Timeline,
    source: SourceId,
    tick: Tick,
}

impl FragmentCutter {
    /// A cutter for one source whose boards count in ticks of this length.
    ///
    /// # Errors
    /// When time cannot be cut as the settings say.
    pub fn new(source: SourceId, settings: &Settings, tick: Tick) -> Result<FragmentCutter, SliceError> {
        Ok(FragmentCutter { timeline: Timeline::new(source, settings, Unit::Fragments)?, source, tick })
    }

    /// Takes fragments from number `first` of the batch on and appends the slices that have left to `out`. Returns how many
    /// were taken: fewer than all when `out` is full, which is then to be built and cleared.
    pub fn cut(&mut self, batch: &Fragments, first: usize, out: &mut Fragments) -> usize {
        (out.header.source, out.header.mark) = (batch.header.source, batch.header.mark);
        let mut taken = 0;
        for (fragment, slices) in batch.iter().skip(first) {
            let time_ps = self.tick.to_ps(i64::try_from(fragment.ticks).unwrap_or(i64::MAX));
            let bytes = slices.iter().map(|slice| u64::from(slice.length)).sum();
            let place = match fragment.source == self.source {
                true => self.timeline.place(time_ps, batch.header.mark, out),
                false => Place::Lost(LossReason::UnknownSource),
            };
            match place {
                Place::Open(index) if self.timeline.open(index).has_room(bytes, slices.len()) => {
                    let open = self.timeline.open(index);
                    slices.iter().for_each(|slice| {
                        open.leases().add_for(*slice, &batch.leases);
                        open.add(*slice, 0);
                    });
                    open.count_one();
                }
                Place::Open(_) => self.timeline.tally.lost(LossReason::TooLarge, Unit::Fragments, 1),
                Place::Lost(reason) => self.timeline.tally.lost(reason, Unit::Fragments, 1),
                Place::Full => break,
            }
            taken += 1;
        }
        self.timeline.tally.input(Unit::Fragments, taken as u64);
        self.timeline.count_held();
        taken
    }

    /// Tells that nothing before `time_ps` will come any more: slices before it leave, empty or not. Returns whether all of
    /// them could; if not, `out` is full.
    pub fn pass(&mut self, time_ps: i64, mark: Mark, out: &mut Fragments) -> bool {
        out.header.mark = mark;
        let all = self.timeline.pass(time_ps, out);
        self.timeline.count_held();
        all
    }

    /// Tells that nothing more will come: every slice leaves up to that of the latest fragment. Returns whether all of them
    /// could; if not, `out` is full.
    pub fn finish(&mut self, out: &mut Fragments) -> bool {
        let all = self.timeline.finish(out);
        self.timeline.count_held();
        all
    }

    /// The board's fragments: came in, left in slices, lost, held.
    pub fn tally(&self) -> &Tally {
        &self.timeline.tally
    }

    /// Slices that have left: one fragment each.
    pub fn slices(&self) -> u64 {
        self.timeline.slices_left()
    }
}
