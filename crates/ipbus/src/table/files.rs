//! File names of tables: lists, variables, home and patterns.
//!
//! ```text
//!  "file://$ETC/a*.xml;file://~/b.xml" ─► split at ; ─► variables, home ─► beside the file that names it ─► pattern ─► paths
//! ```

use std::path::{Path, PathBuf};

/// Most files that one pattern may name.
const MOST_FILES: usize = 1000;

/// Where variables come from: the environment, or what a test says.
pub(super) type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

/// The files that a list of names means, relative ones beside `folder`.
///
/// # Errors
/// When a name is none, in words.
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
                "`{name}`: tables behind {scheme}:// are not fetched; save it, and write file://NAME.xml"
            ));
        }
        None => name,
    };
    let path = with_home(&with_variables(path, variables)?, variables)?;
    let path = folder.join(path);
    let text = path.to_str().ok_or_else(|| format!("`{name}` is no text"))?;
    if !text.contains(['*', '?', '[']) {
        return Ok(vec![path]);
    }
    let found = glob::glob(text).map_err(|error| format!("`{name}`: {error}"))?;
    let found: Vec<PathBuf> = found.flatten().take(MOST_FILES + 1).collect();
    match found.len() {
        0 => Err(format!("`{name}` fits no file in {}", folder.display())),
        count if count > MOST_FILES => Err(format!("`{name}` fits more than {MOST_FILES} files")),
        _ => Ok(found),
    }
}

/// Puts values in the place of `$NAME` and `${NAME}`.
fn with_variables(text: &str, variables: Variables<'_>) -> Result<String, String> {
    let (mut all, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('$') {
        all.push_str(before);
        let (name, after) = match behind.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or_else(|| format!("`{text}`: `${{` has no `}}`"))?,
            None if behind.starts_with('(') => {
                return Err(format!(
                    "`{text}`: commands in file names are not run; write the name that it would give"
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
            return Err(format!("`{text}`: `${name}` is no name of a variable"));
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

/// Puts the home in the place of a `~` at the beginning.
fn with_home(path: &str, variables: Variables<'_>) -> Result<String, String> {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = variables("HOME").ok_or_else(|| format!("`{path}`: HOME is not set"))?;
            Ok(home + rest)
        }
        Some(_) => Err(format!("`{path}`: the homes of others are not known; write the whole path")),
        None => Ok(path.to_owned()),
    }
}

/// The environment of this process.
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
    fn variables_home_and_lists_are_put_in() {
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
    fn commands_and_what_is_elsewhere_are_refused() {
        for (list, word) in [
            ("file://$(touch hacked).xml", "commands in file names are not run"),
            ("file://`touch hacked`.xml", "commands in file names are not run"),
            ("file://$NOWHERE/a.xml", "NOWHERE is not set"),
            ("file://${ETC", "has no `}`"),
            ("file://$/a.xml", "no name of a variable"),
            ("http://host/a.xml", "tables behind http:// are not fetched"),
            ("~other/a.xml", "homes of others"),
            (" ; ", "names no file"),
            ("file://no_such_*.xml", "fits no file"),
        ] {
            let refused = expand(list).expect_err(list);
            assert!(refused.contains(word), "{refused}");
        }
    }
}
