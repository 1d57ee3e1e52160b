//! Counts the fragments of each board behind a link, and enters them in the records of the boards.
//!
//! ```text
//!  fragment of board i ─► its own counters, or those of the link if it has one board
//!                     └─► the record of what an emulated board has sent
//! ```

use std::sync::Arc;

use thalweg_data::{Counters, FragmentRecord, Unit};

/// The fragments of each board, if a link has several.
#[derive(Debug)]
pub(crate) struct BoardCounters {
    several: Vec<Counters>,
    /// The records of the boards, by index; empty if they have none.
    asked: Vec<Arc<FragmentRecord>>,
}

impl BoardCounters {
    pub fn new(boards: u16) -> BoardCounters {
        let several = if boards > 1 { usize::from(boards) } else { 0 };
        BoardCounters { several: vec![Counters::default(); several], asked: Vec::new() }
    }

    /// Sets the records of the boards' answers.
    pub fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        self.asked = records;
    }

    /// Counts a fragment of this trigger from the board, before its result is known. Returns the counters for it.
    #[inline]
    pub fn begin<'a>(&'a mut self, index: u16, trigger: u64, link: &'a mut Counters) -> &'a mut Counters {
        if let Some(record) = self.asked.get(usize::from(index)) {
            record.find(trigger);
        }
        let counters = self.of(index, link);
        counters.input(Unit::Fragments, 1);
        counters
    }

    /// The counters of a board's fragments: its own, or those of the link if it has one board.
    #[inline]
    pub fn of<'a>(&'a mut self, index: u16, link: &'a mut Counters) -> &'a mut Counters {
        self.several.get_mut(usize::from(index)).unwrap_or(link)
    }

    pub fn several(&self) -> &[Counters] {
        &self.several
    }
}
