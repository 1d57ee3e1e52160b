//! The client with the emulated device over UDP and TCP on loopback.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_ipbus::client::{Client, Failure, Outcome};
use thalweg_ipbus::device::{Behaviour, Buffers, BusFault, Device, DeviceServer, Registers};
use thalweg_ipbus::wire::Info;

pub fn served(buffers: Buffers) -> DeviceServer<Registers> {
    let mut registers = Registers::new();
    registers.behave(0x10, 0x10, Behaviour::Counter(0));
    registers.behave(0x20, 0x20, Behaviour::Fifo { words: Default::default(), depth: 1 << 20 });
    registers.behave(0xBAD, 0xBAD, Behaviour::Refusing(BusFault::Timeout));
    registers.set_configuration(vec![7, 8, 9]);
    let local: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    DeviceServer::new(Device::new(registers, buffers), Some(local), Some(local)).expect("loopback")
}

/// One client over each transport.
fn clients(server: &DeviceServer<Registers>, keys: &str) -> [Client; 2] {
    let udp = format!("ipbusudp-2.0://{}{keys}", server.udp_address().expect("served"));
    let tcp = format!("ipbustcp-2.0://{}{keys}", server.tcp_address().expect("served"));
    [udp, tcp].map(|uri| Client::open(&uri).expect("it is there"))
}

#[test]
fn words_blocks_and_changes_work_over_both_transports() {
    let server = served(Buffers::default());
    for (round, mut client) in clients(&server, "").into_iter().enumerate() {
        let base = 0x1000 * (round as u32 + 1);
        client.write(base, 0xCAFE_BABE).expect("done");
        assert_eq!(client.read(base).expect("done"), 0xCAFE_BABE);
        let written: Vec<u32> = (0..100_000).map(|word: u32| word.wrapping_mul(0x9E37_79B9)).collect();
        let (mut block, mut fifo, mut configuration) = (vec![0; written.len()], vec![0; 1000], [0; 1]);
        let mut queue = client.queue();
        queue.write_block(base, &written);
        let old = queue.add_to(base, 5);
        let older = queue.change_bits(base + 1, 0xFFFF_0000, 0x1234);
        let now = queue.read(base);
        queue.read_block(base, &mut block);
        queue.write_fifo(0x20, &written[..1000]);
        queue.read_fifo(0x20, &mut fifo);
        queue.read_configuration(2, &mut configuration);
        let done = queue.dispatch().expect("done");
        assert_eq!(
            (done.word(old), done.word(older), done.word(now)),
            (written[0], written[1], written[0] + 5)
        );
        assert_eq!((block[0], block[1]), (written[0] + 5, written[1] & 0xFFFF_0000 | 0x1234));
        assert_eq!((&block[2..], &fifo[..], configuration), (&written[2..], &written[..1000], [9]));
    }
}

#[test]
fn a_bus_fault_is_reported_with_its_address_and_the_outcome_of_each_job() {
    let server = served(Buffers::default());
    for mut client in clients(&server, "") {
        let mut queue = client.queue();
        queue.write(0x100, 1);
        queue.read(0xBAD);
        queue.write(0x101, 1);
        let error = queue.dispatch().expect_err("refused");
        let failed = Outcome::Failed { words: 0, info: Info::TimeoutOnRead };
        assert_eq!(error.outcomes, [Outcome::Done, failed, Outcome::NotDone]);
        let text = error.to_string();
        assert!(
            text.contains("0x00000bad")
                && text.contains("bus timeout")
                && text.contains("1 of 3 were not done"),
            "{text}"
        );
        assert_eq!(client.read(0x100).expect("the client still works"), 1);
    }
}

#[test]
fn a_target_that_is_not_there_is_named() {
    // No other test listens at this address, whatever port it is given.
    let free = std::net::UdpSocket::bind("127.83.0.9:0").expect("loopback").local_addr().expect("bound");
    let mut client = Client::open(&format!("ipbusudp-2.0://{free}?timeout_ms=50")).expect("a socket");
    let error = client.read(0).expect_err("nothing answers");
    assert!(matches!(error.failure, Failure::NoAnswer(_)), "{error}");
    assert!(error.to_string().starts_with(&format!("ipbusudp-2.0://{free}")), "{error}");
    let refused = Client::open(&format!("ipbustcp-2.0://{free}")).err().expect("nobody listens").to_string();
    assert!(refused.contains("is running and listens on this port"), "{refused}");
}

#[test]
fn eight_clients_over_tcp_change_one_counter_exactly() {
    let server = served(Buffers::default());
    let uri = format!("ipbustcp-2.0://{}", server.tcp_address().expect("served"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::open(&uri).expect("it is there");
                for _ in 0..20 {
                    let mut queue = client.queue();
                    (0..100).for_each(|_| {
                        queue.add_to(0x500, 1);
                    });
                    queue.dispatch().expect("done");
                }
            });
        }
    });
    assert_eq!(server.device().bus_mut().memory(0x500), 8 * 20 * 100);
}

#[test]
fn two_clients_that_number_packets_report_a_conflict_and_continue_unnumbered() {
    let server = served(Buffers::default());
    let uri = format!("ipbusudp-2.0://{}?timeout_ms=5000", server.udp_address().expect("served"));
    let (conflict, running) = (AtomicBool::new(false), AtomicBool::new(true));
    let (done, maybe) = std::thread::scope(|scope| {
        let work = || {
            let mut client = Client::open(&uri).expect("it is there");
            let (mut done, mut maybe) = (0u32, 0u32);
            while running.load(Ordering::Acquire) {
                let mut queue = client.queue();
                (0..50).for_each(|_| {
                    queue.add_to(0x500, 1);
                });
                match queue.dispatch() {
                    Ok(_) => done += 50,
                    Err(error) => {
                        conflict
                            .fetch_or(matches!(error.failure, Failure::Conflict { .. }), Ordering::AcqRel);
                        let count =
                            |wanted| error.outcomes.iter().filter(|one| **one == wanted).count() as u32;
                        done += count(Outcome::Done);
                        maybe += count(Outcome::MayHaveHappened);
                    }
                }
                if conflict.load(Ordering::Acquire) && done > 1000 {
                    running.store(false, Ordering::Release);
                }
            }
            (done, maybe)
        };
        let [one, other] =
            [scope.spawn(work), scope.spawn(work)].map(|thread| thread.join().expect("no panic"));
        (one.0 + other.0, one.1 + other.1)
    });
    let there = server.device().bus_mut().memory(0x500);
    assert!(
        conflict.load(Ordering::Acquire) && (done..=done + maybe).contains(&there),
        "{done} {maybe} {there}"
    );
}
