//! Lists the parameters in the device tree that a board reports (`getDeviceTree`).
//!
//! ```text
//!  {"par": {"numch": {"value": "64", "accessmode": "READ_ONLY"}}, "ch": {"0": …}} ──► /par/numch 64, /ch/0/par/…
//! ```

use serde_json::Value;
use thalweg_data::Parameter;

/// Deepest node that is read: boards have about six levels.
const MOST_LEVELS: usize = 16;

/// All parameters of a tree, in the order of the board.
///
/// # Errors
/// When the text is not a tree.
pub fn parameters_of(tree: &str) -> Result<Vec<Parameter>, String> {
    let tree: Value =
        serde_json::from_str(tree).map_err(|error| format!("the device tree is not JSON: {error}"))?;
    let mut found = Vec::new();
    add(&tree, "", 0, &mut found);
    match found.is_empty() {
        true => Err("the device tree has no parameter".to_owned()),
        false => Ok(found),
    }
}

fn add(node: &Value, path: &str, level: usize, found: &mut Vec<Parameter>) {
    let Some(children) = node.as_object().filter(|_| level < MOST_LEVELS) else { return };
    if let Some(value) = node["value"].as_str() {
        let is_settable = node["accessmode"].as_str().is_none_or(|mode| mode.contains("WRITE"));
        found.push(Parameter { path: path.to_owned(), value: Some(value.to_owned()), is_settable });
        return;
    }
    for (name, child) in children.iter().filter(|(_, child)| child.is_object()) {
        add(child, &format!("{path}/{}", name.to_lowercase()), level + 1, found);
    }
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
            assert_eq!(tree.value(path), value.as_deref(), "{path}");
        }
        let channels = listed.iter().find(|one| one.path == "/par/numch").expect("every board has it");
        assert_eq!((channels.value.as_deref(), channels.is_settable), (Some("2"), false));
    }

    #[test]
    fn text_that_is_not_a_tree_is_refused() {
        assert!(parameters_of("nonsense").expect_err("not JSON").contains("not JSON"));
        assert!(parameters_of("{\"a\": 1}").expect_err("empty").contains("no parameter"));
        let deep = "{\"a\":".repeat(100) + "{}" + &"}".repeat(100);
        assert!(parameters_of(&deep).is_err());
    }
}
