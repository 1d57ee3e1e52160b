//! The map that the data path looks channels up in.
//!
//! ```text
//!  channel ─► source, group, enabled, offset_ps, a polynomial for its energy      one row each, no search
//! ```

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use thalweg_data::SourceId;

use super::ChannelError;
use super::calibrations::Calibrations;
use super::settings::ChannelSettings;

/// Coefficients of an energy calibration, at most.
pub const COEFFICIENTS: usize = 6;
/// The group of channels that belong to none.
pub const NO_GROUP: u16 = 0;
/// The largest time offset either way, ten seconds: time order waits for the earliest channel of a source.
const LARGEST_OFFSET_PS: u64 = 10_000_000_000_000;
/// A channel that has no row, while the map is made: later its row is the one behind the last.
const NO_ROW: u32 = u32::MAX;

/// The facts known about one channel of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// Its number.
    pub number: u16,
    /// What it is called; `channel 7` when nobody named it.
    pub name: String,
    /// Number of its group; [`NO_GROUP`] for none.
    pub group: u16,
    /// Whether its hits take part in anything but the recording of all hits and the spectra of what is received.
    pub enabled: bool,
    /// Added to its hits' times before they are ordered, picoseconds.
    pub offset_ps: i64,
    /// The source that sends it.
    pub source: SourceId,
    /// Its energy in keV as a polynomial, constant first; `None` when it is not calibrated.
    pub energy_kev: Option<[f64; COEFFICIENTS]>,
}

/// A source and the channels that it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceChannels {
    /// The source.
    pub source: SourceId,
    /// What it is called, for messages.
    pub name: String,
    /// Its channels of the experiment.
    pub channels: RangeInclusive<u16>,
}

/// Every channel of the experiment, found by its number.
#[derive(Clone, Debug)]
pub struct ChannelMap {
    row_of: Box<[u32; 1 << 16]>,
    channels: Vec<Channel>,
    groups: Vec<String>,
    calibrations: Calibrations,
}

impl ChannelMap {
    /// A map of the channels that `sources` send; `described` says what is known of some of them, and `[[channel]]` comes
    /// before rows of a file.
    ///
    /// # Errors
    /// When two sources send the same channel, or a description is invalid.
    pub fn new(
        sources: &[SourceChannels],
        described: &[ChannelSettings],
        file: &[ChannelSettings],
    ) -> Result<ChannelMap, ChannelError> {
        let described = merged(described, file)?;
        let mut map = ChannelMap {
            row_of: by_channel(NO_ROW),
            channels: Vec::new(),
            groups: vec!["none".into()],
            calibrations: Calibrations::new(&[]),
        };
        for (index, sender) in sources.iter().enumerate() {
            for number in sender.channels.clone() {
                if map.row_of[usize::from(number)] != NO_ROW {
                    let first = sources[..index].iter().find(|other| other.channels.contains(&number));
                    let first = first.map_or_else(String::new, |other| other.name.clone());
                    return Err(ChannelError::Shared { channel: number, first, second: sender.name.clone() });
                }
                map.add(number, sender.source, described.get(&number))?;
            }
        }
        match described.keys().find(|number| map.row_of[usize::from(**number)] == NO_ROW) {
            Some(number) => Err(ChannelError::NobodySends { channel: *number, sent: ranges(sources) }),
            None => Ok(map.settled()),
        }
    }

    /// What is derived from the channels once all are known.
    fn settled(mut self) -> ChannelMap {
        let behind = self.channels.len() as u32;
        self.row_of.iter_mut().filter(|row| **row == NO_ROW).for_each(|row| *row = behind);
        self.calibrations = Calibrations::new(&self.channels);
        self
    }

    fn add(
        &mut self,
        number: u16,
        source: SourceId,
        described: Option<&ChannelSettings>,
    ) -> Result<(), ChannelError> {
        let nothing = ChannelSettings::default();
        let described = described.unwrap_or(&nothing);
        let offset_ps = described.offset_ps.unwrap_or(0);
        if offset_ps.unsigned_abs() > LARGEST_OFFSET_PS {
            return Err(ChannelError::Offset { channel: number, found: offset_ps });
        }
        self.row_of[usize::from(number)] = self.channels.len() as u32;
        let group = described.group.as_deref().map_or(NO_GROUP, |name| self.group_or_new(name));
        self.channels.push(Channel {
            number,
            name: described.name.clone().unwrap_or_else(|| format!("channel {number}")),
            group,
            enabled: described.enabled.unwrap_or(true),
            offset_ps,
            source,
            energy_kev: described.energy_kev.as_deref().map(|given| polynomial(number, given)).transpose()?,
        });
        Ok(())
    }

    fn group_or_new(&mut self, name: &str) -> u16 {
        self.group_named(name).unwrap_or_else(|| {
            self.groups.push(name.to_owned());
            // There are no more groups than channels.
            (self.groups.len() - 1) as u16
        })
    }

    /// One channel; `None` of one that no source sends.
    #[inline]
    pub fn get(&self, channel: u16) -> Option<&Channel> {
        self.channels.get(self.row_of[usize::from(channel)] as usize)
    }

    /// Place of a channel among all that are sent, in the order of the sources; tables by channel are indexed by it.
    #[inline]
    pub fn row(&self, channel: u16) -> Option<usize> {
        Some(self.row_or_behind(channel)).filter(|row| *row < self.channels.len())
    }

    /// The same without a branch: the row behind the last for a channel that no source sends.
    #[inline(always)]
    pub fn row_or_behind(&self, channel: u16) -> usize {
        self.row_of[usize::from(channel)] as usize
    }

    /// All channels, by row.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Names of the groups, by number; the first is that of channels in none.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The groups that a message lists.
    pub(crate) fn groups_in_words(&self) -> String {
        match &self.groups[1..] {
            [] => "none; give channels a `group`".to_owned(),
            groups => groups.join(", "),
        }
    }

    /// Number of the group with this name.
    pub fn group_named(&self, name: &str) -> Option<u16> {
        self.groups.iter().skip(1).position(|group| group == name).map(|place| place as u16 + 1)
    }

    /// A measured energy in keV; not a number when the channel is not calibrated.
    #[inline(always)]
    pub fn kev(&self, channel: u16, energy: u16) -> f64 {
        self.calibrations.kev(self.row_or_behind(channel), energy)
    }

    /// The energy calibrations, by row.
    pub fn calibrations(&self) -> &Calibrations {
        &self.calibrations
    }

    /// The same map with another calibration of the channel in this row; `None` takes it away.
    pub fn calibrated(&self, row: usize, energy_kev: Option<[f64; COEFFICIENTS]>) -> ChannelMap {
        let mut map = self.clone();
        map.channels[row].energy_kev = energy_kev;
        map.calibrations = Calibrations::new(&map.channels);
        map
    }

    /// Whether any channel is calibrated.
    pub fn is_calibrated(&self) -> bool {
        self.channels.iter().any(|channel| channel.energy_kev.is_some())
    }

    /// Channels that are not calibrated although others are: holes that a message should name.
    pub fn uncalibrated(&self) -> Vec<u16> {
        let without = self.channels.iter().filter(|channel| channel.enabled && channel.energy_kev.is_none());
        if self.is_calibrated() { without.map(|channel| channel.number).collect() } else { Vec::new() }
    }
}

/// The same for every channel that 16 bits can name.
pub(crate) fn by_channel<T: Clone + std::fmt::Debug>(value: T) -> Box<[T; 1 << 16]> {
    vec![value; 1 << 16].try_into().expect("so many were made")
}

fn merged(
    described: &[ChannelSettings],
    file: &[ChannelSettings],
) -> Result<BTreeMap<u16, ChannelSettings>, ChannelError> {
    let mut all: BTreeMap<u16, ChannelSettings> = BTreeMap::new();
    for channel in described {
        if all.insert(channel.number, channel.clone()).is_some() {
            return Err(ChannelError::Twice { channel: channel.number });
        }
    }
    for channel in file {
        let before = all.remove(&channel.number);
        let merged = before.map_or_else(|| channel.clone(), |before| before.or(channel));
        all.insert(channel.number, merged);
    }
    Ok(all)
}

/// The coefficients of a calibration as they are given.
///
/// # Errors
/// When there are none, more than [`COEFFICIENTS`], or one that is not finite.
pub(crate) fn polynomial(channel: u16, given: &[f64]) -> Result<[f64; COEFFICIENTS], ChannelError> {
    let usable = (1..=COEFFICIENTS).contains(&given.len()) && given.iter().all(|each| each.is_finite());
    if !usable {
        return Err(ChannelError::Polynomial { channel, given: given.to_vec() });
    }
    let mut polynomial = [0.0; COEFFICIENTS];
    polynomial[..given.len()].copy_from_slice(given);
    Ok(polynomial)
}

fn ranges(sources: &[SourceChannels]) -> String {
    let range = |source: &SourceChannels| {
        format!("{} to {} (\"{}\")", source.channels.start(), source.channels.end(), source.name)
    };
    sources.iter().map(range).collect::<Vec<_>>().join(", ")
}
