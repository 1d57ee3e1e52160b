//! A descriptor that one thread rings, and that another waits on together with its sockets.
//!
//! ```text
//!  something happened ─ ring ─► eventfd ─► ReadySet of its owner ─ arm ─► checks once more, then waits
//! ```
//! Ringing writes to the descriptor only if the owner has armed it since the last write; while the owner works, ringing
//! costs no system call.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;

use crate::system::shared_memory::event;

/// Wakes its owner: readable while something has happened that the owner has not yet handled (`eventfd(2)`).
#[derive(Debug)]
pub struct Bell {
    event: File,
    /// Whether a thread waits on the descriptor at all.
    watched: AtomicBool,
    /// Whether the next ring wakes the owner.
    armed: AtomicBool,
}

impl Bell {
    /// A bell that no thread waits on yet.
    ///
    /// # Errors
    /// When the process has no descriptor left (`ulimit -n`).
    pub fn new() -> io::Result<Arc<Bell>> {
        let (watched, armed) = (AtomicBool::new(false), AtomicBool::new(true));
        Ok(Arc::new(Bell { event: event()?, watched, armed }))
    }

    /// Wakes the owner after something has happened.
    pub fn ring(&self) {
        // Pairs with the fence in `arm`: either the owner sees what happened, or this thread sees the bell armed.
        fence(Ordering::SeqCst);
        if self.watched.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            self.strike();
        }
    }

    fn strike(&self) {
        // The write fails only if the counter is full, and then the descriptor is readable anyway.
        let _ = (&self.event).write(&1u64.to_ne_bytes());
    }

    /// Lets the next ring wake the owner. The owner calls it when it has handled everything, checks once more, and then waits.
    pub fn arm(&self) {
        if self.watched.load(Ordering::Relaxed) && !self.armed.load(Ordering::Relaxed) {
            let _ = (&self.event).read(&mut [0; 8]);
            self.armed.store(true, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }
}

/// A caller that takes the descriptor is assumed to wait on it from then on.
impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        if !self.watched.swap(true, Ordering::SeqCst) {
            // Rings from before did not write, so the new owner gets one wake-up for all of them.
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
    fn a_batch_sent_to_a_ring_wakes_a_thread_that_waits_on_descriptors() {
        let bell = Bell::new().expect("a descriptor");
        let mut ready = ReadySet::new().expect("a descriptor");
        ready.add(&*bell, 7).expect("fresh");
        let (mut upstream, mut downstream) = thalweg_data::ring::circuit(2, || 0u32);
        let waker = Waker::from(bell.clone());
        for number in 0..3 {
            bell.arm();
            assert!(downstream.register(&waker), "the ring is empty");
            assert!(ready.wait(Duration::ZERO).expect("a set").is_empty(), "no wake-up");
            let _empty = upstream.empty();
            upstream.send(number);
            assert_eq!(ready.wait(Duration::from_secs(10)).expect("a set"), [7]);
            bell.arm();
            assert!(!downstream.register(&waker), "a batch is in the ring");
            downstream.receive().into_iter().for_each(|batch| downstream.give_back(batch));
        }
        bell.arm();
        assert!(downstream.register(&waker));
        drop(upstream);
        assert_eq!(ready.wait(Duration::from_secs(10)).expect("a set"), [7], "the other end is gone");
    }
}
