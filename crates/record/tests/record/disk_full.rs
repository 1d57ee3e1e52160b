//! A full disk: what is written verifies, and the ledger says what is not.
//!
//! The writing is done by a child process, once under a limit on the size of files, and once on a file system in memory
//! of its own, where this needs no more than root.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::example_events;
use crate::example_events::{Blocks, Planned};
use crate::example_losses;
use crate::example_losses::{Losing, SECOND_NS};
use crate::example_run;
use crate::example_run::{batch, folder, publish, slot, sources};
use thalweg_data::{Counters, EventSink, Ledger, Mark, Pool, Sink, SinkError, SourceId, Stage, Unit};
use thalweg_record::{
    CoincidenceWriter, Compression, EventWriter, HitWriter, LossBounds, OldRuns, Retention, RunDirectory,
    RunRecord, RunRecordState, Settings, Table, check, recover, verify,
};

/// Where the child writes, and a file that it removes to free space again.
const PLACE: &str = "THALWEG_DISK_FULL_PLACE";

/// The child: writes until the disk is full and on, then checks what it has.
#[test]
#[ignore = "run by the other tests of this file"]
fn child() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let ballast = Path::new(&place).join("ballast");
    let makes_room = ballast.exists();
    if makes_room {
        keep_the_ledger_on_a_full_disk(Path::new(&place));
        list_losses_on_a_full_disk(Path::new(&place));
        make_room_on_a_full_disk(Path::new(&place));
        recover_on_a_full_disk(Path::new(&place));
    }
    for compression in [Compression::None, Compression::Lz4] {
        for is_beside in [false, true] {
            if makes_room {
                // The ledger of hits are made at the end, and need room then.
                std::fs::write(&ballast, vec![0; 1_000_000]).expect("there is room at the start");
            }
            write_until_full(Path::new(&place), compression, is_beside);
        }
        write_events_until_full(Path::new(&place), compression);
        write_coincidences_until_full(Path::new(&place), compression);
    }
}

/// Ledgers that are open go on when the disk is full; new ones are refused with a word.
fn keep_the_ledger_on_a_full_disk(place: &Path) {
    let (open, refused) = (place.join("open.bin"), place.join("refused.bin"));
    // The last source's counters are on a page that nobody has touched yet.
    let names: Vec<String> = (0..20).map(|number| format!("board-{number}")).collect();
    let ledger = Ledger::create(Some(&open), &names).expect("there is room at the start");
    let mut filler = File::create(place.join("filler")).expect("made");
    while filler.write_all(&[1; 4096]).is_ok() {}
    let slot = ledger.open(Stage::Receive, SourceId(19), &[Unit::Hits]);
    let mut counters = Counters::default();
    counters.input(Unit::Hits, 7);
    slot.publish(&counters);
    let snapshot = Ledger::read_file(&open).expect("whole");
    assert_eq!(
        snapshot.slot(Stage::Receive, SourceId(19)).map(|each| each.counters.total_input(Unit::Hits)),
        Some(7)
    );
    let words = Ledger::create(Some(&refused), &names).map(|_| ()).expect_err("no room").to_string();
    assert!(words.contains("refused.bin") && words.contains("no space left"), "{words}");
    assert!(!refused.exists(), "a later try finds the name free");
    for file in [open, place.join("filler")] {
        std::fs::remove_file(file).expect("removed");
    }
}

/// The list of losses waits for space, and its end goes into the space that was reserved for it.
fn list_losses_on_a_full_disk(place: &Path) {
    let mut losing = Losing::new(&place.join("runs"), LossBounds::default());
    losing.lose(0, 1);
    losing.take(1);
    let mut filler = File::create(place.join("filler")).expect("made");
    while filler.write_all(&[1; 4096]).is_ok() {}
    let mut refused = 0;
    for second in 2..30 {
        losing.lose(0, 1);
        let snapshot = losing.snapshot();
        refused += u64::from(losing.list.take(&snapshot, &|_, _| Vec::new(), second * SECOND_NS).is_err());
    }
    assert!(refused > 0, "a page at most was left");
    let snapshot = losing.snapshot();
    losing
        .list
        .finish(&losing.run, &snapshot, &|_, _| Vec::new(), 30 * SECOND_NS)
        .expect("there is room for the end");
    let rows = example_losses::rows(&losing.run);
    let last = rows.last().expect("lost");
    assert_eq!(last.count as u64, refused, "one row stands for those that found no room");
    assert_eq!(rows.iter().map(|row| row.count).sum::<i64>(), 29);
    drop(losing);
    std::fs::remove_file(place.join("filler")).expect("removed");
    std::fs::remove_dir_all(place.join("runs")).expect("removed");
}

/// Where not even the note on a removal finds room, it goes into a file that was kept for it.
fn make_room_on_a_full_disk(place: &Path) {
    let directory = place.join("runs");
    let runs: Vec<_> = (0..3)
        .map(|_| example_run::write_run(&directory, &Settings::default(), 2000, 160).path().to_owned())
        .collect();
    let retention = Some(Retention { most_runs: Some(10), ..Retention::default() });
    let mut old_runs =
        OldRuns::new(&Settings { directory, retention, ..Settings::default() }).expect("it is asked for");
    let start = Instant::now();
    assert!(old_runs.check(start, false).expect("listed").removed.is_empty(), "there is space");
    let mut filler = File::create(place.join("filler")).expect("made");
    while filler.write_all(&[1; 4096]).is_ok() {}
    while filler.write_all(&[1]).is_ok() {}
    let retained = old_runs.check(start + Duration::from_secs(10), true).expect("listed");
    assert_eq!(retained.removed.len(), 2, "so small a disk is given all there is: {retained:?}");
    filler.write_all(&[1; 4096]).expect("there is room again");
    for run in &runs {
        let report = verify(run).expect("a run");
        assert!(report.ok && report.removed.is_some() == (*run != runs[2]), "{report:?}");
    }
    std::fs::remove_dir_all(place.join("runs")).expect("removed");
    std::fs::remove_file(place.join("filler")).expect("removed");
}

/// `recover` on a full disk says so and changes nothing; with space again it does its work.
fn recover_on_a_full_disk(place: &Path) {
    let settings = Settings { batch_hits: 200, ..Settings::default() };
    let run = example_run::write_run(&place.join("runs"), &settings, 4000, 200).path().to_owned();
    let hits = run.join("hits.arrows");
    let mut bytes = std::fs::read(&hits).expect("written");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&hits, &bytes).expect("as long as before");
    let mut filler = File::create(place.join("filler")).expect("made");
    while filler.write_all(&[1; 4096]).is_ok() {}
    while filler.write_all(&[1]).is_ok() {}
    let files = || std::fs::read_dir(&run).expect("readable").count();
    let before = (files(), std::fs::read(run.join("run.json")).expect("readable"));
    let refused = recover(&run).expect_err("there is no room").to_string();
    assert!(refused.contains("no space left") && refused.contains("nothing was changed"), "{refused}");
    assert_eq!((files(), std::fs::read(run.join("run.json")).expect("readable")), before);
    assert_eq!(std::fs::read(&hits).expect("readable"), bytes);
    drop(filler);
    std::fs::remove_file(place.join("filler")).expect("removed");
    assert_eq!(recover(&run).expect("there is space").hits_on_file, 3800);
    assert!(verify(&run).expect("a run").ok);
    std::fs::remove_dir_all(place.join("runs")).expect("removed");
}

fn write_until_full(place: &Path, compression: Compression, is_beside: bool) {
    let settings = Settings { compression, batch_hits: 4000, ..Settings::default() };
    let run = RunDirectory::create(place, "full").expect("made");
    let mut record = RunRecord::start(&run, "full", "", &sources());
    let mut writer = HitWriter::create(run.path(), &settings, &sources()).expect("made");
    if is_beside {
        writer = writer.write_beside().expect("a thread");
    }
    let pool = Pool::new(2, 1 << 20).expect("small");
    let (mut came, mut refused) = (0, 0);
    for start in (0..400_000).step_by(1000) {
        came += 1000;
        match writer.write(&batch(&pool, start..start + 1000, Mark(start as u64))) {
            Ok(()) => {}
            Err(SinkError::Full { .. }) => refused += 1000,
            Err(other) => panic!("{other}"),
        }
        let slots = [0, 1].map(|source| slot(writer.counters(SourceId(source))));
        let sum = |entry: usize| slots[0][entry] + slots[1][entry];
        assert_eq!(sum(0), sum(1) + sum(2) + sum(3));
        assert_eq!((sum(0), sum(1), sum(3)), (came, writer.hits_on_file(), refused));
    }
    assert!(refused > 0, "the disk was never full");
    let ballast = place.join("ballast");
    let makes_room = ballast.exists();
    if makes_room {
        std::fs::remove_file(ballast).expect("removed");
        writer.write(&batch(&pool, 400_000..401_000, Mark(500_000))).expect("there is room again");
    }
    assert_eq!(writer.finish().is_ok(), makes_room);
    let slots = [0, 1].map(|source| slot(writer.counters(SourceId(source))));
    assert_eq!(slots[0][2] + slots[1][2], 0, "nothing is held any more");
    assert_eq!(slots[0][1] + slots[1][1], writer.hits_on_file());
    let snapshot = publish(&run, &writer);
    assert!(snapshot.close());
    record.stop(RunRecordState::Failed, writer.summaries(), Some(&snapshot));
    record.write(&run).expect("a few kB are left");
    let report = verify(run.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
    println!("{} hits on file, {} refused", report.hits, refused);
    std::fs::remove_dir_all(run.path()).expect("removed");
}

fn write_coincidences_until_full(place: &Path, compression: Compression) {
    use crate::example_coincidences as example;
    let settings = Settings { compression, batch_hits: 4000, ..Settings::default() };
    let run = RunDirectory::create(place, "full").expect("made");
    let mut writer = CoincidenceWriter::create(run.path(), &settings, &example::sources()).expect("made");
    let (mut came, mut refused) = (0, 0);
    for start in (0..400_000).step_by(500) {
        came += 500;
        match writer.write(&example::batch(start..start + 500)) {
            Ok(()) => {}
            Err(SinkError::Full { .. }) => refused += 500,
            Err(other) => panic!("{other}"),
        }
        let [input, output, held, lost] = example::slot(writer.counters());
        assert_eq!((input, input), (came, output + held + lost));
        // Of a refused batch the first events may have been taken.
        assert!(lost <= refused && (refused == 0 || lost > 0));
    }
    assert!(refused > 0, "the disk was never full");
    assert!(writer.finish().is_err());
    let [input, output, held, lost] = example::slot(writer.counters());
    assert_eq!((held, input), (0, output + lost));
    // No room is left for snapshot.
    assert_eq!(example::read_all(run.path()).events.len() as u64, output);
    println!("{output} coincidences on file, {lost} lost");
    std::fs::remove_dir_all(run.path()).expect("removed");
}

/// The k-th event: three fragments of 1500 bytes that do not compress.
fn large_event(index: u64) -> Planned {
    let byte = |source: u16, place: u64| {
        let mixed = ((index << 13) | (u64::from(source) << 11) | place).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 40) as u8
    };
    let bytes = |source: u16| (0..1500).map(|place| byte(source, place)).collect();
    let fragment = |source: u16| (source, index, vec![bytes(source)]);
    Planned { trigger: index, fragments: (0..3).map(fragment).collect(), ..Planned::default() }
}

fn write_events_until_full(place: &Path, compression: Compression) {
    let settings = Settings { compression, batch_bytes: 64 << 10, ..Settings::default() };
    let run = RunDirectory::create(place, "full").expect("made");
    let files = run.events_of(None);
    let mut writer = EventWriter::create(&files, &settings, &example_events::sources(3), true).expect("made");
    let mut blocks = Blocks::new(false, 64);
    let (mut came, mut refusals) = (0, 0);
    for first in (0..1200).step_by(4) {
        let events: Vec<Planned> = (first..first + 4).map(large_event).collect();
        came += 4;
        match writer.write(&blocks.batch(&events, Mark(first))) {
            Ok(()) => {}
            Err(SinkError::Full { .. }) => refusals += 1,
            Err(other) => panic!("{other}"),
        }
        let [input, output, held, lost] = example_events::slot(writer.counters(), Unit::Events);
        assert_eq!((input, output), (came, writer.events_on_file()));
        assert_eq!(input, output + held + lost);
        // The first events of a refused batch may have found room.
        assert!(refusals <= lost && lost <= 4 * refusals, "{lost} of {refusals} batches");
        for source in (0..3).map(SourceId) {
            for (unit, each) in [(Unit::Fragments, 1), (Unit::Bytes, 1500)] {
                let slot = example_events::slot(writer.source_counters(source), unit);
                assert_eq!(slot, [input, output, held, lost].map(|events| events * each));
            }
        }
    }
    assert!(refusals > 0, "the disk was never full");
    // Nobody frees space, so what is held is lost.
    assert!(writer.finish().is_err());
    let [input, output, held, lost] = example_events::slot(writer.counters(), Unit::Events);
    assert_eq!((held, input), (0, output + lost));
    let read = example_events::read_all(&files);
    assert_eq!(read.len() as u64, output);
    for (index, event) in read.iter().enumerate() {
        assert_eq!(Planned::of(event).0.payload(), large_event(event.trigger).payload());
        assert!(event.trigger >= index as u64);
    }
    drop(writer);
    for table in [Table::Events, Table::Fragments] {
        assert!(check(&std::fs::read(run.table(table)).expect("a file")).expect("whole").rows > 0);
    }
    println!("{output} events on file, {refusals} batches refused");
    std::fs::remove_dir_all(run.path()).expect("removed");
}

fn run_child(script: &str, place: &Path) -> Output {
    let this = std::env::current_exe().expect("a test has a file");
    let script = format!("{script}\nexec \"$0\" --exact disk_full::child --ignored --nocapture");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(this).env(PLACE, place).output().expect("a shell")
}

fn expect_success(output: &Output) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn a_limit_on_the_size_of_files_is_reported_as_a_full_disk() {
    let folder = folder();
    // 512-byte units; the signal that would end the process is ignored, as by a service manager.
    expect_success(&run_child("trap '' XFSZ\nulimit -f 2000", folder.path()));
}

#[test]
fn a_full_file_system_that_gets_room_again() {
    let folder = folder();
    let probe = Command::new("unshare").args(["-m", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        thalweg_prerequisite::skip("a file system of its own needs root and `unshare`");
        return;
    }
    let place = folder.path().join("small");
    std::fs::create_dir(&place).expect("made");
    let script = format!(
        "mount -t tmpfs -o size=3m none \"${PLACE}\" || exit 9\nhead -c 1000000 /dev/zero > \"${PLACE}/ballast\""
    );
    let this = std::env::current_exe().expect("a test has a file");
    let script = format!("{script}\nexec \"$0\" --exact disk_full::child --ignored --nocapture");
    let mut command = Command::new("unshare");
    let output =
        command.args(["-m", "sh", "-c", &script]).arg(this).env(PLACE, &place).output().expect("unshare");
    if output.status.code() == Some(9) {
        thalweg_prerequisite::skip("this system does not let root mount a tmpfs");
        return;
    }
    expect_success(&output);
}
