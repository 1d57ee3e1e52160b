//! Datagrams over real loopback sockets: every socket backend yields the exact bytes, and counts every loss.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use thalweg_data::batch::Frames;
use thalweg_data::{Counters, LossReason, Pool, Received, Unit};
use thalweg_transport::{
    Backend, ExpectedSenders, FullPolicy, SenderAddress, UdpReceiver, UdpReceiverSettings, UdpSender,
};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const WAIT: Duration = Duration::from_millis(4);

fn settings(backend: Backend) -> UdpReceiverSettings {
    UdpReceiverSettings { backend, receive_buffer_bytes: 8 << 20, ..UdpReceiverSettings::new(LOOPBACK, 9000) }
}

fn pair(settings: UdpReceiverSettings, blocks: usize) -> (UdpReceiver, UdpSender) {
    let pool = Pool::new(blocks, 256 << 10).expect("memory");
    let receiver = UdpReceiver::open(settings, pool).expect("loopback");
    let sender = UdpSender::open(LOOPBACK, receiver.local_address().expect("bound")).expect("loopback");
    (receiver, sender)
}

/// Datagram `index` of `length` bytes; its content depends on both.
fn datagram(index: usize, length: usize) -> Vec<u8> {
    (0..length).map(|byte| (index * 31 + byte * 7) as u8).collect()
}

fn send_all(sender: &mut UdpSender, datagrams: &[Vec<u8>]) {
    let slices: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
    assert_eq!(sender.send(&slices, WAIT).expect("loopback takes all"), slices.len());
}

/// Copies of the datagrams that arrive until a receive finds none.
fn receive_all(receiver: &mut UdpReceiver) -> Vec<Vec<u8>> {
    let (mut all, mut frames) = (Vec::new(), Frames::default());
    loop {
        frames.clear();
        let received = receiver.receive(&mut frames, WAIT).expect("a socket");
        all.extend(frames.slices.iter().map(|slice| frames.bytes(*slice).to_vec()));
        if received == Received::Idle {
            return all;
        }
    }
}

fn assert_closed(counters: &Counters) {
    for unit in [Unit::Datagrams, Unit::Bytes] {
        assert_eq!(
            counters.total_input(unit),
            counters.total_output(unit) + counters.total_lost_any(unit),
            "{unit}"
        );
    }
}

#[test]
fn every_socket_backend_yields_the_bytes_sent_in_order() {
    for backend in [Backend::Slots, Backend::Coalesced, Backend::Auto] {
        for segmenting in [true, false] {
            let (mut receiver, mut sender) = pair(settings(backend), 4);
            if !segmenting {
                sender = sender.without_segmentation();
            }
            let lengths = [1024, 1024, 1024, 100, 0, 9000, 9000, 8999, 1, 64, 64, 63];
            for round in 0..60 {
                let sent: Vec<_> = lengths
                    .iter()
                    .enumerate()
                    .map(|(index, length)| datagram(round + index, *length))
                    .collect();
                send_all(&mut sender, &sent);
                assert!(receiver.waiting_bytes() >= lengths.iter().sum::<usize>() as u64);
                assert_eq!(receive_all(&mut receiver), sent, "{backend:?}, segmenting {segmenting}");
                assert_eq!(receiver.waiting_bytes(), 0);
            }
            assert_closed(receiver.counters());
            assert_eq!(receiver.counters().total_output(Unit::Datagrams), 60 * lengths.len() as u64);
        }
    }
}

#[test]
fn the_read_mode_follows_the_sender_and_loses_nothing() {
    let (mut receiver, sender) = pair(settings(Backend::Auto), 8);
    let mut single = sender.without_segmentation();
    assert!(receiver.reads_coalesced());
    let sent: Vec<_> = (0..300).map(|index| datagram(index, 1000)).collect();
    for _ in 0..4 {
        send_all(&mut single, &sent);
        assert_eq!(receive_all(&mut receiver), sent);
    }
    assert!(!receiver.reads_coalesced(), "one datagram per message suits slots");
    let mut long = UdpSender::open(LOOPBACK, receiver.local_address().expect("bound")).expect("loopback");
    // The first of these messages arrive while slots are in use: they are longer than a slot, and some of their datagrams
    // straddle its end.
    for round in 0..80 {
        let sent: Vec<_> = (0..640).map(|index| datagram(round + index, 1000)).collect();
        send_all(&mut long, &sent);
        assert_eq!(receive_all(&mut receiver), sent, "round {round}");
    }
    assert!(long.is_segmenting() && receiver.reads_coalesced(), "{:?}", receiver.coalescing());
    assert!(receiver.moved_bytes() > 0);
    assert_closed(receiver.counters());
}

#[test]
fn short_datagrams_take_no_more_memory_than_they_need() {
    for backend in [Backend::Slots, Backend::Auto] {
        let (mut receiver, sender) = pair(settings(backend), 2);
        let mut sender = sender.without_segmentation();
        let sent: Vec<_> = (0..1200).map(|index| datagram(index, 400)).collect();
        send_all(&mut sender, &sent);
        // The lengths of the first are not known before they come; then nothing of it is held.
        assert_eq!(receive_all(&mut receiver), sent, "{backend:?}");
        send_all(&mut sender, &sent);
        let mut held = Vec::new();
        for _ in 0..1000 {
            let mut frames = Frames::default();
            if receiver.receive(&mut frames, Duration::ZERO).expect("a socket") == Received::Data {
                held.push(frames);
            }
        }
        let held: usize = held.iter().map(|frames| frames.slices.len()).sum();
        // Two blocks of 256 KiB; in slots of 9 kB each they had space for 58.
        assert!(held > 700, "{held} datagrams of 448 bytes, {backend:?}");
        assert_closed(receiver.counters());
    }
}

#[test]
fn long_datagrams_among_short_ones_are_whole_and_in_order() {
    for backend in [Backend::Slots, Backend::Auto] {
        let (mut receiver, sender) = pair(settings(backend), 2);
        let mut sender = sender.without_segmentation();
        // More than two windows of those that decide how long slots are.
        let short: Vec<_> = (0..1100).map(|index| datagram(index, 100)).collect();
        for round in 0..6 {
            send_all(&mut sender, &short);
            assert_eq!(receive_all(&mut receiver), short, "{backend:?}");
            let moved = receiver.moved_bytes();
            let long: Vec<_> = (0..200).map(|index| datagram(round + index, 9000 - index)).collect();
            send_all(&mut sender, &long);
            assert_eq!(receive_all(&mut receiver), long, "{backend:?}");
            assert!(receiver.moved_bytes() > moved, "the first are longer than their slots");
            let moved = receiver.moved_bytes();
            send_all(&mut sender, &long);
            assert_eq!(receive_all(&mut receiver), long, "{backend:?}");
            assert_eq!(receiver.moved_bytes(), moved, "and the others are not");
        }
        assert_eq!(receiver.counters().total_lost_any(Unit::Datagrams), 0);
        assert_closed(receiver.counters());
    }
}

#[test]
fn drops_of_the_socket_are_reported_with_later_datagrams() {
    let (mut receiver, sender) =
        pair(UdpReceiverSettings { receive_buffer_bytes: 64 << 10, ..settings(Backend::Slots) }, 4);
    let mut sender = sender.without_segmentation();
    send_all(&mut sender, &(0..2000).map(|index| datagram(index, 1000)).collect::<Vec<_>>());
    let first = receive_all(&mut receiver).len() as u64;
    assert!(first < 2000);
    let dropped =
        receiver.drop_counters().iter().find(|(name, _)| *name == "socket_drops").map(|(_, count)| *count);
    assert_eq!(
        dropped,
        Some(2000 - first),
        "the drop counter also has drops that no later datagram has reported"
    );
    send_all(&mut sender, &[datagram(1, 10)]);
    let later = receive_all(&mut receiver).len() as u64;
    assert_eq!(first + later + receiver.socket_drops(), 2001);
}

#[test]
fn a_datagram_that_is_too_long_is_counted_as_lost() {
    for backend in [Backend::Slots, Backend::Coalesced] {
        for segmenting in [true, false] {
            let (mut receiver, mut sender) =
                pair(UdpReceiverSettings { datagram_bytes: 1000, ..settings(backend) }, 4);
            if !segmenting {
                sender = sender.without_segmentation();
            }
            let sent: Vec<_> = [999, 1000, 1001, 1001, 1001, 500, 3000, 10]
                .iter()
                .map(|length| datagram(5, *length))
                .collect();
            send_all(&mut sender, &sent);
            let kept: Vec<_> = sent.iter().filter(|datagram| datagram.len() <= 1000).cloned().collect();
            assert_eq!(receive_all(&mut receiver), kept, "{backend:?}, segmenting {segmenting}");
            let counters = receiver.counters();
            assert_eq!(counters.total_lost(LossReason::DatagramTooLong, Unit::Datagrams), 4);
            assert_eq!(counters.total_lost(LossReason::DatagramTooLong, Unit::Bytes), 3 * 1001 + 3000);
            assert_closed(counters);
        }
    }
}

#[test]
fn datagrams_are_tagged_with_the_position_of_their_sender() {
    for backend in [Backend::Slots, Backend::Coalesced] {
        let sockets: Vec<_> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").expect("loopback")).collect();
        let addresses = sockets.iter().map(|socket| socket.local_addr().expect("bound"));
        let from = ExpectedSenders::of(
            addresses.map(|own| SenderAddress { address: own.ip(), port: Some(own.port()) }),
        );
        let (mut receiver, _) = pair(UdpReceiverSettings { from, ..settings(backend) }, 4);
        let to = receiver.local_address().expect("bound");
        for (position, socket) in sockets.into_iter().enumerate().rev() {
            let mut sender = UdpSender::over(socket, to).expect("loopback");
            send_all(&mut sender, &vec![datagram(position, 300 + position); 20]);
        }
        let (mut positions, mut frames) = (Vec::new(), Frames::default());
        while receiver.receive(&mut frames, WAIT).expect("a socket") != Received::Idle {
            positions.extend(frames.slices.iter().map(|slice| (slice.tag, slice.length)));
            frames.clear();
        }
        let expected: Vec<_> =
            [2, 1, 0].iter().flat_map(|position| [(*position, 300 + *position); 20]).collect();
        assert_eq!(positions, expected, "{backend:?}");
    }
}

#[test]
fn datagrams_of_an_unexpected_sender_are_counted_as_lost() {
    for backend in [Backend::Slots, Backend::Coalesced] {
        let expected = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = expected.local_addr().expect("bound");
        let from = ExpectedSenders::of([SenderAddress { address: address.ip(), port: Some(address.port()) }]);
        let (mut receiver, mut unexpected) = pair(UdpReceiverSettings { from, ..settings(backend) }, 4);
        let mut expected =
            UdpSender::over(expected, receiver.local_address().expect("bound")).expect("loopback");
        for round in 0..5 {
            send_all(&mut unexpected, &vec![datagram(1, 700); 9]);
            send_all(&mut expected, &[datagram(round, 300), datagram(round, 300)]);
        }
        let accepted: Vec<_> =
            (0..5).flat_map(|round| [datagram(round, 300), datagram(round, 300)]).collect();
        assert_eq!(receive_all(&mut receiver), accepted);
        assert_eq!(receiver.counters().total_lost(LossReason::UnexpectedSender, Unit::Datagrams), 45);
        assert_eq!(receiver.counters().total_lost(LossReason::UnexpectedSender, Unit::Bytes), 45 * 700);
        assert_closed(receiver.counters());
    }
}

/// Sends 250 datagrams, receives while all blocks are held, then releases the blocks. Returns the receiver, how many datagrams were
/// sent, and how many were received before the pool was empty.
fn starve(policy: FullPolicy, backend: Backend) -> (UdpReceiver, usize, usize) {
    let (mut receiver, mut sender) = pair(UdpReceiverSettings { policy, ..settings(backend) }, 1);
    let sent: Vec<_> = (0..250).map(|index| datagram(index, 1024)).collect();
    send_all(&mut sender, &sent);
    let mut held = Vec::new();
    let mut full = 0;
    for _ in 0..10 {
        let mut frames = Frames::default();
        match receiver.receive(&mut frames, Duration::from_millis(1)).expect("a socket") {
            Received::Full => full += 1,
            _ => held.push(frames),
        }
    }
    assert!(full > 0);
    let before: usize = held.iter().map(|frames| frames.slices.len()).sum();
    drop(held);
    (receiver, sent.len(), before)
}

#[test]
fn the_policy_drop_counts_datagrams_without_a_block() {
    for backend in [Backend::Slots, Backend::Coalesced] {
        let (receiver, sent, before) = starve(FullPolicy::Drop, backend);
        assert_eq!(
            receiver.counters().total_lost(LossReason::NoBlock, Unit::Datagrams),
            (sent - before) as u64
        );
        assert_eq!(
            receiver.counters().total_lost(LossReason::NoBlock, Unit::Bytes),
            (sent - before) as u64 * 1024
        );
        assert_closed(receiver.counters());
    }
}

#[test]
fn the_policy_hold_loses_nothing_without_a_block() {
    for backend in [Backend::Slots, Backend::Coalesced] {
        let (mut receiver, sent, before) = starve(FullPolicy::Hold, backend);
        assert_eq!(receive_all(&mut receiver).len(), sent - before);
        assert_eq!(receiver.counters().total_lost_any(Unit::Datagrams), 0);
        assert_closed(receiver.counters());
    }
}

#[test]
fn receive_returns_idle_after_the_wait() {
    let (mut receiver, _sender) = pair(settings(Backend::Auto), 2);
    let mut frames = Frames::default();
    let start = Instant::now();
    assert_eq!(receiver.receive(&mut frames, Duration::from_micros(500)).expect("a socket"), Received::Idle);
    let passed = start.elapsed();
    assert!(passed >= Duration::from_micros(400) && passed < Duration::from_secs(10), "{passed:?}");
}

#[test]
fn a_refusal_of_the_other_end_is_counted_and_no_error() {
    let gone = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("loopback");
    let connect = Some(gone);
    let (mut receiver, _) = pair(UdpReceiverSettings { connect, ..settings(Backend::Auto) }, 2);
    for _ in 0..3 {
        receiver.send_empty().expect("a refusal is no error");
        assert_eq!(receiver.receive(&mut Frames::default(), WAIT).expect("no error"), Received::Idle);
    }
    assert!(receiver.drop_counters().iter().any(|(name, count)| *name == "socket_refused" && *count > 0));
    let mut sender = UdpSender::open(LOOPBACK, gone).expect("loopback");
    for _ in 0..3 {
        send_all(&mut sender, &[datagram(0, 10)]);
    }
    assert!(sender.refused() > 0);
}

#[test]
fn invalid_settings_are_refused_with_advice() {
    let small = Pool::new(2, 4096).expect("memory");
    let Err(message) = UdpReceiver::open(settings(Backend::Auto), small.clone()) else { panic!("too small") };
    assert!(message.to_string().contains("`block_bytes` is 4096"), "{message}");
    let Err(message) =
        UdpReceiver::open(UdpReceiverSettings { datagram_bytes: 70_000, ..settings(Backend::Auto) }, small)
    else {
        panic!("too long")
    };
    assert!(message.to_string().contains("65507"), "{message}");
    let (receiver, _) = pair(settings(Backend::Auto), 2);
    let taken = UdpReceiverSettings::new(receiver.local_address().expect("bound"), 9000);
    let Err(message) = UdpReceiver::open(taken, Pool::new(1, 1 << 17).expect("memory")) else {
        panic!("taken")
    };
    assert!(message.to_string().contains("change the port"), "{message}");
    assert!(receiver.description().contains("receive buffer 8 MiB"), "{}", receiver.description());
}

#[test]
fn a_batch_of_empty_datagrams_is_bounded() {
    const SENT: usize = 9000;
    for (backend, from) in [
        (Backend::Coalesced, ExpectedSenders::default()),
        (Backend::Coalesced, ExpectedSenders::of([SenderAddress { address: LOOPBACK.ip(), port: Some(1) }])),
    ] {
        let (mut receiver, mut sender) =
            pair(UdpReceiverSettings { from, receive_buffer_bytes: 32 << 20, ..settings(backend) }, 4);
        if receiver.receive_buffer().granted_bytes < 16 << 20 {
            return thalweg_prerequisite::skip("a receive buffer of 16 MiB; raise net.core.rmem_max");
        }
        send_all(&mut sender, &vec![Vec::new(); SENT]);
        let (mut frames, mut seen) = (Frames::default(), 0);
        while seen < SENT as u64 {
            frames.clear();
            receiver.receive(&mut frames, WAIT).expect("a socket");
            let now = receiver.counters().total_input(Unit::Datagrams);
            assert!((1..SENT as u64 / 2).contains(&(now - seen)), "{} datagrams in one batch", now - seen);
            seen = now;
        }
        assert_closed(receiver.counters());
    }
}
