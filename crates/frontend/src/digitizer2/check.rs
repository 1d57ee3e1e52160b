//! Fuzz targets of the family: invariants of every input.
//!
//! ```text
//!  any bytes ─► datagrams, or chunks of a stream ─► unpack ─► decode ─► HitsOutcome { hits, snapshot }   assert_closed
//! ```
//! Tests and fuzz targets call the same functions.

use thalweg_data::SourceId;

use super::control::message::{HEADER_BYTES, LONGEST_REPLY};
use super::control::{Assembler, Reply, Request, Server, Session};
use super::unpack::{TcpUnpack, UdpUnpack};
use super::{Decoder, Firmware, Settings, emit, emulate, seeds};
use crate::check::{BLOCK_BYTES, HitsOutcome, Host, hits_of_stream, split};
use crate::format::FuzzTarget;

/// Fuzz targets of the family.
pub(super) static FUZZ: &[FuzzTarget] = &[
    FuzzTarget { name: "digitizer2_udp", seeds: seeds::datagrams, check: |bytes| drop(udp_stream(bytes)) },
    FuzzTarget { name: "digitizer2_tcp", seeds: seeds::packets, check: |bytes| drop(tcp_stream(bytes)) },
    FuzzTarget { name: "digitizer2_aggregate", seeds: seeds::events, check: |bytes| drop(aggregate(bytes)) },
    FuzzTarget { name: "digitizer2_control", seeds: seeds::requests, check: control },
];

const SOURCE: SourceId = SourceId(0);
/// Largest event that [`udp_path`] accepts, in bytes.
pub const LARGEST_UNIT_BYTES: u64 = 1 << 20;
/// Largest event that the fuzz targets pass on whole of scope firmware, and in some streams, in bytes: larger ones come in parts.
const LARGEST_WHOLE_BYTES: usize = 512;
/// Longest datagram of [`udp_stream`] without its footer, in bytes: a block contains many of them.
const LONGEST_DATAGRAM: usize = 2047;

/// Receives `datagrams`, `per_batch` at a time, and decodes them.
///
/// # Panics
/// As [`Host::datagram`].
pub fn udp_path<'d>(
    decoder: Decoder,
    datagrams: impl IntoIterator<Item = &'d [u8]>,
    per_batch: usize,
) -> HitsOutcome {
    udp_path_within(LARGEST_UNIT_BYTES, decoder, datagrams, per_batch)
}

/// The same with scope events of more than `largest_unit_bytes` in parts.
///
/// # Panics
/// As [`Host::datagram`].
pub fn udp_path_within<'d>(
    largest_unit_bytes: u64,
    decoder: Decoder,
    datagrams: impl IntoIterator<Item = &'d [u8]>,
    per_batch: usize,
) -> HitsOutcome {
    let unpack = UdpUnpack::new(SOURCE, largest_unit_bytes);
    let mut host = Host::of_hits(Box::new(unpack), Box::new(decoder)).in_batches_of(per_batch);
    host.datagrams(datagrams);
    host.finish()
}

/// Receives a stream in chunks of the given sizes and decodes it. With `blob`, there are no packet headers.
///
/// # Panics
/// As [`hits_of_stream`], or when a unit is carried that fills a block.
pub fn stream_path(decoder: Decoder, stream: &[u8], chunk_sizes: &[usize], blob: bool) -> HitsOutcome {
    stream_path_within(BLOCK_BYTES, decoder, stream, chunk_sizes, blob)
}

/// The same with events of more than `largest_unit_bytes`, at most those of a block, in parts.
///
/// # Panics
/// As [`stream_path`].
pub fn stream_path_within(
    largest_unit_bytes: usize,
    decoder: Decoder,
    stream: &[u8],
    chunk_sizes: &[usize],
    blob: bool,
) -> HitsOutcome {
    let unpack = match blob {
        true => TcpUnpack::of_blob(SOURCE, largest_unit_bytes),
        false => TcpUnpack::new(SOURCE, largest_unit_bytes),
    };
    let unpack = unpack.dividing_aggregates(decoder.firmware());
    let outcome = hits_of_stream(unpack, decoder, stream, chunk_sizes);
    assert_eq!(outcome.given_up, 0, "the unpacker never carries a whole block");
    outcome
}

fn firmware_of(choice: u8) -> Firmware {
    match choice & 7 {
        0 | 5 | 6 | 7 => Firmware::Psd,
        1 => Firmware::Pha,
        2 => Firmware::OpenDpp,
        3 => Firmware::Zle,
        _ => Firmware::Scope,
    }
}

/// The largest event that is passed on whole, chosen by the same byte.
fn largest_unit_bytes_of(choice: u8) -> usize {
    if firmware_of(choice) == Firmware::Scope { LARGEST_WHOLE_BYTES } else { BLOCK_BYTES }
}

/// The same in a stream, where aggregates come in parts, too.
fn largest_in_stream_of(choice: u8) -> usize {
    if choice & 32 == 0 { largest_unit_bytes_of(choice) } else { LARGEST_WHOLE_BYTES }
}

/// A decoder chosen by one byte of the input.
fn decoder_of(choice: u8) -> Decoder {
    let firmware = firmware_of(choice);
    let tick_ps = if choice & 8 == 0 { 8000.0 } else { 1.953125 };
    let channels = if choice & 16 == 0 { 128 } else { 64 };
    let settings = Settings {
        firmware: Some(firmware),
        tick_ps: Some(tick_ps),
        channels: Some(channels),
        ..Settings::default()
    };
    Decoder::new(SOURCE, &settings).expect("all of these are valid")
}

/// Reads any bytes as joined datagrams: the first byte chooses the firmware, and the first byte of each datagram how it
/// is sent. Its bit 0 adds a correct footer, with aligned and last from bits 1 and 2; bit 3 skips a datagram id, and
/// bit 4 sends the datagram before the one before it. Every balance equation must hold; the outcome is returned for
/// further checks.
///
/// # Panics
/// When a balance equation does not hold.
pub fn udp_stream(input: &[u8]) -> HitsOutcome {
    let Some((choice, joined)) = input.split_first() else { return HitsOutcome::default() };
    let mut datagrams = Vec::new();
    let (mut buffer_id, mut datagram_id) = (0u16, 0u32);
    for (how, bytes) in split(joined).filter_map(<[u8]>::split_first) {
        let length = bytes.len().min(LONGEST_DATAGRAM);
        let mut datagram = bytes[..length].to_vec();
        if how & 1 == 1 {
            datagram.truncate(length / 8 * 8);
            let data = std::mem::take(&mut datagram);
            let (aligned, last) = (how & 2 != 0, how & 4 != 0);
            datagram_id += u32::from(how & 8 != 0);
            emit::datagram(&mut datagram, &data, buffer_id, datagram_id, aligned, last);
            datagram_id += 1;
            if last {
                (buffer_id, datagram_id) = (buffer_id.wrapping_add(1), 0);
            }
        }
        let overtakes = how & 16 != 0 && !datagrams.is_empty();
        datagrams.insert(datagrams.len() - usize::from(overtakes), datagram);
    }
    let per_batch = usize::from(*choice >> 5) * 3 + 1;
    let largest = largest_unit_bytes_of(*choice) as u64;
    let each = datagrams.iter().map(Vec::as_slice);
    let outcome = udp_path_within(largest, decoder_of(*choice), each, per_batch);
    outcome.assert_closed();
    outcome
}

/// Reads any bytes as a TCP stream: the first byte chooses the firmware and the largest event that is passed on whole, the second the length
/// of its chunks.
///
/// # Panics
/// When a balance equation does not hold.
pub fn tcp_stream(input: &[u8]) -> HitsOutcome {
    let [choice, cut, stream @ ..] = input else { return HitsOutcome::default() };
    let (largest, chunks) = (largest_in_stream_of(*choice), [usize::from(*cut) * 7 + 1]);
    let outcome = stream_path_within(largest, decoder_of(*choice), stream, &chunks, false);
    outcome.assert_closed();
    outcome
}

/// Reads any bytes as a blob. The first byte chooses the firmware; if its bit 7 is set, the bytes become the content of
/// an aggregate with a correct header.
///
/// # Panics
/// When a balance equation does not hold.
pub fn aggregate(input: &[u8]) -> HitsOutcome {
    let Some((choice, content)) = input.split_first() else { return HitsOutcome::default() };
    let mut blob = Vec::new();
    match choice & 128 {
        0 => blob.extend_from_slice(content),
        _ => {
            let start = emit::begin_aggregate(&mut blob, 0, false, false);
            blob.extend_from_slice(&content[..content.len() / 8 * 8]);
            emit::end_aggregate(&mut blob, start);
        }
    }
    let largest = largest_in_stream_of(*choice);
    let outcome = stream_path_within(largest, decoder_of(*choice), &blob, &[usize::MAX], true);
    outcome.assert_closed();
    outcome
}

/// Sends arbitrary bytes to a board's control service, in two chunks, and reads them as a board's reply.
///
/// # Panics
/// When one of them panics, or an answer of the service is invalid.
pub fn control(input: &[u8]) {
    let mut server = Server::new(&emulate::Settings { channels: 2, ..emulate::Settings::default() }, 1);
    let mut session = Session::default();
    let mut answers = Vec::new();
    for chunk in [&input[..input.len() / 2], &input[input.len() / 2..]] {
        if session.receive(chunk, &mut server, &mut |_, _| Ok(()), &mut answers).is_err() {
            break;
        }
    }
    let mut replies = Assembler::new(LONGEST_REPLY);
    replies.push(&answers);
    while let Some(json) = replies.next_message().expect("answers are framed") {
        Reply::decode(&json).expect("answers are replies");
    }
    if let Some(json) = input.get(HEADER_BYTES..) {
        drop((Request::decode(json), Reply::decode(json)));
    }
}
