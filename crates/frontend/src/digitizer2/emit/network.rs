//! Encodes events as TCP packets and UDP datagrams.

use crate::digitizer2::wire::{Footer, PacketHeader, footer::MOST_WORDS, hash};

/// Appends a TCP packet: header and payload. `events` is the number of event headers in this payload; `aligned` says
/// whether it ends on an event boundary. Nothing is appended for an empty payload, which would be a clear marker.
pub fn packet(out: &mut Vec<u8>, payload: &[u8], events: u32, aligned: bool) {
    if payload.is_empty() {
        return;
    }
    let header = PacketHeader { payload_bytes: payload.len() as u64, events, aligned };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(payload);
}

/// Appends the marker that voids everything before it: sent on connect, and after each clear, arm and reset.
pub fn clear_marker(out: &mut Vec<u8>) {
    out.extend_from_slice(&PacketHeader::default().to_bytes());
}

/// The footer word of a datagram of these data (whole words, at most 8187).
pub fn footer(data: &[u8], buffer_id: u16, datagram_id: u32, aligned: bool, last: bool) -> u64 {
    let words = data.as_chunks::<8>().0;
    Footer::new(buffer_id, hash(datagram_id, words), aligned, words.len() as u16, last).0
}

/// Appends a datagram: data (whole words, at most 8187) and footer.
pub fn datagram(out: &mut Vec<u8>, data: &[u8], buffer_id: u16, datagram_id: u32, aligned: bool, last: bool) {
    out.extend_from_slice(data);
    out.extend_from_slice(&footer(data, buffer_id, datagram_id, aligned, last).to_be_bytes());
}

/// Appends the datagram without data of a clear (ids 0, 0) or of an idle board.
pub fn empty_datagram(out: &mut Vec<u8>, buffer_id: u16, datagram_id: u32) {
    datagram(out, &[], buffer_id, datagram_id, true, false);
}

/// Rewrites the footer of a whole datagram after a change of its data or ids. Datagrams of fewer than 8 bytes are
/// unchanged.
pub fn rehash(datagram: &mut [u8], buffer_id: u16, datagram_id: u32, aligned: bool, last: bool) {
    if let Some((data, end)) = datagram.split_last_chunk_mut::<{ Footer::BYTES }>() {
        *end = footer(data, buffer_id, datagram_id, aligned, last).to_be_bytes();
    }
}

/// Moves a whole datagram to another buffer: the hash does not cover the buffer's number, so only two bytes change.
pub fn set_buffer_id(datagram: &mut [u8], buffer_id: u16) {
    if let Some(end) = datagram.last_chunk_mut::<{ Footer::BYTES }>() {
        end[..2].copy_from_slice(&buffer_id.to_be_bytes());
    }
}

/// Divides one buffer of whole events into datagrams.
///
/// ```text
///  events of one buffer ─► data ≤ words_per_datagram | footer, data | footer, … last
/// ```
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    rest: &'a [u8],
    datagram_bytes: usize,
    /// Bytes of data up to the last event boundary that was found.
    boundary: usize,
    given: usize,
    buffer_id: u16,
    datagram_id: u32,
    total: &'a [u8],
}

impl<'a> Datagrams<'a> {
    /// Creates datagrams of at most `words` data words (1 to 8187) for `events`, which are whole and belong to buffer
    /// `buffer_id`.
    pub fn new(events: &'a [u8], words: usize, buffer_id: u16) -> Datagrams<'a> {
        let datagram_bytes = words.clamp(1, MOST_WORDS) * 8;
        Datagrams {
            rest: events,
            datagram_bytes,
            boundary: 0,
            given: 0,
            buffer_id,
            datagram_id: 0,
            total: events,
        }
    }

    /// Appends the next datagram to `out` and returns whether there was one.
    pub fn append_next(&mut self, out: &mut Vec<u8>) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let (data, rest) = self.rest.split_at(self.rest.len().min(self.datagram_bytes));
        self.given += data.len();
        while self.boundary < self.given {
            let Some(words) = self.total.get(self.boundary + 4..).and_then(|tail| tail.first_chunk::<4>())
            else {
                break;
            };
            self.boundary += 8 * (u32::from_be_bytes(*words) as usize).max(1);
        }
        let aligned = self.boundary == self.given;
        datagram(out, data, self.buffer_id, self.datagram_id, aligned, rest.is_empty());
        self.rest = rest;
        self.datagram_id += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_examples() {
        let data = 0x29ab_cdef_0000_0001_u64.to_be_bytes();
        let mut out = Vec::new();
        datagram(&mut out, &data, 1, 0, true, true);
        assert_eq!(out, [data, 0x0001_002c_b522_4003_u64.to_be_bytes()].concat());
        out.clear();
        empty_datagram(&mut out, 0, 0);
        assert_eq!(out, 0x0000_0001_5ad2_c000_u64.to_be_bytes());
        out.clear();
        packet(&mut out, &[7; 40], 1, true);
        assert_eq!(out[..16], [0x28_u64, 0x0000_0001_0100_0000].map(u64::to_be_bytes).concat());
        assert_eq!(out.len(), 72);
    }

    #[test]
    fn a_changed_datagram_equals_one_written_with_its_new_ids() {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        datagram(&mut one, &[3; 80], 4, 5, false, true);
        datagram(&mut other, &[3; 80], 9, 5, false, true);
        set_buffer_id(&mut one, 9);
        assert_eq!(one, other);
        other.clear();
        datagram(&mut other, &[3; 80], 10, 6, true, false);
        rehash(&mut one, 10, 6, true, false);
        assert_eq!(one, other);
    }
}
