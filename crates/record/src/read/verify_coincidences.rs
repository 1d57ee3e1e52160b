//! Whether the table of coincidences agrees with itself.
//!
//! ```text
//!  rows of one number ──► whole in one batch · one reference, at dt 0 · one time · one multiplicity · hits in time order
//!  numbers            ──► each larger than the one before
//! ```
//! Hits are not looked up in the table `hits`: a run may keep one without the other.

use std::ops::Range;

use serde::Serialize;
use thalweg_data::Flags;

use super::coincidences::CoincidenceRows;
use super::table_reader::{BatchHead, TableReader};
use super::verify::VerifyReport;
use crate::error::RecordError;

/// What [`verify`](super::verify()) found of coincidences.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CoincidencesReport {
    /// Events.
    pub events: u64,
    /// Their hits: rows of the table.
    pub hits: u64,
    /// Events whose number is not larger than that of the one before.
    pub out_of_order: u64,
    /// Events whose rows contradict each other.
    pub contradictory: u64,
}

/// Goes through the table batch by batch.
#[derive(Default)]
pub(super) struct CoincidenceCheck {
    last: Option<u64>,
}

impl CoincidenceCheck {
    pub(super) fn batch(
        &mut self,
        report: &mut VerifyReport,
        file: &str,
        reader: &TableReader,
        head: &BatchHead,
    ) -> Result<(), RecordError> {
        let rows = CoincidenceRows::load(reader, head)?;
        for range in rows.ranges() {
            let number = rows.event(range.clone()).number;
            report.coincidences.events += 1;
            report.coincidences.hits += range.len() as u64;
            if let Some(last) = self.last.replace(number)
                && last >= number
            {
                report.coincidences.out_of_order += 1;
                report.row_problem(file, format_args!("event {number} comes behind event {last}"));
            }
            if let Some(text) = contradiction(&rows, range) {
                report.coincidences.contradictory += 1;
                report.row_problem(file, format_args!("event {number}: {text}"));
            }
        }
        Ok(())
    }
}

/// What is wrong with one event's rows.
fn contradiction(rows: &CoincidenceRows, range: Range<usize>) -> Option<&'static str> {
    let event = rows.event(range.clone());
    let members = &rows.members()[range.clone()];
    let references = range.clone().filter(|row| rows.is_reference(*row)).count();
    let reference = range.start + usize::from(event.reference);
    let time_of = |row: usize| rows.members()[row].time_ps.wrapping_sub(rows.dt_ps(row));
    if references != 1 {
        return Some("it has not one reference");
    }
    if rows.dt_ps(reference) != 0 {
        return Some("its reference lies beside its time");
    }
    if range.clone().any(|row| time_of(row) != event.time_ps) {
        return Some("its times and differences contradict each other");
    }
    if range.clone().any(|row| rows.multiplicity(row) != event.multiplicity) {
        return Some("its rows have different multiplicities");
    }
    if usize::from(event.multiplicity) > members.len() {
        return Some("its multiplicity is larger than the number of its hits");
    }
    let on_time = members.iter().filter(|hit| !hit.flags.has(Flags::LATE));
    (!on_time.map(|hit| hit.time_ps).is_sorted()).then_some("its hits are not in the order of time")
}
