//! Fuzz target of the family.
//!
//! ```text
//!  any bytes ─► settings chosen by the first byte ─► chunks ─► unpack ─► decode ─► the ledger balances
//! ```

use thalweg_data::SourceId;

use super::{CompassDecode, CompassUnpack, Settings, seeds};
use crate::check::hits_of_stream;
use crate::format::FuzzTarget;

/// Fuzz targets of the family.
pub(super) static FUZZ: &[FuzzTarget] = &[FuzzTarget { name: "compass", seeds: seeds::files, check }];

/// Reads arbitrary bytes as a host does, in chunks; panics if the ledger does not balance. The first byte chooses the
/// settings.
pub fn check(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let header = (choice & 0x10 != 0).then_some(0xCAE0 | u16::from(choice & 0xF));
    let settings =
        Settings { header, boards: 4, channels_per_board: 16, samples_limit: 2000, ..Settings::default() };
    let unpack = CompassUnpack::new(SourceId(0), &settings).expect("the settings are valid");
    let decode = CompassDecode::new(SourceId(0), &settings).expect("the settings are valid");
    let chunk_sizes = if choice & 0x20 == 0 { [4096, 17] } else { [3, 1] };
    hits_of_stream(unpack, decode, bytes, &chunk_sizes).assert_closed();
}
