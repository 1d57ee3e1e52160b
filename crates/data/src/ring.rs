//! Bounded queues between threads.
//!
//! ```text
//!  Upstream ── send ──► [ fulls ] ──► receive ── Downstream
//!     ▲                                              │
//!     └──── empty ◄── [ empties ] ◄── give_back ─────┘
//! ```
//! A [`circuit`] owns a fixed number of batches that circulate: they are filled upstream, read downstream and given back.
//! That number is its bound; when no empty batch is available, the sender's policy applies. Nothing is allocated
//! after the circuit is made. Each direction is a single-producer single-consumer ring of this crate, so that loom
//! checks the code that runs.

use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell, fence};

/// How often a thread that waits for a batch checks whether the other end still exists.
const LOOK_FOR_OTHER_END: Duration = Duration::from_millis(100);

/// An index on its own cache line, so that the two ends do not slow each other down.
#[repr(align(128))]
struct Position(AtomicUsize);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Number of items taken so far; only the consumer writes it.
    head: Position,
    /// Number of items put so far; only the producer writes it.
    tail: Position,
    closed: AtomicBool,
    sleeper: Sleeper,
}

// SAFETY: the producer accesses a slot only while it is empty, and the consumer only while it is full; `head` and `tail` hand it
// over with release and acquire. So `T: Send` suffices.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the ring owns its items.
unsafe impl<T: Send> Send for Shared<T> {}

/// The writing end of a ring.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    /// The last `head` read: the ring is not full as long as `tail` is less than its capacity ahead of it.
    head_seen: usize,
}

/// The reading end of a ring.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    tail_seen: usize,
}

/// Makes a ring for `capacity` items (at least 1).
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let slots = (0..capacity.max(1)).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared = Arc::new(Shared {
        slots,
        head: Position(AtomicUsize::new(0)),
        tail: Position(AtomicUsize::new(0)),
        closed: AtomicBool::new(false),
        sleeper: Sleeper::new(),
    });
    let producer = Producer { shared: shared.clone(), tail: 0, head_seen: 0 };
    (producer, Consumer { shared, head: 0, tail_seen: 0 })
}

impl<T> Producer<T> {
    /// Puts an item.
    ///
    /// # Errors
    /// Returns the item if the ring is full or the other end is gone.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        let capacity = self.shared.slots.len();
        if self.tail - self.head_seen == capacity {
            self.head_seen = self.shared.head.0.load(Ordering::Acquire);
            if self.tail - self.head_seen == capacity {
                return Err(item);
            }
        }
        if self.is_closed() {
            return Err(item);
        }
        self.shared.slots[self.tail % capacity].with_mut(|slot| {
            // SAFETY: the slot is free: the consumer has taken its item (seen through `head` with acquire) and does
            // not touch it before `tail` moves; there is one producer.
            unsafe { (*slot).write(item) };
        });
        self.tail += 1;
        self.shared.tail.0.store(self.tail, Ordering::Release);
        self.shared.sleeper.wake();
        Ok(())
    }

    /// Number of items in the ring, at about this moment.
    pub fn len(&self) -> usize {
        self.tail - self.shared.head.0.load(Ordering::Relaxed)
    }

    /// Whether the ring is empty at about this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the other end is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<T> Consumer<T> {
    /// Takes the oldest item, if any.
    pub fn pop(&mut self) -> Option<T> {
        if self.head == self.tail_seen {
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
            if self.head == self.tail_seen {
                return None;
            }
        }
        let capacity = self.shared.slots.len();
        let item = self.shared.slots[self.head % capacity].with(|slot| {
            // SAFETY: the slot is full (seen through `tail` with acquire) and is read once: `head` moves beyond it
            // now, and there is one consumer.
            unsafe { (*slot).assume_init_read() }
        });
        self.head += 1;
        self.shared.head.0.store(self.head, Ordering::Release);
        Some(item)
    }

    /// Takes the oldest item, and sleeps at most `wait` for it. `None` after the wait, or if the other end is gone
    /// and the ring is empty.
    pub fn pop_wait(&mut self, wait: Duration) -> Option<T> {
        for _ in 0..64 {
            if let Some(item) = self.pop() {
                return Some(item);
            }
            std::hint::spin_loop();
        }
        let until = Instant::now() + wait;
        loop {
            let shared = &*self.shared;
            let head = self.head;
            let left = until.saturating_duration_since(Instant::now());
            shared.sleeper.sleep(left, || {
                shared.tail.0.load(Ordering::Acquire) != head || shared.closed.load(Ordering::Acquire)
            });
            let closed = self.is_closed();
            let item = self.pop();
            if item.is_some() || closed || Instant::now() >= until {
                return item;
            }
        }
    }

    /// Wakes `waker` once when an item is put or the other end is dropped; for a thread that waits for more than this ring.
    /// Returns `false`, and may not wake it, if an item is in the ring or the other end is gone already.
    pub fn register(&self, waker: &Waker) -> bool {
        let shared = &*self.shared;
        shared.sleeper.register(waker, || {
            shared.tail.0.load(Ordering::Acquire) != self.head || shared.closed.load(Ordering::Acquire)
        })
    }

    /// Whether the other end is gone. Items may still be in the ring.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Number of items in the ring, at about this moment.
    pub fn len(&self) -> usize {
        self.shared.tail.0.load(Ordering::Relaxed) - self.head
    }

    /// Whether the ring is empty at about this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most items that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.sleeper.wake();
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        while self.pop().is_some() {}
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Both ends are gone. If the consumer was dropped first, items that were put after its last `pop` are dropped here.
        let (mut head, tail) = (self.head.0.load(Ordering::Acquire), self.tail.0.load(Ordering::Acquire));
        while head != tail {
            self.slots[head % self.slots.len()].with_mut(|slot| {
                // SAFETY: positions from `head` to `tail` hold items that no other thread can access any more.
                unsafe { (*slot).assume_init_drop() };
            });
            head += 1;
        }
    }
}

/// Lets one thread sleep until another puts an item. The lock is taken only to fall asleep and to wake.
struct Sleeper {
    asleep: AtomicBool,
    who: Mutex<Who>,
}

/// Who sleeps.
#[derive(Clone)]
enum Who {
    Nobody,
    /// A thread that waits for this ring only.
    Thread(Thread),
    /// A thread that waits for several things at once.
    Waker(Waker),
}

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper { asleep: AtomicBool::new(false), who: Mutex::new(Who::Nobody) }
    }

    fn who(&self) -> MutexGuard<'_, Who> {
        self.who.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn sleep(&self, at_most: Duration, ready: impl Fn() -> bool) {
        *self.who() = Who::Thread(std::thread::current());
        if self.falls_asleep(ready) {
            std::thread::park_timeout(at_most);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    fn register(&self, waker: &Waker, ready: impl Fn() -> bool) -> bool {
        {
            let mut who = self.who();
            if !matches!(&*who, Who::Waker(known) if known.will_wake(waker)) {
                *who = Who::Waker(waker.clone());
            }
        }
        self.falls_asleep(ready)
    }

    /// Announces the sleep and returns whether nothing is ready; then a wake is certain to come.
    fn falls_asleep(&self, ready: impl Fn() -> bool) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: either this thread sees the item, or the other one sees `asleep`.
        fence(Ordering::SeqCst);
        !ready()
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.asleep.store(false, Ordering::Relaxed);
            // The lock is free before anybody wakes: who wakes on this core at once would have to sleep again, for the lock.
            let who = self.who().clone();
            match who {
                Who::Nobody => {}
                Who::Thread(thread) => thread.unpark(),
                Who::Waker(waker) => waker.wake_by_ref(),
            }
        }
    }
}

/// The filling end of a [`circuit`].
pub struct Upstream<T> {
    empties: Consumer<T>,
    fulls: Producer<T>,
    /// Number of batches in the circuit.
    batches: usize,
}

/// The reading end of a [`circuit`].
pub struct Downstream<T> {
    fulls: Consumer<T>,
    empties: Producer<T>,
}

/// Makes a circuit of `count` batches, and calls `make` for each of them.
pub fn circuit<T>(count: usize, mut make: impl FnMut() -> T) -> (Upstream<T>, Downstream<T>) {
    let (mut empties, empties_out) = ring(count);
    let (fulls, fulls_out) = ring(count);
    for _ in 0..count.max(1) {
        if empties.push(make()).is_err() {
            break;
        }
    }
    (
        Upstream { empties: empties_out, fulls, batches: count.max(1) },
        Downstream { fulls: fulls_out, empties },
    )
}

impl<T> Upstream<T> {
    /// Takes an empty batch, if one is available.
    pub fn empty(&mut self) -> Option<T> {
        self.empties.pop()
    }

    /// Whether [`Upstream::next_empty`] returns at once: an empty batch is available, or the other end is gone.
    pub fn is_ready(&self) -> bool {
        !self.empties.is_empty() || self.is_closed()
    }

    /// Wakes `waker` when a batch is given back or the other end is dropped; `false` if that is the case already. See
    /// [`Consumer::register`].
    pub fn register(&self, waker: &Waker) -> bool {
        self.empties.register(waker)
    }

    /// Takes an empty batch, and waits at most `wait` for one: the policy `hold`.
    pub fn empty_wait(&mut self, wait: Duration) -> Option<T> {
        self.empties.pop_wait(wait)
    }

    /// Takes an empty batch, and waits for one as long as the other end exists. `None` if the other end is gone.
    pub fn next_empty(&mut self) -> Option<T> {
        loop {
            let empty = self.empties.pop_wait(LOOK_FOR_OTHER_END);
            if empty.is_some() || self.is_closed() {
                return empty;
            }
        }
    }

    /// Waits for an empty batch, sends `batch`, and replaces it by the empty one. Returns `false` and keeps `batch` if the other end is
    /// gone.
    pub fn exchange(&mut self, batch: &mut T) -> bool {
        let Some(empty) = self.next_empty() else { return false };
        self.send(std::mem::replace(batch, empty));
        true
    }

    /// Sends a batch. It is dropped if the other end is gone; see [`Upstream::is_closed`].
    pub fn send(&mut self, batch: T) {
        // The ring holds every batch of the circuit, so it is never full.
        let _gone = self.fulls.push(batch);
    }

    /// Number of batches sent and not received yet, at about this moment.
    pub fn in_flight(&self) -> usize {
        self.fulls.len()
    }

    /// Whether every batch was given back: the other end has finished with all batches that were sent.
    pub fn is_at_rest(&self) -> bool {
        self.empties.len() == self.batches
    }

    /// Whether the other end is gone.
    pub fn is_closed(&self) -> bool {
        self.fulls.is_closed()
    }
}

impl<T> Downstream<T> {
    /// Takes the oldest batch, if any.
    pub fn receive(&mut self) -> Option<T> {
        self.fulls.pop()
    }

    /// Takes the oldest batch, and waits at most `wait` for it.
    pub fn receive_wait(&mut self, wait: Duration) -> Option<T> {
        self.fulls.pop_wait(wait)
    }

    /// Wakes `waker` when a batch is sent or the other end is dropped; `false` if that is the case already. See
    /// [`Consumer::register`].
    pub fn register(&self, waker: &Waker) -> bool {
        self.fulls.register(waker)
    }

    /// Gives a batch back to be filled again. The caller has cleared it.
    pub fn give_back(&mut self, batch: T) {
        let _gone = self.empties.push(batch);
    }

    /// Number of batches that wait to be received, at about this moment.
    pub fn waiting(&self) -> usize {
        self.fulls.len()
    }

    /// Whether the other end is gone and no batch is left.
    pub fn is_finished(&self) -> bool {
        self.fulls.is_closed() && self.fulls.is_empty()
    }
}
