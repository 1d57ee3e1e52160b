//! Leads the emulated boards of a run while it goes on: by their own program, or by the reader of the board that they follow.

use std::sync::Arc;

use thalweg_data::ring::ring;
use thalweg_readout::host::triggered::{AcceptedNumbers, Feed};

use super::Site;
use crate::config::{ConfigError, Configuration};
use crate::error::RunError;
use crate::open::Origin;
use crate::pipeline::Leader;
use crate::plan::capacity::TRIGGERS_WAITING;
use crate::plan::{Followed, answers_own_trigger, followed, number_offset};
use crate::source_table::SourceTable;

/// The two ends of what leads: one goes to the reader of the leader, the other to the emulated boards.
pub(crate) struct Leading {
    /// The leader's place in the configuration, until its reader has taken it.
    leader: Option<(usize, Leader)>,
    feed: Option<Feed>,
    /// The numbers that the trigger has given.
    accepted: Option<Arc<AcceptedNumbers>>,
}

impl Leading {
    /// Makes the leader that the configuration asks for.
    ///
    /// # Errors
    /// When the leader is no triggered source, or a setting cannot be.
    pub(crate) fn of(
        configuration: &Configuration,
        source_table: &SourceTable,
    ) -> Result<Leading, ConfigError> {
        let Some(Followed { place, board, follower }) = followed(configuration, source_table)? else {
            let accepted = number_offset(configuration).map(|offset| Arc::new(AcceptedNumbers::new(offset)));
            return Ok(Leading { leader: None, feed: None, accepted });
        };
        let (producer, consumer) = ring(TRIGGERS_WAITING);
        let leader = Leader::new(board, follower, producer);
        Ok(Leading { leader: Some((place, leader)), feed: Some(Feed::Follow(consumer)), accepted: None })
    }

    /// The leader, for the reader that reads it.
    pub(super) fn leader_of(&mut self, sources: &[usize]) -> Option<Leader> {
        self.leader.take_if(|(place, _)| sources.contains(place)).map(|(_, leader)| leader)
    }

    /// Returns the list in which the numbers of accepted triggers are noted.
    pub(super) fn accepted(&self) -> Option<Arc<AcceptedNumbers>> {
        self.accepted.clone()
    }

    /// The same for the reader of these sources, if their boards answer that trigger and no other. A recording has no trigger that reports.
    pub(super) fn accepted_of(&self, site: &Site<'_>, sources: &[usize]) -> Option<Arc<AcceptedNumbers>> {
        let is_live = matches!(site.origin, Origin::Configured);
        self.accepted.clone().filter(|_| is_live && answers_own_trigger(site.configuration, sources))
    }

    /// Returns the source of the triggers of the emulated boards.
    ///
    /// # Errors
    /// When the trigger's program cannot be.
    pub(super) fn feed(&mut self, site: &Site<'_>) -> Result<Feed, RunError> {
        match self.feed.take() {
            Some(feed) => Ok(feed),
            None => Ok(Feed::Program(site.configuration.trigger_program()?)),
        }
    }
}
