//! Buckets as destinations: what goes well, and what does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thalweg_ship::destination::Destination;
use thalweg_ship::local_file::LocalFile;
use thalweg_ship::message::FileKind;
use thalweg_ship::s3::Bucket;
use thalweg_ship::shipment::{Shipment, Step};
use thalweg_ship::{Refusal, Settings, ShipError};

use crate::faults::{Choices, Habit};
use crate::s3_server::{BUCKET, KEY, S3, md5};

pub const RUN: &str = "site/000042-title";

pub fn settings(endpoint: &str) -> Settings {
    Settings { endpoint: Some(endpoint.to_owned()), ..Settings::default() }
}

pub fn keys(key: &str) -> BTreeMap<String, String> {
    let all = [("AWS_ACCESS_KEY_ID", key), ("AWS_SECRET_ACCESS_KEY", "secret")];
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

pub fn open_as(key: &str, bucket: &str, endpoint: &str, run: &Path) -> Bucket {
    open_with(key, bucket, &settings(endpoint), run)
}

fn open_with(key: &str, bucket: &str, settings: &Settings, run: &Path) -> Bucket {
    let stop = Arc::new(AtomicBool::new(false));
    let address = format!("s3://{bucket}");
    let mut bucket = Bucket::open_with(bucket, &address, settings, &keys(key), &stop).expect("settings");
    bucket.at_run(run);
    bucket
}

/// Ships one file as a program that was just started does.
pub fn ship(
    destination: &mut dyn Destination,
    run: &Path,
    file: &str,
    range_bytes: u64,
) -> Result<thalweg_ship::digests::Digests, ShipError> {
    destination.at_run(run);
    let local = LocalFile::open(&run.join(file), FileKind::Whole)?;
    let mut shipment = Shipment::new(local, RUN, file).with_range_bytes(range_bytes);
    loop {
        if let Step::Finished(digests) = shipment.step(destination, true, None, &mut |_| Ok(()))? {
            return Ok(digests);
        }
    }
}

/// No upload is remembered any more.
pub fn assert_nothing_remembered(run: &Path) {
    let all = fs::read_dir(run.join(".ship")).into_iter().flatten().flatten();
    let names: Vec<_> = all.map(|entry| entry.file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
}

/// A store, and a run with a table of this many bytes.
struct Scene {
    store: Arc<S3>,
    endpoint: String,
    _server: crate::http_server::Server,
    run: tempfile::TempDir,
    bytes: Vec<u8>,
}

const TABLE: &str = "hits.arrows";

impl Scene {
    fn new(bytes: u64) -> Scene {
        let (store, server) = S3::start();
        let run = tempfile::tempdir().expect("temporary folder");
        let bytes = Choices(bytes).bytes(bytes);
        fs::write(run.path().join(TABLE), &bytes).expect("written");
        Scene { store, endpoint: format!("http://{}", server.address), _server: server, run, bytes }
    }

    fn ship(&self) -> Result<thalweg_ship::digests::Digests, ShipError> {
        self.ship_as(KEY, BUCKET)
    }

    fn ship_as(&self, key: &str, bucket: &str) -> Result<thalweg_ship::digests::Digests, ShipError> {
        ship(&mut open_as(key, bucket, &self.endpoint, self.run.path()), self.run.path(), TABLE, 1000)
    }

    fn key(&self) -> String {
        format!("{RUN}/{TABLE}")
    }

    fn refusal(&self, words: &str) -> Refusal {
        match self.ship() {
            Err(ShipError::Refused { refusal, text, .. }) => {
                assert!(text.contains(words) && text.contains(TABLE), "{text}");
                refusal
            }
            other => panic!("{other:?}"),
        }
    }

    fn assert_shipped(&self) {
        let object = self.store.object(&self.key()).expect("an object");
        assert_eq!(object.bytes, self.bytes);
        assert_eq!(object.metadata.get("x-amz-meta-md5"), Some(&md5(&self.bytes)));
        assert_eq!(object.metadata.get("x-amz-meta-bytes"), Some(&self.bytes.len().to_string()));
        assert_eq!(
            object.metadata["x-amz-meta-crc32c"],
            format!("{:08x}", thalweg_data::checksum::of(&self.bytes))
        );
        assert!(object.metadata.contains_key("x-amz-meta-adler32"));
        assert_eq!(self.store.uploads(), 0);
        assert_nothing_remembered(self.run.path());
    }
}

#[test]
fn files_of_no_byte_of_one_part_and_of_many_arrive_with_their_digests() {
    for bytes in [0, 1, 999, 1000, 1001, 7777] {
        let scene = Scene::new(bytes);
        let digests = scene.ship().unwrap_or_else(|error| panic!("{bytes} B: {error}"));
        assert_eq!(digests.bytes, bytes);
        scene.assert_shipped();
        let requests = scene.store.faults.requests();
        scene.ship().expect("it is there");
        scene.assert_shipped();
        assert_eq!(scene.store.faults.requests(), requests + 2, "HEAD and GET, and nothing is sent again");
    }
}

#[test]
fn a_wrong_key_and_a_bucket_that_is_not_there_are_named_with_what_to_do() {
    let scene = Scene::new(3000);
    let error = scene.ship_as("another", BUCKET).expect_err("not known");
    assert!(matches!(error, ShipError::Refused { refusal: Refusal::Token, .. }), "{error:?}");
    assert!(error.is_of_connection() && error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
    let error = scene.ship_as(KEY, "elsewhere").expect_err("no bucket");
    assert!(matches!(error, ShipError::Refused { refusal: Refusal::Missing, .. }), "{error:?}");
    assert!(error.to_string().contains("make the bucket") && !error.is_of_file(), "{error}");
    fs::remove_dir_all(scene.run.path().join(".ship")).expect("what is known of that bucket");
    scene.ship().expect("shipped");
    scene.assert_shipped();
}

#[test]
fn a_store_that_is_full_or_asks_for_time_is_tried_again_and_goes_on() {
    for (status, words, wanted) in [
        (507, "the store is full", Refusal::DiskFull),
        (503, "503 SlowDown", Refusal::Busy),
        (500, "tried again", Refusal::Busy),
        (403, "403 AccessDenied", Refusal::Token),
        (400, "see its log", Refusal::NotTaken),
    ] {
        let scene = Scene::new(5000);
        scene.store.faults.set(Habit::Answers(status));
        assert_eq!(scene.refusal(words), wanted);
        scene.store.faults.set(Habit::None);
        scene.ship().expect("shipped");
        scene.assert_shipped();
    }
}

#[test]
fn a_clock_that_differs_is_named_though_the_answer_to_head_has_no_text() {
    let scene = Scene::new(5000);
    scene.store.faults.set(Habit::ClockDiffers);
    assert_eq!(scene.refusal("RequestTimeTooSkewed"), Refusal::Token);
    assert_eq!(scene.refusal("clock of this host"), Refusal::Token);
    scene.store.faults.set(Habit::None);
    scene.ship().expect("shipped");
    scene.assert_shipped();
}

#[test]
fn an_error_behind_a_success_is_an_error() {
    let scene = Scene::new(5000);
    scene.store.faults.set(Habit::ErrsInSuccess);
    assert_eq!(scene.refusal("SlowDown"), Refusal::Busy);
    scene.store.faults.set(Habit::None);
    scene.ship().expect("shipped");
    assert_eq!(scene.store.store.lock().expect("no panic").parts_put, 5, "no part is sent again");
    scene.assert_shipped();
}

#[test]
fn bytes_that_the_store_changes_are_found_by_its_etag_or_by_reading_back() {
    for bytes in [700, 5000] {
        let scene = Scene::new(bytes);
        scene.store.faults.set(Habit::DamagesWhatComes);
        assert_eq!(scene.refusal("its ETag"), Refusal::Unproved);
        scene.store.faults.set(Habit::DamagesWhatGoes);
        assert_eq!(scene.refusal("were read back"), Refusal::Unproved);
        scene.store.faults.set(Habit::None);
        let put = scene.store.store.lock().expect("no panic").parts_put;
        scene.ship().expect("shipped");
        let again = scene.store.store.lock().expect("no panic").parts_put;
        assert_eq!(
            again - put,
            if bytes > 1000 { 5 } else { 0 },
            "an object that was another one is not trusted"
        );
        scene.assert_shipped();
    }
}

#[test]
fn a_store_that_acknowledges_and_forgets_is_found_out() {
    for bytes in [0, 700, 5000] {
        let scene = Scene::new(bytes);
        scene.store.faults.set(Habit::Forgets);
        assert_eq!(scene.refusal("does not have it"), Refusal::Unproved);
        scene.store.faults.set(Habit::None);
        scene.ship().expect("shipped");
        scene.assert_shipped();
    }
    let scene = Scene::new(5000);
    scene.store.faults.set(Habit::ForgetsParts);
    assert_eq!(scene.refusal("InvalidPart"), Refusal::Failed);
    scene.store.faults.set(Habit::None);
    scene.ship().expect("its parts are sent again");
    scene.assert_shipped();
}

#[test]
fn an_upload_that_the_store_has_ended_is_begun_anew_and_those_of_others_stay() {
    let scene = Scene::new(9000);
    let foreign: Vec<_> = (0..5).map(|_| scene.store.begin_foreign(&scene.key())).collect();
    scene.store.begin_foreign("another key");
    scene.store.faults.fail_after(6, crate::faults::Fault::After);
    scene.ship().expect_err("cut");
    scene.store.faults.never_fail();
    scene.store.store.lock().expect("no panic").uploads.retain(|id, _| foreign.contains(id));
    scene.ship().expect("shipped");
    let mut store = scene.store.store.lock().expect("no panic");
    assert_eq!(store.uploads.keys().cloned().collect::<Vec<_>>(), foreign);
    store.uploads.clear();
    drop(store);
    scene.assert_shipped();
}

#[test]
fn another_table_of_the_same_name_is_not_replaced_and_a_document_is() {
    let scene = Scene::new(4000);
    scene.ship().expect("shipped");
    fs::write(scene.run.path().join(TABLE), "another").expect("written");
    assert_eq!(scene.refusal("another object"), Refusal::Differs);
    scene.assert_shipped();
    let document = scene.run.path().join("run.json");
    for text in ["{}", "{\"format\": 1}"] {
        fs::write(&document, text).expect("written");
        ship(
            &mut open_as(KEY, BUCKET, &scene.endpoint, scene.run.path()),
            scene.run.path(),
            "run.json",
            1000,
        )
        .expect("shipped");
        let object = scene.store.object(&format!("{RUN}/run.json")).expect("there");
        assert_eq!(object.bytes, text.as_bytes());
    }
}

#[test]
fn a_file_that_became_another_one_under_way_leaves_no_upload() {
    let scene = Scene::new(9000);
    scene.store.faults.fail_after(6, crate::faults::Fault::After);
    scene.ship().expect_err("cut");
    scene.store.faults.never_fail();
    assert_eq!(scene.store.uploads(), 1);
    let bytes = Choices(1).bytes(7000);
    fs::write(scene.run.path().join(TABLE), &bytes).expect("written");
    scene.ship().expect("shipped");
    assert_eq!(scene.store.object(&scene.key()).expect("there").bytes, bytes);
    assert_eq!(scene.store.uploads(), 0);
}

#[test]
fn a_program_that_is_to_end_does_not_wait_for_a_store_that_says_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    let run = tempfile::tempdir().expect("temporary folder");
    fs::write(run.path().join(TABLE), "rows").expect("written");
    let stop = Arc::new(AtomicBool::new(false));
    let mut bucket =
        Bucket::open_with(BUCKET, "s3://runs", &settings(&endpoint), &keys(KEY), &stop).expect("settings");
    bucket.at_run(run.path());
    let ends = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        ends.store(true, std::sync::atomic::Ordering::Release);
    });
    let error = ship(&mut bucket, run.path(), TABLE, 1000).expect_err("no answer");
    assert!(matches!(error, ShipError::Stopped), "{error:?}");
}

#[test]
fn a_store_is_spoken_to_over_tls_when_its_certificate_is_vouched_for() {
    let store = Arc::new(S3::default());
    let server = crate::http_server::Server::start_tls(store.clone());
    let run = tempfile::tempdir().expect("temporary folder");
    let bytes = Choices(4).bytes(200_000);
    fs::write(run.path().join(TABLE), &bytes).expect("written");
    let endpoint = format!("https://localhost:{}", server.address.port());
    let own = crate::http_server::certificate_file("tls-certificate.pem");
    let trusting = Settings { tls_ca: Some(own), ..settings(&endpoint) };
    ship(&mut open_with(KEY, BUCKET, &trusting, run.path()), run.path(), TABLE, 30_000).expect("shipped");
    assert_eq!(store.object(&format!("{RUN}/{TABLE}")).expect("there").bytes, bytes);
    let no_file = Settings { tls_ca: Some(run.path().join(TABLE)), ..settings(&endpoint) };
    for (settings, words) in [(settings(&endpoint), "tls_ca"), (no_file, "has no certificate")] {
        let error = ship(&mut open_with(KEY, BUCKET, &settings, run.path()), run.path(), TABLE, 30_000);
        let error = error.expect_err("nobody vouches for it").to_string();
        assert!(error.contains(words), "{error}");
    }
    let plain = settings(&format!("http://{}", server.address));
    let error = ship(&mut open_with(KEY, BUCKET, &plain, run.path()), run.path(), TABLE, 30_000);
    assert!(matches!(error, Err(ShipError::Connection { .. })), "{error:?}");
}

#[test]
fn without_keys_the_variables_that_are_missing_are_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let environment = [("AWS_METADATA_ENDPOINT".to_owned(), format!("http://{free}"))].into();
    let settings = settings("http://127.0.0.1:9");
    let error = Bucket::open_with(BUCKET, "s3://runs", &settings, &environment, &Arc::default())
        .expect_err("no keys");
    assert!(matches!(error, ShipError::Refused { refusal: Refusal::Token, .. }), "{error:?}");
    assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
    let plain = Settings { endpoint: None, ..settings };
    let environment = [("AWS_ENDPOINT_URL".to_owned(), "http://192.0.2.1:9000".to_owned())].into();
    let error =
        Bucket::open_with(BUCKET, "s3://runs", &plain, &environment, &Arc::default()).expect_err("plain");
    assert!(error.to_string().contains("allow_http"), "{error}");
}
