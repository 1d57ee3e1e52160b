//! Run files read back: checked, bounded, never trusted.
//!
//! ```text
//!  *.arrows ──► TableReader ── BatchHead ──► columns ──► hits · events · coincidences · losses · raw rows
//!                    │                         │
//!                    └► verify · recover       └► inspect · RawReplay (a Source)
//! ```
//! Whatever the bytes are, nothing here panics, hangs, or reserves more memory than the file can fill. Reading is
//! buffered rather than mapped: a file that is cut short meanwhile is an error, not a bus error.

mod coincidences;
mod dictionary;
mod events;
mod hits;
mod inspect;
mod inspect_coincidences;
mod inspect_events;
mod losses;
mod merged_events;
mod message_ends;
mod pace;
mod payload;
mod ranges;
mod raw;
mod raw_gaps;
mod recover;
mod recover_table;
mod replay;
mod rewrite;
mod salvage;
mod series;
pub(crate) mod table_bytes;
mod table_reader;
mod verify;
mod verify_coincidences;
mod verify_events;
mod verify_losses;
mod verify_nodes;
mod verify_ranges;
mod waveforms;

pub use coincidences::CoincidencesReader;
pub use events::{EventsFile, RecordedEvent, RecordedFragment};
pub use hits::HitsReader;
pub use inspect::{ChannelCount, HitRow, Inspection, inspect};
pub use inspect_coincidences::{CoincidenceWords, CoincidencesContent};
pub use inspect_events::{EventSource, EventWords, EventsContent};
pub use losses::LossesReader;
pub use merged_events::MergedEvents;
pub use message_ends::{MARKER, MARKER_BYTES, MessageSpan, message_at, message_behind, message_end};
pub use pace::Pace;
pub use ranges::{RangeRows, RangesReader};
pub use raw::{RawArrival, RawContent, expect_raw_files, raw_arrivals, raw_sources};
pub use recover::{RecoverReport, RecoveredTable, recover};
pub use replay::RawReplay;
pub use series::SeriesReader;
pub use table_bytes::{TableBytes, TableStreamBytes};
pub use table_reader::{BatchHead, ReadAt, TableReader};
pub use verify::{LedgerReport, TableReport, VerifyReport, verify};
pub use verify_coincidences::CoincidencesReport;
pub use verify_events::EventsReport;
pub use verify_losses::LossesReport;
pub use verify_nodes::{NodesReport, ShippedReport, verify_nodes};
pub use verify_ranges::EdgeReport;
pub use waveforms::{RecordedPart, RecordedWaveform, WaveformsReader};

use std::path::Path;

use payload::{Payloads, View};
use thalweg_data::{Closing, Selected};

use crate::error::RecordError;
use crate::table::{Kind, Table};

/// What [`check`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The table.
    pub table: Table,
    /// Whole batches.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
}

/// Reads `bytes` as a table's file, every column of every batch: whether what lies in memory is whole.
///
/// # Errors
/// At the first thing that is not as this program writes it.
pub fn check(bytes: &[u8]) -> Result<Checked, RecordError> {
    let mut reader = TableReader::over(bytes, Path::new("(memory)"))?;
    let mut checked = Checked { table: reader.table(), batches: 0, rows: 0 };
    while let Some(head) = reader.next_batch()? {
        reader.verify_checksum(&head)?;
        read_every_column(&reader, &head)?;
        checked.batches += 1;
        checked.rows += head.rows() as u64;
    }
    Ok(checked)
}

/// Reads every column of a batch, so that what is promised of them is checked.
pub(crate) fn read_every_column<R: ReadAt>(
    reader: &TableReader<R>,
    head: &BatchHead,
) -> Result<(), RecordError> {
    for (index, column) in reader.columns().iter().enumerate() {
        match column.kind {
            Kind::Bool => drop(reader.bits(head, index)?),
            Kind::BinaryView => {
                let mut bytes = Vec::new();
                let views = reader.numbers::<16>(head, index)?;
                let views = || views.iter().map(|view| View(*view));
                let payloads = Payloads::load(reader, head.clone(), index, views(), false)?;
                for view in views() {
                    bytes.resize(view.length(), 0);
                    payloads.copy(reader, view, 0, &mut bytes)?;
                }
            }
            Kind::Closing => drop(reader.words(head, index, Closing::from_number)?),
            Kind::Selected => drop(reader.words(head, index, Selected::from_number)?),
            Kind::Text => drop(reader.texts(head, index)?),
            kind if kind.is_list() => drop(reader.lists(head, index)?),
            _ => drop(reader.bytes_of(head, index)?),
        }
    }
    Ok(())
}
