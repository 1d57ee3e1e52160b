//! Checks that the machine has the memory that a plan takes.
//!
//! ```text
//!  budget, item by item ─► sum ─► against /proc/meminfo and the control groups of this process ─► refused, with the largest item
//! ```

use std::path::Path;

use super::Item;
use thalweg_qualify::host::kernel_memory;

/// The sum of a budget, bytes.
pub(super) fn total(budget: &[Item]) -> u64 {
    budget.iter().fold(0, |sum, item| sum.saturating_add(item.bytes))
}

/// Refuses a budget that is larger than the machine.
pub(super) fn check(budget: &[Item], machine_bytes: Option<u64>) -> Result<(), String> {
    let (total, Some(machine)) = (total(budget), machine_bytes) else { return Ok(()) };
    if total <= machine {
        return Ok(());
    }
    let alike = |item: &Item| {
        budget.iter().filter(|other| other.purpose == item.purpose).cloned().collect::<Vec<_>>()
    };
    // The largest owner within the largest purpose: many sources may each be small.
    let Some(largest) = budget.iter().max_by_key(|item| (self::total(&alike(item)), item.bytes)) else {
        return Ok(());
    };
    let together = alike(largest);
    Err(format!(
        "{}: the run would take {} of memory, and this process can have {}; lower that: {} are for {}, of these {} for {} ({})",
        keys(largest),
        gibibytes(total),
        gibibytes(machine),
        gibibytes(self::total(&together)),
        largest.purpose,
        gibibytes(largest.bytes),
        largest.owner,
        largest.reason
    ))
}

/// Names the keys of the configuration that decide how large an item is.
fn keys(item: &Item) -> String {
    let owner = &item.owner;
    match item.purpose {
        "blocks" if owner == "time slices" => "[slices] memory_bytes".to_owned(),
        "blocks" => format!("[[source]] or [[unit]] \"{owner}\" `memory_bytes`"),
        "hit batches" => format!("[[source]] \"{owner}\" `workers`"),
        "waiting hits" => "[order] memory_bytes".to_owned(),
        "sent" => format!("[[source]] \"{owner}\": the number of its emulated boards"),
        "event table" => "[build] `depth` or `chained_slices`".to_owned(),
        "spectra" => "[spectra]".to_owned(),
        _ => "[record]".to_owned(),
    }
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Memory that this process can have, bytes: that of the machine, or of a control group with less. `None` where the system does not report it.
pub(super) fn machine_memory() -> Option<u64> {
    let text = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = kernel_memory::host_bytes("MemTotal")?;
    let groups = text(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let limits = root
        .join(own)
        .ancestors()
        .filter(|group| group.starts_with(root))
        .map(Path::to_owned)
        .collect::<Vec<_>>();
    let limits = limits.iter().filter_map(|group| text(&group.join("memory.max"))?.trim().parse().ok());
    Some(limits.fold(machine, u64::min))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(purpose: &'static str, bytes: u64) -> Item {
        Item { purpose, owner: "left".to_owned(), bytes, reason: "so".to_owned() }
    }

    #[test]
    fn a_budget_beyond_the_machine_is_refused_with_its_largest_item() {
        let budget = [item("blocks", 3 << 30), item("hit batches", 1 << 30)];
        assert_eq!(check(&budget, Some(4 << 30)), Ok(()));
        assert_eq!(check(&budget, None), Ok(()));
        let message = check(&budget, Some(2 << 30)).expect_err("too much");
        for word in [
            "\"left\" `memory_bytes`",
            "4.0 GiB",
            "2.0 GiB",
            "3.0 GiB are for blocks, of these 3.0 GiB for left (so)",
        ] {
            assert!(message.contains(word), "{word} in {message}");
        }
        assert_eq!(total(&[item("blocks", u64::MAX), item("blocks", 1)]), u64::MAX);
    }

    #[test]
    fn the_memory_of_the_machine_is_read() {
        assert!(machine_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
