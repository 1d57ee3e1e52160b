//! What each loss reason is, for whoever reads what was lost: readers ask for a property and need not know a reason by its name.
//!
//! ```text
//!  LossReason ─► LossReasonDescription: nature    "found by sequence numbers alone" · "a refused trigger" · …
//!                                       quality   how well the number of such losses is known
//!                                       echoes    a framing finds it where bytes do not continue those before them
//! ```
//! A reason that somebody has added is one of data that were seen, counted one by one.

use schemars::JsonSchema;
use serde::Serialize;

use super::vocabulary::{LossReason, Unit};

/// How well the number of a loss is known; the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// Counted one by one, or from sequence numbers or sender totals.
    Exact,
    /// There were that many, and perhaps more.
    AtLeast,
    /// Something was lost; how much is not known.
    Unknown,
}

impl Quality {
    /// The word in files.
    pub const fn word(self) -> &'static str {
        match self {
            Quality::Exact => "exact",
            Quality::AtLeast => "at_least",
            Quality::Unknown => "unknown",
        }
    }

    /// How well the sum of two losses is known: as the one that is known less well.
    pub fn worse(self, other: Quality) -> Quality {
        self.max(other)
    }
}

/// What was lost, and who knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossNature {
    /// Data of ours, which whoever has lost them knew of.
    Ours,
    /// Data of ours, known by numbers alone: something between two that were seen, or up to a sender's total.
    Gap,
    /// Nothing of ours: the same datagram again, or that of an unexpected sender.
    Foreign,
    /// A trigger that was refused, and so was never begun: nothing is lost by it but time.
    DeadTime,
}

/// What a loss reason is.
#[derive(Clone, Copy, Debug)]
pub struct LossReasonDescription {
    /// What was lost.
    pub nature: LossNature,
    /// How well the number of such losses is known.
    pub quality: Quality,
    /// Whether a framing finds such a loss where bytes do not continue those before them, as behind a gap of a recording: numbers that
    /// are missing, or a unit whose other part is on the other side. There it is the gap's doing.
    pub echoes: bool,
}

impl LossReasonDescription {
    const fn of(nature: LossNature, quality: Quality) -> LossReasonDescription {
        LossReasonDescription { nature, quality, echoes: false }
    }

    const fn echoing(self) -> LossReasonDescription {
        LossReasonDescription { echoes: true, ..self }
    }
}

impl LossReason {
    /// What it is.
    pub const fn description(self) -> LossReasonDescription {
        use LossReason::*;
        let ours = LossReasonDescription::of(LossNature::Ours, Quality::Exact);
        let gap = LossReasonDescription::of(LossNature::Gap, Quality::Exact);
        match self {
            DatagramGap | FrameGap => gap.echoing(),
            BufferGap => LossReasonDescription::of(LossNature::Gap, Quality::AtLeast).echoing(),
            NeverReceived | FragmentMissing | MissingFragment => gap,
            RecordingDamaged => LossReasonDescription::of(LossNature::Gap, Quality::Unknown),
            BadFraming | BadLength | Resynchronised | Unfinished | WordCount | ZeroWords => ours.echoing(),
            CaptureDamaged | BoardGone => LossReasonDescription::of(LossNature::Ours, Quality::Unknown),
            UnexpectedSender | DuplicateDatagram | DuplicateFragment => {
                LossReasonDescription::of(LossNature::Foreign, Quality::Exact)
            }
            Busy => LossReasonDescription::of(LossNature::DeadTime, Quality::Exact),
            DatagramTooLong | NoBlock | CaptureTruncated | BadHash | TooLarge | UnknownFormat
            | BadChannel | TruncatedHit | BadSamples | WrongConstant | TimeRange | Late | OverBudget
            | LateFragment | OutOfWindow | WrongRun | UnknownSource | Incomplete | UnitLost | DiskFull
            | WriteFailed | Abandoned | Added(_) => ours,
        }
    }

    /// How well losses of this reason are known.
    pub const fn quality(self) -> Quality {
        self.description().quality
    }

    /// The gap of a unit that what comes late or damaged can fill.
    pub const fn gap_of(unit: Unit) -> Option<LossReason> {
        match unit {
            Unit::Datagrams => Some(LossReason::DatagramGap),
            Unit::Fragments => Some(LossReason::MissingFragment),
            Unit::Bytes | Unit::Frames | Unit::Hits | Unit::Events => None,
        }
    }

    /// Whether it is a loss of what our boards have sent.
    pub const fn is_of_our_data(self) -> bool {
        !matches!(self.description().nature, LossNature::Foreign)
    }

    /// Whether it is dead time.
    pub const fn is_dead_time(self) -> bool {
        matches!(self.description().nature, LossNature::DeadTime)
    }

    /// Whether it is known by sequence numbers alone. In older recordings stands on the wire under another reason what was seen, refused, and
    /// counted where that was done.
    pub const fn is_gap(self) -> bool {
        matches!(self.description().nature, LossNature::Gap)
    }
}
