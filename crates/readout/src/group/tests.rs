use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::channel;

use thalweg_data::{Fragment, Fragments, LinkId, Pool, Unit};
use thalweg_transport::{TcpReceiver, TcpReceiverSettings, TransportError, UdpReceiver, UdpReceiverSettings};

use super::*;
use crate::live::{TcpSource, UdpSource};

/// Units of a length byte (itself included) and a number; keeps what is not whole.
#[derive(Default)]
struct Lengths {
    counters: Counters,
    held: usize,
    /// How often it began anew.
    begun: u32,
}

impl Framing for Lengths {
    type Output = Fragments;

    fn frame(&mut self, received: &Frames, fragments: &mut Fragments) -> usize {
        self.counters.input(Unit::Bytes, received.byte_count());
        self.held = 0;
        for slice in &received.slices {
            let bytes = received.bytes(*slice);
            let mut at = 0;
            while at < bytes.len() && at + usize::from(bytes[at]) <= bytes.len() {
                let length = usize::from(bytes[at]);
                fragments.slices.push(slice.part(at, length).expect("inside"));
                let trigger = u64::from(bytes[at + 1]);
                fragments.fragments.push(Fragment {
                    trigger,
                    slices: 1,
                    bytes: length as u32,
                    ..Fragment::default()
                });
                self.counters.output(Unit::Fragments, 1);
                self.counters.output(Unit::Bytes, length as u64);
                at += length;
            }
            self.held = bytes.len() - at;
        }
        fragments.leases.add_all(&received.leases);
        self.counters.set_held(Unit::Bytes, self.held as u64);
        self.held
    }

    fn finish(&mut self, _carried: &Frames, _fragments: &mut Fragments) {
        self.counters.lost(thalweg_data::LossReason::Unfinished, Unit::Bytes, self.held as u64);
        self.held = 0;
        self.counters.set_held(Unit::Bytes, 0);
    }

    fn begin_anew(&mut self) {
        assert_eq!(self.held, 0, "the connection before is finished");
        self.begun += 1;
    }

    fn starts(&self) -> u32 {
        self.begun
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

const WAIT: Duration = Duration::from_millis(1);

fn connect(address: SocketAddr, pool: &Pool, clock: RunClock) -> Result<Box<dyn Source>, TransportError> {
    let wait = Duration::from_millis(300);
    let settings = TcpReceiverSettings { address, receive_buffer_bytes: 0, connect_wait: wait };
    let receiver = TcpReceiver::connect(&settings, pool.clone())?;
    Ok(Box::new(TcpSource::new(receiver, clock, None, "tcp://board")))
}

/// A link, and the listener of its board.
fn tcp_link(clock: RunClock, reopens: bool) -> (Link<Fragments>, TcpListener, TcpStream, Pool) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let pool = Pool::new(4, 4096).expect("small");
    let live = connect(address, &pool, clock).expect("listening");
    let board = listener.accept().expect("connected").0;
    board.set_nodelay(true).expect("a socket");
    let opened = pool.clone();
    let reopen: Reopen = Box::new(move || {
        let failed = |error: TransportError| SourceError { place: String::new(), message: error.to_string() };
        connect(address, &opened, clock).map_err(failed)
    });
    let framing = Box::new(Lengths::default());
    (Link { source: SourceId(0), live, framing, reopen: reopens.then_some(reopen) }, listener, board, pool)
}

fn settings() -> GroupSettings {
    GroupSettings {
        first_retry: Duration::from_millis(5),
        silence: Duration::from_millis(50),
        ..GroupSettings::default()
    }
}

fn turns(
    group: &mut Group<Fragments>,
    most: Duration,
    mut done: impl FnMut(&mut Group<Fragments>, &mut Vec<(LinkId, u64)>) -> bool,
) {
    let (start, mut seen) = (Instant::now(), Vec::new());
    while !done(group, &mut seen) {
        assert!(start.elapsed() < most, "{} fragments after {most:?}", seen.len());
        group
            .turn(
                WAIT,
                &mut each(|link, _, fragments: &mut Fragments| {
                    seen.extend(fragments.fragments.iter().map(|fragment| (link, fragment.trigger)));
                }),
            )
            .expect("a group");
    }
}

#[test]
fn every_link_is_read_and_split() {
    let clock = RunClock::start();
    let (mut links, mut boards) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let (link, listener, board, _) = tcp_link(clock, false);
        links.push(link);
        boards.push((listener, board));
    }
    let mut group = Group::new(links, settings(), clock).expect("descriptors");
    for trigger in 0..100u8 {
        for (_, board) in &mut boards {
            board.write_all(&[5, trigger, 1]).expect("connected");
            board.write_all(&[2, 3]).expect("connected");
        }
    }
    let mut seen_by_link: BTreeMap<LinkId, Vec<u64>> = BTreeMap::new();
    turns(&mut group, Duration::from_secs(60), |_, seen| {
        seen.drain(..).for_each(|(link, trigger)| seen_by_link.entry(link).or_default().push(trigger));
        seen_by_link.values().map(Vec::len).sum::<usize>() == 4000
    });
    assert!(seen_by_link.values().all(|triggers| triggers.iter().copied().eq(0..100)));
    for link in group.links() {
        assert_eq!(group.receive_counters(link).total_output(Unit::Bytes), 500);
        assert_eq!(group.framing(link).counters().total_output(Unit::Fragments), 100);
    }
    drop(boards);
    turns(&mut group, Duration::from_secs(60), |group, _| group.open_links() == 0);
}

#[test]
fn time_passes_for_links_that_say_nothing() {
    let clock = RunClock::start();
    let (link, _listener, _board, _) = tcp_link(clock, false);
    let mut group = Group::new(vec![link], settings(), clock).expect("descriptors");
    let (start, mut marks, mut silent) = (Instant::now(), Vec::new(), 0);
    // However late this thread is: time is reported many times, and silence once.
    while marks.len() <= 20 || silent == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "{} marks, {silent} silent", marks.len());
        group
            .turn(Duration::from_millis(20), &mut each(|_, frames, _| marks.push(frames.header.mark)))
            .expect("a group");
        silent += group.news().iter().filter(|news| matches!(news, News::Silent { .. })).count();
    }
    assert!(marks.is_sorted());
    assert_eq!(silent, 1, "said once");
}

#[test]
fn a_paused_link_makes_its_sender_wait_and_loses_nothing() {
    let clock = RunClock::start();
    let (link, _listener, mut board, _) = tcp_link(clock, false);
    let mut group = Group::new(vec![link], settings(), clock).expect("descriptors");
    group.pause(LinkId(0));
    let sender = std::thread::spawn(move || {
        for number in 0..200_000u32 {
            board
                .write_all(&[200; 1])
                .and_then(|()| board.write_all(&[number as u8; 199]))
                .expect("connected");
        }
    });
    // Time to be wrong in: however long it is, the sender cannot end.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!sender.is_finished(), "40 MB do not fit the kernel's buffers");
    assert_eq!(
        group
            .turn(WAIT, &mut each(|_, _, fragments: &mut Fragments| assert!(fragments.fragments.is_empty())))
            .expect("ok")
            .links,
        0
    );
    group.resume(LinkId(0));
    let mut next = 0u64;
    turns(&mut group, Duration::from_secs(60), |group, seen| {
        for (_, trigger) in seen.drain(..) {
            assert_eq!(trigger, next % 256);
            next += 1;
        }
        group.open_links() == 0
    });
    assert_eq!(next, 200_000);
    sender.join().expect("no panic");
}

#[test]
fn without_a_free_block_a_link_waits_and_others_do_not() {
    let clock = RunClock::start();
    let (held, _listener, mut held_board, pool) = tcp_link(clock, false);
    let (other, _other_listener, mut other_board, _) = tcp_link(clock, false);
    let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    let mut group = Group::new(vec![held, other], settings(), clock).expect("descriptors");
    held_board.write_all(&[2, 7]).expect("connected");
    let start = Instant::now();
    let mut rounds = 0u32;
    while !group.is_held(LinkId(0)) || start.elapsed() < Duration::from_millis(50) {
        group
            .turn(
                WAIT,
                &mut each(|link, _, fragments: &mut Fragments| {
                    assert!(link.0 == 1 || fragments.fragments.is_empty())
                }),
            )
            .expect("ok");
        rounds += 1;
    }
    assert!(group.is_held(LinkId(0)));
    assert!(rounds < 1000, "{rounds} rounds in 50 ms: it does not spin");
    other_board.write_all(&[2, 9]).expect("connected");
    turns(&mut group, Duration::from_secs(60), |_, seen| seen.contains(&(LinkId(1), 9)));
    drop(taken);
    turns(&mut group, Duration::from_secs(60), |_, seen| seen.contains(&(LinkId(0), 7)));
    assert!(!group.is_held(LinkId(0)));
}

#[test]
fn time_passes_for_a_link_that_waits_for_a_block() {
    // Whoever has its blocks may give them back as time passes.
    let clock = RunClock::start();
    let (held, _listener, mut held_board, pool) = tcp_link(clock, false);
    let (other, _other_listener, _other_board, _) = tcp_link(clock, false);
    let _taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    let mut group = Group::new(vec![held, other], settings(), clock).expect("descriptors");
    held_board.write_all(&[2, 7]).expect("connected");
    let (start, mut marks) = (Instant::now(), Vec::new());
    while marks.len() <= 20 {
        assert!(start.elapsed() < Duration::from_secs(60), "{} marks", marks.len());
        let is_held = group.is_held(LinkId(0));
        let take = |link: LinkId, frames: &Frames, _: &mut Fragments| {
            marks.extend((is_held && link == LinkId(0)).then_some(frames.header.mark));
        };
        group.turn(WAIT, &mut each(take)).expect("a group");
    }
    assert!(marks.is_sorted());
}

#[test]
fn a_board_that_drops_its_connection_comes_back_with_a_ledger_that_balances() {
    let clock = RunClock::start();
    let (link, listener, mut board, _) = tcp_link(clock, true);
    let mut group = Group::new(vec![link], settings(), clock).expect("descriptors");
    board.write_all(&[3, 1, 0, 9, 2]).expect("connected");
    turns(&mut group, Duration::from_secs(60), |_, seen| seen.contains(&(LinkId(0), 1)));
    drop(board);
    let mut news = Vec::new();
    turns(&mut group, Duration::from_secs(60), |group, _| {
        news.extend(group.news().to_vec());
        news.iter().any(|news| matches!(news, News::Back { .. }))
    });
    assert!(matches!(&news[0], News::Gone { message, .. } if message.contains("closed")), "{news:?}");
    let mut board = listener.accept().expect("connected again").0;
    board.write_all(&[2, 8]).expect("connected");
    turns(&mut group, Duration::from_secs(60), |_, seen| seen.contains(&(LinkId(0), 8)));
    let (received, split) = (group.receive_counters(LinkId(0)), group.framing(LinkId(0)).counters());
    assert_eq!((received.total_output(Unit::Bytes), split.total_input(Unit::Bytes)), (7, 7));
    assert_eq!((split.total_output(Unit::Bytes), split.total_lost_any(Unit::Bytes)), (5, 2));
    assert_eq!((group.epoch(LinkId(0)), group.framing(LinkId(0)).starts()), (1, 1));
    // Nobody listens any more: it is tried in vain, and the group goes on.
    drop((board, listener));
    turns(&mut group, Duration::from_secs(60), |group, _| matches!(group.news(), [News::Gone { .. }]));
    group.turn(Duration::from_millis(50), &mut each(|_, _, _| {})).expect("a group");
    let mut ends = 0;
    group.finish(&mut each(|_, frames, _| ends += u32::from(frames.header.end)));
    assert_eq!((ends, group.open_links()), (1, 0));
}

#[test]
fn a_connection_that_comes_back_after_the_close_is_not_taken() {
    for finishes in [false, true] {
        let clock = RunClock::start();
        let (mut away, listener, board, _) = tcp_link(clock, true);
        let (held, _listener, mut held_board, pool) = tcp_link(clock, false);
        let (asked, is_asked) = channel();
        let (open, is_open) = channel::<()>();
        let mut opens = away.reopen.take().expect("it reopens");
        away.reopen = Some(Box::new(move || {
            asked.send(()).expect("the test waits");
            is_open.recv().expect("the test opens it");
            opens()
        }));
        // Links that wait for a block are looked after, and with them those that are away.
        let _taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        let mut group = Group::new(vec![away, held], settings(), clock).expect("descriptors");
        held_board.write_all(&[2, 7]).expect("connected");
        drop(board);
        turns(&mut group, Duration::from_secs(60), |group, _| {
            group.is_held(LinkId(1)) && is_asked.try_recv().is_ok()
        });
        group.close();
        if finishes {
            group.finish_link(LinkId(0), &mut each(|_, _, _| {}));
        }
        open.send(()).expect("it waits");
        let mut board = listener.accept().expect("connected again").0;
        board.set_nonblocking(true).expect("a socket");
        let mut back = Vec::new();
        turns(&mut group, Duration::from_secs(60), |group, _| {
            back.extend(group.news().iter().filter(|news| matches!(news, News::Back { .. })).cloned());
            !back.is_empty() || matches!(board.read(&mut [0; 8]), Ok(0))
        });
        assert_eq!((back, group.open_links()), (vec![], 1), "finishes: {finishes}");
    }
}

#[test]
fn a_half_closed_connection_is_an_end() {
    let clock = RunClock::start();
    let (link, _listener, mut board, _) = tcp_link(clock, false);
    let mut group = Group::new(vec![link], settings(), clock).expect("descriptors");
    board.write_all(&[2, 4]).expect("connected");
    board.shutdown(std::net::Shutdown::Write).expect("connected");
    let mut all = Vec::new();
    turns(&mut group, Duration::from_secs(60), |group, seen| {
        all.append(seen);
        group.open_links() == 0
    });
    assert_eq!(all, [(LinkId(0), 4)]);
    drop(group);
    assert_eq!(board.read(&mut [0; 8]).expect("closed by us"), 0);
}

#[test]
fn datagrams_of_one_socket_are_split_by_link() {
    let clock = RunClock::start();
    let (mut links, mut to) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let local = "127.0.0.1:0".parse().expect("an address");
        let mut receiver_settings = UdpReceiverSettings::new(local, 2048);
        receiver_settings.receive_buffer_bytes = 1 << 20;
        let pool = Pool::new(4, 256 << 10).expect("small");
        let receiver = UdpReceiver::open(receiver_settings, pool).expect("loopback");
        to.push(receiver.local_address().expect("bound"));
        let live = Box::new(UdpSource::new(receiver, clock, None, "udp://boards"));
        links.push(Link { source: SourceId(0), live, framing: Box::new(Lengths::default()), reopen: None });
    }
    let mut group = Group::new(links, settings(), clock).expect("descriptors");
    let board = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    for trigger in 0..50u8 {
        for to in &to {
            board.send_to(&[3, trigger, 0, 2, trigger], to).expect("loopback");
        }
    }
    let mut count = 0;
    turns(&mut group, Duration::from_secs(60), |_, seen| {
        count += seen.drain(..).count();
        count == 400
    });
}

/// A recording without data: marks alone, of which the last is that of its end.
struct Marks {
    left: VecDeque<u64>,
    /// Where its connection has ended and was opened again.
    anew: Option<u64>,
    latest: Mark,
    counters: Counters,
}

impl Source for Marks {
    fn receive(&mut self, frames: &mut Frames, _wait: Duration) -> Result<Received, SourceError> {
        let received = match self.left.pop_front() {
            Some(mark) => {
                self.latest = Mark(mark);
                Received::Idle
            }
            None => Received::End,
        };
        (frames.header.mark, frames.header.end) = (self.latest, self.left.is_empty());
        frames.begins_anew = received == Received::Idle && self.anew == Some(self.latest.0);
        Ok(received)
    }

    fn carry(&mut self, _bytes: usize) {}

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn description(&self) -> String {
        "marks".to_owned()
    }

    fn is_stream(&self) -> bool {
        false
    }
}

#[test]
fn the_mark_of_a_recorded_end_is_handed_over_with_that_end_as_in_the_run() {
    for links in [1, 2] {
        let clock = RunClock::start();
        let link = |source| {
            let left = VecDeque::from([1_000_000, 2_000_000, 9_000_000]);
            let live = Box::new(Marks { left, anew: None, latest: Mark(0), counters: Counters::default() });
            Link { source: SourceId(source), live, framing: Box::new(Lengths::default()), reopen: None }
        };
        let mut group = Group::new((0..links).map(link).collect(), settings(), clock).expect("descriptors");
        let mut seen = Vec::new();
        while group.open_links() > 0 {
            group
                .turn(
                    WAIT,
                    &mut each(|link, frames, _| {
                        if link.0 == 0 {
                            seen.push((frames.header.mark.0, frames.header.end));
                        }
                    }),
                )
                .expect("a group");
        }
        assert_eq!(seen, [(1_000_000, false), (2_000_000, false), (9_000_000, true)], "{links} links");
    }
}

#[test]
fn a_connection_that_was_opened_again_in_the_run_begins_anew_in_its_replay() {
    let clock = RunClock::start();
    let left = VecDeque::from([1_000_000, 2_000_000, 9_000_000]);
    let live =
        Box::new(Marks { left, anew: Some(2_000_000), latest: Mark(0), counters: Counters::default() });
    let link = Link { source: SourceId(0), live, framing: Box::new(Lengths::default()), reopen: None };
    let mut group = Group::new(vec![link], settings(), clock).expect("descriptors");
    let mut seen = Vec::new();
    while group.open_links() > 0 {
        let mut taker = each(|_, frames, _| seen.push((frames.header.mark.0, frames.begins_anew)));
        group.turn(WAIT, &mut taker).expect("a group");
    }
    assert_eq!(seen, [(1_000_000, false), (2_000_000, true), (9_000_000, false)]);
    assert_eq!(group.framing(LinkId(0)).starts(), 1);
}
