//! Large arrays of counters, in memory that is fast to access at random.
//!
//! ```text
//!  counters of all spectra, hundreds of MiB ─► huge pages ─► a few hundred pages instead of a hundred thousand
//! ```
//! Each hit increments one bin somewhere in hundreds of MiB. With pages of 4 KiB, nearly every increment would miss the TLB.

use std::ops::Deref;
use std::sync::atomic::AtomicU32;

use memmap2::MmapRaw;

use crate::memory::{HugePages, Memory, resident};

/// Counters that start at zero; any thread can read and write them.
#[derive(Debug)]
pub struct Cells(Inner);

#[derive(Debug)]
enum Inner {
    Mapped {
        map: MmapRaw,
        length: usize,
    },
    /// For few counters, or if the system refuses the mapping.
    Boxed(Box<[AtomicU32]>),
}

impl Cells {
    /// `length` counters. Their memory is touched here, so that no page fault can fail later.
    pub fn new(length: usize) -> Cells {
        let memory = Memory { huge_pages: HugePages::Try, ..Memory::default() };
        let bytes = length.saturating_mul(size_of::<AtomicU32>());
        let mapped =
            (bytes >= crate::memory::HUGE_PAGE_BYTES).then(|| resident(bytes, memory).ok()).flatten();
        match mapped {
            Some(resident) => Cells(Inner::Mapped { map: resident.map, length }),
            None => Cells(Inner::Boxed((0..length).map(|_| AtomicU32::new(0)).collect())),
        }
    }

    /// The counters as plain numbers, for whoever has them alone.
    #[inline(always)]
    pub fn numbers_mut(&mut self) -> &mut [u32] {
        let (first, length) = (self.as_ptr().cast_mut().cast::<u32>(), self.len());
        // SAFETY: these are the counters of the slice that `deref` gives, `AtomicU32` has the layout of `u32`, both kinds of memory may be
        // written through this pointer, as their counters are, and `self` is borrowed alone for as long as the numbers are.
        unsafe { std::slice::from_raw_parts_mut(first, length) }
    }
}

impl Deref for Cells {
    type Target = [AtomicU32];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU32] {
        match &self.0 {
            // SAFETY: the mapping is page-aligned, at least `length` counters long, zeroed, and lives as long as `self`; it is
            // reached through atomics only.
            Inner::Mapped { map, length } => unsafe {
                std::slice::from_raw_parts(map.as_ptr().cast::<AtomicU32>(), *length)
            },
            Inner::Boxed(cells) => cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn few_and_many_counters_begin_at_zero_and_count() {
        for length in [0, 3, 1 << 20] {
            let mut cells = Cells::new(length);
            assert_eq!(cells.len(), length);
            assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 0));
            if let Some(last) = cells.last() {
                last.fetch_add(7, Ordering::Relaxed);
                assert_eq!(cells[length - 1].load(Ordering::Relaxed), 7);
            }
            let numbers = cells.numbers_mut();
            assert_eq!(numbers.len(), length);
            if let Some(first) = numbers.first_mut() {
                *first = 8;
                assert_eq!(cells[0].load(Ordering::Relaxed), 8);
            }
        }
    }
}
