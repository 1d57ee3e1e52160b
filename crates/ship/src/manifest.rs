//! The list of a run's files at a destination, with all digests: `shipped-manifest.json`, shipped last.
//!
//! ```text
//!  { "format": 1, "run": "000042-title", "destination": …, "files": [ { "file", "bytes", "crc32c", "adler32", "md5", "rows" }, … ],
//!    "ledger": { "recorded", "proved", "waiting", "refused" } }
//! ```
//! Its text depends on the files alone, so that the same files give the same text.

use serde::Serialize;

use crate::amount::RowCounts;
use crate::digests::Digests;
use crate::ledger::ShipLedger;
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
    /// What was recorded, and what of it is here: of all files but this one.
    ledger: &'m ShipLedger,
}

#[derive(Serialize)]
struct Entry<'m> {
    file: &'m str,
    #[serde(flatten)]
    digests: &'m Digests,
    /// Of a table.
    #[serde(flatten)]
    counted: Option<RowCounts>,
}

/// The text, of the files that are complete there.
pub fn text(run: &str, state: &RunState, ledger: &ShipLedger) -> Vec<u8> {
    let complete = state.files.iter().filter(|(file, _)| *file != FILE);
    let files = complete.filter_map(|(file, known)| {
        Some(Entry { file, digests: known.finished.as_ref()?, counted: known.counted })
    });
    let files = files.collect();
    let manifest = Manifest { format: FORMAT, run, destination: &state.destination, files, ledger };
    let mut text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    text.push(b'\n');
    text
}
