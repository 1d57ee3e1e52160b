//! The numbers of sources, links, boards and units. Each kind has its own type, so that the compiler finds a mix-up.
//!
//! ```text
//!  configuration ─► SourceId   a counter slot of the run      0, 1, … in the order of the configuration
//!  URL           ─► LinkId     a connection                   its position within its source, or within a thread's group
//!  board         ─► BoardId    a board                        the number in its headers; `first_board` and the following ones
//!  plan          ─► UnitId     a readout unit, builder unit   its position among the units of its kind
//! ```
//! - The boards of a source have consecutive [`SourceId`]s. Their [`BoardId`]s start at another number and may have gaps: board 264 may be
//!   source 3. Only a front end, which reads headers, knows both. `generic` boards state their numbers in a field of up to 64 bits; their
//!   front end converts it to an index at once.
//! - A [`LinkId`] is meaningful only together with its source, or with the group that contains the link. A link has one board or several
//!   behind it.
//! - A [`UnitId`] is meaningful only together with the kind of unit. It is part of the messages between units, and a column of the tables
//!   of events and ranges.
//!
//! Channels have no type yet: a hit's channel is a plain `u16`, the channel that its board states plus the `first_channel` of its source.
//!
//! Counts and offsets are plain integers. So are configuration values and file columns; they become ids where they are read.

use std::fmt;

/// The number of anything that has counters of its own in a run: a source of hits, a board, a link to several boards, the built events, a
/// unit. The numbers follow the order of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SourceId(pub u16);

impl SourceId {
    /// The number as an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The source whose number is `offset` above this one. A plan has fewer than 2¹⁶ sources.
    #[inline]
    pub fn plus(self, offset: u16) -> SourceId {
        SourceId(self.0 + offset)
    }

    /// How far the number is above that of `first`, modulo 2¹⁶: the index among the sources from `first` on, if it is below their count.
    #[inline(always)]
    pub fn offset_from(self, first: SourceId) -> u16 {
        self.0.wrapping_sub(first.0)
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {}", self.0)
    }
}

/// A link's position, counted from 0: within its source where the link is opened, within its group where a thread reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The link at this position. Links are sockets, of which a process has fewer than 2³².
    #[inline]
    pub fn from_index(index: usize) -> LinkId {
        LinkId(index as u32)
    }

    /// The position as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

/// A board's number, which the board states in its headers. It is not an index: the boards of a link are numbered from its first board on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct BoardId(pub u16);

impl BoardId {
    /// The board whose number is `offset` above this one, modulo 2¹⁶.
    #[inline]
    pub fn plus(self, offset: u16) -> BoardId {
        BoardId(self.0.wrapping_add(offset))
    }

    /// How far the number is above that of `first`, modulo 2¹⁶: less than the count of boards for the boards from `first` on, and for no other.
    #[inline]
    pub fn offset_from(self, first: BoardId) -> u16 {
        self.0.wrapping_sub(first.0)
    }
}

impl fmt::Display for BoardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "board {}", self.0)
    }
}

/// The number of a readout unit or a builder unit: its position, counted from 0, among the units of its kind in the plan of the run. Readout
/// units are in the order of their sources, builder units in that of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct UnitId(pub u16);

impl UnitId {
    /// The unit at this position. A run has fewer than 2¹⁶ units, since each has a [`SourceId`].
    #[inline]
    pub fn from_index(index: usize) -> UnitId {
        UnitId(index as u16)
    }

    /// The position as an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {}", self.0)
    }
}
