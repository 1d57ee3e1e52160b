//! The threads of a run, and the rings between them.
//!
//! ```text
//!  reader (one per source)              order thread (one)                                          process (one)
//!  receive ─► unpack ─► decode ══hits══► time order ─► (added) ─► cut ─► coincidence ─► record ══hits, events══► spectra
//!     ║            ╚═units═► worker ═hits═╝   └► time slices ══events══► event recorder
//!     ╚══frames══► raw writer (one)
//!
//!  event reader (one)                   event recorder (one)
//!  receive ─► split ─► build ══events══► (filter ─►) record
//!                                          ╚═events═► filter worker ═answers═╝
//! ```
//! A single line is a call, a double line a bounded ring of recycled batches. When a ring has no empty batch left its
//! sender waits (`hold`): what then overflows does so in the kernel's buffer, where it is counted. Nothing here knows
//! a format or opens a file.

mod added;
mod building;
mod busy_stage;
mod decode_workers;
mod decoding;
mod drain;
mod event_filter;
mod event_inlet;
mod event_outlet;
mod event_recorder;
mod leader;
mod link_slots;
mod order_thread;
mod process;
mod raw;
mod readout;
mod recording_state;
mod refused_outlet;
mod replayed_links;
mod selection;
mod slicer;
mod write_log;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use thalweg_data::{CounterSlot, Counters, SnapshotNumber, Stage};

pub(crate) use added::AddedStages;
pub(crate) use building::{Building, BuildingParts};
pub(crate) use busy_stage::BusyStage;
pub(crate) use decode_workers::decode_stage;
pub(crate) use decoding::{Decoding, HitLink, ReaderSlots};
pub(crate) use event_filter::{FilterSlots, FilterStage, FilterWorker};
pub(crate) use event_inlet::EventInlet;
pub(crate) use event_outlet::EventOutlet;
pub(crate) use event_recorder::EventRecorder;
pub(crate) use leader::Leader;
pub(crate) use link_slots::{BoardSlots, LinkSlots, Reported, link_units};
pub(crate) use order_thread::{Inlet, OrderThread};
pub(crate) use process::{EventSlots, Process};
pub(crate) use raw::RawRecorder;
pub(crate) use recording_state::RecordingState;
pub(crate) use refused_outlet::RefusedOutlet;
pub(crate) use replayed_links::{RecordedLink, ReplayedLinks};
pub(crate) use selection::{Selection, SelectionSlots};
pub(crate) use slicer::{Slicer, SourceCutter};
pub(crate) use write_log::{Filed, Given, WriteLog};

/// The interval at which counters after time order and reports are brought up to date, nanoseconds: as fast as an eye can follow.
const REPORT_EVERY_NS: u64 = 50_000_000;

/// Units of this process that have not come to their end.
#[derive(Debug, Default)]
struct UnitsLeft {
    /// True if there were readout units here: if not, the others go on until they are asked to stop.
    has_readouts: AtomicBool,
    readouts: AtomicUsize,
    builders: AtomicUsize,
    given_up: AtomicBool,
}

/// The recordings that can wait for disk space, each on a thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The recording of ordered hits.
    Hits,
    /// The recording of the events that are made of hits.
    Coincidences,
    /// The recording of built events.
    Events,
    /// The recording of received bytes.
    Raw,
}

/// The signals between the supervisor and the threads, both ways.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    stop: AtomicBool,
    snapshot: AtomicU32,
    /// One bit for each recording that waits.
    paused: AtomicU32,
    /// True if no disk space will be made available.
    out_of_space: AtomicBool,
    on_hold: AtomicBool,
    /// Batches that were written, of whatever: while it grows, what waits before it will be taken.
    written: AtomicU64,
    threads_left: AtomicUsize,
    units: UnitsLeft,
    failures: Mutex<Vec<String>>,
}

impl Signals {
    /// Asks every reader to take what is still there and end.
    pub(crate) fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Asks for slots under the next number.
    pub(crate) fn request_snapshot(&self) -> SnapshotNumber {
        self.snapshot.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn snapshot_requested(&self) -> SnapshotNumber {
        self.snapshot.load(Ordering::Acquire)
    }

    /// Returns true if the recording waits, as for disk space.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire) != 0
    }

    /// One of the recordings waits, for this reason, or goes on.
    pub(crate) fn set_paused(&self, recorded: Recorded, why: Option<&str>) {
        let bit = 1 << recorded as u32;
        let before = match why.is_some() {
            true => self.paused.fetch_or(bit, Ordering::AcqRel),
            false => self.paused.fetch_and(!bit, Ordering::AcqRel),
        };
        match why {
            Some(why) if before == 0 => {
                tracing::warn!("the run is paused: {why}; free some, and it goes on by itself");
            }
            None if before == bit => tracing::warn!("the run goes on: there is space on the disk again"),
            _ => {}
        }
    }

    /// One of the recordings waits no longer, although its reason is still there.
    pub(crate) fn end_pause(&self, recorded: Recorded) {
        self.paused.fetch_and(!(1 << recorded as u32), Ordering::AcqRel);
    }

    /// The disk is full and stays so: the run ends for this reason.
    pub(crate) fn end_without_space(&self, message: String) {
        if !self.out_of_space.swap(true, Ordering::AcqRel) {
            self.fail(message);
        }
    }

    fn is_out_of_space(&self) -> bool {
        self.out_of_space.load(Ordering::Acquire)
    }

    /// A recording has taken another batch.
    fn note_written(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Batches that the recordings have taken.
    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns true if files are not to be read for a while.
    fn is_on_hold(&self) -> bool {
        self.on_hold.load(Ordering::Acquire) && !self.stop_requested()
    }

    /// Returns true if the hits of boards that go on are left out; in a run that is stopped in a pause, until its end.
    fn leaves_hits_out(&self) -> bool {
        self.on_hold.load(Ordering::Acquire)
    }

    pub(crate) fn set_on_hold(&self, on_hold: bool) {
        self.on_hold.store(on_hold, Ordering::Release);
    }

    /// One thread has failed for good: the run ends, and everything in flight is still written.
    pub(crate) fn fail(&self, message: String) {
        let mut failures = self.failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // All sources of a replay read one file, and find the same damage.
        if !failures.contains(&message) {
            tracing::error!("{message}");
            failures.push(message);
        }
        drop(failures);
        self.request_stop();
    }

    /// Something is wrong with which the run goes on: once, however often it is seen.
    pub(crate) fn note_failure(&self, message: String) {
        const MOST: usize = 32;
        tracing::warn!("{message}");
        let mut failures = self.failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if failures.len() < MOST && !failures.contains(&message) {
            failures.push(message);
        }
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Says before the start how many units of each kind are hosted here.
    pub(crate) fn expect_units(&self, readouts: usize, builders: usize) {
        self.units.has_readouts.store(readouts > 0, Ordering::Release);
        self.units.readouts.store(readouts, Ordering::Release);
        self.units.builders.store(builders, Ordering::Release);
    }

    /// A readout unit keeps nothing any more.
    pub(crate) fn readout_is_over(&self) {
        self.units.readouts.fetch_sub(1, Ordering::AcqRel);
    }

    /// A builder unit has given everything to its files.
    pub(crate) fn builder_is_over(&self) {
        self.units.builders.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns true if nothing comes from readout units any more, as far as this process knows.
    pub(crate) fn readouts_are_over(&self) -> bool {
        match self.units.has_readouts.load(Ordering::Acquire) {
            true => self.units.readouts.load(Ordering::Acquire) == 0,
            false => self.stop_requested(),
        }
    }

    pub(crate) fn builders_are_over(&self) -> bool {
        self.units.builders.load(Ordering::Acquire) == 0
    }

    /// Units that have not come to their end are not waited for any longer.
    pub(crate) fn give_units_up(&self) {
        self.units.given_up.store(true, Ordering::Release);
    }

    pub(crate) fn units_given_up(&self) -> bool {
        self.units.given_up.load(Ordering::Acquire)
    }

    pub(crate) fn thread_starts(&self) {
        self.threads_left.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn thread_ends(&self) {
        self.threads_left.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn threads_left(&self) -> usize {
        self.threads_left.load(Ordering::Acquire)
    }
}

/// Waits for a thread; a panic is a failure of the run, reported by the thread's name.
pub(crate) fn joined<R>(thread: JoinHandle<R>, signals: &Signals) -> Option<R> {
    let name = thread.thread().name().unwrap_or("unnamed").to_owned();
    let failed = |_| signals.fail(format!("the thread \"{name}\" panicked: a defect, please report it"));
    thread.join().map_err(failed).ok()
}

/// A counter slot with the moment of its last publication: counts are made visible between batches, and often enough
/// is a hundred times a second.
pub(crate) struct Ledgered {
    slot: CounterSlot,
    published_ns: u64,
}

impl Ledgered {
    const EVERY_NS: u64 = 10_000_000;

    pub(crate) fn new(slot: CounterSlot) -> Ledgered {
        Ledgered { slot, published_ns: 0 }
    }

    /// The stage that counts here.
    pub(crate) fn stage(&self) -> Stage {
        self.slot.stage()
    }

    /// Returns true if it is time to publish, by the arrival mark.
    pub(crate) fn is_due(&self, mark_ns: u64) -> bool {
        mark_ns.saturating_sub(self.published_ns) >= Self::EVERY_NS
    }

    /// Publishes when it is time, by the arrival mark.
    pub(crate) fn publish_at(&mut self, mark_ns: u64, counters: &Counters) {
        if self.is_due(mark_ns) {
            self.published_ns = mark_ns;
            self.slot.publish(counters);
        }
    }

    pub(crate) fn publish(&self, counters: &Counters) {
        self.slot.publish(counters);
    }

    pub(crate) fn snapshot(&self, number: SnapshotNumber, counters: &Counters) {
        self.slot.snapshot(number, counters);
    }
}
