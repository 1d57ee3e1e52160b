//! Finds whole records in an ABCD event file.
//!
//! ```text
//!  bytes ─► one slice of n × 16 bytes ─► the rest of less than 16 is carried
//! ```
//! The format has no mark at a record: if a file ends inside a record, the records of the next file cannot be found.
//! That shows as channels beyond the configured number, which the decoder counts.

use thalweg_data::{Frames, SourceId};

use super::settings::{Settings, SettingsError};
use super::wire::Record;
use crate::framing::{Chunk, FindUnits, StreamCounts, StreamUnpack};
use crate::time_origin::SharedOrigin;

/// Finds whole records; each unit is a slice of one or more.
pub type AbcdUnpack = StreamUnpack<WholeRecords>;

/// Finds records by their length alone.
#[derive(Debug)]
pub struct WholeRecords {
    origin: SharedOrigin,
}

impl AbcdUnpack {
    /// Creates a framing of one stream.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<AbcdUnpack, SettingsError> {
        settings.validate()?;
        let origin = SharedOrigin::of(settings.time_origin);
        Ok(StreamUnpack::of(source, WholeRecords { origin }))
    }

    pub(super) fn origin(&self) -> SharedOrigin {
        self.finder().origin.clone()
    }
}

impl FindUnits for WholeRecords {
    fn find_units(&mut self, chunk: &Chunk<'_>, units: &mut Frames, counts: &mut StreamCounts) -> usize {
        let left_over = chunk.bytes.len() % Record::BYTES;
        let whole = chunk.bytes.len() - left_over;
        if whole > 0 {
            if let Some(first) = chunk.bytes.first_chunk() {
                self.origin.see(|| i128::from(Record(first).time()));
            }
            let part = chunk.slice.part(0, whole).expect("whole records are inside the chunk").tagged(0);
            let records = (whole / Record::BYTES) as u64;
            counts.begin_frames(records);
            counts.pass_on(chunk, part, records, units);
        }
        left_over
    }
}
