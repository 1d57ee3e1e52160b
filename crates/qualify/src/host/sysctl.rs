//! Values of sysctl that are one number each: a table.
//!
//! ```text
//!  key ─► number ─► Bound { at least, at most, exactly, one of } ─► Check
//! ```
//! Bounds are rules of thumb of receivers at 10 Gb/s and above, unless a run says what it needs.

use super::check::{Check, Severity};
use super::fix::Fix;
use super::needs::Needs;
use super::reading::{HostFiles, Unread};

/// The required value of a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    AtLeast(i64),
    AtMost(i64),
    OneOf(&'static [i64]),
}

impl Bound {
    fn holds(self, value: i64) -> bool {
        match self {
            Bound::AtLeast(least) => value >= least,
            Bound::AtMost(most) => value <= most,
            Bound::OneOf(all) => all.contains(&value),
        }
    }

    fn text(self) -> String {
        match self {
            Bound::AtLeast(least) => format!("{least} at least"),
            Bound::AtMost(most) => format!("{most} at most"),
            Bound::OneOf(all) => all.iter().map(i64::to_string).collect::<Vec<_>>().join(" or "),
        }
    }

    fn best(self) -> i64 {
        match self {
            Bound::AtLeast(value) | Bound::AtMost(value) => value,
            Bound::OneOf(all) => all.first().copied().unwrap_or(0),
        }
    }
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sysctl {
    pub key: &'static str,
    pub bound: Bound,
    pub severity: Severity,
    pub why: &'static str,
}

impl Sysctl {
    fn path(self) -> String {
        format!("/proc/sys/{}", self.key.replace('.', "/"))
    }

    /// Holds the value against its bound.
    pub(super) fn check(self, files: &HostFiles) -> Check {
        let check = Check::of(self.key, self.severity, self.why).wanting(self.bound.text());
        match files.number::<i64>(&self.path()) {
            Ok(value) => check
                .found(value.to_string(), self.bound.holds(value))
                .fixed_by(Fix::Sysctl(self.key, self.bound.best().to_string())),
            Err(Unread::Missing(path)) => check.unknown(format_args!(
                "{path} is not there: this kernel or network namespace has no such value"
            )),
            Err(why) => check.unknown(why),
        }
    }
}

/// Those that matter to any receiver of datagrams.
const OF_DATAGRAMS: &[Sysctl] = &[
    Sysctl {
        key: "net.core.netdev_max_backlog",
        bound: Bound::AtLeast(30_000),
        severity: Severity::Warning,
        why: "packets that wait for a core where they are spread over cores, on loopback, bridges and veth: a burst of synchronous boards overflows 1000. 65536 is published of digitizers at 10 Gb/s",
    },
    Sysctl {
        key: "net.core.netdev_budget",
        bound: Bound::AtLeast(600),
        severity: Severity::Information,
        why: "frames that the kernel takes from the cards in one round",
    },
    Sysctl {
        key: "net.core.netdev_budget_usecs",
        bound: Bound::AtLeast(4000),
        severity: Severity::Information,
        why: "the time of such a round, µs",
    },
    Sysctl {
        key: "net.core.optmem_max",
        bound: Bound::AtLeast(131_072),
        severity: Severity::Information,
        why: "memory of control messages and of sending without copies, bytes",
    },
    Sysctl {
        key: "net.ipv4.ipfrag_high_thresh",
        bound: Bound::AtLeast(256 << 20),
        severity: Severity::Information,
        why: "memory for datagrams in IP fragments, bytes: with 4 MiB, fragments of many boards push each other out. Better: no fragments, by an MTU that fits",
    },
];

/// Those that matter to any run.
const OF_ALL: &[Sysctl] = &[
    Sysctl {
        key: "kernel.io_uring_disabled",
        bound: Bound::OneOf(&[0, 1, 2]),
        severity: Severity::Information,
        why: "whether programs may use io_uring: 0 all, 1 those with privileges, 2 none. No backend of today needs it",
    },
    Sysctl {
        key: "kernel.numa_balancing",
        bound: Bound::OneOf(&[0]),
        severity: Severity::Warning,
        why: "the kernel moves pages between memory nodes while they are in use: readers stall",
    },
    Sysctl {
        key: "vm.swappiness",
        bound: Bound::AtMost(10),
        severity: Severity::Warning,
        why: "how gladly the kernel swaps memory out for the page cache of a recording",
    },
    Sysctl {
        key: "vm.zone_reclaim_mode",
        bound: Bound::OneOf(&[0]),
        severity: Severity::Warning,
        why: "the kernel empties its cache of the near memory node before it takes memory of another: readers stall",
    },
];

/// Every value of the tables that a run of these needs asks for.
pub(super) fn checks(files: &HostFiles, needs: &Needs) -> Vec<Check> {
    let of_datagrams = OF_DATAGRAMS.iter().filter(|_| needs.has_datagrams());
    of_datagrams.chain(OF_ALL).map(|sysctl| sysctl.check(files)).collect()
}
