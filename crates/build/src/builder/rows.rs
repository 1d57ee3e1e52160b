//! What is known of each open trigger: how many sources have answered, and since when.
//!
//! ```text
//!   base                      highest
//!    │ [ 3 of 4 ][ – ][ 4 of 4 ][ 1 of 4 ] │ – – – – │ base + depth
//! ```

use thalweg_data::Mark;

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
    /// The first and the last trigger that anybody has answered.
    heard: Option<(u64, u64)>,
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
            heard: None,
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
            self.unseen.hear();
            let (first, last) = self.heard.unwrap_or((trigger, trigger));
            self.heard = Some((first.min(trigger), last.max(trigger)));
        }
        row.answers += 1;
        row.chained = row.chained.wrapping_add(chained);
        row.answers
    }

    /// Closes an open row: its fragments leave. Until it is passed the row remembers.
    pub fn close(&mut self, trigger: u64) {
        self.open -= 1;
        self.rows[(trigger & self.mask) as usize] = Row { answers: CLOSED, ..Row::default() };
    }

    /// Moves the window up to `base`. Whatever it passes is closed, or a hole.
    pub fn pass_to(&mut self, base: u64) {
        let first_heard = self.heard.map_or(u64::MAX, |(first, _)| first);
        for trigger in self.base..base.min(self.highest) {
            let row = &mut self.rows[(trigger & self.mask) as usize];
            debug_assert!(!row.is_open(), "an open event is not passed");
            self.unseen.pass(u64::from(row.answers == 0 && trigger > first_heard));
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

    /// How many numbers there are from the first trigger that anybody has answered to the last.
    pub fn heard_span(&self) -> u64 {
        self.heard.map_or(0, |(first, last)| last - first + 1)
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
        (self.open, self.opened, self.heard) = (0, 0, None);
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
        assert_eq!((rows.take_unseen(), rows.heard_span()), (2, 3 + 15 + 12));
    }
}
