//! Collections as destinations.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thalweg_ship::digests::Digests;
use thalweg_ship::webdav::Collection;
use thalweg_ship::{Refusal, Settings, ShipError};
use url::Url;

use crate::dav_server::{Dav, ROOT, TOKEN};
use crate::faults::{Choices, Fault, Habit};
use crate::http_server::Server;
use crate::s3::{RUN, assert_nothing_remembered, ship};

const TABLE: &str = "hits.arrows";

/// A server, and a run with a table of this many bytes.
struct Scene {
    dav: Arc<Dav>,
    server: Server,
    run: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Scene {
    fn new(bytes: u64) -> Scene {
        let (dav, server) = Dav::start();
        let run = tempfile::tempdir().expect("temporary folder");
        let bytes = Choices(bytes).bytes(bytes);
        fs::write(run.path().join(TABLE), &bytes).expect("written");
        fs::write(run.path().join("token"), format!("{TOKEN}\n")).expect("written");
        Scene { dav, server, run, bytes }
    }

    fn open(&self, root: &str, token: &str) -> Collection {
        let settings =
            Settings { bearer_token_file: Some(self.run.path().join(token)), ..Settings::default() };
        let url = Url::parse(&format!("http://{}{root}", self.server.address)).expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        Collection::open(&url, "webdav+http://far/data", &settings, &stop).expect("settings")
    }

    fn ship(&self) -> Result<Digests, ShipError> {
        self.ship_by(&mut self.open(ROOT, "token"))
    }

    fn ship_by(&self, collection: &mut Collection) -> Result<Digests, ShipError> {
        ship(collection, self.run.path(), TABLE, u64::MAX)
    }

    fn refusal(&self, words: &str) -> Refusal {
        match self.ship() {
            Err(ShipError::Refused { refusal, text, .. }) => {
                assert!(text.contains(words) && text.contains(ROOT), "{text}");
                refusal
            }
            other => panic!("{other:?}"),
        }
    }

    fn assert_shipped(&self) {
        let path = format!("{ROOT}/{RUN}/{TABLE}");
        assert_eq!(self.dav.names(), std::slice::from_ref(&path), "and nothing else");
        assert_eq!(self.dav.file(&path).expect("a file"), self.bytes);
    }
}

#[test]
fn files_arrive_whole_whether_the_server_reports_digests_or_not() {
    for (bytes, reports_digests) in [(0, true), (1, false), (300_000, true), (3 << 20, false)] {
        let scene = Scene::new(bytes);
        scene.dav.tree.lock().expect("no panic").reports_digests = reports_digests;
        let digests = scene.ship().unwrap_or_else(|error| panic!("{bytes} B: {error}"));
        assert_eq!(digests.bytes, bytes);
        scene.assert_shipped();
        let requests = scene.dav.faults.requests();
        scene.ship().expect("it is there");
        assert_eq!(scene.dav.faults.requests(), requests + 2, "HEAD and GET, and nothing is sent again");
    }
}

#[test]
fn a_server_may_send_on_to_the_host_that_keeps_the_bytes_and_the_token_stays_here() {
    let scene = Scene::new(500_000);
    let _pool = scene.dav.start_pool();
    scene.ship().expect("shipped");
    scene.assert_shipped();
}

#[test]
fn a_server_may_ask_for_time_before_it_sends_on() {
    let scene = Scene::new(500_000);
    let _pool = scene.dav.start_pool();
    scene.dav.tree.lock().expect("no panic").says_processing = true;
    scene.ship().expect("shipped");
    scene.assert_shipped();
}

#[test]
fn a_server_that_does_not_know_expect_gets_the_bytes_without_it() {
    let scene = Scene::new(500_000);
    scene.dav.tree.lock().expect("no panic").knows_no_expect = true;
    scene.ship().expect("shipped");
    scene.assert_shipped();
}

#[test]
fn a_collection_of_a_run_that_vanishes_is_made_again() {
    for bytes in [0, 300_000] {
        let scene = Scene::new(bytes);
        let mut collection = scene.open(ROOT, "token");
        scene.ship_by(&mut collection).expect("shipped");
        let mut tree = scene.dav.tree.lock().expect("no panic");
        tree.files.clear();
        tree.collections.retain(|collection| collection == ROOT);
        drop(tree);
        let error = scene.ship_by(&mut collection).expect_err("it has vanished").to_string();
        assert!(error.contains("409"), "{error}");
        scene.ship_by(&mut collection).expect("it is made again");
        scene.assert_shipped();
    }
}

#[test]
fn a_wrong_token_and_a_collection_that_is_not_there_are_named_with_what_to_do() {
    let scene = Scene::new(5000);
    fs::write(scene.run.path().join("other"), "another").expect("written");
    let error = scene.ship_by(&mut scene.open(ROOT, "other")).expect_err("not known");
    assert!(matches!(error, ShipError::Refused { refusal: Refusal::Token, .. }), "{error:?}");
    assert!(error.to_string().contains("bearer_token_file") && error.is_of_connection(), "{error}");
    let error = scene.ship_by(&mut scene.open("/elsewhere", "token")).expect_err("no collection");
    assert!(matches!(error, ShipError::Refused { refusal: Refusal::Missing, .. }), "{error:?}");
    assert!(error.to_string().contains("make it"), "{error}");
    let settings = Settings::default();
    let url = Url::parse("http://192.0.2.1/data").expect("an address");
    let error = Collection::open(&url, "webdav+http://192.0.2.1/data", &settings, &Arc::default());
    assert!(error.expect_err("unencrypted").to_string().contains("allow_http"));
}

#[test]
fn a_server_that_is_full_or_asks_for_time_is_tried_again_over_the_same_connection() {
    for (status, words, wanted) in
        [(507, "full", Refusal::DiskFull), (503, "503", Refusal::Busy), (403, "token", Refusal::Token)]
    {
        let scene = Scene::new(2 << 20);
        let mut collection = scene.open(ROOT, "token");
        scene.dav.faults.set(Habit::Answers(status));
        assert_eq!(scene.refusal(words), wanted);
        scene.ship_by(&mut collection).expect_err("still");
        scene.dav.faults.set(Habit::None);
        scene.ship_by(&mut collection).expect("shipped");
        scene.assert_shipped();
    }
}

#[test]
fn bytes_that_the_server_changes_or_forgets_are_no_copy() {
    for reports_digests in [true, false] {
        let scene = Scene::new(70_000);
        scene.dav.tree.lock().expect("no panic").reports_digests = reports_digests;
        scene.dav.faults.set(Habit::DamagesWhatComes);
        assert_eq!(scene.refusal(if reports_digests { "Adler-32" } else { "read back" }), Refusal::Unproved);
        assert_eq!(scene.dav.file(&format!("{ROOT}/{RUN}/{TABLE}")), None, "nothing wrong has its name");
        for (habit, words) in
            [(Habit::Forgets, "does not have it"), (Habit::ForgetsParts, "does not have it")]
        {
            scene.dav.faults.set(habit);
            assert_eq!(scene.refusal(words), Refusal::Unproved);
        }
        scene.dav.faults.set(Habit::None);
        scene.ship().expect("shipped");
        scene.assert_shipped();
        scene.dav.faults.set(Habit::DamagesWhatGoes);
        assert_eq!(scene.refusal("another file"), Refusal::Differs);
    }
}

#[test]
fn a_table_that_was_wrong_behind_its_last_name_is_sent_again() {
    let scene = Scene::new(70_000);
    scene.dav.faults.set(Habit::DamagesWhatMoves);
    for _ in 0..2 {
        assert_eq!(scene.refusal("ship it again"), Refusal::Unproved);
    }
    scene.dav.faults.set(Habit::None);
    scene.ship().expect("sent again");
    scene.assert_shipped();
    assert_nothing_remembered(scene.run.path());
    fs::write(scene.run.path().join(TABLE), "another").expect("written");
    assert_eq!(scene.refusal("another file"), Refusal::Differs);
}

#[test]
fn a_document_is_replaced_by_a_newer_one() {
    let scene = Scene::new(0);
    for text in ["{}", "[]", "{\"format\": 1}"] {
        fs::write(scene.run.path().join("run 1.json"), text).expect("written");
        ship(&mut scene.open(ROOT, "token"), scene.run.path(), "run 1.json", u64::MAX).expect("shipped");
        assert_eq!(scene.dav.file(&format!("{ROOT}/{RUN}/run 1.json")).expect("there"), text.as_bytes());
    }
}

#[test]
fn each_request_of_a_file_can_be_the_last_one_of_a_life() {
    let mut kills = 0;
    for fault in [Fault::Before, Fault::InBody, Fault::After, Fault::InAnswer] {
        for request in 0.. {
            let scene = Scene::new(90_000);
            scene.dav.faults.fail_after(request, fault);
            let is_cut = scene.ship().is_err();
            let is_over = scene.dav.faults.requests() <= request;
            scene.dav.faults.never_fail();
            scene.ship().unwrap_or_else(|error| panic!("{fault:?} at {request}: {error}"));
            scene.assert_shipped();
            kills += u64::from(is_cut);
            if is_over {
                break;
            }
        }
    }
    assert!(kills > 20, "{kills} kills");
}
