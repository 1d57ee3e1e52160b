//! The host: whether it is fit for taking data, and what sets what is not.
//!
//! ```text
//!  /proc, /sys, ethtool, sockets ─┐
//!  Needs, of a configuration ─────┴► checks() ─► [Check] ─► doctor, the page
//!  counters before and after a run ► LossCounters::since ─► [Counter]
//!  PAUSE frames of a card, before and after ► PauseReading::moved_since ─► [Counter]
//! ```
//! Nothing is written here but by [`Fix::apply`], which somebody has to ask for. What cannot be read is unknown, and never good.

mod card;
mod check;
mod clock;
mod counters;
mod ethtool;
mod fix;
pub mod kernel_memory;
mod memory;
mod needs;
mod path;
mod pause;
mod processor;
mod reading;
mod socket;
mod statistics;
mod storage;
mod sysctl;
mod tracking;

pub use check::{Check, CheckVerdict, Severity};
pub use clock::ClockState;
pub use counters::{Counter, LossCounters, losses_text};
pub use fix::{Fix, FixError, SYSCTL_FILE};
pub use needs::{Needs, RECEIVE_BUFFER_BYTES, SocketLoad};
pub use pause::{PauseCounts, PauseReading};
pub use reading::HostFiles;
pub use socket::charge_bytes;

/// Probes that may be run in addition to reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// No probe.
    Nothing,
    /// A probe of the route to each board: short and long datagrams to a port without a listener.
    Ways,
}

/// Every check of this host for these needs: what will lose data first, then what may, what is not known, and what is good.
pub fn checks(files: &HostFiles, needs: &Needs, probe: Probe) -> Vec<Check> {
    let mut checks = socket::checks(files, needs);
    checks.extend(sysctl::checks(files, needs));
    for card in card::names(files, needs) {
        checks.extend(card::checks(files, needs, &card));
    }
    if probe == Probe::Ways && needs.has_datagrams() {
        checks.extend(path::checks(needs));
    }
    checks.push(tracking::check(files));
    checks.extend(processor::checks(files));
    checks.extend(memory::checks(files, needs));
    checks.extend(clock::checks(files));
    checks.extend(storage::checks(files, needs));
    checks.push(dropped(&LossCounters::read(files)));
    checks.sort_by_key(Check::urgency);
    checks
}

/// Checks what the kernel has thrown away since the host started.
fn dropped(counters: &LossCounters) -> Check {
    let why = "datagrams and packets that found no space since the host started: a run's own are the difference over the run, and in its record";
    let shown = counters.all().iter().filter(|counter| counter.name.starts_with("host_"));
    let words: Vec<String> = shown.map(|counter| format!("{} {}", counter.name, counter.total)).collect();
    let check = Check::of("thrown away by the kernel", Severity::Information, why);
    if words.is_empty() { check.unknown("no counter can be read") } else { check.noted(words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host made of files.
    pub(super) fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
            std::fs::write(path, format!("{text}\n")).expect("written");
        }
        root
    }

    #[test]
    fn a_host_that_reports_nothing_is_good_at_nothing() {
        let root = host(&[]);
        for check in checks(
            &HostFiles::below(root.path()),
            &Needs { boards: Vec::new(), ..Needs::default() },
            Probe::Ways,
        ) {
            // These ask the system itself, and no file.
            let asks_system = ["stall of a reader", "time synchronisation"].contains(&check.name.as_str());
            assert!(asks_system || check.verdict == CheckVerdict::Unknown, "{check:?}");
        }
    }

    #[test]
    fn every_check_of_this_host_says_what_it_is_for() {
        let found = checks(&HostFiles::of_host(), &Needs::default(), Probe::Nothing);
        assert!(found.len() > 25, "{found:#?}");
        for check in &found {
            assert!(!check.name.is_empty() && !check.value.is_empty() && !check.why.is_empty(), "{check:?}");
            let is_held_against_something =
                check.verdict == CheckVerdict::Unknown || !check.wanted.is_empty();
            assert!(is_held_against_something, "{check:?}");
            assert_eq!(check.command.is_empty(), check.fix().is_none(), "{check:?}");
        }
        let mut names: Vec<&str> = found.iter().map(|check| check.name.as_str()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "each check has a name of its own");
    }
}
