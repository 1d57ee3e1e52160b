//! What a cut or a spectrum can ask of a hit: its fields as columns of numbers.
//!
//! ```text
//!  hits ─ Field ─► [ number number number … ]      absent is not a number
//! ```
//! The one place that turns hits into numbers: cuts and spectra agree on what `psd` is because both ask here.

use std::ops::{Div, Sub};

use thalweg_data::{Flags, Hit, HitEvent};

use crate::channels::ChannelMap;

/// A quantity of a hit, or of the event that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Long-gate charge or pulse height, as measured.
    Energy,
    /// Short-gate charge, as measured.
    EnergyShort,
    /// Calibrated energy, keV.
    Kev,
    /// The fraction of the charge that comes late: (energy − energy_short) / energy.
    Psd,
    /// Channel of the experiment.
    Channel,
    /// Number of the channel's group.
    Group,
    /// Number of the source.
    Source,
    /// Picoseconds since run start.
    Time,
    /// Different channels or groups in the event.
    Multiplicity,
    /// Time after the event's reference, or its first hit, picoseconds.
    Dt,
    /// Measured energies of the event together.
    SumEnergy,
    /// Calibrated energies of the event together, keV.
    SumKev,
}

/// Every field with its name, its unit, and what it is.
pub const FIELDS: [(Field, &str, &str, &str); 12] = [
    (Field::Energy, "energy", "", "long-gate charge or pulse height, as measured"),
    (Field::EnergyShort, "energy_short", "", "short-gate charge, as measured"),
    (Field::Kev, "keV", "keV", "calibrated energy"),
    (Field::Psd, "psd", "", "(energy - energy_short) / energy"),
    (Field::Channel, "channel", "", "channel of the experiment"),
    (Field::Group, "group", "", "number of the channel's group"),
    (Field::Source, "source", "", "number of the source"),
    (Field::Time, "time", "ps", "time since run start"),
    (Field::Multiplicity, "multiplicity", "", "different channels or groups in the event"),
    (Field::Dt, "dt", "ps", "time after the event's reference, or its first hit"),
    (Field::SumEnergy, "sum_energy", "", "measured energies of the event together"),
    (Field::SumKev, "sum_keV", "keV", "calibrated energies of the event together"),
];

impl Field {
    /// The field that is called so in expressions and in the configuration.
    pub fn from_name(name: &str) -> Option<Field> {
        FIELDS.iter().find(|(_, known, ..)| *known == name).map(|(field, ..)| *field)
    }

    fn row(self) -> &'static (Field, &'static str, &'static str, &'static str) {
        FIELDS.iter().find(|(field, ..)| *field == self).expect("every field has its row")
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its unit; empty of a pure number.
    pub fn unit(self) -> &'static str {
        self.row().2
    }

    /// Whether only hits in an event have it.
    pub fn is_of_event(self) -> bool {
        matches!(self, Field::Multiplicity | Field::Dt | Field::SumEnergy | Field::SumKev)
    }

    /// Whether it depends on calibrations.
    pub fn is_calibrated(self) -> bool {
        matches!(self, Field::Kev | Field::SumKev)
    }

    /// Whether single precision would blur it: times in picoseconds.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Field::Time | Field::Dt | Field::SumEnergy)
    }
}

/// A number that columns are made of.
pub trait Real: Copy + Default + PartialOrd + From<u16> + Sub<Output = Self> + Div<Output = Self> {
    /// Nothing is known.
    const ABSENT: Self;
    /// In double precision.
    const IS_LONG: bool;
    /// From an exact value.
    fn of(value: f64) -> Self;
}

impl Real for f32 {
    const ABSENT: f32 = f32::NAN;
    const IS_LONG: bool = false;
    #[inline(always)]
    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Real for f64 {
    const ABSENT: f64 = f64::NAN;
    const IS_LONG: bool = true;
    #[inline(always)]
    fn of(value: f64) -> f64 {
        value
    }
}

/// Some hits, and for each the event that it stands in, if they are members of events.
#[derive(Clone, Copy, Debug)]
pub struct Members<'h> {
    /// The hits.
    pub hits: &'h [Hit],
    /// What is said of their events, one entry per hit.
    pub events: Option<&'h [EventFacts]>,
}

/// What a member's event says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EventFacts {
    /// Different channels or groups.
    pub multiplicity: u16,
    /// Time of the reference, or of the first hit, picoseconds.
    pub time_ps: i64,
    /// Measured energies together.
    pub sum_energy: f64,
    /// Calibrated energies together, keV.
    pub sum_kev: f64,
}

impl EventFacts {
    /// The facts of one event.
    pub fn of(event: &HitEvent, members: &[Hit], map: &ChannelMap) -> EventFacts {
        let with_energy = || members.iter().filter(|hit| !hit.flags.has(Flags::NO_ENERGY));
        EventFacts {
            multiplicity: event.multiplicity,
            time_ps: event.time_ps,
            sum_energy: with_energy().map(|hit| f64::from(hit.energy)).sum(),
            sum_kev: with_energy().map(|hit| map.kev(hit.channel, hit.energy)).sum(),
        }
    }
}

/// Fills `column`, which is as long as the hits, with a field of each.
#[inline(always)]
pub fn fill<T: Real>(field: Field, members: Members<'_>, map: &ChannelMap, column: &mut [T]) {
    let hits = members.hits;
    match field {
        Field::Energy => each(hits, column, energy),
        Field::EnergyShort => each(hits, column, |hit| match hit.flags.has(Flags::NO_ENERGY_SHORT) {
            true => f64::NAN,
            false => f64::from(hit.energy_short),
        }),
        Field::Kev => {
            // Looked up in any case: a branch would cost more.
            let known = |hit: &Hit, kev: f64| if hit.flags.has(Flags::NO_ENERGY) { f64::NAN } else { kev };
            match map.calibrations().lines() {
                Some(lines) => each(hits, column, |hit| {
                    known(hit, lines[map.row_or_behind(hit.channel)].kev(hit.energy))
                }),
                None => each(hits, column, |hit| known(hit, map.kev(hit.channel, hit.energy))),
            }
        }
        Field::Psd => column.iter_mut().zip(hits).for_each(|(cell, hit)| *cell = psd(hit)),
        Field::Channel => each(hits, column, |hit| f64::from(hit.channel)),
        Field::Group => {
            each(hits, column, |hit| map.get(hit.channel).map_or(0.0, |each| f64::from(each.group)))
        }
        Field::Source => {
            each(hits, column, |hit| map.get(hit.channel).map_or(f64::NAN, |each| f64::from(each.source.0)));
        }
        Field::Time => each(hits, column, |hit| hit.time_ps as f64),
        Field::Multiplicity => of_event(members, column, |_, event| f64::from(event.multiplicity)),
        Field::Dt => of_event(members, column, |hit, event| hit.time_ps.wrapping_sub(event.time_ps) as f64),
        Field::SumEnergy => of_event(members, column, |_, event| event.sum_energy),
        Field::SumKev => of_event(members, column, |_, event| event.sum_kev),
    }
}

#[inline(always)]
fn energy(hit: &Hit) -> f64 {
    if hit.flags.has(Flags::NO_ENERGY) { f64::NAN } else { f64::from(hit.energy) }
}

/// The fraction of a hit's charge that comes late; not a number where it cannot be known. Of 4 of 25 it is the same number as 0.16 that somebody
/// writes, in either precision: both are the nearest to the fraction.
#[inline(always)]
pub fn psd<T: Real>(hit: &Hit) -> T {
    let absent = hit.flags.0 & (Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT).0 != 0;
    let energy = T::from(hit.energy);
    // 0 / 0 is not a number, either.
    let fraction = (energy - T::from(hit.energy_short)) / energy;
    if absent || hit.energy == 0 { T::ABSENT } else { fraction }
}

#[inline(always)]
fn each<T: Real>(hits: &[Hit], column: &mut [T], value: impl Fn(&Hit) -> f64) {
    column.iter_mut().zip(hits).for_each(|(cell, hit)| *cell = T::of(value(hit)));
}

#[inline(always)]
fn of_event<T: Real>(members: Members<'_>, column: &mut [T], value: impl Fn(&Hit, &EventFacts) -> f64) {
    match members.events {
        Some(events) => {
            let rows = members.hits.iter().zip(events);
            column.iter_mut().zip(rows).for_each(|(cell, (hit, event))| *cell = T::of(value(hit, event)));
        }
        None => column.fill(T::ABSENT),
    }
}
