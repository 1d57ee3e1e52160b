//! ABCD event files (`.ade`): charges and times that the ABCD acquisition computed from waveforms.
//!
//! ```text
//!  file bytes ─► AbcdUnpack ─► runs of whole records ─► AbcdDecode ─► hits
//! ```
//! [`wire`] is the view of a record, [`emit`] its inverse. Files are not promised to be in time order; `order`
//! repairs that. The baseline has no place in a hit: it is kept as an extra where `keep_baseline` says so, and in the
//! raw recording in any case. The group counter is in the raw recording only. A time has 64 bits of counts of 2 ps and more, over
//! a year: ABCD has extended the board's counter, and nothing wraps here. What picoseconds cannot say is lost as `time_range`.

mod decode;
pub mod emit;
mod settings;
#[cfg(test)]
mod tests;
mod unpack;
pub mod wire;

pub use decode::AbcdDecode;
pub use settings::{Settings, SettingsError};
pub use unpack::AbcdUnpack;

use crate::check;
use thalweg_data::SourceId;

/// Reads arbitrary bytes as the host would, in pieces, and panics when the books do not close: for fuzzing.
pub fn check(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let tick_ps = if choice & 1 == 0 { 1.953125 } else { 0.1 };
    let channels = if choice & 2 == 0 { 256 } else { 8 };
    let settings = Settings { channels, keep_baseline: choice & 4 != 0, ..Settings::with_tick_ps(tick_ps) };
    let unpack = AbcdUnpack::new(SourceId(0), &settings).expect("the settings are possible");
    let decode = AbcdDecode::new(SourceId(0), &settings).expect("the settings are possible");
    let pieces = if choice & 8 == 0 { [4096, 17] } else { [3, 1] };
    check::stream(unpack, decode, bytes, &pieces).assert_closed();
}
