//! What the kernel reports beside a datagram: the length of coalesced datagrams, and how many the socket has dropped.
//!
//! ```text
//!  control bytes ─► parse ─► Notes { segment_bytes, dropped }
//! ```
//! The layout is the kernel's (`cmsg(3)`): a length of type `size_t` that includes this header, then level, type and data,
//! padded to the size of a `size_t`.

/// A buffer for the two control messages that a receiver asks for, aligned as the kernel requires.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct ControlBytes(pub(crate) [u8; 64]);

impl ControlBytes {
    pub(crate) const EMPTY: ControlBytes = ControlBytes([0; 64]);
}

/// The content of one receive call's control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// Length of each coalesced datagram but the last (`UDP_GRO`); `None` when the message is one datagram.
    pub(crate) segment_bytes: Option<usize>,
    /// Datagrams that this socket has dropped so far, modulo 2^32 (`SO_RXQ_OVFL`).
    pub(crate) dropped: Option<u32>,
}

const WORD: usize = size_of::<usize>();
const HEADER: usize = WORD + 8;

/// Reads control messages; skips unknown and truncated ones.
pub(crate) fn parse(mut bytes: &[u8]) -> Notes {
    let mut notes = Notes::default();
    while let Some((length, level, kind)) = header(bytes) {
        let Some(data) = bytes.get(HEADER..length) else { break };
        let value = data.first_chunk::<4>().map(|four| u32::from_ne_bytes(*four));
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                // An `int`, but 16 bits in the first kernels that had it.
                let half = data.first_chunk().map(|two| u32::from(u16::from_ne_bytes(*two)));
                notes.segment_bytes =
                    value.or(half).map(|length| length as usize).filter(|length| *length > 0);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => notes.dropped = value,
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(WORD)..).unwrap_or_default();
    }
    notes
}

fn header(bytes: &[u8]) -> Option<(usize, i32, i32)> {
    let length = usize::from_ne_bytes(*bytes.first_chunk()?);
    let level = i32::from_ne_bytes(*bytes.get(WORD..)?.first_chunk()?);
    let kind = i32::from_ne_bytes(*bytes.get(WORD + 4..)?.first_chunk()?);
    (length >= HEADER && length <= bytes.len()).then_some((length, level, kind))
}

/// Writes the one control message of a send call, `UDP_SEGMENT`: the kernel cuts the bytes into datagrams of `segment_bytes`.
/// Returns the message's length in bytes.
pub(crate) fn write_segment(control: &mut ControlBytes, segment_bytes: u16) -> usize {
    let length = HEADER + 2;
    control.0[..WORD].copy_from_slice(&length.to_ne_bytes());
    control.0[WORD..WORD + 4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    control.0[WORD + 4..HEADER].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    control.0[HEADER..HEADER + 2].copy_from_slice(&segment_bytes.to_ne_bytes());
    length.next_multiple_of(WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(level: i32, kind: i32, value: u32) -> Vec<u8> {
        let mut bytes = (HEADER + 4).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes
    }

    #[test]
    fn both_control_messages_are_read() {
        let mut bytes = message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 77);
        bytes.extend(message(libc::SOL_IP, 1, 5));
        bytes.extend(message(libc::SOL_UDP, libc::UDP_GRO, 1024));
        assert_eq!(parse(&bytes), Notes { segment_bytes: Some(1024), dropped: Some(77) });
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }
    }
}
