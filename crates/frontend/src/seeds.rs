//! Small inputs for the `check` functions, made by the encoders: where fuzzing starts from.
//!
//! ```text
//!  emit ─► seeds ─► a fuzzer's mutations ─► check
//! ```
//! The first byte of an input chooses settings; see each `check`.

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;

use crate::digitizer2::control::Request;
use crate::digitizer2::emit::{self, HitFields, ScopeFields, StartFields, StatisticsFields, StopFields};
use crate::trigger::{Answer, Trigger};
use crate::{abcd, compass, fragment, generic, sitcp};

/// Files in all sixteen combinations of fields, with and without their header.
pub fn compass() -> Vec<Vec<u8>> {
    let event = |index: u64, samples: usize| compass::emit::Event {
        board: (index % 4) as u16,
        channel: (index % 16) as u16,
        time_ps: index * 123_456_789,
        energy: 100 + index as u16,
        calibrated: index as f64 * 0.5,
        energy_short: 50 + index as u16,
        flags: 0x4000 | 1 << (index % 22),
        probe: 1,
        samples: (0..samples).map(|sample| (1000 + sample) as u16).collect(),
    };
    (0..16u8)
        .map(|bits| {
            let fields = compass::wire::Fields::from_bits(u32::from(bits));
            // Every other file has no header, and its fields in the choice.
            let mut input = vec![bits | (bits % 2) << 4 | (bits & 2) << 4];
            if bits % 2 == 0 {
                compass::emit::header(fields, &mut input);
            }
            (0..12).for_each(|index| compass::emit::record(fields, &event(index, 10), &mut input));
            input
        })
        .collect()
}

/// Files for every choice of settings.
pub fn abcd() -> Vec<Vec<u8>> {
    let event = |index: u64| abcd::emit::Event {
        time: index * index * 1_000_003,
        q_short: 100 * index as u16,
        q_long: 300 * index as u16,
        baseline: 0x7DAF,
        channel: (index % 10) as u8,
        group_counter: 0,
    };
    (0..16u8)
        .map(|choice| {
            let mut input = vec![choice];
            (0..20).for_each(|index| abcd::emit::record(&event(index), &mut input));
            input
        })
        .collect()
}

/// Streams and datagrams for choices of scope, byte order, marks and hits.
pub fn generic() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let encoder = generic::emit::Encoder::new(&generic::checked_description(choice))
            .expect("the checked description is possible");
        let mut input = vec![choice];
        for index in (0..20u64).filter(|index| index % 7 != 5) {
            let values =
                [("part", index % 2), ("count", index / 2), ("trigger", index / 8), ("time", index * 900)];
            let mut packet = Vec::new();
            encoder
                .packet(&values, &[0xA5; 30][..index as usize], &mut packet)
                .expect("the fields are described");
            if choice & 1 == 0 {
                input.push(packet.len() as u8);
            }
            input.extend(packet);
        }
        input
    };
    [0x00, 0x01, 0x14, 0x15, 0x98, 0x99, 0xFC, 0xFD, 0xD3, 0xB1].map(input).to_vec()
}

/// The keys of a generic source alone, out of an example's `[[source]]`: as the front end reads them.
pub fn description(example: &str) -> String {
    let of_the_run = ["[[source]]", "name ", "format ", "url "];
    let lines = example.lines().filter(|line| !of_the_run.iter().any(|key| line.starts_with(key)));
    lines.map(|line| line.replace("[source.", "[") + "\n").collect()
}

/// The shipped descriptions.
pub fn descriptions() -> Vec<Vec<u8>> {
    [
        include_str!("../descriptions/slsdetector.toml"),
        include_str!("../descriptions/mcpd.toml"),
        include_str!("../descriptions/recbe.toml"),
    ]
    .map(|example| description(example).into_bytes())
    .to_vec()
}

/// Events of a board: a start, aggregates of every kind of hit, a scope event, a stop.
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
    vec![
        event(&|out| emit::start(out, &StartFields { channel_mask: 0b101, ..StartFields::default() })),
        aggregate(0),
        aggregate(1),
        event(&|out| emit::scope_event(out, &scope, &[&[1, 2, 3, 4], &[5, 6, 7, 8]])),
        aggregate(2),
        event(&|out| emit::stop(out, &StopFields { timestamp: 9000, dead_time: 3 })),
    ]
}

/// Firmware of the board and sizes, as `digitizer2::check` reads them from the first byte.
const CHOICES: [u8; 5] = [0, 1, 2, 4, 0x28];

/// Datagrams with true footers, in the framing of `digitizer2::check::udp_stream`.
pub fn digitizer2_udp() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let mut input = vec![choice];
        for event in board_events() {
            let middle = event.len() / 16 * 8;
            for (how, part) in [(0b001, &event[..middle]), (0b111, &event[middle..])] {
                input.push(how);
                input.extend((part.len() as u16).to_be_bytes());
                input.extend(part);
            }
        }
        input
    };
    CHOICES.map(input).to_vec()
}

/// Streams of packets, in the framing of `digitizer2::check::tcp_stream`.
pub fn digitizer2_tcp() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let mut input = vec![choice, choice * 3];
        emit::clear_marker(&mut input);
        board_events().iter().for_each(|event| emit::packet(&mut input, event, 1, true));
        input
    };
    CHOICES.map(input).to_vec()
}

/// Events alone, in the framing of `digitizer2::check::aggregate`.
pub fn digitizer2_aggregate() -> Vec<Vec<u8>> {
    let input = |choice: u8| [vec![choice], board_events().concat()].concat();
    let content = |choice: u8| [vec![choice | 0x80], board_events()[1][8..].to_vec()].concat();
    CHOICES.iter().flat_map(|choice| [input(*choice), content(*choice)]).collect()
}

/// What hosts ask a board, in the framing of its control connection.
pub fn digitizer2_control() -> Vec<Vec<u8>> {
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

/// Streams of emulated SiTCP boards: every profile, named by header and connection, whole and with a damage.
pub fn sitcp() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let profile = sitcp::check::profile_of(choice);
        let mode =
            [sitcp::emulate::Mode::Raw, sitcp::emulate::Mode::Suppressed][usize::from(choice >> 4 & 1)];
        let faults = sitcp::emulate::Faults { empty_every: 4, twelve_every: 3, ..Default::default() };
        let (window, hits) = (3, Some(3.0));
        let settings = sitcp::emulate::Settings { profile, mode, window, hits, faults, ..Default::default() };
        let mut board = sitcp::emulate::Board::new(7, &settings).expect("the settings are possible");
        let (mut input, mut ends) = (vec![choice], Vec::new());
        for number in 0..8 {
            board.answer(Trigger { number, time_ns: number * 1000 }, &mut input, &mut ends);
        }
        if choice & 8 != 0 {
            let middle = input.len() / 2;
            input[middle] ^= 0x5A;
        }
        input
    };
    (0..32).map(input).collect()
}

/// Requests to a SiTCP board's registers: reads, writes, beyond the map.
pub fn sitcp_registers() -> Vec<Vec<u8>> {
    use sitcp::rbcp::wire::{Command, Request};
    let request =
        |command, length, address, data| Request { command, id: 0, length, address, data }.datagram();
    vec![
        request(Command::Read, 1, 5, &[]),
        request(Command::Write, 2, 0x1C, &[0x0E, 0xA6]),
        request(Command::Read, 6, 0xFFFF_FF12, &[]),
        request(Command::Read, 255, 0xFFFF_FFFE, &[]),
        request(Command::Read, 1, 0x1000, &[]),
        vec![0xFF, 0xC8, 0, 1, 0, 0, 0, 5, 2],
    ]
}

/// Datagrams and streams of fragments, with and without checksums, in one piece and several, for choices of
/// `fragment::check`.
pub fn fragment() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let streamed = choice & 1 == 1;
        let settings = fragment::emulate::Settings {
            payload_bytes: 90,
            shortest_payload_bytes: Some(0),
            datagram_bytes: 70,
            stream: streamed,
            checksum: choice & 8 != 0,
            run: 7,
            ..fragment::emulate::Settings::default()
        };
        let first = if choice & 4 == 0 { 0 } else { 700 };
        let boards = first..first + if choice & 2 == 0 { 1 } else { 5 };
        let mut boards = fragment::emulate::boards(boards, &settings).expect("the settings are possible");
        let (mut input, mut start) = (vec![choice], 0);
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let trigger = Trigger { number, time_ns: 1000 * number };
            boards.iter_mut().for_each(|board| board.answer(trigger, &mut bytes, &mut ends));
        }
        for end in ends {
            input.extend(((end - start) as u16).to_be_bytes());
            input.extend(&bytes[start..end]);
            start = end;
        }
        input.extend(&bytes[start..]);
        input
    };
    [0x00, 0x01, 0x02, 0x0B, 0x0E, 0x4F, 0x50, 0x81, 0x2A, 0x9D].map(input).to_vec()
}

/// One to eight damages: bytes set, bits flipped, ranges cut, doubled, or taken from another seed.
pub fn damage(random: &mut Pcg64, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..random.random_range(1..=8) {
        if input.is_empty() {
            input.push(random.random());
        }
        let at = random.random_range(0..input.len());
        let end = (at + random.random_range(0..40)).min(input.len());
        match random.random_range(0..7) {
            0 => input[at] = random.random(),
            1 => input[at] ^= 1 << random.random_range(0..8),
            2 => input[at] = [0x00, 0xFF, 0x7F, 0x80][random.random_range(0..4)],
            3 => drop(input.drain(at..end)),
            4 => drop(input.splice(at..at, input[at..end].to_vec())),
            5 if !other.is_empty() => {
                let from = random.random_range(0..other.len());
                let piece = &other[from..(from + end - at).min(other.len())];
                drop(input.splice(at..at, piece.iter().copied()));
            }
            _ => input[at..end].iter_mut().for_each(|byte| *byte = random.next_u32() as u8),
        }
    }
}
