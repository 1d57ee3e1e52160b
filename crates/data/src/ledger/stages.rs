//! What each stage is, for whoever reads what it has counted: readers ask for a property and need not know a stage by its name.
//!
//! ```text
//!  Stage ─► StageDescription: role    "says what was sent, by sequence numbers" · "keeps results on disk" · …
//!                             advice  what to do about a loss that means something else here than elsewhere
//! ```
//! A stage that is new says here what it is; who sums, draws or verifies reads that, and the [topology](crate::topology) for the rest.

use super::advice::Carrier;
use super::words::{LossReason, Stage};

/// What a stage does with the data, or what it knows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageRole {
    /// Says what was sent, by the totals of who has sent it. Nothing passes.
    SenderTotals,
    /// Says what was sent, by sequence numbers. Nothing passes. What is refused behind it is missing here, too.
    SequenceNumbers,
    /// Takes in what comes from outside.
    Intake,
    /// Keeps what came in on disk, as it came.
    Raw,
    /// Works on what passes.
    Work,
    /// Cuts what passes into slices of time, which take the place of triggers.
    Slices,
    /// Gives what was built to another unit.
    HandOver,
    /// Shows to people what has become of the data. Nothing goes on from there.
    Display,
    /// Keeps on disk what has become of the data.
    Recording,
}

/// What a stage is.
#[derive(Clone, Copy, Debug)]
pub struct StageDescription {
    /// What it does.
    pub role: StageRole,
    /// What to do about losses that mean something else at this stage than elsewhere: where they are of this kind and, if one is named, come
    /// in this way.
    pub advice: &'static [(LossReason, Option<Carrier>, &'static str)],
}

/// A unit that is too large where it is taken apart or put in order.
const TOO_LARGE: &str = "a unit was larger than the memory for it: raise `block_bytes` of the source";

impl StageDescription {
    const fn of(role: StageRole) -> StageDescription {
        StageDescription { role, advice: &[] }
    }
}

impl Stage {
    /// What it is.
    pub const fn description(self) -> StageDescription {
        const fn of(role: StageRole) -> StageDescription {
            StageDescription::of(role)
        }
        match self {
            Stage::Trigger => StageDescription {
                advice: &[(
                    LossReason::NeverReceived,
                    None,
                    "triggers were accepted, and no board's answer came: look whether the boards are running",
                )],
                ..of(StageRole::SenderTotals)
            },
            Stage::Sender => StageDescription {
                advice: &[(
                    LossReason::Abandoned,
                    None,
                    "boards had answered and were stopped before they had sent it: their connection was too slow, or was held back",
                )],
                ..of(StageRole::SenderTotals)
            },
            Stage::Wire => of(StageRole::SequenceNumbers),
            Stage::Receive => of(StageRole::Intake),
            Stage::Raw => of(StageRole::Raw),
            Stage::Unpack => StageDescription {
                advice: &[(LossReason::TooLarge, Some(Carrier::Unknown), TOO_LARGE)],
                ..of(StageRole::Work)
            },
            Stage::Decode | Stage::Order => {
                StageDescription { advice: &[(LossReason::TooLarge, None, TOO_LARGE)], ..of(StageRole::Work) }
            }
            Stage::Cut | Stage::Coincide | Stage::Added(_) => of(StageRole::Work),
            Stage::Spectra => of(StageRole::Display),
            Stage::TimeSlice => of(StageRole::Slices),
            Stage::Build => StageDescription {
                advice: &[(
                    LossReason::OverBudget,
                    None,
                    "the builder's memory was full, and datagrams cannot wait: raise `[build] memory_bytes` and `[build] depth` | look for a board that is behind the others",
                )],
                ..of(StageRole::Work)
            },
            Stage::Ship => of(StageRole::HandOver),
            Stage::Record => of(StageRole::Recording),
        }
    }

    /// What it does.
    pub const fn role(self) -> StageRole {
        self.description().role
    }

    /// What to do about a loss that means something else here than elsewhere.
    pub(super) fn advice_on(self, reason: LossReason, carrier: Carrier) -> Option<&'static str> {
        let applies = |of: Option<Carrier>| of.is_none_or(|of| of == carrier);
        let own = self.description().advice.iter();
        own.clone().find(|(why, of, _)| *why == reason && applies(*of)).map(|(_, _, words)| *words)
    }
}
