//! CoMPASS list-mode files (`.BIN`): hits of CAEN boards as their own software wrote them.
//!
//! ```text
//!  file bytes ─► CompassUnpack ─► runs of whole records ─► CompassDecode ─► hits · extras
//! ```
//! [`wire`] is the checked view of a record in all sixteen combinations of fields, [`emit`] its inverse.
//! Files are not promised to be in time order; `order` repairs that. A time has 64 bits of picoseconds, 213 days: CoMPASS has
//! extended the board's counter, and nothing wraps here. The second half of that range is lost as `time_range`.

mod decode;
pub mod emit;
mod settings;
#[cfg(test)]
mod tests;
mod unpack;
pub mod wire;

pub use decode::{CompassDecode, flags};
pub use settings::{Settings, SettingsError};
pub use unpack::CompassUnpack;

use crate::check;
use thalweg_data::SourceId;

/// Reads arbitrary bytes as the host would, in pieces, and panics when the books do not close: for fuzzing.
pub fn check(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let header = (choice & 0x10 != 0).then_some(0xCAE0 | u16::from(choice & 0xF));
    let settings =
        Settings { header, boards: 4, channels_per_board: 16, samples_limit: 2000, ..Settings::default() };
    let unpack = CompassUnpack::new(SourceId(0), &settings).expect("the settings are possible");
    let decode = CompassDecode::new(SourceId(0), &settings).expect("the settings are possible");
    let pieces = if choice & 0x20 == 0 { [4096, 17] } else { [3, 1] };
    check::stream(unpack, decode, bytes, &pieces).assert_closed();
}
