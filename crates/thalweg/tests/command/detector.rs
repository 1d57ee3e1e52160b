//! Triggered boards of one process, the run of another, both of one file.
//!
//! ```text
//!  thalweg emulate FILE ─ TCP, UDP ─► thalweg run FILE
//!                 ▲──── BUSY ────────────┘
//! ```

use std::net::TcpListener;

use crate::process::{
    Folder, Running, assert_ledger_balances, free_port, free_ports, number, run_directory, thalweg,
};

fn configuration(folder: &Folder, source: &str, sections: &str) -> String {
    let text = format!(
        "[[source]]\nname = \"boards\"\n{source}\n{sections}[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// Both ends for so many triggers, the run once the boards listen at these TCP and UDP ports: every trigger that was accepted is a
/// complete event of so many fragments.
fn every_accepted_trigger_is_complete(file: &str, ports: [&[u16]; 2], triggers: &str, boards: u64) {
    let arguments = ["emulate", file, "--triggers", triggers, "--seconds", "100", "--json"];
    let emulated = Running::start_as(&["env", "THALWEG_LOG=thalweg_run=info"], &arguments);
    emulated.wait_for_ports(ports[0], ports[1]);
    let run = Running::start(&["run", file, "--seconds", "100", "--json"]);
    emulated.wait_for_text("every answer is sent");
    // What had come by the stop is taken; the boards end when their clients have gone.
    run.signal("INT");
    let summary = run.wait().done().json();
    let sent = emulated.wait().done().json();
    assert_ledger_balances(&summary);
    thalweg(&["verify", &run_directory(&summary)]).done();
    let (events, accepted) = (&summary["events"], number(&sent, "triggers_accepted"));
    assert_eq!(number(&sent, "triggers_offered").to_string(), triggers, "{sent:#}");
    assert_eq!(number(&sent, "boards"), boards);
    assert_eq!(number(&sent, "fragments_sent"), boards * accepted, "{sent:#}");
    assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#} {sent:#}");
    assert_eq!(number(events, "fragments_recorded"), boards * accepted, "{events:#}");
    assert!(sent["skew_us"]["p50"].as_f64().is_some_and(|skew| skew > 0.0), "{sent:#}");
}

#[test]
fn sitcp_boards_elsewhere_are_connected_to_set_and_built() {
    let folder = Folder::new();
    let (register, ports) = (free_port(), free_ports::<5>());
    let source = format!(
        "format = \"sitcp\"\nurl = \"tcp://127.0.0.1:{{{}}}\"\nregister_port = {register}\n\
         parameters = [[\"window\", \"16\"]]",
        ports.map(|port| port.to_string()).join(",")
    );
    let file = configuration(&folder, &source, "[trigger]\nrate_hz = 400.0\n[build]\nfull = \"hold\"\n");
    every_accepted_trigger_is_complete(&file, [&ports, &[register]], "300", 5);
}

#[test]
fn fragments_of_boards_elsewhere_wait_for_busy_to_be_reported() {
    let folder = Folder::new();
    let (data, busy) = (free_port(), free_port());
    let source = format!(
        "format = \"fragment\"\nurl = \"udp://127.0.0.1:{data}\"\nboards = 7\npolicy = \"drop\"\n[source.emulate]\n\
         payload_bytes = 12000"
    );
    let sections = format!("[trigger]\nrate_hz = 200.0\n[busy]\nudp = \"127.0.0.1:{busy}\"\n");
    let file = configuration(&folder, &source, &sections);
    every_accepted_trigger_is_complete(&file, [&[], &[busy]], "200", 7);
}

#[test]
fn what_cannot_be_emulated_elsewhere_is_refused_with_what_can() {
    let folder = Folder::new();
    let refused = |source: &str, words: &[&str]| {
        let file = configuration(&folder, source, "");
        let ended = thalweg(&["emulate", &file, "--seconds", "1"]);
        assert!(matches!(ended.code, Some(1 | 2)), "{ended:#?}");
        words.iter().for_each(|word| assert!(ended.error.contains(word), "`{word}` in {}", ended.error));
    };
    refused("format = \"fragment\"\nurl = \"emulate://\"", &["boards", "tcp://", "thalweg run"]);
    refused("format = \"digitizer2\"\nurl = \"udp://127.0.0.1:9\"", &["self-triggered", "--boards"]);
    refused("format = \"fragment\"\nurl = \"udp://0.0.0.0:9009\"", &["0.0.0.0:9009", "--to HOST:9009"]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let url = format!("tcp://{}", taken.local_addr().expect("bound"));
    refused(&format!("format = \"fragment\"\nurl = \"{url}\""), &["emulated board", "in use"]);
    let together = thalweg(&["emulate", "run.toml", "--boards", "3"]);
    assert_eq!(together.code, Some(2), "{together:#?}");
}
