//! Send records: an emulated board notes each datagram, so that its receiver can count the missing ones.
//!
//! ```text
//!  sender   ─ one store each ─► datagram n: its place │ frame n: hits until it      rings of the latest so many
//!  receiver ─ find(place) ─► n: what lies before it is missing ─ hits_between(frames) ─► what was in it
//! ```
//! Sender and receiver are two threads, and neither waits for the other. What the rings no longer reach back to is not known, and the
//! record says so for good.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most entries of each ring: two seconds of the fastest board.
const MOST_ENTRIES: usize = 1 << 18;
/// Fewest entries, of a board that sends little.
const FEWEST_ENTRIES: usize = 1 << 12;
/// So long a receiver may be behind, seconds: what a full socket holds, or a busy machine makes of it.
const REACH_S: f64 = 8.0;

/// In lines of the cache of its own: two threads write side by side.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart(pub(crate) AtomicU64);

/// A ring of the latest entries, by number from the first on.
struct Ring {
    entries: Box<[AtomicU64]>,
    count: Apart,
}

impl Ring {
    fn new(entries: usize) -> Ring {
        Ring { entries: (0..entries).map(|_| AtomicU64::new(0)).collect(), count: Apart(AtomicU64::new(0)) }
    }

    fn entry(&self, number: u64) -> &AtomicU64 {
        &self.entries[number as usize & (self.entries.len() - 1)]
    }

    #[inline]
    fn push(&self, value: u64) {
        let count = self.count.0.load(Ordering::Relaxed);
        // Behind the count of before, by which a reader sees that the entry is another one from now on.
        self.entry(count).store(value, Ordering::Release);
        self.count.0.store(count + 1, Ordering::Release);
    }

    fn count(&self) -> u64 {
        self.count.0.load(Ordering::Acquire)
    }

    /// `None` of one that is not there yet, or not any more.
    fn get(&self, number: u64) -> Option<u64> {
        if number >= self.count() {
            return None;
        }
        let value = self.entry(number).load(Ordering::Acquire);
        // The place may be written again as soon as so many stand behind it.
        (self.count() < number + self.entries.len() as u64).then_some(value)
    }
}

/// Where a datagram stands among those that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// It is this one, from the first on.
    At(u64),
    /// None like it was sent.
    Nowhere,
    /// The record does not reach back so far.
    Forgotten,
}

/// What became of everything that was sent, by the numbers of what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentCounts {
    /// Datagrams up to the last that came.
    pub datagrams: u64,
    /// Datagrams behind it.
    pub datagrams_behind: u64,
    /// Hits in frames up to the last that came.
    pub hits: u64,
    /// Hits in frames behind it.
    pub hits_behind: u64,
}

/// The record of one sender. One thread writes what it sends, one what it has received.
pub struct SentRecord {
    /// Of each datagram its place, as its receiver knows it.
    datagrams: Ring,
    /// Of each frame how many hits were sent until its end.
    frames: Ring,
    heard_datagrams: Apart,
    heard_frames: Apart,
    is_unknown: AtomicBool,
}

impl std::fmt::Debug for SentRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (datagrams, frames) = (self.datagrams.count(), self.frames.count());
        f.debug_struct("SentRecord").field("datagrams", &datagrams).field("frames", &frames).finish()
    }
}

impl SentRecord {
    fn entries(rate_hz: f64) -> usize {
        ((REACH_S * rate_hz) as usize).clamp(FEWEST_ENTRIES, MOST_ENTRIES).next_power_of_two()
    }

    /// Memory of the record of a sender that sends about so many datagrams a second, or frames.
    pub fn memory_bytes(rate_hz: f64) -> u64 {
        (2 * SentRecord::entries(rate_hz) * size_of::<AtomicU64>()) as u64
    }

    /// The record of a sender that sends about so many datagrams a second, or frames.
    pub fn new(rate_hz: f64) -> SentRecord {
        let entries = SentRecord::entries(rate_hz);
        SentRecord {
            datagrams: Ring::new(entries),
            frames: Ring::new(entries),
            heard_datagrams: Apart(AtomicU64::new(0)),
            heard_frames: Apart(AtomicU64::new(0)),
            is_unknown: AtomicBool::new(false),
        }
    }

    /// The sender sends a datagram that has this place.
    #[inline]
    pub fn send_datagram(&self, place: u64) {
        self.datagrams.push(place);
    }

    /// The sender ends a frame: so many hits were sent up to its end.
    #[inline]
    pub fn end_frame(&self, hits_until: u64) {
        self.frames.push(hits_until);
    }

    /// The latest frames were thrown away: so many hits were sent up to there.
    pub fn discard_frames(&self, frames: u64, hits_until: u64) {
        let count = self.frames.count();
        for number in count.saturating_sub(frames)..count {
            self.frames.entry(number).store(hits_until, Ordering::Release);
        }
    }

    /// Frames that were ended.
    pub fn frames(&self) -> u64 {
        self.frames.count()
    }

    /// Datagrams that were sent.
    pub fn datagrams(&self) -> u64 {
        self.datagrams.count()
    }

    /// Whether a datagram that was sent has this place. One that was sent long before and is forgotten has another.
    #[inline]
    pub fn is_at(&self, number: u64, place: u64) -> bool {
        self.datagrams.entry(number).load(Ordering::Acquire) == place
    }

    /// Finds a datagram among those from number `from` on.
    pub fn find(&self, from: u64, place: u64) -> Sought {
        for number in from..self.datagrams.count() {
            match self.datagrams.get(number) {
                Some(found) if found == place => return Sought::At(number),
                Some(_) => {}
                None => return Sought::Forgotten,
            }
        }
        Sought::Nowhere
    }

    /// How many hits were in the frames from number `first` on and before number `end`.
    pub fn hits_between(&self, first: u64, end: u64) -> Option<u64> {
        let until = |number: u64| match number {
            0 => Some(0),
            number => self.frames.get(number - 1),
        };
        until(end)?.checked_sub(until(first)?)
    }

    /// The receiver has followed the sequence up to these numbers.
    pub fn hear(&self, datagrams: u64, frames: u64) {
        self.heard_datagrams.0.store(datagrams, Ordering::Release);
        self.heard_frames.0.store(frames, Ordering::Release);
    }

    /// Something was lost of which nobody knows any more how much it was.
    #[cold]
    pub fn give_up(&self) {
        self.is_unknown.store(true, Ordering::Release);
    }

    /// Once both have ended; `None` where it is not known.
    pub fn slot(&self) -> Option<SentCounts> {
        if self.is_unknown.load(Ordering::Acquire) {
            return None;
        }
        let (datagrams, frames) =
            (self.heard_datagrams.0.load(Ordering::Acquire), self.heard_frames.0.load(Ordering::Acquire));
        Some(SentCounts {
            datagrams,
            datagrams_behind: self.datagrams.count().checked_sub(datagrams)?,
            hits: if frames == 0 { 0 } else { self.frames.get(frames - 1)? },
            hits_behind: self.hits_between(frames, self.frames.count())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_was_between_two_datagrams() {
        let record = SentRecord::new(0.0);
        (0..10).for_each(|place| record.send_datagram(100 + place));
        assert_eq!((record.find(3, 107), record.find(3, 102)), (Sought::At(7), Sought::Nowhere));
        [5, 9, 9, 20].into_iter().for_each(|hits| record.end_frame(hits));
        assert_eq!((record.hits_between(0, 2), record.hits_between(1, 4)), (Some(9), Some(15)));
        assert_eq!(record.hits_between(1, 5), None, "it has not ended");
        record.hear(8, 3);
        let slot = SentCounts { datagrams: 8, datagrams_behind: 2, hits: 9, hits_behind: 11 };
        assert_eq!(record.slot(), Some(slot));
        record.discard_frames(1, 9);
        assert_eq!(record.slot(), Some(SentCounts { hits_behind: 0, ..slot }));
        record.give_up();
        assert_eq!(record.slot(), None);
    }

    #[test]
    fn what_a_record_does_not_reach_back_to_is_not_known() {
        let record = SentRecord::new(0.0);
        let many = FEWEST_ENTRIES as u64 + 5;
        (0..many).for_each(|number| {
            record.send_datagram(number);
            record.end_frame(10 * (number + 1));
        });
        assert_eq!((record.find(4, many - 1), record.hits_between(5, many)), (Sought::Forgotten, None));
        assert_eq!(record.find(6, many - 1), Sought::At(many - 1));
        assert_eq!(record.hits_between(7, many), Some(10 * (many - 7)));
    }
}
