//! The framing of boards that number their datagrams.
//!
//! ```text
//!  datagram ─ NumberedHits ─► its number ─► gaps ─► unit: the datagram ─ UnitHits ─► hits
//!       └ wrong_constant, bad_length, …      └ datagram_gap, duplicate_datagram, late
//! ```
//! A format defines which datagrams are its own, their numbers and their hits; the rest of the interface is here. If
//! the sender has a record, it gives the number of hits in lost datagrams: its n-th datagram, from 0 on, is the n-th of
//! its record, and a frame.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use thalweg_data::{Counters, Frames, Framing, LossReason, Mark, SentRecord, SourceId, Unit};

use crate::asked::enter_hits;
use crate::format::{FramingInput, HitFormat, HitFraming, several};
use crate::gaps::{Arrival, Counting, Missing, Track};
use crate::unit_decode::{HitMapping, UnitDecode, UnitHits};

/// Window in numbers: how far a network may reorder datagrams.
const WINDOW: i64 = 64;
/// Largest gap without confirmation by a second datagram.
const LARGEST_GAP: i64 = 1 << 20;

/// The settings of a source whose boards send their hits in numbered datagrams: all that such a format defines.
pub(crate) trait NumberedHits: UnitHits + fmt::Debug + Sync + 'static {
    /// Bits of the number, at least 22.
    const BITS: u32;

    /// The number of a datagram.
    ///
    /// # Errors
    /// The reason why it is not of the board.
    fn number(&self, datagram: &[u8]) -> Result<u64, LossReason>;

    /// The mapping of the board's counts and channels to those of the experiment.
    ///
    /// # Errors
    /// The key that cannot be used, and what is allowed.
    fn mapping(&self) -> Result<HitMapping, String>;
}

impl<S: NumberedHits> HitFormat for S {
    fn framing(&self, input: FramingInput<'_>, decoders: usize) -> Result<HitFraming, String> {
        if input.is_stream {
            let message = "boards of this format send datagrams, and the URL gives a stream; write udp://";
            return Err(message.to_owned());
        }
        let decode = UnitDecode::new(input.source, self.clone(), self.mapping()?);
        let unpack = NumberedUnpack::new(input.source, self.clone(), input.asked);
        Ok((Box::new(unpack), several(&decode, decoders)))
    }

    fn wants_stream(&self) -> bool {
        false
    }

    fn wire_units(&self, _is_stream: bool, is_asked: bool) -> &'static [Unit] {
        match is_asked {
            true => &[Unit::Datagrams, Unit::Frames, Unit::Hits],
            false => &[Unit::Datagrams, Unit::Frames],
        }
    }

    fn channels(&self) -> (u16, u16) {
        self.mapping().map_or((0, 0), |mapping| mapping.channels())
    }
}

/// The framing of one board's datagrams, each of which is a unit.
#[derive(Debug)]
pub(crate) struct NumberedUnpack<N> {
    source: SourceId,
    format: N,
    counting: Counting,
    track: Track,
    seen: Vec<u64>,
    counters: Counters,
    wire: Wire,
}

/// Counters of the sequence numbers, and of the sender's record if it has one.
#[derive(Debug)]
struct Wire {
    counters: Counters,
    asked: Option<Arc<SentRecord>>,
}

impl<N: NumberedHits> NumberedUnpack<N> {
    /// Creates a framing; with a record, whose numbers start at 0, losses before the first datagram count, too.
    pub fn new(source: SourceId, format: N, asked: Option<&Arc<SentRecord>>) -> NumberedUnpack<N> {
        let counting = Counting::packets(N::BITS, WINDOW, LARGEST_GAP);
        NumberedUnpack {
            source,
            format,
            seen: vec![0; counting.words()],
            counting,
            track: asked.map_or_else(Track::default, |_| Track::from_zero()),
            counters: Counters::default(),
            wire: Wire { counters: Counters::default(), asked: asked.cloned() },
        }
    }

    fn take(&mut self, datagram: &[u8], mark: Mark) -> Result<(), LossReason> {
        let number = self.format.number(datagram)?;
        let NumberedUnpack { counting, track, seen, wire, .. } = self;
        match counting.arrive(track, seen, (number, 0), mark, wire) {
            Arrival::New => {
                // After a restart, its number would not match the record; a sender with a record starts only once.
                wire.came(number);
                Ok(())
            }
            Arrival::Duplicate => Err(LossReason::DuplicateDatagram),
            Arrival::Late => Err(LossReason::Late),
            Arrival::Unconfirmed => Err(LossReason::Resynchronised),
            Arrival::Impossible => Err(LossReason::BadFraming),
        }
    }
}

impl Wire {
    fn came(&mut self, number: u64) {
        for unit in [Unit::Datagrams, Unit::Frames] {
            self.counters.input(unit, 1);
            self.counters.output(unit, 1);
        }
        if let Some(record) = &self.asked {
            enter_hits(record, number..number + 1, None, &mut self.counters);
        }
    }
}

impl Missing for Wire {
    fn add(&mut self, groups: Range<i64>, packets: u64) {
        for (unit, reason) in
            [(Unit::Datagrams, LossReason::DatagramGap), (Unit::Frames, LossReason::FrameGap)]
        {
            self.counters.input(unit, packets);
            self.counters.lost(reason, unit, packets);
        }
        if let Some(record) = &self.asked {
            let numbers = groups.start as u64..groups.end as u64;
            enter_hits(record, numbers, Some(LossReason::FrameGap), &mut self.counters);
        }
    }
}

impl<N: NumberedHits> Framing for NumberedUnpack<N> {
    type Output = Frames;

    fn frame(&mut self, received: &Frames, units: &mut Frames) -> usize {
        units.header = received.header;
        units.header.source = self.source;
        self.counters.input(Unit::Datagrams, received.slices.len() as u64);
        self.counters.input(Unit::Bytes, received.byte_count());
        for slice in &received.slices {
            match self.take(received.bytes(*slice), received.header.mark) {
                Ok(()) => {
                    units.slices.push(slice.tagged(0));
                    units.leases.add_for(*slice, &received.leases);
                    self.counters.input(Unit::Frames, 1);
                    self.counters.output(Unit::Datagrams, 1);
                    self.counters.output(Unit::Frames, 1);
                    self.counters.output(Unit::Bytes, u64::from(slice.length));
                }
                Err(reason) => {
                    self.counters.lost(reason, Unit::Datagrams, 1);
                    self.counters.lost(reason, Unit::Bytes, u64::from(slice.length));
                }
            }
        }
        0
    }

    fn finish(&mut self, _carried: &Frames, _units: &mut Frames) {
        let NumberedUnpack { counting, track, seen, wire, .. } = self;
        let came = (track.latest() + 1).max(0) as u64;
        counting.flush(track, seen, wire);
        if let Some(record) = &wire.asked {
            record.receive_up_to(came, came);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn wire_counters(&self) -> &[Counters] {
        std::slice::from_ref(&self.wire.counters)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check;
    use crate::unit_decode::BoardHit;

    /// A datagram with its number and the number of its hits, which have no bytes.
    #[derive(Clone, Debug)]
    struct Plain;

    impl NumberedHits for Plain {
        const BITS: u32 = 24;

        fn number(&self, datagram: &[u8]) -> Result<u64, LossReason> {
            let number = datagram.first_chunk().ok_or(LossReason::BadLength)?;
            Ok(u64::from(u32::from_be_bytes(*number)) & 0xFF_FFFF)
        }

        fn mapping(&self) -> Result<HitMapping, String> {
            HitMapping::new(1000.0, 0, (1, 0))
        }
    }

    impl UnitHits for Plain {
        const HIT_BYTES: usize = 1;

        fn hits<'u>(&self, unit: &'u [u8]) -> impl Iterator<Item = BoardHit> + 'u {
            unit[4..].iter().map(|_| BoardHit::default())
        }
    }

    proptest! {
        /// With a record, what was received, what is missing, and what was sent behind the last datagram add up to what
        /// was sent.
        #[test]
        fn received_and_lost_hits_are_those_sent(
            sent in proptest::collection::vec((0..5usize, any::<bool>(), any::<bool>()), 1..300),
        ) {
            let record = Arc::new(SentRecord::new(0.0));
            let (mut total, mut arriving) = (0, Vec::new());
            for (number, (hits, arrives, twice)) in sent.iter().enumerate() {
                total += *hits as u64;
                record.send_datagram(number as u64);
                record.end_frame(total);
                let datagram = [&(number as u32).to_be_bytes()[..], &[0; 5][..*hits]].concat();
                let copies = usize::from(*arrives) + usize::from(*arrives && *twice);
                arriving.extend(std::iter::repeat_n(datagram, copies));
            }
            let unpack = NumberedUnpack::new(SourceId(0), Plain, Some(&record));
            let decode = UnitDecode::new(SourceId(0), Plain, Plain.mapping().expect("one channel"));
            let outcome = check::hits_of_datagrams(unpack, decode, arriving.iter().map(Vec::as_slice));
            outcome.assert_closed();
            let counts = record.slot().expect("the record is complete");
            prop_assert_eq!(counts.hits + counts.hits_behind, total);
            prop_assert_eq!(counts.datagrams + counts.datagrams_behind, sent.len() as u64);
            let missing = outcome.lost(LossReason::FrameGap, Unit::Hits);
            prop_assert_eq!(outcome.hits.len() as u64 + missing, counts.hits);
            let twice = sent.iter().filter(|(_, arrives, twice)| *arrives && *twice).count() as u64;
            prop_assert_eq!(outcome.lost(LossReason::DuplicateDatagram, Unit::Datagrams), twice);
        }
    }
}
