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
    Counters, Event, EventSink, Events, Fragment, LossReason, Mark, Selected, SinkError, Slice, SourceId,
    Unit,
};

use crate::amounts::Amounts;
use crate::directory::EventFiles;
use crate::error::RecordError;
use crate::fragment_columns::{self, FragmentColumns};
use crate::ipc::columns::{Batch, Columns};
use crate::ipc::file::{TableFile, TableSummary};
use crate::row_group::{RowGroup, RowGroupSink};
use crate::settings::Settings;
use crate::table::{Column, Table};

/// Most blocks that a row group in the making keeps on loan: two each of 512 sources. One event may go beyond.
pub const MOST_BLOCKS: usize = 1024;
/// Most bytes of one event. A larger one is counted as lost: its batch would be beyond what readers take.
pub const MOST_EVENT_BYTES: u64 = 256 << 20;
/// The key of the schema's metadata that says by what the events were selected.
pub const FILTER_KEY: &str = "filter";
/// Rows per batch that are never exceeded but by one event.
const MOST_ROWS: usize = 128 * 1024;
/// Bytes that the rows of a row group take at most beside the lists of missing sources: those of an event, those of a fragment.
pub(crate) const MOST_ROW_BYTES: u64 = MOST_ROWS as u64 * (51 + fragment_columns::ROW_BYTES);

/// Records built events.
pub struct EventWriter {
    sink: RowGroupSink<EventRowGroup>,
    next_fragment: u64,
    amounts: Amounts,
}

/// Rows of both tables, and the right to read what they name.
struct EventRowGroup {
    events: Columns,
    /// Whether they say why an event was selected.
    has_selected: bool,
    fragments: FragmentColumns,
    amounts: Amounts,
    keeps_fragments: bool,
    most_bytes: usize,
}

/// Events of a batch that enter one row group, and those between them that are not kept.
#[derive(Clone, Copy)]
struct Group<'a> {
    events: &'a [Event],
    /// Which events are kept, and why; `None`: all of them.
    selected: Option<&'a [Option<Selected>]>,
    fragments: &'a [Fragment],
    slices: &'a [Slice],
}

/// What a group has of the events that are kept.
#[derive(Clone, Copy, Default)]
struct Kept {
    events: usize,
    fragments: usize,
    /// One event alone that no row group can have.
    is_too_large: bool,
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
        EventWriter::create_selected(files, settings, sources, ordered, None)
    }

    /// The same of events of which a filter selects some: its text goes into the schema, too, and each row says why the event was
    /// selected.
    ///
    /// # Errors
    /// As [`EventWriter::create`].
    pub fn create_selected(
        files: &EventFiles,
        settings: &Settings,
        sources: &[String],
        ordered: bool,
        filter: Option<&str>,
    ) -> Result<EventWriter, RecordError> {
        let names = serde_json::to_string(sources).unwrap_or_default();
        let mut metadata = vec![("sources", &names[..]), ("ordered", if ordered { "true" } else { "false" })];
        metadata.extend(filter.map(|text| (FILTER_KEY, text)));
        let files = [(Table::Fragments, &files.fragments), (Table::Events, &files.events)]
            .into_iter()
            .filter(|(table, _)| settings.keeps(*table))
            .map(|(table, path)| match table {
                Table::Events => TableFile::create_of(path, table, columns(filter.is_some()), &metadata),
                _ => TableFile::create(path, table, &metadata),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let units = &[Unit::Fragments, Unit::Bytes];
        let has_selected = filter.is_some();
        let make = move |settings: &Settings| EventRowGroup::new(settings, has_selected);
        let sink = RowGroupSink::new(files, units, sources.len(), settings, make)?;
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

    /// Of the events that were given, those up to the first that somebody must still keep: they are on file (on the
    /// disk, where `[record] sync` asks for that), left out on request, or counted as lost.
    pub fn events_settled(&self) -> u64 {
        self.sink.events_settled()
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

    /// Waits no longer for space on a full disk: what it holds is lost, and so is what comes. For whoever has to know of each event what
    /// became of it, before the end.
    pub fn abandon(&mut self) {
        self.sink.abandon();
    }

    fn write_group(&mut self, batch: &Events, group: &Group<'_>, kept: Kept) -> Result<(), SinkError> {
        let (next_fragment, amounts) = (&mut self.next_fragment, &self.amounts);
        self.sink.take(batch.header.mark, amounts, |rows| {
            rows.append(batch, group, *next_fragment);
            rows.amounts.add_all(amounts);
            // Only fragments that are taken get a row.
            *next_fragment += kept.fragments as u64;
        })
    }

    fn write_groups(
        &mut self,
        batch: &Events,
        selected: Option<&[Option<Selected>]>,
    ) -> Result<(), SinkError> {
        if selected.map_or(batch.events.is_empty(), |selected| selected.iter().all(Option::is_none)) {
            return self.advance(batch.header.mark);
        }
        let (mut rest, mut result) = (Group::of(batch, selected), Ok(()));
        while !rest.events.is_empty() {
            self.amounts.clear();
            let (group, kept) = rest.take(self.sink.open_group().capacity(), &mut self.amounts);
            match kept {
                Kept { events: 0, .. } => {}
                Kept { is_too_large: true, .. } => {
                    self.sink.turn_away(&self.amounts, LossReason::TooLarge);
                }
                // Of a refused batch the first events may have been taken. What comes behind a refused group is offered, too:
                // each is counted, and the first refusal is reported.
                _ => result = result.and(self.write_group(batch, &group, kept)),
            }
        }
        result
    }
}

impl EventSink for EventWriter {
    fn write(&mut self, events: &Events) -> Result<(), SinkError> {
        self.write_groups(events, None)
    }

    fn write_selected(&mut self, events: &Events, selected: &[Option<Selected>]) -> Result<(), SinkError> {
        self.write_groups(events, Some(selected))
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
    fn of(batch: &'a Events, selected: Option<&'a [Option<Selected>]>) -> Group<'a> {
        Group { events: &batch.events, selected, fragments: &batch.fragments, slices: &batch.slices }
    }

    /// Takes events from the front until those that are kept fill `capacity` bytes of payload and lists, at least one; one that is too
    /// large comes alone. Adds them to `amounts`.
    fn take(&mut self, capacity: usize, amounts: &mut Amounts) -> (Group<'a>, Kept) {
        let (mut kept, mut bytes) = (Kept::default(), 0u64);
        let (mut events, mut fragments, mut slices) = (0, 0, 0);
        for (place, event) in self.events.iter().enumerate() {
            let own = &self.fragments[fragments..][..event.fragments as usize];
            if self.selected.is_none_or(|selected| selected[place].is_some()) {
                let is_full =
                    bytes >= capacity as u64 || kept.fragments >= MOST_ROWS || kept.events >= MOST_ROWS;
                let is_too_large = event.bytes > MOST_EVENT_BYTES;
                if kept.is_too_large || kept.events > 0 && (is_full || is_too_large) {
                    break;
                }
                for fragment in own {
                    amounts.add(fragment.source, [1, u64::from(fragment.bytes)]);
                }
                kept = Kept {
                    events: kept.events + 1,
                    fragments: kept.fragments + own.len(),
                    is_too_large: kept.is_too_large || is_too_large,
                };
                bytes += event.bytes + u64::from(event.missing) * size_of::<SourceId>() as u64;
            }
            slices += slice_count(own);
            events += 1;
            fragments += own.len();
        }
        amounts.add_events(kept.events as u64);
        (self.split_at(events, fragments, slices), kept)
    }

    /// Takes so many events from the front.
    fn split_off(&mut self, events: usize) -> Group<'a> {
        let fragments = self.events[..events].iter().map(|event| event.fragments as usize).sum();
        self.split_at(events, fragments, slice_count(&self.fragments[..fragments]))
    }

    fn split_at(&mut self, events: usize, fragments: usize, slices: usize) -> Group<'a> {
        let (own_events, later_events) = self.events.split_at(events);
        let (own_selected, later_selected) = self.selected.map(|selected| selected.split_at(events)).unzip();
        let (own_fragments, later_fragments) = self.fragments.split_at(fragments);
        let (own_slices, later_slices) = self.slices.split_at(slices);
        *self = Group {
            events: later_events,
            selected: later_selected,
            fragments: later_fragments,
            slices: later_slices,
        };
        Group { events: own_events, selected: own_selected, fragments: own_fragments, slices: own_slices }
    }

    /// The events that are kept, those that follow each other together.
    fn each_kept(mut self, mut each: impl FnMut(Group<'a>)) {
        let Some(selected) = self.selected else { return each(self) };
        for run in selected.chunk_by(|one, next| one.is_some() == next.is_some()) {
            let own = self.split_off(run.len());
            if run[0].is_some() {
                each(own);
            }
        }
    }
}

/// The columns of `events`: those of a run with a filter say why an event was selected.
fn columns(has_selected: bool) -> &'static [Column] {
    Table::Events.shapes()[usize::from(has_selected)]
}

fn slice_count(fragments: &[Fragment]) -> usize {
    fragments.iter().map(|fragment| usize::from(fragment.slices)).sum()
}

impl EventRowGroup {
    fn new(settings: &Settings, has_selected: bool) -> EventRowGroup {
        EventRowGroup {
            events: Columns::of(columns(has_selected)),
            has_selected,
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
        group.each_kept(|run| {
            for (place, event) in run.events.iter().enumerate() {
                let selected = run.selected.and_then(|selected| selected[place]).unwrap_or_default();
                self.append_event(event, batch.missing_of(event), next_fragment, selected);
                next_fragment += u64::from(event.fragments);
            }
            if self.keeps_fragments {
                self.fragments.append(run.fragments, run.slices, &batch.leases);
            }
        });
    }

    fn append_event(&mut self, event: &Event, missing: &[SourceId], first_fragment: u64, selected: Selected) {
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
        if self.has_selected {
            columns.push(9, [selected as u8]);
        }
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
