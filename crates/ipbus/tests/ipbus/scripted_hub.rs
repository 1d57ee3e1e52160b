//! The client with a scripted hub: a listener that forwards chunks to an emulated device.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use thalweg_ipbus::client::{Client, Failure, Outcome};
use thalweg_ipbus::device::{Buffers, Device, Registers};
use thalweg_ipbus::wire::{HubCode, HubReply, HubRequest, LENGTH_BYTES, frame_bytes};

/// Serves one connection after another; the first `refusals` packets are answered with an error.
fn hub(mut refusals: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut device = Device::new(Registers::new(), Buffers { count: 4, bytes: 2040 });
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut length, mut reply) = ([0; LENGTH_BYTES], Vec::new());
            while stream.read_exact(&mut length).is_ok() {
                let mut chunk = vec![0; frame_bytes(length, 1 << 20).expect("a length")];
                stream.read_exact(&mut chunk).expect("whole");
                let request = HubRequest::check(&chunk).expect("a chunk");
                for packet in request.items() {
                    let code = if refusals > 0 { HubCode::NoStatus } else { HubCode::Fine };
                    refusals = refusals.saturating_sub(1);
                    reply.clear();
                    if code == HubCode::Fine {
                        assert!(device.answer(packet, &mut reply), "a control packet without a number");
                    }
                    let mut bytes = Vec::new();
                    HubReply::append(
                        [HubReply { target: request.target, code, packet: &reply }].into_iter(),
                        &mut bytes,
                    );
                    if stream.write_all(&bytes).is_err() {
                        break;
                    }
                }
            }
        }
    });
    address
}

#[test]
fn a_target_behind_a_hub_is_read_and_written() {
    let uri = format!("chtcp-2.0://{}?target=127.0.0.1:50001", hub(0));
    let mut client = Client::open(&uri).expect("it is there");
    let written: Vec<u32> = (0..50_000).collect();
    let mut block = vec![0; written.len()];
    let mut queue = client.queue();
    queue.write_block(0x1000, &written);
    let old = queue.add_to(0x1001, 5);
    queue.read_block(0x1000, &mut block);
    assert_eq!(queue.dispatch().expect("done").word(old), 1);
    assert_eq!((block[1], &block[2..]), (6, &written[2..]));
    let refused = client.status().expect_err("a hub forwards no status request").to_string();
    assert!(refused.contains("ipbusudp-2.0://"), "{refused}");
}

#[test]
fn an_error_code_of_the_hub_is_reported_and_the_next_dispatch_connects_again() {
    let uri = format!("chtcp-2.0://{}?target=127.0.0.1:50001", hub(1));
    let mut client = Client::open(&uri).expect("it is there");
    let error = {
        let mut queue = client.queue();
        queue.write(0x10, 1);
        queue.dispatch().expect_err("the target is not there")
    };
    assert_eq!(
        (&error.failure, &error.outcomes[..]),
        (&Failure::Hub(HubCode::NoStatus), &[Outcome::MayHaveHappened][..])
    );
    assert!(error.to_string().contains("connected and powered"), "{error}");
    client.write(0x10, 2).expect("the hub answers now");
    assert_eq!(client.read(0x10).expect("done"), 2);
}
