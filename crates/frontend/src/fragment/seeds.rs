//! Small datagrams and streams from which fuzzing starts.
//!
//! ```text
//!  boards ─► seeds ─► a fuzzer's mutations ─► check
//! ```
//! The first byte of an input chooses settings; see [`check`](super::check).

use thalweg_data::BoardId;

use super::emulate;
use crate::check::joined;
use crate::trigger::{Answer, Trigger};

/// Datagrams and streams of fragments, with and without checksums, in one datagram and several, for choices of
/// `fragment::check`.
pub fn fragments() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let streamed = choice & 1 == 1;
        let settings = emulate::Settings {
            payload_bytes: 90,
            shortest_payload_bytes: Some(0),
            datagram_bytes: 70,
            stream: streamed,
            checksum: choice & 8 != 0,
            run: 7,
            ..emulate::Settings::default()
        };
        let first = if choice & 4 == 0 { 0 } else { 700 };
        let count = if choice & 2 == 0 { 1 } else { 5 };
        let mut boards = emulate::boards(BoardId(first), count, &settings).expect("the settings are valid");
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let trigger = Trigger { number, time_ns: 1000 * number };
            boards.iter_mut().for_each(|board| board.answer(trigger, &mut bytes, &mut ends));
        }
        if !streamed {
            let starts = std::iter::once(&0).chain(&ends);
            bytes = joined(starts.zip(&ends).map(|(start, end)| &bytes[*start..*end]));
        }
        [vec![choice], bytes].concat()
    };
    [0x00, 0x01, 0x02, 0x0B, 0x0E, 0x4F, 0x50, 0x81, 0x2A, 0x9D].map(input).to_vec()
}
