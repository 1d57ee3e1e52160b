//! What a board reports of its acquisition and its clock.
//!
//! ```text
//!  /par/acquisitionstatus "9", /par/errorflags "0" ──► armed, clock locked
//! ```
//! The bits are those that public control programs of these boards name.

use std::fmt;

/// The parameter with the bits of the acquisition.
pub(super) const ACQUISITION: &str = "/par/acquisitionstatus";
/// The parameter with the bits of errors.
pub(super) const ERRORS: &str = "/par/errorflags";

const ARMED: u32 = 1;
const RUNNING: u32 = 1 << 1;
const CLOCK_VALID: u32 = 1 << 3;
const BUSY: u32 = 1 << 4;
const LICENSE_FAILED: u32 = 1 << 6;

/// Error bits of what makes the clock, and what is not locked then.
const UNLOCKED: [(u32, &str); 4] =
    [(1 << 2, "Si5341"), (1 << 3, "Si5395"), (1 << 4, "LMK04832"), (1 << 5, "JESD204 link")];
const POWER_FAILED: u32 = 1;
const OVERHEATED: u32 = 0xF << 11;

/// The bits that a board reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub(super) acquisition: u32,
    pub(super) errors: u32,
}

impl Status {
    /// The bits of an emulated board.
    pub(super) fn emulated(is_armed: bool, is_running: bool, is_locked: bool) -> Status {
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let acquisition =
            bit(is_armed || is_running, ARMED) | bit(is_running, RUNNING) | bit(is_locked, CLOCK_VALID);
        Status { acquisition, errors: bit(!is_locked, UNLOCKED[2].0 | UNLOCKED[3].0) }
    }

    /// The number in a value of these parameters, decimal or after 0x.
    pub(super) fn bits(text: &str) -> Option<u32> {
        crate::format::register_number(text.trim()).and_then(|bits| u32::try_from(bits).ok())
    }

    /// Whether the board waits for its start, or runs.
    pub fn is_armed(self) -> bool {
        self.acquisition & (ARMED | RUNNING) != 0
    }

    /// Whether it takes data.
    pub fn is_running(self) -> bool {
        self.acquisition & RUNNING != 0
    }

    /// Whether its clock is valid, and everything that makes it is locked.
    pub fn is_locked(self) -> bool {
        self.acquisition & CLOCK_VALID != 0 && UNLOCKED.iter().all(|(bit, _)| self.errors & bit == 0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |bits: u32, bit: u32| bits & bit != 0;
        f.write_str(match self.acquisition {
            bits if has(bits, RUNNING) => "running",
            bits if has(bits, ARMED) => "armed",
            _ => "not armed",
        })?;
        f.write_str(if self.is_locked() { ", clock locked" } else { ", clock not locked" })?;
        for (_, name) in UNLOCKED.into_iter().filter(|(bit, _)| has(self.errors, *bit)) {
            write!(f, ", {name} unlocked")?;
        }
        for (is_set, text) in [
            (has(self.acquisition, BUSY), "busy"),
            (has(self.acquisition, LICENSE_FAILED), "its firmware is not licensed"),
            (has(self.errors, POWER_FAILED), "power failed"),
            (has(self.errors, OVERHEATED), "too hot"),
        ] {
            if is_set {
                write!(f, ", {text}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_as_text() {
        let text = |acquisition, errors| Status { acquisition, errors }.to_string();
        assert_eq!(text(0x9, 0), "armed, clock locked");
        assert_eq!(text(0xB, 0), "running, clock locked");
        assert_eq!(text(0x0, 0), "not armed, clock not locked");
        assert_eq!(text(0x9, 0x10), "armed, clock not locked, LMK04832 unlocked");
        assert_eq!(
            text(0x59, 0x801),
            "armed, clock locked, busy, its firmware is not licensed, power failed, too hot"
        );
        assert_eq!((Status::bits("9"), Status::bits("0x9"), Status::bits("no")), (Some(9), Some(9), None));
    }
}
