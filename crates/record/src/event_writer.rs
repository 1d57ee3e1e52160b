//! The recording of events: an [`EventSink`] that writes `events` and `fragments`.
//!
//! ```text
//!  Events ──► a row per event ─────────────────────────► events.arrows
//!    │  └───► a row per fragment, event by event ┐
//!    └ blocks: |fragment|fragment|…| ── Gather ──┴─────► fragments.arrows
//! ```
//! Payload is written from the blocks where it was received. A row group takes whole events, so that none straddles two
//! batches of either table; rows of `events` are committed last, so that every event that a reader sees has its
//! fragments. Until a row group is written its blocks stay on loan: at most `batch_bytes` of payload and one event, or
//! [`MOST_BLOCKS`] blocks, for at most `batch_age_s`; with compression they go back as soon as it is compressed.

use thalweg_data::{
    Counters, Event, EventSink, Events, Fragment, LossReason, Mark, SinkError, Slice, SourceId, Unit,
};

use crate::amounts::Amounts;
use crate::directory::EventFiles;
use crate::error::RecordError;
use crate::fragment_columns::{self, FragmentColumns};
use crate::ipc::columns::{Batch, Columns};
use crate::ipc::file::{TableFile, TableSummary};
use crate::row_group::{RowGroup, RowGroupSink};
use crate::settings::Settings;
use crate::table::Table;

/// Most blocks that a row group in the making keeps on loan: two each of 512 sources. One event may go beyond.
pub const MOST_BLOCKS: usize = 1024;
/// Most bytes of one event. A larger one is counted as lost: its batch would be beyond what readers take.
pub const MOST_EVENT_BYTES: u64 = 256 << 20;
/// Rows per batch that are never exceeded but by one event.
const MOST_ROWS: usize = 128 * 1024;
/// Bytes that the rows of a row group take at most beside the lists of missing sources: those of an event, those of a fragment.
pub(crate) const MOST_ROW_BYTES: u64 = MOST_ROWS as u64 * (50 + fragment_columns::ROW_BYTES);

/// Records built events.
pub struct EventWriter {
    sink: RowGroupSink<EventRowGroup>,
    next_fragment: u64,
    amounts: Amounts,
}

/// Rows of both tables, and the right to read what they name.
struct EventRowGroup {
    events: Columns,
    fragments: FragmentColumns,
    amounts: Amounts,
    keeps_fragments: bool,
    most_bytes: usize,
}

/// Events of a batch that enter one row group.
struct Group<'a> {
    events: &'a [Event],
    fragments: &'a [Fragment],
    slices: &'a [Slice],
}

impl EventWriter {
    /// Makes the `files` of those tables that `settings` keep. `sources` are the names of the sources, by number;
    /// `ordered` says whether the events come in the order of their triggers. Both go into the schema, and a check of
    /// the recording holds it to them.
    ///
    /// # Errors
    /// When a file exists already or cannot be made.
    pub fn create(
        files: &EventFiles,
        settings: &Settings,
        sources: &[String],
        ordered: bool,
    ) -> Result<EventWriter, RecordError> {
        let names = serde_json::to_string(sources).unwrap_or_default();
        let metadata = [("sources", &names[..]), ("ordered", if ordered { "true" } else { "false" })];
        let files = [(Table::Fragments, &files.fragments), (Table::Events, &files.events)]
            .into_iter()
            .filter(|(table, _)| settings.keeps(*table))
            .map(|(table, path)| TableFile::create(path, table, &metadata))
            .collect::<Result<Vec<_>, _>>()?;
        let units = &[Unit::Fragments, Unit::Bytes];
        let sink = RowGroupSink::new(files, units, sources.len(), settings, EventRowGroup::new)?;
        Ok(EventWriter { sink, next_fragment: 0, amounts: Amounts::default() })
    }

    /// Returns a summary of what the files hold.
    pub fn summaries(&self) -> Vec<TableSummary> {
        self.sink.summaries()
    }

    /// Events that readers see on file.
    pub fn events_on_file(&self) -> u64 {
        self.sink.rows_on_file(Table::Events)
    }

    /// Events that were given and need not be kept by anyone any more: they are on file (on the
    /// disk, where `[record] sync` asks for that), left out on request, or counted as lost.
    pub fn events_settled(&self) -> u64 {
        let counters = self.sink.events_counters();
        let settled = counters.total_output(Unit::Events) + counters.total_filtered(Unit::Events);
        settled + counters.total_lost_any(Unit::Events)
    }

    /// Writes what it holds although there is little of it: somebody waits for it to be on file. With compression it is written when
    /// it is compressed.
    ///
    /// # Errors
    /// As [`EventSink::write`].
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }

    /// As [`EventWriter::flush`], and forces it to the disk where `[record] sync` asks for that, although it is not due.
    ///
    /// # Errors
    /// As [`EventSink::write`].
    pub fn force(&mut self) -> Result<(), SinkError> {
        self.sink.force()
    }

    fn write_group(&mut self, batch: &Events, group: &Group<'_>) -> Result<(), SinkError> {
        let (next_fragment, amounts) = (&mut self.next_fragment, &self.amounts);
        self.sink.take(batch.header.mark, amounts, |rows| {
            rows.append(batch, group, *next_fragment);
            rows.amounts.add_all(amounts);
            // Only fragments that are taken get a row.
            *next_fragment += group.fragments.len() as u64;
        })
    }
}

impl EventSink for EventWriter {
    fn write(&mut self, events: &Events) -> Result<(), SinkError> {
        if events.events.is_empty() {
            return self.advance(events.header.mark);
        }
        let (mut rest, mut result) = (Group::all(events), Ok(()));
        while !rest.events.is_empty() {
            self.amounts.clear();
            let group = rest.take(self.sink.open_group().capacity(), &mut self.amounts);
            if group.is_too_large() {
                self.sink.turn_away(&self.amounts, LossReason::TooLarge);
                continue;
            }
            // Of a refused batch the first events may have been taken. What comes behind a refused group is offered, too:
            // each is counted, and the first refusal is reported.
            result = result.and(self.write_group(events, &group));
        }
        result
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

    fn counters(&self) -> &Counters {
        self.sink.events_counters()
    }

    fn source_counters(&self, source: SourceId) -> &Counters {
        self.sink.counters(source)
    }
}

impl<'a> Group<'a> {
    fn all(batch: &'a Events) -> Group<'a> {
        Group { events: &batch.events, fragments: &batch.fragments, slices: &batch.slices }
    }

    /// Takes events from the front until they fill `capacity` bytes of payload and lists, at least one; one that is too large
    /// comes alone. Adds them to `amounts`.
    fn take(&mut self, capacity: usize, amounts: &mut Amounts) -> Group<'a> {
        let (mut events, mut fragments, mut slices, mut bytes) = (0, 0, 0, 0u64);
        for event in self.events {
            let full = bytes >= capacity as u64 || fragments >= MOST_ROWS || events >= MOST_ROWS;
            if events > 0 && (full || event.bytes > MOST_EVENT_BYTES) {
                break;
            }
            let own = &self.fragments[fragments..][..event.fragments as usize];
            for fragment in own {
                amounts.add(fragment.source, [1, u64::from(fragment.bytes)]);
                slices += usize::from(fragment.slices);
            }
            events += 1;
            fragments += own.len();
            bytes += event.bytes + u64::from(event.missing) * size_of::<SourceId>() as u64;
            if event.bytes > MOST_EVENT_BYTES {
                break;
            }
        }
        amounts.add_events(events as u64);
        let (own_events, later_events) = self.events.split_at(events);
        let (own_fragments, later_fragments) = self.fragments.split_at(fragments);
        let (own_slices, later_slices) = self.slices.split_at(slices);
        *self = Group { events: later_events, fragments: later_fragments, slices: later_slices };
        Group { events: own_events, fragments: own_fragments, slices: own_slices }
    }

    fn is_too_large(&self) -> bool {
        self.events.len() == 1 && self.events[0].bytes > MOST_EVENT_BYTES
    }
}

impl EventRowGroup {
    fn new(settings: &Settings) -> EventRowGroup {
        EventRowGroup {
            events: Columns::new(Table::Events),
            fragments: FragmentColumns::default(),
            amounts: Amounts::default(),
            keeps_fragments: settings.keeps(Table::Fragments),
            most_bytes: settings.batch_bytes.max(1),
        }
    }

    /// Bytes of payload that it takes before it is full.
    fn capacity(&self) -> usize {
        match self.is_full() {
            true => self.most_bytes,
            false => self.most_bytes - self.fragments.payload_bytes(),
        }
    }

    fn append(&mut self, batch: &Events, group: &Group<'_>, mut next_fragment: u64) {
        for event in group.events {
            self.append_event(event, batch.missing_of(event), next_fragment);
            next_fragment += u64::from(event.fragments);
        }
        if self.keeps_fragments {
            self.fragments.append(group.fragments, group.slices, &batch.leases);
        }
    }

    fn append_event(&mut self, event: &Event, missing: &[SourceId], first_fragment: u64) {
        let columns = &mut self.events;
        columns.push(0, event.trigger.to_le_bytes());
        columns.push(1, [event.closing as u8]);
        columns.push(2, event.fragments.to_le_bytes());
        columns.push_list(3, missing.len(), |bytes| {
            let to = bytes.as_chunks_mut::<2>().0.iter_mut();
            to.zip(missing).for_each(|(to, source)| *to = source.0.to_le_bytes());
        });
        columns.push(4, event.bytes.to_le_bytes());
        columns.push(5, event.first_arrival.0.to_le_bytes());
        columns.push(6, event.closed.0.to_le_bytes());
        columns.push(7, [event.attempt]);
        columns.push(8, first_fragment.to_le_bytes());
        columns.end_row();
    }
}

impl RowGroup for EventRowGroup {
    fn batch(&self, table: Table) -> Option<&dyn Batch> {
        match table {
            Table::Events => (self.events.rows() > 0).then_some(&self.events as &dyn Batch),
            Table::Fragments => (self.fragments.rows() > 0).then_some(&self.fragments as &dyn Batch),
            _ => None,
        }
    }

    fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    fn is_full(&self) -> bool {
        self.fragments.payload_bytes() >= self.most_bytes
            || self.fragments.blocks() >= MOST_BLOCKS
            || self.fragments.rows() >= MOST_ROWS
            || self.events.rows() >= MOST_ROWS
            || self.events.byte_count() >= self.most_bytes
    }

    fn is_empty(&self) -> bool {
        self.events.rows() == 0
    }

    fn seal(&mut self) {
        self.fragments.seal();
    }

    fn release(&mut self) {
        self.fragments.release();
    }

    fn clear(&mut self) {
        self.events.clear();
        self.fragments.clear();
        self.amounts.clear();
    }
}
