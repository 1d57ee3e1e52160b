//! What a configuration will take: threads, rings, blocks, bytes; resolved before anything is opened.
//!
//! The whole memory budget is a sum whose every addend names its owner. After the start nothing grows beyond it.

use std::fmt;

use serde::Serialize;
use thalweg_data::Hit;

use crate::config::{ConfigError, Configuration, SourceSettings};
use crate::pipeline::{BATCH_BYTES, BATCHES};
use crate::roster::Roster;
use crate::units::UnitPlan;

/// Hits that a batch is made for: a full batch of the smallest hits, 8 bytes each.
pub(crate) const HITS_PER_BATCH: usize = BATCH_BYTES as usize / 8;

/// Blocks that a source uses beside those that wait for the raw recording: one that is filled, others being decoded.
const BLOCKS_IN_USE: usize = 4;

/// One addend of the budget.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// Whose memory it is.
    pub owner: String,
    /// How much.
    pub bytes: u64,
    /// How it comes about.
    pub reason: String,
}

/// The plan of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// What each thread does.
    pub threads: Vec<String>,
    /// The memory, item by item.
    pub budget: Vec<Item>,
}

impl Plan {
    /// Resolves a configuration.
    ///
    /// # Errors
    /// When values do not fit together or this machine.
    pub fn of(configuration: &Configuration) -> Result<Plan, ConfigError> {
        let records_raw = configuration.record.keeps(thalweg_record::Table::Raw);
        let (mut threads, mut budget) = (Vec::new(), Vec::new());
        for source in &configuration.sources {
            check(configuration, source)?;
        }
        let has_hits = configuration.hit_sources().next().is_some();
        for (source, _) in configuration.hit_sources() {
            plan_hits(source, &mut threads, &mut budget);
        }
        plan_events(configuration, &mut threads, &mut budget)?;
        if has_hits {
            threads.push("collect: time order → record".to_owned());
            budget.push(Item {
                owner: "time order".to_owned(),
                bytes: configuration.order.memory_bytes,
                reason: "[order] memory_bytes".to_owned(),
            });
            budget.extend(recording(configuration.record.budget()));
        }
        if records_raw {
            threads.push("raw: write received bytes".to_owned());
        }
        Ok(Plan { threads, budget })
    }

    /// The sum of the budget.
    pub fn total_bytes(&self) -> u64 {
        self.budget.iter().map(|item| item.bytes).sum()
    }
}

fn recording(items: Vec<(&'static str, u64)>) -> impl Iterator<Item = Item> {
    let item =
        |(what, bytes)| Item { owner: format!("recording: {what}"), bytes, reason: "[record]".to_owned() };
    items.into_iter().map(item)
}

fn plan_hits(source: &SourceSettings, threads: &mut Vec<String>, budget: &mut Vec<Item>) {
    let (name, workers) = (&source.head.name, source.head.workers);
    let decodes = if workers == 0 { ", decode" } else { "" };
    threads.push(format!("read {name}: {} → receive, find units{decodes}", source.endpoint.url));
    threads.extend((0..workers).map(|worker| format!("decode {name} {worker}")));
    let (blocks, block_bytes) = source.endpoint.pool_shape();
    budget.push(Item {
        owner: format!("blocks of {name}"),
        bytes: (blocks * block_bytes) as u64,
        reason: format!("{blocks} blocks of {block_bytes} B"),
    });
    let circuits = workers.max(1) * BATCHES;
    budget.push(Item {
        owner: format!("hit batches of {name}"),
        bytes: (circuits * HITS_PER_BATCH * size_of::<Hit>()) as u64,
        reason: format!("{circuits} batches of {HITS_PER_BATCH} hits"),
    });
}

/// The units that this process hosts.
fn plan_units(
    configuration: &Configuration,
    units: &UnitPlan,
    threads: &mut Vec<String>,
    budget: &mut Vec<Item>,
) {
    for (readout, boards) in units.readouts.iter().zip(&units.topology.readouts) {
        let unit = &readout.settings;
        if configuration.hosts(unit) {
            let sources = unit.sources.join(", ");
            threads.push(format!("read {}: {sources} → receive, find fragments, build", unit.name));
            threads.push(format!("{}: keep events of {} boards, send them", unit.name, boards.len()));
        }
    }
    for unit in units.builders.iter().filter(|unit| configuration.hosts(unit)) {
        threads.push(format!("{}: {} → put together, record", unit.name, unit.url()));
        budget.push(Item {
            owner: format!("blocks of {}", unit.name),
            bytes: unit.memory_bytes,
            reason: "[[unit]] memory_bytes".to_owned(),
        });
    }
    if configuration.hosts(&units.manager) {
        threads.push(format!("{}: {} → assign events", units.manager.name, units.manager.url()));
    }
}

/// The triggered sources: one thread reads and builds them all, one records.
fn plan_events(
    configuration: &Configuration,
    threads: &mut Vec<String>,
    budget: &mut Vec<Item>,
) -> Result<(), ConfigError> {
    let roster = Roster::of(configuration)?;
    if roster.events.is_none() {
        return Ok(());
    }
    let (mut links, mut emulated) = (0, false);
    for source in &configuration.sources {
        let Ok(Some(plan)) = source.link_plan() else { continue };
        links += plan.links;
        emulated |= source.endpoint.url.scheme() == "emulate";
        budget.push(Item {
            owner: format!("blocks of {}", source.head.name),
            bytes: plan.memory_bytes(),
            reason: format!("{} link(s) × {} blocks of {} B", plan.links, plan.blocks, plan.block_bytes),
        });
    }
    let boards = roster.boards.len();
    let units = UnitPlan::of(configuration, &roster).map_err(|error| ConfigError::NotAllowed {
        file: configuration.file.clone(),
        report: error.to_string(),
    })?;
    match units {
        None => {
            threads.push(format!(
                "build events: {links} link(s) → receive, find fragments, build {boards} boards"
            ));
            threads.push("record events".to_owned());
        }
        Some(units) => plan_units(configuration, &units, threads, budget),
    }
    if emulated {
        crate::open_links::trigger(configuration)?.check().map_err(|error| ConfigError::NotAllowed {
            file: configuration.file.clone(),
            report: format!("[trigger]: {error}"),
        })?;
        threads.push("triggered boards: emulated, triggered together".to_owned());
    }
    configuration.build.check().map_err(|error| ConfigError::NotAllowed {
        file: configuration.file.clone(),
        report: format!("[build]: {error}"),
    })?;
    budget.push(Item {
        owner: "building".to_owned(),
        // Payload that waits lies in the sources' blocks.
        bytes: thalweg_build::Budget::of(&configuration.build, boards).own(),
        reason: format!("[build] depth = {}, {boards} boards", configuration.build.depth),
    });
    budget.extend(recording(configuration.record.event_budget()));
    Ok(())
}

fn check(configuration: &Configuration, source: &SourceSettings) -> Result<(), ConfigError> {
    let refuse = |message: String| {
        Err(ConfigError::Source {
            file: configuration.file.clone(),
            source_name: source.head.name.clone(),
            message,
        })
    };
    if source.head.workers > 64 {
        return refuse(format!(
            "workers = {} is more than the 64 allowed; more than one per core brings nothing",
            source.head.workers
        ));
    }
    let head = &source.head;
    let of_hits = [
        ("workers", head.workers > 0),
        ("disorder_ps", head.disorder_ps.is_some()),
        ("faults", head.faults.is_some()),
        ("loss", head.loss > 0.0),
    ];
    let is_triggered = matches!(source.format, crate::format::FormatSettings::Triggered(_));
    if is_triggered && let Some((key, _)) = of_hits.iter().find(|(_, set)| *set) {
        return refuse(format!("`{key}` is for sources of hits; take it out of this triggered one"));
    }
    let has_boards = source.emulate.is_some();
    let scheme = source.endpoint.url.scheme();
    // Of a triggered source with a network, `thalweg emulate FILE` reads it.
    if has_boards && scheme != "emulate" && !(is_triggered && matches!(scheme, "tcp" | "udp")) {
        return refuse(format!(
            "[source.emulate] belongs to an emulate:// URL, and this one is {}",
            source.endpoint.url
        ));
    }
    let records_events = configuration.record.keeps(thalweg_record::Table::Fragments);
    let (blocks, block_bytes, held_by_events) = match source.link_plan() {
        Ok(Some(plan)) => {
            let boards = source_boards(configuration);
            let held = configuration.record.event_blocks_held(boards, plan.block_bytes);
            (plan.blocks, plan.block_bytes, if records_events { held } else { 0 })
        }
        Ok(None) => {
            let (blocks, block_bytes) = source.endpoint.pool_shape();
            (blocks, block_bytes, 0)
        }
        Err(message) => return refuse(message),
    };
    let held_raw = match configuration.record.keeps(thalweg_record::Table::Raw) {
        true => configuration.record.raw_blocks_held(block_bytes),
        false => 0,
    };
    let held = held_raw + held_by_events;
    // Of a triggered source, one block is being filled, and others wait for fragments of other boards.
    if blocks < held + BLOCKS_IN_USE {
        let links = source.link_plan().ok().flatten().map_or(1, |plan| plan.links);
        let needed = (held + BLOCKS_IN_USE) * block_bytes * links;
        return refuse(format!(
            "memory_bytes gives {blocks} blocks of {block_bytes} B, and {held} wait for the recording; \
             write memory_bytes = {needed} or more, or smaller block_bytes"
        ));
    }
    Ok(())
}

/// Boards of all triggered sources together.
fn source_boards(configuration: &Configuration) -> usize {
    let plans = configuration.sources.iter().filter_map(|source| source.link_plan().ok().flatten());
    plans.map(|plan| plan.boards()).sum()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "threads")?;
        for thread in &self.threads {
            writeln!(f, "  {thread}")?;
        }
        writeln!(f, "memory")?;
        for item in &self.budget {
            writeln!(f, "  {:>10.1} MiB  {:<24} {}", mebibytes(item.bytes), item.owner, item.reason)?;
        }
        write!(f, "  {:>10.1} MiB  in all", mebibytes(self.total_bytes()))
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
