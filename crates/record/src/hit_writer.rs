//! The recording of hits: a [`Sink`] that writes `hits`, `extras`, `waveforms` and `statistics`.
//!
//! ```text
//!  Hits (merged) ──► HitRowGroup { hit columns, extra columns } ──► RowGroupSink ──► *.arrows
//!    │ └ shares ───► amounts per source: in, held, out, lost
//!    └ verdicts ───► those that do not pass, per source by their channels: filtered
//! ```
//! Rows of `hits` are committed last, so that every row of `extras` and `waveforms` that a reader sees belongs to a hit
//! that it sees in a moment, and a killed run is cut at the hits.

use std::path::Path;

use thalweg_data::record_join::{JoinCounts, RecordJoin};
use thalweg_data::waveform_facts::WaveformFacts;
use thalweg_data::{Counters, Hits, Mark, Sink, SinkError, SourceId, Unit};

use crate::amounts::Amounts;
use crate::error::RecordError;
use crate::extra_columns::ExtraColumns;
use crate::hit_columns::HitColumns;
use crate::ipc::columns::Batch;
use crate::ipc::file::{TableFile, TableSummary};
use crate::row_group::{RowGroup, RowGroupSink};
use crate::settings::{RecordedHits, Settings};
use crate::table::Table;
use crate::waveform_sources::WaveformSources;

/// Tables in the order in which they are committed.
const TABLES: [Table; 4] = [Table::Extras, Table::Waveforms, Table::Statistics, Table::Hits];

/// Records merged hits and all that belongs to them.
pub struct HitWriter {
    sink: RowGroupSink<HitRowGroup>,
    next_row: u64,
    amounts: Amounts,
    /// Whose hits were left out of the batch at hand.
    left_out: Amounts,
    /// What of these the channels say.
    dropped: Amounts,
    which: RecordedHits,
    /// By channel, the source that sends it.
    sources: Box<[SourceId]>,
    /// The latest scope record of each channel.
    joins: RecordJoin,
}

/// Rows of all tables of hits.
struct HitRowGroup {
    hits: HitColumns,
    extra: ExtraColumns,
    amounts: Amounts,
    most_hits: usize,
    most_bytes: usize,
}

impl HitWriter {
    /// Makes the files of the tables that `settings` keep in `directory`, and room for the first batch. `sources` are
    /// the names of the sources, by number; they go into the schema.
    ///
    /// # Errors
    /// When a file exists already or cannot be made.
    pub fn create(
        directory: &Path,
        settings: &Settings,
        sources: &[String],
    ) -> Result<HitWriter, RecordError> {
        HitWriter::create_of(directory, settings, sources, &[])
    }

    /// The same where something is known of the sources' waveforms, which goes into the schema and the rows of `waveforms`.
    ///
    /// # Errors
    /// As for `create`.
    pub fn create_of(
        directory: &Path,
        settings: &Settings,
        sources: &[String],
        waveforms: &[WaveformFacts],
    ) -> Result<HitWriter, RecordError> {
        let waveforms = WaveformSources::new(waveforms);
        let (names, facts) = (serde_json::to_string(sources).unwrap_or_default(), waveforms.words(sources));
        let create = |table: Table| {
            let path = directory.join(table.file_name());
            let metadata = [("sources", &names[..]), ("waveforms", &facts)];
            match table {
                Table::Waveforms => TableFile::create_of(&path, table, waveforms.columns(), &metadata),
                _ => TableFile::create(&path, table, &metadata[..1]),
            }
        };
        let files = TABLES.into_iter().filter(|table| settings.keeps(*table)).map(create);
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let group = move |settings: &Settings| HitRowGroup::new(settings, &waveforms);
        let sink = RowGroupSink::new(files, &[Unit::Hits], sources.len(), settings, group)?;
        Ok(HitWriter {
            sink,
            next_row: 0,
            amounts: Amounts::default(),
            left_out: Amounts::default(),
            dropped: Amounts::default(),
            which: settings.hits,
            sources: Box::default(),
            joins: RecordJoin::default(),
        })
    }

    /// Writes on a thread of its own: a disk that is slow for a moment does not hold up who gives the hits, who can meanwhile fill the next batch.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn write_beside(mut self) -> Result<HitWriter, RecordError> {
        self.sink.write_beside()?;
        Ok(self)
    }

    /// Sets which source sends each channel, by its number: whose the hits are that do not pass a cut is counted by it.
    /// Without it, and of channels beyond its end, they are counted as of the sources whose shares come first.
    pub fn with_sources_of_channels(mut self, sources: Box<[SourceId]>) -> HitWriter {
        self.sources = sources;
        self
    }

    /// Takes a batch with what the cuts say of each hit: 0 where it does not pass, `None` when all do. With
    /// `[record] hits = "kept"` those that do not pass are left out with all that belongs to them, and counted as filtered;
    /// with `"all"` this is [`Sink::write`].
    ///
    /// # Errors
    /// As for [`Sink::write`].
    ///
    /// # Panics
    /// When there are not as many verdicts as hits.
    pub fn write_passing(&mut self, hits: &Hits, pass: Option<&[u8]>) -> Result<(), SinkError> {
        let pass = pass.filter(|_| self.which == RecordedHits::Kept);
        assert!(pass.is_none_or(|pass| pass.len() == hits.hits.len()), "one verdict for each hit");
        if hits.is_empty() {
            return self.sink.advance(hits.header.mark);
        }
        self.enter_shares(hits);
        if let Some(pass) = pass {
            self.leave_out(hits, pass);
        }
        self.sink.leave_out(&self.left_out);
        if self.amounts.is_zero() && hits.statistics.is_empty() {
            if !self.left_out.is_zero() {
                // Of these hits no record is on file.
                self.joins.interrupt_all();
            }
            return self.sink.advance(hits.header.mark);
        }
        let (first_row, amounts, next_row) = (self.next_row, &self.amounts, &mut self.next_row);
        let joins = &mut self.joins;
        let taken = self.sink.take(hits.header.mark, amounts, |rows| {
            let before = rows.hits.rows();
            match pass {
                Some(pass) => rows.hits.append_passing(&hits.hits, pass),
                None => rows.hits.append(&hits.hits),
            }
            rows.extra.append(hits, pass, first_row, joins);
            rows.amounts.add_all(amounts);
            // Only hits that are taken get a row.
            *next_row += (rows.hits.rows() - before) as u64;
        });
        // The records of a refused batch are not on file.
        taken.inspect_err(|_| self.joins.interrupt_all())
    }

    /// How many scope records continue the one before on their channel, and how many claim what cannot be. Nothing is joined where
    /// waveforms are not recorded.
    pub fn joins(&self) -> JoinCounts {
        self.joins.counts()
    }

    /// Enters whose hits a batch holds.
    fn enter_shares(&mut self, hits: &Hits) {
        self.amounts.clear();
        self.left_out.clear();
        if hits.shares.is_empty() {
            self.amounts.add(hits.header.source, [hits.hits.len() as u64, 0]);
        }
        for share in &hits.shares {
            self.amounts.add(share.source, [u64::from(share.hits), 0]);
        }
    }

    /// Moves the hits that do not pass from their sources' amounts to what is left out. The ledger balances whatever is known of
    /// channels: no source is said to have left out more than came.
    fn leave_out(&mut self, hits: &Hits, pass: &[u8]) {
        let HitWriter { amounts, left_out, dropped, .. } = self;
        let mut rest = 0;
        dropped.clear();
        for (hit, _) in hits.hits.iter().zip(pass).filter(|(_, pass)| **pass == 0) {
            rest += 1;
            if let Some(source) = self.sources.get(usize::from(hit.channel)) {
                dropped.add(*source, [1, 0]);
            }
        }
        for source in amounts.sources() {
            rest -= amounts.give(left_out, source, dropped.first_of(source));
        }
        for source in amounts.sources() {
            rest -= amounts.give(left_out, source, rest);
        }
    }

    /// What the files hold.
    pub fn summaries(&self) -> Vec<TableSummary> {
        self.sink.summaries()
    }

    /// Hits that readers see on file.
    pub fn hits_on_file(&self) -> u64 {
        self.sink.rows_on_file(Table::Hits)
    }
}

impl Sink for HitWriter {
    fn write(&mut self, hits: &Hits) -> Result<(), SinkError> {
        self.write_passing(hits, None)
    }

    fn advance(&mut self, mark: Mark) -> Result<(), SinkError> {
        self.sink.advance(mark)
    }

    fn complete(&mut self) -> Result<(), SinkError> {
        self.sink.complete()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }

    fn counters(&self, source: SourceId) -> &Counters {
        self.sink.counters(source)
    }
}

impl HitRowGroup {
    fn new(settings: &Settings, waveforms: &WaveformSources) -> HitRowGroup {
        HitRowGroup {
            // One incoming batch more than a full row group: the batch that fills it may go over.
            hits: HitColumns::with_capacity(settings.batch_hits + settings.batch_hits / 4),
            extra: ExtraColumns::new(|table| settings.keeps(table), waveforms),
            amounts: Amounts::default(),
            most_hits: settings.batch_hits.max(1),
            most_bytes: settings.batch_bytes.max(1),
        }
    }
}

impl RowGroup for HitRowGroup {
    fn batch(&self, table: Table) -> Option<&dyn Batch> {
        let extra = match table {
            Table::Hits => return (self.hits.rows() > 0).then_some(&self.hits as &dyn Batch),
            Table::Extras => &self.extra.extras,
            Table::Waveforms => &self.extra.waveforms,
            Table::Statistics => &self.extra.statistics,
            Table::Raw
            | Table::Events
            | Table::Fragments
            | Table::Coincidences
            | Table::Losses
            | Table::Ranges
            | Table::Series => return None,
        };
        extra.as_ref().filter(|columns| columns.rows() > 0).map(|columns| columns as &dyn Batch)
    }

    fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    fn is_full(&self) -> bool {
        self.hits.rows() >= self.most_hits || self.extra.byte_count() >= self.most_bytes
    }

    fn is_empty(&self) -> bool {
        self.hits.rows() == 0 && self.extra.is_empty()
    }

    fn seal(&mut self) {
        self.hits.seal();
    }

    fn clear(&mut self) {
        self.hits.clear();
        self.extra.clear();
        self.amounts.clear();
    }
}
