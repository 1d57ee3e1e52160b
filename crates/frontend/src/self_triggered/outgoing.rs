//! Data that a board gives to its host for sending.
//!
//! ```text
//!  SelfTriggeredBoard::produce ─► bytes   | datagram | datagram | datagram | short one |
//!                             └─► lengths |   8972   |   8972   |   8972   |    412    | ─► runs of equal length (GSO, writev)
//! ```
//! One buffer is reused: the host sends, clears, and calls again.

/// Complete datagrams (UDP) or packets (TCP), one after the other.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lengths: Vec<u32>,
    limit: usize,
}

/// Consecutive datagrams of equal length, for one segmented send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The datagrams, one after the other.
    pub bytes: &'a [u8],
    /// Length of each.
    pub datagram_bytes: usize,
}

impl Outgoing {
    /// Creates a buffer that is full when it holds `limit_bytes`; the last datagram may exceed this.
    pub fn new(limit_bytes: usize) -> Outgoing {
        Outgoing { bytes: Vec::with_capacity(limit_bytes), lengths: Vec::new(), limit: limit_bytes.max(1) }
    }

    /// All bytes in order, for a stream socket.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Lengths of the datagrams or packets, in order.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lengths.iter().map(move |length| {
            let (datagram, tail) = rest.split_at(*length as usize);
            rest = tail;
            datagram
        })
    }

    /// The datagrams in runs of equal length, each of at most `most_datagrams` and `most_bytes` (but at least one
    /// datagram): the kernel's limits on one segmented send are 64 and 65 507.
    pub fn runs(&self, most_datagrams: usize, most_bytes: usize) -> impl Iterator<Item = Run<'_>> {
        let (mut rest, mut lengths) = (self.bytes.as_slice(), self.lengths.as_slice());
        std::iter::from_fn(move || {
            let first = *lengths.first()?;
            let most = (most_bytes / (first as usize).max(1)).min(most_datagrams).max(1);
            let count = lengths.iter().take(most).take_while(|length| **length == first).count();
            let (bytes, tail) = rest.split_at(count * first as usize);
            (rest, lengths) = (tail, &lengths[count..]);
            Some(Run { bytes, datagram_bytes: first as usize })
        })
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Whether there is enough to send.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    /// Number of bytes until full.
    pub fn remaining(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    /// Removes the content; keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
    }

    /// Ends a datagram or packet, which has the bytes appended since the last call; returns its length.
    pub(crate) fn end_datagram(&mut self, start: usize) -> u64 {
        let length = self.bytes.len() - start;
        self.lengths.push(length as u32);
        length as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_lengths_change_and_at_the_limits() {
        let mut out = Outgoing::new(100);
        for length in [8, 8, 8, 8, 8, 3, 8] {
            let start = out.bytes.len();
            out.bytes.resize(start + length, 0);
            out.end_datagram(start);
        }
        let shape = |most, bytes| -> Vec<(usize, usize)> {
            out.runs(most, bytes).map(|run| (run.bytes.len(), run.datagram_bytes)).collect()
        };
        assert_eq!(shape(64, 1000), [(40, 8), (3, 3), (8, 8)]);
        assert_eq!(shape(64, 25), [(24, 8), (16, 8), (3, 3), (8, 8)]);
        assert_eq!(shape(2, 1), [(8, 8), (8, 8), (8, 8), (8, 8), (8, 8), (3, 3), (8, 8)]);
        assert_eq!(out.datagrams().map(<[u8]>::len).collect::<Vec<_>>(), [8, 8, 8, 8, 8, 3, 8]);
    }
}
