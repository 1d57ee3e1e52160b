//! What a replayed run was made of: the recording that was read again, and what was done otherwise.
//!
//! ```text
//!  run.json "replay" ─ run, its raw files, sections that were replaced ─► runs list · runs show · readers
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::directory::{DocumentSummary, RunDirectory};
use crate::ipc::file::TableSummary;
use crate::run_record::RunRecord;
use crate::table::Table;

/// The origin of a run that was replayed; part of `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayRecord {
    /// Number of the run whose raw bytes were read again.
    pub number: u64,
    /// Its directory, as an absolute path at the time of the replay.
    pub path: PathBuf,
    /// When it started, UTC: with its number, this says which run it is wherever it lies now.
    pub started: String,
    /// Version of the program that recorded it; that of the replay is in `versions`, as of every run.
    pub recorded_by: String,
    /// Its raw files, with the checksum of each. A run that was killed and not recovered has no list of its files.
    pub raw: Vec<TableSummary>,
    /// Whether its program was killed: more may have come than it has on file, and nobody knows how much.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub was_killed: bool,
    /// The sections that took the place of recorded ones; none where the run was repeated as it was.
    pub replaced: Vec<ReplacedSections>,
    /// How many times as fast as the data came; `None` of a replay as fast as possible. The result does not depend on it.
    pub speed: Option<f64>,
}

/// Sections of a file that took the place of those of the recorded configuration. Their text is part of the `configuration` of the new run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplacedSections {
    /// What was replaced, in a word: `cuts`, `calibration`, `coincidence`.
    pub what: String,
    /// Names of the sections.
    pub sections: Vec<String>,
    /// The file that they came from, as an absolute path, with its length and checksum.
    #[serde(flatten)]
    pub file: DocumentSummary,
}

impl ReplacedSections {
    /// Of the file at `path` with this content.
    pub fn of(what: &str, sections: &[&str], path: &Path, content: &str) -> ReplacedSections {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let file = DocumentSummary::of(&path.to_string_lossy(), content.as_bytes());
        let sections = sections.iter().map(|section| (*section).to_owned()).collect();
        ReplacedSections { what: what.to_owned(), sections, file }
    }
}

impl ReplayRecord {
    /// Of the run in `directory`, whose record is `record`, repeated as it was.
    pub fn of(directory: &RunDirectory, record: &RunRecord) -> ReplayRecord {
        let path = directory.path();
        ReplayRecord {
            number: record.number,
            path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            started: record.started.clone(),
            recorded_by: record.versions.get("thalweg").cloned().unwrap_or_default(),
            raw: record.tables.iter().filter(|table| table.table == Table::Raw.word()).cloned().collect(),
            was_killed: false,
            replaced: Vec::new(),
            speed: None,
        }
    }

    /// In the fewest words: `replay of 7, other cuts`.
    pub fn brief(&self) -> String {
        let what: Vec<&str> = self.replaced.iter().map(|replaced| replaced.what.as_str()).collect();
        let others = if what.is_empty() { String::new() } else { format!(", other {}", what.join(", ")) };
        format!("replay of {}{others}", self.number)
    }
}

impl fmt::Display for ReplayRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let killed = if self.was_killed { ", whose program was killed" } else { "" };
        write!(f, "replay of run {} ({}){killed}", self.number, self.path.display())?;
        for ReplacedSections { what, sections, file } in &self.replaced {
            let (sections, DocumentSummary { file, crc32c, .. }) = (sections.join(", "), file);
            write!(f, ", with other {what} ({sections} of {file}, crc32c {crc32c})")?;
        }
        match self.speed {
            Some(1.0) => write!(f, ", in real time"),
            Some(speed) => write!(f, ", {speed} times as fast as the data came"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_says_its_origin_and_what_was_replaced() {
        let cuts =
            ReplacedSections::of("cuts", &["cut", "polygon"], Path::new("/lab/cuts.toml"), "123456789");
        let again = ReplayRecord {
            number: 7,
            path: "/lab/runs/000007".into(),
            speed: Some(10.0),
            ..ReplayRecord::default()
        };
        assert_eq!(again.brief(), "replay of 7");
        let replay = ReplayRecord { replaced: vec![cuts], ..again };
        assert_eq!(replay.brief(), "replay of 7, other cuts");
        assert_eq!(
            replay.to_string(),
            "replay of run 7 (/lab/runs/000007), with other cuts (cut, polygon of /lab/cuts.toml, crc32c e3069283), \
             10 times as fast as the data came"
        );
        let text = serde_json::to_string(&replay).expect("JSON");
        assert!(text.contains(r#""file":"/lab/cuts.toml","bytes":9,"crc32c":"e3069283""#), "{text}");
        assert_eq!(serde_json::from_str::<ReplayRecord>(&text).expect("it was written so"), replay);
    }
}
