//! Records of what a triggered board of this process has answered, in which its receiver marks the answers that arrived.
//!
//! ```text
//!  board    ─ one store per answer ─► its trigger number │ discarded, unsent    a ring of the latest answers
//!  receiver ─ find(number) ─► that entry, marked as found                       a second ring, which only the receiver writes
//!                                   └─► an overwritten entry is counted as found · discarded · unsent · never received
//! ```
//! Board and receiver are two threads, and neither waits for the other. Each answer has one fate, which is counted when its entry is
//! overwritten or, for the latest answers, at the end. So none of the four numbers is the remainder of the others.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::sent::Apart;

/// Most answers in a record.
const MOST_ENTRIES: usize = 1 << 16;
/// Fewest answers in a record.
const FEWEST_ENTRIES: usize = 1 << 10;
/// How far a receiver may fall behind, seconds: the content of full sockets and FIFOs, or a delay on a busy machine.
const REACH_S: f64 = 8.0;
/// The bits of a trigger number that are recorded.
const NUMBER: u32 = (1 << 30) - 1;
/// The board discarded the answer or its end.
const DISCARDED: u32 = 1 << 30;
/// The board had the answer and could not send it.
const UNSENT: u32 = 1 << 31;

/// What happened to a board's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerFates {
    /// The receiver found them in the received data.
    pub found: u64,
    /// They were not written to a socket completely.
    pub discarded: u64,
    /// The board counted them and did not send them.
    pub unsent: u64,
    /// They were sent, and the receiver has not found them.
    pub never_received: u64,
}

/// The record of one board. The board's thread writes its answers, the receiver's thread the answers that arrived.
pub struct FragmentRecord {
    /// For each answer, the low bits of its trigger number, and what the board did with it.
    answers: Box<[AtomicU32]>,
    /// For each entry, the round of the ring in which its answer was found.
    found: Box<[AtomicU8]>,
    /// Number of answers since the start.
    count: Apart,
    /// The answer that the receiver expects next: the one after the last that it found.
    next: Apart,
    /// Number of overwritten answers by fate: found, discarded, unsent, never received.
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
    /// Length of the ring for a board that is triggered at this rate; an infinite rate, of a board that answers as fast as it is read,
    /// gives the longest.
    fn entries(rate_hz: f64) -> usize {
        ((REACH_S * rate_hz) as usize).clamp(FEWEST_ENTRIES, MOST_ENTRIES).next_power_of_two()
    }

    /// Memory of a record made by [`FragmentRecord::new`] for this rate, bytes.
    pub fn memory_bytes(rate_hz: f64) -> u64 {
        (FragmentRecord::entries(rate_hz) * (size_of::<AtomicU32>() + size_of::<AtomicU8>())) as u64
    }

    /// The record of a board that is triggered at `rate_hz`.
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

    fn index(&self, answer: u64) -> usize {
        answer as usize & (self.answers.len() - 1)
    }

    /// The mark that the receiver writes for an answer that it has found: never 0, and different in the next round of the ring.
    fn round(&self, answer: u64) -> u8 {
        (answer / self.answers.len() as u64 % 255) as u8 + 1
    }

    fn fate(&self, answer: u64) -> usize {
        let index = self.index(answer);
        let own = self.answers[index].load(Ordering::Relaxed);
        // An answer that was found has arrived, even if the board noted that it discarded it.
        match self.found[index].load(Ordering::Relaxed) == self.round(answer) {
            true => 0,
            false if own & UNSENT != 0 => 2,
            false if own & DISCARDED != 0 => 1,
            false => 3,
        }
    }

    /// Notes that the board answers the trigger with this number; `sent` is `false` if it counts the answer and does not send it.
    #[inline]
    pub fn answer(&self, number: u64, sent: bool) {
        let count = self.count.0.load(Ordering::Relaxed);
        if let Some(oldest) = count.checked_sub(self.answers.len() as u64) {
            let fate = &self.left[self.fate(oldest)];
            fate.store(fate.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let unsent = if sent { 0 } else { UNSENT };
        self.answers[self.index(count)].store(number as u32 & NUMBER | unsent, Ordering::Relaxed);
        self.count.0.store(count + 1, Ordering::Release);
    }

    /// Notes that the board discarded its latest `answers` sent answers.
    pub fn discard(&self, answers: u64) {
        let count = self.count.0.load(Ordering::Relaxed);
        let oldest = count.saturating_sub(self.answers.len() as u64);
        let mut left = answers;
        for answer in (oldest..count).rev() {
            if left == 0 {
                return;
            }
            let entry = &self.answers[self.index(answer)];
            let own = entry.load(Ordering::Relaxed);
            if own & (UNSENT | DISCARDED) == 0 {
                entry.store(own | DISCARDED, Ordering::Relaxed);
                left -= 1;
            }
        }
        // More answers were discarded than the ring contains.
        self.is_unknown.fetch_or(left > 0, Ordering::Relaxed);
    }

    /// Marks the answer to the trigger with this number as received.
    #[inline]
    pub fn find(&self, number: u64) {
        let expected = self.next.0.load(Ordering::Relaxed);
        let (count, number) = (self.count.0.load(Ordering::Acquire), number as u32 & NUMBER);
        if expected < count && self.number(expected) == number {
            self.found[self.index(expected)].store(self.round(expected), Ordering::Relaxed);
            self.next.0.store(expected + 1, Ordering::Relaxed);
        } else {
            self.seek(number, expected, count);
        }
    }

    fn number(&self, answer: u64) -> u32 {
        self.answers[self.index(answer)].load(Ordering::Relaxed) & NUMBER
    }

    /// Searches for an answer that is not the expected one: answers before it did not arrive, or later ones overtook it.
    #[cold]
    #[inline(never)]
    fn seek(&self, number: u32, expected: u64, count: u64) {
        let oldest = count.saturating_sub(self.answers.len() as u64);
        let ahead = expected.max(oldest)..count;
        let behind = oldest..expected.min(count);
        let is_it = |answer: &u64| {
            self.number(*answer) == number
                && self.found[self.index(*answer)].load(Ordering::Relaxed) != self.round(*answer)
        };
        match ahead.clone().find(is_it).or_else(|| behind.rev().find(is_it)) {
            Some(answer) => {
                self.found[self.index(answer)].store(self.round(answer), Ordering::Relaxed);
                self.next.0.fetch_max(answer + 1, Ordering::Relaxed);
            }
            // The entry was overwritten, or the board gave no such answer.
            None => self.is_unknown.store(true, Ordering::Relaxed),
        }
    }

    /// The fates of all answers, after board and receiver have ended; `None` if they are not known.
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
        assert_eq!(record.fates(), fates(5, 2, 1, 2), "108 and 109 were not written to a socket");
        record.find(108);
        assert_eq!(record.fates(), fates(6, 1, 1, 2), "108 arrived nevertheless");
    }

    #[test]
    fn two_answers_to_one_trigger_are_found_twice() {
        let record = FragmentRecord::new(0.0);
        [7, 8, 8, 9].into_iter().for_each(|number| record.answer(number, true));
        [7, 8, 8].into_iter().for_each(|number| record.find(number));
        assert_eq!(record.fates(), fates(3, 0, 0, 1));
        record.find(8);
        assert_eq!(record.fates(), None, "there was no third answer");
    }

    #[test]
    fn overwritten_answers_keep_their_fates() {
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
        assert_eq!(record.fates(), None, "its entry was overwritten");
    }

    #[test]
    fn fates_are_exact_while_board_and_receiver_run_at_once() {
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
