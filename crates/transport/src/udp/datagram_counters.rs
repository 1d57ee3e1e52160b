//! Counts received messages, and splits coalesced ones into datagrams.
//!
//! ```text
//!  message ─ judge ─► take │ lost        published bytes ─ split ─► one slice per datagram
//! ```

use thalweg_data::batch::Frames;
use thalweg_data::{BlockWriter, Counters, LossReason, Pool, Slice, Unit};

use super::settings::UdpReceiverSettings;
use crate::control_message::Notes;
use crate::system::Message;

/// The counters of a UDP receiver.
#[derive(Default)]
pub(crate) struct DatagramCounters {
    pub(crate) counters: Counters,
    /// Drops that the socket has reported.
    pub(crate) socket_drops: u64,
    /// The socket's last 32-bit count of drops.
    last_dropped: u32,
    /// ICMP "port unreachable" answers to what this socket sent.
    pub(crate) refused: u64,
    /// Bytes copied because a message was longer than its slot.
    pub(crate) moved_bytes: u64,
}

/// Whether a message is accepted.
pub(crate) enum Verdict {
    /// The receiver passes on its datagrams.
    Take,
    /// The whole message has been counted as lost.
    Lost,
}

/// A message that is longer than its slot: its start lies in a block, the rest in the receive table.
pub(super) struct Spilled<'a> {
    pub(super) whole: Slice,
    pub(super) rest: &'a [u8],
}

/// Where messages are copied to that are longer than their slots.
pub(super) struct SpillSpace<'a> {
    /// The block with the slots. It has space for a datagram of each.
    pub(super) block: &'a mut BlockWriter,
    pub(super) pool: &'a Pool,
    /// The block for coalesced datagrams beyond that.
    pub(super) beyond: &'a mut Option<BlockWriter>,
}

impl<'a> SpillSpace<'a> {
    /// A block with space for so many bytes, if there is one.
    fn of(self, bytes: usize) -> Option<&'a mut BlockWriter> {
        let SpillSpace { block, pool, beyond } = self;
        if block.remaining() >= bytes {
            return Some(block);
        }
        if beyond.as_ref().is_none_or(|writer| writer.remaining() < bytes) {
            *beyond = pool.take().or(beyond.take()).filter(|writer| writer.remaining() >= bytes);
        }
        beyond.as_mut()
    }
}

pub(crate) fn datagram_count(message: &Message) -> u64 {
    match message.notes.segment_bytes {
        Some(segment) => message.length.div_ceil(segment).max(1) as u64,
        None => 1,
    }
}

impl DatagramCounters {
    /// Counts a message as input, and as lost if its sender is unexpected or it is too long; sets its sender's position.
    #[inline]
    pub(crate) fn judge(&mut self, message: &mut Message, settings: &UdpReceiverSettings) -> Verdict {
        self.note_drops(&message.notes);
        let datagrams = datagram_count(message);
        self.counters.input(Unit::Datagrams, datagrams);
        self.counters.input(Unit::Bytes, message.length as u64);
        let Some(position) = settings.from.position(message.sender) else {
            self.lose(LossReason::UnexpectedSender, datagrams, message.length);
            return Verdict::Lost;
        };
        message.sender_position = position;
        let longest = message.notes.segment_bytes.unwrap_or(message.length).min(message.length);
        if longest > settings.datagram_bytes && datagrams == 1 {
            self.lose(LossReason::DatagramTooLong, 1, message.length);
            return Verdict::Lost;
        }
        Verdict::Take
    }

    fn note_drops(&mut self, notes: &Notes) {
        if let Some(dropped) = notes.dropped {
            self.socket_drops += u64::from(dropped.wrapping_sub(self.last_dropped));
            self.last_dropped = dropped;
        }
    }

    pub(crate) fn lose(&mut self, reason: LossReason, datagrams: u64, bytes: usize) {
        self.counters.lost(reason, Unit::Datagrams, datagrams);
        self.counters.lost(reason, Unit::Bytes, bytes as u64);
    }

    /// Counts a datagram as input and as lost.
    pub(crate) fn lose_arrived(&mut self, reason: LossReason, bytes: usize) {
        self.counters.input(Unit::Datagrams, 1);
        self.counters.input(Unit::Bytes, bytes as u64);
        self.lose(reason, 1, bytes);
    }

    fn pass_on(&mut self, slice: Slice, frames: &mut Frames) {
        self.counters.output(Unit::Datagrams, 1);
        self.counters.output(Unit::Bytes, u64::from(slice.length));
        frames.slices.push(slice);
    }

    /// Splits a published message into its datagrams, each tagged with the position of its sender.
    #[inline]
    pub(crate) fn split(&mut self, whole: Slice, message: &Message, longest: usize, frames: &mut Frames) {
        let whole = whole.tagged(message.sender_position);
        let length = whole.length as usize;
        let segment = match message.notes.segment_bytes {
            Some(segment) if segment < length => segment,
            _ => return self.pass_on(whole, frames),
        };
        if segment > longest {
            return self.split_too_long(whole, segment, longest, frames);
        }
        let whole_segments = length / segment;
        let last = length - whole_segments * segment;
        frames.slices.extend((0..whole_segments).map(|index| Slice {
            offset: whole.offset + (index * segment) as u32,
            length: segment as u32,
            ..whole
        }));
        frames.slices.extend(whole.part(whole_segments * segment, last).filter(|_| last > 0));
        self.counters.output(Unit::Datagrams, (whole_segments + usize::from(last > 0)) as u64);
        self.counters.output(Unit::Bytes, length as u64);
    }

    /// Splits a message whose segments are too long: only the last, shorter one can be accepted.
    fn split_too_long(&mut self, whole: Slice, segment: usize, longest: usize, frames: &mut Frames) {
        let length = whole.length as usize;
        for start in (0..length).step_by(segment) {
            let bytes = segment.min(length - start);
            match whole.part(start, bytes) {
                Some(slice) if bytes <= longest => self.pass_on(slice, frames),
                _ => self.lose(LossReason::DatagramTooLong, 1, bytes),
            }
        }
    }

    /// Splits a message whose end did not fit its slot: the datagrams that reach beyond the slot are copied.
    pub(super) fn split_spilled(
        &mut self,
        message: &Message,
        Spilled { whole, rest }: Spilled<'_>,
        space: SpillSpace<'_>,
        longest: usize,
        frames: &mut Frames,
    ) {
        let segment = message.notes.segment_bytes.unwrap_or(message.length);
        // If segments are longer than the slot, no whole one lies inside; only the last, shorter one can be accepted.
        let inside = whole.length as usize / segment * segment;
        if inside > 0 {
            let part = whole.part(0, inside).expect("a whole number of datagrams lies inside the slot");
            self.split(part, message, longest, frames);
        }
        let head = whole.part(inside, whole.length as usize - inside).expect("the rest of the slot");
        let moved = head.length as usize + rest.len();
        let Some(writer) = space.of(moved) else {
            return self.lose(LossReason::NoBlock, (moved.div_ceil(segment)) as u64, moved);
        };
        let tail = &mut writer.tail()[..moved];
        tail[..head.length as usize].copy_from_slice(frames.leases.bytes(head));
        tail[head.length as usize..].copy_from_slice(rest);
        let copied = writer.publish(moved);
        self.moved_bytes += moved as u64;
        frames.leases.add(writer.lease());
        self.split(copied, message, longest, frames);
        writer.align(64);
    }
}
