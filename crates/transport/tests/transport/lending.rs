//! Blocks that are lent over shared memory: nothing is copied, nothing is reused while it is read, and everything comes back.

use std::thread;
use std::time::{Duration, Instant};

use thalweg_data::{Memory, Message, Pool, Received};
use thalweg_transport::peer::{Peer, PeerError, Settings};

use crate::peers::{
    BLOCK, SOON, WAIT, check, message, new_name, pair_of, receive, send, settings, until_all_free,
};

/// Payload of a message: one block, or nearly.
const PAYLOAD: usize = 60_000;

fn shared_pool(blocks: usize) -> Pool {
    Pool::of(blocks, BLOCK, Memory { is_shared: true, ..Memory::default() }).expect("memory")
}

/// A connection whose first end lends one block in so many; and its endpoint.
fn lending(one_in: u32) -> (Box<dyn Peer>, Box<dyn Peer>, thalweg_transport::peer::Listener) {
    let first = Settings { lends_one_in: one_in, ..settings("first") };
    pair_of(&format!("shm://{}", new_name()), first, settings("second"))
}

/// Goes on with both ends until so many blocks of `pool` are free.
fn until_free(pool: &Pool, free: usize, near: &mut dyn Peer, far: &mut dyn Peer) {
    let (until, mut none) = (Instant::now() + WAIT, Message::default());
    while pool.free_count() < free {
        let wait = Duration::from_millis(1);
        let idle = [far.receive(&mut none, wait), near.receive(&mut none, wait)];
        assert!(idle.iter().all(|idle| matches!(idle, Ok(Received::Idle))), "{idle:?}");
        assert!(Instant::now() < until, "{pool:?}");
    }
}

#[test]
fn payload_in_a_shared_pool_is_read_where_it_lies() {
    let (mut near, mut far, _endpoint) = lending(1);
    let pool = shared_pool(100);
    let mut held = Vec::new();
    for number in 0..50 {
        send(&mut *near, &mut message(&pool, number, 100, PAYLOAD));
        near.flush(WAIT).expect("open");
        let mut received = Message::default();
        receive(&mut *far, &mut received);
        held.push(received);
    }
    for (number, message) in held.iter().enumerate() {
        check(message, number, 100, PAYLOAD);
    }
    let sent = near.counts();
    assert_eq!((sent.sent_bytes, sent.sent_messages), (50 * (PAYLOAD as u64 + 108), 50));
    assert_eq!(far.counts().received_bytes, sent.sent_bytes);
    // Headers, heads and tables.
    assert!(sent.copied_bytes < 50 * 1000, "{sent:?}");
    assert!(pool.free_count() <= 50, "what is read is not free: {pool:?}");
    held.truncate(10);
    until_free(&pool, 90, &mut *near, &mut *far);
    for (number, message) in held.iter().enumerate() {
        check(message, number, 100, PAYLOAD);
    }
    held.clear();
    until_free(&pool, 100, &mut *near, &mut *far);
}

#[test]
fn blocks_beyond_the_share_are_copied_and_lent_again_once_some_came_back() {
    let (mut near, mut far, _endpoint) = lending(4);
    let pool = shared_pool(40);
    let mut held = Vec::new();
    for round in 0..3 {
        let before = near.counts().copied_bytes;
        for number in 0..20 {
            send(&mut *near, &mut message(&pool, number, 0, PAYLOAD));
            near.flush(WAIT).expect("open");
            let mut received = Message::default();
            receive(&mut *far, &mut received);
            check(&received, number, 0, PAYLOAD);
            held.push(received);
        }
        let copied = near.counts().copied_bytes - before;
        let messages = copied / PAYLOAD as u64;
        assert_eq!(messages, 10, "round {round}: 10 of 40 blocks are lent, and 10 messages copied");
        assert_eq!(pool.free_count(), 30, "round {round}");
        held.clear();
        until_free(&pool, 40, &mut *near, &mut *far);
    }
}

#[test]
fn what_is_no_loan_is_copied() {
    for (one_in, is_shared, payload) in [(0, true, PAYLOAD), (1, false, PAYLOAD), (1, true, 200)] {
        let (mut near, mut far, _endpoint) = lending(one_in);
        let pool = Pool::of(4, BLOCK, Memory { is_shared, ..Memory::default() }).expect("memory");
        send(&mut *near, &mut message(&pool, 7, 0, payload));
        near.flush(WAIT).expect("open");
        let mut received = Message::default();
        receive(&mut *far, &mut received);
        check(&received, 7, 0, payload);
        assert!(near.counts().copied_bytes >= payload as u64, "{one_in} {is_shared} {payload}");
        assert_eq!(pool.free_count(), 4);
    }
}

#[test]
fn blocks_that_are_read_after_the_connection_is_lost_are_not_used_again_before() {
    for closes in [false, true] {
        let (mut near, mut far, _endpoint) = lending(1);
        let pool = shared_pool(8);
        let mut held = Vec::new();
        for number in 0..3 {
            send(&mut *near, &mut message(&pool, number, 0, PAYLOAD));
            near.flush(WAIT).expect("open");
            let mut received = Message::default();
            receive(&mut *far, &mut received);
            held.push(received);
        }
        if closes {
            let closing = thread::spawn(move || (far.close(WAIT), far));
            let ended = near.receive(&mut Message::default(), WAIT).expect("in order");
            assert_eq!(ended, Received::End);
            near.close(WAIT);
            drop(closing.join().expect("no panic"));
        } else {
            drop(far);
            let error = near.receive(&mut Message::default(), WAIT).expect_err("lost");
            assert!(matches!(error, PeerError::Lost { .. }), "{error}");
        }
        drop(near);
        // Whoever writes now does not write over what is read.
        let mut writers = Vec::new();
        while let Some(mut writer) = pool.take() {
            writer.tail().fill(0xee);
            writers.push(writer);
        }
        assert_eq!(writers.len(), 5);
        for (number, message) in held.iter().enumerate() {
            check(message, number, 0, PAYLOAD);
        }
        drop((held, writers));
        until_all_free(&pool);
    }
}

#[test]
fn both_ends_lend_at_once() {
    const COUNT: usize = 500;
    let (near, far, _endpoint) =
        pair_of(&format!("shm://{}", new_name()), settings("first"), settings("second"));
    let threads = [near, far].map(|mut peer| {
        thread::spawn(move || {
            let (pool, until) = (shared_pool(32), Instant::now() + WAIT);
            let (mut sent, mut seen) = (0, 0);
            let (mut received, mut held) = (Message::default(), Vec::new());
            while sent < COUNT || seen < COUNT {
                assert!(Instant::now() < until, "{sent} sent, {seen} seen, {pool:?}");
                if sent < COUNT && pool.free_count() > 2 {
                    send(&mut *peer, &mut message(&pool, sent, 0, PAYLOAD));
                    sent += 1;
                }
                while peer.receive(&mut received, Duration::ZERO).expect("open") == Received::Data {
                    check(&received, seen, 0, PAYLOAD);
                    held.push(std::mem::take(&mut received));
                    seen += 1;
                }
                if held.len() > 5 {
                    held.remove(0);
                }
            }
            drop(held);
            peer.flush(WAIT).expect("open");
            (peer, pool)
        })
    });
    let [(mut near, near_pool), (mut far, far_pool)] = threads.map(|thread| thread.join().expect("no panic"));
    until_free(&near_pool, 32, &mut *near, &mut *far);
    until_free(&far_pool, 32, &mut *near, &mut *far);
    assert!(near.receive(&mut Message::default(), SOON).is_ok());
}
