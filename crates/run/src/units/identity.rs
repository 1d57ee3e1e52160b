//! The identity that all nodes of one run share, sent in every hello.
//!
//! ```text
//!  units, their sources and boards, [build], [build.units] ─► digest ─┐
//!  [run] identity ────────────────────────────────────────────────────┴─► RunIdentity
//! ```
//! Where a unit listens, how much memory it has, and all that a node does on its own (`[record]`, `[threads]`) may differ from node to node.

use thalweg_record::IdentityRecord;
use thalweg_transport::peer::RunIdentity;

use crate::config::Configuration;
use crate::plan::{UnitPlan, UnitPlanError};
use crate::source_table::SourceTable;

/// The identity of a run of this configuration.
pub(crate) fn identity(
    configuration: &Configuration,
    source_table: &SourceTable,
    plan: &UnitPlan,
) -> RunIdentity {
    let units: Vec<_> =
        configuration.units.iter().map(|unit| (&unit.name, unit.kind, &unit.sources, &unit.node)).collect();
    let boards: Vec<_> =
        source_table.entries.iter().map(|entry| entry.links.iter().map(|link| &link.boards)).collect();
    let boards: Vec<Vec<_>> = boards.into_iter().map(Iterator::collect).collect();
    let sources: Vec<_> =
        configuration.sources.iter().map(|source| (&source.head.name, source.head.format)).collect();
    let Configuration { build, unit_rules, .. } = configuration;
    // In words of this program: nodes of other versions may say it otherwise, and then are of another version indeed.
    let text = format!("{units:?} {sources:?} {boards:?} {:?} {build:?} {unit_rules:?}", plan.layout);
    RunIdentity { configuration: fnv(text.as_bytes()), run: configuration.run.identity.clone() }
}

/// What `run.json` of a node says of it; `None` of a run without units. The event managers are added when their first message comes; a node that hosts
/// one knows that of its own start.
///
/// # Errors
/// As of [`UnitPlan::of`].
pub(crate) fn identity_record(
    configuration: &Configuration,
    source_table: &SourceTable,
    started_ns: u64,
) -> Result<Option<IdentityRecord>, UnitPlanError> {
    let Some(plan) = UnitPlan::of(configuration, source_table)? else { return Ok(None) };
    let RunIdentity { configuration: digest, run } = identity(configuration, source_table, &plan);
    let managers = if configuration.hosts(&plan.manager) { vec![started_ns] } else { Vec::new() };
    Ok(Some(IdentityRecord {
        run,
        configuration: format!("{digest:016x}"),
        node: configuration.node.clone().unwrap_or_default(),
        started_ns,
        managers,
    }))
}

/// Returns the run's number in the messages of units: 1 where the run has no identity.
pub(crate) fn run_number(run: &str) -> u32 {
    if run.is_empty() { 1 } else { fnv(run.as_bytes()) as u32 }
}

/// The 64-bit FNV-1a digest (IETF draft-eastlake-fnv): the same on every host, which the standard library's hashes do not promise.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_published_one() {
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn runs_have_numbers_of_their_own() {
        assert_eq!(run_number(""), 1);
        assert_ne!(run_number("41"), run_number("42"));
    }
}
