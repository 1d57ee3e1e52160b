//! File names of tables: lists, environment variables, home directory and patterns.
//!
//! ```text
//!  "file://$ETC/a*.xml;file://~/b.xml" ─► split at ; ─► variables, home ─► relative to the naming file ─► pattern ─► paths
//! ```

use std::path::{Path, PathBuf};

/// Most files that one pattern may match.
const MOST_FILES: usize = 1000;

/// Looks up a variable: in the environment, or in a test's own set.
pub(super) type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

/// The paths of a list of names; relative ones are relative to `folder`.
///
/// # Errors
/// When a name is invalid or matches no file; the message says why.
pub(super) fn expanded(list: &str, folder: &Path, variables: Variables<'_>) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    for name in list.split(';').map(str::trim).filter(|name| !name.is_empty()) {
        all.extend(one(name, folder, variables)?);
    }
    match all.is_empty() {
        true => Err(format!("`{list}` names no file; write file://NAME.xml")),
        false => Ok(all),
    }
}

fn one(name: &str, folder: &Path, variables: Variables<'_>) -> Result<Vec<PathBuf>, String> {
    let path = match name.split_once("://") {
        Some(("file", path)) => path,
        Some((scheme, _)) => {
            return Err(format!(
                "`{name}`: tables are not downloaded from {scheme}://; save the file, and write file://NAME.xml"
            ));
        }
        None => name,
    };
    let path = with_home(&with_variables(path, variables)?, variables)?;
    let path = folder.join(path);
    let text = path.to_str().ok_or_else(|| format!("`{name}` is not valid UTF-8"))?;
    if !text.contains(['*', '?', '[']) {
        return Ok(vec![path]);
    }
    let found = glob::glob(text).map_err(|error| format!("`{name}`: {error}"))?;
    let found: Vec<PathBuf> = found.flatten().take(MOST_FILES + 1).collect();
    match found.len() {
        0 => Err(format!("`{name}` matches no file in {}", folder.display())),
        count if count > MOST_FILES => Err(format!("`{name}` matches more than {MOST_FILES} files")),
        _ => Ok(found),
    }
}

/// Replaces `$NAME` and `${NAME}` by their values.
fn with_variables(text: &str, variables: Variables<'_>) -> Result<String, String> {
    let (mut all, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('$') {
        all.push_str(before);
        let (name, after) = match behind.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or_else(|| format!("`{text}`: `${{` has no `}}`"))?,
            None if behind.starts_with('(') => {
                return Err(format!(
                    "`{text}`: commands in file names are not run; write the file name itself"
                ));
            }
            None => {
                let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let end = behind.find(|letter| !is_part(letter)).unwrap_or(behind.len());
                behind.split_at(end)
            }
        };
        let is_name =
            !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !is_name {
            return Err(format!("`{text}`: `${name}` is not the name of a variable"));
        }
        let value = variables(name).ok_or_else(|| format!("`{text}`: the variable {name} is not set"))?;
        all.push_str(&value);
        rest = after;
    }
    all.push_str(rest);
    match text.contains('`') {
        true => Err(format!("`{text}`: commands in file names are not run")),
        false => Ok(all),
    }
}

/// Replaces a `~` at the beginning by the home directory.
fn with_home(path: &str, variables: Variables<'_>) -> Result<String, String> {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = variables("HOME").ok_or_else(|| format!("`{path}`: HOME is not set"))?;
            Ok(home + rest)
        }
        Some(_) => {
            Err(format!("`{path}`: home directories of other users are not supported; write the whole path"))
        }
        None => Ok(path.to_owned()),
    }
}

/// A variable in the environment of this process.
pub(super) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(list: &str) -> Result<Vec<PathBuf>, String> {
        let variables = |name: &str| match name {
            "ETC" => Some("/etc/tables".to_owned()),
            "HOME" => Some("/home/daq".to_owned()),
            _ => None,
        };
        expanded(list, Path::new("/here"), &variables)
    }

    #[test]
    fn variables_home_and_lists_are_expanded() {
        let paths = |all: &[&str]| Ok(all.iter().map(PathBuf::from).collect());
        assert_eq!(expand("file://a.xml"), paths(&["/here/a.xml"]));
        assert_eq!(
            expand("file://$ETC/a.xml; file://${ETC}b.xml"),
            paths(&["/etc/tables/a.xml", "/etc/tablesb.xml"])
        );
        assert_eq!(expand("~/a.xml"), paths(&["/home/daq/a.xml"]));
        assert_eq!(expand("file:///tmp/a.xml"), paths(&["/tmp/a.xml"]));
    }

    #[test]
    fn commands_and_remote_files_are_refused() {
        for (list, word) in [
            ("file://$(touch hacked).xml", "commands in file names are not run"),
            ("file://`touch hacked`.xml", "commands in file names are not run"),
            ("file://$NOWHERE/a.xml", "NOWHERE is not set"),
            ("file://${ETC", "has no `}`"),
            ("file://$/a.xml", "not the name of a variable"),
            ("http://host/a.xml", "not downloaded from http://"),
            ("~other/a.xml", "home directories of other users"),
            (" ; ", "names no file"),
            ("file://no_such_*.xml", "matches no file"),
        ] {
            let refused = expand(list).expect_err(list);
            assert!(refused.contains(word), "{refused}");
        }
    }
}
