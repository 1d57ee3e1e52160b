//! Files of events cut anywhere, or damaged anywhere, keep the events that are whole in both, and lose nothing else.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::path::Path;

use crate::example_events::{
    Blocks, Planned, SOURCES, complete, planned, publish, read_all, sources, write_run,
};
use crate::example_run::{copy_run, folder, stock_rows, unlocked};
use thalweg_data::{EventSink, Mark, Selected};
use thalweg_record::read::TableReader;
use thalweg_record::{
    Compression, EventFiles, EventWriter, RunDirectory, RunRecord, RunRecordState, Settings, Table, check,
    recover, verify,
};

fn example(count: u64) -> Vec<Planned> {
    (0..count).map(planned).collect()
}

/// Ends of the batches of a file.
fn batch_ends(path: &Path) -> Vec<u64> {
    let mut reader = TableReader::open(path).expect("opens");
    let mut ends = vec![reader.position()];
    while let Some(head) = reader.next_batch().expect("whole") {
        ends.push(head.end());
    }
    ends
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).expect("opens").set_len(length).expect("cut");
}

fn expect_prefix(run: &Path, events: usize, place: &str) {
    expect_events(run, 0..events, 0..0, place);
}

/// Recovers, and expects two stretches of the example's events.
fn expect_events(run: &Path, first: Range<usize>, second: Range<usize>, place: &str) {
    let report = recover(run).unwrap_or_else(|error| panic!("{place}: {error}"));
    let events = first.len() + second.len();
    assert_eq!(report.events_on_file, events as u64, "{place}");
    let files = EventFiles::in_directory(run, None);
    let read: Vec<_> = read_all(&files).iter().map(|event| Planned::of(event).0).collect();
    let wanted: Vec<_> = first.chain(second).map(|index| planned(index as u64)).collect();
    assert_eq!(read, wanted, "{place}");
    assert_eq!(stock_rows(&files.events), events, "{place}");
    let fragments: usize = wanted.iter().map(|event| event.fragments.len()).sum();
    assert_eq!(stock_rows(&files.fragments), fragments, "{place}");
    let report = verify(run).expect("a run");
    assert!(report.ok, "{place}: {:?}", report.problems);
}

/// A run of batches of three events each, and how many events are in the first so many batches.
fn small_run(parent: &Path, compression: Compression, events: u64) -> (RunDirectory, Vec<usize>) {
    let settings = Settings { batch_bytes: 200, compression, ..Settings::default() };
    let run = write_run(parent, &settings, &example(events), 3, SOURCES, &mut Blocks::new(false, 1));
    // Thousands of copies are made; the ledger is in run.json, too.
    fs::remove_file(run.ledger()).expect("removed");
    let mut rows = vec![0];
    let mut reader = TableReader::open(&run.table(Table::Events)).expect("opens");
    while let Some(head) = reader.next_batch().expect("whole") {
        rows.push(rows.last().expect("not empty") + head.rows());
    }
    (run, rows)
}

#[test]
fn either_small_file_cut_at_every_byte() {
    let folder = folder();
    let (run, rows) = small_run(folder.path(), Compression::None, 6);
    assert_eq!(rows.len(), 3, "{rows:?}");
    let copy = folder.path().join("copy");
    for table in [Table::Events, Table::Fragments] {
        let ends = batch_ends(&run.table(table));
        assert_eq!(ends.len(), rows.len());
        let length = fs::metadata(run.table(table)).expect("a file").len();
        for at in 0..=length {
            let run = copy_run(&run, &copy);
            cut(&run.join(table.file_name()), at);
            let whole = ends.iter().rposition(|end| *end <= at).unwrap_or(0);
            expect_prefix(&run, rows[whole], &format!("{} cut at byte {at}", table.word()));
        }
    }
}

#[test]
fn verify_calls_nothing_damaged_while_events_are_written() {
    let folder = folder();
    let (run, ends) = small_run(folder.path(), Compression::None, 12);
    assert!(ends.len() > 2);
    RunRecord::start(&run, "events", "", &sources(SOURCES)).write(&run).expect("written");
    let events = run.table(Table::Events);
    let (end, whole) = (batch_ends(&events)[1] as usize, fs::read(&events).expect("a file"));
    fs::write(&events, [&whole[..end], &whole[whole.len() - 8..]].concat()).expect("written");
    let report = verify(run.path()).expect("a run");
    let [problem] = &report.problems[..] else { panic!("{:?}", report.problems) };
    assert!(problem.contains("is being written"), "{problem}");
}

#[test]
fn damage_anywhere_is_seen_and_what_lies_before_is_kept() {
    let folder = folder();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (run, rows) = small_run(folder.path(), compression, 9);
        let copy = folder.path().join("copy");
        for table in [Table::Events, Table::Fragments] {
            let ends = batch_ends(&run.table(table));
            let last = *ends.last().expect("not empty");
            for at in (ends[0]..last).step_by(13) {
                let run = copy_run(&run, &copy);
                let path = run.join(table.file_name());
                let mut bytes = fs::read(&path).expect("a file");
                bytes[at as usize] ^= 1 << (at % 8);
                let _ = check(&bytes);
                fs::write(&path, bytes).expect("written");
                let place = format!("{} damaged at byte {at}", table.word());
                assert!(!verify(&run).expect("a run").ok, "{place}, and nobody saw");
                let whole = ends.iter().rposition(|end| *end <= at).unwrap_or(0);
                expect_events(&run, 0..rows[whole], rows[whole + 1]..rows[rows.len() - 1], &place);
            }
        }
    }
}

/// A run of batches of three events each that a filter has selected, with all marks in turn.
fn small_selected_run(parent: &Path, events: u64) -> RunDirectory {
    let settings = Settings { batch_bytes: 200, ..Settings::default() };
    let run = RunDirectory::create(parent, "selected").expect("made");
    let (files, names) = (run.events_of(None), sources(SOURCES));
    let mut writer =
        EventWriter::create_selected(&files, &settings, &names, true, Some("complete")).expect("made");
    let mut blocks = Blocks::new(false, 1);
    for events in example(events).chunks(3) {
        writer
            .write_selected(&blocks.batch(events, Mark(0)), &Selected::ALL.map(Some)[..events.len()])
            .expect("written");
    }
    writer.finish().expect("written");
    complete(&run, &writer, SOURCES, RunRecordState::Running);
    run
}

#[test]
fn selected_events_keep_their_marks_behind_a_damaged_schema_and_around_a_damaged_batch() {
    let folder = folder();
    let run = unlocked(small_selected_run(folder.path(), 12));
    let files = run.events_of(None);
    let ends = batch_ends(&files.events);
    let marks = || read_all(&files).into_iter().map(|event| event.selected).collect::<Vec<_>>();
    let all = marks();
    assert_eq!(all, Selected::ALL.map(Some).repeat(4));
    let whole = fs::read(&files.events).expect("a file");
    // In the schema, in the first dictionary or the second, and in the second batch.
    for (at, kept) in [(60, 12), (ends[0] - 400, 12), (ends[0] - 30, 12), (ends[1] + 500, 9)] {
        let mut bytes = whole.clone();
        bytes[at as usize] ^= 0x40;
        fs::write(&files.events, bytes).expect("written");
        let report = recover(run.path()).expect("recovered");
        assert_eq!(report.events_on_file, kept, "damaged at byte {at} of {}", ends[0]);
        assert_eq!(marks(), all[..kept as usize], "damaged at byte {at}");
        fs::write(&files.events, &whole).expect("as before");
        let _ = fs::remove_file(run.path().join("recovered"));
    }
}

#[test]
fn damage_in_schema_or_dictionary_never_panics() {
    let folder = folder();
    let (run, _) = small_run(folder.path(), Compression::None, 9);
    let selected = small_selected_run(folder.path(), 9);
    for (run, table) in [(&run, Table::Events), (&run, Table::Fragments), (&selected, Table::Events)] {
        let bytes = fs::read(run.table(table)).expect("a file");
        let start = batch_ends(&run.table(table))[0] as usize;
        for at in 0..start {
            for bit in [0, 3, 7] {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _ = check(&damaged);
            }
        }
    }
}

#[test]
fn a_killed_run_is_recovered_with_its_ledger() {
    let folder = folder();
    let settings = Settings { batch_bytes: 1000, ..Settings::default() };
    let run = RunDirectory::create(folder.path(), "killed").expect("made");
    let mut writer =
        EventWriter::create(&run.events_of(None), &settings, &sources(SOURCES), true).expect("made");
    let mut blocks = Blocks::new(false, 1);
    for start in (0..90).step_by(10) {
        let events: Vec<Planned> = (start..start + 10).map(planned).collect();
        writer.write(&blocks.batch(&events, Mark(0))).expect("written");
    }
    let on_file = writer.events_on_file();
    assert!((1..90).contains(&on_file));
    complete(&run, &writer, SOURCES, RunRecordState::Running);
    publish(&run, &writer, SOURCES);
    // Killed in the middle of a cut: fragments are committed, their events are not yet.
    std::mem::forget(writer);
    let ends = batch_ends(&run.table(Table::Events));
    let mut bytes = fs::read(run.table(Table::Events)).expect("a file");
    bytes[ends[ends.len() - 2] as usize + 4..][..4].fill(0);
    fs::write(run.table(Table::Events), bytes).expect("written");
    let run = unlocked(run);
    assert!(!verify(run.path()).expect("a run").ok);
    let report = recover(run.path()).expect("recovered");
    assert!(report.changed && report.events_on_file < on_file);
    assert_eq!(report.events_came, Some(90));
    assert_eq!(report.events_not_on_file, Some(90 - report.events_on_file));
    expect_prefix(run.path(), report.events_on_file as usize, "after a kill");
    assert!(!recover(run.path()).expect("again").changed, "a run in order is left alone");
}
