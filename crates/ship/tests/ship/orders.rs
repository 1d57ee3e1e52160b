//! Whole orders of `thalweg ship`: which files go, what is tried again, what is given up, what may be removed here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_data::Hit;
use thalweg_record::{Compression, HitsFile, RunRecord, RunRecordState, TableSummary};
use thalweg_ship::progress::{Progress, RouteStage};
use thalweg_ship::shipper::{Order, ship};
use thalweg_ship::{CopyRule, Settings};

use crate::dav_server::{Dav, ROOT, TOKEN};
use crate::faults::{Choices, Habit};
use crate::http_server::Server;
use crate::s3_server::{BUCKET, KEY, S3};

/// An order that waits for a store, and does not give it up at once, takes so long.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);

/// Runs the test in a process of its own that has keys in its environment. Whether this is that process.
fn has_keys(test: &str) -> bool {
    if std::env::var("AWS_ACCESS_KEY_ID").is_ok_and(|key| key == KEY) {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", test, "--nocapture"])
        .env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", "secret");
    let ended = command.output().expect("started");
    assert!(
        ended.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    false
}

/// A run, and a store of each kind.
struct Scene {
    folder: tempfile::TempDir,
    s3: Arc<S3>,
    dav: Arc<Dav>,
    servers: [Server; 2],
    table: TableSummary,
    bytes: Vec<u8>,
}

impl Scene {
    fn new(bytes: u64) -> Scene {
        let folder = tempfile::tempdir().expect("temporary folder");
        let ((s3, first), (dav, second)) = (S3::start(), Dav::start());
        s3.store.lock().expect("no panic").smallest_part = 5 << 20;
        let bytes = Choices(bytes).bytes(bytes);
        let crc32c = format!("{:08x}", thalweg_data::checksum::of(&bytes));
        let table = TableSummary {
            file: "hits.arrows".to_owned(),
            bytes: bytes.len() as u64,
            crc32c: vec![crc32c],
            ..TableSummary::default()
        };
        let scene = Scene { folder, s3, dav, servers: [first, second], table, bytes };
        std::fs::create_dir_all(scene.run()).expect("made");
        std::fs::write(scene.run().join("hits.arrows"), &scene.bytes).expect("written");
        std::fs::write(scene.run().join("ledger.bin"), "").expect("written");
        std::fs::write(scene.folder.path().join("token"), TOKEN).expect("written");
        scene.set(RunRecordState::Stopped);
        scene
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("runs/000001")
    }

    fn set(&self, state: RunRecordState) {
        let record = RunRecord { state, number: 1, tables: vec![self.table.clone()], ..RunRecord::default() };
        let text = serde_json::to_vec(&record).expect("plain data");
        std::fs::write(self.run().join("run.json"), text).expect("written");
    }

    fn settings(&self) -> Settings {
        let [s3, dav] = &self.servers;
        Settings {
            to: vec![format!("s3://{BUCKET}/site"), format!("webdav+http://{}{ROOT}", dav.address)],
            copies: 2,
            // Beside other tests it would hardly come to work.
            yields: false,
            endpoint: Some(format!("http://{}", s3.address)),
            bearer_token_file: Some(self.folder.path().join("token")),
            ..Settings::default()
        }
    }

    fn ship(&self) -> Progress {
        let order = Order {
            runs: vec![self.folder.path().join("runs")],
            settings: self.settings(),
            key: None,
            follow: false,
            give_up_after: GIVE_UP_AFTER,
        };
        ship(&order, &Arc::default(), &mut |_| {}).expect("an order")
    }

    fn assert_shipped(&self) {
        let names = ["hits.arrows", "ledger.bin", "run.json", "shipped-manifest.json"];
        let store = self.s3.store.lock().expect("no panic");
        assert_eq!(
            store.objects.keys().cloned().collect::<Vec<_>>(),
            names.map(|name| format!("site/000001/{name}"))
        );
        assert!(store.objects["site/000001/hits.arrows"].bytes == self.bytes);
        assert!(store.uploads.is_empty());
        assert_eq!(self.dav.names(), names.map(|name| format!("{ROOT}/000001/{name}")));
        assert!(self.dav.file(&format!("{ROOT}/000001/hits.arrows")).expect("a file") == self.bytes);
        let rule = CopyRule::new(&self.settings());
        assert_eq!(rule.reason_to_keep(&self.run(), std::slice::from_ref(&self.table)), None);
        assert_no_upload(&self.run());
    }
}

fn assert_no_upload(run: &Path) {
    let all = std::fs::read_dir(run.join(".ship")).expect("states").flatten();
    let left: Vec<_> =
        all.filter(|entry| entry.path().extension().is_some_and(|end| end == "upload")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_run_is_shipped_to_two_stores_when_it_has_ended_and_its_tables_may_go() {
    if !has_keys("orders::a_run_is_shipped_to_two_stores_when_it_has_ended_and_its_tables_may_go") {
        return;
    }
    let scene = Scene::new((33 << 20) + 5);
    scene.set(RunRecordState::Running);
    let progress = scene.ship();
    assert!(!progress.is_complete && progress.runs_open == 1, "{progress:?}");
    assert!(scene.s3.object("site/000001/run.json").is_none() && scene.dav.names().is_empty());
    let rule = CopyRule::new(&scene.settings());
    assert!(rule.reason_to_keep(&scene.run(), std::slice::from_ref(&scene.table)).is_some());
    scene.set(RunRecordState::Stopped);
    let progress = scene.ship();
    assert!(progress.is_complete, "{progress:?}");
    scene.assert_shipped();
    assert_eq!(scene.s3.store.lock().expect("no panic").parts_put, 2);
    let requests = scene.s3.faults.requests();
    assert!(scene.ship().is_complete);
    assert_eq!(scene.s3.faults.requests(), requests, "what is known here is not asked for again");
}

#[test]
fn stores_that_ask_for_time_or_are_full_get_the_run_later() {
    if !has_keys("orders::stores_that_ask_for_time_or_are_full_get_the_run_later") {
        return;
    }
    let scene = Scene::new(300_000);
    scene.s3.faults.set(Habit::Answers(503));
    scene.dav.faults.set(Habit::Answers(507));
    let (s3, dav) = (scene.s3.clone(), scene.dav.clone());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        s3.faults.set(Habit::None);
        dav.faults.set(Habit::None);
    });
    let progress = scene.ship();
    assert!(progress.is_complete, "{progress:?}");
    scene.assert_shipped();
}

#[test]
fn a_file_that_a_store_does_not_take_holds_up_no_other() {
    if !has_keys("orders::a_file_that_a_store_does_not_take_holds_up_no_other") {
        return;
    }
    let scene = Scene::new(5000);
    std::fs::write(scene.run().join("ledger.bin"), "counters").expect("written");
    for (s3, dav) in [(400, 413), (413, 423), (414, 415)] {
        scene.s3.faults.set(Habit::Refuses("hits.arrows", s3));
        scene.dav.faults.set(Habit::Refuses("hits.arrows", dav));
        let order = Order {
            runs: vec![scene.folder.path().join("runs")],
            settings: Settings { streams: 1, ..scene.settings() },
            key: None,
            follow: false,
            give_up_after: Duration::from_secs(10),
        };
        let progress = ship(&order, &Arc::default(), &mut |_| {}).expect("an order");
        for route in &progress.destinations {
            assert_eq!((route.stage, route.files_finished), (RouteStage::Incomplete, 2), "{route:?}");
            assert_eq!(route.problems.len(), 1, "{route:?}");
            assert_eq!(route.ledger.refused.len(), 1, "{route:?}");
        }
    }
    scene.s3.faults.set(Habit::None);
    scene.dav.faults.set(Habit::None);
    assert!(scene.ship().is_complete);
    scene.assert_shipped();
}

#[test]
fn a_file_that_holds_its_destination_is_tried_behind_the_others() {
    let scene = Scene::new(5000);
    // The smallest file is the first.
    std::fs::write(scene.run().join("ledger.bin"), "counters").expect("written");
    scene.dav.faults.set(Habit::Refuses("ledger.bin", 410));
    let settings = Settings { copies: 1, streams: 1, ..scene.settings() };
    let order = Order {
        runs: vec![scene.folder.path().join("runs")],
        settings: Settings { to: settings.to[1..].to_vec(), ..settings },
        key: None,
        follow: false,
        give_up_after: Duration::from_secs(1),
    };
    let progress = ship(&order, &Arc::default(), &mut |_| {}).expect("an order");
    assert_eq!(progress.destinations[0].stage, RouteStage::GivenUp, "{progress:?}");
    assert_eq!(scene.dav.names(), [format!("{ROOT}/000001/hits.arrows")]);
}

#[test]
fn buckets_of_one_name_at_two_endpoints_are_two_copies() {
    if !has_keys("orders::buckets_of_one_name_at_two_endpoints_are_two_copies") {
        return;
    }
    let scene = Scene::new(5000);
    assert!(scene.ship().is_complete);
    let (other, server) = S3::start();
    let settings = Settings {
        to: vec![format!("s3://{BUCKET}/site")],
        copies: 1,
        endpoint: Some(format!("http://{}", server.address)),
        ..scene.settings()
    };
    let rule = CopyRule::new(&settings);
    let table = std::slice::from_ref(&scene.table);
    assert!(
        rule.reason_to_keep(&scene.run(), table).is_some(),
        "what is at one endpoint is not at the other"
    );
    let order = Order {
        runs: vec![scene.folder.path().join("runs")],
        settings,
        key: None,
        follow: false,
        give_up_after: GIVE_UP_AFTER,
    };
    let progress = ship(&order, &Arc::default(), &mut |_| {}).expect("an order");
    assert!(progress.is_complete, "{progress:?}");
    assert!(other.object("site/000001/hits.arrows").expect("shipped there, too").bytes == scene.bytes);
    assert_eq!(rule.reason_to_keep(&scene.run(), table), None);
    scene.assert_shipped();
}

#[test]
fn a_store_that_denies_access_is_given_up_at_once_and_says_why() {
    if !has_keys("orders::a_store_that_denies_access_is_given_up_at_once_and_says_why") {
        return;
    }
    let scene = Scene::new(1000);
    scene.s3.faults.set(Habit::Answers(403));
    let began = Instant::now();
    let progress = scene.ship();
    assert!(began.elapsed() < GIVE_UP_AFTER, "{:?}", began.elapsed());
    let [s3, dav] = &progress.destinations[..] else { panic!("{progress:?}") };
    assert_eq!((s3.stage, dav.files_finished), (RouteStage::GivenUp, 3), "{progress:?}");
    assert!(s3.held.as_ref().is_some_and(|text| text.contains("AccessDenied")), "{progress:?}");
    scene.s3.faults.set(Habit::None);
    assert!(scene.ship().is_complete);
    scene.assert_shipped();
}

#[test]
fn a_table_that_is_not_as_it_was_recorded_is_named_before_it_is_sent() {
    if !has_keys("orders::a_table_that_is_not_as_it_was_recorded_is_named_before_it_is_sent") {
        return;
    }
    let scene = Scene::new(5000);
    std::fs::write(scene.run().join("hits.arrows"), &scene.bytes[1..]).expect("written");
    let progress = scene.ship();
    let problems: Vec<_> = progress.destinations.iter().flat_map(|route| &route.problems).collect();
    assert!(
        problems.len() == 2 && problems.iter().all(|text| text.contains("run.json says")),
        "{problems:?}"
    );
    assert!(scene.s3.object("site/000001/hits.arrows").is_none());
    assert_eq!(scene.s3.uploads(), 0);
}

#[test]
fn what_was_read_back_wrong_is_not_proved_and_the_destination_not_up_to_date() {
    if !has_keys("orders::what_was_read_back_wrong_is_not_proved_and_the_destination_not_up_to_date") {
        return;
    }
    let scene = Scene::new(5000);
    std::fs::write(scene.run().join("ledger.bin"), "counters").expect("written");
    scene.s3.faults.set(Habit::DamagesWhatGoes);
    scene.dav.faults.set(Habit::DamagesWhatGoes);
    let progress = scene.ship();
    for route in &progress.destinations {
        assert_eq!((route.stage, route.files_finished, route.bytes_proved), (RouteStage::Incomplete, 0, 0));
        assert_eq!(route.backlog_bytes, route.bytes, "{route:?}");
        assert_eq!((route.ledger.proved.bytes, route.problems.len()), (0, 3), "{route:?}");
    }
}

#[test]
fn closed_files_of_a_table_go_while_the_run_is_taken_and_documents_at_its_end() {
    if !has_keys("orders::closed_files_of_a_table_go_while_the_run_is_taken_and_documents_at_its_end") {
        return;
    }
    let scene = Scene::new(5000);
    scene.set(RunRecordState::Running);
    std::fs::write(scene.run().join("hits.0001.arrows"), "more").expect("written");
    for _ in 0..2 {
        let progress = scene.ship();
        assert!(!progress.is_complete, "{progress:?}");
        let names: Vec<_> = scene.s3.store.lock().expect("no panic").objects.keys().cloned().collect();
        assert_eq!(names, ["site/000001/hits.arrows"]);
        assert_eq!(scene.dav.names(), [format!("{ROOT}/000001/hits.arrows")]);
    }
    scene.set(RunRecordState::Stopped);
    let progress = scene.ship();
    assert!(progress.is_complete, "{progress:?}");
    assert_eq!(scene.s3.object("site/000001/hits.0001.arrows").expect("an object").bytes, b"more");
    assert!(scene.s3.object("site/000001/run.json").is_some());
}

/// A run in `runs` with a table of so many hits, which has ended.
fn write_run(runs: &Path, hits: usize) -> PathBuf {
    let run = runs.join("000001");
    std::fs::create_dir_all(&run).expect("made");
    let mut table = HitsFile::create(&run.join("hits.arrows"), Compression::None, &[]).expect("made");
    (0..hits / 1000).for_each(|_| table.write(&[Hit::default(); 1000]).expect("written"));
    let tables = vec![table.finish().expect("written")];
    let record = RunRecord { state: RunRecordState::Stopped, number: 1, tables, ..RunRecord::default() };
    std::fs::write(run.join("run.json"), serde_json::to_vec(&record).expect("plain data")).expect("written");
    run
}

#[test]
fn the_record_of_a_run_is_there_when_all_is_that_it_names() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (runs, far) = (folder.path().join("runs"), folder.path().join("far"));
    std::fs::create_dir(&far).expect("made");
    let bytes = |path: PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
    let run = write_run(&runs, 100_000);
    let whole = bytes(run.join("hits.arrows"));
    let settings = Settings {
        to: vec![format!("file://{}", far.display())],
        yields: false,
        // So that the table is under way for some two seconds.
        limit_bytes_per_s: Some(whole / 2),
        ..Settings::default()
    };
    let order = Order { runs: vec![runs], settings, key: None, follow: false, give_up_after: GIVE_UP_AFTER };
    let (is_over, mut looks) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ship(&order, &Arc::default(), &mut |_| {}).expect("an order");
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            let has_record = far.join("000001/run.json").exists();
            assert!(!has_record || bytes(far.join("000001/hits.arrows")) == whole, "not before the table");
            looks += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(
        looks > 10
            && far.join("000001/run.json").exists()
            && far.join("000001/shipped-manifest.json").exists()
    );
}

/// An order to ship once what is in `runs` to a directory of this name beside it, which is made.
fn order_to(runs: &Path, name: &str) -> (Order, PathBuf) {
    let far = runs.with_file_name(name);
    std::fs::create_dir(&far).expect("made");
    let settings =
        Settings { to: vec![format!("file://{}", far.display())], yields: false, ..Settings::default() };
    let runs = vec![runs.to_owned()];
    (Order { runs, settings, key: None, follow: false, give_up_after: GIVE_UP_AFTER }, far)
}

#[test]
fn a_run_that_goes_away_while_it_is_shipped_is_named_until_it_is_back() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (runs, away) = (folder.path().join("runs"), folder.path().join("away"));
    let run = write_run(&runs, 10_000);
    let (order, far) = order_to(&runs, "far");
    // The record goes at a later look than the first, so that the run is not complete at the first report.
    let mut is_moved = false;
    let moved = ship(&order, &Arc::default(), &mut |_| {
        if !std::mem::replace(&mut is_moved, true) {
            std::fs::rename(&run, &away).expect("moved");
        }
    });
    let moved = moved.expect("an order");
    assert!(!moved.is_complete && moved.destinations[0].stage == RouteStage::Incomplete, "{moved:?}");
    let problems = moved.destinations[0].problems.join("; ");
    assert!(problems.contains("was removed, renamed or moved while it was shipped"), "{problems}");
    assert!(!far.join("000001/run.json").exists());

    let order = Order { follow: true, ..order };
    let (stop, mut is_back) = (Arc::new(AtomicBool::new(false)), false);
    std::fs::rename(&away, &run).expect("moved");
    let shipped = ship(&order, &stop, &mut |progress| match progress.destinations[0].problems.is_empty() {
        true if progress.is_complete => stop.store(true, Ordering::Release),
        false if !std::mem::replace(&mut is_back, true) => std::fs::rename(&away, &run).expect("moved"),
        true if !is_back && run.exists() => std::fs::rename(&run, &away).expect("moved"),
        _ => {}
    });
    assert!(shipped.expect("an order").is_complete && is_back, "it is forgotten that it was gone");
    assert!(far.join("000001/run.json").exists());
}

#[test]
fn a_copy_of_a_table_that_recover_has_written_anew_keeps_its_record() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let runs = folder.path().join("runs");
    let run = write_run(&runs, 10_000);
    let ended = RunRecord::read(&run.join("run.json")).expect("written");
    let write = |record: &RunRecord| {
        let text = serde_json::to_vec(record).expect("plain data");
        std::fs::write(run.join("run.json"), text).expect("written");
    };
    write(&RunRecord { state: RunRecordState::Running, tables: Vec::new(), ..ended });
    let [(order, far), (order_again, far_again)] = ["far", "again"].map(|name| order_to(&runs, name));
    let ship = |order: &Order| ship(order, &Arc::default(), &mut |_| {}).expect("an order");
    ship(&order);
    let state_at = |far: &Path| RunRecord::read(&far.join("000001/run.json")).expect("there").state;
    assert_eq!(state_at(&far), RunRecordState::Running);

    // As behind a damaged batch: a table of fewer, in a file of its own.
    let anew = write_run(&folder.path().join("anew"), 9000);
    std::fs::rename(anew.join("hits.arrows"), run.join("hits.arrows")).expect("replaced");
    let tables = RunRecord::read(&anew.join("run.json")).expect("written").tables;
    let started = RunRecord::read(&run.join("run.json")).expect("written");
    write(&RunRecord { state: RunRecordState::Recovered, tables, ..started });
    let progress = ship(&order);
    let there = &progress.destinations[0];
    assert!(!progress.is_complete && there.problems.join("; ").contains("longer"), "{progress:?}");
    assert_eq!(state_at(&far), RunRecordState::Running, "of the table that is there");
    assert_eq!(
        (there.ledger.proved.rows, there.ledger_balances),
        (Some(0), Some(true)),
        "{:?}",
        there.ledger
    );

    assert!(ship(&order_again).is_complete);
    assert_eq!(state_at(&far_again), RunRecordState::Recovered);
}

#[test]
fn a_directory_of_runs_that_does_not_exist_yet_is_waited_for() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (runs, far) = (folder.path().join("runs"), folder.path().join("far"));
    std::fs::create_dir(&far).expect("made");
    let settings =
        Settings { to: vec![format!("file://{}", far.display())], yields: false, ..Settings::default() };
    let order =
        Order { runs: vec![runs.clone()], settings, key: None, follow: true, give_up_after: GIVE_UP_AFTER };
    let stop = Arc::new(AtomicBool::new(false));
    let mut is_made = false;
    let progress = ship(&order, &stop, &mut |progress| match progress.is_complete {
        true if progress.runs == 1 => stop.store(true, Ordering::Release),
        true if !std::mem::replace(&mut is_made, true) => _ = write_run(&runs, 1000),
        _ => {}
    });
    assert!(progress.expect("an order").is_complete && far.join("000001/run.json").exists());
    let order = Order { follow: false, runs: vec![folder.path().join("none")], ..order };
    let refused = ship(&order, &Arc::default(), &mut |_| {}).expect_err("there is none");
    assert!(refused.to_string().contains("none"), "{refused}");
}

#[test]
fn a_document_that_is_replaced_while_it_is_shipped_is_shipped_again_at_once() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (runs, far) = (folder.path().join("runs"), folder.path().join("far"));
    std::fs::create_dir(&far).expect("made");
    let run = write_run(&runs, 1000);
    let (notes, next) = (run.join("notes.jsonl"), folder.path().join("next"));
    std::fs::write(&notes, vec![b'a'; 1_500_000]).expect("written");
    let settings = Settings {
        to: vec![format!("file://{}", far.display())],
        yields: false,
        limit_bytes_per_s: Some(1_000_000),
        ..Settings::default()
    };
    let order = Order { runs: vec![runs], settings, key: None, follow: false, give_up_after: GIVE_UP_AFTER };
    // The first report comes when the files have been given to the streams.
    let mut is_replaced = false;
    let mut replace = |_: &Progress| {
        if !std::mem::replace(&mut is_replaced, true) {
            std::thread::sleep(Duration::from_millis(200));
            std::fs::write(&next, "new").and_then(|()| std::fs::rename(&next, &notes)).expect("replaced");
        }
    };
    let progress = ship(&order, &Arc::default(), &mut replace).expect("an order");
    assert!(progress.is_complete, "{progress:?}");
    assert_eq!(std::fs::read(far.join("000001/notes.jsonl")).expect("there"), b"new");
    assert!(is_replaced && far.join("000001/run.json").exists());
}
