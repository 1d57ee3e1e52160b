//! Reads words from a unit that may be in several slices.
//!
//! ```text
//!  slices  |........|...|............|      here(): the rest of the current slice
//!  words   |  0  |  1  |  2  | …            word(): the next one, joined if it is in two slices
//! ```
//! A unit in one slice is not copied. In a chain, only words across two slices are copied.

use thalweg_data::{Leases, Slice};

/// Reads a unit from its start to its end.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    leases: &'a Leases,
    /// Slices behind the current one.
    rest: &'a [Slice],
    current: Slice,
    bytes: &'a [u8],
    /// Bytes behind the current slice.
    beyond: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `chain`; `None` if it is empty.
    pub fn new(chain: &'a [Slice], leases: &'a Leases) -> Option<Cursor<'a>> {
        let (first, rest) = chain.split_first()?;
        let beyond = rest.iter().map(|slice| slice.length as usize).sum();
        Some(Cursor { leases, rest, current: *first, bytes: leases.bytes(*first), beyond })
    }

    /// Number of bytes left in the unit.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() + self.beyond
    }

    /// Bytes left in the current slice; empty only at the unit's end.
    #[inline]
    pub fn here(&mut self) -> &'a [u8] {
        while self.bytes.is_empty() && self.next_slice() {}
        self.bytes
    }

    fn next_slice(&mut self) -> bool {
        let Some((first, rest)) = self.rest.split_first() else { return false };
        (self.current, self.rest) = (*first, rest);
        self.bytes = self.leases.bytes(*first);
        self.beyond -= self.bytes.len();
        true
    }

    /// Skips bytes, at most as many as [`Cursor::here`] returned.
    #[inline]
    pub fn skip_here(&mut self, bytes: usize) {
        self.bytes = self.bytes.get(bytes..).unwrap_or(&[]);
    }

    /// Prefetches the header `bytes` ahead, which will be read soon; it may be on two cache lines.
    #[inline(always)]
    pub fn expect_at(&self, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch is a hint that cannot fault, whatever the address; the instruction is in every x86-64.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.bytes.as_ptr().wrapping_add(bytes);
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
            _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(64).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = bytes;
    }

    /// The next word; `None` if fewer than eight bytes are left.
    #[inline]
    pub fn word(&mut self) -> Option<u64> {
        if let Some((word, rest)) = self.bytes.split_first_chunk::<8>() {
            self.bytes = rest;
            return Some(u64::from_be_bytes(*word));
        }
        self.word_across_slices()
    }

    #[cold]
    fn word_across_slices(&mut self) -> Option<u64> {
        if self.remaining() < 8 {
            return None;
        }
        let mut scratch = [0; 8];
        let mut filled = 0;
        while filled < 8 {
            let here = self.here();
            let taken = here.len().min(8 - filled);
            scratch[filled..filled + taken].copy_from_slice(&here[..taken]);
            self.skip_here(taken);
            filled += taken;
        }
        Some(u64::from_be_bytes(scratch))
    }

    /// Skips bytes; `None` if the unit has fewer left.
    pub fn skip(&mut self, bytes: usize) -> Option<()> {
        let mut left = bytes;
        while left > 0 {
            let here = self.here().len().min(left);
            if here == 0 {
                return None;
            }
            self.skip_here(here);
            left -= here;
        }
        Some(())
    }

    /// Appends the slices of the next `bytes` as a chain and skips them. If the unit has fewer bytes left, or the chain
    /// would have more than 65535 slices, nothing is appended and `None` is returned.
    pub fn take(&mut self, bytes: usize, slices: &mut Vec<Slice>) -> Option<u16> {
        if self.remaining() < bytes {
            return None;
        }
        let first = slices.len();
        let mut wanted = bytes;
        while wanted > 0 {
            let here = self.here().len();
            let taken = here.min(wanted);
            let start = self.current.length as usize - here;
            let part = self.current.part(start, taken)?;
            wanted -= taken;
            slices.push(part.tagged(if wanted > 0 { Slice::CONTINUES } else { 0 }));
            self.skip_here(taken);
        }
        let count = u16::try_from(slices.len() - first).ok();
        if count.is_none() {
            slices.truncate(first);
        }
        count
    }
}
