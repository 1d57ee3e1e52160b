//! Stages that a configuration adds to the path of ordered hits: filters, which take hits out, and sinks, to which hits go besides.
//!
//! ```text
//!  [[stage]] kind = "…"
//!
//!  time order ─► filter ─► filter ─┬─► recording · cuts · coincidence
//!                    └─► sink      └─► sink
//! ```
//! A kind is a folder with a [`HitStageKind`], and a line: in `KINDS` here, or a call of [`add`] in a program of one's own, before it
//! reads its configuration. The stage says what becomes of each hit; who drives it counts, so that the ledger, the page, the metrics and the
//! recording know a new stage by its word without knowing it.

mod kind;
mod prescale;

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::Hits;
use thalweg_data::ledger::WordError;

pub use kind::{HitStageKind, HitStageRole, Keys, MadeStage};

/// The kinds that every program has.
const KINDS: &[HitStageKind] = &[prescale::KIND];

/// Those that this program has besides.
static ADDED: Mutex<Vec<HitStageKind>> = Mutex::new(Vec::new());

/// `[[stage]]`: a stage on the path of ordered hits, in front of the recording; several follow each other in the order of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// What it is: `"prescale"`, or one that this program has been given besides.
    pub kind: String,
    /// What this kind can be asked for.
    #[serde(flatten)]
    pub keys: Keys,
}

/// What becomes of a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HitVerdict {
    /// It goes on; in a sink: it has arrived.
    #[default]
    Keep,
    /// It is left out, as somebody wants it.
    LeaveOut,
    /// It is lost, for the reason at this place of [`HitStageKind::reasons`].
    Lose(u8),
}

/// A stage at work. One thread has it; hits come in time order, of all sources, but for those that came late and are flagged so.
pub trait HitStage: Send {
    /// Looks at a batch and says of each hit what becomes of it. There is a verdict for each hit, which says [`HitVerdict::Keep`] to begin with.
    ///
    /// # Errors
    /// In words for the operator, where the stage cannot go on. The run ends then, and the batch is lost in a sink.
    fn take(&mut self, batch: &Hits, verdicts: &mut [HitVerdict]) -> Result<(), String>;

    /// No hit follows: what it still holds goes where it belongs.
    ///
    /// # Errors
    /// In words for the operator.
    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// What a configuration asks for and cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HitStageError {
    /// There is no such kind.
    #[error("[[stage]] \"{kind}\": this program has no such stage; it has {known}")]
    Unknown {
        /// What was asked for.
        kind: String,
        /// What there is.
        known: String,
    },
    /// It is asked for twice; counts are kept by its word.
    #[error("[[stage]] \"{0}\": there is one already; a kind can stand in the path once")]
    Twice(String),
    /// Its words cannot be entered in the ledger.
    #[error("[[stage]] \"{kind}\": {cause}")]
    Word {
        /// The kind.
        kind: String,
        /// What is wrong with the word.
        cause: WordError,
    },
    /// Its keys are invalid.
    #[error("[[stage]] \"{kind}\": {words}")]
    Keys {
        /// The kind.
        kind: String,
        /// What was seen, and what to write.
        words: String,
    },
}

/// Gives this program a kind that it has not. For the start of a program, before it reads a configuration.
///
/// # Errors
/// When there is one of that word.
pub fn add(kind: HitStageKind) -> Result<(), WordError> {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if KINDS.iter().chain(added.iter()).any(|known| known.word == kind.word) {
        return Err(WordError::Taken(kind.word.to_owned()));
    }
    added.push(kind);
    Ok(())
}

/// Every kind that this program has.
pub fn kinds() -> Vec<HitStageKind> {
    let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    KINDS.iter().chain(added.iter()).copied().collect()
}

/// Makes the stages that a configuration asks for, in their order.
///
/// # Errors
/// When a kind is not known or asked for twice, or its keys are invalid.
pub fn make(settings: &[Settings]) -> Result<Vec<MadeStage>, HitStageError> {
    let kinds = kinds();
    let mut made: Vec<MadeStage> = Vec::new();
    for Settings { kind, keys } in settings {
        let known = kinds.iter().find(|known| known.word == kind).ok_or_else(|| {
            let known =
                kinds.iter().map(|known| format!("\"{}\"", known.word)).collect::<Vec<_>>().join(", ");
            HitStageError::Unknown { kind: kind.clone(), known }
        })?;
        if made.iter().any(|made| made.word() == kind) {
            return Err(HitStageError::Twice(kind.clone()));
        }
        made.push(known.make(keys)?);
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: &str, keys: serde_json::Value) -> Settings {
        Settings { kind: kind.to_owned(), keys: keys.as_object().cloned().unwrap_or_default() }
    }

    #[test]
    fn what_is_missing_or_invalid_is_refused_in_words() {
        let words =
            |settings: &[Settings]| make(settings).err().map(|error| error.to_string()).unwrap_or_default();
        let known = words(&[asked("invert", serde_json::json!({}))]);
        assert!(
            known.starts_with("[[stage]] \"invert\": this program has no such stage; it has \"prescale\""),
            "{known}"
        );
        let whole = asked("prescale", serde_json::json!({ "keep_one_in": 3 }));
        assert_eq!(make(std::slice::from_ref(&whole)).map(|made| made.len()), Ok(1));
        assert!(words(&[whole.clone(), whole]).contains("a kind can stand in the path once"));
        let zero = words(&[asked("prescale", serde_json::json!({ "keep_one_in": 0 }))]);
        assert!(zero.contains("`keep_one_in = 0` keeps nothing; write 1 or more"), "{zero}");
        let other = words(&[asked("prescale", serde_json::json!({ "keep_one_in": 2, "chanels": [] }))]);
        assert!(other.contains("chanels"), "{other}");
    }
}
