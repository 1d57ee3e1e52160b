//! Streams over real loopback sockets, written in chunks of any length.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use thalweg_data::batch::Frames;
use thalweg_data::{Pool, Received, Unit};
use thalweg_transport::{ReadySet, TcpReceiver, TcpReceiverSettings, TcpSender, TransportError};

const WAIT: Duration = Duration::from_millis(20);

fn settings(address: SocketAddr) -> TcpReceiverSettings {
    TcpReceiverSettings { address, receive_buffer_bytes: 0, connect_wait: Duration::from_secs(2) }
}

/// Units: a length byte, then that many bytes, each the low byte of the unit's number.
fn units(count: usize) -> Vec<u8> {
    let unit = |number: usize| {
        let length = number * 37 % 256;
        std::iter::once(length as u8).chain(std::iter::repeat_n(number as u8, length))
    };
    (0..count).flat_map(unit).collect()
}

/// Checks whole units from number `next` on; returns the length of the incomplete unit at the end, bytes.
fn check(mut bytes: &[u8], next: &mut usize) -> usize {
    while let [length, rest @ ..] = bytes
        && let Some(unit) = rest.get(..usize::from(*length))
    {
        assert_eq!(usize::from(*length), *next * 37 % 256);
        assert!(unit.iter().all(|byte| *byte == *next as u8));
        bytes = &rest[unit.len()..];
        *next += 1;
    }
    bytes.len()
}

#[test]
fn units_are_whole_however_the_stream_is_chunked() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let bytes = units(3000);
    let total = bytes.len() as u64;
    let sending = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a receiver");
        stream.set_nodelay(true).expect("a socket");
        let mut rest = bytes.as_slice();
        for length in (1..).map(|step: usize| step * step % 1777 + 1) {
            if rest.is_empty() {
                break;
            }
            let (chunk, later) = rest.split_at(length.min(rest.len()));
            stream.write_all(chunk).expect("the receiver reads");
            rest = later;
        }
    });
    let pool = Pool::new(3, 4096).expect("memory");
    let mut receiver = TcpReceiver::connect(&settings(address), pool).expect("listening");
    let (mut next, mut frames, mut seen) = (0, Frames::default(), 0);
    loop {
        frames.clear();
        match receiver.receive(&mut frames, WAIT).expect("a socket") {
            Received::Data => {
                assert_eq!(frames.slices.len(), 1);
                seen += frames.byte_count();
                let carried = check(frames.bytes(frames.slices[0]), &mut next);
                receiver.carry(carried);
            }
            Received::End => break,
            Received::Idle | Received::Full => {}
        }
    }
    sending.join().expect("the sender");
    assert_eq!((next, seen), (3000, total));
    assert_eq!(receiver.counters().total_input(Unit::Bytes), total);
    assert_eq!(receiver.counters().total_output(Unit::Bytes), total);
}

#[test]
fn a_full_pool_slows_the_sender() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let pool = Pool::new(2, 4096).expect("memory");
    let mut receiver =
        TcpReceiver::connect(&settings(listener.local_addr().expect("bound")), pool).expect("listening");
    let (stream, _) = listener.accept().expect("a receiver");
    let mut sender = TcpSender::over(stream).expect("a socket");
    let (header, body) = ([1u8; 32], vec![2u8; 1 << 20]);
    // The receiver does not read yet: the sender has to wait at some point, and gives up at the third question.
    let mut asked = 0;
    let whole = sender.send(&[&header, &body, &[], &vec![3; 64 << 20]], || {
        asked += 1;
        asked < 3
    });
    assert!(!whole.expect("a socket"));
    assert!(sender.sent_bytes() > 0 && sender.sent_bytes() < 65 << 20);
    assert!((1 << 16..65 << 20).contains(&receiver.waiting_bytes()), "{}", receiver.waiting_bytes());
    // The batches keep their blocks until they are dropped.
    let mut held = Vec::new();
    loop {
        let mut frames = Frames::default();
        match receiver.receive(&mut frames, WAIT).expect("a socket") {
            Received::Data => held.push(frames),
            other => break assert_eq!(other, Received::Full),
        }
    }
    assert_eq!(held.iter().map(Frames::byte_count).sum::<u64>(), 2 * 4096);
    held.clear();
    assert_eq!(receiver.receive(&mut Frames::default(), WAIT).expect("a socket"), Received::Data);
}

#[test]
fn a_port_that_nobody_listens_on_is_reported() {
    let address =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    match TcpReceiver::connect(&settings(address), Pool::new(1, 4096).expect("memory")) {
        Err(message @ TransportError::Connect { .. }) => {
            assert!(message.to_string().contains("nothing listens on this port"), "{message}");
        }
        other => panic!("{:?}", other.map(|receiver| receiver.description())),
    }
}

#[test]
fn one_thread_reads_many_boards() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let mut boards: Vec<_> =
        (0..20).map(|_| std::net::TcpStream::connect(address).expect("listening")).collect();
    let pool = Pool::new(40, 4096).expect("memory");
    let mut set = ReadySet::new().expect("a descriptor");
    let mut receivers: Vec<_> = (0..boards.len())
        .map(|key| {
            let (stream, _) = listener.accept().expect("a board");
            let receiver = TcpReceiver::over(stream, 0, pool.clone()).expect("connected");
            set.add(&receiver, key).expect("fresh");
            receiver
        })
        .collect();
    let mut frames = Frames::default();
    let start = std::time::Instant::now();
    for receiver in &mut receivers {
        assert_eq!(receiver.receive(&mut frames, Duration::ZERO).expect("a socket"), Received::Idle);
    }
    assert!(start.elapsed() < Duration::from_secs(10), "a receive with wait 0 does not wait");
    boards[7].write_all(b"seven").expect("read");
    drop(boards.remove(12));
    let (mut data, mut ended) = (Vec::new(), Vec::new());
    while data.is_empty() || ended.is_empty() {
        for key in set.wait(Duration::from_secs(60)).expect("a set").to_vec() {
            frames.clear();
            match receivers[key].receive(&mut frames, Duration::ZERO).expect("a socket") {
                Received::Data => data.push(frames.bytes(frames.slices[0]).to_vec()),
                Received::End => {
                    set.remove(&receivers[key]).expect("in the set");
                    ended.push(key);
                }
                Received::Idle | Received::Full => {}
            }
        }
    }
    assert_eq!((data, ended.len()), (vec![b"seven".to_vec()], 1));
}
