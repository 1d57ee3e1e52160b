//! The files of a table may lie on several disks: which of them are a run's own, and what becomes of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::example_run::{folder, hit, unlocked, write_run};
use crate::parts::{HITS, hits_of, part, run_of_parts, settings};
use thalweg_record::{
    Compression, FileLimits, OldRuns, Retention, RunDirectory, RunRecord, RunRecordState, Settings, Table,
    inspect, recover, verify,
};

/// A run whose files lie on two disks in turn.
fn run_on_two_disks(folder: &Path) -> (RunDirectory, PathBuf) {
    fs::create_dir_all(folder.join("second")).expect("made");
    let files = FileLimits { directories: vec![folder.join("second")], ..settings(Compression::None).files };
    let run = write_run(&folder.join("runs"), &Settings { files, ..settings(Compression::None) }, HITS, 250);
    let second = folder.join("second").join(run.path().file_name().expect("a run has a name"));
    (run, second)
}

#[test]
fn files_lie_on_two_disks_in_turn_and_are_one_table() {
    let folder = folder();
    let (run, second) = run_on_two_disks(folder.path());
    for (number, is_second) in [(0, false), (1, true), (2, false), (3, true)] {
        let path = part(run.path(), Table::Hits, number);
        assert_eq!(path.is_symlink(), is_second, "{number}");
        assert_eq!(second.join(path.file_name().expect("named")).is_file(), is_second, "{number}");
    }
    assert_eq!(hits_of(run.path()), (0..HITS).map(hit).collect::<Vec<_>>());
    let report = verify(run.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
    // A killed run is cut where its last file lies.
    let mut record = RunRecord::read(&run.run_record()).expect("readable");
    record.state = RunRecordState::Running;
    record.tables.clear();
    record.write(&run).expect("written");
    let last = fs::OpenOptions::new().write(true).open(second.join("hits.0003.arrows")).expect("there");
    last.set_len(last.metadata().expect("there").len() - 100).expect("cut");
    let run = unlocked(run);
    recover(run.path()).expect("recovered");
    assert!(verify(run.path()).expect("a run").ok);
    assert_eq!(hits_of(run.path()), (0..HITS - 500).map(hit).collect::<Vec<_>>());
}

#[test]
fn a_disk_that_is_not_there_is_named_by_every_reader_and_what_is_on_the_other_can_be_recovered() {
    let folder = folder();
    let (run, second) = run_on_two_disks(folder.path());
    let run = unlocked(run);
    fs::rename(folder.path().join("second"), folder.path().join("not-mounted")).expect("renamed");
    let words = |number: u32| {
        let lost = second.join(format!("hits.{number:04}.arrows"));
        format!("hits.{number:04}.arrows: this link leads to {}, which is not there", lost.display())
    };
    let problems =
        [verify(run.path()).expect("a run").problems, inspect(run.path(), 0).expect("a run").problems];
    for problems in problems {
        for words in [words(1), words(3)] {
            assert!(problems.iter().any(|problem| problem.contains(&words)), "{words} in {problems:#?}");
        }
    }
    let message = recover(run.path()).expect_err("a disk is missing").to_string();
    assert!(message.contains(&words(1)) && message.contains("mount its disk"), "{message}");
    // The disk is lost.
    for entry in fs::read_dir(run.path()).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_symlink() {
            fs::remove_file(path).expect("removed");
        }
    }
    let report = recover(run.path()).expect("recovered");
    let missing = report.missing.iter().filter(|missing| missing.table == "hits");
    let missing: u64 = missing.filter_map(|missing| missing.rows).sum();
    assert_eq!((report.hits_on_file, missing), (6000, 4000));
    assert!(verify(run.path()).expect("a run").ok);
}

#[test]
fn retention_removes_files_on_both_disks_and_nothing_else_there() {
    let folder = folder();
    let (old, second) = run_on_two_disks(folder.path());
    let old = unlocked(old);
    let (_newest, _) = run_on_two_disks(folder.path());
    // A link to somebody else's file is not followed.
    let precious = folder.path().join("hits.0009.arrows");
    fs::write(&precious, "somebody else's").expect("written");
    std::os::unix::fs::symlink(&precious, old.path().join("hits.0009.arrows")).expect("linked");
    let rules = Retention { most_runs: Some(1), ..Retention::default() };
    let directory = folder.path().join("runs");
    let settings = Settings { directory, retention: Some(rules), ..Settings::default() };
    let mut old_runs = OldRuns::new(&settings).expect("asked for");
    let retained = old_runs.check(std::time::Instant::now(), false).expect("the runs can be listed");
    assert_eq!(retained.removed.len(), 1);
    assert!(!second.exists() && !part(old.path(), Table::Hits, 1).is_symlink());
    assert_eq!(fs::read_to_string(&precious).expect("there"), "somebody else's");
    assert!(verify(old.path()).expect("a run").ok);
}

#[test]
fn retention_removes_what_recover_has_kept_of_a_table_on_both_disks() {
    let folder = folder();
    let (old, second) = run_on_two_disks(folder.path());
    let (old, (_newest, _)) = (unlocked(old), run_on_two_disks(folder.path()));
    let first = part(old.path(), Table::Hits, 0);
    let mut bytes = fs::read(&first).expect("there");
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&first, bytes).expect("written");
    assert!(recover(old.path()).expect("recovered").changed);
    assert!(old.path().join("hits.0001.arrows.damaged").is_symlink() && second.exists());
    // A name like those that `recover` gives is not enough.
    fs::write(old.path().join("notes.damaged"), "somebody's").expect("written");
    let rules = Retention { most_runs: Some(1), ..Retention::default() };
    let directory = folder.path().join("runs");
    let settings = Settings { directory, retention: Some(rules), ..Settings::default() };
    let mut old_runs = OldRuns::new(&settings).expect("asked for");
    let retained = old_runs.check(std::time::Instant::now(), false).expect("the runs can be listed");
    assert_eq!(retained.removed.len(), 1, "{retained:?}");
    let left = fs::read_dir(old.path()).expect("readable").map(|entry| entry.expect("readable").file_name());
    let left: Vec<String> = left.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(!left.iter().any(|name| name.contains(".arrows")) && !second.exists(), "{left:?}");
    assert!(left.iter().any(|name| name == "notes.damaged"), "{left:?}");
    let report = verify(old.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
}

/// A copy as `cp -a` makes it: links stay links.
fn copy_with_links(run: &Path, copy: PathBuf) -> PathBuf {
    fs::create_dir_all(&copy).expect("made");
    for entry in fs::read_dir(run).expect("readable") {
        let path = entry.expect("readable").path();
        let to = copy.join(path.file_name().expect("named"));
        match fs::read_link(&path) {
            Ok(target) => std::os::unix::fs::symlink(target, to).expect("linked"),
            Err(_) => drop(fs::copy(&path, to).expect("copied")),
        }
    }
    copy
}

#[test]
fn recover_and_retention_of_a_copied_run_leave_the_files_of_the_other_alone() {
    let folder = folder();
    let (run, second) = run_on_two_disks(folder.path());
    let run = unlocked(run);
    let last = second.join("hits.0003.arrows");
    cut_last(&second);
    let before = fs::read(&last).expect("there");
    let copies = folder.path().join("copies");
    let copy = copy_with_links(run.path(), copies.join(run.path().file_name().expect("a run has a name")));
    let _newest = write_run(&copies, &settings(Compression::None), HITS, 250);
    let message = recover(&copy).expect_err("a copy").to_string();
    assert!(message.contains("this run is a copy") && message.contains("cp -rL"), "{message}");
    let retained = || {
        let rules = Retention { most_runs: Some(1), ..Retention::default() };
        let settings = Settings { directory: copies.clone(), retention: Some(rules), ..Settings::default() };
        let mut old_runs = OldRuns::new(&settings).expect("asked for");
        old_runs.check(std::time::Instant::now(), false).expect("the runs can be listed")
    };
    let kept = retained();
    assert!(kept.removed.is_empty() && kept.warnings[0].contains("it is a copy"), "{kept:?}");
    assert_eq!(fs::read(&last).expect("there"), before);
    // A run that was moved, or whose other is gone, has the files as its own.
    fs::remove_dir_all(run.path()).expect("removed");
    assert!(recover(&copy).expect("recovered").changed);
    assert!(verify(&copy).expect("a run").ok);
    assert_eq!(retained().removed.len(), 1);
    assert!(!second.exists());
}

#[test]
fn recover_of_a_copy_under_another_name_leaves_the_files_of_the_run_alone() {
    let folder = folder();
    let (run, second) = run_on_two_disks(folder.path());
    let run = unlocked(run);
    cut_last(&second);
    let before = fs::read(second.join("hits.0003.arrows")).expect("there");
    let copy = copy_with_links(run.path(), run.path().with_file_name("000001-backup"));
    let message = recover(&copy).expect_err("a copy").to_string();
    assert!(message.contains("this run is a copy") && message.contains("cp -rL"), "{message}");
    // Not even where nobody has noted whose files they are.
    fs::remove_file(second.join(".run")).expect("removed");
    let message = recover(&copy).expect_err("somebody's file").to_string();
    assert!(message.contains("which is no file of this run"), "{message}");
    assert_eq!(fs::read(second.join("hits.0003.arrows")).expect("there"), before);
    assert!(recover(run.path()).expect("its own files").changed);
    // A run that was given another name has its files still.
    fs::write(second.join(".run"), run.path().as_os_str().as_encoded_bytes()).expect("written");
    cut_last(&second);
    let renamed = run.path().with_file_name("000001-renamed");
    fs::rename(run.path(), &renamed).expect("renamed");
    assert!(recover(&renamed).expect("its own files").changed);
}

#[test]
fn recover_does_not_write_through_a_link_to_a_file_of_somebody_else() {
    let folder = folder();
    let run = unlocked(run_of_parts(folder.path(), Compression::None));
    for number in [0, 3] {
        let (link, theirs) = (part(run.path(), Table::Hits, number), folder.path().join("theirs.arrows"));
        fs::rename(&link, &theirs).expect("moved");
        let bytes = fs::read(&theirs).expect("there");
        fs::write(&theirs, &bytes[..bytes.len() - 100]).expect("cut");
        std::os::unix::fs::symlink(&theirs, &link).expect("linked");
        let message = recover(run.path()).expect_err("somebody's file").to_string();
        assert!(message.contains("theirs.arrows, which is no file of this run"), "{number}: {message}");
        assert_eq!(fs::read(&theirs).expect("there"), bytes[..bytes.len() - 100], "{number}");
        fs::rename(&theirs, &link).expect("moved back");
    }
}

#[test]
fn recover_takes_a_run_whose_files_lie_on_two_disks_from_where_it_was_moved() {
    let folder = folder();
    let (run, second) = run_on_two_disks(folder.path());
    let moved = folder.path().join("moved").join(run.path().file_name().expect("a run has a name"));
    fs::create_dir_all(moved.parent().expect("it has one")).expect("made");
    fs::rename(unlocked(run).path(), &moved).expect("moved");
    // The next run takes the number again, and has no link to the files of the first.
    let next = write_run(&folder.path().join("runs"), &settings(Compression::None), HITS, 250);
    assert_eq!(next.path().file_name(), moved.file_name());
    cut_last(&second);
    assert!(recover(&moved).expect("it is no copy").changed);
    assert!(verify(&moved).expect("a run").ok);
}

fn cut_last(second: &Path) {
    let last = second.join("hits.0003.arrows");
    let bytes = fs::read(&last).expect("there");
    fs::write(&last, &bytes[..bytes.len() - 100]).expect("cut");
}

/// The run that the child recovers.
const DAMAGED: &str = "THALWEG_TEST_DAMAGED_RUN";

#[test]
#[ignore = "a part of the tests below, in a process of its own"]
fn child() {
    let run = PathBuf::from(std::env::var_os(DAMAGED).expect("a test below names it"));
    assert!(recover(&run).expect("it is its own, and can be read").changed);
}

/// What `program` gives, which runs a script that ends with the child.
fn run_child(program: &[&str], script: &str, arguments: &[&Path], run: &Path) -> Option<Output> {
    let this = std::env::current_exe().expect("a test has a file");
    let script = format!("{script}\nexec \"$0\" --exact two_disks::child --ignored --nocapture");
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(["-c", &script]).arg(this).args(arguments);
    command.env(DAMAGED, run).output().ok()
}

fn expect_success(child: &Output) {
    let text = [&child.stdout[..], &child.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn recover_takes_a_run_whose_files_lie_on_two_disks_by_another_path() {
    let folder = folder();
    let (run, second) = run_on_two_disks(folder.path());
    let run = unlocked(run);
    cut_last(&second);
    let (runs, bound) = (folder.path().join("runs"), folder.path().join("bound"));
    fs::create_dir(&bound).expect("made");
    let by_another = bound.join(run.path().file_name().expect("a run has a name"));
    let mount = "mount --bind \"$1\" \"$2\" || exit 9";
    let child = run_child(&["unshare", "-m", "sh"], mount, &[&runs, &bound], &by_another);
    // `unshare` gives 1 where it may not.
    let Some(child) = child.filter(|child| !matches!(child.status.code(), Some(1 | 9))) else {
        thalweg_prerequisite::skip("a mount of its own needs root and `unshare`");
        return;
    };
    expect_success(&child);
    assert!(verify(run.path()).expect("a run").ok);
}

#[test]
fn recover_has_few_files_of_a_table_open() {
    let folder = folder();
    let files = FileLimits { most_rows: Some(250), ..FileLimits::default() };
    let settings = Settings { files, batch_hits: 250, ..settings(Compression::None) };
    let run = unlocked(write_run(folder.path(), &settings, HITS, 250));
    assert!(part(run.path(), Table::Hits, 39).exists(), "four tables of 40 files");
    let last = part(run.path(), Table::Hits, 39);
    let bytes = fs::read(&last).expect("there");
    fs::write(&last, &bytes[..bytes.len() - 100]).expect("cut");
    expect_success(&run_child(&["sh"], "ulimit -n 32", &[], run.path()).expect("a shell"));
    assert!(verify(run.path()).expect("a run").ok);
}
