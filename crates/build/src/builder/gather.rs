//! The hot loop on the way out: chosen rows, column by column, into events.
//!
//! ```text
//!  column 0 ▪▪▪▪   column 1 ▪▪▪▪      read down: entries of neighbouring rows are neighbours
//!           │││└──► event 3: 0 1 …
//!           ││└───► event 2: 0 1 …    written across: an event's fragments stand in the order of their sources
//!           │└────► event 1: 0 1 …
//! ```

use thalweg_data::prefetch::{prefetch, prefetch_slice};
use thalweg_data::{BlockId, Event, Events, Fragment, Slice, SourceId, Unit};

use super::blocks::Blocks;
use super::chains::Chains;
use super::columns::{EMPTY, Entry};
use super::{Builder, CHUNK};

/// Columns by which the memory is asked ahead of reading.
const AHEAD: usize = 3;

/// Where the next fragment of one event is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    trigger: u64,
    row: usize,
    fragment: usize,
    slice: usize,
    missing: usize,
    bytes: u64,
}

/// Slices in a row that lie in one block.
struct Run {
    block: BlockId,
    length: u32,
}

impl Builder {
    /// Appends the chosen events to `events`.
    pub(super) fn gather(&mut self, events: &mut Events) {
        if self.chosen.is_empty() {
            return;
        }
        self.lay_out(events);
        for source in 0..self.sources.len() {
            self.prefetch_column(source + AHEAD);
            self.gather_column(source, events);
        }
        self.add_events(events);
    }

    /// Asks the memory for the chosen rows of a column, which were written long before.
    #[inline(always)]
    fn prefetch_column(&self, source: usize) {
        if let (Some(counts), [first, ..]) = (self.sources.get(source), &self.chosen[..]) {
            prefetch_slice(self.columns.entries(source, first.trigger, self.chosen.len()), CHUNK);
            prefetch(counts);
        }
    }

    /// Makes room for all fragments, and lays the cursors at each event's first.
    fn lay_out(&mut self, events: &mut Events) {
        let sources = self.sources.len();
        let (mut fragment, mut slice, mut missing) =
            (events.fragments.len(), events.slices.len(), events.missing.len());
        self.cursors.clear();
        for chosen in &self.chosen {
            let trigger = chosen.trigger;
            let row = self.columns.row(trigger);
            self.cursors.push(Cursor { trigger, row, fragment, slice, missing, bytes: 0 });
            fragment += chosen.answers as usize;
            slice += chosen.answers.wrapping_add(chosen.chained) as usize;
            missing += sources - chosen.answers as usize;
        }
        events.fragments.resize(fragment, Fragment::default());
        events.slices.resize(slice, Slice::default());
        events.missing.resize(missing, SourceId::default());
    }

    #[inline(always)]
    fn gather_column(&mut self, source: usize, events: &mut Events) {
        let id = self.source_id(source);
        let Builder { columns, cursors, blocks, chains, sources, .. } = self;
        let column = columns.of(source);
        let gone = match block_of_all(cursors, column) {
            Some(block) => {
                blocks.leave(block, cursors.len() as u32);
                gather_alike(id, cursors, column, events)
            }
            None => gather_each(id, cursors, column, (blocks, chains), events),
        };
        let counts = &mut sources[source];
        counts.held -= gone.fragments;
        counts.held_bytes -= gone.bytes;
        counts.gone += u64::from(gone.fragments);
        counts.gone_bytes += gone.bytes;
        counts.missing += u64::from(gone.missing);
        self.held_bytes -= gone.bytes;
    }

    fn add_events(&mut self, events: &mut Events) {
        for (chosen, end) in self.chosen.iter().zip(&self.cursors) {
            let missing = self.sources.len() as u32 - chosen.answers;
            events.events.push(Event {
                trigger: chosen.trigger,
                first_arrival: chosen.first_arrival,
                closed: self.now,
                bytes: end.bytes,
                first_fragment: end.fragment as u32 - chosen.answers,
                fragments: chosen.answers,
                first_missing: end.missing as u32 - missing,
                missing,
                closing: chosen.closing,
                attempt: 0,
            });
            self.closings[chosen.closing as usize] += 1;
            self.event_bytes.add(end.bytes);
            self.build_ns.add(self.now.since_ns(chosen.first_arrival));
        }
        self.counters.events.output(Unit::Events, self.chosen.len() as u64);
    }
}

/// What of one source left with the chosen events.
#[derive(Default)]
struct Gone {
    fragments: u32,
    bytes: u64,
    /// Events that left without it.
    missing: u32,
}

/// The block in which all chosen fragments of a column lie, if none is missing and each is one slice of it: no matter of one by one.
#[inline(always)]
fn block_of_all(cursors: &[Cursor], column: &[Entry]) -> Option<BlockId> {
    let block = column[cursors.first()?.row].slice.block;
    let mut other = 0;
    for cursor in cursors {
        let Entry { trigger, slice, .. } = &column[cursor.row];
        other |= trigger ^ cursor.trigger;
        other |= u64::from(slice.tag | slice.block.number() ^ block.number());
    }
    (other == 0).then_some(block)
}

/// Writes the fragments of one source that is missing in no event and has one slice in each.
#[inline(always)]
fn gather_alike(source: SourceId, cursors: &mut [Cursor], column: &[Entry], events: &mut Events) -> Gone {
    let mut gone = Gone { fragments: cursors.len() as u32, ..Gone::default() };
    let (fragments, slices) = (&mut events.fragments[..], &mut events.slices[..]);
    for cursor in cursors {
        let Entry { trigger, ticks, slice } = column[cursor.row];
        fragments[cursor.fragment] = Fragment { trigger, ticks, bytes: slice.length, source, slices: 1 };
        slices[cursor.slice] = slice;
        cursor.fragment += 1;
        cursor.slice += 1;
        cursor.bytes += u64::from(slice.length);
        gone.bytes += u64::from(slice.length);
    }
    gone
}

/// Writes the fragments of one source, however many slices each has, and where it is missing says so.
fn gather_each(
    id: SourceId,
    cursors: &mut [Cursor],
    column: &[Entry],
    (blocks, chains): (&mut Blocks, &mut Chains),
    events: &mut Events,
) -> Gone {
    let mut gone = Gone::default();
    let mut run = Run { block: BlockId::default(), length: 0 };
    for cursor in cursors {
        let Entry { trigger, ticks, slice } = column[cursor.row];
        if trigger != cursor.trigger {
            events.missing[cursor.missing] = id;
            cursor.missing += 1;
            gone.missing += 1;
            continue;
        }
        if slice.block != run.block && slice.tag != EMPTY {
            run.leave(blocks);
            run = Run { block: slice.block, length: 0 };
        }
        run.length += u32::from(slice.tag != EMPTY);
        let (mut bytes, mut slices) = (slice.length, 1);
        if slice.tag == 0 {
            events.slices[cursor.slice] = slice;
        } else if slice.tag == EMPTY {
            (bytes, slices) = (0, 0);
        } else {
            let out = &mut events.slices[cursor.slice..];
            (bytes, slices) = gather_chain(slice, chains, out, |block| blocks.leave(block, 1));
        }
        events.fragments[cursor.fragment] = Fragment { trigger, ticks, bytes, source: id, slices };
        cursor.fragment += 1;
        cursor.slice += usize::from(slices);
        cursor.bytes += u64::from(bytes);
        gone.fragments += 1;
        gone.bytes += u64::from(bytes);
    }
    run.leave(blocks);
    gone
}

impl Run {
    #[inline(always)]
    fn leave(&self, blocks: &mut Blocks) {
        if self.length > 0 {
            blocks.leave(self.block, self.length);
        }
    }
}

/// Writes all slices of a fragment that came in several slices, each but the last marked to go on. Returns its bytes and slices.
#[cold]
fn gather_chain(
    first: Slice,
    chains: &mut Chains,
    out: &mut [Slice],
    mut leave: impl FnMut(BlockId),
) -> (u32, u16) {
    let (mut bytes, mut slices) = (first.length, 1);
    out[0] = first.tagged(Slice::CONTINUES);
    chains.release(first.tag, |slice| {
        out[slices] = slice.tagged(Slice::CONTINUES);
        bytes += slice.length;
        slices += 1;
        leave(slice.block);
    });
    out[slices - 1].tag = 0;
    (bytes, slices as u16)
}
