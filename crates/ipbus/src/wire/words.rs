//! Words of 32 bits in either byte order.
//!
//! ```text
//!  bytes, ByteOrder ─► Words ─► get, iter, copy_to
//! ```

/// Bytes of a word.
pub const WORD_BYTES: usize = 4;

/// Which byte of a word comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The least significant.
    Little,
    /// The most significant.
    Big,
}

impl ByteOrder {
    /// That of this machine: it needs no turning.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    /// The word that these bytes are.
    #[inline]
    pub const fn word(self, bytes: [u8; WORD_BYTES]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The bytes that this word is.
    #[inline]
    pub const fn bytes(self, word: u32) -> [u8; WORD_BYTES] {
        match self {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        }
    }

    /// Appends words to bytes.
    pub fn append(self, words: &[u32], bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + words.len() * WORD_BYTES, 0);
        let places = bytes[start..].as_chunks_mut().0.iter_mut().zip(words);
        // Chosen once and not word by word, so that either becomes a copy.
        match self {
            ByteOrder::Little => places.for_each(|(place, word)| *place = word.to_le_bytes()),
            ByteOrder::Big => places.for_each(|(place, word)| *place = word.to_be_bytes()),
        }
    }
}

/// Some words of a packet.
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
    /// Whole words; bytes behind the last whole one are left out.
    pub const fn new(bytes: &'a [u8], order: ByteOrder) -> Words<'a> {
        Words { bytes: bytes.as_chunks().0, order }
    }

    /// None.
    pub const fn none() -> Words<'a> {
        Words { bytes: &[], order: ByteOrder::NATIVE }
    }

    /// How many.
    pub const fn len(self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Their byte order.
    pub const fn order(self) -> ByteOrder {
        self.order
    }

    /// One of them.
    #[inline]
    pub fn get(self, index: usize) -> Option<u32> {
        self.bytes.get(index).map(|bytes| self.order.word(*bytes))
    }

    /// All of them, in their order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.bytes.iter().map(move |bytes| self.order.word(*bytes))
    }

    /// The first `count` and the rest; `None` where there are fewer.
    pub fn split_at(self, count: usize) -> Option<(Words<'a>, Words<'a>)> {
        let (first, rest) = self.bytes.split_at_checked(count)?;
        Some((Words { bytes: first, ..self }, Words { bytes: rest, ..self }))
    }

    /// Writes as many of them as there is room for; returns how many that are.
    pub fn copy_to(self, room: &mut [u32]) -> usize {
        let places = room.iter_mut().zip(self.bytes);
        match self.order {
            ByteOrder::Little => places.for_each(|(place, bytes)| *place = u32::from_le_bytes(*bytes)),
            ByteOrder::Big => places.for_each(|(place, bytes)| *place = u32::from_be_bytes(*bytes)),
        }
        room.len().min(self.len())
    }
}
