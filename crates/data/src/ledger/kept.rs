//! What a run keeps of its data: in which form its hits, fragments and events are on file, if they are.
//!
//! ```text
//!  decoded hits · built events ──► tables ───────────── Rows        lost where a table does not take them
//!  received bytes ───────────────► raw.arrows alone ─── RawBytes    lost where that does not take their bytes
//!                                                       Nothing
//! ```
//! The loss totals of a run follow from this: raw bytes that the disk did not take are no loss where the hits of them are in a table, and
//! are all that there was where they are not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::snapshot::{CounterSnapshot, LedgerSnapshot};
use super::stages::StageRole;
use super::vocabulary::Unit;

/// Bytes of a hit in a time slice, whose payload is hits and nothing else.
pub const SLICED_HIT_BYTES: u64 = 16;

/// The form in which a run keeps its hits, its fragments or its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Each one that is counted as recorded, in a table; of hits, also in time slices. Without any table, all are left out on request.
    #[default]
    Rows,
    /// What was received alone, in the table `raw`: a replay makes them again.
    RawBytes,
    /// Not by themselves; of hits at most coincidences, or the boards' own counters.
    Nothing,
}

impl Kept {
    /// Of a run that keeps rows of them, or the bytes that they were made of.
    pub fn of(keeps_rows: bool, keeps_raw_bytes: bool) -> Kept {
        match (keeps_rows, keeps_raw_bytes) {
            (true, _) => Kept::Rows,
            (false, true) => Kept::RawBytes,
            (false, false) => Kept::Nothing,
        }
    }

    /// What became of built events in the recording, behind their number.
    pub fn words_of_events(self) -> &'static str {
        match self {
            Kept::Rows => "events recorded",
            Kept::RawBytes => "events built, raw bytes recorded",
            Kept::Nothing => "events built, not recorded",
        }
    }

    /// What stands behind the number of hits that came to the recording.
    pub fn words_of_hits(self) -> &'static str {
        match self {
            Kept::Rows => "hits recorded",
            Kept::RawBytes => "hits taken, raw bytes recorded",
            Kept::Nothing => "hits taken, not recorded",
        }
    }
}

/// What a run keeps of all of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataKept {
    /// What is kept of hits.
    pub hits: Kept,
    /// The role of the stage that keeps hits: where they are in time slices alone, that of these.
    pub hits_end: StageRole,
    /// What is kept of the fragments of triggered boards.
    pub fragments: Kept,
    /// What is kept of the events that are built.
    pub events: Kept,
    /// Raw bytes that had come to the recording and are not on file, beside those that the ledger calls lost.
    pub raw_bytes_missing: u64,
}

impl From<StageRole> for DataKept {
    /// Everything in rows, and the hits kept by the stage with this role.
    fn from(hits_end: StageRole) -> DataKept {
        let (hits, fragments, events) = Default::default();
        DataKept { hits, hits_end, fragments, events, raw_bytes_missing: 0 }
    }
}

impl Default for DataKept {
    fn default() -> DataKept {
        StageRole::Recording.into()
    }
}

impl DataKept {
    /// How many hits are recorded: those that the stage which keeps them has passed on, or that are in recorded time slices; where none are
    /// kept, how many were taken. `None` of a run without such a stage, and of one that keeps no hits and has none.
    pub fn hits_recorded(&self, snapshot: &LedgerSnapshot) -> Option<u64> {
        let passed_on = || self.at_end(snapshot, |counters| counters.total_output(Unit::Hits));
        match self.hits {
            _ if self.are_in_slices() => {
                Some(in_slices(snapshot.at(StageRole::Recording), |own| own.total_output(Unit::Bytes)))
            }
            Kept::Nothing => Some(passed_on()? + self.filtered(snapshot)?).filter(|taken| *taken > 0),
            Kept::Rows | Kept::RawBytes => passed_on(),
        }
    }

    /// How many hits came to that stage and were left out on request, those of rejected time slices among them. `None` where no hits are
    /// kept: all are left out then.
    pub fn hits_left_out(&self, snapshot: &LedgerSnapshot) -> Option<u64> {
        let own = self.filtered(snapshot).filter(|_| self.hits != Kept::Nothing)?;
        let behind = || in_slices(snapshot.slots.iter(), |own| own.total_filtered(Unit::Bytes));
        Some(if self.are_in_slices() { own + behind() } else { own })
    }

    fn filtered(&self, snapshot: &LedgerSnapshot) -> Option<u64> {
        self.at_end(snapshot, |counters| counters.total_filtered(Unit::Hits))
    }

    /// How many hits were lost with their time slices at these slots, behind the stage that made these; 0 where slices do not keep the hits.
    pub(super) fn hits_lost_in_slices(&self, slots: &[CounterSnapshot]) -> u64 {
        match self.are_in_slices() {
            true => in_slices(slots.iter(), |own| own.total_lost_any(Unit::Bytes)),
            false => 0,
        }
    }

    /// Whether hits are kept in time slices alone.
    pub fn are_in_slices(&self) -> bool {
        self.hits_end == StageRole::Slices
    }

    fn at_end(&self, snapshot: &LedgerSnapshot, count: impl Fn(&Counters) -> u64) -> Option<u64> {
        let mut slots = snapshot.at(self.hits_end).filter(|slot| slot.counts(Unit::Hits)).peekable();
        slots.peek()?;
        Some(slots.map(|slot| count(&slot.counters)).sum())
    }
}

/// The hits in time slices, by their bytes: of the slots that count slices.
fn in_slices<'s>(slots: impl Iterator<Item = &'s CounterSnapshot>, bytes: impl Fn(&Counters) -> u64) -> u64 {
    let of_slices = slots.filter(|own| own.counts(Unit::Fragments) && own.counts(Unit::Bytes));
    of_slices.map(|own| bytes(&own.counters)).sum::<u64>() / SLICED_HIT_BYTES
}
