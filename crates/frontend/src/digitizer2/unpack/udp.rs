//! Finds events in UDP datagrams.
//!
//! ```text
//!  |data words|footer|  |data words|footer|  …     buffer 7: datagram 0, 1, …
//!   └─ unit ─┴── unit (chain) ──┴── unit ─┘
//! ```
//! Behind a gap, the bytes up to the next known event boundary are left out. The first datagram of a buffer starts on a
//! boundary, and so does the datagram behind an aligned one. An aligned datagram in which the sizes lead from the first
//! word exactly to the last is assumed to start on a boundary, too: by chance this happens once in 2^32. Before the
//! gap, everything is kept up to the last whole event. The wire's counters show the frames that are left out as a gap
//! in the board's own counter.
//!
//! A datagram that arrives ahead of the sequence [waits](super::window): a network that reorders a few datagrams loses
//! nothing.

use std::sync::Arc;

use thalweg_data::{
    Counters, Frames, Framing, Lease, Leases, LossReason, Mark, SentRecord, Slice, SourceId, Unit,
};

use super::asked::Asked;
use super::frames::FrameCounter;
use super::large::{EventLimits, LargeEvent};
use super::sequence::{DatagramId, Evidence, Position, Seen, Sequence, Verdict};
use super::window::{Datagram, ReorderWindow};
use crate::digitizer2::wire::footer::{LANES, first_elements};
use crate::digitizer2::wire::{COUNTER_MASK, EventHeader, Footer, Format, WORD};
use crate::framing::explain_by_recording;

/// Finds events in the datagrams of one board.
#[derive(Debug)]
pub struct UdpUnpack {
    source: SourceId,
    limits: EventLimits,
    sequence: Sequence,
    window: ReorderWindow,
    counter: FrameCounter,
    pending: Pending,
    /// The next data start on an event boundary, or continue the pending unit.
    synchronised: bool,
    /// No whole event was found yet behind a gap of the recording that is read.
    behind_gap: bool,
    arrivals: Vec<Arrival>,
    /// The sender's record, if there is one.
    asked: Option<Asked>,
    /// Number of damaged datagrams, whose ids are unknown, that are not assigned to a gap yet.
    damaged: u64,
    counters: Counters,
    wire: Counters,
}

/// The start of an incomplete unit.
#[derive(Debug, Default)]
struct Pending {
    slices: Vec<Slice>,
    leases: Leases,
    bytes: u64,
    missing: u64,
    header: u64,
    large: Large,
}

/// Whether the pending unit belongs to an event that is passed on in parts.
#[derive(Debug, Default)]
enum Large {
    /// It is a whole event.
    #[default]
    No,
    /// It is the header of one.
    Header,
    /// It is the next part of this one.
    Part(Box<LargeEvent>),
}

/// One received datagram, with the id of its hash.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    slice: Slice,
    footer: Footer,
    /// Its id, or the reason why it has none.
    id: Result<DatagramId, LossReason>,
}

impl Datagram {
    fn seen(self) -> Seen {
        let Datagram { footer, id, .. } = self;
        Seen { id, last: footer.last(), empty: footer.word_count() == 0, hash: footer.hash() }
    }
}

impl UdpUnpack {
    /// Creates an unpacker for `source`. A scope event with more than `largest_unit_bytes` in its header is passed on in
    /// parts; any other is counted as too large. An incomplete event holds its blocks, and so do up to eight waiting datagrams, so the limit must be well
    /// below the memory of the source's pool. After a millisecond without data, call the unpacker without data.
    pub fn new(source: SourceId, largest_unit_bytes: u64) -> UdpUnpack {
        UdpUnpack {
            source,
            limits: EventLimits::of(largest_unit_bytes),
            sequence: Sequence::new(),
            window: ReorderWindow::default(),
            counter: FrameCounter::default(),
            pending: Pending::default(),
            synchronised: false,
            behind_gap: false,
            arrivals: Vec::new(),
            asked: None,
            damaged: 0,
            counters: Counters::default(),
            wire: Counters::default(),
        }
    }

    /// The same for a board that we arm: its first aggregate is number 0.
    pub fn of_armed_board(source: SourceId, largest_unit_bytes: u64) -> UdpUnpack {
        UdpUnpack { counter: FrameCounter::from_zero(), ..UdpUnpack::new(source, largest_unit_bytes) }
    }

    /// The same for a board that records what it sends.
    pub fn asking(self, record: Arc<SentRecord>) -> UdpUnpack {
        UdpUnpack { asked: Some(Asked::new(record)), ..self }
    }

    /// Finds the datagram ids by computing the hashes backwards, several in parallel.
    fn find_ids(&mut self, received: &Frames) {
        self.arrivals.clear();
        for group in received.slices.chunks(LANES) {
            let mut lanes: [(&[[u8; WORD]], u32); LANES] = [(&[], 0); LANES];
            let first = self.arrivals.len();
            for (lane, slice) in group.iter().enumerate() {
                let split = Footer::split(received.bytes(*slice));
                let (data, footer) = split.unwrap_or((&[], Footer(0)));
                lanes[lane] = (data, footer.hash());
                let id = Err(if split.is_some() { LossReason::BadHash } else { LossReason::BadFraming });
                self.arrivals.push(Arrival { slice: *slice, footer, id });
            }
            let ids = first_elements(&lanes[..group.len()]);
            for (arrival, id) in self.arrivals[first..].iter_mut().zip(ids) {
                if arrival.id == Err(LossReason::BadHash) && id <= COUNTER_MASK {
                    arrival.id = Ok(DatagramId { buffer: arrival.footer.buffer_id(), datagram: id });
                }
            }
        }
    }

    fn refuse(&mut self, reason: LossReason, slice: Slice) {
        match reason {
            LossReason::BadHash | LossReason::BadFraming => {
                self.damaged += 1;
                self.fill_gap(0);
            }
            // It was counted as missing before.
            LossReason::Late => self.fill_gap(1),
            _ => {}
        }
        self.counters.lost(reason, Unit::Datagrams, 1);
        self.counters.lost(reason, Unit::Bytes, u64::from(slice.length));
    }

    /// Subtracts `late` datagrams, and damaged ones, from the number of missing datagrams, which cannot become
    /// negative.
    #[cold]
    fn fill_gap(&mut self, late: u64) {
        let missing = self.wire.total_lost(LossReason::DatagramGap, Unit::Datagrams);
        let late = late.min(missing);
        let damaged = self.damaged.min(missing - late);
        self.damaged -= damaged;
        self.wire.output(Unit::Datagrams, late + damaged);
        self.wire.gap_filled(Unit::Datagrams, late + damaged);
    }

    fn datagram(&mut self, arrival: Arrival, received: &Frames, units: &mut Frames) {
        let Arrival { slice, footer, id } = arrival;
        let id = match id {
            Ok(id) => id,
            Err(reason) => return self.refuse(reason, slice),
        };
        let datagram = Datagram { slice, footer, id };
        let lease = received.leases.find(slice.block).expect("a slice has its lease in the batch");
        match self.sequence.position(datagram.seen()) {
            Position::Next if self.window.is_empty() => self.take(datagram, lease, Evidence::None, units),
            position => self.out_of_turn(position, datagram, lease, received.header.mark, units),
        }
    }

    /// Takes a datagram that is not the next one, or that arrives while others wait.
    #[cold]
    fn out_of_turn(
        &mut self,
        position: Position,
        datagram: Datagram,
        lease: &Lease,
        mark: Mark,
        units: &mut Frames,
    ) {
        self.window.count_arrival();
        match position {
            Position::Ahead => {
                self.sequence.wait();
                if !self.window.put(datagram, lease, mark, &self.sequence) {
                    self.refuse(LossReason::DuplicateDatagram, datagram.slice);
                }
            }
            Position::Astray => {
                if !self.window.put_astray(datagram, lease, mark, &self.sequence) {
                    self.refuse(LossReason::DuplicateDatagram, datagram.slice);
                }
            }
            Position::Next | Position::Behind => self.take(datagram, lease, Evidence::None, units),
            Position::Anew => {
                let earlier = self.asked.as_mut().filter(|_| datagram.seen().empty);
                if let Some(reason) = earlier.and_then(Asked::not_anew) {
                    return self.refuse(reason, datagram.slice);
                }
                self.release(|_| true, units);
                self.take(datagram, lease, Evidence::None, units);
            }
        }
        self.release(|window| window.is_due(mark), units);
    }

    /// Takes waiting datagrams: those that are next, and the first of the others while `give_up` holds.
    fn release(&mut self, give_up: impl Fn(&ReorderWindow) -> bool, units: &mut Frames) {
        loop {
            let (first, evidence) = match self.window.take_next(&self.sequence) {
                Some(next) => (next, Evidence::None),
                None if !give_up(&self.window) => return,
                None => match self.window.take_first() {
                    None => return,
                    Some(first) => {
                        let evidence = self.window.evidence(&first, &self.sequence);
                        (first, evidence)
                    }
                },
            };
            self.take(first.datagram, &first.lease, evidence, units);
        }
    }

    /// Takes a datagram that is next, or whose predecessors are given up; see [`Sequence::see`].
    fn take(&mut self, datagram: Datagram, lease: &Lease, evidence: Evidence, units: &mut Frames) {
        let Datagram { slice, footer, id } = datagram;
        let mut missing = (0, 0);
        match self.sequence.see(datagram.seen(), evidence) {
            Verdict::Next => {}
            Verdict::Refused(reason) => return self.refuse(reason, slice),
            Verdict::Gap { datagrams, buffers } => {
                missing = (datagrams, buffers);
                self.lose_pending(LossReason::Resynchronised);
                self.synchronised = false;
            }
            Verdict::Restart { is_used } => {
                self.lose_pending(LossReason::Unfinished);
                match footer.word_count() {
                    0 => self.counter.restart(),
                    // Without a marker, the run started before this unpacker.
                    _ => self.counter.forget(),
                }
                self.synchronised = false;
                if !is_used {
                    return self.refuse(LossReason::Resynchronised, slice);
                }
            }
        }
        if let Some(sent) = self.asked.as_mut().and_then(|asked| asked.missing_before(id)) {
            // Only the sender knows the lengths of missing buffers.
            missing = if missing.1 == 0 {
                (sent, 0)
            } else {
                (missing.0.min(sent), sent.saturating_sub(missing.0))
            };
        }
        if missing != (0, 0) {
            self.wire.input(Unit::Datagrams, missing.0 + missing.1);
            self.wire.lost(LossReason::DatagramGap, Unit::Datagrams, missing.0);
            self.wire.lost(LossReason::BufferGap, Unit::Datagrams, missing.1);
            if self.damaged > 0 {
                self.fill_gap(0);
            }
        }
        self.wire.input(Unit::Datagrams, 1);
        self.wire.output(Unit::Datagrams, 1);
        self.counters.output(Unit::Datagrams, 1);
        self.counters.overhead(Unit::Bytes, Footer::BYTES as u64);
        if !self.synchronised {
            self.synchronised = id.datagram == 0 || footer.aligned() && whole_events(lease.bytes(slice));
        }
        self.data(slice, lease, units);
        if footer.aligned() || footer.last() {
            self.lose_pending(LossReason::WordCount);
            self.synchronised = true;
        }
    }

    /// Follows the events in the data of one datagram.
    fn data(&mut self, slice: Slice, lease: &Lease, units: &mut Frames) {
        let mut left = Slice { length: slice.length - Footer::BYTES as u32, ..slice };
        while left.length > 0 {
            let bytes = u64::from(left.length);
            if !self.synchronised {
                return self.counters.lost(LossReason::Resynchronised, Unit::Bytes, bytes);
            }
            if self.pending.missing == 0 {
                let header = header(lease.bytes(left));
                let reason = match header.byte_count() {
                    0 => LossReason::ZeroWords,
                    _ if !self.limits.take_whole(header) => {
                        if self.limits.take_parts(header) {
                            self.pending.large = Large::Header;
                            self.pending.missing = LargeEvent::HEADER_BYTES;
                            continue;
                        }
                        LossReason::TooLarge
                    }
                    size if size <= bytes => {
                        let (unit, rest) = split(left, size);
                        left = rest;
                        let tag = u32::from(header.format().number());
                        units.slices.push(unit.tagged(tag));
                        units.leases.add(lease);
                        self.emitted(header, size);
                        continue;
                    }
                    size => {
                        (self.pending.missing, self.pending.header) = (size, header.0);
                        continue;
                    }
                };
                // The size of this event is wrong, so the bytes behind it cannot be interpreted.
                self.counters.lost(reason, Unit::Bytes, bytes);
                self.synchronised = false;
                return;
            }
            let (part, rest) = split(left, self.pending.missing.min(bytes));
            left = rest;
            self.extend_pending(part, lease, units);
        }
    }

    fn extend_pending(&mut self, part: Slice, lease: &Lease, units: &mut Frames) {
        let header = EventHeader(self.pending.header);
        let tag = u32::from(header.format().number());
        self.pending.bytes += u64::from(part.length);
        self.pending.missing -= u64::from(part.length);
        if self.pending.missing > 0 {
            self.pending.slices.push(part.tagged(tag | Slice::CONTINUES));
            self.pending.leases.add(lease);
            return;
        }
        if !matches!(self.pending.large, Large::No) {
            return self.large(part, lease, units);
        }
        units.slices.append(&mut self.pending.slices);
        units.slices.push(part.tagged(tag));
        units.leases.add_all(&self.pending.leases);
        units.leases.add(lease);
        self.pending.leases.clear();
        let bytes = std::mem::take(&mut self.pending.bytes);
        self.emitted(header, bytes);
    }

    /// Takes the end of a large event's header, or of its next part.
    #[cold]
    fn large(&mut self, end: Slice, lease: &Lease, units: &mut Frames) {
        self.pending.slices.push(end);
        self.pending.leases.add(lease);
        match std::mem::take(&mut self.pending.large) {
            Large::No => {}
            Large::Header => {
                let slices = std::mem::take(&mut self.pending.slices);
                let Some(event) = LargeEvent::new(slices, &self.pending.leases, self.limits) else {
                    self.lose_pending(LossReason::TooLarge);
                    self.synchronised = false;
                    return;
                };
                // The header's bytes are passed on with the first part.
                self.pending.missing = event.next_bytes();
                self.pending.large = Large::Part(Box::new(event));
            }
            Large::Part(mut event) => {
                event.pass_on(&self.pending.slices, units);
                self.pending.slices.clear();
                units.leases.add_all(&self.pending.leases);
                let bytes = std::mem::take(&mut self.pending.bytes);
                self.pending.missing = event.next_bytes();
                if self.pending.missing == 0 {
                    self.emitted(event.header(), bytes);
                } else {
                    self.counters.output(Unit::Bytes, bytes);
                    self.pending.large = Large::Part(event);
                }
            }
        }
        self.pending.leases.clear();
    }

    fn emitted(&mut self, header: EventHeader, bytes: u64) {
        self.counters.input(Unit::Frames, 1);
        self.counters.output(Unit::Frames, 1);
        self.counters.output(Unit::Bytes, bytes);
        self.counter.see(header, &mut self.wire);
        if let Some(asked) = &mut self.asked {
            asked.frame(header, &mut self.wire);
        }
    }

    fn count_held(&mut self) {
        self.counters.set_held(Unit::Datagrams, self.window.datagrams());
        self.counters.set_held(Unit::Bytes, self.pending.bytes + self.window.bytes());
        if let Some(asked) = &mut self.asked {
            asked.settle(&mut self.wire);
        }
    }

    fn lose_pending(&mut self, reason: LossReason) {
        if self.pending.bytes > 0 {
            self.counters.lost(reason, Unit::Bytes, self.pending.bytes);
        }
        if let Large::Part(event) = std::mem::take(&mut self.pending.large)
            && event.has_begun()
        {
            self.counters.input(Unit::Frames, 1);
            self.counters.lost(reason, Unit::Frames, 1);
        }
        self.pending.slices.clear();
        self.pending.leases.clear();
        (self.pending.bytes, self.pending.missing) = (0, 0);
    }
}

fn header(bytes: &[u8]) -> EventHeader {
    EventHeader(bytes.first_chunk().map_or(0, |word| u64::from_be_bytes(*word)))
}

/// Whether event sizes lead from the first data word of a datagram exactly to its last.
fn whole_events(datagram: &[u8]) -> bool {
    let mut rest = &datagram[..datagram.len() - Footer::BYTES];
    while !rest.is_empty() {
        let header = header(rest);
        let size = usize::try_from(header.byte_count()).unwrap_or(usize::MAX);
        let known = !matches!(header.format(), Format::Unknown(_)) && size > 0;
        match rest.get(size..) {
            Some(tail) if known => rest = tail,
            _ => return false,
        }
    }
    true
}

/// Splits a slice of at least `bytes` at that offset.
fn split(slice: Slice, bytes: u64) -> (Slice, Slice) {
    let bytes = bytes as u32;
    let rest = Slice { offset: slice.offset + bytes, length: slice.length - bytes, ..slice };
    (Slice { length: bytes, ..slice }, rest)
}

impl UdpUnpack {
    /// Takes a batch behind a gap of a recording, until the first whole event: the recording has lost what is missing
    /// there.
    #[cold]
    fn unpack_behind_gap(&mut self, received: &Frames, units: &mut Frames) {
        if received.interrupted {
            self.release(|_| true, units);
        }
        let (counters, wire) = (self.counters.clone(), self.wire.clone());
        self.unpack_all(received, units);
        explain_by_recording(&mut self.counters, &counters);
        explain_by_recording(&mut self.wire, &wire);
        self.behind_gap = self.counters.total_output(Unit::Frames) == counters.total_output(Unit::Frames);
    }

    #[inline(always)]
    fn unpack_all(&mut self, received: &Frames, units: &mut Frames) {
        self.find_ids(received);
        self.release(|window| window.is_due(received.header.mark), units);
        let arrivals = std::mem::take(&mut self.arrivals);
        arrivals.iter().for_each(|arrival| self.datagram(*arrival, received, units));
        self.arrivals = arrivals;
    }
}

impl Framing for UdpUnpack {
    type Output = Frames;

    fn frame(&mut self, received: &Frames, units: &mut Frames) -> usize {
        units.header = received.header;
        units.header.source = self.source;
        self.counters.input(Unit::Datagrams, received.slices.len() as u64);
        self.counters.input(Unit::Bytes, received.byte_count());
        match received.interrupted || self.behind_gap {
            true => self.unpack_behind_gap(received, units),
            false => self.unpack_all(received, units),
        }
        self.count_held();
        0
    }

    fn finish(&mut self, _carried: &Frames, units: &mut Frames) {
        self.release(|_| true, units);
        self.lose_pending(LossReason::Unfinished);
        self.count_held();
    }

    fn starts(&self) -> u32 {
        self.counter.starts()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn wire_counters(&self) -> &[Counters] {
        std::slice::from_ref(&self.wire)
    }
}
