//! `thalweg serve`: run after run of one file, which may change between them.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::process::{Folder, Running, free_port, thalweg, wait_until};
use crate::retention::get;

/// When each run ends by itself.
const LIMIT: &str = "hits = 2000";

fn text(folder: &Folder, title: &str, more: &str) -> String {
    format!(
        "[run]\ntitle = \"{title}\"\n{LIMIT}\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
         [source.emulate]\nchannels = 4\nrate_hz = 20000\nwaveform_samples = 0\n[record]\ndirectory = \"{}\"\n{more}",
        folder.at("runs")
    )
}

/// A post, with the status of its answer.
pub fn post(address: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).expect("it is served");
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-thalweg: 1\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")))
}

/// Waits until the run of this number and title has ended.
pub fn wait_for(folder: &Folder, run: &str) {
    let path = folder.at(&format!("runs/{run}/run.json"));
    wait_until(&format!("{run} has ended"), || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        serde_json::from_str::<Value>(&text).is_ok_and(|record| record["state"] == "stopped")
    });
}

#[test]
fn a_file_that_has_changed_is_read_again_when_a_run_is_started_and_refused_when_it_cannot_be_used() {
    let folder = Folder::new();
    let file = folder.file("run.toml", &text(&folder, "first", ""));
    let address = format!("127.0.0.1:{}", free_port());
    let server = Running::start(&["serve", &file, "--listen", &address]);
    wait_until("the page answers", || TcpStream::connect(&address).is_ok());
    let configuration = || get(&address, "/api/configuration");
    let start = || post(&address, "/api/run/start", &json!({}));
    let begins = || {
        // A moment after its files the run is put away.
        let mut answer = (0, Value::Null);
        wait_until("a run starts", || {
            answer = start();
            answer.0 == 200
        });
    };
    assert_eq!((&configuration()["changed"], &configuration()["error"]), (&json!(false), &Value::Null));
    begins();
    wait_for(&folder, "000001-first");

    folder.file(
        "run.toml",
        &text(&folder, "second", "[[alarm]]\nname = \"losses\"\nquantity = \"lost_rate_hz\"\nabove = 0\n"),
    );
    let shown = configuration();
    assert_eq!((&shown["changed"], &shown["error"]), (&json!(true), &Value::Null), "{shown:#}");
    assert_eq!(shown["waiting"], json!(["[[alarm]]"]), "{shown:#}");
    assert!(shown["text"].as_str().is_some_and(|text| text.contains("first")), "what is in use is shown");
    begins();
    wait_for(&folder, "000002-second");
    let shown = configuration();
    assert_eq!(
        (&shown["changed"], &shown["waiting"]),
        (&json!(false), &json!(["[[alarm]]"])),
        "it waits still"
    );

    folder.file("run.toml", &text(&folder, "third", "[coincidence]\nwindow_ps = -1\n"));
    let shown = configuration();
    assert!(shown["error"].as_str().is_some_and(|error| error.contains("window_ps")), "{shown:#}");
    let (mut status, mut refusal) = (0, Value::Null);
    wait_until("the last run is put away", || {
        (status, refusal) = start();
        !["`stop` it first", "wait until it has ended"].iter().any(|text| refusal.to_string().contains(text))
    });
    let words = refusal.to_string();
    assert_eq!(status, 409, "{words}");
    assert!(words.contains("line 16") && words.contains("mend the file"), "{words}");

    folder.file("run.toml", &text(&folder, "third", "").replace("runs", "elsewhere"));
    assert!(
        start().1.to_string().contains("start the program again"),
        "old runs are listed and removed there"
    );
    std::fs::remove_file(&file).expect("there");
    assert_eq!(start().0, 409, "a file that is gone is not taken for as it was");
    folder.file("run.toml", &text(&folder, "fourth", ""));
    begins();
    wait_for(&folder, "000003-fourth");
    server.signal("TERM");
    server.wait();
}

#[test]
fn notes_are_kept_with_the_run_and_a_run_without_data_says_so() {
    let folder = Folder::new();
    let file = folder.file("run.toml", &text(&folder, "noted", ""));
    let address = format!("127.0.0.1:{}", free_port());
    let server = Running::start(&["serve", &file, "--listen", &address]);
    wait_until("the page answers", || TcpStream::connect(&address).is_ok());
    let start = |wanted: Value| post(&address, "/api/run/start", &wanted);
    let (status, refusal) = start(json!({ "record": false }));
    assert_eq!(
        (status, &refusal["advice"]),
        (409, &json!("limit it by seconds")),
        "it would never end: {refusal}"
    );
    assert_eq!(start(json!({ "record": false, "seconds": 600 })).0, 200);
    wait_until("data are taken", || get(&address, "/api/state")["sources"][0]["hits"].as_u64() > Some(0));
    let run = &get(&address, "/api/state")["run"];
    assert_eq!((&run["keeps_data"], &run["name"]), (&json!(false), &json!("000001-noted")));

    let notes = "/api/runs/000001-noted/notes";
    assert_eq!(post(&address, notes, &json!({ "text": "beam on; vacuum at 3e-6" })).0, 200);
    assert_eq!(post(&address, notes, &json!({ "text": "  " })).0, 400);
    wait_until("the note is among the messages", || {
        let messages = &get(&address, "/api/state")["messages"];
        let noted = messages.as_array().and_then(|all| all.iter().find(|message| message["level"] == "note"));
        noted.is_some_and(|message| message["text"] == "beam on; vacuum at 3e-6")
    });
    assert_eq!(post(&address, "/api/run/stop", &json!({})).0, 200);
    wait_for(&folder, "000001-noted");
    wait_until("the run is put away", || start(json!({ "seconds": 600 })).0 == 200);
    assert_eq!(post(&address, notes, &json!({ "text": "afterwards" })).0, 200);

    let run = get(&address, "/api/runs/000001-noted");
    let texts: Vec<&Value> = run["notes"]
        .as_array()
        .map(|notes| notes.iter().map(|note| &note["text"]).collect())
        .unwrap_or_default();
    assert_eq!(texts, ["beam on; vacuum at 3e-6", "afterwards"], "{run:#}");
    assert_eq!((&run["ledger_closed"], &run["hits"]), (&json!(true), &json!(0)), "{run:#}");
    let of_hits = |entry: &&Value| entry["stage"] == "record" && entry["unit"] == "hits";
    let entries = run["record"]["ledger"]["entries"].as_array().expect("a ledger");
    let recorded = entries.iter().find(of_hits).expect("hits came to the recording");
    assert_eq!(recorded["in"], recorded["filtered"], "they are left out on request: {recorded}");
    let of_data = |file: &&Value| file["name"].as_str().is_some_and(|name| name.ends_with(".arrows"));
    let files = run["files"].as_array().map(|files| files.iter().filter(of_data).collect::<Vec<_>>());
    assert!(files.iter().flatten().all(|file| file["name"] == "losses.arrows"), "{files:?}");
    let verified = post(&address, "/api/runs/000001-noted/verify", &json!({})).1;
    assert_eq!(verified["ok"], json!(true), "{verified:#}");
    server.signal("TERM");
    server.wait();
    let inspected = thalweg(&["inspect", &folder.at("runs/000001")]).done();
    assert!(inspected.out.contains("Z: afterwards"), "{}", inspected.out);
}

/// The first alarm, once the run is so old and was looked at meanwhile.
fn seen_after(address: &str, seconds: f64) -> Value {
    let mut state = Value::Null;
    wait_until("time passes", || {
        state = get(address, "/api/state");
        state["elapsed_seconds"].as_f64() > Some(seconds)
    });
    state["alarms"][0].clone()
}

#[test]
fn an_alarm_is_acknowledged_and_shown_so_while_it_stands() {
    let folder = Folder::new();
    let alarm = "[[alarm]]\nname = \"slow\"\nquantity = \"recorded_rate_hz\"\nbelow = 1e15\n";
    let file = folder.file("run.toml", &text(&folder, "slow", alarm).replace(LIMIT, ""));
    let address = format!("127.0.0.1:{}", free_port());
    let server = Running::start(&["serve", &file, "--listen", &address, "--start"]);
    wait_until("the page answers", || TcpStream::connect(&address).is_ok());
    let slow = || get(&address, "/api/state")["alarms"][0].clone();
    wait_until("it is raised", || slow()["active"] == true);
    assert_eq!(slow()["acknowledged"], Value::Null);
    let see = |name: &str| post(&address, "/api/alarms/acknowledge", &json!({ "name": name })).0;
    assert_eq!((see("fast"), see("slow")), (409, 200));
    // The state may be one update old.
    wait_until("it is shown so", || slow()["acknowledged"].is_string());
    let seen = slow();
    assert_eq!((see("slow"), &seen["active"]), (200, &json!(true)));
    let later = seen_after(&address, 2.0);
    assert_eq!(
        later["acknowledged"], seen["acknowledged"],
        "it was seen when it was seen first, however often it is looked at"
    );
    server.signal("TERM");
    server.wait();
}

#[test]
fn a_run_in_the_list_has_its_labels_and_comment_as_they_were_changed_last() {
    let folder = Folder::new();
    let file = folder.file("run.toml", &text(&folder, "first", ""));
    let address = format!("127.0.0.1:{}", free_port());
    let server = Running::start(&["serve", &file, "--listen", &address, "--start"]);
    wait_until("the page answers", || TcpStream::connect(&address).is_ok());
    wait_for(&folder, "000001-first");
    let listed = || get(&address, "/api/runs")[0].clone();
    wait_until("the run is in the list as it ended", || listed()["state"] == "stopped");
    let label = |body: &Value| post(&address, "/api/runs/000001-first/labels", body);
    assert_eq!(label(&json!({ "added": ["good", "cosmics"] })).0, 200);
    assert_eq!(listed()["labels"], json!(["cosmics", "good"]));
    assert_eq!(label(&json!({ "added": ["bad"], "removed": ["good"] })).0, 200);
    assert_eq!(listed()["labels"], json!(["bad", "cosmics"]));
    let (status, refused) = label(&json!({ "added": ["Not good"] }));
    assert!(status == 409 && refused.to_string().contains("a label is a word of a-z"), "{refused:#}");
    assert_eq!(post(&address, "/api/runs/000001-first/comment", &json!({ "comment": "short" })).0, 200);
    let shown = listed();
    assert_eq!((&shown["comment"], &shown["labels"]), (&json!("short"), &json!(["bad", "cosmics"])));
    let found = thalweg(&["runs", "find", "--runs", &folder.at("runs"), "--label", "bad", "--json"]).done();
    assert!(found.out.contains("000001-first"), "{found:#?}");
    server.signal("TERM");
    server.wait();
}

#[test]
fn a_page_that_is_asked_for_is_served_although_the_file_has_none() {
    let folder = Folder::new();
    let file =
        folder.file("run.toml", &text(&folder, "paged", "[monitor]\nenabled = false\n").replace(LIMIT, ""));
    let address = format!("127.0.0.1:{}", free_port());
    for command in ["run", "serve"] {
        let running = Running::start(&[command, &file, "--listen", &address]);
        wait_until("the page answers", || TcpStream::connect(&address).is_ok());
        drop(running);
    }
    for command in ["run", "serve"] {
        let open = thalweg(&[command, &file, "--listen", "0.0.0.0:0"]);
        assert!(
            open.code == Some(2) && open.error.starts_with("thalweg: --listen = \"0.0.0.0:0\" serves"),
            "{open:#?}"
        );
    }
    let refused = thalweg(&["serve", &file]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    for word in ["run.toml", "enabled = false", "--listen", "--start"] {
        assert!(refused.error.contains(word), "{word} in {}", refused.error);
    }
}
