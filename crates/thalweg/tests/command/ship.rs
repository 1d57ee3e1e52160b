//! Copies of recordings: the real shipper and receiver over loopback, killed, followed, refused.
//!
//! ```text
//!  thalweg run ─► runs/000001 ─ thalweg ship ═ loopback ═ thalweg receive ─► far/000001: the same files
//! ```

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{Folder, Running, free_port, number, thalweg, wait_until};

/// Emulated boards of a run; `record` are keys of `[record]`, `sections` stand behind all others.
fn configuration(folder: &Folder, seconds: f64, record: &str, sections: &str) -> String {
    let text = format!(
        "[run]\nseconds = {seconds}\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
         memory_bytes = 16_777_216\n[source.emulate]\nchannels = 8\nrate_hz = 10_000\nwaveform_samples = 0\n\
         [record]\ndirectory = \"{}\"\ntables = [\"hits\"]\nbatch_age_s = 0.05\n{record}\n{sections}",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

pub fn taken(folder: &Folder, seconds: f64) -> PathBuf {
    let file = configuration(folder, seconds, "", "");
    thalweg(&["run", &file, "--json"]).done();
    PathBuf::from(folder.at("runs/000001"))
}

struct Far {
    address: String,
    process: Running,
}

impl Far {
    fn start(folder: &Folder, more: &[&str]) -> Far {
        Far::start_at(folder, free_port(), more)
    }

    fn start_at(folder: &Folder, port: u16, more: &[&str]) -> Far {
        let (listen, directory) = (format!("127.0.0.1:{port}"), folder.at("far"));
        let arguments = [&["receive", "--json", "--listen", &listen, "--directory", &directory][..], more];
        let process = Running::start(&arguments.concat());
        process.wait_for_text("listening at");
        Far { address: format!("receive://{listen}"), process }
    }
}

/// Files of a run that are shipped, by name.
fn files(run: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(run).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().expect("plain"));
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[track_caller]
pub fn assert_same(here: &Path, far: &Path) {
    let names = files(here);
    assert!(
        names.contains(&"hits.arrows".to_owned()) && names.contains(&"ledger.bin".to_owned()),
        "{names:?}"
    );
    for name in names {
        let read =
            |run: &Path| std::fs::read(run.join(&name)).unwrap_or_else(|cause| panic!("{name}: {cause}"));
        assert!(read(here) == read(far), "{name} differs");
    }
}

/// How often both programs are killed; `THALWEG_SHIP_KILLS` asks for more.
const KILLS: u64 = 12;

fn route(progress: &Value) -> &Value {
    &progress["destinations"][0]
}

/// What a shipper knows of its copies of a run at its one destination.
fn state(run: &Path) -> Value {
    let paths =
        std::fs::read_dir(run.join(".ship")).into_iter().flatten().flatten().map(|entry| entry.path());
    // The manifest beside it names a destination, too.
    let paths = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let mut texts = paths.filter_map(|path| std::fs::read(path).ok());
    texts
        .find_map(|text| {
            serde_json::from_slice::<Value>(&text).ok().filter(|state| state["destination"].is_string())
        })
        .unwrap_or_default()
}

/// The catalogue knows where each file of a run is, and that the ledger of each destination balances.
#[track_caller]
fn assert_catalogue_knows(run: &Path, destinations: [&str; 2]) {
    let shown = thalweg(&["runs", "show", &run.display().to_string(), "--json"]).done().json();
    let table = shown["files"].as_array().expect("a list").iter().find(|file| file["name"] == "hits.arrows");
    let mut copies: Vec<&str> = table.expect("there")["copies"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    copies.sort_unstable();
    assert_eq!(copies, destinations, "where each file is");
    let rows: u64 = {
        let tables = shown["record"]["tables"].as_array().expect("a list");
        tables.iter().map(|table| table["rows"].as_u64().expect("a number")).sum()
    };
    for copy in shown["copies"].as_array().expect("a list") {
        assert_eq!((&copy["balances"], number(&copy["proved"], "rows")), (&true.into(), rows), "{copy:#}");
        assert_eq!((number(&copy["waiting"], "bytes"), &copy["refused"]), (0, &serde_json::json!({})));
    }
}

#[test]
fn a_run_is_shipped_to_a_receiver_and_a_folder_and_proved_at_both() {
    let folder = Folder::new();
    let run = taken(&folder, 0.5);
    let far = Far::start(&folder, &[]);
    let mounted = folder.at("mounted");
    std::fs::create_dir(&mounted).expect("made");
    let mounted_url = format!("file://{mounted}");
    let site = format!("{}/site", far.address);
    let runs = folder.at("runs");
    let arguments = ["ship", &runs, "--to", &site, "--to", &mounted_url, "--json"];
    let progress = thalweg(&arguments).done().json();
    assert_eq!(progress["is_complete"], true, "{progress:#}");
    for destination in progress["destinations"].as_array().expect("a list") {
        assert_eq!(destination["stage"], "up_to_date", "{progress:#}");
        assert_eq!(destination["ledger_balances"], true, "{progress:#}");
        assert_eq!(number(destination, "backlog_bytes"), 0);
        assert_eq!(number(destination, "files"), number(destination, "files_finished"));
    }
    for copy in [folder.path().join("far/site/000001"), Path::new(&mounted).join("000001")] {
        assert_same(&run, &copy);
        let verified = thalweg(&["verify", &copy.display().to_string(), "--json"]).done().json();
        assert_eq!(verified["ok"], true, "{verified:#}");
        let manifest = std::fs::read_to_string(copy.join("shipped-manifest.json")).expect("there");
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        let hits =
            manifest["files"].as_array().expect("a list").iter().find(|file| file["file"] == "hits.arrows");
        let hits = hits.expect("listed");
        let record: Value =
            serde_json::from_slice(&std::fs::read(run.join("run.json")).expect("there")).expect("JSON");
        let table =
            record["tables"].as_array().expect("a list").iter().find(|table| table["file"] == "hits.arrows");
        assert_eq!(hits["crc32c"], table.expect("listed")["crc32c"][0], "as the recorder computed it");
        assert_eq!(hits["md5"].as_str().map(str::len), Some(32));
        let verified_rows = |table: &Value| table["rows"].as_u64().expect("counted");
        assert_eq!(
            verified_rows(hits),
            verified_rows(table.expect("listed")),
            "as the far side counted them"
        );
        assert_eq!(manifest["ledger"]["proved"], manifest["ledger"]["recorded"], "{manifest:#}");
    }
    assert_catalogue_knows(&run, [&mounted_url, &site]);
    // Once more: nothing goes over the wire. A comment changes one file.
    let before = std::fs::metadata(folder.path().join("far/site/000001/hits.arrows")).expect("there");
    thalweg(&arguments).done();
    std::fs::write(run.join("notes.jsonl"), "{\"time\": \"\", \"text\": \"later\"}\n").expect("written");
    thalweg(&arguments).done();
    let copy = folder.path().join("far/site/000001");
    assert_same(&run, &copy);
    let after = std::fs::metadata(copy.join("hits.arrows")).expect("there");
    assert_eq!(before.modified().expect("known"), after.modified().expect("known"));
    far.process.signal("TERM");
    let received = far.process.wait().done().json();
    assert_eq!(number(&received, "refused"), 0, "{received:#}");
}

#[test]
fn files_of_a_table_are_complete_elsewhere_while_the_run_goes_on() {
    let folder = Folder::new();
    let far = Far::start(&folder, &[]);
    let files = format!("[record.files]\nmost_s = 1\ndirectories = [\"{}\"]", folder.at("other-disk"));
    std::fs::create_dir(folder.at("other-disk")).expect("made");
    let file = configuration(&folder, 4.5, "", &files);
    let run = Running::start(&["run", &file, "--json"]);
    let (here, copy) = (PathBuf::from(folder.at("runs/000001")), folder.path().join("far/000001"));
    wait_until("the run has begun", || here.join("run.json").exists() && here.join("hits.arrows").exists());
    let shipper =
        Running::start(&["ship", &folder.at("runs/000001"), "--to", &far.address, "--follow", "--json"]);
    wait_until("a file that nobody writes any more is complete elsewhere", || {
        let state = state(&here);
        let is_open =
            std::fs::read_to_string(here.join("run.json")).is_ok_and(|text| text.contains("running"));
        assert!(is_open || !state["files"]["hits.0001.arrows"]["finished"].is_null(), "{state:#}");
        !state["files"]["hits.0001.arrows"]["finished"].is_null()
    });
    run.wait().done();
    let progress = shipper.wait().done().json();
    assert_eq!(progress["is_complete"], true, "{progress:#}");
    assert!(here.join("hits.0001.arrows").is_symlink() && !copy.join("hits.0001.arrows").is_symlink());
    assert_same(&here, &copy);
    let verified = thalweg(&["verify", &copy.display().to_string(), "--json"]).done().json();
    assert_eq!(
        (&verified["ok"], &verified["ledger"]["closed"]),
        (&true.into(), &true.into()),
        "{verified:#}"
    );
}

#[test]
fn a_run_is_followed_while_it_is_taken_and_its_copy_is_a_whole_stream_meanwhile() {
    let folder = Folder::new();
    let far = Far::start(&folder, &[]);
    let file = configuration(&folder, 600.0, "", "");
    let run = Running::start(&["run", &file, "--json"]);
    let (here, copy) = (PathBuf::from(folder.at("runs/000001")), folder.path().join("far/000001"));
    wait_until("the run has begun", || here.join("run.json").exists() && here.join("hits.arrows").exists());
    let shipper =
        Running::start(&["ship", &folder.at("runs/000001"), "--to", &far.address, "--follow", "--json"]);
    let mut lengths = std::collections::BTreeSet::new();
    wait_until("the copy grows while the run goes on", || {
        if let Ok(bytes) = std::fs::read(copy.join("hits.arrows")) {
            let checked = thalweg_record::check(&bytes).expect("a whole stream at every moment");
            lengths.insert(checked.batches);
        }
        lengths.len() > 3
    });
    run.signal("INT");
    run.wait().done();
    let progress = shipper.wait().done().json();
    assert_eq!(progress["is_complete"], true, "{progress:#}");
    assert_same(&here, &copy);
}

#[test]
fn shipper_and_receiver_are_killed_again_and_again_and_nothing_is_lost() {
    let folder = Folder::new();
    let run = taken(&folder, 1.0);
    let port = free_port();
    let copy = folder.path().join("far/000001");
    let hits = std::fs::read(run.join("hits.arrows")).expect("there");
    let rounds = std::env::var("THALWEG_SHIP_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    for round in 0..rounds {
        let far = Far::start_at(&folder, port, &[]);
        let limit = (hits.len() as u64 / 2).max(1000).to_string();
        let arguments =
            ["ship", &folder.at("runs"), "--to", &far.address, "--json", "--limit-bytes-per-s", &limit];
        let shipper = Running::start(&arguments);
        std::thread::sleep(std::time::Duration::from_millis(60 + round * 37 % 300));
        // One of the two first, so that the other meets a connection that has gone.
        let (first, second) =
            if round % 2 == 0 { (&shipper, &far.process) } else { (&far.process, &shipper) };
        first.signal("KILL");
        second.signal("KILL");
        if let Ok(bytes) = std::fs::read(copy.join("hits.arrows")) {
            assert!(thalweg_record::check(&bytes).is_ok(), "round {round}: a whole stream");
            assert_eq!(bytes[..bytes.len() - 8], hits[..bytes.len() - 8], "round {round}");
        }
        drop(shipper);
    }
    let far = Far::start_at(&folder, port, &[]);
    let progress = thalweg(&["ship", &folder.at("runs"), "--to", &far.address, "--json"]).done().json();
    assert_eq!(progress["is_complete"], true, "{progress:#}");
    assert_same(&run, &copy);
}

#[test]
fn a_wrong_token_or_none_is_refused_and_a_far_host_that_is_down_is_given_up_or_waited_for() {
    let folder = Folder::new();
    let run = taken(&folder, 0.2);
    let (right, wrong) = (folder.file("right", "0123456789abcdef"), folder.file("wrong", "0123456789abcdeF"));
    let far = Far::start(&folder, &["--token-file", &right]);
    let runs = folder.at("runs");
    for token in [None, Some(&wrong)] {
        let mut arguments = vec!["ship", &runs, "--to", &far.address, "--json"];
        token.iter().for_each(|file| arguments.extend(["--token-file", file]));
        let ended = thalweg(&arguments);
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let progress = ended.json();
        let held = route(&progress)["held"].as_str().unwrap_or_default().to_owned();
        assert!(route(&progress)["stage"] == "given_up" && held.contains("token"), "{progress:#}");
    }
    assert!(!folder.path().join("far/000001").exists(), "nothing is written for who has no token");
    let address = far.address.clone();
    let arguments = ["ship", &runs, "--to", &address, "--token-file", &right, "--follow", "--json"];
    let port: u16 = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    drop(far);
    // Nobody is there: what follows waits, and goes on when somebody is.
    let shipper = Running::start(&arguments);
    std::thread::sleep(std::time::Duration::from_millis(800));
    let once = ["ship", &runs, "--to", &format!("receive://127.0.0.1:{port}"), "--give-up-after-s", "0"];
    let busy = thalweg(&once);
    assert!(busy.code == Some(1) && busy.out.contains("another `thalweg ship`"), "{busy:#?}");
    let far = Far::start_at(&folder, port, &["--token-file", &right]);
    let copy = folder.path().join("far/000001");
    wait_until("it is shipped", || !state(&run)["files"]["shipped-manifest.json"]["finished"].is_null());
    shipper.signal("INT");
    let progress = shipper.wait().done().json();
    assert_eq!(progress["is_complete"], true, "{progress:#}");
    assert_same(&run, &copy);
    drop(far);
    std::fs::remove_dir_all(run.join(".ship")).expect("there");
    let down =
        thalweg(&["ship", &runs, "--to", &format!("receive://127.0.0.1:{port}"), "--give-up-after-s", "0"]);
    assert!(down.code == Some(1) && down.out.contains("given up"), "{down:#?}");
    let refused = thalweg(&["receive", "--listen", "0.0.0.0:0", "--directory", &folder.at("far")]);
    assert!(refused.code == Some(2) && refused.error.contains("--token-file"), "{refused:#?}");
}

#[test]
fn copies_go_over_tls_and_a_host_that_proves_nothing_gets_nothing() {
    let folder = Folder::new();
    let run = taken(&folder, 0.2);
    let pem = |name: &str| format!("{}/../monitor/tests/monitor/{name}", env!("CARGO_MANIFEST_DIR"));
    let (certificate, key) = (pem("tls-certificate.pem"), pem("tls-key.pem"));
    let token = folder.file("token", "0123456789abcdef");
    let far =
        Far::start(&folder, &["--tls-certificate", &certificate, "--tls-key", &key, "--token-file", &token]);
    let with_tls = far.address.replace("receive://", "receives://");
    let runs = folder.at("runs");
    let ship = |to: &str, more: &[&str]| {
        let arguments =
            ["ship", &runs, "--to", to, "--token-file", &token, "--give-up-after-s", "0", "--json"];
        thalweg(&[&arguments[..], more].concat())
    };
    let held = |to: &str, more: &[&str]| {
        let ended = ship(to, more);
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        route(&ended.json())["held"].as_str().unwrap_or_default().to_owned()
    };
    // The host's authorities did not sign this certificate; where it has none, that is said.
    let untrusted = ship(&with_tls, &[]);
    assert!((untrusted.out.clone() + &untrusted.error).contains("tls_ca"), "{untrusted:#?}");
    let plain = held(&far.address, &[]);
    assert!(plain.contains("write receives://"), "{plain}");
    assert!(!folder.path().join("far/000001").exists(), "nothing is written for either");
    let progress = ship(&with_tls, &["--tls-ca", &certificate]).done().json();
    assert_eq!(progress["is_complete"], true, "{progress:#}");
    assert_same(&run, &folder.path().join("far/000001"));
    drop(far);
    let far = Far::start(&folder, &["--token-file", &token]);
    let refused = held(&far.address.replace("receive://", "receives://"), &["--tls-ca", &certificate]);
    assert!(refused.contains("write receive://"), "{refused}");
    let missing = ship(&with_tls, &["--tls-ca", &folder.at("none.pem")]);
    assert!(missing.code == Some(2) && missing.error.contains("none.pem"), "{missing:#?}");
    let unusable = thalweg(&[
        "receive",
        "--directory",
        &folder.at("far"),
        "--listen",
        "127.0.0.1:0",
        "--tls-certificate",
        &certificate,
        "--tls-key",
        &certificate,
    ]);
    assert!(unusable.code == Some(2) && unusable.error.contains("tls-certificate.pem"), "{unusable:#?}");
}

#[test]
fn a_command_is_run_once_when_a_run_is_shipped_and_its_failure_is_reported() {
    let folder = Folder::new();
    let run = taken(&folder, 0.2);
    std::fs::create_dir(folder.at("mounted")).expect("made");
    let script =
        format!("test -f \"$THALWEG_MANIFEST\" && basename \"$THALWEG_RUN\" >> {}", folder.at("said"));
    let section = |command: &str| {
        let to = format!("file://{}", folder.at("mounted"));
        let section = format!("[ship]\nto = [\"{to}\"]\non_shipped = [\"sh\", \"-c\", {command:?}]\n");
        configuration(&folder, 0.2, "", &section)
    };
    let failed = thalweg(&["ship", "--config", &section("exit 3"), "--json"]);
    assert!(failed.code == Some(1) && failed.out.contains("on_shipped"), "{failed:#?}");
    let file = section(&script);
    for _ in 0..2 {
        thalweg(&["ship", "--config", &file, "--json"]).done();
    }
    assert_eq!(std::fs::read_to_string(folder.at("said")).expect("it was run"), "000001\n");
    assert_same(&run, &folder.path().join("mounted/000001"));
}

#[test]
fn a_run_that_another_host_ships_is_left_to_it_until_it_is_silent() {
    let folder = Folder::new();
    let run = taken(&folder, 0.2);
    std::fs::create_dir(folder.at("mounted")).expect("made");
    let section = format!("[ship]\nto = [\"file://{}\"]\ntakeover_s = 2\n", folder.at("mounted"));
    let file = configuration(&folder, 0.2, "", &section);
    // A program at another host that mounts this directory has begun, and was killed.
    let owner = run.join(".ship/owner");
    std::fs::create_dir_all(&owner).expect("made");
    std::fs::write(owner.join("storage-0a1b2c3d-0000000000000005.00000007"), "{}").expect("written");
    let refused = thalweg(&["ship", "--config", &file]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.out.contains("storage-0a1b2c3d-0000000000000005 ships this run"), "{refused:#?}");
    assert!(!folder.path().join("mounted/000001").exists(), "nothing is shipped by two");
    let shipper =
        Running::start(&["ship", "--config", &file, &folder.at("runs/000001"), "--follow", "--json"]);
    let progress = shipper.wait().done().json();
    assert_eq!(progress["is_complete"], true, "{progress:#}");
    assert_same(&run, &folder.path().join("mounted/000001"));
    let left = std::fs::read_dir(&owner).expect("there").flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["free.00000008"], "given back for whoever comes next");
}

#[test]
fn the_tables_of_old_runs_stay_until_their_copies_are_proved() {
    let folder = Folder::new();
    std::fs::create_dir(folder.at("mounted")).expect("made");
    let to = format!("file://{}", folder.at("mounted"));
    let sections = format!(
        "[record.retention]\nmost_runs = 1\n[ship]\nto = [\"{to}\"]\ncopies = 1\n[unattended]\nrotate = true\n"
    );
    let file = configuration(&folder, 0.3, "", &sections);
    let address = format!("127.0.0.1:{}", free_port());
    let recorder = Running::start(&["serve", &file, "--listen", &address, "--start", "--json"]);
    let has_hits = |run: u32| Path::new(&folder.at(&format!("runs/{run:06}/hits.arrows"))).exists();
    recorder.wait_for_text("proved copies");
    wait_until("a third run", || has_hits(3));
    assert!(has_hits(1) && has_hits(2), "nothing is removed that has no copy");
    let shipper = Running::start(&["ship", "--config", &file, "--follow", "--json"]);
    wait_until("the first runs are removed", || !has_hits(1) && !has_hits(2));
    for run in ["000001", "000002"] {
        let copy = folder.path().join("mounted").join(run);
        // Its documents may come behind its tables.
        wait_until("the copy is complete", || copy.join("shipped-manifest.json").exists());
        let verified = thalweg(&["verify", &copy.display().to_string(), "--json"]).done().json();
        assert_eq!(verified["ok"], true, "{verified:#}");
    }
    recorder.signal("TERM");
    recorder.wait().done();
    shipper.signal("TERM");
    shipper.wait().done();
}
