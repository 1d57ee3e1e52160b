//! The encoder: a fragment in one datagram, in several, or in a stream.
//!
//! ```text
//!  Header, payload ─► | header 0 | payload … | header 1 | … payload |    ends: ──┘           ──┘
//! ```
//! It is the inverse of the splitters, for emulated boards and tests.

use super::wire::{HEADER_BYTES, Header, MOST_PARTS, checksum};

/// Most payload bytes of one datagram, for datagrams of at most `datagram_bytes`.
pub fn part_bytes(datagram_bytes: usize) -> usize {
    datagram_bytes.saturating_sub(HEADER_BYTES).max(1)
}

/// Appends one fragment in datagrams of at most `datagram_bytes`, and the end of each to `ends`. Board, run, trigger,
/// ticks and status are those of `header`; length and parts follow from the payload, the checksum from `with_checksum`.
///
/// # Panics
/// When the payload does not fit [`MOST_PARTS`] datagrams, which the check of the settings prevents.
pub fn datagrams(
    header: &Header,
    payload: &[u8],
    datagram_bytes: usize,
    with_checksum: bool,
    bytes: &mut Vec<u8>,
    ends: &mut Vec<usize>,
) {
    let most = part_bytes(datagram_bytes);
    let parts = payload.len().div_ceil(most).max(1);
    assert!(parts <= MOST_PARTS, "a fragment has at most {MOST_PARTS} datagrams");
    let mut header = Header { length: payload.len() as u32, parts: parts as u8, ..*header };
    for part in 0..parts {
        header.part = part as u8;
        let chunk = &payload[part * most..payload.len().min((part + 1) * most)];
        unit(header, chunk, with_checksum, bytes);
        ends.push(bytes.len());
    }
}

/// Appends one fragment in the form of a stream.
#[inline(always)]
pub fn stream(header: &Header, payload: &[u8], with_checksum: bool, bytes: &mut Vec<u8>) {
    let header = Header { length: payload.len() as u32, part: 0, parts: 1, ..*header };
    unit(header, payload, with_checksum, bytes);
}

/// Appends a header and its payload.
#[inline(always)]
fn unit(mut header: Header, payload: &[u8], with_checksum: bool, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    header.checksum = with_checksum.then_some(0);
    bytes.reserve(HEADER_BYTES + payload.len());
    header.append_to(bytes);
    bytes.extend_from_slice(payload);
    if with_checksum {
        header.checksum = checksum(&bytes[start..]);
        bytes[start..][..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
}
