//! Finds the packets of a description, and the gaps between them, for the parts of a source or for boards.
//!
//! ```text
//!  header valid? ─► which part? ─► sequence ─► taken
//!      │                 │           └ duplicate_datagram · late · resynchronised · gaps
//!      │                 └ unexpected_sender · unknown_source
//!      └ wrong_constant · bad_length
//! ```

use thalweg_data::{Counters, LossReason, Mark, Slice, Unit};

use super::layout::{Head, Layout};
use super::numbering::Numbering;
use super::time::Starts;
use crate::framing::{Chunk, StreamCounts, first_of_chain_to_end};
use crate::gaps::{Arrival, Track};

/// Number of headers in a row that end a search in a stream.
const CONFIRMATIONS: usize = 2;

/// Why a packet is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Ignored,
    Lost(LossReason),
}

/// An accepted packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub head: Head,
    /// The number of the part of the source, or of the board, that sent it.
    pub part: u32,
}

/// Called with each packet that is found in a stream: its head and its slice.
pub(super) type Found<'f> = &'f mut dyn FnMut(&mut Packets, &Chunk<'_>, &mut StreamCounts, (Head, Slice));

/// The parts of the source and their counters. All memory is allocated at the start.
#[derive(Debug)]
pub(super) struct Packets {
    pub layout: Layout,
    pub numbering: Numbering,
    /// Units and reasons by which a missing packet is counted.
    gap: &'static [(Unit, LossReason)],
    tracks: Vec<Track>,
    /// The windows of all parts, one after the other.
    seen: Vec<u64>,
    /// Starts of the time counters of the parts, for the decoders.
    pub starts: Starts,
}

impl Packets {
    pub fn new(layout: Layout, numbering: Numbering, gap: &'static [(Unit, LossReason)]) -> Packets {
        let limit = layout.part_limit;
        let words = layout.sequence.map_or(0, |sequence| sequence.counting.words());
        Packets {
            numbering,
            gap,
            tracks: vec![Track::default(); limit],
            seen: vec![0; words * limit],
            starts: layout.starts(),
            layout,
        }
    }

    /// Reads a datagram from the sender at this position of the URL. `wire` contains the counters of each part, or one
    /// set for all.
    pub fn datagram(
        &mut self,
        bytes: &[u8],
        sender: u32,
        mark: Mark,
        wire: &mut [Counters],
    ) -> Result<Taken, Refusal> {
        let head = self.layout.head(bytes, Some(bytes.len())).map_err(Refusal::Lost)?;
        if head.total > bytes.len() || head.total < bytes.len() && !self.layout.padding {
            return Err(Refusal::Lost(LossReason::BadLength));
        }
        let part = self.take(head, bytes, sender, mark, wire)?;
        Ok(Taken { head, part })
    }

    /// Counts a packet with a valid header at its part; returns the number of the part.
    pub fn take(
        &mut self,
        head: Head,
        bytes: &[u8],
        sender: u32,
        mark: Mark,
        wire: &mut [Counters],
    ) -> Result<u32, Refusal> {
        if head.ignored {
            return Err(Refusal::Ignored);
        }
        let known = self.numbering.seen().len();
        let part = self.numbering.part(head.part, sender).map_err(Refusal::Lost)?;
        if self.numbering.seen().len() > known {
            self.layout.see_time(&self.starts, part, bytes, mark);
        }
        let Some(sequence) = self.layout.sequence else { return Ok(part) };
        let words = sequence.counting.words();
        let seen = &mut self.seen[part as usize * words..(part as usize + 1) * words];
        let index = sequence.index.map_or(0, |number| u32::try_from(number.read(bytes)).unwrap_or(u32::MAX));
        let mut missing = 0;
        let track = &mut self.tracks[part as usize];
        let packet = (sequence.group.read(bytes), index);
        let arrival = sequence.counting.arrive(track, seen, packet, mark, &mut missing);
        self.missing(part, missing, wire);
        match arrival {
            Arrival::New => Ok(part),
            Arrival::Duplicate => Err(Refusal::Lost(LossReason::DuplicateDatagram)),
            Arrival::Late => Err(Refusal::Lost(LossReason::Late)),
            Arrival::Unconfirmed => Err(Refusal::Lost(LossReason::Resynchronised)),
            Arrival::Impossible => Err(Refusal::Lost(LossReason::BadFraming)),
        }
    }

    fn missing(&self, part: u32, packets: u64, wire: &mut [Counters]) {
        if packets == 0 {
            return;
        }
        let wire = wire_of(wire, part);
        for (unit, reason) in self.gap {
            wire.input(*unit, packets);
            wire.lost(*reason, *unit, packets);
        }
    }

    /// Ends the source: packets that are missing in the windows are lost.
    pub fn finish(&mut self, wire: &mut [Counters]) {
        let Some(sequence) = self.layout.sequence else { return };
        let words = sequence.counting.words();
        for part in 0..self.tracks.len() {
            let (mut missing, seen) = (0, &mut self.seen[part * words..(part + 1) * words]);
            sequence.counting.flush(&mut self.tracks[part], seen, &mut missing);
            self.missing(part as u32, missing, wire);
        }
    }

    /// Forgets the sequence of the last packets, since the next ones do not continue it; follows [`Packets::finish`].
    pub fn begin_anew(&mut self) {
        self.tracks.fill(Track::default());
    }

    /// Finds packets in a chunk of a stream and calls `found` for each; returns the number of bytes left over.
    pub fn find(
        &mut self,
        chunk: &Chunk<'_>,
        counts: &mut StreamCounts,
        searching: &mut bool,
        found: Found<'_>,
    ) -> usize {
        let mut at = 0;
        loop {
            let rest = &chunk.bytes[at..];
            if *searching {
                let (skipped, found) = self.search(rest, chunk.last);
                counts.lose(LossReason::Resynchronised, skipped);
                at += skipped;
                *searching = !found;
                if !found {
                    return chunk.bytes.len() - at;
                }
                continue;
            }
            if rest.len() < self.layout.header_bytes {
                return rest.len();
            }
            match self.layout.head(rest, None) {
                Ok(head) if head.total > rest.len() => match self.swallowed(rest, chunk.last) {
                    None => return rest.len(),
                    Some(skipped) => {
                        counts.lose_frame(LossReason::BadLength);
                        counts.lose(LossReason::Resynchronised, skipped);
                        at += skipped;
                    }
                },
                Ok(head) => {
                    counts.begin_frames(1);
                    let unit = chunk.slice.part(at, head.total).expect("the packet is whole");
                    found(self, chunk, counts, (head, unit));
                    at += head.total;
                }
                Err(reason) => {
                    counts.lose_frame(reason);
                    counts.lose(LossReason::Resynchronised, 1);
                    at += 1;
                    *searching = true;
                }
            }
        }
    }

    /// Position of the packets inside the last packet of a stream whose length goes beyond the end: if they exist, the
    /// length is damaged. `None` if the last packet was cut off.
    #[cold]
    fn swallowed(&self, bytes: &[u8], last: bool) -> Option<usize> {
        let is_looked_for = last && self.layout.has_marks();
        is_looked_for.then(|| self.chain_to_end(&bytes[1..]).map(|at| at + 1))?
    }

    /// Position from which whole packets follow each other to the end of the stream.
    fn chain_to_end(&self, bytes: &[u8]) -> Option<usize> {
        let whole = |bytes: &[u8]| self.layout.head(bytes, None).ok().map(|head| head.total);
        first_of_chain_to_end(bytes, whole, |_| true)
    }

    /// Returns the number of bytes to skip, and whether a header was found behind them; if not, the bytes behind them
    /// wait for more. At the end of the stream, a packet that ends exactly there needs no confirmation.
    fn search(&self, bytes: &[u8], last: bool) -> (usize, bool) {
        if last && let Some(skipped) = self.chain_to_end(bytes) {
            return (skipped, true);
        }
        if !self.layout.has_marks() {
            // Nothing distinguishes a header from payload, so the first position with a possible length is taken.
            let possible = |at: &usize| self.layout.head(&bytes[*at..], None).is_ok();
            let last = (bytes.len() + 1).saturating_sub(self.layout.header_bytes);
            return (0..last).find(possible).map_or((last, false), |at| (at, true));
        }
        for skipped in 0..bytes.len() {
            match self.confirm(&bytes[skipped..]) {
                Some(true) => return (skipped, true),
                None => return (skipped, false),
                Some(false) => {}
            }
        }
        (bytes.len(), false)
    }

    /// Whether packets follow each other at the start of `bytes`; `None` if more bytes are needed.
    fn confirm(&self, mut bytes: &[u8]) -> Option<bool> {
        for _ in 0..CONFIRMATIONS {
            if bytes.len() < self.layout.header_bytes {
                return None;
            }
            match self.layout.head(bytes, None) {
                Ok(head) => bytes = bytes.get(head.total..)?,
                Err(_) => return Some(false),
            }
        }
        Some(true)
    }
}

/// The wire counters of a part: its own, or those of all.
#[inline]
pub(super) fn wire_of(wire: &mut [Counters], part: u32) -> &mut Counters {
    let index = if wire.len() == 1 { 0 } else { part as usize };
    &mut wire[index]
}

impl StreamCounts {
    /// Counts a packet of a stream that is not passed on.
    pub(super) fn refuse_packet(&mut self, refusal: Refusal, bytes: usize) {
        match refusal {
            Refusal::Ignored => self.leave_out_frame(bytes),
            Refusal::Lost(reason) => self.refuse_frame(reason, bytes),
        }
    }

    /// Counts a datagram that is not passed on.
    pub(super) fn refuse_datagram(&mut self, refusal: Refusal, bytes: usize) {
        for (unit, count) in [(Unit::Datagrams, 1), (Unit::Bytes, bytes as u64)] {
            match refusal {
                Refusal::Ignored => self.counters.filtered(unit, count),
                Refusal::Lost(reason) => self.counters.lost(reason, unit, count),
            }
        }
    }
}
