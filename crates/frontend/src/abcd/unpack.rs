//! Whole records out of an ABCD event file.
//!
//! ```text
//!  bytes ─► one slice of n × 16 bytes ─► the rest of less than 16 waits for its end
//! ```
//! The format has no mark at a record: after a file that was cut inside a record, nothing can find the next one.
//! That shows as channels beyond the configured number, which the decoder counts.

use thalweg_data::{Frames, SourceId, Tally, Unpack};

use super::settings::{Settings, SettingsError};
use super::wire::Record;
use crate::framing::StreamAccount;

/// Finds whole records; each unit is a slice of one or more.
#[derive(Debug, Default)]
pub struct AbcdUnpack {
    account: StreamAccount,
}

impl AbcdUnpack {
    /// A framing of one stream. `source` is accepted for symmetry with its decoder; the units say their own.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<AbcdUnpack, SettingsError> {
        let _ = source;
        settings.validate()?;
        Ok(AbcdUnpack::default())
    }
}

impl Unpack for AbcdUnpack {
    fn unpack(&mut self, received: &Frames, units: &mut Frames) -> usize {
        self.account.unpack(received, units, |piece, units, account| {
            let left_over = piece.bytes.len() % Record::BYTES;
            let whole = piece.bytes.len() - left_over;
            if whole > 0 {
                let part = piece.slice.part(0, whole).expect("less than all").tagged(0);
                account.pass_on(piece, part, (whole / Record::BYTES) as u64, units);
            }
            left_over
        })
    }

    fn finish(&mut self, units: &mut Frames) {
        let _ = units;
        self.account.finish();
    }

    fn tally(&self) -> &Tally {
        &self.account.tally
    }

    fn wire_tally(&self) -> &Tally {
        &self.account.wire
    }
}
