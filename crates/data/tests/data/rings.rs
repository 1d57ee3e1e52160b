//! Rings and circuits between two threads.

use std::time::Duration;

use thalweg_data::ring::{circuit, ring};

#[test]
fn items_arrive_in_order_and_exactly_once() {
    let (mut producer, mut consumer) = ring(8);
    let thread = std::thread::spawn(move || {
        for number in 0..100_000u32 {
            let mut item = number;
            while let Err(back) = producer.push(item) {
                item = back;
                std::thread::yield_now();
            }
        }
    });
    for expected in 0..100_000 {
        assert_eq!(consumer.pop_wait(Duration::from_secs(60)), Some(expected));
    }
    thread.join().expect("no panic");
    assert_eq!(consumer.pop_wait(Duration::from_secs(60)), None, "closed and drained");
}

#[test]
fn a_full_ring_gives_the_item_back() {
    let (mut producer, mut consumer) = ring(1);
    assert_eq!(producer.push(1), Ok(()));
    assert_eq!(producer.push(2), Err(2));
    assert_eq!(consumer.pop(), Some(1));
    assert_eq!(producer.push(2), Ok(()));
}

#[test]
fn batches_are_exchanged_until_the_other_end_is_dropped() {
    let (mut up, mut down) = circuit(1, || 0);
    let thread = std::thread::spawn(move || {
        let sum: u32 = (0..100)
            .map(|_| {
                let batch = down.receive_wait(Duration::from_secs(60)).expect("sent");
                down.give_back(0);
                batch
            })
            .sum();
        drop(down);
        sum
    });
    let mut batch = 1;
    for _ in 0..100 {
        assert!(up.exchange(&mut batch), "the other end exists");
        batch += 1;
    }
    assert_eq!(thread.join().expect("no panic"), 100);
    // The last one that was given back is still there.
    batch = 7;
    while up.exchange(&mut batch) {
        batch = 7;
    }
    assert_eq!(batch, 7, "the batch is not sent");
}

#[test]
fn items_left_in_a_ring_are_dropped_with_it() {
    let item = std::sync::Arc::new(());
    let (mut producer, consumer) = ring(4);
    assert!(producer.push(item.clone()).is_ok());
    drop(consumer);
    drop(producer);
    assert_eq!(std::sync::Arc::strong_count(&item), 1);
}

#[test]
fn a_circuit_makes_no_further_batches() {
    let mut made = 0;
    let (mut up, mut down) = circuit(2, || {
        made += 1;
        Vec::<u8>::with_capacity(16)
    });
    for _ in 0..10 {
        let batch = up.empty().expect("given back");
        up.send(batch);
        let batch = down.receive().expect("sent");
        down.give_back(batch);
    }
    assert!(up.empty().is_some() && up.empty().is_some() && up.empty().is_none());
    assert_eq!(made, 2);
}
