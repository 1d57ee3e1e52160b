//! Coincidences are read as they were made: by our reader, and by the arrow crate's own; cut, damaged, and with their ledger.

use std::fs::{self, OpenOptions};

use crate::example_coincidences::{batch, complete, publish, push, read_all, slot, sources, write_run};
use crate::example_run::{copy_run, folder, stock_read, stock_rows};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt16Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use proptest::prelude::*;
use thalweg_data::{Flags, HitEvent, HitEvents, Mark};
use thalweg_record::read::TableReader;
use thalweg_record::{
    CoincidenceWriter, Compression, RunDirectory, RunRecord, RunRecordState, Settings, Table, check, inspect,
    recover, verify,
};

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_written_is_read(
        events in prop::collection::vec((prop::collection::vec(any::<u16>(), 1..9), any::<prop::sample::Index>(), 1u64..4), 0..80),
        step in 1usize..20,
        batch_hits in prop_oneof![Just(1usize), 2usize..50, Just(1 << 17)],
        compression in prop::sample::select(&COMPRESSIONS[..]),
    ) {
        let (folder, mut all, mut number) = (folder(), HitEvents::default(), 0);
        let settings = Settings { compression, batch_hits, ..Settings::default() };
        let run = RunDirectory::create(folder.path(), "any").expect("made");
        let mut writer = CoincidenceWriter::create(run.path(), &settings, &sources()).expect("made");
        for events in events.chunks(step) {
            let mut some = HitEvents::default();
            for (steps, reference, gap) in events {
                let (time_ps, reference) = (number as i64 * 7000 - 100_000, reference.index(steps.len()));
                push(&mut some, number, time_ps, steps, reference);
                push(&mut all, number, time_ps, steps, reference);
                number += gap;
            }
            writer.write(&some).expect("written");
        }
        writer.finish().expect("written");
        let count = events.len() as u64;
        prop_assert_eq!(slot(writer.counters()), [count, count, 0, 0]);
        prop_assert_eq!(writer.hits_on_file(), all.members.len() as u64);
        let read = read_all(run.path());
        prop_assert_eq!(&read.members, &all.members);
        prop_assert_eq!(&read.events, &all.events);
        complete(&run, &writer, RunRecordState::Stopped);
        let report = verify(run.path()).expect("a run");
        prop_assert!(report.ok, "{:?}", report.problems);
        prop_assert_eq!((report.coincidences.events, report.ledger.coincidences_recorded), (count, Some(count)));
        prop_assert_eq!(report.ledger.events_recorded, None);
        let bytes = fs::read(run.table(Table::Coincidences)).expect("a file");
        prop_assert_eq!(check(&bytes).expect("whole").rows, all.members.len() as u64);
        compare_with_stock_reader(&run, &all);
    }
}

fn compare_with_stock_reader(run: &RunDirectory, all: &HitEvents) {
    let (mut row_of_all, mut rows) = (0, Vec::new());
    let batches: Vec<RecordBatch> =
        stock_read(&run.table(Table::Coincidences)).expect("a stock reader reads it");
    for batch in &batches {
        let column = |name: &str| batch.column_by_name(name).expect("a column");
        let numbers = column("event").as_primitive::<UInt64Type>();
        let dt_ps = column("dt_ps").as_primitive::<Int64Type>();
        let multiplicity = column("multiplicity").as_primitive::<UInt16Type>();
        let energy_short = column("energy_short").as_primitive::<UInt16Type>();
        for row in 0..batch.num_rows() {
            let hit = &all.members[row_of_all];
            assert_eq!(column("time_ps").as_primitive::<Int64Type>().value(row), hit.time_ps);
            assert_eq!(energy_short.is_null(row), hit.flags.has(Flags::NO_ENERGY_SHORT));
            let is_reference = column("is_reference").as_boolean().value(row);
            rows.push((numbers.value(row), dt_ps.value(row), multiplicity.value(row), is_reference));
            row_of_all += 1;
        }
    }
    let wanted = all.iter().flat_map(|(event, hits)| {
        hits.iter().enumerate().map(|(place, hit)| {
            let is_reference = place == usize::from(event.reference);
            (event.number, hit.time_ps - event.time_ps, event.multiplicity, is_reference)
        })
    });
    assert_eq!(rows, wanted.collect::<Vec<_>>());
}

#[test]
fn no_event_straddles_two_batches() {
    let folder = folder();
    let settings = Settings { batch_hits: 25, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 400, 90);
    let (mut first_seen, mut batches) = (std::collections::BTreeMap::new(), 0);
    for (number, batch) in stock_read(&run.table(Table::Coincidences)).expect("reads").iter().enumerate() {
        let column = batch.column_by_name("event").expect("a column").as_primitive::<UInt64Type>();
        for event in column.values() {
            assert_eq!(*first_seen.entry(*event).or_insert(number), number);
        }
        batches += 1;
    }
    assert!(batches > 20, "{batches}");
}

#[test]
fn the_counters_say_where_each_event_is() {
    for compression in COMPRESSIONS {
        let folder = folder();
        let settings = Settings { compression, ..Settings::default() };
        let mut writer = CoincidenceWriter::create(folder.path(), &settings, &sources()).expect("made");
        writer.advance(Mark(5)).expect("nothing to do");
        writer.write(&batch(0..10)).expect("taken");
        assert_eq!(slot(writer.counters()), [10, 0, 10, 0]);
        writer.advance(Mark(20_000_004)).expect("not yet");
        assert_eq!(writer.events_on_file(), 0);
        let mut mark = Mark(20_000_005);
        while writer.events_on_file() < 10 {
            writer.advance(mark).expect("written");
            mark.0 += 1;
        }
        assert_eq!(slot(writer.counters()), [10, 10, 0, 0]);
        assert_eq!(stock_rows(&folder.path().join("coincidences.arrows")) as u64, writer.hits_on_file());
        assert!(CoincidenceWriter::create(folder.path(), &settings, &sources()).is_err(), "written over");
    }
}

#[test]
fn an_event_beyond_all_measure_is_turned_away_alone() {
    let folder = folder();
    let mut events = batch(0..5);
    let enormous = HitEvent { count: u32::MAX, ..events.events[2] };
    events.events[2] = enormous;
    let run = RunDirectory::create(folder.path(), "large").expect("made");
    let mut writer = CoincidenceWriter::create(run.path(), &Settings::default(), &sources()).expect("made");
    writer.write(&events).expect("the others are taken");
    writer.finish().expect("written");
    assert_eq!(slot(writer.counters()), [5, 4, 0, 1]);
    let numbers: Vec<u64> = read_all(run.path()).events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [0, 1, 3, 4]);
    complete(&run, &writer, RunRecordState::Stopped);
    assert!(verify(run.path()).expect("a run").ok);
}

#[test]
fn a_file_cut_or_damaged_anywhere_keeps_its_whole_batches() {
    let folder = folder();
    for compression in COMPRESSIONS {
        let settings = Settings { compression, batch_hits: 12, ..Settings::default() };
        let run = write_run(folder.path(), &settings, 9, 3);
        fs::remove_file(run.ledger()).expect("removed");
        let path = run.table(Table::Coincidences);
        let mut reader = TableReader::open(&path).expect("opens");
        let mut ends = vec![(reader.position(), 0)];
        while let Some(head) = reader.next_batch().expect("whole") {
            ends.push((head.end(), ends.last().expect("not empty").1 + head.rows()));
        }
        assert!(ends.len() > 2, "{ends:?}");
        let (bytes, copy) = (fs::read(&path).expect("a file"), folder.path().join("copy"));
        let step = if compression == Compression::None { 5 } else { 17 };
        for at in (0..bytes.len()).step_by(step) {
            let rows = ends.iter().rev().find(|(end, _)| *end <= at as u64).map_or(0, |(_, rows)| *rows);
            let cut = copy_run(&run, &copy);
            let file = cut.join("coincidences.arrows");
            OpenOptions::new().write(true).open(&file).expect("opens").set_len(at as u64).expect("cut");
            expect_prefix(&cut, rows, &format!("cut at byte {at}"));
            if at as u64 >= ends[0].0 && (at as u64) < ends[ends.len() - 1].0 {
                let damaged = copy_run(&run, &copy);
                let mut bytes = bytes.clone();
                // Not bit 5: it turns a checksum's letters into capitals, which say the same.
                bytes[at] ^= 1 << (at % 5);
                fs::write(&file, bytes).expect("written");
                assert!(!verify(&damaged).expect("a run").ok, "byte {at} is damaged and nobody saw");
                let place = format!("damaged at byte {at}");
                let behind = ends.iter().find(|(end, _)| *end > at as u64).expect("in a batch").1;
                let report = recover(&damaged).unwrap_or_else(|error| panic!("{place}: {error}"));
                let (read, all) = (read_all(&damaged), batch(0..9));
                assert_eq!(report.coincidences_on_file, read.events.len() as u64, "{place}");
                assert_eq!(read.members, [&all.members[..rows], &all.members[behind..]].concat(), "{place}");
                assert!(verify(&damaged).expect("a run").ok, "{place}");
            }
        }
    }
}

fn expect_prefix(run: &std::path::Path, rows: usize, place: &str) {
    let report = recover(run).unwrap_or_else(|error| panic!("{place}: {error}"));
    let (read, all) = (read_all(run), batch(0..9));
    assert_eq!(report.coincidences_on_file, read.events.len() as u64, "{place}");
    assert_eq!(read.members, all.members[..rows], "{place}");
    assert_eq!(read.events, all.events[..read.events.len()], "{place}");
    let report = verify(run).expect("a run");
    assert!(report.ok, "{place}: {:?}", report.problems);
}

#[test]
fn a_killed_run_is_recovered_with_its_ledger() {
    let folder = folder();
    let settings = Settings { batch_hits: 50, ..Settings::default() };
    let run = RunDirectory::create(folder.path(), "killed").expect("made");
    let mut writer = CoincidenceWriter::create(run.path(), &settings, &sources()).expect("made");
    for start in (0..100).step_by(10) {
        writer.write(&batch(start..start + 10)).expect("written");
    }
    RunRecord::start(&run, "killed", "", &sources()).write(&run).expect("written");
    publish(&run, &writer);
    let on_file = writer.events_on_file();
    assert!((1..100).contains(&on_file));
    std::mem::forget(writer);
    let run = crate::example_run::unlocked(run);
    let report = recover(run.path()).expect("recovered");
    assert_eq!((report.coincidences_on_file, report.coincidences_came), (on_file, Some(100)));
    assert_eq!((report.coincidences_not_on_file, report.events_came), (Some(100 - on_file), None));
    let record = RunRecord::read(&run.run_record()).expect("written");
    assert!(record.remarks[0].contains(&format!("{on_file} coincidences on file")), "{:?}", record.remarks);
    assert!(verify(run.path()).expect("a run").ok);
}

#[test]
fn coincidences_that_recover_could_not_keep_are_lost_one_by_one_and_not_by_their_hits() {
    let folder = folder();
    let settings = Settings { batch_hits: 50, ..Settings::default() };
    let run = crate::example_run::unlocked(write_run(folder.path(), &settings, 100, 10));
    let lost = || {
        let report = verify(run.path()).expect("a run").ledger.loss;
        let mut of_it = report.totals.into_iter().filter(|total| total.of_coincidences);
        of_it.next().expect("a run with coincidences").known.count
    };
    assert_eq!(lost(), 0);
    let path = run.table(Table::Coincidences);
    let length = fs::metadata(&path).expect("a file").len();
    for cut in [length - 100, length / 2] {
        OpenOptions::new().write(true).open(&path).expect("opens").set_len(cut).expect("cut");
        let report = recover(run.path()).expect("recovered");
        let kept = read_all(run.path()).events.len() as u64;
        assert!(kept < 100 && report.coincidences_not_on_file == Some(100 - kept), "{report:?}");
        assert!(!report.at_least, "its ledger has closed");
        assert_eq!(lost(), 100 - kept, "{kept} of 100 coincidences are on file");
    }
}

/// What makes events wrong.
type Change = fn(&mut HitEvents);

#[test]
fn contradictions_are_found() {
    let late = |batch: &mut HitEvents| batch.members[8].time_ps -= 1_000_000;
    let cases: [(&str, Change); 4] = [
        ("comes behind event", |batch| batch.events[3].number = 1),
        ("its reference lies beside its time", |batch| batch.events[1].time_ps += 1),
        ("larger than the number of its hits", |batch| batch.events[2].multiplicity = 50),
        ("not in the order of time", late),
    ];
    for (words, change) in cases {
        let folder = folder();
        let run = RunDirectory::create(folder.path(), "wrong").expect("made");
        let mut writer =
            CoincidenceWriter::create(run.path(), &Settings::default(), &sources()).expect("made");
        let mut events = batch(0..6);
        change(&mut events);
        writer.write(&events).expect("written");
        writer.finish().expect("written");
        complete(&run, &writer, RunRecordState::Stopped);
        let report = verify(run.path()).expect("a run");
        assert!(
            report.problems.iter().any(|problem| problem.contains(words)),
            "{words}: {:?}",
            report.problems
        );
    }
}

#[test]
fn inspection_reports_multiplicities_and_first_events() {
    let folder = folder();
    let run = write_run(folder.path(), &Settings::default(), 100, 30);
    let found = inspect(run.path(), 3).expect("readable");
    let found = found.coincidences.expect("there are");
    assert_eq!((found.events, found.hits), (100, 400));
    assert_eq!(
        found.multiplicities.into_iter().collect::<Vec<_>>(),
        (2..7).map(|hits| (hits, 20)).collect::<Vec<_>>()
    );
    assert_eq!((found.first_events.len(), found.first_events[1].hits.len()), (3, 3));
    assert_eq!(found.first_events[1].hits[1], (1, 0));
    assert!((found.rate_hz - 1e7).abs() < 2e5, "{}", found.rate_hz);
}

#[test]
fn spectra_are_kept_with_the_run_and_checked() {
    let folder = folder();
    let run = write_run(folder.path(), &Settings::default(), 10, 10);
    let mut record = RunRecord::read(&run.run_record()).expect("written");
    run.write_spectra(b"{\"old\": []}").expect("written");
    let spectra = run.write_spectra(b"{\"energy 0\": {}}").expect("written");
    assert_eq!((&spectra.file[..], spectra.bytes), ("spectra.json", 16));
    record.documents.push(spectra);
    record.write(&run).expect("written");
    let report = verify(run.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
    fs::write(run.spectra(), b"{\"energy 1\": {}}").expect("written");
    assert!(verify(run.path()).expect("a run").problems[0].contains("spectra.json: not as it was written"));
    fs::remove_file(run.spectra()).expect("removed");
    assert!(verify(run.path()).expect("a run").problems[0].contains("spectra.json: run.json names it"));
    assert_eq!(fs::read_dir(run.path()).expect("readable").count(), 3, "nothing stays beside");
}
