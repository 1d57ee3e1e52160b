//! The range of the experiment's channels that one source has.

use std::fmt;

use thalweg_frontend::format::HitFormat;

/// A number of channels from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelRange {
    /// The first one.
    pub(crate) first: u16,
    /// The number of channels.
    pub(crate) count: u16,
}

impl ChannelRange {
    /// Those of a source of hits.
    pub(crate) fn of(format: &dyn HitFormat) -> ChannelRange {
        let (first, count) = format.channels();
        ChannelRange { first, count }
    }

    /// Returns the number after the last channel.
    fn end(self) -> u32 {
        u32::from(self.first) + u32::from(self.count)
    }

    /// Returns true if both ranges have a channel in common.
    pub(crate) fn overlaps(self, other: ChannelRange) -> bool {
        u32::from(self.first) < other.end() && u32::from(other.first) < self.end()
    }

    /// The lowest first channel with which this range has none in common with `taken`; `None` when there is no space for it.
    pub(crate) fn moved_clear_of(self, taken: &[ChannelRange]) -> Option<u16> {
        let starts = std::iter::once(0).chain(taken.iter().map(|taken| taken.end()));
        let is_free = |first: &u16| {
            let moved = ChannelRange { first: *first, ..self };
            moved.end() <= 1 << 16 && !taken.iter().any(|taken| taken.overlaps(moved))
        };
        starts.filter_map(|first| u16::try_from(first).ok()).filter(is_free).min()
    }
}

impl fmt::Display for ChannelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.first, self.end().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_finds_the_lowest_gap_that_holds_it() {
        let range = |first, count| ChannelRange { first, count };
        let taken = [range(0, 64), range(128, 64)];
        assert!(range(10, 1).overlaps(taken[0]) && !range(64, 64).overlaps(taken[0]));
        assert_eq!(range(0, 64).moved_clear_of(&taken), Some(64));
        assert_eq!(range(0, 65).moved_clear_of(&taken), Some(192));
        assert_eq!(range(0, 65_400).moved_clear_of(&taken), None);
        assert_eq!(range(64, 64).to_string(), "64 to 127");
    }
}
