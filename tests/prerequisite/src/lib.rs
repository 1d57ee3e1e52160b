//! What a test needs that a machine may lack: recorded data, root, a kernel feature.
//!
//! ```text
//!  a test lacks something ─► skip(what) ─► a line in the file THALWEG_SKIPPED, which `make test` counts and lists
//!                                     └──► with THALWEG_STRICT (continuous integration) the test fails
//! ```
//! The test harness knows no skipped tests and hides what a passing test prints, so a test that returns early would pass unseen.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Reports that the calling test cannot run here; it returns right after. `missing` names what is not there and how to get it.
///
/// # Panics
/// When `THALWEG_STRICT` is set.
pub fn skip(missing: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(
        std::env::var_os("THALWEG_STRICT").is_none(),
        "{test} cannot run here: {missing} (THALWEG_STRICT is set, so no test may be skipped)"
    );
    println!("skipped: {test}: {missing}");
    if let Some(list) = std::env::var_os("THALWEG_SKIPPED") {
        let file = OpenOptions::new().append(true).create(true).open(list);
        // One write per line: several processes append to the list.
        file.and_then(|mut file| file.write_all(format!("{test}: {missing}\n").as_bytes()))
            .expect("THALWEG_SKIPPED names a file that can be written");
    }
}

/// A file of recorded data, or `None` behind a [`skip`]. The files are no part of the sources: `THALWEG_SHARED` names the folder that
/// holds `data/`, else it is `../shared` next to the checkout.
pub fn recorded(file: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("THALWEG_SHARED").map_or(beside, PathBuf::from);
    let path = shared.join("data").join(file);
    let found = path.canonicalize().ok();
    if found.is_none() {
        skip(&format!("{} is not there; set THALWEG_SHARED to the folder that holds data/", path.display()));
    }
    found
}
