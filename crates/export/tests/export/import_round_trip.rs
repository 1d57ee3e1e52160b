//! What was exported as a MIDAS file and imported again is the same, whatever it was; damage costs what is damaged.
//!
//! ```text
//!  random run ─► export --to mid ─► import ─► the same rows ─► export ─► the same events
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use thalweg_data::batch::Share;
use thalweg_data::{
    Closing, Event, EventSink, Events, Flags, Fragment, Hit, HitEvent, HitEvents, Hits, Mark, Pool, Selected,
    Sink, SourceId,
};
use thalweg_export::{Format, ImportReport, ImportRequest, Request, check_midas, export, import};
use thalweg_record::read::{HitsReader, verify};
use thalweg_record::{
    ChannelsRecord, CoincidenceWriter, EventWriter, HitWriter, RunDirectory, RunRecord, RunRecordState,
    Settings, Table,
};

/// What a run has: payloads by source for each trigger, hits, and coincidences of some of them.
#[derive(Clone, Debug, Default)]
struct Content {
    events: Vec<(u8, Vec<Option<Vec<u8>>>)>,
    hits: Vec<Hit>,
    coincidences: Vec<usize>,
    /// The events have been selected by an event filter.
    has_filter: bool,
}

fn contents() -> impl Strategy<Value = Content> {
    let payload = proptest::option::weighted(0.8, proptest::collection::vec(any::<u8>(), 0..40));
    let event = (0..5u8, proptest::collection::vec(payload, 3));
    let hit = (0..1_000_000i64, 0..8u16, any::<u16>(), any::<u16>(), 0..0x2000u16);
    (
        proptest::collection::vec(event, 0..30),
        proptest::collection::vec(hit, 0..6000),
        proptest::collection::vec(1..5usize, 0..10),
        any::<bool>(),
    )
        .prop_map(|(events, hits, coincidences, has_filter)| {
            let mut hits: Vec<Hit> = hits
                .into_iter()
                .map(|(time_ps, channel, energy, energy_short, flags)| {
                    let flags = Flags(flags);
                    let or_none = |value, flag| if flags.has(flag) { 0 } else { value };
                    Hit {
                        time_ps: time_ps - 1000,
                        channel,
                        energy: or_none(energy, Flags::NO_ENERGY),
                        energy_short: or_none(energy_short, Flags::NO_ENERGY_SHORT),
                        flags,
                    }
                })
                .collect();
            hits.sort_by_key(|hit| hit.time_ps);
            Content { events, hits, coincidences, has_filter }
        })
}

const SOURCES: [&str; 3] = ["left", "right", "top"];

fn write(parent: &Path, content: &Content) -> PathBuf {
    let names = SOURCES.map(str::to_owned);
    let directory = RunDirectory::create(parent, "random").expect("made");
    let mut record = RunRecord::start(&directory, "random", "# none\n", &names);
    record.channels = [("left".to_owned(), ChannelsRecord { first: 0, count: 3 })].into();
    record.channels.insert("top".to_owned(), ChannelsRecord { first: 3, count: 5 });
    let settings = Settings::default();
    let mut tables = write_events(&directory, content, &settings, &names);
    let mut hits = HitWriter::create(directory.path(), &settings, &names).expect("made");
    let shares = vec![Share { source: SourceId(0), hits: content.hits.len() as u32 }];
    hits.write(&Hits { hits: content.hits.clone(), shares, ..Hits::default() }).expect("written");
    hits.finish().expect("written");
    tables.extend(hits.summaries());
    let mut coincidences = CoincidenceWriter::create(directory.path(), &settings, &names).expect("made");
    for (number, count) in content.coincidences.iter().enumerate() {
        let members: Vec<Hit> = content.hits.iter().skip(number).take(*count).copied().collect();
        let reference = members.len().saturating_sub(1) / 2;
        let Some(hit) = members.get(reference) else { continue };
        let event = HitEvent {
            number: number as u64 * 3,
            time_ps: hit.time_ps,
            first: 0,
            count: members.len() as u32,
            multiplicity: members.len().min(2) as u16,
            reference: reference as u16,
        };
        coincidences.write(&HitEvents { events: vec![event], members }).expect("written");
    }
    coincidences.finish().expect("written");
    tables.extend(coincidences.summaries());
    record.stop(RunRecordState::Stopped, tables, None);
    record.write(&directory).expect("written");
    directory.path().to_owned()
}

fn write_events(
    directory: &RunDirectory,
    content: &Content,
    settings: &Settings,
    names: &[String],
) -> Vec<thalweg_record::TableSummary> {
    let filter = content.has_filter.then_some("every third");
    let mut writer = EventWriter::create_selected(&directory.events_of(None), settings, names, true, filter)
        .expect("made");
    let (pool, mut batch) = (Pool::new(4, 1 << 16).expect("small"), Events::default());
    let mut block = pool.take().expect("free");
    for (trigger, (closing, payloads)) in content.events.iter().enumerate() {
        let trigger = trigger as u64 * 7;
        let mut event = Event {
            trigger,
            first_arrival: Mark(trigger * 1000 + 1),
            closed: Mark(trigger * 2000 + 5),
            first_fragment: batch.fragments.len() as u32,
            first_missing: batch.missing.len() as u32,
            closing: Closing::from_number(*closing).expect("one of them"),
            ..Event::default()
        };
        for (source, payload) in payloads.iter().enumerate() {
            let source = SourceId(source as u16);
            let Some(payload) = payload else {
                batch.missing.push(source);
                event.missing += 1;
                continue;
            };
            let slices = u16::from(!payload.is_empty());
            if slices > 0 {
                batch.slices.push(block.append(payload).expect("space"));
            }
            let (ticks, bytes) = (trigger * 125, payload.len() as u32);
            batch.fragments.push(Fragment { trigger, ticks, bytes, source, slices });
            event.fragments += 1;
            event.bytes += u64::from(bytes);
        }
        if event.missing > 0 && event.closing == Closing::Complete {
            event.closing = Closing::Age;
        }
        batch.events.push(event);
    }
    batch.leases.add(block.lease());
    let why = (0..batch.events.len()).map(|place| Some(Selected::ALL[place % Selected::ALL.len()]));
    writer.write_selected(&batch, &why.collect::<Vec<_>>()).expect("written");
    writer.finish().expect("written");
    writer.summaries()
}

fn exported(run: &Path, out: PathBuf) -> PathBuf {
    let request = Request {
        run: run.to_owned(),
        format: Format::Mid,
        out: out.clone(),
        tables: Vec::new(),
        with_kev: false,
        with_names: false,
        described: Vec::new(),
    };
    export(&request, &mut |_| true).expect("exported");
    out
}

fn imported(file: &Path, directory: PathBuf) -> Result<ImportReport, String> {
    let request = ImportRequest { file: file.to_owned(), directory, title: None };
    import(&request, &mut |_| true).map_err(|error| error.to_string())
}

/// The rows of a table as CSV, which has every column of it.
fn rows(run: &Path, table: Table, folder: &Path) -> String {
    if !run.join(table.file_name()).exists() {
        return String::new();
    }
    let out = folder.join("rows.csv");
    let request = Request {
        run: run.to_owned(),
        format: Format::Csv,
        out: out.clone(),
        tables: vec![table],
        with_kev: false,
        with_names: false,
        described: Vec::new(),
    };
    export(&request, &mut |_| true).expect("exported");
    let text = fs::read_to_string(&out).expect("exported");
    fs::remove_file(&out).expect("there");
    let is_empty = text.lines().count() < 2;
    if is_empty { String::new() } else { text }
}

/// The events between the first and the last, which say when they were written and which run it was.
fn data_events(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).expect("exported");
    let length =
        |at: usize| 16 + u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("four")) as usize;
    let (first, mut at) = (length(0), 0);
    let mut last = 0;
    while at < bytes.len() {
        last = at;
        at += length(at);
    }
    bytes[first..last].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_exported_run_is_the_same_when_it_is_imported(content in contents()) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let run = write(&folder.path().join("runs"), &content);
        let file = exported(&run, folder.path().join("run.mid"));
        let report = match imported(&file, folder.path().join("again")) {
            Ok(report) => report,
            Err(found) => {
                let nothing = content.events.is_empty() && content.hits.is_empty();
                prop_assert!(nothing, "{found}");
                return Ok(());
            }
        };
        prop_assert!(report.remarks.is_empty(), "{:?}", report.remarks);
        let again = report.run_directory;
        let found = verify(&again).expect("a run");
        prop_assert!(found.ok && found.ledger.closed, "{:?}", found.problems);
        for table in [Table::Events, Table::Fragments, Table::Hits, Table::Coincidences] {
            prop_assert_eq!(rows(&run, table, folder.path()), rows(&again, table, folder.path()), "{:?}", table);
        }
        let second = exported(&again, folder.path().join("again.mid.lz4"));
        let third = imported(&second, folder.path().join("third")).expect("imported");
        let third = exported(&third.run_directory, folder.path().join("third.mid"));
        prop_assert_eq!(data_events(&file), data_events(&third));
        let (one, other) = (RunRecord::read(&run.join("run.json")), RunRecord::read(&again.join("run.json")));
        let (one, other) = (one.expect("a record"), other.expect("a record"));
        prop_assert_eq!(&one.sources, &other.sources);
        prop_assert_eq!((&one.title, &one.started, &one.channels), (&other.title, &other.started, &other.channels));
    }
}

/// BOR, two events of one bank, EOR; big-endian if so wished.
fn foreign(is_big: bool, bank_bytes: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let word = |to: &mut Vec<u8>, value: u32| {
        to.extend(if is_big { value.to_be_bytes() } else { value.to_le_bytes() });
    };
    let half = |to: &mut Vec<u8>, value: u16| {
        to.extend(if is_big { value.to_be_bytes() } else { value.to_le_bytes() });
    };
    let header = |to: &mut Vec<u8>, id: u16, mask: u16, words: [u32; 3]| {
        half(to, id);
        half(to, mask);
        words.into_iter().for_each(|value| word(to, value));
    };
    let dump = b"<?xml version=\"1.0\"?>\n<odb/>\n";
    header(&mut bytes, 0x8000, 0x494D, [7, 1_700_000_000, dump.len() as u32]);
    bytes.extend(dump);
    for serial in 0..2 {
        header(&mut bytes, 1, 2, [serial, 1_700_000_003 + serial, 8 + 12 + 8]);
        word(&mut bytes, 12 + 8);
        word(&mut bytes, 0x11);
        bytes.extend(b"ADC0");
        word(&mut bytes, 4);
        word(&mut bytes, if serial == 0 { bank_bytes } else { 6 });
        [200, 210, 1234].into_iter().for_each(|value| half(&mut bytes, value));
        half(&mut bytes, 0);
    }
    header(&mut bytes, 0x8002, 0, [0, 1_700_000_005, 6]);
    bytes.extend(b"hello\0");
    header(&mut bytes, 0x8001, 0x494D, [7, 1_700_000_006, dump.len() as u32]);
    bytes.extend(dump);
    bytes
}

#[test]
fn a_file_of_either_byte_order_becomes_the_same_events_with_its_dumps_and_messages() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut found = Vec::new();
    for is_big in [false, true] {
        let file = folder.path().join(format!("{is_big}.mid"));
        fs::write(&file, foreign(is_big, 6)).expect("written");
        assert_eq!(check_midas(&foreign(is_big, 6)), 5);
        let report = imported(&file, folder.path().join("runs")).expect("imported");
        assert_eq!(
            (report.events, report.fragments, report.sources.clone()),
            (2, 4, vec!["header".to_owned(), "ADC0".to_owned()])
        );
        let run = report.run_directory;
        assert!(verify(&run).expect("a run").ok);
        let dump = fs::read_to_string(run.join("begin-of-run.xml")).expect("kept");
        assert!(dump.contains("<odb/>") && run.join("end-of-run.xml").exists());
        assert_eq!(fs::read_to_string(run.join("messages.txt")).expect("kept"), "1700000005 hello\n");
        let record = RunRecord::read(&run.join("run.json")).expect("a record");
        assert_eq!(
            (record.started.as_str(), record.title.as_str()),
            ("2023-11-14T22:13:20.000Z", &format!("{is_big}.mid")[..])
        );
        assert_eq!(record.details["imported"]["banks"]["ADC0"], "u16");
        assert_eq!(record.documents.len(), 3);
        found.push(rows(&run, Table::Fragments, folder.path()));
    }
    assert_eq!(found[0], found[1]);
    assert!(found[0].contains("c800d200d204"), "{}", found[0]);
}

#[test]
fn damage_is_named_counted_and_costs_nothing_else() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let import = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).expect("written");
        imported(&file, folder.path().join("runs"))
    };
    let lost = |report: &ImportReport| {
        let found = verify(&report.run_directory).expect("a run");
        assert!(found.ok && found.ledger.closed, "{:?}", found.problems);
        format!("{} {:?}", found.ledger.loss.text(), found.ledger.loss.kinds)
    };
    let bank = import("bank.mid", &foreign(false, 9)).expect("the other event is whole");
    assert_eq!((bank.events, bank.remarks.len()), (1, 1));
    let words =
        "1 data events are damaged and left out, the first at byte 45, in event 1: the bank ADC0 of 9 bytes";
    assert!(bank.remarks[0].contains(words), "{:?}", bank.remarks);
    assert!(
        lost(&bank).contains("BadLength") && lost(&bank).contains("events lost: unknown, ≥ 1 frames"),
        "{}",
        lost(&bank)
    );
    let cut = import("cut.mid", &foreign(false, 6)[..100]).expect("one event is whole");
    assert_eq!(cut.events, 1);
    let words = "damaged at byte 89, in event 2: the file ends behind 11 bytes of a header; the 1 data events before it";
    assert!(cut.remarks[0].contains(words), "{:?}", cut.remarks);
    assert!(
        lost(&cut).contains("Unfinished") && lost(&cut).contains("events lost: unknown, ≥ 1 frames"),
        "{}",
        lost(&cut)
    );
    // Behind whole events, nothing says that there were more.
    let early = import("early.mid", &foreign(false, 6)[..89]).expect("one event is whole");
    assert_eq!(early.events, 1);
    let words = "ends at byte 89, behind 1 data events, without the event that ends a run";
    assert!(early.remarks[0].contains(words), "{:?}", early.remarks);
    let refused = import("no.mid", b"PK\x03\x04").expect_err("no MIDAS file");
    assert!(refused.contains("not a MIDAS event file"), "{refused}");
    let nothing = import("empty.mid", &foreign(false, 6)[..45]).expect_err("no event");
    assert!(nothing.contains("no event of it can be imported: there is none"), "{nothing}");
    // What was refused leaves no recording.
    assert_eq!(RunDirectory::list(&folder.path().join("runs")).expect("listed").len(), 3);
}

#[test]
fn events_that_no_source_has_answered_are_exported_and_imported() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let nobody = || (0, vec![None, None, None]);
    let answered = (0, vec![Some(vec![1, 2, 3]), None, None]);
    for events in [vec![nobody()], vec![nobody(), answered, nobody(), nobody()]] {
        let parent = folder.path().join(events.len().to_string());
        let content = Content { events, ..Content::default() };
        let run = write(&parent, &content);
        let report = imported(&exported(&run, parent.join("run.mid")), parent.join("again"));
        let again = report.expect("imported").run_directory;
        let table = |run: &Path| rows(run, Table::Events, folder.path());
        assert_eq!(table(&run), table(&again));
        assert_eq!(table(&again).lines().count(), 1 + content.events.len());
    }
}

#[test]
fn hits_of_an_import_are_read_as_hits() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let hits =
        (0..10_000).map(|row| Hit { time_ps: row * 10, channel: 3, energy: row as u16, ..Hit::default() });
    let content = Content { hits: hits.collect(), ..Content::default() };
    let run = write(&folder.path().join("runs"), &content);
    let file = exported(&run, folder.path().join("run.mid"));
    let report = imported(&file, folder.path().join("again")).expect("imported");
    assert_eq!(report.hits, 10_000);
    let reader = HitsReader::open(&report.run_directory.join("hits.arrows")).expect("a table");
    assert_eq!(reader.read_all().expect("whole"), content.hits);
}
