//! The description is fresh, and the description and the places are the same.

use std::collections::BTreeSet;

use serde_json::Value;

use super::describe;
use super::live::OPENAPI;
use super::places;

fn described() -> Value {
    serde_json::from_str(OPENAPI).expect("the description is JSON")
}

/// With `THALWEG_GENERATE=1`, as `make generated` sets it, the file is written anew instead.
#[test]
fn the_description_is_what_the_types_give() {
    let mut text = serde_json::to_string_pretty(&describe::document()).expect("plain data");
    text.push('\n');
    if std::env::var_os("THALWEG_GENERATE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/openapi.json");
        std::fs::write(file, text).expect("written");
        return;
    }
    let is_same = OPENAPI == text;
    assert!(is_same, "crates/monitor/src/openapi.json is not what the types give: run `make generated`");
}

#[test]
fn every_place_is_described_and_every_description_has_its_place() {
    let document = described();
    let paths = document["paths"].as_object().expect("paths");
    let described: BTreeSet<(&str, &str)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().expect("methods").keys().map(move |method| (method.as_str(), path.as_str()))
        })
        .collect();
    let places = places();
    let there: BTreeSet<(&str, &str)> = places.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(described, there);
}

#[test]
fn the_description_is_whole() {
    let document = described();
    assert_eq!(document["openapi"], "3.1.0");
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let name = operation["operationId"].as_str().expect("a name");
            assert!(names.insert(name), "{name} is there twice");
            assert!(operation["responses"]["200"]["description"].is_string(), "{path}");
            let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{path}");
            assert_eq!(operation["requestBody"].is_object(), method == "post", "{path}");
        }
    }
    check_references(&document, &document);
}

fn check_references(part: &Value, document: &Value) {
    match part {
        Value::Object(entries) => {
            if let Some(reference) = entries.get("$ref").and_then(Value::as_str) {
                let place = reference.strip_prefix('#').expect("inside the document");
                assert!(document.pointer(place).is_some(), "{reference}");
            }
            entries.values().for_each(|value| check_references(value, document));
        }
        Value::Array(values) => values.iter().for_each(|value| check_references(value, document)),
        _ => {}
    }
}
