//! The fragments of each board behind a link: counted, and reported to boards that can be asked.
//!
//! ```text
//!  fragment of board i ─► its own counters, or those of the link to it alone
//!                     └─► the record of what an emulated board has sent
//! ```

use std::sync::Arc;

use thalweg_data::{Counters, FragmentRecord, Unit};

/// The fragments of each board, where a link has several.
#[derive(Debug)]
pub(crate) struct BoardCounters {
    several: Vec<Counters>,
    /// What the boards write down, by their index; of boards that cannot be asked none.
    asked: Vec<Arc<FragmentRecord>>,
}

impl BoardCounters {
    pub fn new(boards: u16) -> BoardCounters {
        let several = if boards > 1 { usize::from(boards) } else { 0 };
        BoardCounters { several: vec![Counters::default(); several], asked: Vec::new() }
    }

    /// The boards can be asked what they have answered.
    pub fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        self.asked = records;
    }

    /// A fragment of this trigger has come from the board, whatever becomes of it. Returns the counters that count it.
    #[inline]
    pub fn begin<'a>(&'a mut self, index: u16, trigger: u64, link: &'a mut Counters) -> &'a mut Counters {
        if let Some(record) = self.asked.get(usize::from(index)) {
            record.find(trigger);
        }
        let counters = self.of(index, link);
        counters.input(Unit::Fragments, 1);
        counters
    }

    /// The counters that count a board's fragments: its own, or that of the link to it alone.
    #[inline]
    pub fn of<'a>(&'a mut self, index: u16, link: &'a mut Counters) -> &'a mut Counters {
        self.several.get_mut(usize::from(index)).unwrap_or(link)
    }

    pub fn several(&self) -> &[Counters] {
        &self.several
    }
}
