//! Names of runs and files as they come over the wire: paths below one directory, and never out of it.
//!
//! ```text
//!  "site/000042-title", "hits.arrows" ─► FarName ─► root/site/000042-title/hits.arrows
//!  "..", "/etc", "a//b", ".shipped", control characters ─► refused
//! ```

use std::path::{Path, PathBuf};

/// Longest name of one folder or file, bytes; what file systems take.
const LONGEST_NAME: usize = 255;
/// Most folders of a run's path.
const MOST_FOLDERS: usize = 8;

/// Where a file belongs at the far side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FarName {
    run: String,
    file: String,
}

impl FarName {
    /// The name, when it may be one.
    ///
    /// # Errors
    /// In words.
    pub fn new(run: &str, file: &str) -> Result<FarName, String> {
        let folders: Vec<&str> = run.split('/').collect();
        if folders.len() > MOST_FOLDERS {
            return Err(format!("the name of a run has more than {MOST_FOLDERS} folders"));
        }
        folders.into_iter().chain([file]).try_for_each(check)?;
        Ok(FarName { run: run.to_owned(), file: file.to_owned() })
    }

    /// The run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Directory of the run below `root`.
    pub fn run_in(&self, root: &Path) -> PathBuf {
        root.join(&self.run)
    }
}

/// Whether one folder or file may be called so: no way out, nothing hidden, nothing that paints a terminal.
fn check(name: &str) -> Result<(), String> {
    let shown = || name.chars().take(60).filter(|letter| !letter.is_control()).collect::<String>();
    match name {
        "" => Err("a name is empty".to_owned()),
        _ if name.len() > LONGEST_NAME => Err(format!("a name is longer than {LONGEST_NAME} bytes")),
        _ if name.starts_with('.') => Err(format!("the name \"{}\" begins with a dot", shown())),
        _ if name.chars().any(|letter| letter.is_control() || letter == '/' || letter == '\\') => {
            Err(format!("the name \"{}\" has control characters, / or \\", shown()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_lead_out_of_the_directory_are_refused() {
        for (run, file) in [
            ("..", "hits.arrows"),
            ("a/../..", "hits.arrows"),
            ("/etc", "passwd"),
            ("", "hits.arrows"),
            ("a//b", "hits.arrows"),
            ("000001", "../hits.arrows"),
            ("000001", "a/b"),
            ("000001", ""),
            ("000001", ".shipped"),
            (".shipped", "a"),
            ("000001", "a\0b"),
            ("000001", "\x1b[31m"),
            ("a/b/c/d/e/f/g/h/i", "x"),
        ] {
            assert!(FarName::new(run, file).is_err(), "{run:?} {file:?}");
        }
        assert!(FarName::new("000001", &"x".repeat(256)).is_err());
        let name = FarName::new("site/000001-µ", "hits.arrows").expect("plain");
        assert_eq!(name.run_in(Path::new("/far")), Path::new("/far/site/000001-µ"));
    }

    proptest! {
        #[test]
        fn whatever_is_taken_stays_below_the_root(run in "[./a-z\\\\\u{0}-\u{20}]{0,12}", file in "[./a-z]{0,6}") {
            if let Ok(name) = FarName::new(&run, &file) {
                let path = name.run_in(Path::new("/root")).join(name.file());
                let is_plain = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(path.components().skip(1).all(is_plain));
                prop_assert!(path.starts_with("/root") && path.components().count() >= 4);
            }
        }
    }
}
