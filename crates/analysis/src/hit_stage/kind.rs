//! What a kind of stage is, and how one is made.

use std::fmt;

use thalweg_data::{LossReason, Stage};

use super::{HitStage, HitStageError};

/// The keys of one `[[stage]]`, without `kind`.
pub type Keys = serde_json::Map<String, serde_json::Value>;

/// Where a stage stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitStageRole {
    /// In the path: what it keeps goes on.
    Filter,
    /// Beside it: hits go there and nowhere else from there.
    Sink,
}

/// A kind of stage: its word, what it can lose, and how it is made.
#[derive(Clone, Copy, Debug)]
pub struct HitStageKind {
    /// `kind` in the configuration, and its name in the ledger, on the page and in metrics.
    pub word: &'static str,
    /// The purpose of the stage, in one line.
    pub about: &'static str,
    /// Where it stands.
    pub role: HitStageRole,
    /// Why it loses hits: words of its own, each with what was seen and, behind `: `, what to do about it.
    pub reasons: &'static [(&'static str, &'static str)],
    /// Makes one of its keys; an error says what is wrong with them and what to write.
    pub make: fn(&Keys) -> Result<Box<dyn HitStage>, String>,
}

/// A stage that was made, and its words in the ledger.
pub struct MadeStage {
    /// Its name in the ledger.
    pub stage: Stage,
    /// Where it stands.
    pub role: HitStageRole,
    /// Why it loses hits.
    pub reasons: Vec<LossReason>,
    /// What it does.
    pub work: Box<dyn HitStage>,
}

impl HitStageKind {
    /// Makes one, and enters its words.
    pub(super) fn make(&self, keys: &Keys) -> Result<MadeStage, HitStageError> {
        let kind = || self.word.to_owned();
        let refused = |cause| HitStageError::Word { kind: kind(), cause };
        let stage = Stage::add(self.word, self.about).map_err(refused)?;
        let reasons = self.reasons.iter().map(|(word, about)| LossReason::add(word, about));
        let reasons = reasons.collect::<Result<Vec<_>, _>>().map_err(refused)?;
        let work = (self.make)(keys).map_err(|words| HitStageError::Keys { kind: kind(), words })?;
        Ok(MadeStage { stage, role: self.role, reasons, work })
    }
}

impl MadeStage {
    /// Its word.
    pub fn word(&self) -> &'static str {
        self.stage.word()
    }
}

impl fmt::Debug for MadeStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeStage").field("stage", &self.stage).field("role", &self.role).finish()
    }
}

impl PartialEq for MadeStage {
    fn eq(&self, other: &MadeStage) -> bool {
        (self.stage, self.role) == (other.stage, other.role)
    }
}
