//! After warm-up, time order allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use thalweg_data::hit::Extra;
use thalweg_data::{Flags, Hit, Hits, Mark, SourceId};
use thalweg_order::{Pushed, Settings, TimeOrder};

struct Counting;

thread_local! {
    /// Per thread, so that the test harness and other tests do not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantees hold for the system's allocator, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees hold for the system's allocator, too.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Two boards, one ten times slower; every eighth hit is out of order, every tenth has an extra, and a few are late.
fn fill(batch: &mut Hits, turn: i64) {
    let source = SourceId((turn % 2) as u16);
    let count = if source.0 == 0 { 1000 } else { 100 };
    for index in 0..count {
        let in_order = turn / 2 * 1_000_000 + index * (1_000_000 / count);
        let back = if turn % 50 == 0 && index == 5 { 5_000_000 } else { i64::from(index % 8 == 0) * 3000 };
        let flags = if index % 10 == 0 { Flags::EXTRA } else { Flags::NONE };
        let hit = Hit { time_ps: in_order - back, flags, ..Hit::default() };
        batch.hits.push(hit);
        if flags.has(Flags::EXTRA) {
            batch.extras.push(Extra::of(&hit, source));
        }
    }
    batch.header.source = source;
    batch.header.mark = Mark(turn as u64 * 1_000_000);
}

#[test]
fn nothing_is_allocated_after_warm_up() {
    let mut order = TimeOrder::new(&Settings { disorder_ps: 3000, ..Settings::default() }, 2, 1024);
    let (mut batch, mut out) = (Hits::with_capacity(1024), Hits::with_capacity(1024));
    let mut turns = |from: i64, until: i64| {
        let before = ALLOCATIONS.get();
        let mut hits = 0;
        for turn in from..until {
            fill(&mut batch, turn);
            assert_eq!(order.push(&mut batch), Ok(Pushed::Taken));
            while order.pull(&mut out) {
                hits += out.hits.len();
            }
        }
        (ALLOCATIONS.get() - before, hits)
    };
    turns(0, 400);
    let (allocations, hits) = turns(400, 2000);
    assert!(hits > 500_000, "{hits} hits");
    assert_eq!(allocations, 0);
}
