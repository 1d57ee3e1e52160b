//! Ranges of triggers in order, found by their first trigger.
//!
//! ```text
//!  insert(range) ─► [ 0‥64 | 64‥128 | 192‥256 ] ─► find(64), containing(200), remove(0)
//! ```
//! There are few at a time (credits bound them), they come and go nearly in order, and so a sorted ring is both the
//! simplest and the fastest table.

use std::collections::VecDeque;

/// Something that stands for a range of triggers.
pub(super) trait Ranged {
    /// First trigger.
    fn start(&self) -> u64;
    /// First trigger behind it.
    fn end(&self) -> u64;
}

impl<T: Ranged> Ranged for Box<T> {
    fn start(&self) -> u64 {
        T::start(self)
    }
    fn end(&self) -> u64 {
        T::end(self)
    }
}

/// Disjoint ranges in the order of their first triggers.
#[derive(Debug)]
pub(super) struct Ranges<T>(VecDeque<T>);

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges(VecDeque::new())
    }
}

impl<T: Ranged> Ranges<T> {
    fn position(&self, start: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&start, T::start)
    }

    /// The range that starts there.
    pub fn find(&mut self, start: u64) -> Option<&mut T> {
        let position = self.position(start).ok()?;
        self.0.get_mut(position)
    }

    /// The range that starts there, to look at.
    pub fn get(&self, start: u64) -> Option<&T> {
        self.0.get(self.position(start).ok()?)
    }

    /// The range that a trigger lies in.
    pub fn containing(&self, trigger: u64) -> Option<&T> {
        let position = match self.position(trigger) {
            Ok(position) => position,
            Err(position) => position.checked_sub(1)?,
        };
        self.0.get(position).filter(|range| trigger < range.end())
    }

    /// Returns whether a range overlaps, in part or wholly, one that is here.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        let next = self.position(start).unwrap_or_else(|position| position);
        let before = next.checked_sub(1).and_then(|position| self.0.get(position));
        before.is_some_and(|range| range.end() > start)
            || self.0.get(next).is_some_and(|range| range.start() < end)
    }

    /// Puts a range at its position; one with the same start is replaced and returned.
    pub fn insert(&mut self, range: T) -> Option<T> {
        if self.0.back().is_none_or(|last| last.start() < range.start()) {
            self.0.push_back(range);
            return None;
        }
        match self.position(range.start()) {
            Ok(position) => Some(std::mem::replace(&mut self.0[position], range)),
            Err(position) => {
                self.0.insert(position, range);
                None
            }
        }
    }

    /// Takes a range out.
    pub fn remove(&mut self, start: u64) -> Option<T> {
        let position = self.position(start).ok()?;
        self.0.remove(position)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    /// Takes out every range that `leaves` names, into `out`.
    pub fn take_where(&mut self, mut leaves: impl FnMut(&T) -> bool, mut out: impl FnMut(T)) {
        let mut position = 0;
        while position < self.0.len() {
            if leaves(&self.0[position]) {
                self.0.remove(position).into_iter().for_each(&mut out);
            } else {
                position += 1;
            }
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Span(u64, u64);
    impl Ranged for Span {
        fn start(&self) -> u64 {
            self.0
        }
        fn end(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn ranges_are_found_however_they_came() {
        let mut ranges = Ranges::default();
        for (start, end) in [(64, 128), (0, 64), (192, 256)] {
            assert!(ranges.insert(Span(start, end)).is_none());
        }
        assert_eq!(ranges.containing(63), Some(&Span(0, 64)));
        assert_eq!(ranges.containing(128), None);
        assert!(ranges.overlaps(100, 150) && ranges.overlaps(150, 200) && ranges.overlaps(70, 71));
        assert!(!ranges.overlaps(128, 192) && !ranges.overlaps(256, 300));
        assert_eq!(ranges.remove(64), Some(Span(64, 128)));
        assert_eq!(ranges.insert(Span(0, 32)), Some(Span(0, 64)));
        assert_eq!(ranges.len(), 2);
    }
}
