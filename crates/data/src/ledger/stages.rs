//! Properties of each stage. Readers of counts ask for a property and need not know the stages by name.
//!
//! ```text
//!  Stage ─► StageDescription: role     "reports what was sent, by sequence numbers" · "records results on disk" · …
//!                             heading  "received", the heading of the stage on the page
//! ```
//! A new stage is described here. Code that sums, draws or verifies counts uses this description and the [topology](crate::topology).

use super::vocabulary::Stage;

/// What a stage does with the data, or how it knows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageRole {
    /// Reports what was sent, by the totals of the sender. No data pass it.
    SenderTotals,
    /// Reports what was sent, by sequence numbers. No data pass it. Data that a later stage refuses are first missing here.
    SequenceNumbers,
    /// Receives the data from outside.
    Intake,
    /// Records the received data on disk, unchanged.
    Raw,
    /// Processes the data that pass it.
    Work,
    /// Cuts the data that pass it into time slices, which replace triggers.
    Slices,
    /// Passes built events to another unit.
    HandOver,
    /// Shows results to people. The data end here.
    Display,
    /// Records results on disk.
    Recording,
}

/// The properties of a stage.
#[derive(Clone, Copy, Debug)]
pub struct StageDescription {
    /// What the stage does.
    pub role: StageRole,
    /// Its heading on the page, which says what was done with its output; if empty, the name of the stage.
    pub heading: &'static str,
    /// The page's term for the data that it filters.
    pub filtered_as: &'static str,
    /// Whether the page shows it beside the path and not in it.
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
    /// Its properties.
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
            Stage::Filter => (StageRole::Work, "selected"),
            Stage::Record => (StageRole::Recording, "recorded"),
            Stage::Added(_) => (StageRole::Work, ""),
        };
        let described = StageDescription::of(of.0, of.1);
        match self {
            Stage::Trigger => described.apart(),
            Stage::Coincide => described.filtering("single"),
            Stage::Filter => described.filtering("rejected"),
            Stage::Record => described.filtering("not recorded"),
            _ => described,
        }
    }

    /// Its role.
    pub const fn role(self) -> StageRole {
        self.description().role
    }

    /// Its heading on the page.
    pub fn heading(self) -> String {
        match self.description().heading {
            "" => self.word().replace('_', " "),
            heading => heading.to_owned(),
        }
    }
}
