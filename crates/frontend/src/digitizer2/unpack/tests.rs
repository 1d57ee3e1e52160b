//! Tests of the time for which a datagram waits in the reorder window, and of the first datagrams of a board.

use std::sync::Arc;

use thalweg_data::{Frames, Framing, LossReason, Mark, Pool, SentRecord, SourceId, Unit};

use super::{TcpUnpack, UdpUnpack};
use crate::digitizer2::emit;
use crate::digitizer2::emulate::datagram_key;

/// An unpacker that gets one datagram at a time: an event of one word, which contains its number.
struct Given {
    unpack: UdpUnpack,
    pool: Pool,
    units: Frames,
}

impl Given {
    fn new() -> Given {
        let pool = Pool::new(16, 4096).expect("small");
        Given { unpack: UdpUnpack::new(SourceId(0), 4096), pool, units: Frames::default() }
    }

    fn arrives(&mut self, number: u32, mark_us: u64) -> u64 {
        self.arrives_at((0, number), number, mark_us)
    }

    /// Passes one datagram with this buffer and datagram id, and the aggregate with this number.
    fn arrives_at(&mut self, (buffer, datagram_id): (u16, u32), number: u32, mark_us: u64) -> u64 {
        let (mut datagram, mut data) = (Vec::new(), Vec::new());
        let start = emit::begin_aggregate(&mut data, number, false, false);
        emit::end_aggregate(&mut data, start);
        emit::datagram(&mut datagram, &data, buffer, datagram_id, true, false);
        self.datagram(&datagram, mark_us)
    }

    fn datagram(&mut self, datagram: &[u8], mark_us: u64) -> u64 {
        let mut frames = Frames::default();
        let mut writer = self.pool.take().expect("each datagram has its own block");
        frames.slices.push(writer.append(datagram).expect("fits the block"));
        frames.leases.add(writer.lease());
        self.batch(frames, mark_us)
    }

    fn batch(&mut self, mut frames: Frames, mark_us: u64) -> u64 {
        frames.header.mark = Mark(mark_us * 1000);
        self.units.clear();
        self.unpack.frame(&frames, &mut self.units);
        let counters = self.unpack.counters();
        let used = [counters.total_output(Unit::Datagrams), counters.held(Unit::Datagrams)];
        let all = used.iter().sum::<u64>() + counters.total_lost_any(Unit::Datagrams);
        assert_eq!(all, counters.total_input(Unit::Datagrams), "the ledger balances after every batch");
        self.units.slices.len() as u64
    }

    fn missing(&self) -> u64 {
        self.unpack.wire_counters()[0].total_lost(LossReason::DatagramGap, Unit::Datagrams)
    }
}

#[test]
fn a_datagram_that_is_late_or_damaged_is_one_loss() {
    let mut given = Given::new();
    let gaps = |given: &Given| {
        let wire = &given.unpack.wire_counters()[0];
        let equation = wire.total_output(Unit::Datagrams) + wire.total_lost_any(Unit::Datagrams);
        assert_eq!(wire.total_input(Unit::Datagrams), equation);
        (wire.total_gap_opened(Unit::Datagrams), wire.total_gap_filled(Unit::Datagrams))
    };
    given.arrives(0, 0);
    (2..11).for_each(|number| _ = given.arrives(number, 0));
    assert_eq!((gaps(&given), given.missing()), ((1, 0), 1));
    given.arrives(1, 0);
    assert_eq!((gaps(&given), given.missing()), ((1, 1), 0));
    assert_eq!(given.unpack.counters().total_lost(LossReason::Late, Unit::Datagrams), 1);
    // The position of a damaged datagram is unknown: it is taken for the next missing one.
    let (mut frames, mut writer) = (Frames::default(), given.pool.take().expect("a block"));
    frames.slices.push(writer.append(&[0xA5; 40]).expect("fits the block"));
    frames.leases.add(writer.lease());
    given.batch(frames, 0);
    (12..21).for_each(|number| _ = given.arrives(number, 0));
    assert_eq!((gaps(&given), given.missing()), ((2, 2), 0));
    assert_eq!(given.unpack.counters().total_lost_any(Unit::Datagrams), 2);
}

#[test]
fn a_gap_becomes_a_loss_after_eight_arrivals() {
    let mut given = Given::new();
    assert_eq!(given.arrives(0, 0), 1);
    for number in 2..10 {
        assert_eq!(given.arrives(number, 0), 0);
    }
    assert_eq!((given.missing(), given.unpack.counters().held(Unit::Datagrams)), (0, 8));
    assert_eq!(given.arrives(10, 0), 9);
    assert_eq!((given.missing(), given.pool.free_count()), (1, 16 - 9));
    given.units.clear();
    assert_eq!(given.pool.free_count(), 16, "no block is held needlessly");
}

#[test]
fn a_gap_becomes_a_loss_after_a_millisecond_without_data() {
    let mut given = Given::new();
    given.arrives(0, 0);
    assert_eq!(given.arrives(2, 100), 0);
    assert_eq!(given.arrives(4, 200), 0);
    assert_eq!(given.batch(Frames::default(), 1099), 0);
    assert_eq!((given.batch(Frames::default(), 1100), given.missing()), (1, 1));
    assert_eq!((given.arrives(3, 1150), given.missing()), (2, 1));
}

#[test]
fn waiting_datagrams_are_used_at_the_end() {
    let mut given = Given::new();
    given.arrives(0, 0);
    given.arrives(5, 0);
    given.arrives(3, 0);
    given.units.clear();
    given.unpack.finish(&Frames::default(), &mut given.units);
    assert_eq!((given.units.slices.len(), given.missing()), (2, 3));
    assert_eq!(given.unpack.counters().held(Unit::Datagrams), 0);
}

/// A receiver that is blocked misses thousands of buffers, and the next datagrams are not damaged.
#[test]
fn a_jump_beyond_1024_buffers_is_a_gap_not_damage() {
    let mut given = Given::new();
    given.arrives_at((7, 0), 0, 0);
    assert_eq!(given.arrives_at((5007, 3), 90_000, 100), 0, "nothing confirms it yet");
    assert_eq!(given.arrives_at((5007, 4), 90_001, 5000), 2, "both are used, however late they arrive");
    let wire = &given.unpack.wire_counters()[0];
    assert_eq!(wire.total_lost(LossReason::BufferGap, Unit::Datagrams), 5000);
    assert_eq!(wire.total_lost(LossReason::DatagramGap, Unit::Datagrams), 3);
    assert_eq!(wire.total_lost(LossReason::FrameGap, Unit::Frames), 89_999);
    assert_eq!(given.unpack.counters().total_lost_any(Unit::Datagrams), 0);
}

#[test]
fn a_jump_beyond_65536_datagrams_of_one_buffer_is_a_gap() {
    let mut given = Given::new();
    given.arrives(0, 0);
    given.arrives(100_000, 0);
    assert_eq!(given.arrives(100_001, 0), 2);
    assert_eq!((given.missing(), given.unpack.counters().total_lost_any(Unit::Datagrams)), (99_999, 0));
}

#[test]
fn a_single_datagram_with_a_damaged_buffer_id_is_refused_without_a_gap() {
    let mut given = Given::new();
    given.arrives(0, 0);
    assert_eq!(given.arrives_at((0x4000, 1), 1, 0), 0);
    let used: u64 = (2..12).map(|number| given.arrives_at((0, number - 1), number, 10)).sum();
    assert_eq!((used, given.missing()), (10, 0));
    assert_eq!(given.unpack.counters().total_lost(LossReason::BadHash, Unit::Datagrams), 1);
}

#[test]
fn what_a_restart_has_lost_as_duplicates_was_data() {
    let mut given = Given::new();
    (0..100).for_each(|number| assert_eq!(given.arrives(number, 0), 1));
    // The first datagrams of the second start are lost.
    let used: u64 = (3..100).map(|number| given.arrives(number, 10)).sum();
    let lost = |reason| given.unpack.counters().total_lost(reason, Unit::Datagrams);
    let counts = [LossReason::DuplicateDatagram, LossReason::Resynchronised].map(lost);
    assert_eq!((counts, used), ([15, 1], 97 - 16), "not all are copies");
    // A few that come again are.
    (90..100).for_each(|number| assert_eq!(given.arrives(number, 20), 0));
    assert_eq!(given.arrives(100, 30), 1);
    assert_eq!(given.unpack.counters().total_lost(LossReason::Resynchronised, Unit::Datagrams), 1);
}

#[test]
fn a_lost_first_aggregate_of_a_board_that_we_armed_is_a_gap() {
    let mut given = Given::new();
    given.unpack = UdpUnpack::of_armed_board(SourceId(0), 4096);
    // Data left by an earlier client, then the marker of our arming.
    given.arrives_at((3, 0), 40, 0);
    let (mut frames, mut marker) = (Frames::default(), Vec::new());
    emit::empty_datagram(&mut marker, 0, 0);
    let mut writer = given.pool.take().expect("free");
    frames.slices.push(writer.append(&marker).expect("fits the block"));
    frames.leases.add(writer.lease());
    given.batch(frames, 10);
    let missing =
        |given: &Given| given.unpack.wire_counters()[0].total_lost(LossReason::FrameGap, Unit::Frames);
    assert_eq!(missing(&given), 0, "data left from before are not a gap");
    given.arrives_at((0, 1), 2, 20);
    assert_eq!(missing(&given), 2, "aggregates 0 and 1");
}

#[test]
fn a_lost_first_aggregate_in_a_stream_of_a_board_that_we_armed_is_a_gap() {
    for (first_missing, mut unpack) in
        [(5, TcpUnpack::of_armed_board(SourceId(0), 4096)), (0, TcpUnpack::new(SourceId(0), 4096))]
    {
        let (mut stream, mut events) = (Vec::new(), Vec::new());
        emit::clear_marker(&mut stream);
        emit::start(&mut events, &emit::StartFields::default());
        let start = emit::begin_aggregate(&mut events, 5, false, false);
        emit::end_aggregate(&mut events, start);
        emit::packet(&mut stream, &events, 2, true);
        let pool = Pool::new(2, 4096).expect("small");
        let (mut frames, mut writer) = (Frames::default(), pool.take().expect("free"));
        frames.slices.push(writer.append(&stream).expect("fits the block"));
        frames.leases.add(writer.lease());
        unpack.frame(&frames, &mut Frames::default());
        assert_eq!(unpack.wire_counters()[0].total_lost(LossReason::FrameGap, Unit::Frames), first_missing);
    }
}

/// What a board sends first: it is cleared when it is armed, and again when it is started.
const STARTED: [(u16, u32, bool); 4] = [(0, 0, false), (0, 0, false), (0, 1, true), (1, 0, true)];

/// Receives datagrams of a board that records what it sends, all of them empty; returns those that are missing, late and doubled.
fn of_recorded_start(arriving: &[(u16, u32, bool)]) -> [u64; 3] {
    let record = Arc::new(SentRecord::new(0.0));
    STARTED.iter().for_each(|(buffer, datagram, _)| record.send_datagram(datagram_key(*buffer, *datagram)));
    let mut given = Given::new();
    given.unpack = UdpUnpack::of_armed_board(SourceId(0), 4096).asking(record.clone());
    for (place, (buffer, datagram_id, last)) in arriving.iter().enumerate() {
        let mut datagram = Vec::new();
        emit::datagram(&mut datagram, &[], *buffer, *datagram_id, true, *last);
        given.datagram(&datagram, 10_000 * place as u64);
    }
    given.unpack.finish(&Frames::default(), &mut given.units);
    let (wire, counters) = (&given.unpack.wire_counters()[0], given.unpack.counters());
    assert_eq!(wire.total_input(Unit::Datagrams), record.slot().expect("it is known").datagrams);
    let of = |reason| counters.total_lost(reason, Unit::Datagrams);
    [wire.total_lost_any(Unit::Datagrams), of(LossReason::Late), of(LossReason::DuplicateDatagram)]
}

#[test]
fn a_first_datagram_that_comes_twice_or_late_is_not_taken_for_a_start() {
    let [cleared, started, ends_buffer, next] = STARTED;
    assert_eq!(of_recorded_start(&STARTED), [0, 0, 0]);
    assert_eq!(of_recorded_start(&[cleared, started, started, ends_buffer, next]), [0, 0, 1]);
    assert_eq!(of_recorded_start(&[cleared, ends_buffer, started, next]), [0, 1, 0]);
    assert_eq!(of_recorded_start(&[cleared, ends_buffer, started, started, next]), [0, 1, 1]);
    assert_eq!(of_recorded_start(&[cleared, ends_buffer, next]), [1, 0, 0]);
    assert_eq!(of_recorded_start(&[cleared, started, ends_buffer, next, started]), [0, 0, 1]);
}
