//! Every whole number that a configuration can have, far too small and far too large: refused with its line, or the run starts.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use thalweg_run::config::{Configuration, json_schema};
use thalweg_run::plan::Plan;
use thalweg_run::supervise::{EndWhen, RunHandle, Watch};

/// Budgets up to this are tried out; larger ones are only planned, for other tests run beside this one.
const TRIED_OUT_BYTES: u64 = 1 << 30;
/// Of the values that are planned, those whose runs are started: each takes a tenth of a second.
const TRIED_OUT: [i64; 1] = [1 << 31];
const EXTREMES: [i64; 7] = [-1, 0, 1, 65_537, 1 << 31, (1 << 32) + 1, i64::MAX];

const HITS: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n[source.emulate]\nchannels = 2\nrate_hz = 2e3\n\
                    [coincidence]\nwindow_ps = 100000\n[monitor]\nenabled = false\n";
const EVENTS: &str = "[[source]]\nname = \"left\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 2\n[trigger]\nrate_hz = 2e3\n";
const SLICES: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n[source.emulate]\nchannels = 2\nrate_hz = 2e3\n\
                      [slices]\nslice_ps = 1000000000\n";

fn resolved<'s>(schema: &'s Value, of: &'s Value) -> &'s Value {
    if let Some(name) = of["$ref"].as_str() {
        return resolved(schema, &schema["$defs"][name.rsplit('/').next().unwrap_or_default()]);
    }
    let options = of["anyOf"].as_array().into_iter().flatten();
    options.map(|option| resolved(schema, option)).find(|option| option["type"] != "null").unwrap_or(of)
}

/// Paths of the keys that take a whole number, in one table.
fn integers(schema: &Value, of: &Value, path: &[&str], found: &mut BTreeSet<Vec<String>>) {
    let of = resolved(schema, of);
    for (key, property) in of["properties"].as_object().into_iter().flatten() {
        let path: Vec<&str> = path.iter().copied().chain([&key[..]]).collect();
        let property = resolved(schema, property);
        let types = &property["type"];
        if types == "integer" || types.as_array().is_some_and(|types| types.contains(&"integer".into())) {
            found.insert(path.iter().map(|key| (*key).to_owned()).collect());
        }
        integers(schema, property, &path, found);
    }
}

/// The same of a configuration with sources of one format.
fn keys(format: &str, sections: &[&str]) -> BTreeSet<Vec<String>> {
    let (schema, mut found) = (json_schema(), BTreeSet::new());
    for section in sections {
        integers(&schema, &schema["properties"][*section], &[section], &mut found);
    }
    let kinds = schema["properties"]["source"]["items"]["oneOf"].as_array().expect("formats");
    let is_meant = |kind: &&Value| kind["properties"]["format"]["const"] == format;
    integers(&schema, kinds.iter().find(is_meant).expect("this format"), &["source"], &mut found);
    found
}

/// The text with one key set.
fn with(text: &str, path: &[String], value: i64) -> Option<String> {
    let mut top: toml::Table = text.parse().expect("a valid text");
    let mut table = &mut top;
    for key in &path[..path.len() - 1] {
        let inner = table.entry(key.clone()).or_insert_with(|| toml::Table::new().into());
        table = match inner {
            toml::Value::Array(tables) => tables.first_mut()?.as_table_mut()?,
            inner => inner.as_table_mut()?,
        };
    }
    table.insert(path.last()?.clone(), value.into());
    toml::to_string(&top).ok()
}

/// What is wrong with the handling of one value, if anything.
fn fault(text: &str, path: &[String], value: i64, runs: &Path) -> Option<String> {
    let file = Path::new("extreme.toml");
    let planned = Configuration::parse(file, text.to_owned()).and_then(|mut configuration| {
        configuration.record.directory = runs.to_owned();
        Plan::of(&configuration).map(|plan| (configuration, plan))
    });
    let (configuration, plan) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            let message = error.to_string();
            // A table may be refused before its keys are looked at.
            let is_named = path[1..].iter().rev().chain(&path[..1]).take(2).any(|key| message.contains(key));
            let is_whole = message.contains("extreme.toml") && message.contains("line ") && is_named;
            return (!is_whole).then(|| format!("says neither line nor key: {message}"));
        }
    };
    if plan.total_bytes > TRIED_OUT_BYTES || !TRIED_OUT.contains(&value) {
        return None;
    }
    let (never, handle) = (AtomicBool::new(false), RunHandle::new());
    let mut watch = Watch { show: &mut |_| {}, stop: &never, handle };
    let end = EndWhen { seconds: Some(0.01), ..EndWhen::default() };
    match thalweg_run::run_planned(&configuration, plan, end, &mut watch) {
        Ok(_) => None,
        Err(error) => Some(format!("was planned and does not start: {error}")),
    }
}

fn sweep(text: &str, format: &str, sections: &[&str]) {
    let runs = tempfile::tempdir().expect("a directory");
    let mut faults = Vec::new();
    let keys = keys(format, sections);
    assert!(keys.len() > 10, "{keys:?}");
    for path in &keys {
        for value in EXTREMES {
            let Some(text) = with(text, path, value) else { continue };
            let tried = catch_unwind(AssertUnwindSafe(|| fault(&text, path, value, runs.path())));
            let fault = tried.unwrap_or_else(|_| Some("panics".to_owned()));
            faults.extend(fault.map(|fault| format!("{} = {value}: {fault}", path.join("."))));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn extreme_numbers_of_sources_of_hits_are_refused_with_their_line_or_start() {
    let sections = [
        "order",
        "channels",
        "clocks",
        "coincidence",
        "spectra",
        "pulses",
        "record",
        "monitor",
        "notify",
        "unattended",
    ];
    sweep(HITS, "digitizer2", &sections);
}

#[test]
fn extreme_numbers_of_triggered_sources_are_refused_with_their_line_or_start() {
    sweep(EVENTS, "fragment", &["trigger", "busy", "build", "record"]);
}

#[test]
fn extreme_numbers_of_time_slices_are_refused_with_their_line_or_start() {
    sweep(SLICES, "digitizer2", &["slices", "build"]);
}

#[test]
fn memory_beyond_the_machine_is_refused_with_the_line_that_asks_for_it() {
    for (text, line, key) in [
        (format!("{HITS}[order]\nmemory_bytes = 9000000000000000\n"), "line 13", "[order] memory_bytes"),
        (format!("{EVENTS}[build]\nchained_slices = 2147483648\n"), "line 9", "chained_slices"),
    ] {
        let configuration = Configuration::parse(Path::new("run.toml"), text).expect("each value is allowed");
        let message = Plan::of(&configuration).expect_err("too much").to_string();
        assert!(message.contains(line) && message.contains(key), "{message}");
    }
}
