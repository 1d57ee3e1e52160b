//! The units of a run, checked: every triggered source in one readout unit, one manager, at least one builder.

use thalweg_build::Incomplete;
use thalweg_build::unit::{Address, Settings as UnitRules, UnitLayout};
use thalweg_data::UnitId;
use thalweg_transport::peer::Endpoint;

use super::capacity::UNIT_BLOCK_BYTES;
use super::unit_key::has_key;
use crate::config::{Configuration, UnitKind, UnitSettings};
use crate::source_table::SourceTable;

/// Memory of a unit that receives words and no data; more where more than eight talk to it.
const WORDS_BYTES: u64 = 4 << 20;

/// A readout unit and its sources.
#[derive(Clone, Debug)]
pub(crate) struct Readout {
    pub(crate) settings: UnitSettings,
    /// Places of its sources in the configuration.
    pub(crate) sources: Vec<usize>,
}

/// All units of a run.
#[derive(Clone, Debug)]
pub(crate) struct UnitPlan {
    pub(crate) readouts: Vec<Readout>,
    pub(crate) builders: Vec<UnitSettings>,
    pub(crate) manager: UnitSettings,
    pub(crate) layout: UnitLayout,
}

/// Units that do not make a system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[[unit]]: {0}")]
pub struct UnitPlanError(String);

impl UnitPlanError {
    pub(super) fn new(message: String) -> UnitPlanError {
        UnitPlanError(message)
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T, UnitPlanError> {
    Err(UnitPlanError(message.into()))
}

impl UnitPlan {
    /// Returns true if this process has the readout unit of this number.
    fn is_here(&self, readout: Option<UnitId>, configuration: &Configuration) -> bool {
        let readout = readout.and_then(|number| self.readouts.get(number.index()));
        readout.is_some_and(|readout| configuration.hosts(&readout.settings))
    }

    /// The plan; `None` of a configuration without units.
    ///
    /// # Errors
    /// What is missing, doubled or does not fit together.
    pub(crate) fn of(
        configuration: &Configuration,
        source_table: &SourceTable,
    ) -> Result<Option<UnitPlan>, UnitPlanError> {
        let units = &configuration.units;
        check_nodes(configuration)?;
        if units.is_empty() {
            return Ok(None);
        }
        check_reach(configuration)?;
        for (index, unit) in units.iter().enumerate() {
            if units[..index].iter().any(|other| other.name == unit.name) {
                return refuse(format!("two units are called \"{}\"; names are unique", unit.name));
            }
            if unit.kind != UnitKind::Readout && !unit.sources.is_empty() {
                return refuse(format!("`sources` of \"{}\" belong to a readout unit", unit.name));
            }
        }
        let of_kind = |kind| units.iter().filter(move |unit| unit.kind == kind).cloned();
        let mut managers = of_kind(UnitKind::Manager);
        let (Some(manager), None) = (managers.next(), managers.next()) else {
            return refuse("there is exactly one unit of kind \"manager\"");
        };
        let builders: Vec<UnitSettings> = of_kind(UnitKind::Builder).collect();
        if builders.is_empty() {
            return refuse("there is at least one unit of kind \"builder\"");
        }
        let mut readouts = Vec::new();
        for unit in of_kind(UnitKind::Readout) {
            let sources = sources_of(&unit, configuration, source_table)?;
            readouts.push(Readout { settings: unit, sources });
        }
        readouts.sort_by_key(|readout| readout.sources[0]);
        check_cover(&readouts, source_table)?;
        check_trigger(&readouts, configuration)?;
        check_incomplete(&readouts, configuration)?;
        let range = |readout: &Readout| {
            let links = |index: &usize| source_table.entries[*index].links.clone();
            let all: Vec<_> = readout.sources.iter().flat_map(links).collect();
            let start = all.iter().map(|place| place.boards.start).min().unwrap_or(0);
            start..all.iter().map(|place| place.boards.end).max().unwrap_or(0)
        };
        let layout =
            UnitLayout { readouts: readouts.iter().map(range).collect(), builders: builders.len() as u16 };
        Ok(Some(UnitPlan { readouts, builders, manager, layout }))
    }

    /// Returns how many blocks a unit receives into: those of its memory, and for every connection what the longest message takes. So no
    /// two of them wait for each other, and none finds the pool taken by the rest.
    pub(crate) fn blocks(&self, unit: &UnitSettings, rules: &UnitRules) -> usize {
        let (readouts, builders) = (self.readouts.len(), self.builders.len());
        // A connection writes one block and may have the tail of another; a part lies in as many as it has bytes for, and one more.
        let of_part = rules.part_bytes.div_ceil(UNIT_BLOCK_BYTES as u64) as usize;
        let (peers, of_message, memory_bytes) = match unit.kind {
            UnitKind::Manager => (readouts + builders + 1, 0, WORDS_BYTES),
            UnitKind::Readout => (builders + 1, 0, WORDS_BYTES),
            UnitKind::Builder => (readouts + 1, of_part, unit.memory_bytes),
        };
        let of_memory = memory_bytes as usize / UNIT_BLOCK_BYTES;
        of_memory.max(peers * (of_message + 2))
    }

    /// The unit of a name, as the protocol calls it.
    pub(crate) fn address(&self, name: &str) -> Option<Address> {
        if name == TRIGGER {
            return Some(Address::Trigger);
        }
        if name == self.manager.name {
            return Some(Address::Manager);
        }
        let readout = self.readouts.iter().position(|unit| unit.settings.name == name);
        let builder = self.builders.iter().position(|unit| unit.name == name);
        (readout.map(|number| Address::Readout(UnitId::from_index(number))))
            .or(builder.map(|number| Address::Builder(UnitId::from_index(number))))
    }
}

/// Returns the number of the readout unit whose node holds back the trigger. Emulated boards have their trigger with them; for real ones the
/// first node reports BUSY, so that no two contradict each other. `None` where there is no trigger to report to.
pub(crate) fn gate(readouts: &[Readout], configuration: &Configuration) -> Option<UnitId> {
    let busy = &configuration.busy;
    let reports = busy.udp.is_some() || busy.http.is_some() || busy.register.is_some();
    let emulated = readouts.iter().position(|readout| is_emulated(readout, configuration));
    emulated.map(UnitId::from_index).or(reports.then_some(UnitId(0)))
}

/// Returns true if this process drives BUSY: it is alone, or the node that [`gate`] names.
pub(crate) fn drives_busy(configuration: &Configuration, plan: Option<&UnitPlan>) -> bool {
    plan.is_none_or(|plan| plan.is_here(gate(&plan.readouts, configuration), configuration))
}

/// Returns true if this process drives the devices of slow control: it drives BUSY or, where no process does, has the first readout unit.
pub(crate) fn drives_devices(configuration: &Configuration, plan: Option<&UnitPlan>) -> bool {
    plan.is_none_or(|plan| {
        let number = gate(&plan.readouts, configuration).unwrap_or(UnitId(0));
        plan.is_here(Some(number), configuration)
    })
}

/// Returns true if any of these has emulated boards.
pub(crate) fn has_emulated(readouts: &[Readout], configuration: &Configuration) -> bool {
    readouts.iter().any(|readout| is_emulated(readout, configuration))
}

fn is_emulated(readout: &Readout, configuration: &Configuration) -> bool {
    let is_emulated = |index: &usize| configuration.sources[*index].is_emulated();
    readout.sources.iter().any(is_emulated)
}

/// Emulated boards are triggered together, which two processes cannot do. One process that hosts all nodes can.
fn check_trigger(readouts: &[Readout], configuration: &Configuration) -> Result<(), UnitPlanError> {
    if configuration.node.is_none() {
        return Ok(());
    }
    let mut nodes = readouts.iter().filter(|readout| is_emulated(readout, configuration));
    let Some(first) = nodes.next() else { return Ok(()) };
    match nodes.find(|other| other.settings.node != first.settings.node) {
        None => Ok(()),
        Some(other) => refuse(format!(
            "\"{}\" and \"{}\" have emulated boards on two nodes, which would be triggered by two programs whose numbers part; \
             give both units the same `node`",
            first.settings.name, other.settings.name
        )),
    }
}

/// What becomes of events that miss boards is decided by those who see all boards.
fn check_incomplete(readouts: &[Readout], configuration: &Configuration) -> Result<(), UnitPlanError> {
    let word = match configuration.build.incomplete {
        Incomplete::Partial => return Ok(()),
        Incomplete::Drop => "drop",
        Incomplete::Wait => "wait",
        Incomplete::Stop => "stop",
    };
    if readouts.len() < 2 {
        return Ok(());
    }
    refuse(format!(
        "[build] incomplete = \"{word}\" is about whole events, and each of {} readout units has the boards of its own sources only: \
         leave it out, and write [filter] keep = \"complete\" to record whole events only; or give all sources to one readout unit",
        readouts.len()
    ))
}

/// Every address can be one, and those that other hosts reach belong to units with a key.
fn check_reach(configuration: &Configuration) -> Result<(), UnitPlanError> {
    for unit in &configuration.units {
        let Some(url) = &unit.listen else { continue };
        let endpoint =
            Endpoint::parse(url).map_err(|error| UnitPlanError(format!("\"{}\": {error}", unit.name)))?;
        if endpoint.is_open_to_other_hosts() && !has_key(&configuration.run) {
            return refuse(format!(
                "\"{}\" listens at {url}, which other hosts reach, and anyone there could take part in the run: write [run] key_file = \
                 \"units.key\" with the same key at all nodes (or key_env); without one, units listen on loopback only",
                unit.name
            ));
        }
    }
    Ok(())
}

/// A node is one that a unit names, and its units can be reached by those of others.
fn check_nodes(configuration: &Configuration) -> Result<(), UnitPlanError> {
    let Some(node) = &configuration.node else { return Ok(()) };
    let units = &configuration.units;
    let mut nodes: Vec<&str> = units.iter().filter_map(|unit| unit.node.as_deref()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    if !nodes.contains(&node.as_str()) {
        let known = if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") };
        return refuse(format!(
            "no unit has `node = \"{node}\"`, as `--node {node}` asks for; nodes of this file: {known}"
        ));
    }
    if let Some(unit) = units.iter().find(|unit| unit.node.is_none()) {
        return refuse(format!(
            "\"{}\" has no `node`, so that no `--node` hosts it; write which of {} does",
            unit.name,
            nodes.join(", ")
        ));
    }
    let is_alone = nodes.len() == 1;
    let hidden = |unit: &&UnitSettings| unit.kind != UnitKind::Readout && unit.listen.is_none();
    match units.iter().find(hidden).filter(|_| !is_alone) {
        Some(unit) => refuse(format!(
            "\"{}\" is reached by units of other nodes: give it `listen = \"tcp://HOST:PORT\"`",
            unit.name
        )),
        None => Ok(()),
    }
}

/// The name of the trigger side.
pub(crate) const TRIGGER: &str = "trigger";

fn sources_of(
    unit: &UnitSettings,
    configuration: &Configuration,
    source_table: &SourceTable,
) -> Result<Vec<usize>, UnitPlanError> {
    let mut places = Vec::new();
    for name in &unit.sources {
        let place = configuration.sources.iter().position(|source| source.head.name == *name);
        match place.filter(|place| !source_table.entries[*place].links.is_empty()) {
            Some(place) => places.push(place),
            None => {
                return refuse(format!("\"{}\" names \"{name}\", which is no triggered source", unit.name));
            }
        }
    }
    places.sort_unstable();
    if places.is_empty() {
        return refuse(format!("the readout unit \"{}\" has no `sources`", unit.name));
    }
    Ok(places)
}

/// Every triggered source belongs to one readout unit, and those of a unit are neighbours.
fn check_cover(readouts: &[Readout], source_table: &SourceTable) -> Result<(), UnitPlanError> {
    let triggered = source_table.entries.iter().enumerate().filter(|(_, entry)| !entry.links.is_empty());
    let wanted: Vec<usize> = triggered.map(|(index, _)| index).collect();
    let given: Vec<usize> = readouts.iter().flat_map(|readout| readout.sources.iter().copied()).collect();
    if given == wanted {
        return Ok(());
    }
    let name = |index: usize| &source_table.entries[index].name;
    if let Some(missing) = wanted.iter().find(|index| !given.contains(index)) {
        return refuse(format!("the source \"{}\" belongs to no readout unit", name(*missing)));
    }
    if let Some(doubled) = given.iter().find(|index| given.iter().filter(|other| other == index).count() > 1)
    {
        return refuse(format!("the source \"{}\" belongs to two readout units", name(*doubled)));
    }
    refuse(
        "the sources of a readout unit stand next to each other in the file; reorder the [[source]] tables",
    )
}
