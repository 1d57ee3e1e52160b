//! Blocks and rings as their users see them, and under a model checker.
//!
//! The models need the sources of the crate compiled against loom's atomics in place of std's. They are compiled into this binary
//! a second time, beside a `sync` of their own: the crate itself knows nothing of loom, and no other build of it is needed.

mod blocks;
mod models;
mod rings;

#[allow(dead_code)]
#[path = "../../src/memory.rs"]
mod memory;
#[allow(dead_code)]
#[path = "../../src/pool.rs"]
mod pool;
#[allow(dead_code)]
#[path = "../../src/ring.rs"]
mod ring;
#[allow(dead_code)]
#[path = "../../src/slice.rs"]
mod slice;

/// What `src/sync.rs` is to the crate.
mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}
