//! The hub on real sockets: devices behind a bad network, clients that misbehave, and the end of a hub.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use thalweg_ipbus::client::{Client, Failure, Outcome};
use thalweg_ipbus::device::{Buffers, Device, DeviceServer, Registers};
use thalweg_ipbus::faults::Faults;
use thalweg_ipbus::hub::{HubOptions, HubServer, Rules};
use thalweg_ipbus::wire::{
    ByteOrder, HubCode, HubReplies, HubRequest, LENGTH_BYTES, Operation, RequestPacket, Target,
};

const COUNTER: u32 = 0x10;

fn device(faults: Faults) -> DeviceServer<Registers> {
    let device = Device::new(Registers::new(), Buffers { count: 4, bytes: 2040 });
    DeviceServer::on_bad_network(device, Some("127.0.0.1:0".parse().expect("loopback")), None, (7, faults))
        .expect("served")
}

fn options() -> HubOptions {
    HubOptions::at("127.0.0.1:0".parse().expect("loopback"))
}

fn hub() -> HubServer {
    HubServer::start(options()).expect("it runs")
}

fn through(hub: &HubServer, device: &DeviceServer<Registers>) -> Client {
    let target = device.udp_address().expect("a UDP address");
    Client::open(&format!("chtcp-2.0://{}?target={target}&timeout_ms=20000", hub.address()))
        .expect("the hub is there")
}

#[test]
fn clients_share_targets_on_a_bad_network_and_each_addition_is_done_once() {
    let faults = Faults { lost: 50, doubled: 20, delayed: 50, most_delay: Duration::from_millis(1) };
    let hub =
        HubServer::start(HubOptions { timeout: Duration::from_secs(10), ..options() }).expect("it runs");
    let devices: Arc<Vec<_>> = Arc::new((0..3).map(|_| device(faults)).collect());
    std::thread::scope(|scope| {
        for client in 0..6 {
            let (devices, hub) = (devices.clone(), &hub);
            scope.spawn(move || {
                for turn in 0..3 {
                    let mut client = through(hub, &devices[(client + turn) % 3]);
                    let mut queue = client.queue();
                    for _ in 0..1000 {
                        queue.add_to(COUNTER, 1);
                    }
                    queue.dispatch().expect("done");
                }
            });
        }
    });
    for device in devices.iter() {
        assert_eq!(device.device().bus_mut().memory(COUNTER), 6000);
    }
    let state = hub.end(Duration::from_secs(5));
    let again: u64 = state
        .targets
        .iter()
        .map(|one| one.counts.packets.requests_repeated + one.counts.packets.replies_repeated)
        .sum();
    assert!(again > 0, "{state:?}");
    for client in &state.clients {
        assert_eq!(
            (client.counts.asked, client.counts.refused.total(), client.counts.abandoned),
            (client.counts.answered, 0, 0)
        );
    }
}

#[test]
fn a_block_of_a_megabyte_is_read_while_another_client_reads_single_words() {
    let (hub, device) = (hub(), device(Faults::default()));
    let written: Vec<u32> = (0..250_000).collect();
    std::thread::scope(|scope| {
        let bulk = scope.spawn(|| {
            let (mut client, mut block) = (through(&hub, &device), vec![0; written.len()]);
            let mut queue = client.queue();
            queue.write_block(0x1000, &written);
            queue.read_block(0x1000, &mut block);
            queue.dispatch().expect("done");
            block
        });
        let mut client = through(&hub, &device);
        let mut words = 0;
        while !bulk.is_finished() {
            client.write(COUNTER, words).expect("done");
            assert_eq!(client.read(COUNTER).expect("done"), words);
            words += 1;
        }
        assert_eq!(bulk.join().expect("it ran"), written);
        assert!(words > 0);
    });
}

#[test]
fn clients_that_send_invalid_data_or_read_nothing_do_not_affect_others() {
    let (hub, device) = (hub(), device(Faults::default()));
    let target = device.udp_address().expect("a UDP address");
    let idle: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(hub.address()).expect("it listens")).collect();
    for invalid in
        [&b"\xFF\xFF\xFF\xFFgigabytes"[..], b"\0\0\0\x05abcde", b"\0\0\0\x08\x7f\0\0\x01\xc3\x51\0\x09"]
    {
        let mut stream = TcpStream::connect(hub.address()).expect("it listens");
        stream.write_all(invalid).expect("sent");
        assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0, "it is closed");
    }
    // This client reads no replies, and sends requests until the hub stops reading them.
    let mut not_reading = TcpStream::connect(hub.address()).expect("it listens");
    not_reading.set_nonblocking(true).expect("a socket");
    let (mut packet, mut chunk) = (Vec::new(), Vec::new());
    RequestPacket::begin(0, ByteOrder::Little, &mut packet).read(0, Operation::Read, 0x1000, 255);
    let std::net::SocketAddr::V4(address) = target else { panic!("not IPv4") };
    HubRequest::append(Target { address: *address.ip(), port: address.port() }, &[&packet], &mut chunk)
        .expect("whole");
    let mut asked = 0;
    loop {
        match not_reading.write(&chunk) {
            Ok(count) => asked += count,
            Err(_) => {
                // The socket is full; it may be for a moment only, so another client is served before the next try.
                if asked > 8 << 20 {
                    break;
                }
                let mut client = through(&hub, &device);
                client.write(COUNTER, 5).expect("done");
                if not_reading.write(&chunk).is_err() {
                    break;
                }
            }
        }
    }
    let mut client = through(&hub, &device);
    assert_eq!(client.read(COUNTER).expect("done"), 5);
    drop((idle, not_reading));
    let state = hub.end(Duration::from_secs(5));
    assert_eq!((state.broken, state.turned_away), (3, 0));
}

#[test]
fn a_hub_that_ends_answers_what_it_has_read_and_a_new_hub_takes_over() {
    let (first, device) = (hub(), device(Faults::default()));
    let address = first.address();
    let mut client = through(&first, &device);
    let counted = std::thread::spawn(move || {
        let mut done = 0;
        loop {
            let mut queue = client.queue();
            for _ in 0..100 {
                queue.add_to(COUNTER, 1);
            }
            match queue.dispatch() {
                Ok(_) => done += 100,
                Err(error) => return (done, error),
            }
        }
    });
    while device.device().counts().done < 50 {
        std::thread::yield_now();
    }
    let state = first.end(Duration::from_secs(5));
    let (done, error) = counted.join().expect("it ran");
    assert!(matches!(error.failure, Failure::Link(_)), "{error}");
    let there = device.device().bus_mut().memory(COUNTER);
    assert!((done..=done + 100).contains(&there), "{there} there, {done} done: {error}");
    assert_eq!(state.clients[0].counts.asked, state.clients[0].counts.answered, "what was read was answered");
    let second = HubServer::start(HubOptions { listen: address, ..options() }).expect("the address is free");
    let mut client = through(&second, &device);
    assert_eq!(client.read(COUNTER).expect("done"), there);
}

#[test]
fn a_target_that_is_not_served_is_refused_with_a_code() {
    let device = device(Faults::default());
    let rules = Rules { targets: vec!["10.0.0.0/8".parse().expect("a network")], rules: Vec::new() };
    let hub = HubServer::start(HubOptions { rules, ..options() }).expect("it runs");
    let error = through(&hub, &device).read(COUNTER).expect_err("it is not served");
    assert_eq!(
        (error.failure, &error.outcomes[..]),
        (Failure::Hub(HubCode::NotAllowed), &[Outcome::NotDone][..])
    );
    let other = HubServer::start(HubOptions { listen: hub.address(), ..options() }).expect_err("it is taken");
    assert!(other.to_string().contains("choose another port"), "{other}");
    // A chunk of two packets is answered by a chunk of two replies.
    let mut stream = TcpStream::connect(hub.address()).expect("it listens");
    let (mut packet, mut chunk) = (Vec::new(), Vec::new());
    RequestPacket::begin(0, ByteOrder::Little, &mut packet).read(0, Operation::Read, 0, 1);
    let target = Target { address: [127, 0, 0, 1].into(), port: 5 };
    HubRequest::append(target, &[&packet, &packet], &mut chunk).expect("whole");
    stream.write_all(&chunk).expect("sent");
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length).expect("a length");
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut bytes).expect("a whole chunk");
    let codes: Vec<_> = HubReplies::of(&bytes).map(|reply| reply.expect("whole").code).collect();
    assert_eq!(codes, [HubCode::NotAllowed; 2]);
}

#[test]
fn a_target_without_a_socket_is_refused_after_the_timeout_and_its_client_can_leave() {
    let hub =
        HubServer::start(HubOptions { timeout: Duration::from_millis(50), ..options() }).expect("it runs");
    // The kernel refuses a socket to the broadcast address, as it does to an address without a route.
    let target = Target { address: Ipv4Addr::BROADCAST, port: 50_001 };
    let (mut packet, mut chunk) = (Vec::new(), Vec::new());
    RequestPacket::begin(0, ByteOrder::Little, &mut packet).write(0, Operation::Write, COUNTER, &[1]);
    HubRequest::append(target, &[&packet, &packet], &mut chunk).expect("whole");
    for _ in 0..2 {
        let mut stream = TcpStream::connect(hub.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        stream.write_all(&chunk).expect("sent");
        stream.shutdown(Shutdown::Write).expect("connected");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("replies, and then the end");
        let codes: Vec<_> =
            HubReplies::of(&bytes[LENGTH_BYTES..]).map(|reply| reply.expect("whole").code).collect();
        assert_eq!(codes, [HubCode::NoStatus; 2]);
    }
    let state = hub.end(Duration::from_secs(5));
    let counts = state.clients[0].counts;
    assert_eq!((counts.asked, counts.refused.total(), counts.abandoned), (4, 4, 0));
}
