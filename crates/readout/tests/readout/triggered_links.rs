//! Triggered sources opened from their settings, with the boards of the front ends at the other end.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_data::{BoardId, Busy, Fragments, SourceId, Unit};
use thalweg_frontend::format::{EmulatedBoards, FragmentFormat};
use thalweg_frontend::trigger::{Kind, Program, Settings as Triggers};
use thalweg_frontend::{fragment, sitcp};
use thalweg_readout::group::{Group, GroupSettings, Inputs, each};
use thalweg_readout::host::triggered::{
    Feed, Hosted, HostedBoards, HostedLink, Outlet, TriggeredSettings, TriggeredTotals,
};
use thalweg_readout::{LinkSettings, OpenedLinks, RunClock, Settings, open_links};

const WAIT: Duration = Duration::from_millis(1);

fn endpoint(url: &str) -> Settings {
    Settings::new(url.parse().expect("a URL"))
}

fn opened(
    endpoint: &Settings,
    boards: &dyn FragmentFormat,
    emulated: Option<&dyn EmulatedBoards>,
    clock: RunClock,
) -> Result<OpenedLinks, thalweg_data::SourceError> {
    let settings = LinkSettings { endpoint, boards, emulated, first_source: SourceId(10) };
    open_links(&settings, clock, &Arc::new(Busy::default()))
}

fn program(rate_hz: f64, triggers: u64) -> Feed {
    let settings =
        Triggers { program: Kind::Constant, rate_hz, triggers: Some(triggers), ..Triggers::default() };
    Feed::Program(Program::new(&settings).expect("a program"))
}

/// What came of each source: how many fragments, and whether in order.
type Seen = BTreeMap<SourceId, (u64, u64)>;

/// Fragments that went out.
fn sent(hosted: &HostedBoards) -> u64 {
    hosted.totals().boards.iter().map(|board| board.fragments - board.discarded_fragments).sum()
}

/// Triggers the boards and reads them; checks the ledger of every link.
fn run(opened: OpenedLinks, feed: Feed, clock: RunClock) -> (Seen, Option<TriggeredTotals>) {
    let mut controls = opened.controls;
    let mut hosted = (!opened.hosted.is_empty())
        .then(|| HostedBoards::new(TriggeredSettings::new(opened.hosted, feed)).expect("boards"));
    for control in &mut controls {
        control.arm().expect("a board");
    }
    let mut group = Group::new(opened.links, GroupSettings::default(), clock).expect("descriptors");
    if let Some(hosted) = &hosted {
        // What was acknowledged before the start holds from the first trigger on.
        hosted.start();
    }
    let (mut seen, start) = (Seen::new(), Instant::now());
    // Until everything that was sent has come, or the file that is read has ended.
    let has_come = |seen: &Seen, group: &Group<Fragments>| match &hosted {
        Some(hosted) => {
            hosted.is_silent() && seen.values().map(|(count, _)| count).sum::<u64>() >= sent(hosted)
        }
        None => group.open_links() == 0,
    };
    while !has_come(&seen, &group) {
        assert!(start.elapsed() < Duration::from_secs(60), "{seen:?}");
        let turn = group.turn(
            WAIT,
            &mut each(|_, _, fragments: &mut Fragments| {
                for (fragment, slices) in fragments.iter() {
                    let bytes: u32 = slices.iter().map(|slice| slice.length).sum();
                    assert_eq!(bytes, fragment.bytes);
                    let (count, disorder) = seen.entry(fragment.source).or_default();
                    *disorder += u64::from(fragment.trigger != *count);
                    *count += 1;
                }
            }),
        );
        turn.expect("a group");
    }
    group.finish(&mut each(|_, _, _| {}));
    for link in group.links() {
        let (received, split) = (group.receive_counters(link), group.framing(link).counters());
        assert_eq!(received.total_output(Unit::Bytes), split.total_input(Unit::Bytes));
        let away = split.total_output(Unit::Bytes)
            + split.total_overhead(Unit::Bytes)
            + split.total_lost_any(Unit::Bytes)
            + split.held(Unit::Bytes);
        assert_eq!((split.total_input(Unit::Bytes), split.total_lost_any(Unit::Bytes)), (away, 0));
    }
    let totals = hosted.as_mut().map(|hosted| {
        hosted.end();
        assert_eq!(hosted.failures(), [] as [String; 0]);
        hosted.totals()
    });
    (seen, totals)
}

fn all_answered(seen: &Seen, totals: &TriggeredTotals, boards: u16) {
    assert_eq!(totals.boards.len(), usize::from(boards));
    let sources: Vec<u16> = seen.keys().map(|source| source.0).collect();
    assert_eq!(sources, (10..10 + boards).collect::<Vec<_>>());
    for (source, (count, disorder)) in seen {
        assert_eq!((*count, *disorder), (totals.accepted(), 0), "{source}");
    }
}

#[test]
fn emulated_fragments_over_datagrams() {
    let clock = RunClock::start();
    let boards = fragment::Settings { boards: 320, first_board: 7, ..Default::default() };
    let opened = opened(&endpoint("emulate://"), &boards, None, clock).expect("loopback");
    assert_eq!((opened.plan.links, opened.plan.boards()), (1, 320));
    let (seen, totals) = run(opened, program(200.0, 300), clock);
    all_answered(&seen, &totals.expect("hosted"), 320);
}

#[test]
fn emulated_fragments_over_streams() {
    let clock = RunClock::start();
    let boards = fragment::Settings { boards: 64, first_board: 7, ..Default::default() };
    let board = fragment::emulate::Settings { stream: true, checksum: true, ..Default::default() };
    let opened = opened(&endpoint("emulate://"), &boards, Some(&board), clock).expect("loopback");
    assert_eq!((opened.plan.links, opened.plan.boards_per_link), (64, 1));
    assert_eq!(opened.plan.memory_bytes(), 64 << 20);
    let (seen, totals) = run(opened, program(1000.0, 1000), clock);
    all_answered(&seen, &totals.expect("hosted"), 64);
}

#[test]
fn emulated_sitcp_boards_send_as_their_registers_say() {
    let clock = RunClock::start();
    let boards = sitcp::Settings { boards: 105, ..Default::default() };
    let mut settings = endpoint("emulate://");
    settings.parameters = vec![("mode".to_owned(), "raw".to_owned())];
    let opened = opened(&settings, &boards, None, clock).expect("loopback");
    assert_eq!((opened.plan.links, opened.controls.len()), (105, 105));
    let (seen, totals) = run(opened, program(200.0, 200), clock);
    let totals = totals.expect("hosted");
    all_answered(&seen, &totals, 105);
    assert!(totals.boards.iter().all(|board| board.bytes == 6156 * totals.accepted()), "raw blocks");
}

#[test]
fn a_range_of_boards_on_the_network() {
    let clock = RunClock::start();
    let emulated = fragment::emulate::Settings { stream: true, ..Default::default() };
    let first = TcpListener::bind("127.0.0.51:0").expect("loopback").local_addr().expect("bound").port();
    let hosted: Vec<HostedLink> = (0..8u8)
        .map(|index| {
            let place = format!("127.0.0.{}:{first}", 51 + index).parse().expect("an address");
            let pair = fragment::emulate::boards(BoardId(u16::from(index) * 2), 2, &emulated);
            let boards = pair.expect("boards").into_iter().map(|board| Box::new(board) as Box<dyn Hosted>);
            HostedLink::new(Outlet::listen(place).expect("a free port"), boards.collect())
        })
        .collect();
    let url = format!("tcp://127.0.0.{{51..58}}:{first}");
    let boards = fragment::Settings { boards: 2, ..Default::default() };
    let mut opened = opened(&endpoint(&url), &boards, None, clock).expect("listening");
    assert_eq!((opened.plan.links, opened.plan.boards()), (8, 16));
    opened.hosted = hosted;
    let (seen, totals) = run(opened, program(500.0, 200), clock);
    all_answered(&seen, &totals.expect("hosted"), 16);
}

#[test]
fn boards_that_do_not_answer_are_counted_and_named() {
    let gone = TcpListener::bind("127.0.0.61:0").expect("loopback").local_addr().expect("bound").port();
    let boards = sitcp::Settings::default();
    let url = format!("tcp://127.0.0.{{61..63}}:{gone}");
    let refused = opened(&endpoint(&url), &boards, None, RunClock::start());
    let message = refused.err().expect("nobody listens").to_string();
    assert!(message.contains("3 of 3 boards; the first: tcp://127.0.0.61:"), "{message}");
    assert!(message.contains("nothing listens on this port"), "{message}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let clock = RunClock::start();
    let message = |endpoint: &Settings, boards: &dyn FragmentFormat| {
        opened(endpoint, boards, None, clock).err().expect("does not fit").to_string()
    };
    let fragments = fragment::Settings::default();
    let sitcp = sitcp::Settings::default();
    assert!(message(&endpoint("udp://127.0.0.1:0"), &sitcp).contains("write tcp://HOST:24"));
    assert!(message(&endpoint("dig2://127.0.0.1"), &fragments).contains("self-triggered"));
    let mut settings = endpoint("emulate://");
    settings.parameters = vec![("mode".to_owned(), "raw".to_owned())];
    assert!(message(&settings, &fragments).contains("do not have"));
    settings.parameters[0].0 = "mood".to_owned();
    assert!(message(&settings, &sitcp).contains("`mood` is no register"));
    let many = fragment::Settings { boards: 4000, ..Default::default() };
    let url = endpoint("udp://0.0.0.0:{5000..5063}");
    assert!(message(&url, &many).contains("there are 65536 sources"));
}

#[test]
fn the_recording_of_a_board_is_read_as_the_board_would_be() {
    let Some(file) = thalweg_prerequisite::recorded("20140604T140414_000002_000.dat") else { return };
    let file = file.display();
    let clock = RunClock::start();
    let profile = sitcp::Profile::AdcSitcp;
    let settings = sitcp::Settings { profile, named_by: sitcp::NamedBy::Connection, ..Default::default() };
    let opened = opened(&endpoint(&format!("file://{file}")), &settings, None, clock);
    let (seen, _) = run(opened.expect("a file"), program(1.0, 1), clock);
    assert_eq!(seen, Seen::from([(SourceId(10), (395, 0))]));
}
