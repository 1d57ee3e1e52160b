//! Checks whether the host's clock is held to others'.
//!
//! ```text
//!  adjtimex(2) ─► synchronised, error ─► Check          /sys/class/ptp ─► clocks of cards ─► Check
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Check, Severity};
use super::reading::HostFiles;

/// The knowledge about a host's time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClockState {
    /// Something holds it to others.
    Held {
        /// It is wrong by so much at most, as the kernel says.
        error_us: u64,
    },
    /// The clock is not disciplined.
    Free,
    /// The kernel cannot be asked.
    Unknown,
}

impl ClockState {
    /// Reads the state of this host's clock, now.
    pub fn read() -> ClockState {
        match kernel_clock() {
            Ok((true, error_us)) => ClockState::Held { error_us: error_us.max(0) as u64 },
            Ok((false, _)) => ClockState::Free,
            Err(_) => ClockState::Unknown,
        }
    }
}

/// All checks of time.
pub(super) fn checks(files: &HostFiles) -> Vec<Check> {
    vec![synchronised(kernel_clock()), card_clocks(files)]
}

/// Returns the kernel's knowledge of its clock: whether it is disciplined, and by how much it may be wrong, µs.
fn kernel_clock() -> std::io::Result<(bool, i64)> {
    // SAFETY: `timex` is plain numbers, for which zeros are valid; with `modes` 0 the kernel only reads, and writes into it.
    let (status, clock) = unsafe {
        let mut clock: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut clock), clock)
    };
    match status {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok((clock.status & libc::STA_UNSYNC == 0, clock.maxerror)),
    }
}

fn synchronised(clock: std::io::Result<(bool, i64)>) -> Check {
    let why = "runs and captures of several hosts are put beside each other by their clocks; time stamps of boards have clocks of their own";
    let check = Check::of("time synchronisation", Severity::Warning, why)
        .wanting("a clock that chrony, ptp4l with phc2sys, or systemd-timesyncd holds; start one of them");
    match clock {
        Ok((true, error_us)) => check.found(format!("synchronised, wrong by {error_us} µs at most"), true),
        Ok((false, _)) => check.found("nobody holds the clock", false),
        Err(why) => check.unknown(why),
    }
}

fn card_clocks(files: &HostFiles) -> Check {
    let why = "clocks of network cards stamp packets as they come in, and follow a grandmaster (PTP) to well below 1 µs";
    let check = Check::of("clocks of cards", Severity::Information, why);
    let clocks = files.names("/sys/class/ptp");
    let name = |clock: &String| {
        let name = files.text(&format!("/sys/class/ptp/{clock}/clock_name")).unwrap_or_default();
        format!("{clock} ({name})")
    };
    match clocks.is_empty() {
        true => check.noted("none"),
        false => check.noted(clocks.iter().map(name).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckVerdict;
    use super::*;

    #[test]
    fn a_clock_is_reported_with_the_error_that_it_may_have() {
        assert!(kernel_clock().is_ok());
        let held = synchronised(Ok((true, 1250)));
        assert_eq!(
            (held.verdict, held.value.as_str()),
            (CheckVerdict::Good, "synchronised, wrong by 1250 µs at most")
        );
        assert_eq!(synchronised(Ok((false, 16_000_000))).verdict, CheckVerdict::Bad);
    }
}
