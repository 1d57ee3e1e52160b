//! Whole records out of an ABCD event file.
//!
//! ```text
//!  bytes ─► one slice of n × 16 bytes ─► the rest of less than 16 waits for its end
//! ```
//! The format has no mark at a record: after a file that was cut inside a record, nothing can find the next one.
//! That shows as channels beyond the configured number, which the decoder counts.

use thalweg_data::{Frames, SourceId};

use super::settings::{Settings, SettingsError};
use super::wire::Record;
use crate::framing::{Cut, Piece, StreamCounts, StreamUnpack};
use crate::time_origin::SharedOrigin;

/// Finds whole records; each unit is a slice of one or more.
pub type AbcdUnpack = StreamUnpack<WholeRecords>;

/// Cuts where a record ends.
#[derive(Debug)]
pub struct WholeRecords {
    origin: SharedOrigin,
}

impl AbcdUnpack {
    /// A framing of one stream.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<AbcdUnpack, SettingsError> {
        settings.validate()?;
        let origin = SharedOrigin::of(settings.time_origin);
        Ok(StreamUnpack::of(source, WholeRecords { origin }))
    }

    pub(super) fn origin(&self) -> SharedOrigin {
        self.cut_rule().origin.clone()
    }
}

impl Cut for WholeRecords {
    fn cut(&mut self, piece: &Piece<'_>, units: &mut Frames, counts: &mut StreamCounts) -> usize {
        let left_over = piece.bytes.len() % Record::BYTES;
        let whole = piece.bytes.len() - left_over;
        if whole > 0 {
            if let Some(first) = piece.bytes.first_chunk() {
                self.origin.see(|| i128::from(Record(first).time()));
            }
            let part = piece.slice.part(0, whole).expect("less than all").tagged(0);
            let records = (whole / Record::BYTES) as u64;
            counts.begin_frames(records);
            counts.pass_on(piece, part, records, units);
        }
        left_over
    }
}
