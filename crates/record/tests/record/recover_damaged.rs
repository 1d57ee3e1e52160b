//! Damage anywhere in any table costs at most the batch that it is in, and what is missing is reported.

use std::fs;
use std::path::{Path, PathBuf};

use crate::example_events::{self, Blocks, SOURCES};
use crate::example_run::{copy_run, folder, stock_rows, write_run};
use thalweg_data::{Counters, Frames, Ledger, Mark, Pool, SourceId, Stage, Unit};
use thalweg_record::read::TableReader;
use thalweg_record::{
    Compression, MissingRows, RawSource, RawWriter, RecoverReport, RunDirectory, RunRecord, RunRecordState,
    Settings, Table, raw_sources, recover, verify,
};

/// First byte, byte behind the last, and rows of each batch of a file.
fn batches(path: &Path) -> Vec<(u64, u64, u64)> {
    let mut reader = TableReader::open(path).expect("opens");
    let mut batches = Vec::new();
    while let Some(head) = reader.next_batch().expect("whole") {
        batches.push((head.offset(), head.end(), head.rows() as u64));
    }
    batches
}

/// A copy of a run in which a table's file has other bytes.
fn damaged(run: &Path, copy: &Path, table: Table, damage: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let run = copy_run_path(run, copy);
    let path = run.join(table.file_name());
    let mut bytes = fs::read(&path).expect("a file");
    damage(&mut bytes);
    fs::write(&path, bytes).expect("written");
    run
}

fn copy_run_path(run: &Path, copy: &Path) -> PathBuf {
    let run = thalweg_record::RunDirectory::open(run).expect("a run");
    copy_run(&run, copy)
}

/// Recovers; the run verifies then, other readers agree, and everything missing is reported, in `run.json`, too.
fn recovered(run: &Path, place: &str) -> RecoverReport {
    let report = recover(run).unwrap_or_else(|error| panic!("{place}: {error}"));
    let verified = verify(run).expect("a run");
    assert!(verified.ok, "{place}: {:?}", verified.problems);
    for table in &report.tables {
        assert_eq!(stock_rows(&run.join(&table.summary.file)) as u64, table.summary.rows, "{place}");
        let changed = !table.reason.is_empty();
        assert_eq!(run.join(&table.backup).is_file(), changed && !table.backup.is_empty(), "{place}");
    }
    let record = RunRecord::read(&run.join("run.json")).expect("readable");
    assert_eq!(record.missing, report.missing, "{place}");
    assert!(!recover(run).expect("again").changed, "{place}: a run in order is left alone");
    report
}

fn rows(report: &RecoverReport, table: Table) -> u64 {
    let found = report.tables.iter().filter(|found| found.summary.table == table.word());
    found.map(|found| found.summary.rows).sum()
}

fn missing(report: &RecoverReport, table: Table) -> u64 {
    let found = report.missing.iter().filter(|missing| missing.table == table.word());
    found.map(|missing| missing.rows.expect("the run had ended, so rows are counted")).sum()
}

/// Damages a table everywhere, and holds the result to: at most the damaged batch is gone, of it and of what belongs to it.
fn expect_one_batch_at_most(run: &Path, tables: &[Table], damage: impl Fn(&mut [u8], usize), step: usize) {
    let copy = run.with_file_name("copy");
    let whole: Vec<_> = tables.iter().map(|table| batches(&run.join(table.file_name()))).collect();
    for (index, table) in tables.iter().enumerate() {
        let length = fs::metadata(run.join(table.file_name())).expect("a file").len() as usize;
        for at in (0..length).step_by(step) {
            let place = format!("{} damaged at byte {at} of {length}", table.word());
            let run = damaged(run, &copy, *table, |bytes| damage(&mut bytes[at..], at));
            let report = recovered(&run, &place);
            for (other, batches) in tables.iter().zip(&whole) {
                let all: u64 = batches.iter().map(|batch| batch.2).sum();
                let most = batches.iter().map(|batch| batch.2).max().unwrap_or(0);
                let kept = rows(&report, *other);
                assert!(all - kept <= most, "{place}: {kept} of {all} {} kept", other.word());
                let hit = whole[index].iter().any(|(first, end, _)| (*first..*end).contains(&(at as u64)));
                assert!(
                    hit || kept == all,
                    "{place}: no batch was hit, {kept} of {all} {} kept",
                    other.word()
                );
                assert_eq!(missing(&report, *other), all - kept, "{place}: {:?}", report.missing);
            }
        }
    }
}

const OF_HITS: [Table; 4] = [Table::Hits, Table::Extras, Table::Waveforms, Table::Statistics];

fn flip(bytes: &mut [u8], at: usize) {
    bytes[0] ^= [1, 0x80, 0xFF][at % 3];
}

#[test]
fn a_flipped_byte_in_tables_of_hits_costs_at_most_its_batch() {
    let folder = folder();
    for (compression, step) in [(Compression::None, 29), (Compression::Lz4, 53)] {
        let settings = Settings { batch_hits: 12, compression, ..Settings::default() };
        let run = write_run(folder.path(), &settings, 60, 12).path().to_owned();
        expect_one_batch_at_most(&run, &OF_HITS, flip, step);
        fs::remove_dir_all(run).expect("removed");
    }
}

#[test]
fn a_flipped_byte_in_events_or_fragments_costs_at_most_its_batch() {
    let folder = folder();
    for (compression, step) in [(Compression::None, 31), (Compression::Zstd, 59)] {
        let settings = Settings { batch_bytes: 400, compression, ..Settings::default() };
        let events: Vec<_> = (0..18).map(example_events::planned).collect();
        let mut blocks = Blocks::new(false, 1);
        let run = example_events::write_run(folder.path(), &settings, &events, 3, SOURCES, &mut blocks);
        let run = run.path().to_owned();
        expect_one_batch_at_most(&run, &[Table::Events, Table::Fragments], flip, step);
        fs::remove_dir_all(run).expect("removed");
    }
}

#[test]
fn any_flipped_byte_of_hits_costs_at_most_its_batch() {
    let folder = folder();
    let settings = Settings { batch_hits: 2, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 6, 2).path().to_owned();
    let (copy, whole) = (folder.path().join("copy"), batches(&run.join("hits.arrows")));
    assert_eq!(whole.len(), 3);
    let length = fs::metadata(run.join("hits.arrows")).expect("a file").len() as usize;
    for at in 0..length {
        let run = damaged(&run, &copy, Table::Hits, |bytes| flip(&mut bytes[at..], at));
        let report = recover(&run).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        let is_hit = whole.iter().any(|(first, end, _)| (*first..*end).contains(&(at as u64)));
        let kept = rows(&report, Table::Hits);
        assert!(kept == 6 || is_hit && kept == 4, "byte {at} of {length}: {kept} of 6 rows kept");
        assert_eq!(missing(&report, Table::Hits), 6 - kept, "byte {at}");
        let on_file = batches(&run.join("hits.arrows")).iter().map(|batch| batch.2).sum::<u64>();
        assert_eq!(on_file, kept, "byte {at}");
    }
}

/// A run with received bytes of a stream and of datagrams in several batches.
fn write_raw_run(parent: &Path, compression: Compression) -> PathBuf {
    begin_raw_run(parent, compression).end()
}

/// The same before it ends: what is in its directory is what is left if it is killed now.
struct RawRun {
    directory: RunDirectory,
    record: RunRecord,
    ledger: Ledger,
    writer: RawWriter,
}

impl RawRun {
    fn end(mut self) -> PathBuf {
        self.writer.finish().expect("written");
        self.publish();
        let snapshot = self.ledger.snapshot();
        self.record.stop(RunRecordState::Stopped, self.writer.summaries(), Some(&snapshot));
        self.record.write(&self.directory).expect("written");
        self.directory.path().to_owned()
    }

    fn publish(&self) {
        for source in [SourceId(0), SourceId(1)] {
            let slot = self.ledger.open(Stage::Raw, source, &[Unit::Bytes, Unit::Datagrams]);
            slot.publish(self.writer.counters(source));
        }
    }
}

fn begin_raw_run(parent: &Path, compression: Compression) -> RawRun {
    let settings = Settings { batch_bytes: 400, compression, ..Settings::default() };
    let directory = RunDirectory::create(parent, "raw").expect("made");
    let names = ["stream".to_owned(), "datagrams".to_owned()];
    let record = RunRecord::start(&directory, "raw", "", &names);
    record.write(&directory).expect("written");
    let sources = [(0, true), (1, false)].map(|(source, stream)| RawSource {
        source,
        name: names[usize::from(source)].clone(),
        stream,
        block_bytes: 4096,
    });
    let path = directory.path().join(Table::Raw.file_name());
    let mut writer = RawWriter::create(&path, &settings, &sources).expect("made");
    let pool = Pool::new(32, 4096).expect("small");
    for call in 0..24u8 {
        let (mut frames, mut block) = (Frames::default(), pool.take().expect("free"));
        frames.header.source = SourceId(u16::from(call % 2));
        frames.header.mark = Mark(u64::from(call) * 1000);
        frames.slices.push(block.append(&[call; 90]).expect("space"));
        frames.leases.add(block.lease());
        writer.write(&frames).expect("written");
    }
    let ledger = Ledger::create(Some(&directory.ledger()), &names).expect("made");
    RawRun { directory, record, ledger, writer }
}

#[test]
fn a_replay_of_a_killed_run_counts_the_bytes_that_were_not_written_as_lost() {
    let folder = folder();
    let run = begin_raw_run(folder.path(), Compression::None);
    run.publish();
    // The hits of them are in no table.
    let mut taken = Counters::default();
    taken.output(Unit::Hits, 5000);
    for stage in [Stage::Decode, Stage::Record] {
        run.ledger.open(stage, SourceId(0), &[Unit::Hits]).publish(&taken);
    }
    let killed = copy_run(&run.directory, &folder.path().join("killed"));
    let came = 24 * 90;
    let not_recovered = raw_sources(&killed).expect("whole batches");
    assert!(not_recovered.iter().all(|content| content.not_written_bytes > 0), "{not_recovered:?}");
    for content in not_recovered {
        assert_eq!(content.bytes + content.not_written_bytes, came / 2, "{content:?}");
    }
    let report = recover(&killed).expect("recovered");
    let on_file = report.raw_bytes_on_file;
    assert!(on_file > 0 && on_file < came, "{on_file} of {came}");
    assert_eq!(report.raw_bytes_came, Some(came));
    assert_eq!(report.raw_bytes_not_on_file, Some(came - on_file));
    assert_eq!((report.hits_came, report.hits_not_on_file), (None, None), "the run has no such table");
    let record = RunRecord::read(&killed.join("run.json")).expect("readable");
    let words = format!("≥ {} raw bytes that had come to the recording are not on file", came - on_file);
    assert!(record.remarks[0].contains(&words), "{:?}", record.remarks);
    let lost = record.loss_report().expect("a ledger").text();
    assert!(lost.starts_with(&format!("hits lost: unknown, ≥ {} bytes (≥ ", came - on_file)), "{lost}");
    for content in raw_sources(&killed).expect("recovered") {
        assert_eq!(content.bytes + content.not_written_bytes, came / 2, "{content:?}");
    }
}

#[test]
fn a_table_of_raw_bytes_that_is_too_short_or_gone_is_not_replayed_before_recover_has_noted_it() {
    let folder = folder();
    let run = write_raw_run(folder.path(), Compression::None);
    let raw = run.join("raw.arrows");
    let (whole, rows) = (batches(&raw), batches(&raw).iter().map(|batch| batch.2).sum::<u64>());
    let refused = |words: &str| {
        let message = raw_sources(&run).expect_err("refused").to_string();
        assert!(message.contains(words) && message.contains("`thalweg recover`"), "{message}");
    };
    let (_, end, _) = whole[whole.len() - 2];
    let bytes = fs::read(&raw).expect("there");
    fs::write(&raw, [&bytes[..end as usize], &bytes[bytes.len() - 8..]].concat()).expect("written");
    let kept = rows - whole[whole.len() - 1].2;
    refused(&format!("raw.arrows: {kept} rows where run.json says {rows}"));
    let report = recovered(&run, "cut");
    assert_eq!(missing(&report, Table::Raw), rows - kept);
    assert_eq!(raw_sources(&run).expect("recovered")[0].gap_count(), 1);
    fs::remove_file(&raw).expect("there");
    refused("raw.arrows: run.json names it, and it is missing");
    let report = recover(&run).expect("recovered");
    assert!(report.changed && missing(&report, Table::Raw) == kept, "{:?}", report.missing);
    let words = raw_sources(&run).expect_err("nothing is left").to_string();
    assert!(words.contains(&format!("the table `raw` is gone: raw.arrows: {kept} rows missing")), "{words}");
    let verified = verify(&run).expect("a run");
    assert!(verified.ok, "{:?}", verified.problems);
    assert!(!recover(&run).expect("again").changed);
}

#[test]
fn a_flipped_byte_in_raw_bytes_costs_at_most_its_batch() {
    let folder = folder();
    for (compression, step) in [(Compression::None, 31), (Compression::Zstd, 61)] {
        let run = write_raw_run(folder.path(), compression);
        assert!(batches(&run.join(Table::Raw.file_name())).len() > 3);
        expect_one_batch_at_most(&run, &[Table::Raw], flip, step);
        fs::remove_dir_all(run).expect("removed");
    }
}

#[test]
fn holes_of_a_power_cut_cost_at_most_the_batches_that_they_touch() {
    let folder = folder();
    let settings = Settings { batch_hits: 100, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 3000, 100).path().to_owned();
    let copy = folder.path().join("copy");
    let whole = batches(&run.join("hits.arrows"));
    let length = whole[whole.len() - 1].1;
    for hole in (0..length - 8192).step_by(4096) {
        let place = format!("a hole at byte {hole}");
        let zero = |bytes: &mut Vec<u8>| bytes[hole as usize..][..8192].fill(0);
        let run = damaged(&run, &copy, Table::Hits, zero);
        let report = recovered(&run, &place);
        let untouched = whole.iter().filter(|(first, end, _)| *end <= hole || *first >= hole + 8192);
        assert_eq!(report.hits_on_file, untouched.map(|batch| batch.2).sum::<u64>(), "{place}");
        assert_eq!(missing(&report, Table::Hits), 3000 - report.hits_on_file, "{place}");
    }
}

#[test]
fn recover_says_what_is_missing_by_time_and_rows_and_keeps_the_damaged_file() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 100, 20).path().to_owned();
    let hits = run.join("hits.arrows");
    let (first, ..) = batches(&hits)[2];
    let mut bytes = fs::read(&hits).expect("a file");
    bytes[first as usize + 400] ^= 1;
    fs::write(&hits, &bytes).expect("written");
    let report = recovered(&run, "one batch");
    let found: Vec<&MissingRows> = report.missing.iter().filter(|missing| missing.table == "hits").collect();
    assert_eq!(found.len(), 1, "{:?}", report.missing);
    // Hit k of the example is at 1000 k - 5000 ps.
    let MissingRows { rows, column, after, before, .. } = found[0];
    assert_eq!((*rows, &column[..]), (Some(20), "time_ps"));
    assert_eq!((*after, *before), (Some(34_000), Some(55_000)));
    assert_eq!(fs::read(run.join("hits.arrows.damaged")).expect("kept"), bytes);
    let record = RunRecord::read(&run.join("run.json")).expect("readable");
    assert_eq!(record.state, RunRecordState::Recovered);
    let remark = record.remarks.last().expect("a remark");
    for part in ["20 rows missing between time_ps 34000 and 55000", "kept as hits.arrows.damaged"] {
        assert!(remark.contains(part), "{remark}");
    }
    // Rows that name hits behind the gap follow them.
    assert_eq!((rows_of(&run, Table::Extras), rows_of(&run, Table::Waveforms)), (8, 8));
}

fn rows_of(run: &Path, table: Table) -> usize {
    stock_rows(&run.join(table.file_name()))
}

#[test]
fn recover_that_was_killed_between_two_tables_goes_on() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 100, 20).path().to_owned();
    let (first, ..) = batches(&run.join("hits.arrows"))[2];
    let damaged = damaged(&run, &folder.path().join("copy"), Table::Hits, |bytes| {
        bytes[first as usize + 400] ^= 1;
    });
    // As it was when all new files were written down, and one was in its place.
    let done = folder.path().join("done");
    let done = copy_run_path(&damaged, &done);
    let report = recovered(&done, "at once");
    let begun = damaged;
    let files: Vec<(String, String)> = report
        .tables
        .iter()
        .filter(|table| !table.backup.is_empty())
        .map(|table| (table.summary.file.clone(), table.backup.clone()))
        .collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for (index, (name, backup)) in files.iter().enumerate() {
        if index == 1 {
            fs::rename(begun.join(name), begun.join(backup)).expect("renamed");
            fs::copy(done.join(name), begun.join(name)).expect("copied");
        } else {
            fs::copy(done.join(name), begun.join(format!(".{name}.new"))).expect("copied");
        }
    }
    let journal = serde_json::json!({ "files": files, "missing": report.missing });
    fs::write(begun.join("recover.json"), journal.to_string()).expect("written");
    let second = recovered(&begun, "in two goes");
    assert_eq!((second.hits_on_file, &second.missing), (80, &report.missing));
    for (name, backup) in &files {
        assert_eq!(fs::read(begun.join(name)).ok(), fs::read(done.join(name)).ok());
        assert_eq!(fs::read(begun.join(backup)).ok(), fs::read(done.join(backup)).ok());
    }
    assert!(!begun.join("recover.json").exists());
}

/// Does something to a run whose run.json cannot be written: what `recover` has begun stays, as if it was killed before that.
fn while_no_record_can_be_written(run: &Path, work: impl FnOnce()) {
    let record = run.join("run.json");
    let text = fs::read(&record).expect("there");
    fs::remove_file(&record).expect("there");
    fs::create_dir(&record).expect("made");
    work();
    fs::remove_dir(&record).expect("made above");
    fs::write(&record, text).expect("written");
}

#[test]
fn recover_that_was_killed_when_run_json_was_written_enters_nothing_twice() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 100, 20).path().to_owned();
    let (first, ..) = batches(&run.join("hits.arrows"))[2];
    let run = damaged(&run, &folder.path().join("copy"), Table::Hits, |bytes| {
        bytes[first as usize + 400] ^= 1;
    });
    let (record, journal) = (run.join("run.json"), run.join("recover.json"));
    while_no_record_can_be_written(&run, || {
        recover(&run).expect_err("no record can be written");
    });
    let begun = fs::read(&journal).expect("it stays");
    let report = recover(&run).expect("goes on");
    assert!(report.changed && missing(&report, Table::Hits) == 20 && !journal.exists());
    let said = RunRecord::read(&record).expect("readable");
    fs::write(&journal, begun).expect("written");
    assert!(!recover(&run).expect("again").changed);
    assert_eq!(RunRecord::read(&record).expect("readable"), said);
    assert!(said.missing == report.missing && !journal.exists());
}

#[test]
fn recover_that_was_killed_twice_knows_what_the_first_had_found_missing() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let whole = write_run(folder.path(), &settings, 100, 20).path().to_owned();
    // The table that is replaced again, and another one.
    for table in [Table::Hits, Table::Statistics] {
        let run = copy_run_path(&whole, &folder.path().join("copy"));
        let flip_in = |table: Table, batch: usize| {
            let path = run.join(table.file_name());
            let (first, end, _) = batches(&path)[batch];
            let mut bytes = fs::read(&path).expect("there");
            bytes[(first + end) as usize / 2] ^= 1;
            fs::write(&path, bytes).expect("written");
        };
        let record = run.join("run.json");
        while_no_record_can_be_written(&run, || {
            for (table, batch) in [(Table::Hits, 2), (table, 1)] {
                flip_in(table, batch);
                recover(&run).expect_err("no record can be written");
            }
        });
        let report = recover(&run).expect("goes on");
        let lost = |table| missing(&report, table);
        assert_eq!(rows(&report, Table::Hits) + lost(Table::Hits), 100, "{:?}", report.missing);
        assert!(lost(Table::Hits) >= 20 && lost(table) > 0, "{:?}", report.missing);
        assert_eq!(RunRecord::read(&record).expect("readable").missing, report.missing);
        assert!(verify(&run).expect("a run").ok && !recover(&run).expect("again").changed);
    }
}

#[test]
fn recover_that_was_killed_while_it_wrote_a_file_again_puts_no_part_of_it_in_its_place() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 100, 20).path().to_owned();
    let (first, ..) = batches(&run.join("hits.arrows"))[2];
    let run = damaged(&run, &folder.path().join("copy"), Table::Hits, |bytes| {
        bytes[first as usize + 400] ^= 1;
    });
    let hits = run.join("hits.arrows");
    // The first puts its files in their places, and the second is killed while it writes one of them anew.
    while_no_record_can_be_written(&run, || {
        for _ in 0..2 {
            recover(&run).expect_err("no record can be written");
        }
    });
    let whole = fs::read(&hits).expect("there");
    fs::write(run.join(".hits.arrows.new"), &whole[..whole.len() / 2]).expect("written");
    let report = recover(&run).expect("goes on");
    assert!(fs::read(&hits).expect("there") == whole, "{report:?}");
    assert!(missing(&report, Table::Hits) == 20 && verify(&run).expect("a run").ok, "{report:?}");
}

#[test]
fn a_journal_of_recover_moves_no_file_that_is_no_table_of_the_run() {
    let folder = folder();
    let run = write_run(folder.path(), &Settings::default(), 60, 20).path().to_owned();
    let precious = folder.path().join("precious.arrows");
    fs::write(&precious, "somebody else's").expect("written");
    fs::write(folder.path().join(".precious.arrows.new"), "of an attacker").expect("written");
    let whole = fs::read(run.join("hits.arrows")).expect("there");
    let (outside, absolute) = ("../precious.arrows", precious.to_str().expect("plain"));
    for pairs in [
        [outside, "../precious.arrows.damaged"],
        [absolute, "gone.arrows.damaged"],
        ["hits.arrows", "../hits.arrows.damaged"],
        ["hits.arrows", "extras.arrows"],
        ["raw-../../precious.arrows", "raw-../../precious.arrows.damaged"],
        ["raw-../../precious.0001.arrows", "raw-../../precious.0001.arrows.damaged"],
        ["run.json", "run.json.damaged"],
        [".hits.arrows", ".hits.arrows.damaged"],
    ] {
        for list in ["files", "parts"] {
            let journal = serde_json::json!({ list: [pairs] });
            fs::write(run.join("recover.json"), journal.to_string()).expect("written");
            let message = recover(&run).expect_err("refused").to_string();
            assert!(message.contains("recover.json: names `") && message.contains(pairs[0]), "{message}");
            assert_eq!(fs::read_to_string(&precious).expect("there"), "somebody else's", "{pairs:?}");
            assert_eq!(fs::read(run.join("hits.arrows")).expect("there"), whole, "{pairs:?}");
            assert!(run.join("run.json").is_file() && !folder.path().join("hits.arrows.damaged").exists());
        }
    }
}

#[test]
fn run_json_is_rebuilt_from_the_ledger_and_the_tables() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 60, 20).path().to_owned();
    let said = RunRecord::read(&run.join("run.json")).expect("written");
    // The disk was full at the end: the first record stands, with the state that a failed start has.
    let short = RunRecord {
        state: RunRecordState::Failed,
        tables: Vec::new(),
        ledger: None,
        stopped: String::new(),
        ..said.clone()
    };
    fs::write(run.join("run.json"), serde_json::to_vec(&short).expect("plain")).expect("written");
    fs::write(run.join("spectra.json"), b"{}\n").expect("written");
    assert!(!verify(&run).expect("a run").ok);
    assert!(recovered(&run, "short").changed);
    let rebuilt = RunRecord::read(&run.join("run.json")).expect("written");
    assert_eq!((rebuilt.tables.len(), &rebuilt.ledger), (said.tables.len(), &said.ledger));
    assert!(rebuilt.documents.iter().any(|document| document.file == "spectra.json"));
    fs::remove_file(run.join("run.json")).expect("removed");
    assert!(recovered(&run, "without run.json").changed);
    let rebuilt = RunRecord::read(&run.join("run.json")).expect("written");
    assert_eq!((rebuilt.sources, rebuilt.ledger), (said.sources, said.ledger));
}

#[test]
fn a_run_that_was_killed_before_its_first_table_is_recovered_as_empty() {
    let folder = folder();
    let run = thalweg_record::RunDirectory::create(folder.path(), "early").expect("made");
    let record = RunRecord::start(&run, "early", "", &["board".to_owned()]);
    record.write(&run).expect("written");
    let path = run.path().to_owned();
    drop(run);
    assert!(!verify(&path).expect("a run").ok);
    assert!(recovered(&path, "early").changed);
    let record = RunRecord::read(&path.join("run.json")).expect("written");
    assert!(
        record.state == RunRecordState::Recovered && record.remarks[0].contains("before its first table")
    );
}

#[test]
fn a_remark_of_recover_names_what_the_run_had_when_its_tables_are_gone() {
    let folder = folder();
    let remark = |run: &Path| {
        recovered(run, "gone");
        RunRecord::read(&run.join("run.json")).expect("readable").remarks.pop().expect("a remark")
    };
    let settings = Settings { tables: vec![Table::Hits], ..Settings::default() };
    let hits = write_run(folder.path(), &settings, 100, 20).path().to_owned();
    fs::remove_file(hits.join("hits.arrows")).expect("there");
    let words = "recovered: 0 hits on file, 100 hits that had come to the recording are not on file; hits.arrows: 100 rows missing";
    assert!(remark(&hits).starts_with(words), "{}", remark(&hits));
    let planned: Vec<_> = (0..20).map(example_events::planned).collect();
    let mut blocks = Blocks::new(false, 8);
    let events =
        example_events::write_run(folder.path(), &Settings::default(), &planned, 5, SOURCES, &mut blocks);
    let events = copy_run(&events, &folder.path().join("events"));
    fs::remove_file(events.join("events.arrows")).expect("there");
    let remark = remark(&events);
    let words = "recovered: 0 events on file, 20 events that had come to the recording are not on file; ";
    assert!(remark.starts_with(words) && !remark.contains(" hits "), "{remark}");
}

#[test]
fn rows_of_a_damaged_batch_are_listed_up_to_a_few_and_then_counted() {
    let folder = folder();
    let settings = Settings { batch_hits: 2000, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 6000, 200);
    let (begin, end, _) = batches(&run.table(Table::Hits))[1];
    let damage = |bytes: &mut Vec<u8>| bytes[(begin + end) as usize / 2] ^= 1;
    let report =
        verify(&damaged(run.path(), &folder.path().join("copy"), Table::Hits, damage)).expect("a run");
    assert!(!report.ok && report.extras_unpaired > 300, "{report:#?}");
    let rows = |file: &str| -> (usize, u64) {
        let of_file = || report.problems.iter().filter_map(|problem| problem.strip_prefix(file));
        let listed = of_file().filter(|text| text.contains("has no such hit")).count();
        let more =
            of_file().find_map(|text| text.strip_prefix(": … and ")?.strip_suffix(" more of its rows"));
        (listed, more.expect("the others are counted").parse().expect("a number"))
    };
    let (extras, waveforms) = (rows("extras.arrows"), rows("waveforms.arrows"));
    assert_eq!((extras.0, waveforms.0), (5, 5));
    assert_eq!(10 + extras.1 + waveforms.1, report.extras_unpaired, "{:#?}", report.problems);
    assert!(report.problems[0].contains("hits.arrows: at byte"), "{:#?}", report.problems);
    assert!(report.problems.len() < 20, "{:#?}", report.problems);
}
