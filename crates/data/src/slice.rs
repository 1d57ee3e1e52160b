//! A [`Slice`] is the position of bytes in a block: 16 bytes of plain data.
//!
//! The right to read the bytes is in the batch that contains the slice: it holds one
//! [`Lease`](crate::Lease) per distinct block. So a slice is copied, sorted and stored like a number,
//! without an atomic operation per fragment. A *chain* is a sequence of neighbouring slices in a batch's
//! list, given by its first index and its length; all but the last have [`Slice::CONTINUES`] set.

/// Identifies one block of one pool of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct BlockId(u32);

impl BlockId {
    const INDEX_BITS: u32 = 20;
    /// Most blocks that one pool can have.
    pub const MAX_BLOCKS: usize = 1 << Self::INDEX_BITS;
    /// Most pools that one process can have.
    pub const MAX_POOLS: usize = 1 << (32 - Self::INDEX_BITS);

    pub(crate) fn new(pool: u32, index: u32) -> Self {
        Self(pool << Self::INDEX_BITS | index)
    }

    /// The id as a number, for tables of blocks.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    /// Number of its pool among those of this process.
    #[inline]
    pub fn pool(self) -> u32 {
        self.0 >> Self::INDEX_BITS
    }

    /// Number of the block in its pool.
    #[inline]
    pub fn index(self) -> u32 {
        self.0 & ((1 << Self::INDEX_BITS) - 1)
    }
}

/// The position of published bytes: block, offset, length, and a tag for the room that made it. The default is an empty slice, for
/// tables that are filled later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Slice {
    /// The block that holds the bytes.
    pub block: BlockId,
    /// First byte, from the start of the block.
    pub offset: u32,
    /// Number of bytes.
    pub length: u32,
    /// The room that made the slice defines the meaning; the top bit is [`Slice::CONTINUES`].
    pub tag: u32,
}

impl Slice {
    /// Tag bit: the unit continues in the next slice of the list.
    pub const CONTINUES: u32 = 1 << 31;

    /// Whether the unit continues in the next slice.
    #[inline]
    pub fn continues(self) -> bool {
        self.tag & Self::CONTINUES != 0
    }

    /// The part of `length` bytes from byte `start` of this slice on. `None` if it is not inside. The tag is kept.
    #[inline]
    pub fn part(self, start: usize, length: usize) -> Option<Slice> {
        let end = start.checked_add(length)?;
        (end <= self.length as usize).then(|| Slice {
            offset: self.offset + start as u32,
            length: length as u32,
            ..self
        })
    }

    /// The same bytes with another tag.
    #[inline]
    pub fn tagged(self, tag: u32) -> Slice {
        Slice { tag, ..self }
    }

    /// End of the slice, from the start of the block.
    #[inline]
    pub fn end(self) -> usize {
        self.offset as usize + self.length as usize
    }

    /// The range of its bytes inside the block.
    #[inline]
    pub fn range(self) -> std::ops::Range<usize> {
        self.offset as usize..self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_sixteen_plain_bytes() {
        assert_eq!(size_of::<Slice>(), 16);
        assert!(!std::mem::needs_drop::<Slice>());
    }

    #[test]
    fn a_part_outside_of_the_slice_is_none() {
        let whole = Slice { block: BlockId::new(1, 2), offset: 100, length: 50, tag: 7 };
        assert_eq!(whole.part(10, 40).map(Slice::range), Some(110..150));
        assert_eq!(whole.part(10, 41), None);
        assert_eq!(whole.part(usize::MAX, 2), None);
    }
}
