//! Fuzz targets of the family.
//!
//! ```text
//!  any bytes ─► settings chosen by the first byte ─► chunks of a stream, or datagrams ─► splitter ─► the ledger balances
//! ```

use thalweg_data::SourceId;

use super::{Checksum, Settings, Splitter, StreamSplitter, seeds};
use crate::check::{fragments_of_datagrams, fragments_of_stream, split};
use crate::format::FuzzTarget;

/// Fuzz targets of the family.
pub(super) static FUZZ: &[FuzzTarget] = &[FuzzTarget { name: "fragment", seeds: seeds::fragments, check }];

/// Settings chosen by the first byte of a fuzzer's input: boards, checksum, run, length.
fn checked_settings(choice: u8) -> Settings {
    Settings {
        tick_ps: None,
        boards: if choice & 2 == 0 { 1 } else { 5 },
        first_board: if choice & 4 == 0 { 0 } else { 700 },
        without: Vec::new(),
        checksum: [Checksum::IfSent, Checksum::Required, Checksum::Ignored, Checksum::IfSent]
            [usize::from(choice >> 3 & 3)],
        longest_fragment_bytes: Some(if choice & 0x20 == 0 { 2000 } else { 100_000 }),
        run: (choice & 0x40 != 0).then_some(7),
        open_fragments: 2,
        reassembly_ms: 3,
    }
}

/// Reads arbitrary bytes as a host does, as a stream or as joined datagrams; panics if the ledger does not balance. The
/// first byte chooses the settings.
pub fn check(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let settings = checked_settings(*choice);
    let outcome = if choice & 1 == 1 {
        let splitter = StreamSplitter::new(SourceId(0), &settings).expect("the settings are valid");
        let chunk_sizes = if choice & 0x80 == 0 { [4096, 17] } else { [3, 1] };
        fragments_of_stream(splitter, bytes, &chunk_sizes)
    } else {
        let splitter = Splitter::new(SourceId(0), &settings).expect("the settings are valid");
        fragments_of_datagrams(splitter, split(bytes))
    };
    outcome.assert_closed();
}
