//! The pool and the rings under the loom model checker: every interleaving of two threads with at most three preemptions.

use std::fs::File;
use std::sync::Arc;

use crate::memory::Memory;
use crate::pool::Pool;
use crate::ring::ring;
use crate::slice::Slice;

fn model(interleaved: impl Fn() + Sync + Send + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(interleaved);
}

#[test]
fn two_threads_never_hold_the_same_block() {
    model(|| {
        let pool = Pool::new(2, 64).expect("small");
        let other = pool.clone();
        let thread = loom::thread::spawn(move || {
            let taken = other.take();
            taken.as_ref().map(|writer| writer.lease().block());
            drop(taken);
            other.take().map(|writer| writer.lease().block())
        });
        let mine = pool.take();
        drop(mine);
        thread.join().expect("no panic");
        assert_eq!(pool.free_count(), 2);
    });
}

#[test]
fn published_bytes_do_not_change_until_the_lease_is_dropped() {
    model(|| {
        let pool = Pool::new(1, 64).expect("small");
        let mut writer = pool.take().expect("free");
        let slice = writer.append(&[7; 8]).expect("fits");
        let lease = writer.lease().clone();
        let reader = loom::thread::spawn(move || {
            assert_eq!(lease.bytes(slice), &[7; 8]);
        });
        drop(writer);
        if let Some(mut again) = pool.take() {
            again.append(&[9; 8]).expect("fits");
        }
        reader.join().expect("no panic");
        assert!(pool.take().is_some(), "the block is free after both holders are dropped");
    });
}

#[test]
fn a_block_does_not_start_over_while_it_is_read() {
    model(|| {
        let pool = Pool::new(1, 64).expect("small");
        let mut writer = pool.take().expect("free");
        let slice = writer.append(&[7; 8]).expect("fits");
        let lease = writer.lease().clone();
        let reader = loom::thread::spawn(move || assert_eq!(lease.bytes(slice), &[7; 8]));
        if writer.start_over() {
            writer.append(&[9; 8]).expect("fits");
        }
        reader.join().expect("no panic");
    });
}

#[test]
fn a_lent_block_is_not_written_while_another_thread_of_the_borrower_reads_it() {
    model(|| {
        let shared = Memory { is_shared: true, ..Memory::default() };
        let lender = Pool::of(1, 64, shared).expect("small");
        let mut writer = lender.take().expect("free");
        let slice = writer.append(&[7; 8]).expect("fits");
        let lent = writer.lease().clone();
        drop(writer);
        let memory = lender.lendable_memory().expect("it is shared");
        let map = memmap2::MmapOptions::new().map_raw_read_only(memory).expect("memory");
        let in_use = Arc::new(File::open("/dev/null").expect("a file").into());
        let borrowed = Pool::borrowed(map, 1, 64, in_use).expect("a number");
        let own = borrowed.first_lease(0, 8);
        let read = own.clone();
        let reader = loom::thread::spawn(move || {
            let slice = Slice { block: read.block(), ..slice };
            assert_eq!(read.bytes(slice), &[7; 8]);
        });
        if own.is_last() {
            // Given back, and written again.
            drop((own, lent));
            lender.take().expect("free again").append(&[9; 8]).expect("fits");
        }
        reader.join().expect("no panic");
        assert!(borrowed.take().is_none(), "a borrowed block is not free here");
    });
}

#[test]
fn a_ring_hands_over_every_item_exactly_once() {
    model(|| {
        let (mut producer, mut consumer) = ring(1);
        let thread = loom::thread::spawn(move || {
            let mut sent = 0;
            for item in 1..=2u32 {
                if producer.push(Box::new(item)).is_ok() {
                    sent += item;
                }
            }
            sent
        });
        let mut received = 0;
        for _ in 0..2 {
            if let Some(item) = consumer.pop() {
                received += *item;
            }
        }
        let sent = thread.join().expect("no panic");
        while let Some(item) = consumer.pop() {
            received += *item;
        }
        assert_eq!(sent, received);
    });
}

/// A waker that notes whether it was woken.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_registered_waker_is_woken_unless_the_item_is_seen() {
    model(|| {
        let (mut producer, consumer) = ring(1);
        let thread = loom::thread::spawn(move || {
            producer.push(()).expect("not full");
            producer
        });
        let woken = std::sync::Arc::new(Woken::default());
        let sleeps = consumer.register(&woken.clone().into());
        let _open = thread.join().expect("no panic");
        assert!(!sleeps || woken.0.load(std::sync::atomic::Ordering::Relaxed));
    });
}

#[test]
fn an_item_put_while_the_consumer_is_dropped_is_dropped_once() {
    model(|| {
        let item = std::sync::Arc::new(());
        let (mut producer, consumer) = ring(1);
        let put = item.clone();
        let thread = loom::thread::spawn(move || drop(producer.push(put)));
        drop(consumer);
        thread.join().expect("no panic");
        assert_eq!(std::sync::Arc::strong_count(&item), 1);
    });
}
