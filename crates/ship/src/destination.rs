//! Where files are shipped to, whatever lies between.
//!
//! ```text
//!  begin(offer) ─► Have      write(offset, bytes) … prove(range) ─► Proved      finish(digests) ─► Digests
//!                                                   ask_proof(range) … write … await_proof ─► Proved
//! ```
//! A mounted path and a far `thalweg receive` implement it with the same files behind. A store of objects takes no growing files
//! ([`Destination::takes_growing`]): a file comes when it is closed, and its digests come with the offer; `write` fills parts, `prove`
//! uploads one and holds its checksum against the store's, `finish` completes the object and reads it back.

use std::path::Path;

use crate::digests::Digests;
use crate::error::ShipError;
use crate::message::{Have, Offer, Proved, Range};

/// Bytes between two proofs, about; of a growing file a batch at least.
pub const RANGE_BYTES: u64 = 32 << 20;

/// Takes files, one at a time.
pub trait Destination: Send {
    /// Its address, for messages and for the state that is kept of it.
    fn address(&self) -> &str;

    /// Whether files may come that still grow.
    fn takes_growing(&self) -> bool {
        true
    }

    /// Bytes between two proofs of a file of so many bytes, about.
    fn range_bytes(&self, _file_bytes: u64) -> u64 {
        RANGE_BYTES
    }

    /// The directory here of the run whose files come next. A destination that cannot remember what it has of a file keeps that there.
    fn at_run(&mut self, _run: &Path) {}

    /// Begins with a file, or goes on with it. What came since the last proof of another one is forgotten.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn begin(&mut self, offer: &Offer) -> Result<Have, ShipError>;

    /// Takes the next bytes of the file: the first behind what is proved, the others one behind the other.
    ///
    /// # Errors
    /// When they have no place, or the connection is lost. The file must be begun again then.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ShipError>;

    /// Forces what came to the disk, reads it back, and holds it against the range.
    ///
    /// # Errors
    /// When it is not what was sent, or cannot be forced. The file must be begun again then.
    fn prove(&mut self, range: &Range) -> Result<Proved, ShipError>;

    /// Asks for a proof, and need not wait for it: `None` if it is to be waited for with [`Destination::await_proof`], while the next
    /// bytes are written.
    ///
    /// # Errors
    /// As for [`Destination::prove`].
    fn ask_proof(&mut self, range: &Range) -> Result<Option<Proved>, ShipError> {
        self.prove(range).map(Some)
    }

    /// Waits for the oldest proof that was asked for.
    ///
    /// # Errors
    /// As for [`Destination::prove`]; that no proof was asked for.
    fn await_proof(&mut self) -> Result<Proved, ShipError> {
        Err(ShipError::Protocol {
            destination: self.address().to_owned(),
            found: "no proof was asked for".to_owned(),
        })
    }

    /// Reads the whole file back and holds it against these digests. The file is complete then.
    ///
    /// # Errors
    /// When it is not what was sent. The file must be begun again then.
    fn finish(&mut self, expected: &Digests) -> Result<Digests, ShipError>;
}
