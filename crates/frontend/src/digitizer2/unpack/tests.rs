//! How long a datagram waits for its turn.

use thalweg_data::{Frames, LossReason, Mark, Pool, SourceId, Unit, Unpack};

use super::UdpUnpack;
use crate::digitizer2::emit;

/// An unpacker that gets one datagram at a time: an event of one word that says its number.
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
        let (mut frames, mut datagram, mut data) = (Frames::default(), Vec::new(), Vec::new());
        let start = emit::begin_aggregate(&mut data, number, false, false);
        emit::end_aggregate(&mut data, start);
        emit::datagram(&mut datagram, &data, 0, number, true, false);
        let mut writer = self.pool.take().expect("a datagram waits in a block of its own");
        frames.slices.push(writer.append(&datagram).expect("there is room"));
        frames.leases.add(writer.lease());
        self.batch(frames, mark_us)
    }

    fn batch(&mut self, mut frames: Frames, mark_us: u64) -> u64 {
        frames.header.mark = Mark(mark_us * 1000);
        self.units.clear();
        self.unpack.unpack(&frames, &mut self.units);
        let tally = self.unpack.tally();
        let used = [tally.total_output(Unit::Datagrams), tally.held(Unit::Datagrams)];
        let all = used.iter().sum::<u64>() + tally.total_lost_any(Unit::Datagrams);
        assert_eq!(all, tally.total_input(Unit::Datagrams), "the books close behind every batch");
        self.units.slices.len() as u64
    }

    fn missing(&self) -> u64 {
        self.unpack.wire_tally().total_lost(LossReason::DatagramGap, Unit::Datagrams)
    }
}

#[test]
fn a_gap_is_no_loss_until_eight_more_have_arrived() {
    let mut given = Given::new();
    assert_eq!(given.arrives(0, 0), 1);
    for number in 2..10 {
        assert_eq!(given.arrives(number, 0), 0);
    }
    assert_eq!((given.missing(), given.unpack.tally().held(Unit::Datagrams)), (0, 8));
    assert_eq!(given.arrives(10, 0), 9);
    assert_eq!((given.missing(), given.pool.free_count()), (1, 16 - 9));
    given.units.clear();
    assert_eq!(given.pool.free_count(), 16, "no block is held for nothing");
}

#[test]
fn a_gap_is_no_loss_until_a_millisecond_has_passed_without_data_too() {
    let mut given = Given::new();
    given.arrives(0, 0);
    assert_eq!(given.arrives(2, 100), 0);
    assert_eq!(given.arrives(4, 200), 0);
    assert_eq!(given.batch(Frames::default(), 1099), 0);
    assert_eq!((given.batch(Frames::default(), 1100), given.missing()), (1, 1));
    assert_eq!((given.arrives(3, 1150), given.missing()), (2, 1));
}

#[test]
fn what_waits_at_the_end_is_used() {
    let mut given = Given::new();
    given.arrives(0, 0);
    given.arrives(5, 0);
    given.arrives(3, 0);
    given.units.clear();
    given.unpack.finish(&Frames::default(), &mut given.units);
    assert_eq!((given.units.slices.len(), given.missing()), (2, 3));
    assert_eq!(given.unpack.tally().held(Unit::Datagrams), 0);
}
