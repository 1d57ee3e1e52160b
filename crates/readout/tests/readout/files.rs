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
    (settings.block_bytes, settings.memory_bytes) = (Some(4096), Some(4 * 4096));
    let names = ["first.bin", "second.bin", "empty.bin", "third.bin"];
    let chunks = [&bytes[..1_000_001], &bytes[1_000_001..1_000_002], &[][..], &bytes[1_000_002..]];
    for (name, chunk) in names.iter().zip(chunks) {
        std::fs::write(folder.path().join(name), chunk).expect("a writable folder");
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
    assert_eq!(source.counters().total_input(Unit::Bytes), 4_000_000);
    assert_eq!(source.counters().total_output(Unit::Bytes), 4_000_000);
}

#[test]
fn a_missing_file_is_named_before_the_run() {
    let settings = Settings::new(SourceUrl::parse("file://no/such.bin").expect("a file"));
    let Err(error) = open(&settings, RunClock::start(), &Arc::new(Busy::default())) else {
        panic!("missing")
    };
    assert!(error.to_string().starts_with("no/such.bin: cannot be read"), "{error}");
}

#[test]
fn a_capture_of_another_program_is_read_by_url() {
    use pcap_file::pcap::{PcapPacket, PcapWriter};
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("capture.pcap");
    let file = std::fs::File::create(&path).expect("a writable folder");
    let mut writer = PcapWriter::new(file).expect("a header");
    for (index, port) in [51_940u16, 9, 51_940].into_iter().enumerate() {
        let packet = ethernet_udp(port, &[index as u8; 100]);
        let time = Duration::from_millis(5000 + 7 * index as u64);
        let packet = PcapPacket::new(time, packet.len() as u32, &packet);
        writer.write_packet(&packet).expect("a writable file");
    }
    drop(writer);
    let settings = Settings::new(
        SourceUrl::parse("pcap://capture.pcap?port=51940").expect("a capture").relative_to(folder.path()),
    );
    let opened =
        open(&settings, RunClock::start(), &Arc::new(Busy::default())).expect("the capture is there");
    let (mut source, mut frames, mut found) = (opened.source, Frames::default(), Vec::new());
    while source.receive(&mut frames, Duration::from_millis(1)).expect("readable") != Received::End {
        let mark = frames.header.mark;
        found.extend(frames.slices.iter().map(|slice| (mark.0, frames.bytes(*slice).to_vec())));
        frames.clear();
    }
    assert_eq!(found, [(0, vec![0; 100]), (14_000_000, vec![2; 100])], "marks are capture time");
    let counters = source.counters();
    assert_eq!((counters.total_input(Unit::Datagrams), counters.total_output(Unit::Datagrams)), (3, 2));
    assert_eq!(counters.total_filtered(Unit::Datagrams), 1);
}

/// An Ethernet frame with a UDP datagram in it.
fn ethernet_udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let (udp, ip) = (8 + payload.len() as u16, 28 + payload.len() as u16);
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend(ip.to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([1000u16, port, udp, 0].into_iter().flat_map(u16::to_be_bytes));
    frame.extend(payload);
    frame
}
