//! A run of which files are missing, or rows, is not exported as if it were whole.

use std::fs;
use std::path::{Path, PathBuf};

use thalweg_data::{Hit, Hits, Mark, Sink};
use thalweg_export::{Format, Report, Request, export};
use thalweg_record::read::recover;
use thalweg_record::{FileLimits, HitWriter, RunDirectory, RunRecord, RunRecordState, Settings, Table};

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
