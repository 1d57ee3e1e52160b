//! Computes the memory that a run takes, item by item.
//!
//! ```text
//!  blocks + hit batches + time order + building + units + recording = the budget
//! ```

use thalweg_analysis::process::MOST_MEMBERS;
use thalweg_analysis::spectrum::HitWord;
use thalweg_build::Budget;
use thalweg_build::slices::HIT_BLOCK_BYTES;
use thalweg_data::{Event, Fragment, FragmentRecord, Hit, HitEvent, HugePages, SentRecord, Slice};
use thalweg_readout::FaultSettings;
use thalweg_transport::placement::Machine;

use super::capacity::{
    BATCHES, EVENTS_PER_BATCH, FILTER_BATCHES, GATE_BLOCKS, HITS_PER_BATCH, OUTPUT_HITS, RANGES_BYTES,
    SELECTED_BATCHES, UNIT_BLOCK_BYTES, replayed_blocks,
};
use super::placement::Placement;
use super::thread_names;
use super::units::TRIGGER;
use super::{BlockPool, HIT_BATCH_BYTES, Item, Resolved};
use crate::config::{SourceSettings, UnitSettings};
use crate::processing::Processing;

/// The owner of the memory for hits of time slices.
pub(crate) const SLICES: &str = "time slices";

/// The pools of all sources and units.
pub(super) fn pools(resolved: &Resolved<'_>, placement: &Placement, machine: &Machine) -> Vec<BlockPool> {
    let placed = |near: String, pool: BlockPool| {
        let mut nodes: Vec<_> =
            placement.place_of(&near).cores.iter().map(|core| machine.node_of(*core)).collect();
        nodes.dedup();
        let only = if let [node] = &machine.nodes[..] { Some(node.number) } else { None };
        let by_core = if let [node] = nodes[..] { node } else { only };
        let bytes = pool.huge_pages.occupied(pool.blocks * pool.block_bytes) * pool.pools;
        BlockPool { numa_node: pool.numa_node.or(by_core), near, bytes: bytes as u64, ..pool }
    };
    let of_source = |source: &SourceSettings, pools, (blocks, block_bytes)| BlockPool {
        owner: source.head.name.clone(),
        pools,
        blocks,
        block_bytes,
        near: String::new(),
        numa_node: source.endpoint.numa_node,
        huge_pages: source.endpoint.huge_pages,
        bytes: 0,
    };
    let mut all = Vec::new();
    for (source, _) in resolved.configuration.hit_sources() {
        // A shape that is not allowed is refused by the plan's checks.
        let Ok((blocks, block_bytes)) = source.endpoint.pool_shape() else { continue };
        let blocks = if resolved.is_replay { replayed_blocks(blocks) } else { blocks };
        all.push(placed(source.head.reader().to_owned(), of_source(source, 1, (blocks, block_bytes))));
    }
    for (source, plan) in resolved.triggered() {
        let pool = of_source(source, plan.links, (plan.blocks, plan.block_bytes));
        all.push(placed(resolved.reader_of(source), pool));
    }
    all.extend(slices(resolved).map(|pool| placed(thread_names::ORDER.to_owned(), pool)));
    for (name, blocks) in unit_memory(resolved) {
        let pool = BlockPool {
            owner: name.clone(),
            pools: 1,
            blocks,
            block_bytes: UNIT_BLOCK_BYTES,
            near: String::new(),
            numa_node: None,
            huge_pages: HugePages::default(),
            bytes: 0,
        };
        all.push(placed(name, pool));
    }
    all
}

/// Returns the pool in which hits of time slices lie.
fn slices(resolved: &Resolved<'_>) -> Option<BlockPool> {
    let hits = resolved.configuration.hit_sources().count();
    let slices = resolved.configuration.slices.as_ref().filter(|_| hits > 0)?;
    Some(BlockPool {
        owner: SLICES.to_owned(),
        pools: hits,
        blocks: slices.hit_blocks(hits),
        block_bytes: HIT_BLOCK_BYTES,
        near: String::new(),
        numa_node: None,
        huge_pages: HugePages::default(),
        bytes: 0,
    })
}

/// The units of this process, with the blocks for what each receives.
fn unit_memory(resolved: &Resolved<'_>) -> Vec<(String, usize)> {
    let Some(units) = &resolved.units else { return Vec::new() };
    let here = |unit: &&UnitSettings| resolved.configuration.hosts(unit);
    let readouts = units.readouts.iter().map(|readout| &readout.settings);
    let all = readouts.chain([&units.manager]).chain(&units.builders).filter(here);
    let rules = &resolved.configuration.unit_rules;
    let gate = resolved.has_gate().then(|| (TRIGGER.to_owned(), GATE_BLOCKS));
    all.map(|unit| (unit.name.clone(), units.blocks(unit, rules))).chain(gate).collect()
}

/// The whole budget: first what lies in pools.
pub(super) fn budget(
    resolved: &Resolved<'_>,
    pools: &[BlockPool],
    processing: Option<&Processing>,
) -> Vec<Item> {
    let configuration = resolved.configuration;
    let mut budget: Vec<Item> = pools.iter().map(blocks).collect();
    for (source, _) in configuration.hit_sources() {
        let batches = source.head.workers.max(1) * BATCHES;
        budget.push(Item {
            purpose: "hit batches",
            owner: source.head.name.clone(),
            bytes: (batches * HIT_BATCH_BYTES) as u64,
            reason: format!("{batches} × {HITS_PER_BATCH} hits"),
        });
    }
    budget.extend(faults(resolved));
    if resolved.has_hits() {
        budget.push(Item {
            purpose: "waiting hits",
            owner: thread_names::ORDER.to_owned(),
            bytes: configuration.order.memory_bytes,
            reason: "[order] memory_bytes".to_owned(),
        });
        let waveforms = configuration.hit_sources().map(|(_, format)| format.waveforms());
        budget.extend(recording(thread_names::ORDER, configuration.record.budget(waveforms)));
        budget.extend(processing.into_iter().flat_map(|processing| [ordered_hits(), spectra(processing)]));
        if configuration.process.coincidence.is_some() {
            budget.push(events_of_hits());
            budget.extend(recording(thread_names::PROCESS, configuration.record.coincidence_budget()));
        }
    }
    budget.extend(senders(resolved));
    let build = resolved.build_settings();
    for (reader, boards) in resolved.builders_of_events() {
        budget.push(Item {
            purpose: "event table",
            owner: reader,
            // Payload that waits lies in the sources' blocks.
            bytes: Budget::of(&build, boards).own(),
            reason: format!("[build] depth = {}, {boards} boards", build.depth),
        });
    }
    let recorders = resolved.builders().map(|unit| unit.name.clone());
    for recorder in recorders.chain(resolved.records_events().then(|| thread_names::RECORD.to_owned())) {
        budget.extend(recording(&recorder, configuration.record.event_budget()));
    }
    budget.extend(filtered_batches(resolved));
    budget.extend(ranges(resolved));
    budget
}

/// Returns the memory of the batches in the event filters, which have their rows; payload stays in the sources' blocks. A worker may keep
/// one that it never decides.
fn filtered_batches(resolved: &Resolved<'_>) -> Vec<Item> {
    let Some(filter) = resolved.filter() else { return Vec::new() };
    let (batches, boards) = ((FILTER_BATCHES + 1) * filter.workers, resolved.source_table.boards.len());
    let row = size_of::<Event>() + 1 + boards * (size_of::<Fragment>() + size_of::<Slice>());
    let item = |owner| Item {
        purpose: "event filter",
        owner,
        bytes: (batches * EVENTS_PER_BATCH * row) as u64,
        reason: format!("{batches} batches for [filter] workers = {}, {boards} boards", filter.workers),
    };
    resolved.event_recorders().into_iter().map(item).collect()
}

/// Blocks of the faults that are injected into sources.
fn faults(resolved: &Resolved<'_>) -> impl Iterator<Item = Item> {
    let is_faulty = |source: &&SourceSettings| source.head.faults.as_ref().is_some_and(FaultSettings::any);
    let faulty = resolved.configuration.sources.iter().filter(is_faulty);
    faulty.map(|source| Item {
        purpose: "faults",
        owner: source.head.name.clone(),
        bytes: FaultSettings::MEMORY_BYTES as u64,
        reason: "[source.faults]".to_owned(),
    })
}

/// Returns the memory in which emulated boards remember what they have sent, so that they can report what did not come.
fn senders(resolved: &Resolved<'_>) -> Vec<Item> {
    let configuration = resolved.configuration;
    let is_asked = |source: &&SourceSettings| source.asks_sender();
    let item = |source: &SourceSettings, boards: usize, bytes: u64| Item {
        purpose: "sent",
        owner: source.head.name.clone(),
        bytes: boards as u64 * bytes,
        reason: format!("{boards} emulated board(s), some seconds of each"),
    };
    let hits = configuration.hit_sources().map(|(source, _)| source).filter(is_asked);
    let hits = hits.filter_map(|source| {
        let board = source.emulated_board().ok()?;
        Some(item(source, 1, SentRecord::memory_bytes(board.most_frames_hz())))
    });
    let of_board = FragmentRecord::memory_bytes(configuration.trigger_rate_hz());
    let triggered = resolved.triggered().filter(|(source, _)| is_asked(source));
    hits.chain(triggered.map(|(source, plan)| item(source, plan.boards(), of_board))).collect()
}

/// Returns the memory for ranges of triggers that each unit of this process has noted and that are not on file yet.
fn ranges(resolved: &Resolved<'_>) -> impl Iterator<Item = Item> {
    let readouts = resolved.units.iter().flat_map(|units| &units.readouts).map(|readout| &readout.settings);
    let here = readouts.filter(|unit| resolved.configuration.hosts(unit)).chain(resolved.builders());
    here.map(|unit| Item {
        purpose: "ranges",
        owner: unit.name.clone(),
        bytes: RANGES_BYTES,
        reason: "not on file yet, or added up".to_owned(),
    })
}

fn blocks(pool: &BlockPool) -> Item {
    let kibibytes = pool.block_bytes as f64 / 1024.0;
    let reason = match pool.pools {
        1 => format!("{} × {kibibytes} KiB", pool.blocks),
        pools => format!("{pools} × {} × {kibibytes} KiB", pool.blocks),
    };
    Item { purpose: "blocks", owner: pool.owner.clone(), bytes: pool.bytes, reason }
}

/// Returns the memory of hits on their way from the order thread, including the batch that it is filling.
fn ordered_hits() -> Item {
    let batches = SELECTED_BATCHES + 1;
    Item {
        purpose: "ordered hits",
        owner: thread_names::PROCESS.to_owned(),
        bytes: (batches * OUTPUT_HITS * (size_of::<Hit>() + size_of::<HitWord>() + 1)) as u64,
        reason: format!("{batches} × {OUTPUT_HITS} hits"),
    }
}

/// Returns the memory of the events that go with them, including those that are being made and those that go ahead.
fn events_of_hits() -> Item {
    let batches = SELECTED_BATCHES + 3;
    let event_bytes = MOST_MEMBERS * size_of::<Hit>() + MOST_MEMBERS / 2 * size_of::<HitEvent>();
    Item {
        purpose: "coincidences",
        owner: thread_names::ORDER.to_owned(),
        bytes: (batches * event_bytes) as u64,
        reason: format!("{batches} × {MOST_MEMBERS} hits in events"),
    }
}

fn spectra(processing: &Processing) -> Item {
    let spectra = &processing.stages.spectra;
    let (spectra, bytes) = (spectra.spectra().len(), spectra.memory_bytes());
    let reason = format!("{spectra} spectra; [spectra], [[spectrum]]");
    Item { purpose: "spectra", owner: thread_names::PROCESS.to_owned(), bytes, reason }
}

fn recording(owner: &str, items: Vec<(&'static str, u64)>) -> impl Iterator<Item = Item> {
    let item =
        |(purpose, bytes)| Item { purpose, owner: owner.to_owned(), bytes, reason: "[record]".to_owned() };
    items.into_iter().filter(|(_, bytes)| *bytes > 0).map(item)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thalweg_transport::placement::Node;

    use super::*;
    use crate::config::Configuration;
    use crate::plan::threads::threads;

    #[test]
    fn blocks_are_on_the_node_of_their_readers_cores() {
        let source = |name: &str, keys: &str| {
            format!(
                "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:0\"\n{keys}\n"
            )
        };
        let text = source("left", "")
            + &source("right", "numa_node = 0")
            + &source("wide", "")
            + &source("free", "");
        let text = text + "[threads]\nleft = 5\nright = 6\nwide = [3, 4]\n";
        let configuration = Configuration::parse(Path::new("run.toml"), text).expect("valid");
        let nodes =
            vec![Node { number: 0, cores: (0..4).collect() }, Node { number: 1, cores: (4..8).collect() }];
        let machine = Machine { cores: (0..8).collect(), allowed: (0..8).collect(), nodes };
        let resolved = Resolved::of(&configuration).expect("valid");
        let placement = Placement::of(&configuration.threads, &threads(&resolved), &machine)
            .expect("there are such cores");
        let found: Vec<_> =
            pools(&resolved, &placement, &machine).iter().map(|pool| pool.numa_node).collect();
        assert_eq!(found, [Some(1), Some(0), None, None], "by its core, as named, and wherever it is");
    }
}
