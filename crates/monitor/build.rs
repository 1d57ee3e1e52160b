//! Lists the page's files, so that they become part of the binary.
//!
//! ```text
//!  page/app.js, page/fonts/x.woff2 ─► ("app.js", include_bytes!(…)), …
//! ```
//! A list and `include_bytes!` are all that is needed: no crate, and the same in debug and release.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the manifest's folder"))
        .join("page");
    let mut found = Vec::new();
    files(&root, &mut found)?;
    found.sort();
    let mut list = String::from("[\n");
    for path in &found {
        let name = path.strip_prefix(&root).expect("below the folder that was walked");
        let name = name.to_str().expect("names of the page's files are plain").replace('\\', "/");
        writeln!(list, "    ({name:?}, include_bytes!({path:?})),").expect("a string takes everything");
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the folder for output"));
    fs::write(out.join("page_files.rs"), list)
}
