//! Where fragments wait: one column per source, one row per trigger.
//!
//! ```text
//!            source 0      source 1      source 2
//!  row 0   [ 4096 ▪ ]    [ 4096 ▪ ]    [ 2048 ▪ ]      trigger modulo depth finds the row;
//!  row 1   [ 2049 ▪ ]    [ 4097 ▪ ]    [ 2049 ▪ ]      the full number in the entry says whose it is
//! ```
//! An entry keeps its number after its fragment has left: the same comparison distinguishes a fragment that is here from a duplicate
//! of one that was, and from an older one whose row is free again. Holes cost nothing, and nothing is ever erased.

use thalweg_data::memory::prefer_huge_pages;
use thalweg_data::{Fragment, Slice};

/// What one source sent for one trigger: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Entry {
    /// The trigger's number, extended to 64 bits; [`NOTHING`] in an entry that was never used.
    pub trigger: u64,
    /// The board's own time of the trigger.
    pub ticks: u64,
    /// Its first slice; the tag names the next one in the table of chains, 0 when there is none, or is [`EMPTY`].
    pub slice: Slice,
}

/// In the tag of an entry's slice: the fragment has no bytes at all, such as an empty time slice.
pub(super) const EMPTY: u32 = u32::MAX;

/// A number that no trigger has.
pub(super) const NOTHING: u64 = u64::MAX;

impl Default for Entry {
    fn default() -> Entry {
        Entry { trigger: NOTHING, ticks: 0, slice: Slice::default() }
    }
}

/// Entries between neighbouring columns beyond the depth: one cache line, so that the same row of neighbouring columns
/// does not fall in the same set of a cache.
const PADDING: usize = 64 / size_of::<Entry>();

/// The columns of all sources, allocated once.
pub(super) struct Columns {
    entries: Vec<Entry>,
    stride: usize,
    mask: u64,
}

impl Columns {
    /// Columns for `sources` sources and `depth` triggers, a power of two.
    pub fn new(sources: usize, depth: usize) -> Columns {
        let stride = depth + PADDING;
        let mut entries = Vec::with_capacity(sources * stride);
        prefer_huge_pages(entries.spare_capacity_mut());
        entries.resize(sources * stride, Entry::default());
        Columns { entries, stride, mask: depth as u64 - 1 }
    }

    /// Memory that the columns take, in bytes.
    pub fn byte_size(sources: usize, depth: usize) -> usize {
        sources * (depth + PADDING) * size_of::<Entry>()
    }

    /// Row of a trigger.
    #[inline(always)]
    pub fn row(&self, trigger: u64) -> usize {
        (trigger & self.mask) as usize
    }

    /// The entry in which a source's fragment of this trigger would be.
    #[inline(always)]
    pub fn entry(&self, source: usize, trigger: u64) -> &Entry {
        &self.entries[source * self.stride + self.row(trigger)]
    }

    /// The same, to be written.
    #[inline(always)]
    pub fn entry_mut(&mut self, source: usize, trigger: u64) -> &mut Entry {
        let row = self.row(trigger);
        &mut self.entries[source * self.stride + row]
    }

    /// Up to `count` entries of a source from that trigger on, as far as they are neighbours.
    #[inline(always)]
    pub fn entries(&self, source: usize, trigger: u64, count: usize) -> &[Entry] {
        let row = self.row(trigger);
        let count = count.min(self.mask as usize + 1 - row);
        &self.entries[source * self.stride + row..][..count]
    }

    /// Writes the entries of fragments of one slice each that have consecutive numbers, of which the first stands for `trigger`, and
    /// returns how many: fewer than all at the first that does not follow, or is there already. The caller knows that their rows
    /// are neighbours.
    #[inline(always)]
    pub fn store_run(
        &mut self,
        source: usize,
        trigger: u64,
        fragments: &[Fragment],
        slices: &[Slice],
    ) -> usize {
        let row = self.row(trigger);
        let entries = &mut self.entries[source * self.stride + row..][..fragments.len()];
        let Some(&Fragment { trigger: first, source: id, .. }) = fragments.first() else { return 0 };
        let mut stored = 0;
        for ((entry, fragment), slice) in entries.iter_mut().zip(fragments).zip(slices) {
            let number = trigger + stored;
            let follows = fragment.trigger == first + stored && fragment.source == id && fragment.slices == 1;
            if !follows || entry.trigger == number {
                break;
            }
            *entry = Entry { trigger: number, ticks: fragment.ticks, slice: slice.tagged(0) };
            stored += 1;
        }
        stored as usize
    }

    /// Whether the source's fragment of this trigger is here, or was and its row is still free.
    #[inline]
    pub fn has(&self, source: usize, trigger: u64) -> bool {
        // A number before the first trigger of all can be that of an entry that was never used.
        self.entry(source, trigger).trigger == trigger && trigger != NOTHING
    }

    /// All rows of one source.
    #[inline(always)]
    pub fn of(&self, source: usize) -> &[Entry] {
        &self.entries[source * self.stride..][..self.mask as usize + 1]
    }

    /// Forgets all numbers, before a run.
    pub fn clear(&mut self) {
        self.entries.fill(Entry::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_entries_fill_a_cache_line() {
        assert_eq!((size_of::<Entry>(), align_of::<Entry>()), (32, 32));
    }

    #[test]
    fn a_row_is_that_of_one_trigger_at_a_time() {
        let mut columns = Columns::new(2, 16);
        columns.entry_mut(1, 17).trigger = 17;
        assert!(columns.has(1, 17));
        assert!(!columns.has(1, 1) && !columns.has(1, 33) && !columns.has(0, 17));
        columns.clear();
        assert!(!columns.has(1, 17));
        assert!(!columns.has(0, NOTHING), "an empty entry is nobody's");
    }
}
