//! Memory: how much there is, how a container limits it, large pages, and how much the kernel keeps back from the disk.
//!
//! ```text
//!  /proc/meminfo, /sys/kernel/mm, /sys/fs/cgroup, /proc/sys/vm ─► Check …
//! ```

use super::check::{Check, Severity};
use super::fix::Fix;
use super::kernel_memory;
use super::needs::Needs;
use super::reading::{HostFiles, Unread, bytes};

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
    let groups = match files.text("/proc/self/cgroup") {
        Ok(groups) => groups,
        Err(why) => return check.unknown(why),
    };
    let least = needs.receive_buffers_bytes + needs.memory_bytes.unwrap_or(0);
    let check = check.wanting(format!("more than {}: buffers and the run", bytes(least)));
    let lowest = match Controller::of(&groups) {
        Some(controller) => controller.lowest_limit(files),
        None => return check.unknown("/proc/self/cgroup names no group that limits memory"),
    };
    match lowest {
        Ok(None) => check.found("no limit", true),
        Ok(Some((limit, file))) => check.found(format!("{} ({file})", bytes(limit)), limit > least),
        Err(why) => check.unknown(why),
    }
}

/// The controller of memory: in one of its own hierarchies (version 1), or in that of all controllers (version 2).
struct Controller {
    mount: &'static str,
    group: String,
    limit: &'static str,
}

impl Controller {
    /// A controller is in one hierarchy only: where version 1 has it, version 2 limits no memory.
    fn of(groups: &str) -> Option<Controller> {
        let line = |wanted: &dyn Fn(&str, &str) -> bool| {
            groups.lines().find_map(|line| {
                let (number, rest) = line.split_once(':')?;
                let (controllers, group) = rest.split_once(':')?;
                wanted(number, controllers).then(|| group.trim_end_matches('/').to_owned())
            })
        };
        let first = line(&|_, controllers| controllers.split(',').any(|controller| controller == "memory"));
        match first {
            Some(group) => {
                Some(Controller { mount: "/sys/fs/cgroup/memory", group, limit: "memory.limit_in_bytes" })
            }
            None => Some(Controller {
                mount: "/sys/fs/cgroup",
                group: line(&|number, controllers| number == "0" && controllers.is_empty())?,
                limit: "memory.max",
            }),
        }
    }

    /// The group as it lies below the mount: a container without a namespace of its own reads the host's path, and has a part of it mounted.
    fn below_mount(&self, files: &HostFiles) -> &str {
        let mounts = files.text("/proc/self/mountinfo").unwrap_or_default();
        // A later mount hides an earlier one.
        let root = mounts.lines().rev().find_map(|line| {
            let mut words = line.split_whitespace().skip(3);
            let (root, place) = (words.next()?, words.next()?);
            (place == self.mount).then_some(root)
        });
        let below = root.and_then(|root| self.group.strip_prefix(root.trim_end_matches('/')));
        below.filter(|below| below.is_empty() || below.starts_with('/')).unwrap_or(&self.group)
    }

    /// The lowest limit of the group and those that it is in, and the file that has it; `None` where none of them has one.
    fn lowest_limit(&self, files: &HostFiles) -> Result<Option<(u64, String)>, Unread> {
        // Without this file nothing is mounted there, or without this controller.
        let known = format!("{}/cgroup.controllers", self.mount);
        let is_second = self.limit == "memory.max";
        if is_second && !files.text(&known)?.split_whitespace().any(|controller| controller == "memory") {
            return Err(Unread::Odd(known, "no memory".to_owned()));
        }
        let below = self.below_mount(files);
        let own = format!("{}{below}", self.mount);
        if !files.at(&own).is_dir() {
            return Err(Unread::Missing(own));
        }
        let (mut lowest, mut group): (Option<(u64, String)>, _) = (None, below);
        loop {
            let file = format!("{}{group}/{}", self.mount, self.limit);
            let limit = match files.text(&file) {
                Ok(limit) => limit_of(&file, limit)?,
                // The root of version 2 has no limit, and neither has a group that is not given the controller.
                Err(Unread::Missing(_)) if is_second => None,
                Err(why) => return Err(why),
            };
            if let Some(limit) =
                limit.filter(|limit| lowest.as_ref().is_none_or(|(lowest, _)| limit < lowest))
            {
                lowest = Some((limit, file));
            }
            match group.rsplit_once('/') {
                Some((parent, _)) => group = parent,
                None => return Ok(lowest),
            }
        }
    }
}

fn limit_of(file: &str, text: String) -> Result<Option<u64>, Unread> {
    match text.parse::<u64>() {
        _ if text == "max" => Ok(None),
        // Version 1 has the largest number of pages instead of a word.
        Ok(limit) if limit > i64::MAX as u64 / 2 => Ok(None),
        Ok(limit) => Ok(Some(limit)),
        Err(_) => Err(Unread::Odd(file.to_owned(), text)),
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
    fn the_limit_of_a_container_is_the_lowest_of_its_groups_in_the_version_that_has_it() {
        let needs = Needs { memory_bytes: Some(1 << 30), ..Needs::default() };
        let of = |given: &[(&str, &str)]| {
            let root = host(given);
            let found = container(&HostFiles::below(root.path()), &needs);
            (found.verdict, found.value)
        };
        let (second, known) = ("/proc/self/cgroup", ("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids"));
        assert_eq!(of(&[(second, "0::/"), known]), (CheckVerdict::Good, "no limit".to_owned()));
        let leaf = (second, "0::/daq.slice/run.scope");
        let (parent, own) =
            ("/sys/fs/cgroup/daq.slice/memory.max", "/sys/fs/cgroup/daq.slice/run.scope/memory.max");
        let held = of(&[leaf, known, (parent, "536870912"), (own, "max")]);
        assert_eq!(held, (CheckVerdict::Bad, format!("512 MiB ({parent})")));
        let held = of(&[leaf, known, (parent, "8589934592"), (own, "4294967296")]);
        assert_eq!(held, (CheckVerdict::Good, format!("4 GiB ({own})")));
        // The controller is in version 1: the root of version 2 says nothing of memory.
        let both = (second, "4:memory:/daq\n1:cpu:/\n0::/");
        let (first, above) = (
            "/sys/fs/cgroup/memory/daq/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        );
        let unlimited = (above, "9223372036854771712");
        assert_eq!(of(&[both]).0, CheckVerdict::Unknown);
        assert_eq!(of(&[both, (first, "536870912"), unlimited]).0, CheckVerdict::Bad);
        assert_eq!(of(&[both, (first, "9223372036854771712"), unlimited]).0, CheckVerdict::Good);
        // A container without a namespace of its own: the host's path of the group, which is the root of what is mounted.
        let mounts = "30 29 0:27 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                      31 30 0:28 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory";
        let mounted = ("/proc/self/mountinfo", mounts);
        for (group, verdict) in [
            ("4:memory:/docker/abc", CheckVerdict::Bad),
            ("4:memory:/docker/abc/daq", CheckVerdict::Bad),
            ("4:memory:/docker/abcd", CheckVerdict::Unknown),
        ] {
            let inner = (first, "9223372036854771712");
            let found = of(&[(second, group), mounted, (above, "536870912"), inner]);
            assert_eq!(found.0, verdict, "{group}: {}", found.1);
        }
        assert_eq!(
            of(&[(second, "0::/"), ("/sys/fs/cgroup/cgroup.controllers", "cpu")]).0,
            CheckVerdict::Unknown
        );
        assert_eq!(of(&[(second, "0::/")]).0, CheckVerdict::Unknown, "nothing is mounted");
        assert_eq!(
            of(&[(second, "0::/elsewhere"), known]).0,
            CheckVerdict::Unknown,
            "it is not seen from here"
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
