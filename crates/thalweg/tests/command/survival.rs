//! A run outlives whoever reads what it says: closed, full and unread streams, a terminal that goes away, signals.

use std::fs::File;
use std::io::{Read, Write, pipe};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::process::{Ended, Folder, Running, free_port, thalweg, wait_until};

/// An emulated board whose run ends by count.
fn configuration(folder: &Folder, end: &str) -> String {
    let text = format!(
        "[run]\n{end}\n[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
         [source.emulate]\nchannels = 4\nrate_hz = 5000.0\n[record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// A pipe that nobody reads any more.
fn closed() -> Stdio {
    let (_, writer) = pipe().expect("the system has pipes");
    writer.into()
}

fn full_device() -> Stdio {
    File::options().write(true).open("/dev/full").expect("Linux has it").into()
}

/// A pipe that is full and is not read for now.
fn unread() -> (std::io::PipeReader, Stdio) {
    let (reader, mut writer) = pipe().expect("the system has pipes");
    // What a pipe holds by default (pipe(7)).
    writer.write_all(&[b'.'; 1 << 16]).expect("it fits");
    (reader, writer.into())
}

/// The first run's `run.json`, when it can be read.
fn record(folder: &Folder) -> Option<Value> {
    let text = std::fs::read(Path::new(&folder.at("runs")).join("000001/run.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

#[track_caller]
fn assert_whole(folder: &Folder) {
    let record = record(folder).expect("a run");
    assert_eq!(record["state"], "stopped", "{record:#}");
    assert_eq!(thalweg(&["verify", &folder.at("runs/000001")]).code, Some(0));
}

#[test]
fn a_run_goes_on_when_its_output_is_closed_or_full() {
    for (out, error) in [(closed(), closed()), (full_device(), full_device())] {
        let folder = Folder::new();
        let file = configuration(&folder, "hits = 10000");
        let ended = Running::start_to(&[], &["run", &file, "--states", "0.01"], out, error).wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_whole(&folder);
    }
}

#[test]
fn a_run_goes_on_when_nobody_reads_its_log() {
    let folder = Folder::new();
    let file = configuration(&folder, "hits = 10000");
    let (_reader, error) = unread();
    let through = ["env", "THALWEG_LOG=trace"];
    let ended = Running::start_to(&through, &["run", &file], Stdio::piped(), error).wait().done();
    assert!(ended.out.contains("hits recorded"), "{ended:#?}");
    assert_whole(&folder);
}

#[test]
fn a_run_is_closed_while_its_summary_waits_for_a_reader() {
    let folder = Folder::new();
    let file = configuration(&folder, "hits = 10000");
    let (mut reader, out) = unread();
    let running = Running::start_to(&[], &["run", &file, "--states", "0.01"], out, Stdio::piped());
    wait_until("the run ends", || record(&folder).is_some_and(|record| record["state"] == "stopped"));
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    running.wait().done();
    let text = reading.join().expect("no panic").expect("text");
    assert!(text.contains("hits recorded"), "{text}");
    assert_whole(&folder);
}

#[test]
fn hangup_file_size_and_pipe_signals_do_not_end_a_run() {
    let folder = Folder::new();
    let file = configuration(&folder, "");
    let running = Running::start(&["run", &file, "--json"]);
    wait_until("a run", || record(&folder).is_some());
    for signal in ["HUP", "XFSZ", "PIPE", "HUP"] {
        running.signal(signal);
    }
    // A snapshot of the ledger later it still takes data.
    let size = || {
        std::fs::metadata(Path::new(&folder.at("runs")).join("000001/hits.arrows"))
            .map_or(0, |file| file.len())
    };
    let before = size();
    wait_until("hits are recorded", || size() > before.max(4096));
    running.signal("INT");
    let summary = running.wait().done().json();
    assert_eq!(summary["state"], "stopped", "{summary:#}");
    assert_whole(&folder);
}

#[test]
fn printing_commands_end_in_order_when_their_reader_has_seen_enough() {
    for arguments in [&["schema"][..], &["manual"], &["completions", "bash"], &["bench", "list"], &["--help"]]
    {
        let ended = Running::start_to(&[], arguments, closed(), Stdio::piped()).wait();
        assert_eq!((ended.code, &ended.error[..]), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn printing_commands_say_that_their_output_could_not_be_written() {
    for arguments in [&["schema"][..], &["manual"], &["completions", "bash"], &["bench", "list"]] {
        let ended = Running::start_to(&[], arguments, full_device(), Stdio::piped()).wait();
        assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:#?}");
        assert!(ended.error.contains("standard output: No space left"), "{ended:#?}");
    }
}

#[test]
fn redirected_log_lines_have_no_colour_codes() {
    let folder = Folder::new();
    let file = configuration(&folder, "hits = 1000");
    let ended = Running::start_as(&["env", "THALWEG_LOG=trace"], &["run", &file, "--verbose"]).wait().done();
    let (out, error) = (ended.out, ended.error);
    assert!(!out.contains('\u{1b}') && !error.contains('\u{1b}'), "{out}{error}");
}

#[test]
fn a_start_is_reported_in_a_line_and_with_verbose_in_full() {
    let folder = Folder::new();
    let file = configuration(&folder, "hits = 1000");
    let brief = thalweg(&["run", &file]).done().error;
    assert!(brief.lines().count() <= 3, "{brief}");
    for word in ["left", "MiB of memory", "runs"] {
        assert!(brief.contains(word), "{word} in {brief}");
    }
    let full = thalweg(&["run", &file, "-v"]).done().error;
    assert!(full.contains("rings between them") && full.lines().count() > 15, "{full}");
}

/// Names in the directory of runs that are runs.
fn runs(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.at("runs")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("000")).collect()
}

#[test]
fn a_start_that_failed_leaves_no_run_directory() {
    let folder = Folder::new();
    let port = free_port();
    let text = format!(
        "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"tcp://127.0.0.1:{port}\"\n[record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    let ended = thalweg(&["run", &folder.file("run.toml", &text)]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.error.contains(&port.to_string()), "{ended:#?}");
    assert_eq!(runs(&folder), Vec::<String>::new());
    thalweg(&["run", &configuration(&folder, "hits = 1000")]).done();
    assert_eq!(runs(&folder), ["000001"]);
}

/// A run of a UDP source for a moment; `send` is called with its port until it ends.
fn udp_run(folder: &Folder, send: impl Fn(u16)) -> Ended {
    let port = free_port();
    let text = format!(
        "[run]\nseconds = 1.0\n[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:{port}\"\n\
         [record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    let running = Running::start(&["run", &folder.file("run.toml", &text)]);
    wait_until("the run ends", || {
        send(port);
        record(folder).is_some_and(|record| record["state"] == "stopped")
    });
    running.wait()
}

#[test]
fn a_run_to_which_nothing_came_ends_with_1_and_a_word() {
    let folder = Folder::new();
    let ended = udp_run(&folder, |_| {});
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.out.contains("NO DATA: nothing came from any source in 1."), "{ended:#?}");
}

#[test]
fn a_run_whose_every_byte_was_refused_ends_with_1_and_a_word() {
    let folder = Folder::new();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let ended = udp_run(&folder, |port| _ = sender.send_to(&[0xAB; 512], ("127.0.0.1", port)));
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.out.contains("NO DATA:") && ended.out.contains("no hit or fragment"), "{ended:#?}");
}
