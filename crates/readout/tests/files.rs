//! Files as streams.

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::{Busy, Frames, Received, Unit};
use thalweg_readout::{RunClock, Settings, SourceUrl, open};

#[test]
fn continuations_are_one_stream_cut_anywhere() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let bytes: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let mut settings =
        Settings::new(SourceUrl::parse("file://first.bin").expect("a file").relative_to(folder.path()));
    (settings.block_bytes, settings.memory_bytes) = (4096, 4 * 4096);
    let names = ["first.bin", "second.bin", "empty.bin", "third.bin"];
    let pieces = [&bytes[..1_000_001], &bytes[1_000_001..1_000_002], &[][..], &bytes[1_000_002..]];
    for (name, piece) in names.iter().zip(pieces) {
        std::fs::write(folder.path().join(name), piece).expect("a writable folder");
    }
    settings.continuations = names[1..].iter().map(|name| folder.path().join(name)).collect();
    let opened = open(&settings, RunClock::start(), &Arc::new(Busy::default())).expect("all files are there");
    let mut source = opened.source;
    assert!(source.is_stream() && source.description().contains("4000000 bytes"), "{}", source.description());
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    while source.receive(&mut frames, Duration::from_millis(1)).expect("readable") != Received::End {
        let slice = frames.slices[0];
        // Units of 7 bytes, so that each call leaves some over.
        let carried = slice.length as usize % 7;
        found.extend_from_slice(&frames.bytes(slice)[..slice.length as usize - carried]);
        source.carry(carried);
        frames.clear();
    }
    found.extend_from_slice(&bytes[found.len()..][..bytes.len() % 7]);
    assert!(found == bytes);
    assert_eq!(source.tally().total_input(Unit::Bytes), 4_000_000);
    assert_eq!(source.tally().total_output(Unit::Bytes), 4_000_000);
}

#[test]
fn a_missing_file_is_named_before_the_run() {
    let settings = Settings::new(SourceUrl::parse("file://no/such.bin").expect("a file"));
    let Err(error) = open(&settings, RunClock::start(), &Arc::new(Busy::default())) else {
        panic!("missing")
    };
    assert!(error.to_string().starts_with("no/such.bin: cannot be read"), "{error}");
}
