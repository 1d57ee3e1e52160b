//! Events out of the tables `events` and `fragments`.
//!
//! ```text
//!  events.arrows ────► a row ──┐
//!  fragments.arrows ─► its rows ┴─► RecordedEvent { trigger, closing, selected, missing, fragments, bytes of each }
//! ```

use std::path::Path;

use thalweg_data::{Closing, Mark, Selected, SourceId};

use super::payload::{Payloads, View};
use super::table_reader::{BatchHead, ReadAt, TableReader};
use crate::directory::EventFiles;
use crate::error::RecordError;
use crate::table::Table;

/// Place of the column `payload`.
const PAYLOAD_COLUMN: usize = 3;

/// One event as it was recorded, with the bytes of its fragments. Reading the next one reuses its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The trigger's number; of a time slice, the slice's.
    pub trigger: u64,
    /// Why it was closed.
    pub closing: Closing,
    /// Why an event filter let it be recorded; `None` of a run without a filter, and of a recording that does not say it.
    pub selected: Option<Selected>,
    /// How often it was built before.
    pub attempt: u8,
    /// When its first fragment arrived.
    pub first_arrival: Mark,
    /// When it was closed.
    pub closed: Mark,
    /// Bytes of all its fragments.
    pub bytes: u64,
    /// Sources that did not answer.
    pub missing: Vec<SourceId>,
    /// The fragments, in the order of their sources. None where the run kept no fragments.
    pub fragments: Vec<RecordedFragment>,
    payload: Vec<u8>,
}

/// One fragment of a recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedFragment {
    /// Whose.
    pub source: SourceId,
    /// The board's own time of the trigger, in its ticks.
    pub ticks: u64,
    start: usize,
    end: usize,
}

impl RecordedEvent {
    /// The bytes of one of its fragments, as they were received.
    pub fn payload(&self, fragment: &RecordedFragment) -> &[u8] {
        &self.payload[fragment.start..fragment.end]
    }

    /// Each fragment with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&RecordedFragment, &[u8])> {
        self.fragments.iter().map(|fragment| (fragment, self.payload(fragment)))
    }

    /// Adds what another attempt of the same trigger has of sources that are missing here.
    pub(crate) fn join(&mut self, other: &RecordedEvent) {
        for (fragment, payload) in other.iter() {
            if self.missing.contains(&fragment.source) {
                let start = self.payload.len();
                self.payload.extend_from_slice(payload);
                self.fragments.push(RecordedFragment { start, end: self.payload.len(), ..*fragment });
                self.bytes += payload.len() as u64;
            }
        }
        self.fragments.sort_by_key(|fragment| fragment.source);
        self.missing.retain(|source| other.missing.contains(source));
        self.first_arrival = self.first_arrival.min(other.first_arrival);
        if self.missing.is_empty() {
            self.closing = Closing::Complete;
        }
    }
}

/// Where an event's row lies: its batch's place in the file, and its row there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventPlace {
    pub batch: u64,
    pub row: u32,
}

/// Reads the events of one pair of files.
#[derive(Debug)]
pub struct EventsFile {
    events: TableReader,
    fragments: Option<FragmentsReader>,
    rows: EventRows,
    batch: u64,
    next: usize,
}

impl EventsFile {
    /// Opens a pair of files. Without a file of fragments, events are read alone.
    ///
    /// # Errors
    /// When one cannot be read or is another table.
    pub fn open(files: &EventFiles) -> Result<EventsFile, RecordError> {
        let events = open_table(&files.events, Table::Events)?;
        let fragments = match files.fragments.exists() {
            true => Some(FragmentsReader::open(&files.fragments)?),
            false => None,
        };
        Ok(EventsFile { events, fragments, rows: EventRows::default(), batch: 0, next: 0 })
    }

    /// Opens a table of events to read it without fragments.
    ///
    /// # Errors
    /// When it cannot be read or is another table.
    pub fn open_alone(events: &Path) -> Result<EventsFile, RecordError> {
        let events = open_table(events, Table::Events)?;
        Ok(EventsFile { events, fragments: None, rows: EventRows::default(), batch: 0, next: 0 })
    }

    /// Names of the sources, by number, as the writer knew them.
    pub fn sources(&self) -> Vec<String> {
        let names = self.events.metadata().get("sources").map(String::as_str).unwrap_or("[]");
        serde_json::from_str(names).unwrap_or_default()
    }

    /// Replaces `event` by the next one; `false` at the end. Checksums are verified.
    ///
    /// # Errors
    /// When a batch is damaged or cut, or an event's fragments are not there.
    pub fn next_event(&mut self, event: &mut RecordedEvent) -> Result<bool, RecordError> {
        while self.next == self.rows.len() {
            if !self.next_batch()? {
                return Ok(false);
            }
        }
        self.next += 1;
        self.read_row(self.next - 1, event)?;
        Ok(true)
    }

    /// Replaces `event` by the one at a place.
    pub(crate) fn event_at(
        &mut self,
        place: EventPlace,
        event: &mut RecordedEvent,
    ) -> Result<(), RecordError> {
        if self.batch != place.batch || self.rows.len() == 0 {
            let head = self.events.batch_at(place.batch)?;
            let head =
                head.ok_or_else(|| self.events.damaged(place.batch, "no batch where there was one"))?;
            self.load(&head)?;
        }
        self.read_row(place.row as usize, event)
    }

    fn next_batch(&mut self) -> Result<bool, RecordError> {
        let Some(head) = self.events.next_batch()? else { return Ok(false) };
        self.load(&head)?;
        Ok(true)
    }

    fn load(&mut self, head: &BatchHead) -> Result<(), RecordError> {
        self.events.verify_checksum(head)?;
        self.rows = EventRows::load(&self.events, head)?;
        (self.batch, self.next) = (head.offset(), 0);
        Ok(())
    }

    fn read_row(&mut self, index: usize, event: &mut RecordedEvent) -> Result<(), RecordError> {
        let no_row = || self.events.damaged(self.batch, "no row where there was one");
        let row = self.rows.rows.get(index).ok_or_else(no_row)?;
        event.trigger = row.trigger;
        event.closing = row.closing;
        event.selected = row.selected;
        event.attempt = row.attempt;
        event.first_arrival = row.first_arrival;
        event.closed = row.closed;
        event.bytes = row.bytes;
        event.missing.clear();
        event.missing.extend_from_slice(self.rows.missing_of(row));
        event.fragments.clear();
        event.payload.clear();
        let Some(fragments) = &mut self.fragments else { return Ok(()) };
        let missing = || {
            let (first, count, trigger) = (row.first_fragment, row.fragments, row.trigger);
            let found = format!("fragments {first} and on, {count} of trigger {trigger}, are not there");
            self.events.damaged(self.batch, found)
        };
        let end = row.first_fragment.checked_add(u64::from(row.fragments)).ok_or_else(missing)?;
        for number in row.first_fragment..end {
            match fragments.append_to(number, event)? {
                Some(trigger) if trigger == row.trigger => {}
                _ => return Err(missing()),
            }
        }
        Ok(())
    }
}

/// Opens a file that must be of this table.
pub(crate) fn open_table(path: &Path, table: Table) -> Result<TableReader, RecordError> {
    let reader = TableReader::open(path)?;
    match reader.table() {
        found if found == table => Ok(reader),
        other => {
            let found = format!("the table `{}` where `{}` is wanted", other.word(), table.word());
            Err(reader.damaged(0, found))
        }
    }
}

/// One row of the table `events`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventRow {
    pub trigger: u64,
    pub closing: Closing,
    pub selected: Option<Selected>,
    pub fragments: u32,
    pub bytes: u64,
    pub first_arrival: Mark,
    pub closed: Mark,
    pub attempt: u8,
    pub first_fragment: u64,
    missing_from: u64,
    missing_to: u64,
}

/// The rows of a batch of the table `events`.
#[derive(Debug, Default)]
pub(crate) struct EventRows {
    pub rows: Vec<EventRow>,
    missing: Vec<SourceId>,
}

impl EventRows {
    pub fn load<R: ReadAt>(reader: &TableReader<R>, head: &BatchHead) -> Result<EventRows, RecordError> {
        let trigger = reader.numbers::<8>(head, 0)?;
        let closing = reader.words(head, 1, Closing::from_number)?;
        let selected = reader.column("selected");
        let selected =
            selected.map(|column| reader.words(head, column, Selected::from_number)).transpose()?;
        let fragments = reader.numbers::<4>(head, 2)?;
        let (ends, missing) = reader.lists(head, 3)?;
        let bytes = reader.numbers::<8>(head, 4)?;
        let first_arrival_ns = reader.numbers::<8>(head, 5)?;
        let closed_ns = reader.numbers::<8>(head, 6)?;
        let attempt = reader.numbers::<1>(head, 7)?;
        let first_fragment = reader.numbers::<8>(head, 8)?;
        let row = |index: usize| EventRow {
            trigger: u64::from_le_bytes(trigger[index]),
            closing: closing[index],
            selected: selected.as_ref().map(|selected| selected[index]),
            fragments: u32::from_le_bytes(fragments[index]),
            bytes: u64::from_le_bytes(bytes[index]),
            first_arrival: Mark(u64::from_le_bytes(first_arrival_ns[index])),
            closed: Mark(u64::from_le_bytes(closed_ns[index])),
            attempt: attempt[index][0],
            first_fragment: u64::from_le_bytes(first_fragment[index]),
            missing_from: ends[index],
            missing_to: ends[index + 1],
        };
        let rows = (0..head.rows()).map(row).collect();
        let missing = missing.as_chunks::<2>().0.iter();
        Ok(EventRows { rows, missing: missing.map(|source| SourceId(u16::from_le_bytes(*source))).collect() })
    }

    pub fn missing_of(&self, row: &EventRow) -> &[SourceId] {
        &self.missing[row.missing_from as usize..row.missing_to as usize]
    }

    fn len(&self) -> usize {
        self.rows.len()
    }
}

/// One row of the table `fragments`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentRow {
    pub trigger: u64,
    pub source: SourceId,
    pub ticks: u64,
    pub view: View,
}

/// The rows of a batch of the table `fragments`.
pub(crate) fn fragment_rows<R: ReadAt>(
    reader: &TableReader<R>,
    head: &BatchHead,
) -> Result<Vec<FragmentRow>, RecordError> {
    let trigger = reader.numbers::<8>(head, 0)?;
    let source = reader.numbers::<2>(head, 1)?;
    let ticks = reader.numbers::<8>(head, 2)?;
    let view = reader.numbers::<16>(head, PAYLOAD_COLUMN)?;
    let row = |index: usize| FragmentRow {
        trigger: u64::from_le_bytes(trigger[index]),
        source: SourceId(u16::from_le_bytes(source[index])),
        ticks: u64::from_le_bytes(ticks[index]),
        view: View(view[index]),
    };
    Ok((0..head.rows()).map(row).collect())
}

/// The payload of a batch of the table `fragments`; `whole` reads it into memory.
pub(crate) fn fragment_payloads<R: ReadAt>(
    reader: &TableReader<R>,
    head: BatchHead,
    rows: &[FragmentRow],
    whole: bool,
) -> Result<Payloads, RecordError> {
    Payloads::load(reader, head, PAYLOAD_COLUMN, rows.iter().map(|row| row.view), whole)
}

/// Fragments by their row in the file: fastest one after the other.
#[derive(Debug)]
struct FragmentsReader {
    reader: TableReader,
    /// Batches passed so far: number of the first row, place in the file.
    places: Vec<(u64, u64)>,
    /// Rows of them.
    passed: u64,
    loaded: Option<LoadedFragments>,
}

#[derive(Debug)]
struct LoadedFragments {
    first_row: u64,
    rows: Vec<FragmentRow>,
    payloads: Payloads,
}

impl FragmentsReader {
    fn open(path: &Path) -> Result<FragmentsReader, RecordError> {
        let reader = open_table(path, Table::Fragments)?;
        Ok(FragmentsReader { reader, places: Vec::new(), passed: 0, loaded: None })
    }

    /// Appends the fragment in row `number` to an event; returns its trigger, or `None` when there is no such row.
    fn append_to(&mut self, number: u64, event: &mut RecordedEvent) -> Result<Option<u64>, RecordError> {
        let holds = |loaded: &LoadedFragments| {
            (loaded.first_row..loaded.first_row + loaded.rows.len() as u64).contains(&number)
        };
        if !self.loaded.as_ref().is_some_and(holds) && !self.find(number)? {
            return Ok(None);
        }
        let Some(loaded) = &self.loaded else { return Ok(None) };
        let row = &loaded.rows[(number - loaded.first_row) as usize];
        let start = event.payload.len();
        let end = start + row.view.length();
        event.payload.resize(end, 0);
        loaded.payloads.copy(&self.reader, row.view, 0, &mut event.payload[start..])?;
        event.fragments.push(RecordedFragment { source: row.source, ticks: row.ticks, start, end });
        Ok(Some(row.trigger))
    }

    /// Loads the batch that holds row `number`; whether there is one.
    fn find(&mut self, number: u64) -> Result<bool, RecordError> {
        if number < self.passed {
            let index = self.places.partition_point(|(first_row, _)| *first_row <= number);
            let (first_row, offset) = self.places[index - 1];
            let head = self.reader.batch_at(offset)?;
            let head = head.ok_or_else(|| self.reader.damaged(offset, "no batch where there was one"))?;
            self.load(first_row, head)?;
            return Ok(true);
        }
        while let Some(head) = self.reader.next_batch()? {
            let first_row = self.passed;
            if head.rows() == 0 {
                continue;
            }
            self.passed += head.rows() as u64;
            self.places.push((first_row, head.offset()));
            if number < self.passed {
                self.load(first_row, head)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn load(&mut self, first_row: u64, head: BatchHead) -> Result<(), RecordError> {
        self.loaded = None;
        self.reader.verify_checksum(&head)?;
        let rows = fragment_rows(&self.reader, &head)?;
        let payloads = fragment_payloads(&self.reader, head, &rows, true)?;
        self.loaded = Some(LoadedFragments { first_row, rows, payloads });
        Ok(())
    }
}
