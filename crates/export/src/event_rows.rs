//! The rows of the table `events` beside the fragments that belong to them.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};

use crate::error::ExportError;
use crate::run_source::RunSource;
use crate::table_stream::TableStream;

/// One event, without its fragments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventRow {
    /// Number of the trigger.
    pub trigger: u64,
    /// How many rows of `fragments` it has.
    pub fragments: usize,
    /// When its first fragment arrived.
    pub first_arrival_ns: u64,
    /// When it was passed on.
    pub closed_ns: u64,
    /// How often it was built before.
    pub attempt: u8,
    /// Number of the reason why it was passed on.
    pub closing: u8,
    /// Of a run with an event filter, number of the reason why it is recorded.
    pub selected: Option<u8>,
    /// Sources that did not answer, little-endian.
    pub missing: Vec<u8>,
}

/// Reads events one after the other.
#[derive(Debug)]
pub(crate) struct EventRows {
    stream: TableStream,
    batch: Option<RecordBatch>,
    row: usize,
}

impl EventRows {
    /// Of the batches of a table of events.
    pub fn new(stream: TableStream) -> EventRows {
        EventRows { stream, batch: None, row: 0 }
    }

    /// Checks, behind the last event, that the table has all that `run` has recorded.
    ///
    /// # Errors
    /// When rows are missing.
    pub fn end(&mut self, run: &RunSource) -> Result<(), ExportError> {
        self.stream.end(run)
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// When its batch is damaged.
    pub fn next_event(&mut self) -> Result<Option<EventRow>, ExportError> {
        while self.batch.as_ref().is_none_or(|batch| batch.num_rows() == self.row) {
            match self.stream.next_batch()? {
                Some(batch) => (self.batch, self.row) = (Some(batch), 0),
                None => return Ok(None),
            }
        }
        let row = self.row;
        self.row += 1;
        Ok(self.batch.as_ref().map(|batch| event_in(batch, row)))
    }
}

/// A row of a batch whose columns are those of the table, as its reader has checked.
fn event_in(batch: &RecordBatch, row: usize) -> EventRow {
    let number = |column: usize| batch.column(column).as_primitive::<UInt64Type>().value(row);
    let missing = batch.column(3).as_list::<i32>().value(row);
    let missing = missing.as_primitive::<UInt16Type>().values();
    let selected = batch.column_by_name("selected");
    EventRow {
        trigger: number(0),
        closing: batch.column(1).as_dictionary::<UInt8Type>().keys().value(row),
        fragments: batch.column(2).as_primitive::<UInt32Type>().value(row) as usize,
        missing: missing.iter().flat_map(|source| source.to_le_bytes()).collect(),
        first_arrival_ns: number(5),
        closed_ns: number(6),
        attempt: batch.column(7).as_primitive::<UInt8Type>().value(row),
        selected: selected.map(|column| column.as_dictionary::<UInt8Type>().keys().value(row)),
    }
}
