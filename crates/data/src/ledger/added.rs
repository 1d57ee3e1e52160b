//! Names that are added to a vocabulary of the ledger: those of further stages, and of the reasons for their losses.
//!
//! ```text
//!  listed names, which the balance equations know │ slots for added ones: "prescale" · "holdoff" · … · free
//! ```
//! An added name keeps its slot until the process ends, because counters are indexed by slot. Files contain the names, so any program with
//! a free slot can read them.

use std::sync::OnceLock;

/// Most names that can be added to each vocabulary.
pub const MOST_ADDED: usize = 8;
const MOST_BYTES: usize = 24;

/// An added name, by its slot in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Added(u8);

/// Why a name cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// It does not have the form of a name in the ledger.
    #[error(
        "`{0}` is not a valid name in the ledger: use 1 to {MOST_BYTES} lower-case letters, digits and `_`, a letter first"
    )]
    Form(String),
    /// It is a listed name.
    #[error("the ledger already has a name `{0}`; choose another one")]
    Taken(String),
    /// Every slot is taken.
    #[error("`{0}` cannot be added to the ledger: a program adds at most {MOST_ADDED} names of a kind")]
    Full(String),
}

#[derive(Debug)]
struct Entry {
    word: &'static str,
    about: OnceLock<&'static str>,
}

/// The slots for added names of one vocabulary. They are taken one after another and never freed.
#[derive(Debug)]
pub(super) struct Register([OnceLock<Entry>; MOST_ADDED]);

impl Register {
    pub const fn new() -> Register {
        Register([const { OnceLock::new() }; MOST_ADDED])
    }

    /// The slot of a name. A new name takes the next free slot.
    ///
    /// # Errors
    /// If the name is not valid, or no slot is free.
    pub fn enter(&self, word: &str) -> Result<Added, WordError> {
        let is_letter = |byte: &u8| byte.is_ascii_lowercase();
        let fits = |byte: &u8| is_letter(byte) || byte.is_ascii_digit() || *byte == b'_';
        let bytes = word.as_bytes();
        if !bytes.first().is_some_and(is_letter) || !bytes.iter().all(fits) || bytes.len() > MOST_BYTES {
            return Err(WordError::Form(word.to_owned()));
        }
        let entry = || Entry { word: String::leak(word.to_owned()), about: OnceLock::new() };
        let index = self.0.iter().position(|slot| slot.get_or_init(entry).word == word);
        index.map(|index| Added(index as u8)).ok_or_else(|| WordError::Full(word.to_owned()))
    }

    /// Sets the description of a name. Only the first call for a name has an effect.
    pub fn describe(&self, added: Added, about: &str) {
        if let Some(entry) = self.entry(added) {
            entry.about.get_or_init(|| String::leak(about.to_owned()));
        }
    }

    pub fn word(&self, added: Added) -> &'static str {
        self.entry(added).map_or("", |entry| entry.word)
    }

    pub fn about(&self, added: Added) -> &'static str {
        self.entry(added).and_then(|entry| entry.about.get()).copied().unwrap_or("")
    }

    /// The names that were added so far.
    pub fn all(&self) -> impl Iterator<Item = Added> + use<> {
        let count = self.0.iter().take_while(|slot| slot.get().is_some()).count();
        (0..count).map(|index| Added(index as u8))
    }

    fn entry(&self, added: Added) -> Option<&Entry> {
        self.0.get(usize::from(added.0))?.get()
    }
}

impl Added {
    /// Its slot.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_name_keeps_its_slot_until_slots_run_out() {
        let register = Register::new();
        let first = register.enter("holdoff").expect("a free slot");
        register.describe(first, "too soon after another");
        assert_eq!(register.enter("holdoff"), Ok(first));
        assert_eq!((register.word(first), register.about(first)), ("holdoff", "too soon after another"));
        for number in 1..MOST_ADDED {
            register.enter(&format!("word_{number}")).expect("a free slot");
        }
        assert_eq!(register.enter("one_more"), Err(WordError::Full("one_more".to_owned())));
        assert_eq!(register.all().count(), MOST_ADDED);
    }

    #[test]
    fn names_with_other_characters_or_too_many_are_refused() {
        for word in ["", "Two Words", "2nd", "with\"quote", "a_word_that_is_longer_than_its_slot"] {
            assert_eq!(Register::new().enter(word), Err(WordError::Form(word.to_owned())));
        }
    }
}
