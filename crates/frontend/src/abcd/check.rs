//! Fuzz target of the family.
//!
//! ```text
//!  any bytes ─► settings chosen by the first byte ─► chunks ─► unpack ─► decode ─► the ledger balances
//! ```

use thalweg_data::SourceId;

use super::{AbcdDecode, AbcdUnpack, Settings, seeds};
use crate::check::hits_of_stream;
use crate::format::FuzzTarget;

/// Fuzz targets of the family.
pub(super) static FUZZ: &[FuzzTarget] = &[FuzzTarget { name: "abcd", seeds: seeds::files, check }];

/// Reads arbitrary bytes as a host does, in chunks; panics if the ledger does not balance. The first byte chooses the
/// settings.
pub fn check(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let tick_ps = if choice & 1 == 0 { 1.953125 } else { 0.1 };
    let channels = if choice & 2 == 0 { 256 } else { 8 };
    let settings = Settings { channels, keep_baseline: choice & 4 != 0, ..Settings::with_tick_ps(tick_ps) };
    let unpack = AbcdUnpack::new(SourceId(0), &settings).expect("the settings are valid");
    let decode = AbcdDecode::new(SourceId(0), &settings).expect("the settings are valid");
    let chunk_sizes = if choice & 8 == 0 { [4096, 17] } else { [3, 1] };
    hits_of_stream(unpack, decode, bytes, &chunk_sizes).assert_closed();
}
