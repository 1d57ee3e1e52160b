//! Triggered boards, their events built and recorded.
//!
//! ```text
//!  [trigger] ─► emulated boards ─ TCP, UDP ─► thalweg run ─► events on file = accepted triggers; a balanced ledger
//! ```

use std::net::{TcpListener, UdpSocket};

use serde_json::Value;
use thalweg_prerequisite::recorded;

use crate::process::{
    Folder, accepted_triggers, assert_ledger_balances, number, run_directory, text, thalweg,
};

/// A run of one source; `more` are keys of the source, `sections` follow it.
fn configuration(folder: &Folder, format: &str, url: &str, more: &str, sections: &str) -> String {
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"{format}\"\nurl = \"{url}\"\n{more}\n{sections}\n[record]\n\
         directory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// What is said of the events of a run that went well: the ledger balances, and the files are what they say.
#[track_caller]
fn built(file: &str) -> (Value, Value) {
    let summary = thalweg(&["run", file, "--seconds", "60", "--json"]).done().json();
    assert_ledger_balances(&summary);
    assert_eq!(summary["failures"], Value::Array(Vec::new()), "{summary:#}");
    let verified = thalweg(&["verify", &run_directory(&summary), "--json"]).done().json();
    assert_eq!(verified["ok"], true, "{verified:#}");
    let events = summary["events"].clone();
    assert_eq!(number(&events, "events_recorded"), number(&events, "events_built"), "{events:#}");
    (summary, events)
}

/// Rows that `thalweg inspect` finds in a table of the run.
#[track_caller]
fn rows(summary: &Value, table: &str) -> u64 {
    let found = thalweg(&["inspect", &run_directory(summary), "--json"]).done().json();
    let tables = found["tables"].as_array().expect("a list");
    let of_it = tables.iter().find(|one| one["table"] == table);
    number(of_it.unwrap_or_else(|| panic!("`{table}` in {tables:#?}")), "rows")
}

const TRIGGERS: u64 = 300;

#[test]
fn every_accepted_trigger_of_105_tcp_boards_is_a_complete_event_on_file() {
    let folder = Folder::new();
    let trigger = format!("[trigger]\nprogram = \"constant\"\nrate_hz = 500.0\ntriggers = {TRIGGERS}");
    let file = configuration(&folder, "sitcp", "emulate://", "boards = 105", &trigger);
    let (summary, events) = built(&file);
    assert_eq!(number(&events, "triggers_offered"), TRIGGERS, "the run goes on to the last trigger");
    let accepted = accepted_triggers(&summary);
    assert!(accepted > 0, "{events:#}");
    assert_eq!(number(&events, "events_recorded"), accepted, "{events:#}");
    assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#}");
    for none in ["events_partial", "events_dropped", "fragments_missing", "fragments_lost"] {
        assert_eq!(number(&events, none), 0, "{none}: {events:#}");
    }
    assert_eq!(number(&events, "fragments_recorded"), 105 * accepted);
    assert_eq!((rows(&summary, "events"), rows(&summary, "fragments")), (accepted, 105 * accepted));
    assert!(number(&events, "median_event_bytes") > 105 * 200, "{events:#}");
}

#[test]
fn every_trigger_that_320_udp_boards_answer_is_an_event_whole_or_known_to_be_in_part() {
    let folder = Folder::new();
    let keys = "boards = 320\nreceive_buffer_bytes = 8388608\n[source.emulate]\npayload_bytes = 1000";
    let sections =
        "[trigger]\nprogram = \"constant\"\nrate_hz = 100.0\ntriggers = 100\n[build]\nage_ms = 500";
    let file = configuration(&folder, "fragment", "emulate://", keys, sections);
    let (summary, events) = built(&file);
    let accepted = accepted_triggers(&summary);
    let (recorded, partial) = (number(&events, "events_recorded"), number(&events, "events_partial"));
    // A trigger of which no datagram arrived leaves no event; the ledger, which balances, has it as never received.
    assert!(recorded > 0 && recorded <= accepted, "{summary:#}");
    let complete = events["closed"]["complete"].as_u64().unwrap_or(0);
    assert_eq!(complete + partial, recorded, "{events:#}");
    let (missing, lost) = (number(&events, "fragments_missing"), number(&events, "fragments_lost"));
    if recorded == accepted {
        assert_eq!(number(&events, "fragments_recorded") + missing + lost, 320 * accepted, "{summary:#}");
    }
    assert_eq!(partial == 0, missing == 0, "{events:#}");
    assert_eq!(rows(&summary, "fragments"), number(&events, "fragments_recorded"));
}

#[test]
fn frame_numbers_of_streaming_tdcs_that_wrap_in_mid_run_make_complete_events() {
    let folder = Folder::new();
    // 24 bits, far past half of their range at the start; they wrap after 116 frames.
    let trigger = format!(
        "[trigger]\nprogram = \"constant\"\nrate_hz = 500.0\ntriggers = {TRIGGERS}\nfirst_number = {}",
        (1 << 24) - 116
    );
    let keys = "boards = 3\nprofile = \"str_tdc\"\nnamed_by = \"connection\"";
    let (summary, events) = built(&configuration(&folder, "sitcp", "emulate://", keys, &trigger));
    let accepted = accepted_triggers(&summary);
    assert_eq!(number(&events["closed"], "complete"), accepted, "{events:#}");
    assert!(accepted > 116, "{events:#}");
    for none in ["events_partial", "fragments_missing", "fragments_lost"] {
        assert_eq!(number(&events, none), 0, "{none}: {events:#}");
    }
    // Triggers that were refused have numbers of their own, which no board has seen.
    assert!(number(&events, "triggers_unseen") <= number(&events, "triggers_refused"), "{events:#}");
    let losses = summary["losses"].as_array().expect("a list").iter();
    assert_eq!(losses.filter(|loss| loss["stage"] != "trigger").count(), 0, "{summary:#}");
}

#[test]
fn boards_of_two_sources_answer_one_trigger() {
    let folder = Folder::new();
    let source = |name: &str, format: &str, keys: &str| {
        format!("[[source]]\nname = \"{name}\"\nformat = \"{format}\"\nurl = \"emulate://\"\n{keys}\n")
    };
    let text = format!(
        "{}{}[trigger]\nrate_hz = 200.0\ntriggers = 60\n[record]\ndirectory = \"{}\"\n\
         tables = [\"events\", \"fragments\", \"raw\"]\n",
        source("wires", "sitcp", "boards = 3"),
        source("pixels", "fragment", "boards = 5\n[source.emulate]\nstream = true\npayload_bytes = 5000"),
        folder.at("runs")
    );
    let (summary, events) = built(&folder.file("run.toml", &text));
    assert_eq!(number(&events, "fragments_recorded"), 8 * accepted_triggers(&summary), "{summary:#}");
    assert_eq!(summary["sources"].as_array().map(Vec::len), Some(2), "{summary:#}");
}

/// Asserts that a run does not begin, and that the message has these words.
#[track_caller]
fn refused(file: &str, codes: std::ops::RangeInclusive<i32>, words: &[&str]) {
    let ended = thalweg(&["run", file, "--seconds", "1"]);
    assert!(ended.code.is_some_and(|code| codes.contains(&code)), "{ended:#?}");
    for word in words {
        assert!(ended.error.contains(word), "`{word}` in:\n{}", ended.error);
    }
}

/// The file cannot be used.
const FILE: std::ops::RangeInclusive<i32> = 2..=2;
/// Something is not as the file says.
const WORLD: std::ops::RangeInclusive<i32> = 1..=1;
/// The file cannot be used, which may be seen when things are opened.
const EITHER: std::ops::RangeInclusive<i32> = 1..=2;

#[test]
fn a_key_that_there_is_not_is_named_with_those_that_there_are() {
    let folder = Folder::new();
    let file = configuration(&folder, "sitcp", "emulate://", "bords = 105", "");
    refused(&file, FILE, &["run.toml", "line 5", "bords", "boards", "profile"]);
    let file = configuration(&folder, "sitcp", "emulate://", "[source.emulate]\nmod = \"raw\"", "");
    refused(&file, FILE, &["line 6", "mod", "mode"]);
    let file = configuration(&folder, "sitcp", "emulate://", "", "[build]\ndept = 4096");
    refused(&file, FILE, &["line 7", "dept", "depth"]);
    let file = configuration(&folder, "sitcp", "emulate://", "", "[trigger]\nprogramm = \"poisson\"");
    refused(&file, FILE, &["line 7", "programm", "program"]);
}

#[test]
fn a_depth_that_is_no_power_of_two_is_refused_with_those_that_are() {
    let folder = Folder::new();
    let file = configuration(&folder, "sitcp", "emulate://", "", "[build]\ndepth = 1000");
    refused(&file, FILE, &["depth", "1000", "power of two"]);
}

#[test]
fn a_program_that_cannot_be_is_refused() {
    let folder = Folder::new();
    let file = configuration(&folder, "sitcp", "emulate://", "", "[trigger]\nrate_hz = 0.0");
    refused(&file, EITHER, &["[trigger]", "rate_hz", "0"]);
    let file = configuration(&folder, "sitcp", "emulate://", "", "[trigger]\nprogram = \"times\"");
    refused(&file, EITHER, &["[trigger]", "times"]);
}

#[test]
fn memory_that_is_too_little_for_all_links_is_refused_with_what_is_enough() {
    let folder = Folder::new();
    let file = configuration(&folder, "sitcp", "emulate://", "boards = 105\nmemory_bytes = 8388608", "");
    refused(&file, FILE, &["memory_bytes", "8388608", "105 links", "write `memory_bytes ="]);
}

#[test]
fn sitcp_boards_do_not_send_datagrams() {
    let folder = Folder::new();
    let file = configuration(&folder, "sitcp", "udp://127.0.0.1:0", "", "");
    refused(&file, EITHER, &["stream", "tcp://"]);
}

#[test]
fn boards_that_do_not_listen_are_counted_and_the_first_is_named() {
    let folder = Folder::new();
    let url = "tcp://127.0.9.{16..40}:24240";
    let file = configuration(&folder, "sitcp", url, "named_by = \"connection\"", "");
    refused(&file, WORLD, &["25 of 25 boards", "127.0.9.16:24240"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let folder = Folder::new();
    let taken = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let address = taken.local_addr().expect("bound").to_string();
    let file = configuration(&folder, "fragment", &format!("udp://{address}"), "", "");
    refused(&file, WORLD, &[&address, "in use"]);
}

#[test]
fn a_board_that_sends_nothing_costs_no_event_and_the_ledger_balances() {
    let folder = Folder::new();
    let board = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let url = format!("tcp://{}", board.local_addr().expect("bound"));
    let file = configuration(&folder, "fragment", &url, "", "");
    let summary = thalweg(&["run", &file, "--seconds", "0.5", "--json"]).without_data().json();
    assert_ledger_balances(&summary);
    assert_eq!(number(&summary["events"], "events_recorded"), 0, "{summary:#}");
}

#[test]
fn a_recorded_stream_of_a_real_board_is_395_events() {
    let Some(recording) = recorded("20140604T140414_000002_000.dat") else { return };
    let folder = Folder::new();
    let url = format!("file://{}", text(&recording));
    let file = configuration(&folder, "sitcp", &url, "profile = \"adc_sitcp\"", "");
    let (summary, events) = built(&file);
    assert_eq!(number(&events, "events_recorded"), 395, "{summary:#}");
    assert_eq!(number(&events["closed"], "complete"), 395, "{events:#}");
    assert_eq!(number(&events, "fragments_recorded"), 395, "{events:#}");
    assert_eq!(number(&events, "fragments_lost"), 0, "{summary:#}");
    assert!(summary["elapsed_seconds"].as_f64().is_some_and(|seconds| seconds < 30.0), "it ends by itself");
}

#[test]
fn a_run_that_insists_on_whole_events_ends_at_the_first_that_is_not() {
    let folder = Folder::new();
    let sections = "[source.emulate]\nwindow = 16\n\n[[source]]\nname = \"weak\"\nformat = \"sitcp\"\nurl = \"emulate://\"\n\
                    [source.emulate.faults]\nlose_every = 20\n\n[trigger]\nrate_hz = 1000.0\ntriggers = 200\n\n\
                    [build]\nincomplete = \"stop\"\nage_ms = 50\n";
    let file = configuration(&folder, "sitcp", "emulate://", "boards = 2", sections);
    let ended = thalweg(&["run", &file, "--seconds", "20", "--json"]);
    assert_eq!(ended.code, Some(1));
    let summary = ended.json();
    let failures = summary["failures"].to_string();
    assert!(failures.contains("incomplete") && failures.contains("weak"), "{failures}");
    assert_ledger_balances(&summary);
}

#[test]
fn memory_that_cannot_hold_the_events_of_a_batch_is_refused_with_what_can() {
    let folder = Folder::new();
    let explained = |boards: u16, memory_bytes: u64, stream: bool| {
        let keys = format!("boards = {boards}\nmemory_bytes = {memory_bytes}\nblock_bytes = 131072");
        let sections =
            format!("[source.emulate]\nstream = {stream}\n[trigger]\nrate_hz = 100.0\ntriggers = 10\n");
        thalweg(&["run", &configuration(&folder, "fragment", "emulate://", &keys, &sections), "--explain"])
    };
    // A batch of 1 MiB, one that is written, and four blocks in use. Of a block, datagrams fill all but the last 64 KiB and one of them.
    for (boards, stream, least) in [(1, true, 24), (1, false, 36), (4, false, 36)] {
        let block_bytes = 131_072;
        assert_eq!(
            explained(boards, least * block_bytes, stream).code,
            Some(0),
            "{boards} boards, stream: {stream}"
        );
        let ended = explained(boards, (least - 1) * block_bytes, stream);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        let advice = format!("write memory_bytes = {} or more", least * block_bytes);
        assert!(ended.error.contains(&advice), "`{advice}` in:\n{}", ended.error);
    }
}

#[test]
fn boards_whose_trigger_time_wraps_in_microseconds_lead_by_their_arrival_alone() {
    let folder = Folder::new();
    let file = |profile: &str, tick: &str| {
        let sections = format!(
            "[[source]]\nname = \"emulated\"\nformat = \"sitcp\"\nurl = \"emulate://\"\n\
             [trigger.follow]\nsource = \"boards\"\n{tick}\n"
        );
        let profile = format!("profile = \"{profile}\"\nnamed_by = \"connection\"");
        configuration(&folder, "sitcp", "tcp://127.0.0.1:24", &profile, &sections)
    };
    for profile in ["recbe", "belle2", "adc_sitcp"] {
        refused(
            &file(profile, "tick_ps = 1000.0"),
            FILE,
            &["`tick_ps`", "\"boards\"", "wraps every 32768 counts"],
        );
    }
    for possible in [file("recbe", ""), file("str_tdc", "tick_ps = 524288000.0")] {
        thalweg(&["run", &possible, "--explain"]).done();
    }
}

#[test]
fn emulated_boards_follow_a_recorded_one_into_common_events() {
    let Some(file) = recorded("20140604T140414_000002_000.dat") else { return };
    let folder = Folder::new();
    let more = "profile = \"adc_sitcp\"\nnamed_by = \"connection\"";
    let sections = "[[source]]\nname = \"emulated\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nboards = 5\n\
                    [trigger.follow]\nsource = \"boards\"\n[build]\nfull = \"hold\"\n";
    let url = format!("file://{}", file.display());
    let (_, events) = built(&configuration(&folder, "sitcp", &url, more, sections));
    assert_eq!(number(&events["closed"], "complete"), 395, "{events:#}");
    assert_eq!(number(&events, "fragments_recorded"), 6 * 395);
}
