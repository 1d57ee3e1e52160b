//! Fragments that come in several datagrams, until they are whole.
//!
//! ```text
//!  piece 2 of 3 ─┐
//!  piece 0 of 3 ─┼─► slot { trigger, which pieces } ── all there ──► first datagram whole, of the others the payload
//!  piece 1 of 3 ─┘        │ too old, or a newer fragment needs the slot
//!                         └──► unfinished
//! ```
//! Each board has a few slots, so that one board's losses cost no other board anything. A slot remembers what it finished
//! for as long as it would have waited, so that a doubled datagram is known as one. Blocks are held while a fragment is
//! open: at most those of `boards × open_fragments` fragments, each for the waiting time.

use thalweg_data::{Counters, Fragment, Fragments, Frames, Leases, LossReason, Mark, Slice, Unit};

use super::admission::BoardCounters;
use super::wire::{HEADER_BYTES, Header};

/// All slots of all boards.
#[derive(Debug)]
pub(super) struct Assembly {
    slots: Vec<Slot>,
    slots_per_board: usize,
    wait_ns: u64,
    /// The slots in use, in the order in which they were opened.
    open: Vec<u32>,
    opened: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    #[default]
    Free,
    Done,
    Open,
}

/// One fragment, in part.
#[derive(Debug, Default)]
struct Slot {
    state: State,
    header: Header,
    first: Mark,
    /// Which slot was opened before which.
    opened: u64,
    /// One bit per piece.
    seen: u128,
    /// Bytes of its datagrams, headers and all.
    bytes: u64,
    /// One per piece, in their order; for those not seen yet another stands in.
    slices: Vec<Slice>,
    leases: Leases,
}

impl Slot {
    fn is_of(&self, header: &Header) -> bool {
        let own = &self.header;
        (own.trigger, own.run, own.ticks) == (header.trigger, header.run, header.ticks)
    }

    fn pieces_seen(&self) -> u64 {
        self.seen.count_ones().into()
    }

    fn payload_bytes(&self) -> u64 {
        self.bytes - self.pieces_seen() * HEADER_BYTES as u64
    }
}

impl Assembly {
    pub fn new(boards: u16, slots_per_board: u8, wait_ms: u32) -> Assembly {
        let slots = usize::from(boards) * usize::from(slots_per_board);
        Assembly {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            slots_per_board: usize::from(slots_per_board),
            wait_ns: u64::from(wait_ms) * 1_000_000,
            open: Vec::with_capacity(slots),
            opened: 0,
        }
    }

    /// Takes one datagram of a fragment that has several; returns the slot when that is whole now.
    pub fn add(
        &mut self,
        index: u16,
        header: &Header,
        slice: Slice,
        received: &Frames,
        (link, boards): (&mut Counters, &mut BoardCounters),
    ) -> Result<Option<usize>, LossReason> {
        let payload = u64::from(slice.length) - HEADER_BYTES as u64;
        let mark = received.header.mark;
        if payload == 0 || payload > u64::from(header.length) {
            return Err(LossReason::BadLength);
        }
        let number = match self.find(index, header, mark) {
            Some(number) => number,
            None => self.begin((index, header), slice, mark, (link, boards)),
        };
        let slot = &mut self.slots[number];
        if (slot.header.pieces, slot.header.length) != (header.pieces, header.length) {
            return Err(LossReason::BadFraming);
        }
        let bit = 1u128 << header.piece;
        if slot.state == State::Done || slot.seen & bit != 0 {
            return Err(LossReason::DuplicateDatagram);
        }
        if slot.payload_bytes() + payload > u64::from(header.length) {
            return Err(LossReason::BadLength);
        }
        slot.seen |= bit;
        slot.bytes += u64::from(slice.length);
        slot.slices[usize::from(header.piece)] = slice;
        slot.leases.add_for(slice, &received.leases);
        Ok((slot.pieces_seen() == u64::from(header.pieces)).then_some(number))
    }

    fn board_slots(&self, index: u16) -> std::ops::Range<usize> {
        let first = usize::from(index) * self.slots_per_board;
        first..first + self.slots_per_board
    }

    fn find(&self, index: u16, header: &Header, mark: Mark) -> Option<usize> {
        self.board_slots(index).find(|number| {
            let slot = &self.slots[*number];
            match slot.state {
                State::Free => false,
                State::Done => slot.is_of(header) && mark.since_ns(slot.first) < self.wait_ns,
                State::Open => slot.is_of(header),
            }
        })
    }

    /// Opens a slot for a new fragment: one that is free, else the one that was opened first, finished ones before others.
    fn begin(
        &mut self,
        (index, header): (u16, &Header),
        slice: Slice,
        mark: Mark,
        (link, boards): (&mut Counters, &mut BoardCounters),
    ) -> usize {
        let age = |number: &usize| (self.slots[*number].state, self.slots[*number].opened);
        let number = self.board_slots(index).min_by_key(age).expect("a board has a slot, at least");
        if self.slots[number].state == State::Open {
            self.give_up(number, LossReason::Unfinished, link, boards);
        }
        self.opened += 1;
        self.open.push(number as u32);
        let slot = &mut self.slots[number];
        (slot.state, slot.header, slot.first, slot.opened) = (State::Open, *header, mark, self.opened);
        (slot.seen, slot.bytes) = (0, 0);
        slot.slices.clear();
        slot.slices.resize(usize::from(header.pieces), slice);
        number
    }

    fn close(&mut self, number: usize, state: State) {
        self.open.retain(|open| *open as usize != number);
        let slot = &mut self.slots[number];
        slot.state = state;
        slot.leases.clear();
    }

    /// Passes a whole fragment on, as `fragment` but for its bytes and slices. Its lengths are checked here.
    pub fn pass_on(
        &mut self,
        (index, number): (u16, usize),
        fragment: Fragment,
        fragments: &mut Fragments,
        (link, boards): (&mut Counters, &mut BoardCounters),
    ) {
        let slot = &self.slots[number];
        let (pieces, length) = (slot.pieces_seen(), u64::from(slot.header.length));
        if slot.payload_bytes() != length {
            return self.give_up(number, LossReason::BadLength, link, boards);
        }
        let last = slot.slices.len() - 1;
        for (piece, slice) in slot.slices.iter().enumerate() {
            let headers = if piece == 0 { 0 } else { HEADER_BYTES };
            let part = slice.part(headers, slice.length as usize - headers).expect("longer than its header");
            fragments.slices.push(part.tagged(if piece == last { 0 } else { Slice::CONTINUES }));
        }
        fragments.leases.add_all(&slot.leases);
        let bytes = HEADER_BYTES as u32 + slot.header.length;
        fragments.fragments.push(Fragment { bytes, slices: pieces as u16, ..fragment });
        link.output(Unit::Datagrams, pieces);
        link.output(Unit::Bytes, u64::from(bytes));
        link.overhead(Unit::Bytes, (pieces - 1) * HEADER_BYTES as u64);
        boards.begin(index, fragment.trigger, link).output(Unit::Fragments, 1);
        self.close(number, State::Done);
    }

    fn give_up(
        &mut self,
        number: usize,
        reason: LossReason,
        link: &mut Counters,
        boards: &mut BoardCounters,
    ) {
        let slot = &self.slots[number];
        link.lost(reason, Unit::Datagrams, slot.pieces_seen());
        link.lost(reason, Unit::Bytes, slot.bytes);
        let index = (number / self.slots_per_board) as u16;
        boards.begin(index, slot.header.trigger, link).lost(reason, Unit::Fragments, 1);
        self.close(number, State::Free);
    }

    /// Gives up what was opened too long before `mark`; with no mark, everything.
    pub fn expire(&mut self, mark: Option<Mark>, (link, boards): (&mut Counters, &mut BoardCounters)) {
        while let Some(oldest) = self.open.first().map(|number| *number as usize) {
            if mark.is_some_and(|mark| mark.since_ns(self.slots[oldest].first) < self.wait_ns) {
                return;
            }
            self.give_up(oldest, LossReason::Unfinished, link, boards);
        }
    }

    /// Counts what is held, from the slots.
    pub fn count_held(&self, link: &mut Counters) {
        let open = || self.open.iter().map(|number| &self.slots[*number as usize]);
        link.set_held(Unit::Datagrams, open().map(Slot::pieces_seen).sum());
        link.set_held(Unit::Bytes, open().map(|slot| slot.bytes).sum());
    }
}
