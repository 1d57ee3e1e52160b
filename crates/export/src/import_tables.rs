//! The tables of an import.
//!
//! ```text
//!  BuiltEvent ─► blocks, Events ─► events, fragments │ HitRows ─► Hits ─► hits │ HitRows ─► HitEvents ─► coincidences
//! ```

use thalweg_data::batch::Share;
use thalweg_data::{
    BlockWriter, Event, EventSink, Events, Fragment, HitEvent, HitEvents, Hits, Ledger, Mark, Noted, Pool,
    Selected, Sink, SinkError, SourceId, Stage, Unit,
};
use thalweg_record::{
    CoincidenceWriter, EventWriter, HitWriter, RunDirectory, RunRecord, Settings, Table, TableSummary,
};

use crate::error::ImportError;
use crate::import::ImportReport;
use crate::mid_content::{BuiltEvent, Content, HitRows};

/// Blocks for fragments: two events of the largest size, and what the row group holds.
const BLOCKS: usize = 40;
const BLOCK_BYTES: usize = 4 << 20;
/// Events, or bytes of fragments, that are given to the writer at once.
const EVENTS_AT_ONCE: usize = 512;
const BYTES_AT_ONCE: u64 = 1 << 20;

/// Writes what an import gives.
pub(crate) struct ImportTables {
    events: Option<EventTables>,
    hits: Option<HitWriter>,
    coincidences: Option<CoincidenceWriter>,
    /// First channel, number of channels and number of each source, by channel.
    channels: Vec<(u16, u16, SourceId)>,
    sources: usize,
    report: ImportReport,
}

struct EventTables {
    writer: EventWriter,
    pool: Pool,
    block: Option<BlockWriter>,
    batch: Events,
    /// Why each event of the batch was recorded.
    selected: Vec<Option<Selected>>,
    /// How many events have each mark of an event filter.
    marked: [u64; Selected::ALL.len()],
    bytes: u64,
}

impl ImportTables {
    /// Makes the tables of those kinds that occur: events, hits, coincidences. Of events, it has to be known whether they are in order, and
    /// by what an event filter selected them.
    ///
    /// # Errors
    /// When a file or the memory cannot be made.
    pub fn create(
        directory: &RunDirectory,
        record: &RunRecord,
        [has_events, has_hits, has_coincidences]: [bool; 3],
        how: (bool, Option<&str>),
    ) -> Result<ImportTables, ImportError> {
        let kept = [
            (has_events, Table::Events),
            (has_events, Table::Fragments),
            (has_hits, Table::Hits),
            (has_coincidences, Table::Coincidences),
        ];
        let tables = kept.into_iter().filter(|(occurs, _)| *occurs).map(|(_, table)| table).collect();
        let settings = Settings { tables, ..Settings::default() };
        let (path, names) = (directory.path(), &record.sources);
        let events = || EventTables::create(directory, &settings, names, how);
        let hits = || HitWriter::create(path, &settings, names);
        let coincidences = || CoincidenceWriter::create(path, &settings, names);
        let of = |name: &String| names.iter().position(|source| source == name);
        let channels = record.channels.iter().filter_map(|(source, channels)| {
            Some((channels.first, channels.count, SourceId(of(source)? as u16)))
        });
        Ok(ImportTables {
            events: has_events.then(events).transpose()?,
            hits: has_hits.then(hits).transpose()?,
            coincidences: has_coincidences.then(coincidences).transpose()?,
            channels: channels.collect(),
            sources: names.len(),
            report: ImportReport::default(),
        })
    }

    /// Records an event, hits or a coincidence.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn write(&mut self, content: Content) -> Result<(), ImportError> {
        let report = &mut self.report;
        match content {
            Content::Event(event) => {
                report.events += 1;
                report.fragments += event.fragments.len() as u64;
                self.events.as_mut().map_or(Ok(()), |tables| tables.write(&event))
            }
            Content::Hits(rows) => {
                report.hits += rows.hits.len() as u64;
                self.write_hits(rows)
            }
            Content::Coincidence(rows) => {
                report.coincidences += 1;
                self.write_coincidence(rows)
            }
        }
    }

    fn write_hits(&mut self, rows: HitRows) -> Result<(), ImportError> {
        let Some(writer) = &mut self.hits else { return Ok(()) };
        let mut shares = vec![0u32; self.sources.max(1)];
        for hit in &rows.hits {
            let own = self.channels.iter().find(|(first, count, _)| {
                hit.channel.checked_sub(*first).is_some_and(|offset| offset < *count)
            });
            // Of files that do not say whose channels are whose, all are those of the first source.
            shares[own.map_or(0, |(_, _, source)| source.index())] += 1;
        }
        let shares = (0..).map(SourceId).zip(shares).filter(|(_, hits)| *hits > 0);
        let shares = shares.map(|(source, hits)| Share { source, hits }).collect();
        let batch = Hits { hits: rows.hits, shares, ..Hits::default() };
        Ok(writer.write(&batch)?)
    }

    fn write_coincidence(&mut self, rows: HitRows) -> Result<(), ImportError> {
        let Some(writer) = &mut self.coincidences else { return Ok(()) };
        let event = HitEvent {
            number: rows.number,
            time_ps: rows.time_ps,
            first: 0,
            count: rows.hits.len() as u32,
            multiplicity: rows.multiplicity,
            reference: rows.reference,
        };
        Ok(writer.write(&HitEvents { events: vec![event], members: rows.hits })?)
    }

    /// Writes everything.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn finish(&mut self) -> Result<(), ImportError> {
        if let Some(tables) = &mut self.events {
            tables.flush()?;
            tables.writer.finish()?;
        }
        if let Some(hits) = &mut self.hits {
            hits.finish()?;
        }
        if let Some(coincidences) = &mut self.coincidences {
            coincidences.finish()?;
        }
        Ok(())
    }

    /// What the tables hold.
    pub fn summaries(&self) -> Vec<TableSummary> {
        let events = self.events.iter().flat_map(|tables| tables.writer.summaries());
        let hits = self.hits.iter().flat_map(HitWriter::summaries);
        events.chain(hits).chain(self.coincidences.iter().flat_map(CoincidenceWriter::summaries)).collect()
    }

    /// Enters what was recorded into the ledger. Behind the sources, `first` on, are the file, its events and its coincidences.
    pub fn publish(&self, ledger: &Ledger, first: u16) {
        let units = [Unit::Hits, Unit::Fragments, Unit::Bytes];
        for source in (0..first).map(SourceId) {
            let hits = self.hits.as_ref().map(|writer| writer.counters(source).clone());
            let mut counters = hits.unwrap_or_default();
            if let Some(tables) = &self.events {
                counters.add_all(tables.writer.source_counters(source));
            }
            ledger.open(Stage::Record, source, &units).publish(&counters);
        }
        if let Some(tables) = &self.events {
            let slot = ledger.open(Stage::Record, SourceId(first + 1), &[Unit::Events]);
            let mut counters = tables.writer.counters().clone();
            // The filter's own stage is not in the file; what it marked is.
            for (selected, noted) in
                [(Selected::Prescaled, Noted::Prescaled), (Selected::Undecided, Noted::Undecided)]
            {
                counters.noted(noted, Unit::Events, tables.marked[selected as usize]);
            }
            slot.publish(&counters);
        }
        if let Some(coincidences) = &self.coincidences {
            for stage in [Stage::Coincide, Stage::Record] {
                ledger.open(stage, SourceId(first + 2), &[Unit::Events]).publish(coincidences.counters());
            }
        }
    }

    /// What was recorded, in numbers.
    pub fn report(&self) -> ImportReport {
        self.report.clone()
    }
}

impl EventTables {
    fn create(
        directory: &RunDirectory,
        settings: &Settings,
        names: &[String],
        (is_ordered, filter): (bool, Option<&str>),
    ) -> Result<EventTables, ImportError> {
        let files = directory.events_of(None);
        let writer = EventWriter::create_selected(&files, settings, names, is_ordered, filter)?;
        let pool = Pool::new(BLOCKS, BLOCK_BYTES).map_err(|cause| {
            ImportError::io(directory.path(), "getting memory for fragments", std::io::Error::other(cause))
        })?;
        let (batch, selected) = (Events::default(), Vec::new());
        let marked = [0; Selected::ALL.len()];
        Ok(EventTables { writer, pool, block: None, batch, selected, marked, bytes: 0 })
    }

    fn write(&mut self, event: &BuiltEvent) -> Result<(), ImportError> {
        let batch = &mut self.batch;
        let mut row = Event {
            trigger: event.trigger,
            first_arrival: Mark(event.first_arrival_ns),
            closed: Mark(event.closed_ns),
            first_fragment: batch.fragments.len() as u32,
            first_missing: batch.missing.len() as u32,
            missing: event.missing.len() as u32,
            closing: event.closing,
            attempt: event.attempt,
            ..Event::default()
        };
        batch.missing.extend(&event.missing);
        for (source, ticks, payload) in &event.fragments {
            let before = self.batch.slices.len();
            self.append(payload)?;
            self.batch.fragments.push(Fragment {
                trigger: event.trigger,
                ticks: *ticks,
                bytes: payload.len() as u32,
                source: *source,
                slices: (self.batch.slices.len() - before) as u16,
            });
            row.fragments += 1;
            row.bytes += payload.len() as u64;
        }
        self.bytes += row.bytes;
        self.batch.events.push(row);
        let selected = event.selected.unwrap_or_default();
        self.marked[selected as usize] += 1;
        self.selected.push(Some(selected));
        match self.batch.events.len() >= EVENTS_AT_ONCE || self.bytes >= BYTES_AT_ONCE {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Puts bytes into blocks, and the slices in which they are then into the batch.
    fn append(&mut self, mut payload: &[u8]) -> Result<(), ImportError> {
        while !payload.is_empty() {
            if self.block.as_ref().is_none_or(|block| block.remaining() == 0) {
                self.block = None;
                let block = self.pool.take();
                // The writer keeps blocks until it writes their row group; nothing else does.
                let block = match block {
                    Some(block) => block,
                    None => {
                        self.writer.flush()?;
                        self.pool.take().ok_or_else(no_block)?
                    }
                };
                self.block = Some(block);
            }
            let Some(block) = &mut self.block else { continue };
            let (now, later) = payload.split_at(payload.len().min(block.remaining()));
            self.batch.slices.extend(block.append(now));
            self.batch.leases.add(block.lease());
            payload = later;
        }
        Ok(())
    }

    /// Gives the writer what is collected.
    fn flush(&mut self) -> Result<(), ImportError> {
        self.writer.write_selected(&self.batch, &self.selected)?;
        self.batch.clear();
        self.selected.clear();
        self.bytes = 0;
        Ok(())
    }
}

fn no_block() -> SinkError {
    SinkError::Failed {
        place: "import".to_owned(),
        message: "no block of memory is free for an event; this is an error in thalweg".to_owned(),
    }
}
