//! The interface of the settings of a source of fragments.

use std::fmt;

use thalweg_data::{BoardId, Fragments, Framing, LinkId, SourceId, Tick};

use super::ControlEntry;
use super::emulated::{EmulatedBoards, EmulatedLinks, EmulatedShape};

/// Knowledge of the clock behind the times in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardClock {
    /// The length of one count.
    Tick(Tick),
    /// The time is continuous over the run, but the configuration does not give the length of a count.
    Unstated,
    /// No time in fragments is continuous over the run.
    None,
}

/// The settings of a source of triggered boards.
pub trait FragmentFormat: fmt::Debug + Send + Sync {
    /// Returns a copy.
    fn boxed(&self) -> Box<dyn FragmentFormat>;

    /// Number of boards behind a link.
    fn boards_per_link(&self) -> u16;

    /// Numbers of the existing boards behind a link, counted from the first, if some are left out; otherwise empty.
    fn offsets(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Whether boards are numbered by their sender addresses, which the URL lists.
    fn is_named_by_sender(&self) -> bool {
        false
    }

    /// Longest unit in bytes, if configured; 0 for the default, which is only a limit.
    fn longest_unit(&self) -> usize;

    /// The settings of one link of a range: its boards follow those of the link before.
    ///
    /// # Errors
    /// When the numbers of its boards are out of range.
    fn of_link(&self, link: LinkId, boards_per_link: u16) -> Result<Box<dyn FragmentFormat>, String>;

    /// Checks the settings of a source whose first board is `first_source`.
    ///
    /// # Errors
    /// The value that cannot be used, and what is allowed.
    fn check(&self, first_source: SourceId) -> Result<(), String>;

    /// Whether the boards count their sent blocks.
    fn counts_frames(&self) -> bool {
        false
    }

    /// Bits of the trigger number, if the format defines them.
    fn trigger_bits(&self) -> Option<u32> {
        None
    }

    /// The boards' clock, for time slices.
    fn clock(&self) -> BoardClock;

    /// Whether the times in the headers of fragments are continuous over more than the jitter of their arrival.
    fn has_lasting_time(&self) -> bool;

    /// Creates the framing of a link whose first board is `first_source`.
    ///
    /// # Errors
    /// The settings that exclude each other.
    fn framing(
        &self,
        first_source: SourceId,
        is_stream: bool,
    ) -> Result<Box<dyn Framing<Output = Fragments>>, String>;

    /// The control that each board has at its address, beside its data.
    fn control(&self) -> Option<&'static ControlEntry> {
        None
    }

    /// Whether emulated boards send a stream each, or datagrams.
    fn emulates_streams(&self, emulated: Option<&dyn EmulatedBoards>) -> bool;

    /// Creates the emulated boards of its links.
    ///
    /// # Errors
    /// When settings exclude each other, or the format has no emulated boards.
    fn emulated(
        &self,
        emulated: Option<&dyn EmulatedBoards>,
        shape: EmulatedShape,
    ) -> Result<Box<dyn EmulatedLinks>, String>;
}

impl Clone for Box<dyn FragmentFormat> {
    fn clone(&self) -> Box<dyn FragmentFormat> {
        self.as_ref().boxed()
    }
}

/// The number of the first board of a link; that of the first link is `first_board`.
pub(crate) fn first_board_of_link(
    first_board: BoardId,
    link: LinkId,
    boards_per_link: u16,
) -> Result<BoardId, String> {
    let first = usize::from(first_board.0) + link.index() * usize::from(boards_per_link);
    u16::try_from(first)
        .map(BoardId)
        .map_err(|_| format!("the boards of {link} start at number {first}; at most 65535 is possible"))
}
