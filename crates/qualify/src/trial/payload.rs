//! What a datagram of a trial says of itself: run, trial, source and event, so that what comes late is counted nowhere else.
//!
//! ```text
//!  "thalwegQ" │ run 8 │ trial 4 │ event 4 │ source 2 │ 0 … up to its length, big-endian
//! ```

/// Bytes of the shortest one.
pub(super) const LEAST_BYTES: usize = 26;
const MARK: [u8; 8] = *b"thalwegQ";

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
        let Label { run, trial, event, source } = self;
        let bytes = [
            &MARK[..],
            &run.to_be_bytes(),
            &trial.to_be_bytes(),
            &event.to_be_bytes(),
            &source.to_be_bytes(),
        ];
        for (place, byte) in payload.iter_mut().zip(bytes.concat()) {
            *place = byte;
        }
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
        assert_eq!(payload[LEAST_BYTES], 0xEE);
        assert_eq!(Label::read(&payload[..LEAST_BYTES]), Some(label));
        assert_eq!((Label::read(&payload[..LEAST_BYTES - 1]), Label::read(&payload[1..])), (None, None));
    }
}
