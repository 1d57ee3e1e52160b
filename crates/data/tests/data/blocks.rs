//! Blocks of a pool are appended to, read, returned and taken again.

use thalweg_data::{BlockId, Leases, Pool, Slice};

#[test]
fn published_bytes_do_not_change_while_the_tail_is_written() {
    let pool = Pool::new(1, 128).expect("small");
    let mut writer = pool.take().expect("free");
    let first = writer.append(b"river").expect("fits");
    let lease = writer.lease().clone();
    writer.tail().fill(0xFF);
    assert_eq!(lease.bytes(first), b"river");
}

#[test]
fn a_block_is_returned_when_its_last_holder_is_dropped() {
    let pool = Pool::new(1, 64).expect("small");
    let writer = pool.take().expect("free");
    let lease = writer.lease().clone();
    drop(writer);
    assert!(pool.take().is_none());
    drop(lease);
    assert!(pool.take().is_some());
    assert_eq!(pool.free_count(), 1);
}

#[test]
fn a_block_starts_over_only_when_nobody_reads_it() {
    let mut writer = Pool::new(1, 64).expect("small").take().expect("free");
    let slice = writer.append(&[1; 32]).expect("fits");
    let lease = writer.lease().clone();
    assert!(!writer.start_over());
    assert_eq!((lease.bytes(slice), writer.remaining()), (&[1; 32][..], 32));
    drop(lease);
    assert!(writer.start_over());
    assert_eq!((writer.published(), writer.remaining()), (0, 64));
}

#[test]
fn numbers_of_dropped_pools_are_reused() {
    for _ in 0..2 * BlockId::MAX_POOLS {
        let writer = Pool::new(1, 64).expect("a number is free").take().expect("free");
        assert_eq!(writer.remaining(), 64);
    }
}

#[test]
fn the_newest_returned_block_is_taken_first() {
    let pool = Pool::new(8, 64).expect("small");
    let (a, b) = (pool.take().expect("free"), pool.take().expect("free"));
    let newest = b.lease().block();
    drop(a);
    drop(b);
    assert_eq!(pool.take().expect("free").lease().block(), newest);
}

#[test]
fn leases_are_found_by_linear_search_and_by_index() {
    let pool = Pool::new(300, 64).expect("small");
    let mut writers: Vec<_> = (0..300).map(|_| pool.take().expect("free")).collect();
    let slices: Vec<Slice> = writers.iter_mut().map(|writer| writer.append(&[7; 8]).expect("fits")).collect();
    let mut leases = Leases::default();
    for count in [300, 5, 100] {
        for writer in &writers[..count] {
            leases.add(writer.lease());
            leases.add(writer.lease());
        }
        assert_eq!(leases.len(), count);
        assert!(slices[..count].iter().all(|slice| leases.bytes(*slice) == [7; 8]));
        assert!(slices[count..].iter().all(|slice| leases.find(slice.block).is_none()));
        leases.clear();
    }
}

#[test]
#[should_panic(expected = "published bytes only")]
fn unpublished_bytes_cannot_be_read() {
    let pool = Pool::new(1, 64).expect("small");
    let mut writer = pool.take().expect("free");
    let slice = writer.publish(8);
    let lease = writer.lease().clone();
    lease.bytes(Slice { length: 9, ..slice });
}

#[test]
fn impossible_pool_sizes_are_refused_with_a_message() {
    let message = Pool::new(0, 64).map(drop).expect_err("no blocks").to_string();
    assert!(message.contains("0 blocks of 64 bytes"), "{message}");
    assert!(Pool::new(1, 65).is_err());
}

#[test]
fn no_block_is_lost_between_threads() {
    let pool = Pool::new(4, 64).expect("small");
    std::thread::scope(|scope| {
        for id in 0..4u8 {
            let pool = pool.clone();
            scope.spawn(move || {
                for _ in 0..20_000 {
                    let Some(mut writer) = pool.take() else {
                        continue;
                    };
                    let slice = writer.append(&[id; 16]).expect("fits");
                    let lease = writer.lease().clone();
                    drop(writer);
                    assert_eq!(lease.bytes(slice), &[id; 16]);
                }
            });
        }
    });
    assert_eq!(pool.free_count(), 4);
}
