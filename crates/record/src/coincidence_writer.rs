//! The recording of coincidences: events of self-triggered hits, as the table `coincidences`.
//!
//! ```text
//!  HitEvents ──► a row per hit, event by event ──► coincidences.arrows
//! ```
//! A row group takes whole events, so that none straddles two batches. Every event has its number on each of its rows; numbers
//! grow, and those that are missing were dropped by a cut on events, or lost, as the ledger says.

use std::path::Path;

use thalweg_data::{Counters, HitEvents, LossReason, Mark, SinkError, Unit};

use crate::amounts::Amounts;
use crate::coincidence_columns::CoincidenceColumns;
use crate::error::RecordError;
use crate::ipc::columns::Batch;
use crate::ipc::file::{TableFile, TableSummary};
use crate::row_group::{RowGroup, RowGroupSink};
use crate::settings::Settings;
use crate::table::Table;

/// Most hits of one event. A larger one is counted as lost: its batch would be beyond what is reserved for it.
pub const MOST_EVENT_HITS: u32 = 1 << 20;

/// Records events of hits. To be made where the table is kept: what comes is counted as recorded.
pub struct CoincidenceWriter {
    sink: RowGroupSink<CoincidenceRowGroup>,
    amounts: Amounts,
    /// How far time has passed.
    mark: Mark,
}

/// Rows of the table, and how many events they are of.
struct CoincidenceRowGroup {
    columns: CoincidenceColumns,
    amounts: Amounts,
    most_hits: usize,
}

impl CoincidenceWriter {
    /// Makes the file in `directory`, and room for the first batch. `sources` are the names of the sources, by number; they
    /// go into the schema.
    ///
    /// # Errors
    /// When the file exists already or cannot be made.
    pub fn create(
        directory: &Path,
        settings: &Settings,
        sources: &[String],
    ) -> Result<CoincidenceWriter, RecordError> {
        let names = serde_json::to_string(sources).unwrap_or_default();
        let table = Table::Coincidences;
        let file = TableFile::create(&directory.join(table.file_name()), table, &[("sources", &names)])?;
        let sink = RowGroupSink::new(vec![file], &[], 0, settings, CoincidenceRowGroup::new)?;
        Ok(CoincidenceWriter { sink, amounts: Amounts::default(), mark: Mark::default() })
    }

    /// Takes events. Their age is counted from the newest mark that [`CoincidenceWriter::advance`] was given.
    ///
    /// # Errors
    /// When the disk is full or fails; the events that are refused are counted as lost.
    pub fn write(&mut self, batch: &HitEvents) -> Result<(), SinkError> {
        let (mut rest, mut result) = (&batch.events[..], Ok(()));
        while !rest.is_empty() {
            let most = self.sink.open_group().capacity();
            let (events, is_too_large) = first_of(rest, most);
            let (now, later) = rest.split_at(events);
            rest = later;
            self.amounts.clear();
            self.amounts.add_events(events as u64);
            if is_too_large {
                self.sink.turn_away(&self.amounts, LossReason::TooLarge);
                continue;
            }
            let amounts = &self.amounts;
            // Of a refused batch the first events may have been taken; what comes behind is offered, too, and counted.
            result = result.and(self.sink.take(self.mark, amounts, |rows| {
                rows.columns.append(batch, now);
                rows.amounts.add_all(amounts);
            }));
        }
        result
    }

    /// Lets time pass: what has waited long enough is written.
    ///
    /// # Errors
    /// As for `write`.
    pub fn advance(&mut self, mark: Mark) -> Result<(), SinkError> {
        self.mark = self.mark.max(mark);
        self.sink.advance(self.mark)
    }

    /// Writes everything that there is. What a full disk refuses stays here, for another try.
    ///
    /// # Errors
    /// As for `write`.
    pub fn complete(&mut self) -> Result<(), SinkError> {
        self.sink.complete()
    }

    /// Writes everything and forces it to the disk. What cannot be written is lost.
    ///
    /// # Errors
    /// As for `write`.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }

    /// Events: in, out, held, lost.
    pub fn counters(&self) -> &Counters {
        self.sink.events_counters()
    }

    /// Returns a summary of what the file holds.
    pub fn summaries(&self) -> Vec<TableSummary> {
        self.sink.summaries()
    }

    /// Events that readers see on file.
    pub fn events_on_file(&self) -> u64 {
        self.counters().total_output(Unit::Events)
    }

    /// Hits of these events, one row each.
    pub fn hits_on_file(&self) -> u64 {
        self.sink.rows_on_file(Table::Coincidences)
    }
}

/// How many events, from the first, make `most` hits: at least one. One that is beyond measure comes alone.
fn first_of(events: &[thalweg_data::HitEvent], most: usize) -> (usize, bool) {
    let mut hits = 0;
    for (place, event) in events.iter().enumerate() {
        let is_too_large = event.count > MOST_EVENT_HITS;
        if place > 0 && (is_too_large || hits >= most) {
            return (place, false);
        }
        if is_too_large {
            return (1, true);
        }
        hits += event.count as usize;
    }
    (events.len(), false)
}

impl CoincidenceRowGroup {
    fn new(settings: &Settings) -> CoincidenceRowGroup {
        CoincidenceRowGroup {
            // Some more than a full row group: the event that fills it may go over.
            columns: CoincidenceColumns::with_capacity(settings.batch_hits + settings.batch_hits / 16),
            amounts: Amounts::default(),
            most_hits: settings.batch_hits.max(1),
        }
    }

    /// Hits that it takes before it is full.
    fn capacity(&self) -> usize {
        match self.is_full() {
            true => self.most_hits,
            false => self.most_hits - self.columns.rows(),
        }
    }
}

impl RowGroup for CoincidenceRowGroup {
    fn batch(&self, table: Table) -> Option<&dyn Batch> {
        (table == Table::Coincidences && self.columns.rows() > 0).then_some(&self.columns as &dyn Batch)
    }

    fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    fn is_full(&self) -> bool {
        self.columns.rows() >= self.most_hits
    }

    fn is_empty(&self) -> bool {
        self.columns.rows() == 0
    }

    fn seal(&mut self) {
        self.columns.seal();
    }

    fn clear(&mut self) {
        self.columns.clear();
        self.amounts.clear();
    }
}
