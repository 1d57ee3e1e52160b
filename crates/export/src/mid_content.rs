//! What the events of a MIDAS file are in a recording.
//!
//! ```text
//!  of any experiment   event ─► an event: a fragment with its header, and one for each bank
//!  exported by us      id 1 ─► the event and its fragments │ id 2 ─► hits │ id 3 ─► a coincidence
//! ```
//! The dump of the database at the beginning of a file says whether thalweg has written it.

use std::collections::BTreeMap;

use serde_json::Value;
use thalweg_data::{Closing, Flags, Hit, Selected, SourceId};

use crate::mid::{COINCIDENCES_ID, EVENTS_ID, HITS_ID};
use crate::midas_view::{Bank, BankType, Banks, ByteOrder, Header};

/// The source that has the headers of events.
pub(crate) const HEADER_SOURCE: &str = "header";

/// The sources of a file, and what each has.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Whether thalweg has written the file.
    pub is_ours: bool,
    /// Of a run that had an event filter, by what it selected.
    pub event_filter: Option<String>,
    /// Of other files, the sources of banks: by name, type, and how often the name came before in the event.
    banks: BTreeMap<([u8; 4], BankType, u16), u16>,
    names: Vec<String>,
}

/// An event with its fragments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BuiltEvent {
    /// Its trigger; of other files its number in the file.
    pub trigger: u64,
    /// When its first fragment arrived.
    pub first_arrival_ns: u64,
    /// When it was passed on.
    pub closed_ns: u64,
    /// Why.
    pub closing: Closing,
    /// How often it was built before.
    pub attempt: u8,
    /// Of a run that had an event filter, why it was recorded.
    pub selected: Option<Selected>,
    /// The sources that did not answer.
    pub missing: Vec<SourceId>,
    /// Source, time of the board, and bytes.
    pub fragments: Vec<(SourceId, u64, Vec<u8>)>,
}

/// Hits of one event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HitRows {
    /// The hits.
    pub hits: Vec<Hit>,
    /// Of a coincidence, its number.
    pub number: u64,
    /// Of a coincidence, the time of its reference.
    pub time_ps: i64,
    /// Of a coincidence, how many channels it has.
    pub multiplicity: u16,
    /// Of a coincidence, the index of its reference; 0 if it has none.
    pub reference: u16,
}

/// What one event is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Event(BuiltEvent),
    Hits(HitRows),
    Coincidence(HitRows),
}

/// Where an event is in its file and in the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its number among the data events of the file.
    pub number: u64,
    /// Seconds since 1970 at which the run begins.
    pub zero_s: i64,
    /// The byte order of its file.
    pub order: ByteOrder,
}

impl Sources {
    /// The sources of a file whose first dump is `database`.
    pub fn of(database: Option<&Value>) -> Sources {
        let Some(banks) = database.and_then(|database| database["Thalweg"]["Sources"].as_object()) else {
            return Sources { names: vec![HEADER_SOURCE.to_owned()], ..Sources::default() };
        };
        let number = |bank: &String| source_of(bank.as_bytes().try_into().ok()?);
        let mut known: Vec<(u16, &str)> =
            banks.iter().filter_map(|(bank, name)| Some((number(bank)?, name.as_str()?))).collect();
        known.sort_unstable();
        let count = known.last().map_or(0, |(number, _)| usize::from(*number) + 1);
        let mut names: Vec<String> = (0..count).map(|number| format!("source {number}")).collect();
        known.into_iter().for_each(|(number, name)| names[usize::from(number)] = name.to_owned());
        let event_filter = database.and_then(|database| database["Thalweg"]["Filter"].as_str());
        let event_filter = event_filter.map(str::to_owned);
        Sources { is_ours: true, event_filter, names, ..Sources::default() }
    }

    /// Their names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The words of the types of all banks, by the name of the source.
    pub fn types(&self) -> BTreeMap<&str, String> {
        let kinds = self
            .banks
            .iter()
            .map(|((_, kind, _), source)| (&self.names[usize::from(*source)][..], kind.word()));
        kinds.collect()
    }

    /// The source of a bank, which is new where it has not occurred; `None` where there are too many.
    fn bank(&mut self, bank: &Bank<'_>, before: u16) -> Option<SourceId> {
        let key = (bank.name, bank.kind, before);
        if let Some(source) = self.banks.get(&key) {
            return Some(SourceId(*source));
        }
        let source = u16::try_from(self.names.len()).ok().filter(|source| *source < MOST_SOURCES)?;
        let text = String::from_utf8_lossy(&bank.name).trim_end_matches('\0').to_owned();
        let own = if text.is_empty() { "no name".to_owned() } else { text };
        let is_taken = |name: &String, names: &[String]| names.contains(name);
        let typed = format!("{own} {}", bank.kind.word());
        let candidates =
            [own, typed.clone()].into_iter().chain((2..).map(|number| format!("{typed} {number}")));
        let name = candidates.into_iter().find(|name| !is_taken(name, &self.names))?;
        self.names.push(name);
        self.banks.insert(key, source);
        Some(SourceId(source))
    }
}

/// Most sources that a file of another experiment may have: each has counters in the ledger.
const MOST_SOURCES: u16 = 1024;

/// Reads one data event.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn content(
    header: &Header,
    body: &[u8],
    place: Place,
    sources: &mut Sources,
) -> Result<Content, String> {
    let banks = Banks::of(body, place.order)?.collect::<Result<Vec<_>, _>>()?;
    if !sources.is_ours {
        return foreign_event(header, &banks, place, sources).map(Content::Event);
    }
    let banks = OwnBanks { banks: &banks, order: place.order };
    match header.id {
        EVENTS_ID => banks.built_event(sources).map(Content::Event),
        HITS_ID => banks.hits().map(Content::Hits),
        COINCIDENCES_ID => banks.coincidence().map(Content::Coincidence),
        other => Err(format!("event id {other}, which thalweg does not write")),
    }
}

fn foreign_event(
    header: &Header,
    banks: &[Bank<'_>],
    place: Place,
    sources: &mut Sources,
) -> Result<BuiltEvent, String> {
    let seconds = u64::try_from(i64::from(header.seconds) - place.zero_s).unwrap_or(0);
    let mut words = Vec::with_capacity(crate::midas_view::HEADER_BYTES);
    words.extend(header.id.to_le_bytes());
    words.extend(header.mask.to_le_bytes());
    [header.serial, header.seconds, header.bytes]
        .into_iter()
        .for_each(|word| words.extend(word.to_le_bytes()));
    let mut event = BuiltEvent {
        trigger: place.number,
        first_arrival_ns: seconds * 1_000_000_000,
        closed_ns: seconds * 1_000_000_000,
        fragments: vec![(SourceId(0), 0, words)],
        ..BuiltEvent::default()
    };
    for (index, bank) in banks.iter().enumerate() {
        let same = |other: &&Bank<'_>| (other.name, other.kind) == (bank.name, bank.kind);
        let before = banks[..index].iter().filter(same).count() as u16;
        let source = sources.bank(bank, before).ok_or_else(|| {
            format!("more than {MOST_SOURCES} different banks, of which each would be a source")
        })?;
        let mut data = Vec::new();
        bank.little_endian(place.order, &mut data);
        event.fragments.push((source, 0, data));
    }
    event.fragments.sort_by_key(|(source, ..)| *source);
    Ok(event)
}

/// The banks of an event that thalweg has written.
struct OwnBanks<'a> {
    banks: &'a [Bank<'a>],
    order: ByteOrder,
}

impl OwnBanks<'_> {
    fn find(&self, name: &[u8; 4]) -> Option<Vec<u8>> {
        let bank = self.banks.iter().find(|bank| bank.name == *name)?;
        let mut data = Vec::new();
        bank.little_endian(self.order, &mut data).then_some(data)
    }

    /// The numbers of a bank that must be there.
    fn numbers<const N: usize>(&self, name: &[u8; 4]) -> Result<Vec<[u8; N]>, String> {
        let data = self.find(name).ok_or_else(|| format!("no bank {}", String::from_utf8_lossy(name)))?;
        let (numbers, rest) = data.as_chunks::<N>();
        match rest.is_empty() {
            true => Ok(numbers.to_vec()),
            false => Err(format!("the bank {} of {} bytes", String::from_utf8_lossy(name), data.len())),
        }
    }

    fn built_event(&self, sources: &Sources) -> Result<BuiltEvent, String> {
        let words: Vec<u64> = self.numbers(b"TRIG")?.into_iter().map(u64::from_le_bytes).collect();
        let Some(trigger) = words.first() else { return Err("an empty bank TRIG".to_owned()) };
        let time = |place: usize| words.get(place).copied().unwrap_or(0);
        let mut event = BuiltEvent {
            trigger: *trigger,
            first_arrival_ns: time(1),
            closed_ns: time(2),
            ..BuiltEvent::default()
        };
        if let Some(info) = self.find(b"INFO") {
            let [closing, attempt, ref selected @ ..] = info[..] else {
                return Err(format!("the bank INFO of {} bytes", info.len()));
            };
            event.selected = match *selected {
                [] => None,
                [number] => Some(Selected::from_number(number).ok_or_else(|| format!("selected {number}"))?),
                [..] => return Err(format!("the bank INFO of {} bytes", info.len())),
            };
            event.closing = Closing::from_number(closing).ok_or_else(|| format!("closing {closing}"))?;
            event.attempt = attempt;
            let missing = self.numbers(b"MISS")?.into_iter().map(u16::from_le_bytes);
            event.missing = missing.map(SourceId).collect();
        }
        let ticks = self.numbers(b"TICK")?.into_iter().map(u64::from_le_bytes);
        let own = self.banks.iter().filter_map(|bank| Some((bank, source_of(bank.name)?)));
        let mut ticks = ticks.into_iter();
        for (bank, source) in own {
            if usize::from(source) >= sources.names.len() {
                return Err(format!("a fragment of source {source}, which the file does not name"));
            }
            let own_ticks = ticks.next().ok_or("fewer times in TICK than fragments")?;
            event.fragments.push((SourceId(source), own_ticks, bank.data.to_vec()));
        }
        if !event.fragments.is_sorted_by(|one, next| one.0 <= next.0) {
            return Err("its fragments are not in the order of their sources".to_owned());
        }
        Ok(event)
    }

    fn hits(&self) -> Result<HitRows, String> {
        let times = self.numbers(b"TIME")?;
        let [channels, energies, energies_short, flags] =
            [b"CHAN", b"ENRG", b"ESHT", b"FLAG"].map(|name| self.numbers::<2>(name));
        let (channels, energies, energies_short, flags) = (channels?, energies?, energies_short?, flags?);
        if [&channels, &energies, &energies_short, &flags].iter().any(|column| column.len() != times.len()) {
            return Err("banks of hits of different lengths".to_owned());
        }
        let number = |column: &[[u8; 2]], row: usize| u16::from_le_bytes(column[row]);
        let hits = times.iter().enumerate().map(|(row, time)| Hit {
            time_ps: i64::from_le_bytes(*time),
            channel: number(&channels, row),
            energy: number(&energies, row),
            energy_short: number(&energies_short, row),
            flags: Flags(number(&flags, row)),
        });
        Ok(HitRows { hits: hits.collect(), ..HitRows::default() })
    }

    fn coincidence(&self) -> Result<HitRows, String> {
        let mut rows = self.hits()?;
        let numbers = self.numbers(b"EVNT")?;
        let distances = self.numbers(b"DTPS")?;
        let multiplicities = self.numbers(b"MULT")?;
        let references = self.find(b"REFR").unwrap_or_default();
        let count = rows.hits.len();
        let (Some(number), Some(first)) = (numbers.first(), rows.hits.first()) else {
            return Err("a coincidence without hits".to_owned());
        };
        if [numbers.len(), distances.len(), multiplicities.len(), references.len()] != [count; 4] {
            return Err("banks of a coincidence of different lengths".to_owned());
        }
        rows.number = u64::from_le_bytes(*number);
        rows.time_ps = first.time_ps.wrapping_sub(i64::from_le_bytes(distances[0]));
        rows.multiplicity = u16::from_le_bytes(multiplicities[0]);
        let reference = references.iter().position(|bit| *bit == 1).unwrap_or(0);
        rows.reference = u16::try_from(reference).map_err(|_| "a coincidence of too many hits")?;
        Ok(rows)
    }
}

/// The source whose bank has this name: `S` and a number in base 36, and on to `T`; see [`crate::midas::source_bank`].
fn source_of(name: [u8; 4]) -> Option<u16> {
    let digit = |letter: u8| (letter as char).to_digit(36).filter(|_| !letter.is_ascii_lowercase());
    let first = u32::from(name[0].checked_sub(b'S')?);
    let number = name[1..].iter().try_fold(first, |number, letter| Some(number * 36 + digit(*letter)?))?;
    u16::try_from(number).ok().filter(|number| crate::midas::source_bank(*number) == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::midas::source_bank;
    use crate::midas_view::HEADER_BYTES;
    use crate::midas_view::tests::{golden, golden_big};

    #[test]
    fn names_of_banks_give_their_sources_again() {
        for source in 0..=u16::MAX {
            assert_eq!(source_of(source_bank(source)), Some(source));
        }
        assert_eq!([*b"ADC0", *b"S0a0", *b"S!00"].map(source_of), [None; 3]);
    }

    #[test]
    fn banks_of_any_experiment_are_fragments_of_sources_in_either_byte_order() {
        for (bytes, order) in [(golden(), ByteOrder::Little), (golden_big(), ByteOrder::Big)] {
            let mut sources = Sources::of(None);
            let mut events = Vec::new();
            for (number, at) in [67, 131].into_iter().enumerate() {
                let header = Header::read(&bytes[at..], order).expect("whole");
                let body = &bytes[at + HEADER_BYTES..][..header.bytes as usize];
                let place = Place { number: number as u64, zero_s: 0x6553_F100, order };
                let Content::Event(event) = content(&header, body, place, &mut sources).expect("whole")
                else {
                    panic!("an event");
                };
                events.push(event);
            }
            assert_eq!(sources.names(), ["header", "ADC0", "TDC0"]);
            assert_eq!(sources.types().into_values().collect::<Vec<_>>(), ["u16", "u32"]);
            assert_eq!((events[0].trigger, events[0].first_arrival_ns), (0, 1_000_000_000));
            assert_eq!(events[0].fragments[1], (SourceId(1), 0, vec![0xc8, 0, 0xd2, 0, 0xd2, 4]));
            assert_eq!(events[0].fragments[2].2, [0xef, 0xbe, 0xad, 0xde, 1, 0, 0, 0]);
            assert_eq!(events[0].fragments[0].2, golden()[67..83], "the header, little-endian");
            assert_eq!(events[1].fragments[1].2, [1, 0, 2, 0, 3, 0, 4, 0]);
        }
    }

    #[test]
    fn a_bank_of_the_same_name_is_a_source_of_its_own() {
        let bank = |kind| Bank { name: *b"ADC0", kind: BankType(kind), data: &[] };
        let mut sources = Sources::of(None);
        let found = [(4, 0), (6, 0), (4, 1), (4, 0)].map(|(kind, before)| sources.bank(&bank(kind), before));
        assert_eq!(found, [1, 2, 3, 1].map(|source| Some(SourceId(source))));
        assert_eq!(sources.names()[1..], ["ADC0", "ADC0 u32", "ADC0 u16"]);
    }
}
