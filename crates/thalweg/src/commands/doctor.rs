//! Checks that this host is fit for taking data, and lists what fixes the bad values.
//!
//! ```text
//!  configuration ─► needs ─┐
//!  host ───────────────────┴► checks ─► table, JSON
//!                                  └─► fixes: commands, lines for sysctl.d; applied as root when asked for
//! ```

use std::fmt::Write as _;

use anyhow::anyhow;
use serde::Serialize;
use thalweg_qualify::host::{
    Check, CheckVerdict, Fix, HostFiles, Needs, Probe, SYSCTL_FILE, Severity, checks,
};
use thalweg_run::config::Configuration;
use thalweg_run::plan::Plan;

use super::Ended;
use crate::arguments;
use crate::report::{CommandOutcome, Failure, print};

/// The checks, and what was done about them.
#[derive(Serialize)]
struct Report {
    checks: Vec<Check>,
    /// With `--apply`: each command that was run, and its errors.
    applied: Vec<Applied>,
    /// Checks that are bad after it: errors, warnings.
    errors: usize,
    warnings: usize,
    unknown: usize,
}

#[derive(Serialize)]
struct Applied {
    command: String,
    /// Empty where it worked.
    error: String,
}

pub(crate) fn doctor(options: &arguments::Doctor, json: bool) -> Ended {
    let needs = needs(options)?;
    let probe = if options.probe { Probe::Ways } else { Probe::Nothing };
    let is_asked = |check: &Check| {
        options.only.is_empty() || options.only.iter().any(|name| check.name.contains(name.as_str()))
    };
    let look =
        || checks(&HostFiles::of_host(), &needs, probe).into_iter().filter(is_asked).collect::<Vec<_>>();
    let (mut found, mut applied) = (look(), Vec::new());
    if found.is_empty() {
        let names = options.only.join("`, `");
        return Err(Failure::Usage(anyhow!(
            "no check has `{names}` in its name; `thalweg doctor --all` prints all of them"
        )));
    }
    if options.apply {
        applied = fixes(&found).map(apply).collect();
        found = look();
    }
    let report = Report::of(found, applied);
    print(&report, json, |report| report.words(options))?;
    let is_good = report.errors == 0 && report.applied.iter().all(|fix| fix.error.is_empty());
    Ok(if is_good { CommandOutcome::Done } else { CommandOutcome::Failed })
}

/// Returns the needs of the configuration, or those of any receiver where there is none.
fn needs(options: &arguments::Doctor) -> Result<Needs, Failure> {
    let mut needs = match &options.configuration {
        Some(file) => {
            let configuration = Configuration::read(file)?;
            let plan = Plan::of(&configuration)?;
            thalweg_run::needs(&configuration, Some(plan.total_bytes))
        }
        None => Needs::default(),
    };
    for (what, value) in [
        ("bytes-per-second", options.bytes_per_second),
        ("payload-bytes", options.payload_bytes.map(|bytes| bytes as f64)),
    ] {
        if value.is_some_and(|value| !(value.is_finite() && value > 0.0)) {
            return Err(Failure::Usage(anyhow!("--{what} is no positive number of bytes")));
        }
    }
    for load in &mut needs.socket_loads {
        load.bytes_per_s = options.bytes_per_second.or(load.bytes_per_s);
        load.payload_bytes = options.payload_bytes.unwrap_or(load.payload_bytes);
    }
    Ok(needs)
}

/// Returns the commands that set the bad values; each once.
fn fixes(checks: &[Check]) -> impl Iterator<Item = &Fix> {
    let mut seen = Vec::new();
    checks.iter().filter_map(Check::fix).filter(move |fix| {
        let is_new = !seen.contains(fix);
        seen.push(*fix);
        is_new
    })
}

fn apply(fix: &Fix) -> Applied {
    let error = fix.apply().err().map_or(String::new(), |error| error.to_string());
    Applied { command: fix.command(), error }
}

impl Report {
    fn of(checks: Vec<Check>, applied: Vec<Applied>) -> Report {
        let bad = |severity| {
            checks
                .iter()
                .filter(|check| check.verdict == CheckVerdict::Bad && check.severity == severity)
                .count()
        };
        let (errors, warnings) = (bad(Severity::Error), bad(Severity::Warning));
        let unknown = checks.iter().filter(|check| check.verdict == CheckVerdict::Unknown).count();
        Report { checks, applied, errors, warnings, unknown }
    }

    fn words(&self, options: &arguments::Doctor) -> String {
        let mut text = String::new();
        let shown = self
            .checks
            .iter()
            .filter(|check| options.all || check.verdict == CheckVerdict::Bad || is_noted(check));
        for check in shown {
            let _ = writeln!(text, "{}", line(check));
        }
        if options.fix {
            text += &self.fix_text(options.apply);
        }
        let all = self.checks.len();
        let good = self.checks.iter().filter(|check| check.verdict == CheckVerdict::Good).count();
        let hidden = if options.all { "" } else { "; --all prints these, too" };
        let _ = write!(
            text,
            "{all} checks: {} will lose data, {} may, {good} good, {} without a verdict{hidden}",
            self.errors, self.warnings, self.unknown
        );
        text
    }

    fn fix_text(&self, is_applied: bool) -> String {
        if is_applied {
            let line = |fix: &Applied| match fix.error.is_empty() {
                true => format!("set: {}\n", fix.command),
                false => format!("NOT set: {}\n", fix.error),
            };
            return self.applied.iter().map(line).collect();
        }
        let mut text = String::new();
        let commands: Vec<String> = fixes(&self.checks).map(Fix::command).collect();
        if commands.is_empty() {
            return "nothing to set\n".to_owned();
        }
        let _ = writeln!(text, "to set it now, as root:\n  {}", commands.join("\n  "));
        let kept: Vec<String> = fixes(&self.checks).filter_map(Fix::sysctl_line).collect();
        if !kept.is_empty() {
            let _ = writeln!(text, "to keep it over a restart, in {SYSCTL_FILE}:\n  {}", kept.join("\n  "));
        }
        for fix in fixes(&self.checks).filter(|fix| fix.sysctl_line().is_none()) {
            let _ = writeln!(text, "{} is kept by {}", fix.command(), fix.kept_by());
        }
        text
    }
}

/// Values that were read and are compared with nothing are worth a line; values that could not be read are not.
fn is_noted(check: &Check) -> bool {
    check.verdict == CheckVerdict::Unknown
        && !check.value.starts_with("unknown")
        && check.severity > Severity::Information
}

fn line(check: &Check) -> String {
    let sign = match (check.verdict, check.severity) {
        (CheckVerdict::Bad, Severity::Error) => "✗ LOSES DATA",
        (CheckVerdict::Bad, Severity::Warning) => "▲ warning",
        (CheckVerdict::Bad, Severity::Information) => "· better",
        (CheckVerdict::Unknown, _) => "○ no verdict",
        (CheckVerdict::Good, _) => "● good",
    };
    let Check { name, value, wanted, why, command, .. } = check;
    let mut text = format!("{sign:<13} {name}: {value}");
    if check.verdict != CheckVerdict::Good && !wanted.is_empty() {
        let _ = write!(text, "\n              wanted: {wanted}");
    }
    if check.verdict == CheckVerdict::Bad {
        let _ = write!(text, "\n              why: {why}");
    }
    if !command.is_empty() {
        let _ = write!(text, "\n              {command}");
    }
    text
}
