//! Every number that a configuration can have, far too small and far too large: refused with its line, or the run starts.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_run::config::{Configuration, json_schema};
use thalweg_run::plan::Plan;
use thalweg_run::supervise::{EndWhen, RunHandle, Watch};

/// Budgets up to this are tried out; larger ones are only planned, for other tests run beside this one.
const TRIED_OUT_BYTES: u64 = 1 << 30;
/// Of the values that are planned, those whose runs are started: each takes a tenth of a second.
const TRIED_OUT: [i64; 1] = [1 << 31];
/// A run of a hundredth of a second takes longer than this, on a busy machine, too, when a value makes it wait for something that does
/// not come.
const LONGEST_RUN: Duration = Duration::from_secs(100);
const EXTREMES: [i64; 7] = [-1, 0, 1, 65_537, 1 << 31, (1 << 32) + 1, i64::MAX];
/// Of keys that take any number.
const EXTREME_REALS: [f64; 6] = [-1.0, 0.0, 1e-300, 1e300, f64::INFINITY, f64::NAN];
const TRIED_OUT_REALS: [f64; 1] = [1e300];
/// In a path: the first table of those whose names the user chooses.
const ANY: &str = "*";

/// A file of data for formats of files: the header of a CoMPASS file, or some ABCD records.
const FILE: &[u8] = &[0xE1, 0xCA, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const HITS: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16777216\n[source.emulate]\nchannels = 2\nrate_hz = 2e3\n\
                    [coincidence]\nwindow_ps = 100000\n[monitor]\n";
const EVENTS: &str = "[[source]]\nname = \"left\"\nformat = \"fragment\"\nurl = \"emulate://\"\nmemory_bytes = 16777216\nboards = 2\n[trigger]\nrate_hz = 2e3\n";
const SLICES: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16777216\n[source.emulate]\nchannels = 2\nrate_hz = 2e3\n\
                      [slices]\nslice_ps = 1000000000\n";

const GENERIC: &str = "[[source]]\nname = \"left\"\nformat = \"generic\"\nurl = \"udp://127.0.0.1:0\"\nbyte_order = \"big\"\nheader_bytes = 16\n\
                       [source.field]\nnumber = { offset = 0, width = 2, mask = 0xFFFF, shift = 0 }\nkind = { offset = 2, width = 1 }\n\
                       module = { offset = 3, width = 1 }\ntrigger = { offset = 4, width = 4 }\ntime = { offset = 8, width = 6 }\n\
                       words = { offset = 14, width = 2 }\n\
                       [source.accept]\nfield = \"kind\"\nvalues = [1]\n[[source.check]]\nfield = \"kind\"\nequals = 1\n\
                       [source.part]\nfields = [\"module\"]\n\
                       [source.sequence]\nfield = \"number\"\nscope = \"frame\"\npackets_per_frame = 4\n\
                       [source.trigger]\nfield = \"trigger\"\n[source.timestamp]\nfield = \"time\"\ntick_ps = 1e4\n\
                       [source.length]\nfield = \"words\"\nunit_bytes = 2\n[source.payload]\noffset_field = \"words\"\n\
                       [source.hits]\nper = \"packet\"\n";
const COMPASS: &str = "[[source]]\nname = \"left\"\nformat = \"compass\"\nurl = \"file://FILE\"\n";
const ABCD: &str = "[[source]]\nname = \"left\"\nformat = \"abcd\"\nurl = \"file://FILE\"\ntick_ps = 2.0\n";
const SITCP: &str = "[[source]]\nname = \"left\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nmemory_bytes = 16777216\nboards = 2\nprofile = \"recbe\"\n[trigger]\nrate_hz = 2e3\n";
const UNITS: &str = "[[source]]\nname = \"left\"\nformat = \"fragment\"\nurl = \"emulate://\"\nmemory_bytes = 16777216\n[trigger]\nrate_hz = 2e3\n[record]\ntables = [\"events\", \"fragments\"]\n\
                     [[unit]]\nname = \"builder\"\nkind = \"builder\"\n[[unit]]\nname = \"readout\"\nkind = \"readout\"\nsources = [\"left\"]\n\
                     [[unit]]\nname = \"manager\"\nkind = \"manager\"\n";

fn resolved<'s>(schema: &'s Value, of: &'s Value) -> &'s Value {
    if let Some(name) = of["$ref"].as_str() {
        return resolved(schema, &schema["$defs"][name.rsplit('/').next().unwrap_or_default()]);
    }
    let options = of["anyOf"].as_array().into_iter().flatten();
    options.map(|option| resolved(schema, option)).find(|option| option["type"] != "null").unwrap_or(of)
}

/// Paths of the keys that take a number, in one table or the tables of a list.
fn numbers(schema: &Value, of: &Value, path: &[&str], found: &mut BTreeSet<(Vec<String>, bool)>) {
    let of = resolved(schema, of);
    let tables = resolved(schema, &of["items"]);
    if tables["properties"].is_object() {
        numbers(schema, tables, path, found);
    }
    if of["additionalProperties"].is_object() {
        let path: Vec<&str> = path.iter().copied().chain([ANY]).collect();
        numbers(schema, &of["additionalProperties"], &path, found);
    }
    for (key, property) in of["properties"].as_object().into_iter().flatten() {
        let path: Vec<&str> = path.iter().copied().chain([&key[..]]).collect();
        let property = resolved(schema, property);
        let types = &property["type"];
        for (kind, is_real) in [("integer", false), ("number", true)] {
            if types == kind || types.as_array().is_some_and(|types| types.contains(&kind.into())) {
                found.insert((path.iter().map(|key| (*key).to_owned()).collect(), is_real));
            }
        }
        numbers(schema, property, &path, found);
    }
}

/// The same of a configuration with sources of one format.
fn keys(format: &str, sections: &[&str]) -> BTreeSet<(Vec<String>, bool)> {
    let (schema, mut found) = (json_schema(), BTreeSet::new());
    for section in sections {
        numbers(&schema, &schema["properties"][*section], &[section], &mut found);
    }
    let kinds = schema["properties"]["source"]["items"]["oneOf"].as_array().expect("formats");
    let is_meant = |kind: &&Value| kind["properties"]["format"]["const"] == format;
    numbers(&schema, kinds.iter().find(is_meant).expect("this format"), &["source"], &mut found);
    found
}

/// The text with one key set, and the key's path in it.
fn with(text: &str, path: &[String], value: toml::Value) -> Option<(String, Vec<String>)> {
    let mut top: toml::Table = text.parse().expect("a valid text");
    let mut table = &mut top;
    let mut path = path.to_vec();
    for key in path.iter_mut().rev().skip(1).rev() {
        if key == ANY {
            *key = table.keys().next()?.clone();
        }
        let inner = table.entry(key.clone()).or_insert_with(|| toml::Table::new().into());
        table = match inner {
            toml::Value::Array(tables) => tables.first_mut()?.as_table_mut()?,
            inner => inner.as_table_mut()?,
        };
    }
    table.insert(path.last()?.clone(), value);
    toml::to_string(&top).ok().map(|text| (text, path))
}

/// What is wrong with the handling of one value, if anything. Without a directory for runs it is planned only.
fn fault(text: &str, path: &[String], value: &toml::Value, runs: Option<&Path>) -> Option<String> {
    let file = Path::new("extreme.toml");
    let planned = Configuration::parse(file, text.to_owned()).and_then(|mut configuration| {
        configuration.record.directory = runs.unwrap_or(Path::new("runs")).to_owned();
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
    if value.as_float().is_some_and(|value| !value.is_finite()) {
        return Some("is no number to plan with, and was planned".to_owned());
    }
    let is_tried_out = match value {
        toml::Value::Integer(value) => TRIED_OUT.contains(value),
        toml::Value::Float(value) => TRIED_OUT_REALS.contains(value),
        _ => true,
    };
    if plan.total_bytes > TRIED_OUT_BYTES || !is_tried_out || runs.is_none() {
        return None;
    }
    let begun = Instant::now();
    let (never, handle) = (AtomicBool::new(false), RunHandle::new());
    let mut watch = Watch { show: &mut |_| {}, stop: &never, handle };
    let end = EndWhen { seconds: Some(0.01), ..EndWhen::default() };
    match thalweg_run::run_planned(&configuration, plan, end, &mut watch) {
        Ok(summary)
            if summary.failures.iter().any(|failure| failure.contains("did not come to their end")) =>
        {
            Some(format!("does not end: {:?}", summary.failures))
        }
        Ok(_) if begun.elapsed() > LONGEST_RUN => Some(format!("ended after {:?}", begun.elapsed())),
        Ok(_) => None,
        Err(error) => Some(format!("was planned and does not start: {error}")),
    }
}

fn sweep(text: &str, format: &str, sections: &[&str]) {
    let runs = tempfile::tempdir().expect("a directory");
    let file = runs.path().join("file");
    std::fs::write(&file, FILE).expect("written");
    let text = &text.replace("FILE", &file.display().to_string());
    let mut faults = Vec::new();
    let keys = keys(format, sections);
    assert!(keys.len() > 10, "{keys:?}");
    assert_eq!(fault(text, &["nothing".to_owned()], &toml::Value::from(true), Some(runs.path())), None);
    // What sources of all formats have in common is tried out with those of one.
    let known = if format == "digitizer2" { BTreeSet::new() } else { self::keys("digitizer2", &[]) };
    for key in &keys {
        let (path, is_real) = key;
        let runs = Some(runs.path()).filter(|_| !known.contains(key));
        let whole = EXTREMES.into_iter().map(toml::Value::from);
        let real = EXTREME_REALS.into_iter().map(toml::Value::from);
        for value in whole.chain(real.filter(|_| *is_real)) {
            let Some((text, path)) = with(text, path, value.clone()) else { continue };
            let tried = catch_unwind(AssertUnwindSafe(|| fault(&text, &path, &value, runs)));
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
fn extreme_numbers_of_described_sources_are_refused_with_their_line_or_start() {
    sweep(GENERIC, "generic", &["channels", "channel"]);
}

#[test]
fn extreme_numbers_of_compass_files_are_refused_with_their_line_or_start() {
    sweep(COMPASS, "compass", &["run"]);
}

#[test]
fn extreme_numbers_of_abcd_files_are_refused_with_their_line_or_start() {
    sweep(ABCD, "abcd", &[]);
}

#[test]
fn extreme_numbers_of_sitcp_sources_are_refused_with_their_line_or_start() {
    sweep(SITCP, "sitcp", &[]);
}

#[test]
fn extreme_numbers_of_units_are_refused_with_their_line_or_start() {
    sweep(UNITS, "fragment", &["unit", "build"]);
}

#[test]
fn memory_beyond_the_machine_is_refused_with_the_line_that_asks_for_it() {
    for (text, line, key) in [
        (format!("{HITS}[order]\nmemory_bytes = 9000000000000000\n"), "line 13", "[order] memory_bytes"),
        (format!("{EVENTS}[build]\nchained_slices = 2147483648\n"), "line 10", "chained_slices"),
    ] {
        let configuration = Configuration::parse(Path::new("run.toml"), text).expect("each value is allowed");
        let message = Plan::of(&configuration).expect_err("too much").to_string();
        assert!(message.contains(line) && message.contains(key), "{message}");
    }
}
