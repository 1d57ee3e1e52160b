//! One check of the host: what is there, what is wanted and why, and what sets it.
//!
//! ```text
//!  reading ─► Check { name, value, wanted, why, severity, verdict, fix } ─┬► doctor, the page
//!                                                                        └► Fix: printed, or applied as root
//! ```

use schemars::JsonSchema;
use serde::Serialize;

use super::fix::Fix;

/// The effect on a run of a bad check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No effect by itself: good to know.
    Information,
    /// It is slower, or loses data in bursts.
    Warning,
    /// Data will be lost.
    Error,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// It is as wanted.
    Good,
    /// It is not.
    Bad,
    /// It could not be read, or there is nothing to hold it against.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// The subject of the check, with its network card or address: `ring (eth0)`.
    pub name: String,
    /// The value found, with its unit; for an unknown value, the reason.
    pub value: String,
    /// The value that would do.
    pub wanted: String,
    /// The purpose.
    pub why: String,
    /// The command that sets it; empty where it is good, and where no command can.
    pub command: String,
    /// How the setting survives the next start of the host; empty where there is no command.
    pub kept_by: String,
    /// The effect of a bad value.
    pub severity: Severity,
    /// The result of the check.
    pub verdict: CheckVerdict,
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) fix: Option<Fix>,
}

impl Check {
    /// Returns a check without a result yet.
    pub(super) fn of(name: impl Into<String>, severity: Severity, why: &str) -> Check {
        Check {
            name: name.into(),
            value: "unknown".to_owned(),
            wanted: String::new(),
            why: why.to_owned(),
            command: String::new(),
            kept_by: String::new(),
            severity,
            verdict: CheckVerdict::Unknown,
            fix: None,
        }
    }

    /// Sets a description of what would do.
    pub(super) fn wanting(self, wanted: impl Into<String>) -> Check {
        Check { wanted: wanted.into(), ..self }
    }

    /// Sets what was found, and whether it will do.
    pub(super) fn found(self, value: impl Into<String>, is_good: bool) -> Check {
        let verdict = if is_good { CheckVerdict::Good } else { CheckVerdict::Bad };
        Check { value: value.into(), verdict, ..self }
    }

    /// Sets what was found, where nothing says whether it will do.
    pub(super) fn noted(self, value: impl Into<String>) -> Check {
        Check { value: value.into(), ..self }
    }

    /// Why it is not known.
    pub(super) fn unknown(self, why: impl std::fmt::Display) -> Check {
        Check { value: format!("unknown: {why}"), verdict: CheckVerdict::Unknown, ..self }
    }

    /// Sets the fix of a bad value.
    pub(super) fn fixed_by(self, fix: Fix) -> Check {
        if self.verdict != CheckVerdict::Bad {
            return self;
        }
        Check { command: fix.command(), kept_by: fix.kept_by().to_owned(), fix: Some(fix), ..self }
    }

    /// Returns true if data will be lost.
    pub fn is_error(&self) -> bool {
        self.verdict == CheckVerdict::Bad && self.severity == Severity::Error
    }

    /// Its place in a list: the bad ones first, the worst of them in front.
    pub(super) fn urgency(&self) -> (u8, u8) {
        match self.verdict {
            CheckVerdict::Bad => (0, u8::MAX - self.severity as u8),
            CheckVerdict::Unknown => (1, 0),
            CheckVerdict::Good => (2, 0),
        }
    }

    /// Returns the fix, where there is one and it is needed.
    pub fn fix(&self) -> Option<&Fix> {
        self.fix.as_ref()
    }
}
