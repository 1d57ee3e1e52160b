//! `export` to MIDAS, read back by a reader that shares nothing with the writer, and by `import`.
//!
//! ```text
//!  run ─► export --to mid ─► .mid, .mid.lz4 ─► events, banks ─► the same hits, fragments, coincidences
//!                                        └───► import ─► the same again; what is cut off is named, and ends with 1
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use thalweg::record::EventFiles;
use thalweg::record::read::{EventsFile, HitsReader, RecordedEvent};

use crate::process::{Folder, run_directory, thalweg};

/// One event as a MIDAS program sees it.
struct MidasEvent {
    id: u16,
    serial: u32,
    seconds: u32,
    /// Type and data of each bank; the text of BOR and EOR is a bank without a name.
    banks: BTreeMap<String, (u32, Vec<u8>)>,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Reads all events of a file; every length must lead exactly to the next header, and to the end.
fn events(bytes: &[u8]) -> Vec<MidasEvent> {
    let (mut events, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let header = &bytes[at..at + 16];
        let (id, mask) = (number(header, 0) as u16, number(header, 0) >> 16);
        let body = &bytes[at + 16..at + 16 + number(header, 12) as usize];
        at += 16 + body.len();
        let mut banks = BTreeMap::new();
        if id >= 0x8000 {
            assert_eq!(mask, 0x494D);
            banks.insert(String::new(), (0, body.to_vec()));
        } else {
            assert_eq!((number(body, 0) as usize, number(body, 4)), (body.len() - 8, 0x31));
            let mut place = 8;
            while place < body.len() {
                let name = String::from_utf8(body[place..place + 4].to_vec()).expect("ASCII");
                let (kind, length) = (number(body, place + 4), number(body, place + 8) as usize);
                assert_eq!(number(body, place + 12), 0, "reserved");
                let data = body[place + 16..place + 16 + length].to_vec();
                assert!(banks.insert(name, (kind, data)).is_none(), "two banks of one name");
                place += 16 + length.next_multiple_of(8);
            }
            assert_eq!(place, body.len());
        }
        events.push(MidasEvent { id, serial: number(header, 4), seconds: number(header, 8), banks });
    }
    events
}

/// Checks the first and last event, and returns those between.
fn without_ends(mut events: Vec<MidasEvent>, run: &str) -> Vec<MidasEvent> {
    let record: Value =
        serde_json::from_slice(&fs::read(format!("{run}/run.json")).expect("there")).expect("JSON");
    let (last, first) = (events.pop().expect("EOR"), events.remove(0));
    assert_eq!((first.id, last.id), (0x8000, 0x8001));
    assert_eq!(first.serial, last.serial);
    assert_eq!(u64::from(first.serial), record["number"].as_u64().expect("a number"));
    assert!(first.seconds > 1_700_000_000 && last.seconds >= first.seconds);
    for end in [&first, &last] {
        let dump: Value = serde_json::from_slice(&end.banks[""].1).expect("JSON without anything behind it");
        assert_eq!(dump["Runinfo"]["Run number"], record["number"]);
        assert_eq!(dump["Thalweg"]["Zero UTC"], record["started"]);
    }
    let stop: Value = serde_json::from_slice(&last.banks[""].1).expect("JSON");
    assert_eq!(stop["Runinfo"]["Stop time"], record["stopped"]);
    events
}

fn data<const N: usize>(event: &MidasEvent, name: &str, kind: u32) -> Vec<[u8; N]> {
    let (found, data) = event.banks.get(name).unwrap_or_else(|| panic!("no bank {name}"));
    assert_eq!(*found, kind, "type of {name}");
    let (values, rest) = data.as_chunks::<N>();
    assert!(rest.is_empty());
    values.to_vec()
}

/// Imports what was exported of `run`, then half of it.
fn imported_again(folder: &Folder, (packed, bytes): (&str, &[u8]), run: &str) {
    let again = thalweg(&["import", packed, "--runs", &folder.at("again"), "--json"]).done().json();
    let read = |run: &str| {
        let reader = HitsReader::open(&Path::new(run).join("hits.arrows")).expect("hits");
        reader.read_all().expect("whole")
    };
    assert!(read(&run_directory(&again)) == read(run), "other hits");
    thalweg(&["verify", &run_directory(&again)]).done();
    let cut = folder.at("cut.mid");
    // Events have a multiple of eight bytes: an odd number of bytes ends inside one.
    fs::write(&cut, &bytes[..(bytes.len() / 2) | 1]).expect("written");
    let ended = thalweg(&["import", &cut, "--runs", &folder.at("again")]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.out.contains("cut.mid: damaged at byte ") && ended.out.contains("the file ends behind"),
        "{ended:#?}"
    );
    let ended = thalweg(&["import", &folder.file("no.mid", "PK"), "--runs", &folder.at("again")]);
    assert!(ended.code == Some(1) && ended.error.contains("not a MIDAS event file"), "{ended:#?}");
}

#[test]
fn hits_and_coincidences_go_to_midas_and_back_plain_and_compressed() {
    let folder = Folder::new();
    let board = |name: &str, first: u16| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
             first_channel = {first}\n[source.emulate]\nchannels = 4\nrate_hz = 5e3\n"
        )
    };
    let text = format!(
        "{}{}[coincidence]\nwindow_ps = 10_000_000\n[record]\ndirectory = \"{}\"\ntables = [\"hits\", \"coincidences\"]\n",
        board("left", 0),
        board("right", 64),
        folder.at("runs")
    );
    let run = run_directory(
        &thalweg(&["run", &folder.file("run.toml", &text), "--seconds", "1.5", "--json"]).done().json(),
    );
    let (plain, packed) = (folder.at("run.mid"), folder.at("run.mid.lz4"));
    thalweg(&["export", &run, "--to", "mid", "--out", &plain]).done();
    thalweg(&["export", &run, "--to", "mid", "--out", &packed]).done();
    let bytes = fs::read(&plain).expect("exported");
    let mut unpacked = Vec::new();
    let file = File::open(&packed).expect("exported");
    lz4_flex::frame::FrameDecoder::new(file).read_to_end(&mut unpacked).expect("an LZ4 frame");
    assert!(unpacked == bytes, "other bytes in the frame");
    assert_eq!(
        fs::read(&packed).expect("exported")[..6],
        [4, 0x22, 0x4D, 0x18, 0x44, 0x70],
        "as mlogger begins"
    );

    imported_again(&folder, (&packed, &bytes), &run);

    let events = without_ends(events(&bytes), &run);
    let hits =
        HitsReader::open(&Path::new(&run).join("hits.arrows")).expect("hits").read_all().expect("whole");
    let mut expected = hits.iter();
    let (mut serial, mut coincidences) = (0, 0);
    for event in &events {
        let times = data::<8>(event, "TIME", 17);
        if event.id == 3 {
            let differences = data::<8>(event, "DTPS", 17);
            let reference = data::<1>(event, "REFR", 1);
            assert!(times.len() > 1 && differences.len() == times.len());
            assert_eq!(reference.iter().filter(|one| one[0] == 1).count(), 1);
            let numbers = data::<8>(event, "EVNT", 18);
            assert!(numbers.iter().all(|number| *number == numbers[0]));
            coincidences += times.len();
            continue;
        }
        assert_eq!((event.id, event.serial), (2, serial));
        serial += 1;
        let column = |name| data::<2>(event, name, 4);
        let (channels, energies, short, flags) =
            (column("CHAN"), column("ENRG"), column("ESHT"), column("FLAG"));
        for row in 0..times.len() {
            let hit = expected.next().expect("no more hits than on file");
            assert_eq!(i64::from_le_bytes(times[row]), hit.time_ps);
            let found = [channels[row], energies[row], short[row], flags[row]].map(u16::from_le_bytes);
            assert_eq!(found, [hit.channel, hit.energy, hit.energy_short, hit.flags.0]);
        }
    }
    assert!(expected.next().is_none() && serial > 1, "all hits, in {serial} events");
    let found = thalweg(&["inspect", &run, "--json"]).done().json();
    let rows =
        found["tables"].as_array().expect("a list").iter().find(|table| table["table"] == "coincidences");
    assert_eq!(rows.and_then(|table| table["rows"].as_u64()), Some(coincidences as u64));
    assert!(coincidences > 0);
}

#[test]
fn built_events_go_to_midas_and_back_with_a_bank_for_each_source() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"tracker\"\nformat = \"fragment\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nboards = 4\n\
         [source.emulate]\npayload_bytes = 501\n[trigger]\nprogram = \"constant\"\nrate_hz = 500.0\n[record]\n\
         directory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    let run = run_directory(
        &thalweg(&["run", &folder.file("run.toml", &text), "--seconds", "1", "--json"]).done().json(),
    );
    let out = folder.at("run.mid");
    thalweg(&["export", &run, "--to", "mid", "--out", &out]).done();
    let events = without_ends(events(&fs::read(&out).expect("exported")), &run);
    let files = EventFiles {
        events: Path::new(&run).join("events.arrows"),
        fragments: Path::new(&run).join("fragments.arrows"),
    };
    let mut recorded = EventsFile::open(&files).expect("events");
    let (mut event, mut count) = (RecordedEvent::default(), 0);
    while recorded.next_event(&mut event).expect("whole") {
        let found = &events[count];
        assert_eq!((found.id, found.serial as usize), (1, count));
        count += 1;
        let words: Vec<u64> = data::<8>(found, "TRIG", 18).into_iter().map(u64::from_le_bytes).collect();
        assert_eq!(words, [event.trigger, event.first_arrival.0, event.closed.0]);
        assert_eq!(data::<1>(found, "INFO", 1), [[event.closing as u8], [event.attempt]]);
        assert_eq!(data::<2>(found, "MISS", 4).len(), event.missing.len());
        let ticks: Vec<u64> = data::<8>(found, "TICK", 18).into_iter().map(u64::from_le_bytes).collect();
        assert_eq!(ticks, event.fragments.iter().map(|fragment| fragment.ticks).collect::<Vec<_>>());
        for (fragment, payload) in event.iter() {
            let (kind, data) = &found.banks[&format!("S{:03}", fragment.source.0)];
            assert!(*kind == 1 && data == payload, "trigger {}", event.trigger);
        }
        assert_eq!(found.banks.len(), 4 + event.fragments.len());
    }
    assert!(count == events.len() && count > 100, "{count} events on file, {} exported", events.len());
    // The tables themselves, with their words and bytes, go to Parquet as well.
    let parquet = folder.at("parquet");
    let wanted =
        ["export", &run, "--to", "parquet", "--table", "events", "--table", "fragments", "--out", &parquet];
    thalweg(&wanted).done();
    for table in ["events", "fragments"] {
        let exported = format!("{parquet}/{table}.parquet");
        crate::export::assert_equal_rows(
            &Path::new(&run).join(format!("{table}.arrows")),
            Path::new(&exported),
        );
    }
}
