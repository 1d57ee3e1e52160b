//! A file cut anywhere, or damaged anywhere, keeps its whole batches and loses nothing else.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::path::Path;

use crate::example_run;
use crate::example_run::{copy_run, folder, hit, stock_rows, unlocked, write_run};
use thalweg_data::Hit;
use thalweg_record::read::{HitsReader, TableReader};
use thalweg_record::{Compression, RunRecordState, Settings, Table, recover, verify};

/// Ends of the batches of a file, and the rows up to there.
fn batch_ends(path: &Path) -> Vec<(u64, usize)> {
    let mut reader = TableReader::open(path).expect("opens");
    let mut ends = vec![(reader.position(), 0)];
    while let Some(head) = reader.next_batch().expect("whole") {
        ends.push((head.end(), ends.last().expect("not empty").1 + head.rows()));
    }
    ends
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).expect("opens").set_len(length).expect("cut");
}

fn expect_prefix(run: &Path, rows: usize, place: &str) {
    expect_rows(run, 0..rows, 0..0, place);
}

/// Recovers, and expects two stretches of the example's hits.
fn expect_rows(run: &Path, first: Range<usize>, second: Range<usize>, place: &str) {
    let report = recover(run).unwrap_or_else(|error| panic!("{place}: {error}"));
    let rows = first.len() + second.len();
    assert_eq!(report.hits_on_file, rows as u64, "{place}");
    let path = run.join("hits.arrows");
    let hits = HitsReader::open(&path).expect("opens").read_all().expect("whole");
    assert_eq!(hits, first.chain(second).map(hit).collect::<Vec<Hit>>(), "{place}");
    assert_eq!(stock_rows(&path), rows, "{place}");
    assert!(stock_rows(&run.join("extras.arrows")) <= rows.div_ceil(10), "{place}");
    let report = verify(run).expect("a run");
    assert!(report.ok, "{place}: {:?}", report.problems);
}

#[test]
fn a_small_file_cut_at_every_byte() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 40, 20);
    let ends = batch_ends(&run.table(Table::Hits));
    let length = fs::metadata(run.table(Table::Hits)).expect("a file").len();
    assert_eq!(ends.len(), 3, "a batch in front of another, and the last");
    let copy = folder.path().join("copy");
    for at in 0..=length {
        let run = copy_run(&run, &copy);
        cut(&run.join("hits.arrows"), at);
        let rows = ends.iter().rev().find(|(end, _)| *end <= at).map_or(0, |(_, rows)| *rows);
        expect_prefix(&run, rows, &format!("cut at byte {at}"));
    }
}

#[test]
fn a_large_file_cut_and_damaged_at_random_bytes() {
    let folder = folder();
    for compression in [Compression::None, Compression::Lz4] {
        let settings = Settings { compression, batch_hits: 4000, ..Settings::default() };
        let run = write_run(folder.path(), &settings, 60_000, 1000);
        let ends = batch_ends(&run.table(Table::Hits));
        let length = fs::metadata(run.table(Table::Hits)).expect("a file").len();
        let (copy, mut random) = (folder.path().join("copy"), 0x9E37_79B9_7F4A_7C15_u64);
        for turn in 0..30 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 16) % length;
            let run = copy_run(&run, &copy);
            let path = run.join("hits.arrows");
            let rows = ends.iter().rev().find(|(end, _)| *end <= at).map_or(0, |(_, rows)| *rows);
            let mut behind = 0..0;
            if turn % 2 == 0 {
                cut(&path, at);
            } else if at >= ends[0].0 {
                behind = ends.iter().find(|(end, _)| *end > at).map_or(60_000, |(_, rows)| *rows)..60_000;
                let mut bytes = fs::read(&path).expect("a file");
                bytes[at as usize] ^= 1 << (random % 8);
                fs::write(&path, bytes).expect("written");
                let report = verify(&run).expect("a run");
                assert!(!report.ok, "byte {at} is damaged and nobody saw");
            }
            expect_rows(&run, 0..rows, behind, &format!("byte {at}"));
        }
    }
}

#[test]
fn a_killed_run_is_recovered_with_its_ledger() {
    let folder = folder();
    let settings = Settings { batch_hits: 100, ..Settings::default() };
    let run = thalweg_record::RunDirectory::create(folder.path(), "killed").expect("made");
    let record = thalweg_record::RunRecord::start(&run, "killed", "", &example_run::sources());
    record.write(&run).expect("written");
    let mut writer =
        thalweg_record::HitWriter::create(run.path(), &settings, &example_run::sources()).expect("made");
    let pool = thalweg_data::Pool::new(2, 1 << 20).expect("small");
    for start in [0, 60, 120] {
        let hits = example_run::batch(&pool, start..start + 60, thalweg_data::Mark(0));
        thalweg_data::Sink::write(&mut writer, &hits).expect("written");
    }
    example_run::publish(&run, &writer);
    // Killed in the middle of a batch: bytes lie behind the end, and extras are one batch ahead of their hits.
    std::mem::forget(writer);
    let mut bytes = fs::read(run.table(Table::Hits)).expect("a file");
    bytes.extend([7; 300]);
    fs::write(run.table(Table::Hits), bytes).expect("written");
    assert!(!verify(run.path()).expect("a run").ok);
    let held = recover(run.path()).expect_err("this process has it open").to_string();
    assert!(held.contains("has this run open"), "{held}");
    let run = unlocked(run);
    let report = recover(run.path()).expect("recovered");
    assert_eq!((report.hits_on_file, report.hits_came, report.hits_not_on_file), (120, Some(180), Some(60)));
    assert!(report.changed && report.at_least);
    let record = thalweg_record::RunRecord::read(&run.run_record()).expect("written");
    assert_eq!(record.state, RunRecordState::Recovered);
    assert!(record.remarks[0].contains("120 hits on file, ≥ 60 hits that had come"), "{:?}", record.remarks);
    let report = verify(run.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
    assert!(!recover(run.path()).expect("again").changed, "a run in order is left alone");
}

#[test]
fn extras_whose_hits_are_gone_go_too() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 60, 20);
    let ends = batch_ends(&run.table(Table::Hits));
    cut(&run.table(Table::Hits), ends[2].0 + 3);
    let run = unlocked(run);
    assert!(!verify(run.path()).expect("a run").ok);
    let report = recover(run.path()).expect("recovered");
    assert_eq!(report.hits_on_file, 40);
    assert_eq!(stock_rows(&run.table(Table::Extras)), 4);
    assert_eq!(stock_rows(&run.table(Table::Waveforms)), 4);
}

#[test]
fn a_directory_that_is_no_run_is_left_alone() {
    let folder = folder();
    assert!(recover(folder.path()).is_err());
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0);
}
