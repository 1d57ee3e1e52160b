//! The keys of the live state, which other people's programs read.

use std::collections::BTreeSet;

use serde_json::Value;

use super::serve;

/// Keys that `/api/state` has had: none may go, and new ones may come. Lists are left out of the paths.
const KEYS: &str = include_str!("state_keys.txt");

/// The paths of all properties of a schema.
fn paths(schema: &Value, document: &Value, before: &str, found: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let place = reference.strip_prefix('#').expect("inside the document");
        return paths(document.pointer(place).expect("described"), document, before, found);
    }
    for alternative in schema["anyOf"].as_array().into_iter().flatten() {
        paths(alternative, document, before, found);
    }
    if schema["items"].is_object() {
        paths(&schema["items"], document, before, found);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
        paths(property, document, &path, found);
        found.insert(path);
    }
}

#[test]
fn the_live_state_keeps_its_keys() {
    let document = serve().client().get("/api/openapi.json").json();
    let mut described = BTreeSet::new();
    paths(&document["components"]["schemas"]["LiveState"], &document, "", &mut described);
    let gone: Vec<&str> = KEYS.lines().filter(|key| !described.contains(*key)).collect();
    assert!(gone.is_empty(), "/api/state has no {gone:?} any more, which programs of others may read");
}

#[test]
fn what_is_served_is_what_is_described() {
    let served = serve();
    let document = served.client().get("/api/openapi.json").json();
    let schema = &document["components"]["schemas"]["LiveState"];
    let state = served.client().get("/api/state").json();
    let keys = |value: &Value| -> BTreeSet<String> {
        value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
    };
    let required = schema["required"].as_array().into_iter().flatten();
    let required: BTreeSet<String> = required.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    assert_eq!(keys(&state), required, "what the state always has");
    assert!(required.is_subset(&keys(&schema["properties"])));
}
