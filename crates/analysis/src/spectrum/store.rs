//! The bins themselves: written by one thread, read by any, without a lock.
//!
//! ```text
//!  Filler (one thread) ── plain load, add, store ──► bins ◄── plain load ── page, export, plot
//!                                                       └ a bin that is full carries over
//! ```
//! A bin is 32 bits wide, so that twice as many stay in the cache; when one is full, which takes four thousand million hits, the carry is
//! kept beside. As long as one thread writes, a load and a store are as good as an atomic addition, and cost as little as
//! plain memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use thalweg_data::cells::Cells;
use thalweg_data::prefetch::prefetch;

/// Counts that are no bins.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Everything that was binned, outside included.
    pub entries: AtomicU64,
    /// Below the first axis, above it, and outside the second.
    pub below: AtomicU64,
    pub above: AtomicU64,
    pub beside: AtomicU64,
    /// How often it was emptied: a filler's answer to what is asked.
    pub emptied: AtomicU32,
}

impl Totals {
    /// Adds as the only writer.
    #[inline(always)]
    pub fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Adds those of others, which are zero then.
    fn take(&self, from: &Totals) {
        let pairs = [
            (&self.entries, &from.entries),
            (&self.below, &from.below),
            (&self.above, &from.above),
            (&self.beside, &from.beside),
        ];
        for (to, from) in pairs {
            Totals::add(to, from.swap(0, Ordering::Relaxed));
        }
    }

    fn clear(&self) {
        let counters = [&self.entries, &self.below, &self.above, &self.beside];
        counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// All bins that one thread fills.
#[derive(Debug)]
pub(super) struct Store {
    bins: Cells,
    /// By spectrum.
    pub totals: Box<[Totals]>,
    /// Full bins: how many times 2³².
    carried: Mutex<HashMap<usize, u64>>,
}

impl Store {
    /// Empty bins.
    pub fn new(bins: usize, spectra: usize) -> Store {
        Store {
            bins: Cells::new(bins),
            totals: (0..spectra).map(|_| Totals::default()).collect(),
            carried: Mutex::default(),
        }
    }

    /// One more in a bin, as the only writer.
    #[inline(always)]
    pub fn count(&self, bin: usize) {
        self.count_all(&[bin as u32], |_, _| {});
    }

    /// One more in each of these bins, as the only writer; `outside` is called for each that is no bin, with its place in the list.
    #[inline(always)]
    pub fn count_all(&self, bins: &[u32], mut outside: impl FnMut(usize, u32)) {
        // Found once: behind each store to a bin it could be another for all that the compiler knows.
        let cells: &[AtomicU32] = &self.bins;
        for (index, bin) in bins.iter().enumerate() {
            let Some(cell) = cells.get(*bin as usize) else {
                outside(index, *bin);
                continue;
            };
            let next = cell.load(Ordering::Relaxed).wrapping_add(1);
            cell.store(next, Ordering::Relaxed);
            if next == 0 {
                self.carry(*bin as usize);
            }
        }
    }

    /// Asks the memory for bins that are counted in soon; what is no place of a bin is left out.
    #[inline(always)]
    pub fn expect(&self, bins: &[u32]) {
        let cells: &[AtomicU32] = &self.bins;
        bins.iter().filter_map(|bin| cells.get(*bin as usize)).for_each(prefetch);
    }

    #[cold]
    fn carry(&self, bin: usize) {
        *self.carried.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).entry(bin).or_default() += 1;
    }

    /// Adds the counts of some bins to `counts`.
    pub fn read(&self, bins: Range<usize>, counts: &mut [u64]) {
        for (count, cell) in counts.iter_mut().zip(&self.bins[bins.clone()]) {
            *count += u64::from(cell.load(Ordering::Relaxed));
        }
        let carried = self.carried.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (bin, times) in carried.iter().filter(|(bin, _)| bins.contains(bin)) {
            counts[bin - bins.start] += times << 32;
        }
    }

    /// Adds the counts of one spectrum to another of the same shape, as the only writer; the first is empty then.
    /// Whether there was anything in it.
    pub fn pour(
        &self,
        (from, from_bins): (usize, Range<usize>),
        (to, to_bins): (usize, Range<usize>),
    ) -> bool {
        if self.totals[from].entries.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut carried = self.carried.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (from, to) in from_bins.zip(to_bins) {
            let more = u64::from(self.bins[from].load(Ordering::Relaxed));
            let more = more + if carried.is_empty() { 0 } else { carried.remove(&from).unwrap_or(0) << 32 };
            // Most bins of a plane are empty.
            if more == 0 {
                continue;
            }
            let sum = u64::from(self.bins[to].load(Ordering::Relaxed)) + more;
            self.bins[from].store(0, Ordering::Relaxed);
            self.bins[to].store(sum as u32, Ordering::Relaxed);
            if sum >> 32 > 0 {
                *carried.entry(to).or_default() += sum >> 32;
            }
        }
        self.totals[to].take(&self.totals[from]);
        true
    }

    /// Empties one spectrum, as the only writer.
    pub fn clear(&self, spectrum: usize, bins: Range<usize>, asked: u32) {
        self.bins[bins.clone()].iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
        let mut carried = self.carried.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        carried.retain(|bin, _| !bins.contains(bin));
        self.totals[spectrum].clear();
        self.totals[spectrum].emptied.store(asked, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bin_carries_over() {
        let store = Store::new(4, 1);
        store.bins[2].store(u32::MAX, Ordering::Relaxed);
        store.count(2);
        store.count(2);
        let mut counts = vec![0; 3];
        store.read(1..4, &mut counts);
        assert_eq!(counts, [0, (1 << 32) + 1, 0]);
        store.clear(0, 1..4, 1);
        let mut counts = vec![0; 3];
        store.read(1..4, &mut counts);
        assert_eq!(counts, [0, 0, 0]);
    }

    #[test]
    fn a_spectrum_that_is_added_to_another_takes_what_was_carried_along() {
        let store = Store::new(4, 2);
        let read = |bins: Range<usize>| {
            let mut counts = vec![0; bins.len()];
            store.read(bins, &mut counts);
            counts
        };
        assert!(!store.pour((1, 2..4), (0, 0..2)), "there is nothing in it");
        for bin in [0, 2] {
            store.bins[bin].store(u32::MAX, Ordering::Relaxed);
        }
        [2, 2, 3].iter().for_each(|bin| store.count(*bin));
        Totals::add(&store.totals[0].entries, u64::from(u32::MAX));
        Totals::add(&store.totals[1].entries, u64::from(u32::MAX) + 3);
        assert_eq!(read(2..4), [(1 << 32) + 1, 1]);
        assert!(store.pour((1, 2..4), (0, 0..2)));
        assert_eq!((read(0..2), read(2..4)), (vec![(2 << 32), 1], vec![0, 0]));
        let entries = |spectrum: usize| store.totals[spectrum].entries.load(Ordering::Relaxed);
        assert_eq!((entries(0), entries(1)), (2 * u64::from(u32::MAX) + 3, 0));
    }
}
