//! The list of losses: what was lost when, and that it says what the ledger says.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use thalweg_data::{LossReason, SourceId, Unit};
use thalweg_record::{LossBounds, LossRow, RunRecord, Table, TriggerRange, check, inspect, recover, verify};

use crate::example_losses::{Losing, SECOND_NS, rows};
use crate::example_run::{folder, stock_read, unlocked};

/// What a test looks at in a row.
fn short(row: &LossRow) -> (u64, u64, &str, &str, i64) {
    (row.from_ns / SECOND_NS, row.until_ns / SECOND_NS, &row.subject, &row.reason, row.count)
}

#[test]
fn rows_of_the_list_of_losses_say_when_and_add_up_to_the_ledger() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds::default());
    losing.take(1);
    losing.lose(0, 5);
    losing.take(2);
    losing.lose(0, 2);
    losing.lose(1, 1);
    losing.take(3);
    losing.take(4);
    losing.lose(1, 7);
    let found = losing.finish(5);
    let found: Vec<_> = found.iter().map(short).collect();
    let missing = "missing_fragment";
    assert_eq!(
        found,
        [
            (1, 2, "left", missing, 5),
            (2, 3, "left", missing, 2),
            (2, 3, "right", missing, 1),
            (4, 5, "right", missing, 7)
        ]
    );
    let report = verify(losing.run.path()).expect("a run");
    assert!(report.ok && report.losses.rows == 4 && !report.losses.is_cut, "{:?}", report.problems);
    assert_eq!(inspect(losing.run.path(), 3).expect("a run").first_losses.len(), 3);
}

#[test]
fn what_was_missing_and_has_come_is_taken_back_by_a_negative_row() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds::default());
    losing.lose(0, 5);
    losing.take(1);
    losing.count(0, |counters| {
        counters.output(Unit::Fragments, 5);
        counters.gap_filled(Unit::Fragments, 5);
    });
    let found = losing.finish(2);
    let found: Vec<_> = found.iter().map(short).collect();
    assert_eq!(found, [(0, 1, "left", "missing_fragment", 5), (1, 2, "left", "missing_fragment", -5)]);
    assert!(verify(losing.run.path()).expect("a run").ok);
}

#[test]
fn fragments_that_never_came_are_listed_by_trigger_and_add_up_to_the_ledger() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds::default());
    losing.lose(0, 5);
    // Of five, four are known by their triggers, and one has come, too late.
    losing.count(0, |counters| {
        counters.output(Unit::Fragments, 1);
        counters.gap_filled(Unit::Fragments, 1);
    });
    let missed = |source: SourceId, counted: u64| {
        assert_eq!((source, counted), (SourceId(0), 5));
        vec![TriggerRange { first: 7, last: 9, count: 3 }, TriggerRange { first: 20, last: 20, count: 1 }]
    };
    let snapshot = losing.snapshot();
    losing.list.take(&snapshot, &missed, SECOND_NS).expect("written");
    let found = losing.finish(2);
    let found: Vec<_> = found.iter().map(|row| (row.first, row.last, &row.reason[..], row.count)).collect();
    assert_eq!(
        found,
        [(Some(7), Some(9), "missing_fragment", 3), (Some(20), Some(20), "missing_fragment", 1)]
    );
    assert!(verify(losing.run.path()).expect("a run").ok);
}

#[test]
fn a_stock_reader_reads_the_list_of_losses() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds::default());
    losing.lose(1, 3);
    losing.finish(1);
    let batches = stock_read(&losing.run.table(Table::Losses)).expect("a stock reader reads it");
    assert_eq!(batches.len(), 1);
    let column = |name: &str| batches[0].column_by_name(name).expect("a column");
    let text = |name: &str| column(name).as_string::<i32>().value(0);
    assert_eq!(column("until_ns").as_primitive::<UInt64Type>().value(0), SECOND_NS);
    assert_eq!(column("count").as_primitive::<Int64Type>().value(0), 3);
    assert!(column("first").is_null(0) && column("last").is_null(0));
    assert_eq!(
        ["subject", "stage", "reason", "unit", "quality"].map(text),
        ["right", "wire", "missing_fragment", "fragments", "exact"]
    );
    let bytes = std::fs::read(losing.run.table(Table::Losses)).expect("a file");
    assert_eq!(check(&bytes).expect("whole").rows, 1);
}

#[test]
fn a_full_list_of_losses_says_that_it_is_cut_and_still_adds_up() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds { rows: 10, bytes: 1 << 20 });
    for second in 1..=20 {
        losing.lose(0, second);
        losing.take(second);
    }
    // A run that is killed here has this much on file.
    let killed = rows(&losing.run);
    assert_eq!((killed.len(), killed[9].is_end_of_list(), &killed[9].quality[..]), (10, true, "unknown"));
    let found = losing.finish(21);
    let [.., joined, end] = &found[..] else { panic!("{found:?}") };
    assert_eq!(short(joined), (9, 21, "left", "missing_fragment", (10..=20).sum::<u64>() as i64));
    assert_eq!(short(end), (9, 21, "losses", "list_full", 11), "a row for each second from 10 to 20");
    let report = verify(losing.run.path()).expect("a run");
    assert!(report.ok && report.losses.is_cut, "{:?}", report.problems);
}

#[test]
fn a_list_of_losses_that_fills_is_written_less_often() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds { rows: 16, bytes: 1 << 20 });
    let mut taken = Vec::new();
    for second in 1..=200 {
        losing.lose(0, 1);
        if losing.list.is_due(second * SECOND_NS) {
            losing.take(second);
            taken.push(second);
        }
    }
    assert_eq!(taken[..13], [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 40]);
    assert_eq!(losing.finish(200).iter().map(|row| row.count).sum::<i64>(), 200);
}

#[test]
fn a_list_of_losses_is_bounded_in_bytes() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds { rows: 1 << 20, bytes: 20_000 });
    for second in 1..=200 {
        losing.lose(0, 1);
        losing.take(second);
    }
    let bytes = losing.list.summary().bytes;
    assert!((20_000..25_000).contains(&bytes), "{bytes}");
    losing.finish(201);
    assert!(verify(losing.run.path()).expect("a run").losses.is_cut);
}

#[test]
fn verify_finds_a_list_of_losses_that_does_not_say_what_the_ledger_says() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds::default());
    losing.lose(0, 4);
    losing.finish(1);
    let mut record = RunRecord::read(&losing.run.run_record()).expect("there");
    record.ledger.as_mut().expect("has ended").losses[0]["count"] = 5.into();
    record.write(&losing.run).expect("written");
    let problems = verify(losing.run.path()).expect("a run").problems.join("; ");
    let words = "losses.arrows: 4 fragments of left lost at wire as missing_fragment, and 5 in the ledger";
    assert!(problems.contains(words), "{problems}");
}

#[test]
fn units_that_the_slot_of_a_stage_does_not_have_are_no_losses_on_the_list() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds::default());
    // As the table `raw` does for a stream: its slot is opened for bytes alone.
    losing.count(0, |counters| {
        for unit in [Unit::Fragments, Unit::Datagrams] {
            counters.input(unit, 3);
            counters.lost(LossReason::DiskFull, unit, 3);
        }
    });
    let found = losing.finish(1);
    assert_eq!(found.iter().map(|row| (&row.unit[..], row.count)).collect::<Vec<_>>(), [("fragments", 3)]);
    let report = verify(losing.run.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
}

#[test]
fn recover_keeps_the_whole_batches_of_a_cut_list_of_losses() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds::default());
    for second in 1..=4 {
        losing.lose(0, second);
        losing.take(second);
    }
    RunRecord::start(&losing.run, "losing", "", &[]).write(&losing.run).expect("written");
    let Losing { run, list, .. } = losing;
    drop(list);
    let file = run.table(Table::Losses);
    let length = std::fs::metadata(&file).expect("there").len();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_len(length - 100))
        .expect("cut");
    let run = unlocked(run);
    let report = recover(run.path()).expect("a run");
    assert_eq!(report.tables.iter().map(|table| table.summary.rows).sum::<u64>(), 3);
    assert_eq!(rows(&run).iter().map(|row| row.count).collect::<Vec<_>>(), [1, 2, 3]);
    let report = verify(run.path()).expect("a run");
    assert!(report.ok, "a killed run's list ends before its ledger: {:?}", report.problems);
}

#[test]
fn a_list_of_losses_that_somebody_removes_is_reported_and_costs_no_panic() {
    let folder = folder();
    let mut losing = Losing::new(folder.path(), LossBounds::default());
    losing.lose(0, 1);
    losing.take(1);
    std::fs::remove_file(losing.run.table(Table::Losses)).expect("removed");
    losing.lose(0, 1);
    let snapshot = losing.snapshot();
    for _ in 0..2 {
        let words =
            losing.list.take(&snapshot, &|_, _| Vec::new(), 2 * SECOND_NS).expect_err("noticed").to_string();
        assert!(words.contains("has removed this file") && words.contains("losses.arrows"), "{words}");
    }
    assert!(losing.list.finish(&losing.run, &snapshot, &|_, _| Vec::new(), 3 * SECOND_NS).is_err());
}
