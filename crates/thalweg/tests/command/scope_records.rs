//! Scope records that follow each other without a gap, from a board's bytes to one continuous record for each channel.
//!
//! ```text
//!  scope events: touching, overlapping, behind a gap ─► run ─► waveforms ─► one ramp for each channel between the gaps
//! ```

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thalweg::data::record_join::append_joined;
use thalweg::frontend::digitizer2::emit::{ScopeFields, scope_event};
use thalweg::record::RunRecord;
use thalweg::record::read::{CoincidencesReader, WaveformsReader};

use crate::process::{Folder, assert_ledger_balances, number, run_directory, thalweg};

/// Samples of a channel: every one has its own value.
fn ramp(channel: u16, samples: Range<u64>) -> Vec<u16> {
    samples.map(|sample| (sample as u16).wrapping_mul(3).wrapping_add(channel << 12)).collect()
}

/// What a board sends, the samples of the continuous records in it, and how many samples were sent twice.
fn scope_events() -> (Vec<u8>, Vec<Range<u64>>, u64) {
    let mut bytes = Vec::new();
    // Every record is 512 samples long; each third overlaps with the one before, and in the middle is a gap.
    let (mut at, mut continuous, mut shared) = (1000, Vec::new(), 0);
    for number in 0..300u32 {
        let overlap = if number % 3 == 2 { 4u32 } else { 0 };
        match number {
            0 | 150 => {
                at += 100;
                continuous.push(at..at + 512);
            }
            _ => {
                at -= u64::from(overlap);
                shared += u64::from(overlap);
                continuous.last_mut().expect("one has begun").end = at + 512;
            }
        }
        let fields = ScopeFields {
            trigger_id: number,
            timestamp: at,
            channel_mask: 0b1001,
            samples_overlapped: overlap as u8,
            ..ScopeFields::default()
        };
        scope_event(&mut bytes, &fields, &[&ramp(0, at..at + 512), &ramp(3, at..at + 512)]);
        at += 512;
    }
    // It claims to have sent seven of its four samples before.
    let fields = ScopeFields {
        trigger_id: 300,
        timestamp: at,
        channel_mask: 0b1001,
        samples_overlapped: 7,
        ..ScopeFields::default()
    };
    scope_event(&mut bytes, &fields, &[&ramp(0, at..at + 4), &ramp(3, at..at + 4)]);
    continuous.push(at..at + 4);
    (bytes, continuous, shared)
}

#[test]
fn scope_records_without_a_gap_are_one_record_and_an_impossible_overlap_is_refused() {
    let folder = Folder::new();
    let (bytes, continuous, shared) = scope_events();
    let file = folder.at("scope.raw");
    fs::write(&file, bytes).expect("written");
    let text = format!(
        "[[source]]\nname = \"scope\"\nformat = \"digitizer2\"\nfirmware = \"scope\"\ntick_ps = 2000\ndecimation = 1\n\
         samples_before_trigger = 64\nurl = \"file://{file}\"\n[record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    let summary = thalweg(&["run", &folder.file("run.toml", &text), "--json"]).done().json();
    assert_ledger_balances(&summary);
    let run = run_directory(&summary);
    thalweg(&["verify", &run]).done();
    let joins = serde_json::json!({ "joined": 2 * 298, "samples_overlapped": 2 * shared, "refused": 2 });
    assert_eq!(summary["scope_joins"], joins);
    let record = RunRecord::read(&Path::new(&run).join("run.json")).expect("a record");
    assert_eq!(record.details["scope_joins"], joins);
    let mut reader = WaveformsReader::open(&Path::new(&run).join("waveforms.arrows")).expect("recorded");
    let (mut rows, mut records) = (Vec::new(), [const { Vec::<Vec<i32>>::new() }; 4]);
    while reader.next_batch(&mut rows).expect("whole") {
        for row in &rows {
            assert_eq!((row.sample_ps, row.first_sample_ps), (Some(2000.0), Some(-128_000)));
            assert_eq!(row.analog_names[0].as_deref(), Some("adc_input"));
            let own = &mut records[usize::from(row.channel)];
            if row.overlapped.is_none() {
                own.push(Vec::new());
            }
            append_joined(
                own.last_mut().expect("one has begun"),
                &row.analog[0],
                row.overlapped.unwrap_or(0),
            );
        }
    }
    for channel in [0, 3] {
        let whole =
            |samples: &Range<u64>| ramp(channel, samples.clone()).into_iter().map(i32::from).collect();
        let expected: Vec<Vec<i32>> = continuous.iter().map(whole).collect();
        assert!(records[usize::from(channel)] == expected, "channel {channel}");
    }
    assert!(records[1].is_empty() && records[2].is_empty());
}

/// Takes data for a second with these sources, and what is done with them; the summary, and the run, which verifies.
fn taken(folder: &Folder, sources: &str, more: &str) -> (Value, PathBuf) {
    let text = format!(
        "[run]\ntitle = \"windows\"\n{sources}{more}[spectra]\nenabled = false\n[record]\ndirectory = \"{}\"\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    let summary = thalweg(&["run", &file, "--seconds", "1", "--json"]).done().json();
    assert_ledger_balances(&summary);
    let run = run_directory(&summary);
    thalweg(&["verify", &run]).done();
    (summary, run.into())
}

#[test]
fn a_live_board_whose_records_leave_no_gap_is_one_ramp_on_file() {
    let folder = Folder::new();
    // 40 MB/s, and a buffer that holds what comes while a busy machine looks away.
    let board = "[[source]]\nname = \"scope\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
         receive_buffer_bytes = 134_217_728\nmemory_bytes = 134_217_728\n[source.emulate]\nfirmware = \"scope\"\n\
         channels = 2\nsampling_mhz = 10\nwaveform_samples = 16384\nprepared = true\naligned_datagrams = false\n\
         external_trigger_hz = 1e9\n";
    let (summary, run) = taken(&folder, board, "");
    let mut reader = WaveformsReader::open(&run.join("waveforms.arrows")).expect("recorded");
    let (mut rows, mut next, mut records) = (Vec::new(), [0u64; 2], [0u64; 2]);
    while reader.next_batch(&mut rows).expect("whole") {
        for row in &rows {
            let channel = usize::from(row.channel);
            assert_eq!(row.overlapped, (records[channel] > 0).then_some(0), "one record continues the other");
            records[channel] += 1;
            for sample in &row.analog[0] {
                assert_eq!(*sample, i32::from((next[channel] + channel as u64) as u16));
                next[channel] += 1;
            }
        }
    }
    assert!(records[0] > 100 && records[0] == records[1], "{records:?}");
    let joins = serde_json::json!({ "joined": 2 * (records[0] - 1), "samples_overlapped": 0, "refused": 0 });
    assert_eq!(summary["scope_joins"], joins);
}

/// Records of 8 MiB in a pool that holds 2 of them, so that a record may have a quarter of it: each comes in 8 parts.
#[test]
fn records_larger_than_the_memory_allows_come_in_parts_and_no_sample_is_missing() {
    let folder = Folder::new();
    let board = "[[source]]\nname = \"scope\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
         receive_buffer_bytes = 134_217_728\nmemory_bytes = 16_777_216\n[source.emulate]\nfirmware = \"scope\"\n\
         channels = 2\nsampling_mhz = 10\nwaveform_samples = 2_097_152\nprepared = true\nprepared_mib = 16\naligned_datagrams = false\n\
         external_trigger_hz = 1e9\n";
    let (summary, run) = taken(&folder, board, "");
    let mut reader = WaveformsReader::open(&run.join("waveforms.arrows")).expect("recorded");
    let (mut rows, mut next, mut parts) = (Vec::new(), [0u64; 2], [0u64; 2]);
    while reader.next_batch(&mut rows).expect("whole") {
        for row in &rows {
            let channel = usize::from(row.channel);
            let part = row.part.expect("no record is whole");
            assert_eq!((u64::from(part.index), part.count), (parts[channel] % 8, 8));
            assert_eq!(u64::from(part.first_sample), next[channel] % 2_097_152);
            assert_eq!(row.time_ps, next[channel] as i64 * 100_000);
            assert_eq!(row.overlapped, (parts[channel] > 0).then_some(0), "one part continues the other");
            parts[channel] += 1;
            for sample in &row.analog[0] {
                assert_eq!(*sample, i32::from((next[channel] + channel as u64) as u16));
                next[channel] += 1;
            }
        }
    }
    assert!(parts[0] >= 8 && parts[0] == parts[1], "{parts:?}");
    let joins = serde_json::json!({ "joined": 2 * (parts[0].div_ceil(8) - 1), "samples_overlapped": 0, "refused": 0 });
    assert_eq!(summary["scope_joins"], joins);
}

#[test]
fn scope_events_of_two_boards_are_built_by_time() {
    let folder = Folder::new();
    let source = |name: &str, first: u16| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nfirst_channel = {first}\n\
             receive_buffer_bytes = 67_108_864\nmemory_bytes = 67_108_864\n[source.emulate]\nfirmware = \"scope\"\n\
             channels = 4\nwaveform_samples = 64\nprepared = true\nexternal_trigger_hz = 5000\n"
        )
    };
    let boards = source("left", 0) + &source("right", 4);
    let (_, run) = taken(&folder, &boards, "[coincidence]\nwindow_ps = 8000\n");
    let reader = CoincidencesReader::open(&run.join("coincidences.arrows")).expect("recorded");
    let events = reader.read_all().expect("whole");
    let whole = events.events.iter().filter(|event| event.count == 8).count();
    assert!(whole > 1000, "events with all channels of both boards: {whole}");
}

#[test]
fn what_a_board_with_zero_length_encoding_sends_is_on_file() {
    let folder = Folder::new();
    let board = "[[source]]\nname = \"zle\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
         receive_buffer_bytes = 67_108_864\nmemory_bytes = 67_108_864\n[source.emulate]\nfirmware = \"zle\"\n\
         channels = 8\nrate_hz = 200\nwaveform_samples = 512\n";
    let (summary, run) = taken(&folder, board, "");
    let sent = number(&summary, "hits_sent");
    assert!(sent > 1000 && sent.is_multiple_of(8), "{sent}");
    let mut reader = WaveformsReader::open(&run.join("waveforms.arrows")).expect("recorded");
    let (mut rows, mut good) = (Vec::new(), 0);
    while reader.next_batch(&mut rows).expect("whole") {
        good += rows.iter().map(|row| row.analog[0].len() as u64).sum::<u64>();
    }
    assert!(good > 0 && good < sent * 512 / 4, "most samples are suppressed: {good} of {}", sent * 512);
}
