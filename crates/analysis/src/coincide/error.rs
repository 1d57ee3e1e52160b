//! Invalid settings of coincidences.

use crate::channels::RangeError;

/// What is wrong with `[coincidence]`, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoincidenceError {
    /// A window that holds nothing, or longer than memory is kept for.
    #[error("[coincidence] {key} = {found}: a window is 0 to 10 s long (10000000000000 ps)")]
    Window {
        /// The key.
        key: &'static str,
        /// What was found, picoseconds.
        found: i64,
    },
    /// A time around a leg that ends before it begins, or is too far away.
    #[error(
        "[coincidence.{leg}] from_ps = {from_ps}, to_ps = {to_ps}: the first is no larger than the second, and both are \
         within 10 s of the hit"
    )]
    Span {
        /// The leg.
        leg: &'static str,
        /// Its beginning.
        from_ps: i64,
        /// Its end.
        to_ps: i64,
    },
    /// A number of channels that cannot be reached, or is no condition.
    #[error(
        "[coincidence] at_least = {found}: there are {different} different {what} that take part; write {least} to {different}"
    )]
    AtLeast {
        /// What was found.
        found: u16,
        /// The least that means anything.
        least: u16,
        /// How many there are.
        different: usize,
        /// Channels or groups.
        what: &'static str,
    },
    /// Fewer channels than any event has.
    #[error(
        "[coincidence] {different} different {what} take part, and an event needs {least}; list more in `channels` or `groups`: without \
         these lists, all take part but those of a reference, a veto or a gate"
    )]
    TooFew {
        /// The least that an event has.
        least: u16,
        /// How many there are.
        different: usize,
        /// Channels or groups.
        what: &'static str,
    },
    /// A key that the mode makes no use of.
    #[error("[coincidence] `{key}` has no meaning with mode = \"{mode}\"; {instead}")]
    Unused {
        /// The key.
        key: &'static str,
        /// The mode.
        mode: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// A mode without what it needs.
    #[error(
        "[coincidence] mode = \"reference\" compares with a reference: add [coincidence.reference] with channels or groups"
    )]
    NoReference,
    /// A leg that is nobody.
    #[error("[coincidence.{leg}] names no channel that is sent and enabled; list `channels` or `groups`")]
    EmptyLeg {
        /// The leg.
        leg: &'static str,
    },
    /// A group that no channel belongs to.
    #[error("[coincidence] there is no group \"{group}\"; there are: {known}")]
    UnknownGroup {
        /// What was found.
        group: String,
        /// What there is.
        known: String,
    },
    /// A channel that no source sends.
    #[error(
        "[coincidence] no source sends channel {channel}; see `first_channel` and `channels` of the sources"
    )]
    UnknownChannel {
        /// What was found.
        channel: u16,
    },
    /// A list with a wrong range.
    #[error("[coincidence] {0}")]
    Range(#[from] RangeError),
    /// A limit that is none.
    #[error("[coincidence] longest_event_hits = {0}: write 2 to 65536")]
    LongestEvent(usize),
}
