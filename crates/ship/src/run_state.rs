//! What is known here of the copies of a run: one file for each destination, in the run's directory.
//!
//! ```text
//!  RUN/.ship/DESTINATION.json  { destination, files: { "hits.arrows": { identity, proved, finished } }, … }
//! ```
//! The far side is asked anyway before more is shipped; what stands here is what `[record.retention]` trusts. It counts for a file only
//! while that is the file that was shipped: same bytes, same time, same number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thalweg_data::checksum;

use crate::amount::RowCounts;
use crate::digests::Digests;
use crate::disk::{Disk, HostDisk};
use crate::error::ShipError;
use crate::message::Identity;

/// Where the states of a run lie.
pub const FOLDER: &str = ".ship";

/// The state of a run at one destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunState {
    /// The destination.
    pub destination: String,
    /// Its files by name.
    pub files: BTreeMap<String, FileState>,
    /// Whether `on_shipped` was run for these files.
    pub is_announced: bool,
}

/// The state of one file there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileState {
    /// Which file it was when it was read last.
    pub identity: Identity,
    /// Bytes that are proved there.
    pub proved: u64,
    /// Batches and rows of these; null of a file that has none, or comes as a whole and is not complete there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<RowCounts>,
    /// Its digests, when it is complete there.
    pub finished: Option<Digests>,
    /// Why it cannot be shipped as it is, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl FileState {
    /// Whether the file that is here now is complete there, with the checksum that was `recorded` while it was written.
    pub fn is_proved(&self, now: &Identity, recorded: Option<&str>) -> bool {
        let is_copy = |digests: &Digests| {
            digests.bytes == now.bytes && recorded.is_none_or(|recorded| digests.crc32c == recorded)
        };
        self.identity == *now && self.finished.as_ref().is_some_and(is_copy)
    }
}

impl RunState {
    /// Reads the state; an empty one where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load(run: &Path, destination: &str) -> Result<RunState, ShipError> {
        let path = RunState::path(run, destination);
        let failed = ShipError::local(&path, "reading");
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|cause| failed(cause.into())),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                Ok(RunState { destination: destination.to_owned(), ..RunState::default() })
            }
            Err(cause) => Err(failed(cause)),
        }
    }

    /// Writes the state in place of the older one, and forces it to the disk.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn save(&self, run: &Path) -> Result<(), ShipError> {
        let path = RunState::path(run, &self.destination);
        let text = serde_json::to_vec_pretty(self).expect("a state is plain data");
        let name = path.file_name().expect("it has one").to_string_lossy().into_owned();
        HostDisk.replace(&run.join(FOLDER), &name, &text).map_err(ShipError::local(&path, "writing"))
    }

    /// The states of a run at all destinations; what cannot be read says nothing.
    pub fn all(run: &Path) -> Vec<RunState> {
        let entries = fs::read_dir(run.join(FOLDER)).into_iter().flatten().flatten();
        let texts = entries.filter_map(|entry| {
            let path = entry.path();
            let is_state = path.extension().is_some_and(|ending| ending == "json");
            is_state.then(|| fs::read(path).ok()).flatten()
        });
        texts
            .filter_map(|text| serde_json::from_slice::<RunState>(&text).ok())
            .filter(|state| !state.destination.is_empty())
            .collect()
    }

    pub(crate) fn path(run: &Path, destination: &str) -> PathBuf {
        run.join(FOLDER).join(format!("{}.json", name_of(destination)))
    }
}

/// A file's name for a destination: readable, and another one for each.
pub(crate) fn name_of(destination: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let words: String = destination.chars().map(plain).take(80).collect();
    format!("{words}-{:08x}", checksum::of(destination.as_bytes()))
}
