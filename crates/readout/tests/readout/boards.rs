//! Emulated boards on real sockets, received by the sources that will receive real ones.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use thalweg_data::{Busy, Counters, Decode, Frames, Framing, Hit, Hits, Received, Source, SourceId, Unit};
use thalweg_frontend::digitizer2::emulate::Settings as BoardSettings;
use thalweg_frontend::digitizer2::emulate::settings::{Rates, Transport};
use thalweg_frontend::digitizer2::{Decoder, Settings as FormatSettings, TcpUnpack, UdpUnpack};
use thalweg_readout::host::{HostSettings, HostedBoard, Place, TruthSink};
use thalweg_readout::{Opened, RunClock, Settings, SourceUrl, open};

const WAIT: Duration = Duration::from_micros(500);

fn board(transport: Transport) -> BoardSettings {
    BoardSettings { transport, rate_hz: Rates::Each(2000.0), seed: 7, ..BoardSettings::default() }
}

fn opened(url: &str) -> Opened {
    let settings = Settings::new(SourceUrl::parse(url).expect("a URL"));
    open(&settings, RunClock::start(), &Arc::new(Busy::default())).expect(url)
}

/// What a perfect reader would have got.
fn truth() -> (Arc<Mutex<Vec<Hit>>>, TruthSink) {
    let all = Arc::new(Mutex::new(Vec::new()));
    let into = all.clone();
    let sink = move |hits: &[Hit]| {
        into.lock().expect("no one panicked").extend_from_slice(hits);
        Ok(())
    };
    (all, Box::new(sink))
}

/// Framing and decoding of one source.
struct Path {
    unpack: Box<dyn Framing<Output = Frames>>,
    decoder: Decoder,
    hits: Hits,
}

impl Path {
    fn of(opened: &Opened) -> Path {
        let (id, block_bytes) = (SourceId(0), opened.pool.block_size());
        let unpack: Box<dyn Framing<Output = Frames>> = match opened.source.is_stream() {
            true => Box::new(TcpUnpack::new(id, block_bytes)),
            false => Box::new(UdpUnpack::new(id, 1 << 20)),
        };
        let decoder = Decoder::new(id, &FormatSettings::default()).expect("defaults");
        Path { unpack, decoder, hits: Hits::default() }
    }

    /// Reads until `done`, which is given the hits so far and what has been received, or the end.
    fn read(&mut self, source: &mut dyn Source, done: impl Fn(&Hits, &Counters) -> bool) {
        let (mut frames, mut units) = (Frames::default(), Frames::default());
        let start = Instant::now();
        let mut mark = thalweg_data::Mark(0);
        while !done(&self.hits, source.counters()) {
            assert!(start.elapsed() < Duration::from_secs(60), "{} hits so far", self.hits.hits.len());
            frames.clear();
            let received = source.receive(&mut frames, WAIT).expect("a source");
            assert!(frames.header.mark >= mark, "marks never step back");
            mark = frames.header.mark;
            match received {
                Received::Data => {
                    units.clear();
                    let carried = self.unpack.frame(&frames, &mut units);
                    source.carry(carried);
                    self.decoder.decode(&units, &mut self.hits);
                }
                Received::End => return,
                Received::Idle | Received::Full => {}
            }
        }
    }
}

fn key(hit: &Hit) -> (i64, u16, u16, u16) {
    (hit.time_ps, hit.channel, hit.energy, hit.energy_short)
}

fn session(address: Ipv4Addr, transport: Transport) {
    let (truth, sink) = truth();
    // A port of our own: tests of several processes may run at the same time.
    let control_port = 52_000 + u16::from(address.octets()[3]);
    let place = Place::Network { address: IpAddr::V4(address), control_port, udp_port: 51_940 };
    let mut hosted = HostedBoard::new(HostSettings {
        board: Box::new(board(transport)),
        place,
        loss: 0.0,
        truth: Some(sink),
    })
    .expect("a free address");
    for run in 0..2 {
        let mut opened = opened(&format!("dig2://{address}:{control_port}"));
        let mut control = opened.control.take().expect("a board has control");
        assert_eq!(control.get("/par/numch").expect("a parameter"), "64");
        assert!(control.get("/par/nosuch").is_err());
        control.set("/ch/8..63/par/chenable", "False").expect("a range of channels");
        assert_eq!(control.get("/ch/9/par/chenable").expect("a parameter"), "False");
        let mut path = Path::of(&opened);
        truth.lock().expect("no one panicked").clear();
        let sent_before = hosted.totals().sent.hits;
        control.arm().expect("an idle board");
        control.start().expect("an armed board");
        path.read(&mut *opened.source, |hits, _| hits.hits.len() > 2000);
        control.stop().expect("a running board");
        control.disarm().expect("a stopped board");
        let sent = || (hosted.totals().sent.hits - sent_before) as usize;
        path.read(&mut *opened.source, |hits, _| hosted.is_silent() && hits.hits.len() >= sent());
        let expected: Vec<_> = truth.lock().expect("no one panicked").iter().map(key).collect();
        let found: Vec<_> = path.hits.hits.iter().map(key).collect();
        assert!(expected.len() > 1000, "{} hits", expected.len());
        assert_eq!(found.len(), expected.len(), "run {run} over {transport:?}");
        assert_eq!(found, expected, "run {run} over {transport:?}");
        assert!(found.iter().all(|(_, channel, ..)| *channel < 8), "disabled channels stay silent");
        let counters = opened.source.counters();
        assert_eq!(counters.total_input(Unit::Bytes), counters.total_output(Unit::Bytes));
    }
    hosted.end();
    assert_eq!(hosted.failures(), [] as [String; 0]);
}

#[test]
fn a_session_over_tcp_yields_every_hit() {
    session(Ipv4Addr::new(127, 0, 0, 41), Transport::Tcp);
}

#[test]
fn a_session_over_udp_yields_every_hit() {
    session(Ipv4Addr::new(127, 0, 0, 42), Transport::Udp);
}

/// Reads until a clear marker has come, which is what a client waits for when it opens the data port.
fn clear_marker(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let mut header = [0xFF; 32];
    stream.read_exact(&mut header).expect("a marker for whoever connects");
    assert_eq!(header, [0; 32]);
}

#[test]
fn a_tcp_data_port_serves_client_after_client_and_the_latest_of_two() {
    let place = Place::Network { address: [127, 0, 0, 45].into(), control_port: 52_045, udp_port: 51_940 };
    let hosted = HostSettings { board: Box::new(board(Transport::Tcp)), place, loss: 0.0, truth: None };
    let _hosted = HostedBoard::new(hosted).expect("a free address");
    // Its data port is among what it reports.
    let Opened { source, control, .. } = opened("dig2://127.0.0.45:52045");
    let port = control.expect("a board has control").get("/endpoint/raw/port").expect("reported");
    drop(source);
    let connect = || TcpStream::connect(format!("127.0.0.45:{port}")).expect("it listens");
    for _ in 0..3 {
        clear_marker(&mut connect());
    }
    // One that is gone without a word, as after a cut cable, holds nobody up.
    let mut gone = connect();
    clear_marker(&mut gone);
    clear_marker(&mut connect());
}

#[test]
fn what_is_dropped_at_the_sender_is_counted_to_the_hit() {
    let mut opened = opened("emulate://");
    let to = opened.address.expect("an emulated board knows where to send");
    let settings =
        BoardSettings { rate_hz: Rates::Each(20_000.0), duration_s: Some(0.3), ..board(Transport::Udp) };
    let hosted =
        HostSettings { board: Box::new(settings), place: Place::Stream { to }, loss: 0.05, truth: None };
    let mut hosted = HostedBoard::new(hosted).expect("a board");
    let mut path = Path::of(&opened);
    hosted.start();
    path.read(&mut *opened.source, |_, received| {
        let totals = hosted.totals();
        let arrived = totals.sent.datagrams - totals.dropped.datagrams;
        hosted.is_silent() && received.total_input(Unit::Datagrams) >= arrived
    });
    hosted.end();
    path.unpack.finish(&Frames::default(), &mut Frames::default());
    let totals = hosted.totals();
    assert!(totals.dropped.datagrams > 0 && totals.dropped.hits > 100, "{totals:?}");
    assert_eq!(path.hits.hits.len() as u64 + totals.dropped.hits, totals.sent.hits);
    let counters = opened.source.counters();
    assert_eq!(counters.total_input(Unit::Datagrams) + totals.dropped.datagrams, totals.sent.datagrams);
    assert_eq!(counters.total_input(Unit::Bytes) + totals.dropped.bytes, totals.sent.bytes);
    assert_eq!(hosted.failures(), [] as [String; 0]);
}

#[test]
fn an_address_without_a_board_is_named() {
    let settings = Settings::new(SourceUrl::parse("dig2://127.0.0.43:1").expect("a URL"));
    let Err(error) = open(&settings, RunClock::start(), &Arc::new(Busy::default())) else {
        panic!("nobody is there")
    };
    assert!(error.to_string().contains("no control connection"), "{error}");
}

#[test]
fn a_board_that_refuses_a_parameter_says_so() {
    let address = Ipv4Addr::new(127, 0, 0, 44);
    let place = Place::Network { address: IpAddr::V4(address), control_port: 52_044, udp_port: 51_940 };
    let hosted = HostSettings { board: Box::new(board(Transport::Tcp)), place, loss: 0.0, truth: None };
    let _hosted = HostedBoard::new(hosted).expect("a free address");
    let mut settings = Settings::new(SourceUrl::parse("dig2://127.0.0.44:52044").expect("a URL"));
    settings.parameters.push(("/par/nosuch".to_owned(), "1".to_owned()));
    let Err(error) = open(&settings, RunClock::start(), &Arc::new(Busy::default())) else {
        panic!("refused")
    };
    assert!(error.to_string().contains("nosuch"), "{error}");
}

#[test]
fn busy_follows_a_full_pool() {
    let mut settings = Settings::new(SourceUrl::parse("udp://127.0.0.1:0").expect("a URL"));
    settings.policy = thalweg_readout::BlockPolicy::Busy;
    (settings.block_bytes, settings.memory_bytes) = (Some(1 << 16), Some(4 << 16));
    let busy = Arc::new(Busy::default());
    let mut opened = open(&settings, RunClock::start(), &busy).expect("loopback");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let to = opened.address.expect("bound");
    let mut held = Vec::new();
    for _ in 0..1000 {
        sender.send_to(&[0; 8000], to).expect("loopback");
        let mut frames = Frames::default();
        if opened.source.receive(&mut frames, WAIT).expect("a socket") == Received::Full {
            break;
        }
        held.push(frames);
    }
    assert!(busy.is_raised());
    held.clear();
    opened.source.receive(&mut Frames::default(), WAIT).expect("a socket");
    assert!(!busy.is_raised());
}
