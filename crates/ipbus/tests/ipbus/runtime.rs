//! Clients in a single-threaded Tokio runtime: none blocks the others.

use std::time::Duration;

use thalweg_ipbus::client::{Client, Failure};
use thalweg_ipbus::device::Buffers;

use crate::loopback::served;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn dispatches_in_one_thread_wait_concurrently() {
    let server = served(Buffers::default());
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = silent.local_addr().expect("bound");
    let uris = [
        format!("ipbusudp-2.0://{}", server.udp_address().expect("served")),
        format!("ipbustcp-2.0://{}", server.tcp_address().expect("served")),
    ];
    block_on(async {
        let unanswered = tokio::spawn(async move {
            let mut client = Client::open_async(&format!("ipbusudp-2.0://{address}?timeout_ms=60000"))
                .await
                .expect("a socket");
            client.read_async(0).await
        });
        let mut tasks = Vec::new();
        for (round, uri) in uris.into_iter().enumerate() {
            tasks.push(tokio::spawn(async move {
                let mut client = Client::open_async(&uri).await.expect("it is there");
                let base = 0x10_0000 * (round as u32 + 1);
                let written: Vec<u32> =
                    (0..500_000).map(|word: u32| word.wrapping_mul(0x9E37_79B9)).collect();
                let mut block = vec![0; written.len()];
                let mut queue = client.queue();
                queue.write_block(base, &written);
                let old = queue.add_to(base, 5);
                queue.read_block(base, &mut block);
                let done = queue.dispatch_async().await.expect("done");
                assert_eq!((done.word(old), block[0]), (written[0], written[0] + 5));
                assert_eq!(block[1..], written[1..]);
                client.write_async(base, 9).await.expect("done");
                assert_eq!(client.read_async(base).await.expect("done"), 9);
                let error = client.read_async(0xBAD).await.expect_err("refused");
                assert!(matches!(error.failure, Failure::Refused { .. }), "{error}");
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        assert!(!unanswered.is_finished(), "it waits for a minute without blocking the others");
        unanswered.abort();
    });
}

#[test]
fn a_client_works_after_a_dispatch_is_dropped() {
    let server = served(Buffers::default());
    for uri in [
        format!("ipbusudp-2.0://{}", server.udp_address().expect("served")),
        format!("ipbustcp-2.0://{}", server.tcp_address().expect("served")),
    ] {
        block_on(async {
            let mut client = Client::open_async(&uri).await.expect("it is there");
            let mut block = vec![0; 100_000];
            for round in 0..20 {
                let mut queue = client.queue();
                queue.read_block(0x1_0000, &mut block);
                // Dropped before the first answer, or between two.
                let dropped =
                    tokio::time::timeout(Duration::from_micros(50 * round), queue.dispatch_async()).await;
                if let Ok(done) = dropped {
                    done.expect("nothing is lost on loopback");
                }
                client.write_async(0x500, round as u32).await.expect("done");
                assert_eq!(client.read(0x500).expect("also without a runtime"), round as u32);
            }
        });
    }
}

#[test]
fn a_silent_target_times_out() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let uri = format!("ipbusudp-2.0://{}?timeout_ms=50", silent.local_addr().expect("bound"));
    block_on(async {
        let mut client = Client::open_async(&uri).await.expect("a socket");
        let error = client.read_async(0).await.expect_err("nobody answers");
        assert!(matches!(error.failure, Failure::NoAnswer(_)), "{error}");
        let refused =
            Client::open_async("ipbustcp-2.0://127.0.0.1:1").await.err().expect("nobody listens").to_string();
        assert!(refused.contains("is running and listens on this port"), "{refused}");
    });
}
