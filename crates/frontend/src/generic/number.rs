//! Reads one number of a header: compiled once, without lookups by name.
//!
//! ```text
//!  bytes[offset ..][.. width] ─► byte and word order ─► & mask ─► >> shift ─► u64
//! ```

use super::settings::{ByteOrder, Field};

/// A field, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    offset: usize,
    width: usize,
    big: bool,
    /// The byte order within each 16-bit word differs from the order of the words.
    swapped: bool,
    mask: u64,
    shift: u32,
}

/// Exchanges the bytes of each 16-bit word.
fn swap_pairs(value: u64) -> u64 {
    const LOW: u64 = 0x00FF_00FF_00FF_00FF;
    (value & LOW) << 8 | (value >> 8) & LOW
}

impl Number {
    /// Largest offset of the end of a field, which limits the length of headers.
    pub const FURTHEST: usize = 4096;

    /// Checks a field; the error says what is wrong with it.
    pub fn of(field: &Field, default: ByteOrder) -> Result<Number, String> {
        let Field { offset, width, byte_order, word_order, mask, shift } = *field;
        if !(1..=8).contains(&width) {
            return Err(format!("`width = {width}` is not 1 to 8 bytes"));
        }
        if offset.saturating_add(width) > Self::FURTHEST {
            return Err(format!(
                "it ends at byte {}, beyond {}",
                offset.saturating_add(width),
                Self::FURTHEST
            ));
        }
        let bytes = byte_order.unwrap_or(default);
        let words = word_order.unwrap_or(bytes);
        if words != bytes && width % 2 == 1 {
            return Err(format!("`word_order` needs whole 16-bit words, and `width = {width}` is odd"));
        }
        let all = u64::MAX >> (64 - 8 * width);
        let mask = mask.unwrap_or(all);
        if mask & !all != 0 {
            return Err(format!("`mask = {mask:#x}` has bits beyond its {width} bytes"));
        }
        if shift >= 64 || mask >> shift == 0 {
            return Err(format!("`shift = {shift}` shifts out all bits of `mask = {mask:#x}`"));
        }
        let big = words == ByteOrder::Big;
        Ok(Number { offset, width, big, swapped: words != bytes, mask, shift })
    }

    /// First byte behind the field.
    pub fn end(&self) -> usize {
        self.offset + self.width
    }

    /// The largest value: each bit that a value can have is set.
    pub fn all_bits(&self) -> u64 {
        self.mask >> self.shift
    }

    /// Bits of the largest value.
    pub fn bits(&self) -> u32 {
        64 - self.all_bits().leading_zeros()
    }

    /// Reads the value.
    ///
    /// # Panics
    /// When `header` is shorter than [`Number::end`].
    #[inline]
    pub fn read(&self, header: &[u8]) -> u64 {
        let bytes = &header[self.offset..self.end()];
        let mut value = if self.big {
            bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
        } else {
            bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        if self.swapped {
            value = swap_pairs(value);
        }
        (value & self.mask) >> self.shift
    }

    /// Writes a value where [`Number::read`] reads it; other bits are unchanged. Bits beyond the field are dropped.
    ///
    /// # Panics
    /// When `header` is shorter than [`Number::end`].
    pub fn write(&self, value: u64, header: &mut [u8]) {
        let whole = Number { mask: u64::MAX >> (64 - 8 * self.width), shift: 0, ..*self };
        let mut raw = whole.read(header) & !self.mask | value << self.shift & self.mask;
        if self.swapped {
            raw = swap_pairs(raw);
        }
        let bytes = &mut header[self.offset..self.offset + self.width];
        if self.big {
            bytes.copy_from_slice(&raw.to_be_bytes()[8 - self.width..]);
        } else {
            bytes.copy_from_slice(&raw.to_le_bytes()[..self.width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(width: usize, bytes: ByteOrder, words: ByteOrder) -> Field {
        Field { offset: 1, width, byte_order: Some(bytes), word_order: Some(words), mask: None, shift: 0 }
    }

    fn read(width: usize, bytes: ByteOrder, words: ByteOrder) -> u64 {
        let number = Number::of(&field(width, bytes, words), ByteOrder::Big).expect("valid");
        number.read(&[0xFF, 1, 2, 3, 4, 5, 6, 7, 8])
    }

    #[test]
    fn fields_are_read_in_every_byte_and_word_order() {
        use ByteOrder::{Big, Little};
        assert_eq!(read(6, Little, Little), 0x0605_0403_0201);
        assert_eq!(read(6, Big, Big), 0x0102_0304_0506);
        assert_eq!(read(6, Big, Little), 0x0506_0304_0102);
        assert_eq!(read(6, Little, Big), 0x0201_0403_0605);
        assert_eq!(read(8, Big, Little), 0x0708_0506_0304_0102);
        assert_eq!(read(3, Big, Big), 0x01_0203);
    }

    #[test]
    fn invalid_fields_are_refused() {
        use ByteOrder::{Big, Little};
        let message = |field| Number::of(&field, Big).expect_err("invalid");
        assert!(message(field(9, Big, Big)).contains("1 to 8"));
        assert!(message(field(3, Big, Little)).contains("odd"));
        assert!(message(Field { mask: Some(0x100), ..field(1, Big, Big) }).contains("beyond"));
        assert!(message(Field { shift: 8, ..field(1, Big, Big) }).contains("shifts out all bits"));
        assert!(message(Field { offset: usize::MAX, ..field(1, Big, Big) }).contains("beyond"));
    }

    proptest! {
        #[test]
        fn a_written_value_is_read_back(
            width in 1..=8usize,
            big in any::<(bool, bool)>(),
            value in any::<u64>(),
            mask in any::<u64>(),
            shift in 0..30u32,
            mut header in any::<[u8; 16]>(),
        ) {
            let order = |big| if big { ByteOrder::Big } else { ByteOrder::Little };
            let bytes = order(big.0);
            let words = if width % 2 == 0 { order(big.1) } else { bytes };
            let mask = mask & u64::MAX >> (64 - 8 * width);
            prop_assume!(mask >> shift != 0);
            let number = Number::of(&Field { mask: Some(mask), shift, ..field(width, bytes, words) }, bytes);
            let number = number.expect("possible");
            let before = header;
            number.write(value, &mut header);
            prop_assert_eq!(number.read(&header), value & mask >> shift);
            prop_assert_eq!((before[0], &before[1 + width..]), (header[0], &header[1 + width..]));
        }
    }
}
