//! The Debian package has what its page says, and its unit is one that systemd accepts.

use std::path::{Path, PathBuf};
use std::process::Command;

use thalweg_prerequisite::skip;

use crate::process::Folder;

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        skip(&format!("{program} is not installed"));
    }
    is_there
}

/// What a command prints; it must succeed.
#[track_caller]
fn output(command: &mut Command) -> String {
    let done = command.output().expect("the program can be started");
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {error}");
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn the_package_holds_the_program_its_service_and_its_manual() {
    if !["dpkg-deb", "objdump", "strip"].iter().all(|program| is_there(program)) {
        return;
    }
    let folder = Folder::new();
    let program = env!("CARGO_BIN_EXE_thalweg");
    let mut make = Command::new(packaging("deb.sh"));
    // Compressing would take most of the time of this test.
    make.env("DPKG_DEB_COMPRESSOR_TYPE", "none").arg(program).arg(folder.path());
    let package = output(&mut make);
    let root = folder.path().join("root");
    output(Command::new("dpkg-deb").arg("--extract").arg(package.trim_end()).arg(&root));
    for file in [
        "lib/systemd/system/thalweg@.service",
        "etc/thalweg/run.toml",
        "usr/share/man/man1/thalweg.1.gz",
        "usr/share/bash-completion/completions/thalweg",
        "usr/share/doc/thalweg/examples/capabilities.conf",
        "usr/share/doc/thalweg/examples/two-boards.toml",
    ] {
        assert!(root.join(file).is_file(), "{file} is not in the package");
    }
    let installed = root.join("usr/bin/thalweg");
    let version = output(Command::new(&installed).arg("--version"));
    assert_eq!(version, output(Command::new(program).arg("--version")));
    // Planning opens nothing: the configuration of the service is one that can be used.
    output(Command::new(&installed).args(["run", "--explain"]).arg(root.join("etc/thalweg/run.toml")));
}

#[test]
fn systemd_accepts_the_unit_and_its_drop_in() {
    if !is_there("systemd-analyze") {
        return;
    }
    let folder = Folder::new();
    let unit = std::fs::read_to_string(packaging("thalweg@.service")).expect("the unit is there");
    let unit = unit.replace("/usr/bin/thalweg", env!("CARGO_BIN_EXE_thalweg"));
    let place = folder.path().join("thalweg@.service");
    std::fs::write(&place, unit).expect("written");
    let drop_ins = folder.path().join("thalweg@.service.d");
    std::fs::create_dir(&drop_ins).expect("made");
    std::fs::copy(packaging("capabilities.conf"), drop_ins.join("capabilities.conf")).expect("copied");
    let done = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&place).output();
    let done = done.expect("systemd-analyze can be started");
    let found = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !found.contains("thalweg@"), "{found}");
}
