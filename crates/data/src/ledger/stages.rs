//! What each stage is, for whoever reads what it has counted: readers ask for a property and need not know a stage by its name.
//!
//! ```text
//!  Stage ─► StageDescription: role     "says what was sent, by sequence numbers" · "keeps results on disk" · …
//!                             heading  "received", as it stands over the stage on the page
//!                             advice   what to do about a loss that means something else here than elsewhere
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
    /// What it has done to what comes out of it, as the page says it; empty: its word says it.
    pub heading: &'static str,
    /// What is left out here on request is called this.
    pub filtered_as: &'static str,
    /// On the page it stands beside the path: as what was refused there.
    pub stands_apart: bool,
    /// What to do about losses that mean something else at this stage than elsewhere: where they are of this kind and, if one is named, come
    /// in this way.
    pub advice: &'static [(LossReason, Option<Carrier>, &'static str)],
}

/// A unit that is too large where it is taken apart or put in order.
const TOO_LARGE: &str = "a unit was larger than the memory for it: raise `block_bytes` of the source";

impl StageDescription {
    const fn of(role: StageRole, heading: &'static str) -> StageDescription {
        StageDescription { role, heading, filtered_as: "filtered", stands_apart: false, advice: &[] }
    }

    const fn filtering(self, filtered_as: &'static str) -> StageDescription {
        StageDescription { filtered_as, ..self }
    }

    const fn apart(self) -> StageDescription {
        StageDescription { stands_apart: true, ..self }
    }

    const fn advising(
        self,
        advice: &'static [(LossReason, Option<Carrier>, &'static str)],
    ) -> StageDescription {
        StageDescription { advice, ..self }
    }
}

impl Stage {
    /// What it is.
    pub const fn description(self) -> StageDescription {
        use LossReason::{Abandoned, NeverReceived, OverBudget, TooLarge};
        let of = match self {
            Stage::Trigger => (StageRole::SenderTotals, "triggered"),
            Stage::Sender => (StageRole::SenderTotals, "sent"),
            Stage::Wire => (StageRole::SequenceNumbers, "on the wire"),
            Stage::Receive => (StageRole::Intake, "received"),
            Stage::Raw => (StageRole::Raw, "kept raw"),
            Stage::Unpack => (StageRole::Work, "framed"),
            Stage::Decode => (StageRole::Work, "decoded"),
            Stage::Order => (StageRole::Work, "ordered"),
            Stage::Cut => (StageRole::Work, "cut"),
            Stage::Coincide => (StageRole::Work, "coincident"),
            Stage::Spectra => (StageRole::Display, ""),
            Stage::TimeSlice => (StageRole::Slices, ""),
            Stage::Build => (StageRole::Work, "built"),
            Stage::Ship => (StageRole::HandOver, "shipped"),
            Stage::Record => (StageRole::Recording, "recorded"),
            Stage::Added(_) => (StageRole::Work, ""),
        };
        let described = StageDescription::of(of.0, of.1);
        match self {
            Stage::Trigger => described.apart().advising(&[(
                NeverReceived,
                None,
                "triggers were accepted, and no board's answer came: look whether the boards are running",
            )]),
            Stage::Sender => described.advising(&[(
                Abandoned,
                None,
                "boards had answered and were stopped before they had sent it: their connection was too slow, or was held back",
            )]),
            Stage::Unpack => described.advising(&[(TooLarge, Some(Carrier::Unknown), TOO_LARGE)]),
            Stage::Decode | Stage::Order => described.advising(&[(TooLarge, None, TOO_LARGE)]),
            Stage::Build => described.advising(&[(
                OverBudget,
                None,
                "the builder's memory was full, and datagrams cannot wait: raise `[build] memory_bytes` and `[build] depth` | look for a board that is behind the others",
            )]),
            Stage::Coincide => described.filtering("single"),
            Stage::Record => described.filtering("not recorded"),
            _ => described,
        }
    }

    /// What it does.
    pub const fn role(self) -> StageRole {
        self.description().role
    }

    /// What stands over it on the page.
    pub fn heading(self) -> String {
        match self.description().heading {
            "" => self.word().replace('_', " "),
            heading => heading.to_owned(),
        }
    }

    /// What to do about a loss that means something else here than elsewhere.
    pub(super) fn advice_on(self, reason: LossReason, carrier: Carrier) -> Option<&'static str> {
        let applies = |of: Option<Carrier>| of.is_none_or(|of| of == carrier);
        let own = self.description().advice.iter();
        own.clone().find(|(why, of, _)| *why == reason && applies(*of)).map(|(_, _, words)| *words)
    }
}
