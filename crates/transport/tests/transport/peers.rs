//! Messages between units: the same tests over all three transports, over shared memory with copies and with loans, then faults of a
//! single one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_data::{Memory, Message, Pool, Received};
use thalweg_transport::ReadySet;
use thalweg_transport::peer::frame::{Header, Kind};
use thalweg_transport::peer::hello::Hello;
use thalweg_transport::peer::{Connector, Listener, Peer, PeerError, Sent, Settings, connect, listen};

pub(crate) const WAIT: Duration = Duration::from_secs(60);
pub(crate) const SOON: Duration = Duration::from_millis(50);
/// Time of silence after which a peer is considered dead; long, because the tests share the machine.
const SILENCE: Duration = Duration::from_secs(3);
pub(crate) const BLOCK: usize = 64 << 10;

/// A new URL of each transport, and another one over which blocks are lent.
fn urls() -> [String; 4] {
    let name = new_name();
    [
        format!("inproc://{name}"),
        format!("shm://{name}"),
        "tcp://127.0.0.1:0".to_owned(),
        format!("{LENT}{name}"),
    ]
}

/// How URLs begin over which blocks are lent.
const LENT: &str = "shm://lent-";

/// A name that no other endpoint has.
pub(crate) fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A pool for payloads that are sent to `url`.
fn pool_to(url: &str, blocks: usize) -> Pool {
    let memory = Memory { is_shared: url.starts_with(LENT), ..Memory::default() };
    Pool::of(blocks, BLOCK, memory).expect("memory")
}

pub(crate) fn settings(name: &str) -> Settings {
    let pool = Pool::new(300, BLOCK).expect("memory");
    // On a busy machine, a thread may be delayed for longer than a unit waits in a run.
    Settings {
        ring_bytes: 256 << 10,
        connect_wait: WAIT,
        hello_wait: WAIT,
        silence_wait: WAIT,
        ..Settings::new(name, pool)
    }
}

/// A connection: the peer that connected, the peer that accepted, and the endpoint.
pub(crate) fn pair_of(
    url: &str,
    first: Settings,
    second: Settings,
) -> (Box<dyn Peer>, Box<dyn Peer>, Listener) {
    let mut listener = listen(url, second).expect("a free URL");
    let url = listener.url();
    let connecting = thread::spawn(move || connect(&url, first));
    let far = accept(&mut listener);
    (connecting.join().expect("no panic").expect("it listens"), far, listener)
}

fn accept(listener: &mut Listener) -> Box<dyn Peer> {
    listener
        .accept(WAIT)
        .expect("an endpoint")
        .unwrap_or_else(|| panic!("no connection: {:?}", listener.last_refusal()))
}

pub(crate) fn pair(url: &str) -> (Box<dyn Peer>, Box<dyn Peer>, Listener) {
    pair_of(url, settings("first"), settings("second"))
}

/// Byte `at` of the payload of message `number`.
fn byte(number: usize, at: usize) -> u8 {
    (number * 31 + at * 7 + at / 251) as u8
}

/// A message with a payload in several slices of blocks of `pool`.
pub(crate) fn message(pool: &Pool, number: usize, head_bytes: usize, payload_bytes: usize) -> Message {
    let mut message = Message::default();
    message.head.extend((number as u64).to_le_bytes());
    message.head.resize(8 + head_bytes, number as u8);
    let mut at = 0;
    while at < payload_bytes {
        let mut writer = pool.take().expect("a block");
        while at < payload_bytes && writer.remaining() > 0 {
            let length = (payload_bytes - at).min(writer.remaining()).min(1 + at % 9000);
            let tail = &mut writer.tail()[..length];
            tail.iter_mut().enumerate().for_each(|(index, each)| *each = byte(number, at + index));
            message.slices.push(writer.publish(length));
            message.leases.add(writer.lease());
            at += length;
            // Some slices are adjacent, some are not.
            if number.is_multiple_of(2) {
                writer.align(64);
            }
        }
    }
    message
}

pub(crate) fn check(message: &Message, number: usize, head_bytes: usize, payload_bytes: usize) {
    assert_eq!(message.head[..8], (number as u64).to_le_bytes(), "message {number}");
    assert_eq!(message.head.len(), 8 + head_bytes);
    assert!(message.head[8..].iter().all(|each| *each == number as u8));
    assert_eq!(message.payload_bytes(), payload_bytes as u64);
    let bytes = message.slices.iter().flat_map(|slice| message.leases.bytes(*slice));
    for (at, each) in bytes.enumerate() {
        assert_eq!(*each, byte(number, at), "byte {at} of message {number}");
    }
}

pub(crate) fn send(peer: &mut dyn Peer, message: &mut Message) {
    let until = Instant::now() + WAIT;
    while peer.send(message).expect("open") == Sent::Full {
        peer.flush(SOON).expect("open");
        assert!(Instant::now() < until, "the other end takes nothing");
    }
    assert!(message.head.is_empty() && message.slices.is_empty() && message.leases.is_empty());
}

pub(crate) fn receive(peer: &mut dyn Peer, message: &mut Message) {
    assert_eq!(peer.receive(message, WAIT).expect("open"), Received::Data);
}

/// Waits for the thread that keeps blocks which were on loan when their connection was closed.
pub(crate) fn until_all_free(pool: &Pool) {
    let until = Instant::now() + WAIT;
    while pool.free_count() < pool.block_count() {
        assert!(Instant::now() < until, "{pool:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn messages_of_every_length_arrive_whole_and_in_order() {
    for url in urls() {
        let (mut near, mut far, _endpoint) = pair(&url);
        assert_eq!((near.name(), far.name()), ("second", "first"));
        let payloads = [0, 1, 63, 64, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 1 << 20, 8 << 20, 3, 0, 777_777];
        let heads = [0, 5, 1016, 1017, 0, 70_000, 1];
        let count = payloads.len() * heads.len();
        let lengths = move |number: usize| (heads[number % heads.len()], payloads[number % payloads.len()]);
        let pool = pool_to(&url, 1000);
        let sending = thread::spawn(move || {
            for number in 0..count {
                let (head, payload) = lengths(number);
                // The queue holds two of the longest messages, each in about 129 blocks.
                while pool.free_count() < 260 {
                    near.flush(SOON).expect("open");
                }
                send(&mut *near, &mut message(&pool, number, head, payload));
            }
            assert!(near.close(WAIT));
            (near, pool)
        });
        let mut received = Message::default();
        for number in 0..count {
            receive(&mut *far, &mut received);
            let (head, payload) = lengths(number);
            check(&received, number, head, payload);
        }
        assert_eq!(far.receive(&mut received, WAIT).expect("in order"), Received::End, "{url}");
        assert_eq!(far.counts().received_messages, count as u64);
        let (near, pool) = sending.join().expect("the sender");
        assert_eq!(near.counts().sent_bytes, far.counts().received_bytes);
        drop((near, far, received));
        until_all_free(&pool);
    }
}

#[test]
fn thousands_of_small_messages_go_both_ways_at_once() {
    const COUNT: usize = 20_000;
    /// Some are long enough to be lent.
    const LONGEST: usize = 300;
    for url in urls() {
        let (near, far, _endpoint) = pair(&url);
        let threads = [near, far].map(|mut peer| {
            // More than wait to be sent (256) and are on loan.
            let pool = pool_to(&url, 500);
            thread::spawn(move || {
                let (mut sent, mut seen) = (0, 0);
                let (mut out, mut back) = (Message::default(), Message::default());
                while sent < COUNT || seen < COUNT {
                    let mut wait = Duration::ZERO;
                    if sent < COUNT {
                        if out.head.is_empty() {
                            out = message(&pool, sent, 4, sent % LONGEST);
                        }
                        match peer.send(&mut out).expect("open") {
                            Sent::Taken => sent += 1,
                            Sent::Full => wait = Duration::from_millis(1),
                        }
                    } else {
                        wait = SOON;
                    }
                    if (sent % 16 == 0 || !wait.is_zero())
                        && peer.receive(&mut back, wait).expect("open") == Received::Data
                    {
                        check(&back, seen, 4, seen % LONGEST);
                        seen += 1;
                    }
                    while peer.receive(&mut back, Duration::ZERO).expect("open") == Received::Data {
                        check(&back, seen, 4, seen % LONGEST);
                        seen += 1;
                    }
                }
                peer.flush(WAIT).expect("open");
                // Neither peer is dropped before the other one has received everything.
                (peer, pool)
            })
        });
        let ended = threads.map(|thread| thread.join().expect("no panic"));
        assert!(ended.iter().all(|(peer, _)| peer.counts().sent_messages == COUNT as u64), "{url}");
    }
}

#[test]
fn an_end_that_receives_nothing_stops_the_sender() {
    for url in urls() {
        let (mut near, mut far, _endpoint) = pair(&url);
        let pool = pool_to(&url, 2000);
        let mut taken = 0;
        let mut held = Message::default();
        while taken < 1900 {
            held = message(&pool, taken, 0, 60_000);
            if near.send(&mut held).expect("open") == Sent::Full {
                near.flush(SOON).expect("open");
                if near.send(&mut held).expect("open") == Sent::Full {
                    break;
                }
            }
            taken += 1;
        }
        assert!((10..1900).contains(&taken), "{url}: {taken} messages of 60 kB were taken");
        check(&held, taken, 0, 60_000);
        // Once the other end receives, everything arrives in order.
        let reading = thread::spawn(move || {
            let mut received = Message::default();
            for number in 0..=taken {
                receive(&mut *far, &mut received);
                check(&received, number, 0, 60_000);
            }
            far
        });
        send(&mut *near, &mut held);
        assert!(near.flush(WAIT).expect("open"));
        drop(reading.join().expect("the reader"));
    }
}

#[test]
fn a_receiver_without_blocks_reports_full_and_goes_on_later() {
    // What is lent needs no block of the receiver.
    for url in urls().into_iter().skip(1).filter(|url| !url.starts_with(LENT)) {
        let few = Settings { pool: Pool::new(5, 4096).expect("memory"), ..settings("second") };
        let (mut near, mut far, _endpoint) = pair_of(&url, settings("first"), few);
        let pool = Pool::new(100, BLOCK).expect("memory");
        for number in 0..20 {
            send(&mut *near, &mut message(&pool, number, 0, 4000));
        }
        near.flush(SOON).expect("open");
        let mut held = Vec::new();
        loop {
            let mut received = Message::default();
            match far.receive(&mut received, SOON).expect("open") {
                Received::Data => held.push(received),
                other => break assert_eq!(other, Received::Full, "{url}"),
            }
        }
        assert!((2..=5).contains(&held.len()));
        for number in 0..20 {
            if held.is_empty() {
                let mut received = Message::default();
                receive(&mut *far, &mut received);
                held.push(received);
            }
            check(&held.remove(0), number, 0, 4000);
        }
        match near.send(&mut message(&pool, 0, 0, 3 * 4096 + 1)) {
            Err(error @ PeerError::TooLong { bytes: 12_289, most: 12_288, .. }) => {
                assert!(error.to_string().contains("more blocks"));
            }
            other => panic!("{other:?}"),
        }
        send(&mut *near, &mut message(&pool, 20, 0, 3 * 4096));
        near.flush(SOON).expect("open");
        let mut received = Message::default();
        receive(&mut *far, &mut received);
        check(&received, 20, 0, 3 * 4096);
    }
}

#[test]
fn a_dropped_end_is_reported_as_lost_and_its_blocks_come_back() {
    for url in urls() {
        let (mut near, far, mut endpoint) = pair(&url);
        let pool = pool_to(&url, 64);
        send(&mut *near, &mut message(&pool, 0, 0, 100_000));
        drop(far);
        let until = Instant::now() + WAIT;
        let error = loop {
            assert!(Instant::now() < until, "{url}: the loss is not reported");
            let sent = near.send(&mut message(&pool, 1, 0, 100));
            let error = sent.map(drop).and_then(|()| near.receive(&mut Message::default(), SOON).map(drop));
            if let Err(error) = error {
                break error;
            }
        };
        assert!(matches!(error, PeerError::Lost { .. }), "{url}: {error}");
        if !url.starts_with("inproc") {
            assert_eq!(pool.free_count(), pool.block_count(), "{url}: {pool:?}");
        }
        drop(near);
        assert_eq!(pool.free_count(), pool.block_count(), "{url}: {pool:?}");
        // The endpoint still accepts connections.
        let again = endpoint.url();
        let connecting = thread::spawn(move || connect(&again, settings("third")));
        assert_eq!(accept(&mut endpoint).name(), "third");
        drop(connecting.join().expect("no panic"));
    }
}

#[test]
fn one_ready_set_waits_for_many_peers() {
    for url in urls() {
        let mut endpoint = listen(&url, settings("centre")).expect("a free URL");
        let mut set = ReadySet::new().expect("a descriptor");
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for key in 0..6 {
            let (url, own) = (endpoint.url(), settings(&format!("unit {key}")));
            let connecting = thread::spawn(move || connect(&url, own));
            far.push(accept(&mut endpoint));
            near.push(connecting.join().expect("no panic").expect("it listens"));
            set.add(far[key].descriptor(), key).expect("fresh");
        }
        let mut received = Message::default();
        for peer in &mut far {
            assert_eq!(peer.receive(&mut received, Duration::ZERO).expect("open"), Received::Idle);
        }
        let pool = pool_to(&url, 64);
        for round in 0..50 {
            for key in [round % 6, (round + 2) % 6] {
                send(&mut *near[key], &mut message(&pool, round, 0, 1000));
                near[key].flush(WAIT).expect("open");
                // Takes back what was lent.
                let idle = near[key].receive(&mut received, Duration::ZERO).expect("open");
                assert_eq!(idle, Received::Idle);
            }
            let (mut seen, until) = (Vec::new(), Instant::now() + WAIT);
            while seen.len() < 2 {
                assert!(Instant::now() < until, "{url}: round {round}, seen {seen:?}");
                for key in set.wait(WAIT).expect("a set").to_vec() {
                    while far[key].receive(&mut received, Duration::ZERO).expect("open") == Received::Data {
                        check(&received, round, 0, 1000);
                        seen.push(key);
                    }
                }
            }
            seen.sort_unstable();
            let mut expected = [round % 6, (round + 2) % 6];
            expected.sort_unstable();
            assert_eq!(seen, expected);
        }
        drop(near.remove(4));
        assert_eq!(set.wait(WAIT).expect("a set"), [4], "{url}: the end of a peer wakes, too");
        assert!(far[4].receive(&mut received, WAIT).is_err());
    }
}

/// Listens at a URL that was in use. A process that another test starts inherits its socket until it executes the other program.
fn free_again(url: &str) -> Listener {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match listen(url, settings("one")) {
            Err(PeerError::Taken { .. }) if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
            listener => return listener.expect("free again"),
        }
    }
}

#[test]
fn connect_waits_for_an_absent_unit_and_then_names_it() {
    for url in urls() {
        let url = url.replace(":0", ":9");
        let brief = Settings { connect_wait: Duration::from_millis(100), ..settings("eager") };
        match connect(&url, brief) {
            Err(error @ PeerError::NotReached { .. }) => {
                assert!(error.to_string().contains("no unit listens there"), "{error}");
            }
            other => panic!("{url}: {:?}", other.map(|peer| peer.place().to_owned())),
        }
    }
    for url in &urls()[..2] {
        let late = url.clone();
        let listening = thread::spawn(move || {
            // Much less than the connecting end waits, even on a busy machine.
            thread::sleep(Duration::from_millis(150));
            accept(&mut listen(&late, settings("late")).expect("a free URL")).name().to_owned()
        });
        assert_eq!(connect(url, settings("early")).expect("it listens later").name(), "late");
        assert_eq!(listening.join().expect("no panic"), "early");
        let first = free_again(url);
        assert!(matches!(listen(url, settings("two")), Err(PeerError::Taken { .. })), "{url}");
        drop(first);
    }
}

/// A hello frame of another version.
fn other_version() -> Vec<u8> {
    let mut head = Vec::new();
    Hello { lowest: 7, highest: 9, ..Hello::of("from the future", 0) }.encode(&mut head);
    let header = Header {
        version: 9,
        kind: Kind::Hello,
        head_bytes: head.len() as u32,
        table_entries: 0,
        payload_bytes: 0,
        sequence: 0,
    };
    [header.encode().to_vec(), head].concat()
}

#[test]
fn another_version_is_refused_with_a_message_at_both_ends() {
    let mut endpoint = listen("tcp://127.0.0.1:0", settings("endpoint")).expect("loopback");
    let address = endpoint.url().replace("tcp://", "");
    let mut stream = TcpStream::connect(&address).expect("listening");
    stream.write_all(&other_version()).expect("read");
    let until = Instant::now() + WAIT;
    while endpoint.last_refusal().is_none() && Instant::now() < until {
        assert!(endpoint.accept(SOON).expect("an endpoint").is_none());
    }
    let words = endpoint.last_refusal().expect("one").to_string();
    assert!(words.contains("`from the future` speaks versions 7 to 9, this one 1 to 1"), "{words}");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("closed in order");
    let words = String::from_utf8_lossy(&answer);
    assert!(words.contains("`endpoint` speaks versions 1 to 1, you 7 to 9"), "{words}");

    // The reverse: the listening end is of another version.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let url = format!("tcp://{}", listener.local_addr().expect("bound"));
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a unit");
        stream.write_all(&other_version()).expect("read");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    match connect(&url, settings("asker")) {
        Err(PeerError::Version { theirs: (7, 9), .. }) => {}
        other => panic!("{:?}", other.map(|peer| peer.place().to_owned())),
    }
    answering.join().expect("no panic");
}

#[test]
fn garbage_silence_and_truncated_hellos_do_not_close_the_endpoint() {
    let quick = Settings { hello_wait: Duration::from_millis(500), ..settings("endpoint") };
    let mut endpoint = listen("tcp://127.0.0.1:0", quick).expect("loopback");
    let address = endpoint.url().replace("tcp://", "");
    let mut garbage = TcpStream::connect(&address).expect("listening");
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("read");
    let _silent = TcpStream::connect(&address).expect("listening");
    let mut slow = TcpStream::connect(&address).expect("listening");
    slow.write_all(&other_version()[..5]).expect("read");
    let half_closed = TcpStream::connect(&address).expect("listening");
    half_closed.shutdown(std::net::Shutdown::Write).expect("open");
    let url = endpoint.url();
    let connecting = thread::spawn(move || connect(&url, settings("honest")));
    assert_eq!(accept(&mut endpoint).name(), "honest");
    drop(connecting.join().expect("no panic"));
    let until = Instant::now() + WAIT;
    while endpoint.refused() < 4 && Instant::now() < until {
        assert!(endpoint.accept(SOON).expect("an endpoint").is_none());
    }
    assert!(endpoint.refused() >= 4, "{}", endpoint.refused());
    assert!(matches!(endpoint.last_refusal(), Some(PeerError::Silent { .. })));
}

#[test]
fn garbage_behind_a_hello_ends_only_that_connection() {
    let mut endpoint = listen("tcp://127.0.0.1:0", settings("endpoint")).expect("loopback");
    let address = endpoint.url().replace("tcp://", "");
    let mut stream = TcpStream::connect(&address).expect("listening");
    let mut head = Vec::new();
    Hello::of("sends garbage", 1 << 20).encode(&mut head);
    let hello = Header {
        version: 1,
        kind: Kind::Hello,
        head_bytes: head.len() as u32,
        table_entries: 0,
        payload_bytes: 0,
        sequence: 0,
    };
    stream.write_all(&[hello.encode().to_vec(), head].concat()).expect("read");
    let mut bad = accept(&mut endpoint);
    let url = endpoint.url();
    let connecting = thread::spawn(move || connect(&url, settings("honest")));
    let mut good = accept(&mut endpoint);
    let mut honest = connecting.join().expect("no panic").expect("listening");
    let huge = Header {
        version: 1,
        kind: Kind::Message,
        head_bytes: 0,
        table_entries: 0,
        payload_bytes: 1 << 50,
        sequence: 1,
    };
    stream.write_all(&huge.encode()).expect("read");
    let mut received = Message::default();
    let error = bad.receive(&mut received, WAIT).expect_err("refused");
    assert!(matches!(error, PeerError::Frame { .. }), "{error}");
    assert!(matches!(bad.receive(&mut received, WAIT), Err(PeerError::Closed { .. })));
    let pool = Pool::new(8, BLOCK).expect("memory");
    send(&mut *honest, &mut message(&pool, 5, 0, 5000));
    honest.flush(WAIT).expect("open");
    receive(&mut *good, &mut received);
    check(&received, 5, 0, 5000);
}

#[test]
fn a_silent_peer_is_considered_dead() {
    let impatient =
        Settings { silence_wait: SILENCE, heartbeat: Duration::from_millis(50), ..settings("impatient") };
    let (mut near, mut far, _endpoint) = pair_of("tcp://127.0.0.1:0", impatient.clone(), impatient);
    let mut received = Message::default();
    // While both ends call `receive`, heartbeats keep the connection open.
    let receiving = thread::spawn(move || {
        let until = Instant::now() + SILENCE.mul_f64(1.3);
        while Instant::now() < until {
            let idle = far.receive(&mut Message::default(), Duration::from_millis(20)).expect("alive");
            assert_eq!(idle, Received::Idle);
        }
        far
    });
    let until = Instant::now() + SILENCE.mul_f64(1.2);
    while Instant::now() < until {
        assert_eq!(near.receive(&mut received, Duration::from_millis(20)).expect("alive"), Received::Idle);
    }
    let far = receiving.join().expect("no panic");
    let error = loop {
        if let Err(error) = near.receive(&mut received, WAIT) {
            break error;
        }
    };
    assert!(matches!(error, PeerError::Silent { .. }), "{error}");
    drop(far);
}

#[test]
fn an_end_that_only_receives_or_has_no_block_is_not_considered_dead() {
    let impatient = |pool| Settings {
        silence_wait: SILENCE,
        heartbeat: Duration::from_millis(50),
        ..Settings::new("impatient", pool)
    };
    let pool = |blocks| Pool::new(blocks, BLOCK).expect("memory");
    let (mut near, mut far, _endpoint) =
        pair_of("tcp://127.0.0.1:0", impatient(pool(20)), impatient(pool(20)));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sending = thread::spawn(move || {
        let pool = pool(300);
        let mut out = message(&pool, 0, 0, 10_000);
        while !stopped.load(Ordering::Relaxed) {
            if near.send(&mut out).expect("alive") == Sent::Taken {
                out = message(&pool, 0, 0, 10_000);
            }
            // It sends all the time, and leaves others a processor.
            near.receive(&mut Message::default(), Duration::from_millis(1)).expect("alive");
        }
        near
    });
    let mut received = Message::default();
    let until = Instant::now() + SILENCE.mul_f64(1.2);
    while Instant::now() < until {
        far.receive(&mut received, SOON).expect("alive");
    }
    let (mut held, mut full) = (Vec::new(), 0);
    let until = Instant::now() + SILENCE.mul_f64(1.2);
    while Instant::now() < until {
        let mut next = Message::default();
        match far.receive(&mut next, Duration::from_millis(10)).expect("alive") {
            Received::Full => full += 1,
            _ => held.push(next),
        }
    }
    assert!(full > 10, "the pool was used up");
    held.clear();
    assert_eq!(far.receive(&mut received, WAIT).expect("alive"), Received::Data);
    stop.store(true, Ordering::Relaxed);
    drop(sending.join().expect("no panic"));
}

#[test]
fn names_of_shm_urls_are_separate_for_each_user() {
    let [_, url, ..] = urls();
    let name = url.replace("shm://", "");
    // Stands for another user's unit of that name.
    let other = std::os::unix::net::SocketAddr::from_abstract_name(format!("thalweg/{name}")).expect("short");
    let _other = std::os::unix::net::UnixListener::bind_addr(&other).expect("free");
    let (near, far, _endpoint) = pair(&url);
    assert_eq!((near.name(), far.name()), ("second", "first"));
}

/// Not a test by itself: the process that the next test kills.
#[test]
fn child_that_is_killed() {
    let Ok(url) = std::env::var("THALWEG_TEST_PEER") else { return };
    let pool = pool_to(&url, 300);
    let mut peer = connect(&url, settings("victim")).expect("listening");
    for number in 0.. {
        let mut out = message(&pool, number, 0, 50_000);
        while peer.send(&mut out).expect("open") == Sent::Full {
            peer.flush(SOON).expect("open");
        }
    }
}

fn victim(url: &str) -> Child {
    Command::new(std::env::current_exe().expect("a test"))
        .args(["--exact", "peers::child_that_is_killed", "--nocapture"])
        .env("THALWEG_TEST_PEER", url)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process")
}

#[test]
fn a_killed_process_is_reported_as_lost_and_its_blocks_come_back() {
    for url in urls().into_iter().skip(1) {
        let own = settings("survivor");
        let pool = own.pool.clone();
        let mut endpoint = listen(&url, own).expect("a free URL");
        // Twice, since the endpoint must accept the next process, too.
        for _ in 0..2 {
            let mut child = victim(&endpoint.url());
            let mut peer = accept(&mut endpoint);
            let mut received = Message::default();
            for number in 0..100 {
                receive(&mut *peer, &mut received);
                check(&received, number, 0, 50_000);
            }
            child.kill().expect("it runs");
            child.wait().expect("it ran");
            let mut number = 100;
            let error = loop {
                match peer.receive(&mut received, WAIT) {
                    Ok(Received::Data) => check(&received, number, 0, 50_000),
                    Ok(other) => panic!("{url}: {other:?}"),
                    Err(error) => break error,
                }
                number += 1;
            };
            assert!(matches!(error, PeerError::Lost { .. }), "{url}: {error}");
            received.clear();
            assert_eq!(pool.free_count(), pool.block_count(), "{url}");
        }
    }
}

/// Not a test by itself: the process without descriptors of the next test.
#[test]
fn child_without_descriptors() {
    if std::env::var_os("THALWEG_TEST_FEW_FILES").is_none() {
        return;
    }
    for url in ["tcp://127.0.0.1:0", &format!("shm://{}", new_name())] {
        let mut endpoint = listen(url, settings("endpoint")).expect("a free URL");
        let mut connector = Connector::new(&endpoint.url(), settings("guest")).expect("a URL");
        // Connected, and the endpoint has not accepted it yet.
        assert!(connector.poll(Duration::from_millis(50)).expect("no refusal").is_none());
        let files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        let start = Instant::now();
        assert!(endpoint.accept(Duration::from_millis(250)).expect("an endpoint").is_none());
        let (refused, most) = (endpoint.refused(), start.elapsed().as_millis() as u64 / 100 + 1);
        assert!((1..=most).contains(&refused), "{url}: refused {refused} times, at most {most}");
        let why = endpoint.last_refusal().map(ToString::to_string).unwrap_or_default();
        assert!(why.contains("Too many open files"), "{url}: {why}");
        drop(files);
        let (mut near, mut far) = (None, None);
        while near.is_none() || far.is_none() {
            near = near.or_else(|| connector.poll(Duration::from_millis(1)).expect("no refusal"));
            far = far.or_else(|| endpoint.accept(Duration::from_millis(1)).expect("an endpoint"));
        }
    }
}

#[test]
fn an_endpoint_without_descriptors_rests_and_accepts_later() {
    let program = std::env::current_exe().expect("a test");
    let script = "ulimit -n 100 && exec \"$0\" --exact peers::child_without_descriptors --nocapture";
    let child =
        Command::new("sh").arg("-c").arg(script).arg(program).env("THALWEG_TEST_FEW_FILES", "1").output();
    let child = child.expect("a shell");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"), "it ran");
}

#[test]
fn a_connector_makes_one_connection_after_another() {
    for url in urls() {
        let mut endpoint = listen(&url, settings("endpoint")).expect("a free URL");
        let mut connector = Connector::new(&endpoint.url(), settings("returning")).expect("a URL");
        for _ in 0..3 {
            let (mut near, mut far) = (None, None);
            while near.is_none() || far.is_none() {
                near = near.or_else(|| connector.poll(Duration::from_millis(1)).expect("no refusal"));
                far = far.or_else(|| endpoint.accept(Duration::from_millis(1)).expect("an endpoint"));
            }
            let (mut near, mut far) = (near.expect("made"), far.expect("made"));
            let pool = Pool::new(8, BLOCK).expect("memory");
            send(&mut *near, &mut message(&pool, 1, 0, 10));
            near.flush(WAIT).expect("open");
            let mut received = Message::default();
            receive(&mut *far, &mut received);
            check(&received, 1, 0, 10);
        }
    }
}
