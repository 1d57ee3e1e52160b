//! Every link layer and format, damage of every kind, and the balance equation `in = out + filtered + lost` behind every batch.

use std::io::Cursor;
use std::net::SocketAddr;

use proptest::prelude::*;
use thalweg_data::{LossReason, SourceError};

use super::write::{ethernet_frame, file_header, ip_packet};
use std::time::Duration;

use thalweg_data::{Counters, Frames, Pool, Received, Source, Unit};

use super::check::check_counters;
use super::*;

const PORT: u16 = 51940;
const START_NS: u64 = 1_700_000_000_123_456_789;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn board() -> SocketAddr {
    address("10.0.0.7:4000")
}

fn host() -> SocketAddr {
    address("10.0.0.1:51940")
}

fn payload(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (number * 31 + index) as u8).collect()
}

fn packet(number: usize, length: usize) -> Vec<u8> {
    ip_packet(board(), host(), &payload(number, length)).expect("possible")
}

/// A capture of frames as they are: (time since the start, bytes on the wire, captured bytes).
fn capture_of(link: u32, frames: &[(u64, usize, Vec<u8>)]) -> Vec<u8> {
    let mut file = file_header(link).to_vec();
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
    for (time_ns, wire, frame) in frames {
        writer.frame(START_NS + time_ns, *wire, frame).expect("memory");
    }
    file.extend(&writer.finish().expect("memory")[24..]);
    file
}

/// A capture of whole frames, a microsecond apart.
fn whole(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let frames = frames.iter().zip(0..).map(|(frame, index)| (index * 1000, frame.len(), frame.clone()));
    capture_of(link, &frames.collect::<Vec<_>>())
}

#[derive(Debug, Default)]
struct Outcome {
    datagrams: Vec<Vec<u8>>,
    /// The mark of each batch, and how many datagrams it had.
    batches: Vec<(u64, usize)>,
    counters: Counters,
    drop_counters: Vec<(&'static str, u64)>,
    description: String,
}

impl Outcome {
    fn lost(&self, reason: LossReason) -> (u64, u64) {
        (self.counters.total_lost(reason, Unit::Datagrams), self.counters.total_lost(reason, Unit::Bytes))
    }

    fn filtered(&self) -> (u64, u64) {
        (self.counters.total_filtered(Unit::Datagrams), self.counters.total_filtered(Unit::Bytes))
    }

    fn lost_any(&self) -> u64 {
        self.counters.total_lost_any(Unit::Datagrams)
    }

    fn beside(&self, name: &str) -> u64 {
        self.drop_counters.iter().find(|(each, _)| *each == name).expect("there is such a counter").1
    }
}

fn open(file: &[u8], filter: PcapFilter, pool: Pool) -> Result<PcapSource, SourceError> {
    PcapSource::read("test.pcap".to_owned(), Box::new(Cursor::new(file.to_vec())), filter, pool)
}

fn run(mut source: PcapSource) -> Outcome {
    let (mut outcome, mut frames, mut seen) = (Outcome::default(), Frames::default(), [0; 2]);
    loop {
        frames.clear();
        let received = source.receive(&mut frames, Duration::ZERO).expect("memory can be read");
        outcome.datagrams.extend(frames.slices.iter().map(|slice| frames.bytes(*slice).to_vec()));
        outcome.batches.push((frames.header.mark.0, frames.slices.len()));
        seen[0] += frames.slices.len() as u64;
        seen[1] += frames.byte_count();
        check_counters(source.counters(), seen);
        if received == Received::End {
            break;
        }
    }
    (outcome.counters, outcome.drop_counters) = (source.counters().clone(), source.drop_counters());
    outcome.description = source.description();
    outcome
}

fn read(file: &[u8]) -> Outcome {
    let filter = PcapFilter::of(Some(PORT), &[]);
    run(open(file, filter.clone(), Pool::new(4, 128 << 10).expect("small")).expect("a capture"))
}

fn refusal(file: &[u8]) -> String {
    let pool = Pool::new(4, 4096).expect("small");
    open(file, PcapFilter::default(), pool).err().expect("refused").to_string()
}

#[test]
fn datagrams_of_both_families_come_out_as_they_went_in() {
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
    let expected = (0..1000).map(|number| payload(number, number * 7)).collect::<Vec<_>>();
    for (number, payload) in expected.iter().enumerate() {
        let (from, to) = match number % 2 {
            0 => (board(), host()),
            _ => (address("[fd00::7]:4000"), address("[fd00::1]:51940")),
        };
        writer.datagram(START_NS + number as u64 * 10_000, from, to, payload).expect("possible");
        writer.datagram(START_NS, from, address("10.0.0.1:53"), b"dns").ok();
    }
    let file = writer.finish().expect("memory");
    let outcome = read(&file);
    assert_eq!(outcome.datagrams, expected);
    assert_eq!(outcome.filtered(), (500, 1500));
    assert_eq!(outcome.lost_any(), 0);
    assert!(outcome.description.contains("pcap file test.pcap: UDP to port 51940, asked for"));
    // Small blocks: records straddle their ends.
    let pool = Pool::new(3, 8192).expect("small");
    let filter = PcapFilter::of(Some(PORT), &[]);
    let outcome = run(open(&file, filter.clone(), pool).expect("a capture"));
    assert_eq!(outcome.datagrams, expected);
    assert!(outcome.beside("capture_copied_bytes") > 0);
}

#[test]
fn a_stock_reader_reads_what_is_written_and_its_files_are_read() {
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
    for number in 0..10 {
        let time_ns = START_NS + number as u64;
        writer.datagram(time_ns, board(), host(), &payload(number, 100)).expect("possible");
    }
    let file = writer.finish().expect("memory");
    let mut stock = pcap_file::pcap::PcapReader::new(Cursor::new(&file)).expect("a pcap file");
    let mut pcapng = pcap_file::pcapng::PcapNgWriter::new(Vec::new()).expect("memory");
    let interface = pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock {
        linktype: pcap_file::DataLink::ETHERNET,
        snaplen: 0,
        options: vec![
            pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption::IfTsResol(9),
        ],
    };
    pcapng.write_pcapng_block(interface).expect("memory");
    let mut count = 0;
    while let Some(packet) = stock.next_packet() {
        let packet = packet.expect("sound");
        assert_eq!(packet.timestamp.as_nanos() as u64, START_NS + count);
        assert_eq!(packet.data[42..], payload(count as usize, 100));
        count += 1;
        let block = pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock {
            interface_id: 0,
            timestamp: packet.timestamp,
            original_len: packet.orig_len,
            data: packet.data,
            options: Vec::new(),
        };
        pcapng.write_pcapng_block(block).expect("memory");
    }
    assert_eq!(count, 10);
    let (one, other) = (read(&file), read(&pcapng.into_inner()));
    assert_eq!((one.datagrams.len(), &one.datagrams), (10, &other.datagrams));
    assert_eq!((one.batches[0], &one.batches), ((9, 10), &other.batches));
    assert!(other.description.starts_with("pcapng file"));
}

#[test]
fn every_link_layer_is_read() {
    let (packet, six) =
        (packet(1, 100), ip_packet(address("[::1]:1"), address("[::2]:51940"), &payload(1, 100)));
    let six = six.expect("possible");
    let with = |header: &[u8]| [header, &packet].concat();
    let six_with = |header: &[u8]| [header, &six].concat();
    let ethernet = [2; 12];
    let tagged = |tags: &[u8]| with(&[&ethernet[..], tags, &[8, 0]].concat());
    let cooked = [&[0, 0, 0, 1, 0, 6][..], &[2; 8], &[8, 0]].concat();
    let cooked_2 = |kind: [u8; 2]| [&kind[..], &[0, 0, 0, 0, 0, 2, 0, 1, 0, 6], &[2; 8]].concat();
    for (link, frame) in [
        (1, ethernet_frame(&packet)),
        (1, ethernet_frame(&six)),
        (1, tagged(&[0x81, 0, 0, 5])),
        (1, tagged(&[0x88, 0xA8, 0, 5, 0x81, 0, 0, 6])),
        (1, tagged(&[0x91, 0, 0, 5, 0x81, 0, 0, 6])),
        (0, with(&[2, 0, 0, 0])),
        (0, with(&[0, 0, 0, 2])),
        (0, six_with(&[30, 0, 0, 0])),
        (108, six_with(&[0, 0, 0, 24])),
        (101, packet.clone()),
        (12, six.clone()),
        (228, packet.clone()),
        (229, six.clone()),
        (113, with(&cooked)),
        (113, with(&[&cooked[..14], &[0x81, 0, 0, 7, 8, 0]].concat())),
        (276, with(&cooked_2([8, 0]))),
        (276, six_with(&cooked_2([0x86, 0xDD]))),
        (276, with(&[&cooked_2([0x81, 0])[..], &[0, 7, 8, 0]].concat())),
        // The frame check sequence's length in the upper bits.
        (0x2400_0001, ethernet_frame(&packet)),
    ] {
        let outcome = read(&whole(link, std::slice::from_ref(&frame)));
        assert_eq!(outcome.datagrams, [payload(1, 100)], "link {link}: {:02x?}", &frame[..24]);
    }
}

#[test]
fn what_is_no_udp_is_filtered() {
    let arp = [&[2; 12][..], &[8, 6], &[0; 46]].concat();
    let mut tcp = packet(1, 100);
    tcp[9] = 6;
    let stp = [&[2; 12][..], &[0, 38], &[0; 38]].concat();
    let outcome = read(&whole(1, &[arp, ethernet_frame(&tcp), stp, ethernet_frame(&packet(2, 9))]));
    assert_eq!((outcome.datagrams.len(), outcome.filtered()), (1, (3, 0)));
    assert_eq!((outcome.beside("capture_not_udp"), outcome.lost_any()), (3, 0));
}

#[test]
fn addresses_choose() {
    let other = ip_packet(address("10.0.0.8:4000"), host(), &payload(2, 50)).expect("possible");
    let file = whole(101, &[packet(1, 100), other]);
    let pool = || Pool::new(4, 4096).expect("small");
    let filter = PcapFilter::of(Some(PORT), &[board().ip()]);
    let outcome = run(open(&file, filter.clone(), pool()).expect("a capture"));
    assert_eq!(
        (outcome.datagrams, outcome.counters.total_filtered(Unit::Bytes)),
        (vec![payload(1, 100)], 50)
    );
    assert!(outcome.description.ends_with("from 10.0.0.7"), "{}", outcome.description);
    let filter = PcapFilter { destination: Some(board().ip()), ..filter };
    assert_eq!(run(open(&file, filter.clone(), pool()).expect("a capture")).filtered(), (2, 150));
    let both = PcapFilter::of(Some(PORT), &[address("10.0.0.8:0").ip(), board().ip()]);
    let (mut source, mut frames) = (open(&file, both, pool()).expect("a capture"), Frames::default());
    source.receive(&mut frames, Duration::ZERO).expect("a capture");
    let positions: Vec<u32> = frames.slices.iter().map(|slice| slice.tag).collect();
    assert_eq!(positions, [1, 0], "a datagram is tagged with the position of its sender");
}

#[test]
fn options_extensions_and_padding_are_skipped() {
    let mut options = packet(1, 100);
    options[0] = 0x47;
    options[3] += 8;
    options.splice(20..20, [1; 8]);
    let mut extended =
        ip_packet(address("[::1]:1"), address("[::2]:51940"), &payload(2, 100)).expect("possible");
    extended[5] += 24;
    extended[6] = 0;
    extended.splice(40..40, [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[17, 1], &[0; 14]].concat());
    let mut padded = ethernet_frame(&packet(3, 4));
    padded.resize(64, 0xEE);
    let file = whole(1, &[ethernet_frame(&options), ethernet_frame(&extended), padded]);
    assert_eq!(read(&file).datagrams, [payload(1, 100), payload(2, 100), payload(3, 4)]);
}

/// Cuts an IPv4 packet into fragments whose payloads have `size` bytes.
fn fragments(packet: &[u8], identification: u16, size: usize) -> Vec<Vec<u8>> {
    let (header, body) = packet.split_at(20);
    let parts = body.chunks(size).enumerate().map(|(index, part)| {
        let last = (index + 1) * size >= body.len();
        let place = (index * size / 8) as u16 | if last { 0 } else { 0x2000 };
        let mut fragment = header.to_vec();
        fragment[2..4].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
        fragment[4..6].copy_from_slice(&identification.to_be_bytes());
        fragment[6..8].copy_from_slice(&place.to_be_bytes());
        fragment.extend(part);
        fragment
    });
    parts.collect()
}

#[test]
fn fragments_in_any_order_make_a_datagram() {
    let one = fragments(&packet(1, 8972), 7, 1480);
    let other = fragments(&packet(2, 5000), 8, 800);
    let reversed = one.iter().rev().cloned().collect::<Vec<_>>();
    let twice = one.iter().flat_map(|part| [part.clone(), part.clone()]).collect::<Vec<_>>();
    let mixed = (0..7).flat_map(|index| [one[index].clone(), other[index].clone()]).collect::<Vec<_>>();
    assert_eq!(read(&whole(101, &one)).datagrams, [payload(1, 8972)]);
    assert_eq!(read(&whole(101, &reversed)).datagrams, [payload(1, 8972)]);
    assert_eq!(read(&whole(101, &mixed)).datagrams, [payload(1, 8972), payload(2, 5000)]);
    // The second copy of the last part begins a datagram of its own, of which the rest never comes.
    let outcome = read(&whole(101, &twice));
    assert_eq!(outcome.datagrams, [payload(1, 8972)]);
    assert_eq!(outcome.lost(LossReason::FragmentMissing).0, 1);
    assert_eq!(outcome.beside("capture_reassembled"), 1);
}

#[test]
fn fragments_of_version_six_make_a_datagram() {
    let whole_packet =
        ip_packet(address("[::1]:1"), address("[::2]:51940"), &payload(3, 3000)).expect("possible");
    let (header, body) = whole_packet.split_at(40);
    let parts = body.chunks(1232).enumerate().map(|(index, part)| {
        let place = (index * 1232) as u16 | u16::from((index + 1) * 1232 < body.len());
        let place = place.to_be_bytes();
        let mut fragment = [header, &[17, 0, place[0], place[1], 0, 0, 0, 9], part].concat();
        fragment[4..6].copy_from_slice(&((8 + part.len()) as u16).to_be_bytes());
        fragment[6] = 44;
        fragment
    });
    assert_eq!(read(&whole(101, &parts.collect::<Vec<_>>())).datagrams, [payload(3, 3000)]);
}

#[test]
fn a_missing_fragment_is_one_lost_datagram_of_known_length() {
    let parts = fragments(&packet(1, 8972), 7, 1480);
    for missing in 0..parts.len() {
        let mut rest = parts.clone();
        rest.remove(missing);
        let outcome = read(&whole(101, &rest));
        let expected = if missing == 0 { 8980 - 1480 } else { 8972 };
        assert_eq!(outcome.lost(LossReason::FragmentMissing), (1, expected), "part {missing}");
    }
    // To another port: its first part says so.
    let other = ip_packet(board(), address("10.0.0.1:9"), &payload(1, 3000)).expect("possible");
    let outcome = read(&whole(101, &fragments(&other, 1, 1480)[..2]));
    assert_eq!((outcome.filtered(), outcome.lost_any()), ((1, 3000), 0));
}

#[test]
fn too_many_and_too_old_fragments_are_given_up() {
    let heads = (0..100).map(|number| fragments(&packet(1, 3000), number, 1480)[0].clone());
    let outcome = read(&whole(101, &heads.collect::<Vec<_>>()));
    assert_eq!(outcome.lost(LossReason::FragmentMissing), (100, 300_000));
    let parts = fragments(&packet(1, 3000), 1, 1480);
    let mut frames = vec![parts[0].clone()];
    frames.extend((0..5000).map(|_| packet(2, 8)));
    frames.extend_from_slice(&parts[1..]);
    let outcome = read(&whole(101, &frames));
    assert_eq!((outcome.datagrams.len(), outcome.lost(LossReason::FragmentMissing).0), (5000, 2));
}

#[test]
fn impossible_fragments_are_refused() {
    let mut parts = fragments(&packet(1, 3000), 1, 1480);
    // Beyond the largest packet; of a length that no fragment but the last can have.
    parts[1][6..8].copy_from_slice(&0x3FFF_u16.to_be_bytes());
    parts[0].truncate(20 + 1479);
    parts[0][2..4].copy_from_slice(&1499_u16.to_be_bytes());
    let outcome = read(&whole(101, &parts));
    assert_eq!(outcome.lost(LossReason::BadFraming).0, 2);
}

#[test]
fn truncated_captures_are_counted_with_the_bytes_that_were_on_the_wire() {
    let frame = ethernet_frame(&packet(1, 1000));
    for length in 0..=frame.len() {
        let file = capture_of(1, &[(0, frame.len(), frame[..length].to_vec())]);
        let outcome = read(&file);
        let expected = match length {
            0..34 => (1, 0),
            34..1042 => (1, 1000),
            _ => (0, 0),
        };
        assert_eq!(outcome.lost(LossReason::CaptureTruncated), expected, "{length} bytes");
    }
    // With its port in sight, other traffic is no loss.
    let other = ethernet_frame(&ip_packet(board(), address("10.0.0.1:9"), &[0; 100]).expect("possible"));
    let outcome = read(&capture_of(1, &[(0, other.len(), other[..60].to_vec())]));
    assert_eq!((outcome.filtered(), outcome.lost_any()), ((1, 100), 0));
    // Fragments, too.
    let mut parts = fragments(&packet(1, 3000), 1, 1480);
    let wire = parts.iter().map(Vec::len).collect::<Vec<_>>();
    parts[1].truncate(96);
    let frames = parts.iter().zip(wire).map(|(part, wire)| (0, wire, part.clone())).collect::<Vec<_>>();
    assert_eq!(read(&capture_of(101, &frames)).lost(LossReason::CaptureTruncated), (1, 3000));
}

#[test]
fn lengths_that_contradict_each_other_are_bad_framing() {
    let damaged = |place: usize, value: u8| {
        let mut packet = packet(1, 100);
        packet[place] = value;
        packet
    };
    let frames = [damaged(24, 0xFF), damaged(25, 7), damaged(2, 0xFF), damaged(0, 0x42), damaged(0, 0x95)];
    let outcome = read(&whole(101, &frames));
    assert_eq!(outcome.lost(LossReason::BadFraming), (5, 0));
}

#[test]
fn a_packet_larger_than_a_block_is_lost_and_the_next_is_read() {
    let file = whole(101, &[packet(1, 100), packet(2, 3000), packet(3, 50_000), packet(4, 100)]);
    let filter = PcapFilter::of(Some(PORT), &[]);
    let outcome = run(open(&file, filter.clone(), Pool::new(3, 1024).expect("small")).expect("a capture"));
    assert_eq!(outcome.datagrams, [payload(1, 100), payload(4, 100)]);
    assert_eq!(outcome.lost(LossReason::TooLarge), (2, 53_000));
    // Put together from parts, too.
    let file = whole(101, &[fragments(&packet(1, 3000), 1, 800), vec![packet(4, 100)]].concat());
    let outcome = run(open(&file, filter.clone(), Pool::new(3, 1024).expect("small")).expect("a capture"));
    assert_eq!((outcome.datagrams.len(), outcome.lost(LossReason::TooLarge)), (1, (1, 3000)));
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_the_cut() {
    let frames = (0..5).map(|number| packet(number, 50 + number)).collect::<Vec<_>>();
    let file = whole(101, &frames);
    let ends = frames.iter().scan(24, |end, frame| {
        *end += 16 + frame.len();
        Some(*end)
    });
    let ends = ends.collect::<Vec<_>>();
    for cut in 24..=file.len() {
        let outcome = read(&file[..cut]);
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(outcome.datagrams.len(), complete, "cut at {cut}");
        let is_cut = cut != 24 && !ends.contains(&cut);
        assert_eq!(outcome.beside("capture_damaged"), u64::from(is_cut), "cut at {cut}");
        assert_eq!(outcome.description.contains("damaged: the file ends within"), is_cut);
        let before = complete.checked_sub(1).map_or(24, |last| ends[last]);
        let seen = cut.saturating_sub(before + 16 + 20);
        // A packet whose head is there is known to be lost.
        let is_known = u64::from(cut >= before + 16 && is_cut);
        assert_eq!(outcome.lost(LossReason::CaptureTruncated).0, is_known, "cut at {cut}, {seen} seen");
        // Of another one nothing is known but the bytes that are there.
        let expected = if is_cut && is_known == 0 { (1, (cut - before) as u64) } else { (0, 0) };
        assert_eq!(outcome.lost(LossReason::CaptureDamaged), expected, "cut at {cut}");
    }
}

#[test]
fn garbage_ends_the_reading_with_a_word() {
    let mut file = whole(101, &[packet(1, 100), packet(2, 100)]);
    let end = file.len();
    file.extend([0xA7; 500]);
    let path = tempfile::NamedTempFile::new().expect("a temporary folder");
    std::fs::write(path.path(), &file).expect("writable");
    let pool = Pool::new(4, 4096).expect("small");
    let outcome = run(PcapSource::open(path.path(), PcapFilter::default(), pool).expect("a capture"));
    assert_eq!((outcome.datagrams.len(), outcome.beside("capture_unread_bytes")), (2, 500));
    assert_eq!(outcome.lost(LossReason::CaptureDamaged), (1, 500));
    let word = format!("is no packet, at byte {end}: 500 bytes up to byte {} were not read", end + 500);
    assert!(outcome.description.contains(&word), "{}", outcome.description);
}

#[test]
fn packets_behind_a_damaged_length_are_read() {
    let expected = (0..2000).map(|number| payload(number, 50 + number % 700)).collect::<Vec<_>>();
    let packets = (0..2000).map(|number| packet(number, 50 + number % 700)).collect::<Vec<_>>();
    let sound = whole(101, &packets);
    let start_of =
        |number: usize| 24 + packets[..number].iter().map(|packet| 16 + packet.len()).sum::<usize>();
    // The captured length far too long, a bit too long, too short, and the header gone.
    let damages: [(usize, &[u8]); 4] = [(8, &[0xFF; 4]), (9, &[0x10]), (8, &[20, 0]), (0, &[0; 16])];
    for (place, bytes) in damages {
        for number in [0, 1000, 1998, 1999] {
            let mut file = sound.clone();
            let at = start_of(number);
            file[at + place..at + place + bytes.len()].copy_from_slice(bytes);
            let outcome = read(&file);
            let mut others = expected.clone();
            others.remove(number);
            assert!(outcome.datagrams == others, "{bytes:02x?} at {place} of packet {number}");
            let unread = outcome.lost(LossReason::CaptureDamaged);
            let record = 16 + packets[number].len() as u64;
            // Cut short, it is a packet of which the rest is missing.
            let is_short = bytes == [20, 0];
            assert_eq!(outcome.lost(LossReason::CaptureTruncated).0, u64::from(is_short));
            assert_eq!(unread, (1, if is_short { record - 36 } else { record }));
            let word = format!("at byte {}", at + if is_short { 36 } else { 0 });
            assert!(outcome.description.contains(&word), "{}", outcome.description);
        }
    }
    // Bytes that belong to nothing, and a part that is missing.
    let mut file = sound.clone();
    file.splice(start_of(70)..start_of(70), [0x55; 5000]);
    file.drain(start_of(30) - 10..start_of(32) - 13);
    let outcome = read(&file);
    assert!(outcome.datagrams.len() >= 1997 && outcome.datagrams.ends_with(&expected[70..]));
    assert_eq!(outcome.lost(LossReason::CaptureDamaged).0, 2);
}

#[test]
fn batches_end_each_millisecond_and_marks_never_go_back() {
    let times = [0, 400_000, 999_999, 1_000_000, 500_000, 1_900_000, 60_000_000_000];
    let frames = times.map(|time| (time, 128, packet(1, 100)));
    let outcome = read(&capture_of(101, &frames));
    assert_eq!(outcome.batches, [(999_999, 3), (1_900_000, 3), (60_000_000_000, 1), (60_000_000_000, 0)]);
    // Other traffic moves the clock, too.
    let mut frames = times.map(|time| (time, 128, packet(1, 100)));
    frames[..6].iter_mut().for_each(|(_, _, packet)| packet[23] = 9);
    let outcome = read(&capture_of(101, &frames));
    assert_eq!(outcome.batches[..2], [(999_999, 0), (1_900_000, 0)]);
}

#[test]
fn a_damaged_time_moves_no_other_packet_and_is_reported_with_its_place() {
    let frames: Vec<_> = (0..1000).map(|index| (index * 10_000_000, 128, packet(1, 100))).collect();
    let sound = capture_of(101, &frames);
    let marks = read(&sound).batches;
    for number in [2, 500] {
        // Two thousand seconds, and 68 years.
        for (byte, bit) in [(1, 8), (3, 0x80)] {
            let (mut file, at) = (sound.clone(), 24 + number * (16 + 128));
            file[at + byte] ^= bit;
            let outcome = read(&file);
            assert_eq!(outcome.datagrams.len(), 1000);
            assert!(outcome.batches.ends_with(&marks[number + 1..]), "{bit:x} of packet {number}");
            assert_eq!((outcome.beside("capture_damaged"), outcome.lost_any()), (1, 0));
            let word = format!("and is not used, at byte {at}");
            assert!(outcome.description.contains(&word), "{}", outcome.description);
        }
    }
}

#[test]
fn without_a_free_block_it_waits_and_loses_nothing() {
    let file = whole(101, &(0..100).map(|number| packet(number, 1000)).collect::<Vec<_>>());
    let filter = PcapFilter::of(Some(PORT), &[]);
    let mut source = open(&file, filter.clone(), Pool::new(4, 4096).expect("small")).expect("a capture");
    let (mut kept, mut full, mut datagrams) = (Vec::new(), 0, Vec::new());
    loop {
        let mut frames = Frames::default();
        match source.receive(&mut frames, Duration::ZERO).expect("memory") {
            Received::Full => {
                full += 1;
                kept.clear();
            }
            Received::End => break,
            _ => datagrams.extend(frames.slices.iter().map(|slice| frames.bytes(*slice).to_vec())),
        }
        kept.push(frames);
    }
    assert!(full > 3);
    assert_eq!(datagrams, (0..100).map(|number| payload(number, 1000)).collect::<Vec<_>>());
}

#[test]
fn without_a_port_the_only_one_is_taken_and_several_are_named() {
    let path = tempfile::NamedTempFile::new().expect("a temporary folder");
    let open = |frames: &[Vec<u8>]| {
        std::fs::write(path.path(), whole(101, frames)).expect("writable");
        PcapSource::open(path.path(), PcapFilter::default(), Pool::new(4, 4096).expect("small"))
    };
    let one = run(open(&[packet(1, 10), packet(2, 10)]).expect("a capture"));
    assert_eq!(one.datagrams.len(), 2);
    assert!(one.description.ends_with("UDP to port 51940, the only one seen"), "{}", one.description);
    let dns = ip_packet(board(), address("10.0.0.1:53"), b"x").expect("possible");
    let message = open(&[dns, packet(1, 10), packet(2, 10)]).err().expect("two ports").to_string();
    assert!(message.contains("holds UDP to 2 ports, most to 51940 (2), 53 (1); say which"), "{message}");
    assert!(run(open(&[]).expect("a capture")).description.contains("the first port that will be seen"));
}

#[test]
fn what_is_no_capture_is_refused_with_a_word() {
    assert!(refusal(b"").contains("is empty"));
    assert!(refusal(&[0x1F, 0x8B, 8, 0]).contains("gzip; unpack it first"));
    assert!(refusal(b"hello, world").contains("pcap and pcapng files can be read (it begins with [68,"));
    assert!(refusal(&whole(147, &[])).contains("link type 147 cannot be read; known are Ethernet (1)"));
    assert!(refusal(&whole(1, &[])[..20]).contains("ends within its header"));
    let small = open(&whole(1, &[]), PcapFilter::default(), Pool::new(2, 4096).expect("small"));
    assert!(small.err().expect("two blocks").to_string().contains("needs 3 blocks of 512 bytes"));
    let pool = Pool::new(4, 4096).expect("small");
    let absent = PcapSource::open(std::path::Path::new("/no/such.pcap"), PcapFilter::default(), pool);
    assert!(absent.err().expect("absent").to_string().starts_with("/no/such.pcap: cannot be opened"));
}

/// Blocks of a pcapng file, in either byte order.
struct Blocks {
    big: bool,
    file: Vec<u8>,
}

impl Blocks {
    fn number<const N: usize>(&self, value: u64) -> [u8; N] {
        let mut bytes = [0; N];
        let little = value.to_le_bytes();
        bytes.copy_from_slice(&little[..N]);
        if self.big {
            bytes.reverse();
        }
        bytes
    }

    fn block(&mut self, kind: u64, body: &[u8]) {
        let body = [body, &vec![0; body.len().next_multiple_of(4) - body.len()]].concat();
        let total = self.number::<4>(body.len() as u64 + 12);
        let parts = [&self.number::<4>(kind)[..], &total, &body, &total].concat();
        self.file.extend(parts);
    }

    fn section(&mut self, big: bool) {
        self.big = big;
        let body = [&self.number::<4>(0x1A2B_3C4D)[..], &self.number::<4>(1), &[0xFF; 8]].concat();
        self.block(0x0A0D_0D0A, &body);
    }

    fn option(&self, code: u64, value: &[u8]) -> Vec<u8> {
        let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
        [&self.number::<2>(code)[..], &self.number::<2>(value.len() as u64), value, &padding].concat()
    }

    fn interface(&mut self, link: u64, options: &[u8]) {
        let head = [&self.number::<2>(link)[..], &[0, 0], &self.number::<4>(0)].concat();
        self.block(1, &[&head[..], options, &[0; 4]].concat());
    }

    fn packet(&mut self, kind: u64, interface: u64, units: u64, bytes: &[u8]) {
        let (high, low) = (self.number::<4>(units >> 32), self.number::<4>(units & 0xFFFF_FFFF));
        let interface = match kind {
            2 => [&self.number::<2>(interface)[..], &[0, 0]].concat(),
            _ => self.number::<4>(interface).to_vec(),
        };
        let length = self.number::<4>(bytes.len() as u64);
        self.block(kind, &[&interface[..], &high, &low, &length, &length, bytes].concat());
    }
}

#[test]
fn pcapng_of_both_orders_with_every_kind_of_packet() {
    for big in [false, true] {
        let mut blocks = Blocks { big, file: Vec::new() };
        blocks.section(big);
        blocks.interface(101, &[]);
        blocks.interface(1, &[]);
        blocks.interface(147, &[]);
        blocks.packet(6, 0, 1_000_000, &packet(1, 10));
        blocks.packet(2, 1, 1_000_100, &ethernet_frame(&packet(2, 11)));
        blocks.block(0x0BAD, &vec![7; 300_000]);
        let simple = packet(3, 12);
        blocks.block(3, &[&blocks.number::<4>(simple.len() as u64)[..], &simple].concat());
        // An unreadable link.
        blocks.packet(6, 2, 1_000_200, &packet(4, 10));
        let dropped = [blocks.option(5, &blocks.number::<8>(30)), blocks.option(7, &blocks.number::<8>(4))];
        blocks.block(5, &[&blocks.number::<4>(0)[..], &[0; 8], &dropped.concat()].concat());
        // A second section in the other order.
        blocks.section(!big);
        blocks.interface(101, &[]);
        blocks.packet(6, 0, 1_000_300, &packet(6, 10));
        let outcome = read(&blocks.file);
        let expected = [payload(1, 10), payload(2, 11), payload(3, 12), payload(6, 10)];
        assert_eq!(outcome.datagrams, expected, "big: {big}");
        assert_eq!(outcome.batches[0], (300_000, 4));
        assert_eq!((outcome.filtered(), outcome.lost_any()), ((1, 0), 0));
        assert_eq!(outcome.beside("capture_dropped_by_host"), 34);
        assert_eq!(outcome.beside("capture_damaged"), 0);
    }
}

#[test]
fn pcapng_times_have_the_resolution_and_offset_of_their_interface() {
    let mut blocks = Blocks { big: false, file: Vec::new() };
    blocks.section(false);
    blocks.interface(101, &[]);
    for (code, value) in [(9, vec![9]), (9, vec![3]), (9, vec![0x80 | 10]), (14, 1u64.to_le_bytes().to_vec())]
    {
        let option = blocks.option(code, &value);
        blocks.interface(101, &option);
    }
    for (interface, units) in
        [(0, 2_000_000), (1, 2_000_001_000), (2, 2_002), (3, 2 * 1024 + 512), (4, 1_600_000)]
    {
        blocks.packet(6, interface, units, &packet(1, 10));
    }
    let marks = read(&blocks.file).batches.iter().map(|batch| batch.0).collect::<Vec<_>>();
    assert_eq!(marks, [1_000, 2_000_000, 500_000_000, 600_000_000, 600_000_000]);
}

#[test]
fn what_is_damaged_in_pcapng_is_reported_with_its_place() {
    let mut blocks = Blocks { big: false, file: Vec::new() };
    blocks.section(false);
    blocks.interface(101, &[]);
    blocks.packet(6, 0, 1, &packet(1, 10));
    let sound = blocks.file.len();
    blocks.packet(6, 0, 2, &packet(2, 10));
    for (place, value, word) in [
        (4, 3, "is no block"),
        (4, 200, "does not end so"),
        (20, 200, "in a block of"),
        (blocks.file.len() - sound - 4, 9, "does not end so"),
    ] {
        let mut file = [&blocks.file[..], &[0; 400]].concat();
        file[sound + place] = value;
        let outcome = read(&file);
        assert_eq!(outcome.datagrams.len(), 1);
        assert!(outcome.description.contains(word), "{}", outcome.description);
        assert!(outcome.description.contains(&format!("at byte {sound}")), "{}", outcome.description);
        let unread = (file.len() - sound) as u64;
        assert_eq!(outcome.lost(LossReason::CaptureDamaged), (1, unread));
        assert_eq!(outcome.beside("capture_unread_bytes"), unread);
    }
    for cut in sound..blocks.file.len() {
        assert_eq!(read(&blocks.file[..cut]).beside("capture_damaged"), u64::from(cut > sound), "at {cut}");
    }
}

#[test]
fn blocks_behind_a_damaged_one_are_read() {
    let mut blocks = Blocks { big: false, file: Vec::new() };
    blocks.section(false);
    blocks.interface(101, &[]);
    let mut starts = Vec::new();
    for number in 0..500 {
        starts.push(blocks.file.len());
        blocks.packet(6, 0, number, &packet(number as usize, 50 + number as usize % 700));
    }
    starts.push(blocks.file.len());
    // Length, type and length, an interface that is not there, the packet's own length; in steps of 4 bytes or not.
    let damages: [(usize, &[u8]); 6] = [
        (4, &[0xFF; 4]),
        (4, &[0, 0, 0, 1]),
        (0, &[0x77, 0, 0, 0, 0, 0, 0, 0x10]),
        (8, &[9]),
        (20, &[0xFF; 4]),
        (3, &[0xFF; 7]),
    ];
    for (place, bytes) in damages {
        for number in [0, 250, 498, 499] {
            let mut file = blocks.file.clone();
            let at = starts[number];
            file[at + place..at + place + bytes.len()].copy_from_slice(bytes);
            // As a file, whose end is known, and as a pipe, of which what is read over cannot be read again.
            let path = tempfile::NamedTempFile::new().expect("a temporary folder");
            std::fs::write(path.path(), &file).expect("writable");
            let pool = Pool::new(4, 128 << 10).expect("small");
            let outcome = run(PcapSource::open(path.path(), PcapFilter::default(), pool).expect("a capture"));
            assert_eq!(outcome.datagrams.len(), 499, "{bytes:02x?} at {place} of block {number}");
            let unread = (starts[number + 1] - at) as u64;
            assert_eq!(outcome.lost(LossReason::CaptureDamaged), (1, unread), "{}", outcome.description);
            let piped = read(&file);
            let missing = 500 - piped.datagrams.len() as u64;
            assert!(missing > 0 && piped.lost(LossReason::CaptureDamaged).1 >= 12 * missing);
        }
    }
}

/// Files that use everything, to start mutations from.
fn samples() -> Vec<Vec<u8>> {
    let mut blocks = Blocks { big: true, file: Vec::new() };
    blocks.section(true);
    let options = blocks.option(9, &[9]);
    blocks.interface(276, &options);
    blocks.interface(101, &[]);
    blocks.packet(6, 1, 77, &packet(1, 40));
    fragments(&packet(2, 3000), 3, 1480).iter().for_each(|part| blocks.packet(6, 1, 78, part));
    blocks.packet(2, 1, 79, &packet(5, 6000));
    let mut frames = vec![ethernet_frame(&packet(1, 40)), ethernet_frame(&packet(2, 1000))];
    frames.extend(fragments(&packet(2, 3000), 3, 1480).iter().map(|part| ethernet_frame(part)));
    vec![whole(1, &frames), blocks.file]
}

proptest! {
    #[test]
    fn no_bytes_break_a_balance_equation(bytes in prop::collection::vec(any::<u8>(), 0..600), which in 0..3usize) {
        let section = [0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A];
        let starts = [file_header(1).to_vec(), section.to_vec(), Vec::new()];
        check(&[&starts[which][..], &bytes].concat());
    }

    #[test]
    fn no_mutation_of_a_capture_breaks_a_balance_equation(
        which in 0..2usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = samples().swap_remove(which);
        damage.iter().for_each(|(place, value)| *place.get_mut(&mut file) = *value);
        check(&file);
        check(&file[..cut.index(file.len())]);
    }
}
