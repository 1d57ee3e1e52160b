//! A far host that is down: what the page, the metrics and the alarms of `thalweg serve` say, and that nothing is lost.

use std::net::TcpStream;

use serde_json::Value;

use crate::process::{Folder, Running, free_port, number, thalweg, wait_until};
use crate::retention::{get, get_as};

/// Runs of an emulated board, shipped to a receiver at this port. The disk lasts for years at this rate: the alarm looks ahead as far as it may.
fn configuration(folder: &Folder, port: u16) -> String {
    let text = format!(
        "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
         [source.emulate]\nchannels = 8\nrate_hz = 10_000\nwaveform_samples = 0\n\
         [record]\ndirectory = \"{}\"\ntables = [\"hits\"]\nbatch_age_s = 0.05\n\
         [ship]\nto = [\"receive://127.0.0.1:{port}\"]\nalarm_silent_s = 3\nalarm_disk_left_s = 31_536_000\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

fn alarm<'s>(state: &'s Value, name: &str) -> &'s Value {
    let alarms = state["alarms"].as_array().expect("a list");
    alarms.iter().find(|alarm| alarm["name"] == name).unwrap_or(&Value::Null)
}

#[test]
fn a_far_host_that_is_down_raises_alarms_and_is_shown_and_gets_everything_when_it_is_back() {
    let (folder, port) = (Folder::new(), free_port());
    let file = configuration(&folder, port);
    let address = format!("127.0.0.1:{}", free_port());
    let server = Running::start(&["serve", &file, "--listen", &address, "--start", "--json"]);
    wait_until("the page answers", || TcpStream::connect(&address).is_ok());
    let state = || get(&address, "/api/state");
    wait_until("the run has begun", || std::path::Path::new(&folder.at("runs/000001/run.json")).exists());
    let (silent, full) = ("copies stand still", "disk full before copies are made");
    let shipper = Running::start(&["ship", "--config", &file, "--follow", "--json"]);
    let mut seen = Value::Null;
    wait_until("both alarms are raised", || {
        seen = state();
        alarm(&seen, silent)["active"] == true && alarm(&seen, full)["active"] == true
    });
    let copy = &seen["copies"][0];
    let to = format!("receive://127.0.0.1:{port}");
    assert_eq!((&copy["to"], &alarm(&seen, silent)["subject"]), (&to.clone().into(), &to.clone().into()));
    assert!(number(copy, "backlog_bytes") > 100_000 && number(copy, "runs_behind") == 1, "{copy:#}");
    assert!(copy["silent_seconds"].as_f64().is_some_and(|seconds| seconds > 3.0), "{copy:#}");
    assert_eq!((number(&copy["proved"], "bytes"), &copy["balances"]), (0, &true.into()), "{copy:#}");
    let messages = seen["messages"].to_string();
    assert!(messages.contains("look whether `thalweg ship` runs"), "{messages}");
    assert!(messages.contains("nothing may be removed that has no copy"), "{messages}");
    let (_, metrics) = get_as("localhost", &address, "/metrics");
    let backlog = format!("thalweg_ship_backlog_bytes{{to=\"{to}\"}}");
    assert!(metrics.lines().any(|line| line.starts_with(&backlog) && !line.ends_with(" 0")), "{metrics}");

    let (listen, far) = (format!("127.0.0.1:{port}"), folder.at("far"));
    let receiver = Running::start(&["receive", "--listen", &listen, "--directory", &far, "--json"]);
    wait_until("the silence is over", || alarm(&state(), silent)["active"] == false);
    server.signal("TERM");
    server.wait().done();
    let run = folder.at("runs/000001");
    wait_until("everything is proved", || {
        let shown = thalweg(&["runs", "show", &run, "--json"]).done().json();
        let copy = &shown["copies"][0];
        copy["balances"] == true && copy["proved"] == copy["recorded"]
    });
    for program in [shipper, receiver] {
        program.signal("TERM");
        program.wait().done();
    }
}
