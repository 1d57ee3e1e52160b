//! What a test needs of the machine, which may lack it: recorded data, root, a kernel feature, a port of its own.
//!
//! ```text
//!  a test lacks something ─► skip(what) ─► a line in the file THALWEG_SKIPPED, which `make test` counts and lists
//!                                     └──► with THALWEG_STRICT (continuous integration) the test fails
//! ```
//! The test harness knows no skipped tests and hides what a passing test prints, so a test that returns early would pass unseen.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

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

/// A port that is free, and that nobody else is given: below those of which the system gives any, to connections of other tests as
/// well, before the program that this one is for has come to it.
pub fn free_port() -> u16 {
    const PORTS: std::ops::Range<u32> = 12_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(331).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + number % (PORTS.end - PORTS.start)) as u16;
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
