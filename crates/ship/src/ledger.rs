//! The stage `ship` of the ledger: what was recorded, and where it is on its way to a destination.
//!
//! ```text
//!  run.json: bytes, batches, rows, by the recorder ─► recorded ┐
//!  read back at the far side, counted there ────────► proved   ├─ recorded = proved + waiting + refused
//!  files here, walked behind what is proved ────────► waiting  │
//!  the same of files that cannot be shipped, by why ► refused  ┘
//! ```
//! No number is the remainder of others: the recorder, the far side and the walk through the files here count each by itself. Of a run that
//! is being taken, nobody has counted for the recorder yet, and its tables are walked from their beginning.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use thalweg_record::read::MARKER_BYTES;

use crate::amount::{Amount, RowCounts};
use crate::contents::Contents;
use crate::message::FileKind;
use crate::run_files::{FoundFile, FoundRun};
use crate::run_state::{FileState, RunState};

/// The counts of one destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShipLedger {
    /// What is recorded here.
    pub recorded: Amount,
    /// What of it is proved there.
    pub proved: Amount,
    /// What waits, or is on its way.
    pub waiting: Amount,
    /// What cannot be shipped as it is, by the reason.
    pub refused: BTreeMap<String, Amount>,
}

impl ShipLedger {
    /// Of a run at the destination of a state.
    pub fn of(run: &FoundRun, state: &RunState, contents: &mut Contents) -> ShipLedger {
        let mut ledger = ShipLedger { recorded: recorded(run, contents), ..ShipLedger::default() };
        for file in &run.files {
            let known = state.files.get(&file.name);
            let (proved, rest) = of_file(file, known, contents);
            ledger.proved += proved;
            match known.and_then(|known| known.refused.as_ref()) {
                Some(reason) if rest.bytes > 0 => {
                    *ledger.refused.entry(reason.clone()).or_default() += rest;
                }
                _ => ledger.waiting += rest,
            }
        }
        // Tables that were removed here, because they are proved there.
        let is_here = |name: &str| run.files.iter().any(|file| file.name == name);
        for (name, known) in &state.files {
            if let Some(digests) = known.finished.as_ref().filter(|_| run.has_table(name) && !is_here(name)) {
                ledger.proved += Amount::of_table(digests.bytes, known.counted);
            }
        }
        ledger
    }

    /// All that is refused.
    pub fn refused_total(&self) -> Amount {
        self.refused.values().copied().sum()
    }

    /// Whether it balances; `None` while something is not counted.
    pub fn balances(&self) -> Option<bool> {
        let all = self.proved + self.waiting + self.refused_total();
        (all.is_counted() && self.recorded.is_counted()).then_some(all == self.recorded)
    }

    /// Adds the counts of another run at the same destination.
    pub fn add(&mut self, other: &ShipLedger) {
        self.recorded += other.recorded;
        self.proved += other.proved;
        self.waiting += other.waiting;
        for (reason, amount) in &other.refused {
            *self.refused.entry(reason.clone()).or_default() += *amount;
        }
    }
}

impl fmt::Display for ShipLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} recorded = {} proved + {} waiting", self.recorded, self.proved, self.waiting)?;
        for (reason, amount) in &self.refused {
            write!(f, " + {amount} refused ({reason})")?;
        }
        Ok(())
    }
}

/// Bytes of a run that could be proved now and are not. Where nothing may come that still grows, open files wait for nobody; nor do the
/// bytes of a table's end before it ends.
pub(crate) fn backlog(run: &FoundRun, state: &RunState, takes_growing: bool, contents: &mut Contents) -> u64 {
    let of_file = |file: &FoundFile| {
        let (_, rest) = of_file(file, state.files.get(&file.name), contents);
        let is_open = !file.is_closed || file.kind == FileKind::Whole && !run.has_ended;
        match (is_open && !takes_growing, file.kind) {
            (true, _) => 0,
            (false, FileKind::Growing) if !file.is_closed => rest.bytes.saturating_sub(MARKER_BYTES),
            (false, _) => rest.bytes,
        }
    };
    run.files.iter().map(of_file).sum()
}

/// By the recorder, where it has said what it has written; else by the files.
fn recorded(run: &FoundRun, contents: &mut Contents) -> Amount {
    let tables = run.tables.iter().map(|table| {
        let counts = RowCounts { batches: table.batches, rows: table.rows };
        Amount::of_table(table.bytes, Some(counts))
    });
    let other = run.files.iter().filter(|file| !run.has_table(&file.name));
    tables.chain(other.map(|file| of_content(file, 0, contents))).sum()
}

/// What a file holds from a byte on.
fn of_content(file: &FoundFile, from: u64, contents: &mut Contents) -> Amount {
    match file.kind {
        FileKind::Growing => contents.behind(file, from),
        // Its copy appears when all of it is there.
        FileKind::Whole => Amount::of_bytes(file.identity.bytes),
    }
}

/// What of a file is proved.
pub(crate) fn proved_of(file: &FoundFile, known: Option<&FileState>) -> Amount {
    let Some(known) = known else { return Amount::default() };
    if known.is_proved(&file.identity, file.recorded.as_deref()) {
        let bytes = known.finished.as_ref().map_or(0, |digests| digests.bytes);
        return match file.kind {
            FileKind::Growing => Amount::of_table(bytes, known.counted),
            FileKind::Whole => Amount::of_bytes(bytes),
        };
    }
    match (file.kind, known.counted) {
        // Of another file of this name, nothing is.
        (FileKind::Growing, Some(counts))
            if known.finished.is_none() && known.identity.inode == file.identity.inode =>
        {
            Amount::of_table(known.proved, Some(counts))
        }
        // Of an upload, nothing is proved before the object is read back.
        _ => Amount::default(),
    }
}

/// What of a file is proved, and the rest.
fn of_file(file: &FoundFile, known: Option<&FileState>, contents: &mut Contents) -> (Amount, Amount) {
    let proved = proved_of(file, known);
    match known.is_some_and(|known| known.is_proved(&file.identity, file.recorded.as_deref())) {
        true => (proved, Amount::default()),
        false => (proved, of_content(file, proved.bytes, contents)),
    }
}
