//! The board whose triggers emulated boards answer, so that real and emulated ones make one event.
//!
//! ```text
//!  its fragments ─ Follower ─► triggers ══ring══► emulated boards
//! ```

use thalweg_data::ring::Producer;
use thalweg_data::{Fragments, SourceId};
use thalweg_frontend::trigger::{Follower, Trigger};

/// Follows one board among those of a reader.
pub(crate) struct Leader {
    source: SourceId,
    follower: Follower,
    triggers: Vec<Trigger>,
    /// `None` once it has ended: the emulated boards then come to their end, too.
    ring: Option<Producer<Trigger>>,
    missed: u64,
}

impl Leader {
    pub(crate) fn new(source: SourceId, follower: Follower, ring: Producer<Trigger>) -> Leader {
        Leader { source, follower, triggers: Vec::new(), ring: Some(ring), missed: 0 }
    }

    /// Passes on the triggers of the leader's fragments; others are left.
    pub(crate) fn follow(&mut self, fragments: &Fragments) {
        let Some(ring) = &mut self.ring else { return };
        self.triggers.clear();
        self.follower.follow(fragments, &mut self.triggers);
        for trigger in self.triggers.drain(..) {
            if ring.push(trigger).is_err() {
                if self.missed == 0 {
                    tracing::warn!(
                        "emulated boards follow too slowly: their fragments are missing from events"
                    );
                }
                self.missed += 1;
            }
        }
    }

    /// The boards of a link have ended.
    pub(crate) fn end(&mut self, mut boards: impl Iterator<Item = SourceId>) {
        if boards.any(|board| board == self.source) {
            self.ring = None;
        }
    }
}
