//! Send records: an emulated board notes each datagram, so that its receiver can count the missing ones.
//!
//! ```text
//!  sender   ─ one store each ─► datagram n: its position │ frame n: hits up to its end      rings of the latest entries
//!  receiver ─ find(position) ─► n: the datagrams before it are missing ─ hits_between(frames) ─► hits in them
//! ```
//! Sender and receiver are two threads, and neither waits for the other. If the receiver needs an entry that was overwritten, the
//! numbers are not known, and stay unknown for the rest of the run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most entries of each ring: eight seconds of the fastest board, which sends 130 000 datagrams a second.
const MOST_ENTRIES: usize = 1 << 20;
/// Fewest entries, of a board that sends little.
const FEWEST_ENTRIES: usize = 1 << 12;
/// How far a receiver may fall behind, seconds: the content of a full socket, or a delay on a busy machine.
const REACH_S: f64 = 8.0;

/// An atomic on its own cache lines, because two threads write next to each other.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart(pub(crate) AtomicU64);

/// A ring of the latest entries, which are numbered from 0.
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
        // Release: a reader that sees this value also sees the count before it, and so that the older entry was overwritten.
        self.entry(count).store(value, Ordering::Release);
        self.count.0.store(count + 1, Ordering::Release);
    }

    fn count(&self) -> u64 {
        self.count.0.load(Ordering::Acquire)
    }

    /// `None` for an entry that is not written yet, or was overwritten.
    fn get(&self, number: u64) -> Option<u64> {
        if number >= self.count() {
            return None;
        }
        let value = self.entry(number).load(Ordering::Acquire);
        // The sender may overwrite the entry once the ring is full of later ones.
        (self.count() < number + self.entries.len() as u64).then_some(value)
    }
}

/// The result of a search for a datagram among those that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Its number, counted from 0.
    At(u64),
    /// No such datagram was sent.
    Nowhere,
    /// The record does not reach back so far.
    Forgotten,
}

/// How much was sent up to the last datagram that was received, and how much after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentCounts {
    /// Datagrams up to the last received one.
    pub datagrams: u64,
    /// Datagrams after it.
    pub datagrams_behind: u64,
    /// Hits in frames up to the last received one.
    pub hits: u64,
    /// Hits in frames after it.
    pub hits_behind: u64,
}

/// The record of one sender. The sender's thread writes what it sends, the receiver's thread what it has received.
pub struct SentRecord {
    /// For each datagram, its position as the receiver knows it.
    datagrams: Ring,
    /// For each frame, how many hits were sent up to its end.
    frames: Ring,
    received_datagrams: Apart,
    received_frames: Apart,
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

    /// Memory of a record made by [`SentRecord::new`] for this rate, bytes.
    pub fn memory_bytes(rate_hz: f64) -> u64 {
        (2 * SentRecord::entries(rate_hz) * size_of::<AtomicU64>()) as u64
    }

    /// The record of a sender that sends about `rate_hz` datagrams, or frames, per second.
    pub fn new(rate_hz: f64) -> SentRecord {
        let entries = SentRecord::entries(rate_hz);
        SentRecord {
            datagrams: Ring::new(entries),
            frames: Ring::new(entries),
            received_datagrams: Apart(AtomicU64::new(0)),
            received_frames: Apart(AtomicU64::new(0)),
            is_unknown: AtomicBool::new(false),
        }
    }

    /// Notes that the sender sends a datagram with this position.
    #[inline]
    pub fn send_datagram(&self, position: u64) {
        self.datagrams.push(position);
    }

    /// Notes that the sender ends a frame, and that `hits_until` hits were sent up to its end.
    #[inline]
    pub fn end_frame(&self, hits_until: u64) {
        self.frames.push(hits_until);
    }

    /// Notes that the sender discarded its latest `frames` frames, and that `hits_until` hits were sent before them.
    pub fn discard_frames(&self, frames: u64, hits_until: u64) {
        let count = self.frames.count();
        for number in count.saturating_sub(frames)..count {
            self.frames.entry(number).store(hits_until, Ordering::Release);
        }
    }

    /// Number of frames ended.
    pub fn frames(&self) -> u64 {
        self.frames.count()
    }

    /// Number of datagrams sent.
    pub fn datagrams(&self) -> u64 {
        self.datagrams.count()
    }

    /// Whether datagram `number`, which must have been sent, has this position. `false` if its entry was overwritten, since later datagrams
    /// have other positions.
    #[inline]
    pub fn is_at(&self, number: u64, position: u64) -> bool {
        self.datagrams.entry(number).load(Ordering::Acquire) == position
    }

    /// Finds the datagram with this position among those from number `from` on.
    pub fn find(&self, from: u64, position: u64) -> Sought {
        for number in from..self.datagrams.count() {
            match self.datagrams.get(number) {
                Some(found) if found == position => return Sought::At(number),
                Some(_) => {}
                None => return Sought::Forgotten,
            }
        }
        Sought::Nowhere
    }

    /// Number of hits in the frames from number `first` on and before number `end`; `None` if the record does not contain them.
    pub fn hits_between(&self, first: u64, end: u64) -> Option<u64> {
        let until = |number: u64| match number {
            0 => Some(0),
            number => self.frames.get(number - 1),
        };
        until(end)?.checked_sub(until(first)?)
    }

    /// Notes that the receiver has followed the sequence up to these numbers.
    pub fn receive_up_to(&self, datagrams: u64, frames: u64) {
        self.received_datagrams.0.store(datagrams, Ordering::Release);
        self.received_frames.0.store(frames, Ordering::Release);
    }

    /// Notes that an unknown amount was lost, so that the counts stay unknown.
    #[cold]
    pub fn give_up(&self) {
        self.is_unknown.store(true, Ordering::Release);
    }

    /// The counts, after sender and receiver have ended; `None` if they are not known.
    pub fn slot(&self) -> Option<SentCounts> {
        if self.is_unknown.load(Ordering::Acquire) {
            return None;
        }
        let (datagrams, frames) = (
            self.received_datagrams.0.load(Ordering::Acquire),
            self.received_frames.0.load(Ordering::Acquire),
        );
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
    fn hits_between_two_datagrams_are_counted_from_the_record() {
        let record = SentRecord::new(0.0);
        (0..10).for_each(|number| record.send_datagram(100 + number));
        assert_eq!((record.find(3, 107), record.find(3, 102)), (Sought::At(7), Sought::Nowhere));
        [5, 9, 9, 20].into_iter().for_each(|hits| record.end_frame(hits));
        assert_eq!((record.hits_between(0, 2), record.hits_between(1, 4)), (Some(9), Some(15)));
        assert_eq!(record.hits_between(1, 5), None, "frame 4 has not ended");
        record.receive_up_to(8, 3);
        let slot = SentCounts { datagrams: 8, datagrams_behind: 2, hits: 9, hits_behind: 11 };
        assert_eq!(record.slot(), Some(slot));
        record.discard_frames(1, 9);
        assert_eq!(record.slot(), Some(SentCounts { hits_behind: 0, ..slot }));
        record.give_up();
        assert_eq!(record.slot(), None);
    }

    #[test]
    fn overwritten_entries_are_forgotten() {
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
