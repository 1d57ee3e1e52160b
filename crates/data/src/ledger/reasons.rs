//! Properties of each loss reason. Readers of losses ask for a property and need not know the reasons by name.
//!
//! ```text
//!  LossReason ─► LossReasonDescription: nature    "found by sequence numbers alone" · "a refused trigger" · …
//!                                       quality   how well the number of such losses is known
//!                                       echoes    a framing also finds such a loss at a gap of the recording
//! ```
//! An added reason is always a loss of received data, counted one by one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::vocabulary::{LossReason, Unit};

/// How well the number of a loss is known, or a number that was corrected by it, in order from best to worst.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// Counted one by one, or from sequence numbers or sender totals.
    Exact,
    /// A lower bound.
    AtLeast,
    /// Something was lost; how much is not known.
    #[default]
    Unknown,
}

impl Quality {
    /// The name in files.
    pub const fn word(self) -> &'static str {
        match self {
            Quality::Exact => "exact",
            Quality::AtLeast => "at_least",
            Quality::Unknown => "unknown",
        }
    }

    /// The quality of the sum of two losses, which is the worse one.
    pub fn worse(self, other: Quality) -> Quality {
        self.max(other)
    }
}

/// What was lost, and how the loss is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossNature {
    /// Data of the run, counted by the stage that lost them.
    Ours,
    /// Data of the run that never came, known by numbers alone: they are missing between received ones, or from a sender's total.
    Gap,
    /// No data of the run: a duplicate, or a datagram of an unexpected sender.
    Foreign,
    /// A refused trigger: no data, only dead time.
    DeadTime,
}

/// The properties of a loss reason.
#[derive(Clone, Copy, Debug)]
pub struct LossReasonDescription {
    /// What was lost.
    pub nature: LossNature,
    /// How well the number of such losses is known.
    pub quality: Quality,
    /// Whether a framing also finds such a loss where bytes do not continue those before them, as behind a gap of a recording: missing
    /// numbers, or a unit with a part missing. There, the gap is the cause.
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
    /// Its properties.
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
            | LateFragment | OutOfWindow | WrongRun | UnknownSource | Incomplete | Undecided | UnitLost
            | DiskFull | WriteFailed | NotForced | Abandoned | Added(_) => ours,
        }
    }

    /// How well losses of this reason are known.
    pub const fn quality(self) -> Quality {
        self.description().quality
    }

    /// The reason of gaps in a unit that data which arrive late or damaged can fill; `None` if there are no such gaps.
    pub const fn gap_of(unit: Unit) -> Option<LossReason> {
        match unit {
            Unit::Datagrams => Some(LossReason::DatagramGap),
            Unit::Fragments => Some(LossReason::MissingFragment),
            Unit::Bytes | Unit::Frames | Unit::Hits | Unit::Events => None,
        }
    }

    /// Whether it is a loss of data or triggers of the run.
    pub const fn is_of_our_data(self) -> bool {
        !matches!(self.description().nature, LossNature::Foreign)
    }

    /// Whether it is dead time.
    pub const fn is_dead_time(self) -> bool {
        matches!(self.description().nature, LossNature::DeadTime)
    }

    /// Whether the loss is known by numbers alone. Older recordings also have losses with other reasons on the wire: those of data that
    /// were received, refused, and counted where they were refused.
    pub const fn is_gap(self) -> bool {
        matches!(self.description().nature, LossNature::Gap)
    }
}
