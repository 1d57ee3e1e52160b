//! Small datagrams, streams, events and requests from which fuzzing starts.
//!
//! ```text
//!  emit ─► seeds ─► a fuzzer's mutations ─► check
//! ```
//! The first byte of an input chooses settings; see [`check`](super::check).

use super::control::Request;
use super::emit::{self, HitFields, ScopeFields, StartFields, StatisticsFields, StopFields};
use crate::check::joined;

/// Events of a board: a start, aggregates of every kind of hit, scope events, one of which is long, a stop.
fn board_events() -> Vec<Vec<u8>> {
    let event = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut event = Vec::new();
        write(&mut event);
        event
    };
    let hit = |index: u64| HitFields {
        channel: (index % 64) as u8,
        timestamp: index * 1000,
        energy: 500,
        energy_short: 90,
        fine: 7,
        ..HitFields::default()
    };
    let aggregate = |counter: u32| {
        event(&|out| {
            let start = emit::begin_aggregate(out, counter, false, false);
            (0..6).for_each(|index| emit::hit(out, &hit(index)));
            (6..9).for_each(|index| emit::one_word_hit(out, &hit(index)));
            emit::packed_hit(out, &hit(9), 1, false, &[1, 2], Some(&[1, 2, 3, 4, 5]));
            emit::statistics(out, &StatisticsFields { real_time: 9000, saved: 10, ..Default::default() });
            emit::end_aggregate(out, start);
        })
    };
    let scope = ScopeFields { trigger_id: 1, timestamp: 5000, channel_mask: 0b101, ..ScopeFields::default() };
    let long = ScopeFields { trigger_id: 2, timestamp: 6000, ..scope };
    vec![
        event(&|out| emit::start(out, &StartFields { channel_mask: 0b101, ..StartFields::default() })),
        aggregate(0),
        aggregate(1),
        event(&|out| emit::scope_event(out, &scope, &[&[1, 2, 3, 4], &[5, 6, 7, 8]])),
        aggregate(2),
        event(&|out| emit::scope_event(out, &long, &[&[1; 200], &[5; 200]])),
        event(&|out| emit::stop(out, &StopFields { timestamp: 9000, dead_time: 3 })),
    ]
}

/// Firmware and sizes, as `digitizer2::check` reads them from the first byte.
const CHOICES: [u8; 6] = [0, 1, 2, 4, 0x28, 0x23];

/// Joined datagrams with correct footers, for `digitizer2::check::udp_stream`.
pub fn datagrams() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let halves = |event: Vec<u8>| {
            let (first, last) = event.split_at(event.len() / 16 * 8);
            [[&[0b001], first].concat(), [&[0b111], last].concat()]
        };
        let datagrams: Vec<Vec<u8>> = board_events().into_iter().flat_map(halves).collect();
        [vec![choice], joined(datagrams.iter().map(Vec::as_slice))].concat()
    };
    CHOICES.map(input).to_vec()
}

/// Streams of packets, in the framing of `digitizer2::check::tcp_stream`.
pub fn packets() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let mut input = vec![choice, choice * 3];
        emit::clear_marker(&mut input);
        board_events().iter().for_each(|event| emit::packet(&mut input, event, 1, true));
        input
    };
    CHOICES.map(input).to_vec()
}

/// Events alone, in the framing of `digitizer2::check::aggregate`.
pub fn events() -> Vec<Vec<u8>> {
    let input = |choice: u8| [vec![choice], board_events().concat()].concat();
    let content = |choice: u8| [vec![choice | 0x80], board_events()[1][8..].to_vec()].concat();
    CHOICES.iter().flat_map(|choice| [input(*choice), content(*choice)]).collect()
}

/// Requests of hosts, in the framing of the control connection.
pub fn requests() -> Vec<Vec<u8>> {
    let requests = [
        Request::connect(),
        Request::get(0, "/par/ModelName"),
        Request::set(0, "/ch/0/par/ChEnable", "True"),
        Request::command(0, "/cmd/ArmAcquisition"),
    ];
    let mut all = Vec::new();
    requests.iter().for_each(|request| request.encode(&mut all));
    let each = requests.iter().map(|request| {
        let mut input = Vec::new();
        request.encode(&mut input);
        input
    });
    each.chain([all.clone()]).collect()
}
