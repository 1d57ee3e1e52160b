//! MIDAS events as they lie in a `.mid` file, little-endian.
//!
//! ```text
//!  | id u16 | mask u16 | serial u32 | seconds u32 | bytes u32 |  BOR, EOR: text │ data: | bytes u32 | flags u32 | banks
//!  bank: | name 4 | type u32 | bytes u32 | 0 u32 | data, padded to 8 |
//! ```
//! Banks have the header of 16 bytes (flags 0x31), so that their data are aligned in a file whose texts are.

use std::io::{self, Write};

/// The first event of a file.
pub(crate) const BEGIN_OF_RUN: u16 = 0x8000;
/// The last one.
pub(crate) const END_OF_RUN: u16 = 0x8001;
/// The trigger mask of both.
pub(crate) const MAGIC: u16 = 0x494D;
const HEADER_BYTES: usize = 16;
const BANKS_BYTES: usize = 8;
const FLAGS: u32 = 0x31;

/// What a bank's data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// Unsigned bytes.
    U8 = 1,
    /// Unsigned 16-bit numbers.
    U16 = 4,
    /// Floating-point numbers of 32 bits.
    F32 = 9,
    /// Signed 64-bit numbers.
    I64 = 17,
    /// Unsigned 64-bit numbers.
    U64 = 18,
}

/// Writes a BOR or EOR event with the text of a database, padded with spaces so that what follows is aligned.
pub(crate) fn write_run_event(
    id: u16,
    run: u32,
    seconds: u32,
    text: &str,
    to: &mut impl Write,
) -> io::Result<()> {
    let padded = text.len().next_multiple_of(8);
    let length = u32::try_from(padded).map_err(|_| too_long())?;
    to.write_all(&header(id, MAGIC, run, seconds, length))?;
    to.write_all(text.as_bytes())?;
    to.write_all(&b"       "[..padded - text.len()])
}

/// A data event in the making. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct DataEvent {
    bytes: Vec<u8>,
}

impl DataEvent {
    /// Begins an event.
    pub fn begin(&mut self, id: u16, serial: u32, seconds: u32) {
        self.bytes.clear();
        self.bytes.extend(header(id, 1, serial, seconds, 0));
        self.bytes.extend(0u32.to_le_bytes());
        self.bytes.extend(FLAGS.to_le_bytes());
    }

    /// Adds a bank. Readers keep one bank of each name in an event.
    pub fn bank(&mut self, name: [u8; 4], kind: Type, data: &[u8]) {
        self.bytes.extend(name);
        self.bytes.extend((kind as u32).to_le_bytes());
        // An event whose length is too great for 32 bits is refused when it is written.
        self.bytes.extend((data.len() as u32).to_le_bytes());
        self.bytes.extend(0u32.to_le_bytes());
        self.bytes.extend(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// Writes the event.
    ///
    /// # Errors
    /// When it is longer than the format can say, or cannot be written.
    pub fn write(&mut self, to: &mut impl Write) -> io::Result<()> {
        let length = u32::try_from(self.bytes.len() - HEADER_BYTES).map_err(|_| too_long())?;
        self.bytes[12..16].copy_from_slice(&length.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&(length - BANKS_BYTES as u32).to_le_bytes());
        to.write_all(&self.bytes)
    }
}

/// The name of a source's bank: `S` and its number in base 36; beyond `SZZZ`, `T000` and on.
pub(crate) fn source_bank(source: u16) -> [u8; 4] {
    const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut number = usize::from(source);
    let mut name = [0; 4];
    for place in (1..4).rev() {
        name[place] = DIGITS[number % 36];
        number /= 36;
    }
    name[0] = b'S' + number as u8;
    name
}

fn header(id: u16, mask: u16, serial: u32, seconds: u32, length: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..2].copy_from_slice(&id.to_le_bytes());
    bytes[2..4].copy_from_slice(&mask.to_le_bytes());
    for (place, word) in [serial, seconds, length].into_iter().enumerate() {
        bytes[4 + 4 * place..8 + 4 * place].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "an event of more than 4 GiB, which MIDAS cannot hold")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of MIDAS's own form, which its Python reader and `midasio` read: BOR, one event with one bank, EOR. Its texts are padded
    /// to whole words.
    #[test]
    fn events_have_the_golden_bytes_of_the_format() {
        let mut bytes = Vec::new();
        let text = r#"{"/MIDAS version":"2.1","Runinfo":{"Run number":7}}"#;
        write_run_event(BEGIN_OF_RUN, 7, 0x6553_F100, text, &mut bytes).expect("memory");
        let begin = [0x00, 0x80, 0x4d, 0x49, 7, 0, 0, 0, 0x00, 0xf1, 0x53, 0x65, 0x38, 0, 0, 0];
        assert_eq!(bytes[..16], begin);
        assert_eq!(&bytes[16..], format!("{text}     ").as_bytes());
        bytes.clear();
        let mut event = DataEvent::default();
        event.begin(1, 1, 0x6553_F101);
        event.bank(*b"ADC0", Type::U16, &[1, 0, 2, 0, 3, 0, 4, 0]);
        event.write(&mut bytes).expect("memory");
        let golden = [
            0x01, 0x00, 0x01, 0x00, 0x01, 0, 0, 0, 0x01, 0xf1, 0x53, 0x65, 0x20, 0, 0, 0, // header
            0x18, 0, 0, 0, 0x31, 0, 0, 0, // all banks
            0x41, 0x44, 0x43, 0x30, 4, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, // "ADC0"
            1, 0, 2, 0, 3, 0, 4, 0,
        ];
        assert_eq!(bytes, golden);
    }

    #[test]
    fn banks_are_padded_and_say_their_real_length() {
        let (mut event, mut bytes) = (DataEvent::default(), Vec::new());
        event.begin(2, 0, 0);
        event.bank(*b"S000", Type::U8, &[9; 3]);
        event.bank(*b"S001", Type::U8, &[]);
        event.write(&mut bytes).expect("memory");
        assert_eq!(bytes.len(), 16 + 8 + 24 + 16);
        assert_eq!(bytes[32..36], 3u32.to_le_bytes());
        assert_eq!(bytes[40..48], [9, 9, 9, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn banks_of_sources_have_different_names() {
        let names: std::collections::BTreeSet<_> = (0..=u16::MAX).map(source_bank).collect();
        assert_eq!(names.len(), 1 << 16);
        assert_eq!((source_bank(0), source_bank(37), source_bank(46_656)), (*b"S000", *b"S011", *b"T000"));
        assert!(!names.contains(b"TRIG") && !names.contains(b"TICK"));
    }
}
