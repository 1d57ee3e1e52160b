//! Datagrams over real loopback sockets: exact bytes by every way of reading, and a count for everything else.

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

/// Datagram `index` of `length` bytes, recognisable.
fn datagram(index: usize, length: usize) -> Vec<u8> {
    (0..length).map(|byte| (index * 31 + byte * 7) as u8).collect()
}

fn send_all(sender: &mut UdpSender, datagrams: &[Vec<u8>]) {
    let slices: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
    assert_eq!(sender.send(&slices, WAIT).expect("loopback takes all"), slices.len());
}

/// Everything that comes until nothing does, as copies.
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
fn every_way_of_reading_yields_the_bytes_sent_in_order() {
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
fn the_choice_follows_the_sender_and_loses_nothing() {
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
    // The first of these messages come while slots are in use: longer than a slot, and some of their datagrams straddle
    // its end.
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
fn what_the_socket_drops_is_reported_in_band() {
    let (mut receiver, sender) =
        pair(UdpReceiverSettings { receive_buffer_bytes: 64 << 10, ..settings(Backend::Slots) }, 4);
    let mut sender = sender.without_segmentation();
    send_all(&mut sender, &(0..2000).map(|index| datagram(index, 1000)).collect::<Vec<_>>());
    let first = receive_all(&mut receiver).len() as u64;
    assert!(first < 2000);
    let dropped =
        receiver.drop_counters().iter().find(|(name, _)| *name == "socket_drops").map(|(_, count)| *count);
    assert_eq!(dropped, Some(2000 - first), "the socket can be asked at the end");
    send_all(&mut sender, &[datagram(1, 10)]);
    let later = receive_all(&mut receiver).len() as u64;
    assert_eq!(first + later + receiver.socket_drops(), 2001);
}

#[test]
fn a_datagram_that_is_too_long_costs_a_counter() {
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
fn an_unexpected_sender_is_counted_and_not_heard() {
    for backend in [Backend::Slots, Backend::Coalesced] {
        let friend = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = friend.local_addr().expect("bound");
        let from = ExpectedSenders::of([SenderAddress { address: address.ip(), port: Some(address.port()) }]);
        let (mut receiver, mut unexpected) = pair(UdpReceiverSettings { from, ..settings(backend) }, 4);
        let mut friend = UdpSender::over(friend, receiver.local_address().expect("bound")).expect("loopback");
        for round in 0..5 {
            send_all(&mut unexpected, &vec![datagram(1, 700); 9]);
            send_all(&mut friend, &[datagram(round, 300), datagram(round, 300)]);
        }
        let expected: Vec<_> =
            (0..5).flat_map(|round| [datagram(round, 300), datagram(round, 300)]).collect();
        assert_eq!(receive_all(&mut receiver), expected);
        assert_eq!(receiver.counters().total_lost(LossReason::UnexpectedSender, Unit::Datagrams), 45);
        assert_eq!(receiver.counters().total_lost(LossReason::UnexpectedSender, Unit::Bytes), 45 * 700);
        assert_closed(receiver.counters());
    }
}

/// Holds every block, then lets go.
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
fn a_full_pool_drops_with_a_count() {
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
fn a_full_pool_holds_without_loss() {
    for backend in [Backend::Slots, Backend::Coalesced] {
        let (mut receiver, sent, before) = starve(FullPolicy::Hold, backend);
        assert_eq!(receive_all(&mut receiver).len(), sent - before);
        assert_eq!(receiver.counters().total_lost_any(Unit::Datagrams), 0);
        assert_closed(receiver.counters());
    }
}

#[test]
fn idleness_ends_after_the_wait() {
    let (mut receiver, _sender) = pair(settings(Backend::Auto), 2);
    let mut frames = Frames::default();
    let start = Instant::now();
    assert_eq!(receiver.receive(&mut frames, Duration::from_micros(500)).expect("a socket"), Received::Idle);
    let passed = start.elapsed();
    assert!(passed >= Duration::from_micros(400) && passed < Duration::from_secs(10), "{passed:?}");
}

#[test]
fn nobody_at_the_other_end_is_no_failure() {
    let gone = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("loopback");
    let connect = Some(gone);
    let (mut receiver, _) = pair(UdpReceiverSettings { connect, ..settings(Backend::Auto) }, 2);
    for _ in 0..3 {
        receiver.send_empty().expect("refusal is no failure");
        assert_eq!(receiver.receive(&mut Frames::default(), WAIT).expect("nor here"), Received::Idle);
    }
    assert!(receiver.drop_counters().iter().any(|(name, count)| *name == "socket_refused" && *count > 0));
    let mut sender = UdpSender::open(LOOPBACK, gone).expect("loopback");
    for _ in 0..3 {
        send_all(&mut sender, &[datagram(0, 10)]);
    }
    assert!(sender.refused() > 0);
}

#[test]
fn settings_that_cannot_work_are_refused_in_words() {
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
