//! Prefetch hints: loads a value into the cache before it is used.
//!
//! ```text
//!  link 7: receive, split ──────────────► link 8: receive, split
//!    └ prefetch(state of link 8) ···········┘ in the cache by then
//! ```
//! A thread that looks after hundreds of links passes so many received bytes between two visits to one of them that what it
//! knows of it has left the cache, in a dozen places. Asked for one after another they cost more than the splitting.

/// Bytes that the memory gives at once.
const LINE_BYTES: usize = 64;
/// Most lines of one value that are asked for.
const MOST_LINES: usize = 8;

/// Asks for a value, of a large one for its first half KiB, without waiting. Costs a nanosecond per line, and does nothing
/// where the processor has no such word.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let lines = size_of_val(value).div_ceil(LINE_BYTES).clamp(1, MOST_LINES);
    for line in 0..lines {
        prefetch_line(start.wrapping_add(line * LINE_BYTES));
    }
}

#[inline(always)]
fn prefetch_line(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that cannot fault, whatever the address; the instruction is in every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_can_be_asked_for() {
        prefetch(&7u8);
        prefetch(&[0u64; 1000]);
        prefetch("");
        prefetch::<[u32]>(&[]);
    }
}
