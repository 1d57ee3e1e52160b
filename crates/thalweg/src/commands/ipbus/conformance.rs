//! Tests whether a board's firmware conforms to IPbus 2.0: a report for its author.

use std::time::Duration;

use anyhow::anyhow;
use thalweg_ipbus::conformance::{Check, Verdict, conformance as hold};
use thalweg_ipbus::uri::{Transport, Uri};

use super::{address_of, connection, usage};
use crate::arguments::IpbusConformance;
use crate::commands::Ended;
use crate::report::{CommandOutcome, print};

/// Holds a board against every rule.
pub(super) fn conformance(options: &IpbusConformance, json: bool) -> Ended {
    let (uri, table) = connection(&options.target)?;
    let uri: Uri = uri.parse().map_err(usage)?;
    if uri.transport != Transport::Udp {
        let message = "numbers and lost replies are of datagrams; give ipbusudp-2.0://HOST:PORT";
        return Err(usage(anyhow!("`{}`: {message}", uri.text)));
    }
    let register = options.register.as_deref().map(|register| address_of(&table, register)).transpose()?;
    let checks = hold(uri.place, register, Duration::from_millis(options.wait_ms))?;
    let count = |wanted: fn(&Verdict) -> bool| checks.iter().filter(|check| wanted(&check.verdict)).count();
    let failing = count(|verdict| matches!(verdict, Verdict::Fails(_)));
    let holding = count(|verdict| *verdict == Verdict::Holds);
    let value = serde_json::json!({
        "target": uri.text,
        "holding": holding,
        "failing": failing,
        "open": checks.len() - holding - failing,
        "checks": checks.iter().map(value_of).collect::<Vec<_>>(),
    });
    print(&value, json, |_| {
        let last = format!("{holding} of {} rules hold, {failing} fail", checks.len());
        checks.iter().map(line).chain([last]).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if holding == checks.len() { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn words_of(verdict: &Verdict) -> (&'static str, Option<&str>) {
    match verdict {
        Verdict::Holds => ("holds", None),
        Verdict::Fails(seen) => ("FAILS", Some(seen)),
        Verdict::Open(why) => ("open", Some(why)),
    }
}

fn value_of(check: &Check) -> serde_json::Value {
    let (verdict, seen) = words_of(&check.verdict);
    serde_json::json!({ "rule": check.rule, "verdict": verdict.to_lowercase(), "seen": seen })
}

fn line(check: &Check) -> String {
    let (verdict, seen) = words_of(&check.verdict);
    let seen = seen.map_or(String::new(), |seen| format!("\n         {seen}"));
    format!("{verdict:5}    {}{seen}", check.rule)
}
