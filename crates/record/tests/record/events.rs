//! Events are read as they were built: by our reader, and by the arrow crate's own.

use crate::example_events::{
    Blocks, Planned, SOURCES, complete, planned, read_all, slot, sources, write_run,
};
use crate::example_run::{folder, stock_read};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use proptest::prelude::*;
use thalweg_data::{
    Closing, Counters, EventSink, Events, Ledger, Mark, Noted, Selected, SourceId, Stage, Unit,
};
use thalweg_record::read::{EventsFile, MergedEvents, RecordedEvent};
use thalweg_record::{
    Compression, EventFiles, EventWriter, RunDirectory, RunRecord, RunRecordState, Settings, Table, check,
    inspect, verify,
};

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

/// Bytes of one slice: nothing, so few that they lie in their view, or more.
fn slice() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..14),
        prop::collection::vec(any::<u8>(), 30..700),
    ]
}

/// An event of up to six sources, each of which may be missing.
fn event() -> impl Strategy<Value = Planned> {
    let fragment = (any::<bool>(), any::<u64>(), prop::collection::vec(slice(), 0..4));
    let marks = (0..1u64 << 40, 0..1u64 << 30);
    (prop::collection::vec(fragment, 0..6), 1usize..5, 0u8..3, marks).prop_map(
        |(fragments, closing, attempt, (first_arrival_ns, building_ns))| {
            let (mut missing, mut present) = (Vec::new(), Vec::new());
            for (source, (is_present, ticks, slices)) in (0..).zip(fragments) {
                match is_present {
                    true => present.push((source, ticks, slices)),
                    false => missing.push(source),
                }
            }
            Planned {
                trigger: 0,
                closing: if missing.is_empty() { Closing::Complete } else { Closing::ALL[closing] },
                attempt,
                first_arrival_ns,
                closed_ns: first_arrival_ns + building_ns,
                missing,
                fragments: present,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_written_is_read(
        mut planned in prop::collection::vec(event(), 0..40),
        step in 1usize..12,
        batch_bytes in prop_oneof![Just(1usize), 100usize..4000, Just(1 << 20)],
        compression in prop::sample::select(&COMPRESSIONS[..]),
        shared in any::<bool>(),
        alignment in prop::sample::select(&[1usize, 64, 1024][..]),
    ) {
        for (index, event) in planned.iter_mut().enumerate() {
            event.trigger = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        let folder = folder();
        let settings = Settings { compression, batch_bytes, ..Settings::default() };
        let mut blocks = Blocks::new(shared, alignment);
        let all_free = blocks.free();
        let run = write_run(folder.path(), &settings, &planned, step, 6, &mut blocks);
        prop_assert_eq!(blocks.free(), all_free, "blocks are given back");
        let read = read_all(&run.events_of(None));
        prop_assert_eq!(read.len(), planned.len());
        for (read, planned) in read.iter().zip(&planned) {
            let (read, bytes) = Planned::of(read);
            prop_assert_eq!(read.payload(), planned.payload());
            prop_assert_eq!(bytes, planned.payload().iter().map(|(.., bytes)| bytes.len() as u64).sum::<u64>());
            prop_assert_eq!(Planned { fragments: Vec::new(), ..read }, Planned { fragments: Vec::new(), ..planned.clone() });
        }
        let report = verify(run.path()).expect("a run");
        prop_assert!(report.ok, "{:?}", report.problems);
        for table in [Table::Events, Table::Fragments] {
            let bytes = std::fs::read(run.table(table)).expect("a file");
            prop_assert_eq!(check(&bytes).expect("whole").table, table);
        }
        compare_with_stock_reader(&run, &planned);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn events_that_a_filter_keeps_are_written_as_if_the_others_had_never_come(
        planned in prop::collection::vec((event(), prop::option::of(0u8..3)), 1..40),
        batch_bytes in prop_oneof![Just(1usize), 100usize..4000, Just(1 << 20)],
        compression in prop::sample::select(&COMPRESSIONS[..]),
    ) {
        let folder = folder();
        let settings = Settings { compression, batch_bytes, ..Settings::default() };
        let mut blocks = Blocks::new(false, 1);
        let all_free = blocks.free();
        let (planned, numbers): (Vec<Planned>, Vec<Option<u8>>) = planned.into_iter().unzip();
        let selected: Vec<Option<Selected>> = numbers.into_iter().map(|number| number.and_then(Selected::from_number)).collect();
        let run = RunDirectory::create(folder.path(), "selected").expect("made");
        let files = run.events_of(None);
        let mut writer =
            EventWriter::create_selected(&files, &settings, &sources(6), false, Some("every one that is kept"))
                .expect("made");
        for (planned, selected) in planned.chunks(7).zip(selected.chunks(7)) {
            writer.write_selected(&blocks.batch(planned, Mark(0)), selected).expect("written");
        }
        writer.finish().expect("written");
        prop_assert_eq!(blocks.free(), all_free, "blocks are given back");
        let kept: Vec<(&Planned, &Option<Selected>)> =
            planned.iter().zip(&selected).filter(|(_, selected)| selected.is_some()).collect();
        let read = read_all(&files);
        prop_assert_eq!(read.len(), kept.len());
        for (read, (kept, selected)) in read.iter().zip(&kept) {
            prop_assert_eq!(Planned::of(read).0.payload(), kept.payload());
            prop_assert_eq!(&read.selected, *selected);
        }
        prop_assert_eq!(slot(writer.counters(), Unit::Events), [kept.len() as u64, kept.len() as u64, 0, 0]);
        let of = |mark| selected.iter().filter(|own| **own == Some(mark)).count() as u64;
        complete_filtered(&run, &writer, selected.len() as u64, [of(Selected::Prescaled), of(Selected::Undecided)]);
        let report = verify(run.path()).expect("a run");
        let is_bad = |text: &&String| !text.contains("two events of one attempt");
        prop_assert!(!report.problems.iter().any(|text| is_bad(&text)), "{:?}", report.problems);
        prop_assert_eq!(report.events.filter.as_deref(), Some("every one that is kept"));
        for (table, columns) in [(Table::Events, 10), (Table::Fragments, 4)] {
            let bytes = std::fs::read(run.table(table)).expect("a file");
            prop_assert_eq!(check(&bytes).expect("whole").table, table);
            for batch in stock_read(&run.table(table)).expect("a stock reader reads it") {
                prop_assert_eq!(batch.num_columns(), columns);
            }
        }
        prop_assert_eq!(stock_selected(&run), kept.iter().filter_map(|(_, own)| own.map(Selected::word)).collect::<Vec<_>>());
    }
}

#[test]
fn blocks_of_rejected_events_alone_are_given_back_with_their_batch() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "early").expect("made");
    let files = run.events_of(None);
    let mut writer =
        EventWriter::create(&files, &Settings::default(), &sources(SOURCES), true).expect("made");
    let mut blocks = Blocks::new(false, 1);
    let all_free = blocks.free();
    let mut events = blocks.batch(&example(2000), Mark(0));
    let mut selected = vec![None; 2000];
    selected[0] = Some(Selected::Kept);
    writer.write_selected(&events, &selected).expect("written");
    let held = all_free - blocks.free();
    events.clear();
    assert!(held > 3 * usize::from(SOURCES), "each source has filled some blocks: {held}");
    assert!(all_free - blocks.free() <= usize::from(SOURCES), "the first event holds one of each source");
    writer.write_selected(&blocks.batch(&example(5), Mark(1)), &[None; 5]).expect("nothing to write");
    assert_eq!(slot(writer.counters(), Unit::Events), [1, 0, 1, 0], "the others never came to it");
}

#[test]
fn an_event_beyond_all_measure_that_is_rejected_is_not_seen() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "unseen").expect("made");
    let files = run.events_of(None);
    let mut writer =
        EventWriter::create(&files, &Settings::default(), &sources(SOURCES), true).expect("made");
    let mut events: Events = Blocks::new(false, 1).batch(&example(6), Mark(0));
    (events.events[1].bytes, events.events[4].bytes) = (1 << 40, 1 << 40);
    let kept = Some(Selected::Kept);
    writer.write_selected(&events, &[kept, None, None, kept, kept, kept]).expect("the others are taken");
    writer.finish().expect("written");
    assert_eq!(slot(writer.counters(), Unit::Events), [4, 3, 0, 1]);
    let triggers: Vec<u64> = read_all(&files).iter().map(|event| event.trigger).collect();
    assert_eq!(triggers, [1000, 1003, 1005]);
}

#[test]
fn an_event_lost_at_once_settles_no_event_before_it_that_is_not_on_file() {
    for compression in COMPRESSIONS {
        let folder = folder();
        let run = RunDirectory::create(folder.path(), "order").expect("made");
        let settings = Settings { compression, ..Settings::default() };
        let mut writer =
            EventWriter::create(&run.events_of(None), &settings, &sources(SOURCES), true).expect("made");
        let mut blocks = Blocks::new(false, 1);
        let mut events: Events = blocks.batch(&example(5), Mark(0));
        (events.events[2].bytes, events.events[4].bytes) = (1 << 40, 1 << 40);
        writer.write(&events).expect("the others are taken");
        assert_eq!(slot(writer.counters(), Unit::Events), [5, 0, 3, 2]);
        assert_eq!(writer.events_settled(), 0, "the first is on no file");
        writer.complete().expect("written");
        assert_eq!(slot(writer.counters(), Unit::Events), [5, 3, 0, 2]);
        assert_eq!(writer.events_settled(), 5);
        let mut alone = blocks.batch(&example(1), Mark(0));
        alone.events[0].bytes = 1 << 40;
        writer.write(&alone).expect("counted");
        assert_eq!(writer.events_settled(), 6, "nothing is held before it");
        writer.finish().expect("closed");
    }
}

/// Ends a run with an event filter that so many events came to, and that has noted so many as prescaled and as undecided.
fn complete_filtered(run: &RunDirectory, writer: &EventWriter, came: u64, [prescaled, undecided]: [u64; 2]) {
    let mut names = sources(6);
    names.push("builder".to_owned());
    let ledger = Ledger::create(Some(&run.ledger()), &names).expect("made");
    for source in (0..6).map(SourceId) {
        let slot = ledger.open(Stage::Record, source, &[Unit::Fragments, Unit::Bytes]);
        slot.publish(writer.source_counters(source));
    }
    let passed = writer.counters().total_input(Unit::Events);
    let mut counters = Counters::default();
    counters.input(Unit::Events, came);
    counters.output(Unit::Events, passed);
    counters.filtered(Unit::Events, came - passed);
    counters.noted(Noted::Prescaled, Unit::Events, prescaled);
    counters.noted(Noted::Undecided, Unit::Events, undecided);
    ledger.open(Stage::Filter, SourceId(6), &[Unit::Events]).publish(&counters);
    ledger.open(Stage::Record, SourceId(6), &[Unit::Events]).publish(writer.counters());
    let mut record = RunRecord::start(run, "events", "", &names);
    record.stop(RunRecordState::Stopped, writer.summaries(), Some(&ledger.snapshot()));
    record.write(run).expect("written");
}

/// The column `selected`, as the arrow crate's reader has it.
fn stock_selected(run: &RunDirectory) -> Vec<String> {
    let mut found = Vec::new();
    for batch in stock_read(&run.table(Table::Events)).expect("a stock reader reads it") {
        let column = batch.column_by_name("selected").expect("a column").as_dictionary::<UInt8Type>().clone();
        let words = column.values().as_string::<i32>();
        found.extend(column.keys().values().iter().map(|key| words.value(usize::from(*key)).to_owned()));
    }
    found
}

#[test]
fn verify_holds_the_marks_of_an_event_filter_against_what_it_has_noted() {
    let selected = [0u8, 0, 1, 2, 0, 1, 0, 0].map(Selected::from_number);
    for (noted, problem) in [
        ([2, 1], None),
        (
            [1, 1],
            Some("2 events on file are marked as prescaled, and the event filter has passed on 1 of them"),
        ),
        ([2, 0], Some("5 events on file are marked as kept, and the event filter has passed on 6 of them")),
    ] {
        let folder = folder();
        let run = RunDirectory::create(folder.path(), "marked").expect("made");
        let filter = Some("complete");
        let mut writer = EventWriter::create_selected(
            &run.events_of(None),
            &Settings::default(),
            &sources(6),
            true,
            filter,
        )
        .expect("made");
        let mut blocks = Blocks::new(false, 1);
        writer.write_selected(&blocks.batch(&example(8), Mark(0)), &selected).expect("written");
        writer.finish().expect("written");
        complete_filtered(&run, &writer, 20, noted);
        let report = verify(run.path()).expect("a run");
        let counts: Vec<(&str, u64)> =
            report.events.selected.iter().map(|(word, count)| (*word, *count)).collect();
        assert_eq!(counts, [("kept", 5), ("prescaled", 2), ("undecided", 1)]);
        match problem {
            None => assert_eq!(report.problems, [""; 0]),
            Some(problem) => assert!(
                report.problems.iter().any(|text| text == problem),
                "{problem}: {:?}",
                report.problems
            ),
        }
        let content = inspect(run.path(), 1).expect("a run").events.expect("events");
        assert_eq!(content.selected, report.events.selected);
        assert_eq!(content.first_events[0].selected, Some("kept"));
    }
}

fn compare_with_stock_reader(run: &RunDirectory, planned: &[Planned]) {
    let (mut index, mut first_fragment) = (0, 0);
    for batch in stock_read(&run.table(Table::Events)).expect("a stock reader reads it") {
        let column = |name: &str| batch.column_by_name(name).expect("a column");
        let closing = column("closing").as_dictionary::<UInt8Type>();
        let words = closing.values().as_string::<i32>();
        let missing = column("missing").as_list::<i32>();
        for row in 0..batch.num_rows() {
            let plan: &Planned = &planned[index];
            let number = |name: &str| column(name).as_primitive::<UInt64Type>().value(row);
            assert_eq!(number("trigger"), plan.trigger);
            assert_eq!(words.value(usize::from(closing.keys().value(row))), plan.closing.word());
            let missing = missing.value(row);
            assert_eq!(missing.as_primitive::<UInt16Type>().values().to_vec(), plan.missing);
            assert_eq!(number("first_fragment"), first_fragment);
            let fragments = column("fragments").as_primitive::<UInt32Type>().value(row);
            assert_eq!(fragments as usize, plan.fragments.len());
            first_fragment += u64::from(fragments);
            index += 1;
        }
    }
    assert_eq!(index, planned.len());
    let rows: Vec<_> = planned.iter().flat_map(Planned::payload).collect();
    let mut index = 0;
    for batch in stock_read(&run.table(Table::Fragments)).expect("a stock reader reads it") {
        let column = |name: &str| batch.column_by_name(name).expect("a column");
        let payload = column("payload").as_binary_view();
        for row in 0..batch.num_rows() {
            let source = column("source").as_primitive::<UInt16Type>().value(row);
            let ticks = column("ticks").as_primitive::<UInt64Type>().value(row);
            assert_eq!((source, ticks, payload.value(row).to_vec()), rows[index]);
            index += 1;
        }
    }
    assert_eq!(index, rows.len());
}

fn example(count: u64) -> Vec<Planned> {
    (0..count).map(planned).collect()
}

#[test]
fn no_event_straddles_two_batches_and_payload_is_one_buffer() {
    let folder = folder();
    let settings = Settings { batch_bytes: 500, ..Settings::default() };
    let run = write_run(folder.path(), &settings, &example(300), 40, SOURCES, &mut Blocks::new(false, 1));
    let (mut triggers, mut batches) = (std::collections::BTreeMap::new(), 0);
    for (number, batch) in stock_read(&run.table(Table::Fragments)).expect("reads").iter().enumerate() {
        let column = batch.column_by_name("trigger").expect("a column").as_primitive::<UInt64Type>();
        for trigger in column.values() {
            assert_eq!(*triggers.entry(*trigger).or_insert(number), number);
        }
        let payload = batch.column_by_name("payload").expect("a column").as_binary_view();
        assert_eq!(payload.data_buffers().len(), 1);
        batches += 1;
    }
    assert!(batches > 20, "{batches}");
}

#[test]
fn the_counters_say_where_each_event_is() {
    for compression in COMPRESSIONS {
        let folder = folder();
        let run = RunDirectory::create(folder.path(), "slot").expect("made");
        let settings = Settings { compression, ..Settings::default() };
        let mut writer =
            EventWriter::create(&run.events_of(None), &settings, &sources(SOURCES), true).expect("made");
        let mut blocks = Blocks::new(false, 1);
        let events = blocks.batch(&example(10), Mark(5));
        let bytes: u64 = (0..10).map(|index| planned(index).payload()[0].2.len() as u64).sum();
        writer.write(&events).expect("written");
        assert_eq!(slot(writer.counters(), Unit::Events), [10, 0, 10, 0]);
        assert_eq!(slot(writer.source_counters(SourceId(1)), Unit::Fragments), [8, 0, 8, 0]);
        assert_eq!(slot(writer.source_counters(SourceId(0)), Unit::Bytes), [bytes, 0, bytes, 0]);
        // Age writes it.
        let mut mark = Mark(20_000_005);
        while writer.events_on_file() < 10 {
            writer.advance(mark).expect("written");
            mark.0 += 1;
        }
        assert_eq!(slot(writer.counters(), Unit::Events), [10, 10, 0, 0]);
        assert_eq!(slot(writer.source_counters(SourceId(0)), Unit::Bytes), [bytes, bytes, 0, 0]);
        assert_eq!(read_all(&run.events_of(None)).len(), 10);
        writer.finish().expect("written");
        complete(&run, &writer, SOURCES, RunRecordState::Stopped);
        let report = verify(run.path()).expect("a run");
        assert!(report.ok, "{:?}", report.problems);
        assert_eq!((report.events.events, report.events.complete, report.events.fragments), (10, 8, 28));
        assert_eq!(report.ledger.events_recorded, Some(10));
    }
}

#[test]
fn an_event_beyond_all_measure_is_turned_away_alone() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "large").expect("made");
    let mut writer = EventWriter::create(&run.events_of(None), &Settings::default(), &sources(SOURCES), true)
        .expect("made");
    let mut events: Events = Blocks::new(false, 1).batch(&example(5), Mark(0));
    events.events[2].bytes = 1 << 40;
    writer.write(&events).expect("the others are taken");
    writer.finish().expect("written");
    assert_eq!(slot(writer.counters(), Unit::Events), [5, 4, 0, 1]);
    assert_eq!(slot(writer.source_counters(SourceId(0)), Unit::Fragments), [5, 4, 0, 1]);
    let triggers: Vec<u64> = read_all(&run.events_of(None)).iter().map(|event| event.trigger).collect();
    assert_eq!(triggers, [1000, 1001, 1003, 1004]);
    complete(&run, &writer, SOURCES, RunRecordState::Stopped);
    assert!(verify(run.path()).expect("a run").ok);
}

#[test]
fn of_several_files_the_fullest_row_counts_then_the_highest_attempt() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "units").expect("made");
    let mut files: Vec<EventFiles> = Vec::new();
    // Two units share the triggers; the first died, and the second has built again what the first had written last.
    // The last five without a source that had died by then.
    let again = |index: u64| {
        let mut again = Planned { attempt: u8::from((30..40).contains(&index)), ..planned(index) };
        if (35..40).contains(&index) {
            again.missing.push(again.fragments.pop().expect("a fragment").0);
            again.missing.sort_unstable();
            again.closing = Closing::UnitLost;
        }
        again
    };
    let parts: [Vec<Planned>; 2] =
        [(0..40).map(planned).collect(), (40..60).chain(30..40).map(again).collect()];
    for (unit, part) in ["a", "b"].into_iter().zip(&parts) {
        files.push(run.events_of(Some(unit)));
        let settings = Settings { batch_bytes: 300, ..Settings::default() };
        let newest = files.last().expect("just pushed");
        let mut writer = EventWriter::create(newest, &settings, &sources(SOURCES), true).expect("made");
        writer.write(&Blocks::new(true, 8).batch(part, Mark(0))).expect("written");
        writer.finish().expect("written");
    }
    assert_eq!(run.event_files().expect("readable"), files);
    let mut merged = MergedEvents::open(&files).expect("opens");
    assert_eq!((merged.count(), merged.superseded(), merged.doubled()), (60, 10, 0));
    let mut event = RecordedEvent::default();
    for index in 0..60 {
        assert!(merged.next_event(&mut event).expect("whole"));
        assert_eq!(Planned::of(&event).0.payload(), planned(index).payload());
        assert_eq!((event.trigger, event.attempt), (1000 + index, u8::from((30..35).contains(&index))));
    }
    assert!(!merged.next_event(&mut event).expect("the end"));
    let report = verify(run.path()).expect("a run");
    assert_eq!((report.events.superseded, report.events.doubled, report.events.out_of_order), (10, 0, 0));
    assert!(report.problems.iter().all(|problem| problem.contains("run.json")), "{:?}", report.problems);
}

#[test]
fn tables_that_are_not_wanted_are_not_made() {
    let folder = folder();
    let settings = Settings { tables: vec![Table::Events], ..Settings::default() };
    let mut blocks = Blocks::new(false, 1);
    let free = blocks.free();
    let run = write_run(folder.path(), &settings, &example(20), 5, SOURCES, &mut blocks);
    assert!(!run.table(Table::Fragments).exists());
    assert_eq!(blocks.free(), free);
    let mut file = EventsFile::open(&run.events_of(None)).expect("opens");
    assert_eq!(file.sources(), sources(SOURCES));
    let mut event = RecordedEvent::default();
    assert!(file.next_event(&mut event).expect("whole") && event.fragments.is_empty());
    let report = verify(run.path()).expect("a run");
    assert!(report.ok, "{:?}", report.problems);
}

#[test]
fn inspection_reports_completeness_source_by_source() {
    let folder = folder();
    let run =
        write_run(folder.path(), &Settings::default(), &example(100), 7, SOURCES, &mut Blocks::new(true, 64));
    let found = inspect(run.path(), 3).expect("readable");
    let events = found.events.expect("there are");
    assert_eq!((events.events, events.complete, events.fragments), (100, 80, 280));
    assert_eq!((events.closings["age"], events.first_events.len()), (20, 3));
    assert_eq!((events.first_trigger, events.last_trigger), (Some(1000), Some(1099)));
    assert!((events.rate_hz - 100.0 / 0.0099).abs() < 1.0 && (events.mean_building_ms - 0.04).abs() < 1e-9);
    let second = &events.sources[1];
    assert_eq!((&second.name[..], second.fragments, second.missing), ("board 1", 80, 20));
    let alone = inspect(&run.table(Table::Events), 1).expect("readable").events.expect("there are");
    assert_eq!((alone.events, alone.fragments, alone.sources[1].missing), (100, 280, 20));
}

#[test]
fn contradictions_are_found() {
    let plan = |change: fn(&mut Planned)| {
        let mut events = example(6);
        change(&mut events[3]);
        events
    };
    let cases: [(&str, Vec<Planned>); 5] = [
        ("comes behind trigger", plan(|event| event.trigger = 5)),
        ("two events of one attempt", plan(|event| event.trigger = 1002)),
        (
            "source 2 is missing, and its fragment is there",
            plan(|event| {
                (event.closing, event.missing) = (Closing::End, vec![2]);
            }),
        ),
        ("complete, and sources are missing", plan(|event| event.missing = vec![9])),
        ("not in the order of their sources", plan(|event| event.fragments.reverse())),
    ];
    for (words, events) in cases {
        let folder = folder();
        let run = RunDirectory::create(folder.path(), "wrong").expect("made");
        let mut writer =
            EventWriter::create(&run.events_of(None), &Settings::default(), &sources(SOURCES), true)
                .expect("made");
        writer.write(&Blocks::new(false, 1).batch(&events, Mark(0))).expect("written");
        writer.finish().expect("written");
        complete(&run, &writer, SOURCES, RunRecordState::Stopped);
        let report = verify(run.path()).expect("a run");
        assert!(
            report.problems.iter().any(|problem| problem.contains(words)),
            "{words}: {:?}",
            report.problems
        );
    }
}
