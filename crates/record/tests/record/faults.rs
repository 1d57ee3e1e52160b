//! A disk on which any one call fails, once or from then on: every finished batch stays readable, the ledger agrees with the file, and the
//! message names the file and says what to do.

use std::fs;
use std::path::Path;

use crate::example_coincidences as coincidences;
use crate::example_events::{self, Blocks};
use crate::example_run::{self, folder, hit, sources, unlocked};
use thalweg_data::{
    EventSink, EventSum, Frames, Hit, LossReason, Mark, Pool, RangeFate, RangeRecord, Sink, SinkError,
    SourceId, Unit, UnitId,
};
use thalweg_record::faults::{Fault, Faults, Operation, with_faults};
use thalweg_record::read::HitsReader;
use thalweg_record::{
    CoincidenceWriter, EventWriter, FileLimits, HitWriter, RangeBounds, RangeList, RawSource, RawWriter,
    Reading, RecordError, RunDirectory, RunRecord, RunRecordState, SeriesList, SeriesName, Settings, Sync,
    Table, UnitNames, check, recover, verify,
};

/// No call fails; they are counted.
const NONE: Faults = Faults { of: None, first: u64::MAX, count: 0, fault: Fault::Short };

/// Faults at calls that a seed chooses among `calls`: each kind of fault, once and for good.
fn chosen(calls: u64, seed: u64) -> impl Iterator<Item = Faults> {
    let mut state = seed;
    let kinds = [
        (Fault::Broken, 1),
        (Fault::Broken, u64::MAX),
        (Fault::Full, 1),
        (Fault::Full, u64::MAX),
        (Fault::Short, 1),
    ];
    (0..60).map(move |turn| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (fault, count) = kinds[turn % kinds.len()];
        Faults { of: None, first: (state >> 33) % calls, count, fault }
    })
}

/// Records without a fault, at the place `counted`, then with each of those that a seed chooses among the calls of that, at places of their
/// own. Returns the number of these calls.
fn with_each_fault(seed: u64, record: impl Fn(&str, Faults) -> u64) -> u64 {
    let calls = record("counted", NONE);
    for (turn, faults) in chosen(calls, seed).enumerate() {
        record(&turn.to_string(), faults);
    }
    calls
}

/// What a writer said first, if it refused anything.
#[derive(Default)]
struct Said {
    text: Option<String>,
    /// Its files could not be made: the run does not begin, and its writer does not say what to do.
    is_of_creation: bool,
}

impl Said {
    fn note(&mut self, result: Result<(), SinkError>) {
        if let Err(error) = result {
            self.text.get_or_insert(error.to_string());
        }
    }

    /// The writer, if it was made.
    fn made<W>(&mut self, created: Result<W, RecordError>) -> Option<W> {
        created.map_err(|error| (self.text, self.is_of_creation) = (Some(error.to_string()), true)).ok()
    }

    /// It names a file, the error in words, and what to do.
    fn expect_useful(&self, faults: Faults) {
        let Some(text) = &self.text else { return };
        assert!(text.contains(".arrows") || text.contains('/'), "{faults:?}: {text}");
        let words = ["Input/output error", "o space left"];
        assert!(words.iter().any(|words| text.contains(words)), "{faults:?}: {text}");
        let advice = ["check the disk", "free some", "while forcing to the disk"];
        let has_advice = advice.iter().any(|advice| text.contains(advice));
        assert!(has_advice || self.is_of_creation, "{faults:?}: {text}");
        assert!(faults.fault != Fault::Short, "{text}");
    }
}

/// The settings of a run: one file per table, or several; forced to the disk at the end, or after each batch.
fn settings() -> [Settings; 3] {
    let files = FileLimits { most_rows: Some(1000), ..FileLimits::default() };
    let plain = Settings { batch_hits: 200, batch_bytes: 4096, ..Settings::default() };
    [
        plain.clone(),
        Settings { sync: Sync::Batch, ..plain.clone() },
        Settings { sync: Sync::Batch, files, ..plain },
    ]
}

/// Hits of a run, each of whose calls may fail, written here or beside.
fn record_hits(run: &RunDirectory, settings: &Settings, is_beside: bool, faults: Faults) -> u64 {
    const HITS: usize = 2500;
    let mut said = Said::default();
    let (writer, calls) = with_faults(faults, || {
        let made = HitWriter::create(run.path(), settings, &sources());
        let mut writer =
            said.made(made.and_then(|made| if is_beside { made.write_beside() } else { Ok(made) }))?;
        let pool = Pool::new(2, 1 << 20).expect("small");
        for start in (0..HITS).step_by(100) {
            said.note(writer.write(&example_run::batch(&pool, start..start + 100, Mark(start as u64))));
        }
        said.note(writer.finish());
        Some(writer)
    });
    said.expect_useful(faults);
    let Some(writer) = writer else { return calls };
    let slots = [0, 1].map(|source| example_run::slot(writer.counters(SourceId(source))));
    let [input, output, held, lost] = [0, 1, 2, 3].map(|entry| slots[0][entry] + slots[1][entry]);
    assert_eq!((input, output + lost, held), (HITS as u64, HITS as u64, 0), "{faults:?}");
    let not_forced = |source| writer.counters(SourceId(source)).total_lost(LossReason::NotForced, Unit::Hits);
    // A disk that could not be forced has more than the ledger promises, and it says how much.
    assert_eq!(output + not_forced(0) + not_forced(1), writer.hits_on_file(), "{faults:?}");
    let (snapshot, on_file) = (example_run::publish(run, &writer), writer.hits_on_file());
    let mut record = RunRecord::start(run, "faults", "", &sources());
    record.stop(RunRecordState::Failed, writer.summaries(), Some(&snapshot));
    record.write(run).expect("the disk works again");
    drop(writer);
    let read = HitsReader::open(&run.table(Table::Hits)).expect("opens").read_all().expect("whole");
    assert_eq!(read.len() as u64, on_file, "{faults:?}");
    let known = |hit_read: &Hit| *hit_read == hit(((hit_read.time_ps + 5_000) / 1_000) as usize);
    assert!(read.iter().all(known), "{faults:?}");
    calls
}

#[test]
fn hits_survive_a_call_that_fails() {
    for is_beside in [false, true] {
        for (seed, settings) in settings().iter().enumerate() {
            let folder = folder();
            let calls = with_each_fault(seed as u64, |name, faults| {
                let run = RunDirectory::create(&folder.path().join(name), "faults").expect("made");
                let calls = record_hits(&run, settings, is_beside, faults);
                expect_order(unlocked(run), faults);
                calls
            });
            assert!(calls > 50, "{calls}");
        }
    }
}

/// `verify` finds the run in order, or `recover` puts it in order.
fn expect_order(run: RunDirectory, faults: Faults) {
    if !run.run_record().exists() {
        return;
    }
    let report = verify(run.path()).expect("a run");
    if !report.ok {
        assert!(!report.problems.is_empty(), "{faults:?}");
        recover(run.path()).unwrap_or_else(|error| panic!("{faults:?}: {error}; {:?}", report.problems));
        let again = verify(run.path()).expect("a run");
        assert!(again.ok, "{faults:?}: {:?}", again.problems);
    }
}

fn record_events(place: &Path, settings: &Settings, faults: Faults) -> u64 {
    const EVENTS: u64 = 400;
    let run = RunDirectory::create(place, "faults").expect("made");
    let files = run.events_of(None);
    let mut said = Said::default();
    let (writer, calls) = with_faults(faults, || {
        let names = example_events::sources(example_events::SOURCES);
        let mut writer = said.made(EventWriter::create(&files, settings, &names, true))?;
        let mut blocks = Blocks::new(false, 1);
        for first in (0..EVENTS).step_by(10) {
            let events: Vec<_> = (first..first + 10).map(example_events::planned).collect();
            said.note(writer.write(&blocks.batch(&events, Mark(first))));
        }
        said.note(writer.finish());
        Some(writer)
    });
    said.expect_useful(faults);
    let Some(writer) = writer else { return calls };
    let [input, output, held, lost] = example_events::slot(writer.counters(), Unit::Events);
    assert_eq!((input, output + lost, held), (EVENTS, EVENTS, 0), "{faults:?}");
    let not_forced = writer.counters().total_lost(LossReason::NotForced, Unit::Events);
    assert_eq!(output + not_forced, writer.events_on_file(), "{faults:?}");
    let on_file = writer.events_on_file();
    drop(writer);
    let read = example_events::read_all(&files);
    assert_eq!(read.len() as u64, on_file, "{faults:?}");
    for event in &read {
        let (found, _) = example_events::Planned::of(event);
        assert_eq!(found.payload(), example_events::planned(event.trigger - 1000).payload(), "{faults:?}");
    }
    calls
}

#[test]
fn events_survive_a_call_that_fails() {
    for (seed, settings) in settings()[..2].iter().enumerate() {
        let folder = folder();
        with_each_fault(100 + seed as u64, |name, faults| {
            record_events(&folder.path().join(name), settings, faults)
        });
    }
}

fn record_coincidences(place: &Path, settings: &Settings, faults: Faults) -> u64 {
    const EVENTS: u64 = 1000;
    let run = RunDirectory::create(place, "faults").expect("made");
    let mut said = Said::default();
    let (writer, calls) = with_faults(faults, || {
        let mut writer =
            said.made(CoincidenceWriter::create(run.path(), settings, &coincidences::sources()))?;
        for start in (0..EVENTS).step_by(50) {
            said.note(writer.write(&coincidences::batch(start..start + 50)));
        }
        said.note(writer.finish());
        Some(writer)
    });
    said.expect_useful(faults);
    let Some(writer) = writer else { return calls };
    let [input, output, held, lost] = coincidences::slot(writer.counters());
    assert_eq!((input, output + lost, held), (EVENTS, EVENTS, 0), "{faults:?}");
    let not_forced = writer.counters().total_lost(LossReason::NotForced, Unit::Events);
    drop(writer);
    let on_file = coincidences::read_all(run.path()).events.len() as u64;
    assert_eq!(output + not_forced, on_file, "{faults:?}");
    calls
}

#[test]
fn coincidences_survive_a_call_that_fails() {
    for (seed, settings) in settings()[..2].iter().enumerate() {
        let folder = folder();
        with_each_fault(200 + seed as u64, |name, faults| {
            record_coincidences(&folder.path().join(name), settings, faults)
        });
    }
}

fn record_raw(path: &Path, faults: Faults) -> u64 {
    let source = RawSource { source: 0, name: "stream".to_owned(), stream: true, block_bytes: 4096 };
    let settings = Settings { batch_bytes: 4096, ..Settings::default() };
    let mut said = Said::default();
    let (writer, calls) = with_faults(faults, || {
        let mut writer = said.made(RawWriter::create(path, &settings, &[source]))?;
        let pool = Pool::new(64, 4096).expect("small");
        for call in 0..60 {
            let mut block = pool.take().expect("blocks come back when their rows are on file or lost");
            let mut frames = Frames::default();
            frames.header.mark = Mark(call);
            frames.slices.push(block.append(&[call as u8; 1000]).expect("space"));
            frames.leases.add(block.lease());
            said.note(writer.write(&frames));
        }
        said.note(writer.finish());
        Some(writer)
    });
    said.expect_useful(faults);
    let Some(writer) = writer else { return calls };
    let counters = writer.counters(SourceId(0));
    let (output, lost) = (counters.total_output(Unit::Bytes), counters.total_lost_any(Unit::Bytes));
    assert_eq!((counters.held(Unit::Bytes), output + lost), (0, 60_000), "{faults:?}");
    drop(writer);
    let rows = check(&fs::read(path).expect("there")).expect("whole").rows;
    assert_eq!(rows * 1000, output, "{faults:?}");
    calls
}

#[test]
fn raw_bytes_survive_a_call_that_fails() {
    let folder = folder();
    with_each_fault(300, |name, faults| {
        let place = folder.path().join(name);
        fs::create_dir(&place).expect("made");
        record_raw(&place.join("raw.arrows"), faults)
    });
}

fn range(number: u64) -> RangeRecord {
    RangeRecord {
        first: number,
        last: number,
        ranges: 1,
        attempt: 0,
        epoch: 0,
        readout: None,
        builder: UnitId(0),
        fate: RangeFate::OnFile,
        sum: EventSum::default(),
    }
}

#[test]
fn ranges_and_values_are_on_file_once_whichever_call_fails() {
    let folder = folder();
    with_each_fault(400, |name, faults| {
        let run = RunDirectory::create(&folder.path().join(name), "faults").expect("made");
        let names = [SeriesName { name: "t".to_owned(), ..SeriesName::default() }];
        let lists =
            RangeList::create(&run, "unit", &UnitNames::default(), Sync::Batch, RangeBounds::default())
                .and_then(|ranges| Ok((ranges, SeriesList::create(&run, &names, Sync::Batch)?)));
        let (mut ranges, mut series) = lists.expect("the disk still works");
        let ((), calls) = with_faults(faults, || {
            for second in 0..20u64 {
                let range = range(second);
                // Both try again later, or join what they hold.
                let _ = ranges.take(&mut vec![range], second * 3_000_000_000);
                let reading =
                    Reading { time_ns: second * 3_000_000_000, series: "t".to_owned(), value: Some(1.0) };
                series.take(&mut vec![reading]);
                let _ = series.advance((second + 1) * 3_000_000_000);
            }
        });
        let (ended, closed) = (ranges.finish(), series.finish());
        let rows = |table: &str| {
            let bytes = fs::read(run.path().join(table)).expect("there");
            check(&bytes).expect("whole").rows
        };
        assert!(closed.is_err() || rows("series.arrows") + series.not_kept() == 20, "{faults:?}");
        let listed = thalweg_record::read::RangesReader::open(&run.ranges_of("unit"))
            .and_then(|reader| reader.read_all())
            .expect("whole");
        let sum: u64 = listed.records.iter().map(|row| row.ranges).sum();
        assert!(ended.is_err() || sum == 20, "{faults:?}: {sum} ranges");
        calls
    });
}

#[test]
fn the_record_of_a_run_is_the_old_one_or_the_new_one() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "faults").expect("made");
    RunRecord::start(&run, "old", "", &sources()).write(&run).expect("written");
    for of in [Operation::Open, Operation::Write, Operation::Force, Operation::Rename] {
        for fault in [Fault::Broken, Fault::Full] {
            let faults = Faults { of: Some(of), first: 0, count: u64::MAX, fault };
            let (written, _) =
                with_faults(faults, || RunRecord::start(&run, "new", "", &sources()).write(&run));
            let text = written.expect_err("the disk fails").to_string();
            assert!(text.contains("run.json"), "{text}");
            assert_eq!(RunRecord::read(&run.run_record()).expect("whole").title, "old", "{faults:?}");
        }
    }
}
