//! Configurations that are wrong, and what is said about them.

use crate::process::{Ended, Folder, number, thalweg};

fn run(text: &str) -> Ended {
    let folder = Folder::new();
    let file = folder.file("wrong.toml", text);
    thalweg(&["run", &file])
}

/// Exit code 2, and every one of `words` in the message.
#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let ended = run(text);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    for word in words.iter().chain(&["wrong.toml"]) {
        assert!(ended.error.contains(word), "`{word}` in:\n{}", ended.error);
    }
}

const SOURCE: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:0\"\n";

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_keys_there_are() {
    refused(&format!("{SOURCE}polocy = \"drop\"\n"), &["line 5", "polocy", "policy", "name", "url"]);
}

#[test]
fn an_unknown_section_is_named_with_its_line() {
    refused(&format!("{SOURCE}[recrod]\ndirectory = \"x\"\n"), &["line 5", "recrod", "[record]"]);
}

#[test]
fn a_wrong_word_is_named_with_those_there_are() {
    let text = SOURCE.replace("digitizer2", "digitiser3");
    refused(&text, &["line 3", "digitiser3", "digitizer2", "generic", "compass", "abcd"]);
}

#[test]
fn a_wrong_type_is_named_with_what_is_expected() {
    refused(&format!("[run]\nseconds = \"ten\"\n{SOURCE}"), &["line 2", "seconds", "ten"]);
    let emulated = SOURCE.replace("udp://127.0.0.1:0", "emulate://");
    let rate = format!("{emulated}[source.emulate]\nrate_hz = \"20kHz\"\n");
    refused(&rate, &["expected a rate in Hz (20000.0), or a list of one for each channel"]);
}

#[test]
fn a_syntax_error_points_at_its_line() {
    refused(&format!("{SOURCE}policy = \n"), &["line 5"]);
}

#[test]
fn a_missing_key_is_named() {
    refused("[[source]]\nname = \"left\"\nurl = \"udp://127.0.0.1:0\"\n", &["line 1", "format"]);
}

#[test]
fn two_sources_of_one_name_are_refused() {
    refused(&format!("{SOURCE}{SOURCE}"), &["line 5", "left"]);
}

#[test]
fn without_a_source_an_example_is_given() {
    refused("[run]\ntitle = \"x\"\n", &["[[source]]", "url ="]);
}

#[test]
fn a_url_that_means_nothing_is_refused_with_those_that_do() {
    refused(
        &SOURCE.replace("udp://127.0.0.1:0", "carrier-pigeon://x"),
        &["line 4", "carrier-pigeon", "udp://"],
    );
}

#[test]
fn an_invalid_policy_on_old_runs_is_refused() {
    for (rules, words) in [
        ("", &["retention", "says nothing"][..]),
        ("most_bytes = 2000\n", &["retention", "most_bytes = 2000"]),
        ("most_bytes = -1\n", &["line 6", "most_bytes = -1"]),
        ("most_runs = 0\n", &["retention", "most_runs = 0"]),
        ("least_free_bytes = 9000000000000000000\n", &["retention", "never free"]),
        ("most_byte = 2000000000\n", &["line 6", "most_bytes"]),
    ] {
        refused(&format!("{SOURCE}[record.retention]\n{rules}"), words);
    }
}

const EMULATED: &str =
    "[[source]]\nname = \"left\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 2\n";
const GENERIC: &str = include_str!("../../../../examples/sources/mcpd.toml");

#[test]
fn errors_of_every_section_have_their_line_and_explain_finds_what_the_start_would() {
    for (text, words) in [
        (
            format!("{SOURCE}[[cut]]\nname = \"fast\"\nkeep = \"enregy > 5\"\n"),
            &["line 7", "fast", "enregy"][..],
        ),
        (format!("{SOURCE}[coincidence]\nwindow_ps = -5\n"), &["line 6", "window_ps = -5"]),
        (format!("{SOURCE}[coincidence]\nwindow_ps = 5\nat_least = 9000\n"), &["line 7", "`at_least`"]),
        (
            GENERIC.replace(
                "\"generic\"",
                "\"generic\"
header_bytes = 3",
            ),
            &["line 7", "header_bytes"],
        ),
        (format!("{SOURCE}[source.faults]\ndrop = 7.0\n"), &["line 6", "drop"]),
        (format!("{SOURCE}[busy]\nudp = \"nonsense\"\n"), &["line 6", "HOST:PORT"]),
        (format!("{SOURCE}[record]\nbatch_hits = 0\n"), &["line 6", "batch_hits = 0"]),
        (format!("{SOURCE}[monitor]\nstreams = 0\n"), &["line 6", "streams"]),
        (format!("{SOURCE}[[alarm]]\nname = \"x\"\nquantity = \"nothing\"\n"), &["line 7", "quantity"]),
        (format!("{EMULATED}[source.emulate]\ndatagram_bytes = 1\n"), &["line 7", "datagram_bytes"]),
        (format!("{EMULATED}[build]\ndepth = 17\n"), &["line 7", "depth = 17"]),
        (
            format!("{EMULATED}[run]\nseconds = 0\n"),
            &["line 7", "`seconds = 0` must be above 0; leave it out to run until stopped"],
        ),
        (format!("{EMULATED}[run]\nevents = 0\n"), &["line 7", "`events = 0` must be above 0"]),
        (format!("{EMULATED}[run]\nseconds = inf\n"), &["line 7", "`seconds = inf`: leave it out"]),
        (format!("{EMULATED}[unattended]\nmost_failures = 0\n"), &["line 7", "`most_failures = 0`: write 1"]),
        (format!("{EMULATED}[record]\ndirectory = \"\"\n"), &["line 7", "`directory = \"\"`: write"]),
        (
            format!("{EMULATED}[build]\nchained_slices = 2147483648\n"),
            &["line 7", "chained_slices", "at most"],
        ),
        (format!("{EMULATED}[trigger]\nrate_hz = -1.0\n"), &["line 7", "rate_hz"]),
        (format!("{EMULATED}[trigger.follow]\nsource = \"right\"\n"), &["line 7", "right"]),
    ] {
        let folder = Folder::new();
        let file = folder.file("wrong.toml", &text);
        for arguments in [&["run", &file, "--explain"][..], &["run", &file, "--seconds", "0.1"]] {
            let ended = thalweg(arguments);
            assert_eq!(ended.code, Some(2), "{arguments:?}: {text}{ended:#?}");
            for word in words {
                assert!(ended.error.contains(word), "`{word}` of {arguments:?} in:\n{}", ended.error);
            }
        }
    }
}

#[test]
fn a_rate_that_is_no_number_is_refused_with_its_option() {
    for rate in ["nan", "inf"] {
        let ended = thalweg(&["demo", "--rate", rate]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.error.contains("--rate") && ended.error.contains("finite number"), "{}", ended.error);
    }
}

#[test]
fn a_run_of_no_time_is_refused() {
    for seconds in ["0", "0.0", "nan", "inf"] {
        let ended = thalweg(&["run", "run.toml", "--seconds", seconds]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.error.contains("must be above 0; leave it out"), "{}", ended.error);
    }
}

#[test]
fn times_and_counts_that_no_command_can_end_by_are_refused() {
    let commands: [&[&str]; 3] =
        [&["emulate"], &["inspect", "udp://127.0.0.1:0", "--format", "digitizer2"], &["bench", "live"]];
    for command in commands {
        for seconds in ["--seconds=nan", "--seconds=inf", "--seconds=-1", "--seconds=0"] {
            let ended = thalweg(&[command, &[seconds]].concat());
            assert_eq!(ended.code, Some(2), "{ended:#?}");
            assert!(ended.error.contains("must be a number of seconds above 0"), "{}", ended.error);
        }
    }
    let ended = thalweg(&["bench", "process", "--repeats", "0"]);
    assert!(ended.code == Some(2) && ended.error.contains("must be from 1"), "{ended:#?}");
}

#[test]
fn a_file_that_is_not_there_is_said_to_be_so() {
    let ended = thalweg(&["run", "/nowhere/at-all.toml"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.error.contains("/nowhere/at-all.toml"), "{}", ended.error);
}

#[test]
fn the_memory_of_injected_faults_is_in_the_budget() {
    let folder = Folder::new();
    let budget = |faults: &str| {
        let text =
            format!("[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n{faults}");
        let plan = thalweg(&["run", &folder.file("run.toml", &text), "--explain", "--json"]).done().json();
        plan["budget"].as_array().expect("a list").iter().map(|item| number(item, "bytes")).sum::<u64>()
    };
    assert_eq!(budget("[source.faults]\ndrop = 0.01\n"), budget("") + (4 << 20));
    assert_eq!(budget("[source.faults]\n"), budget(""), "no fault takes memory");
}

#[test]
fn a_plan_is_explained_without_running() {
    let folder = Folder::new();
    let file = folder.file("run.toml", SOURCE);
    let plan = thalweg(&["run", &file, "--explain", "--json"]).done().json();
    assert!(plan["budget"].as_array().is_some_and(|items| !items.is_empty()), "{plan:#}");
    assert!(plan["threads"].as_array().is_some_and(|threads| threads.len() >= 2), "{plan:#}");
    let text = thalweg(&["run", &file, "--explain"]).done().out;
    let path = text.split("\n\n").next().expect("a part");
    let stages: Vec<&str> = path.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(stages[stages.len() - 5..], ["unpack", "decode", "order", "spectra", "record"], "{path}");
    let picture = thalweg(&["run", &file, "--explain", "--svg"]).done().out;
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
    for words in ["decode", "order", "record"] {
        assert!(picture.contains(words), "{words} in {picture}");
    }
    let refused = thalweg(&["run", &file, "--svg"]);
    assert!(refused.error.contains("--explain"), "{}", refused.error);
}

#[test]
fn free_space_that_cannot_be_left_is_refused() {
    let record = |keys: &str| format!("{SOURCE}[record]\n{keys}\n");
    refused(&record("least_free_bytes = 3"), &["`least_free_bytes = 3`", "write 1000000 or more"]);
    refused(&record("least_free_bytes = 9_000_000_000_000_000_000"), &["is never free", "write less"]);
    let retention = "least_free_bytes = 5_000_000\n[record.retention]\nleast_free_bytes = 5_000_000";
    refused(&record(retention), &["is not below that of `[record.retention]`, 5000000"]);
}
