//! The first few fragments that could not be used, kept for the operator to look at.

use std::fmt;

use thalweg_data::{LossReason, Mark, Refused, SourceId};

/// A fragment that could not be used: whose, which, why, and how it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// Why it was not used.
    pub reason: LossReason,
    /// Whose it was.
    pub source: SourceId,
    /// The trigger number that the board gave it.
    pub trigger: u64,
    /// When it came.
    pub mark: Mark,
    /// Its length in bytes.
    pub bytes: u64,
    /// First trigger that had not left at that moment.
    pub base: u64,
    /// How many triggers from that one on could be taken.
    pub capacity: u64,
    head: [u8; Dump::LONGEST],
    head_length: u8,
}

impl Dump {
    /// Bytes that are kept of each.
    pub const LONGEST: usize = 32;

    /// How the fragment begins.
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_length)]
    }

    /// What would have been taken in its place, in words.
    pub fn expected(&self) -> String {
        let Dump { base, capacity, .. } = self;
        match self.reason {
            LossReason::DuplicateFragment => "one fragment of the board for each trigger".to_owned(),
            LossReason::WrongRun => "a run that is under way".to_owned(),
            LossReason::UnknownSource => "a source of this builder".to_owned(),
            LossReason::OutOfWindow if *capacity == 0 => {
                "a number within `[build] trigger_bits`, and below 2^62".to_owned()
            }
            _ => format!("triggers {base} to {}", base.wrapping_add(capacity.saturating_sub(1))),
        }
    }

    /// The same in the form of every refused unit.
    pub fn to_refused(&self) -> Refused {
        let refused = Refused::new(self.reason, self.mark, self.head(), self.expected());
        Refused { source: Some(self.source), trigger: Some(self.trigger), bytes: self.bytes, ..refused }
    }
}

/// What is known of a fragment that could not be used.
pub(super) struct Unused {
    pub reason: LossReason,
    pub source: SourceId,
    pub trigger: u64,
    pub mark: Mark,
    pub bytes: u64,
    pub base: u64,
    pub capacity: u64,
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dump { reason, source, trigger, bytes, .. } = self;
        write!(f, "{source}: {reason}: trigger {trigger}, {bytes} bytes:")?;
        self.head().iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// The kept ones: a few of each reason and source, and not many in all.
pub(super) struct Dumps {
    kept: Vec<Dump>,
}

const MOST: usize = 64;
const MOST_ALIKE: usize = 3;

impl Dumps {
    pub fn new() -> Dumps {
        Dumps { kept: Vec::with_capacity(MOST) }
    }

    /// Keeps one if there is space; `head` is asked for its bytes only then.
    pub fn keep<'a>(&mut self, unused: Unused, head: impl FnOnce() -> &'a [u8]) {
        let Unused { reason, source, trigger, mark, bytes, base, capacity } = unused;
        if self.kept.len() == MOST {
            return;
        }
        let alike = self.kept.iter().filter(|kept| kept.reason == reason && kept.source == source);
        if alike.count() < MOST_ALIKE {
            let (bytes_of, mut kept) = (head(), [0; Dump::LONGEST]);
            let length = bytes_of.len().min(Dump::LONGEST);
            kept[..length].copy_from_slice(&bytes_of[..length]);
            self.kept.push(Dump {
                reason,
                source,
                trigger,
                mark,
                bytes,
                base,
                capacity,
                head: kept,
                head_length: length as u8,
            });
        }
    }

    pub fn kept(&self) -> &[Dump] {
        &self.kept
    }

    pub fn clear(&mut self) {
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_of_each_are_kept() {
        let mut dumps = Dumps::new();
        for trigger in 0..10 {
            let (reason, source, mark) = (LossReason::LateFragment, SourceId(3), Mark(9));
            let unused = Unused { reason, source, trigger, mark, bytes: 100, base: 50, capacity: 10 };
            dumps.keep(unused, || &[0xAB; 100]);
        }
        assert_eq!(dumps.kept().len(), MOST_ALIKE);
        let text = dumps.kept()[1].to_string();
        assert!(text.starts_with("source 3: late_fragment: trigger 1, 100 bytes: ab ab"), "{text}");
        assert_eq!(text.matches(" ab").count(), Dump::LONGEST);
        let refused = dumps.kept()[1].to_refused();
        assert_eq!((refused.bytes, refused.trigger, refused.head.len()), (100, Some(1), Dump::LONGEST));
        assert_eq!(refused.expected, "triggers 50 to 59");
    }
}
