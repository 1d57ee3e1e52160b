//! Lists the parameters in the device tree that a board reports (`getDeviceTree`), with the limits that it states.
//!
//! ```text
//!  {"par": {"numch": {"value": "64", "accessmode": {"value": "READ_ONLY"}}}, "ch": {"0": …}} ──► /par/numch 64, /ch/0/par/…
//! ```
//! Attributes of a parameter are nodes inside it. Boards name them in lower case.

use std::collections::HashMap;

use serde_json::Value;
use thalweg_data::Parameter;

use crate::digitizer2::parameters::check::Node;
use crate::digitizer2::parameters::{Range, Rule, Words};

/// Deepest node that is read: boards have about six levels.
const MOST_LEVELS: usize = 16;

/// Ways to registers: their value says which register is meant, and is no state of the board that could be set again.
const REGISTER_ACCESS: [&str; 2] = ["/par/registermisc", "/par/registeruser"];

/// All parameters of a tree, in the order of the board.
///
/// # Errors
/// When the text is not a tree.
pub fn parameters_of(tree: &str) -> Result<Vec<Parameter>, String> {
    let parameter = |path: &str, node: &Value| Parameter {
        path: path.to_owned(),
        value: node["value"].as_str().map(str::to_owned),
        is_settable: is_settable(node) && !REGISTER_ACCESS.contains(&path),
    };
    each_of(tree, parameter)
}

/// What the board says of each parameter of a tree, by its path in lower case.
///
/// # Errors
/// When the text is not a tree.
pub fn nodes_of(tree: &str) -> Result<HashMap<String, Node>, String> {
    let node = |path: &str, node: &Value| {
        let described = Node { is_settable: is_settable(node), rule: rule_of(node), unit: unit_of(node) };
        (path.to_owned(), described)
    };
    each_of(tree, node).map(|nodes| nodes.into_iter().collect())
}

/// Calls `take` for every node that has a value.
fn each_of<T>(tree: &str, take: impl Fn(&str, &Value) -> T) -> Result<Vec<T>, String> {
    let tree: Value =
        serde_json::from_str(tree).map_err(|error| format!("the device tree is not JSON: {error}"))?;
    let mut found = Vec::new();
    add(&tree, "", 0, &mut |path, node| found.push(take(path, node)));
    match found.is_empty() {
        true => Err("the device tree has no parameter".to_owned()),
        false => Ok(found),
    }
}

fn add(node: &Value, path: &str, level: usize, take: &mut dyn FnMut(&str, &Value)) {
    let Some(children) = node.as_object().filter(|_| level < MOST_LEVELS) else { return };
    if node["value"].is_string() {
        take(path, node);
        return;
    }
    for (name, child) in children.iter().filter(|(_, child)| child.is_object()) {
        add(child, &format!("{path}/{}", name.to_lowercase()), level + 1, take);
    }
}

/// An attribute: a node with a value, or a text.
fn attribute<'n>(node: &'n Value, name: &str) -> Option<&'n str> {
    node[name]["value"].as_str().or_else(|| node[name].as_str()).filter(|text| !text.is_empty())
}

fn is_settable(node: &Value) -> bool {
    // An attribute, such as the port of an endpoint, describes its parent.
    let is_attribute = node["type"].as_str() == Some("ATTRIBUTE");
    attribute(node, "accessmode").map_or(!is_attribute, |mode| mode.contains("WRITE"))
}

fn rule_of(node: &Value) -> Option<Rule> {
    let number = |name| attribute(node, name).and_then(|text| text.trim().parse::<f64>().ok());
    let words = words_of(node);
    if !words.is_empty() {
        let joins = attribute(node, "multiplevalue").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let words = Words::Listed(words);
        return Some(if joins { Rule::AnyOf(words) } else { Rule::OneOf(words) });
    }
    let step = number("increment").filter(|step| *step > 0.0);
    let limits = number("minvalue").zip(number("maxvalue")).filter(|(low, high)| low < high);
    limits.map(|(low, high)| Rule::Number(Some(Range { low, high, step })))
}

fn words_of(node: &Value) -> Vec<String> {
    let listed = node["allowedvalues"].as_object().into_iter().flatten();
    let numbered = listed.filter_map(|(number, word)| {
        let word = word["value"].as_str().or_else(|| word.as_str())?;
        Some((number.parse::<u32>().ok()?, word.to_owned()))
    });
    let mut words: Vec<(u32, String)> = numbered.collect();
    words.sort();
    words.into_iter().map(|(_, word)| word).collect()
}

/// The unit with its power of ten: "s" and "-9" are ns.
fn unit_of(node: &Value) -> String {
    let unit = attribute(node, "uom").unwrap_or_default();
    let prefix = match attribute(node, "expuom") {
        Some("-12") => "p",
        Some("-9") => "n",
        Some("-6") => "u",
        Some("-3") => "m",
        Some("3") => "k",
        Some("6") => "M",
        _ => "",
    };
    format!("{prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digitizer2::control::Tree;
    use crate::digitizer2::emulate::Settings;

    #[test]
    fn every_parameter_of_an_emulated_board_is_listed_with_its_path() {
        let tree = Tree::new(&Settings { channels: 2, ..Settings::default() }, 1);
        let listed = parameters_of(&tree.to_json().to_string()).expect("a tree");
        assert!(listed.len() > 20, "{listed:?}");
        for Parameter { path, value, .. } in &listed {
            assert_eq!(tree.value(path), *value, "{path}");
        }
        let channels = listed.iter().find(|one| one.path == "/par/numch").expect("every board has it");
        assert_eq!((channels.value.as_deref(), channels.is_settable), (Some("2"), false));
    }

    #[test]
    fn ways_to_registers_can_be_set_and_are_no_state_that_is_listed() {
        let tree = Tree::new(&Settings { channels: 2, ..Settings::default() }, 1).to_json().to_string();
        let (listed, nodes) = (parameters_of(&tree).expect("a tree"), nodes_of(&tree).expect("a tree"));
        for path in REGISTER_ACCESS {
            let one = listed.iter().find(|one| one.path == path).expect("every board has it");
            assert!(!one.is_settable && nodes[path].is_settable, "{path}");
        }
    }

    #[test]
    fn limits_words_and_units_are_those_of_the_board() {
        let tree = r#"{"par": {"width": {"value": "16", "accessmode": {"value": "READ_WRITE"}, "minvalue": {"value": "2"},
            "maxvalue": {"value": "8000"}, "increment": {"value": "2"}, "uom": {"value": "s"}, "expuom": {"value": "-9"}},
            "mode": {"value": "b", "allowedvalues": {"10": {"value": "c"}, "2": {"value": "b"}, "handle": 7}},
            "port": {"value": "7", "type": "ATTRIBUTE"}}}"#;
        let nodes = nodes_of(tree).expect("a tree");
        let range = Range { low: 2.0, high: 8000.0, step: Some(2.0) };
        let width = Node { is_settable: true, rule: Some(Rule::Number(Some(range))), unit: "ns".to_owned() };
        assert_eq!(nodes["/par/width"], width);
        let words = Words::Listed(vec!["b".to_owned(), "c".to_owned()]);
        assert_eq!(nodes["/par/mode"].rule, Some(Rule::OneOf(words)));
        assert!(nodes["/par/mode"].is_settable && !nodes["/par/port"].is_settable);
    }

    #[test]
    fn text_that_is_not_a_tree_is_refused() {
        assert!(parameters_of("nonsense").expect_err("not JSON").contains("not JSON"));
        assert!(parameters_of("{\"a\": 1}").expect_err("empty").contains("no parameter"));
        let deep = "{\"a\":".repeat(100) + "{}" + &"}".repeat(100);
        assert!(parameters_of(&deep).is_err());
    }
}
