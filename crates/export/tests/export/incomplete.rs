//! A run of which files are missing, or rows, is not exported as if it were whole.

use std::fs;
use std::path::{Path, PathBuf};

use thalweg_data::hit::Layout;
use thalweg_data::{Event, EventSink, Events, Extra, Flags, Fragment, Hit, Hits, Mark, Pool, Sink, SourceId};
use thalweg_export::{Format, Report, Request, export};
use thalweg_record::read::recover;
use thalweg_record::{
    EventWriter, FileLimits, HitWriter, RunDirectory, RunRecord, RunRecordState, Settings, Table,
};

/// A run of hits in three files of 100 rows, and of statistics.
fn write_run(parent: &Path) -> PathBuf {
    write_files(parent, 3)
}

fn write_files(parent: &Path, count: u64) -> PathBuf {
    let directory = RunDirectory::create(parent, "").expect("made");
    let names = ["board".to_owned()];
    let mut record = RunRecord::start(&directory, "", "", &names);
    let files = FileLimits { most_rows: Some(100), ..FileLimits::default() };
    let settings = Settings { files, batch_hits: 100, ..Settings::default() };
    let mut writer = HitWriter::create(directory.path(), &settings, &names).expect("made");
    for batch in 0..count {
        let mut hits = Hits::default();
        hits.header.mark = Mark(batch);
        let rows = (0..100).map(|row| Hit { time_ps: (batch * 100 + row) as i64, ..Hit::default() });
        hits.hits.extend(rows);
        writer.write(&hits).expect("written");
    }
    writer.finish().expect("written");
    record.stop(RunRecordState::Stopped, writer.summaries(), None);
    record.write(&directory).expect("written");
    directory.path().to_owned()
}

fn exported(run: &Path, format: Format, tables: &[Table], out: &Path) -> Result<Report, String> {
    let request = Request {
        run: run.to_owned(),
        format,
        out: out.to_owned(),
        tables: tables.to_vec(),
        with_kev: false,
        with_names: false,
        described: Vec::new(),
    };
    export(&request, &mut |_| true).map_err(|error| error.to_string())
}

#[test]
fn a_run_without_its_last_file_is_exported_when_recover_has_noted_what_is_missing() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let run = write_run(folder.path());
    fs::remove_file(run.join("hits.0002.arrows")).expect("there");
    let (all, hits) = (folder.path().join("all"), folder.path().join("hits.csv"));
    for refused in
        [exported(&run, Format::Parquet, &[], &all), exported(&run, Format::Csv, &[Table::Hits], &hits)]
    {
        let message = refused.expect_err("refused");
        assert!(message.contains("hits.0002.arrows: run.json names 3 files of hits.arrows"), "{message}");
        assert!(message.contains("`thalweg recover`"), "{message}");
        assert!(!all.exists() && !hits.exists());
    }
    recover(&run).expect("recovered");
    let report = exported(&run, Format::Csv, &[Table::Hits], &hits).expect("exported");
    assert_eq!(report.tables[0].rows, 200);
}

#[test]
fn a_table_that_was_cut_between_two_batches_is_not_exported() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let run = write_run(folder.path());
    let mut record = RunRecord::read(&run.join("run.json")).expect("readable");
    record.tables.iter_mut().filter(|said| said.table == "hits").for_each(|said| said.rows = 400);
    record.write(&RunDirectory::open(&run).expect("a run")).expect("written");
    let out = folder.path().join("hits.csv");
    let message = exported(&run, Format::Csv, &[Table::Hits], &out).expect_err("refused");
    assert!(message.contains("hits.arrows: 300 rows where run.json says 400"), "{message}");
    assert!(!out.exists());
}

/// The run that the child exports.
const RUN: &str = "THALWEG_TEST_EXPORTED_RUN";

#[test]
#[ignore = "a part of the test below, in a process of its own"]
fn child() {
    let run = PathBuf::from(std::env::var_os(RUN).expect("the test below names it"));
    let folder = tempfile::tempdir().expect("temporary folder");
    let (all, hits) = (folder.path().join("all"), folder.path().join("hits.csv"));
    exported(&run, Format::Parquet, &[], &all).expect("exported");
    exported(&run, Format::Csv, &[Table::Hits], &hits).expect("exported");
    assert_eq!(fs::read_to_string(&hits).expect("text").lines().count(), 4001);
}

#[test]
fn a_table_of_more_files_than_the_process_may_open_is_exported() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let run = write_files(folder.path(), 40);
    assert!(run.join("hits.0039.arrows").exists());
    let this = std::env::current_exe().expect("a test has a file");
    let script = "ulimit -n 32\nexec \"$0\" --exact incomplete::child --ignored --nocapture";
    let child = std::process::Command::new("sh").args(["-c", script]).arg(this).env(RUN, &run).output();
    let child = child.expect("a shell");
    let text = [&child.stdout[..], &child.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

/// The k-th of three batches of one hit with a waveform.
fn hits(pool: &Pool, batch: u64) -> Hits {
    let mut block = pool.take().expect("free");
    let hit = Hit { time_ps: batch as i64, flags: Flags::EXTRA, ..Hit::default() };
    let samples = block.append(&[1, 0, 2, 0]).expect("space");
    let mut hits = Hits { hits: vec![hit], slices: vec![samples], ..Hits::default() };
    hits.extras.push(Extra { layout: Layout::Plain, samples_count: 1, ..Extra::of(&hit, SourceId(0)) });
    hits.leases.add(block.lease());
    hits
}

/// The k-th of three batches of one event with one fragment.
fn events(pool: &Pool, trigger: u64) -> Events {
    let mut block = pool.take().expect("free");
    let payload = block.append(b"data").expect("space");
    let fragment = Fragment { trigger, bytes: 4, slices: 1, ..Fragment::default() };
    let event = Event { trigger, fragments: 1, bytes: 4, ..Event::default() };
    let mut events = Events { events: vec![event], fragments: vec![fragment], ..Events::default() };
    events.slices.push(payload);
    events.leases.add(block.lease());
    events
}

/// A run of hits with waveforms and of events with fragments, in three files of each table.
fn write_pairs(parent: &Path) -> PathBuf {
    let directory = RunDirectory::create(parent, "").expect("made");
    let names = ["board".to_owned()];
    let mut record = RunRecord::start(&directory, "", "", &names);
    let files = FileLimits { most_rows: Some(1), ..FileLimits::default() };
    let settings = Settings { files, batch_hits: 1, ..Settings::default() };
    let pool = Pool::new(4, 1 << 12).expect("small");
    let mut of_hits = HitWriter::create(directory.path(), &settings, &names).expect("made");
    let mut of_events =
        EventWriter::create(&directory.events_of(None), &settings, &names, true).expect("made");
    for batch in 0..3 {
        of_hits.write(&hits(&pool, batch)).expect("written");
        EventSink::write(&mut of_events, &events(&pool, batch)).expect("written");
        of_events.flush().expect("written");
    }
    Sink::finish(&mut of_hits).expect("written");
    EventSink::finish(&mut of_events).expect("written");
    let tables = [of_hits.summaries(), of_events.summaries()].concat();
    record.stop(RunRecordState::Stopped, tables, None);
    record.write(&directory).expect("written");
    directory.path().to_owned()
}

/// The formats that read another table beside the one that they hold.
const PAIRS: [(Format, Table, Table, &str); 2] = [
    (Format::Mid, Table::Fragments, Table::Events, "out.mid"),
    (Format::Compass, Table::Hits, Table::Waveforms, "out.BIN"),
];

fn file_name(table: Table, part: u32) -> String {
    match part {
        0 => table.file_name(),
        part => format!("{}.{part:04}.arrows", table.word()),
    }
}

#[test]
fn a_table_that_is_read_beside_another_is_not_exported_without_a_file_of_it() {
    for (format, table, beside, name) in PAIRS {
        for gone in [&[0][..], &[1], &[2], &[0, 1, 2]] {
            let folder = tempfile::tempdir().expect("temporary folder");
            let (run, out) = (write_pairs(folder.path()), folder.path().join(name));
            let names: Vec<String> = gone.iter().map(|part| file_name(beside, *part)).collect();
            names.iter().for_each(|name| fs::remove_file(run.join(name)).expect("there"));
            let message = exported(&run, format, &[table], &out).expect_err("refused");
            assert!(message.contains(&format!("{}: run.json names", names[0])), "{message}");
            assert!(!out.exists());
            recover(&run).expect("recovered");
            let report = exported(&run, format, &[table], &out).expect("exported");
            let remark = format!("rows of the table `{}` are not on file", beside.word());
            assert!(report.remarks.iter().any(|said| said.starts_with(&remark)), "{:?}", report.remarks);
        }
    }
}

#[test]
fn a_table_that_is_read_beside_another_is_not_exported_with_too_few_rows() {
    for (format, table, beside, name) in PAIRS {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (run, out) = (write_pairs(folder.path()), folder.path().join(name));
        let whole = exported(&run, format, &[table], &folder.path().join(format!("whole-{name}")));
        assert_eq!(whole.expect("exported").remarks, [""; 0]);
        let mut record = RunRecord::read(&run.join("run.json")).expect("readable");
        let said = record.tables.iter_mut().find(|said| said.table == beside.word()).expect("recorded");
        said.rows += 1;
        record.write(&RunDirectory::open(&run).expect("a run")).expect("written");
        let message = exported(&run, format, &[table], &out).expect_err("refused");
        let found = format!("{}: 3 rows where run.json says 4", beside.file_name());
        assert!(message.contains(&found), "{message}");
        assert!(!out.exists());
    }
}
