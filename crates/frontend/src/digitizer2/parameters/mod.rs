//! The parameters of x27xx boards: one table, of which emulated boards are made and by which settings are checked.
//!
//! ```text
//!  BOARD, CHANNEL, … ─ entries(place) ─┬─► nodes of an emulated board
//!                                      └─► check: `/ch/0/par/TriggerThr` = 70000 ─► what is allowed, in its unit
//! ```
//! The names, values and ranges are those that public programs set and documents list: the vendor's example programs of caen-dig2 1.6.1, the
//! manuals of the FELib parameters (UM7788, UM8762, UM11792, UM11796), and control programs of laboratories. What none of them says is unknown
//! here, and every value of it is accepted; a board that is connected reports its own limits, which are then used instead.

mod board;
mod channel;
pub mod check;
pub(crate) mod path;
mod rule;
mod words;

use super::settings::Firmware;

pub(crate) use rule::plain;
pub use rule::{Range, Refusal, Rule, Words};

/// Where a parameter is in the tree of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `/par/NAME`.
    Board,
    /// `/ch/N/par/NAME`.
    Channel,
    /// `/group/N/par/NAME`: four channels with one input delay.
    Group,
    /// `/vga/N/par/NAME`: sixteen channels with one amplifier.
    Vga,
    /// `/lvds/N/par/NAME`: four pairs of the LVDS connector.
    Lvds,
}

/// The hardware of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// 64 channels, 125 MS/s, 16 bits.
    X2740,
    /// 64 channels, 125 MS/s, 16 bits, amplifiers of variable gain.
    X2745,
    /// 32 channels, 500 MS/s, 14 bits.
    X2730,
    /// 16 channels, 1 GS/s, 14 bits. None of its ranges is published.
    X2751,
}

impl Family {
    const ALL: [(Family, &'static str); 4] =
        [(Family::X2740, "2740"), (Family::X2745, "2745"), (Family::X2730, "2730"), (Family::X2751, "2751")];

    /// The family of a model such as `VX2740B`, or of a family code.
    pub fn of_model(model: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|(_, number)| model.contains(number)).map(|(family, _)| family)
    }

    /// Its number, as in the names of its models.
    pub fn number(self) -> &'static str {
        Family::ALL.into_iter().find(|(family, _)| *family == self).map_or("", |(_, number)| number)
    }
}

/// What a board is, as far as its parameters depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoardKind {
    /// Its firmware.
    pub firmware: Firmware,
    /// Its hardware, if that is known.
    pub family: Option<Family>,
    /// Samples per microsecond.
    pub sampling_mhz: f64,
}

impl BoardKind {
    fn period_ns(&self) -> f64 {
        1000.0 / self.sampling_mhz
    }
}

/// A set of firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Firmwares(u8);

impl Firmwares {
    const PSD: Firmwares = Firmwares(1);
    const PHA: Firmwares = Firmwares(2);
    const SCOPE: Firmwares = Firmwares(4);
    const ZLE: Firmwares = Firmwares(8);
    const OPEN: Firmwares = Firmwares(16);
    const DPP: Firmwares = Firmwares::PSD.and(Firmwares::PHA);
    const ALL: Firmwares = Firmwares(31);

    const fn and(self, other: Firmwares) -> Firmwares {
        Firmwares(self.0 | other.0)
    }

    fn has(self, firmware: Firmware) -> bool {
        let own = match firmware {
            Firmware::Psd => Firmwares::PSD,
            Firmware::Pha => Firmwares::PHA,
            Firmware::Scope => Firmwares::SCOPE,
            Firmware::Zle => Firmwares::ZLE,
            Firmware::OpenDpp => Firmwares::OPEN,
        };
        self.0 & own.0 != 0
    }
}

/// The limits of a number, by the sampling rate of the board; `None` where no public source has them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limits {
    at_125_mhz: Option<Range>,
    at_500_mhz: Option<Range>,
}

impl Limits {
    const UNKNOWN: Limits = Limits { at_125_mhz: None, at_500_mhz: None };

    const fn both(low: f64, high: f64, step: f64) -> Limits {
        let range = Some(Range::stepped(low, high, step));
        Limits { at_125_mhz: range, at_500_mhz: range }
    }

    const fn slow(low: f64, high: f64, step: f64) -> Limits {
        Limits { at_125_mhz: Some(Range::stepped(low, high, step)), at_500_mhz: None }
    }

    const fn fast(self, range: Range) -> Limits {
        Limits { at_500_mhz: Some(range), ..self }
    }

    fn of(self, kind: &BoardKind) -> Option<Range> {
        match kind.sampling_mhz {
            125.0 => self.at_125_mhz,
            500.0 => self.at_500_mhz,
            _ => None,
        }
    }
}

/// The values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Boolean,
    Number(Limits),
    /// A number of samples. The board has it twice: as NAME with `S` in samples, and with `T` in nanoseconds.
    Samples(Limits),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// These words, joined by `|`.
    AnyOf(&'static [&'static str]),
    /// One of these words, or of others that no public source lists.
    Among(&'static [&'static str]),
    /// Any text, such as a mask.
    Text,
}

/// A parameter in the table.
#[derive(Clone, Copy, Debug)]
struct Definition {
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    about: &'static str,
    is_settable: bool,
    firmware: Firmwares,
    /// The hardware that has it; empty for all.
    families: &'static [Family],
}

const fn set(name: &'static str, kind: Kind, unit: &'static str, about: &'static str) -> Definition {
    Definition { name, kind, unit, about, is_settable: true, firmware: Firmwares::ALL, families: &[] }
}

const fn read(name: &'static str, unit: &'static str, about: &'static str) -> Definition {
    Definition { is_settable: false, ..set(name, Kind::Text, unit, about) }
}

impl Definition {
    const fn of(self, firmware: Firmwares) -> Definition {
        Definition { firmware, ..self }
    }

    const fn on(self, families: &'static [Family]) -> Definition {
        Definition { families, ..self }
    }

    fn is_in(&self, kind: &BoardKind) -> bool {
        let is_on = |family| self.families.is_empty() || self.families.contains(&family);
        self.firmware.has(kind.firmware) && kind.family.is_none_or(is_on)
    }

    fn entries(&'static self, kind: &BoardKind) -> Vec<Entry> {
        let entry = |name: String, rule: Rule, unit: &'static str, in_samples: Option<String>| Entry {
            name,
            unit,
            about: self.about,
            rule: if self.is_settable { rule } else { Rule::ReadOnly },
            in_samples,
        };
        let one = |rule| vec![entry(self.name.to_owned(), rule, self.unit, None)];
        match self.kind {
            Kind::Boolean => one(Rule::Boolean),
            Kind::Number(limits) => one(Rule::Number(limits.of(kind))),
            Kind::OneOf(words) => one(Rule::OneOf(Words::Known(words))),
            Kind::AnyOf(words) => one(Rule::AnyOf(Words::Known(words))),
            Kind::Among(words) => one(Rule::OneOf(Words::Incomplete(words))),
            Kind::Text => one(Rule::Anything),
            Kind::Samples(limits) => {
                let range = limits.of(kind);
                let times = range.map(|range| range.times(kind.period_ns()));
                let samples = format!("{}S", self.name);
                let time = entry(format!("{}T", self.name), Rule::Number(times), "ns", Some(samples.clone()));
                vec![entry(samples, Rule::Number(range), "samples", None), time]
            }
        }
    }
}

/// A parameter as one kind of board has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name as the documents write it. Boards do not distinguish upper and lower case.
    pub name: String,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The values that it takes.
    pub rule: Rule,
    /// The parameter that has the same value in samples, if this one has it in nanoseconds.
    pub in_samples: Option<String>,
}

fn table(place: Place) -> &'static [Definition] {
    match place {
        Place::Board => board::BOARD,
        Place::Channel => channel::CHANNEL,
        Place::Group => board::GROUP,
        Place::Vga => board::VGA,
        Place::Lvds => board::LVDS,
    }
}

/// The parameters that a kind of board has at a place.
pub fn entries(place: Place, kind: &BoardKind) -> Vec<Entry> {
    table(place).iter().filter(|one| one.is_in(kind)).flat_map(|one| one.entries(kind)).collect()
}

/// The commands of a board, by their names in lower case.
pub const COMMANDS: &[&str] = &[
    "armacquisition",
    "disarmacquisition",
    "swstartacquisition",
    "swstopacquisition",
    "sendswtrigger",
    "cleardata",
    "reset",
    "reloadcalibration",
];

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
