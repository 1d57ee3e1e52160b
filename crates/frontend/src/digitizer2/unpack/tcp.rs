//! Finds events in the TCP stream, or in a blob of a file.
//!
//! ```text
//!  |packet header|payload ……|packet header|…… payload|…      blob: up to a packet with `aligned`
//!                 └ unit ┴── unit (chain) ────┴ unit ┘
//! ```
//! A packet may start anywhere in the blob. A unit inside one payload is one slice; otherwise it is a chain without the
//! packet headers. The start of an incomplete unit is carried: the next batch starts with it, and it is followed again
//! from its first byte, with the state that was saved at its start.

use thalweg_data::{Frames, LossReason, Slice, SourceId, Unit};

use super::frames::FrameCounter;
use super::large::{EventLimits, LargeEvent, LargeHeader, records_bytes};
use crate::digitizer2::Firmware;
use crate::digitizer2::wire::{EventHeader, PacketHeader, WORD};
use crate::framing::{Chunk, FindUnits, StreamCounts, StreamUnpack};

const HEADER: usize = PacketHeader::BYTES;

/// Finds events in the stream of one board.
pub type TcpUnpack = StreamUnpack<EventFinder>;

/// Finds the ends of events.
#[derive(Debug)]
pub struct EventFinder {
    block_bytes: usize,
    limits: EventLimits,
    state: State,
    /// The event that the state is inside of, if it is passed on in parts.
    large: Option<LargeEvent>,
    counter: FrameCounter,
    /// Parts of the current unit: start and length within the slice.
    parts: Vec<(usize, usize)>,
}

/// The state at a byte of the stream.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Payload bytes to the next packet header.
    payload_left: u64,
    /// The current packet ends its blob.
    aligned: bool,
    /// Numbers of events in the packet headers of this blob, and of those passed on or counted as too large.
    promised: u64,
    found: u64,
    mode: Mode,
    /// Behind the header of an event that is passed on in parts.
    is_inside: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// At an event boundary.
    Units,
    /// Inside a unit that is too large; this many of its payload bytes are left.
    Skip(u64),
    /// The rest of the blob cannot be trusted.
    SkipBlob,
    /// The position of packet headers is lost; the next plausible header is searched for.
    Search,
}

/// The result of following one unit.
enum Walk {
    Complete(EventHeader),
    /// The next part of an event that is passed on in parts; of the first one, behind the event's header.
    Part,
    /// More bytes are needed.
    Incomplete,
    /// The unit cannot be completed.
    Broken(LossReason, Mode),
}

/// The current unit.
struct Walker {
    at: usize,
    state: State,
    headers: u64,
    /// Payload bytes of the unit so far, and in total.
    have: u64,
    size: Option<u64>,
    /// The event's header, and how many of its bytes are needed to know the size: the first word, or all.
    header: LargeHeader,
    header_bytes: u64,
    /// The unit belongs to an event that is passed on in parts.
    is_part: bool,
}

impl State {
    const START: State =
        State { payload_left: 0, aligned: false, promised: 0, found: 0, mode: Mode::Units, is_inside: false };

    fn enter(&mut self, header: PacketHeader) {
        self.payload_left = header.payload_bytes;
        self.aligned = header.aligned;
        self.promised += u64::from(header.events);
    }
}

impl Walker {
    /// At the start of a unit; its size is known if it is a part of an event whose header was read.
    fn new(at: usize, state: State, size: Option<u64>) -> Walker {
        Walker {
            at,
            state,
            headers: 0,
            have: 0,
            size,
            header: LargeHeader::default(),
            header_bytes: WORD as u64,
            is_part: size.is_some(),
        }
    }

    /// Whether the unit is an event that is to be passed on whole.
    fn is_whole(&self) -> bool {
        self.size.is_some() && !self.is_part
    }

    #[inline]
    fn walk(&mut self, bytes: &[u8], limits: EventLimits, parts: &mut Vec<(usize, usize)>) -> Walk {
        loop {
            if let Some(walk) = self.step(bytes, limits, parts) {
                return walk;
            }
        }
    }

    fn step(&mut self, bytes: &[u8], limits: EventLimits, parts: &mut Vec<(usize, usize)>) -> Option<Walk> {
        if self.state.payload_left == 0 {
            return self.next_packet(bytes);
        }
        let wanted = self.size.unwrap_or(self.header_bytes) - self.have;
        let here = wanted.min(self.state.payload_left).min((bytes.len() - self.at) as u64) as usize;
        if here == 0 {
            return Some(Walk::Incomplete);
        }
        if self.size.is_none() {
            let have = self.have as usize;
            self.header[have..have + here].copy_from_slice(&bytes[self.at..self.at + here]);
        }
        match parts.last_mut() {
            Some((start, length)) if *start + *length == self.at => *length += here,
            _ => parts.push((self.at, here)),
        }
        self.at += here;
        self.have += here as u64;
        self.state.payload_left -= here as u64;
        if self.size.is_none() && self.have == self.header_bytes {
            match self.measure(limits) {
                Ok(size) => self.size = size,
                Err(broken) => return Some(broken),
            }
        }
        (self.size == Some(self.have)).then(|| match self.is_part {
            true => Walk::Part,
            false => Walk::Complete(self.event()),
        })
    }

    fn event(&self) -> EventHeader {
        EventHeader(self.header.first_chunk().map_or(0, |word| u64::from_be_bytes(*word)))
    }

    /// The size of the unit, by as much of its header as was read; `None` if the rest of it is needed.
    fn measure(&mut self, limits: EventLimits) -> Result<Option<u64>, Walk> {
        let event = self.event();
        let too_large = |have| Walk::Broken(LossReason::TooLarge, Mode::Skip(event.byte_count() - have));
        match event.byte_count() {
            0 => Err(Walk::Broken(LossReason::ZeroWords, Mode::SkipBlob)),
            size if limits.take_whole(event) => Ok(Some(size)),
            _ if !limits.take_parts(event) => Err(too_large(self.have)),
            _ if self.have < LargeEvent::header_bytes(event) => {
                self.header_bytes = LargeEvent::header_bytes(event);
                Ok(None)
            }
            _ => {
                self.is_part = true;
                let part = limits.first_part_bytes(&self.header).ok_or_else(|| too_large(self.have))?;
                Ok(Some(LargeEvent::header_bytes(event) + part))
            }
        }
    }

    fn next_packet(&mut self, bytes: &[u8]) -> Option<Walk> {
        if self.state.aligned {
            return Some(Walk::Broken(LossReason::WordCount, Mode::Units));
        }
        let Some(header) = bytes[self.at..].first_chunk::<HEADER>() else { return Some(Walk::Incomplete) };
        match PacketHeader::read(header) {
            None => Some(Walk::Broken(LossReason::BadFraming, Mode::Search)),
            // The main loop reads the marker.
            Some(header) if header.is_clear_marker() => {
                Some(Walk::Broken(LossReason::Unfinished, Mode::Units))
            }
            Some(header) => {
                self.state.enter(header);
                self.at += HEADER;
                self.headers += 1;
                None
            }
        }
    }
}

impl TcpUnpack {
    /// Creates an unpacker for a TCP stream that is received into blocks of `block_bytes`. A larger scope event is passed
    /// on in parts; any other does not fit and is counted as too large, but see [`TcpUnpack::dividing_aggregates`].
    pub fn new(source: SourceId, block_bytes: usize) -> TcpUnpack {
        StreamUnpack::of(source, EventFinder::new(block_bytes, State::START))
    }

    /// The same for a board that we arm: its first aggregate is number 0.
    pub fn of_armed_board(source: SourceId, block_bytes: usize) -> TcpUnpack {
        let cutter = EventFinder::new(block_bytes, State::START);
        StreamUnpack::of(source, EventFinder { counter: FrameCounter::from_zero(), ..cutter })
    }

    /// The same for a board of this firmware, of which aggregates that do not fit a block are passed on in parts, too: how long they are is
    /// the board's choice. A part ends where a hit does.
    #[must_use]
    pub fn dividing_aggregates(mut self, firmware: Firmware) -> TcpUnpack {
        let finder = self.finder_mut();
        finder.limits = finder.limits.dividing_aggregates(firmware);
        self
    }

    /// Creates an unpacker for a blob of a file, which has no packet headers: events from the first byte to the last.
    pub fn of_blob(source: SourceId, block_bytes: usize) -> TcpUnpack {
        let state = State { payload_left: u64::MAX, ..State::START };
        StreamUnpack::of(source, EventFinder::new(block_bytes, state))
    }
}

impl FindUnits for EventFinder {
    fn find_units(&mut self, chunk: &Chunk<'_>, units: &mut Frames, counts: &mut StreamCounts) -> usize {
        if chunk.interrupted.is_some() {
            self.state = State { mode: Mode::Search, ..State::START };
            self.large = None;
        }
        let bytes = chunk.bytes;
        let mut at = 0;
        loop {
            let before = at;
            let done = match (self.state.mode, self.state.payload_left) {
                (Mode::Search, _) => self.search(bytes, &mut at, counts),
                (_, 0) => self.packet_header(bytes, &mut at, counts),
                (Mode::Units, _) => self.unit(chunk, &mut at, units, counts),
                (Mode::Skip(_) | Mode::SkipBlob, _) => self.skip(bytes, &mut at, counts),
            };
            if done {
                return bytes.len() - at;
            }
            debug_assert!(at > before || self.state.mode != Mode::Units || self.state.payload_left == 0);
        }
    }

    fn begin_anew(&mut self) {
        self.state = State::START;
        self.large = None;
        self.counter.restart();
    }

    fn starts(&self) -> u32 {
        self.counter.starts()
    }
}

impl EventFinder {
    fn new(block_bytes: usize, state: State) -> EventFinder {
        EventFinder {
            block_bytes,
            limits: EventLimits::of(block_bytes as u64),
            state,
            large: None,
            counter: FrameCounter::default(),
            parts: Vec::new(),
        }
    }

    /// Reads a header at a packet boundary.
    fn packet_header(&mut self, bytes: &[u8], at: &mut usize, counts: &mut StreamCounts) -> bool {
        if self.state.aligned {
            self.end_blob(counts);
        }
        let Some(header) = bytes[*at..].first_chunk::<HEADER>() else { return true };
        let Some(header) = PacketHeader::read(header) else {
            self.state = State { mode: Mode::Search, ..State::START };
            return false;
        };
        *at += HEADER;
        counts.counters.overhead(Unit::Bytes, HEADER as u64);
        if header.is_clear_marker() {
            self.state = State::START;
            self.counter.restart();
        } else {
            self.state.enter(header);
        }
        false
    }

    /// Ends a blob, which must contain the number of events in its packet headers.
    fn end_blob(&mut self, counts: &mut StreamCounts) {
        let missing = self.state.promised.saturating_sub(self.state.found);
        if missing > 0 {
            self.refuse(LossReason::BadFraming, missing, counts);
        }
        self.state = State::START;
    }

    /// Counts events that came and cannot be passed on.
    fn refuse(&mut self, reason: LossReason, events: u64, counts: &mut StreamCounts) {
        counts.begin_frames(events);
        counts.counters.lost(reason, Unit::Frames, events);
        self.counter.refuse(reason, events);
    }

    fn search(&mut self, bytes: &[u8], at: &mut usize, counts: &mut StreamCounts) -> bool {
        let found = bytes[*at..].windows(HEADER).position(|window| {
            window.first_chunk().is_some_and(|header| PacketHeader::search(header).is_some())
        });
        let left_out = found.unwrap_or((bytes.len() - *at).saturating_sub(HEADER - 1));
        counts.lose(LossReason::BadFraming, left_out);
        *at += left_out;
        if found.is_some() {
            // A packet need not start on an event boundary, so the rest of this blob is skipped.
            self.state.mode = Mode::SkipBlob;
        }
        found.is_none()
    }

    fn skip(&mut self, bytes: &[u8], at: &mut usize, counts: &mut StreamCounts) -> bool {
        let here = self.state.payload_left.min((bytes.len() - *at) as u64);
        let (skipped, reason) = match &mut self.state.mode {
            Mode::Skip(left) => {
                let skipped = here.min(*left);
                *left -= skipped;
                if *left == 0 {
                    self.state.mode = Mode::Units;
                }
                (skipped, LossReason::TooLarge)
            }
            _ => (here, LossReason::Resynchronised),
        };
        counts.counters.lost(reason, Unit::Bytes, skipped);
        self.state.payload_left -= skipped;
        *at += skipped as usize;
        here == 0
    }

    fn unit(
        &mut self,
        chunk: &Chunk<'_>,
        at: &mut usize,
        units: &mut Frames,
        counts: &mut StreamCounts,
    ) -> bool {
        self.parts.clear();
        let size = self.inside().map(LargeEvent::next_bytes);
        let mut walker = Walker::new(*at, self.state, size);
        let mut walk = walker.walk(chunk.bytes, self.limits, &mut self.parts);
        let is_full = chunk.bytes.len() - *at >= self.block_bytes;
        if matches!(walk, Walk::Incomplete)
            && is_full
            && walker.is_whole()
            && self.limits.take_parts(walker.event())
        {
            // Packet headers are in the block, too, so an event that alone would fit may exceed it.
            self.parts.clear();
            walker = Walker::new(*at, self.state, None);
            walk = walker.walk(chunk.bytes, self.limits.without_whole(), &mut self.parts);
        }
        let event = walker.event();
        if is_full || matches!(walk, Walk::Part) {
            walk = self.end_at_a_record(chunk, *at, &mut walker, walk);
        }
        if let Walk::Complete(_) | Walk::Part = walk {
            self.state = walker.state;
            counts.counters.overhead(Unit::Bytes, walker.headers * HEADER as u64);
            *at = walker.at;
        }
        let (reason, mode) = match walk {
            Walk::Complete(header) => {
                self.state.found += 1;
                counts.begin_frames(1);
                self.give(header, chunk, units, counts);
                return false;
            }
            Walk::Part => {
                self.give_part((event, walker.have), chunk, units, counts);
                return false;
            }
            Walk::Incomplete if is_full => {
                let mode = walker.size.map_or(Mode::SkipBlob, |size| Mode::Skip(size - walker.have));
                (LossReason::TooLarge, mode)
            }
            Walk::Incomplete => return true,
            Walk::Broken(reason, mode) => (reason, mode),
        };
        counts.counters.lost(reason, Unit::Bytes, walker.have);
        counts.counters.overhead(Unit::Bytes, walker.headers * HEADER as u64);
        self.state = State { mode, is_inside: false, ..walker.state };
        // It keeps the block of its header.
        self.large = None;
        if let Mode::Skip(_) = mode {
            // Its header is known: this one event is lost, and its end.
            self.state.found += 1;
            self.refuse(reason, 1, counts);
        }
        if mode == Mode::Search {
            self.state = State { mode, ..State::START };
        }
        *at = walker.at;
        false
    }

    /// The event that the state is inside of.
    fn inside(&self) -> Option<&LargeEvent> {
        self.large.as_ref().filter(|_| self.state.is_inside)
    }

    /// Lets a part of an aggregate end where a record does, if it was followed to its end or fills a block; any other unit is as it was.
    fn end_at_a_record(&mut self, chunk: &Chunk<'_>, at: usize, walker: &mut Walker, walk: Walk) -> Walk {
        let was_read = walker.is_part && matches!(walk, Walk::Part | Walk::Incomplete);
        match was_read.then(|| self.end_of_records(chunk, walker)).flatten() {
            None => walk,
            Some(Ok(bytes)) => {
                self.parts.clear();
                *walker = Walker::new(at, self.state, Some(bytes));
                walker.walk(chunk.bytes, self.limits, &mut self.parts)
            }
            Some(Err(rest)) => Walk::Broken(LossReason::TooLarge, Mode::Skip(rest)),
        }
    }

    /// Where the last whole record of a part of an aggregate ends, bytes from the part's start; or, if none is whole, how much of the
    /// aggregate comes behind what was read. `None` of a part of another event.
    #[cold]
    fn end_of_records(&self, chunk: &Chunk<'_>, walker: &Walker) -> Option<Result<u64, u64>> {
        let (header_bytes, (firmware, left)) = match self.inside() {
            Some(event) => (0, event.records_left()?),
            None => {
                let firmware = self.limits.divides_aggregate(walker.event())?;
                (WORD as u64, (firmware, walker.event().byte_count() - WORD as u64))
            }
        };
        let mut slices: Vec<Slice> = self.slices(chunk.slice).collect();
        split_off(header_bytes, &mut slices);
        let records = records_bytes(firmware, &slices, &chunk.received.leases, left);
        Some(records.map(|bytes| header_bytes + bytes).ok_or(header_bytes + left - walker.have))
    }

    fn give(
        &mut self,
        header: EventHeader,
        chunk: &Chunk<'_>,
        units: &mut Frames,
        counts: &mut StreamCounts,
    ) {
        let tag = u32::from(header.format().number());
        let (mut bytes, last) = (0, self.parts.len() - 1);
        for (index, slice) in self.slices(chunk.slice).enumerate() {
            let continues = if index < last { Slice::CONTINUES } else { 0 };
            bytes += u64::from(slice.length);
            units.slices.push(slice.tagged(tag | continues));
        }
        units.leases.add_for(chunk.slice, &chunk.received.leases);
        counts.counters.output(Unit::Frames, 1);
        counts.counters.output(Unit::Bytes, bytes);
        self.counter.see(header, &mut counts.wire);
    }

    /// Where the current unit lies in the chunk of this slice.
    fn slices(&self, chunk: Slice) -> impl Iterator<Item = Slice> {
        self.parts.iter().map(move |(start, length)| Slice {
            offset: chunk.offset + *start as u32,
            length: *length as u32,
            ..chunk
        })
    }

    /// Passes on a part of a large event; the event is a frame when all have been.
    #[cold]
    fn give_part(
        &mut self,
        (header, bytes): (EventHeader, u64),
        chunk: &Chunk<'_>,
        units: &mut Frames,
        counts: &mut StreamCounts,
    ) {
        let mut slices: Vec<Slice> = self.slices(chunk.slice).collect();
        let inside = self.large.take().filter(|_| self.state.is_inside);
        let event = inside.or_else(|| {
            let header = split_off(LargeEvent::header_bytes(header), &mut slices);
            LargeEvent::new(header, &chunk.received.leases, self.limits)
        });
        let mut event = event.expect("the walker has divided it");
        event.pass_on(&slices, units);
        units.leases.add_for(chunk.slice, &chunk.received.leases);
        counts.counters.output(Unit::Bytes, bytes);
        self.state.is_inside = event.next_bytes() > 0;
        if self.state.is_inside {
            self.large = Some(event);
            return;
        }
        self.state.found += 1;
        counts.begin_frames(1);
        counts.counters.output(Unit::Frames, 1);
        self.counter.see(event.header(), &mut counts.wire);
    }
}

/// Removes the slices of an event's header from the start of a chain.
fn split_off(header_bytes: u64, slices: &mut Vec<Slice>) -> Vec<Slice> {
    let (mut header, mut wanted) = (Vec::new(), header_bytes as usize);
    while wanted > 0 && !slices.is_empty() {
        let first = slices[0];
        let taken = wanted.min(first.length as usize);
        header.extend(first.part(0, taken));
        wanted -= taken;
        match first.part(taken, first.length as usize - taken).filter(|rest| rest.length > 0) {
            Some(rest) => slices[0] = rest,
            None => drop(slices.remove(0)),
        }
    }
    header
}
