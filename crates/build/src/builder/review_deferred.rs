//! Deferred fragments: accept, drop or keep those ahead of the window; find a run's first trigger.
//!
//! ```text
//!  deferred ─┬─ the room has come to it ──► column
//!          ├─ two sources agree on a jump, or the last one left stays there ──► the window follows
//!          └─ of age, and nobody agreed ──► out of window
//! ```

use thalweg_data::{LossReason, Slice};

use super::columns::{EMPTY, Entry};
use super::deferred::Deferred;
use super::settings::Incomplete;
use super::window::distance;
use super::{Builder, Phase};

impl Builder {
    /// Looks at everything deferred, when something has changed for it.
    pub(super) fn settle(&mut self) {
        if self.deferred.total() == 0 {
            self.pressure = 0;
            return;
        }
        if self.phase == Phase::Beginning {
            self.try_to_begin();
        }
        let given_up = self.now.0 >= self.given_up_ns;
        if self.phase == Phase::Beginning || !(self.unsettled || given_up || self.jumped) {
            return;
        }
        if self.jumped {
            self.jumped = false;
            self.seek_agreement();
        }
        // What is taken may free space for what is deferred of others.
        while self.settle_once() {}
        self.unsettled = false;
    }

    fn settle_once(&mut self) -> bool {
        (self.pressure, self.given_up_ns) = (0, u64::MAX);
        let mut taken = false;
        for source in 0..self.sources.len() {
            for _ in 0..self.deferred.length(source) {
                if let Some(deferred) = self.deferred.pop(source) {
                    self.held_bytes -= deferred.bytes;
                    taken |= self.reconsider(source, deferred);
                }
            }
        }
        self.pressure = self.pressure.min(self.first_trusted());
        taken
    }

    /// The first of the numbers that are deferred and may be taken once the base is here: the base does not pass it.
    fn first_trusted(&self) -> u64 {
        let (capacity, limit) = (self.rows.base + self.capacity, self.limit());
        if self.pressure <= capacity {
            // All of them lie behind it.
            return self.pressure;
        }
        let deferred = (0..self.sources.len()).flat_map(|source| {
            self.deferred.iter(source).map(move |deferred| self.ahead(source, deferred.raw))
        });
        let triggers = deferred.map(|ahead| self.rows.base.wrapping_add_signed(ahead));
        triggers.filter(|trigger| *trigger < limit).min().unwrap_or(u64::MAX)
    }

    /// Returns whether it was taken.
    fn reconsider(&mut self, source: usize, deferred: Deferred) -> bool {
        let ahead = self.ahead(source, deferred.raw);
        if ahead < 0 {
            self.give_up(source, deferred, self.reason_for_the_past(source, ahead));
            return false;
        }
        let trigger = self.rows.base.wrapping_add_signed(ahead);
        if (ahead as u64) < self.window_capacity() {
            let entry = Entry { trigger, ticks: deferred.ticks, slice: deferred.slice };
            let doubled = self.columns.has(source, trigger);
            let taken = self.store(source, entry, (deferred.bytes, deferred.chained), deferred.mark);
            if !taken {
                let reason = if doubled { LossReason::DuplicateFragment } else { LossReason::LateFragment };
                self.give_up(source, deferred, reason);
            }
            return taken;
        }
        let far = self.is_far(ahead);
        let trusted = trigger < self.limit() || self.phase == Phase::Ending && !far;
        // Nobody will get to where one is that is alone.
        let waits_for_none = self.is_alone() && !self.sources[source].ended;
        if !trusted && (far || waits_for_none) {
            let until_ns = deferred.mark.0.saturating_add(self.age_ns());
            if self.now.0 >= until_ns || self.phase == Phase::Ending {
                self.give_up(source, deferred, LossReason::OutOfWindow);
                return false;
            }
            self.given_up_ns = self.given_up_ns.min(until_ns);
        }
        if trusted {
            self.pressure = self.pressure.max(trigger + 1 - self.settings.depth as u64);
        }
        self.held_bytes += deferred.bytes;
        self.deferred.push(source, deferred);
        false
    }

    pub(super) fn age_ns(&self) -> u64 {
        self.settings.age_ms.saturating_mul(1_000_000)
    }

    /// Counts a deferred fragment as lost and lets go of its bytes.
    fn give_up(&mut self, source: usize, deferred: Deferred, reason: LossReason) {
        let Deferred { raw, slice, bytes, mark, .. } = deferred;
        let unused = self.unused(reason, self.source_id(source), raw, mark, bytes);
        self.dumps.keep(unused, || match slice.tag {
            EMPTY => &[],
            _ => self.blocks.bytes(slice),
        });
        self.lose_fragment(reason, source, bytes);
        self.let_go(slice);
    }

    /// Lets go of the bytes of a fragment, and says how many they were.
    pub(super) fn let_go(&mut self, first: Slice) -> u64 {
        if first.tag == EMPTY {
            return 0;
        }
        let mut bytes = u64::from(first.length);
        self.blocks.remove(first.block, 1);
        self.chains.release(first.tag, |slice| {
            bytes += u64::from(slice.length);
            self.blocks.remove(slice.block, 1);
        });
        bytes
    }

    /// Whether what is deferred of a source lies so far ahead that its numbers cannot be right, or all others' are wrong.
    pub(super) fn has_jumped(&self, source: usize) -> bool {
        let mut deferred = self.deferred.iter(source);
        self.phase == Phase::Running && deferred.any(|deferred| self.is_far(self.ahead(source, deferred.raw)))
    }

    /// Lets the window follow where two sources have jumped alike and stay there. A number damaged now and then is not
    /// followed, not even where two boards damage theirs alike.
    fn seek_agreement(&mut self) {
        let (sources, base, limit) = (self.sources.len(), self.rows.base, self.limit());
        let half = self.settings.depth as u64 / 2;
        let jump =
            |source| self.strayed(source).filter(|ahead: &i64| base.wrapping_add_signed(*ahead) >= limit);
        let agreed = (0..sources).filter_map(|one| Some((one, jump(one)?))).find_map(|(one, ahead)| {
            let others = (one + 1..sources).filter_map(|other| Some((other, jump(other)?)));
            let alike = |(_, other): &(usize, i64)| other.abs_diff(ahead) < half;
            others.into_iter().find(alike).map(|other| [(one, ahead), other])
        });
        for (source, ahead) in agreed.into_iter().flatten() {
            self.lead.note(source, self.rows.base.wrapping_add_signed(ahead));
        }
        self.update_room();
    }

    /// How far ahead the latest number of a source lies, if that is beyond the window.
    pub(super) fn strayed(&self, source: usize) -> Option<i64> {
        let ahead = self.ahead(source, self.strays[source].latest);
        (self.sources[source].strayed && ahead >= self.capacity as i64).then_some(ahead)
    }

    /// Lets the window follow a source that is alone and has gone beyond it. Of several sources, nobody else has to agree.
    pub(super) fn follow_alone(&mut self, source: usize) {
        if self.is_alone()
            && self.strays[source].is_to_follow()
            && let Some(ahead) = self.strayed(source)
        {
            self.lead.note(source, self.rows.base.wrapping_add_signed(ahead));
            self.update_room();
        }
    }

    /// Begins where two sources agree, or the only one says; or, when all others have been silent for the age of an event,
    /// where one says that has been reset.
    pub(super) fn try_to_begin(&mut self) {
        let alone = if self.is_alone() { self.first_deferred() } else { None };
        let found = self.agreed_beginning().or(alone);
        let found = found.or_else(|| self.lone_beginning());
        if let Some(source) = found {
            self.begin_near(source);
        }
    }

    /// Begins where it can, since nothing else will come.
    pub(super) fn begin_with_what_is_there(&mut self) {
        if let Some(source) = self.agreed_beginning().or_else(|| self.first_deferred()) {
            self.begin_near(source);
        }
    }

    fn first_deferred(&self) -> Option<usize> {
        (0..self.sources.len()).find(|source| self.deferred.length(*source) > 0)
    }

    fn first_number(&self, source: usize) -> Option<u64> {
        self.deferred.iter(source).next().map(|deferred| deferred.raw)
    }

    fn shift(&self, source: usize) -> u32 {
        u32::from(self.sources[source].shift)
    }

    /// A source with which another one agrees; of the two, the one with the longer numbers.
    fn agreed_beginning(&self) -> Option<usize> {
        let quarter = self.settings.depth as u64 / 4;
        let speak =
            |from| (from..self.sources.len()).filter_map(|source| Some((source, self.first_number(source)?)));
        speak(0).find_map(|(one, raw)| {
            let alike = |&(other, its): &(usize, u64)| {
                distance(its, raw, self.shift(one).max(self.shift(other))).unsigned_abs() < quarter
            };
            let other = speak(one + 1).find(alike)?.0;
            Some(if self.shift(other) < self.shift(one) { other } else { one })
        })
    }

    fn lone_beginning(&self) -> Option<usize> {
        if self.settings.incomplete == Incomplete::Wait {
            return None;
        }
        let half = self.settings.depth as u64 / 2;
        (0..self.sources.len()).find(|source| {
            self.deferred
                .iter(*source)
                .next()
                .is_some_and(|first| first.raw < half && self.now.since_ns(first.mark) >= self.age_ns())
        })
    }

    /// Begins a quarter of the window before the lowest of the numbers near this source's first one.
    fn begin_near(&mut self, source: usize) {
        let (Some(raw), quarter) = (self.first_number(source), self.settings.depth as i64 / 4) else {
            return;
        };
        let distances = (0..self.sources.len()).flat_map(|other| {
            let shift = self.shift(other).max(self.shift(source));
            self.deferred.iter(other).map(move |deferred| distance(deferred.raw, raw, shift))
        });
        let lowest = distances.filter(|distance| *distance > -quarter).min().unwrap_or(0);
        // Numbers that have just come round: what came before has to have one, too.
        let round = match raw.checked_add_signed(lowest) {
            None => 1 << (64 - self.shift(source)),
            Some(_) => 0,
        };
        let base = (raw + round).saturating_add_signed(lowest - quarter);
        self.begin_at(base);
    }
}
