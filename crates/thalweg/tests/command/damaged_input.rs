//! Captures and files of which a part cannot be read.

use serde_json::Value;

use crate::process::{Ended, Folder, assert_ledger_balances, number, run_directory, thalweg};
use crate::refused::datagram;

/// A packet of 20 bytes: number, bytes behind the header, time, and payload.
fn packet(number: u32) -> Vec<u8> {
    [&[0xA5, 0x5A][..], &number.to_be_bytes(), &8u16.to_be_bytes(), &number.to_be_bytes(), &[7; 8]].concat()
}

/// Reads `input` as packets of that kind.
fn run(name: &str, input: &[u8], stream: bool) -> Ended {
    let folder = Folder::new();
    std::fs::write(folder.path().join(name), input).expect("written");
    let runs = folder.at("runs");
    let scheme = if stream { "file" } else { "pcap" };
    let text = format!(
        r#"
[[source]]
name = "board"
format = "generic"
url = "{scheme}://{name}"
byte_order = "big"
stream = {stream}
header_bytes = 12
field = {{ mark = {{ offset = 0, width = 2 }}, number = {{ offset = 2, width = 4 }}, bytes = {{ offset = 6, width = 2 }}, time = {{ offset = 8, width = 4 }} }}
check = [{{ field = "mark", equals = 0xA55A }}]
sequence = {{ field = "number" }}
trigger = {{ field = "number" }}
timestamp = {{ field = "time", tick_ps = 1000.0 }}
length = {{ field = "bytes" }}
hits = {{ per = "packet" }}
[record]
directory = "{runs}"
"#
    );
    thalweg(&["run", &folder.file("run.toml", &text), "--json"])
}

fn lost(summary: &Value, reason: &str, unit: &str) -> u64 {
    let losses = summary["losses"].as_array().expect("a list").iter();
    losses
        .filter(|loss| loss["reason"] == reason && loss["unit"] == unit && loss["stage"] != "wire")
        .map(|loss| number(loss, "count"))
        .sum()
}

/// A UDP datagram in IPv4 in a record of a capture, and the byte at which it begins there.
fn record(file: &mut Vec<u8>, index: u32, payload: &[u8]) -> usize {
    let at = file.len();
    let bytes = payload.len() as u16 + 28;
    for field in [1_700_000_000, index, u32::from(bytes), u32::from(bytes)] {
        file.extend(field.to_le_bytes());
    }
    file.extend([0x45, 0]);
    file.extend(bytes.to_be_bytes());
    file.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 7, 10, 0, 0, 1]);
    for field in [4000, 51_940, bytes - 20, 0] {
        file.extend(field.to_be_bytes());
    }
    file.extend(payload);
    at
}

fn capture(packets: u32, payload: impl Fn(u32) -> Vec<u8>) -> (Vec<u8>, Vec<usize>) {
    let mut file = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    let starts = (0..packets).map(|index| record(&mut file, index, &payload(index))).collect();
    (file, starts)
}

#[test]
fn a_damaged_capture_is_read_on_and_what_is_not_read_is_lost_with_its_place() {
    let (sound, starts) = capture(1000, packet);
    let summary = run("sound.pcap", &sound, false).done().json();
    assert_eq!(number(&summary, "hits_recorded"), 1000);
    let mut damaged = sound;
    damaged[starts[600] + 8..starts[600] + 12].fill(0xFF);
    let ended = run("damaged.pcap", &damaged, false);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let summary = ended.json();
    assert_ledger_balances(&summary);
    assert_eq!(number(&summary, "hits_recorded"), 999, "{summary:#}");
    assert_eq!(lost(&summary, "capture_damaged", "bytes"), 64, "{summary:#}");
    assert_eq!(lost(&summary, "capture_damaged", "datagrams"), 1, "{summary:#}");
    assert_fails_at(&summary, starts[600]);
}

/// Asserts that the run failed because of the damaged capture, and that it says where that is.
#[track_caller]
fn assert_fails_at(summary: &Value, byte: usize) {
    let failures = summary["failures"].to_string();
    let has_place = failures.contains("damaged.pcap") && failures.contains(&format!("at byte {byte}"));
    assert!(has_place, "{failures}");
}

#[test]
fn a_damaged_capture_of_triggered_boards_fails_the_run_with_its_place() {
    let (mut bytes, starts) = capture(1000, |index| datagram(10, 7, u64::from(index)));
    let read = |name: &str, bytes: &[u8]| {
        let folder = Folder::new();
        std::fs::write(folder.path().join(name), bytes).expect("written");
        let text = format!(
            "[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"pcap://{name}\"\nfirst_board = 10\nboards = 1\n\
             [record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
            folder.at("runs")
        );
        thalweg(&["run", &folder.file("run.toml", &text), "--json"])
    };
    let events = |summary: &Value| number(&summary["events"], "events_recorded");
    assert_eq!(events(&read("sound.pcap", &bytes).done().json()), 1000);
    bytes[starts[600] + 8..starts[600] + 12].fill(0xFF);
    let ended = read("damaged.pcap", &bytes);
    let summary = ended.json();
    assert_ledger_balances(&summary);
    assert_eq!((ended.code, events(&summary)), (Some(1), 999), "{summary:#}");
    assert_eq!(lost(&summary, "capture_damaged", "datagrams"), 1, "{summary:#}");
    assert_fails_at(&summary, starts[600]);
}

#[test]
fn a_frame_that_a_stream_of_fragments_lacks_is_the_same_loss_in_the_run_and_in_its_record() {
    let (folder, whole) = (Folder::new(), (0..10).flat_map(|trigger| datagram(10, 7, trigger)));
    let bytes: Vec<u8> = whole.chain([0x74, 0x57, 1]).collect();
    std::fs::write(folder.path().join("cut.bin"), bytes).expect("written");
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"fragment\"\nurl = \"file://cut.bin\"\nfirst_board = 10\n\
         [record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\"]\n",
        folder.at("runs")
    );
    let summary = thalweg(&["run", &folder.file("run.toml", &text), "--json"]).json();
    assert_ledger_balances(&summary);
    assert_eq!(number(&summary["events"], "events_recorded"), 10, "{summary:#}");
    assert_eq!(lost(&summary, "unfinished", "frames"), 1, "{summary:#}");
    let total = &summary["loss"]["totals"][0]["text"];
    let (total, directory) = (total.as_str().expect("text"), run_directory(&summary));
    let kind = "lost 1 frames (9.1 %) of boards at unpack: unfinished";
    for (command, words) in [(&["verify"][..], &[total][..]), (&["runs", "show"], &[total, kind])] {
        let shown = thalweg(&[command, &[&directory]].concat());
        assert!(words.iter().all(|words| shown.out.contains(words)), "{words:?}: {shown:#?}");
    }
}

#[test]
fn the_last_packet_of_a_damaged_file_is_delivered() {
    let mut bytes = (0..100).flat_map(packet).collect::<Vec<_>>();
    bytes[98 * 20] = 0;
    let summary = run("stream.bin", &bytes, true).done().json();
    assert_ledger_balances(&summary);
    assert_eq!(number(&summary, "hits_recorded"), 99, "{summary:#}");
    assert_eq!(lost(&summary, "resynchronised", "bytes"), 20, "{summary:#}");
    assert_eq!(lost(&summary, "unfinished", "bytes"), 0, "{summary:#}");
}
