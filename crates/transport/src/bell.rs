//! A descriptor that one thread rings and another waits on, among others.
//!
//! ```text
//!  something happened ─ ring ─► eventfd ─► ReadySet of its owner ─ arm ─► looks once more, and waits
//! ```
//! It is written to only when its owner has seen everything before: while that is at work, ringing costs no call.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;

use crate::system::shared_memory::event;

/// Readable while something happened that its owner has not looked at (`eventfd(2)`).
#[derive(Debug)]
pub struct Bell {
    event: File,
    /// Whether anybody waits on the descriptor at all.
    watched: AtomicBool,
    /// Whether the owner has seen everything and is to be woken for more.
    armed: AtomicBool,
}

impl Bell {
    /// One that nobody waits on yet.
    ///
    /// # Errors
    /// When the process has no descriptor left (`ulimit -n`).
    pub fn new() -> io::Result<Arc<Bell>> {
        let (watched, armed) = (AtomicBool::new(false), AtomicBool::new(true));
        Ok(Arc::new(Bell { event: event()?, watched, armed }))
    }

    /// Something happened.
    pub fn ring(&self) {
        // Pairs with the fence in `arm`: either the owner sees what happened, or we see that it is to be woken.
        fence(Ordering::SeqCst);
        if self.watched.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            self.strike();
        }
    }

    fn strike(&self) {
        // A full counter is readable all the same.
        let _ = (&self.event).write(&1u64.to_ne_bytes());
    }

    /// The owner has seen everything; it looks once more behind this, and then waits.
    pub fn arm(&self) {
        if self.watched.load(Ordering::Relaxed) && !self.armed.load(Ordering::Relaxed) {
            let _ = (&self.event).read(&mut [0; 8]);
            self.armed.store(true, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }
}

/// Whoever has asked for the descriptor waits on it from here on.
impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        if !self.watched.swap(true, Ordering::SeqCst) {
            // Of what happened before it was not woken.
            self.armed.store(false, Ordering::Relaxed);
            self.strike();
        }
        self.event.as_fd()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Bell>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::ReadySet;

    #[test]
    fn what_is_put_in_a_ring_wakes_whoever_waits_on_descriptors() {
        let bell = Bell::new().expect("a descriptor");
        let mut ready = ReadySet::new().expect("a descriptor");
        ready.add(&*bell, 7).expect("fresh");
        let (mut upstream, mut downstream) = thalweg_data::ring::circuit(2, || 0u32);
        let waker = Waker::from(bell.clone());
        for number in 0..3 {
            bell.arm();
            assert!(downstream.register(&waker), "nothing was put");
            assert!(ready.wait(Duration::ZERO).expect("a set").is_empty(), "and nobody is woken");
            let _empty = upstream.empty();
            upstream.send(number);
            assert_eq!(ready.wait(Duration::from_secs(10)).expect("a set"), [7]);
            bell.arm();
            assert!(!downstream.register(&waker), "it is there");
            downstream.receive().into_iter().for_each(|batch| downstream.give_back(batch));
        }
        bell.arm();
        assert!(downstream.register(&waker));
        drop(upstream);
        assert_eq!(ready.wait(Duration::from_secs(10)).expect("a set"), [7], "the other end is gone");
    }
}
