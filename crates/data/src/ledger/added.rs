//! Words that somebody adds to a vocabulary of the ledger: the name of a stage of one's own, and why it loses something.
//!
//! ```text
//!  listed words, which the balance equations know │ places for added ones: "prescale" · "holdoff" · … · free
//! ```
//! An added word has a place for as long as the process lives, since counters are kept by place. Files have the words themselves, so any
//! program reads them that has a free place.

use std::sync::OnceLock;

/// Words that can be added to each vocabulary.
pub const MOST_ADDED: usize = 8;
const MOST_BYTES: usize = 24;

/// An added word, by its place among those of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Added(u8);

/// A word that cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// It does not look like a word of the ledger.
    #[error(
        "`{0}` is no word for the ledger: 1 to {MOST_BYTES} lower-case letters, digits and `_`, a letter first"
    )]
    Form(String),
    /// It has a meaning already.
    #[error("`{0}` has a meaning in the ledger already; choose another word")]
    Taken(String),
    /// Every place is taken.
    #[error("there is no place for the word `{0}`: a program adds {MOST_ADDED} of a kind at most")]
    Full(String),
}

#[derive(Debug)]
struct Entry {
    word: &'static str,
    about: OnceLock<&'static str>,
}

/// The places for added words of one vocabulary. They are taken one after another, and never given back.
#[derive(Debug)]
pub(super) struct Register([OnceLock<Entry>; MOST_ADDED]);

impl Register {
    pub const fn new() -> Register {
        Register([const { OnceLock::new() }; MOST_ADDED])
    }

    /// The place of a word, which takes the next free one where it has none.
    ///
    /// # Errors
    /// When it is no word for the ledger, or no place is free.
    pub fn enter(&self, word: &str) -> Result<Added, WordError> {
        let is_letter = |byte: &u8| byte.is_ascii_lowercase();
        let fits = |byte: &u8| is_letter(byte) || byte.is_ascii_digit() || *byte == b'_';
        let bytes = word.as_bytes();
        if !bytes.first().is_some_and(is_letter) || !bytes.iter().all(fits) || bytes.len() > MOST_BYTES {
            return Err(WordError::Form(word.to_owned()));
        }
        let entry = || Entry { word: String::leak(word.to_owned()), about: OnceLock::new() };
        let place = self.0.iter().position(|slot| slot.get_or_init(entry).word == word);
        place.map(|place| Added(place as u8)).ok_or_else(|| WordError::Full(word.to_owned()))
    }

    /// Says what a word means; the first who says so is right.
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

    /// Those that were added so far.
    pub fn all(&self) -> impl Iterator<Item = Added> + use<> {
        let count = self.0.iter().take_while(|slot| slot.get().is_some()).count();
        (0..count).map(|place| Added(place as u8))
    }

    fn entry(&self, added: Added) -> Option<&Entry> {
        self.0.get(usize::from(added.0))?.get()
    }
}

impl Added {
    /// Its place.
    pub(super) const fn place(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_place_and_places_come_to_an_end() {
        let register = Register::new();
        let first = register.enter("holdoff").expect("a place");
        register.describe(first, "too soon after another");
        assert_eq!(register.enter("holdoff"), Ok(first));
        assert_eq!((register.word(first), register.about(first)), ("holdoff", "too soon after another"));
        for number in 1..MOST_ADDED {
            register.enter(&format!("word_{number}")).expect("a place");
        }
        assert_eq!(register.enter("one_more"), Err(WordError::Full("one_more".to_owned())));
        assert_eq!(register.all().count(), MOST_ADDED);
    }

    #[test]
    fn a_word_that_could_not_be_written_down_is_refused() {
        for word in ["", "Two Words", "2nd", "with\"quote", "a_word_that_is_longer_than_its_room"] {
            assert_eq!(Register::new().enter(word), Err(WordError::Form(word.to_owned())));
        }
    }
}
