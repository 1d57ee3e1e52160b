//! Units among unexpected peers: false managers, false builders, silent connections, and a second unit of a name.
//!
//! ```text
//!  others ═ loopback ═► thalweg run FILE --node a|b ─► every accepted trigger on file, no failure
//! ```

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use thalweg_build::unit::message;
use thalweg_data::{Message, Pool};
use thalweg_transport::peer::frame::{HEADER_BYTES, Header};
use thalweg_transport::peer::hello::Hello;
use thalweg_transport::peer::{PeerError, RunIdentity, Settings, SharedKey, connect, listen};

use crate::process::{Ended, Folder, Running, accepted_triggers, number, wait_until};
use crate::units::{PATIENT, configuration, free_urls, unit, wait_for_rows_of, went_well};

const WAIT: Duration = Duration::from_secs(60);

fn unexpected(name: &str, identity: RunIdentity, key: Option<&str>) -> Settings {
    let pool = Pool::new(8, 64 << 10).expect("memory");
    let key = key.map(|secret| SharedKey::new(secret.as_bytes()).expect("long enough"));
    Settings { identity, key, connect_wait: WAIT, ..Settings::new(name, pool) }
}

/// One node with both readout units and one with a builder unit and the manager, which listen at these addresses.
fn two_nodes(folder: &Folder, triggers: u64, urls: &[String; 2], run: &str) -> String {
    let reached = |url: &str| format!("node = \"events\"\nlisten = \"{url}\"");
    let units = unit("ru-left", "readout", "sources = [\"left\"]\nnode = \"boards\"")
        + &unit("ru-right", "readout", "sources = [\"right\"]\nnode = \"boards\"")
        + &unit("bu-0", "builder", &reached(&urls[0]))
        + &unit("evm", "manager", &reached(&urls[1]))
        + run;
    configuration(folder, triggers, &units)
}

fn node(file: &str, name: &str) -> Running {
    let talkative = ["env", "THALWEG_LOG=thalweg_run=info"];
    Running::start_as(&talkative, &["run", file, "--node", name, "--seconds", "60", "--json"])
}

/// Lets the nodes come to their end: every accepted trigger is on file, and nothing went wrong.
fn end_well(boards: Running, events: Running) -> [Ended; 2] {
    let boards = boards.wait().done();
    events.signal("TERM");
    let events = events.wait().done();
    went_well(&boards.json());
    went_well(&events.json());
    let recorded = number(&events.json()["events"], "events_recorded");
    assert_eq!(recorded, accepted_triggers(&boards.json()), "{:#}", events.json()["events"]);
    [boards, events]
}

/// Connects once somebody listens.
fn knock(url: &str) -> TcpStream {
    let mut stream = None;
    wait_until(&format!("somebody listens at {url}"), || {
        stream = TcpStream::connect(url.replace("tcp://", "")).ok();
        stream.is_some()
    });
    stream.expect("just connected")
}

/// What a listening unit without a key says of itself to anybody.
fn hello_of(url: &str) -> Hello {
    let mut stream = knock(url);
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).expect("a hello");
    let header = Header::decode(&header).expect("a hello");
    let mut head = vec![0; header.head_bytes as usize];
    stream.read_exact(&mut head).expect("a hello");
    Hello::decode(&head).expect("a hello")
}

#[test]
fn false_managers_and_builders_without_the_key_change_nothing() {
    let folder = Folder::new();
    folder.file("units.key", "the key of all nodes\n");
    let urls = free_urls::<2>();
    let file = two_nodes(&folder, 6000, &urls, "[run]\nkey_file = \"units.key\"\n");
    // A manager that is there first, and would raise the epoch for ever.
    let mut false_manager = listen(&urls[1], unexpected("evm", RunIdentity::default(), None)).expect("free");
    let boards = node(&file, "boards");
    wait_until("the readout units try to reach their manager", || {
        let let_in = false_manager.accept(Duration::from_millis(20)).expect("an endpoint");
        assert!(let_in.is_none(), "a readout unit talks to a false manager");
        false_manager.refused() >= 2
    });
    drop(false_manager);
    let events = node(&file, "events");
    // Builders that would let the others forget what nobody has written.
    for key in [None, Some("the key of other nodes")] {
        match connect(&urls[1], unexpected("bu-0", RunIdentity::default(), key)) {
            Err(PeerError::Key { .. } | PeerError::Refused { .. }) => {}
            other => panic!("{key:?}: {:?}", other.map(|peer| peer.place().to_owned())),
        }
    }
    end_well(boards, events);
}

#[test]
fn an_unexpected_unit_takes_no_living_units_place_and_ends_no_node() {
    let folder = Folder::new();
    let urls = free_urls::<2>();
    let file = two_nodes(&folder, 3000, &urls, "");
    let (boards, events) = (node(&file, "boards"), node(&file, "events"));
    // Without a key, whoever is on this host can learn to whom a unit belongs.
    let identity = hello_of(&urls[1]).identity;
    let elsewhere = RunIdentity { configuration: !identity.configuration, ..identity.clone() };
    for url in &urls {
        match connect(url, unexpected("ru-left", elsewhere.clone(), None)) {
            Err(PeerError::Configuration { .. } | PeerError::Refused { .. }) => {}
            other => panic!("{url}: {:?}", other.map(|peer| peer.place().to_owned())),
        }
    }
    // The unit whose name it takes is connected: its events are on file.
    wait_for_rows_of(&folder, "bu-0");
    let mut double =
        connect(&urls[0], unexpected("ru-left", identity, None)).expect("without a key anybody is let in");
    let mut words = Message::default();
    message::release(&mut words, 1, u64::MAX, std::iter::empty());
    let _ = double.send(&mut words);
    let _ = double.flush(Duration::from_millis(10));
    let [_, events] = end_well(boards, events);
    // The double takes the place once the unit has left it, and may be silent there for too long.
    let until_it_left =
        events.error.split("readout unit 0 has closed its connection").next().unwrap_or_default();
    assert!(!until_it_left.contains("the connection with"), "none of the unit's is lost: {}", events.error);
    assert!(events.error.contains("waits until the connection of its name is lost"), "{}", events.error);
}

#[test]
fn forty_readout_units_and_two_hundred_unexpected_connections_find_their_place() {
    const UNITS: usize = 40;
    let folder = Folder::new();
    let urls = free_urls::<2>();
    let reached = |url: &str| format!("node = \"events\"\nlisten = \"{url}\"");
    let source = |number: usize| {
        format!(
            "[[source]]\nname = \"s{number}\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 1\nprofile = \"recbe\"\n\
             named_by = \"connection\"\nmemory_bytes = 4194304\n"
        )
    };
    let readout = |number: usize| {
        unit(&format!("ru-{number}"), "readout", &format!("sources = [\"s{number}\"]\nnode = \"boards\""))
    };
    let text = (0..UNITS).map(source).chain((0..UNITS).map(readout)).collect::<String>()
        + &unit("bu-0", "builder", &reached(&urls[0]))
        + &unit("evm", "manager", &reached(&urls[1]))
        + "[trigger]\nprogram = \"constant\"\nrate_hz = 250.0\ntriggers = 1000\n[build]\nfull = \"hold\"\n"
        + PATIENT
        + &format!("[record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n", folder.at("runs"));
    let file = folder.file("run.toml", &text);
    let events = node(&file, "events");
    let unexpected: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = knock(&urls[number % 2]);
            // Some of them begin to say something.
            let _ = stream.write_all(&b"thwg"[..number % 4]);
            stream
        })
        .collect();
    end_well(node(&file, "boards"), events);
    drop(unexpected);
}
