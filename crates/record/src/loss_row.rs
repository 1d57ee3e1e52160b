//! One row of the table `losses`, and the columns that rows become.
//!
//! ```text
//!  LossRow, LossRow, … ──► Columns ──► a batch of losses.arrows ──► LossRow, LossRow, …
//! ```

use thalweg_data::{LossReason, Quality, Stage, StageRole};

use crate::ipc::columns::Columns;
use crate::table::Table;

/// The reason in rows that are no loss: they say that the list is cut.
pub const LIST_FULL: &str = "list_full";

/// Triggers that were missed, next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerRange {
    /// The first one.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// How many of them: all, or fewer where several ranges were joined.
    pub count: u64,
}

/// What was counted as lost in a stretch of time, of one subject, at one stage, for one reason, in one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LossRow {
    /// Counted after this time, nanoseconds since run start.
    pub from_ns: u64,
    /// Counted before this time.
    pub until_ns: u64,
    /// Whose it was: the name of a source, board, link or unit, as in `sources` of `run.json`.
    pub subject: String,
    /// Word of the [stage](thalweg_data::Stage) that counted it.
    pub stage: String,
    /// Word of the [reason](LossReason), or [`LIST_FULL`].
    pub reason: String,
    /// Word of the [unit](thalweg_data::Unit).
    pub unit: String,
    /// The first trigger that it concerns, where the stage knows trigger numbers.
    pub first: Option<u64>,
    /// The last one. Where there are more between the two than `count`, some of these are concerned.
    pub last: Option<u64>,
    /// How many. Negative where losses that rows before this one have are taken back: another row has them under another reason.
    pub count: i64,
    /// Word of how well that is known.
    pub quality: String,
}

impl LossRow {
    /// Whether the row is no loss, but says that the list is cut.
    pub fn is_end_of_list(&self) -> bool {
        self.reason == LIST_FULL
    }

    /// Whether the same loss stands under its reason elsewhere: missing on the wire, because it was refused behind it.
    pub fn is_echo(&self) -> bool {
        let is_gap = || LossReason::from_word(&self.reason).is_some_and(LossReason::is_gap);
        let by_numbers = |stage: Stage| stage.role() == StageRole::SequenceNumbers;
        Stage::from_word(&self.stage).is_some_and(by_numbers) && !is_gap()
    }

    /// Says that the list is cut from `from_ns` on: what was lost in `not_written` rows stands joined in the rows before this one,
    /// or is in the ledger alone where the run has not ended.
    pub(crate) fn end_of_list(from_ns: u64, until_ns: u64, not_written: Option<u64>) -> LossRow {
        let quality = if not_written.is_some() { Quality::Exact } else { Quality::Unknown };
        LossRow {
            from_ns,
            until_ns,
            subject: Table::Losses.word().to_owned(),
            stage: Stage::Record.word().to_owned(),
            reason: LIST_FULL.to_owned(),
            unit: "rows".to_owned(),
            first: None,
            last: None,
            count: i64::try_from(not_written.unwrap_or(0)).unwrap_or(i64::MAX),
            quality: quality.word().to_owned(),
        }
    }

    /// How well losses of this reason are known.
    pub(crate) fn quality_of(reason: LossReason) -> String {
        reason.quality().word().to_owned()
    }

    /// Appends the row to columns of the table.
    pub(crate) fn push_to(&self, columns: &mut Columns) {
        columns.push(0, self.from_ns.to_le_bytes());
        columns.push(1, self.until_ns.to_le_bytes());
        columns.push_text(2, &self.subject);
        columns.push_text(3, &self.stage);
        columns.push_text(4, &self.reason);
        columns.push_text(5, &self.unit);
        columns.push_optional(6, self.first.map(u64::to_le_bytes));
        columns.push_optional(7, self.last.map(u64::to_le_bytes));
        columns.push(8, self.count.to_le_bytes());
        columns.push_text(9, &self.quality);
        columns.end_row();
    }
}

impl std::fmt::Display for LossRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LossRow { subject, stage, reason, unit, count, quality, .. } = self;
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let (from, until) = (seconds(self.from_ns), seconds(self.until_ns));
        write!(
            f,
            "{from:.3} s to {until:.3} s: {count} {unit} of {subject} at {stage}: {reason} ({quality})"
        )?;
        match (self.first, self.last) {
            (Some(first), Some(last)) => write!(f, ", triggers {first} to {last}"),
            _ => Ok(()),
        }
    }
}
