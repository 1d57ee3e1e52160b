//! Brings the times of boards and channels together, before they are ordered.
//!
//! ```text
//!  time ─► + offset of the source + drift × time + offset of the channel ─► time
//! ```

use thalweg_data::{Flags, Hits, SourceId};

use super::settings::Settings;
use crate::channels::ChannelMap;

/// One source's correction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    offset_ps: i64,
    drift: f64,
    /// Offsets of its channels differ from zero, from … to.
    channels_ps: (i64, i64),
}

/// Corrects the times of batches that come from single sources.
#[derive(Clone, Debug)]
pub struct Aligner {
    lines: Vec<Line>,
}

impl Aligner {
    /// The corrections of `settings` for sources of these names, by number, and those of the channels.
    pub fn new(settings: &Settings, sources: &[String], map: &ChannelMap) -> Aligner {
        let line = |(index, name): (usize, &String)| {
            let correction = settings.source.iter().find(|correction| correction.name == *name);
            let of_source = |channel: &&crate::channels::Channel| channel.source.index() == index;
            let offsets = map.channels().iter().filter(of_source).map(|channel| channel.offset_ps);
            Line {
                offset_ps: correction.map_or(0, |correction| correction.offset_ps),
                drift: correction.map_or(0.0, |correction| correction.drift_ppb * 1e-9),
                channels_ps: offsets.fold((0, 0), |(least, most), each| (each.min(least), each.max(most))),
            }
        };
        Aligner { lines: sources.iter().enumerate().map(line).collect() }
    }

    /// How far a source's own order may be disturbed by the offsets of its channels, picoseconds.
    pub fn disorder_ps(&self, source: SourceId) -> u64 {
        self.lines.get(source.index()).map_or(0, |line| line.channels_ps.1.abs_diff(line.channels_ps.0))
    }

    /// Corrects the times of one batch of one source, with those of its extras and of the board's records of its counters.
    pub fn align(&self, batch: &mut Hits, map: &ChannelMap) {
        let Some(line) = self.lines.get(batch.header.source.index()).filter(|line| **line != Line::default())
        else {
            return;
        };
        let has_channels = line.channels_ps != (0, 0);
        let aligned = |time_ps: i64, channel: u16| {
            let of_channel = match has_channels {
                true => map.get(channel).map_or(0, |channel| channel.offset_ps),
                false => 0,
            };
            let drifted = (time_ps as f64 * line.drift).round() as i64;
            time_ps.saturating_add(line.offset_ps + drifted + of_channel)
        };
        let mut extras = batch.extras.iter_mut();
        for hit in &mut batch.hits {
            hit.time_ps = aligned(hit.time_ps, hit.channel);
            if hit.flags.has(Flags::EXTRA)
                && let Some(extra) = extras.next()
            {
                extra.time_ps = hit.time_ps;
            }
        }
        // They count the hits before them.
        for record in &mut batch.statistics {
            record.real_time_ps = aligned(record.real_time_ps, record.channel);
        }
    }
}
