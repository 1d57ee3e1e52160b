//! After warm-up building allocates nothing, whatever the sources do.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use thalweg_build::{Builder, Settings};
use thalweg_data::{Events, Fragment, Fragments, Mark, Pool, SourceId};

struct Counting;

thread_local! {
    /// Of this thread alone: the test harness has one of its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const SOURCES: u16 = 5;

/// One source's batch: some fragments lost, some doubled, some in several slices, some from nowhere.
fn fill(batch: &mut Fragments, pool: &Pool, source: u16, turn: u64) {
    let mut writer = pool.take().expect("free");
    batch.clear();
    batch.header.mark = Mark(turn * 1_000_000);
    for trigger in turn * 8..turn * 8 + 8 {
        let chance = (trigger * 31 + u64::from(source) * 17) % 97;
        let slices = if chance == 1 { 3 } else { 1 };
        let number = if chance == 2 { trigger + 1_000_000 } else { trigger };
        if chance == 3 {
            continue;
        }
        for _ in 0..slices {
            batch.slices.push(writer.append(&[7; 20]).expect("fits"));
        }
        batch.fragments.push(Fragment {
            trigger: number,
            source: SourceId(source),
            slices,
            ..Fragment::default()
        });
    }
    batch.leases.add(writer.lease());
}

#[test]
fn nothing_is_allocated_after_warm_up() {
    let settings = Settings { depth: 256, age_ms: 5, ..Settings::default() };
    let mut builder = Builder::new(&settings, 0..SOURCES).expect("possible");
    builder.start_run(1);
    let pool = Pool::new(1024, 1024).expect("small");
    let (mut batch, mut events) = (Fragments::default(), Events::default());
    let mut turns = |from: u64, until: u64| {
        let before = ALLOCATIONS.get();
        let mut built = 0;
        for turn in from..until {
            for source in 0..SOURCES {
                fill(&mut batch, &pool, source, turn);
                assert_eq!(builder.insert(&batch), batch.fragments.len());
            }
            while builder.pull(&mut events, 32) {
                built += events.events.len();
                events.clear();
            }
        }
        (ALLOCATIONS.get() - before, built)
    };
    turns(0, 500);
    let (allocations, built) = turns(500, 3000);
    assert_eq!(allocations, 0);
    assert!((19_900..=20_000).contains(&built), "{built}");
}
