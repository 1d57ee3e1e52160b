//! Passes whole units of self-triggered boards on to decoders, batch by batch, on a readout thread.
//!
//! Everything that decides where a batch ends is taken from the arrival marks of its link, never from a clock of its own, and raw
//! recordings hold those marks: a replay cuts the same batches and so gives the same hits. A link whose decoder takes nothing is not
//! read meanwhile, and holds no other up.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::batch::{BoardStarts, Header};
use thalweg_data::ring::Upstream;
use thalweg_data::{Counters, Frames, LinkId, Mark, SnapshotNumber, SourceId};
use thalweg_readout::group::{Group, Turn};

use super::decode_workers::{DecodeStage, wait_for_empty};
use super::drain::Drain;
use super::readout::{Readout, ReadoutWork, TURN_WAIT};
use super::{Ledgered, Signals};
use crate::gauges::Gauges;
use crate::plan::capacity::BATCH_BYTES;

/// An idle source sends a mark this often.
const IDLE_MARK_NS: u64 = 1_000_000;
/// A batch is passed on at this age at the latest.
const BATCH_AGE_NS: u64 = 20_000_000;
/// The least time for which a board that goes on sending is still read after a stop.
const DRAIN: Duration = Duration::from_millis(500);

/// The counters that a reading thread writes for one source.
pub(crate) struct ReaderSlots {
    pub(crate) receive: Ledgered,
    pub(crate) unpack: Ledgered,
    pub(crate) wire: Option<Ledgered>,
}

/// One source on its way to decoded hits.
pub(crate) struct HitLink {
    pub(crate) id: SourceId,
    pub(crate) name: String,
    /// True if it is not read in a pause: a file loses nothing by that, a board would.
    pub(crate) waits: bool,
    pub(crate) decode: DecodeStage,
    pub(crate) slots: ReaderSlots,
    pub(crate) gauges: Arc<Gauges>,
}

/// The units put together from a link and not yet passed on.
#[derive(Default)]
struct Pending {
    units: Frames,
    /// Units that are counted in `bytes`.
    counted: usize,
    bytes: u64,
    first_mark: Option<Mark>,
    /// The mark of what was taken last.
    mark: Mark,
    sent_mark: Mark,
    snapshot_sent: SnapshotNumber,
    /// Starts of the board in what was passed on.
    starts: BoardStarts,
    /// Something was taken since the last look at it.
    is_touched: bool,
    /// True if nothing follows.
    is_end: bool,
    /// It is due, and no batch is free for it: its link is not read.
    is_waiting: bool,
    /// Its link is a file, and the run pauses.
    is_on_hold: bool,
    /// Its end has been passed on.
    is_over: bool,
}

/// The work of such a thread on what its links give.
pub(crate) struct Decoding {
    links: Vec<(HitLink, Pending)>,
    raw: Option<Upstream<Frames>>,
    /// The raw recording has ended before its time.
    raw_lost: bool,
}

impl Decoding {
    /// A thread that reads these links, in the order of `inputs`.
    pub(crate) fn readout(
        inputs: Group<Frames>,
        links: Vec<HitLink>,
        raw: Option<Upstream<Frames>>,
    ) -> Readout<Decoding> {
        let links = links.into_iter().map(|link| (link, Pending::default())).collect();
        Readout::new(Box::new(inputs), Decoding { links, raw, raw_lost: false })
    }

    /// Returns true if a batch is due that its decoder does not take yet.
    fn is_waiting(&self) -> bool {
        self.links.iter().any(|(_, pending)| pending.is_waiting)
    }

    /// Lends the raw writer what was received, or sends it a snapshot marker.
    fn send_raw(&mut self, received: &Frames, header: Header, signals: &Signals) -> bool {
        let Some(raw) = &mut self.raw else { return true };
        let Some(mut batch) = wait_for_empty(raw, signals) else { return false };
        batch.clear();
        batch.header = header;
        (batch.carried, batch.begins_anew) = (received.carried, received.begins_anew);
        batch.slices.extend_from_slice(&received.slices);
        batch.leases.add_all(&received.leases);
        raw.send(batch);
        true
    }
}

impl Pending {
    /// Counts what the link's framing has appended.
    fn take(&mut self, received: &Frames) {
        let added = &self.units.slices[self.counted..];
        self.bytes += added.iter().map(|slice| u64::from(slice.length)).sum::<u64>();
        self.counted = self.units.slices.len();
        self.mark = received.header.mark;
        if self.counted > 0 {
            self.first_mark.get_or_insert(self.mark);
        }
        self.is_end |= received.header.end;
        self.is_touched = true;
    }

    /// Returns true if what there is, even if only a mark, is to be passed on.
    fn is_due(&self) -> bool {
        let is_aged = self.first_mark.is_none_or(|first| self.mark.since_ns(first) >= BATCH_AGE_NS);
        self.is_end || is_aged || self.bytes >= BATCH_BYTES
    }
}

impl ReadoutWork for Decoding {
    type Output = Frames;

    const DRAIN: Duration = DRAIN;

    #[inline]
    fn batch(&mut self, link: LinkId) -> &mut Frames {
        &mut self.links[link.index()].1.units
    }

    #[inline]
    fn take(&mut self, link: LinkId, received: &Frames, signals: &Signals) {
        let header = Header { snapshot: None, ..received.header };
        self.raw_lost |= !self.send_raw(received, header, signals);
        self.links[link.index()].1.take(received);
    }

    #[inline]
    fn wants_mark(&self, link: LinkId, mark: Mark) -> bool {
        let pending = &self.links[link.index()].1;
        // A replay that waits gives the mark again that it has given.
        let is_new = mark > pending.mark;
        is_new && !pending.is_waiting && mark.since_ns(pending.sent_mark) >= IDLE_MARK_NS
    }

    fn name(&self, link: LinkId) -> &str {
        &self.links[link.index()].0.name
    }

    fn link_failed(&self, message: String, signals: &Signals) {
        signals.fail(message);
    }

    fn held_up_by(&self) -> String {
        "the threads behind this one take nothing: look at the disk that is recorded on".to_owned()
    }

    fn before_turn(readout: &mut Readout<Self>, signals: &Signals) {
        // Less than a batch waits here, so that a pause decides nothing that a replay would decide otherwise.
        let is_on_hold = signals.is_on_hold();
        for (link, (of_link, pending)) in readout.inputs.links().zip(&mut readout.work.links) {
            if of_link.waits && pending.is_on_hold != is_on_hold {
                pending.is_on_hold = is_on_hold;
                match is_on_hold {
                    true => readout.inputs.pause(link),
                    false if !pending.is_waiting => readout.inputs.resume(link),
                    false => {}
                }
            }
        }
    }

    fn after_turn(
        readout: &mut Readout<Self>,
        _turn: Turn,
        _took_nothing: bool,
        drain: &mut Drain,
        signals: &Signals,
    ) -> bool {
        let goes_on = readout.pass_on_what_is_due(signals) && !readout.work.raw_lost;
        if readout.work.is_waiting() {
            // A link that is not read is not silent.
            drain.held_up();
        }
        goes_on
    }

    fn settle(readout: &mut Readout<Self>, signals: &Signals) {
        // Batches that are due are passed on with their own mark, not with that of the end. A batch whose decoder takes nothing may wait
        // for another, so each is passed on when it can be.
        while readout.pass_on_what_is_due(signals) && readout.work.is_waiting() {
            // Nothing more comes of the links that do not wait, and time order takes nothing of others before it knows that.
            readout.finish_those_that_do_not_wait(signals);
            std::thread::sleep(TURN_WAIT);
        }
    }

    fn end(readout: &mut Readout<Self>, signals: &Signals) {
        Self::settle(readout, signals);
        for link in readout.inputs.links() {
            readout.publish(link);
        }
    }
}

impl Readout<Decoding> {
    /// Passes on the batches that are due. Returns `false` when no thread takes them any more.
    fn pass_on_what_is_due(&mut self, signals: &Signals) -> bool {
        let is_alone = self.work.links.len() == 1;
        for link in self.inputs.links() {
            let (of_link, pending) = &mut self.work.links[link.index()];
            if !std::mem::take(&mut pending.is_touched) && !pending.is_waiting {
                continue;
            }
            let is_due = pending.is_due() && !pending.is_over;
            // If there is no other link to read, the thread waits for a batch; otherwise this link is not read until there is one.
            let was_waiting = pending.is_waiting;
            pending.is_waiting = is_due && !is_alone && !of_link.decode.is_ready();
            let is_waiting = pending.is_waiting;
            match (was_waiting, is_waiting) {
                (false, true) => self.inputs.pause(link),
                (true, false) if !pending.is_on_hold => self.inputs.resume(link),
                _ => {}
            }
            self.publish_when_due(link);
            if is_due && !is_waiting && !self.pass_on(link, signals) {
                return false;
            }
        }
        true
    }

    fn pass_on(&mut self, link: LinkId, signals: &Signals) -> bool {
        let pending = &self.work.links[link.index()].1;
        let requested = signals.snapshot_requested();
        let snapshot = (requested > pending.snapshot_sent).then_some(requested);
        if let Some(number) = snapshot
            && !self.snapshot(link, number, signals)
        {
            return false;
        }
        let framing = self.inputs.framing(link);
        let (of_link, pending) = &mut self.work.links[link.index()];
        let (mark, end) = (pending.mark, pending.is_end);
        pending.units.header = Header { source: of_link.id, mark, snapshot, end };
        pending.units.starts = pending.starts;
        pending.starts.pass(framing.starts(), mark);
        (pending.sent_mark, pending.first_mark) = (mark, None);
        (pending.bytes, pending.counted, pending.is_over) = (0, 0, end);
        of_link.gauges.set_ring_fill(of_link.decode.fill());
        of_link.decode.send(&mut pending.units, signals)
    }

    /// Ends the run for the links that have nothing that their decoders do not take.
    fn finish_those_that_do_not_wait(&mut self, signals: &Signals) {
        for link in self.inputs.links() {
            if !self.work.links[link.index()].1.is_waiting {
                self.finish_link(link, signals);
            }
        }
    }

    /// Copies a link's counters under a number, in front of the batch that carries the number on.
    fn snapshot(&mut self, link: LinkId, number: SnapshotNumber, signals: &Signals) -> bool {
        self.each_slot(link, |slot, counters| slot.snapshot(number, counters));
        let (of_link, pending) = &mut self.work.links[link.index()];
        pending.snapshot_sent = number;
        of_link.gauges.set_drop_counters(self.inputs.drop_counters(link));
        let header = Header { source: of_link.id, snapshot: Some(number), ..Header::default() };
        self.work.send_raw(&Frames::default(), header, signals)
    }

    /// Publishes a link's counters when it is time, by its marks.
    fn publish_when_due(&mut self, link: LinkId) {
        let (of_link, pending) = &self.work.links[link.index()];
        let mark_ns = pending.mark.0;
        // Its counters are published together.
        if of_link.slots.receive.is_due(mark_ns) {
            self.each_slot(link, |slot, counters| slot.publish_at(mark_ns, counters));
        }
    }

    /// Publishes a link's counters for the last time.
    fn publish(&mut self, link: LinkId) {
        self.work.links[link.index()].0.gauges.set_drop_counters(self.inputs.drop_counters(link));
        self.each_slot(link, |slot, counters| slot.publish(counters));
    }

    /// Each counter slot of a link with its counters of now.
    fn each_slot(&mut self, link: LinkId, mut enter: impl FnMut(&mut Ledgered, &Counters)) {
        let framing = self.inputs.framing(link);
        let ReaderSlots { receive, unpack, wire } = &mut self.work.links[link.index()].0.slots;
        enter(receive, &self.inputs.receive_counters(link));
        enter(unpack, framing.counters());
        if let (Some(wire), Some(counters)) = (wire, framing.wire_counters().first()) {
            enter(wire, counters);
        }
    }
}
