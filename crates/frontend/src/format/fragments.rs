//! What is asked of the settings of a source that gives fragments.

use std::fmt;

use thalweg_data::{BoardId, Fragments, Framing, LinkId, SourceId, Tick};

use super::emulated::{EmulatedBoards, EmulatedLinks, EmulatedShape};

/// What is known of the clock behind the times in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardClock {
    /// One of its counts takes so long.
    Tick(Tick),
    /// It goes on over the run, and the configuration does not say how long a count is.
    Unstated,
    /// No time in fragments goes on over the run.
    None,
}

/// The settings of a source of triggered boards.
pub trait FragmentFormat: fmt::Debug + Send + Sync {
    /// A copy of them.
    fn boxed(&self) -> Box<dyn FragmentFormat>;

    /// Boards behind a link.
    fn boards_per_link(&self) -> u16;

    /// Which boards behind a link there are, counted from the first, where some are left out; empty where none is.
    fn offsets(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Whether its boards are numbered by the addresses that send: the URL names each.
    fn is_named_by_sender(&self) -> bool {
        false
    }

    /// Bytes of the longest unit that was asked for; 0 where the default stands, which is a bound and no expectation.
    fn longest_unit(&self) -> usize;

    /// The settings of one link of a range: its boards follow those of the link before.
    ///
    /// # Errors
    /// When they would have numbers that there are not.
    fn of_link(&self, link: LinkId, boards_per_link: u16) -> Result<Box<dyn FragmentFormat>, String>;

    /// Whether there can be such a source whose first board is `first_source`.
    ///
    /// # Errors
    /// What cannot be, and what can.
    fn check(&self, first_source: SourceId) -> Result<(), String>;

    /// Whether the boards count the blocks that they send.
    fn counts_frames(&self) -> bool {
        false
    }

    /// Bits of the trigger number, where the format says how many.
    fn trigger_bits(&self) -> Option<u32> {
        None
    }

    /// What is known of the boards' clock: for time slices.
    fn clock(&self) -> BoardClock;

    /// Whether the times in the headers of fragments go on over more than the jitter of their arrival.
    fn has_lasting_time(&self) -> bool;

    /// The framing of a link whose first board is `first_source`.
    ///
    /// # Errors
    /// What does not fit together, in words.
    fn framing(
        &self,
        first_source: SourceId,
        is_stream: bool,
    ) -> Result<Box<dyn Framing<Output = Fragments>>, String>;

    /// Whether each board has registers, which are read and written over RBCP.
    fn has_registers(&self) -> bool {
        false
    }

    /// Whether emulated boards of it have a stream each, or send datagrams.
    fn emulates_streams(&self, emulated: Option<&dyn EmulatedBoards>) -> bool;

    /// The boards at the other end of its links, emulated.
    ///
    /// # Errors
    /// When settings do not fit together, or there are no emulated boards of this format.
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

/// The number of the first board of a link, the first link's being `first_board`.
pub(crate) fn first_board_of_link(
    first_board: BoardId,
    link: LinkId,
    boards_per_link: u16,
) -> Result<BoardId, String> {
    let first = usize::from(first_board.0) + link.index() * usize::from(boards_per_link);
    u16::try_from(first)
        .map(BoardId)
        .map_err(|_| format!("the boards of {link} begin at number {first}; at most 65535 is possible"))
}
