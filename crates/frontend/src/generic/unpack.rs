//! Finds packets in datagrams or a stream, and the gaps between them.
//!
//! ```text
//!  datagram ─► header valid?  ─► part of the source ─► sequence ─► unit: the packet, header and all
//!                  │                    │                   │
//!                  └ wrong_constant     └ unexpected_sender          └ duplicate_datagram · late · gaps
//!                    bad_length
//! ```
//! The unit keeps its header, since decoders and the event builder need the trigger number. The tag of a unit is the
//! number of its part in the order of first appearance.
//!
//! Gaps are counted at the wire, when they leave the reorder window. A packet that was received and refused is counted
//! where it was refused, and its number is also missing at the wire: the two counters describe the same loss from both
//! ends.

use thalweg_data::{Counters, Frames, Framing, LossReason, Slice, SourceId, Unit};

use super::layout::{Head, Layout};
use super::numbering::{Appearance, Numbering};
use super::packets::{Packets, Taken};
use super::settings::{Settings, SettingsError};
use super::time::Starts;
use crate::framing::{Chunk, StreamCounts};

/// How a missing packet is counted.
const FRAMES: (Unit, LossReason) = (Unit::Frames, LossReason::FrameGap);
const DATAGRAMS: (Unit, LossReason) = (Unit::Datagrams, LossReason::DatagramGap);

/// Finds the packets of a description.
#[derive(Debug)]
pub struct GenericUnpack {
    counts: StreamCounts,
    packets: Packets,
    searching: bool,
}

impl GenericUnpack {
    /// Creates a framing of one source's packets. `source` is accepted for symmetry with the decoder; the units name
    /// their own.
    ///
    /// # Errors
    /// When the description cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<GenericUnpack, SettingsError> {
        let _ = source;
        let layout = Layout::of(settings)?;
        let numbering = Numbering::Appearance(Appearance::new(layout.part_limit));
        let is_stream = layout.stream;
        let gap: &[_] = if is_stream { &[FRAMES] } else { &[FRAMES, DATAGRAMS] };
        let packets = Packets::new(layout, numbering, gap);
        Ok(GenericUnpack { counts: StreamCounts::default(), packets, searching: false })
    }

    /// Values of the seen parts, in order of first appearance.
    pub fn parts(&self) -> &[u64] {
        self.packets.numbering.seen()
    }

    pub(super) fn starts(&self) -> Starts {
        self.packets.starts.clone()
    }

    fn datagrams(&mut self, received: &Frames, units: &mut Frames) {
        let GenericUnpack { counts, packets, .. } = self;
        units.header = received.header;
        counts.counters.input(Unit::Datagrams, received.slices.len() as u64);
        counts.counters.input(Unit::Bytes, received.byte_count());
        for slice in &received.slices {
            let bytes = received.bytes(*slice);
            let wire = std::slice::from_mut(&mut counts.wire);
            match packets.datagram(bytes, slice.tag, received.header.mark, wire) {
                Ok(Taken { head, part }) => {
                    let unit = slice.part(0, head.total).expect("a packet ends inside its datagram");
                    units.slices.push(unit.tagged(part));
                    units.leases.add_for(*slice, &received.leases);
                    counts.begin_frames(1);
                    counts.counters.output(Unit::Datagrams, 1);
                    counts.counters.output(Unit::Frames, 1);
                    counts.counters.output(Unit::Bytes, head.total as u64);
                    counts.counters.overhead(Unit::Bytes, (bytes.len() - head.total) as u64);
                    for unit in [Unit::Datagrams, Unit::Frames] {
                        counts.wire.input(unit, 1);
                        counts.wire.output(unit, 1);
                    }
                }
                Err(refusal) => counts.refuse_datagram(refusal, bytes.len()),
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
        let GenericUnpack { counts, packets, searching } = self;
        counts.unpack(received, units, |chunk, units, counts| {
            *searching |= chunk.interrupted.is_some();
            packets.find(chunk, counts, searching, &mut |packets, chunk, counts, packet| {
                pass_on(packets, chunk, counts, packet, units);
            })
        })
    }

    fn finish(&mut self, carried: &Frames, units: &mut Frames) {
        let GenericUnpack { counts, packets, searching } = self;
        counts.finish(carried, |chunk, counts| {
            packets.find(chunk, counts, searching, &mut |packets, chunk, counts, packet| {
                pass_on(packets, chunk, counts, packet, units);
            })
        });
        packets.finish(std::slice::from_mut(&mut counts.wire));
    }

    fn begin_anew(&mut self) {
        self.packets.begin_anew();
        self.searching = false;
    }

    fn counters(&self) -> &Counters {
        &self.counts.counters
    }

    fn wire_counters(&self) -> &[Counters] {
        std::slice::from_ref(&self.counts.wire)
    }
}

/// Passes on a packet of a stream with its header.
fn pass_on(
    packets: &mut Packets,
    chunk: &Chunk<'_>,
    counts: &mut StreamCounts,
    (head, unit): (Head, Slice),
    units: &mut Frames,
) {
    let (bytes, mark) = (chunk.received.bytes(unit), chunk.received.header.mark);
    match packets.take(head, bytes, unit.tag, mark, std::slice::from_mut(&mut counts.wire)) {
        Ok(part) => counts.pass_on(chunk, unit.tagged(part), 1, units),
        Err(refusal) => counts.refuse_packet(refusal, head.total),
    }
}
