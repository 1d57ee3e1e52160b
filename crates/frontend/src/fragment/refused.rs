//! The first few refused units, kept whole enough to see what a board really sends.
//!
//! ```text
//!  refused: reason, when, bytes ─► the first four of each reason, sixteen in all, 128 bytes of each
//! ```

use std::fmt;

use thalweg_data::{LossReason, Mark};

/// Kept in all.
const MOST: usize = 16;
/// Kept for one reason.
const MOST_OF_A_REASON: usize = 4;
/// Kept of one unit.
const MOST_BYTES: usize = 128;

/// One refused unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: LossReason,
    /// When it came.
    pub mark: Mark,
    /// How long it was.
    pub length: usize,
    /// Its first bytes.
    pub head: Vec<u8>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ns, {} bytes:", self.reason, self.mark.0, self.length)?;
        for (index, byte) in self.head.iter().enumerate() {
            write!(f, "{}{byte:02x}", if index % 8 == 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// The first few.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstRefused {
    kept: Vec<Refused>,
}

impl FirstRefused {
    pub fn keep(&mut self, reason: LossReason, mark: Mark, unit: &[u8]) {
        if self.kept.len() == MOST {
            return;
        }
        let same = self.kept.iter().filter(|refused| refused.reason == reason).count();
        if same < MOST_OF_A_REASON {
            let head = unit[..unit.len().min(MOST_BYTES)].to_vec();
            self.kept.push(Refused { reason, mark, length: unit.len(), head });
        }
    }

    pub fn kept(&self) -> &[Refused] {
        &self.kept
    }
}
