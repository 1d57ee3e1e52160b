//! Lists of ranges: as they were noted, bounded, whole when killed; and `verify`, which holds them against each other and the events.

use std::path::Path;

use crate::example_events::{Blocks, Planned, SOURCES, complete, sources};
use crate::example_run::folder;
use thalweg_data::{EventSink, EventSum, Mark, RangeFate, RangeRecord, UnitId};
use thalweg_record::read::RangesReader;
use thalweg_record::{
    EventWriter, RangeBounds, RangeList, ReadoutName, RunDirectory, RunRecordState, Settings, Sync,
    UnitNames, VerifyReport, recover, verify,
};

const FIRST: u64 = 1000;
/// Events of a range.
const LENGTH: u64 = 10;
/// Bytes of each fragment: all alike, so that counts do not distinguish events.
const BYTES: u64 = 24;

/// Two readout units, the first with the boards 0 and 1, and a builder unit.
fn names() -> UnitNames {
    let readout = |name: &str, boards| ReadoutName { name: name.to_owned(), boards };
    UnitNames {
        readouts: vec![readout("ru-left", 0..2), readout("ru-right", 2..SOURCES)],
        builders: vec!["bu-0".to_owned()],
    }
}

fn event(trigger: u64) -> Planned {
    let bytes = || vec![vec![7; BYTES as usize]];
    Planned {
        trigger,
        first_arrival_ns: trigger * 1000,
        closed_ns: trigger * 1000 + 500,
        fragments: (0..SOURCES).map(|source| (source, trigger, bytes())).collect(),
        ..Planned::default()
    }
}

/// What so many boards have of these triggers.
fn sum(triggers: impl IntoIterator<Item = u64>, boards: u64) -> EventSum {
    let mut sum = EventSum::default();
    triggers.into_iter().for_each(|trigger| sum.add(EventSum::of(trigger, boards, boards * BYTES)));
    sum
}

/// The range of this number.
fn range(number: u64, readout: Option<UnitId>, fate: RangeFate) -> RangeRecord {
    let first = FIRST + LENGTH * number;
    let boards = match readout {
        Some(UnitId(0)) => 2,
        Some(_) => 1,
        None => u64::from(SOURCES),
    };
    RangeRecord {
        first,
        last: first + LENGTH - 1,
        ranges: 1,
        attempt: 0,
        epoch: 1_795_227_484_000_000_000,
        readout,
        builder: UnitId(0),
        fate,
        sum: sum(first..first + LENGTH, boards),
    }
}

/// What each unit notes of so many ranges when all goes well.
fn noted(ranges: u64) -> [(&'static str, Vec<RangeRecord>); 3] {
    let all = |readout, fate| (0..ranges).map(move |number| range(number, readout, fate));
    let filed = [None, Some(UnitId(0)), Some(UnitId(1))]
        .into_iter()
        .flat_map(|readout| all(readout, RangeFate::OnFile));
    [
        ("ru-left", all(Some(UnitId(0)), RangeFate::Acknowledged).collect()),
        ("ru-right", all(Some(UnitId(1)), RangeFate::Acknowledged).collect()),
        ("bu-0", filed.collect()),
    ]
}

fn list(run: &RunDirectory, unit: &str, records: &[RangeRecord], bounds: RangeBounds) {
    let mut list = RangeList::create(run, unit, &names(), Sync::None, bounds).expect("made");
    list.take(&mut records.to_vec(), 0).expect("space");
    list.finish().expect("space");
}

/// A run whose builder unit has these events on file, and whose units have noted these ranges.
fn write(
    parent: &Path,
    events: &[Planned],
    lists: &[(&str, Vec<RangeRecord>)],
    state: RunRecordState,
    filter: Option<&str>,
) -> RunDirectory {
    let run = RunDirectory::create(parent, "").expect("made");
    let (settings, files) = (Settings::default(), run.events_of(Some("bu-0")));
    let mut writer =
        EventWriter::create_selected(&files, &settings, &sources(SOURCES), false, filter).expect("made");
    writer.write(&Blocks::new(false, 1).batch(events, Mark(1))).expect("space");
    writer.finish().expect("space");
    for (unit, records) in lists {
        list(&run, unit, records, RangeBounds::default());
    }
    complete(&run, &writer, SOURCES, state);
    run
}

/// A file of ranges.
pub fn example(parent: &Path, unit: &str) -> Vec<u8> {
    let run = RunDirectory::create(parent, "").expect("made");
    let bounds = RangeBounds { rows: 6, bytes: 1 << 20 };
    let noted = noted(2).into_iter().flat_map(|(_, records)| records);
    list(&run, unit, &noted.collect::<Vec<_>>(), bounds);
    std::fs::read(run.ranges_of(unit)).expect("a file")
}

/// What `verify` says of a run of two ranges whose events and lists were changed.
fn verified(
    change: impl FnOnce(&mut Vec<Planned>, &mut [(&'static str, Vec<RangeRecord>); 3]),
    state: RunRecordState,
) -> VerifyReport {
    let folder = folder();
    let mut events: Vec<Planned> = (FIRST..FIRST + 2 * LENGTH).map(event).collect();
    let mut lists = noted(2);
    change(&mut events, &mut lists);
    verify(write(folder.path(), &events, &lists, state, None).path()).expect("a run")
}

#[track_caller]
fn says(report: &VerifyReport, words: &[&str]) {
    let has_all = |problem: &&String| words.iter().all(|word| problem.contains(word));
    assert!(report.problems.iter().any(|problem| has_all(&problem)), "{words:?} in {:#?}", report.problems);
}

#[test]
fn ranges_that_are_on_file_as_they_were_acknowledged_balance() {
    let report = verified(|_, _| {}, RunRecordState::Stopped);
    assert_eq!(report.problems, Vec::<String>::new());
    let left = report.edges.iter().find(|edge| edge.readout == "ru-left").expect("a connection");
    assert_eq!((left.ranges, left.acknowledged, left.unacknowledged, left.on_file), (2, 40, 0, Some(40)));
    assert_eq!(report.identity.expect("from the lists").managers, [1_795_227_484_000_000_000]);
}

#[test]
fn of_a_range_that_was_filtered_fewer_events_are_on_file_and_never_more() {
    let folder = folder();
    let verified = |events: &[Planned], lists: &[(&'static str, Vec<RangeRecord>)]| {
        let run = write(folder.path(), events, lists, RunRecordState::Stopped, Some("complete"));
        verify(run.path()).expect("a run")
    };
    let all: Vec<Planned> = (FIRST..FIRST + 2 * LENGTH).map(event).collect();
    let some: Vec<Planned> = all.iter().step_by(3).cloned().collect();
    let report = verified(&some, &noted(2));
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.events.filter.as_deref(), Some("complete"));
    let mut doubled = all.clone();
    doubled.push(Planned { trigger: FIRST, attempt: 0, ..event(FIRST) });
    let report = verified(&doubled, &noted(2));
    says(&report, &["bu-0: triggers 1000 to 1009", "11 events with 33 fragments are on file"]);
    says(&report, &["ru-left to bu-0: triggers 1000 to 1009", "11 events with 22 fragments are on file"]);
}

#[test]
fn one_event_removed_and_another_doubled_of_a_range_are_found() {
    let report = verified(
        |events, _| {
            let other = events[2].clone();
            events[3] = other;
        },
        RunRecordState::Stopped,
    );
    let of_range =
        ["triggers 1000 to 1009, attempt 0, event manager of 2026-11-21", "as many are on file, but others"];
    says(&report, &[&of_range[..], &["ru-left to bu-0"]].concat());
    says(&report, &[&of_range[..], &["ru-right to bu-0"]].concat());
    // Also without the readout units, by what the builder unit has noted itself.
    says(&report, &[&of_range[..], &["bu-0: triggers"]].concat());
}

#[test]
fn one_event_removed_and_another_doubled_of_two_ranges_are_found_in_both() {
    let report = verified(
        |events, _| {
            let other = events[12].clone();
            events[3] = other;
        },
        RunRecordState::Stopped,
    );
    says(&report, &["ru-left to bu-0: triggers 1000 to 1009", "9 events with 18 fragments are on file"]);
    says(&report, &["ru-left to bu-0: triggers 1010 to 1019", "11 events with 22 fragments are on file"]);
}

#[test]
fn on_file_is_no_more_than_what_was_sent() {
    // Of what a readout unit does not know whether it is on file, any part may be, and no more.
    let fate_unknown = |report_of: u64| {
        verified(
            |_, lists| {
                let record = &mut lists[0].1[1];
                record.fate = RangeFate::Unknown;
                record.sum = sum(FIRST + LENGTH..FIRST + LENGTH + report_of, 2);
            },
            RunRecordState::Stopped,
        )
    };
    assert_eq!(fate_unknown(LENGTH).problems, Vec::<String>::new());
    let report = fate_unknown(LENGTH - 1);
    says(
        &report,
        &[
            "ru-left to bu-0: triggers 1010 to 1019",
            "9 events with 18 fragments were sent",
            "10 events with 20",
        ],
    );
    let report = verified(|_, lists| lists[1].1.truncate(1), RunRecordState::Stopped);
    says(&report, &["ru-right to bu-0: 10 events are on file that were not sent, the first of trigger 1010"]);
    let report =
        verified(|_, lists| lists[2].1.retain(|record| record.first == FIRST), RunRecordState::Stopped);
    says(
        &report,
        &["bu-0: 10 events are on file in ranges that it has not noted, the first of trigger 1010"],
    );
}

#[test]
fn a_unit_that_was_killed_has_noted_at_least_what_it_did() {
    let report = verified(
        |_, lists| {
            lists.iter_mut().for_each(|(_, records)| records.retain(|record| record.first == FIRST));
        },
        RunRecordState::Recovered,
    );
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(report.edges.iter().all(|edge| edge.at_least), "{:?}", report.edges);
    // What is acknowledged is on file all the same.
    let report = verified(|events, _| drop(events.remove(4)), RunRecordState::Recovered);
    says(&report, &["ru-left to bu-0: triggers 1000 to 1009", "9 events with 18 fragments are on file"]);
}

#[test]
fn where_the_table_of_fragments_is_gone_the_list_of_the_builder_unit_stands_for_it() {
    let folder = folder();
    let events: Vec<Planned> = (FIRST..FIRST + 2 * LENGTH).map(event).collect();
    let mut lists = noted(2);
    lists[2]
        .1
        .iter_mut()
        .filter(|record| record.readout == Some(UnitId(1)))
        .for_each(|record| record.sum.digest ^= 1);
    let run = write(folder.path(), &events, &lists, RunRecordState::Stopped, None);
    std::fs::remove_file(run.events_of(Some("bu-0")).fragments).expect("it was written");
    let report = verify(run.path()).expect("a run");
    says(&report, &["ru-right to bu-0: triggers 1000 to 1009", "as many are on file, but others"]);
    assert!(!report.problems.iter().any(|words| words.contains("ru-left")), "{:#?}", report.problems);
}

#[test]
fn a_list_that_is_full_says_so_and_adds_up() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "").expect("made");
    let bounds = RangeBounds { rows: 4, bytes: 1 << 20 };
    let mut list = RangeList::create(&run, "ru-left", &names(), Sync::None, bounds).expect("made");
    for number in 0..6 {
        // Two seconds between them: each is written for itself.
        list.take(&mut vec![range(number, Some(UnitId(0)), RangeFate::Acknowledged)], number * 4_000_000_000)
            .expect("space");
        list.take(&mut Vec::new(), number * 4_000_000_000 + 2_000_000_000).expect("space");
    }
    list.finish().expect("space");
    let reader = RangesReader::open(&run.ranges_of("ru-left")).expect("it is there");
    assert_eq!(reader.units(), ("ru-left".to_owned(), names()));
    let rows = reader.read_all().expect("whole");
    assert!(rows.is_full);
    let ranges: Vec<u64> = rows.records.iter().map(|record| record.ranges).collect();
    assert_eq!(ranges, [1, 1, 1, 3]);
    let mut found = EventSum::default();
    rows.records.iter().for_each(|record| found.add(record.sum));
    assert_eq!(found, sum(FIRST..FIRST + 6 * LENGTH, 2));
    assert_eq!(list.summary().rows, 5);
}

#[test]
fn what_was_listed_before_a_kill_is_read_after_it() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "").expect("made");
    let records =
        [range(0, Some(UnitId(0)), RangeFate::Acknowledged), range(1, Some(UnitId(0)), RangeFate::Replaced)];
    let mut list =
        RangeList::create(&run, "ru-left", &names(), Sync::None, RangeBounds::default()).expect("made");
    list.take(&mut records.to_vec(), 0).expect("space");
    list.take(&mut Vec::new(), 2_000_000_000).expect("space");
    // Killed here, in the middle of its next batch.
    drop(list);
    let path = run.ranges_of("ru-left");
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes.extend([0xff, 0xff, 0xff, 0xff, 9, 0, 0, 0, 1, 2, 3]);
    std::fs::write(&path, bytes).expect("space");
    let path = run.path().to_owned();
    drop(run);
    let recovered = recover(&path).expect("a run");
    assert_eq!((recovered.tables.len(), recovered.tables[0].bytes_removed > 0), (1, true), "{recovered:?}");
    let run = RunDirectory::open(&path).expect("it is there");
    let rows = RangesReader::open(&run.ranges_of("ru-left")).and_then(RangesReader::read_all).expect("whole");
    assert_eq!((rows.records.as_slice(), rows.is_full), (records.as_slice(), false));
}
