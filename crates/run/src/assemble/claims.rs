//! Checks that assembly takes exactly what the topology declares: each thread, ring and pool by its name, as often as it is declared.
//!
//! ```text
//!  Topology ─► thread("order"), ring("left", "order"), pools("left", 1) … ─► faults: taken and not declared, declared and not taken
//! ```
//! The ledger does the same for counters. Something started without a declaration would appear in no plan, on no page and in no budget.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_data::topology::Topology;

/// The threads, rings and pools that were claimed so far.
pub(super) struct Claims {
    topology: Arc<Topology>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    threads: BTreeMap<String, usize>,
    rings: BTreeMap<(String, String), usize>,
    pools: BTreeMap<String, usize>,
    faults: Vec<String>,
}

impl Claims {
    pub(super) fn of(topology: Arc<Topology>) -> Claims {
        Claims { topology, taken: Mutex::default() }
    }

    /// Claims `count` threads of one name.
    pub(super) fn threads(&self, name: &str, count: usize) {
        *self.taken().threads.entry(name.to_owned()).or_default() += count;
    }

    /// Threads of a name that a part of the system starts for all together: taken by each that asks for it, once.
    pub(super) fn shared_threads(&self, name: &str) {
        let count =
            self.topology.threads.iter().find(|thread| thread.name == name).map_or(1, |thread| thread.count);
        self.taken().threads.insert(name.to_owned(), count);
    }

    /// The ring between two threads is made; returns how many batches go round in it.
    pub(super) fn ring(&self, from: &str, to: &str) -> usize {
        let ring = self.topology.rings.iter().find(|ring| (&ring.from[..], &ring.to[..]) == (from, to));
        let mut taken = self.taken();
        *taken.rings.entry((from.to_owned(), to.to_owned())).or_default() += 1;
        match ring {
            Some(ring) => ring.batches,
            None => {
                taken.faults.push(format!("the ring from {from} to {to} is made, and not declared"));
                1
            }
        }
    }

    /// Claims `count` pools of one owner, with their number of blocks and bytes per block.
    pub(super) fn pools(&self, owner: &str, count: usize, (blocks, block_bytes): (usize, usize)) {
        let declared = self.topology.pools.iter().find(|pool| pool.owner == owner);
        let mut taken = self.taken();
        *taken.pools.entry(owner.to_owned()).or_default() += count;
        if let Some(declared) =
            declared.filter(|pool| (pool.blocks, pool.block_bytes) != (blocks, block_bytes))
        {
            let said = (declared.blocks, declared.block_bytes);
            taken.faults.push(format!(
                "a pool of {owner} has {blocks} blocks of {block_bytes} bytes, and {} of {} are declared",
                said.0, said.1
            ));
        }
    }

    /// Lists what was taken without being declared, and what was declared without being taken.
    pub(super) fn faults(&self) -> Vec<String> {
        let taken = self.taken();
        let mut faults = taken.faults.clone();
        let threads = self.topology.threads.iter().map(|thread| (thread.name.clone(), thread.count));
        faults.extend(differences("thread", &taken.threads, threads.collect()));
        let pools = self.topology.pools.iter().map(|pool| (pool.owner.clone(), pool.pools));
        faults.extend(differences("pool", &taken.pools, pools.collect()));
        let mut declared: BTreeMap<(String, String), usize> = BTreeMap::new();
        for ring in &self.topology.rings {
            *declared.entry((ring.from.clone(), ring.to.clone())).or_default() += 1;
        }
        for ((from, to), _) in declared.iter().filter(|(ends, _)| !taken.rings.contains_key(*ends)) {
            faults.push(format!("the ring from {from} to {to} is declared, and nobody has made it"));
        }
        for (ends, count) in &taken.rings {
            let (said, (from, to)) = (declared.get(ends).copied().unwrap_or(1), ends);
            if *count != said {
                faults.push(format!(
                    "the ring from {from} to {to} is made {count} times, and declared {said} times"
                ));
            }
        }
        faults
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn differences(
    what: &str,
    taken: &BTreeMap<String, usize>,
    declared: BTreeMap<String, usize>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, count) in taken {
        let said = declared.get(name).copied().unwrap_or(0);
        if said != *count {
            found.push(format!("{count} {what}s of {name} are taken, and {said} declared"));
        }
    }
    let untaken = declared.iter().filter(|(name, count)| **count > 0 && !taken.contains_key(*name));
    found.extend(
        untaken.map(|(name, count)| format!("{count} {what}s of {name} are declared, and none is taken")),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_data::topology::{BlockPool, Ring, Thread};

    fn claims() -> Claims {
        let pool = BlockPool {
            owner: "a".to_owned(),
            pools: 2,
            blocks: 8,
            block_bytes: 4096,
            near: "a".to_owned(),
            numa_node: None,
            huge_pages: thalweg_data::HugePages::default(),
            bytes: 65_536,
        };
        let ring = Ring {
            from: "a".to_owned(),
            to: "order".to_owned(),
            carries: "hits".to_owned(),
            batches: 8,
            full: "it waits".to_owned(),
        };
        Claims::of(Arc::new(Topology {
            threads: vec![
                Thread::new("a", "receives"),
                Thread { count: 2, ..Thread::new("compress", "compresses") },
            ],
            rings: vec![ring],
            pools: vec![pool],
            ..Topology::default()
        }))
    }

    #[test]
    fn what_is_taken_as_declared_has_no_fault() {
        let claims = claims();
        claims.threads("a", 1);
        claims.threads("compress", 1);
        claims.threads("compress", 1);
        assert_eq!(claims.ring("a", "order"), 8);
        claims.pools("a", 2, (8, 4096));
        assert_eq!(claims.faults(), [""; 0]);
    }

    #[test]
    fn whatever_is_taken_otherwise_is_reported_by_name() {
        let claims = claims();
        claims.threads("a", 2);
        claims.threads("stray", 1);
        let _one = (claims.ring("a", "raw"), claims.ring("a", "raw"));
        claims.pools("a", 1, (9, 4096));
        let faults = claims.faults().join("; ");
        for expected in [
            "2 threads of a are taken, and 1 declared",
            "1 threads of stray are taken, and 0 declared",
            "2 threads of compress are declared, and none is taken",
            "the ring from a to raw is made, and not declared",
            "the ring from a to raw is made 2 times, and declared 1 times",
            "the ring from a to order is declared, and nobody has made it",
            "1 pools of a are taken, and 2 declared",
            "a pool of a has 9 blocks of 4096 bytes, and 8 of 4096 are declared",
        ] {
            assert!(faults.contains(expected), "{expected} in {faults}");
        }
    }
}
