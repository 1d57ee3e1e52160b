//! The first few refused units, kept so that people can see what a board really sends.
//!
//! ```text
//!  refused: reason, when, what was expected, bytes ─► the first four of each reason, sixteen in all, 128 bytes of each
//! ```
//! Memory is bounded: a link that refuses a million units keeps only the first few.

use std::fmt;

use crate::batch::Mark;
use crate::id::SourceId;
use crate::ledger::LossReason;

/// Most units kept in all.
const MOST: usize = 16;
/// Most units kept for one reason.
const MOST_OF_A_REASON: usize = 4;

/// One refused unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why it was refused.
    pub reason: LossReason,
    /// Its source, if it states one of this run.
    pub source: Option<SourceId>,
    /// Its trigger number, if that could be read.
    pub trigger: Option<u64>,
    /// When it arrived.
    pub mark: Mark,
    /// Length of the unit or, in a damaged stream, of everything received from its start on; bytes.
    pub bytes: u64,
    /// Description of what would have been accepted.
    pub expected: String,
    /// Its first bytes, [`Refused::LONGEST_HEAD`] at most.
    pub head: Vec<u8>,
}

impl Refused {
    /// Most bytes that are kept of one unit.
    pub const LONGEST_HEAD: usize = 128;

    /// A refused unit, with the first of its bytes.
    pub fn new(reason: LossReason, mark: Mark, unit: &[u8], expected: String) -> Refused {
        let head = unit[..unit.len().min(Refused::LONGEST_HEAD)].to_vec();
        Refused { reason, source: None, trigger: None, mark, bytes: unit.len() as u64, expected, head }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ns, {} bytes:", self.reason, self.mark.0, self.bytes)?;
        for (index, byte) in self.head.iter().enumerate() {
            write!(f, "{}{byte:02x}", if index % 8 == 0 { " " } else { "" })?;
        }
        write!(f, "; expected: {}", self.expected)
    }
}

/// The first few refused units of a link.
#[derive(Clone, Debug, Default)]
pub struct FirstRefused {
    kept: Vec<Refused>,
}

impl FirstRefused {
    /// Keeps a refused unit unless the limit, in all or for its reason, is reached; calls `refused` only if it is kept.
    pub fn keep(&mut self, reason: LossReason, refused: impl FnOnce() -> Refused) {
        if self.kept.len() < MOST
            && self.kept.iter().filter(|kept| kept.reason == reason).count() < MOST_OF_A_REASON
        {
            self.kept.push(refused());
        }
    }

    /// The units that were kept, in the order of their arrival.
    pub fn kept(&self) -> &[Refused] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_units_of_each_reason_are_kept_with_their_first_bytes() {
        let mut refused = FirstRefused::default();
        for reason in LossReason::ALL.iter().take(6).flat_map(|reason| [*reason; 9]) {
            refused.keep(reason, || Refused::new(reason, Mark(7), &[0xAB; 300], "less".to_owned()));
        }
        assert_eq!(refused.kept().len(), MOST);
        let first = &refused.kept()[0];
        assert_eq!((first.bytes, first.head.len()), (300, Refused::LONGEST_HEAD));
        assert_eq!(refused.kept().iter().filter(|kept| kept.reason == first.reason).count(), 4);
        let text = first.to_string();
        assert!(
            text.contains("at 7 ns, 300 bytes: abababab") && text.ends_with("; expected: less"),
            "{text}"
        );
    }
}
