//! Datagrams through a packet ring on loopback; skipped without the privilege.

use std::net::SocketAddr;
use std::time::Duration;

use thalweg_data::batch::Frames;
use thalweg_data::{LossReason, Pool, Received, Unit};
use thalweg_transport::{
    Backend, FullPolicy, ReadySet, TransportError, UdpReceiver, UdpReceiverSettings, UdpSender,
};

const WAIT: Duration = Duration::from_millis(20);

fn settings(bind: &str) -> UdpReceiverSettings {
    let bind: SocketAddr = bind.parse().expect("an address");
    UdpReceiverSettings {
        backend: Backend::Ring,
        receive_buffer_bytes: 16 << 20,
        ..UdpReceiverSettings::new(bind, 9000)
    }
}

/// A receiver on a packet ring; `None` and a skip message without the privilege.
fn open(settings: UdpReceiverSettings, blocks: usize) -> Option<UdpReceiver> {
    match UdpReceiver::open(settings, Pool::new(blocks, 256 << 10).expect("memory")) {
        Ok(receiver) => Some(receiver),
        Err(error @ TransportError::Privilege { .. }) => {
            assert!(error.to_string().contains("CAP_NET_RAW"));
            thalweg_prerequisite::skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn sender_to(receiver: &UdpReceiver) -> UdpSender {
    let to = receiver.local_address().expect("bound");
    let local = SocketAddr::new(to.ip(), 0);
    UdpSender::open(local, to).expect("loopback")
}

fn datagram(index: usize, length: usize) -> Vec<u8> {
    (0..length).map(|byte| (index * 31 + byte * 7) as u8).collect()
}

/// Copies of the datagrams that arrive until three receives in a row find none.
fn receive_all(receiver: &mut UdpReceiver) -> Vec<Vec<u8>> {
    let (mut all, mut frames, mut idle) = (Vec::new(), Frames::default(), 0);
    while idle < 3 {
        frames.clear();
        let received = receiver.receive(&mut frames, WAIT).expect("a ring");
        all.extend(frames.slices.iter().map(|slice| frames.bytes(*slice).to_vec()));
        idle = if received == Received::Data { 0 } else { idle + 1 };
    }
    all
}

fn assert_closed(receiver: &UdpReceiver) {
    let counters = receiver.counters();
    for unit in [Unit::Datagrams, Unit::Bytes] {
        assert_eq!(
            counters.total_input(unit),
            counters.total_output(unit) + counters.total_lost_any(unit),
            "{unit}"
        );
    }
}

#[test]
fn each_datagram_comes_once_and_whole() {
    for (bind, segmenting) in [("127.0.0.1:0", false), ("127.0.0.1:0", true), ("[::1]:0", true)] {
        let Some(mut receiver) = open(settings(bind), 200) else {
            return;
        };
        let mut sender = sender_to(&receiver);
        if !segmenting {
            sender = sender.without_segmentation();
        }
        let lengths = [0, 1, 18, 700, 700, 700, 1472, 8972, 9000, 64, 64, 64, 5];
        let sent: Vec<_> = (0..2000).map(|index| datagram(index, lengths[index % lengths.len()])).collect();
        let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
        let (mut received, mut frames) = (Vec::new(), Frames::default());
        let until = std::time::Instant::now() + Duration::from_secs(60);
        for part in slices.chunks(100) {
            assert_eq!(sender.send(part, WAIT).expect("loopback"), part.len());
            let wanted = received.len() + part.len();
            while receiver.waiting_bytes() == 0 {
                assert!(std::time::Instant::now() < until, "the kernel passes no block on");
                std::thread::yield_now();
            }
            // Receive all of a part before the next: a slow sender would fill the ring with many nearly empty blocks.
            while received.len() < wanted {
                assert!(std::time::Instant::now() < until, "{} of {wanted}", received.len());
                frames.clear();
                receiver.receive(&mut frames, WAIT).expect("a ring");
                received.extend(frames.slices.iter().map(|slice| frames.bytes(*slice).to_vec()));
            }
        }
        assert_eq!(receive_all(&mut receiver), Vec::<Vec<u8>>::new(), "nothing comes twice");
        assert_eq!((receiver.socket_drops(), receiver.waiting_bytes()), (0, 0));
        assert_eq!(received.len(), sent.len(), "{bind}, segmenting: {segmenting}");
        assert!(received == sent, "bytes and order");
        assert_eq!(receiver.moved_bytes(), sent.iter().map(Vec::len).sum::<usize>() as u64);
        assert_closed(&receiver);
    }
}

#[test]
fn packets_dropped_by_a_full_ring_are_counted() {
    let small = UdpReceiverSettings { receive_buffer_bytes: 2 << 20, ..settings("127.0.0.1:0") };
    let Some(mut receiver) = open(small, 40) else { return };
    let mut sender = sender_to(&receiver).without_segmentation();
    let sent: Vec<_> = (0..1000).map(|index| datagram(index, 8000)).collect();
    let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    assert_eq!(sender.send(&slices, WAIT).expect("loopback"), 1000);
    let received = receive_all(&mut receiver);
    let drops = receiver.socket_drops();
    assert!(
        drops > 0 && received.len() as u64 + drops == 1000,
        "{} received, {drops} dropped",
        received.len()
    );
    assert!(receiver.drop_counters().contains(&("ring_drops", drops)));
    assert_closed(&receiver);
}

#[test]
fn datagrams_that_are_too_long_or_have_no_block_are_lost_with_a_reason() {
    let drop =
        UdpReceiverSettings { policy: FullPolicy::Drop, datagram_bytes: 1000, ..settings("127.0.0.1:0") };
    let Some(mut receiver) = open(drop, 1) else { return };
    let mut sender = sender_to(&receiver).without_segmentation();
    assert_eq!(sender.send(&[&[1; 1001], &[2; 1000]], WAIT).expect("loopback"), 2);
    assert_eq!(receive_all(&mut receiver), [vec![2; 1000]]);
    assert_eq!(receiver.counters().total_lost(LossReason::DatagramTooLong, Unit::Bytes), 1001);
    let (mut held, datagram) = (Vec::new(), [3; 1000]);
    for _ in 0..300 {
        sender.send(&[&datagram[..]; 4], WAIT).expect("loopback");
        let mut frames = Frames::default();
        if receiver.receive(&mut frames, WAIT).expect("a ring") != Received::Full {
            held.push(frames);
        }
    }
    // Receive what the ring still has until the pool is empty.
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let mut frames = Frames::default();
        if receiver.receive(&mut frames, WAIT).expect("a ring") == Received::Full {
            break;
        }
        assert!(
            std::time::Instant::now() < until,
            "{} batches are held, and the pool is not empty",
            held.len()
        );
        held.push(frames);
    }
    assert!(receiver.counters().total_lost(LossReason::NoBlock, Unit::Datagrams) > 0);
    assert_closed(&receiver);
    held.clear();
    sender.send(&[&datagram[..]], WAIT).expect("loopback");
    assert!(receive_all(&mut receiver).contains(&datagram.to_vec()), "the receiver goes on");
}

#[test]
fn datagrams_to_another_address_are_passed_over() {
    let Some(mut receiver) = open(settings("127.0.0.2:0"), 4) else {
        return;
    };
    let address = receiver.local_address().expect("bound");
    let mut set = ReadySet::new().expect("a descriptor");
    set.add(&receiver, 5).expect("fresh");
    let elsewhere = SocketAddr::new("127.0.0.3".parse().expect("an address"), address.port());
    let _other = std::net::UdpSocket::bind(elsewhere).expect("loopback");
    let local: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let mut sender = UdpSender::open(local, elsewhere).expect("loopback");
    assert_eq!(sender.send(&[b"to another address"], WAIT).expect("loopback"), 1);
    let mut sender = UdpSender::open(local, address).expect("loopback");
    assert_eq!(sender.send(&[b"to us"], WAIT).expect("loopback"), 1);
    assert_eq!(set.wait(Duration::from_secs(60)).expect("a set"), [5]);
    assert_eq!(receive_all(&mut receiver), [b"to us"]);
    assert!(receiver.drop_counters().contains(&("ring_passed_over", 1)));
}

#[test]
fn the_socket_that_holds_the_port_keeps_nothing_and_its_drops_are_no_errors_of_the_host() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        let Some(mut receiver) = open(settings(bind), 4) else { return };
        let ordinary = UdpReceiverSettings { backend: Backend::Slots, ..settings(bind) };
        let ordinary = UdpReceiver::open(ordinary, Pool::new(4, 256 << 10).expect("memory")).expect("a port");
        let mut sender = sender_to(&receiver);
        assert_eq!(sender.send(&[b"one", b"more"], WAIT).expect("loopback"), 2);
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let mut received = Vec::new();
        while received.len() < 2 {
            assert!(std::time::Instant::now() < until, "{} of 2", received.len());
            received.extend(receive_all(&mut receiver));
        }
        // On loopback, the socket has got what the ring has. What it kept would fill its buffer and be an error of the host.
        let socket = receiver.sending_socket().expect("a descriptor");
        let kept = socket.recv(&mut [0; 10]).map_err(|error| error.kind());
        assert_eq!(kept, Err(std::io::ErrorKind::WouldBlock));
        for receiver in [&receiver, &ordinary] {
            let counters = receiver.drop_counters();
            let has = |wanted: &str| counters.iter().any(|(name, _)| *name == wanted);
            assert!(has("host_udp_receive_buffer_errors"), "{counters:?}");
            assert!(!has("host_udp_in_errors"), "{counters:?}");
        }
    }
}

#[test]
fn packets_abandoned_in_the_ring_are_lost_in_datagrams_and_bytes() {
    let Some(mut receiver) = open(settings("127.0.0.1:0"), 4) else { return };
    let mut sender = sender_to(&receiver);
    let sent: Vec<_> = (0..500).map(|index| datagram(index, 900)).collect();
    let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    assert_eq!(sender.send(&slices, WAIT).expect("loopback"), 500);
    let abandoned =
        |receiver: &UdpReceiver, unit| receiver.counters().total_lost(LossReason::Abandoned, unit);
    // The kernel passes its last block on after a millisecond, or later on a busy machine.
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while abandoned(&receiver, Unit::Datagrams) < 500 && std::time::Instant::now() < limit {
        receiver.abandon().expect("a ring");
    }
    let lost = (abandoned(&receiver, Unit::Datagrams), abandoned(&receiver, Unit::Bytes));
    assert_eq!((lost, receiver.waiting_bytes()), ((500, 450_000), 0));
    assert_closed(&receiver);
    assert_eq!(receive_all(&mut receiver), Vec::<Vec<u8>>::new(), "nothing is left");
}

#[test]
fn a_batch_of_empty_datagrams_or_of_those_to_others_is_bounded() {
    const SENT: u64 = 9000;
    for to_others in [false, true] {
        let Some(mut receiver) = open(settings("127.0.0.2:0"), 4) else { return };
        let address = receiver.local_address().expect("bound");
        let elsewhere = SocketAddr::new("127.0.0.3".parse().expect("an address"), address.port());
        let _other = std::net::UdpSocket::bind(elsewhere).expect("loopback");
        let local: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let to = if to_others { elsewhere } else { address };
        let mut sender = UdpSender::open(local, to).expect("loopback").without_segmentation();
        assert_eq!(sender.send(&vec![&b""[..]; SENT as usize], WAIT).expect("loopback"), SENT as usize);
        let (mut frames, mut seen, mut dropped) = (Frames::default(), 0, 0);
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while seen + dropped < SENT {
            assert!(std::time::Instant::now() < until, "{seen} and {dropped} of {SENT}");
            frames.clear();
            receiver.receive(&mut frames, WAIT).expect("a ring");
            let counted = receiver.drop_counters();
            let of = |wanted| counted.iter().filter(move |(name, _)| *name == wanted).map(|(_, count)| count);
            // On a busy machine the kernel passes on blocks that are hardly filled, and the ring may be full.
            dropped = of("ring_drops").sum();
            let passed_over: u64 = of("ring_passed_over").sum();
            let now = receiver.counters().total_input(Unit::Datagrams) + passed_over;
            assert!(now - seen < SENT / 2, "{} packets in one batch", now - seen);
            seen = now;
        }
        assert_closed(&receiver);
    }
}
