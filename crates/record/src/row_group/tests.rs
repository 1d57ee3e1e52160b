//! A sink of rows on disks that fail, and files that others touch.

use super::*;
use crate::faults::fail_forces_after;
use crate::ipc::columns::Columns;

/// Rows of numbers in the table of hits, all of one source.
struct Rows {
    columns: Columns,
    amounts: Amounts,
}

impl Rows {
    fn new(_settings: &Settings) -> Rows {
        Rows { columns: Columns::new(Table::Hits), amounts: Amounts::default() }
    }
}

impl RowGroup for Rows {
    fn batch(&self, table: Table) -> Option<&dyn Batch> {
        (table == Table::Hits && self.columns.rows() > 0).then_some(&self.columns as &dyn Batch)
    }

    fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    fn is_full(&self) -> bool {
        self.columns.rows() >= 10
    }

    fn is_empty(&self) -> bool {
        self.columns.rows() == 0
    }

    fn seal(&mut self) {}

    fn clear(&mut self) {
        self.columns.clear();
        self.amounts.clear();
    }
}

/// Where the sink writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writes {
    Here,
    Beside,
}

const PLACES: [Writes; 2] = [Writes::Here, Writes::Beside];

fn sink(folder: &std::path::Path, sync: Sync, writes: Writes) -> RowGroupSink<Rows> {
    let file = TableFile::create(&folder.join("hits.arrows"), Table::Hits, &[]).expect("made");
    let settings = Settings { sync, ..Settings::default() };
    let sink = RowGroupSink::new(vec![file], &[Unit::Hits], 1, &settings, Rows::new);
    let mut sink = sink.expect("no threads are needed");
    if writes == Writes::Beside {
        sink.write_beside().expect("a thread");
    }
    sink
}

fn set_sync(sink: &mut RowGroupSink<Rows>, sync: Sync) {
    sink.settings.sync = sync;
    sink.outlet.files().expect("no thread has them").set_sync(sync);
}

/// Gives ten rows, a full row group, and waits until something has become of it.
fn give(sink: &mut RowGroupSink<Rows>) -> Result<(), SinkError> {
    give_on(sink).and_then(|()| sink.await_thread())
}

/// Gives ten rows: a full row group.
fn give_on(sink: &mut RowGroupSink<Rows>) -> Result<(), SinkError> {
    give_numbered(sink, 1)
}

/// Gives ten rows with a number.
fn give_numbered(sink: &mut RowGroupSink<Rows>, number: i64) -> Result<(), SinkError> {
    let mut amounts = Amounts::default();
    amounts.add(SourceId(0), [10, 0]);
    sink.take(Mark(0), &amounts, |rows| {
        for _ in 0..10 {
            rows.columns.push(0, number.to_le_bytes());
            (1..5).for_each(|column| rows.columns.push(column, [0; 2]));
            rows.columns.end_row();
        }
        rows.amounts.add_all(&amounts);
    })
}

/// Out, held, lost.
fn slot(sink: &RowGroupSink<Rows>) -> [u64; 3] {
    let counters = sink.counters(SourceId(0));
    assert_eq!(
        counters.total_input(Unit::Hits),
        counters.total_output(Unit::Hits) + counters.held(Unit::Hits) + counters.total_lost_any(Unit::Hits)
    );
    [counters.total_output(Unit::Hits), counters.held(Unit::Hits), counters.total_lost_any(Unit::Hits)]
}

/// The first column of a file.
fn times_on_file(path: &std::path::Path) -> Vec<i64> {
    let mut reader = crate::read::TableReader::open(path).expect("opens");
    let mut times = Vec::new();
    while let Some(head) = reader.next_batch().expect("whole") {
        let numbers = reader.numbers::<8>(&head, 0).expect("a column");
        times.extend(numbers.iter().map(|number| i64::from_le_bytes(*number)));
    }
    times
}

#[test]
fn rows_are_out_when_they_are_on_the_disk_and_a_failing_disk_takes_none_back() {
    for writes in PLACES {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::Batch, writes);
        give(&mut sink).expect("written and forced");
        assert_eq!(slot(&sink), [10, 0, 0]);
        fail_forces_after(Some(0));
        let error = give(&mut sink).expect_err("the disk fails").to_string();
        fail_forces_after(None);
        assert!(error.contains("forcing to the disk"), "{error}");
        assert_eq!(slot(&sink), [10, 0, 10], "visible, but nobody knows whether it is on the disk");
        assert!(give(&mut sink).is_err() && sink.finish().is_err(), "another try would lie");
        assert_eq!(slot(&sink), [10, 0, 20]);
    }
}

#[test]
fn rows_wait_for_the_disk_that_is_due_by_time() {
    for writes in PLACES {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::Seconds(3600.0), writes);
        give(&mut sink).expect("written");
        assert_eq!((slot(&sink), sink.rows_on_file(Table::Hits)), ([0, 10, 0], 10));
        sink.advance(Mark(1)).expect("not due");
        assert_eq!(slot(&sink), [0, 10, 0]);
        set_sync(&mut sink, Sync::Seconds(0.0));
        sink.advance(Mark(2)).expect("due, although nothing comes");
        assert_eq!(slot(&sink), [10, 0, 0]);
        set_sync(&mut sink, Sync::Seconds(3600.0));
        give(&mut sink).expect("written");
        sink.force().expect("somebody waits for it");
        give(&mut sink).expect("written");
        fail_forces_after(Some(0));
        assert!(sink.finish().is_err());
        fail_forces_after(None);
        assert_eq!(slot(&sink), [20, 0, 10]);
    }
}

#[test]
fn rows_are_out_when_they_are_written_where_nobody_asks_for_the_disk() {
    for writes in PLACES {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::None, writes);
        fail_forces_after(Some(0));
        give(&mut sink).expect("written");
        assert_eq!(slot(&sink), [10, 0, 0]);
        assert!(sink.finish().is_err(), "the end forces everything to the disk");
        fail_forces_after(None);
        assert_eq!(slot(&sink), [10, 0, 0]);
    }
}

#[test]
fn a_file_that_is_removed_or_cut_meanwhile_is_noticed_and_its_rows_are_lost() {
    for writes in PLACES {
        type Damage = fn(&std::path::Path);
        let damages: [(Damage, [u64; 3], &str); 3] = [
            (|file| std::fs::remove_file(file).expect("removed"), [0, 0, 40], "has removed this file"),
            (
                |file| std::fs::rename(file, file.with_extension("away")).expect("moved"),
                [0, 0, 40],
                "has moved",
            ),
            (cut_to_two_batches, [20, 0, 20], "has truncated this file"),
        ];
        for (damage, expected, text) in damages {
            let folder = tempfile::tempdir().expect("temporary folder");
            let mut sink = sink(folder.path(), Sync::None, writes);
            (0..3).for_each(|_| give(&mut sink).expect("written"));
            damage(&folder.path().join("hits.arrows"));
            let error = give(&mut sink).expect_err("noticed").to_string();
            assert!(error.contains(text) && error.contains("hits.arrows"), "{error}");
            assert_eq!(slot(&sink), expected, "{text}");
        }
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::None, writes);
        give(&mut sink).expect("written");
        std::fs::remove_file(folder.path().join("hits.arrows")).expect("removed");
        assert!(sink.finish().is_err(), "noticed at the end at the latest");
        assert_eq!(slot(&sink), [0, 0, 10]);
    }
}

fn cut_to_two_batches(path: &std::path::Path) {
    let mut reader = crate::read::TableReader::open(path).expect("opens");
    let ends: Vec<u64> = std::iter::from_fn(|| Some(reader.next_batch().expect("whole")?.end())).collect();
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("opens");
    file.set_len(ends[1] + 8).expect("cut");
}

#[test]
fn what_a_cut_file_lost_is_reported_in_larger_steps_of_long_runs() {
    for writes in PLACES {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::None, writes);
        (0..1000).for_each(|_| give(&mut sink).expect("written"));
        cut_to_two_batches(&folder.path().join("hits.arrows"));
        assert!(give(&mut sink).is_err());
        let [out, held, lost] = slot(&sink);
        assert!((out, held) == (0, 0) && lost == 10_010, "{out} out, {held} held, {lost} lost");
    }
}

/// A disk that is full for a while at any of its calls, with row groups ready while the thread has others: what is on file came in that order,
/// and the ledger has the rest.
#[test]
fn what_was_visible_before_the_disk_was_full_is_forced_and_not_lost() {
    use crate::faults::{Fault, Faults, Operation, with_faults};
    let full = Faults { of: Some(Operation::Write), first: 0, count: 1000, fault: Fault::Full };
    for (writes, abandons) in PLACES.into_iter().flat_map(|writes| [(writes, false), (writes, true)]) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::Seconds(1000.0), writes);
        give(&mut sink).expect("written");
        assert_eq!(slot(&sink), [0, 10, 0], "visible, and not yet due on the disk");
        with_faults(full, || {
            let _refused = give(&mut sink);
            if abandons {
                sink.abandon();
                assert_eq!(slot(&sink), [10, 0, 10]);
                assert!(give(&mut sink).is_err(), "nothing more is taken");
            }
            assert!(sink.finish().is_err());
        });
        assert_eq!(slot(&sink), [10, 0, if abandons { 20 } else { 10 }]);
        assert_eq!(sink.counters(SourceId(0)).total_lost(LossReason::DiskFull, Unit::Hits), slot(&sink)[2]);
        assert_eq!(times_on_file(&folder.path().join("hits.arrows")).len(), 10);
    }
}

#[test]
fn what_waits_behind_a_refused_row_group_keeps_its_order() {
    use crate::faults::{Fault, Faults, Operation, with_faults};
    let mut waited = 0;
    for (first, count) in (0..16).flat_map(|first| [(first, 1), (first, 5), (first, 30)]) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), Sync::None, Writes::Beside);
        let full = Faults { of: Some(Operation::Write), first, count, fault: Fault::Full };
        let (refused, _) = with_faults(full, || {
            let mut refused = 0;
            for number in 0..12 {
                refused += u64::from(give_numbered(&mut sink, number).is_err());
                assert_eq!(slot(&sink).iter().sum::<u64>(), 10 * (number as u64 + 1));
            }
            // A full disk is tried again; a file of which nobody knows what is visible is not.
            let tries = (0..60).map(|_| sink.complete());
            waited += tries
                .take_while(Result::is_err)
                .filter(|tried| matches!(tried, Err(SinkError::Full { .. })))
                .count();
            refused
        });
        let [out, held, lost] = slot(&sink);
        assert_eq!((out + lost, held), (120, 0), "from {first}, {count}");
        assert!(sink.failure.is_some() || lost == 10 * refused, "{lost} of {refused}");
        let _its_ledger_is_closed = sink.finish();
        let times = times_on_file(&folder.path().join("hits.arrows"));
        assert_eq!(times.len() as u64, out);
        assert!(times.is_sorted(), "{times:?}");
    }
    assert!(waited > 0, "no row group was tried again");
}

/// On a disk, pages that are not cached are not there without waiting.
#[test]
fn a_file_shorter_than_what_stays_cached_is_cached_as_a_whole() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("hits.arrows");
    let mut file = TableFile::create(&path, Table::Hits, &[]).expect("made");
    let mut columns = Columns::new(Table::Hits);
    for number in 0..600_000i64 {
        columns.push(0, number.to_le_bytes());
        (1..5).for_each(|column| columns.push(column, [0; 2]));
        columns.end_row();
    }
    for _ in 0..2 {
        file.stage(&columns, Compression::None).expect("there is room");
        file.sync().expect("the disk works");
        file.commit().expect("written");
    }
    assert!(file.file_bytes() > 2 * crate::ipc::file::WRITE_BACK_BYTES);
    let mut bytes = [0; 4096];
    let read = std::fs::File::open(&path).expect("opens");
    let into = &mut [std::io::IoSliceMut::new(&mut bytes)];
    let cached = rustix::io::preadv2(&read, into, 4 << 20, rustix::io::ReadWriteFlags::NOWAIT);
    assert_eq!(cached, Ok(4096));
}
