//! Tests of blocks and rings through the public interface, and under the loom model checker.
//!
//! The models need the crate's sources compiled against loom's atomics instead of std's. This binary compiles them a second time
//! with its own `sync` module, so the crate itself does not depend on loom and needs no other build.

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

/// Replaces `src/sync.rs` of the crate.
mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}
