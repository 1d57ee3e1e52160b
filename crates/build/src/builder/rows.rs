//! What is known of each open trigger: how many sources have answered, and since when.
//!
//! ```text
//!   base                      highest
//!    │ [ 3 of 4 ][ – ][ 4 of 4 ][ 1 of 4 ] │ – – – – │ base + depth
//! ```

use std::ops::RangeInclusive;

use thalweg_data::Mark;

use super::window::distance;
use crate::unseen::Unseen;

/// One trigger.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// When its first fragment arrived.
    pub first_arrival: Mark,
    /// Sources that have answered; 0 of a hole, [`CLOSED`] of an event that has left.
    pub answers: u32,
    /// Slices beyond one for each fragment; wraps below 0 where fragments are empty.
    pub chained: u32,
}

/// In place of the number of answers: the event has left, and its row not yet been passed.
pub(super) const CLOSED: u32 = u32::MAX;

impl Row {
    /// Whether fragments wait here.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.answers != 0 && self.answers != CLOSED
    }
}

/// The first and the last trigger that anybody has answered.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    span: Option<(u64, u64)>,
    /// Numbers from the one to the other that have come since it was asked.
    numbers: u64,
}

impl Answered {
    #[inline(always)]
    fn add(&mut self, trigger: u64) {
        let (first, last) = match self.span {
            Some((first, last)) => {
                self.numbers += first.saturating_sub(trigger) + trigger.saturating_sub(last);
                (first.min(trigger), last.max(trigger))
            }
            None => {
                self.numbers += 1;
                (trigger, trigger)
            }
        };
        self.span = Some((first, last));
    }
}

/// The rows of the window. Those outside `base..highest` are empty.
pub(super) struct Rows {
    rows: Vec<Row>,
    mask: u64,
    /// First trigger of the window; what lies before it has left.
    pub base: u64,
    /// No row below this one and from `base` on is open.
    pub oldest: u64,
    /// Behind the last trigger that anybody has answered.
    pub highest: u64,
    open: usize,
    /// Rows that have become open since it was asked.
    opened: u64,
    answered: Answered,
    /// Those that nobody has answered, between these.
    unseen: Unseen,
}

impl Rows {
    pub fn new(depth: usize) -> Rows {
        Rows {
            rows: vec![Row::default(); depth],
            mask: depth as u64 - 1,
            base: 0,
            oldest: 0,
            highest: 0,
            open: 0,
            opened: 0,
            answered: Answered::default(),
            unseen: Unseen::default(),
        }
    }

    /// Memory of so many rows, in bytes.
    pub fn byte_size(depth: usize) -> usize {
        depth * size_of::<Row>()
    }

    #[inline(always)]
    pub fn get(&self, trigger: u64) -> &Row {
        &self.rows[(trigger & self.mask) as usize]
    }

    /// Notes an answer. Returns how many there are now.
    #[inline(always)]
    pub fn answer(&mut self, trigger: u64, chained: u32, mark: Mark) -> u32 {
        let row = &mut self.rows[(trigger & self.mask) as usize];
        if row.answers == 0 {
            row.first_arrival = mark;
            self.open += 1;
            self.opened += 1;
            self.oldest = self.oldest.min(trigger);
            self.highest = self.highest.max(trigger + 1);
            self.unseen.add();
            self.answered.add(trigger);
        }
        row.answers += 1;
        row.chained = row.chained.wrapping_add(chained);
        row.answers
    }

    /// Notes the answers of one source to `count` triggers from `trigger` on, whose rows are neighbours.
    pub fn answer_run(&mut self, trigger: u64, count: usize, mark: Mark) {
        let first = (trigger & self.mask) as usize;
        for (place, number) in (first..first + count).zip(trigger..) {
            let row = &mut self.rows[place];
            if row.answers == 0 {
                self.answer(number, 0, mark);
            } else {
                row.answers += 1;
            }
        }
    }

    /// How many of up to `most` triggers from `trigger` on can be answered together: rows that are neighbours, of events that have not
    /// left. `ordered`: none from the base on has.
    #[inline(always)]
    pub fn takeable(&self, trigger: u64, most: usize, ordered: bool) -> usize {
        let rows = &self.rows[(trigger & self.mask) as usize..];
        let rows = &rows[..most.min(rows.len())];
        let closed = if ordered { None } else { rows.iter().position(|row| row.answers == CLOSED) };
        closed.unwrap_or(rows.len())
    }

    /// No answer follows. Triggers that nobody has answered are known now also where the window has not passed them; those before the
    /// first and behind the last that anybody has answered, where the trigger says that it had the numbers of `accepted`. `shift` is 64
    /// less the width of the numbers on the wire.
    pub fn end(&mut self, accepted: Option<RangeInclusive<u64>>, shift: u32) {
        if let Some((first, last)) = self.answered.span {
            let window = self.base.max(first)..=last;
            let holes = window.filter(|trigger| self.get(*trigger).answers == 0).count();
            self.unseen.pass(holes as u64);
        }
        let Some((own_first, own_last)) = accepted.map(RangeInclusive::into_inner) else { return };
        let answered = self.answered.span.map(|(first, last)| {
            // Short numbers are made long from where the boards begin: the same trigger may have another number here.
            let before = distance(first, own_first, shift);
            (before, before + (last - first) as i64)
        });
        let own_last = own_last.saturating_sub(own_first) as i64;
        let (before, behind) = answered.map_or((own_last + 1, 0), |(first, last)| (first, own_last - last));
        for outside in [before, behind].map(|count| u64::try_from(count).unwrap_or(0)) {
            self.unseen.pass(outside);
            self.answered.numbers += outside;
        }
    }

    /// Closes an open row: its fragments leave. Until it is passed the row remembers.
    pub fn close(&mut self, trigger: u64) {
        self.open -= 1;
        self.rows[(trigger & self.mask) as usize] = Row { answers: CLOSED, ..Row::default() };
    }

    /// Moves the window up to `base`. Whatever it passes is closed, or a hole.
    pub fn pass_to(&mut self, base: u64) {
        let first_answered = self.answered.span.map_or(u64::MAX, |(first, _)| first);
        for trigger in self.base..base.min(self.highest) {
            let row = &mut self.rows[(trigger & self.mask) as usize];
            debug_assert!(!row.is_open(), "an open event is not passed");
            self.unseen.pass(u64::from(row.answers == 0 && trigger > first_answered));
            *row = Row::default();
        }
        self.unseen.skip(base.saturating_sub(self.highest.max(self.base)));
        self.base = self.base.max(base);
        self.highest = self.highest.max(self.base);
        self.oldest = self.oldest.max(self.base);
    }

    /// Triggers with fragments that wait.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Rows that have become open since this was asked last.
    pub fn take_opened(&mut self) -> u64 {
        std::mem::take(&mut self.opened)
    }

    /// Triggers that nobody has answered, between others that were: those that were passed since this was asked last.
    pub fn take_unseen(&mut self) -> u64 {
        self.unseen.take()
    }

    /// Numbers from the first trigger that anybody has answered to the last that have come since this was asked last.
    pub fn take_numbers(&mut self) -> u64 {
        std::mem::take(&mut self.answered.numbers)
    }

    /// The first open trigger, if any.
    pub fn first_open(&mut self) -> Option<u64> {
        if self.open == 0 {
            self.oldest = self.highest;
            return None;
        }
        while !self.get(self.oldest).is_open() {
            self.oldest += 1;
        }
        Some(self.oldest)
    }

    /// Begins anew at `base`.
    pub fn start(&mut self, base: u64) {
        self.rows.fill(Row::default());
        (self.base, self.oldest, self.highest) = (base, base, base);
        (self.open, self.opened, self.answered) = (0, 0, Answered::default());
        self.unseen = Unseen::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_passed_and_rows_used_again() {
        let mut rows = Rows::new(16);
        rows.start(100);
        assert_eq!(rows.answer(103, 0, Mark(7)), 1);
        assert_eq!(rows.answer(103, 2, Mark(9)), 2);
        assert_eq!((rows.first_open(), rows.highest, rows.get(103).first_arrival), (Some(103), 104, Mark(7)));
        rows.close(103);
        rows.pass_to(104);
        assert_eq!((rows.first_open(), rows.open(), rows.base), (None, 0, 104));
        assert_eq!(rows.answer(119, 0, Mark(9)), 1);
        assert_eq!(rows.get(119).chained, 0);
        assert_eq!(
            rows.take_unseen(),
            0,
            "what lies before the first one is not known, and what lies behind 103 may come"
        );
        rows.close(119);
        rows.pass_to(130);
        assert_eq!(rows.take_unseen(), 15, "behind the last one nothing is known");
        assert_eq!(rows.answer(132, 0, Mark(9)), 1);
        assert_eq!(rows.take_unseen(), 10);
        rows.close(132);
        rows.pass_to(133);
        assert_eq!((rows.take_unseen(), rows.take_numbers()), (2, 3 + 15 + 12));
        rows.answer(135, 0, Mark(9));
        rows.end(Some(100..=140), 32);
        assert_eq!(
            (rows.take_unseen(), rows.take_numbers()),
            (2 + 3 + 5, 3 + 3 + 5),
            "133, 134; 100 to 102; 136 to 140"
        );
    }

    #[test]
    fn what_the_trigger_had_and_nobody_answered_is_unseen() {
        let ended = |answered: &[u64], accepted| {
            let mut rows = Rows::new(16);
            rows.start(0);
            for trigger in answered {
                rows.answer(*trigger, 0, Mark(1));
            }
            rows.end(accepted, 48);
            (rows.take_unseen(), rows.take_numbers())
        };
        assert_eq!(ended(&[], Some(7..=9)), (3, 3));
        assert_eq!(ended(&[3, 5], None), (1, 3), "without its numbers what lies outside is not known");
        assert_eq!(ended(&[3, 5], Some(0x1_0002..=0x1_0005)), (2, 4), "16 bits of them are on the wire");
        assert_eq!(ended(&[3, 5], Some(4..=5)), (1, 3), "more numbers than the trigger had");
    }
}
