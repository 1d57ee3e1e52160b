//! Writes CoMPASS list files: the inverse of [`wire`](super::wire), for tests and prepared data.
//!
//! ```text
//!  Event ─► record ─► bytes      header ─► bytes
//! ```

use super::wire::Fields;

/// The content of one record. Fields that the file does not have are not written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Board number.
    pub board: u16,
    /// Channel of the board.
    pub channel: u16,
    /// Time in picoseconds.
    pub time_ps: u64,
    /// Energy in ADC channels.
    pub energy: u16,
    /// Calibrated energy.
    pub calibrated: f64,
    /// Energy of the short gate.
    pub energy_short: u16,
    /// Event flags.
    pub flags: u32,
    /// The probe of the samples.
    pub probe: u8,
    /// The waveform.
    pub samples: Vec<u16>,
}

/// Appends the file header.
pub fn header(fields: Fields, to: &mut Vec<u8>) {
    to.extend(fields.header().to_le_bytes());
}

/// Appends one record.
pub fn record(fields: Fields, event: &Event, to: &mut Vec<u8>) {
    to.extend(event.board.to_le_bytes());
    to.extend(event.channel.to_le_bytes());
    to.extend(event.time_ps.to_le_bytes());
    if fields.has(Fields::ENERGY) {
        to.extend(event.energy.to_le_bytes());
    }
    if fields.has(Fields::CALIBRATED) {
        to.extend(event.calibrated.to_le_bytes());
    }
    if fields.has(Fields::ENERGY_SHORT) {
        to.extend(event.energy_short.to_le_bytes());
    }
    to.extend(event.flags.to_le_bytes());
    if fields.has(Fields::WAVEFORM) {
        to.push(event.probe);
        to.extend((event.samples.len() as u32).to_le_bytes());
        event.samples.iter().for_each(|sample| to.extend(sample.to_le_bytes()));
    }
}
