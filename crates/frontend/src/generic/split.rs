//! Finds fragments in packets whose headers the configuration describes.
//!
//! ```text
//!  packet ─► Packets: board, gaps ────┬─ one of one ─────► Fragment { trigger, ticks, source }, Slice
//!                                      └─ one of several ─► assembly ─► Fragment, a slice per packet
//! ```
//! Trigger number, time and board are read where the packet is found; nothing is copied. A packet is passed on with its
//! header, or as payload alone. The losses that the boards' own counters show are in the counters of the wire, for each
//! board.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_data::{
    Counters, FirstRefused, Fragment, FragmentRecord, Fragments, Frames, Framing, LossReason, Mark, Refused,
    Slice, SourceId, Unit,
};

use super::boards::Boards;
use super::layout::{Head, Layout};
use super::number::Number;
use super::packets::{Packets, Refusal, Taken, wire_of};
use super::settings::{Settings, SettingsError};
use super::time::BoardTicks;
use crate::framing::{Assembly, BoardCounters, Chunk, Part, StreamCounts, UnitKey};

/// How a missing packet is counted.
const GAP: &[(Unit, LossReason)] = &[(Unit::Frames, LossReason::FrameGap)];

/// Finds the fragments of the boards behind one link.
#[derive(Debug)]
pub struct GenericSplitter {
    stream: StreamCounts,
    packets: Packets,
    searching: bool,
    rule: Rule,
    counts: BoardCounts,
}

/// How a packet becomes a fragment.
#[derive(Debug)]
struct Rule {
    first_source: SourceId,
    /// What is counted of a packet: in a stream, receive calls were counted on arrival.
    packet_unit: Unit,
    trigger: Number,
    /// The time field, and its extension over wraps.
    time: Option<(Number, Option<BoardTicks>)>,
    parts: Option<(Number, u16)>,
    keeps_header: bool,
    assembly: Assembly,
}

/// Counters of the boards.
#[derive(Debug)]
struct BoardCounts {
    boards: BoardCounters,
    /// One set per board; empty if boards do not count their packets.
    wire: Vec<Counters>,
    refused: FirstRefused,
}

/// A packet of one of the boards.
struct Packet<'a> {
    head: Head,
    board: u32,
    slice: Slice,
    bytes: &'a [u8],
    received: &'a Frames,
}

impl GenericSplitter {
    /// Creates a splitter for a link whose first board is `first_source`.
    ///
    /// # Errors
    /// When the description cannot be used, or lacks keys that fragments need.
    pub fn new(first_source: SourceId, settings: &Settings) -> Result<GenericSplitter, SettingsError> {
        let (boards, layout) = (Boards::of(settings)?, Layout::of(settings)?);
        if usize::from(first_source.0) + usize::from(boards.count) > 1 << 16 {
            return Err(SettingsError::Value {
                key: "fragments.boards",
                message: format!("is {} behind {first_source}; there are 65536 sources", boards.count),
            });
        }
        let wire = if layout.sequence.is_some() { usize::from(boards.count) } else { 0 };
        let time = boards
            .time
            .map(|(number, counter)| (number, counter.map(|counter| BoardTicks::new(counter, boards.count))));
        let packet_unit = if settings.stream { Unit::Frames } else { Unit::Datagrams };
        let assembly =
            Assembly::new(boards.count, boards.open_fragments, boards.reassembly_ms, boards.keeps_header);
        Ok(GenericSplitter {
            stream: StreamCounts::default(),
            packets: Packets::new(layout, boards.numbering, GAP),
            searching: false,
            rule: Rule {
                first_source,
                packet_unit,
                trigger: boards.trigger,
                time,
                parts: boards.parts,
                keeps_header: boards.keeps_header,
                assembly,
            },
            counts: BoardCounts {
                boards: BoardCounters::new(boards.count),
                wire: vec![Counters::default(); wire],
                refused: FirstRefused::default(),
            },
        })
    }

    fn datagrams(&mut self, received: &Frames, fragments: &mut Fragments) {
        let GenericSplitter { stream, packets, rule, counts, .. } = self;
        let mark = received.header.mark;
        stream.counters.input(Unit::Datagrams, received.slices.len() as u64);
        stream.counters.input(Unit::Bytes, received.byte_count());
        for slice in &received.slices {
            let bytes = received.bytes(*slice);
            let taken = packets.datagram(bytes, slice.tag, mark, &mut counts.wire);
            let taken = taken.and_then(|Taken { head, part }| {
                let whole = slice.part(0, head.total).expect("a packet ends inside its datagram");
                let packet = Packet { head, board: part, slice: whole, bytes, received };
                rule.take(&packet, fragments, stream, counts).map_err(Refusal::Lost)?;
                stream.counters.overhead(Unit::Bytes, (bytes.len() - head.total) as u64);
                Ok(())
            });
            if let Err(refusal) = taken {
                stream.refuse_datagram(refusal, bytes.len());
                counts.keep(refusal, &packets.layout, mark, bytes);
            }
        }
    }
}

impl Framing for GenericSplitter {
    type Output = Fragments;

    fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        self.counts.boards.ask(records);
    }

    fn frame(&mut self, received: &Frames, fragments: &mut Fragments) -> usize {
        fragments.header = received.header;
        let GenericSplitter { stream, rule, counts, .. } = self;
        let mark = received.header.mark;
        rule.assembly.expire(Some(mark), (&mut stream.counters, &mut counts.boards));
        let left_over = match self.packets.layout.stream {
            false => {
                self.datagrams(received, fragments);
                0
            }
            true => {
                let GenericSplitter { stream, packets, searching, rule, counts } = self;
                stream.chunks(received, |chunk, stream| {
                    if chunk.interrupted == Some(LossReason::RecordingDamaged) {
                        // The trigger numbers before and behind the gap show what is missing.
                        packets.begin_anew();
                    }
                    *searching |= chunk.interrupted.is_some();
                    packets.find(chunk, stream, searching, &mut |packets, chunk, stream, packet| {
                        rule.take_of_stream(packets, chunk, packet, fragments, stream, counts);
                    })
                })
            }
        };
        if self.rule.parts.is_some() {
            self.rule.assembly.count_held(&mut self.stream.counters);
        }
        left_over
    }

    fn finish(&mut self, carried: &Frames, fragments: &mut Fragments) {
        let GenericSplitter { stream, packets, searching, rule, counts } = self;
        stream.finish(carried, |chunk, stream| {
            packets.find(chunk, stream, searching, &mut |packets, chunk, stream, packet| {
                rule.take_of_stream(packets, chunk, packet, fragments, stream, counts);
            })
        });
        packets.finish(&mut counts.wire);
        rule.assembly.expire(None, (&mut stream.counters, &mut counts.boards));
        if rule.parts.is_some() {
            rule.assembly.count_held(&mut stream.counters);
        }
    }

    fn begin_anew(&mut self) {
        self.packets.begin_anew();
        self.searching = false;
        if let Some((_, Some(ticks))) = &mut self.rule.time {
            ticks.begin_anew();
        }
    }

    fn counters(&self) -> &Counters {
        &self.stream.counters
    }

    fn board_counters(&self) -> &[Counters] {
        self.counts.boards.several()
    }

    fn wire_counters(&self) -> &[Counters] {
        &self.counts.wire
    }

    fn first_refused(&self) -> &[Refused] {
        self.counts.refused.kept()
    }
}

impl Rule {
    /// Passes on a packet of a board as a fragment, or adds it to the others of its fragment.
    #[inline]
    fn take(
        &mut self,
        packet: &Packet<'_>,
        fragments: &mut Fragments,
        stream: &mut StreamCounts,
        counts: &mut BoardCounts,
    ) -> Result<(), LossReason> {
        let Packet { head, board, slice, bytes, received } = *packet;
        let fragment = Fragment {
            trigger: self.trigger.read(bytes),
            ticks: self.ticks(board, bytes, received.header.mark),
            bytes: 0,
            source: self.first_source.plus(board as u16),
            slices: 0,
        };
        if !counts.wire.is_empty() {
            let wire = wire_of(&mut counts.wire, board);
            wire.input(Unit::Frames, 1);
            wire.output(Unit::Frames, 1);
        }
        if let Some((number, count)) = self.parts {
            let part = Part {
                board: board as u16,
                key: UnitKey { trigger: fragment.trigger, ..UnitKey::default() },
                index: u16::try_from(number.read(bytes)).unwrap_or(u16::MAX),
                count,
                header_bytes: head.payload_at,
                length: None,
                ticks: fragment.ticks,
            };
            let counters = (&mut stream.counters, &mut counts.boards);
            if let Some(slot) = self.assembly.add(&part, slice, received, counters)? {
                let counters = (&mut stream.counters, &mut counts.boards);
                self.assembly.pass_on(slot, fragment, fragments, counters);
            }
            return Ok(());
        }
        let left_out = if self.keeps_header { 0 } else { head.payload_at };
        let kept = slice.part(left_out, head.total - left_out).expect("the packet is whole");
        if kept.length > 0 {
            fragments.slices.push(kept.tagged(0));
            fragments.leases.add_for(kept, &received.leases);
        }
        let slices = u16::from(kept.length > 0);
        fragments.fragments.push(Fragment { bytes: kept.length, slices, ..fragment });
        stream.counters.output(self.packet_unit, 1);
        stream.counters.output(Unit::Bytes, u64::from(kept.length));
        stream.counters.overhead(Unit::Bytes, left_out as u64);
        let counters = counts.boards.begin(board as u16, fragment.trigger, &mut stream.counters);
        counters.output(Unit::Fragments, 1);
        Ok(())
    }

    fn take_of_stream(
        &mut self,
        packets: &mut Packets,
        chunk: &Chunk<'_>,
        (head, slice): (Head, Slice),
        fragments: &mut Fragments,
        stream: &mut StreamCounts,
        counts: &mut BoardCounts,
    ) {
        let (bytes, mark) = (chunk.received.bytes(slice), chunk.received.header.mark);
        let taken = packets.take(head, bytes, slice.tag, mark, &mut counts.wire).and_then(|board| {
            let packet = Packet { head, board, slice, bytes, received: chunk.received };
            self.take(&packet, fragments, stream, counts).map_err(Refusal::Lost)
        });
        if let Err(refusal) = taken {
            stream.refuse_packet(refusal, head.total);
            counts.keep(refusal, &packets.layout, mark, bytes);
        }
    }

    #[inline]
    fn ticks(&mut self, board: u32, bytes: &[u8], mark: Mark) -> u64 {
        match &mut self.time {
            None => 0,
            Some((number, None)) => number.read(bytes),
            Some((number, Some(ticks))) => ticks.extend(board, number.read(bytes), mark),
        }
    }
}

impl BoardCounts {
    /// Keeps the first refused packets for display.
    #[cold]
    fn keep(&mut self, refusal: Refusal, layout: &Layout, mark: Mark, unit: &[u8]) {
        let Refusal::Lost(reason) = refusal else { return };
        self.refused.keep(reason, || {
            let head = layout.head(unit, Some(unit.len())).ok();
            let trigger = head.and_then(|_| layout.trigger.map(|number| number.read(unit)));
            let expected = match (reason, head) {
                (LossReason::WrongConstant, _) => {
                    "the constants of [[source.check]], a value of [source.accept]".to_owned()
                }
                (LossReason::BadLength, _) => layout.expected_length(),
                (LossReason::UnknownSource, Some(head)) => {
                    format!("a board of [source.fragments]; this is board {}", head.part)
                }
                (LossReason::DuplicateDatagram, _) => "a packet that was not received before".to_owned(),
                (LossReason::Late, _) => "a packet within `sequence.window` of the latest".to_owned(),
                (LossReason::Resynchronised, _) => {
                    "a number within `sequence.largest_gap` of the latest, or one that the next packet follows"
                        .to_owned()
                }
                (LossReason::BadFraming, _) => "a position below `sequence.packets_per_frame`".to_owned(),
                _ => "a packet that fits the description".to_owned(),
            };
            Refused { trigger, ..Refused::new(reason, mark, unit, expected) }
        });
    }
}
