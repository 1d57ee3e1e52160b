//! What a triggered board in this process has answered, for its receiver to say which of the answers came.
//!
//! ```text
//!  board    ─ one store per answer ─► its trigger number │ gone, unsent        a ring of the latest so many
//!  receiver ─ find(number) ─► that place, marked as found                      a ring beside it, written by the receiver alone
//!                                   └─► whoever loses its place is counted: found · thrown away · unsent · never found
//! ```
//! Board and receiver are two threads, and neither waits for the other. Each answer has one fate, which is counted when the ring needs
//! its place or, of the latest, in the end; so that none of the four numbers is the remainder of the others.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::sent::Apart;

/// Most answers that are remembered.
const MOST_ENTRIES: usize = 1 << 16;
/// Fewest.
const FEWEST_ENTRIES: usize = 1 << 10;
/// So long a receiver may be behind, seconds: what full sockets and FIFOs hold, or a busy machine makes of it.
const REACH_S: f64 = 8.0;
/// The bits of a trigger number that are remembered.
const NUMBER: u32 = (1 << 30) - 1;
/// The answer was thrown away, whole or its end.
const DISCARDED: u32 = 1 << 30;
/// The board had it, and could not send it.
const UNSENT: u32 = 1 << 31;

/// What became of a board's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerFates {
    /// The receiver has found them in what came.
    pub found: u64,
    /// Not everything of them was given to a socket.
    pub discarded: u64,
    /// The board says that it gave them, and sent nothing.
    pub unsent: u64,
    /// Sent, and the receiver has not found them.
    pub never_received: u64,
}

/// The record of one board. One thread writes what is answered, one what has come.
pub struct FragmentRecord {
    /// Of each answer the low bits of its trigger number, and what the board did with it.
    answers: Box<[AtomicU32]>,
    /// The round of the ring in which each place was found.
    found: Box<[AtomicU8]>,
    /// Answers that were ever given.
    count: Apart,
    /// Where the receiver expects the next: behind the last that it found.
    next: Apart,
    /// Of those whose place was needed: found, discarded, unsent, never found.
    left: [AtomicU64; 4],
    is_unknown: AtomicBool,
}

impl std::fmt::Debug for FragmentRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (answers, next) = (self.count.0.load(Ordering::Relaxed), self.next.0.load(Ordering::Relaxed));
        f.debug_struct("FragmentRecord").field("answers", &answers).field("next", &next).finish()
    }
}

impl FragmentRecord {
    /// How many answers are remembered of a board that is triggered so often; of one that answers as fast as it is read, the most.
    fn entries(rate_hz: f64) -> usize {
        ((REACH_S * rate_hz) as usize).clamp(FEWEST_ENTRIES, MOST_ENTRIES).next_power_of_two()
    }

    /// Memory of the record of a board that is triggered so often.
    pub fn memory_bytes(rate_hz: f64) -> u64 {
        (FragmentRecord::entries(rate_hz) * (size_of::<AtomicU32>() + size_of::<AtomicU8>())) as u64
    }

    /// The record of a board that is triggered so often.
    pub fn new(rate_hz: f64) -> FragmentRecord {
        let entries = FragmentRecord::entries(rate_hz);
        FragmentRecord {
            answers: (0..entries).map(|_| AtomicU32::new(0)).collect(),
            found: (0..entries).map(|_| AtomicU8::new(0)).collect(),
            count: Apart::default(),
            next: Apart::default(),
            left: Default::default(),
            is_unknown: AtomicBool::new(false),
        }
    }

    fn place(&self, answer: u64) -> usize {
        answer as usize & (self.answers.len() - 1)
    }

    /// What the receiver writes for an answer that it has found: never 0, and another one in the next round.
    fn round(&self, answer: u64) -> u8 {
        (answer / self.answers.len() as u64 % 255) as u8 + 1
    }

    fn fate(&self, answer: u64) -> usize {
        let place = self.place(answer);
        let own = self.answers[place].load(Ordering::Relaxed);
        // What was found has come, whatever its sender thinks of it.
        match self.found[place].load(Ordering::Relaxed) == self.round(answer) {
            true => 0,
            false if own & UNSENT != 0 => 2,
            false if own & DISCARDED != 0 => 1,
            false => 3,
        }
    }

    /// The board answers the trigger of this number; `sent` is false of one that it counts and does not send.
    #[inline]
    pub fn answer(&self, number: u64, sent: bool) {
        let count = self.count.0.load(Ordering::Relaxed);
        if let Some(oldest) = count.checked_sub(self.answers.len() as u64) {
            let fate = &self.left[self.fate(oldest)];
            fate.store(fate.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let unsent = if sent { 0 } else { UNSENT };
        self.answers[self.place(count)].store(number as u32 & NUMBER | unsent, Ordering::Relaxed);
        self.count.0.store(count + 1, Ordering::Release);
    }

    /// The latest answers that were sent were thrown away, so many of them.
    pub fn discard(&self, answers: u64) {
        let count = self.count.0.load(Ordering::Relaxed);
        let oldest = count.saturating_sub(self.answers.len() as u64);
        let mut left = answers;
        for answer in (oldest..count).rev() {
            if left == 0 {
                return;
            }
            let entry = &self.answers[self.place(answer)];
            let own = entry.load(Ordering::Relaxed);
            if own & (UNSENT | DISCARDED) == 0 {
                entry.store(own | DISCARDED, Ordering::Relaxed);
                left -= 1;
            }
        }
        // More were thrown away than are remembered.
        self.is_unknown.fetch_or(left > 0, Ordering::Relaxed);
    }

    /// An answer to the trigger of this number has come.
    #[inline]
    pub fn find(&self, number: u64) {
        let expected = self.next.0.load(Ordering::Relaxed);
        let (count, number) = (self.count.0.load(Ordering::Acquire), number as u32 & NUMBER);
        if expected < count && self.number(expected) == number {
            self.found[self.place(expected)].store(self.round(expected), Ordering::Relaxed);
            self.next.0.store(expected + 1, Ordering::Relaxed);
        } else {
            self.seek(number, expected, count);
        }
    }

    fn number(&self, answer: u64) -> u32 {
        self.answers[self.place(answer)].load(Ordering::Relaxed) & NUMBER
    }

    /// One that does not stand where it is expected: others before it did not come, or it has been overtaken.
    #[cold]
    #[inline(never)]
    fn seek(&self, number: u32, expected: u64, count: u64) {
        let oldest = count.saturating_sub(self.answers.len() as u64);
        let ahead = expected.max(oldest)..count;
        let behind = oldest..expected.min(count);
        let is_it = |answer: &u64| {
            self.number(*answer) == number
                && self.found[self.place(*answer)].load(Ordering::Relaxed) != self.round(*answer)
        };
        match ahead.clone().find(is_it).or_else(|| behind.rev().find(is_it)) {
            Some(answer) => {
                self.found[self.place(answer)].store(self.round(answer), Ordering::Relaxed);
                self.next.0.fetch_max(answer + 1, Ordering::Relaxed);
            }
            // Answered too long ago to be remembered, or by nobody.
            None => self.is_unknown.store(true, Ordering::Relaxed),
        }
    }

    /// What became of all answers, once board and receiver have ended; `None` where it is not known.
    pub fn fates(&self) -> Option<AnswerFates> {
        if self.is_unknown.load(Ordering::Acquire) {
            return None;
        }
        let mut fates = [0, 1, 2, 3].map(|fate: usize| self.left[fate].load(Ordering::Relaxed));
        let count = self.count.0.load(Ordering::Acquire);
        for answer in count.saturating_sub(self.answers.len() as u64)..count {
            fates[self.fate(answer)] += 1;
        }
        let [found, discarded, unsent, never_received] = fates;
        Some(AnswerFates { found, discarded, unsent, never_received })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(found: u64, discarded: u64, unsent: u64, never_received: u64) -> Option<AnswerFates> {
        Some(AnswerFates { found, discarded, unsent, never_received })
    }

    #[test]
    fn every_answer_has_one_fate() {
        let record = FragmentRecord::new(0.0);
        (100..110).for_each(|number| record.answer(number, number != 104));
        [100, 101, 103, 102, 105].into_iter().for_each(|number| record.find(number));
        assert_eq!(record.fates(), fates(5, 0, 1, 4));
        record.discard(2);
        assert_eq!(record.fates(), fates(5, 2, 1, 2), "108 and 109 were never given to a socket");
        record.find(108);
        assert_eq!(record.fates(), fates(6, 1, 1, 2), "it has come after all");
    }

    #[test]
    fn a_trigger_that_was_answered_twice_is_found_twice() {
        let record = FragmentRecord::new(0.0);
        [7, 8, 8, 9].into_iter().for_each(|number| record.answer(number, true));
        [7, 8, 8].into_iter().for_each(|number| record.find(number));
        assert_eq!(record.fates(), fates(3, 0, 0, 1));
        record.find(8);
        assert_eq!(record.fates(), None, "a third one was never given");
    }

    #[test]
    fn the_ring_counts_whom_it_forgets() {
        let record = FragmentRecord::new(0.0);
        let many = 5 * FEWEST_ENTRIES as u64 + 3;
        for number in 0..many {
            record.answer(number, number % 7 != 0);
            if number % 7 != 0 && number % 5 != 0 {
                record.find(number);
            }
        }
        let of = |is: &dyn Fn(u64) -> bool| (0..many).filter(|number| is(*number)).count() as u64;
        let unsent = of(&|number| number % 7 == 0);
        let never = of(&|number| number % 7 != 0 && number % 5 == 0);
        assert_eq!(record.fates(), fates(many - unsent - never, 0, unsent, never));
        record.find(1);
        assert_eq!(record.fates(), None, "it was forgotten");
    }

    #[test]
    fn a_receiver_keeps_up_beside_a_board() {
        let record = FragmentRecord::new(f64::MAX);
        let many = 200_000u64;
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::sync_channel(1000);
            let record = &record;
            scope.spawn(move || {
                for number in 0..many {
                    record.answer(number, true);
                    if number % 3 != 0 {
                        sender.send(number).expect("it is read");
                    }
                }
            });
            receiver.iter().for_each(|number| record.find(number));
        });
        let lost = many.div_ceil(3);
        assert_eq!(record.fates(), fates(many - lost, 0, 0, lost));
    }
}
