//! What alarms watch: numbers of the live state, each by its name.
//!
//! ```text
//!  state, ring_fill, source "*" ─► [("board0", 0.1), ("board1", 0.9)]
//! ```
//! A number that the state does not have is `None`: then nothing is concluded. What has a meaning only while data are taken is not watched
//! otherwise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_analysis::clocks::ClockState;

use super::rule::Rule;
use crate::state::{Completeness, CopyState, LiveState, SourceState};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Hits decoded per second.
    HitRateHz,
    /// Fragments found per second.
    FragmentRateHz,
    /// Bytes received per second.
    ByteRateHz,
    /// Hits put into time order per second.
    OrderedRateHz,
    /// Hits recorded per second.
    RecordedRateHz,
    /// Bytes recorded per second.
    RecordedByteRateHz,
    /// Events built per second.
    EventRateHz,
    /// Coincidences kept per second.
    CoincidenceRateHz,
    /// Lost per second, each loss in its finest unit.
    LostRateHz,
    /// Lost since the start of the run.
    Lost,
    /// Seconds since anything came from a source; of the whole, since something last came from all of them.
    SilentS,
    /// Fullest ring behind the receiver, 0 to 1.
    RingFill,
    /// Memory on loan, 0 to 1.
    PoolFill,
    /// Time BUSY ÷ time over the last seconds, 0 to 1.
    BusyShare,
    /// Triggers refused ÷ triggers offered over the last seconds, 0 to 1, where the trigger reports; else nothing is concluded.
    DeadTimeFraction,
    /// Fraction of the events, of late, that a board answered, 0 to 1.
    Completeness,
    /// Triggers with fragments that wait for others.
    OpenEvents,
    /// Payload that waits in the builder, bytes.
    HeldBytes,
    /// Time within which all events but one in a hundred were built, nanoseconds.
    P99BuildNs,
    /// Since the start of the run, seconds.
    ElapsedS,
    /// Hits recorded since the start of the run.
    HitsRecorded,
    /// Events recorded since the start of the run.
    EventsRecorded,
    /// What the files of the run take, bytes.
    BytesRecorded,
    /// Free space where the run is recorded.
    DiskFreeBytes,
    /// How long that lasts at the mean rate of the run while it takes data.
    DiskLeftS,
    /// Bytes of all runs that are not proved at a destination of `[ship]`.
    ShipBacklogBytes,
    /// Seconds since a destination of `[ship]` has proved anything, while something waits there.
    ShipSilentS,
    /// How long the disk lasts, as `disk_left_s`, while something waits for a destination of `[ship]`.
    ShipDiskLeftS,
    /// 1 when a clock is not where it should be, else 0.
    ClockUnlocked,
    /// How much later a clock is than its reference, picoseconds, without sign.
    ClockOffsetPs,
    /// A value of slow control, by its name in `series`.
    Series,
}

/// Of what there is a number each: what `source` of a rule may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subjects {
    /// Only the run.
    Run,
    /// Each `[[source]]`.
    Sources,
    /// Each triggered board, or each source of hits in time slices.
    Boards,
    /// Each destination of `[ship]`.
    Copies,
    /// Each source of hits whose clock is compared with the reference.
    Clocks,
}

/// How a quantity is read from the state.
enum Read {
    /// A number of the run.
    Run(fn(&LiveState) -> Option<f64>),
    /// A number of each source.
    Sources(fn(&SourceState) -> Option<f64>),
    /// A number of each triggered board.
    Boards(fn(&Completeness) -> Option<f64>),
    /// A number of each destination of `[ship]`.
    Copies(fn(&LiveState, &CopyState) -> Option<f64>),
    /// A number of each clock.
    Clocks(fn(&ClockState) -> Option<f64>),
    /// The value of slow control that the rule names.
    Series,
}

/// How the numbers of several sources make one.
#[derive(Clone, Copy)]
enum Whole {
    Sum,
    Highest,
    Lowest,
}

impl Quantity {
    /// The words of all quantities, as the configuration has them, separated by commas.
    pub(super) fn names() -> String {
        let schema = schemars::schema_for!(Quantity).to_value();
        let variants = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
        variants.iter().filter_map(|variant| variant["const"].as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Of what there is one each.
    pub fn subjects(self) -> Subjects {
        match self.read() {
            Read::Run(_) | Read::Series => Subjects::Run,
            Read::Sources(_) => Subjects::Sources,
            Read::Boards(_) => Subjects::Boards,
            Read::Copies(_) => Subjects::Copies,
            Read::Clocks(_) => Subjects::Clocks,
        }
    }

    /// Whether it has a meaning only while data are taken.
    pub fn is_of_a_running_run(self) -> bool {
        use Quantity::*;
        !matches!(
            self,
            DiskFreeBytes
                | DiskLeftS
                | ShipBacklogBytes
                | ShipSilentS
                | ShipDiskLeftS
                | Series
                | Lost
                | ElapsedS
                | HitsRecorded
                | EventsRecorded
                | BytesRecorded
        )
    }

    /// Whether what the state has is a rate, and the time since it was last above 0 is meant.
    pub(super) fn is_a_silence(self) -> bool {
        self == Quantity::SilentS
    }

    fn read(self) -> Read {
        match self {
            Quantity::HitRateHz => Read::Sources(|source| source.hit_rate_hz),
            Quantity::FragmentRateHz => Read::Sources(|source| source.fragment_rate_hz),
            Quantity::ByteRateHz | Quantity::SilentS => Read::Sources(|source| source.byte_rate_hz),
            Quantity::LostRateHz => Read::Sources(|source| source.lost_rate_hz),
            Quantity::Lost => Read::Sources(|source| Some(source.lost as f64)),
            Quantity::RingFill => Read::Sources(|source| Some(source.ring_fill)),
            Quantity::PoolFill => Read::Sources(|source| Some(source.pool_fill)),
            Quantity::Completeness => Read::Boards(Completeness::fraction),
            Quantity::ClockUnlocked => Read::Clocks(|clock| Some(f64::from(u8::from(!clock.locked)))),
            Quantity::ClockOffsetPs => Read::Clocks(|clock| clock.offset_ps.map(f64::abs)),
            Quantity::OrderedRateHz => Read::Run(|state| state.ordered_rate_hz),
            Quantity::RecordedRateHz => Read::Run(|state| state.recorded_rate_hz),
            Quantity::RecordedByteRateHz => Read::Run(|state| state.byte_rate_hz),
            Quantity::EventRateHz => Read::Run(|state| state.events.as_ref()?.event_rate_hz),
            Quantity::CoincidenceRateHz => Read::Run(|state| state.coincidences.as_ref()?.rate_hz),
            Quantity::BusyShare => Read::Run(|state| state.recent_busy_fraction),
            Quantity::DeadTimeFraction => Read::Run(|state| state.trigger?.recent_dead_time_fraction),
            Quantity::OpenEvents => Read::Run(|state| Some(state.events.as_ref()?.sample.open_events as f64)),
            Quantity::HeldBytes => Read::Run(|state| Some(state.events.as_ref()?.sample.held_bytes as f64)),
            Quantity::P99BuildNs => {
                Read::Run(|state| Some(state.events.as_ref()?.sample.p99_build_ns as f64))
            }
            Quantity::ElapsedS => Read::Run(|state| Some(state.elapsed_seconds)),
            Quantity::HitsRecorded => Read::Run(|state| Some(state.hits_recorded as f64)),
            Quantity::EventsRecorded => {
                Read::Run(|state| Some(state.events.as_ref()?.events_recorded as f64))
            }
            Quantity::BytesRecorded => Read::Run(|state| Some(state.bytes_recorded as f64)),
            Quantity::DiskFreeBytes => Read::Run(|state| Some(state.disk_free_bytes as f64)),
            Quantity::DiskLeftS => Read::Run(|state| state.disk_left_seconds),
            Quantity::ShipBacklogBytes => Read::Copies(|_, copy| Some(copy.backlog_bytes as f64)),
            Quantity::ShipSilentS => Read::Copies(|_, copy| Some(copy.silent_seconds)),
            // Where nothing waits, a full disk is no harm to copies: the alarm is to be cleared.
            Quantity::ShipDiskLeftS => Read::Copies(|state, copy| match copy.backlog_bytes {
                0 => Some(f64::INFINITY),
                _ => state.disk_left_seconds,
            }),
            Quantity::Series => Read::Series,
        }
    }

    /// Returns the number of what is in the whole and of no source: of losses, that of the coincidences.
    fn of_no_source(self, state: &LiveState) -> Option<f64> {
        let coincidences = state.coincidences.as_ref()?;
        match self {
            Quantity::LostRateHz => coincidences.lost_rate_hz,
            Quantity::Lost => Some(coincidences.lost as f64),
            _ => None,
        }
    }

    fn whole(self) -> Whole {
        use Quantity::*;
        match self {
            HitRateHz | FragmentRateHz | ByteRateHz | LostRateHz | Lost => Whole::Sum,
            Completeness | ShipDiskLeftS => Whole::Lowest,
            // Of a silence, the rate is watched: the lowest is the silent one.
            SilentS => Whole::Lowest,
            _ => Whole::Highest,
        }
    }
}

/// The subjects of a rule in this state, with their numbers. The subject of the whole has no name.
pub(super) fn values(rule: &Rule, state: &LiveState) -> Vec<(String, Option<f64>)> {
    let of_the_whole = |value: Option<f64>| vec![(String::new(), value)];
    let each: Vec<(&str, Option<f64>)> = match rule.quantity.read() {
        Read::Run(of) => return of_the_whole(of(state)),
        Read::Series => {
            let name = rule.series.as_deref().unwrap_or_default();
            return of_the_whole(state.series.get(name).and_then(|series| series.value));
        }
        Read::Sources(of) => state.sources.iter().map(|source| (source.name.as_str(), of(source))).collect(),
        Read::Boards(of) => {
            let boards = state.events.iter().flat_map(|events| &events.completeness);
            boards.map(|board| (board.name.as_str(), of(board))).collect()
        }
        Read::Copies(of) => state.copies.iter().map(|copy| (copy.to.as_str(), of(state, copy))).collect(),
        Read::Clocks(of) => state.clocks.iter().map(|clock| (clock.source.as_str(), of(clock))).collect(),
    };
    match rule.source.as_deref() {
        Some("*") => each.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        Some(one) => {
            let value = each.into_iter().find(|(name, _)| *name == one).and_then(|(_, value)| value);
            vec![(one.to_owned(), value)]
        }
        None => {
            let of_each = each.into_iter().filter_map(|(_, value)| value);
            let all = of_each.chain(rule.quantity.of_no_source(state));
            of_the_whole(together(rule.quantity.whole(), all))
        }
    }
}

fn together(whole: Whole, values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(|one, other| match whole {
        Whole::Sum => one + other,
        Whole::Highest => one.max(other),
        Whole::Lowest => one.min(other),
    })
}
