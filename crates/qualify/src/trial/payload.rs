//! What a datagram of a trial says of itself: run, trial, source and event, so that what comes late is counted nowhere else.
//!
//! ```text
//!  "thalwegQ" │ run 8 │ trial 4 │ event 4 │ source 2 │ 0 … up to its length, big-endian
//!  the same    run     trial     0xffffffff  source    events that were sent 8 │ sources 2 │ …     the end of a source
//! ```
//! The shortest datagram has no space for the number of sources.

/// Bytes of a label, and of the shortest datagram, which can say an end.
const LABEL_BYTES: usize = 26;
pub(super) const LEAST_BYTES: usize = LABEL_BYTES + 8;
/// In the place of an event: the end.
const END: u32 = u32::MAX;
const MARK: [u8; 8] = *b"thalwegQ";

/// What the end of a source says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Events that it has sent.
    pub sent: u64,
    /// How many sources there are in all; 0 where the datagram does not say it.
    pub sources: u16,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub run: u64,
    pub trial: u32,
    pub event: u32,
    pub source: u16,
}

impl Label {
    /// Writes it to the front of a payload that is long enough.
    pub(super) fn write(self, payload: &mut [u8]) {
        let mut bytes = [0; LABEL_BYTES];
        // On the stack: this is done for every datagram that is sent.
        bytes[..8].copy_from_slice(&MARK);
        bytes[8..16].copy_from_slice(&self.run.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.trial.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.event.to_be_bytes());
        bytes[24..].copy_from_slice(&self.source.to_be_bytes());
        payload[..LABEL_BYTES].copy_from_slice(&bytes);
    }

    /// Writes the end of a source in the place of an event.
    pub(super) fn write_end(self, end: End, payload: &mut [u8]) {
        Label { event: END, ..self }.write(payload);
        let bytes = end.sent.to_be_bytes().into_iter().chain(end.sources.to_be_bytes());
        for (place, byte) in payload.iter_mut().skip(LABEL_BYTES).zip(bytes) {
            *place = byte;
        }
    }

    /// Of an end: what it says.
    pub(super) fn end(self, payload: &[u8]) -> Option<End> {
        let (sent, rest) = payload.get(LABEL_BYTES..)?.split_first_chunk::<8>()?;
        let sources = rest.first_chunk::<2>().map_or(0, |sources| u16::from_be_bytes(*sources));
        (self.event == END).then(|| End { sent: u64::from_be_bytes(*sent), sources })
    }

    /// Reads it; `None` where it is another's datagram.
    pub(super) fn read(payload: &[u8]) -> Option<Label> {
        let (mark, rest) = payload.split_first_chunk::<8>()?;
        let (run, rest) = rest.split_first_chunk::<8>()?;
        let (trial, rest) = rest.split_first_chunk::<4>()?;
        let (event, rest) = rest.split_first_chunk::<4>()?;
        let source = rest.first_chunk::<2>()?;
        (*mark == MARK).then(|| Label {
            run: u64::from_be_bytes(*run),
            trial: u32::from_be_bytes(*trial),
            event: u32::from_be_bytes(*event),
            source: u16::from_be_bytes(*source),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let label = Label { run: u64::MAX - 1, trial: 7, event: 1 << 30, source: 511 };
        let mut payload = [0xEE; 64];
        label.write(&mut payload);
        assert_eq!(Label::read(&payload), Some(label));
        assert_eq!((payload[LABEL_BYTES], label.end(&payload)), (0xEE, None));
        assert_eq!(Label::read(&payload[..LABEL_BYTES]), Some(label));
        assert_eq!((Label::read(&payload[..LABEL_BYTES - 1]), Label::read(&payload[1..])), (None, None));
        label.write_end(End { sent: 12, sources: 512 }, &mut payload);
        let read = Label::read(&payload).expect("a label");
        assert_eq!((read.source, read.end(&payload)), (511, Some(End { sent: 12, sources: 512 })));
        assert_eq!(read.end(&payload[..LEAST_BYTES]), Some(End { sent: 12, sources: 0 }));
        assert_eq!(read.end(&payload[..LEAST_BYTES - 1]), None);
    }
}
