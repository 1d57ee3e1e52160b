//! Packets out of datagrams or a stream, and what is missing between them.
//!
//! ```text
//!  datagram ─► header believed? ─► part of the source ─► sequence ─► unit: the packet, header and all
//!                  │                    │                   │
//!                  └ wrong_constant     └ unexpected_sender          └ duplicate_datagram · late · gaps
//!                    bad_length
//! ```
//! The unit keeps its header: whoever decodes or builds with it needs the trigger number. The tag of a unit is the
//! number of its part in the order of first appearance.
//!
//! Gaps stand in the account of the wire, and are counted when they leave the reorder window. A packet that was
//! received and refused is counted where it was refused, and its number is missing on the wire, too: the two accounts
//! tell the same story from their two ends.

use thalweg_data::{Counters, Frames, Framing, LossReason, Mark, Slice, SourceId, Unit};

use super::gaps::{Arrival, Track};
use super::layout::{Head, Layout};
use super::settings::{Settings, SettingsError};
use super::time::Starts;
use crate::framing::{Piece, StreamAccount, first_of_chain_to_end};

/// Headers in a row that end a search in a stream.
const CONFIRMATIONS: usize = 2;

/// Finds packets by their description.
#[derive(Debug)]
pub struct GenericUnpack {
    account: StreamAccount,
    packets: Packets,
    searching: bool,
}

impl GenericUnpack {
    /// A framing of one source's packets. `source` is accepted for symmetry with its decoder; the units say their own.
    ///
    /// # Errors
    /// When the description cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<GenericUnpack, SettingsError> {
        let _ = source;
        let packets = Packets::new(Layout::of(settings)?);
        Ok(GenericUnpack { account: StreamAccount::default(), packets, searching: false })
    }

    /// Parts of the source that were seen, by the value of their fields, in order of appearance.
    pub fn parts(&self) -> &[u64] {
        &self.packets.parts
    }

    pub(super) fn starts(&self) -> Starts {
        self.packets.starts.clone()
    }

    fn datagrams(&mut self, received: &Frames, units: &mut Frames) {
        let GenericUnpack { account, packets, .. } = self;
        units.header = received.header;
        account.counters.input(Unit::Datagrams, received.slices.len() as u64);
        account.counters.input(Unit::Bytes, received.byte_count());
        for slice in &received.slices {
            let bytes = received.bytes(*slice);
            match packets.datagram(bytes, received.header.mark, &mut account.wire) {
                Ok((head, part)) => {
                    let unit = slice.part(0, head.total).expect("a packet ends inside its datagram");
                    units.slices.push(unit.tagged(part));
                    units.leases.add_for(*slice, &received.leases);
                    account.begin_frames(1);
                    account.counters.output(Unit::Datagrams, 1);
                    account.counters.output(Unit::Frames, 1);
                    account.counters.output(Unit::Bytes, head.total as u64);
                    account.counters.overhead(Unit::Bytes, (bytes.len() - head.total) as u64);
                    for unit in [Unit::Datagrams, Unit::Frames] {
                        account.wire.input(unit, 1);
                        account.wire.output(unit, 1);
                    }
                }
                Err(Refusal::Ignored) => {
                    account.counters.filtered(Unit::Datagrams, 1);
                    account.counters.filtered(Unit::Bytes, bytes.len() as u64);
                }
                Err(Refusal::Lost(reason)) => {
                    account.counters.lost(reason, Unit::Datagrams, 1);
                    account.counters.lost(reason, Unit::Bytes, bytes.len() as u64);
                }
            }
        }
    }
}

impl Framing for GenericUnpack {
    type Output = Frames;

    fn frame(&mut self, received: &Frames, units: &mut Frames) -> usize {
        if !self.packets.layout.stream {
            self.datagrams(received, units);
            return 0;
        }
        let GenericUnpack { account, packets, searching } = self;
        account.unpack(received, units, |piece, units, account| {
            *searching |= piece.interrupted.is_some();
            packets.cut(piece, units, account, searching)
        })
    }

    fn finish(&mut self, carried: &Frames, units: &mut Frames) {
        let GenericUnpack { account, packets, searching } = self;
        account.finish(carried, |piece, account| packets.cut(piece, units, account, searching));
        packets.finish(&mut account.wire);
    }

    fn counters(&self) -> &Counters {
        &self.account.counters
    }

    fn wire_counters(&self) -> &[Counters] {
        std::slice::from_ref(&self.account.wire)
    }
}

enum Refusal {
    Ignored,
    Lost(LossReason),
}

/// The parts of the source and their counters. All memory is taken at the start.
#[derive(Debug)]
struct Packets {
    layout: Layout,
    /// Values of the parts seen, by number.
    parts: Vec<u64>,
    /// `(value, number)`, by value.
    sorted: Vec<(u64, u32)>,
    latest: (u64, u32),
    tracks: Vec<Track>,
    /// The windows of all parts, one behind the other.
    seen: Vec<u64>,
    /// Where the time counters of the parts begin, for the decoders.
    starts: Starts,
}

impl Packets {
    fn new(layout: Layout) -> Packets {
        let limit = layout.part_limit;
        let words = layout.sequence.map_or(0, |sequence| sequence.counting.words());
        Packets {
            parts: Vec::with_capacity(limit),
            sorted: Vec::with_capacity(limit),
            latest: (0, u32::MAX),
            tracks: vec![Track::default(); limit],
            seen: vec![0; words * limit],
            starts: layout.starts(),
            layout,
        }
    }

    fn datagram(&mut self, bytes: &[u8], mark: Mark, wire: &mut Counters) -> Result<(Head, u32), Refusal> {
        let head = self.layout.head(bytes, Some(bytes.len())).map_err(Refusal::Lost)?;
        if head.total > bytes.len() || head.total < bytes.len() && !self.layout.padding {
            return Err(Refusal::Lost(LossReason::BadLength));
        }
        let part = self.take(head, bytes, mark, wire)?;
        Ok((head, part))
    }

    /// Takes a packet with a believed header into the counts of its part; returns the part's number.
    fn take(&mut self, head: Head, bytes: &[u8], mark: Mark, wire: &mut Counters) -> Result<u32, Refusal> {
        if head.ignored {
            return Err(Refusal::Ignored);
        }
        let known = self.parts.len();
        let part = self.part(head.part).ok_or(Refusal::Lost(LossReason::UnexpectedSender))?;
        if self.parts.len() > known {
            self.layout.see_time(&self.starts, part, bytes, mark);
        }
        let Some(sequence) = self.layout.sequence else { return Ok(part) };
        let words = sequence.counting.words();
        let seen = &mut self.seen[part as usize * words..(part as usize + 1) * words];
        let index = sequence.index.map_or(0, |number| u32::try_from(number.read(bytes)).unwrap_or(u32::MAX));
        let mut missing = 0;
        let track = &mut self.tracks[part as usize];
        let arrival = sequence.counting.arrive(track, seen, sequence.group.read(bytes), index, &mut missing);
        self.missing(missing, wire);
        match arrival {
            Arrival::New => Ok(part),
            Arrival::Duplicate => Err(Refusal::Lost(LossReason::DuplicateDatagram)),
            Arrival::Late => Err(Refusal::Lost(LossReason::Late)),
            Arrival::Unconfirmed => Err(Refusal::Lost(LossReason::Resynchronised)),
            Arrival::Impossible => Err(Refusal::Lost(LossReason::BadFraming)),
        }
    }

    fn part(&mut self, value: u64) -> Option<u32> {
        if self.latest.1 != u32::MAX && self.latest.0 == value {
            return Some(self.latest.1);
        }
        let number = match self.sorted.binary_search_by_key(&value, |(value, _)| *value) {
            Ok(place) => self.sorted[place].1,
            Err(_) if self.parts.len() == self.layout.part_limit => return None,
            Err(place) => {
                let number = self.parts.len() as u32;
                self.parts.push(value);
                self.sorted.insert(place, (value, number));
                number
            }
        };
        self.latest = (value, number);
        Some(number)
    }

    fn missing(&self, packets: u64, wire: &mut Counters) {
        if packets == 0 {
            return;
        }
        wire.input(Unit::Frames, packets);
        wire.lost(LossReason::FrameGap, Unit::Frames, packets);
        if !self.layout.stream {
            wire.input(Unit::Datagrams, packets);
            wire.lost(LossReason::DatagramGap, Unit::Datagrams, packets);
        }
    }

    fn finish(&mut self, wire: &mut Counters) {
        let Some(sequence) = self.layout.sequence else { return };
        let mut missing = 0;
        let windows = self.seen.chunks_exact_mut(sequence.counting.words());
        for (track, seen) in self.tracks.iter_mut().zip(windows) {
            sequence.counting.flush(track, seen, &mut missing);
        }
        self.missing(missing, wire);
    }

    /// Cuts a piece of a stream; returns the number of bytes left over.
    fn cut(
        &mut self,
        piece: &Piece<'_>,
        units: &mut Frames,
        account: &mut StreamAccount,
        searching: &mut bool,
    ) -> usize {
        let mut at = 0;
        loop {
            let rest = &piece.bytes[at..];
            if *searching {
                let (skipped, found) = self.search(rest, piece.last);
                account.lose(LossReason::Resynchronised, skipped);
                at += skipped;
                *searching = !found;
                if !found {
                    return piece.bytes.len() - at;
                }
                continue;
            }
            if rest.len() < self.layout.header_bytes {
                return rest.len();
            }
            match self.layout.head(rest, None) {
                Ok(head) if head.total > rest.len() => match self.swallowed(rest, piece.last) {
                    None => return rest.len(),
                    Some(skipped) => {
                        account.lose_frame(LossReason::BadLength);
                        account.lose(LossReason::Resynchronised, skipped);
                        at += skipped;
                    }
                },
                Ok(head) => {
                    account.begin_frames(1);
                    let unit = piece.slice.part(at, head.total).expect("the packet is whole");
                    self.pass_on(head, unit, piece, units, account);
                    at += head.total;
                }
                Err(reason) => {
                    account.lose_frame(reason);
                    account.lose(LossReason::Resynchronised, 1);
                    at += 1;
                    *searching = true;
                }
            }
        }
    }

    fn pass_on(
        &mut self,
        head: Head,
        unit: Slice,
        piece: &Piece<'_>,
        units: &mut Frames,
        account: &mut StreamAccount,
    ) {
        match self.take(head, piece.received.bytes(unit), piece.received.header.mark, &mut account.wire) {
            Ok(part) => account.pass_on(piece, unit.tagged(part), 1, units),
            Err(Refusal::Ignored) => {
                account.counters.filtered(Unit::Frames, 1);
                account.counters.filtered(Unit::Bytes, head.total as u64);
            }
            Err(Refusal::Lost(reason)) => {
                account.counters.lost(reason, Unit::Frames, 1);
                account.lose(reason, head.total);
            }
        }
    }

    /// Where packets begin inside the last one of a stream, whose length goes beyond the end: then it is the length that is
    /// damaged. `None` when there are none, and the packet was cut off.
    #[cold]
    fn swallowed(&self, bytes: &[u8], last: bool) -> Option<usize> {
        let is_looked_for = last && self.layout.has_marks();
        is_looked_for.then(|| self.chain_to_end(&bytes[1..]).map(|at| at + 1))?
    }

    /// Where whole packets begin that follow each other to the end of the stream.
    fn chain_to_end(&self, bytes: &[u8]) -> Option<usize> {
        let whole = |bytes: &[u8]| self.layout.head(bytes, None).ok().map(|head| head.total);
        first_of_chain_to_end(bytes, whole, |_| true)
    }

    /// Bytes to skip, and whether a header was found there; when not, the bytes from there wait for more. At the end of the
    /// stream a packet that ends there needs no other to confirm it.
    fn search(&self, bytes: &[u8], last: bool) -> (usize, bool) {
        if last && let Some(skipped) = self.chain_to_end(bytes) {
            return (skipped, true);
        }
        if !self.layout.has_marks() {
            // Nothing tells a header from payload: the first place with a possible length is as good as any.
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

    /// Whether packets follow each other here; `None` when that cannot be said yet.
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
