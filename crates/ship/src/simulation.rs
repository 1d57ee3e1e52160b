//! Both sides in one process, over a disk that forgets: killed at any operation, the far files are what was acknowledged.
//!
//! ```text
//!  seed ─► table that grows, documents ─► Shipment ─► FarFiles on FaultyDisk ─ crash ─► restart or power cut ─► again
//! ```

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_data::Hit;
use thalweg_record::read::{HitsReader, MARKER, MARKER_BYTES, message_end};
use thalweg_record::{Compression, HitsFile};

use crate::amount::RowCounts;
use crate::contents::Contents;
use crate::destination::Destination;
use crate::digests::Digests;
use crate::disk::faulty::{Choices, FaultyDisk};
use crate::error::{Refusal, ShipError};
use crate::far_files::FarFiles;
use crate::ledger::ShipLedger;
use crate::local_file::LocalFile;
use crate::message::{FileKind, Identity, Offer};
use crate::run_files::{FoundFile, FoundRun};
use crate::run_state::{FileState, RunState};
use crate::shipment::{Shipment, Step};

/// What is at `make test` a few hundred seeds; `THALWEG_SHIP_SEEDS` asks for more.
const SEEDS: u64 = 400;
const ROOT: &str = "/far";
const RUN: &str = "000001";

/// The messages of a table of hits: its schema, and batches of another number of rows each. The times of all hits are numbered.
fn messages(choices: &mut Choices, count: usize) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("hits.arrows");
    let mut table = HitsFile::create(&path, Compression::None, &[]).expect("made");
    let mut numbers = 0..;
    for _ in 0..count {
        let hit = |time_ps| Hit { time_ps, ..Hit::default() };
        let rows = 1 + choices.below(60) as usize;
        let hits: Vec<Hit> = numbers.by_ref().take(rows).map(hit).collect();
        table.write(&hits).and_then(|()| table.flush()).expect("written");
    }
    let file = fs::read(&path).expect("there");
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(end) = message_end(&&file[..], at).expect("a table") {
        all.push(file[at as usize..end as usize].to_vec());
        at = end;
    }
    all
}

/// The local run: a table of which some messages are there, and documents.
struct Local {
    folder: tempfile::TempDir,
    messages: Vec<Vec<u8>>,
    shown: usize,
}

impl Local {
    fn new(choices: &mut Choices) -> Local {
        let count = 2 + choices.below(6) as usize;
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut local = Local { folder, messages: messages(choices, count), shown: 0 };
        local.grow(1);
        fs::write(local.path("run.json"), vec![b'x'; choices.below(3000) as usize]).expect("written");
        local
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn content(&self) -> Vec<u8> {
        [&self.messages[..self.shown].concat()[..], &MARKER].concat()
    }

    fn grow(&mut self, messages: usize) {
        let end = self.messages[..self.shown].concat().len();
        self.shown = (self.shown + messages).min(self.messages.len());
        let content = self.content();
        let mut file = fs::OpenOptions::new();
        let mut file = file.create(true).append(true).open(self.path("hits.arrows")).expect("opens");
        file.set_len(end as u64).expect("cut");
        file.write_all(&content[end..]).expect("written");
    }

    fn has_ended(&self) -> bool {
        self.shown == self.messages.len()
    }

    fn kind(name: &str) -> FileKind {
        if name == "run.json" { FileKind::Whole } else { FileKind::Growing }
    }
}

/// What was acknowledged of each file.
#[derive(Default, Debug)]
struct Acknowledged {
    table: u64,
    counted: RowCounts,
    table_finished: bool,
    document_finished: bool,
}

fn far_path(name: &str) -> PathBuf {
    Path::new(ROOT).join(RUN).join(name)
}

/// What must hold of the far files at every moment.
fn assert_consistent(disk: &FaultyDisk, local: &Local, known: &Acknowledged, seed: u64) {
    let expected = local.content();
    match disk.content(&far_path("hits.arrows")) {
        None => assert_eq!(known.table, 0, "seed {seed}: acknowledged, and not there"),
        Some(found) => {
            let mut end = 0;
            while let Some(next) = message_end(&&found[..], end)
                .unwrap_or_else(|cause| panic!("seed {seed}: no whole stream: {cause}"))
            {
                end = next;
            }
            assert!(end >= known.table, "seed {seed}: {end} bytes, and {} were acknowledged", known.table);
            assert_eq!(found[..end as usize], expected[..end as usize], "seed {seed}");
            assert!(!known.table_finished || found == expected, "seed {seed}: finished");
        }
    }
    let document = fs::read(local.path("run.json")).expect("there");
    match disk.content(&far_path("run.json")) {
        None => assert!(!known.document_finished, "seed {seed}"),
        Some(found) => assert_eq!(found, document, "seed {seed}: a document appears whole"),
    }
}

/// What a query over the far table finds: its rows, and the sum of their numbers.
fn queried(disk: &FaultyDisk) -> (u64, i64) {
    let Some(content) = disk.content(&far_path("hits.arrows")) else { return (0, 0) };
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("hits.arrows");
    fs::write(&path, content).expect("written");
    let hits = HitsReader::open(&path).and_then(HitsReader::read_all).expect("a whole stream");
    (hits.len() as u64, hits.iter().map(|hit| hit.time_ps).sum())
}

/// The ledger of what is acknowledged, which must balance, and be what a query over the far table finds: more where an acknowledgement was
/// cut off, and the same once the far side was asked. Of the first range, the far side may have given the table its name and not noted it: it
/// comes again.
fn assert_balance(disk: &FaultyDisk, local: &Local, known: &Acknowledged, was_asked: bool, seed: u64) {
    let file = |name: &str| {
        let (path, kind) = (local.path(name), Local::kind(name));
        let identity = Identity::of(&fs::metadata(&path).expect("there"));
        FoundFile {
            name: name.to_owned(),
            path,
            kind,
            identity,
            is_closed: local.has_ended(),
            recorded: None,
        }
    };
    let (table, document) = (file("hits.arrows"), file("run.json"));
    let state = |file: &FoundFile, proved, counted, is_finished: bool| {
        let bytes = file.identity.bytes;
        let finished = is_finished.then(|| Digests { bytes, ..Digests::default() });
        (file.name.clone(), FileState { identity: file.identity, proved, counted, finished, refused: None })
    };
    let state = RunState {
        files: [
            state(&table, known.table, Some(known.counted), known.table_finished),
            state(&document, 0, None, known.document_finished),
        ]
        .into(),
        ..RunState::default()
    };
    let run = FoundRun {
        path: local.folder.path().to_owned(),
        name: RUN.to_owned(),
        has_ended: local.has_ended(),
        tables: Vec::new(),
        files: vec![table, document],
    };
    let ledger = ShipLedger::of(&run, &state, &mut Contents::default());
    assert_eq!(ledger.balances(), Some(true), "seed {seed}: {ledger:?}");
    let proved = ledger.proved.rows.expect("counted");
    let (rows, sum) = queried(disk);
    let is_exact = was_asked && known.table > 0;
    assert!(rows == proved || rows > proved && !is_exact, "seed {seed}: {rows} rows there, {ledger:?}");
    // The numbers of the rows are those from 0 on: none twice, none left out.
    assert_eq!(sum, (0..rows as i64).sum::<i64>(), "seed {seed}");
}

/// Asks the far side what it has of the table.
fn ask(disk: &FaultyDisk, local: &Local, known: &mut Acknowledged) {
    disk.crash_after(None);
    let mut far = FarFiles::new(disk.clone(), Path::new(ROOT), "far", Arc::default(), None);
    let file = LocalFile::open(&local.path("hits.arrows"), FileKind::Growing).expect("there");
    let identity = file.identity();
    let (run, name) = (RUN.to_owned(), "hits.arrows".to_owned());
    let offer = Offer { run, file: name, kind: FileKind::Growing, identity, digests: None };
    let have = far.begin(&offer).expect("a sound disk");
    known.table = have.proved;
    known.counted = file.counts(0, have.proved).expect("a table");
    known.table_finished |= have.finished.is_some();
}

/// Ships what is there until all is done or the disk crashes. Several connections take turns at the files, as several streams do.
fn ship(
    disk: &FaultyDisk,
    local: &Local,
    known: &mut Acknowledged,
    range_bytes: u64,
) -> Result<(), ShipError> {
    let (locks, mut choices) = (Arc::default(), Choices(range_bytes));
    let connect = || FarFiles::new(disk.clone(), Path::new(ROOT), "far", Arc::clone(&locks), None);
    let mut connections = [connect(), connect(), connect()];
    let open = |name: &'static str| {
        let file = LocalFile::open(&local.path(name), Local::kind(name))?;
        Ok((name, Shipment::new(file, RUN, name).with_range_bytes(range_bytes)))
    };
    let done = [("hits.arrows", known.table_finished), ("run.json", known.document_finished)];
    let wanted = done.into_iter().filter(|(_, is_done)| !is_done).map(|(name, _)| open(name));
    let mut shipments = wanted.collect::<Result<Vec<_>, ShipError>>()?;
    while !shipments.is_empty() {
        let index = choices.below(shipments.len() as u64) as usize;
        let (name, shipment) = &mut shipments[index];
        let connection = &mut connections[choices.below(3) as usize];
        shipment.interrupt();
        let is_over = match shipment.step(connection, local.has_ended(), None, &mut |_| Ok(()))? {
            Step::Proved(to) => {
                if *name == "hits.arrows" {
                    known.table = to;
                    known.counted = shipment.counted().expect("a table");
                }
                false
            }
            Step::CaughtUp => true,
            Step::Finished(digests) => {
                assert_eq!(digests.bytes, fs::metadata(local.path(name)).expect("there").len());
                match *name {
                    "run.json" => known.document_finished = true,
                    _ => {
                        (known.table, known.table_finished) = (digests.bytes - MARKER_BYTES, true);
                        known.counted = shipment.counted().expect("a table");
                    }
                }
                true
            }
        };
        if is_over {
            shipments.swap_remove(index);
        }
    }
    Ok(())
}

/// One life of a run: crashes until it is shipped.
fn live(seed: u64) -> u64 {
    let mut choices = Choices(seed);
    let (mut local, disk, mut known) =
        (Local::new(&mut choices), FaultyDisk::default(), Acknowledged::default());
    let range_bytes = 1 + choices.below(4000);
    let mut crashes = 0;
    while !(known.table_finished && known.document_finished) {
        disk.crash_after((crashes < 60).then(|| choices.below(40)));
        let result = ship(&disk, &local, &mut known, range_bytes);
        let is_crash = matches!(&result, Err(ShipError::Refused { refusal: Refusal::Failed, text, .. }) if text.contains("crashed"));
        assert!(result.is_ok() || is_crash, "seed {seed}: {result:?}");
        assert_consistent(&disk, &local, &known, seed);
        if is_crash {
            crashes += 1;
            match choices.below(2) {
                0 => disk.lose_power(&mut choices),
                _ => disk.restart(),
            }
            assert_consistent(&disk, &local, &known, seed);
            assert_balance(&disk, &local, &known, false, seed);
            // Not always: what comes next is to find things as the crash has left them.
            if choices.below(3) == 0 {
                ask(&disk, &local, &mut known);
                assert_balance(&disk, &local, &known, true, seed);
            }
        }
        local.grow(choices.below(3) as usize);
    }
    disk.lose_power(&mut choices);
    assert_consistent(&disk, &local, &known, seed);
    assert_balance(&disk, &local, &known, true, seed);
    crashes
}

#[test]
fn after_every_crash_the_far_files_are_what_was_acknowledged() {
    let seeds = std::env::var("THALWEG_SHIP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let crashes: u64 = (0..seeds).map(live).sum();
    assert!(crashes > 2 * seeds, "{crashes} crashes");
}

#[test]
fn a_full_far_disk_is_answered_with_a_word_and_nothing_is_lost() {
    for seed in 0..200 {
        let mut choices = Choices(seed);
        let (mut local, disk, mut known) =
            (Local::new(&mut choices), FaultyDisk::default(), Acknowledged::default());
        local.grow(100);
        let most = 500 + choices.below(8000) as usize;
        disk.limit(Some(most));
        match ship(&disk, &local, &mut known, 600) {
            Ok(()) => assert!(known.table_finished),
            Err(ShipError::Refused { refusal: Refusal::DiskFull, text, .. }) => {
                assert!(text.contains("full"), "{text}");
            }
            other => panic!("seed {seed}: {other:?}"),
        }
        assert_consistent(&disk, &local, &known, seed);
        disk.limit(None);
        ship(&disk, &local, &mut known, 600).expect("there is space");
        assert!(known.table_finished && known.document_finished);
        assert_consistent(&disk, &local, &known, seed);
    }
}

#[test]
fn a_disk_that_does_not_keep_what_it_was_given_proves_nothing() {
    let mut choices = Choices(5);
    let (mut local, disk, mut known) =
        (Local::new(&mut choices), FaultyDisk::default(), Acknowledged::default());
    local.grow(100);
    disk.damage_what_is_read_back(Some(Choices(1)));
    let error = ship(&disk, &local, &mut known, 4000).expect_err("a bit is another one");
    assert!(matches!(error, ShipError::Refused { refusal: Refusal::Unproved, .. }), "{error}");
    assert_eq!(known.table, 0);
    disk.damage_what_is_read_back(None);
    ship(&disk, &local, &mut known, 4000).expect("a sound disk");
    assert!(known.table_finished && known.document_finished);
}

#[test]
fn a_file_that_is_changed_under_way_is_named_and_not_acknowledged() {
    let mut choices = Choices(9);
    let (mut local, disk) = (Local::new(&mut choices), FaultyDisk::default());
    local.grow(100);
    let mut far = FarFiles::new(disk.clone(), Path::new(ROOT), "far", Arc::default(), None);
    let open = |name: &str| LocalFile::open(&local.path(name), Local::kind(name)).expect("there");
    // Replaced between reading and proving.
    let mut shipment = Shipment::new(open("run.json"), RUN, "run.json");
    let beside = local.path("other");
    fs::write(&beside, "other").expect("written");
    let result = shipment.step(&mut far, true, None, &mut |_| {
        fs::rename(&beside, local.path("run.json")).expect("renamed");
        Ok(())
    });
    assert!(matches!(&result, Err(ShipError::Changed { found, .. }) if found.contains("name")), "{result:?}");
    // Cut between two ranges.
    let mut shipment = Shipment::new(open("hits.arrows"), RUN, "hits.arrows").with_range_bytes(1);
    let step = shipment.step(&mut far, true, None, &mut |_| Ok(()));
    assert!(matches!(step, Ok(Step::Proved(_))), "{step:?}");
    let bytes = local.content().len() as u64;
    let cut = fs::OpenOptions::new().write(true).open(local.path("hits.arrows")).expect("opens");
    let step = shipment.step(&mut far, true, None, &mut |_| {
        cut.set_len(bytes - 8).expect("cut");
        Ok(())
    });
    assert!(matches!(&step, Err(ShipError::Changed { found, .. }) if found.contains("shorter")), "{step:?}");
    // The digest of another file than run.json says.
    let mut shipment = Shipment::new(open("run.json"), RUN, "run.json");
    let result = loop {
        match shipment.step(&mut far, true, Some("00000000"), &mut |_| Ok(())) {
            Ok(Step::Proved(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(&result, Err(ShipError::Digest { .. })), "{result:?}");
    assert_eq!(disk.content(&far_path("run.json")), None);
}

#[test]
fn another_file_of_the_same_name_is_never_overwritten() {
    let mut choices = Choices(11);
    let (mut one, mut other) = (Local::new(&mut choices), Local::new(&mut choices));
    one.grow(2);
    other.messages[0][20] ^= 1;
    fs::remove_file(other.path("hits.arrows")).expect("there");
    other.shown = 0;
    other.grow(100);
    let (disk, mut known) = (FaultyDisk::default(), Acknowledged::default());
    ship(&disk, &one, &mut known, 600).expect("shipped");
    let before = disk.content(&far_path("hits.arrows"));
    let error = ship(&disk, &other, &mut Acknowledged::default(), 600).expect_err("it differs");
    assert!(matches!(error, ShipError::Refused { refusal: Refusal::Differs, .. }), "{error}");
    assert_eq!(disk.content(&far_path("hits.arrows")), before);
    let mut far = FarFiles::new(disk, Path::new(ROOT), "far", Arc::default(), None);
    let foreign = crate::message::Offer {
        run: RUN.to_owned(),
        file: "hits.arrows".to_owned(),
        kind: FileKind::Whole,
        identity: crate::message::Identity::default(),
        digests: None,
    };
    assert!(far.begin(&foreign).is_err(), "of another kind");
}
