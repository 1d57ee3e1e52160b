//! One direction of a TCP connection, put together again from its segments.
//!
//! ```text
//!  segment ─┬─ the next one ────────► bytes, in their order
//!           ├─ behind a gap ─► held ─┘  when the gap is filled, or given up
//!           └─ seen before: left out
//! ```
//! A capture misses segments that the connection did not: a gap is given up when [`MOST_HELD`] segments wait behind it, and what
//! was not read yet before it is let go, since what follows does not continue it.

use std::collections::BTreeMap;

use super::payload::{CapturedPayload, Segment};

/// Segments that wait behind a gap at most.
pub const MOST_HELD: usize = 64;

/// What was captured of one direction of a connection.
#[derive(Debug, Default)]
pub struct CapturedStream {
    /// The number of the next byte, when there was one.
    next: Option<u32>,
    /// By how far behind the next byte they begin.
    held: BTreeMap<u32, Vec<u8>>,
    bytes: Vec<u8>,
    /// Bytes that were never captured, and those before a gap that could not be read to their end for that.
    pub lost_bytes: u64,
}

impl CapturedStream {
    /// Takes a segment.
    pub fn take(&mut self, segment: Segment, captured: &CapturedPayload<'_>) {
        if segment.begins || self.next.is_none() {
            self.let_go();
            self.held.clear();
            self.next = Some(segment.sequence);
        }
        let next = self.next.unwrap_or(segment.sequence);
        let ahead = segment.sequence.wrapping_sub(next);
        if ahead > u32::MAX / 2 {
            // It begins before the next byte: sent once more, perhaps together with something new.
            let known = next.wrapping_sub(segment.sequence) as usize;
            if let Some(rest) = captured.payload.get(known..) {
                self.continue_with(rest, captured.missing_bytes);
            }
        } else if ahead > 0 {
            self.held.entry(ahead).or_insert_with(|| captured.payload.to_vec());
            if self.held.len() > MOST_HELD {
                self.give_up_gap();
            }
        } else {
            self.continue_with(captured.payload, captured.missing_bytes);
        }
        self.take_held();
    }

    /// What is there and was not consumed yet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the first bytes.
    pub fn consume(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }

    /// Forgets all that is there, as lost: nothing in it can be read.
    pub fn let_go(&mut self) {
        self.lost_bytes += self.bytes.len() as u64;
        self.bytes.clear();
    }

    fn continue_with(&mut self, payload: &[u8], missing_bytes: usize) {
        self.bytes.extend(payload);
        self.move_on(payload.len() + missing_bytes);
        if missing_bytes > 0 {
            self.lost_bytes += missing_bytes as u64;
            self.let_go();
        }
    }

    /// The next byte is `count` further on, and everything that is held is as much nearer.
    fn move_on(&mut self, count: usize) {
        let count = count as u32;
        self.next = self.next.map(|next| next.wrapping_add(count));
        let held = std::mem::take(&mut self.held);
        for (ahead, payload) in held {
            match ahead.checked_sub(count) {
                Some(ahead) => {
                    self.held.insert(ahead, payload);
                }
                // Its beginning is there already.
                None => {
                    let known = (count - ahead) as usize;
                    if let Some(rest) = payload.get(known..).filter(|rest| !rest.is_empty()) {
                        self.held.insert(0, rest.to_vec());
                    }
                }
            }
        }
    }

    fn take_held(&mut self) {
        while let Some(payload) = self.held.remove(&0) {
            self.continue_with(&payload, 0);
        }
    }

    /// Goes on behind the gap.
    fn give_up_gap(&mut self) {
        let Some((&ahead, _)) = self.held.first_key_value() else { return };
        self.lost_bytes += u64::from(ahead);
        self.let_go();
        self.move_on(ahead as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn take(stream: &mut CapturedStream, sequence: u32, payload: &[u8], missing_bytes: usize) {
        let end: SocketAddr = "10.0.0.1:1".parse().expect("an address");
        let segment = Segment { sequence, begins: false };
        let captured = CapturedPayload {
            time_ns: None,
            from: end,
            to: end,
            payload,
            missing_bytes,
            segment: Some(segment),
        };
        stream.take(segment, &captured);
    }

    #[test]
    fn segments_in_any_order_and_sent_again_give_the_stream() {
        let bytes: Vec<u8> = (0..400u32).map(|number| (number * 7) as u8).collect();
        for seed in 1..200u32 {
            let mut state = seed.wrapping_mul(2_654_435_761) | 1;
            let mut chance = |most: u32| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state % most
            };
            // Numbers pass the end of their range.
            let first = u32::MAX - chance(500);
            let mut stream = CapturedStream::default();
            take(&mut stream, first, &bytes[..1], 0);
            let mut parts = Vec::new();
            let mut from = 1;
            while from < bytes.len() {
                let end = (from + 1 + chance(20) as usize).min(bytes.len());
                let longer = (end + chance(9) as usize).min(bytes.len());
                parts.extend([(from, end), (from, longer)]);
                from = end;
            }
            for place in (1..parts.len()).rev() {
                parts.swap(place, place - chance(place.min(5) as u32 + 1) as usize);
            }
            for (from, end) in parts {
                take(&mut stream, first.wrapping_add(from as u32), &bytes[from..end], 0);
            }
            assert_eq!((stream.bytes(), stream.lost_bytes), (&bytes[..], 0), "seed {seed}");
        }
    }

    #[test]
    fn what_was_not_captured_is_lost_with_what_it_cuts_off() {
        let mut stream = CapturedStream::default();
        take(&mut stream, 100, b"whole|cut", 0);
        stream.consume(6);
        take(&mut stream, 109, b"", 11);
        assert_eq!((stream.bytes(), stream.lost_bytes), (&b""[..], 14));
        take(&mut stream, 120, b"next", 0);
        assert_eq!(stream.bytes(), b"next");
        // A segment of 10 bytes never comes; those behind it are read when enough of them wait.
        for number in 0..=MOST_HELD as u32 {
            assert_eq!(stream.lost_bytes, 14);
            take(&mut stream, 134 + 2 * number, b"ab", 0);
        }
        assert_eq!((stream.bytes().len(), stream.lost_bytes), (2 * (MOST_HELD + 1), 14 + 4 + 10));
    }
}
