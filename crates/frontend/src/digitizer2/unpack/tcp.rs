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
use crate::digitizer2::wire::{EventHeader, PacketHeader, WORD};
use crate::framing::{Chunk, FindUnits, StreamCounts, StreamUnpack};

const HEADER: usize = PacketHeader::BYTES;

/// Finds events in the stream of one board.
pub type TcpUnpack = StreamUnpack<EventFinder>;

/// Finds the ends of events.
#[derive(Debug)]
pub struct EventFinder {
    block_bytes: usize,
    state: State,
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
    /// Numbers of events in the packet headers of this blob, and of those passed on.
    promised: u64,
    given: u64,
    mode: Mode,
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
    first: [u8; WORD],
}

impl State {
    const START: State = State { payload_left: 0, aligned: false, promised: 0, given: 0, mode: Mode::Units };

    fn enter(&mut self, header: PacketHeader) {
        self.payload_left = header.payload_bytes;
        self.aligned = header.aligned;
        self.promised += u64::from(header.events);
    }
}

impl Walker {
    fn step(&mut self, bytes: &[u8], block_bytes: usize, parts: &mut Vec<(usize, usize)>) -> Option<Walk> {
        if self.state.payload_left == 0 {
            return self.next_packet(bytes);
        }
        let wanted = self.size.unwrap_or(WORD as u64) - self.have;
        let here = wanted.min(self.state.payload_left).min((bytes.len() - self.at) as u64) as usize;
        if here == 0 {
            return Some(Walk::Incomplete);
        }
        if self.size.is_none() {
            let have = self.have as usize;
            self.first[have..have + here].copy_from_slice(&bytes[self.at..self.at + here]);
        }
        match parts.last_mut() {
            Some((start, length)) if *start + *length == self.at => *length += here,
            _ => parts.push((self.at, here)),
        }
        self.at += here;
        self.have += here as u64;
        self.state.payload_left -= here as u64;
        let header = EventHeader(u64::from_be_bytes(self.first));
        if self.size.is_none() && self.have == WORD as u64 {
            let size = header.byte_count();
            if size == 0 {
                return Some(Walk::Broken(LossReason::ZeroWords, Mode::SkipBlob));
            }
            if size > block_bytes as u64 {
                return Some(Walk::Broken(LossReason::TooLarge, Mode::Skip(size - WORD as u64)));
            }
            self.size = Some(size);
        }
        (self.size == Some(self.have)).then_some(Walk::Complete(header))
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
    /// Creates an unpacker for a TCP stream that is received into blocks of `block_bytes`. A larger event does not fit
    /// and is counted as too large.
    pub fn new(source: SourceId, block_bytes: usize) -> TcpUnpack {
        StreamUnpack::of(source, EventFinder::new(block_bytes, State::START))
    }

    /// The same for a board that we arm: its first aggregate is number 0.
    pub fn of_armed_board(source: SourceId, block_bytes: usize) -> TcpUnpack {
        let cutter = EventFinder::new(block_bytes, State::START);
        StreamUnpack::of(source, EventFinder { counter: FrameCounter::from_zero(), ..cutter })
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
        self.counter.restart();
    }

    fn starts(&self) -> u32 {
        self.counter.starts()
    }
}

impl EventFinder {
    fn new(block_bytes: usize, state: State) -> EventFinder {
        EventFinder { block_bytes, state, counter: FrameCounter::default(), parts: Vec::new() }
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
        let missing = self.state.promised.saturating_sub(self.state.given);
        if missing > 0 {
            counts.begin_frames(missing);
            counts.counters.lost(LossReason::BadFraming, Unit::Frames, missing);
        }
        self.state = State::START;
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
        let mut walker =
            Walker { at: *at, state: self.state, headers: 0, have: 0, size: None, first: [0; WORD] };
        let walk = loop {
            if let Some(walk) = walker.step(chunk.bytes, self.block_bytes, &mut self.parts) {
                break walk;
            }
        };
        let (reason, mode) = match walk {
            Walk::Complete(header) => {
                self.state = walker.state;
                self.state.given += 1;
                counts.begin_frames(1);
                counts.counters.overhead(Unit::Bytes, walker.headers * HEADER as u64);
                self.give(header, chunk, units, counts);
                *at = walker.at;
                return false;
            }
            // Packet headers are in the block, too: a unit in many small packets may exceed it.
            Walk::Incomplete if chunk.bytes.len() - *at >= self.block_bytes => {
                let mode = walker.size.map_or(Mode::SkipBlob, |size| Mode::Skip(size - walker.have));
                (LossReason::TooLarge, mode)
            }
            Walk::Incomplete => return true,
            Walk::Broken(reason, mode) => (reason, mode),
        };
        counts.counters.lost(reason, Unit::Bytes, walker.have);
        counts.counters.overhead(Unit::Bytes, walker.headers * HEADER as u64);
        self.state = State { mode, ..walker.state };
        if mode == Mode::Search {
            self.state = State { mode, ..State::START };
        }
        *at = walker.at;
        false
    }

    fn give(
        &mut self,
        header: EventHeader,
        chunk: &Chunk<'_>,
        units: &mut Frames,
        counts: &mut StreamCounts,
    ) {
        let slice = chunk.slice;
        let tag = u32::from(header.format().number());
        let mut bytes = 0;
        for (index, (start, length)) in self.parts.iter().enumerate() {
            let continues = if index + 1 < self.parts.len() { Slice::CONTINUES } else { 0 };
            let offset = slice.offset + *start as u32;
            bytes += *length as u64;
            units.slices.push(Slice {
                offset,
                length: *length as u32,
                tag: tag | continues,
                block: slice.block,
            });
        }
        units.leases.add_for(slice, &chunk.received.leases);
        counts.counters.output(Unit::Frames, 1);
        counts.counters.output(Unit::Bytes, bytes);
        self.counter.see(header, &mut counts.wire);
    }
}
