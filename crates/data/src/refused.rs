//! The first few units that were refused, kept so that people can see what a board really sends.
//!
//! ```text
//!  refused: reason, when, what was expected, bytes ─► the first four of each reason, sixteen in all, 128 bytes of each
//! ```
//! Only what is kept costs memory: a link that refuses a million units keeps what the first few were.

use std::fmt;

use crate::batch::Mark;
use crate::id::SourceId;
use crate::ledger::LossReason;

/// Kept in all.
const MOST: usize = 16;
/// Kept for one reason.
const MOST_OF_A_REASON: usize = 4;

/// One refused unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: LossReason,
    /// Whose it was, if it said so and the number is one of ours.
    pub source: Option<SourceId>,
    /// The trigger number that it gave, if that could be read.
    pub trigger: Option<u64>,
    /// When it came.
    pub mark: Mark,
    /// How many bytes there were: of the unit, or, of a damaged stream, up to the end of what had come.
    pub bytes: u64,
    /// What would have been taken, in words.
    pub expected: String,
    /// Its first bytes, [`Refused::LONGEST_HEAD`] at most.
    pub head: Vec<u8>,
}

impl Refused {
    /// Bytes that are kept of one unit.
    pub const LONGEST_HEAD: usize = 128;

    /// One that was refused, with as much of its bytes as is kept.
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

/// The first few.
#[derive(Clone, Debug, Default)]
pub struct FirstRefused {
    kept: Vec<Refused>,
}

impl FirstRefused {
    /// Keeps one if there is room for its reason; it is put together only then.
    pub fn keep(&mut self, reason: LossReason, refused: impl FnOnce() -> Refused) {
        if self.kept.len() < MOST
            && self.kept.iter().filter(|kept| kept.reason == reason).count() < MOST_OF_A_REASON
        {
            self.kept.push(refused());
        }
    }

    /// Those that were kept, in the order in which they came.
    pub fn kept(&self) -> &[Refused] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_of_each_reason_are_kept_and_no_more_than_their_heads() {
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
