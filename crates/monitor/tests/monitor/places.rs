//! Each place of the API does what it says.

use serde_json::json;
use thalweg_analysis::spectrum::unpack;

use super::{serve, serve_with};
use thalweg_monitor::{Monitor, MonitorError, Settings};

#[test]
fn state_configuration_and_page_are_served() {
    let served = serve();
    let client = served.client();
    assert_eq!(client.get("/api/state").json()["state"], "ready");
    assert_eq!(client.get("/api/configuration").json()["text"], "[run]");
    let past = client.get("/api/history?seconds=2").json();
    assert_eq!((&past["step_seconds"], past["ago_seconds"].as_array().map(Vec::len)), (&json!(1), Some(3)));
    assert_eq!(client.get("/api/history?seconds=often").status, 400);
    assert_eq!(client.get("/api/topology").json()["subjects"][0]["name"], "board0");
    let page = client.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let tag = page.header("etag").expect("a tag").to_owned();
    assert_eq!(client.ask("GET", "/runs/run-000017", &[("if-none-match", &tag)], b"").status, 304);
    assert_eq!(client.ask("HEAD", "/api/state", &[], b"").body.len(), 0);
    assert_eq!(client.get("/app.nothing").status, 404);
    assert_eq!(client.get("/api/nothing").status, 404);
    assert!(served.monitor.url().starts_with("http://127.0.0.1:"));
}

#[test]
fn a_question_that_fails_harms_nobody() {
    let served = serve();
    let answer = served.client().get("/api/system");
    assert_eq!((answer.status, answer.json()["error"].as_str()), (500, Some("the question failed")));
    assert_eq!(served.client().get("/api/state").status, 200);
}

#[test]
fn runs_are_started_and_stopped_or_refused_with_advice() {
    let served = serve();
    let client = served.client();
    let answer = client.post("/api/run/start", r#"{"title": "first", "seconds": 10}"#);
    assert_eq!((answer.status, answer.json()), (200, json!({ "state": "running" })));
    assert_eq!(client.post("/api/run/pause", "{}").json()["state"], "paused");
    assert_eq!(client.post("/api/run/resume", "").json()["state"], "running");
    assert_eq!(client.post("/api/run/stop", "{}").json()["state"], "stopping");
    let refused = client.post("/api/run/pause", "{}");
    assert_eq!((refused.status, refused.json()["advice"].as_str()), (409, Some("wait")));
    assert!(served.fake.requests()[0].contains("title: \"first\""));
    for nonsense in [r#"{"seconds": -1}"#, r#"{"hits": 0}"#, r#"{"secnods": 1}"#, "[", "{\"title\": 3}"] {
        assert_eq!(client.post("/api/run/start", nonsense).status, 400, "{nonsense}");
    }
}

#[test]
fn spectra_are_listed_packed_exported_and_emptied() {
    let served = serve();
    let client = served.client();
    let list = client.get("/api/spectra").json();
    assert_eq!(
        (&list[0]["kind"], &list[0]["source"], &list[0]["entries"]),
        (&json!("1d"), &json!("board0"), &json!(3))
    );
    let packed = client.get("/api/spectra/counts?ids=0,1").body;
    let word = |at: usize| u32::from_le_bytes(packed[at..at + 4].try_into().expect("four"));
    let long = |at: usize| u64::from_le_bytes(packed[at..at + 8].try_into().expect("eight"));
    assert_eq!((word(0), long(12), word(20)), (0, 3, 4096));
    let counts = unpack(&packed[28..28 + word(24) as usize], 4096).expect("packed");
    assert_eq!((counts[100], counts.iter().sum::<u64>()), (3, 3));
    assert_eq!(word(28 + word(24) as usize), 1, "the next spectrum follows");
    let revision = long(4);
    assert_eq!(client.get(&format!("/api/spectra/counts?ids=0:{revision}")).body.len(), 0);
    assert_eq!(client.get("/api/spectra/0/export?format=uhi").json()["uhi_schema"], 1);
    let root = client.get("/api/spectra/0/export?format=root");
    assert_eq!(root.json()["_typename"], "TH1D");
    assert!(root.header("content-disposition").is_some_and(|name| name.contains("spectrum-0")));
    for (path, status) in [
        ("/api/spectra/99/export", 404),
        ("/api/spectra/x/export", 404),
        ("/api/spectra/0/export?format=exe", 400),
        ("/api/spectra/counts", 400),
        ("/api/spectra/counts?ids=1,x", 400),
        ("/api/spectra/counts?ids=99", 404),
    ] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    let many = vec!["0"; 4097].join(",");
    assert_eq!(client.get(&format!("/api/spectra/counts?ids={many}")).status, 413);
    assert_eq!(client.post("/api/spectra/reset", r#"{"ids": [99]}"#).status, 404);
    assert_eq!(client.post("/api/spectra/reset", r#"{"ids": [0]}"#).status, 200);
    assert_eq!(client.post("/api/spectra/reset", r#"{"ids": null}"#).status, 200);
    assert_eq!(client.get("/api/spectra").json()[0]["entries"], 0);
}

#[test]
fn pulses_are_asked_by_channel() {
    let served = serve();
    let client = served.client();
    assert_eq!(client.get("/api/pulses").json()[0]["channel"], 0);
    assert_eq!(client.get("/api/pulses/0?count=9999").json().as_array().map(Vec::len), Some(256));
    assert_eq!(client.get("/api/pulses/1").status, 409);
    assert_eq!(client.get("/api/pulses/70000").status, 404);
    assert_eq!(client.get("/api/pulses/0?count=many").status, 400);
    assert_eq!(
        client.post("/api/pulses/filter", r#"{"channel": 0, "expression": "energy > 3"}"#).status,
        200
    );
    assert_eq!(served.fake.requests(), ["filter 0 energy > 3"]);
}

#[test]
fn runs_are_listed_commented_verified_and_sent() {
    let served = serve();
    let client = served.client();
    assert_eq!(client.get("/api/runs").json()[0]["name"], "run-000017");
    assert_eq!(client.get("/api/runs/run-000017").json()["name"], "run-000017");
    assert_eq!(client.post("/api/runs/run-000017/comment", r#"{"comment": "good"}"#).status, 200);
    let labels = "/api/runs/run-000017/labels";
    assert_eq!(client.post(labels, r#"{"added": ["good"], "removed": ["bad"]}"#).status, 200);
    assert_eq!(client.post(labels, r#"{"added": ["not good"]}"#).status, 409);
    assert_eq!(client.post(labels, r#"{"labels": []}"#).status, 400);
    assert_eq!(client.post("/api/runs/run-000017/notes", r#"{"text": " beam off "}"#).status, 200);
    assert_eq!(client.post("/api/runs/run-000017/notes", r#"{"text": " "}"#).status, 400);
    assert_eq!(client.post("/api/notes/next", r#"{"text": " source moved "}"#).status, 200);
    assert_eq!(client.post("/api/notes/next", r#"{"text": ""}"#).status, 400);
    assert_eq!(client.get("/api/notes/next").json()[0]["text"], "shutter closed");
    assert_eq!(client.post("/api/runs/run-000017/verify", "{}").json()["verified"], true);
    assert_eq!(
        served.fake.requests(),
        [
            "run run-000017",
            "comment run-000017 good",
            "label run-000017 [\"good\"] [\"bad\"]",
            "note run-000017 beam off",
            "note for the next run source moved",
            "verify run-000017"
        ]
    );
    let whole = client.get("/api/runs/run-000017/files/hits.arrows");
    assert_eq!((whole.status, whole.body.len(), whole.body[65_537]), (200, 700_000, 1));
    let file = "/api/runs/run-000017/files/hits.arrows";
    let part = client.ask("GET", file, &[("range", "bytes=699999-")], b"");
    assert_eq!((part.status, part.body.len()), (206, 1));
    assert_eq!(part.header("content-range"), Some("bytes 699999-699999/700000"));
    assert_eq!(client.ask("GET", file, &[("range", "bytes=700000-")], b"").status, 416);
}

#[test]
fn changes_of_what_is_shown_are_applied_refused_and_reverted() {
    let served = serve();
    let client = served.client();
    let answer = client.post("/api/view/calibrate", r#"{"channel": 0, "energy_kev": [1.5, 0.5]}"#);
    assert_eq!((answer.status, &answer.json()["number"]), (200, &1.into()));
    let region = r#"{"name": "r", "x": "energy", "y": "psd", "points": [[0, 0], [9, 1]]}"#;
    let cut = format!(r#"{{"name": "c", "keep": "inside(r)", "polygon": {region}}}"#);
    let answer = client.post("/api/view/cut", &cut).json();
    assert_eq!((&answer["kind"], &answer["in"], &answer["kept"]), (&"cut".into(), &70.into(), &30.into()));
    assert_eq!(client.post("/api/view/revert", r#"{"number": 1}"#).status, 200);
    assert_eq!(served.fake.requests(), ["calibrate 0 [1.5, 0.5]", "cut c inside(r)", "revert 1"]);
    let refused = client.post("/api/view/calibrate", r#"{"channel": 7, "energy_kev": [0, 1]}"#);
    assert_eq!((refused.status, &refused.json()["advice"]), (409, &"choose another".into()));
    assert_eq!(client.post("/api/view/revert", r#"{"number": 2}"#).status, 409);
    for (place, body) in [
        ("calibrate", r#"{"channel": 70000, "energy_kev": [0, 1]}"#),
        ("calibrate", r#"{"channel": 0, "energy_kev": [0, NaN]}"#),
        ("calibrate", r#"{"channel": 0}"#),
        ("cut", r#"{"name": "c"}"#),
        ("cut", r#"{"name": "c", "keep": "energy > 1", "on": "event"}"#),
        ("revert", "{}"),
    ] {
        assert_eq!(client.post(&format!("/api/view/{place}"), body).status, 400, "{place} {body}");
    }
}

#[test]
fn an_alarm_that_stands_is_acknowledged() {
    let served = serve();
    let client = served.client();
    assert_eq!(client.post("/api/alarms/acknowledge", r#"{"name": "loss"}"#).status, 200);
    assert_eq!(served.fake.requests(), ["acknowledge loss "]);
    assert_eq!(client.post("/api/alarms/acknowledge", r#"{"name": "heat", "subject": "crate"}"#).status, 409);
    assert_eq!(client.post("/api/alarms/acknowledge", "{}").status, 400, "which one is not said");
}

#[test]
fn a_directory_that_vanishes_is_said() {
    let served = serve();
    *served.fake.vanished.lock().expect("whole") = true;
    std::fs::remove_dir_all(served.fake.runs.path()).expect("removed");
    let client = served.client();
    assert_eq!(client.get("/api/runs").status, 409);
    assert_eq!(client.get("/api/runs/run-000017").status, 404);
    assert_eq!(client.get("/api/runs/run-000017/files/hits.arrows").status, 404);
    assert_eq!(client.get("/api/state").status, 200);
}

#[test]
fn a_busy_port_is_said_with_what_to_do() {
    let served = serve();
    let listen = served.monitor.address().to_string();
    let settings = Settings { listen: listen.clone(), ..Settings::default() };
    let error = Monitor::start(&settings, served.fake.clone()).expect_err("taken");
    assert!(matches!(error, MonitorError::Busy { .. }));
    let elsewhere = Settings { or_any_port: true, ..settings };
    let other = Monitor::start(&elsewhere, served.fake.clone()).expect("any port will do");
    assert_ne!(other.address().port(), 0);
    let message = error.to_string();
    assert!(message.contains(&listen) && message.contains("[monitor] listen"), "{message}");
    let elsewhere = Settings {
        listen: "192.0.2.1:0".into(),
        token: Some(thalweg_monitor::Token::new("0123456789abcdef")),
        ..Settings::default()
    };
    let error = Monitor::start(&elsewhere, served.fake.clone()).expect_err("not ours").to_string();
    assert!(error.contains("192.0.2.1"), "{error}");
}

#[test]
fn an_address_of_the_command_line_is_refused_by_the_name_of_its_option() {
    let served = serve();
    let refused = |listen: &str| {
        let mut settings = Settings { enabled: false, ..Settings::default() };
        settings.serve_at(listen);
        let error = Monitor::start(&settings, served.fake.clone()).expect_err("refused").to_string();
        assert!(error.contains("--listen") && !error.contains("[monitor] listen"), "{error}");
    };
    ["0.0.0.0:0", "nonsense", &served.monitor.address().to_string()].into_iter().for_each(refused);
}

#[test]
fn a_server_that_is_dropped_frees_its_port() {
    let served = serve();
    let listen = served.monitor.address().to_string();
    let _stream = served.client().connect();
    drop(served);
    let again = serve_with(|settings| settings.listen = listen);
    assert_eq!(again.client().get("/api/state").status, 200);
}
