//! Assembles fragments that consist of several datagrams.
//!
//! ```text
//!  part 2 of 3 ─┐
//!  part 0 of 3 ─┼─► slot { key, which parts } ── complete ──► the kept bytes of each datagram, in the order of the parts
//!  part 1 of 3 ─┘        │ too old, or a newer fragment needs the slot
//!                        └──► unfinished
//! ```
//! Each board has a few slots for open fragments, so that losses of one board do not affect others, and as many again for
//! those that are no longer open. A slot remembers its finished fragment for the waiting time, so that duplicate datagrams
//! are recognised, and what an unfinished one lacks for longer, so that the fragment is counted as lost once, however late
//! its datagrams are. Blocks are held while a fragment is open: at most those of `boards × open_fragments` fragments, each
//! for the waiting time.

use thalweg_data::{Counters, Fragment, Fragments, Frames, Leases, LossReason, Mark, Slice, Unit};

use super::BoardCounters;

/// For how many waiting times the parts that an unfinished fragment lacks are remembered.
const WAITS_FOR_LATE: u64 = 10;

/// The common fields of all parts of a fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitKey {
    pub trigger: u64,
    pub run: u32,
    /// The board's time, if it is the same in all parts of the format; otherwise 0.
    pub ticks: u64,
}

/// One datagram of a fragment that has several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The index of its board.
    pub board: u16,
    pub key: UnitKey,
    /// Index of the part, from 0.
    pub index: u16,
    /// Number of parts: at most [`Assembly::MOST_PARTS`].
    pub count: u16,
    /// Length of its header.
    pub header_bytes: usize,
    /// Payload bytes of all parts together, if the header contains it.
    pub length: Option<u32>,
    /// The board's time; that of the first part becomes the fragment's.
    pub ticks: u64,
}

/// All slots of all boards.
#[derive(Debug)]
pub(crate) struct Assembly {
    slots: Vec<Slot>,
    slots_per_board: usize,
    /// Most slots of a board that are open.
    open_per_board: usize,
    wait_ns: u64,
    /// Whether the first part of a fragment keeps its header.
    keeps_header: bool,
    /// The slots in use, in the order of opening.
    open: Vec<u32>,
    opened: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    #[default]
    Free,
    /// Passed on or given up, and remembered.
    Done,
    Open,
}

/// One fragment that is being assembled.
#[derive(Debug, Default)]
struct Slot {
    state: State,
    key: UnitKey,
    count: u16,
    length: Option<u32>,
    ticks: u64,
    /// Since when it is open; of one that was given up as unfinished, when that was.
    since: Mark,
    /// Sequence number of its opening.
    opened: u64,
    /// One bit per part.
    seen: u128,
    /// Bytes of its datagrams, with headers.
    bytes: u64,
    /// Bytes of its datagrams, without headers.
    payload_bytes: u64,
    /// The kept bytes of each part, in order; a placeholder for parts not received yet.
    slices: Vec<Slice>,
    leases: Leases,
}

impl Slot {
    fn parts_seen(&self) -> u64 {
        self.seen.count_ones().into()
    }

    fn lacks(&self, index: u16) -> bool {
        index < self.count && self.seen >> index & 1 == 0
    }

    /// How long a fragment is remembered that is no longer open.
    fn memory_ns(&self, wait_ns: u64) -> u64 {
        let is_whole = self.parts_seen() == u64::from(self.count);
        if is_whole { wait_ns } else { wait_ns.saturating_mul(WAITS_FOR_LATE) }
    }
}

impl Assembly {
    /// Most datagrams of a fragment.
    pub const MOST_PARTS: usize = 128;

    /// Creates slots for the boards, each with so many open fragments at most; an incomplete one waits for `wait_ms`.
    pub fn new(boards: u16, open_per_board: u8, wait_ms: u32, keeps_header: bool) -> Assembly {
        let slots_per_board = 2 * usize::from(open_per_board);
        let slots = usize::from(boards) * slots_per_board;
        Assembly {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            slots_per_board,
            open_per_board: open_per_board.into(),
            wait_ns: u64::from(wait_ms) * 1_000_000,
            keeps_header,
            open: Vec::with_capacity(usize::from(boards) * usize::from(open_per_board)),
            opened: 0,
        }
    }

    /// Adds one datagram of a fragment that has several; returns the slot if it is now complete.
    pub fn add(
        &mut self,
        part: &Part,
        slice: Slice,
        received: &Frames,
        (link, boards): (&mut Counters, &mut BoardCounters),
    ) -> Result<Option<usize>, LossReason> {
        let payload = u64::from(slice.length) - part.header_bytes as u64;
        let mark = received.header.mark;
        if part.length.is_some_and(|length| payload > u64::from(length)) {
            return Err(LossReason::BadLength);
        }
        let number = match self.find(part, mark) {
            Some(number) => number,
            None => self.begin(part, slice, mark, (link, boards)),
        };
        let keeps_header = self.keeps_header && part.index == 0;
        let slot = &mut self.slots[number];
        if (slot.count, slot.length) != (part.count, part.length) || part.index >= part.count {
            return Err(LossReason::BadFraming);
        }
        if !slot.lacks(part.index) {
            return Err(LossReason::DuplicateDatagram);
        }
        if slot.state == State::Done {
            return Err(LossReason::Late);
        }
        if part.length.is_some_and(|length| slot.payload_bytes + payload > u64::from(length)) {
            return Err(LossReason::BadLength);
        }
        let left_out = if keeps_header { 0 } else { part.header_bytes };
        let kept = slice.part(left_out, slice.length as usize - left_out).expect("longer than its header");
        slot.seen |= 1 << part.index;
        if part.index == 0 {
            slot.ticks = part.ticks;
        }
        slot.bytes += u64::from(slice.length);
        slot.payload_bytes += payload;
        slot.slices[usize::from(part.index)] = kept;
        slot.leases.add_for(slice, &received.leases);
        Ok((slot.parts_seen() == u64::from(part.count)).then_some(number))
    }

    fn board_slots(&self, board: u16) -> std::ops::Range<usize> {
        let first = usize::from(board) * self.slots_per_board;
        first..first + self.slots_per_board
    }

    /// The slot of the part's fragment: the open one, if its number came again.
    fn find(&self, part: &Part, mark: Mark) -> Option<usize> {
        let is_of_part = |number: &usize| {
            let slot = &self.slots[*number];
            let is_remembered = || {
                // A part that an unfinished fragment has already may be that of another with the same number.
                let memory_ns =
                    if slot.lacks(part.index) { slot.memory_ns(self.wait_ns) } else { self.wait_ns };
                mark.since_ns(slot.since) < memory_ns
            };
            match slot.state {
                State::Free => false,
                State::Done => slot.key == part.key && is_remembered(),
                State::Open => slot.key == part.key,
            }
        };
        self.board_slots(part.board).filter(is_of_part).max_by_key(|number| self.slots[*number].state)
    }

    /// Opens a slot for a new fragment: a free one, otherwise the one that is forgotten first. Where too many are open, the
    /// oldest is given up before.
    fn begin(
        &mut self,
        part: &Part,
        slice: Slice,
        mark: Mark,
        (link, boards): (&mut Counters, &mut BoardCounters),
    ) -> usize {
        let own = self.board_slots(part.board);
        let open = || own.clone().filter(|number| self.slots[*number].state == State::Open);
        if let Some(oldest) = open().min_by_key(|number| self.slots[*number].opened)
            && open().count() >= self.open_per_board
        {
            self.give_up_unfinished(oldest, mark, (link, boards));
        }
        let age = |number: &usize| {
            let slot = &self.slots[*number];
            let forgotten_ns = match slot.state {
                State::Done => slot.since.0.saturating_add(slot.memory_ns(self.wait_ns)),
                State::Free | State::Open => 0,
            };
            (slot.state, forgotten_ns, slot.opened)
        };
        let number = own.min_by_key(age).expect("a board has more slots than open ones");
        self.opened += 1;
        self.open.push(number as u32);
        let slot = &mut self.slots[number];
        (slot.state, slot.since, slot.opened) = (State::Open, mark, self.opened);
        (slot.key, slot.count, slot.length) = (part.key, part.count, part.length);
        (slot.seen, slot.bytes, slot.payload_bytes) = (0, 0, 0);
        slot.slices.clear();
        slot.slices.resize(usize::from(part.count), slice);
        number
    }

    fn close(&mut self, number: usize, state: State) {
        self.open.retain(|open| *open as usize != number);
        let slot = &mut self.slots[number];
        slot.state = state;
        slot.leases.clear();
    }

    /// Checks the length of a complete fragment, and passes it on as `fragment`, with its own time, bytes and slices.
    pub fn pass_on(
        &mut self,
        number: usize,
        fragment: Fragment,
        fragments: &mut Fragments,
        (link, boards): (&mut Counters, &mut BoardCounters),
    ) {
        let slot = &self.slots[number];
        let parts = slot.parts_seen();
        if slot.length.is_some_and(|length| slot.payload_bytes != u64::from(length)) {
            return self.give_up(number, LossReason::BadLength, link, boards);
        }
        // A datagram without payload is a part, and none of the bytes.
        let kept = || slot.slices.iter().filter(|slice| slice.length > 0);
        let (slices, mut kept_bytes) = (kept().count(), 0);
        for (slice, number) in kept().zip(1..) {
            kept_bytes += u64::from(slice.length);
            fragments.slices.push(slice.tagged(if number == slices { 0 } else { Slice::CONTINUES }));
        }
        fragments.leases.add_all(&slot.leases);
        let (bytes, slices) = (kept_bytes as u32, slices as u16);
        fragments.fragments.push(Fragment { ticks: slot.ticks, bytes, slices, ..fragment });
        link.output(Unit::Datagrams, parts);
        link.output(Unit::Bytes, kept_bytes);
        link.overhead(Unit::Bytes, slot.bytes - kept_bytes);
        boards.begin(self.board_of(number), fragment.trigger, link).output(Unit::Fragments, 1);
        self.close(number, State::Done);
    }

    fn board_of(&self, number: usize) -> u16 {
        (number / self.slots_per_board) as u16
    }

    fn give_up(
        &mut self,
        number: usize,
        reason: LossReason,
        link: &mut Counters,
        boards: &mut BoardCounters,
    ) {
        let slot = &self.slots[number];
        link.lost(reason, Unit::Datagrams, slot.parts_seen());
        link.lost(reason, Unit::Bytes, slot.bytes);
        boards.begin(self.board_of(number), slot.key.trigger, link).lost(reason, Unit::Fragments, 1);
        self.close(number, State::Done);
    }

    /// Gives up a fragment that is not whole, and remembers from now on what it lacks.
    fn give_up_unfinished(
        &mut self,
        number: usize,
        mark: Mark,
        (link, boards): (&mut Counters, &mut BoardCounters),
    ) {
        self.give_up(number, LossReason::Unfinished, link, boards);
        self.slots[number].since = mark;
    }

    /// Gives up fragments that were opened too long before `mark`, or all without a mark.
    pub fn expire(&mut self, mark: Option<Mark>, (link, boards): (&mut Counters, &mut BoardCounters)) {
        while let Some(oldest) = self.open.first().map(|number| *number as usize) {
            if mark.is_some_and(|mark| mark.since_ns(self.slots[oldest].since) < self.wait_ns) {
                return;
            }
            self.give_up_unfinished(oldest, mark.unwrap_or_default(), (link, boards));
            if mark.is_none() {
                // What follows an end is counted from anew.
                self.slots[oldest].state = State::Free;
            }
        }
    }

    /// Counts the held data of the open slots.
    pub fn count_held(&self, link: &mut Counters) {
        let open = || self.open.iter().map(|number| &self.slots[*number as usize]);
        link.set_held(Unit::Datagrams, open().map(Slot::parts_seen).sum());
        link.set_held(Unit::Bytes, open().map(|slot| slot.bytes).sum());
    }
}
