//! MIDAS: one file with a BOR event, the run's events, and an EOR event.
//!
//! ```text
//!  fragments, events ─► id 1: TRIG INFO MISS TICK, S000 S001 … (a bank for each source)
//!  hits ──────────────► id 2: TIME CHAN ENRG ESHT FLAG, up to 4096 hits
//!  coincidences ──────► id 3: EVNT DTPS MULT REFR and the banks of hits, one event each
//! ```
//! Names of banks, sources and units are in the database of BOR and EOR, under `/Thalweg`.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type, UInt16Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use serde_json::{Map, Value, json};
use thalweg_record::Table;

use crate::error::ExportError;
use crate::event_rows::{EventRow, EventRows};
use crate::exporter::{Exporter, TableHead};
use crate::midas::{BEGIN_OF_RUN, DataEvent, END_OF_RUN, Type, source_bank, write_run_event};
use crate::run_source::{RunSource, seconds_of};
use crate::target::{Output, Target};

/// Event id of built events.
pub(crate) const EVENTS_ID: u16 = 1;
/// Event id of blocks of hits.
pub(crate) const HITS_ID: u16 = 2;
/// Event id of coincidences.
pub(crate) const COINCIDENCES_ID: u16 = 3;
/// Hits of one event: well below the 4 MiB of MIDAS's default.
const HITS_PER_EVENT: usize = 4096;
const PS_PER_S: i64 = 1_000_000_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// Writes MIDAS files.
pub(crate) struct MidExporter {
    to: Stream,
    run_number: u32,
    zero_s: i64,
    stopped_s: u32,
    database: Map<String, Value>,
    stopped: String,
    table: Table,
    event: DataEvent,
    events: Option<EventRows>,
    serials: [u32; 4],
    hits: HitBanks,
    coincidence: Option<u64>,
    /// Fragments whose event is not on file.
    without_event: u64,
    /// Events whose fragments are not on file.
    without_fragments: u64,
    /// What the run lacks.
    lacking: Option<String>,
}

/// The file, plain or compressed.
enum Stream {
    Plain(Output),
    Lz4(Box<FrameEncoder<Output>>),
    Ended,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(output) => output.write(bytes),
            Stream::Lz4(encoder) => encoder.write(bytes),
            Stream::Ended => Ok(0),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Plain(output) => output.flush(),
            Stream::Lz4(encoder) => encoder.flush(),
            Stream::Ended => Ok(()),
        }
    }
}

/// Columns of hits as the data of banks.
#[derive(Debug, Default)]
struct HitBanks {
    count: usize,
    first_ps: i64,
    banks: Vec<([u8; 4], Type, Vec<u8>)>,
}

impl MidExporter {
    /// Begins a file with its BOR event.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(run: &RunSource, target: &Target) -> Result<MidExporter, ExportError> {
        let output = target.output("")?;
        let is_compressed = target.path().extension().is_some_and(|ending| ending == "lz4");
        let to = match is_compressed {
            false => Stream::Plain(output),
            true => {
                // As MIDAS's own logger writes it.
                let info = FrameInfo::new()
                    .block_size(BlockSize::Max4MB)
                    .block_mode(BlockMode::Linked)
                    .content_checksum(true);
                Stream::Lz4(Box::new(FrameEncoder::with_frame_info(info, output)))
            }
        };
        let zero_s = run.zero_s();
        // A number beyond 32 bits does not occur: runs are counted from 1.
        let run_number = run.record.number as u32;
        let mut exporter = MidExporter {
            to,
            run_number,
            zero_s,
            stopped_s: seconds(seconds_of(&run.record.stopped).max(zero_s)),
            database: database(run),
            stopped: run.record.stopped.clone(),
            table: Table::Hits,
            event: DataEvent::default(),
            events: None,
            serials: [0; 4],
            hits: HitBanks::default(),
            coincidence: None,
            without_event: 0,
            without_fragments: 0,
            lacking: None,
        };
        exporter.write_database(BEGIN_OF_RUN, seconds(zero_s))?;
        Ok(exporter)
    }

    fn write_database(&mut self, id: u16, time: u32) -> Result<(), ExportError> {
        let text = Value::Object(self.database.clone()).to_string();
        write_run_event(id, self.run_number, time, &text, &mut self.to).map_err(ExportError::writer)
    }

    /// Begins an event with the next serial number of its id.
    fn begin_event(&mut self, id: u16, time: u32) {
        let serial = &mut self.serials[usize::from(id)];
        self.event.begin(id, *serial, time);
        *serial = serial.wrapping_add(1);
    }

    fn write_event(&mut self) -> Result<(), ExportError> {
        self.event.write(&mut self.to).map_err(ExportError::writer)
    }

    /// Writes the hits that are collected as one event.
    fn write_hits(&mut self) -> Result<(), ExportError> {
        if self.hits.count == 0 {
            return Ok(());
        }
        let id = if self.table == Table::Hits { HITS_ID } else { COINCIDENCES_ID };
        let time = seconds(self.zero_s.saturating_add(self.hits.first_ps.div_euclid(PS_PER_S)));
        self.begin_event(id, time);
        for (name, kind, data) in &self.hits.banks {
            self.event.bank(*name, *kind, data);
        }
        self.hits.clear();
        self.write_event()
    }

    fn hits(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let mut from = 0;
        while from < batch.num_rows() {
            let count = (HITS_PER_EVENT - self.hits.count).min(batch.num_rows() - from);
            self.hits.append(&batch.slice(from, count));
            from += count;
            if self.hits.count == HITS_PER_EVENT {
                self.write_hits()?;
            }
        }
        Ok(())
    }

    fn coincidences(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let numbers = batch.column(0).as_primitive::<UInt64Type>().values();
        let mut from = 0;
        while from < numbers.len() {
            let count = numbers[from..].iter().take_while(|number| **number == numbers[from]).count();
            if self.coincidence != Some(numbers[from]) {
                self.write_hits()?;
                self.coincidence = Some(numbers[from]);
            }
            self.hits.append(&batch.slice(from, count));
            from += count;
        }
        Ok(())
    }

    fn fragments(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let triggers = batch.column(0).as_primitive::<UInt64Type>().values();
        let mut from = 0;
        while from < triggers.len() {
            let same = triggers[from..].iter().take_while(|trigger| **trigger == triggers[from]).count();
            let Some(rows) = &mut self.events else {
                let row = EventRow { trigger: triggers[from], fragments: same, ..EventRow::default() };
                self.built_event(&row, false, Some(&batch.slice(from, same)))?;
                from += same;
                continue;
            };
            let Some(event) = rows.next_event()? else {
                self.without_event += (triggers.len() - from) as u64;
                return Ok(());
            };
            if event.fragments > same || event.fragments > 0 && event.trigger != triggers[from] {
                return Err(ExportError::Writer(format!(
                    "the tables `events` and `fragments` do not belong together: trigger {} has {} fragments in `events`, \
                     and `fragments` has {same} of trigger {} at its place; `thalweg verify` says more",
                    event.trigger, event.fragments, triggers[from]
                )));
            }
            self.built_event(&event, true, Some(&batch.slice(from, event.fragments)))?;
            from += event.fragments;
        }
        Ok(())
    }

    /// Writes one built event with a bank for each of its fragments, if it has any.
    fn built_event(
        &mut self,
        row: &EventRow,
        is_known: bool,
        fragments: Option<&RecordBatch>,
    ) -> Result<(), ExportError> {
        let time = self.zero_s.saturating_add((row.first_arrival_ns / NS_PER_S) as i64);
        self.begin_event(EVENTS_ID, seconds(time));
        let words: &[u64] = match is_known {
            true => &[row.trigger, row.first_arrival_ns, row.closed_ns],
            false => &[row.trigger],
        };
        self.event.bank(*b"TRIG", Type::U64, &little_endian(words, |word| word.to_le_bytes()));
        if is_known {
            let numbers: Vec<u8> = [row.closing, row.attempt].into_iter().chain(row.selected).collect();
            self.event.bank(*b"INFO", Type::U8, &numbers);
            self.event.bank(*b"MISS", Type::U16, &row.missing);
        }
        let ticks = fragments.map_or(&[][..], |rows| rows.column(2).as_primitive::<UInt64Type>().values());
        self.event.bank(*b"TICK", Type::U64, &little_endian(ticks, |ticks| ticks.to_le_bytes()));
        if let Some(fragments) = fragments {
            let sources = fragments.column(1).as_primitive::<UInt16Type>().values();
            let payloads = fragments.column(3).as_binary_view();
            for (place, source) in sources.iter().enumerate() {
                self.event.bank(source_bank(*source), Type::U8, payloads.value(place));
            }
        }
        self.write_event()
    }
}

impl Exporter for MidExporter {
    fn begin(&mut self, head: &TableHead<'_>) -> Result<(), ExportError> {
        self.table = head.file.table;
        self.hits = HitBanks::default();
        self.coincidence = None;
        self.events = None;
        if self.table == Table::Fragments {
            self.events = head.run.beside(head.file, Table::Events)?.map(EventRows::new);
            self.lacking = head.run.lacking(Table::Events);
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        match self.table {
            Table::Fragments => self.fragments(batch),
            Table::Coincidences => self.coincidences(batch),
            _ => self.hits(batch),
        }
    }

    fn end(&mut self, run: &RunSource) -> Result<(), ExportError> {
        while let Some(rows) = &mut self.events
            && let Some(event) = rows.next_event()?
        {
            match event.fragments {
                // Nobody has answered its trigger.
                0 => self.built_event(&event, true, None)?,
                _ => self.without_fragments += 1,
            }
        }
        self.events.as_mut().map_or(Ok(()), |rows| rows.end(run))?;
        self.write_hits()
    }

    fn finish(&mut self) -> Result<Vec<String>, ExportError> {
        if let Some(Value::Object(info)) = self.database.get_mut("Runinfo") {
            info.insert("Stop time".to_owned(), self.stopped.clone().into());
            info.insert("Stop time binary".to_owned(), format!("{:#x}", self.stopped_s).into());
        }
        self.write_database(END_OF_RUN, self.stopped_s)?;
        let output = match std::mem::replace(&mut self.to, Stream::Ended) {
            Stream::Plain(output) => Some(output),
            Stream::Lz4(encoder) => Some(encoder.finish().map_err(ExportError::writer)?),
            Stream::Ended => None,
        };
        if let Some(mut output) = output {
            output.flush().map_err(ExportError::writer)?;
        }
        let remarks = [
            (self.without_event, "fragments are left out, because their event is not on file"),
            (self.without_fragments, "events are left out, because their fragments are not on file"),
        ];
        let remarks = remarks.into_iter().filter(|(count, _)| *count > 0);
        let lacking = self.lacking.take().into_iter();
        Ok(lacking.chain(remarks.map(|(count, what)| format!("{count} {what}"))).collect())
    }
}

impl HitBanks {
    fn clear(&mut self) {
        self.count = 0;
        self.banks.iter_mut().for_each(|(_, _, data)| data.clear());
    }

    /// Appends rows of `hits` or `coincidences`. What is null is 0 there; bits of the flags say so.
    fn append(&mut self, batch: &RecordBatch) {
        if self.count == 0 {
            let times = batch.column_by_name("time_ps").map(|column| column.as_primitive::<Int64Type>());
            self.first_ps = times.map_or(0, |times| times.value(0));
        }
        self.count += batch.num_rows();
        let mut place = 0;
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let Some((name, kind, data)) = bank_of(field.name(), column.as_ref()) else { continue };
            match self.banks.get_mut(place) {
                Some((_, _, known)) => known.extend(data),
                None => self.banks.push((name, kind, data)),
            }
            place += 1;
        }
    }
}

/// The bank of a column, and its data.
fn bank_of(name: &str, column: &dyn Array) -> Option<([u8; 4], Type, Vec<u8>)> {
    let u16s = |column: &dyn Array| {
        let column = column.as_primitive::<UInt16Type>();
        column.iter().flat_map(|value| value.unwrap_or(0).to_le_bytes()).collect()
    };
    let i64s = |column: &dyn Array| {
        little_endian(column.as_primitive::<Int64Type>().values(), |value| value.to_le_bytes())
    };
    Some(match name {
        "event" => {
            // The same on all rows of an event.
            let number = column.as_primitive::<UInt64Type>().values();
            (*b"EVNT", Type::U64, number.iter().flat_map(|number| number.to_le_bytes()).collect())
        }
        "time_ps" => (*b"TIME", Type::I64, i64s(column)),
        "dt_ps" => (*b"DTPS", Type::I64, i64s(column)),
        "channel" => (*b"CHAN", Type::U16, u16s(column)),
        "energy" => (*b"ENRG", Type::U16, u16s(column)),
        "energy_short" => (*b"ESHT", Type::U16, u16s(column)),
        "flags" => (*b"FLAG", Type::U16, u16s(column)),
        "multiplicity" => (*b"MULT", Type::U16, u16s(column)),
        "is_reference" => {
            let bits = column.as_boolean();
            (*b"REFR", Type::U8, (0..bits.len()).map(|row| u8::from(bits.value(row))).collect())
        }
        "energy_kev" => {
            let kev = column.as_primitive::<Float32Type>();
            (*b"EKEV", Type::F32, kev.iter().flat_map(|kev| kev.unwrap_or(f32::NAN).to_le_bytes()).collect())
        }
        _ => return None,
    })
}

fn little_endian<T, const N: usize>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(bytes).collect()
}

/// Seconds since 1970 as the 32 bits of an event have them; 0 before, the last second beyond.
fn seconds(time_s: i64) -> u32 {
    time_s.clamp(0, i64::from(u32::MAX)) as u32
}

/// The database of BOR: what MIDAS programs look for, and what the banks mean.
fn database(run: &RunSource) -> Map<String, Value> {
    let record = &run.record;
    let sources = run.sources().iter().enumerate().map(|(number, name)| {
        // Numbers of sources have 16 bits.
        let bank = String::from_utf8_lossy(&source_bank(number as u16)).into_owned();
        (bank, Value::from(name.clone()))
    });
    let banks = json!({
        "TRIG": "u64: trigger; arrival of the first fragment and end of the event, ns since the run's zero",
        "INFO": "u8: why the event was passed on (0 complete, 1 age, 2 depth, 3 end, 4 unit_lost); attempt; of a run with an event filter, why the event is recorded (0 kept, 1 prescaled, 2 undecided)",
        "MISS": "u16: numbers of the sources that did not answer",
        "TICK": "u64: the boards' own times of the trigger, in the order of the banks of the sources",
        "TIME": "i64: ps since the run's zero",
        "CHAN": "u16: channel of the experiment",
        "ENRG": "u16: energy, ADC channels; 0 where FLAG has bit 11",
        "ESHT": "u16: short-gate energy, ADC channels; 0 where FLAG has bit 12",
        "FLAG": "u16: flags of the hit",
        "EKEV": "f32: energy, keV",
        "EVNT": "u64: number of the coincidence",
        "DTPS": "i64: time after the reference, ps",
        "MULT": "u16: multiplicity of the coincidence",
        "REFR": "u8: 1 for the reference",
    });
    let value = json!({
        "/MIDAS version": "2.1",
        "Runinfo": {
            "Run number": record.number,
            "Start time": record.started,
            "Start time binary": format!("{:#x}", seconds(run.zero_s())),
        },
        "Experiment": { "Name": "thalweg", "Run Parameters": { "Comment": record.title } },
        "Thalweg": {
            "Zero UTC": record.started,
            "State": record.state.word(),
            "Event ids": { "1": "built events", "2": "hits", "3": "coincidences" },
            "Banks": banks,
            "Sources": sources.collect::<Map<String, Value>>(),
            "Channels": record.channels,
            "Filter": run.event_filter(),
            "Configuration": record.configuration,
        },
    });
    match value {
        Value::Object(database) => database,
        _ => Map::new(),
    }
}
