//! The dashboard and the documentation name metrics that there are.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{metrics, serve};

/// Words that begin as metrics do.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_inside =
        |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    text.split(|character| !is_inside(character))
        .filter(|word| word.starts_with("thalweg_"))
        .map(str::to_owned)
        .collect()
}

fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{path}: {cause}"))
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let text = read("examples/grafana/dashboards/thalweg.json");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let expressions = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions: Vec<&str> =
        expressions.map(|target| target["expr"].as_str().expect("an expression")).collect();
    assert!(expressions.len() >= panels.len() / 2);
    let samples = metrics::read(&serve().client().get("/metrics").text()).expect("metrics");
    for name in metrics_in(&text) {
        assert!(samples.contains_key(&name), "{name} is in the dashboard and not in /metrics");
    }
}

#[test]
fn the_documentation_lists_every_metric() {
    let text = read("docs/operation/monitor.md");
    let samples = metrics::read(&serve().client().get("/metrics").text()).expect("metrics");
    let units = ["datagrams", "bytes", "frames", "hits", "fragments", "events"];
    let nouns = ["input", "output", "overhead", "filtered", "held", "lost", "gap_opened", "gap_filled"];
    let is_of_the_ledger = |name: &str| {
        let name = name.trim_end_matches("_total");
        nouns.iter().any(|noun| units.iter().any(|unit| name == format!("thalweg_{noun}_{unit}")))
    };
    for name in samples.keys().filter(|name| !is_of_the_ledger(name)) {
        assert!(text.contains(&format!("`{name}")), "{name} is not in docs/operation/monitor.md");
    }
}
