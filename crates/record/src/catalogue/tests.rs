//! The catalogue against runs that are written here.

use std::cell::Cell;
use std::fs::{self, File};

use super::index::{INDEX_FILE, NEW_INDEX_FILE};
use super::*;
use crate::directory_lock::DirectoryLock;
use crate::run_record::{RunRecord, RunRecordState};

/// The disk, an hour later unless said otherwise, with every run that is opened counted.
struct Counting {
    opened: Cell<usize>,
    later_ns: i64,
}

const HOUR_NS: i64 = 3_600_000_000_000;

impl Counting {
    fn after(later_ns: i64) -> Counting {
        Counting { opened: Cell::new(0), later_ns }
    }

    /// The catalogue, and how many runs were opened for it.
    fn list(directory: &Path) -> (Catalogue, usize) {
        let reader = Counting::after(HOUR_NS);
        let catalogue = Catalogue::read_by(&reader, directory).expect("listed");
        (catalogue, reader.opened.get())
    }
}

impl Reader for Counting {
    fn now_ns(&self) -> i64 {
        Disk.now_ns() + self.later_ns
    }

    fn facts(&self, run: &RunDirectory) -> RunFacts {
        Disk.facts(run)
    }

    fn read(&self, run: &RunDirectory) -> RunEntry {
        self.opened.set(self.opened.get() + 1);
        Disk.read(run)
    }
}

fn write_run(directory: &Path, title: &str, state: RunRecordState) -> RunDirectory {
    let run = RunDirectory::create(directory, title).expect("made");
    let mut record = RunRecord::start(&run, title, "", &["left".to_owned()]);
    if state != RunRecordState::Running {
        record.stop(state, Vec::new(), None);
    }
    record.write(&run).expect("written");
    run
}

/// A pipe that nobody writes: whoever opens it to read waits for ever.
fn make_pipe(path: &Path) {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no zero in it");
    // SAFETY: the path is a C string that lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

fn states(catalogue: &Catalogue) -> Vec<EntryState> {
    catalogue.runs.iter().map(|run| run.state).collect()
}

#[test]
fn a_thousand_runs_are_listed_from_the_index_without_opening_one() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for number in 1..=1000 {
        let path = folder.path().join(format!("{number:06}"));
        fs::create_dir(&path).expect("made");
        let text = format!("{{\"state\":\"stopped\",\"number\":{number},\"title\":\"run {number}\"}}");
        fs::write(path.join("run.json"), text).expect("written");
    }
    let (first, opened) = Counting::list(folder.path());
    assert_eq!((first.runs.len(), opened), (1000, 1000));
    let (second, opened) = Counting::list(folder.path());
    assert_eq!(opened, 0, "nothing has changed");
    assert_eq!(first, second);
    let run = RunDirectory::open(&folder.path().join("000500")).expect("there");
    LabelChange::add(&run, "ana", &["good".to_owned()], &[]).expect("labelled");
    let (third, opened) = Counting::list(folder.path());
    assert_eq!((opened, &third.runs[499].labels[..]), (1, &["good".to_owned()][..]));
    assert_eq!(Counting::list(folder.path()).1, 0);
    fs::remove_dir_all(folder.path().join("000999")).expect("removed");
    let (fourth, opened) = Counting::list(folder.path());
    assert_eq!((fourth.runs.len(), opened), (999, 0));
}

#[test]
fn each_change_of_a_run_is_seen_whatever_the_index_has() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let run = write_run(folder.path(), "one", RunRecordState::Stopped);
    let entry = || Counting::list(folder.path()).0.runs.remove(0);
    assert_eq!((entry().title.as_str(), entry().bytes > 0), ("one", true));
    let mut record = RunRecord::read(&run.run_record()).expect("there");
    // As many bytes as before.
    record.title = "two".to_owned();
    record.write(&run).expect("written");
    assert_eq!(entry().title, "two");
    Note::add(&run, "beam off", "ana").expect("added");
    assert_eq!(entry().notes[0].text, "beam off");
    let before = entry().bytes;
    fs::write(run.path().join("plot.svg"), "12345").expect("written");
    assert_eq!(entry().bytes, before + 5);
    fs::write(run.run_record(), "{\"state\":\"stopped").expect("damaged");
    assert_eq!(entry().state, EntryState::Damaged);
    fs::remove_file(run.run_record()).expect("removed");
    assert_eq!(entry().state, EntryState::NoRecord);
}

#[test]
fn a_run_that_changed_a_moment_ago_is_not_trusted_to_show_its_next_change() {
    let folder = tempfile::tempdir().expect("temporary folder");
    drop(write_run(folder.path(), "one", RunRecordState::Stopped));
    for _ in 0..2 {
        let now = Counting::after(0);
        Catalogue::read_by(&now, folder.path()).expect("listed");
        assert_eq!(now.opened.get(), 1, "its files may change once more within the same tick");
    }
    assert!(!folder.path().join(INDEX_FILE).exists());
}

#[test]
fn an_index_that_is_damaged_missing_or_of_another_version_is_made_anew() {
    let folder = tempfile::tempdir().expect("temporary folder");
    ["one", "two"].iter().for_each(|title| drop(write_run(folder.path(), title, RunRecordState::Stopped)));
    let (expected, _) = Counting::list(folder.path());
    let path = folder.path().join(INDEX_FILE);
    let whole = fs::read(&path).expect("written");
    let text = String::from_utf8(whole.clone()).expect("text");
    let damaged = [
        Vec::new(),
        b"\xff\xfe{}\n".to_vec(),
        whole[..whole.len() / 2].to_vec(),
        text.replacen("\"title\":\"one\"", "\"title\":\"ono\"", 1).into_bytes(),
        text.replacen(env!("CARGO_PKG_VERSION"), "0.0.0", 1).into_bytes(),
        text.replacen("{\"catalogue\":1", "{\"catalogue\":2", 1).into_bytes(),
    ];
    for bytes in damaged {
        assert_ne!(bytes, whole);
        fs::write(&path, &bytes).expect("written");
        let (found, opened) = Counting::list(folder.path());
        assert_eq!((&found, opened), (&expected, 2), "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(fs::read(&path).expect("written anew"), whole);
    }
    fs::remove_file(&path).expect("removed");
    assert_eq!(Counting::list(folder.path()), (expected, 2));
}

#[test]
fn what_a_killed_program_leaves_of_an_index_does_no_harm() {
    let folder = tempfile::tempdir().expect("temporary folder");
    drop(write_run(folder.path(), "one", RunRecordState::Stopped));
    let new = folder.path().join(NEW_INDEX_FILE);
    fs::write(&new, "half of an index that is much longer than the one that follows it".repeat(100))
        .expect("written");
    assert_eq!(Counting::list(folder.path()).1, 1);
    assert!(!new.exists(), "the next program has used it");
    assert_eq!(Counting::list(folder.path()).1, 0, "and its index is whole");
}

#[test]
fn while_another_program_writes_the_index_it_is_left_alone() {
    let folder = tempfile::tempdir().expect("temporary folder");
    drop(write_run(folder.path(), "one", RunRecordState::Stopped));
    let new = folder.path().join(NEW_INDEX_FILE);
    let writer = File::create(&new).expect("made");
    writer.try_lock().expect("free");
    assert_eq!(Counting::list(folder.path()).1, 1);
    assert!(new.exists() && !folder.path().join(INDEX_FILE).exists());
    drop(writer);
    Counting::list(folder.path());
    assert!(folder.path().join(INDEX_FILE).exists());
}

#[test]
fn many_programs_at_once_see_the_same_and_leave_a_whole_index() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for number in 0..20 {
        let title = format!("run {number}");
        drop(write_run(folder.path(), &title, RunRecordState::Stopped));
    }
    let (expected, _) = Counting::list(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (folder, expected) = (folder.path(), &expected);
            scope.spawn(move || {
                for round in 0..25 {
                    if (thread + round) % 3 == 0 {
                        // Another program may have removed it.
                        let _ = fs::remove_file(folder.join(INDEX_FILE));
                    }
                    assert_eq!(Counting::list(folder).0, *expected);
                }
            });
        }
    });
    Counting::list(folder.path());
    assert_eq!(Counting::list(folder.path()).1, 0);
}

#[test]
fn every_run_has_its_word_and_none_spoils_the_list() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let running = write_run(folder.path(), "running", RunRecordState::Running);
    drop(write_run(folder.path(), "killed", RunRecordState::Running));
    drop(write_run(folder.path(), "ended", RunRecordState::Stopped));
    drop(write_run(folder.path(), "failed", RunRecordState::Failed));
    drop(write_run(folder.path(), "recovered", RunRecordState::Recovered));
    let damaged = RunDirectory::create(folder.path(), "damaged").expect("made");
    fs::write(damaged.run_record(), "{\"number\": \"six\"}").expect("written");
    fs::write(damaged.ledger(), "").expect("written");
    let empty = RunDirectory::create(folder.path(), "").expect("made");
    let unreadable = RunDirectory::create(folder.path(), "").expect("made");
    fs::create_dir(unreadable.run_record()).expect("made");
    make_pipe(&unreadable.notes());
    use EntryState::{Damaged, Ended, Failed, Killed, NoRecord, Recovered, Running, Unreadable};
    let words = [Running, Killed, Ended, Failed, Recovered, Damaged, NoRecord, Unreadable];
    let (catalogue, _) = Counting::list(folder.path());
    assert_eq!(states(&catalogue), words);
    let problems = |number: usize| catalogue.runs[number - 1].problems.join("; ");
    assert!(problems(6).contains("not the record of a run") && problems(6).contains("thalweg recover"));
    assert!(problems(7).contains("has no run.json"), "{}", problems(7));
    assert_eq!(catalogue.runs[7].problems.len(), 2, "{}", problems(8));
    drop((running, damaged, empty, unreadable));
    let (catalogue, opened) = Counting::list(folder.path());
    assert_eq!(states(&catalogue)[0], Killed, "nobody has it open any more");
    assert_eq!(opened, 4, "those whose state their files alone do not say");
}

#[test]
fn two_programs_that_list_a_killed_run_at_once_both_call_it_killed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let run = write_run(folder.path(), "", RunRecordState::Running);
    let path = run.path().to_owned();
    drop(run);
    let other = DirectoryLock::exclusive(&path).expect("a directory").expect("free");
    let ended = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(2));
            drop(other);
        });
        Counting::list(folder.path()).0
    });
    assert_eq!(states(&ended), [EntryState::Killed]);
}

#[test]
fn a_directory_that_cannot_be_written_is_listed_all_the_same() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("temporary folder");
    drop(write_run(folder.path(), "one", RunRecordState::Stopped));
    // As on a read-only disk, also for root: no file of this name can be made.
    fs::create_dir(folder.path().join(NEW_INDEX_FILE)).expect("made");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).expect("set");
    for _ in 0..2 {
        let (catalogue, opened) = Counting::list(folder.path());
        assert_eq!((states(&catalogue), opened), (vec![EntryState::Ended], 1));
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn a_directory_that_is_not_there_is_refused_in_words() {
    let error = Catalogue::read(Path::new("/no/such/runs")).expect_err("missing").to_string();
    assert!(error.contains("no such directory of runs") && error.contains("--runs"), "{error}");
}

#[test]
fn of_those_that_match_the_last_ones_are_kept() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for title in ["alpha", "beta", "alpha", "alpha"] {
        drop(write_run(folder.path(), title, RunRecordState::Stopped));
    }
    let mut catalogue = Catalogue::read(folder.path()).expect("listed");
    catalogue.keep(&Query { words: vec!["Alpha".to_owned()], latest: Some(2), ..Query::default() });
    assert_eq!(catalogue.runs.iter().map(|run| run.number).collect::<Vec<_>>(), [3, 4]);
}
