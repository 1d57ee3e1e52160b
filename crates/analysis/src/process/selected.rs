//! What goes from one half of the stages to the other.

use thalweg_data::{HitEvents, Hits};

use crate::cut::{Kept, Verdicts};
use crate::spectrum::HitWord;

/// Ordered hits, which of them the cuts keep, what spectra count of them, and the events that were closed with them.
#[derive(Debug, Default)]
pub struct Selected {
    /// The hits, whether they are kept or not.
    pub hits: Hits,
    pub(super) verdicts: Verdicts,
    /// What spectra count of each hit.
    pub(super) words: Vec<HitWord>,
    /// The events that coincidence has made, in front of the cuts on events.
    pub events: HitEvents,
}

impl Selected {
    /// Room for so many hits.
    pub fn with_capacity(hits: usize) -> Selected {
        Selected { hits: Hits::with_capacity(hits), words: Vec::with_capacity(hits), ..Selected::default() }
    }

    /// What is kept of the hits; `None` where nothing is cut.
    pub fn kept(&self) -> Option<Kept<'_>> {
        self.verdicts.kept()
    }

    /// Whether there is nothing in it but, perhaps, a mark.
    pub fn is_empty(&self) -> bool {
        self.hits.is_empty() && self.events.events.is_empty()
    }

    /// As of no hits; keeps the memory.
    pub fn clear(&mut self) {
        self.hits.clear();
        self.verdicts.clear();
        self.words.clear();
        self.events.clear();
    }
}

/// Hits that were not looked at yet.
impl From<Hits> for Selected {
    fn from(hits: Hits) -> Selected {
        Selected { hits, ..Selected::default() }
    }
}
