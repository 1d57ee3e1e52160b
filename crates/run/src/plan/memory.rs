//! How much memory a run takes, item by item.
//!
//! ```text
//!  blocks + hit batches + time order + building + units + recording = the budget
//! ```

use thalweg_build::Budget;
use thalweg_data::HugePages;
use thalweg_transport::placement::Machine;

use super::{BlockPool, HIT_BATCH_BYTES, HITS_PER_BATCH, Item, Resolved};
use crate::assemble::{UNIT_BLOCK_BYTES, WORDS_BYTES, unit_blocks};
use crate::config::SourceSettings;
use crate::pipeline::BATCHES;
use crate::placement::Placement;

/// The pools of all sources and units.
pub(super) fn pools(resolved: &Resolved<'_>, placement: &Placement, machine: &Machine) -> Vec<BlockPool> {
    let placed = |near: String, pool: BlockPool| {
        let mut nodes: Vec<_> =
            placement.place_of(&near).cores.iter().map(|core| machine.node_of(*core)).collect();
        nodes.dedup();
        let by_core = if let [node] = nodes[..] { node } else { None };
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
        all.push(placed(source.head.name.clone(), of_source(source, 1, source.endpoint.pool_shape())));
    }
    for (source, plan) in resolved.triggered() {
        let pool = of_source(source, plan.links, (plan.blocks, plan.block_bytes));
        all.push(placed(resolved.reader_of(source), pool));
    }
    for (name, memory_bytes) in unit_memory(resolved) {
        let pool = BlockPool {
            owner: name.clone(),
            pools: 1,
            blocks: unit_blocks(memory_bytes),
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

/// The units of this process, with the memory for what each receives.
fn unit_memory(resolved: &Resolved<'_>) -> Vec<(String, u64)> {
    let Some(units) = &resolved.units else { return Vec::new() };
    let here = |unit: &crate::units::UnitSettings| resolved.configuration.hosts(unit);
    let readouts = units.readouts.iter().map(|readout| &readout.settings);
    let talking = readouts.chain([&units.manager]).filter(|unit| here(unit));
    let mut all: Vec<(String, u64)> = talking.map(|unit| (unit.name.clone(), WORDS_BYTES)).collect();
    all.extend(resolved.builders().map(|unit| (unit.name.clone(), unit.memory_bytes)));
    all
}

/// The whole budget: first what lies in pools.
pub(super) fn budget(resolved: &Resolved<'_>, pools: &[BlockPool]) -> Vec<Item> {
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
    if resolved.has_hits() {
        budget.push(Item {
            purpose: "time order",
            owner: "order".to_owned(),
            bytes: configuration.order.memory_bytes,
            reason: "[order] memory_bytes".to_owned(),
        });
        budget.extend(recording("order", configuration.record.budget()));
    }
    for (reader, boards) in resolved.builders_of_events() {
        budget.push(Item {
            purpose: "building",
            owner: reader,
            // Payload that waits lies in the sources' blocks.
            bytes: Budget::of(&configuration.build, boards).own(),
            reason: format!("[build] depth = {}, {boards} boards", configuration.build.depth),
        });
    }
    let recorders = resolved.builders().map(|unit| unit.name.clone());
    for recorder in recorders.chain(resolved.builds_here().then(|| "record".to_owned())) {
        budget.extend(recording(&recorder, configuration.record.event_budget()));
    }
    budget
}

fn blocks(pool: &BlockPool) -> Item {
    let kibibytes = pool.block_bytes as f64 / 1024.0;
    let reason = match pool.pools {
        1 => format!("{} × {kibibytes} KiB", pool.blocks),
        links => format!("{links} links × {} × {kibibytes} KiB", pool.blocks),
    };
    Item { purpose: "blocks", owner: pool.owner.clone(), bytes: pool.bytes, reason }
}

fn recording(owner: &str, items: Vec<(&'static str, u64)>) -> impl Iterator<Item = Item> {
    let item =
        |(purpose, bytes)| Item { purpose, owner: owner.to_owned(), bytes, reason: "[record]".to_owned() };
    items.into_iter().filter(|(_, bytes)| *bytes > 0).map(item)
}
