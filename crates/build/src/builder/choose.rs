//! Which events leave: complete ones, and incomplete ones that are no longer waited for.
//!
//! ```text
//!  rows, oldest first ─► complete · of age · in the way · over ─► chosen, dropped, or the end of the run
//! ```

use thalweg_data::{Closing, LossReason, Mark, SourceId, Unit};

use super::rows::Row;
use super::settings::{Full, Incomplete};
use super::{Builder, Phase, Stop};

/// An event that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub trigger: u64,
    pub closing: Closing,
    pub first_arrival: Mark,
    /// Sources that have answered.
    pub answers: u32,
    /// Slices beyond one for each fragment; wraps below 0.
    pub chained: u32,
}

/// What becomes of an open row.
enum Fate {
    Stays,
    Leaves(Closing),
    Dropped,
    Stops,
}

impl Builder {
    /// Chooses up to `most` events and closes their rows; their fragments have to be gathered before anything else is
    /// taken. Returns whether anything was chosen or dropped, or the window has moved.
    pub(super) fn choose(&mut self, most: usize) -> bool {
        self.chosen.clear();
        if self.stop.is_some() || matches!(self.phase, Phase::Idle | Phase::Beginning) {
            return false;
        }
        self.choose_complete(most);
        let base_before = self.rows.base;
        let mut dropped = false;
        while self.chosen.len() < most
            && let Some(trigger) = self.rows.first_open()
        {
            let row = *self.rows.get(trigger);
            match self.fate(trigger, &row) {
                Fate::Stays => break,
                Fate::Leaves(closing) => self.leave(trigger, row, closing),
                Fate::Dropped => {
                    self.drop_event(trigger);
                    dropped = true;
                }
                Fate::Stops => {
                    self.stop = Some(Stop { trigger, missing: self.missing_from(trigger) });
                    break;
                }
            }
            self.rows.close(trigger);
            self.rows.pass_to(trigger + 1);
        }
        self.pass_holes();
        let moved = self.rows.base != base_before;
        if moved {
            self.short_of_links = false;
            self.update_room();
        }
        moved || dropped || !self.chosen.is_empty()
    }

    /// Complete events in the order in which they became so, where that will do.
    fn choose_complete(&mut self, most: usize) {
        while self.chosen.len() < most
            && let Some(trigger) = self.ready.pop_front()
        {
            let row = *self.rows.get(trigger);
            if trigger >= self.rows.base && row.answers as usize == self.sources.len() {
                self.leave(trigger, row, Closing::Complete);
                self.rows.close(trigger);
            }
        }
    }

    fn leave(&mut self, trigger: u64, row: Row, closing: Closing) {
        let Row { first_arrival, answers, chained } = row;
        self.chosen.push(Chosen { trigger, closing, first_arrival, answers, chained });
    }

    /// Moves the base over holes and events that have left, as far as that is asked for or nothing can be missed by it.
    fn pass_holes(&mut self) {
        let behind = self.rows.highest.saturating_sub(self.settings.depth as u64 / 2);
        let behind = if self.phase == Phase::Ending { self.rows.highest } else { behind };
        let wanted = self.pressure.max(behind);
        let until = self.rows.first_open().map_or(wanted, |open| open.min(wanted));
        if until > self.rows.base {
            self.rows.pass_to(until);
        }
    }

    fn fate(&self, trigger: u64, row: &Row) -> Fate {
        if row.answers as usize == self.sources.len() {
            return Fate::Leaves(Closing::Complete);
        }
        let (policy, waits) = (self.settings.incomplete, self.is_wait());
        let in_the_way = trigger < self.pressure && self.settings.full == Full::Close || self.short_of_links;
        let closing = match () {
            () if self.phase == Phase::Ending || self.only_ended_are_missing(trigger, row) => Closing::End,
            () if trigger < self.forced => Closing::Depth,
            () if waits => return Fate::Stays,
            () if self.now.since_ns(row.first_arrival) >= self.age_ns() => Closing::Age,
            () if in_the_way => Closing::Depth,
            () => return Fate::Stays,
        };
        match policy {
            Incomplete::Drop => Fate::Dropped,
            Incomplete::Stop if self.phase == Phase::Running && !self.stopping => Fate::Stops,
            Incomplete::Partial | Incomplete::Wait | Incomplete::Stop => Fate::Leaves(closing),
        }
    }

    fn only_ended_are_missing(&self, trigger: u64, row: &Row) -> bool {
        let possible = self.ended > 0 && row.answers as usize + self.ended >= self.sources.len();
        possible
            && self
                .sources
                .iter()
                .enumerate()
                .all(|(source, counts)| counts.ended || self.columns.has(source, trigger))
    }

    fn missing_from(&self, trigger: u64) -> Vec<SourceId> {
        let missing = (0..self.sources.len()).filter(|source| !self.columns.has(*source, trigger));
        missing.map(|source| self.source_id(source)).collect()
    }

    /// Counts an incomplete event and its fragments as lost and lets go of their bytes.
    fn drop_event(&mut self, trigger: u64) {
        self.counters.events.lost(LossReason::Incomplete, Unit::Events, 1);
        for source in 0..self.sources.len() {
            let entry = *self.columns.entry(source, trigger);
            if entry.trigger != trigger {
                self.sources[source].missing += 1;
                continue;
            }
            let bytes = self.let_go(entry.slice);
            let counts = &mut self.sources[source];
            counts.held -= 1;
            counts.held_bytes -= bytes;
            self.held_bytes -= bytes;
            self.lose_fragment(LossReason::Incomplete, source, bytes);
        }
    }
}
