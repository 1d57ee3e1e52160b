//! The catalogue of runs: `thalweg runs`, and runs by their number everywhere.
//!
//! ```text
//!  runs/000001 … 000n, some of them damaged, killed or under way ─► list · find · show · verify · label · note
//! ```

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::process::{Ended, Folder, Running, free_port, number, thalweg, wait_until};
use crate::recover::configuration;
use crate::retention::get;
use crate::serve;

/// A recorded run of 0.3 s.
fn record(folder: &Folder) -> Value {
    let file = configuration(folder, "");
    thalweg(&["run", &file, "--seconds", "0.3", "--json"]).done().json()
}

/// Runs that have a record and nothing else.
fn write_records(folder: &Folder, records: &[Value]) {
    for record in records {
        let path = folder.path().join(format!("runs/{:06}", number(record, "number")));
        fs::create_dir_all(&path).expect("made");
        fs::write(path.join("run.json"), record.to_string()).expect("written");
    }
}

/// `thalweg runs …` in the directory of runs of a folder.
fn runs(folder: &Folder, arguments: &[&str]) -> Ended {
    let directory = folder.at("runs");
    thalweg(&[&["runs"], arguments, &["--runs", &directory]].concat())
}

fn numbers(listed: &Value) -> Vec<u64> {
    listed["runs"].as_array().expect("a list").iter().map(|run| number(run, "number")).collect()
}

#[test]
fn a_recorded_run_is_listed_shown_and_verified_by_its_number() {
    let folder = Folder::new();
    let summary = record(&folder);
    let listed = runs(&folder, &["list", "--json"]).done().json();
    let run = &listed["runs"][0];
    assert_eq!((&run["state"], &run["title"]), (&"ended".into(), &"one board".into()), "{listed:#}");
    assert_eq!(number(run, "hits"), number(&summary, "hits_recorded"));
    assert_eq!(
        (&run["loss"][0]["count"], &run["loss"][0]["quality"]),
        (&summary["hits_lost"], &"exact".into())
    );
    assert_eq!((&run["events"], &run["sources"]), (&Value::Null, &json!(["board"])));
    let table = runs(&folder, &["list"]).done().out;
    let line = table.lines().nth(1).expect("a line behind the head");
    assert!(line.contains("one board") && line.contains("ended") && line.contains("no losses"), "{table}");
    let shown = runs(&folder, &["show", "1"]).done().out;
    for words in ["000001-one-board", "sources: board", "the ledger balances", "hits.arrows", "run.json"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let shown = runs(&folder, &["show", "000001-one-board", "--json"]).done().json();
    assert_eq!(shown["record"]["number"], 1);
    let verified = runs(&folder, &["verify", "1"]).done().out;
    assert!(verified.contains("verified") && verified.contains("1 verified, 0 NOT VERIFIED"), "{verified}");
    let directory = folder.at("runs");
    for command in ["verify", "inspect", "recover", "plot"] {
        thalweg(&[command, "1", "--runs", &directory]).done();
        let missing = thalweg(&[command, "2", "--runs", &directory]);
        assert_eq!(missing.code, Some(1), "{missing:#?}");
        assert!(missing.error.contains("no such run directory"), "{command}: {missing:#?}");
    }
    let nowhere = thalweg(&["verify", "1", "--runs", &folder.at("nowhere")]);
    assert!(nowhere.code == Some(1) && nowhere.error.contains("THALWEG_RUNS"), "{nowhere:#?}");
}

#[test]
fn the_variable_names_the_directory_of_runs() {
    let folder = Folder::new();
    write_records(&folder, &[json!({ "number": 7, "state": "stopped", "title": "seven" })]);
    let variable = format!("THALWEG_RUNS={}", folder.at("runs"));
    let list = |arguments: &[&str]| {
        let ended = Running::start_to(&["env", &variable], arguments, Stdio::piped(), Stdio::piped()).wait();
        ended.done().json()
    };
    assert_eq!(numbers(&list(&["runs", "list", "--json"])), [7]);
    let shown = list(&["runs", "show", "7", "--json"]);
    assert_eq!((&shown["title"], &shown["hits"]), (&"seven".into(), &Value::Null));
}

#[test]
fn every_run_has_its_word_and_no_command_fails_for_one_bad_run() {
    let folder = Folder::new();
    record(&folder);
    let file = configuration(&folder, "batch_age_s = 0.05\n");
    let running = Running::start(&["run", &file, "--json"]);
    let killed = Running::start(&["run", &file, "--json"]);
    let states = || {
        let listed = runs(&folder, &["list", "--json"]).done().json();
        let runs = listed["runs"].as_array().expect("a list").iter();
        runs.map(|run| run["state"].as_str().expect("a word").to_owned()).collect::<Vec<_>>()
    };
    wait_until("two runs go on", || states().iter().filter(|state| *state == "running").count() == 2);
    let has_hits = || {
        let listed = runs(&folder, &["list", "--json"]).done().json();
        listed["runs"].as_array().expect("a list")[1..].iter().all(|run| run["hits"].as_u64() > Some(0))
    };
    wait_until("their ledgers say that they record", has_hits);
    let left_out = runs(&folder, &["verify", "--all"]).done().out;
    assert!(left_out.contains("1 verified, 0 NOT VERIFIED, 2 left out"), "{left_out}");
    drop(killed);
    wait_until("one is known to be killed", || states().contains(&"killed".to_owned()));
    running.signal("INT");
    running.wait().done();
    fs::create_dir(folder.at("runs/000004")).expect("made");
    write_records(&folder, &[json!({ "number": 5, "state": "stopped" })]);
    fs::write(folder.at("runs/000005/run.json"), "{\"number\": 5, ").expect("damaged");
    let listed = runs(&folder, &["list"]).done().out;
    for words in ["ended", "killed", "no record", "damaged", "000004: has no run.json", "5 runs in "] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let verified = runs(&folder, &["verify", "1-5", "--json"]);
    assert_eq!(verified.code, Some(1), "{verified:#?}");
    let verified = verified.json();
    assert_eq!(
        (number(&verified, "verified") >= 2, number(&verified, "left_out")),
        (true, 0),
        "{verified:#}"
    );
    assert_eq!(verified["runs"].as_array().map(Vec::len), Some(5), "each has its verdict: {verified:#}");
    let found = runs(&folder, &["find", "--with-losses", "--json"]).done().json();
    let of_state = |state: &str| runs(&folder, &["list", "--state", state, "--json"]).done().json();
    assert_eq!(numbers(&found), numbers(&of_state("killed")), "nobody knows what a killed run has lost");
    let killed = numbers(&of_state("killed"))[0].to_string();
    thalweg(&["recover", &killed, "--runs", &folder.at("runs")]).done();
    assert_eq!(numbers(&of_state("recovered")).len(), 1);
}

#[test]
fn runs_are_found_by_words_labels_dates_and_sources() {
    let folder = Folder::new();
    let of_day = |number: u64, day: u64, source: &str| {
        let started = format!("2026-11-{day:02}T02:18:04.123Z");
        json!({ "number": number, "state": "stopped", "title": format!("run {number} {source}"), "started": started,
            "sources": [source] })
    };
    write_records(&folder, &[of_day(1, 20, "left"), of_day(2, 21, "right"), of_day(3, 22, "left")]);
    let labelled = runs(&folder, &["label", "1-2", "good", "cosmics", "--author", "ana"]).done().out;
    assert!(labelled.contains("000002: cosmics, good"), "{labelled}");
    runs(&folder, &["label", "2", "bad", "--remove", "good"]).done();
    runs(&folder, &["note", "3", "vacuum", "at", "3e-6"]).done();
    let find = |arguments: &[&str]| {
        numbers(&runs(&folder, &[&["find", "--json"], arguments].concat()).done().json())
    };
    assert_eq!(find(&[]), [1, 2, 3]);
    assert_eq!(find(&["VACUUM"]), [3]);
    assert_eq!(find(&["--label", "good"]), [1]);
    assert_eq!(find(&["--label", "cosmics", "--without-label", "bad"]), [1]);
    assert_eq!(find(&["--since", "2026-11-21", "--until", "2026-11-21"]), [2]);
    assert_eq!(find(&["run", "--source", "left", "--latest", "1"]), [3]);
    assert_eq!(find(&["nothing like it"]), [0; 0]);
    let shown = runs(&folder, &["show", "2"]).done().out;
    assert!(shown.contains("labels: bad cosmics") && shown.contains("ana: +cosmics +good"), "{shown}");
    for wrong in [
        &["label", "1", "Good"][..],
        &["label", "1"],
        &["label", "1", "a", "--remove", "a"],
        &["find", "--since", "soon"],
        &["list", "--state", "lost"],
        &["note", "1"],
        &["verify"],
    ] {
        assert_eq!(runs(&folder, wrong).code, Some(2), "{wrong:?}");
    }
    let nothing = runs(&folder, &["verify", "8-9"]);
    assert!(nothing.code == Some(1) && nothing.error.contains("no run has a number of 8-9"), "{nothing:#?}");
}

#[test]
fn a_note_for_the_next_run_goes_into_it_from_the_command_and_from_the_page() {
    let folder = Folder::new();
    runs(&folder, &["note", "--next", "source moved", "--author", "ana"]).done();
    let listed = runs(&folder, &["list"]).done().out;
    assert!(
        listed.contains("no run in ")
            && listed.contains("for the next run: ")
            && listed.contains("ana: source moved")
    );
    record(&folder);
    let shown = runs(&folder, &["show", "1", "--json"]).done().json();
    assert_eq!(
        (&shown["notes"][0]["text"], &shown["notes"][0]["author"]),
        (&"source moved".into(), &"ana".into())
    );
    let file = configuration(&folder, "");
    let address = format!("127.0.0.1:{}", free_port());
    let served = Running::start(&["serve", &file, "--listen", &address, "--json"]);
    let post =
        |path: &str, body: &Value| assert_eq!(serve::post(&address, path, body).0, 200, "{path} {body}");
    wait_until("it is served", || std::net::TcpStream::connect(&address).is_ok());
    post("/api/notes/next", &json!({ "text": "shutter closed" }));
    assert_eq!(get(&address, "/api/notes/next")[0]["text"], "shutter closed");
    post("/api/run/start", &json!({}));
    wait_until("the run has taken the note", || {
        let runs = get(&address, "/api/runs");
        runs[0]["number"] == 2 && runs[0]["notes"][0]["text"] == "shutter closed"
    });
    assert_eq!(get(&address, "/api/notes/next"), json!([]));
    post("/api/runs/000001-one-board/notes", &json!({ "text": "was good" }));
    runs(&folder, &["label", "1", "good"]).done();
    assert_eq!(get(&address, "/api/runs")[1]["labels"], json!(["good"]));
    served.signal("TERM");
    served.wait();
    let shown = runs(&folder, &["show", "1", "--json"]).done().json();
    assert_eq!(shown["notes"][1]["text"], "was good");
}

#[test]
fn a_list_that_is_killed_while_it_writes_the_index_does_no_harm() {
    let folder = Folder::new();
    let records: Vec<Value> = (1..=300)
        .map(|number| json!({ "number": number, "state": "stopped", "title": format!("run {number}") }))
        .collect();
    write_records(&folder, &records);
    // What has just changed is not indexed.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let index = folder.path().join("runs/.catalogue.jsonl");
    let directory = folder.at("runs");
    let listing = || Running::start(&["runs", "list", "--json", "--runs", &directory]);
    for round in 0..20 {
        let _ = fs::remove_file(&index);
        let listing = listing();
        std::thread::sleep(std::time::Duration::from_millis(2 * round));
        // It is killed, at whatever it is doing.
        drop(listing);
        assert!(!index.exists() || is_whole(&index), "the index is there as a whole, or not at all");
    }
    let expected = listing().wait().done().json();
    assert_eq!(numbers(&expected), (1..=300).collect::<Vec<_>>());
    assert!(is_whole(&index));
    let together = [listing(), listing(), listing()];
    together.into_iter().for_each(|listing| assert_eq!(listing.wait().done().json(), expected));
    let mut damaged = fs::File::options().append(true).open(&index).expect("there");
    damaged.write_all(b"{\"facts\":").expect("written");
    assert_eq!(listing().wait().done().json(), expected);
    assert!(is_whole(&index), "it is made anew");
}

/// Whether each line is a JSON object, with one line more than runs.
fn is_whole(index: &Path) -> bool {
    let text = fs::read_to_string(index).expect("there");
    let is_object = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|value| value.is_object());
    text.lines().count() == 301 && text.lines().all(is_object)
}

#[test]
fn a_directory_that_cannot_be_written_is_listed_and_refuses_labels_and_notes_in_words() {
    let folder = Folder::new();
    write_records(&folder, &[json!({ "number": 1, "state": "stopped", "title": "one" })]);
    // A directory in place of each file, which root cannot write either.
    for name in [".catalogue.jsonl.new", ".next-notes.jsonl", "000001/notes.jsonl", "000001/labels.jsonl"] {
        fs::create_dir(folder.path().join("runs").join(name)).expect("made");
    }
    let listed = runs(&folder, &["list"]).done().out;
    assert!(listed.contains("1 run in ") && listed.contains("problem: "), "{listed}");
    for arguments in [&["label", "1", "good"][..], &["note", "1", "words"], &["note", "--next", "words"]] {
        let refused = runs(&folder, arguments);
        assert!(
            refused.error.contains("is no plain file") || refused.error.contains("Is a directory"),
            "{refused:#?}"
        );
        assert_eq!(refused.code, Some(1), "{refused:#?}");
    }
}
