//! What the far side knows of a file: how much of it is proved. Forced to the disk before a proof is sent.
//!
//! ```text
//!  DIRECTORY/RUN/.shipped/FILE.json  { kind, identity, proved, crc32c, finished }
//! ```
//! Rules only: no file is touched here.

use serde::{Deserialize, Serialize};
use thalweg_data::checksum;

use crate::amount::RowCounts;
use crate::digests::Digests;
use crate::error::Refusal;
use crate::message::{FileKind, Have, Identity, Offer, Range, Refused};

/// Most bytes between two proofs: what lies behind the marker of a file that nobody goes on with.
pub const MOST_RANGE_BYTES: u64 = 8 << 30;

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarRecord {
    /// How it comes to be complete.
    pub kind: FileKind,
    /// Of a whole file: which one is being shipped.
    pub identity: Identity,
    /// Bytes that are proved.
    pub proved: u64,
    /// CRC-32C of these.
    pub crc32c: u32,
    /// Batches and rows of these; null of files without rows, and where an older version has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<RowCounts>,
    /// The complete file that is there.
    pub finished: Option<FinishedRecord>,
}

/// A file that is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedRecord {
    /// Which one was shipped.
    pub identity: Identity,
    /// Its digests, as they were read back.
    pub digests: Digests,
}

impl FarRecord {
    /// Of a file that begins.
    pub fn new(offer: &Offer) -> FarRecord {
        let Offer { kind, identity, .. } = *offer;
        let counted = (kind == FileKind::Growing).then(RowCounts::default);
        FarRecord { kind, identity, proved: 0, crc32c: 0, counted, finished: None }
    }

    /// Goes on with an offer: whether what is proved still counts.
    ///
    /// # Errors
    /// When the file is of another kind.
    pub fn go_on(&mut self, offer: &Offer) -> Result<bool, Refused> {
        if self.kind != offer.kind {
            return Err(Refused::new(
                Refusal::Differs,
                "a file of this name was shipped in another way; move it away at the far side",
            ));
        }
        let goes_on = self.kind == FileKind::Growing || self.identity == offer.identity;
        if !goes_on {
            (self.identity, self.proved, self.crc32c) = (offer.identity, 0, 0);
        }
        Ok(goes_on)
    }

    /// The complete file, when it is the one that is offered.
    pub fn finished(&self, offer: &Offer) -> Option<&FinishedRecord> {
        self.finished
            .as_ref()
            .filter(|finished| self.kind == FileKind::Growing || finished.identity == offer.identity)
    }

    /// What is said of it.
    pub fn have(&self, offer: &Offer) -> Have {
        let finished = self.finished(offer).map(|finished| finished.digests.clone());
        Have { proved: self.proved, crc32c: self.crc32c, finished, makes_digests: true }
    }

    /// Whether the next bytes may lie there, when `written` is where the last ones ended.
    ///
    /// # Errors
    /// When they may not.
    pub fn takes(&self, written: u64, offset: u64, bytes: usize) -> Result<(), Refused> {
        let end = offset.checked_add(bytes as u64);
        match end.is_some_and(|end| end - self.proved <= MOST_RANGE_BYTES) && offset == written {
            true => Ok(()),
            false => Err(Refused::new(Refusal::Unexpected, format!("bytes at {offset} have no place here"))),
        }
    }

    /// Whether a range can be proved now.
    ///
    /// # Errors
    /// When it is not the one that came.
    pub fn expects(&self, written: u64, range: &Range) -> Result<(), Refused> {
        match (range.from, range.to) == (self.proved, written) && range.to > range.from {
            true => Ok(()),
            false => Err(Refused::new(Refusal::Unexpected, "a proof of other bytes than came")),
        }
    }

    /// The same with a range that was proved, and the batches and rows that were counted in it.
    pub fn with(&self, range: &Range, counts: RowCounts) -> FarRecord {
        let crc32c = checksum::combined(self.crc32c, range.crc32c, range.to - range.from);
        let mut record = FarRecord { proved: range.to, crc32c, ..self.clone() };
        if let Some(counted) = &mut record.counted {
            *counted += counts;
        }
        record
    }
}
