//! The key of the units, at the place that the configuration names.
//!
//! ```text
//!  [run] key_file | key_env ─► first line ─► SharedKey
//! ```
//! The configuration itself never contains the key, because it is recorded with every run.

use thalweg_transport::peer::SharedKey;

use super::units::UnitPlanError;
use crate::config::{Configuration, RunSettings};

/// Returns true if the configuration names a key.
pub(crate) fn has_key(run: &RunSettings) -> bool {
    run.key_file.is_some() || run.key_env.is_some()
}

/// The key that the configuration names, if it names one.
///
/// # Errors
/// When it is not where it should be, or too short.
pub(crate) fn shared_key(configuration: &Configuration) -> Result<Option<SharedKey>, UnitPlanError> {
    let run = &configuration.run;
    let (text, place) = match (&run.key_file, &run.key_env) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(UnitPlanError::new(
                "[run] `key_file` and `key_env` are both there; keep one".to_owned(),
            ));
        }
        (Some(path), None) => {
            let path = configuration.file.parent().map_or_else(|| path.clone(), |folder| folder.join(path));
            let text = std::fs::read_to_string(&path).map_err(|cause| {
                UnitPlanError::new(format!(
                    "[run] key_file {} cannot be read: {cause}; write the key of the units on its first line",
                    path.display()
                ))
            })?;
            (text, format!("[run] key_file {}", path.display()))
        }
        (None, Some(name)) => {
            let text = std::env::var(name).map_err(|_| {
                UnitPlanError::new(format!(
                    "[run] key_env names the environment variable {name}, which is not set; set it to the key of the units"
                ))
            })?;
            (text, format!("[run] key_env {name}"))
        }
    };
    let secret = text.lines().next().unwrap_or_default().trim();
    let key = SharedKey::new(secret.as_bytes());
    key.map(Some).map_err(|error| UnitPlanError::new(format!("{place}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The configuration of a file in a folder, with these keys in `[run]`.
    fn configuration(folder: &std::path::Path, run: &str) -> Configuration {
        let text = format!(
            "[run]\n{run}\n[[source]]\nname = \"a\"\nformat = \"fragment\"\nurl = \"emulate://\"\n[trigger]\n"
        );
        Configuration::parse(&folder.join("run.toml"), text).expect("a configuration")
    }

    #[test]
    fn the_key_is_the_first_line_of_a_file_beside_the_configuration() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = |run: &str| shared_key(&configuration(folder.path(), run));
        assert!(key("").expect("none is asked for").is_none());
        let missing = key("key_file = \"units.key\"").expect_err("not there").to_string();
        assert!(missing.contains("units.key") && missing.contains("first line"), "{missing}");
        std::fs::write(folder.path().join("units.key"), "short\n").expect("space");
        let short = key("key_file = \"units.key\"").expect_err("short").to_string();
        assert!(short.contains("5 bytes") && !short.contains("short\n"), "{short}");
        std::fs::write(folder.path().join("units.key"), " a key of all nodes \nmore\n").expect("space");
        assert!(key("key_file = \"units.key\"").expect("readable").is_some());
        let both = key("key_file = \"units.key\"\nkey_env = \"KEY\"").expect_err("two").to_string();
        assert!(both.contains("keep one"), "{both}");
        let unset = key("key_env = \"THALWEG_NO_SUCH_VARIABLE\"").expect_err("not set").to_string();
        assert!(unset.contains("THALWEG_NO_SUCH_VARIABLE"), "{unset}");
    }
}
