//! 32-bit words in either byte order.
//!
//! ```text
//!  bytes, ByteOrder ─► Words ─► get, iter, copy_to
//! ```

/// Bytes of a word.
pub const WORD_BYTES: usize = 4;

/// Which byte of a word is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The least significant.
    Little,
    /// The most significant.
    Big,
}

impl ByteOrder {
    /// The byte order of this machine, which needs no swapping.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    /// The word in these bytes.
    #[inline]
    pub const fn word(self, bytes: [u8; WORD_BYTES]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The bytes of this word.
    #[inline]
    pub const fn bytes(self, word: u32) -> [u8; WORD_BYTES] {
        match self {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        }
    }

    /// Appends words to `bytes`.
    pub fn append(self, words: &[u32], bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + words.len() * WORD_BYTES, 0);
        let slots = bytes[start..].as_chunks_mut().0.iter_mut().zip(words);
        // The byte order is chosen once and not per word, so that the compiler makes each branch a bulk copy.
        match self {
            ByteOrder::Little => slots.for_each(|(slot, word)| *slot = word.to_le_bytes()),
            ByteOrder::Big => slots.for_each(|(slot, word)| *slot = word.to_be_bytes()),
        }
    }
}

/// A view of words in a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Words<'a> {
    bytes: &'a [[u8; WORD_BYTES]],
    order: ByteOrder,
}

impl std::fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|word| format!("{word:#010x}"))).finish()
    }
}

impl<'a> Words<'a> {
    /// The whole words in `bytes`; an incomplete last word is left out.
    pub const fn new(bytes: &'a [u8], order: ByteOrder) -> Words<'a> {
        Words { bytes: bytes.as_chunks().0, order }
    }

    /// No words.
    pub const fn none() -> Words<'a> {
        Words { bytes: &[], order: ByteOrder::NATIVE }
    }

    /// How many words there are.
    pub const fn len(self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no words.
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Their byte order.
    pub const fn order(self) -> ByteOrder {
        self.order
    }

    /// The word at this index.
    #[inline]
    pub fn get(self, index: usize) -> Option<u32> {
        self.bytes.get(index).map(|bytes| self.order.word(*bytes))
    }

    /// All words, in their order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.bytes.iter().map(move |bytes| self.order.word(*bytes))
    }

    /// The first `count` words and the rest; `None` when there are fewer.
    pub fn split_at(self, count: usize) -> Option<(Words<'a>, Words<'a>)> {
        let (first, rest) = self.bytes.split_at_checked(count)?;
        Some((Words { bytes: first, ..self }, Words { bytes: rest, ..self }))
    }

    /// Copies as many words as fit into `output`; returns how many.
    pub fn copy_to(self, output: &mut [u32]) -> usize {
        let slots = output.iter_mut().zip(self.bytes);
        match self.order {
            ByteOrder::Little => slots.for_each(|(slot, bytes)| *slot = u32::from_le_bytes(*bytes)),
            ByteOrder::Big => slots.for_each(|(slot, bytes)| *slot = u32::from_be_bytes(*bytes)),
        }
        output.len().min(self.len())
    }
}
