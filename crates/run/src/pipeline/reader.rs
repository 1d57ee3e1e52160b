//! One source's thread: receive, record raw, find units, decode or hand to a worker.
//!
//! Everything that decides where a batch ends is taken from the arrival marks, never from a clock of its own, and raw
//! recordings hold those marks: a replay cuts the same batches and so gives the same hits.

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::batch::BoardStarts;
use thalweg_data::ring::Upstream;
use thalweg_data::{Frames, LossReason, Mark, Received, SnapshotNumber, Source, SourceId, Unit, Unpack};

use super::drain::{Drain, Drained, Draining};
use super::lane::Lanes;
use super::lane::wait_for_empty;
use super::{Ledgered, Signals};
use crate::supervise::Gauges;

/// Idle or not, a receive call returns within this.
const RECEIVE_WAIT: Duration = Duration::from_micros(500);
/// An idle source sends a mark this often.
const IDLE_MARK_NS: u64 = 1_000_000;
/// A batch is passed on at this age at the latest.
const BATCH_AGE_NS: u64 = 20_000_000;
/// A batch is passed on at this size: large enough to spread its fixed costs, small enough for the second-level cache.
pub(crate) const BATCH_BYTES: u64 = 256 << 10;
/// After a stop, a board that goes on sending is listened to so long.
const DRAIN: Duration = Duration::from_millis(500);

/// The accounts that a reader writes.
pub(crate) struct ReaderAccounts {
    pub(crate) receive: Ledgered,
    pub(crate) unpack: Ledgered,
    pub(crate) wire: Option<Ledgered>,
}

/// One source on its way to decoded hits.
pub(crate) struct Reader {
    pub(crate) id: SourceId,
    pub(crate) source: Box<dyn Source>,
    /// In a pause it is not read: a file loses nothing by that, a board would.
    pub(crate) waits: bool,
    pub(crate) unpack: Box<dyn Unpack>,
    pub(crate) lanes: Lanes,
    pub(crate) raw: Option<Upstream<Frames>>,
    pub(crate) accounts: ReaderAccounts,
    pub(crate) gauges: Arc<Gauges>,
}

/// What has been put together and not yet passed on.
#[derive(Default)]
struct Pending {
    units: Frames,
    bytes: u64,
    first_mark: Option<Mark>,
    sent_mark: Mark,
    /// Connections that the framing knows of.
    connections: u32,
    snapshot_sent: SnapshotNumber,
    /// Starts of the board in what was passed on.
    starts: BoardStarts,
}

impl Draining for Reader {
    fn waiting_bytes(&self, _link: usize) -> u64 {
        self.source.waiting_bytes()
    }

    fn held_up_by(&self) -> String {
        "the threads behind this one take nothing: look at the disk that is recorded on".to_owned()
    }
}

impl Reader {
    /// Reads until the source ends or a stop is asked for and everything on its way has come.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) {
        let mut pending = Pending::default();
        let mut frames = Frames::default();
        let mut drain = Drain::new(DRAIN, 1);
        loop {
            if self.waits && signals.is_on_hold() {
                // Less than a batch waits here, so that a pause decides nothing that a replay would decide otherwise.
                std::thread::sleep(RECEIVE_WAIT);
                continue;
            }
            frames.clear();
            drain.listen();
            let received = match self.source.receive(&mut frames, RECEIVE_WAIT) {
                Ok(received) => received,
                Err(error) => {
                    signals.fail(error.to_string());
                    Received::End
                }
            };
            frames.header.source = self.id;
            match received {
                Received::Idle => drain.idle(),
                _ => drain.heard(0, || frames.byte_count()),
            }
            let drained = drain.state(&self, signals);
            let end = received == Received::End || drained != Drained::No;
            if drained == Drained::GivenUp {
                self.abandon(&drain, signals);
            }
            frames.header.end = end;
            let mark = frames.header.mark;
            let idle = frames.slices.is_empty() && !end;
            if idle && mark.since_ns(pending.sent_mark) < IDLE_MARK_NS {
                continue;
            }
            if !self.take(&frames, &mut pending, end, signals) || end {
                break;
            }
        }
        if let Some(message) = self.source.unreadable() {
            signals.note_failure(message);
        }
        self.publish_last();
    }

    /// What waits is thrown away and counted: nobody takes it any more.
    fn abandon(&mut self, drain: &Drain, signals: &Signals) {
        if let Err(error) = self.source.abandon() {
            signals.note_failure(error.to_string());
        }
        let lost = self.source.tally().total_lost(LossReason::Abandoned, Unit::Bytes);
        signals.note_failure(drain.words(lost, self, signals));
    }

    /// Takes one receive call's bytes through framing; passes a batch on when it is due.
    fn take(&mut self, frames: &Frames, pending: &mut Pending, end: bool, signals: &Signals) -> bool {
        if !self.send_raw(frames, None, signals) {
            return false;
        }
        let before = pending.units.slices.len();
        if self.source.connections() != pending.connections {
            pending.connections = self.source.connections();
            if self.source.is_stream() {
                // What the connection before had carried is gone with it.
                self.unpack.finish(&Frames::default(), &mut pending.units);
                self.unpack.begin_anew();
            }
        }
        // Datagrams that wait for those before them give them up as time passes, whether or not anything comes.
        if !frames.slices.is_empty() || !self.source.is_stream() {
            let unfinished = self.unpack.unpack(frames, &mut pending.units);
            self.source.carry(unfinished);
        }
        if end {
            let mut carried = Frames { header: frames.header, ..Frames::default() };
            self.source.give_carried(&mut carried);
            self.unpack.finish(&carried, &mut pending.units);
        }
        let mark = frames.header.mark;
        let added = &pending.units.slices[before..];
        pending.bytes += added.iter().map(|slice| u64::from(slice.length)).sum::<u64>();
        if !pending.units.slices.is_empty() {
            pending.first_mark.get_or_insert(mark);
        }
        self.accounts.receive.publish_at(mark.0, self.source.tally());
        self.accounts.unpack.publish_at(mark.0, self.unpack.tally());
        if let Some(wire) = &mut self.accounts.wire {
            wire.publish_at(mark.0, self.unpack.wire_tally());
        }
        let aged = pending.first_mark.is_none_or(|first| mark.since_ns(first) >= BATCH_AGE_NS);
        let due = end || aged || pending.bytes >= BATCH_BYTES;
        !due || self.pass_on(pending, mark, end, signals)
    }

    fn pass_on(&mut self, pending: &mut Pending, mark: Mark, end: bool, signals: &Signals) -> bool {
        let requested = signals.snapshot_requested();
        let snapshot = (requested > pending.snapshot_sent).then_some(requested);
        if let Some(number) = snapshot {
            pending.snapshot_sent = number;
            self.accounts.receive.snapshot(number, self.source.tally());
            self.accounts.unpack.snapshot(number, self.unpack.tally());
            if let Some(wire) = &self.accounts.wire {
                wire.snapshot(number, self.unpack.wire_tally());
            }
            if !self.send_raw(&Frames::default(), snapshot, signals) {
                return false;
            }
            self.gauges.witness(self.source.witnesses());
        }
        pending.units.header = thalweg_data::batch::Header { source: self.id, mark, snapshot, end };
        pending.units.starts = pending.starts;
        pending.starts.pass(self.unpack.starts(), mark);
        pending.sent_mark = mark;
        pending.first_mark = None;
        pending.bytes = 0;
        self.gauges.set_ring_fill(self.lanes.fill());
        self.lanes.send(&mut pending.units, signals)
    }

    /// Lends the raw writer what was received, or sends it a snapshot marker.
    fn send_raw(&mut self, frames: &Frames, snapshot: Option<SnapshotNumber>, signals: &Signals) -> bool {
        let Some(raw) = &mut self.raw else { return true };
        let Some(mut batch) = wait_for_empty(raw, signals) else { return false };
        batch.clear();
        batch.header = frames.header;
        batch.header.source = self.id;
        batch.header.snapshot = snapshot;
        batch.carried = frames.carried;
        batch.slices.extend_from_slice(&frames.slices);
        batch.leases.add_all(&frames.leases);
        raw.send(batch);
        true
    }

    fn publish_last(&mut self) {
        self.gauges.witness(self.source.witnesses());
        self.accounts.receive.publish(self.source.tally());
        self.accounts.unpack.publish(self.unpack.tally());
        if let Some(wire) = &self.accounts.wire {
            wire.publish(self.unpack.wire_tally());
        }
    }
}
