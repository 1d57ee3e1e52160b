//! Memory: how much there is, how a container limits it, large pages, and how much the kernel keeps back from the disk.
//!
//! ```text
//!  /proc/meminfo, /sys/kernel/mm, /sys/fs/cgroup, /proc/sys/vm ─► Check …
//! ```

use super::check::{Check, Severity};
use super::fix::Fix;
use super::kernel_memory;
use super::needs::Needs;
use super::reading::{HostFiles, bytes};

/// The fraction of the host's memory that should be free.
const FREE_SHARE: f64 = 0.05;
/// The kernel may keep so much back from the disk before it makes the writer wait.
const MOST_DIRTY_BYTES: u64 = 2 << 30;

/// All checks of memory.
pub(super) fn checks(files: &HostFiles, needs: &Needs) -> Vec<Check> {
    vec![
        available(files, needs),
        container(files, needs),
        huge_pages(files, needs),
        dirty(files),
        locked(files),
    ]
}

fn available(files: &HostFiles, needs: &Needs) -> Check {
    let why = "a run takes its memory at the start, and all of it; a host without any more kills programs";
    let check = Check::of("memory", Severity::Error, why);
    let text = match files.text("/proc/meminfo") {
        Ok(text) => text,
        Err(why) => return check.unknown(why),
    };
    let (Some(available), Some(all)) =
        (kernel_memory::bytes(&text, "MemAvailable"), kernel_memory::bytes(&text, "MemTotal"))
    else {
        return check.unknown("/proc/meminfo has no MemAvailable");
    };
    let least = needs.memory_bytes.unwrap_or(0) + (FREE_SHARE * all as f64) as u64;
    let of_run = needs
        .memory_bytes
        .map_or(String::new(), |bytes_of_run| format!(": {} of the run, and", bytes(bytes_of_run)));
    check
        .wanting(format!("{} available{of_run} a twentieth of the host's; end other programs, or lower the budgets that `thalweg run FILE --explain` shows", bytes(least)))
        .found(format!("{} of {} available", bytes(available), bytes(all)), available > least)
}

fn container(files: &HostFiles, needs: &Needs) -> Check {
    let why = "a container's limit holds for socket buffers, too: at the limit datagrams are lost as if the buffer were full";
    let check = Check::of("memory of the container", Severity::Warning, why);
    let group = files
        .text("/proc/self/cgroup")
        .ok()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::").map(str::to_owned)));
    let Some(group) = group else { return check.unknown("/proc/self/cgroup names no group of version 2") };
    let folder = format!("/sys/fs/cgroup{}", group.trim_end_matches('/'));
    let least = needs.receive_buffers_bytes + needs.memory_bytes.unwrap_or(0);
    let check = check.wanting(format!("more than {}: buffers and the run", bytes(least)));
    match files.text(&format!("{folder}/memory.max")).as_deref() {
        Ok("max") => check.found("no limit", true),
        Ok(limit) => match limit.parse::<u64>() {
            Ok(limit) => check.found(bytes(limit), limit > least),
            Err(_) => check.unknown(format_args!("{folder}/memory.max says \"{limit}\"")),
        },
        // The root of all groups has no such file.
        Err(_) if group == "/" => check.found("no limit", true),
        Err(why) => check.unknown(why),
    }
}

fn huge_pages(files: &HostFiles, needs: &Needs) -> Check {
    let why = "rings beyond 256 MiB are read faster in large pages";
    let check = Check::of("large pages", Severity::Information, why);
    let transparent = files.text("/sys/kernel/mm/transparent_hugepage/enabled");
    let text = files.text("/proc/meminfo").unwrap_or_default();
    let count = |key: &str| kernel_memory::bytes(&text, key).map_or(0, |bytes| bytes / 1024);
    let free = count("HugePages_Free") * kernel_memory::bytes(&text, "Hugepagesize").unwrap_or(0);
    let chosen = match &transparent {
        Ok(words) => words.split(['[', ']']).nth(1).unwrap_or("none").to_owned(),
        Err(_) => "unknown".to_owned(),
    };
    let found = format!("{} reserved and free; without reservation: {chosen}", bytes(free));
    if needs.huge_page_bytes == 0 {
        return check.noted(found);
    }
    let pages =
        needs.huge_page_bytes.div_ceil(kernel_memory::bytes(&text, "Hugepagesize").unwrap_or(2 << 20).max(1));
    Check { severity: Severity::Error, ..check }
        .wanting(format!("{} reserved: `huge_pages = \"require\"`", bytes(needs.huge_page_bytes)))
        .found(found, free >= needs.huge_page_bytes)
        .fixed_by(Fix::Sysctl("vm.nr_hugepages", pages.to_string()))
}

fn dirty(files: &HostFiles) -> Check {
    let why = "what was written and is not on disk yet: the more the kernel keeps back, the longer it makes the writer wait when it stops";
    let check = Check::of("vm.dirty_bytes", Severity::Warning, why)
        .wanting(format!("1 to {} at most", bytes(MOST_DIRTY_BYTES)));
    let total = files.text("/proc/meminfo").ok().and_then(|text| kernel_memory::bytes(&text, "MemTotal"));
    let number = |key: &str| files.number::<u64>(&format!("/proc/sys/vm/{key}"));
    let fix = Fix::Sysctl("vm.dirty_bytes", MOST_DIRTY_BYTES.to_string());
    match (number("dirty_bytes"), number("dirty_ratio"), total) {
        (Ok(0), Ok(percent), Some(total)) => {
            let most = total / 100 * percent;
            let found = format!("{percent} % of the memory: {}", bytes(most));
            check.found(found, most <= MOST_DIRTY_BYTES).fixed_by(fix)
        }
        (Ok(0), Err(why), _) | (Err(why), ..) => check.unknown(why),
        (Ok(0), Ok(_), None) => check.unknown("/proc/meminfo has no MemTotal"),
        (Ok(most), ..) => check.found(bytes(most), most <= MOST_DIRTY_BYTES).fixed_by(fix),
    }
}

fn locked(files: &HostFiles) -> Check {
    let why = "memory that may not be swapped out: rings that a card writes into need it";
    let check = Check::of("locked memory", Severity::Information, why);
    let limits = match files.text("/proc/self/limits") {
        Ok(limits) => limits,
        Err(why) => return check.unknown(why),
    };
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => check.noted("no limit"),
        Some(most) => check.noted(most.parse().map_or_else(|_| most.to_owned(), bytes)),
        None => check.unknown("/proc/self/limits does not say it"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckVerdict;
    use super::super::tests::host;
    use super::*;

    #[test]
    fn memory_is_held_against_what_the_run_takes() {
        let root = host(&[("/proc/meminfo", "MemTotal:  1000000 kB\nMemAvailable:   60000 kB\n")]);
        let files = HostFiles::below(root.path());
        assert_eq!(available(&files, &Needs::default()).verdict, CheckVerdict::Good);
        let needs = Needs { memory_bytes: Some(64 << 20), ..Needs::default() };
        assert!(available(&files, &needs).is_error());
        assert_eq!(
            available(&HostFiles::below(&root.path().join("none")), &needs).verdict,
            CheckVerdict::Unknown
        );
    }

    #[test]
    fn what_the_kernel_keeps_back_from_the_disk_is_said_in_bytes() {
        let root = host(&[
            ("/proc/meminfo", "MemTotal:  100000000 kB\n"),
            ("/proc/sys/vm/dirty_bytes", "0"),
            ("/proc/sys/vm/dirty_ratio", "20"),
        ]);
        let found = dirty(&HostFiles::below(root.path()));
        assert_eq!(
            (found.verdict, found.command.as_str()),
            (CheckVerdict::Bad, "sysctl -w vm.dirty_bytes=2147483648")
        );
        assert_eq!(found.value, "20 % of the memory: 19.1 GiB");
    }

    #[test]
    fn large_pages_are_an_error_only_where_they_are_required() {
        let root = host(&[
            ("/proc/meminfo", "HugePages_Free:      3\nHugepagesize:       2048 kB\n"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
        ]);
        let files = HostFiles::below(root.path());
        let found = huge_pages(&files, &Needs::default());
        assert_eq!(
            (found.verdict, found.value.as_str()),
            (CheckVerdict::Unknown, "6 MiB reserved and free; without reservation: madvise")
        );
        let needs = Needs { huge_page_bytes: 8 << 20, ..Needs::default() };
        let found = huge_pages(&files, &needs);
        assert!(found.is_error() && found.command == "sysctl -w vm.nr_hugepages=4", "{found:?}");
    }
}
