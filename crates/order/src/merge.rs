//! Merges two sorted runs into one: the loop in which time order spends most of its time.
//!
//! ```text
//!  left   |= prefix =|........ overlap ........|          copied whole: prefix, suffix
//!  right             |........ overlap ........|= suffix =|
//!                     chain 0 | chain 1 | chain 2 | chain 3      four merges at once
//! ```
//! A processor cannot predict which run has the next hit, so the loop has no branch on it. Then each output costs a
//! chain of dependent operations (pointer → load → compare → pointer) of about eight cycles, during which a core is
//! mostly idle. So the overlap is first divided into four parts of equal output, each with its exact start in both
//! runs, and one loop advances four independent chains.

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

use thalweg_data::hit::Timed;

/// Number of interleaved merges. Four chains use the registers of x86-64 and aarch64 without spilling.
const CHAINS: usize = 4;
/// Below this overlap, finding the starts of the chains costs more than they save.
const SMALLEST_SPLIT: usize = 128;
/// A run this many times longer than the other is copied in stretches, one per element of the shorter.
const STRETCH_RATIO: usize = 16;

/// Merges two runs that are sorted by time into `out`, whose length is the sum of both. Of equal times, those of `left`
/// come first.
///
/// If the runs are not sorted, `out` is filled with elements of them in an unspecified order.
///
/// # Panics
/// When `out` has another length.
pub(crate) fn merge_pair<T: Timed>(left: &[T], right: &[T], out: &mut [MaybeUninit<T>]) {
    assert!(out.len() == left.len() + right.len(), "the output of a merge must be as long as both runs");
    let (Some(left_last), Some(right_last)) = (left.last(), right.last()) else {
        let (head, tail) = out.split_at_mut(left.len());
        copy(left, head);
        copy(right, tail);
        return;
    };
    // Elements before the first of the other run.
    let (left_prefix, right_prefix) = if left[0].time_ps() <= right[0].time_ps() {
        (gallop(left, |each| each.time_ps() <= right[0].time_ps()), 0)
    } else {
        (0, gallop(right, |each| each.time_ps() < left[0].time_ps()))
    };
    // Elements behind the last of the other run.
    let (left_end, right_end) = if left_last.time_ps() <= right_last.time_ps() {
        (left.len(), right.len() - gallop_back(right, |each| each.time_ps() >= left_last.time_ps()))
    } else {
        (left.len() - gallop_back(left, |each| each.time_ps() > right_last.time_ps()), right.len())
    };
    // If the runs do not overlap, the prefix and the suffix of one run can be the same elements.
    let (left_end, right_end) = (left_end.max(left_prefix), right_end.max(right_prefix));
    let (head, rest) = out.split_at_mut(left_prefix + right_prefix);
    copy(&left[..left_prefix], head);
    copy(&right[..right_prefix], &mut head[left_prefix..]);
    let overlap = left_end + right_end - left_prefix - right_prefix;
    let (overlap, tail) = rest.split_at_mut(overlap);
    merge_overlap(&left[left_prefix..left_end], &right[right_prefix..right_end], overlap);
    let (left_tail, right_tail) = tail.split_at_mut(left.len() - left_end);
    copy(&left[left_end..], left_tail);
    copy(&right[right_end..], right_tail);
}

fn merge_overlap<T: Timed>(left: &[T], right: &[T], out: &mut [MaybeUninit<T>]) {
    if left.len() > STRETCH_RATIO * right.len() {
        merge_stretches(left, right, |each, limit| each <= limit, out);
    } else if right.len() > STRETCH_RATIO * left.len() {
        merge_stretches(right, left, |each, limit| each < limit, out);
    } else if out.len() < SMALLEST_SPLIT {
        merge_chains::<T, 1>(left, right, out);
    } else {
        merge_chains::<T, CHAINS>(left, right, out);
    }
}

/// Copies the long run in stretches: for each element of the short run, first those for which `before` holds.
fn merge_stretches<T: Timed>(
    mut long: &[T],
    short: &[T],
    before: impl Fn(i64, i64) -> bool,
    out: &mut [MaybeUninit<T>],
) {
    // Load every cache line once: these loads are independent, whereas a search would wait for one line after the other.
    let lines = long.iter().step_by((64 / size_of::<T>()).max(1));
    std::hint::black_box(lines.fold(0, |all, each| all ^ each.time_ps()));
    let mut filled = 0;
    for each in short {
        let stretch = gallop(long, |other| before(other.time_ps(), each.time_ps()));
        copy(&long[..stretch], &mut out[filled..filled + stretch]);
        long = &long[stretch..];
        filled += stretch;
        out[filled].write(*each);
        filled += 1;
    }
    copy(long, &mut out[filled..]);
}

/// One of the interleaved merges: its positions in both runs.
#[derive(Clone, Copy)]
struct Chain<T> {
    left: *const T,
    right: *const T,
}

impl<T: Timed> Chain<T> {
    /// Writes the earlier of the two next elements, without a branch on the comparison.
    ///
    /// # Safety
    /// `left` and `right` must be readable and `out` writable.
    #[inline(always)]
    unsafe fn step(&mut self, out: *mut T) {
        // SAFETY: guaranteed by the caller; each pointer then moves by at most one element, at most to the end of its run.
        unsafe {
            let take_right = (*self.right).time_ps() < (*self.left).time_ps();
            let from = select_unpredictable(take_right, self.right, self.left);
            out.copy_from_nonoverlapping(from, 1);
            self.right = select_unpredictable(take_right, self.right.add(1), self.right);
            self.left = select_unpredictable(take_right, self.left, self.left.add(1));
        }
    }
}

/// Merges with `N` chains, each of which writes an equal part of the output; the last one also writes the remainder.
fn merge_chains<T: Timed, const N: usize>(left: &[T], right: &[T], out: &mut [MaybeUninit<T>]) {
    let part = out.len() / N;
    let (left_end, right_end) = (left.as_ptr_range().end, right.as_ptr_range().end);
    let mut chains: [Chain<T>; N] = std::array::from_fn(|chain| {
        let from_left = co_rank(chain * part, left, right);
        Chain { left: left[from_left..].as_ptr(), right: right[chain * part - from_left..].as_ptr() }
    });
    let left_until = |chain: &Chain<T>| (left_end as usize - chain.left as usize) / size_of::<T>();
    let right_until = |chain: &Chain<T>| (right_end as usize - chain.right as usize) / size_of::<T>();
    let out_start = out.as_mut_ptr().cast::<T>();
    let mut filled = 0;
    while filled < part {
        // A chain cannot reach the end of a run in fewer steps than the run has elements left. Only the last chain
        // reaches the ends, so a few rounds suffice, each half as long as the one before.
        let safe = chains.iter().map(|chain| left_until(chain).min(right_until(chain))).min().unwrap_or(0);
        let round_end = filled + safe.min(part - filled);
        if round_end == filled {
            break;
        }
        for position in filled..round_end {
            for (index, chain) in chains.iter_mut().enumerate() {
                // SAFETY: both runs have an element behind the chain's pointer for every step of this round, and one step
                // uses one of them; `position` is below `part`, and `out` is at least `N` parts long.
                unsafe { chain.step(out_start.add(index * part + position)) };
            }
        }
        filled = round_end;
    }
    for (index, chain) in chains.iter().enumerate() {
        let part_end = if index + 1 == N { out.len() } else { (index + 1) * part };
        let (left, right) =
            (&left[left.len() - left_until(chain)..], &right[right.len() - right_until(chain)..]);
        merge_checked(left, right, &mut out[index * part + filled..part_end]);
    }
}

/// Fills `out` from the starts of two runs, with all bounds checks: for the few elements behind the last round.
fn merge_checked<T: Timed>(left: &[T], right: &[T], out: &mut [MaybeUninit<T>]) {
    let (mut from_left, mut from_right) = (left.iter().peekable(), right.iter().peekable());
    for slot in out {
        let next = match (from_left.peek(), from_right.peek()) {
            (Some(left), Some(right)) if right.time_ps() < left.time_ps() => from_right.next(),
            (Some(_), _) => from_left.next(),
            (None, _) => from_right.next(),
        };
        slot.write(*next.expect("two runs have as many elements as their merge"));
    }
}

/// Number of elements of the left run among the first `count` elements of the merge.
fn co_rank<T: Timed>(count: usize, left: &[T], right: &[T]) -> usize {
    let mut low = count.saturating_sub(right.len());
    let mut high = count.min(left.len());
    while low < high {
        let middle = (low + high) / 2;
        let left_is_earlier = left[middle].time_ps() <= right[count - middle - 1].time_ps();
        low = select_unpredictable(left_is_earlier, middle + 1, low);
        high = select_unpredictable(left_is_earlier, high, middle);
    }
    low
}

/// Length of the prefix of `run` where `inside` holds; quick if it is short.
pub(crate) fn gallop<T>(run: &[T], inside: impl Fn(&T) -> bool) -> usize {
    let mut reach = 1;
    while reach <= run.len() && inside(&run[reach - 1]) {
        reach *= 2;
    }
    let known = reach / 2;
    known + run[known..reach.min(run.len())].partition_point(inside)
}

/// Length of the suffix of `run` where `inside` holds; quick if it is short.
pub(crate) fn gallop_back<T>(run: &[T], inside: impl Fn(&T) -> bool) -> usize {
    let mut reach = 1;
    while reach <= run.len() && inside(&run[run.len() - reach]) {
        reach *= 2;
    }
    let (unknown, known) = (run.len() - reach.min(run.len()), run.len() - reach / 2);
    run.len() - unknown - run[unknown..known].partition_point(|each| !inside(each))
}

/// Copies a run to the start of `to`.
pub(crate) fn copy<T: Copy>(from: &[T], to: &mut [MaybeUninit<T>]) {
    let to = &mut to[..from.len()];
    // SAFETY: both have the same length, by the line above, and a shared and an exclusive borrow cannot overlap.
    unsafe { to.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
}
