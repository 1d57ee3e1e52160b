//! Whether the list of losses says what the ledger says.
//!
//! ```text
//!  losses.arrows ──► sums by subject, stage, reason, unit ──► equal to those in run.json
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

use super::losses::rows_of;
use super::table_reader::{BatchHead, TableReader};
use super::verify::VerifyReport;
use crate::error::RecordError;
use crate::run_record::LedgerRecord;

/// What [`verify`](super::verify()) found in the list of losses.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LossesReport {
    /// Rows that are losses.
    pub rows: u64,
    /// Whether the list was full, and what was lost after that is joined at its end.
    pub is_cut: bool,
    /// How many were lost: subject, stage, reason, unit.
    #[serde(skip)]
    sums: BTreeMap<[String; 4], i64>,
}

/// Checks the rows one after another.
#[derive(Debug, Default)]
pub(super) struct LossesCheck {
    last_until_ns: u64,
}

impl LossesCheck {
    /// Checks one batch.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn batch(
        &mut self,
        report: &mut VerifyReport,
        file: &str,
        reader: &TableReader,
        head: &BatchHead,
    ) -> Result<(), RecordError> {
        for row in rows_of(reader, head)? {
            let is_in_order = row.from_ns <= row.until_ns && row.until_ns >= self.last_until_ns;
            let triggers_fit = match (row.first, row.last) {
                (Some(first), Some(last)) => first <= last,
                (first, last) => first == last,
            };
            if !is_in_order || !triggers_fit {
                report.row_problem(file, format_args!("times or triggers of a row are out of order: {row}"));
            }
            self.last_until_ns = self.last_until_ns.max(row.until_ns);
            if row.is_end_of_list() {
                report.losses.is_cut = true;
                continue;
            }
            report.losses.rows += 1;
            let sum = report.losses.sums.entry([row.subject, row.stage, row.reason, row.unit]).or_default();
            *sum = sum.saturating_add(row.count);
        }
        Ok(())
    }
}

/// Compares the sums of the list with the ledger of a run that has ended.
pub(super) fn compare_losses(report: &mut VerifyReport, ledger: &LedgerRecord) {
    let mut said = BTreeMap::<[String; 4], i64>::new();
    for loss in ledger.losses.as_array().into_iter().flatten() {
        let word = |key: &str| loss[key].as_str().unwrap_or_default().to_owned();
        let sum = said.entry(["source", "stage", "reason", "unit"].map(word)).or_default();
        *sum = sum.saturating_add(loss["count"].as_i64().unwrap_or(0));
    }
    let found = std::mem::take(&mut report.losses.sums);
    let keys: std::collections::BTreeSet<_> = said.keys().chain(found.keys()).cloned().collect();
    for key in keys {
        let of = |sums: &BTreeMap<[String; 4], i64>| sums.get(&key).copied().unwrap_or(0);
        let (listed, counted) = (of(&found), of(&said));
        if listed != counted {
            let [subject, stage, reason, unit] = &key;
            report.problem(format!(
                "losses.arrows: {listed} {unit} of {subject} lost at {stage} as {reason}, and {counted} in the ledger"
            ));
        }
    }
}
