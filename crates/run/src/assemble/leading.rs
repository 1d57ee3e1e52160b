//! Who leads the emulated boards of a run: their own program, or a board that they follow.

use thalweg_data::SourceId;
use thalweg_data::ring::ring;
use thalweg_frontend::sitcp::Profile;
use thalweg_frontend::trigger::{FollowSettings, Follower};
use thalweg_readout::Boards;
use thalweg_readout::host::triggered::Feed;

use super::Site;
use crate::config::{ConfigError, Configuration};
use crate::error::RunError;
use crate::format::FormatSettings;
use crate::open_links::program;
use crate::pipeline::{Leader, TRIGGERS_WAITING};
use crate::roster::Roster;

/// The two ends of what leads: one goes to the reader of the leader, the other to the emulated boards.
pub(crate) struct Leading {
    /// The leader's place in the configuration, until its reader has taken it.
    leader: Option<(usize, Leader)>,
    feed: Option<Feed>,
}

/// Whether the times in the headers of a source's fragments go on over more than the jitter of their arrival: those of RECBE wrap
/// within 33 µs, and ADC-SiTCP sends none.
fn has_lasting_time(format: &FormatSettings) -> bool {
    match format {
        FormatSettings::Triggered(Boards::Sitcp(settings)) => settings.profile == Profile::StrTdc,
        FormatSettings::Triggered(Boards::Fragment(_)) | FormatSettings::Hits(_) => true,
    }
}

impl Leading {
    /// As the configuration has it.
    ///
    /// # Errors
    /// When the leader is no triggered source, or a setting cannot be.
    pub(crate) fn of(configuration: &Configuration, roster: &Roster) -> Result<Leading, ConfigError> {
        let Some(follow) = &configuration.follow else {
            return Ok(Leading { leader: None, feed: None });
        };
        let refuse = |message: String| configuration.invalid(format!("[trigger.follow]: {message}"));
        let place = roster.entries.iter().position(|entry| entry.name == follow.source);
        let first = place.and_then(|place| Some((place, roster.entries[place].links.first()?)));
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
        Ok(Leading { leader: Some((place, leader)), feed: Some(Feed::Follow(consumer)) })
    }

    /// The leader, for the reader that reads it.
    pub(super) fn leader_of(&mut self, sources: &[usize]) -> Option<Leader> {
        self.leader.take_if(|(place, _)| sources.contains(place)).map(|(_, leader)| leader)
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
