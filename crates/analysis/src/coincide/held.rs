//! Hits that wait for what comes after them, and how many different ones they are.
//!
//! ```text
//!  places     head                          len
//!   … gone │ hit hit hit hit hit hit hit hit │
//! ```
//! Places grow for ever; memory does not: what is before `head` is given up in chunks.

use thalweg_data::Hit;

/// Hits gone before their memory is used again.
const COMPACT_AT: usize = 4096;

/// Hits that wait at a time, at most: 24 MiB of them. Who needs more is decided with what is known.
pub(super) const MOST_WAITING: usize = 1 << 20;

/// A hit that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub hit: Hit,
    pub element: u16,
    /// Who sent it.
    pub source: u16,
    /// It may be partner of a reference; it is one.
    pub is_other: bool,
    pub is_reference: bool,
    /// It stands in an event.
    pub kept: bool,
}

/// Waiting hits in the order of their times, found by their place in the stream.
#[derive(Debug, Default)]
pub(super) struct Held {
    hits: Vec<Waiting>,
    /// Place of the first in `hits`.
    base: u64,
    /// Place of the first that still waits.
    head: u64,
}

impl Held {
    pub fn push(&mut self, waiting: Waiting) {
        self.hits.push(waiting);
    }

    /// Place of the first that waits.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Place behind the last.
    pub fn end(&self) -> u64 {
        self.base + self.hits.len() as u64
    }

    #[inline]
    pub fn at(&self, place: u64) -> &Waiting {
        &self.hits[(place - self.base) as usize]
    }

    pub fn range(&self, from: u64, until: u64) -> &[Waiting] {
        &self.hits[(from - self.base) as usize..(until - self.base) as usize]
    }

    pub fn range_mut(&mut self, from: u64, until: u64) -> &mut [Waiting] {
        &mut self.hits[(from - self.base) as usize..(until - self.base) as usize]
    }

    /// Those that wait.
    pub fn waiting(&self) -> &[Waiting] {
        self.range(self.head, self.end())
    }

    /// Lets everything before `place` go, and reports each.
    pub fn release(&mut self, place: u64, mut gone: impl FnMut(&Waiting)) {
        while self.head < place {
            gone(self.at(self.head));
            self.head += 1;
        }
        let before = (self.head - self.base) as usize;
        if before == self.hits.len() {
            self.hits.clear();
            self.base = self.head;
        } else if before >= COMPACT_AT && before * 2 >= self.hits.len() {
            self.hits.copy_within(before.., 0);
            self.hits.truncate(self.hits.len() - before);
            self.base = self.head;
        }
    }
}

/// How many hits of each element are in a window, and how many elements that are.
#[derive(Debug)]
pub(super) struct Distinct {
    count: Box<[u32]>,
    different: usize,
}

impl Distinct {
    pub fn new(elements: usize) -> Distinct {
        Distinct { count: vec![0; elements].into(), different: 0 }
    }

    #[inline]
    pub fn enter(&mut self, element: u16) {
        let count = &mut self.count[usize::from(element)];
        self.different += usize::from(*count == 0);
        *count += 1;
    }

    #[inline]
    pub fn leave(&mut self, element: u16) {
        let count = &mut self.count[usize::from(element)];
        *count -= 1;
        self.different -= usize::from(*count == 0);
    }

    #[inline]
    pub fn different(&self) -> usize {
        self.different
    }
}
