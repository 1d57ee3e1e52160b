//! The list of a run's files at a destination, with all digests: `shipped-manifest.json`, shipped last.
//!
//! ```text
//!  { "format": 1, "run": "000042-title", "destination": …, "files": [ { "file", "bytes", "crc32c", "adler32", "md5" }, … ] }
//! ```
//! Its text depends on the files alone, so that the same files give the same text.

use serde::Serialize;

use crate::digests::Digests;
use crate::run_state::RunState;

/// Its name at the far side.
pub const FILE: &str = "shipped-manifest.json";
/// Version of its form.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Manifest<'m> {
    format: u32,
    run: &'m str,
    destination: &'m str,
    files: Vec<Entry<'m>>,
}

#[derive(Serialize)]
struct Entry<'m> {
    file: &'m str,
    #[serde(flatten)]
    digests: &'m Digests,
}

/// The text, of the files that are complete there.
pub fn text(run: &str, state: &RunState) -> Vec<u8> {
    let complete = state.files.iter().filter(|(file, _)| *file != FILE);
    let files = complete.filter_map(|(file, known)| Some(Entry { file, digests: known.finished.as_ref()? }));
    let files = files.collect();
    let manifest = Manifest { format: FORMAT, run, destination: &state.destination, files };
    let mut text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    text.push(b'\n');
    text
}
