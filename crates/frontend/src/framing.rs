//! The counters of a framing that finds units in a byte stream.
//!
//! ```text
//!  received: | carried | fresh bytes |  ──► find ──► units | left over ─► carried next time
//!                  │          │                   │          │
//!                 (counted)   in         out · overhead · lost · held
//! ```
//! All stream formats count the same: incoming bytes, those carried because their unit is incomplete, those given up by
//! the receiver, and those of an incomplete unit at the end of the source. A format whose units are frames implements
//! only [`FindUnits`]; [`StreamUnpack`] is its framing.

mod assembly;
mod board_counters;

use thalweg_data::{Counters, Frames, Framing, LossReason, Noted, Slice, SourceId, Unit};

pub(crate) use assembly::{Assembly, Part, UnitKey};
pub(crate) use board_counters::BoardCounters;

/// One contiguous chunk of a stream, and whether bytes were given up just before it.
pub struct Chunk<'a> {
    /// The slice of the bytes.
    pub slice: Slice,
    /// The bytes.
    pub bytes: &'a [u8],
    /// The batch whose leases keep the bytes.
    pub received: &'a Frames,
    /// The reason why the carried bytes are gone, if they are: the chunk then starts in the middle of a unit.
    pub interrupted: Option<LossReason>,
    /// The stream ends behind the chunk, all of which was carried by an earlier call.
    pub last: bool,
}

/// Finds the units of a format in a stream.
pub trait FindUnits: Send {
    /// Passes on the units found in `chunk`, counts losses, and returns the number of bytes at its end that need more
    /// bytes.
    fn find_units(&mut self, chunk: &Chunk<'_>, units: &mut Frames, counts: &mut StreamCounts) -> usize;

    /// The next chunk is the start of a stream.
    fn begin_anew(&mut self) {}

    /// How often the board has reported a start.
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
    /// The format's part of the framing.
    pub(crate) fn finder(&self) -> &C {
        &self.finder
    }

    /// The same, to be set up.
    pub(crate) fn finder_mut(&mut self) -> &mut C {
        &mut self.finder
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

/// The first position in the last bytes of a stream from which whole units follow each other exactly to its end, which
/// confirms them like further headers do inside the stream. `unit` returns the length of the whole unit at the start of
/// some bytes, `begins` whether the first unit may start there. Every position is read at most once.
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

/// Counters of a stream framing, with the carried bytes.
#[derive(Debug, Default)]
pub struct StreamCounts {
    /// Datagrams (receive calls), bytes and frames of the framing.
    pub counters: Counters,
    /// Counters of the sequence numbers; without these, of the found units.
    pub wire: Counters,
    held: usize,
    /// No whole unit was found yet behind a gap of the recording that is read.
    behind_gap: bool,
}

impl StreamCounts {
    /// [`StreamCounts::chunks`] for a framing whose units are frames.
    pub fn unpack(
        &mut self,
        received: &Frames,
        units: &mut Frames,
        mut find: impl FnMut(&Chunk<'_>, &mut Frames, &mut StreamCounts) -> usize,
    ) -> usize {
        units.header = received.header;
        self.chunks(received, |chunk, counts| find(chunk, units, counts))
    }

    /// Counts a batch, calls `find` for each contiguous chunk, and counts the bytes left over. `find` returns the
    /// number of bytes at the end of its chunk that need more bytes.
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

    /// Behind a gap of a recording, until the first whole unit, what the framing finds to be missing or out of sequence
    /// was lost by the recording, not by the board or the network.
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
            // Only the end of a batch can be carried; a receiver that publishes one chunk per batch does not get here.
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

    /// Counts frames that were found, before their result is known: they are passed on, left out or lost. A frame of
    /// triggered boards becomes a fragment.
    #[inline]
    pub fn begin_frames(&mut self, frames: u64) {
        self.counters.input(Unit::Frames, frames);
    }

    /// Counts a frame that turned out to be invalid. Its bytes are counted separately.
    pub fn lose_frame(&mut self, reason: LossReason) {
        self.begin_frames(1);
        self.counters.lost(reason, Unit::Frames, 1);
    }

    /// Counts a frame that was begun and is not passed on.
    pub fn refuse_frame(&mut self, reason: LossReason, bytes: usize) {
        self.counters.lost(reason, Unit::Frames, 1);
        self.lose(reason, bytes);
    }

    /// Counts a frame that was begun and is left out as configured.
    pub fn leave_out_frame(&mut self, bytes: usize) {
        self.counters.filtered(Unit::Frames, 1);
        self.counters.filtered(Unit::Bytes, bytes as u64);
    }

    /// Counts a fragment that turned out to be invalid, and whose trigger is unknown. Its bytes are counted separately.
    pub fn lose_fragment(&mut self, reason: LossReason) {
        self.counters.input(Unit::Fragments, 1);
        self.counters.noted(Noted::CutOff, Unit::Fragments, 1);
        self.counters.lost(reason, Unit::Fragments, 1);
    }

    /// Counts bytes that belong to no unit.
    pub fn lose(&mut self, reason: LossReason, bytes: usize) {
        if bytes > 0 {
            self.counters.lost(reason, Unit::Bytes, bytes as u64);
        }
    }

    /// Passes on `frames` consecutive whole units as one slice.
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

    /// Ends the source: calls `find` once more with the held bytes. Bytes that are still left over are lost. Returns
    /// the reason, if there are any.
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

/// Losses since `before` that follow from a gap in the bytes are counted as losses of the recording that is read.
pub(crate) fn explain_by_recording(counters: &mut Counters, before: &Counters) {
    for reason in LossReason::known().filter(|reason| reason.description().echoes) {
        for unit in [Unit::Datagrams, Unit::Bytes, Unit::Frames, Unit::Fragments] {
            counters.rename_since(before, (reason, LossReason::RecordingDamaged), unit);
        }
    }
}
