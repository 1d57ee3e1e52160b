//! The CoMPASS list file: its fields, and a checked view of one record.
//!
//! ```text
//!  u16 0xCAE0|fields, then records, little-endian, packed:
//!  | board | channel | time_ps | [energy] | [calibrated] | [short] | flags | [probe | N | N samples] |
//!     u16      u16       u64       u16         f64          u16      u32      u8    u32   u16 each
//! ```

use thalweg_data::LossReason;

/// The optional fields of a file's records: the low four bits of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields(u8);

impl Fields {
    /// Energy in ADC channels.
    pub const ENERGY: Fields = Fields(1);
    /// Calibrated energy (keV or MeV) as a 64-bit float.
    pub const CALIBRATED: Fields = Fields(2);
    /// Energy of the short gate.
    pub const ENERGY_SHORT: Fields = Fields(4);
    /// Probe code, sample count and samples.
    pub const WAVEFORM: Fields = Fields(8);
    /// Bytes of the file header.
    pub const HEADER_BYTES: usize = 2;
    const MARK: u16 = 0xCAE0;

    /// The fields of the low four bits of `bits`.
    pub const fn from_bits(bits: u32) -> Fields {
        Fields((bits & 0xF) as u8)
    }

    /// The fields of a header word, or `None` if it is not a header.
    pub const fn from_header(word: u16) -> Option<Fields> {
        if word & 0xFFF0 == Self::MARK { Some(Fields((word & 0xF) as u8)) } else { None }
    }

    /// The header word for these fields.
    pub const fn header(self) -> u16 {
        Self::MARK | self.0 as u16
    }

    /// The four bits.
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Whether all fields of `other` are included.
    pub const fn has(self, other: Fields) -> bool {
        self.0 & other.0 == other.0
    }

    /// The fields of both.
    #[must_use]
    pub const fn with(self, other: Fields) -> Fields {
        Fields(self.0 | other.0)
    }
}

/// The offsets of the fields in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    /// The fields.
    pub fields: Fields,
    calibrated_at: usize,
    short_at: usize,
    flags_at: usize,
    fixed_bytes: usize,
}

const TIME_AT: usize = 4;
const ENERGY_AT: usize = 12;
const SAMPLE_BYTES: usize = 2;

impl RecordLayout {
    /// The layout of records with `fields`.
    pub const fn of(fields: Fields) -> RecordLayout {
        let calibrated_at = ENERGY_AT + if fields.has(Fields::ENERGY) { 2 } else { 0 };
        let short_at = calibrated_at + if fields.has(Fields::CALIBRATED) { 8 } else { 0 };
        let flags_at = short_at + if fields.has(Fields::ENERGY_SHORT) { 2 } else { 0 };
        let fixed_bytes = flags_at + 4 + if fields.has(Fields::WAVEFORM) { 5 } else { 0 };
        RecordLayout { fields, calibrated_at, short_at, flags_at, fixed_bytes }
    }

    /// Bytes of a record without its samples.
    pub const fn fixed_bytes(&self) -> usize {
        self.fixed_bytes
    }
}

/// Limits of plausible records, by which damage is recognised, and the next record found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Board numbers are below this.
    pub boards: u16,
    /// Channel numbers of a board are below this.
    pub channels_per_board: u16,
    /// Waveforms have at most this many samples.
    pub samples: u32,
}

/// What the first bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look<'a> {
    /// A whole record.
    Record(Record<'a>),
    /// The start of a record; more bytes are needed.
    Short,
    /// Not a record: a field is beyond its limit.
    Implausible(LossReason),
}

/// A checked view of one record: every accessor stays inside its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    layout: RecordLayout,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads a record at the start of `bytes`.
    #[inline]
    pub fn look(bytes: &'a [u8], layout: RecordLayout, limits: &Limits) -> Look<'a> {
        let Some(fixed) = bytes.get(..layout.fixed_bytes) else { return Look::Short };
        let head = Record { layout, bytes: fixed };
        if head.board() >= limits.boards || head.channel() >= limits.channels_per_board {
            return Look::Implausible(LossReason::BadChannel);
        }
        let samples = head.sample_count();
        if samples > limits.samples {
            return Look::Implausible(LossReason::BadSamples);
        }
        match bytes.get(..layout.fixed_bytes + samples as usize * SAMPLE_BYTES) {
            Some(bytes) => Look::Record(Record { layout, bytes }),
            None => Look::Short,
        }
    }

    #[inline]
    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.bytes[at..].first_chunk().expect("a record contains its fixed fields")
    }

    /// All bytes of the record.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Board number.
    #[inline]
    pub fn board(&self) -> u16 {
        u16::from_le_bytes(self.field(0))
    }

    /// Channel of the board.
    #[inline]
    pub fn channel(&self) -> u16 {
        u16::from_le_bytes(self.field(2))
    }

    /// Time in picoseconds.
    #[inline]
    pub fn time_ps(&self) -> u64 {
        u64::from_le_bytes(self.field(TIME_AT))
    }

    /// Energy in ADC channels, if the file has it.
    #[inline]
    pub fn energy(&self) -> Option<u16> {
        self.layout.fields.has(Fields::ENERGY).then(|| u16::from_le_bytes(self.field(ENERGY_AT)))
    }

    /// Calibrated energy, if the file has it.
    pub fn calibrated(&self) -> Option<f64> {
        self.calibrated_range().map(|range| f64::from_le_bytes(self.field(range.start)))
    }

    /// Range of the calibrated energy in the record.
    #[inline]
    pub fn calibrated_range(&self) -> Option<std::ops::Range<usize>> {
        let start = self.layout.calibrated_at;
        self.layout.fields.has(Fields::CALIBRATED).then_some(start..start + 8)
    }

    /// Energy of the short gate, if the file has it.
    #[inline]
    pub fn energy_short(&self) -> Option<u16> {
        self.layout
            .fields
            .has(Fields::ENERGY_SHORT)
            .then(|| u16::from_le_bytes(self.field(self.layout.short_at)))
    }

    /// The event flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        u32::from_le_bytes(self.field(self.layout.flags_at))
    }

    /// The probe of the samples, if the file has waveforms.
    #[inline]
    pub fn probe(&self) -> Option<u8> {
        self.layout.fields.has(Fields::WAVEFORM).then(|| self.bytes[self.layout.flags_at + 4])
    }

    /// Number of samples; 0 if the file has none.
    #[inline]
    pub fn sample_count(&self) -> u32 {
        if self.layout.fields.has(Fields::WAVEFORM) {
            u32::from_le_bytes(self.field(self.layout.flags_at + 5))
        } else {
            0
        }
    }

    /// Range of the samples in the record: little-endian, 16 bits each.
    #[inline]
    pub fn samples_range(&self) -> std::ops::Range<usize> {
        self.layout.fixed_bytes..self.bytes.len()
    }
}

/// Event flags of a record, with the names of public readers of the format.
pub mod event {
    /// Dead time before this event.
    pub const DEAD_TIME: u32 = 0x1;
    /// A marker made by the board.
    pub const FAKE: u32 = 0x8;
    /// The board's memory was full before this event.
    pub const MEMORY_FULL: u32 = 0x10;
    /// A trigger was lost before this event.
    pub const TRIGGER_LOST: u32 = 0x20;
    /// N triggers have been lost.
    pub const TRIGGERS_LOST: u32 = 0x40;
    /// Saturated inside the gate.
    pub const SATURATING: u32 = 0x80;
    /// The input saturated.
    pub const INPUT_SATURATING: u32 = 0x400;
    /// The time stamp has a fine part.
    pub const FINE_TIME: u32 = 0x4000;
    /// Pile-up.
    pub const PILE_UP: u32 = 0x8000;
    /// Marker: the clock lost its lock.
    pub const FAKE_CLOCK: u32 = 0x8_0000;
    /// Marker: overheated.
    pub const FAKE_TEMPERATURE: u32 = 0x10_0000;
    /// Marker: the ADC was shut down.
    pub const FAKE_SHUTDOWN: u32 = 0x20_0000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_known_headers() {
        let fixed = |header| RecordLayout::of(Fields::from_header(header).expect("a header")).fixed_bytes();
        assert_eq!([0xCAE1, 0xCAE5, 0xCAED, 0xCAE7].map(fixed), [18, 20, 25, 28]);
        assert_eq!(Fields::from_header(0xCAD5), None);
    }
}
