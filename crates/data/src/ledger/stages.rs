//! What each stage is, for whoever reads what it has counted: readers ask for a property and need not know a stage by its name.
//!
//! ```text
//!  Stage ─► StageDescription: role     "says what was sent, by sequence numbers" · "keeps results on disk" · …
//!                             heading  "received", as it stands over the stage on the page
//! ```
//! A stage that is new says here what it is; who sums, draws or verifies reads that, and the [topology](crate::topology) for the rest.

use super::vocabulary::Stage;

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
}

impl StageDescription {
    const fn of(role: StageRole, heading: &'static str) -> StageDescription {
        StageDescription { role, heading, filtered_as: "filtered", stands_apart: false }
    }

    const fn filtering(self, filtered_as: &'static str) -> StageDescription {
        StageDescription { filtered_as, ..self }
    }

    const fn apart(self) -> StageDescription {
        StageDescription { stands_apart: true, ..self }
    }
}

impl Stage {
    /// What it is.
    pub const fn description(self) -> StageDescription {
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
            Stage::Trigger => described.apart(),
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
}
