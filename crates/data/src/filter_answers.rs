//! The answers of an event filter: given event by event, and read at any time by the thread that waits for them.
//!
//! ```text
//!  worker: EventFilter ─► Answers ── a store per event ──► AnswerSheet ◄── a load ── the recorder's thread, once a deadline has passed
//!                                    keep reject keep …   [1 0 1 · · · ·]           "the worker is at the fourth"
//! ```
//! A worker that hangs or panics so costs the event that it is at: what it has answered before counts.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::event::{Event, Events};

/// No answer yet.
const OPEN: u8 = 0;
const REJECT: u8 = 1;
const KEEP: u8 = 2;

/// The answers to some events of a batch that follow each other.
#[derive(Debug, Default)]
pub struct AnswerSheet {
    first: usize,
    answers: Vec<AtomicU8>,
}

impl AnswerSheet {
    /// A sheet for these events of a batch, by their index; none is answered.
    pub fn of(events: Range<usize>) -> AnswerSheet {
        let mut sheet = AnswerSheet::default();
        sheet.reset(events);
        sheet
    }

    /// Makes it one for these events. Its memory is used again.
    pub fn reset(&mut self, events: Range<usize>) {
        self.first = events.start;
        self.answers.clear();
        self.answers.resize_with(events.len(), AtomicU8::default);
    }

    /// The events that it is for.
    pub fn events(&self) -> Range<usize> {
        self.first..self.first + self.answers.len()
    }

    /// Whether an event is kept; `None` if it has no answer.
    pub fn get(&self, event: usize) -> Option<bool> {
        let answer = self.answers.get(event.checked_sub(self.first)?)?;
        // The answer is all that is handed over, so nothing has to be ordered with it.
        match answer.load(Ordering::Relaxed) {
            OPEN => None,
            answer => Some(answer == KEEP),
        }
    }

    /// The first event without an answer from this one on; where all have one, the end.
    pub fn next_open(&self, from: usize) -> usize {
        let mut later = from.max(self.first)..self.events().end;
        later.find(|event| self.get(*event).is_none()).unwrap_or(self.events().end)
    }

    /// For the filter that answers.
    pub fn answers(&self) -> Answers<'_> {
        Answers { sheet: self, given: 0 }
    }
}

/// The end at which an event filter gives its answers.
#[derive(Debug)]
pub struct Answers<'s> {
    sheet: &'s AnswerSheet,
    given: usize,
}

impl Answers<'_> {
    /// The events that are still to be decided, by their index in the batch.
    pub fn due(&self) -> Range<usize> {
        let events = self.sheet.events();
        events.start + self.given..events.end
    }

    /// The same events.
    pub fn due_of<'e>(&self, batch: &'e Events) -> &'e [Event] {
        batch.events.get(self.due()).unwrap_or_default()
    }

    /// Answers for the first event that is due. An answer beyond the last event is ignored.
    #[inline]
    pub fn give(&mut self, keep: bool) {
        if let Some(answer) = self.sheet.answers.get(self.given) {
            answer.store(if keep { KEEP } else { REJECT }, Ordering::Relaxed);
            self.given += 1;
        }
    }

    /// Answers for events as they are due.
    pub fn give_each(&mut self, keep: impl IntoIterator<Item = bool>) {
        keep.into_iter().for_each(|keep| self.give(keep));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_seen_as_soon_as_it_is_given() {
        let batch = Events {
            events: (0..7).map(|trigger| Event { trigger, ..Event::default() }).collect(),
            ..Events::default()
        };
        let sheet = AnswerSheet::of(3..7);
        let mut answers = sheet.answers();
        assert_eq!((sheet.next_open(0), answers.due()), (3, 3..7));
        answers.give(true);
        answers.give(false);
        let seen: Vec<Option<bool>> = (0..8).map(|event| sheet.get(event)).collect();
        assert_eq!(seen, [None, None, None, Some(true), Some(false), None, None, None]);
        assert_eq!((sheet.next_open(0), answers.due()), (5, 5..7));
        let triggers: Vec<u64> = answers.due_of(&batch).iter().map(|event| event.trigger).collect();
        assert_eq!(triggers, [5, 6]);
        answers.give_each([true; 5]);
        assert_eq!((sheet.next_open(0), answers.due()), (7, 7..7));
        assert_eq!(sheet.get(7), None, "an answer too many is ignored");
    }

    #[test]
    fn a_sheet_that_is_used_again_has_no_answers() {
        let mut sheet = AnswerSheet::of(0..3);
        sheet.answers().give_each([true; 3]);
        sheet.reset(1..5);
        assert!((0..6).all(|event| sheet.get(event).is_none()));
        assert_eq!((sheet.next_open(0), sheet.events()), (1, 1..5));
    }

    #[test]
    fn a_batch_of_fewer_events_than_the_sheet_has_none_due() {
        assert_eq!(AnswerSheet::of(0..3).answers().due_of(&Events::default()), []);
    }

    #[test]
    fn another_thread_sees_answers_in_their_order_while_they_are_given() {
        const EVENTS: usize = 20_000;
        let sheet = AnswerSheet::of(0..EVENTS);
        std::thread::scope(|scope| {
            scope.spawn(|| sheet.answers().give_each((0..EVENTS).map(|event| event % 3 == 0)));
            let mut next = 0;
            while next < EVENTS {
                let open = sheet.next_open(next);
                assert!((next..open).all(|event| sheet.get(event) == Some(event % 3 == 0)));
                next = open;
                std::thread::yield_now();
            }
        });
    }
}
