//! Who leads the emulated boards of a run: their own program, or a board that they follow.

use std::sync::Arc;

use thalweg_data::SourceId;
use thalweg_data::ring::ring;
use thalweg_frontend::format::{EmulateSettings, FormatSettings};
use thalweg_frontend::trigger::{FollowSettings, Follower};
use thalweg_readout::host::triggered::{AcceptedNumbers, Feed};

use super::Site;
use crate::config::{ConfigError, Configuration, SourceSettings};
use crate::error::RunError;
use crate::open::Origin;
use crate::open_links::program;
use crate::pipeline::{Leader, TRIGGERS_WAITING};
use crate::source_table::SourceTable;

/// The two ends of what leads: one goes to the reader of the leader, the other to the emulated boards.
pub(crate) struct Leading {
    /// The leader's place in the configuration, until its reader has taken it.
    leader: Option<(usize, Leader)>,
    feed: Option<Feed>,
    /// What numbers the trigger has given.
    accepted: Option<Arc<AcceptedNumbers>>,
}

/// What emulated boards add to the number of each trigger, where all of them add the same and no other board decides what an event is.
fn number_offset(configuration: &Configuration) -> Option<u64> {
    if configuration.follow.is_some() || configuration.slices.is_some() {
        return None;
    }
    let triggered = configuration.sources.iter().filter(|source| is_emulated(source));
    let mut offsets = triggered.filter_map(|source| match (&source.format, &source.emulate) {
        (FormatSettings::Hits(_), _) => None,
        (_, Some(EmulateSettings::Triggered(boards))) => Some(boards.number_offset()),
        _ => Some(0),
    });
    let first = offsets.next()?;
    offsets.all(|other| other == first).then_some(first)
}

fn is_emulated(source: &SourceSettings) -> bool {
    source.endpoint.url.scheme() == "emulate"
}

/// Whether the boards of these sources answer the trigger of this process and no other: every number that it gives is an event of theirs,
/// or was lost.
pub(crate) fn answers_own_trigger(configuration: &Configuration, sources: &[usize]) -> bool {
    number_offset(configuration).is_some()
        && sources.iter().all(|index| is_emulated(&configuration.sources[*index]))
}

/// Whether the times in the headers of a source's fragments go on over more than the jitter of their arrival: those of RECBE wrap
/// within 33 µs, and ADC-SiTCP sends none.
fn has_lasting_time(format: &FormatSettings) -> bool {
    match format {
        FormatSettings::Triggered(boards) => boards.has_lasting_time(),
        FormatSettings::Hits(_) => true,
    }
}

impl Leading {
    /// As the configuration has it.
    ///
    /// # Errors
    /// When the leader is no triggered source, or a setting cannot be.
    pub(crate) fn of(
        configuration: &Configuration,
        source_table: &SourceTable,
    ) -> Result<Leading, ConfigError> {
        let Some(follow) = &configuration.follow else {
            let accepted = number_offset(configuration).map(|offset| Arc::new(AcceptedNumbers::new(offset)));
            return Ok(Leading { leader: None, feed: None, accepted });
        };
        let refuse = |message: String| configuration.invalid(format!("[trigger.follow]: {message}"));
        let place = source_table.entries.iter().position(|entry| entry.name == follow.source);
        let first = place.and_then(|place| Some((place, source_table.entries[place].links.first()?)));
        let Some((place, link)) = first else {
            return Err(refuse(format!("`source = \"{}\"` is no triggered source", follow.source)));
        };
        if follow.tick_ps.is_some() && !has_lasting_time(&configuration.sources[place].format) {
            return Err(refuse(format!(
                "`tick_ps` has no meaning behind `source = \"{}\"`: the trigger time in its headers wraps every 32768 counts, or there is none; \
                 leave `tick_ps` out, and the time of arrival is taken",
                follow.source
            )));
        }
        let settings = FollowSettings {
            trigger_bits: follow.trigger_bits,
            tick_ps: follow.tick_ps,
            longest_gap: follow.longest_gap,
        };
        let source = SourceId(link.boards.start);
        let follower = Follower::new(source, &settings).map_err(|error| refuse(error.to_string()))?;
        let (producer, consumer) = ring(TRIGGERS_WAITING);
        let leader = Leader::new(source, follower, producer);
        Ok(Leading { leader: Some((place, leader)), feed: Some(Feed::Follow(consumer)), accepted: None })
    }

    /// The leader, for the reader that reads it.
    pub(super) fn leader_of(&mut self, sources: &[usize]) -> Option<Leader> {
        self.leader.take_if(|(place, _)| sources.contains(place)).map(|(_, leader)| leader)
    }

    /// Where the numbers of accepted triggers are noted.
    pub(super) fn accepted(&self) -> Option<Arc<AcceptedNumbers>> {
        self.accepted.clone()
    }

    /// The same for the reader of these sources, if their boards answer that trigger and no other. A recording has no trigger that tells.
    pub(super) fn accepted_of(&self, site: &Site<'_>, sources: &[usize]) -> Option<Arc<AcceptedNumbers>> {
        let is_live = matches!(site.origin, Origin::Configured);
        self.accepted.clone().filter(|_| is_live && answers_own_trigger(site.configuration, sources))
    }

    /// Where the emulated boards' triggers come from.
    ///
    /// # Errors
    /// When the trigger's program cannot be.
    pub(super) fn feed(&mut self, site: &Site<'_>) -> Result<Feed, RunError> {
        match self.feed.take() {
            Some(feed) => Ok(feed),
            None => Ok(Feed::Program(program(site.configuration)?)),
        }
    }
}
