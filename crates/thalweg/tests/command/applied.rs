//! A calibration and a cut that are applied to a run under way: shown, counted, kept with its record, and no part of what is recorded.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::process::{Folder, Running, free_port, thalweg, wait_until};
use crate::retention::get;
use crate::serve::{post, wait_for};

/// A cut of the configuration, and everything that a replay needs.
fn configuration(folder: &Folder) -> String {
    let text = format!(
        "[run]\ntitle = \"applied\"\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 4\n\
         [source.emulate]\nchannels = 4\nrate_hz = 20000\nwaveform_samples = 0\n\
         [[cut]]\nname = \"bright\"\nkeep = \"energy > 1000\"\n[record]\ndirectory = \"{}\"\ntables = [\"hits\", \"raw\"]\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

struct Server {
    address: String,
    running: Running,
}

impl Server {
    fn start(file: &str) -> Server {
        let address = format!("127.0.0.1:{}", free_port());
        let running = Running::start(&["serve", file, "--listen", &address]);
        wait_until("the page answers", || TcpStream::connect(&address).is_ok());
        Server { address, running }
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        post(&self.address, path, body)
    }

    /// What is applied, once it is as it should be.
    fn applied_when(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut applied = Vec::new();
        wait_until(what, || {
            applied = get(&self.address, "/api/state")["applied"].as_array().cloned().unwrap_or_default();
            is_so(&applied)
        });
        applied
    }

    /// Entries of the spectrum of channel 0 that has calibrated energies, or is of what cuts keep; `None` where it is not offered.
    fn entries(&self, what: &str, at: &str) -> Option<u64> {
        let spectra = get(&self.address, "/api/spectra");
        let is_it = |each: &&Value| {
            (&each["what"], &each["at"], &each["channel"]) == (&what.into(), &at.into(), &0.into())
        };
        spectra.as_array()?.iter().find(is_it)?["entries"].as_u64()
    }
}

fn region(points: &[[f64; 2]]) -> Value {
    json!({ "name": "drawn", "keep": "inside(drawn)",
            "polygon": { "name": "drawn", "x": "energy", "y": "psd", "points": points } })
}

const DRAWN: [[f64; 2]; 4] = [[0.0, 0.0], [9000.0, 0.0], [9000.0, 1.0], [0.0, 1.0]];

fn refused(answer: (u16, Value), words: &str) {
    let (status, refusal) = answer;
    assert!(
        status == 409 && refusal["error"].as_str().is_some_and(|error| error.contains(words)),
        "{status} {refusal}"
    );
    assert!(refusal["advice"].as_str().is_some_and(|advice| !advice.is_empty()), "{refusal}");
}

/// Applies a calibration and a cut, and takes the cut back; what is refused meanwhile is refused with words.
fn apply_and_revert(server: &Server) {
    let calibrate = |channel: u16, energy_kev: &[f64]| {
        server.post("/api/view/calibrate", &json!({ "channel": channel, "energy_kev": energy_kev }))
    };
    assert_eq!(server.entries("kev", "received"), None, "nothing is calibrated");
    let (status, calibration) = calibrate(0, &[5.0, 0.25]);
    assert_eq!((status, &calibration["number"]), (200, &json!(1)), "{calibration}");
    server.applied_when("the calibration is followed", |applied| {
        applied.first().is_some_and(|change| change["since_seconds"].is_f64())
    });
    wait_until("calibrated energies are counted", || server.entries("kev", "received") > Some(0));

    assert_eq!(server.post("/api/view/cut", &region(&DRAWN)).0, 200);
    server.applied_when("hits come to the cut", |applied| {
        applied.get(1).is_some_and(|change| change["in"].as_u64() > Some(500))
    });

    refused(calibrate(99, &[0.0, 1.0]), "no source of this run sends channel 99");
    refused(calibrate(0, &[0.0, -1.0]), "does not rise");
    refused(server.post("/api/view/cut", &region(&DRAWN)), "there is a cut \"drawn\" already");
    refused(
        server.post("/api/view/cut", &json!({ "name": "bright", "keep": "energy > 1" })),
        "\"bright\" already",
    );
    let corner =
        json!({ "name": "other", "keep": "inside(drawn)", "polygon": region(&DRAWN[..1])["polygon"] });
    refused(server.post("/api/view/cut", &corner), "1 points; draw 3 to 64");
    refused(server.post("/api/view/revert", &json!({ "number": 7 })), "no change 7");

    assert_eq!(server.post("/api/view/revert", &json!({ "number": 2 })).0, 200);
    server.applied_when("the cut is taken back", |applied| applied.len() == 1);
    let kept = server.entries("energy", "kept").expect("the configuration has a cut");
    wait_until("kept hits come again", || server.entries("energy", "kept") > Some(kept));
}

#[test]
fn a_calibration_and_a_cut_are_applied_to_a_run_counted_reverted_and_kept_with_its_record() {
    let folder = Folder::new();
    let server = Server::start(&configuration(&folder));
    refused(server.post("/api/view/cut", &region(&DRAWN)), "the run is");
    assert_eq!(server.post("/api/run/start", &json!({})).0, 200);
    wait_until("the run is under way", || get(&server.address, "/api/state")["state"] == "running");
    wait_until("hits are shown", || server.entries("energy", "kept") > Some(0));
    apply_and_revert(&server);
    assert_eq!(server.post("/api/run/stop", &json!({})).0, 200);
    wait_for(&folder, "000001-applied");
    refused(server.post("/api/view/revert", &json!({ "number": 1 })), "the run is");

    let run = get(&server.address, "/api/runs/000001-applied");
    let notes: Vec<&str> =
        run["notes"].as_array().into_iter().flatten().filter_map(|note| note["text"].as_str()).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(
        notes[0].contains("applied") && notes[0].ends_with("number = 0 energy_kev = [5.0, 0.25]"),
        "{}",
        notes[0]
    );
    assert!(
        notes[2].starts_with("change 2 reverted") && notes[2].contains("not to what is recorded"),
        "{}",
        notes[2]
    );
    let applied = &run["record"]["details"]["applied"];
    assert_eq!(
        (&applied[0]["until_seconds"], &applied[0]["kind"]),
        (&Value::Null, &json!("calibration")),
        "{applied:#}"
    );
    let time = |key: &str| applied[1][key].as_f64().expect("it was followed");
    assert!(0.0 < time("since_seconds") && time("since_seconds") < time("until_seconds"), "{applied:#}");
    check_ledger(&run, &applied[1]);
    server.running.signal("TERM");
    server.running.wait();

    let recorded = folder.at("runs/000001-applied");
    let verified = thalweg(&["verify", &recorded, "--json"]).done().json();
    assert_eq!(verified["ok"], json!(true), "{verified:#}");
    let again = thalweg(&["replay", &recorded, "--directory", &folder.at("again"), "--json"]).done().json();
    let again = again["run_directory"].as_str().expect("recorded").to_owned();
    let hits = |run: &str| std::fs::read(format!("{run}/hits.arrows")).expect("recorded");
    assert!(hits(&recorded) == hits(&again), "what is recorded is what the configuration says");
    let record: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{again}/run.json")).expect("there"))
            .expect("JSON");
    assert_eq!(record["details"]["applied"], Value::Null, "a replay shows what the configuration says");
}

/// The spectra have every hit that the configuration keeps, but for those that the cut left out; the recording has every hit.
fn check_ledger(run: &Value, cut: &Value) {
    assert_eq!(run["ledger_closed"], json!(true));
    let entries = run["record"]["ledger"]["entries"].as_array().expect("a ledger");
    let of = |stage: &str, key: &str| {
        let entry = entries.iter().find(|entry| entry["stage"] == stage && entry["unit"] == "hits");
        entry.unwrap_or_else(|| panic!("no {stage}: {entries:?}"))[key].as_u64().expect("a number")
    };
    let left_out = cut["in"].as_u64().expect("a number") - cut["kept"].as_u64().expect("a number");
    assert!(left_out > 0 && cut["kept"].as_u64() > Some(0), "{cut}");
    assert_eq!(of("spectra", "filtered"), left_out);
    assert_eq!(of("spectra", "in"), of("cut", "out"));
    assert_eq!(of("spectra", "in"), of("spectra", "out") + left_out);
    assert_eq!((of("record", "out"), of("record", "filtered")), (of("order", "out"), 0));
}
