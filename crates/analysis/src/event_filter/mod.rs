//! The event filter: which of the events that were built of triggered boards are kept.
//!
//! ```text
//!  [filter] keep = 'missing == 0 && max(u16_le, 12) > 500'
//!     │ parse, once per worker
//!     ▼
//!  Events ─► EventFilter::decide ─► Answers: one per event, beside the batch
//! ```
//! The language is that of [cuts](crate::cut) over other fields: of the event, of each fragment, and of the bytes that boards have sent. A
//! kind of filter is a word and a function; a program adds its own with [`add`], before it reads a configuration.

#[cfg(any(test, feature = "harness"))]
mod check;
mod expression;
mod language;
mod prescale;
mod rows;
mod settings;
#[cfg(test)]
mod tests;
mod whole;

use std::sync::{Mutex, PoisonError};

use thalweg_data::{EventFilter, SourceId};

#[cfg(any(test, feature = "harness"))]
pub use check::check;
pub use expression::EventExpression;
pub use prescale::Prescale;
pub use settings::{FilterError, Settings, Undecided};

/// The boards of which events are built, by name.
#[derive(Clone, Copy, Debug)]
pub struct Boards<'n> {
    /// The number of the first one.
    pub first: SourceId,
    /// Their names, one after the other.
    pub names: &'n [String],
}

impl Boards<'_> {
    /// The board that is called so.
    pub fn find(&self, name: &str) -> Option<SourceId> {
        let place = self.names.iter().position(|known| known == name)?;
        Some(SourceId(self.first.0 + place as u16))
    }
}

/// Makes a filter of what `keep` says, for the events of these boards.
pub type MakeFilter = fn(keep: &str, boards: Boards<'_>) -> Result<Box<dyn EventFilter>, String>;

/// A kind of event filter.
#[derive(Clone, Copy)]
pub struct EventFilterKind {
    /// What `[filter] kind` calls it.
    pub word: &'static str,
    /// Makes one for each worker. Has no effect outside, because a configuration is read more than once before its run starts.
    pub make: MakeFilter,
}

/// The kind that every program has.
const EXPRESSION: EventFilterKind = EventFilterKind {
    word: "expression",
    make: |keep, boards| {
        let expression = EventExpression::parse(keep, boards).map_err(|error| error.to_string())?;
        Ok(Box::new(expression))
    },
};

/// Those that this program has besides.
static ADDED: Mutex<Vec<EventFilterKind>> = Mutex::new(Vec::new());

/// Gives this program a kind that it has not. For the start of a program, before it reads a configuration.
///
/// # Errors
/// When there is one of that word.
pub fn add(kind: EventFilterKind) -> Result<(), FilterError> {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if [EXPRESSION].iter().chain(added.iter()).any(|known| known.word == kind.word) {
        return Err(FilterError::Taken(kind.word.to_owned()));
    }
    added.push(kind);
    Ok(())
}

/// Makes the filter that a configuration asks for: one, for one worker.
///
/// # Errors
/// When the kind is not known, or its kind does not accept `keep`.
pub fn make(settings: &Settings, boards: Boards<'_>) -> Result<Box<dyn EventFilter>, FilterError> {
    let kinds: Vec<EventFilterKind> = {
        let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
        [EXPRESSION].into_iter().chain(added.iter().copied()).collect()
    };
    let Some(kind) = kinds.iter().find(|kind| kind.word == settings.kind) else {
        let known: Vec<String> = kinds.iter().map(|kind| format!("\"{}\"", kind.word)).collect();
        return Err(FilterError::Unknown { kind: settings.kind.clone(), known: known.join(", ") });
    };
    (kind.make)(&settings.keep, boards).map_err(FilterError::Keep)
}
