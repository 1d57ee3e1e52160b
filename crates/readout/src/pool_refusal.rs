//! What can be done about memory that a source cannot have.

use thalweg_data::PoolError;

/// Why there is no pool, and what to do, by the keys that ask for one.
pub fn pool_refusal(error: &PoolError) -> String {
    match error {
        PoolError::Memory { .. } => format!("{error}; lower `memory_bytes` or free memory"),
        PoolError::HugePages { needed, .. } => format!(
            "{error}; reserve {needed} more of 2 MiB (`sysctl vm.nr_hugepages`), or write `huge_pages = \"try\"`"
        ),
        PoolError::Node { .. } => format!(
            "{error}; take `numa_node` out, or name a node that `numactl --hardware` shows (in a container `mbind` may be forbidden)"
        ),
        PoolError::Size { .. } | PoolError::TooMany => error.to_string(),
    }
}
