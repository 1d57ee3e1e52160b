//! The counters of a framing that finds units in a byte stream.
//!
//! ```text
//!  received: | carried | fresh bytes |  ──► find ──► units | left over ─► carried next time
//!                  │          │                   │          │
//!                 (counted)   in         out · overhead · lost · held
//! ```
//! Every stream format counts the same things: the bytes that came in, those that are carried because their unit has not
//! ended, those that the receiver gave up, and those of a unit that was unfinished when the source ended. A format whose units
//! are frames implements [`FindUnits`] alone; [`StreamUnpack`] is its framing.

mod assembly;
mod board_counters;

use thalweg_data::{Counters, Frames, Framing, LossReason, Noted, Slice, SourceId, Unit};

pub(crate) use assembly::{Assembly, Part, UnitKey};
pub(crate) use board_counters::BoardCounters;

/// One contiguous chunk of a stream, and whether bytes were given up just before it.
pub struct Chunk<'a> {
    /// Where the bytes lie.
    pub slice: Slice,
    /// The bytes.
    pub bytes: &'a [u8],
    /// The right to read them.
    pub received: &'a Frames,
    /// Why what was carried is gone, when it is: the chunk begins in the middle of something.
    pub interrupted: Option<LossReason>,
    /// The stream ends behind the chunk, which was searched before and carried as a whole.
    pub last: bool,
}

/// How a format finds its units in a stream.
pub trait FindUnits: Send {
    /// Passes on the units found in `chunk`, counts what is lost, and returns the number of bytes at its end that wait for more.
    fn find_units(&mut self, chunk: &Chunk<'_>, units: &mut Frames, counts: &mut StreamCounts) -> usize;

    /// The next chunk is the beginning of a stream.
    fn begin_anew(&mut self) {}

    /// How often the board has said that it was started.
    fn starts(&self) -> u32 {
        0
    }
}

/// The framing of one stream, whose units its format finds.
#[derive(Debug)]
pub struct StreamUnpack<C> {
    source: SourceId,
    counts: StreamCounts,
    finder: C,
}

impl<C> StreamUnpack<C> {
    /// What finds the units.
    pub(crate) fn finder(&self) -> &C {
        &self.finder
    }
}

impl<C: FindUnits> StreamUnpack<C> {
    pub(crate) fn of(source: SourceId, finder: C) -> StreamUnpack<C> {
        StreamUnpack { source, counts: StreamCounts::default(), finder }
    }
}

impl<C: FindUnits> Framing for StreamUnpack<C> {
    type Output = Frames;

    fn frame(&mut self, received: &Frames, units: &mut Frames) -> usize {
        let StreamUnpack { source, counts, finder } = self;
        let left_over =
            counts.unpack(received, units, |chunk, units, counts| finder.find_units(chunk, units, counts));
        units.header.source = *source;
        left_over
    }

    fn finish(&mut self, carried: &Frames, units: &mut Frames) {
        let StreamUnpack { counts, finder, .. } = self;
        counts.finish(carried, |chunk, counts| finder.find_units(chunk, units, counts));
    }

    fn begin_anew(&mut self) {
        self.finder.begin_anew();
    }

    fn starts(&self) -> u32 {
        self.finder.starts()
    }

    fn counters(&self) -> &Counters {
        &self.counts.counters
    }

    fn wire_counters(&self) -> &[Counters] {
        std::slice::from_ref(&self.counts.wire)
    }
}

/// The first position in the last bytes of a stream from which whole units follow each other to its very end: as good a confirmation
/// as further headers are in mid-stream. `unit` returns the length of the whole unit at the start of some bytes, `begins` whether the
/// first unit may begin there. Every position is read once, whatever the bytes are.
#[cold]
pub fn first_of_chain_to_end(
    bytes: &[u8],
    unit: impl Fn(&[u8]) -> Option<usize>,
    begins: impl Fn(&[u8]) -> bool,
) -> Option<usize> {
    let mut reaches_end = vec![false; bytes.len() + 1];
    reaches_end[bytes.len()] = true;
    for at in (0..bytes.len()).rev() {
        let next = unit(&bytes[at..]).filter(|length| *length > 0).map(|length| at + length);
        reaches_end[at] = next.is_some_and(|next| reaches_end.get(next) == Some(&true));
    }
    (0..bytes.len()).find(|at| reaches_end[*at] && begins(&bytes[*at..]))
}

/// Counters of a stream framing, with what it carries.
#[derive(Debug, Default)]
pub struct StreamCounts {
    /// Datagrams (receive calls), bytes and frames of the framing.
    pub counters: Counters,
    /// What sequence numbers say; without any, what was found.
    pub wire: Counters,
    held: usize,
    /// Nothing was whole yet behind a gap of the recording that is read.
    behind_gap: bool,
}

impl StreamCounts {
    /// [`StreamCounts::chunks`] of a framing whose units are frames.
    pub fn unpack(
        &mut self,
        received: &Frames,
        units: &mut Frames,
        mut find: impl FnMut(&Chunk<'_>, &mut Frames, &mut StreamCounts) -> usize,
    ) -> usize {
        units.header = received.header;
        self.chunks(received, |chunk, counts| find(chunk, units, counts))
    }

    /// Counts a batch in, gives each contiguous chunk to `find`, and keeps the counts of what is left over. `find` returns the
    /// number of bytes at the end of its chunk that wait for more.
    pub fn chunks(
        &mut self,
        received: &Frames,
        find: impl FnMut(&Chunk<'_>, &mut StreamCounts) -> usize,
    ) -> usize {
        match received.interrupted || self.behind_gap {
            true => self.chunks_behind_gap(received, find),
            false => self.all_chunks(received, find),
        }
    }

    /// Behind a gap of a recording, until something is whole again: what the framing finds to be missing or out of step there
    /// is what the recording has lost, and neither the board's doing nor the way's.
    #[cold]
    fn chunks_behind_gap(
        &mut self,
        received: &Frames,
        find: impl FnMut(&Chunk<'_>, &mut StreamCounts) -> usize,
    ) -> usize {
        let (counters, wire) = (self.counters.clone(), self.wire.clone());
        let left_over = self.all_chunks(received, find);
        explain_by_recording(&mut self.counters, &counters);
        explain_by_recording(&mut self.wire, &wire);
        self.behind_gap = self.counters.total_output(Unit::Bytes) == counters.total_output(Unit::Bytes);
        left_over
    }

    #[inline(always)]
    fn all_chunks(
        &mut self,
        received: &Frames,
        mut find: impl FnMut(&Chunk<'_>, &mut StreamCounts) -> usize,
    ) -> usize {
        let Some((first, others)) = received.slices.split_first() else { return self.held };
        let mut interrupted = self.take_in(received);
        let mut slice = *first;
        for next in others {
            if next.block == slice.block && slice.end() == next.offset as usize {
                slice.length += next.length;
                continue;
            }
            let chunk = Chunk { slice, bytes: received.bytes(slice), received, interrupted, last: false };
            let left_over = find(&chunk, self);
            // Only the end of a batch can be carried; a receiver that publishes one chunk per batch never comes here.
            self.lose(LossReason::Unfinished, left_over);
            (interrupted, slice) = ((left_over > 0).then_some(LossReason::TooLarge), *next);
        }
        let chunk = Chunk { slice, bytes: received.bytes(slice), received, interrupted, last: false };
        let left_over = find(&chunk, self);
        self.hold(left_over);
        left_over
    }

    fn take_in(&mut self, received: &Frames) -> Option<LossReason> {
        let calls = received.slices.len() as u64;
        self.counters.input(Unit::Datagrams, calls);
        self.counters.output(Unit::Datagrams, calls);
        self.wire.input(Unit::Datagrams, calls);
        self.wire.output(Unit::Datagrams, calls);
        self.counters.input(Unit::Bytes, received.byte_count());
        let given_up = self.held.saturating_sub(received.carried as usize);
        let reason = match received.interrupted {
            true => LossReason::RecordingDamaged,
            false => LossReason::TooLarge,
        };
        if given_up > 0 {
            self.lose(reason, given_up);
            self.lose_frame(reason);
        }
        (given_up > 0 || received.interrupted).then_some(reason)
    }

    /// Counts frames that were found, whatever becomes of them.
    #[inline]
    pub fn begin_frames(&mut self, frames: u64) {
        self.counters.input(Unit::Frames, frames);
    }

    /// A frame that has begun is none. Its bytes are counted apart.
    pub fn lose_frame(&mut self, reason: LossReason) {
        self.begin_frames(1);
        self.counters.lost(reason, Unit::Frames, 1);
    }

    /// A fragment that has begun is none, and nobody can say of which trigger it was. Its bytes are counted apart.
    pub fn lose_fragment(&mut self, reason: LossReason) {
        self.counters.input(Unit::Fragments, 1);
        self.counters.noted(Noted::CutOff, Unit::Fragments, 1);
        self.counters.lost(reason, Unit::Fragments, 1);
    }

    /// Bytes that belong to no unit.
    pub fn lose(&mut self, reason: LossReason, bytes: usize) {
        if bytes > 0 {
            self.counters.lost(reason, Unit::Bytes, bytes as u64);
        }
    }

    /// Passes a run of `frames` whole units on as one slice.
    pub fn pass_on(&mut self, chunk: &Chunk<'_>, part: Slice, frames: u64, units: &mut Frames) {
        units.slices.push(part);
        units.leases.add_for(part, &chunk.received.leases);
        self.counters.output(Unit::Bytes, u64::from(part.length));
        self.counters.output(Unit::Frames, frames);
        self.wire.input(Unit::Frames, frames);
        self.wire.output(Unit::Frames, frames);
    }

    fn hold(&mut self, bytes: usize) {
        self.held = bytes;
        self.counters.set_held(Unit::Bytes, bytes as u64);
    }

    /// The source has ended: `find` is given the held bytes once more, now that nothing follows. Bytes that are still left over are
    /// lost. Returns the reason, if any are.
    pub fn finish(
        &mut self,
        carried: &Frames,
        mut find: impl FnMut(&Chunk<'_>, &mut StreamCounts) -> usize,
    ) -> Option<LossReason> {
        let reason = match carried.interrupted {
            true => LossReason::RecordingDamaged,
            false => LossReason::Unfinished,
        };
        if let Some(slice) = carried.slices.first().filter(|slice| slice.length as usize == self.held) {
            let bytes = carried.bytes(*slice);
            let chunk = Chunk { slice: *slice, bytes, received: carried, interrupted: None, last: true };
            let left_over = find(&chunk, self);
            self.hold(left_over);
        }
        let is_unfinished = self.held > 0;
        if is_unfinished {
            self.lose(reason, self.held);
            self.lose_frame(reason);
        }
        self.hold(0);
        is_unfinished.then_some(reason)
    }
}

/// What was lost since `before` because bytes did not continue those before them was lost by the recording that is read.
pub(crate) fn explain_by_recording(counters: &mut Counters, before: &Counters) {
    for reason in LossReason::known().filter(|reason| reason.description().echoes) {
        for unit in [Unit::Datagrams, Unit::Bytes, Unit::Frames, Unit::Fragments] {
            counters.rename_since(before, (reason, LossReason::RecordingDamaged), unit);
        }
    }
}
