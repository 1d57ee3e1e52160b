//! A [`Slice`] says where bytes lie: plain data, sixteen bytes, no drop.
//!
//! The right to read is not in the slice but in the batch that carries it, which holds one
//! [`Lease`](crate::Lease) per distinct block. So a slice is copied, sorted and stored like a number,
//! and no atomic is touched per fragment. A *chain* is a run of neighbouring slices in a batch's
//! list, named by its first index and its count; all but its last carry [`Slice::CONTINUES`].

/// Names one block of one pool of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct BlockId(u32);

impl BlockId {
    const INDEX_BITS: u32 = 20;
    /// Most blocks that one pool can own.
    pub const MAX_BLOCKS: usize = 1 << Self::INDEX_BITS;
    /// Most pools that one process can own.
    pub const MAX_POOLS: usize = 1 << (32 - Self::INDEX_BITS);

    pub(crate) fn new(pool: u32, index: u32) -> Self {
        Self(pool << Self::INDEX_BITS | index)
    }

    /// The name as a number, for tables of blocks: below 2^32.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn index(self) -> u32 {
        self.0 & ((1 << Self::INDEX_BITS) - 1)
    }
}

/// Where some published bytes lie: block, offset, length, and a word for the room that made it. The default names no bytes,
/// for tables that are filled later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Slice {
    /// The block that holds the bytes.
    pub block: BlockId,
    /// First byte, from the start of the block.
    pub offset: u32,
    /// Number of bytes.
    pub length: u32,
    /// Meaning is given by the room that wrote it; the top bit is [`Slice::CONTINUES`].
    pub tag: u32,
}

impl Slice {
    /// Tag bit: the unit that starts here goes on in the next slice of the list.
    pub const CONTINUES: u32 = 1 << 31;

    /// Whether the unit goes on in the next slice.
    #[inline]
    pub fn continues(self) -> bool {
        self.tag & Self::CONTINUES != 0
    }

    /// The part from byte `start` (relative to this slice) of `length` bytes, or `None` when it does
    /// not lie inside. The tag is kept.
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

    /// Where the slice ends, from the start of the block.
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
    fn a_part_never_leaves_the_whole() {
        let whole = Slice { block: BlockId::new(1, 2), offset: 100, length: 50, tag: 7 };
        assert_eq!(whole.part(10, 40).map(Slice::range), Some(110..150));
        assert_eq!(whole.part(10, 41), None);
        assert_eq!(whole.part(usize::MAX, 2), None);
    }
}
