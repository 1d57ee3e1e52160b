//! Handshakes: with and without the key of the run, with silent connections, and the blocks that they take.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_data::{Message, Pool, Received};
use thalweg_transport::peer::frame::{HEADER_BYTES, Header, Kind};
use thalweg_transport::peer::hello::Hello;
use thalweg_transport::peer::{
    Connector, KeyProblem, Listener, Peer, PeerError, RunIdentity, Settings, SharedKey, connect, listen,
};

const WAIT: Duration = Duration::from_secs(60);
const BLOCK: usize = 64 << 10;
const RUN: &str = "41-not-for-others";
const DIGEST: u64 = 0xfeed_beef_dead_1234;

fn settings(name: &str, key: Option<&str>) -> Settings {
    let pool = Pool::new(16, BLOCK).expect("memory");
    let key = key.map(|secret| SharedKey::new(secret.as_bytes()).expect("long enough"));
    let identity = RunIdentity { configuration: DIGEST, run: RUN.to_owned() };
    Settings { key, identity, ring_bytes: 64 << 10, ..Settings::new(name, pool) }
}

const KEY: Option<&str> = Some("the key of this run");
const OTHER_KEY: Option<&str> = Some("the key of another run");

fn accept(listener: &mut Listener) -> Box<dyn Peer> {
    listener
        .accept(WAIT)
        .expect("an endpoint")
        .unwrap_or_else(|| panic!("no connection: {:?}", listener.last_refusal()))
}

fn send(peer: &mut dyn Peer, words: &[u8]) {
    let mut message = Message::default();
    message.head.extend_from_slice(words);
    peer.send(&mut message).expect("open");
    assert!(peer.flush(WAIT).expect("open"));
}

/// The bytes of a frame.
fn frame(kind: Kind, sequence: u32, head: &[u8]) -> Vec<u8> {
    let header = Header {
        version: 1,
        kind,
        head_bytes: head.len() as u32,
        table_entries: 0,
        payload_bytes: 0,
        sequence,
    };
    [header.encode().as_slice(), head].concat()
}

fn hello(name: &str) -> Vec<u8> {
    let mut head = Vec::new();
    let identity = RunIdentity { configuration: DIGEST, run: RUN.to_owned() };
    Hello { identity, ..Hello::of(name, 1 << 20) }.encode(&mut head);
    frame(Kind::Hello, 0, &head)
}

/// Lets the endpoint work until it has refused `count` connections.
fn refused(endpoint: &mut Listener, count: u64) {
    let until = Instant::now() + WAIT;
    while endpoint.refused() < count {
        assert!(Instant::now() < until, "{} of {count} were refused", endpoint.refused());
        assert!(
            endpoint.accept(Duration::from_millis(5)).expect("an endpoint").is_none(),
            "no unit is accepted"
        );
    }
}

#[test]
fn units_with_the_same_key_talk_over_tcp_and_shared_memory() {
    let name = format!("shm://keyed-{}", std::process::id());
    for url in ["tcp://127.0.0.1:0", &name] {
        let mut endpoint = listen(url, settings("endpoint", KEY)).expect("a free URL");
        let url = endpoint.url();
        let connecting = thread::spawn(move || connect(&url, settings("guest", KEY)));
        let mut far = accept(&mut endpoint);
        let mut near = connecting.join().expect("no panic").expect("it listens");
        assert_eq!((near.name(), far.name()), ("endpoint", "guest"));
        let mut message = Message::default();
        for (from, to, words) in [(0, 1, b"words"), (1, 0, b"agree")] {
            let ends = [&mut near, &mut far];
            send(&mut **ends[from], words);
            assert_eq!(ends[to].receive(&mut message, WAIT).expect("open"), Received::Data);
            assert_eq!(message.head, words);
        }
    }
}

#[test]
fn a_unit_with_another_key_or_none_is_refused() {
    for (ours, theirs, here, there) in [
        (KEY, OTHER_KEY, KeyProblem::Another, KeyProblem::Another),
        (KEY, None, KeyProblem::TheyHaveNone, KeyProblem::WeHaveNone),
        (None, KEY, KeyProblem::WeHaveNone, KeyProblem::TheyHaveNone),
    ] {
        let mut endpoint = listen("tcp://127.0.0.1:0", settings("endpoint", ours)).expect("a free URL");
        let url = endpoint.url();
        let connecting = thread::spawn(move || connect(&url, settings("false-unit", theirs)));
        refused(&mut endpoint, 1);
        match endpoint.last_refusal() {
            Some(PeerError::Key { problem, .. }) if *problem == here => {}
            other => panic!("{ours:?} against {theirs:?}: {other:?}"),
        }
        match connecting.join().expect("no panic") {
            Err(PeerError::Key { problem, .. }) if problem == there => {}
            Err(PeerError::Refused { words, .. }) if words.contains("key") => {}
            other => panic!("{ours:?} against {theirs:?}: {:?}", other.map(|peer| peer.name().to_owned())),
        }
    }
}

#[test]
fn nothing_is_lent_given_back_or_closed_before_the_handshake_is_complete() {
    let mut endpoint = listen("tcp://127.0.0.1:0", settings("endpoint", KEY)).expect("a free URL");
    let address = endpoint.url().replace("tcp://", "");
    for (number, kind) in [Kind::Pool, Kind::Return, Kind::Bye].into_iter().enumerate() {
        let mut stream = TcpStream::connect(&address).expect("listening");
        stream.write_all(&frame(kind, 0, &[0; 12])).expect("open");
        refused(&mut endpoint, number as u64 + 1);
        let refusal = endpoint.last_refusal().map(ToString::to_string).unwrap_or_default();
        assert!(refusal.contains("before the handshake is complete"), "{refusal}");
    }
}

#[test]
fn a_goodbye_in_place_of_the_handshake_is_a_failure_of_the_connector() {
    for key in [KEY, None] {
        let false_endpoint = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("tcp://{}", false_endpoint.local_addr().expect("bound"));
        // It rests for the whole test after its first failure.
        let own = Settings { back_off: (WAIT, WAIT), ..settings("guest", key) };
        let mut connector = Connector::new(&url, own).expect("a URL");
        let saying_goodbye = thread::spawn(move || {
            let (mut stream, _) = false_endpoint.accept().expect("it connects");
            stream.write_all(&frame(Kind::Bye, 0, &[])).expect("open");
            stream
        });
        let until = Instant::now() + WAIT;
        while connector.problem().is_none() {
            assert!(Instant::now() < until, "no failure");
            let peer = connector.poll(Duration::from_millis(5)).expect("another try may help");
            assert!(peer.is_none(), "a peer that has proved nothing");
        }
        let problem = connector.problem().unwrap_or_default();
        assert!(problem.contains("before the handshake is complete"), "{problem}");
        drop(saying_goodbye.join().expect("no panic"));
    }
}

#[test]
fn an_unauthenticated_peer_learns_nothing_about_the_run() {
    let mut endpoint = listen("tcp://127.0.0.1:0", settings("secret-builder", KEY)).expect("a free port");
    let address = endpoint.url().replace("tcp://", "");
    // A hello without a challenge, a proof without a challenge, and a challenge with a wrong proof behind it.
    let attempts = [
        hello("bu-0"),
        frame(Kind::Proof, 0, &[7; 32]),
        [frame(Kind::Challenge, 0, &[1; 36]), frame(Kind::Proof, 1, &[9; 32]), hello("bu-0")].concat(),
    ];
    for (number, attempt) in attempts.iter().enumerate() {
        let mut stream = TcpStream::connect(&address).expect("listening");
        stream.write_all(attempt).expect("open");
        refused(&mut endpoint, number as u64 + 1);
        let mut received = Vec::new();
        // The endpoint has not read everything, so the connection may end with a reset.
        let _ = stream.read_to_end(&mut received);
        let has = |what: &[u8]| received.windows(what.len()).any(|bytes| bytes == what);
        let digest = format!("{DIGEST:x}");
        for secret in [b"secret-builder".as_slice(), RUN.as_bytes(), digest.as_bytes(), &DIGEST.to_le_bytes()]
        {
            assert!(!has(secret), "attempt {number}: {}", String::from_utf8_lossy(&received));
        }
        assert!(received.len() >= HEADER_BYTES, "attempt {number} receives a challenge");
    }
}

#[test]
fn a_refusal_says_what_is_wrong_with_the_frames_and_not_where_they_came_to() {
    let unreadable = "a frame of the handshake cannot be read, or came out of turn";
    for (attempt, words) in [
        (frame(Kind::Proof, 0, &[7; 32]), unreadable),
        (frame(Kind::Hello, 0, &[1; 3]), unreadable),
        ([hello("bu-0"), frame(Kind::Hello, 1, &[])].concat(), "a frame of the handshake came after its end"),
    ] {
        let mut endpoint = listen("tcp://127.0.0.1:0", settings("builder", None)).expect("a free port");
        let mut stream = TcpStream::connect(endpoint.url().replace("tcp://", "")).expect("listening");
        stream.write_all(&attempt).expect("open");
        let error = if words == unreadable {
            refused(&mut endpoint, 1);
            endpoint.last_refusal().expect("refused").to_string()
        } else {
            let mut peer = accept(&mut endpoint);
            peer.receive(&mut Message::default(), WAIT).expect_err("not after the handshake").to_string()
        };
        assert!(error.starts_with("tcp://") && error.ends_with(&format!("refused: {words}")), "{error}");
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received);
        let text = String::from_utf8_lossy(&received);
        assert!(text.ends_with(words) && !text.contains("tcp://"), "{text}");
    }
}

#[test]
fn without_a_key_a_refusal_does_not_contain_the_digest_of_the_configuration() {
    let mut endpoint = listen("tcp://127.0.0.1:0", settings("endpoint", None)).expect("a free URL");
    let mut stream = TcpStream::connect(endpoint.url().replace("tcp://", "")).expect("listening");
    let mut head = Vec::new();
    Hello::of("elsewhere", 0).encode(&mut head);
    stream.write_all(&frame(Kind::Hello, 0, &head)).expect("open");
    refused(&mut endpoint, 1);
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("closed in order");
    let words = String::from_utf8_lossy(&received);
    assert!(words.contains("another configuration") && !words.contains(&format!("{DIGEST:x}")), "{words}");
}

#[test]
fn without_a_key_units_listen_and_connect_only_on_loopback() {
    let open = |url: &str, key| listen(url, settings("endpoint", key)).map(drop);
    match open("tcp://0.0.0.0:0", None) {
        Err(error @ PeerError::Unguarded { .. }) => {
            assert!(error.to_string().contains("key_file"), "{error}")
        }
        other => panic!("{other:?}"),
    }
    open("tcp://0.0.0.0:0", KEY).expect("with a key");
    open("tcp://localhost:0", None).expect("loopback");
    // An address for documentation (RFC 5737): nothing is sent there.
    match connect("tcp://192.0.2.1:7000", settings("guest", None)) {
        Err(PeerError::Unguarded { .. }) => {}
        other => panic!("{:?}", other.map(|peer| peer.place().to_owned())),
    }
}

#[test]
fn forty_peers_are_accepted_beside_two_hundred_silent_connections() {
    const PEERS: usize = 40;
    // One block for each peer: silent connections must not take one.
    let pool = Pool::new(PEERS, 4096).expect("memory");
    let own = Settings { pool: pool.clone(), ..settings("endpoint", KEY) };
    let mut endpoint = listen("tcp://127.0.0.1:0", own).expect("a free URL");
    let address = endpoint.url().replace("tcp://", "");
    let silent: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(&address).expect("listening");
            // Some begin a frame and never end it.
            let begun = frame(Kind::Challenge, 0, &[number as u8; 36]);
            stream.write_all(&begun[..number % (begun.len() - 1)]).expect("open");
            assert!(endpoint.accept(Duration::ZERO).expect("an endpoint").is_none());
            stream
        })
        .collect();
    assert_eq!(pool.free_count(), PEERS, "a handshake takes no block");
    let connecting: Vec<_> = (0..PEERS)
        .map(|number| {
            let url = endpoint.url();
            thread::spawn(move || {
                let mut peer = connect(&url, settings(&format!("unit-{number}"), KEY)).expect("it listens");
                send(&mut *peer, b"in");
                peer
            })
        })
        .collect();
    let mut inside: Vec<Box<dyn Peer>> = (0..PEERS).map(|_| accept(&mut endpoint)).collect();
    let _connected: Vec<_> = connecting.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    let mut message = Message::default();
    for peer in &mut inside {
        assert_eq!(peer.receive(&mut message, WAIT).expect("open"), Received::Data, "{}", peer.name());
        assert_eq!(message.head, b"in");
    }
    drop(silent);
}

#[test]
fn one_call_handles_a_bounded_number_of_heartbeats() {
    const FLOOD: u32 = 3000;
    let mut endpoint = listen("tcp://127.0.0.1:0", settings("endpoint", None)).expect("a free URL");
    let mut stream = TcpStream::connect(endpoint.url().replace("tcp://", "")).expect("listening");
    stream.write_all(&hello("flooding")).expect("open");
    let mut peer = accept(&mut endpoint);
    let mut flood: Vec<u8> = (1..=FLOOD).flat_map(|number| frame(Kind::Heartbeat, number, &[])).collect();
    flood.extend(frame(Kind::Message, FLOOD + 1, b"at last"));
    stream.write_all(&flood).expect("open");
    let (mut message, mut calls) = (Message::default(), 0);
    let until = Instant::now() + WAIT;
    while peer.receive(&mut message, Duration::ZERO).expect("open") == Received::Idle {
        calls += 1;
        assert!(Instant::now() < until, "the message never came");
    }
    assert_eq!(message.head, b"at last");
    assert!(calls >= 2, "{FLOOD} heartbeats in {} calls", calls + 1);
    // A call that may wait reads on.
    stream.write_all(&frame(Kind::Heartbeat, FLOOD + 2, &[])).expect("open");
    let flood: Vec<u8> =
        (FLOOD + 3..2 * FLOOD).flat_map(|number| frame(Kind::Heartbeat, number, &[])).collect();
    stream.write_all(&flood).expect("open");
    stream.write_all(&frame(Kind::Message, 2 * FLOOD, b"again")).expect("open");
    assert_eq!(peer.receive(&mut message, WAIT).expect("open"), Received::Data);
    assert_eq!(message.head, b"again");
}
