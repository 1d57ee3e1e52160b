//! The tables of a run and their columns: one definition for writer, reader and check.
//!
//! ```text
//!  Table ──► columns ──► Arrow schema (written)  ·  layout of a batch's buffers (read)
//! ```

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::{Closing, DataKept, Kept, Selected, StageRole};

/// A table of a run: one file of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// One row per hit, in time order.
    Hits,
    /// What does not fit into a hit: raw flags, numbers, user words.
    Extras,
    /// Samples.
    Waveforms,
    /// The boards' own counters.
    Statistics,
    /// Received bytes with their arrival marks, for replay.
    Raw,
    /// One row per built event: trigger, completeness, times.
    Events,
    /// One row per fragment, event by event, with its bytes.
    Fragments,
    /// One row per hit of an event of hits, event by event.
    Coincidences,
    /// What was lost when, where and why. Every run has it.
    Losses,
    /// What became of each range of triggers at a readout or builder unit. Every unit has its own.
    Ranges,
    /// Values of slow control over time. Every run with `[[series]]` has it.
    Series,
}

/// What a run keeps of its data that keeps these tables, if any; `are_sliced` if its hits are cut into time slices, whose hits are the payload
/// of fragments.
pub fn data_kept(keeps: impl Fn(Table) -> bool, are_sliced: bool) -> DataKept {
    let form = |table| Kept::of(keeps(table), keeps(Table::Raw));
    let slices_alone = are_sliced && !keeps(Table::Hits) && keeps(Table::Fragments);
    let (hits, hits_end) = match slices_alone {
        true => (Kept::Rows, StageRole::Slices),
        false => (form(Table::Hits), StageRole::Recording),
    };
    let (fragments, events) = (form(Table::Fragments), form(Table::Events));
    DataKept { hits, hits_end, fragments, events, raw_bytes_missing: 0 }
}

/// What one column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signed 64-bit numbers.
    I64,
    /// Unsigned 64-bit numbers.
    U64,
    /// Unsigned 32-bit numbers.
    U32,
    /// Unsigned 16-bit numbers.
    U16,
    /// Unsigned bytes.
    U8,
    /// Floating-point numbers of 64 bits.
    F64,
    /// Bits.
    Bool,
    /// Lists of signed 16-bit numbers.
    ListI16,
    /// Lists of signed 32-bit numbers.
    ListI32,
    /// Lists of unsigned bytes.
    ListU8,
    /// Lists of unsigned 16-bit numbers.
    ListU16,
    /// Lists of unsigned 64-bit numbers.
    ListU64,
    /// Words of [`Closing`], dictionary-encoded: a byte per row that every reader shows as the word.
    Closing,
    /// Words of [`Selected`], likewise.
    Selected,
    /// Words in plain UTF-8.
    Text,
    /// Byte strings that lie in buffers of their own.
    BinaryView,
}

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, as readers see it.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a row may say nothing.
    pub nullable: bool,
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: false }
}

const fn optional(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

const HITS: [Column; 5] = [
    column("time_ps", Kind::I64),
    column("channel", Kind::U16),
    optional("energy", Kind::U16),
    optional("energy_short", Kind::U16),
    column("flags", Kind::U16),
];

const EXTRAS: [Column; 9] = [
    column("hit", Kind::U64),
    column("time_ps", Kind::I64),
    column("source", Kind::U16),
    column("raw_flags", Kind::U32),
    column("number", Kind::U32),
    column("info", Kind::U64),
    column("layout", Kind::U8),
    column("truncated", Kind::Bool),
    column("words", Kind::ListU64),
];

/// Samples of up to 16 bits are numbers of 16 bits; those of a signal that can have greater ones are in the `_wide` columns.
const WAVEFORMS: [Column; 18] = [
    WAVEFORMS_INT32[0],
    WAVEFORMS_INT32[1],
    WAVEFORMS_INT32[2],
    WAVEFORMS_INT32[3],
    column("analog_1", Kind::ListI16),
    column("analog_2", Kind::ListI16),
    WAVEFORMS_INT32[6],
    optional("sample_ps", Kind::F64),
    optional("first_sample_ps", Kind::I64),
    optional("probe_1", Kind::U8),
    optional("probe_2", Kind::U8),
    optional("digital_probes", Kind::U16),
    optional("overlapped", Kind::U32),
    optional("part", Kind::U16),
    optional("parts", Kind::U16),
    optional("first_sample", Kind::U32),
    column("analog_1_wide", Kind::ListI32),
    column("analog_2_wide", Kind::ListI32),
];

/// The same of sources whose samples have 16 bits and no sign.
const WAVEFORMS_UINT16: [Column; 16] = [
    WAVEFORMS[0],
    WAVEFORMS[1],
    WAVEFORMS[2],
    WAVEFORMS[3],
    column("analog_1", Kind::ListU16),
    column("analog_2", Kind::ListU16),
    WAVEFORMS[6],
    WAVEFORMS[7],
    WAVEFORMS[8],
    WAVEFORMS[9],
    WAVEFORMS[10],
    WAVEFORMS[11],
    WAVEFORMS[12],
    WAVEFORMS[13],
    WAVEFORMS[14],
    WAVEFORMS[15],
];

/// Both as they were before records had parts.
const WAVEFORMS_WHOLE: [Column; 15] = [
    WAVEFORMS[0],
    WAVEFORMS[1],
    WAVEFORMS[2],
    WAVEFORMS[3],
    WAVEFORMS[4],
    WAVEFORMS[5],
    WAVEFORMS[6],
    WAVEFORMS[7],
    WAVEFORMS[8],
    WAVEFORMS[9],
    WAVEFORMS[10],
    WAVEFORMS[11],
    WAVEFORMS[12],
    WAVEFORMS[16],
    WAVEFORMS[17],
];
const WAVEFORMS_WHOLE_UINT16: &[Column] = WAVEFORMS_UINT16.split_at(13).0;

/// As waveforms were recorded at first.
const WAVEFORMS_INT32: [Column; 7] = [
    column("hit", Kind::U64),
    column("time_ps", Kind::I64),
    column("channel", Kind::U16),
    column("source", Kind::U16),
    column("analog_1", Kind::ListI32),
    column("analog_2", Kind::ListI32),
    column("digital", Kind::ListU8),
];

const STATISTICS: [Column; 7] = [
    column("mark_ns", Kind::U64),
    column("source", Kind::U16),
    column("channel", Kind::U16),
    column("real_time_ps", Kind::I64),
    column("dead_time_ps", Kind::I64),
    column("triggers", Kind::U64),
    column("saved", Kind::U64),
];

const RAW: [Column; 6] = [
    column("source", Kind::U16),
    column("mark_ns", Kind::U64),
    column("kind", Kind::U8),
    column("flags", Kind::U8),
    column("tag", Kind::U32),
    column("payload", Kind::BinaryView),
];

const EVENTS: [Column; 9] = [
    column("trigger", Kind::U64),
    column("closing", Kind::Closing),
    column("fragments", Kind::U32),
    column("missing", Kind::ListU16),
    column("bytes", Kind::U64),
    column("first_arrival_ns", Kind::U64),
    column("closed_ns", Kind::U64),
    column("attempt", Kind::U8),
    column("first_fragment", Kind::U64),
];

/// The same of events that a filter has selected, and why.
const EVENTS_SELECTED: [Column; 10] = [
    EVENTS[0],
    EVENTS[1],
    EVENTS[2],
    EVENTS[3],
    EVENTS[4],
    EVENTS[5],
    EVENTS[6],
    EVENTS[7],
    EVENTS[8],
    column("selected", Kind::Selected),
];

const FRAGMENTS: [Column; 4] = [
    column("trigger", Kind::U64),
    column("source", Kind::U16),
    column("ticks", Kind::U64),
    column("payload", Kind::BinaryView),
];

/// Behind the event's number a hit as in `hits`, then its place in the event.
const COINCIDENCES: [Column; 9] = [
    column("event", Kind::U64),
    HITS[0],
    HITS[1],
    HITS[2],
    HITS[3],
    HITS[4],
    column("dt_ps", Kind::I64),
    column("multiplicity", Kind::U16),
    column("is_reference", Kind::Bool),
];

/// When it was counted, whose it was, where, why, in what unit; trigger numbers where these are known; how many.
const LOSSES: [Column; 10] = [
    column("from_ns", Kind::U64),
    column("until_ns", Kind::U64),
    column("subject", Kind::Text),
    column("stage", Kind::Text),
    column("reason", Kind::Text),
    column("unit", Kind::Text),
    optional("first", Kind::U64),
    optional("last", Kind::U64),
    column("count", Kind::I64),
    column("quality", Kind::Text),
];

/// The triggers, by whom and under which event manager they were assigned to whom, what became of them, and the events added up.
const RANGES: [Column; 12] = [
    column("first", Kind::U64),
    column("last", Kind::U64),
    column("ranges", Kind::U64),
    column("attempt", Kind::U8),
    column("epoch", Kind::U64),
    optional("readout", Kind::U16),
    column("builder", Kind::U16),
    column("fate", Kind::Text),
    column("events", Kind::U64),
    column("fragments", Kind::U64),
    column("bytes", Kind::U64),
    column("digest", Kind::U64),
];

/// When it was read, of which series; no value where it could not be read.
const SERIES: [Column; 3] =
    [column("time_ns", Kind::U64), column("series", Kind::Text), optional("value", Kind::F64)];

impl Table {
    /// All of them.
    pub const ALL: [Table; 11] = [
        Table::Hits,
        Table::Extras,
        Table::Waveforms,
        Table::Statistics,
        Table::Raw,
        Table::Events,
        Table::Fragments,
        Table::Coincidences,
        Table::Losses,
        Table::Ranges,
        Table::Series,
    ];
    /// Those that a run of hits may have beside raw bytes, hits before what belongs to them.
    pub const OF_HITS: [Table; 4] = [Table::Hits, Table::Extras, Table::Waveforms, Table::Statistics];

    /// Those that describe a run and hold no data.
    pub(crate) const LISTS: [Table; 3] = [Table::Losses, Table::Ranges, Table::Series];

    /// The word in files and on the page.
    pub const fn word(self) -> &'static str {
        match self {
            Table::Hits => "hits",
            Table::Extras => "extras",
            Table::Waveforms => "waveforms",
            Table::Statistics => "statistics",
            Table::Raw => "raw",
            Table::Events => "events",
            Table::Fragments => "fragments",
            Table::Coincidences => "coincidences",
            Table::Losses => "losses",
            Table::Ranges => "ranges",
            Table::Series => "series",
        }
    }

    /// The one with this word.
    pub fn from_word(word: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.word() == word)
    }

    /// Name of its file in a run directory. The ending is that of Arrow's stream format.
    pub fn file_name(self) -> String {
        format!("{}{ENDING}", self.word())
    }

    /// The one that a file of this name holds: `hits.arrows`; of several writers `raw-SOURCE.arrows`, `events-UNIT.arrows`,
    /// `ranges-UNIT.arrows`.
    ///
    /// `None` for a later part of a table: it is read with the first.
    pub fn of_file_name(name: &str) -> Option<Table> {
        let stem = name.strip_suffix(ENDING)?;
        if first_part_of(name).is_some() {
            return None;
        }
        let (word, writer) = match stem.split_once('-') {
            Some((word, writer)) => (word, Some(writer)),
            None => (stem, None),
        };
        let table = Table::from_word(word)?;
        let has_several = matches!(table, Table::Raw | Table::Events | Table::Fragments | Table::Ranges);
        (writer.is_none() || has_several).then_some(table)
    }

    /// The same of a table's first file, or of a later part.
    pub(crate) fn of_part_name(name: &str) -> Option<Table> {
        Table::of_file_name(first_part_of(name).as_ref().map_or(name, |(first, _)| first))
    }

    /// Its columns; of waveforms those of boards whose samples may have a sign, of events those of a run without a filter.
    pub const fn columns(self) -> &'static [Column] {
        self.shapes()[0]
    }

    /// All columns that files of it can have: those that are written first, then those of other sources and of earlier versions. Their
    /// numbers of buffers differ.
    pub const fn shapes(self) -> &'static [&'static [Column]] {
        match self {
            Table::Hits => &[&HITS],
            Table::Extras => &[&EXTRAS],
            Table::Waveforms => {
                &[&WAVEFORMS, &WAVEFORMS_UINT16, &WAVEFORMS_WHOLE, WAVEFORMS_WHOLE_UINT16, &WAVEFORMS_INT32]
            }
            Table::Statistics => &[&STATISTICS],
            Table::Raw => &[&RAW],
            Table::Events => &[&EVENTS, &EVENTS_SELECTED],
            Table::Fragments => &[&FRAGMENTS],
            Table::Coincidences => &[&COINCIDENCES],
            Table::Losses => &[&LOSSES],
            Table::Ranges => &[&RANGES],
            Table::Series => &[&SERIES],
        }
    }

    /// Its Arrow schema with these columns, one of its shapes, and with `metadata` (keys get the prefix `thalweg.`).
    pub(crate) fn schema(self, columns: &[Column], metadata: &[(&str, &str)]) -> Schema {
        let fields: Fields = columns
            .iter()
            .map(|column| Field::new(column.name, column.kind.data_type(), column.nullable))
            .collect();
        let own = [("table", self.word()), ("format", FORMAT)];
        let metadata: std::collections::HashMap<String, String> = own
            .iter()
            .chain(metadata)
            .map(|(key, value)| (format!("thalweg.{key}"), (*value).to_owned()))
            .collect();
        Schema::new(fields).with_metadata(metadata)
    }
}

/// The words of each column that is dictionary-encoded, in the order of the columns: the place of a dictionary is its number.
pub(crate) fn dictionaries(columns: &[Column]) -> impl Iterator<Item = Vec<&'static str>> {
    columns.iter().filter_map(|column| column.kind.words())
}

/// The number of a column's dictionary, if it has one.
pub(crate) fn dictionary_of(columns: &[Column], column: usize) -> Option<usize> {
    columns[column].kind.words().map(|_| dictionaries(&columns[..column]).count())
}

/// The ending of a table's file: that of Arrow's stream format.
const ENDING: &str = ".arrows";
/// Digits of a part's number in the name of its file, with zeros in front.
const PART_DIGITS: usize = 4;

/// The name of a table's part, where the table has several files: `hits.arrows`, `hits.0001.arrows`, …
pub(crate) fn part_name(first: &str, part: u32) -> String {
    let stem = first.strip_suffix(ENDING).unwrap_or(first);
    if part == 0 { first.to_owned() } else { format!("{stem}.{part:0PART_DIGITS$}{ENDING}") }
}

/// The name of a table's first file, and the number of the part, of a file name that names a later one.
pub fn first_part_of(name: &str) -> Option<(String, u32)> {
    let (stem, digits) = name.strip_suffix(ENDING)?.rsplit_once('.')?;
    let is_number = digits.len() >= PART_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    let part = digits.parse().ok().filter(|part| is_number && *part > 0)?;
    Some((format!("{stem}{ENDING}"), part))
}

/// Version of the tables' meaning, in every schema.
pub(crate) const FORMAT: &str = "1";

impl Kind {
    fn data_type(self) -> DataType {
        let list = |item| DataType::List(Arc::new(Field::new("item", item, false)));
        match self {
            Kind::I64 => DataType::Int64,
            Kind::U64 => DataType::UInt64,
            Kind::U32 => DataType::UInt32,
            Kind::U16 => DataType::UInt16,
            Kind::U8 => DataType::UInt8,
            Kind::F64 => DataType::Float64,
            Kind::Bool => DataType::Boolean,
            Kind::ListI16 => list(DataType::Int16),
            Kind::ListI32 => list(DataType::Int32),
            Kind::ListU8 => list(DataType::UInt8),
            Kind::ListU16 => list(DataType::UInt16),
            Kind::ListU64 => list(DataType::UInt64),
            Kind::Closing | Kind::Selected => {
                DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
            }
            Kind::Text => DataType::Utf8,
            Kind::BinaryView => DataType::BinaryView,
        }
    }

    /// Bytes of one value, or of one item of a list; 0 for bits.
    pub(crate) const fn item_bytes(self) -> usize {
        match self {
            Kind::I64 | Kind::U64 | Kind::F64 | Kind::ListU64 => 8,
            Kind::U32 | Kind::ListI32 => 4,
            Kind::U16 | Kind::ListI16 | Kind::ListU16 => 2,
            Kind::U8 | Kind::ListU8 | Kind::Closing | Kind::Selected | Kind::Text => 1,
            Kind::Bool => 0,
            Kind::BinaryView => 16,
        }
    }

    /// Whether each row is a list.
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Kind::ListI16 | Kind::ListI32 | Kind::ListU8 | Kind::ListU16 | Kind::ListU64)
    }

    /// The words that a column's numbers stand for, when they do.
    pub(crate) fn words(self) -> Option<Vec<&'static str>> {
        match self {
            Kind::Closing => Some(Closing::ALL.map(Closing::word).to_vec()),
            Kind::Selected => Some(Selected::ALL.map(Selected::word).to_vec()),
            _ => None,
        }
    }
}
