//! The plan of a run: threads and their cores, rings, memory, files; resolved before anything is opened.
//!
//! ```text
//!  Configuration ─► check each source ─► threads, rings ─► memory, item by item ─► Plan ─► run · --explain
//! ```
//! The whole memory budget is a sum whose every addend names its owner. After the start nothing grows beyond it.

pub(crate) mod capacity;
mod check;
mod drawing;
mod leading;
mod limit;
mod memory;
mod page;
mod path;
mod placement;
pub(crate) mod thread_names;
mod threads;
mod topology;
mod unit_key;
mod units;

use serde::Serialize;
use thalweg_data::Hit;
use thalweg_data::topology::Topology;
use thalweg_readout::links::LinkPlan;
use thalweg_record::{FileLimits, Table};
use thalweg_transport::placement::Machine;

use crate::config::{ConfigError, Configuration, SourceSettings};
use crate::processing::Processing;
use crate::source_table::SourceTable;

pub(crate) use leading::{Followed, answers_own_trigger, followed, number_offset};
pub(crate) use memory::SLICES;
pub(crate) use page::spelled;
pub(crate) use placement::Placement;
pub use thalweg_data::topology::{BlockPool, Ring, Thread};
pub(crate) use topology::of_recording;
pub(crate) use unit_key::shared_key;
pub use units::UnitPlanError;
pub(crate) use units::{Readout, TRIGGER, UnitPlan, drives_busy, drives_devices, gate, has_emulated};

/// Bytes of the memory of such a batch.
const HIT_BATCH_BYTES: usize = capacity::HITS_PER_BATCH * size_of::<Hit>();

/// One addend of the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The purpose of the memory.
    pub purpose: &'static str,
    /// The owner of the memory.
    pub owner: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The reason for the size.
    pub reason: String,
}

/// The properties of the machine that matter to a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Cores {
    /// Cores that there are.
    pub all: Vec<usize>,
    /// Those that this process may use.
    pub allowed: Vec<usize>,
    /// NUMA nodes with their cores.
    pub nodes: Vec<(u32, Vec<usize>)>,
}

/// The plan of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The run's title.
    pub title: String,
    /// The topology: stages and counters, threads, rings, and the pools, which are part of the budget.
    #[serde(flatten)]
    pub topology: Topology,
    /// The memory, item by item.
    pub budget: Vec<Item>,
    /// The sum of the budget.
    pub total_bytes: u64,
    /// The directory that the run's own will be in.
    pub directory: String,
    /// The files of the run, in its directory.
    pub files: Vec<String>,
    /// What is valid, and hardly meant.
    pub warnings: Vec<String>,
    /// The cores of this machine.
    pub cores: Cores,
    /// When tables go on in new files, and where these lie; without anything where this process records no such table.
    #[serde(skip)]
    pub(crate) file_limits: FileLimits,
    #[serde(skip)]
    pub(crate) placement: Placement,
    #[serde(skip)]
    pub(crate) source_table: SourceTable,
}

/// A configuration with everything that is derived from it, once.
struct Resolved<'c> {
    configuration: &'c Configuration,
    source_table: SourceTable,
    units: Option<UnitPlan>,
    /// It is the replay of a recording: no board is there, and everything is built here.
    is_replay: bool,
}

impl Plan {
    /// Resolves a configuration.
    ///
    /// # Errors
    /// When values do not fit together or this machine.
    pub fn of(configuration: &Configuration) -> Result<Plan, ConfigError> {
        let not_allowed = |message: String| configuration.invalid(message);
        let machine = this_machine(configuration)?;
        let resolved = Resolved::of(configuration)?;
        check::check(&resolved, &machine)?;
        let mut threads = threads::threads(&resolved);
        let placement = Placement::of(&configuration.threads, &threads, &machine)
            .map_err(|message| not_allowed(format!("[threads]: {message}")))?;
        for thread in &mut threads {
            let place = placement.place_of(&thread.name);
            thread.cores.clone_from(&place.cores);
            thread.priority = place.priority;
        }
        let pools = memory::pools(&resolved, &placement, &machine);
        let processing = Processing::of(configuration).map_err(not_allowed)?;
        let budget = memory::budget(&resolved, &pools, processing.as_ref());
        limit::check(&budget, limit::machine_memory()).map_err(not_allowed)?;
        let topology = topology::of(&resolved, processing.as_ref(), threads, pools);
        let mut warnings = processing.map_or_else(Vec::new, |processing| processing.stages.warnings);
        let file_limits = resolved.file_limits();
        // A disk may still be mounted before the run begins.
        warnings.extend(file_limits.check_directories().err().map(|missing| missing.to_string()));
        Ok(Plan {
            title: configuration.run.title.clone(),
            topology,
            total_bytes: limit::total(&budget),
            budget,
            directory: configuration.record.directory.display().to_string(),
            files: resolved.files(),
            warnings,
            file_limits,
            cores: Cores {
                nodes: machine.nodes.into_iter().map(|node| (node.number, node.cores)).collect(),
                all: machine.cores,
                allowed: machine.allowed,
            },
            placement,
            source_table: resolved.source_table,
        })
    }
}

fn this_machine(configuration: &Configuration) -> Result<Machine, ConfigError> {
    Machine::this().map_err(|cause| configuration.invalid(format!("[threads]: {cause}")))
}

impl<'c> Resolved<'c> {
    fn of(configuration: &'c Configuration) -> Result<Resolved<'c>, ConfigError> {
        let source_table = SourceTable::of(configuration)?;
        let units =
            UnitPlan::of(configuration, &source_table).map_err(|error| configuration.invalid(error))?;
        if units.is_some() {
            // Read anew at the start: it is kept nowhere.
            shared_key(configuration).map_err(|error| configuration.invalid(error))?;
        }
        Ok(Resolved { configuration, source_table, units, is_replay: false })
    }

    /// The same for the replay of what was recorded.
    fn of_recording(configuration: &'c Configuration) -> Result<Resolved<'c>, ConfigError> {
        let source_table = SourceTable::of(configuration)?;
        Ok(Resolved { configuration, source_table, units: None, is_replay: true })
    }

    fn keeps(&self, table: Table) -> bool {
        self.configuration.record.keeps(table)
    }

    fn has_hits(&self) -> bool {
        self.configuration.hit_sources().next().is_some()
    }

    /// Returns true if there is any stage after time order other than recording.
    fn processes_hits(&self) -> bool {
        Processing::is_in(self.configuration)
    }

    /// Returns true if the trigger side, which holds the trigger back, is in this process.
    fn has_gate(&self) -> bool {
        self.units.is_some() && self.drives_busy()
    }

    /// Returns true if this process drives BUSY.
    fn drives_busy(&self) -> bool {
        drives_busy(self.configuration, self.units.as_ref())
    }

    /// Returns true if one thread builds all events and one records them.
    fn builds_here(&self) -> bool {
        self.units.is_none() && self.triggered().next().is_some()
    }

    /// Returns true if hits are cut into time slices.
    fn slices_hits(&self) -> bool {
        self.configuration.slices.is_some() && self.has_hits()
    }

    /// Returns true if one thread records all events.
    fn records_events(&self) -> bool {
        self.builds_here() || self.slices_hits()
    }

    /// The event filter, if this process records events.
    fn filter(&self) -> Option<&'c thalweg_analysis::event_filter::Settings> {
        let records = self.records_events() || self.builders().next().is_some();
        self.configuration.filter.as_ref().filter(|_| records)
    }

    /// The threads that record events, each with an event filter of its own.
    fn event_recorders(&self) -> Vec<String> {
        let here = self.records_events().then(|| thread_names::RECORD.to_owned());
        here.into_iter().chain(self.builders().map(thread_names::files)).collect()
    }

    /// Batches of events between a builder and a recorder: those that wait, and those in the filter.
    fn event_batches(&self) -> usize {
        capacity::EVENT_BATCHES + self.filter().map_or(0, |filter| capacity::FILTER_BATCHES * filter.workers)
    }

    /// The settings of the builder: with time slices, those that they need.
    fn build_settings(&self) -> thalweg_build::Settings {
        let build = &self.configuration.build;
        self.configuration.slices.as_ref().map_or_else(|| build.clone(), |slices| slices.builder(build))
    }

    /// The triggered sources that this process reads, with their links.
    fn triggered(&self) -> impl Iterator<Item = (&'c SourceSettings, LinkPlan)> {
        let read_here = |index: usize| match &self.units {
            None => true,
            Some(units) => (units.readouts.iter()).any(|readout| {
                readout.sources.contains(&index) && self.configuration.hosts(&readout.settings)
            }),
        };
        let sources = self.configuration.sources.iter().zip(&self.source_table.links).enumerate();
        sources
            .filter_map(move |(index, (source, plan))| Some((source, (*plan)?)).filter(|_| read_here(index)))
    }

    /// The thread that reads a triggered source.
    fn reader_of(&self, source: &SourceSettings) -> String {
        let reads = |sources: &[usize]| {
            sources.iter().any(|index| self.configuration.sources[*index].head.name == source.head.name)
        };
        let mut readouts = self.units.iter().flat_map(|units| &units.readouts);
        match readouts.find(|readout| reads(&readout.sources)) {
            Some(readout) => thread_names::reader(&readout.settings),
            None => thread_names::BUILD.to_owned(),
        }
    }

    /// Returns true if this process drives the devices of slow control: one of all nodes does, the one that reports BUSY to the trigger.
    fn has_devices(&self) -> bool {
        !self.is_replay && drives_devices(self.configuration, self.units.as_ref())
    }

    /// Returns true if values of slow control are recorded.
    fn records_series(&self) -> bool {
        self.has_devices() && !self.configuration.series.is_empty()
    }

    /// Returns true if emulated boards run in the same process.
    fn emulates(&self) -> bool {
        if self.is_replay {
            return false;
        }
        let hits = self.configuration.hit_sources().map(|(source, _)| source);
        let all = hits.chain(self.triggered().map(|(source, _)| source));
        all.into_iter().any(|source| source.is_emulated())
    }

    /// The units of this process that record.
    fn builders(&self) -> impl Iterator<Item = &crate::config::UnitSettings> {
        let builders = self.units.iter().flat_map(|units| &units.builders);
        builders.filter(|unit| self.configuration.hosts(unit))
    }

    /// The threads that receive.
    fn readers(&self) -> Vec<String> {
        let of_hits = self.configuration.hit_readers().into_iter().map(|(reader, _)| reader.to_owned());
        let mut readers: Vec<String> = of_hits.collect();
        readers.extend(self.triggered().map(|(source, _)| self.reader_of(source)));
        readers.dedup();
        readers
    }

    /// The threads that build events, and of how many boards.
    fn builders_of_events(&self) -> Vec<(String, usize)> {
        let Some(units) = &self.units else {
            let thread = if self.slices_hits() { thread_names::ORDER } else { thread_names::BUILD };
            let here = self.records_events().then(|| (thread.to_owned(), self.source_table.boards.len()));
            return here.into_iter().collect();
        };
        let readouts = units.readouts.iter().zip(&units.layout.readouts);
        let here = readouts.filter(|(readout, _)| self.configuration.hosts(&readout.settings));
        here.map(|(readout, boards)| (thread_names::reader(&readout.settings), boards.len())).collect()
    }

    /// Returns the number of writers of tables that have threads for compression.
    fn writers(&self) -> usize {
        let raw = self.keeps(Table::Raw) && !self.readers().is_empty();
        usize::from(self.has_hits())
            + usize::from(self.records_events())
            + usize::from(self.keeps_coincidences())
            + self.builders().count()
            + usize::from(raw)
    }

    /// Returns true if events that are made of hits are recorded.
    pub(crate) fn keeps_coincidences(&self) -> bool {
        let is_made = self.has_hits() && self.configuration.process.coincidence.is_some();
        is_made && self.keeps(Table::Coincidences)
    }

    /// When tables go on in new files, if this process records one that can.
    fn file_limits(&self) -> FileLimits {
        match self.growing_files().is_empty() {
            true => FileLimits::default(),
            false => self.configuration.record.files.clone(),
        }
    }

    /// The files of the run.
    fn files(&self) -> Vec<String> {
        let mut files = vec!["run.json".to_owned(), "ledger.bin".to_owned()];
        files.extend(self.growing_files());
        files.extend(self.records_series().then(|| Table::Series.file_name()));
        files
    }

    /// The files of the tables that can go on in new files.
    fn growing_files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let hits = [Table::Hits, Table::Extras, Table::Waveforms, Table::Statistics];
        let of_hits = hits.into_iter().filter(|table| self.has_hits() && self.keeps(*table));
        files.extend(of_hits.map(|table| table.file_name()));
        if self.keeps_coincidences() {
            files.push(Table::Coincidences.file_name());
        }
        let events = [Table::Events, Table::Fragments].into_iter().filter(|table| self.keeps(*table));
        for table in events {
            if self.records_events() {
                files.push(table.file_name());
            }
            files.extend(self.builders().map(|unit| format!("{}-{}.arrows", table.word(), unit.name)));
        }
        if self.keeps(Table::Raw) && (self.has_hits() || self.triggered().next().is_some()) {
            files.push(Table::Raw.file_name());
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The plan of a run with a directory on a disk that is not mounted.
    fn planned(sources: &str, tables: &str, node: Option<&str>) -> Plan {
        let record = format!(
            "[record]\ntables = {tables}\n[record.files]\nmost_rows = 5000\ndirectories = [\"/not-mounted/runs\"]\n"
        );
        let text = format!("{sources}{record}");
        let mut configuration = Configuration::parse(Path::new("run.toml"), text).expect("valid");
        configuration.node = node.map(str::to_owned);
        Plan::of(&configuration).expect("it can be planned")
    }

    #[test]
    fn a_missing_directory_matters_to_a_process_that_records_tables_which_go_on_there() {
        let hits = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n";
        let unit = |name: &str, kind: &str, more: &str| {
            format!("[[unit]]\nname = \"{name}\"\nkind = \"{kind}\"\n{more}\n")
        };
        let units = "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 2\n"
            .to_owned()
            + &unit("ru", "readout", "sources = [\"camera\"]\nnode = \"boards\"")
            + &unit("bu", "builder", "node = \"events\"\nlisten = \"tcp://127.0.0.1:7001\"")
            + &unit("evm", "manager", "node = \"boards\"\nlisten = \"tcp://127.0.0.1:7000\"");
        for (sources, tables, node, matters) in [
            (hits, "[\"hits\"]", None, true),
            (hits, "[\"raw\"]", None, true),
            (hits, "[]", None, false),
            (hits, "[\"events\"]", None, false),
            (&units, "[\"events\"]", Some("events"), true),
            (&units, "[\"events\"]", Some("boards"), false),
        ] {
            let plan = planned(sources, tables, node);
            let refused = plan.file_limits.check_directories().map_err(|error| error.to_string());
            assert_eq!(refused.is_err(), matters, "{tables} at {node:?}");
            assert_eq!(plan.warnings, refused.err().into_iter().collect::<Vec<_>>(), "{tables} at {node:?}");
        }
    }
}
