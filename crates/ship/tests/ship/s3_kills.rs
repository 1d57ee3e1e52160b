//! A shipper that is killed at any request, before, in the middle of and after it, and started again.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use thalweg_ship::ShipError;

use crate::faults::{Choices, Fault};
use crate::s3::{RUN, assert_nothing_remembered, open_as, ship};
use crate::s3_server::{BUCKET, KEY, S3};

/// What is at `make test` a hundred seeds; `THALWEG_SHIP_SEEDS` asks for more.
const SEEDS: u64 = 120;

/// One file, from its first byte to the end of the last life. A request that is cut is what a store sees of a shipper that is killed; what
/// it knew in memory is gone with it. Returns how often that happened.
fn live(seed: u64) -> u64 {
    let mut choices = Choices(seed);
    let (store, server) = S3::start();
    let endpoint = format!("http://{}", server.address);
    let run = tempfile::tempdir().expect("temporary folder");
    let range_bytes = 500 + choices.below(3000);
    // One in six is empty or a single part.
    let length = choices.below(12 * range_bytes).saturating_sub(range_bytes);
    let bytes = choices.bytes(length);
    fs::write(run.path().join("hits.arrows"), &bytes).expect("written");
    let mut kills = 0;
    loop {
        match kills < 12 {
            true => store.faults.fail_after(choices.below(9), choices.fault()),
            false => store.faults.never_fail(),
        }
        match ship(&mut open_as(KEY, BUCKET, &endpoint, run.path()), run.path(), "hits.arrows", range_bytes) {
            Ok(digests) => {
                assert_eq!(digests.bytes, length, "seed {seed}");
                break;
            }
            Err(ShipError::Connection { .. }) => kills += 1,
            Err(error) => panic!("seed {seed}, kill {kills}: {error:?}"),
        }
    }
    let object = store.object(&format!("{RUN}/hits.arrows")).expect("an object");
    assert!(object.bytes == bytes, "seed {seed}: other bytes");
    assert_eq!(store.uploads(), 0, "seed {seed}: an upload is left");
    assert_nothing_remembered(run.path());
    kills
}

#[test]
fn after_every_kill_a_shipper_goes_on_and_leaves_no_upload() {
    let seeds = std::env::var("THALWEG_SHIP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let kills: u64 = (0..seeds).map(live).sum();
    println!("{kills} kills");
    assert!(kills >= 2 * seeds, "{kills} kills");
}

#[test]
fn each_request_of_a_file_can_be_the_last_one_of_a_life() {
    let mut kills = 0;
    for fault in [Fault::Before, Fault::InBody, Fault::After, Fault::InAnswer] {
        for request in 0.. {
            let (store, server) = S3::start();
            let endpoint = format!("http://{}", server.address);
            let run = tempfile::tempdir().expect("temporary folder");
            let bytes = Choices(7).bytes(5500);
            fs::write(run.path().join("hits.arrows"), &bytes).expect("written");
            store.faults.fail_after(request, fault);
            let ship =
                || ship(&mut open_as(KEY, BUCKET, &endpoint, run.path()), run.path(), "hits.arrows", 1000);
            let is_cut = ship().is_err();
            let is_over = store.faults.requests() <= request;
            store.faults.never_fail();
            ship().unwrap_or_else(|error| panic!("{fault:?} at {request}: {error}"));
            assert_eq!(store.object(&format!("{RUN}/hits.arrows")).expect("an object").bytes, bytes);
            assert_eq!(store.uploads(), 0, "{fault:?} at {request}");
            let parts = store.store.lock().expect("no panic").parts_put;
            assert!(parts <= 7, "{fault:?} at {request}: {parts} parts were sent, and there are 6");
            kills += u64::from(is_cut);
            if is_over {
                break;
            }
        }
    }
    assert!(kills > 30, "{kills} kills");
}

/// What the killed process does: it ships one file to the store that its environment names.
#[test]
fn life_of_a_process() {
    let (Ok(endpoint), Ok(run)) = (std::env::var("THALWEG_TEST_STORE"), std::env::var("THALWEG_TEST_RUN"))
    else {
        return;
    };
    let run = Path::new(&run);
    ship(&mut open_as(KEY, BUCKET, &endpoint, run), run, "hits.arrows", 4000).expect("shipped");
}

#[test]
fn a_process_that_is_killed_again_and_again_ships_the_file_in_the_end() {
    let mut kills = 0u64;
    for seed in 0..6 {
        let mut choices = Choices(seed);
        let (store, server) = S3::start();
        let endpoint = format!("http://{}", server.address);
        let run = tempfile::tempdir().expect("temporary folder");
        let bytes = choices.bytes(200_000);
        fs::write(run.path().join("hits.arrows"), &bytes).expect("written");
        loop {
            let mut life = Command::new(std::env::current_exe().expect("this program"));
            life.args(["--exact", "s3_kills::life_of_a_process"]).stdout(Stdio::null());
            life.env("THALWEG_TEST_STORE", &endpoint).env("THALWEG_TEST_RUN", run.path());
            let mut life = life.spawn().expect("started");
            // On a machine so busy that no life gets anywhere, they become longer.
            std::thread::sleep(Duration::from_millis(5 + choices.below(60) + kills / 10));
            let ended = life.try_wait().expect("a process");
            let _ = life.kill();
            let ended = ended.or_else(|| life.wait().ok()).expect("a process");
            if ended.success() {
                break;
            }
            assert_eq!(ended.code(), None, "seed {seed}: it ended by itself");
            kills += 1;
            assert!(kills < 2000, "seed {seed}: no life goes on with the one before");
        }
        assert!(store.object(&format!("{RUN}/hits.arrows")).expect("an object").bytes == bytes);
        assert_eq!(store.uploads(), 0);
        assert_nothing_remembered(run.path());
    }
    println!("{kills} kills");
    assert!(kills >= 6, "{kills} kills");
}
