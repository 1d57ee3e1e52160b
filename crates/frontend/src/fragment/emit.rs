//! The encoder: a fragment in one datagram, in several, or in a stream.
//!
//! ```text
//!  Header, payload ─► | header 0 | payload … | header 1 | … payload |    ends: ──┘           ──┘
//! ```
//! Inverse of the splitters, for emulated boards and tests.

use super::wire::{HEADER_BYTES, Header, MOST_PIECES, checksum};

/// Bytes of payload of one piece, for datagrams of at most `datagram_bytes`.
pub fn piece_bytes(datagram_bytes: usize) -> usize {
    datagram_bytes.saturating_sub(HEADER_BYTES).max(1)
}

/// Appends one fragment in datagrams of at most `datagram_bytes`, and the end of each to `ends`. Board, run, trigger, ticks
/// and status are those of `header`; length and pieces follow from the payload, the checksum from `with_checksum`.
///
/// # Panics
/// When the payload does not fit [`MOST_PIECES`] datagrams: settings are checked before.
pub fn datagrams(
    header: &Header,
    payload: &[u8],
    datagram_bytes: usize,
    with_checksum: bool,
    bytes: &mut Vec<u8>,
    ends: &mut Vec<usize>,
) {
    let most = piece_bytes(datagram_bytes);
    let pieces = payload.len().div_ceil(most).max(1);
    assert!(pieces <= MOST_PIECES, "a fragment has at most {MOST_PIECES} datagrams");
    let mut header = Header { length: payload.len() as u32, pieces: pieces as u8, ..*header };
    for piece in 0..pieces {
        header.piece = piece as u8;
        let part = &payload[piece * most..payload.len().min((piece + 1) * most)];
        unit(header, part, with_checksum, bytes);
        ends.push(bytes.len());
    }
}

/// Appends one fragment as it stands in a stream.
pub fn stream(header: &Header, payload: &[u8], with_checksum: bool, bytes: &mut Vec<u8>) {
    let header = Header { length: payload.len() as u32, piece: 0, pieces: 1, ..*header };
    unit(header, payload, with_checksum, bytes);
}

/// Appends a header and what stands behind it.
#[inline]
fn unit(mut header: Header, payload: &[u8], with_checksum: bool, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    header.checksum = with_checksum.then_some(0);
    bytes.reserve(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&header.to_bytes());
    bytes.extend_from_slice(payload);
    if with_checksum {
        header.checksum = checksum(&bytes[start..]);
        bytes[start..][..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
}
