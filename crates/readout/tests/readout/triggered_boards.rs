//! Emulated triggered boards, many of them, on real sockets; read by the group that will read real ones.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_data::{
    Busy, Counters, Fragment, Fragments, Frames, Framing, LinkId, LossReason, Mark, Pool, Source, SourceId,
    Unit,
};
use thalweg_frontend::trigger::{Answer, Kind, Program, Settings as Triggers, Trigger};
use thalweg_readout::RunClock;
use thalweg_readout::group::{Group, GroupSettings, Inputs, Link, each};
use thalweg_readout::host::triggered::{Feed, Hosted, HostedBoards, HostedLink, Outlet, TriggeredSettings};
use thalweg_readout::live::{TcpSource, UdpSource};
use thalweg_transport::{TcpReceiver, TcpReceiverSettings, UdpReceiver, UdpReceiverSettings};

const WAIT: Duration = Duration::from_millis(1);
/// No test may wait longer, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(60);

/// A board that says its number, the trigger's, and as many bytes as configured: the simplest there is.
struct Plain {
    board: u16,
    payload: Vec<u8>,
    datagrams: bool,
}

impl Plain {
    /// One whose answers have `bytes`, head included.
    fn new(board: u16, bytes: usize, datagrams: bool) -> Plain {
        Plain { board, payload: vec![board as u8; bytes - 10], datagrams }
    }
}

impl Answer for Plain {
    fn answer(&mut self, trigger: Trigger, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) {
        bytes.extend((10 + self.payload.len() as u32).to_le_bytes());
        bytes.extend(self.board.to_le_bytes());
        bytes.extend((trigger.number as u32).to_le_bytes());
        bytes.extend_from_slice(&self.payload);
        if self.datagrams {
            ends.push(bytes.len());
        }
    }
}

impl Hosted for Plain {}

/// Its framing.
#[derive(Default)]
struct PlainFraming {
    counters: Counters,
    held: usize,
}

impl Framing for PlainFraming {
    type Output = Fragments;

    fn frame(&mut self, received: &Frames, fragments: &mut Fragments) -> usize {
        self.counters.input(Unit::Bytes, received.byte_count());
        for slice in &received.slices {
            let bytes = received.bytes(*slice);
            let mut at = 0;
            while let Some(head) = bytes.get(at..at + 10) {
                let length = u32::from_le_bytes(head[..4].try_into().expect("four")) as usize;
                let Some(part) = slice.part(at, length) else { break };
                fragments.slices.push(part);
                fragments.fragments.push(Fragment {
                    trigger: u64::from(u32::from_le_bytes(head[6..].try_into().expect("four"))),
                    source: SourceId(u16::from_le_bytes(head[4..6].try_into().expect("two"))),
                    bytes: length as u32,
                    slices: 1,
                    ..Fragment::default()
                });
                at += length;
            }
            self.held = bytes.len() - at;
            self.counters.output(Unit::Bytes, at as u64);
        }
        self.counters.output(Unit::Fragments, fragments.fragments.len() as u64);
        self.counters.set_held(Unit::Bytes, self.held as u64);
        self.held
    }

    fn finish(&mut self, _: &Frames, _: &mut Fragments) {
        self.counters.lost(LossReason::Unfinished, Unit::Bytes, std::mem::take(&mut self.held) as u64);
        self.counters.set_held(Unit::Bytes, 0);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

fn constant(rate_hz: f64, triggers: u64) -> Feed {
    let settings =
        Triggers { program: Kind::Constant, rate_hz, triggers: Some(triggers), ..Triggers::default() };
    Feed::Program(Program::new(&settings).expect("a program"))
}

/// TCP boards behind one connection each, and the links to them.
fn tcp_boards(boards: u16, bytes: usize, clock: RunClock) -> (Vec<HostedLink>, Vec<Link<Fragments>>) {
    (0..boards)
        .map(|board| {
            let outlet = Outlet::listen("127.0.0.1:0".parse().expect("an address")).expect("loopback");
            let address = outlet.local_address().expect("listening");
            let pool = Pool::new(8, 64 << 10).expect("memory");
            let connect = move || -> Box<dyn Source> {
                let connect_wait = Duration::from_secs(1);
                let settings = TcpReceiverSettings { address, receive_buffer_bytes: 0, connect_wait };
                let receiver = TcpReceiver::connect(&settings, pool.clone()).expect("listening");
                Box::new(TcpSource::new(receiver, clock, None, "tcp://board"))
            };
            let link = Link {
                source: SourceId(board),
                live: connect(),
                framing: Box::new(PlainFraming::default()),
                reopen: Some(Box::new(move || Ok(connect()))),
            };
            (HostedLink::new(outlet, vec![Box::new(Plain::new(board, bytes, false))]), link)
        })
        .unzip()
}

/// What came, per board: how many, and whether in order.
#[derive(Default)]
struct Seen {
    next: BTreeMap<SourceId, u64>,
    by_board: BTreeMap<SourceId, u64>,
    fragments: u64,
    steps: u64,
}

impl Seen {
    fn take(&mut self, fragments: &Fragments) {
        for fragment in &fragments.fragments {
            let next = self.next.entry(fragment.source).or_default();
            self.steps += u64::from(*next != fragment.trigger);
            *next = fragment.trigger + 1;
            *self.by_board.entry(fragment.source).or_default() += 1;
            self.fragments += 1;
        }
    }
}

/// Boards that are ready to start, what reads them, and what was read.
fn opened(
    settings: TriggeredSettings,
    links: Vec<Link<Fragments>>,
    clock: RunClock,
) -> (HostedBoards, Group<Fragments>, Seen) {
    let hosted = HostedBoards::new(settings).expect("boards");
    let group = Group::new(links, GroupSettings::default(), clock).expect("descriptors");
    (hosted, group, Seen::default())
}

/// Reads until `done`, however slow the machine is.
fn read_until(
    group: &mut Group<Fragments>,
    hosted: &HostedBoards,
    seen: &mut Seen,
    done: impl Fn(&Group<Fragments>, &Seen) -> bool,
) {
    let start = Instant::now();
    while !done(group, seen) {
        assert!(start.elapsed() < LIMIT, "{} fragments, {:?}", seen.fragments, hosted.totals());
        group.turn(WAIT, &mut each(|_, _, fragments| seen.take(fragments))).expect("a group");
    }
}

/// Datagrams that the kernel had no space for.
fn dropped(group: &Group<Fragments>) -> u64 {
    let drops = |link| {
        group.drop_counters(link).iter().find(|(name, _)| *name == "socket_drops").map_or(0, |drops| drops.1)
    };
    group.links().map(drops).sum()
}

/// Fragments that the boards have given to sockets.
fn sent_by(hosted: &HostedBoards) -> u64 {
    hosted.totals().boards.iter().map(|board| board.fragments - board.discarded_fragments).sum()
}

/// Reads until the boards are silent and everything that they have sent has come or was dropped.
fn read_all(group: &mut Group<Fragments>, hosted: &HostedBoards, seen: &mut Seen) {
    read_until(group, hosted, seen, |group, seen| {
        hosted.is_silent() && seen.fragments + dropped(group) >= sent_by(hosted)
    });
    // Nothing comes behind it.
    group.turn(WAIT, &mut each(|_, _, fragments| seen.take(fragments))).expect("a group");
}

fn ledger_balances(group: &Group<Fragments>) {
    for link in group.links() {
        let (received, split) = (group.receive_counters(link), group.framing(link).counters());
        assert_eq!(received.total_output(Unit::Bytes), split.total_input(Unit::Bytes));
        let away =
            split.total_output(Unit::Bytes) + split.total_lost_any(Unit::Bytes) + split.held(Unit::Bytes);
        assert_eq!(split.total_input(Unit::Bytes), away);
    }
}

#[test]
fn a_hundred_and_five_tcp_boards_answer_every_trigger() {
    let clock = RunClock::start();
    let (hosted, links) = tcp_boards(105, 380, clock);
    let (mut hosted, mut group, mut seen) =
        opened(TriggeredSettings::new(hosted, constant(2000.0, 3000)), links, clock);
    hosted.start();
    read_all(&mut group, &hosted, &mut seen);
    let totals = hosted.totals();
    assert_eq!((totals.offered(), totals.accepted() + totals.refused()), (3000, 3000));
    assert_eq!(seen.fragments, 105 * totals.accepted());
    assert_eq!((seen.next.len(), seen.steps), (105, 0));
    assert!(totals.boards.iter().all(|board| board.bytes == 380 * totals.accepted()));
    assert_eq!(totals.lateness.spread().count, totals.accepted());
    assert!(totals.skew.spread().p50_ns > 0);
    ledger_balances(&group);
    hosted.end();
    assert_eq!(hosted.failures(), [] as [String; 0]);
}

#[test]
fn three_hundred_and_twenty_udp_boards_answer_over_one_socket() {
    let clock = RunClock::start();
    let bind: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let pool = Pool::new(64, 512 << 10).expect("memory");
    let receiver = UdpReceiver::open(UdpReceiverSettings::new(bind, 9216), pool).expect("loopback");
    let to = receiver.local_address().expect("bound");
    let short = receiver.receive_buffer().granted_bytes < 4 << 20;
    let live = Box::new(UdpSource::new(receiver, clock, None, "udp://boards"));
    let framing = Box::new(PlainFraming::default());
    let link = Link { source: SourceId(0), live, framing, reopen: None };
    let boards = (0..320).map(|board| Box::new(Plain::new(board, 1000, true)) as Box<dyn Hosted>).collect();
    let hosted = vec![HostedLink::new(Outlet::Datagrams(to), boards)];
    let rate_hz = if short { 100.0 } else { 1000.0 };
    let settings = TriggeredSettings::new(hosted, constant(rate_hz, 1000));
    let (mut hosted, mut group, mut seen) = opened(settings, vec![link], clock);
    hosted.start();
    // The kernel counts what it dropped with the next datagram that comes: another sender's, behind all of them.
    let (other, last) = (UdpSocket::bind("127.0.0.1:0").expect("loopback"), SourceId(320));
    let mut words = Vec::new();
    Plain::new(last.0, 10, true).answer(Trigger { number: 0, time_ns: 0 }, &mut words, &mut Vec::new());
    read_until(&mut group, &hosted, &mut seen, |_, seen| {
        if hosted.is_silent() {
            other.send_to(&words, to).expect("loopback");
        }
        seen.by_board.contains_key(&last)
    });
    hosted.end();
    let totals = hosted.totals();
    let sent: u64 = totals.boards.iter().map(|board| board.datagrams).sum();
    // Of a machine that is busy with other things, some triggers are refused.
    assert_eq!((totals.offered(), totals.accepted() + totals.refused()), (1000, 1000));
    assert!(totals.accepted() > 0 && sent == 320 * totals.accepted(), "{totals:?}");
    // On a machine that is busy with other things the kernel's buffer may overflow; it says so, in packets of up to 64 datagrams.
    let came = seen.fragments - seen.by_board[&last];
    assert!(
        came == sent || came < sent && dropped(&group) > 0,
        "{came} of {sent}, {} dropped",
        dropped(&group)
    );
    ledger_balances(&group);
    assert_eq!(hosted.failures(), [] as [String; 0]);
}

#[test]
fn a_reader_that_pauses_makes_the_trigger_busy_and_loses_nothing() {
    let clock = RunClock::start();
    let (hosted, links) = tcp_boards(16, 6144, clock);
    let settings = TriggeredSettings {
        fifo_bytes: 64 << 10,
        send_buffer_bytes: 16 << 10,
        ..TriggeredSettings::new(hosted, constant(5000.0, 10_000))
    };
    let (mut hosted, mut group, mut seen) = opened(settings, links, clock);
    group.pause(LinkId(3));
    hosted.start();
    // The FIFO of the board that is not read is full.
    read_until(&mut group, &hosted, &mut seen, |_, _| {
        let totals = hosted.totals();
        totals.refused() > 100 && totals.busy_ns > 0
    });
    let paused = hosted.totals();
    assert!(paused.refused() > 0 && paused.busy_ns > 0, "{paused:?}");
    group.resume(LinkId(3));
    read_all(&mut group, &hosted, &mut seen);
    let totals = hosted.totals();
    assert_eq!(totals.offered(), 10_000);
    assert_eq!(totals.offered(), totals.accepted() + totals.refused());
    assert!(totals.accepted() > paused.accepted(), "it went on");
    assert_eq!(seen.fragments, 16 * totals.accepted());
    assert_eq!(
        seen.steps, 0,
        "accepted triggers are numbered without gaps, and every board answered them in order"
    );
    assert!(totals.boards.iter().all(|board| board.discarded_fragments == 0));
    ledger_balances(&group);
    hosted.end();
}

#[test]
fn busy_of_another_stage_refuses_triggers() {
    let clock = RunClock::start();
    let (hosted, links) = tcp_boards(2, 100, clock);
    let busy = Arc::new(Busy::default());
    let settings = TriggeredSettings {
        busy: Some(busy.clone()),
        ..TriggeredSettings::new(hosted, constant(1000.0, 300))
    };
    let (mut hosted, mut group, mut seen) = opened(settings, links, clock);
    busy.raise(Mark(0));
    hosted.start();
    read_until(&mut group, &hosted, &mut seen, |_, _| hosted.totals().refused() >= 50);
    busy.lower(Mark(0));
    read_all(&mut group, &hosted, &mut seen);
    hosted.end();
    let totals = hosted.totals();
    assert!(totals.refused() >= 50, "{totals:?}");
    assert!(totals.busy_ns > 0 && totals.busy_raised == 1, "{} ns", totals.busy_ns);
    assert_eq!(seen.fragments, 2 * totals.accepted());
    assert_eq!(totals.trigger.total_lost(LossReason::Busy, Unit::Events), totals.refused());
}

#[test]
fn triggers_that_fell_due_while_boards_were_away_are_refused_and_not_answered_late() {
    let clock = RunClock::start();
    let (hosted, links) = tcp_boards(2, 1000, clock);
    let settings = TriggeredSettings::new(hosted, constant(1000.0, 10_000));
    let (mut hosted, mut group, mut seen) = opened(settings, links, clock);
    read_until(&mut group, &hosted, &mut seen, |_, _| hosted.links_without_client() == 0);
    // All of them at once, as for a thread that has not run for ten seconds: as many are taken as may wait.
    hosted.start_at(Instant::now() - Duration::from_secs(10));
    read_all(&mut group, &hosted, &mut seen);
    hosted.end();
    let totals = hosted.totals();
    assert_eq!((totals.offered(), totals.accepted(), totals.refused()), (10_000, 4_096, 5_904));
    assert_eq!((totals.refused_by_boards, seen.fragments), (5_904, 8_192));
    ledger_balances(&group);
}

#[test]
fn a_board_that_dies_and_comes_back_is_read_again() {
    const TRIGGERS: u64 = 40_000;
    let clock = RunClock::start();
    let (hosted, links) = tcp_boards(8, 1000, clock);
    // As fast as they are read: a clock's triggers would all be over, or refused, while a busy machine does something else.
    let feed = Feed::Unpaced { triggers: Some(TRIGGERS) };
    let mut hosted = HostedBoards::new(TriggeredSettings::new(hosted, feed)).expect("boards");
    let settings = GroupSettings { first_retry: Duration::from_millis(10), ..GroupSettings::default() };
    let mut group = Group::new(links, settings, clock).expect("descriptors");
    let mut seen = Seen::default();
    hosted.start();
    read_until(&mut group, &hosted, &mut seen, |_, seen| seen.fragments >= 8 * 500);
    hosted.set_power(LinkId(5), false);
    read_until(&mut group, &hosted, &mut seen, |_, _| hosted.totals().boards[5].discarded_fragments >= 500);
    hosted.set_power(LinkId(5), true);
    read_all(&mut group, &hosted, &mut seen);
    hosted.end();
    assert!(group.epoch(LinkId(5)) >= 1);
    let totals = hosted.totals();
    let board = totals.boards[5];
    assert!((500..TRIGGERS - 500).contains(&board.discarded_fragments), "{board:?}");
    let others =
        totals.boards.iter().map(|board| board.discarded_fragments).sum::<u64>() - board.discarded_fragments;
    assert_eq!(others, 0);
    assert_eq!(seen.fragments, 8 * totals.accepted() - board.discarded_fragments);
    let sent_bytes = board.bytes - board.discarded_bytes;
    assert_eq!(group.receive_counters(LinkId(5)).total_output(Unit::Bytes), sent_bytes);
    assert_eq!(totals.accepted() + totals.refused(), TRIGGERS);
    ledger_balances(&group);
}

#[test]
fn boards_follow_the_triggers_of_another() {
    let clock = RunClock::start();
    let (hosted, links) = tcp_boards(4, 100, clock);
    let (mut triggers, followed) = thalweg_data::ring::ring(64);
    let settings = TriggeredSettings::new(hosted, Feed::Follow(followed));
    let (mut hosted, mut group, mut seen) = opened(settings, links, clock);
    hosted.start();
    for number in [7, 8, 9, 1000] {
        triggers.push(Trigger { number, time_ns: 0 }).expect("space");
    }
    drop(triggers);
    let mut numbers = Vec::new();
    while seen.fragments < 16 {
        group
            .turn(
                WAIT,
                &mut each(|_: LinkId, _: &Frames, fragments: &mut Fragments| {
                    seen.take(fragments);
                    numbers.extend(fragments.fragments.iter().filter(|f| f.source.0 == 2).map(|f| f.trigger));
                }),
            )
            .expect("a group");
    }
    assert_eq!(numbers, [7, 8, 9, 1000]);
    hosted.end();
    assert_eq!(hosted.totals().accepted(), 4);
}

#[test]
fn unpaced_boards_send_as_fast_as_they_are_read() {
    let clock = RunClock::start();
    let (hosted, links) = tcp_boards(32, 1000, clock);
    let feed = Feed::Unpaced { triggers: Some(20_000) };
    let (mut hosted, mut group, mut seen) = opened(TriggeredSettings::new(hosted, feed), links, clock);
    let start = Instant::now();
    hosted.start();
    read_all(&mut group, &hosted, &mut seen);
    println!("{:.0} fragments/s", seen.fragments as f64 / start.elapsed().as_secs_f64());
    hosted.end();
    let totals = hosted.totals();
    assert_eq!((totals.accepted(), totals.refused()), (20_000, 0));
    assert_eq!((seen.fragments, seen.steps), (640_000, 0));
    ledger_balances(&group);
}

#[test]
fn boards_that_are_stopped_in_full_swing_answer_nothing_twice() {
    let clock = RunClock::start();
    let (hosted, links) = tcp_boards(8, 500, clock);
    let feed = Feed::Unpaced { triggers: None };
    let (mut hosted, mut group, mut seen) = opened(TriggeredSettings::new(hosted, feed), links, clock);
    hosted.start();
    while seen.fragments < 100_000 {
        group.turn(WAIT, &mut each(|_, _, fragments| seen.take(fragments))).expect("a group");
    }
    hosted.stop();
    read_all(&mut group, &hosted, &mut seen);
    hosted.end();
    assert_eq!((seen.fragments, seen.steps), (8 * hosted.totals().accepted(), 0));
    ledger_balances(&group);
}
