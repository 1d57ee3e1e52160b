//! Determines what leads the emulated boards of a run: their own program, or a board that they follow.

use thalweg_data::SourceId;
use thalweg_frontend::format::{EmulateSettings, FormatSettings};
use thalweg_frontend::trigger::{FollowSettings, Follower};

use crate::config::{ConfigError, Configuration};
use crate::source_table::SourceTable;

/// Returns what emulated boards add to the number of each trigger, where all add the same and no other board decides what an event is.
pub(crate) fn number_offset(configuration: &Configuration) -> Option<u64> {
    if configuration.follow.is_some() || configuration.slices.is_some() {
        return None;
    }
    let triggered = configuration.sources.iter().filter(|source| source.is_emulated());
    let mut offsets = triggered.filter_map(|source| match (&source.format, &source.emulate) {
        (FormatSettings::Hits(_), _) => None,
        (_, Some(EmulateSettings::Triggered(boards))) => Some(boards.number_offset()),
        _ => Some(0),
    });
    let first = offsets.next()?;
    offsets.all(|other| other == first).then_some(first)
}

/// Returns true if the boards of these sources answer the trigger of this process and no other: every number that it gives is an event of
/// theirs, or was lost.
pub(crate) fn answers_own_trigger(configuration: &Configuration, sources: &[usize]) -> bool {
    number_offset(configuration).is_some()
        && sources.iter().all(|index| configuration.sources[*index].is_emulated())
}

/// Returns true if the times in the headers of a source's fragments go on over more than the jitter of their arrival: those of RECBE wrap
/// within 33 µs, and ADC-SiTCP sends none.
fn has_lasting_time(format: &FormatSettings) -> bool {
    match format {
        FormatSettings::Triggered(boards) => boards.has_lasting_time(),
        FormatSettings::Hits(_) => true,
    }
}

/// The board that emulated ones follow.
pub(crate) struct Followed {
    /// The place of its `[[source]]` in the configuration.
    pub(crate) place: usize,
    /// Its number.
    pub(crate) board: SourceId,
    /// The follower that makes triggers of its fragments.
    pub(crate) follower: Follower,
}

/// The board that emulated ones follow; `None` where they have a program of their own.
///
/// # Errors
/// When it is no triggered source, or a setting cannot be.
pub(crate) fn followed(
    configuration: &Configuration,
    source_table: &SourceTable,
) -> Result<Option<Followed>, ConfigError> {
    let Some(follow) = &configuration.follow else { return Ok(None) };
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
    let board = SourceId(link.boards.start);
    let follower = Follower::new(board, &settings).map_err(|error| refuse(error.to_string()))?;
    Ok(Some(Followed { place, board, follower }))
}
