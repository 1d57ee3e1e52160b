//! The hot loop on the way in: a fragment to its column, or to where it is counted.
//!
//! ```text
//!  number ─ extend ─► in the room? ─► entry has another number? ─► write, count
//!                        └ no: deferred, late, out of the window       └ no: a duplicate
//! ```
//! A stream gives trigger after trigger: these are written into the column as one run, and counted once.

use thalweg_data::prefetch::{prefetch, prefetch_slice};
use thalweg_data::{Fragment, Fragments, Leases, LossReason, Mark, Slice, SourceId};

use super::columns::{EMPTY, Entry};
use super::counters::index_of;
use super::deferred::Deferred;
use super::dumps::Unused;
use super::rows::CLOSED;
use super::window::distance;
use super::{Builder, Phase};

/// Most cache lines of a column that are asked for ahead: those of 32 fragments.
const MOST_LINES: usize = 16;

/// A fragment on its way in, of a source that the builder has.
#[derive(Clone, Copy)]
struct Incoming<'a> {
    fragment: &'a Fragment,
    slices: &'a [Slice],
    leases: &'a Leases,
    source: usize,
    bytes: u64,
    mark: Mark,
}

impl Builder {
    /// Takes fragments from the start of the batch on, and returns how many: fewer than all when one comes too early and there
    /// is no more capacity to defer it. Then pull, and offer the rest with [`Builder::insert_from`]; do not read its source, or
    /// [`Builder::refuse`] it, when that helps nothing.
    #[must_use = "what was not taken has to be offered again, or refused"]
    pub fn insert(&mut self, batch: &Fragments) -> usize {
        self.insert_from(batch, 0)
    }

    /// As [`Builder::insert`], from fragment `first` of the batch on.
    #[must_use = "what was not taken has to be offered again, or refused"]
    pub fn insert_from(&mut self, batch: &Fragments, first: usize) -> usize {
        self.now = self.now.max(batch.header.mark);
        let offered = batch.fragments.get(first..).unwrap_or(&[]);
        let passed: usize = batch.fragments[..first.min(batch.fragments.len())]
            .iter()
            .map(|fragment| usize::from(fragment.slices))
            .sum();
        if let Some(fragment) = offered.first() {
            self.prefetch_behind(fragment, offered.len());
        }
        let mut rest = &batch.slices[passed..];
        let mut taken = 0;
        while let Some(fragment) = offered.get(taken) {
            let run = self.take_run(&offered[taken..], rest, batch);
            if run > 0 {
                (taken, rest) = (taken + run, &rest[run..]);
                continue;
            }
            let (slices, others) = rest.split_at(usize::from(fragment.slices));
            if !self.take(fragment, slices, batch) {
                break;
            }
            (taken, rest) = (taken + 1, others);
        }
        self.update_busy();
        taken
    }

    /// Sources are read one after another, and answer the same triggers: asks the memory for what the next one needs.
    #[inline]
    fn prefetch_behind(&self, fragment: &Fragment, count: usize) {
        let next = index_of(fragment.source, self.first_source).wrapping_add(1);
        let Some(counts) = self.sources.get(next) else { return };
        prefetch(counts);
        prefetch_slice(self.columns.entries(next, fragment.trigger, count), MOST_LINES);
    }

    /// Takes what one source sent trigger after trigger, each in one slice, as far as all of it belongs into the column, and returns
    /// how many fragments that are; 0 or 1 are left to [`Builder::take`].
    #[inline(always)]
    fn take_run(&mut self, offered: &[Fragment], slices: &[Slice], batch: &Fragments) -> usize {
        let [first, second, ..] = offered else { return 0 };
        let source = index_of(first.source, self.first_source);
        let Some(counts) = self.sources.get(source) else { return 0 };
        if second.source != first.source || first.trigger > counts.largest || counts.ended {
            return 0;
        }
        let ahead = distance(first.trigger, self.rows.base, u32::from(counts.shift)) as u64;
        let trigger = self.rows.base.wrapping_add(ahead);
        let numbers = (counts.largest - first.trigger).saturating_add(1);
        let most = self.capacity.saturating_sub(ahead).min(numbers).min(offered.len() as u64) as usize;
        // In order, an event that has left lies below the base.
        let most = self.rows.takeable(trigger, most, self.settings.ordered);
        let stored = self.columns.store_run(source, trigger, &offered[..most], slices);
        if stored > 0 {
            self.count_run(source, trigger, &slices[..stored], batch);
        }
        stored
    }

    /// Notes a run of fragments that were just written into a column.
    fn count_run(&mut self, source: usize, trigger: u64, slices: &[Slice], batch: &Fragments) {
        let (count, leases) = (slices.len(), &batch.leases);
        for in_block in slices.chunk_by(|one, next| one.block == next.block) {
            self.blocks.add(in_block[0], in_block.len() as u32, leases);
        }
        let behind = trigger + count as u64;
        self.rows.answer_run(trigger, count, batch.header.mark);
        if !self.settings.ordered {
            let complete = |trigger: &u64| self.rows.get(*trigger).answers as usize == self.sources.len();
            self.ready.extend((trigger..behind).filter(complete));
        }
        let bytes = slices.iter().map(|slice| u64::from(slice.length)).sum();
        self.hold(source, count as u32, bytes, behind - 1);
        self.count_incoming(source, count as u32, bytes);
    }

    /// Counts fragments from `first` on, which were not taken and cannot wait, as lost.
    pub fn refuse(&mut self, batch: &Fragments, first: usize) {
        for (fragment, slices) in batch.iter().skip(first) {
            let bytes = slices.iter().map(|slice| u64::from(slice.length)).sum();
            let source = index_of(fragment.source, self.first_source);
            match source < self.sources.len() {
                true => self.lose_incoming(LossReason::OverBudget, source, bytes),
                false => self.counters.unknown_source(bytes),
            }
        }
        self.update_busy();
    }

    #[inline(always)]
    fn take(&mut self, fragment: &Fragment, slices: &[Slice], batch: &Fragments) -> bool {
        let source = index_of(fragment.source, self.first_source);
        let (leases, mark) = (&batch.leases, batch.header.mark);
        if let [slice] = slices
            && let Some(counts) = self.sources.get(source)
            && fragment.trigger <= counts.largest
            && !counts.ended
        {
            let ahead = distance(fragment.trigger, self.rows.base, u32::from(counts.shift)) as u64;
            let entry = Entry {
                trigger: self.rows.base.wrapping_add(ahead),
                ticks: fragment.ticks,
                slice: slice.tagged(0),
            };
            let bytes = u64::from(slice.length);
            if ahead < self.capacity && self.store(source, entry, (bytes, 0), mark) {
                self.blocks.add(*slice, 1, leases);
                self.count_incoming(source, 1, bytes);
                return true;
            }
        }
        self.take_slowly(Incoming { fragment, slices, leases, source, bytes: 0, mark })
    }

    /// Puts a fragment into its column unless one is there, or its event has left.
    #[inline(always)]
    pub(super) fn store(
        &mut self,
        source: usize,
        entry: Entry,
        (bytes, chained): (u64, u32),
        mark: Mark,
    ) -> bool {
        let trigger = entry.trigger;
        let place = self.columns.entry_mut(source, trigger);
        if place.trigger == trigger || self.rows.get(trigger).answers == CLOSED {
            return false;
        }
        *place = entry;
        let answers = self.rows.answer(trigger, chained, mark);
        if answers as usize == self.sources.len() && !self.settings.ordered {
            self.ready.push_back(trigger);
        }
        self.hold(source, 1, bytes, trigger);
        true
    }

    /// Notes fragments that wait in a source's column, the last of them of trigger `last`.
    #[inline(always)]
    fn hold(&mut self, source: usize, count: u32, bytes: u64, last: u64) {
        let counts = &mut self.sources[source];
        counts.held += count;
        counts.held_bytes += bytes;
        counts.strayed = false;
        self.held_bytes += bytes;
        if self.lead.note(source, last) {
            self.update_room();
        }
    }

    #[inline(always)]
    fn count_incoming(&mut self, source: usize, count: u32, bytes: u64) {
        let counts = &mut self.sources[source];
        counts.new += u64::from(count);
        counts.new_bytes += bytes;
    }

    /// Everything but a fragment of one slice within the room. Returns whether it was taken, or counted as lost.
    #[cold]
    #[inline(never)]
    fn take_slowly(&mut self, mut incoming: Incoming) -> bool {
        let Incoming { fragment, slices, source, .. } = incoming;
        let bytes = slices.iter().map(|slice| u64::from(slice.length)).sum();
        incoming.bytes = bytes;
        if source >= self.sources.len() {
            self.counters.unknown_source(bytes);
            self.keep_dump(LossReason::UnknownSource, incoming);
            return true;
        }
        if matches!(self.phase, Phase::Idle | Phase::Ending) {
            return self.lose(LossReason::WrongRun, incoming);
        }
        if self.sources[source].ended {
            self.sources[source].ended = false;
            self.ended -= 1;
            self.update_room();
        }
        if slices.len() > self.chains.capacity() + 1 {
            return self.lose(LossReason::TooLarge, incoming);
        }
        if fragment.trigger > self.sources[source].largest {
            return self.lose(LossReason::OutOfWindow, incoming);
        }
        if slices.len() > self.chains.free() + 1 {
            // Room comes only from what is oldest.
            self.short_of_links = true;
            return false;
        }
        self.place(incoming)
    }

    /// Into the column, the deferred fragments, or the counters.
    fn place(&mut self, incoming: Incoming) -> bool {
        let Incoming { fragment, slices, source, bytes, mark, .. } = incoming;
        let ahead = self.ahead(source, fragment.trigger);
        let begun = self.phase == Phase::Running;
        if begun {
            // A source that is alone may have gone on since.
            self.capacity = self.window_capacity();
        }
        if begun && ahead < 0 {
            self.note_stray(source, fragment.trigger, mark);
            return self.lose(self.reason_for_the_past(source, ahead), incoming);
        }
        if begun && (ahead as u64) < self.capacity {
            let trigger = self.rows.base.wrapping_add_signed(ahead);
            if self.columns.has(source, trigger) {
                self.note_stray(source, fragment.trigger, mark);
                return self.lose(self.reason_for_a_copy(source), incoming);
            }
            if self.rows.get(trigger).answers == CLOSED {
                return self.lose(LossReason::LateFragment, incoming);
            }
            let slice = self.keep_slices(incoming);
            let entry = Entry { trigger, ticks: fragment.ticks, slice };
            let chained = (slices.len() as u32).wrapping_sub(1);
            let stored = self.store(source, entry, (bytes, chained), mark);
            debug_assert!(stored, "looked at just before");
            self.count_incoming(source, 1, bytes);
            return true;
        }
        let far = begun && self.is_far(ahead);
        if begun {
            self.note_stray(source, fragment.trigger, mark);
        }
        let trusted = self.rows.base.wrapping_add_signed(ahead) < self.limit();
        if self.deferred.is_full(source) {
            return far && !trusted && self.lose(LossReason::OutOfWindow, incoming);
        }
        let slice = self.keep_slices(incoming);
        let chained = (slices.len() as u32).wrapping_sub(1);
        let deferred = Deferred { raw: fragment.trigger, ticks: fragment.ticks, slice, bytes, chained, mark };
        self.deferred.push(source, deferred);
        self.held_bytes += bytes;
        self.count_incoming(source, 1, bytes);
        self.jumped |= begun && !trusted;
        self.unsettled = true;
        if !begun && self.deferred.length(source) == 1 {
            self.try_to_begin();
        }
        true
    }

    /// Notes a number of a source that is not taken: beyond the window, before it, or there already.
    fn note_stray(&mut self, source: usize, raw: u64, mark: Mark) {
        let is_beyond = |raw| self.ahead(source, raw) >= self.capacity as i64;
        let goes_on = self.sources[source].strayed && is_beyond(self.strays[source].latest) == is_beyond(raw);
        self.strays[source].note((raw, u32::from(self.sources[source].shift)), mark, goes_on);
        self.sources[source].strayed = true;
        self.follow_alone(source);
    }

    /// How far a source's number lies ahead of the base.
    pub(super) fn ahead(&self, source: usize, raw: u64) -> i64 {
        distance(raw, self.rows.base, u32::from(self.sources[source].shift))
    }

    /// Whether a number is so far ahead that its source did not just run there.
    pub(super) fn is_far(&self, ahead: i64) -> bool {
        ahead >= 2 * self.settings.depth as i64
    }

    /// Why a fragment of a trigger before the base is not used.
    pub(super) fn reason_for_the_past(&self, source: usize, ahead: i64) -> LossReason {
        let trigger = self.rows.base.wrapping_add_signed(ahead);
        match () {
            () if self.columns.has(source, trigger) => self.reason_for_a_copy(source),
            () if ahead >= -(self.settings.depth as i64) => LossReason::LateFragment,
            () => LossReason::OutOfWindow,
        }
    }

    /// Why a fragment of a trigger that its source has answered is not used: it is a copy, or its source has begun its numbers anew, as
    /// behind a reset of the trigger.
    fn reason_for_a_copy(&self, source: usize) -> LossReason {
        let begins_anew = self.strays[source].begins_anew(self.age_ns());
        match self.sources[source].strayed && self.strayed(source).is_none() && begins_anew {
            true => LossReason::OutOfWindow,
            false => LossReason::DuplicateFragment,
        }
    }

    /// Takes leases for all slices and chains them behind the first.
    fn keep_slices(&mut self, incoming: Incoming) -> Slice {
        incoming.slices.iter().for_each(|slice| self.blocks.add(*slice, 1, incoming.leases));
        match incoming.slices {
            [] => Slice::default().tagged(EMPTY),
            [first, others @ ..] => first.tagged(self.chains.keep(others)),
        }
    }

    fn lose(&mut self, reason: LossReason, incoming: Incoming) -> bool {
        self.keep_dump(reason, incoming);
        self.lose_incoming(reason, incoming.source, incoming.bytes);
        true
    }

    fn lose_incoming(&mut self, reason: LossReason, source: usize, bytes: u64) {
        self.count_incoming(source, 1, bytes);
        self.lose_fragment(reason, source, bytes);
    }

    fn keep_dump(&mut self, reason: LossReason, incoming: Incoming) {
        let Incoming { fragment, slices, leases, bytes, mark, .. } = incoming;
        let head = || slices.first().map_or(&[][..], |slice| leases.bytes(*slice));
        let unused = self.unused(reason, fragment.source, fragment.trigger, mark, bytes);
        self.dumps.keep(unused, head);
    }

    pub(super) fn unused(
        &self,
        reason: LossReason,
        source: SourceId,
        trigger: u64,
        mark: Mark,
        bytes: u64,
    ) -> Unused {
        let largest =
            self.sources.get(index_of(source, self.first_source)).map_or(0, |counts| counts.largest);
        // A number that the board cannot count to is no matter of where the window is.
        let capacity = if trigger > largest { 0 } else { self.window_capacity() };
        Unused { reason, source, trigger, mark, bytes, base: self.rows.base, capacity }
    }
}
