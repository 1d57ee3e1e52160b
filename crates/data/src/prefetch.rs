//! Prefetch hints, which load a value into the cache before it is used.
//!
//! ```text
//!  link 7: receive, split ──────────────► link 8: receive, split
//!    └ prefetch(state of link 8) ···········┘ in the cache by then
//! ```
//! A thread that serves hundreds of links receives so many bytes between two visits to one link that the link's state, a dozen cache
//! lines, has left the cache. A dozen cache misses in sequence cost more than splitting the received bytes.

/// Size of a cache line, bytes.
const LINE_BYTES: usize = 64;
/// Most cache lines of one value that are prefetched.
const MOST_LINES: usize = 8;

/// Prefetches a value, or the first half KiB of a large one, without waiting. Costs a nanosecond per cache line. Does nothing on
/// processors other than x86-64.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_lines(std::ptr::from_ref(value).cast(), size_of_val(value).max(1), MOST_LINES);
}

/// Prefetches a slice up to `most_lines` cache lines, for a loop over all of it.
#[inline(always)]
pub fn prefetch_slice<T>(values: &[T], most_lines: usize) {
    prefetch_lines(values.as_ptr().cast(), size_of_val(values), most_lines);
}

#[inline(always)]
fn prefetch_lines(start: *const u8, bytes: usize, most_lines: usize) {
    for line in 0..bytes.div_ceil(LINE_BYTES).min(most_lines) {
        prefetch_line(start.wrapping_add(line * LINE_BYTES));
    }
}

#[inline(always)]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that cannot fault, whatever the address; the instruction is in every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_size_can_be_prefetched() {
        prefetch(&7u8);
        prefetch(&[0u64; 1000]);
        prefetch("");
        prefetch::<[u32]>(&[]);
        prefetch_slice(&[0u64; 1000], 16);
        prefetch_slice::<u32>(&[], 16);
    }
}
