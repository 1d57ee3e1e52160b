//! Clients that misbehave: nothing falls, and the others are served.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::client::Answer;
use super::{Served, serve, serve_with};

fn still_serves(served: &Served) {
    assert_eq!(served.client().get("/api/state").status, 200);
}

#[test]
fn malformed_requests_are_refused() {
    let served = serve();
    let host = format!("host: {}\r\n", served.monitor.address());
    let long = format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{host}{}\r\n", "a: b\r\n".repeat(5000));
    let smuggled =
        format!("POST /api/run/stop HTTP/1.1\r\n{host}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}");
    let both =
        format!("POST /api/run/stop HTTP/1.1\r\n{host}transfer-encoding: x\r\ncontent-length: 3\r\n\r\n{{}}");
    let tries: [&[u8]; 9] = [
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 1000],
        long.as_bytes(),
        many.as_bytes(),
        smuggled.as_bytes(),
        both.as_bytes(),
    ];
    for bytes in tries {
        let mut stream = served.client().connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received);
        if let Some(answer) = Answer::read(&received) {
            assert_eq!(
                answer.status / 100,
                4,
                "{:?}",
                String::from_utf8_lossy(&bytes[..bytes.len().min(60)])
            );
        }
    }
    assert!(served.fake.requests().is_empty());
    still_serves(&served);
}

#[test]
fn bodies_are_bounded() {
    let served = serve();
    let long = format!("{{\"title\": \"{}\"}}", "x".repeat(1 << 20));
    let received = served.client().say(
        format!(
            "POST /api/run/start HTTP/1.1\r\nhost: localhost\r\nx-thalweg: 1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{long}",
            long.len()
        )
        .as_bytes(),
    );
    // The answer may be overtaken by the end of the connection; what counts is that nothing was done.
    assert!(Answer::read(&received).is_none_or(|answer| answer.status == 413));
    let deep = format!("{{\"title\": {}", "[".repeat(60_000));
    assert_eq!(served.client().post("/api/run/start", &deep).status, 400);
    assert!(served.fake.requests().is_empty());
    still_serves(&served);
}

const ASK: &[u8] = b"GET /api/state HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[test]
fn connections_that_ask_nothing_or_slowly_make_room_at_once() {
    let served = serve_with(|settings| settings.connections = 8);
    let beginnings: [&[u8]; 3] = [
        b"",
        b"GET /api/state HTTP/1.1\r\nhost: local",
        b"POST /api/run/stop HTTP/1.1\r\nhost: localhost\r\nx-thalweg: 1\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{",
    ];
    for beginning in beginnings {
        let silent: Vec<_> = (0..20).map(|_| served.client().connect()).collect();
        for mut stream in &silent {
            // Those that had to free space are closed already.
            let _ = stream.write_all(beginning);
        }
        for _ in 0..20 {
            let start = Instant::now();
            let answer = Answer::read(&served.client().say(ASK));
            assert_eq!(answer.map(|answer| answer.status), Some(200));
            // Silent ones are given up after 20 s: it was not waited for that.
            assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        }
    }
    assert!(served.fake.requests().is_empty());
}

#[test]
fn connections_that_are_answered_are_not_closed_for_others() {
    let served = serve_with(|settings| settings.connections = 8);
    let watching: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = served.client().connect();
            stream.write_all(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("said");
            stream.read_exact(&mut [0; 15]).expect("an answer has begun");
            stream
        })
        .collect();
    let answer = Answer::read(&served.client().say(ASK)).expect("an answer");
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("[monitor] connections"));
    for mut stream in watching {
        stream.read_exact(&mut [0; 64]).expect("it goes on");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while Answer::read(&served.client().say(ASK)).is_none_or(|answer| answer.status != 200) {
        assert!(Instant::now() < deadline, "places are given back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn no_bytes_make_the_server_fall(start in "(GET|POST|\\PC{0,5}) \\PC{0,10} HTTP/1.1\r\n", rest in proptest::collection::vec(any::<u8>(), 0..200)) {
        static SERVED: std::sync::OnceLock<Served> = std::sync::OnceLock::new();
        let served = SERVED.get_or_init(serve);
        let mut stream = served.client().connect();
        let _ = stream.write_all(&[start.as_bytes(), &rest].concat());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
        still_serves(served);
    }
}
