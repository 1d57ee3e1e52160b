//! Runs by number, path, or range of numbers.
//!
//! ```text
//!  "42" ─► one run     "40-48" ─► the runs from 40 to 48 that there are     "runs/000042-title" ─► that one
//! ```

use std::path::{Path, PathBuf};

use crate::directory::RunDirectory;
use crate::error::RecordError;

/// The directories of the runs that `words` name, each once, in the order of the words. A number is looked for in `runs`.
///
/// # Errors
/// When there is no such run, several have the number, or there is none in a range.
pub fn select(runs: &Path, words: &[String]) -> Result<Vec<PathBuf>, RecordError> {
    let mut selected: Vec<PathBuf> = Vec::new();
    for word in words {
        let found = match range_of(word).filter(|_| !Path::new(word).is_dir() && !runs.join(word).is_dir()) {
            Some((first, last)) => in_range(runs, word, first, last)?,
            None => vec![RunDirectory::find_in(runs, Path::new(word))?],
        };
        for run in found {
            if !selected.contains(&run) {
                selected.push(run);
            }
        }
    }
    Ok(selected)
}

fn range_of(word: &str) -> Option<(u64, u64)> {
    let (first, last) = word.split_once('-')?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten()
    };
    Some((number(first)?, number(last)?))
}

fn in_range(runs: &Path, word: &str, first: u64, last: u64) -> Result<Vec<PathBuf>, RecordError> {
    let refused = |found: String| Err(RecordError::Missing { path: runs.to_owned(), found });
    if first > last {
        return refused(format!(
            "no run is from {first} to {last}; write the smaller number first, as {last}-{first}"
        ));
    }
    let all = RunDirectory::list(runs)?.into_iter();
    let found: Vec<PathBuf> =
        all.filter(|run| (first..=last).contains(&run.number())).map(|run| run.path().to_owned()).collect();
    match found.is_empty() {
        true => refused(format!("no run has a number of {word}; `thalweg runs list` lists them")),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_paths_and_ranges_select_each_run_once() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for name in ["000001", "000002-cosmics", "000004", "000005-7"] {
            std::fs::create_dir(folder.path().join(name)).expect("made");
        }
        let names = |words: &[&str]| -> Result<Vec<String>, String> {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let found = select(folder.path(), &words).map_err(|error| error.to_string())?;
            Ok(found
                .iter()
                .map(|run| run.file_name().expect("named").to_string_lossy().into_owned())
                .collect())
        };
        assert_eq!(names(&["4", "1-4"]), Ok(["000004", "000001", "000002-cosmics"].map(String::from).into()));
        assert_eq!(names(&["000005-7"]), Ok(vec!["000005-7".to_owned()]), "the name of a run is no range");
        let path = folder.path().join("000001");
        assert_eq!(names(&[path.to_str().expect("plain")]), Ok(vec!["000001".to_owned()]));
        assert!(names(&["8-6"]).is_err_and(|why| why.contains("as 6-8")));
        assert!(names(&["6-8"]).is_err_and(|why| why.contains("no run has a number of 6-8")));
        assert!(names(&["3"]).is_err_and(|why| why.contains("no such run directory")));
    }
}
