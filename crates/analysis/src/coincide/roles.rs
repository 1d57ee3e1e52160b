//! Channel roles: member, reference, veto, gate.
//!
//! ```text
//!  [coincidence] + ChannelMap ──► by channel: takes part as number k · is a reference · vetoes · gates
//! ```

use thalweg_data::Hit;

use super::error::CoincidenceError;
use super::held::Waiting;
use super::settings::{Distinct, Leg, Mode, Settings, Span, WIDEST_PS};
use crate::channels::{ChannelMap, NO_GROUP, by_channel};

/// A channel that does not take part.
const NOBODY: u16 = u16::MAX;

/// What one channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    /// Number among those that are distinguished: of its channel, or of its group.
    element: u16,
    /// Number of its source; behind the last of a channel that nobody sends.
    source: u16,
    bits: u8,
}

impl Role {
    const REFERENCE: u8 = 1;
    const OTHER: u8 = 2;
    const VETO: u8 = 4;
    const GATE: u8 = 8;

    /// Its hits are compared with one another.
    #[inline]
    pub fn takes_part(self) -> bool {
        self.bits & (Role::REFERENCE | Role::OTHER) != 0
    }
    #[inline]
    pub fn is_reference(self) -> bool {
        self.bits & Role::REFERENCE != 0
    }
    /// Its hits may be partners of a reference; in other modes, of each other.
    #[inline]
    pub fn is_other(self) -> bool {
        self.bits & Role::OTHER != 0
    }
    #[inline]
    pub fn vetoes(self) -> bool {
        self.bits & Role::VETO != 0
    }
    #[inline]
    pub fn gates(self) -> bool {
        self.bits & Role::GATE != 0
    }
    #[inline]
    pub fn is_anything(self) -> bool {
        self.bits != 0
    }
    /// Number among those that are distinguished.
    #[inline]
    pub fn element(self) -> u16 {
        self.element
    }
    #[inline]
    pub fn source(self) -> usize {
        usize::from(self.source)
    }

    /// A hit of this channel, as the rules see it.
    #[inline]
    pub fn waiting(self, hit: Hit) -> Waiting {
        Waiting {
            hit,
            element: self.element,
            source: self.source,
            is_other: self.is_other(),
            is_reference: self.is_reference(),
            kept: false,
        }
    }
}

/// The role of every channel.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    of: Box<[Role; 1 << 16]>,
    /// How many are distinguished.
    elements: usize,
}

impl Roles {
    /// Finds everybody's role, and checks that the settings can be meant; sources are numbered below `sources`.
    pub fn new(settings: &Settings, map: &ChannelMap, sources: usize) -> Result<Roles, CoincidenceError> {
        check_windows(settings)?;
        let nobody = Role { element: NOBODY, source: sources as u16, bits: 0 };
        let mut roles = Roles { of: by_channel(nobody), elements: 0 };
        roles.number(settings.distinct, map);
        let everybody = settings.channels.is_empty() && settings.groups.is_empty();
        let taking_part = match everybody {
            true => map
                .channels()
                .iter()
                .filter(|channel| channel.enabled)
                .map(|channel| channel.number)
                .collect(),
            false => listed(&settings.channels, &settings.groups, map)?,
        };
        roles.mark(&taking_part, Role::OTHER);
        let mut leg = |name, leg: &Option<Leg>, bit| match leg {
            Some(leg) => roles.leg(name, leg, bit, map),
            None => Ok(()),
        };
        leg("reference", &settings.reference, Role::REFERENCE)?;
        leg("veto", &settings.veto, Role::VETO)?;
        leg("gate", &settings.gate, Role::GATE)?;
        roles.settle(everybody);
        check_mode(settings)?;
        roles.check_multiplicity(settings)?;
        Ok(roles)
    }

    #[inline]
    pub fn of(&self, channel: u16) -> Role {
        self.of[usize::from(channel)]
    }

    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Gives those that are distinguished their numbers.
    fn number(&mut self, distinct: Distinct, map: &ChannelMap) {
        let groups = if distinct == Distinct::Groups { map.groups().len() } else { 0 };
        // Groups first: group g is number g, and number 0 is nobody's.
        self.elements = groups;
        for channel in map.channels() {
            let role = &mut self.of[usize::from(channel.number)];
            role.source = channel.source.0;
            if distinct == Distinct::Groups && channel.group != NO_GROUP {
                role.element = channel.group;
            } else {
                role.element = self.elements as u16;
                self.elements += 1;
            }
        }
    }

    fn mark(&mut self, channels: &[u16], bit: u8) {
        channels.iter().for_each(|channel| self.of[usize::from(*channel)].bits |= bit);
    }

    fn leg(
        &mut self,
        name: &'static str,
        leg: &Leg,
        bit: u8,
        map: &ChannelMap,
    ) -> Result<(), CoincidenceError> {
        let channels = listed(&leg.channels, &leg.groups, map)?;
        if channels.is_empty() {
            return Err(CoincidenceError::EmptyLeg { leg: name });
        }
        self.mark(&channels, bit);
        Ok(())
    }

    /// Who vetoes or gates takes no part unless listed; a reference is a partner of another only if listed.
    fn settle(&mut self, everybody: bool) {
        for role in self.of.iter_mut().filter(|role| everybody && role.bits & !Role::OTHER != 0) {
            role.bits &= !Role::OTHER;
        }
    }

    fn check_multiplicity(&self, settings: &Settings) -> Result<(), CoincidenceError> {
        let mut seen = vec![false; self.elements];
        for role in self.of.iter().filter(|role| role.is_other()) {
            seen[usize::from(role.element)] = true;
        }
        let different = seen.iter().filter(|seen| **seen).count();
        let least = if settings.mode == Mode::Reference { 1 } else { 2 };
        let found = settings.at_least.unwrap_or(least);
        if different < usize::from(least) {
            let what = if settings.distinct == Distinct::Groups { "groups" } else { "channels" };
            return Err(CoincidenceError::TooFew { least, different, what });
        }
        if found < least || usize::from(found) > different {
            let what = if settings.distinct == Distinct::Groups { "groups" } else { "channels" };
            return Err(CoincidenceError::AtLeast { found, least, different, what });
        }
        Ok(())
    }
}

fn listed(
    channels: &crate::channels::ChannelList,
    groups: &[String],
    map: &ChannelMap,
) -> Result<Vec<u16>, CoincidenceError> {
    let mut listed = channels.channels()?;
    if let Some(channel) = listed.iter().find(|channel| map.get(**channel).is_none()) {
        return Err(CoincidenceError::UnknownChannel { channel: *channel });
    }
    for name in groups {
        let group = map.group_named(name).ok_or_else(|| CoincidenceError::UnknownGroup {
            group: name.clone(),
            known: map.groups_in_words(),
        })?;
        listed.extend(map.channels().iter().filter(|each| each.group == group).map(|each| each.number));
    }
    listed.retain(|channel| map.get(*channel).is_some_and(|channel| channel.enabled));
    Ok(listed)
}

fn check_windows(settings: &Settings) -> Result<(), CoincidenceError> {
    let windows = [("window_ps", Some(settings.window_ps)), ("gap_ps", settings.gap_ps)];
    for (key, found) in windows.into_iter().filter_map(|(key, found)| Some((key, found?))) {
        if !(0..=WIDEST_PS).contains(&found) {
            return Err(CoincidenceError::Window { key, found });
        }
    }
    let legs = [("reference", &settings.reference), ("veto", &settings.veto), ("gate", &settings.gate)];
    for (leg, settings_of_leg) in legs.into_iter().filter_map(|(name, leg)| Some((name, leg.as_ref()?))) {
        let Span { from_ps, to_ps } = settings_of_leg.span(settings.window_ps);
        let near = |ps: i64| (-WIDEST_PS..=WIDEST_PS).contains(&ps);
        if from_ps > to_ps || !near(from_ps) || !near(to_ps) {
            return Err(CoincidenceError::Span { leg, from_ps, to_ps });
        }
    }
    match (2..=1 << 16).contains(&settings.longest_event_hits) {
        true => Ok(()),
        false => Err(CoincidenceError::LongestEvent(settings.longest_event_hits)),
    }
}

fn check_mode(settings: &Settings) -> Result<(), CoincidenceError> {
    use super::settings::Grouping;
    let is_reference = settings.mode == Mode::Reference;
    if is_reference && settings.reference.is_none() {
        return Err(CoincidenceError::NoReference);
    }
    let unused = |key, mode, instead| Err(CoincidenceError::Unused { key, mode, instead });
    match settings.mode {
        Mode::AnyPair if settings.at_least.is_some() => {
            unused("at_least", "any_pair", "write mode = \"majority\"")
        }
        Mode::AnyPair if settings.reference.is_some() => {
            unused("reference", "any_pair", "write mode = \"reference\"")
        }
        Mode::Majority if settings.reference.is_some() => {
            unused("reference", "majority", "write mode = \"reference\"")
        }
        Mode::Reference if settings.events != Grouping::Chain => {
            unused("events", "reference", "each reference makes its own event")
        }
        mode if settings.gap_ps.is_some() && settings.events != Grouping::Gap => match mode {
            Mode::Reference => {
                unused("gap_ps", "reference", "leave it out: each reference makes its own event")
            }
            Mode::AnyPair => unused("gap_ps", "any_pair", "write events = \"gap\" with it"),
            Mode::Majority => unused("gap_ps", "majority", "write events = \"gap\" with it"),
        },
        _ => Ok(()),
    }
}
