//! A table that goes on in new files is one table to every reader, and each of its files is one to others.

use std::fs;
use std::path::{Path, PathBuf};

use crate::example_events::{self, Blocks, Planned, SOURCES, planned};
use crate::example_run::{copy_run, folder, hit, stock_rows, unlocked, write_run};
use proptest::prelude::*;
use thalweg_data::{Counters, Hit, Ledger, SinkError, SourceId, Stage, Unit};
use thalweg_record::read::{HitsReader, TableReader};
use thalweg_record::{
    Compression, FileLimits, OldRuns, RecoverReport, Retention, RunDirectory, RunRecord, RunRecordState,
    Settings, Table, inspect, recover, verify,
};

pub const HITS: usize = 10_000;

/// A new file every 3000 hits or so, in batches of 500.
pub fn settings(compression: Compression) -> Settings {
    let files = FileLimits { most_rows: Some(3000), ..FileLimits::default() };
    Settings { files, compression, batch_hits: 500, ..Settings::default() }
}

pub fn run_of_parts(parent: &Path, compression: Compression) -> RunDirectory {
    write_run(parent, &settings(compression), HITS, 250)
}

pub fn part(run: &Path, table: Table, number: u32) -> PathBuf {
    match number {
        0 => run.join(table.file_name()),
        number => run.join(format!("{}.{number:04}.arrows", table.word())),
    }
}

pub fn hits_of(run: &Path) -> Vec<Hit> {
    HitsReader::open(&part(run, Table::Hits, 0)).expect("opens").read_all().expect("whole")
}

#[test]
fn parts_are_one_table_to_us_and_whole_files_to_others() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let folder = folder();
        let run = run_of_parts(folder.path(), compression);
        let rows: Vec<usize> =
            (0..4).map(|number| stock_rows(&part(run.path(), Table::Hits, number))).collect();
        assert_eq!(rows, [3000, 3000, 3000, 1000], "{compression:?}");
        assert!(!part(run.path(), Table::Hits, 4).exists());
        assert_eq!(hits_of(run.path()), (0..HITS).map(hit).collect::<Vec<_>>());
        // What belongs to the hits of a part lies in the part of the same number.
        let extras: Vec<usize> =
            (0..4).map(|number| stock_rows(&part(run.path(), Table::Extras, number))).collect();
        assert_eq!(extras, [300, 300, 300, 100]);
        let report = verify(run.path()).expect("a run");
        assert!(report.ok, "{:?}", report.problems);
        let on_disk = |table: Table| -> u64 {
            (0..4).map(|number| part(run.path(), table, number).metadata().expect("there").len()).sum()
        };
        let record = RunRecord::read(&run.run_record()).expect("readable");
        for table in [Table::Hits, Table::Extras] {
            let said = record.tables.iter().find(|said| said.table == table.word()).expect("there");
            let found = report.tables.iter().find(|found| found.table == table).expect("there");
            assert_eq!((said.files, said.bytes, found.bytes), (4, on_disk(table), on_disk(table)));
            let checksum = |number| {
                let bytes = fs::read(part(run.path(), table, number)).expect("there");
                format!("{:08x}", thalweg_data::checksum::of(&bytes))
            };
            assert_eq!(said.crc32c, [0, 1, 2, 3].map(checksum), "as computed while each was written");
        }
        let inspection = inspect(run.path(), 3).expect("a run");
        let hits = inspection.tables.iter().find(|found| found.table == "hits").expect("there");
        assert_eq!((inspection.hits, hits.files, hits.bytes), (HITS as u64, 4, on_disk(Table::Hits)));
        // A part alone is a table, too.
        let last =
            HitsReader::open(&part(run.path(), Table::Hits, 3)).expect("opens").read_all().expect("whole");
        assert_eq!(last[0], hit(9000));
    }
}

#[test]
fn a_new_file_begins_by_time_and_by_bytes_as_well() {
    for (files, expected) in [
        // Marks of the example are its hits' numbers, in nanoseconds.
        (FileLimits { most_s: Some(4000e-9), ..FileLimits::default() }, 3),
        (FileLimits { most_bytes: Some(40_000), ..FileLimits::default() }, 4),
        (FileLimits::default(), 1),
    ] {
        let folder = folder();
        let settings = Settings { files: files.clone(), ..settings(Compression::None) };
        let run = write_run(folder.path(), &settings, HITS, 250);
        let record = RunRecord::read(&run.run_record()).expect("readable");
        let hits = record.tables.iter().find(|said| said.table == "hits").expect("there");
        assert_eq!((hits.rows, hits.files), (HITS as u64, expected), "{files:?}");
        assert!(verify(run.path()).expect("a run").ok);
    }
}

#[test]
fn a_part_that_is_missing_or_damaged_is_named() {
    let folder = folder();
    let run = run_of_parts(folder.path(), Compression::None);
    for number in 1..4 {
        let copy = copy_run(&run, &folder.path().join("missing"));
        fs::remove_file(part(&copy, Table::Hits, number)).expect("there");
        let report = verify(&copy).expect("a run");
        let words = format!("hits.{number:04}.arrows: run.json names 4 files of hits.arrows");
        assert!(report.problems[0].starts_with(&words), "{}", report.problems[0]);
    }
    let copy = copy_run(&run, &folder.path().join("damaged"));
    let path = part(&copy, Table::Hits, 2);
    let mut bytes = fs::read(&path).expect("there");
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&path, bytes).expect("written");
    let report = verify(&copy).expect("a run");
    assert!(
        report.problems.iter().any(|problem| problem.contains("hits.0002.arrows")),
        "{:?}",
        report.problems
    );
}

#[test]
fn recover_reports_the_rows_of_files_that_are_missing_at_the_end() {
    let folder = folder();
    let run = run_of_parts(folder.path(), Compression::None);
    let copy = copy_run(&run, &folder.path().join("000007-short"));
    let gone_bytes = |number| fs::metadata(part(&copy, Table::Hits, number)).expect("there").len();
    let gone: u64 = [2, 3].map(gone_bytes).iter().sum();
    for number in [2, 3] {
        fs::remove_file(part(&copy, Table::Hits, number)).expect("there");
    }
    let problems = inspect(&copy, 0).expect("a run").problems;
    for words in
        ["hits.0002.arrows: run.json names 4 files", "hits.arrows: 6000 rows where run.json says 10000"]
    {
        assert!(problems.iter().any(|problem| problem.contains(words)), "{problems:?}");
    }
    let report = recover(&copy).expect("recovered");
    assert!(report.changed && report.hits_on_file == 6000);
    let of_hits: Vec<_> = report.missing.iter().filter(|missing| missing.table == "hits").collect();
    assert_eq!(of_hits.len(), 1, "{:?}", report.missing);
    assert_eq!((of_hits[0].rows, of_hits[0].bytes), (Some(4000), gone));
    assert_eq!((of_hits[0].after, of_hits[0].before), (Some(hit(5999).time_ps), None));
    assert!(of_hits[0].reason.contains("hits.0002.arrows"), "{}", of_hits[0].reason);
    // What belongs to the missing hits goes with them.
    let extras: Vec<_> = report.missing.iter().filter(|missing| missing.table == "extras").collect();
    assert_eq!((extras.len(), extras[0].rows), (1, Some(400)));
    let record = RunRecord::read(&copy.join("run.json")).expect("readable");
    assert_eq!((record.state, &record.missing), (RunRecordState::Recovered, &report.missing));
    let verified = verify(&copy).expect("a run");
    assert!(verified.ok, "{:?}", verified.problems);
    assert_eq!(hits_of(&copy), (0..6000).map(hit).collect::<Vec<_>>());
    assert!(!recover(&copy).expect("again").changed);
    assert!(inspect(&copy, 0).expect("a run").problems.is_empty());
}

#[test]
fn recover_reports_a_table_that_is_cut_between_two_batches_or_gone() {
    let folder = folder();
    let run = run_of_parts(folder.path(), Compression::None);
    let copy = copy_run(&run, &folder.path().join("000007-cut"));
    let last = part(&copy, Table::Hits, 3);
    let mut reader = TableReader::open(&last).expect("opens");
    let end = reader.next_batch().expect("whole").expect("a batch").end();
    let bytes = fs::read(&last).expect("there");
    fs::write(&last, [&bytes[..end as usize], &bytes[bytes.len() - 8..]].concat()).expect("written");
    for table in [Table::Extras, Table::Waveforms, Table::Statistics] {
        (0..4).for_each(|number| drop(fs::remove_file(part(&copy, table, number))));
    }
    let problems = inspect(&copy, 0).expect("a run").problems;
    let words = [
        "hits.arrows: 9500 rows where run.json says 10000",
        "extras.arrows: run.json names it, and it is missing",
    ];
    for words in words {
        assert!(problems.iter().any(|problem| problem.contains(words)), "{problems:?}");
    }
    let report = recover(&copy).expect("recovered");
    let missing = |table: Table| {
        let mut of_it = report.missing.iter().filter(|missing| missing.table == table.word());
        (of_it.next().and_then(|missing| missing.rows), of_it.next())
    };
    assert_eq!(missing(Table::Hits), (Some(500), None), "{:?}", report.missing);
    assert_eq!(missing(Table::Extras), (Some(1000), None));
    assert_eq!(missing(Table::Waveforms), (Some(1000), None));
    let verified = verify(&copy).expect("a run");
    assert!(verified.ok, "{:?}", verified.problems);
    assert!(!recover(&copy).expect("again").changed);
}

/// Gives a run the ledger of one whose hits were made by a decoder: so it has a total of hits.
fn enter_decoder(run: &Path) {
    let (path, names) = (run.join("ledger.bin"), ["left".to_owned()]);
    fs::remove_file(&path).expect("there");
    let ledger = Ledger::create(Some(&path), &names).expect("made");
    let mut counters = Counters::default();
    counters.output(Unit::Hits, HITS as u64);
    ledger.open(Stage::Decode, SourceId(0), &[Unit::Hits]).publish(&counters);
    counters.input(Unit::Hits, HITS as u64);
    ledger.open(Stage::Record, SourceId(0), &[Unit::Hits]).publish(&counters);
    let mut record = RunRecord::read(&run.join("run.json")).expect("readable");
    record.stop(RunRecordState::Stopped, record.tables.clone(), Some(&ledger.snapshot()));
    record.write(&RunDirectory::open(run).expect("a run")).expect("written");
}

#[test]
fn rows_of_a_table_whose_first_file_is_gone_are_lost_until_it_is_back() {
    let folder = folder();
    let run = copy_run(&run_of_parts(folder.path(), Compression::None), &folder.path().join("000001-gone"));
    enter_decoder(&run);
    let lost = || {
        let ledger = verify(&run).expect("a run").ledger;
        let hits = ledger.loss.total(Unit::Hits).expect("a run with hits");
        assert_eq!(ledger.hits_lost, hits.known_lost());
        hits.known.count
    };
    assert_eq!(lost(), 0);
    let (first, away) = (part(&run, Table::Hits, 0), folder.path().join("hits.arrows"));
    fs::rename(&first, &away).expect("moved");
    let report = recover(&run).expect("recovered");
    assert_eq!((report.hits_not_on_file, lost()), (Some(HITS as u64), HITS as u64));
    let gone = report.missing.iter().find(|missing| missing.table == "hits").expect("listed");
    let left = "hits.arrows: run.json names it, and it is missing; the files behind it are there, hits.0001.arrows to hits.0003.arrows";
    assert!(gone.reason.starts_with(left), "{}", gone.reason);
    assert!(!recover(&run).expect("again").changed);
    // What is left goes with the other tables.
    let directory = folder.path().join("old");
    let copy = copy_run(&RunDirectory::open(&run).expect("a run"), &directory.join("000001-example"));
    run_of_parts(&directory, Compression::None);
    let rules = Retention { most_runs: Some(1), ..Retention::default() };
    let settings = Settings { directory, retention: Some(rules), ..Settings::default() };
    let mut old_runs = OldRuns::new(&settings).expect("asked for");
    old_runs.check(std::time::Instant::now(), false).expect("the runs can be listed");
    assert!((0..4).all(|number| !part(&copy, Table::Hits, number).exists()));
    fs::rename(&away, &first).expect("moved back");
    let report = recover(&run).expect("recovered");
    assert_eq!((report.changed, report.hits_on_file, lost()), (true, HITS as u64, 0));
    assert_eq!(RunRecord::read(&run.join("run.json")).expect("readable").missing, []);
    assert!(!recover(&run).expect("again").changed);
}

#[test]
fn rows_of_the_last_files_of_a_table_are_missing_until_they_are_back() {
    let folder = folder();
    let whole = run_of_parts(folder.path(), Compression::None);
    let missing = |run: &Path| {
        let record = RunRecord::read(&run.join("run.json")).expect("readable");
        let of_hits = record.missing.into_iter().filter(|missing| missing.table == "hits");
        of_hits.map(|missing| (missing.rows, missing.bytes)).collect::<Vec<_>>()
    };
    let bytes = |number| fs::metadata(part(whole.path(), Table::Hits, number)).expect("there").len();
    let run = copy_run(&whole, &folder.path().join("000001-last"));
    enter_decoder(&run);
    let (last, away) = (part(&run, Table::Hits, 3), folder.path().join("hits.0003.arrows"));
    fs::rename(&last, &away).expect("moved");
    assert!(recover(&run).expect("recovered").changed);
    assert_eq!(missing(&run), [(Some(1000), bytes(3))]);
    fs::rename(&away, &last).expect("moved back");
    let report = recover(&run).expect("recovered");
    assert_eq!((report.changed, report.hits_on_file), (true, HITS as u64));
    assert_eq!(missing(&run), []);
    let verified = verify(&run).expect("a run");
    assert!(verified.ok, "{:?}", verified.problems);
    assert_eq!(verified.ledger.loss.total(Unit::Hits).expect("a run with hits").known.count, 0);
    assert!(!recover(&run).expect("again").changed);
    // Of two files one is back: what is behind it is missing, or what is before it.
    for (back, still) in [(2, 3), (3, 2)] {
        let run = copy_run(&whole, &folder.path().join("000001-one-of-two"));
        for number in [2, 3] {
            fs::remove_file(part(&run, Table::Hits, number)).expect("there");
        }
        assert!(recover(&run).expect("recovered").changed);
        fs::copy(part(whole.path(), Table::Hits, back), part(&run, Table::Hits, back)).expect("copied");
        let report = recover(&run).expect("recovered");
        let rows: u64 = missing(&run).iter().filter_map(|(rows, _)| *rows).sum();
        assert_eq!(report.hits_on_file + rows, HITS as u64, "{:?}", missing(&run));
        assert_eq!((rows, missing(&run).len()), (if still == 3 { 1000 } else { 3000 }, 1), "{back}");
    }
}

#[test]
fn a_file_that_is_missing_in_the_middle_of_a_table_is_the_reason_why_its_rows_are() {
    let folder = folder();
    let run = run_of_parts(folder.path(), Compression::None);
    let copy = copy_run(&run, &folder.path().join("000007-middle"));
    let gone = fs::metadata(part(&copy, Table::Hits, 1)).expect("there").len();
    fs::remove_file(part(&copy, Table::Hits, 1)).expect("there");
    let report = recover(&copy).expect("recovered");
    let of_hits: Vec<_> = report.missing.iter().filter(|missing| missing.table == "hits").collect();
    assert_eq!((of_hits.len(), of_hits[0].rows, of_hits[0].bytes), (1, Some(3000), gone));
    let words = "hits.0001.arrows: run.json names 4 files of hits.arrows, and this one is missing";
    assert_eq!(of_hits[0].reason, words);
    let record = RunRecord::read(&copy.join("run.json")).expect("readable");
    assert_eq!(record.missing, report.missing);
    let remark = record.remarks.last().expect("recovered");
    assert!(remark.contains("what was replaced or cut off is kept as hits.arrows.damaged"), "{remark}");
    // The record of a killed run names no files: its batches say by their numbers that some are missing.
    let copy = killed(&run, &folder.path().join("000008-killed"), 0);
    fs::remove_file(part(&copy, Table::Hits, 1)).expect("there");
    let report = recover(&copy).expect("recovered");
    let of_hits: Vec<_> = report.missing.iter().filter(|missing| missing.table == "hits").collect();
    assert_eq!((of_hits.len(), of_hits[0].rows), (1, Some(3000)));
    assert!(of_hits[0].reason.ends_with("batches 6 to 11 are missing before this one"), "{of_hits:?}");
}

/// The files of a run as a killed writer leaves them: the last part of the hits ends in the midst of a batch.
fn killed(run: &RunDirectory, copy: &Path, cut: u64) -> PathBuf {
    let copy = copy_run(run, copy);
    let mut record = RunRecord::read(&copy.join("run.json")).expect("readable");
    record.state = RunRecordState::Running;
    record.tables.clear();
    record.write(&RunDirectory::open(&copy).expect("a run")).expect("written");
    let last = fs::OpenOptions::new().write(true).open(part(&copy, Table::Hits, 3)).expect("there");
    last.set_len(last.metadata().expect("there").len() - cut).expect("cut");
    copy
}

#[test]
fn tables_of_a_killed_run_that_are_gone_are_lost_until_they_are_back() {
    let folder = folder();
    let run = run_of_parts(folder.path(), Compression::None);
    enter_decoder(run.path());
    let lost = |run: &Path| {
        let verified = verify(run).expect("a run");
        assert!(verified.ok, "{:?}", verified.problems);
        verified.ledger.loss.total(Unit::Hits).expect("a run with hits").known.count
    };
    let killed = |name: &str| {
        let copy = killed(&run, &folder.path().join(name), 0);
        let mut record = RunRecord::read(&copy.join("run.json")).expect("readable");
        record.kept_tables = vec!["hits".to_owned(), "events".to_owned(), "raw".to_owned()];
        record.write(&RunDirectory::open(&copy).expect("a run")).expect("written");
        copy
    };
    let gone = |report: &RecoverReport| -> Vec<(String, Option<u64>, String)> {
        report.missing.iter().map(|place| (place.file.clone(), place.rows, place.reason.clone())).collect()
    };
    // To events and raw bytes nothing had come.
    let whole = killed("000001-whole");
    (0..4).for_each(|number| fs::remove_file(part(&whole, Table::Hits, number)).expect("there"));
    let report = recover(&whole).expect("recovered");
    let words = format!("the file is missing, and {HITS} hits had come to it");
    assert_eq!(gone(&report), [("hits.arrows".to_owned(), None, words)]);
    assert_eq!(lost(&whole), HITS as u64);
    let first = killed("000001-first");
    let file = part(&first, Table::Hits, 0);
    let bytes = fs::read(&file).expect("there");
    fs::remove_file(&file).expect("there");
    let report = recover(&first).expect("recovered");
    let words = "the file is missing; the files behind it are there, hits.0001.arrows to hits.0003.arrows: put the first one back, and \
                 recover again";
    assert_eq!(gone(&report), [("hits.arrows".to_owned(), None, words.to_owned())]);
    assert_eq!(lost(&first), HITS as u64);
    assert!(!recover(&first).expect("again").changed);
    fs::write(&file, bytes).expect("put back");
    assert!(recover(&first).expect("recovered").changed);
    assert_eq!(lost(&first), 0);
    assert_eq!(RunRecord::read(&first.join("run.json")).expect("readable").missing, []);
    assert_eq!(hits_of(&first), (0..HITS).map(hit).collect::<Vec<_>>());
}

#[test]
fn a_last_part_without_a_batch_stays_and_is_counted() {
    let folder = folder();
    let run = run_of_parts(folder.path(), Compression::None);
    let copy = killed(&run, &folder.path().join("000007-killed"), 0);
    let last = part(&copy, Table::Hits, 3);
    let mut reader = TableReader::open(&last).expect("opens");
    let schema_bytes = reader.next_batch().expect("whole").expect("a batch").offset() as usize;
    let bytes = fs::read(&last).expect("there");
    fs::write(&last, [&bytes[..schema_bytes], &bytes[bytes.len() - 8..]].concat()).expect("written");
    recover(&copy).expect("recovered");
    let record = RunRecord::read(&copy.join("run.json")).expect("readable");
    let said = record.tables.iter().find(|table| table.file == "hits.arrows").expect("hits");
    let length = |number| fs::metadata(part(&copy, Table::Hits, number)).expect("there").len();
    assert_eq!((said.files, said.bytes), (4, (0..4).map(length).sum::<u64>()));
    assert!(verify(&copy).expect("a run").ok);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_killed_run_is_cut_in_its_last_part(cut in 1u64..20_000) {
        let folder = folder();
        let run = run_of_parts(folder.path(), Compression::None);
        let length = part(run.path(), Table::Hits, 3).metadata().expect("there").len();
        let copy = killed(&run, &folder.path().join("000007-killed"), cut.min(length));
        recover(&copy).expect("recovered");
        let report = verify(&copy).expect("a run");
        prop_assert!(report.ok, "{:?}", report.problems);
        let hits = hits_of(&copy);
        // What is cut off first is the mark of the end, of 8 bytes, behind the last batch.
        let is_cut = hits.len() < HITS || cut <= 8;
        prop_assert!(is_cut && hits.len() >= 9000 && hits.len().is_multiple_of(500), "{}", hits.len());
        prop_assert_eq!(&hits[..], &(0..hits.len()).map(hit).collect::<Vec<_>>()[..]);
        prop_assert!(!recover(&copy).expect("again").changed);
    }

    #[test]
    fn damage_in_any_part_costs_one_batch(number in 0u32..4, place in any::<prop::sample::Index>(), bit in 0u8..8) {
        let folder = folder();
        let run = run_of_parts(folder.path(), Compression::None);
        let copy = copy_run(&run, &folder.path().join("000008-damaged"));
        let path = part(&copy, Table::Hits, number);
        let mut bytes = fs::read(&path).expect("there");
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        fs::write(&path, bytes).expect("written");
        let before = verify(&copy).expect("a run").ok;
        let report = recover(&copy).expect("recovered");
        let verified = verify(&copy).expect("a run");
        prop_assert!(verified.ok, "{:?}", verified.problems);
        let hits = hits_of(&copy);
        prop_assert!(HITS - hits.len() <= 500, "{} hits are left", hits.len());
        prop_assert!(before || report.changed || hits.len() == HITS);
        let kept: Vec<Hit> = (0..HITS).map(hit).filter(|hit| hits.binary_search_by_key(&hit.time_ps, |hit| hit.time_ps).is_ok()).collect();
        prop_assert_eq!(hits, kept);
        prop_assert!(!recover(&copy).expect("again").changed);
    }
}

/// Every bit of an earlier part's end, and ends of any length: the parts behind it are found all the same.
#[test]
fn an_earlier_part_with_a_damaged_end_costs_no_later_part() {
    let folder = folder();
    let run = run_of_parts(folder.path(), Compression::None);
    let damaged = |harm: &dyn Fn(&mut Vec<u8>)| {
        let copy = copy_run(&run, &folder.path().join("000009-damaged"));
        let path = part(&copy, Table::Hits, 0);
        let mut bytes = fs::read(&path).expect("there");
        harm(&mut bytes);
        fs::write(&path, bytes).expect("written");
        let was_seen = !verify(&copy).expect("a run").ok;
        let report = recover(&copy).expect("recovered");
        let verified = verify(&copy).expect("a run");
        assert!(verified.ok, "{:?}", verified.problems);
        let hits = hits_of(&copy);
        fs::remove_dir_all(&copy).expect("removed");
        assert_eq!(report.changed, was_seen);
        (was_seen, hits.len())
    };
    for bit in 0..64 {
        let flip = move |bytes: &mut Vec<u8>| {
            let place = bytes.len() - 8 + bit / 8;
            bytes[place] ^= 1 << (bit % 8);
        };
        assert_eq!(damaged(&flip), (true, HITS), "bit {bit} of the end");
    }
    let cut_off = |cut: usize| damaged(&|bytes| bytes.truncate(bytes.len() - cut));
    for cut in [1, 7] {
        assert_eq!(cut_off(cut), (true, HITS), "{cut} bytes of the end");
    }
    assert_eq!(cut_off(8), (false, HITS), "a stream of Arrow may end without a mark");
    for cut in [9, 72, 1001] {
        assert_eq!(cut_off(cut), (true, HITS - 500), "{cut} bytes");
    }
    assert_eq!(damaged(&|bytes| bytes.extend([7; 100])), (true, HITS), "bytes behind the end");
}

#[test]
fn events_and_their_fragments_go_on_together() {
    let folder = folder();
    let files = FileLimits { most_rows: Some(20), ..FileLimits::default() };
    let settings = Settings { files, batch_bytes: 4000, ..Settings::default() };
    let planned: Vec<Planned> = (0..100).map(planned).collect();
    let run =
        example_events::write_run(folder.path(), &settings, &planned, 5, SOURCES, &mut Blocks::new(true, 64));
    let record = RunRecord::read(&run.run_record()).expect("readable");
    let files =
        |table: Table| record.tables.iter().find(|said| said.table == table.word()).expect("there").files;
    assert!(files(Table::Events) > 2 && files(Table::Events) == files(Table::Fragments));
    let report = verify(run.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(run.event_files().expect("readable").len(), 1, "parts are no builder of their own");
    // Without the last file of both, what is left fits together, and only run.json knows of the rest.
    let (run, last) = (unlocked(run), files(Table::Events) - 1);
    for table in [Table::Events, Table::Fragments] {
        fs::remove_file(part(run.path(), table, last)).expect("there");
    }
    let report = recover(run.path()).expect("recovered");
    for table in [Table::Events, Table::Fragments] {
        let said = record.tables.iter().find(|said| said.table == table.word()).expect("there");
        let found = report.tables.iter().find(|found| found.summary.table == table.word()).expect("there");
        let missing = report.missing.iter().find(|missing| missing.table == table.word()).expect("reported");
        assert_eq!(missing.rows, Some(said.rows - found.summary.rows));
    }
    let report = verify(run.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
}

#[test]
fn retention_removes_all_parts() {
    let folder = folder();
    let old = unlocked(run_of_parts(folder.path(), Compression::None));
    let _newest = run_of_parts(folder.path(), Compression::None);
    let rules = Retention { most_runs: Some(1), ..Retention::default() };
    let settings =
        Settings { directory: folder.path().to_owned(), retention: Some(rules), ..Settings::default() };
    let mut old_runs = OldRuns::new(&settings).expect("asked for");
    let retained = old_runs.check(std::time::Instant::now(), false).expect("the runs can be listed");
    assert_eq!(retained.removed.len(), 1);
    assert_eq!(retained.removed[0].removed.rows, (HITS + HITS / 10 * 2 + 40) as u64);
    let is_table = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "arrows");
    let left = fs::read_dir(old.path()).expect("readable").map(|entry| entry.expect("readable").path());
    assert_eq!(left.filter(is_table).count(), 0);
    let report = verify(old.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
}

#[test]
fn a_next_file_that_is_there_already_ends_the_recording_in_words() {
    let folder = folder();
    fs::write(folder.path().join("hits.0001.arrows"), "somebody else's").expect("written");
    let mut writer = thalweg_record::HitWriter::create(
        folder.path(),
        &settings(Compression::None),
        &crate::example_run::sources(),
    )
    .expect("made");
    let pool = thalweg_data::Pool::new(2, 1 << 20).expect("small");
    let results = (0..20).map(|step| {
        use thalweg_data::Sink;
        let batch =
            crate::example_run::batch(&pool, step * 250..(step + 1) * 250, thalweg_data::Mark(step as u64));
        writer.write(&batch)
    });
    let error = results.filter_map(Result::err).next().expect("refused");
    let SinkError::Failed { place, message } = error else { panic!("{error}") };
    assert!(place.ends_with("hits.0001.arrows") && message.contains("exists"), "{place}: {message}");
    let theirs = fs::read_to_string(folder.path().join("hits.0001.arrows")).expect("still there");
    assert_eq!(theirs, "somebody else's");
}

#[test]
fn a_directory_on_another_disk_is_not_made_where_it_is_missing() {
    let folder = folder();
    let missing = folder.path().join("not-mounted/runs");
    let files = FileLimits { directories: vec![missing.clone()], ..settings(Compression::None).files };
    let words =
        format!("{}: no such directory, and `directories` in `[record.files]` names it", missing.display());
    let message = files.check_directories().expect_err("missing").to_string();
    assert!(message.starts_with(&words), "{message}");
    // As when the disk goes while the run lasts.
    let settings = Settings { files, ..settings(Compression::None) };
    let run = RunDirectory::create(&folder.path().join("runs"), "").expect("made");
    let sources = crate::example_run::sources();
    let mut writer = thalweg_record::HitWriter::create(run.path(), &settings, &sources).expect("made");
    let pool = thalweg_data::Pool::new(2, 1 << 20).expect("small");
    let results = (0..20).map(|step| {
        use thalweg_data::Sink;
        let batch =
            crate::example_run::batch(&pool, step * 250..(step + 1) * 250, thalweg_data::Mark(step as u64));
        writer.write(&batch)
    });
    let error = results.filter_map(Result::err).next().expect("refused").to_string();
    assert!(error.contains("no such directory"), "{error}");
    assert!(!missing.parent().expect("it has one").exists());
}
