//! What every input must satisfy: nothing panics or hangs, and the ledger balances to the byte.
//!
//! ```text
//!  any bytes ─► datagrams or stream pieces ─► unpack ─► decode ─► Outcome { hits, snapshot }   snapshot.close()
//! ```
//! Tests and fuzz targets drive the same functions.

use thalweg_data::SourceId;

use super::control::message::{HEADER_BYTES, LONGEST_REPLY};
use super::control::{Assembler, Reply, Request, Server, Session};
use super::unpack::{TcpUnpack, UdpUnpack};
use super::{Decoder, Firmware, Settings, emit, emulate, seeds};
use crate::check::{self, BLOCK_BYTES, Outcome};
use crate::format::FuzzTarget;

/// Fuzz targets of the family's parsers.
pub(super) static FUZZ: &[FuzzTarget] = &[
    FuzzTarget { name: "digitizer2_udp", seeds: seeds::datagrams, check: |bytes| drop(udp_stream(bytes)) },
    FuzzTarget { name: "digitizer2_tcp", seeds: seeds::packets, check: |bytes| drop(tcp_stream(bytes)) },
    FuzzTarget { name: "digitizer2_aggregate", seeds: seeds::events, check: |bytes| drop(aggregate(bytes)) },
    FuzzTarget { name: "digitizer2_control", seeds: seeds::requests, check: control },
];

const SOURCE: SourceId = SourceId(0);
/// Largest event that [`udp_path`] takes.
pub const LARGEST_UNIT_BYTES: u64 = 1 << 20;

/// Receives `datagrams`, `per_batch` at a time, and follows them to the end.
///
/// # Panics
/// As [`check::datagrams_in_batches`].
pub fn udp_path<'d>(
    decoder: Decoder,
    datagrams: impl IntoIterator<Item = &'d [u8]>,
    per_batch: usize,
) -> Outcome {
    check::datagrams_in_batches(UdpUnpack::new(SOURCE, LARGEST_UNIT_BYTES), decoder, datagrams, per_batch)
}

/// Receives a stream in `pieces` of the given sizes and follows it to the end. `blob` says that there are no packet headers.
///
/// # Panics
/// As [`check::stream`], or when a unit is carried that fills a block.
pub fn stream_path(decoder: Decoder, stream: &[u8], pieces: &[usize], blob: bool) -> Outcome {
    let unpack = match blob {
        true => TcpUnpack::of_blob(SOURCE, BLOCK_BYTES),
        false => TcpUnpack::new(SOURCE, BLOCK_BYTES),
    };
    let outcome = check::stream(unpack, decoder, stream, pieces);
    assert_eq!(outcome.given_up, 0, "the unpacker never carries a whole block");
    outcome
}

/// A decoder chosen by one byte of input.
fn decoder_of(choice: u8) -> Decoder {
    let firmware = match choice & 7 {
        0 | 5 | 6 | 7 => Firmware::Psd,
        1 => Firmware::Pha,
        2 => Firmware::OpenDpp,
        3 => Firmware::Zle,
        _ => Firmware::Scope,
    };
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

/// Any bytes as datagrams: the first byte chooses the firmware; then, again and again, one byte says how, two how long, and
/// the datagram follows. Bit 0 of *how* has its footer made as a board would, with aligned and last from bits 1 and 2; bit 3
/// leaves one datagram id out, bit 4 lets it overtake the one before. Every balance equation must hold; the outcome is returned for more.
///
/// # Panics
/// When a balance equation does not hold.
pub fn udp_stream(input: &[u8]) -> Outcome {
    let Some((choice, mut rest)) = input.split_first() else { return Outcome::default() };
    let mut datagrams = Vec::new();
    let (mut buffer_id, mut datagram_id) = (0u16, 0u32);
    while let [how, high, low, tail @ ..] = rest {
        let length = (usize::from(u16::from_be_bytes([*high, *low])) % 2048).min(tail.len());
        let (bytes, tail) = tail.split_at(length);
        rest = tail;
        let mut datagram = bytes.to_vec();
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
    let outcome = udp_path(decoder_of(*choice), datagrams.iter().map(Vec::as_slice), per_batch);
    outcome.assert_closed();
    outcome
}

/// Any bytes as a TCP stream: the first byte chooses the firmware, the second into what pieces it is cut.
///
/// # Panics
/// When a balance equation does not hold.
pub fn tcp_stream(input: &[u8]) -> Outcome {
    let [choice, cut, stream @ ..] = input else { return Outcome::default() };
    let outcome = stream_path(decoder_of(*choice), stream, &[usize::from(*cut) * 7 + 1], false);
    outcome.assert_closed();
    outcome
}

/// Any bytes as what a blob holds, its first event's header made to fit when bit 7 of the first byte, which also chooses the
/// firmware, is set.
///
/// # Panics
/// When a balance equation does not hold.
pub fn aggregate(input: &[u8]) -> Outcome {
    let Some((choice, content)) = input.split_first() else { return Outcome::default() };
    let mut blob = Vec::new();
    match choice & 128 {
        0 => blob.extend_from_slice(content),
        _ => {
            let start = emit::begin_aggregate(&mut blob, 0, false, false);
            blob.extend_from_slice(&content[..content.len() / 8 * 8]);
            emit::end_aggregate(&mut blob, start);
        }
    }
    let outcome = stream_path(decoder_of(*choice), &blob, &[usize::MAX], true);
    outcome.assert_closed();
    outcome
}

/// Sends arbitrary bytes to a board's control service, in two pieces, and reads them as a board's reply.
///
/// # Panics
/// When one of them does, or an answer of the service is none.
pub fn control(input: &[u8]) {
    let mut server = Server::new(&emulate::Settings { channels: 2, ..emulate::Settings::default() }, 1);
    let mut session = Session::default();
    let mut answers = Vec::new();
    for piece in [&input[..input.len() / 2], &input[input.len() / 2..]] {
        if session.receive(piece, &mut server, &mut |_, _| Ok(()), &mut answers).is_err() {
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
