//! The metrics are OpenMetrics, by a reader that takes the standard at its word.

use std::collections::{BTreeMap, BTreeSet};

use super::serve;

/// Names of all samples, and how many of each.
pub fn read(text: &str) -> Result<BTreeMap<String, usize>, String> {
    let text = text.strip_suffix("# EOF\n").ok_or("the last line is # EOF")?;
    let (mut families, mut samples) = (BTreeSet::new(), BTreeMap::new());
    let mut seen = BTreeSet::new();
    let (mut family, mut kind) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("# TYPE ") {
            let (name, word) = words.split_once(' ').ok_or(line)?;
            if !families.insert(name.to_owned()) {
                return Err(format!("{name} begins twice"));
            }
            (family, kind) = (name.to_owned(), word.to_owned());
        } else if let Some(words) = line.strip_prefix("# UNIT ") {
            let (name, unit) = words.split_once(' ').ok_or(line)?;
            if name != family || !name.ends_with(&format!("_{unit}")) {
                return Err(format!("{line}: not the unit of {family}"));
            }
        } else if let Some(words) = line.strip_prefix("# HELP ") {
            if words.split(' ').next() != Some(&family) {
                return Err(format!("{line}: not the help of {family}"));
            }
        } else {
            let (name, labels, value) = sample(line)?;
            let suffix = match kind.as_str() {
                "counter" => "_total",
                "gauge" => "",
                "info" => "_info",
                other => return Err(format!("{other} is not known here")),
            };
            if name != format!("{family}{suffix}") {
                return Err(format!("{line}: not of {family}"));
            }
            if kind == "counter" && (value.is_nan() || value < 0.0) {
                return Err(format!("{line}: a counter is a number, 0 or more"));
            }
            if !seen.insert((name.clone(), labels)) {
                return Err(format!("{line}: twice"));
            }
            *samples.entry(name).or_insert(0) += 1;
        }
    }
    Ok(samples)
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
}

type Labels = BTreeMap<String, String>;

fn sample(line: &str) -> Result<(String, Labels, f64), String> {
    let wrong = |what: &str| format!("{line}: {what}");
    let end = line.find(['{', ' ']).ok_or_else(|| wrong("no value"))?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or_else(|| wrong("a label has a value"))?;
            let mut value = String::new();
            let mut characters = after.char_indices();
            let close = loop {
                match characters.next().ok_or_else(|| wrong("an open quote"))? {
                    (at, '"') => break at,
                    (_, '\\') => match characters.next() {
                        Some((_, 'n')) => value.push('\n'),
                        Some((_, same @ ('"' | '\\'))) => value.push(same),
                        _ => return Err(wrong("a quote of nothing")),
                    },
                    (_, other) => value.push(other),
                }
            };
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return Err(wrong("a label is a name, once"));
            }
            rest = &after[close + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break rest = rest.strip_prefix('}').ok_or_else(|| wrong("labels end"))?,
            }
        }
    }
    let value = rest.strip_prefix(' ').and_then(|text| text.parse().ok()).ok_or_else(|| wrong("a number"))?;
    if is_name(name) { Ok((name.to_owned(), labels, value)) } else { Err(wrong("a name")) }
}

#[test]
fn the_metrics_are_of_the_standard_and_hold_the_ledger() {
    let served = serve();
    let answer = served.client().get("/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = answer.text();
    let samples = read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for name in [
        "thalweg_input_hits_total",
        "thalweg_lost_datagrams_total",
        "thalweg_held_fragments",
        "thalweg_source_hit_rate_hertz",
        "thalweg_channel_hit_rate_hertz",
        "thalweg_disk_left_seconds",
        "thalweg_busy_ratio",
        "thalweg_clock_locked",
        "thalweg_alarm_active",
        "thalweg_series",
        "thalweg_monitor_answers_total",
    ] {
        assert!(samples.contains_key(name), "{name} in\n{text}");
    }
    assert_eq!(samples["thalweg_run_state"], 7);
    let loss = r#"thalweg_lost_hits_total{stage="order",source="bo\"ard\\1",unit="hits",reason="late"} 2"#;
    assert!(text.lines().any(|line| line == loss), "{text}");
}

#[test]
fn the_reader_refuses_what_is_not_of_the_standard() {
    for wrong in [
        "",
        "x 1\n# EOF\n",
        "# TYPE x gauge\nx{a=\"1} 1\n# EOF\n",
        "# TYPE x counter\nx 1\n# EOF\n",
        "# TYPE x gauge\nx 1\nx 1\n# EOF\n",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
