//! Disks, measured by the real command: on file systems of their own, that are gone with the test.
//!
//! ```text
//!  unshare -m: mount tmpfs | mkfs, mount -o loop ─► thalweg qualify storage ─► report, exit code, nothing left behind
//!  strace: the disk is full, fails, refuses direct I/O ─► message
//! ```
//! File systems of their own, because a disk that somebody records to is refused, and other tests record.

use std::process::Command;

use serde_json::Value;
use thalweg_prerequisite::skip;

use crate::process::{Ended, Folder, Running, number, thalweg};

/// What a script ends with where nothing can be mounted.
const CANNOT_MOUNT: i32 = 9;

/// Options of a measurement that takes a moment.
const BRIEF: &str = "--bytes 2MiB --keep-free 1MB --no-fio";

/// Runs a script in a mount namespace of its own, in which `$1` is an empty directory that `mount` has mounted something on, `$0` is the
/// command, and the working directory is the folder. `None`, with a word, where that needs more rights than there are.
pub fn mounted(folder: &Folder, mount: &str, script: &str) -> Option<Ended> {
    std::fs::create_dir_all(folder.at("disk")).expect("made");
    let script = format!("cd {} && set -- disk\n{mount}\n{script}", folder.path().display());
    let ended = Running::start_as(&["unshare", "-m", "sh", "-c", &script], &[]).wait();
    if ended.code == Some(CANNOT_MOUNT) || ended.error.contains("unshare: ") {
        skip(&format!("a file system of its own needs root, `unshare` and what makes it: {}", ended.error));
        return None;
    }
    Some(ended)
}

/// A file system in memory of so many MiB.
fn in_memory(mebibytes: u32) -> String {
    format!("mount -t tmpfs -o size={mebibytes}m none \"$1\" || exit {CANNOT_MOUNT}")
}

pub fn report(folder: &Folder, file: &str) -> Value {
    let text = std::fs::read_to_string(folder.at(file)).expect("written");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn text(folder: &Folder, file: &str) -> String {
    std::fs::read_to_string(folder.at(file)).expect("written")
}

#[test]
fn a_file_system_in_memory_is_measured_and_said_to_be_no_disk() {
    let folder = Folder::new();
    let script = format!(
        "\"$0\" qualify storage \"$1\" {BRIEF} --fill --needs 1kB/s --svg disk.svg --json >report.json; echo $? >code\n\
         ls -A \"$1\" >left"
    );
    let Some(ended) = mounted(&folder, &in_memory(40), &script) else { return };
    assert_eq!(text(&folder, "code"), "1\n", "{ended:#?}");
    assert_eq!(text(&folder, "left"), "", "nothing is left behind");
    let report = report(&folder, "report.json");
    let directory = &report["directories"][0];
    assert_eq!(directory["site"]["file_system"], "tmpfs", "{directory:#}");
    let passes = directory["passes"].as_array().expect("a list");
    let of = |work: &str| {
        passes.iter().find(|pass| pass["work"] == work && pass["access"] == "buffered").expect("measured")
    };
    assert_eq!(number(&of("write")["write"], "bytes"), 2 << 20);
    assert_eq!(number(&of("read")["read"], "bytes"), 2 << 20);
    assert_eq!(number(&of("mixed")["write"], "bytes"), 2 << 20);
    assert!(of("mixed")["read"]["bytes"].is_u64(), "{directory:#}");
    assert!(passes.iter().all(|pass| pass["is_beyond_page_cache"] != true), "{passes:#?}");
    let positions = directory["positions"].as_array().expect("a list");
    assert_eq!(positions.len(), 10, "{positions:#?}");
    for position in positions {
        assert!(position["placement"].is_null() && position["remark"] != "", "{position:#}");
    }
    assert_eq!(directory["verdict"]["judgement"], "not_known", "{directory:#}");
    let picture = text(&folder, "disk.svg");
    assert!(
        picture.contains("positions are unknown") && picture.contains("Write while an older file is read")
    );
}

#[test]
fn ext4_and_xfs_are_measured_by_position_and_compared() {
    let folder = Folder::new();
    let mount = format!(
        "mkdir ext4 xfs\ntruncate -s 100M ext4.img && truncate -s 400M xfs.img || exit {CANNOT_MOUNT}\n\
         mkfs.ext4 -q ext4.img && mkfs.xfs -q xfs.img && mount -o loop,noatime ext4.img ext4 && mount -o loop xfs.img xfs || exit {CANNOT_MOUNT}"
    );
    let measured = "qualify storage ext4 xfs --bytes 4MiB --sync batch --keep-free 20MB --fill --no-fio";
    let script = format!(
        "\"$0\" {measured} --needs 1kB/s --json >report.json; echo $? >code\n\
         \"$0\" {measured} >words\nls -A ext4 xfs >left"
    );
    let Some(ended) = mounted(&folder, &mount, &script) else { return };
    let report = report(&folder, "report.json");
    let directories = report["directories"].as_array().expect("a list");
    let kinds: Vec<&Value> = directories.iter().map(|directory| &directory["site"]["file_system"]).collect();
    assert_eq!(kinds, ["ext4", "xfs"], "{ended:#?}");
    let mut passes = true;
    for directory in directories {
        let site = &directory["site"];
        assert!(site["device"].as_str().is_some_and(|device| device.starts_with("/dev/loop")), "{site:#}");
        let device_bytes = number(site, "device_bytes");
        let positions = directory["positions"].as_array().expect("a list");
        assert!(positions.len() >= 9, "{positions:#?}");
        for position in positions {
            let at = &position["placement"];
            assert!(number(at, "extents") > 0, "{position:#}");
            assert!(number(at, "from_bytes") < number(at, "to_bytes"), "{position:#}");
            assert!(number(at, "to_bytes") <= device_bytes, "{position:#}");
        }
        let written = &directory["passes"][0];
        assert_eq!(written["is_beyond_page_cache"], true, "each batch was forced: {written:#}");
        passes &= directory["verdict"]["judgement"] == "passes";
    }
    assert!(directories[0]["site"]["mount_options"].as_str().is_some_and(|text| text.contains("noatime")));
    // Whether a whole second went by depends on the machine.
    assert_eq!(text(&folder, "code"), if passes { "0\n" } else { "1\n" });
    let words = text(&folder, "words");
    assert!(words.contains("compared with the first") && words.contains("1.84 GiB/s"), "{words}");
    assert!(!text(&folder, "left").contains("thalweg"), "nothing is left behind");
}

#[test]
fn a_disk_that_is_recorded_to_is_refused_and_measured_afterwards() {
    let folder = Folder::new();
    folder.file(
        "run.toml",
        "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nchannels = 2\n\
         [source.emulate]\nchannels = 2\nrate_hz = 1e3\n[record]\ndirectory = \"disk/runs\"\n",
    );
    let script = format!(
        "\"$0\" run run.toml --seconds 100 --json >run.json 2>&1 & run=$!\n\
         until ls \"$1\"/runs/*/hits.arrows 2>/dev/null; do kill -0 $run || exit 8; sleep 0.02; done\n\
         \"$0\" qualify storage \"$1\" {BRIEF} 2>refused; echo $? >code\n\
         kill -INT $run; wait $run\n\
         \"$0\" qualify storage --config run.toml {BRIEF} --json >after.json 2>after || exit 7\nls -A \"$1\" >left"
    );
    let Some(ended) = mounted(&folder, &in_memory(64), &script) else { return };
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let refused = text(&folder, "refused");
    assert!(refused.contains("records to ") && refused.contains("(pid "), "{refused}");
    assert_eq!(text(&folder, "code"), "1\n");
    assert_eq!(report(&folder, "after.json")["sync"], "none");
    assert_eq!(text(&folder, "left"), "runs\n");
}

#[test]
fn ctrl_c_removes_the_files_and_what_a_killed_measurement_leaves_is_removed_by_the_next() {
    let folder = Folder::new();
    // A `fio` that does not end holds the measurement where it is.
    let fio = "#!/bin/sh\nfor word; do case $word in --filename=*) echo data >${word#*=};; esac; done\n\
               echo $$ >fio.pid\nexec sleep 1000\n";
    folder.file("fio", fio);
    let long = "--bytes 2MiB --keep-free 1MB";
    let begun = "until [ -s fio.pid ]; do kill -0 $pid || exit 8; sleep 0.02; done";
    let script = format!(
        "chmod +x fio; PATH=$PWD:$PATH\n\
         \"$0\" qualify storage \"$1\" {long} 2>stopped & pid=$!\n{begun}\nls -A \"$1\"/.thalweg-storage-test >files\n\
         kill -INT $pid; wait $pid; echo $? >code; ls -A \"$1\" >left; kill -0 $(cat fio.pid) && exit 5; rm fio.pid\n\
         \"$0\" qualify storage \"$1\" {long} 2>killed & pid=$!\n{begun}\n\
         \"$0\" qualify storage \"$1\" {BRIEF} 2>second && exit 4\n\
         kill -KILL $pid; wait $pid; kill $(cat fio.pid); ls -A \"$1\" >left-over\n\
         \"$0\" qualify storage \"$1\" {BRIEF} --json >after.json || exit 7\nls -A \"$1\" >>left\n\
         mkdir \"$1\"/.thalweg-storage-test && echo mine >\"$1\"/.thalweg-storage-test/thesis\n\
         \"$0\" qualify storage \"$1\" {BRIEF} 2>foreign && exit 6\ncat \"$1\"/.thalweg-storage-test/thesis"
    );
    let Some(ended) = mounted(&folder, &in_memory(64), &script) else { return };
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "mine\n"), "{ended:#?}");
    assert_eq!((text(&folder, "code").as_str(), text(&folder, "left").as_str()), ("1\n", ""));
    assert!(text(&folder, "stopped").contains("files of the measurement are removed"));
    assert_eq!(text(&folder, "files"), "fio.bin\nmade-by-thalweg\n");
    assert!(text(&folder, "second").contains("measures in "), "{}", text(&folder, "second"));
    assert_eq!(text(&folder, "left-over"), ".thalweg-storage-test\n");
    let remarks = report(&folder, "after.json")["directories"][0]["remarks"].to_string();
    assert!(remarks.contains("a measurement that was killed had left"), "{remarks}");
    assert!(text(&folder, "foreign").contains("`thesis` in it is not of a measurement"));
}

#[test]
fn a_read_only_disk_and_one_with_too_little_space_are_refused_with_what_to_do() {
    let folder = Folder::new();
    let script = format!(
        "\"$0\" qualify storage \"$1\" --bytes 30MB --keep-free 1MB 2>much; echo $? >much.code\n\
         \"$0\" qualify storage \"$1\" --bytes 2MB 2>cautious; echo $? >cautious.code\n\
         mount -o remount,ro \"$1\" || exit {CANNOT_MOUNT}\n\
         \"$0\" qualify storage \"$1\" {BRIEF} 2>read-only; echo $? >read-only.code\nls -A \"$1\" >left"
    );
    let Some(ended) = mounted(&folder, &in_memory(32), &script) else { return };
    assert_eq!(text(&folder, "left"), "", "{ended:#?}");
    for (name, code, words) in [
        (
            "much",
            "2\n",
            "33.6 MB free of 33.6 MB, and the measurement takes 59.8 MB at its peak: nothing would be left",
        ),
        ("cautious", "2\n", "5.00 GB stay free (--keep-free); write less with --bytes"),
        ("read-only", "1\n", "the file system is mounted read-only"),
    ] {
        let said = text(&folder, name);
        assert!(said.contains(words), "{said}");
        assert_eq!(text(&folder, &format!("{name}.code")), code, "{said}");
    }
}

#[test]
fn a_disk_that_fails_is_full_or_refuses_direct_access_is_said_to_be_and_left_clean() {
    let traced = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).status();
    if !traced.is_ok_and(|status| status.success()) {
        return skip(
            "no strace that may trace (apt-get install strace; in a container, --cap-add=SYS_PTRACE)",
        );
    }
    let folder = Folder::new();
    let strace = |inject: &str, more: &str| {
        format!("strace -f -qq -o /dev/null {more} -e inject={inject} \"$0\" qualify storage \"$1\" {BRIEF}")
    };
    let script = format!(
        "{} 2>full; {} 2>write; {} 2>force; {} 2>read\n\
         {} --json --access direct >direct.json || exit 7\nls -A \"$1\" >left",
        strace("pwrite64:error=ENOSPC:when=3", ""),
        strace("pwrite64:error=EIO:when=3", ""),
        strace("fdatasync:error=EIO:when=1", ""),
        strace("pread64:error=EIO:when=5", "-P $PWD/disk/.thalweg-storage-test/write.bin"),
        strace("openat:error=EINVAL:when=1", "-P $PWD/disk/.thalweg-storage-test/write.bin"),
    );
    let Some(ended) = mounted(&folder, &in_memory(32), &script) else { return };
    assert_eq!(text(&folder, "left"), "", "{ended:#?}");
    for (file, words) in [
        ("full", "write.bin: no space left after 524 kB, although enough was free"),
        ("write", "write.bin: writing: Input/output error (os error 5); the disk fails: see `dmesg`"),
        ("force", "write.bin: forcing to the disk: Input/output error"),
        ("read", "write.bin: reading back: Input/output error"),
    ] {
        assert!(text(&folder, file).contains(words), "{file}: {}", text(&folder, file));
    }
    let passes = &report(&folder, "direct.json")["directories"][0]["passes"];
    let remark = passes[0]["remark"].as_str().expect("words");
    assert!(remark.contains("refuses direct I/O") && passes[0]["write"].is_null(), "{passes:#}");
}

#[test]
fn fio_stands_beside_or_it_is_said_why_not() {
    let folder = Folder::new();
    let measured = "qualify storage \"$1\" --bytes 2MiB --keep-free 1MB --access buffered --json";
    let script = format!(
        "\"$0\" {measured} >with.json || exit 7\nPATH=/nowhere \"$0\" {measured} >without.json || exit 6"
    );
    let Some(ended) = mounted(&folder, &in_memory(32), &script) else { return };
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let fio = |file: &str| report(&folder, file)["directories"][0]["fio"].as_array().expect("a list").clone();
    let without = fio("without.json");
    assert!(
        without.len() == 1 && without[0]["remark"].to_string().contains("fio is not installed"),
        "{without:#?}"
    );
    let with = fio("with.json");
    if with[0]["remark"].to_string().contains("not installed") {
        return skip("no fio (apt-get install fio)");
    }
    assert_eq!(with.len(), 2, "{with:#?}");
    assert!(with.iter().all(|rate| rate["bytes_per_s"].as_f64() > Some(0.0)), "{with:#?}");
}

#[test]
fn wrong_usage_is_refused_with_what_to_write() {
    let folder = Folder::new();
    let (here, file) = (folder.at("."), folder.file("file", "text"));
    for (arguments, words) in [
        (&["/no/such/directory"][..], "/no/such/directory: No such file or directory"),
        (&[&file], "this is no directory; give a directory on the disk"),
        (&[], "no directory is given"),
        (&[&here, "--chunk", "1000B"], "a chunk of 1000 bytes: write a multiple of 4096"),
        (&[&here, "--bytes", "1000B"], "are less than one chunk"),
        (&[&here, "--needs", "800"], "\"800\" has no unit; write for example 1.2GB/s"),
        (&[&here, "--needs", "6Gbit"], "has the unit \"Gbit\"; write for example 1.2GB/s"),
        (&[&here, "--sync", "never"], "write none, batch, or seconds above 0"),
        (&[&here, "--keep-free", "100%"], "a part of the disk from 0% to below 100%"),
        (&["--config", "/no/such/run.toml"], "/no/such/run.toml"),
    ] {
        let ended = thalweg(&[&["qualify", "storage"], arguments].concat());
        assert!(ended.code == Some(2) && ended.error.contains(words), "{arguments:?}: {ended:#?}");
    }
}
