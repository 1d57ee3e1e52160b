//! The source table of a run: the numbers and names of everything that has a counter slot in the ledger.
//!
//! ```text
//!  hits' sources │ boards of triggered sources,         │ links to several boards │ events │ coincidences │ units
//!  0 …           │ or the time slices of hits' sources: │                         │        │              │
//!                │ one after another, a builder's range │                         │        │              │
//! ```
//! A `[[source]]` of hits is one source. A triggered one is one or many links (`tcp://192.168.10.{16..120}:24`), each to one
//! board, whose number is then the link's, or to several.

use std::collections::HashMap;
use std::ops::Range;

use thalweg_analysis::event_filter::Boards;
use thalweg_data::ledger::{Carrier, CounterSnapshot, Loss, LossReport};
use thalweg_data::topology::FlowPath;
use thalweg_data::{Counters, DataKept, LedgerSnapshot, LossReason, Noted, SourceId, StageRole, Unit};
use thalweg_monitor::state::EventSelection;
use thalweg_readout::links::LinkPlan;
use thalweg_record::{Settings, advice, data_kept};

use crate::config::{ConfigError, Configuration, SourceSettings};
use thalweg_frontend::format::FormatSettings;

/// The name in the ledger of the events that are made of hits.
pub(crate) const COINCIDENCES: &str = "coincidences";

/// One link of a triggered source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkPlace {
    /// The link's own number: that of its board, if it has one only.
    pub(crate) link: SourceId,
    /// Its boards.
    pub(crate) boards: Range<u16>,
}

/// One `[[source]]` of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The links of a triggered source; empty for a source of hits.
    pub(crate) links: Vec<LinkPlace>,
    /// Everything that belongs to it.
    pub(crate) all: Vec<SourceId>,
    /// The keys that advice on its losses may name.
    keys: Vec<String>,
}

impl Entry {
    fn knows(&self, key: &str) -> bool {
        self.keys.iter().any(|own| own == key)
    }
}

/// Everyone in a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceTable {
    /// The names by number.
    pub(crate) names: Vec<String>,
    /// The entries in the order of the configuration.
    pub(crate) entries: Vec<Entry>,
    /// The link plans of the triggered sources, by index in the configuration.
    pub(crate) links: Vec<Option<LinkPlan>>,
    /// Those whose fragments events are built of: the boards of all triggered sources, or what sources of hits have in each time
    /// slice, which is in a ledger of its own.
    pub(crate) boards: Range<u16>,
    /// What is kept of the data.
    pub(crate) kept: DataKept,
    /// Of a replay: the program of the recorded run was killed, so that nobody knows how much it has lost.
    pub(crate) replays_killed_run: bool,
    /// The counters of the events themselves, of a run that has some.
    pub(crate) events: Option<SourceId>,
    /// The counters of the events that are made of hits, of a run with coincidence.
    pub(crate) coincidences: Option<SourceId>,
    /// The counters of the units, in the order of the configuration.
    pub(crate) units: Vec<(String, SourceId)>,
}

impl SourceTable {
    /// The counters of a unit.
    ///
    /// # Panics
    /// Of a unit that is not configured.
    pub(crate) fn unit(&self, name: &str) -> SourceId {
        let found = self.units.iter().find(|(unit, _)| unit == name);
        found.expect("every unit of the configuration is in the source_table").1
    }

    /// Those whose fragments are in the events that an event filter selects.
    pub(crate) fn filtered_boards(&self) -> Boards<'_> {
        let Range { start, end } = self.boards;
        Boards { first: SourceId(start), names: &self.names[usize::from(start)..usize::from(end)] }
    }

    /// The name of the `[[source]]` to which a number belongs; empty of events and units.
    pub(crate) fn entry_of(&self, source: SourceId) -> &str {
        let entry = self.entries.iter().find(|entry| entry.all.contains(&source));
        entry.map_or("", |entry| &entry.name)
    }

    /// Returns every loss, with the advice for how its source's data come; for a board on a shared link, the link knows that.
    pub(crate) fn placed(&self, snapshot: &LedgerSnapshot) -> Vec<Loss> {
        let shared =
            self.entries.iter().flat_map(|entry| &entry.links).filter(|place| place.boards.len() > 1);
        let carried: HashMap<&str, Carrier> = shared
            .flat_map(|place| place.boards.clone().map(move |board| (board, snapshot.carrier(place.link))))
            .map(|(board, carrier)| (self.names[usize::from(board)].as_str(), carrier))
            .collect();
        let owners = self.entries.iter().flat_map(|entry| entry.all.iter().map(move |own| (*own, entry)));
        let owners: HashMap<SourceId, &Entry> = owners.collect();
        let knows = |source: SourceId, key: &str| owners.get(&source).is_some_and(|entry| entry.knows(key));
        let by_name = |name: &str| self.names.iter().position(|own| own == name);
        let place = |loss: Loss| match carried.get(loss.source.as_str()) {
            Some(carrier) => {
                let source = by_name(&loss.source).map(|index| SourceId(index as u16));
                advice::advised(loss, *carrier, |key| source.is_some_and(|source| knows(source, key)))
            }
            None => loss,
        };
        advice::losses_of(snapshot, knows).into_iter().map(place).collect()
    }

    /// The losses of snapshot that are grouped as [`SourceTable::groups`] says, with the advice that fits each `[[source]]`.
    pub(crate) fn grouped_losses(&self, grouped: &LedgerSnapshot) -> Vec<Loss> {
        let knows = |source: SourceId, key: &str| {
            self.entries.get(source.index()).is_some_and(|entry| entry.knows(key))
        };
        advice::losses_of(grouped, knows)
    }

    /// Losses as people read them, of this ledger or of grouped ones.
    pub(crate) fn loss_report(&self, snapshot: &LedgerSnapshot) -> LossReport {
        let report = LossReport::of(snapshot, self.kept);
        if self.replays_killed_run { report.of_killed_run(|_| 0) } else { report }
    }

    /// Events on file: those that were built or, of a run that builds none, those that were made of hits.
    pub(crate) fn events_recorded(&self, snapshot: &LedgerSnapshot) -> u64 {
        let of_hits = |source| self.events.is_some() && self.coincidences == Some(source);
        let recorded = snapshot.at(StageRole::Recording).filter(|own| !of_hits(own.source));
        recorded.map(|slot| slot.counters.total_output(Unit::Events)).sum()
    }

    /// What the event filter has done: a stage that built events pass and that makes none. `None` of a run without.
    pub(crate) fn event_selection(&self, snapshot: &LedgerSnapshot) -> Option<EventSelection> {
        let path = snapshot.path();
        let is_filter = |own: &&CounterSnapshot| {
            own.counts(Unit::Events)
                && path.flow_path_of(own.stage, own.source) == Some(FlowPath::Events)
                && !path.is_made(Unit::Events, own.stage, own.source)
        };
        let mut filters = snapshot.at(StageRole::Work).filter(is_filter).peekable();
        filters.peek()?;
        let mut all = Counters::default();
        filters.for_each(|own| all.add_all(&own.counters));
        Some(EventSelection {
            rejected: all.total_filtered(Unit::Events),
            prescaled: all.total_noted(Noted::Prescaled, Unit::Events),
            undecided_kept: all.total_noted(Noted::Undecided, Unit::Events),
            undecided_lost: all.total_lost(LossReason::Undecided, Unit::Events),
        })
    }

    /// Coincidences on file; 0 of a run without.
    pub(crate) fn coincidences_recorded(&self, snapshot: &LedgerSnapshot) -> u64 {
        let slot = self.coincidences.and_then(|own| snapshot.slot_at(StageRole::Recording, own));
        slot.map_or(0, |slot| slot.counters.total_output(Unit::Events))
    }

    /// Everyone's numbers by what people speak of: each `[[source]]`, the events, each unit.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &[SourceId])> {
        let sources = self.entries.iter().map(|entry| (entry.name.as_str(), entry.all.as_slice()));
        let events = self.events.iter().map(|events| ("events", std::slice::from_ref(events)));
        let coincidences = self.coincidences.iter().map(|slot| (COINCIDENCES, std::slice::from_ref(slot)));
        let units = self.units.iter().map(|(name, unit)| (name.as_str(), std::slice::from_ref(unit)));
        sources.chain(events).chain(coincidences).chain(units)
    }

    /// Gives everyone a number.
    ///
    /// # Errors
    /// When settings do not fit together, or there are more than numbers.
    pub(crate) fn of(configuration: &Configuration) -> Result<SourceTable, ConfigError> {
        let links = configuration.sources.iter().map(|source| link_plan(configuration, source));
        let links: Vec<Option<LinkPlan>> = links.collect::<Result<_, _>>()?;
        let shapes = configuration.sources.iter().zip(&links);
        let shapes: Vec<Option<Shape>> =
            shapes.map(|(source, plan)| plan.map(|plan| shape(source, plan))).collect();
        let hits = shapes.iter().filter(|shape| shape.is_none()).count();
        let count = |of: fn(&Shape) -> usize| shapes.iter().flatten().map(of).sum::<usize>();
        let boards = count(|shape| shape.links * usize::from(shape.boards));
        let shared = count(|shape| if shape.boards > 1 { shape.links } else { 0 });
        let sliced = if boards == 0 && configuration.slices.is_some() { hits } else { 0 };
        let builds = boards + sliced > 0;
        let coincides = hits > 0 && configuration.process.coincidence.is_some();
        let without_units = hits + sliced + boards + shared + usize::from(builds) + usize::from(coincides);
        let all = without_units + configuration.units.len();
        if all > usize::from(u16::MAX) {
            let report = format!("{all} sources, boards and links are more than the 65535 that have numbers");
            return Err(configuration.invalid(report));
        }
        let mut source_table = SourceTable {
            names: vec![String::new(); all],
            boards: hits as u16..(hits + boards + sliced) as u16,
            events: builds.then(|| SourceId((hits + sliced + boards + shared) as u16)),
            coincidences: coincides.then(|| SourceId((without_units - 1) as u16)),
            links,
            kept: kept_by(&configuration.record, sliced > 0),
            ..SourceTable::default()
        };
        if let Some(coincidences) = source_table.coincidences {
            source_table.names[coincidences.index()] = COINCIDENCES.to_owned();
        }
        if let Some(events) = source_table.events {
            source_table.names[events.index()] = "events".to_owned();
        }
        for (index, unit) in configuration.units.iter().enumerate() {
            let id = SourceId((all - configuration.units.len() + index) as u16);
            source_table.names[id.index()].clone_from(&unit.name);
            source_table.units.push((unit.name.clone(), id));
        }
        let sliced = sliced > 0;
        let mut next = Next { hit: 0, board: hits as u16, shared: (hits + boards) as u16 };
        for (source, shape) in configuration.sources.iter().zip(shapes) {
            source_table.add(source, shape, sliced, &mut next);
        }
        Ok(source_table)
    }

    fn add(&mut self, source: &SourceSettings, shape: Option<Shape>, sliced: bool, next: &mut Next) {
        let name = source.head.name.as_str();
        let keys = source.keys_for_advice();
        let mut entry = Entry { name: name.to_owned(), links: Vec::new(), all: Vec::new(), keys };
        let Some(Shape { links, boards, offsets }) = shape else {
            entry.all.push(SourceId(take(&mut next.hit, 1).start));
            self.names[entry.all[0].index()] = name.to_owned();
            if sliced {
                let slices = SourceId(take(&mut next.board, 1).start);
                self.names[slices.index()] = format!("{name}/slices");
                entry.all.push(slices);
            }
            return self.entries.push(entry);
        };
        for link in 0..links {
            let own = take(&mut next.board, boards);
            let place = match boards {
                1 => LinkPlace { link: SourceId(own.start), boards: own },
                _ => LinkPlace { link: SourceId(take(&mut next.shared, 1).start), boards: own },
            };
            let link_name = if links > 1 { format!("{name}-{}", link + 1) } else { name.to_owned() };
            for (index, source) in place.boards.clone().enumerate() {
                let board = offsets.get(index).copied().unwrap_or(index as u16);
                self.names[usize::from(source)] =
                    if boards > 1 { format!("{link_name}/{board}") } else { link_name.clone() };
                entry.all.push(SourceId(source));
            }
            if boards > 1 {
                self.names[place.link.index()] = link_name;
                entry.all.push(place.link);
            }
            entry.links.push(place);
        }
        self.entries.push(entry);
    }
}

/// What a run keeps with these settings.
fn kept_by(settings: &Settings, are_sliced: bool) -> DataKept {
    match settings.tables.is_empty() {
        true => DataKept::default(),
        false => data_kept(|table| settings.keeps(table), are_sliced),
    }
}

/// The links of a triggered source, and the boards on each.
struct Shape {
    links: usize,
    boards: u16,
    /// The offsets of the boards on the wire, where some are left out.
    offsets: Vec<u16>,
}

fn shape(source: &SourceSettings, plan: LinkPlan) -> Shape {
    let offsets = match &source.format {
        FormatSettings::Triggered(boards) => boards.offsets(),
        FormatSettings::Hits(_) => Vec::new(),
    };
    Shape { links: plan.links, boards: plan.boards_per_link, offsets }
}

/// The links of a triggered source; `None` of a source of hits.
fn link_plan(
    configuration: &Configuration,
    source: &SourceSettings,
) -> Result<Option<LinkPlan>, ConfigError> {
    source.link_plan().map_err(|message| configuration.invalid_source(source, message))
}

struct Next {
    hit: u16,
    board: u16,
    shared: u16,
}

fn take(next: &mut u16, count: u16) -> Range<u16> {
    let first = *next;
    *next += count;
    first..*next
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn source_table(text: &str) -> SourceTable {
        let configuration = Configuration::parse(Path::new("run.toml"), text.to_owned()).expect("valid");
        SourceTable::of(&configuration).expect("few enough")
    }

    #[test]
    fn hits_come_first_and_boards_are_one_range() {
        let source_table = source_table(
            "[[source]]\nname = \"cdc\"\nformat = \"sitcp\"\nurl = \"tcp://127.0.0.{1..3}:24\"\n\
             [[source]]\nname = \"ge\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:0\"\n\
             [[source]]\nname = \"camera\"\nformat = \"fragment\"\nboards = 2\nurl = \"udp://127.0.0.1:0\"\n",
        );
        let names = ["ge", "cdc-1", "cdc-2", "cdc-3", "camera/0", "camera/1", "camera", "events"];
        assert_eq!(source_table.names, names);
        assert_eq!(source_table.boards, 1..6);
        assert_eq!(source_table.events, Some(SourceId(7)));
        assert_eq!(source_table.entries[0].links[2], LinkPlace { link: SourceId(3), boards: 3..4 });
        assert_eq!(source_table.entries[2].links, [LinkPlace { link: SourceId(6), boards: 4..6 }]);
        assert_eq!(source_table.entries[1].all, [SourceId(0)]);
    }

    #[test]
    fn built_events_and_coincidences_are_two_numbers() {
        let source_table = source_table(
            "[[source]]\nname = \"ge\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:0\"\n\
             [slices]\nslice_ps = 1_000_000_000\n[coincidence]\nwindow_ps = 100_000\n",
        );
        let ledger = thalweg_data::Ledger::create(None, &source_table.names).expect("memory");
        for (slot, count) in [(source_table.events, 300), (source_table.coincidences, 7)] {
            let mut counters = thalweg_data::Counters::default();
            counters.output(Unit::Events, count);
            let slot = slot.expect("the run has both");
            ledger.open(thalweg_data::Stage::Record, slot, &[Unit::Events]).publish(&counters);
        }
        let snapshot = ledger.snapshot();
        assert_eq!(
            (source_table.events_recorded(&snapshot), source_table.coincidences_recorded(&snapshot)),
            (300, 7)
        );
    }

    #[test]
    fn a_replay_of_a_killed_run_reports_no_number_of_losses() {
        let mut source_table = SourceTable::default();
        let ledger = thalweg_data::Ledger::create(None, &["ge".to_owned()]).expect("memory");
        let mut counters = Counters::default();
        counters.output(Unit::Hits, 300);
        ledger.open(thalweg_data::Stage::Decode, SourceId(0), &[Unit::Hits]).publish(&counters);
        assert_eq!(source_table.loss_report(&ledger.snapshot()).text(), "no hits lost");
        source_table.replays_killed_run = true;
        assert_eq!(source_table.loss_report(&ledger.snapshot()).text(), "hits lost: unknown");
    }

    #[test]
    fn boards_that_are_left_out_leave_the_names_of_the_others() {
        let text = "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nboards = 4\nfirst_board = 10\n\
                    without = [11]\nurl = \"udp://127.0.0.1:0\"\n";
        let source_table = source_table(text);
        assert_eq!(source_table.names, ["camera/0", "camera/2", "camera/3", "camera", "events"]);
        assert_eq!(source_table.boards, 0..3);
    }

    #[test]
    fn a_run_without_triggered_boards_has_no_events() {
        let text = "[[source]]\nname = \"ge\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:0\"\n";
        assert_eq!(source_table(text).events, None);
        let cut = source_table(&format!("{text}[slices]\n"));
        assert_eq!((cut.boards, cut.events), (1..2, Some(SourceId(2))), "hits that are cut are built");
        assert_eq!(cut.names, ["ge", "ge/slices", "events"]);
    }
}
