//! Hits of one channel that wait until counting them is worth it.
//!
//! ```text
//!  hit of channel 7 ─► fill buffer 7 │ word word word … │ full, or asked for ─► one more in each bin of channel 7
//! ```
//! The bins of all channels are hundreds of MiB, and the next hit is nearly always of another channel: counted at once, each would wait
//! for main memory. A full fill buffer goes to the bins of one channel, which stay in the cache while it does.
//!
//! What comes next goes to the end of any of these buffers, each on a page of its own: with pages of 4 KiB, one page in some hundreds would be
//! looked up for each hit.

use std::ops::Range;

use thalweg_data::cells::Cells;

/// What is counted of one hit, in one word.
///
/// ```text
///  31 28 27          16 15              0
///  | bits | row of plane |     energy      |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(pub u32);

impl Word {
    /// The cuts keep it.
    pub const KEPT: u32 = 1 << 28;
    /// It has an energy.
    pub const ENERGY: u32 = 1 << 29;
    /// It has an energy and a pulse shape.
    pub const SHAPE: u32 = 1 << 30;
    /// Its pulse shape is on the plane.
    pub const INSIDE: u32 = 1 << 31;
    /// Rows of a plane, at most.
    pub const MOST_ROWS: u32 = 1 << 12;

    #[inline(always)]
    pub fn new(energy: u16, row: u32, bits: u32) -> Word {
        Word(u32::from(energy) | row << 16 | bits)
    }

    #[inline(always)]
    pub fn energy(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub fn row(self) -> u32 {
        self.0 >> 16 & (Word::MOST_ROWS - 1)
    }

    #[inline(always)]
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    /// 1 of one that the cuts keep, 0 of the rest.
    #[inline(always)]
    pub fn is_kept(self) -> u32 {
        self.0 >> 28 & 1
    }
}

/// The fill buffers of all channels, by row of the channel map, of words of 32 bits.
#[derive(Debug)]
pub(super) struct FillBuffers {
    words: Cells,
    counts: Box<[u32]>,
    capacity: usize,
    /// From one fill buffer to the next: a cache line more than the power of two, so that their ends do not meet in one set of the cache.
    stride: usize,
}

/// Some words for the fill buffers, which are found once for all of them.
pub(super) struct Filling<'b> {
    words: &'b mut [u32],
    counts: &'b mut [u32],
    capacity: usize,
    stride: usize,
}

impl FillBuffers {
    /// Buffers for so many words each, a power of two.
    pub fn new(channels: usize, capacity: usize) -> FillBuffers {
        let stride = Self::stride(capacity);
        FillBuffers {
            words: Cells::new(channels * stride),
            counts: vec![0; channels].into(),
            capacity,
            stride,
        }
    }

    /// Memory of such buffers, bytes.
    pub fn bytes(channels: usize, capacity: usize) -> usize {
        channels * Self::stride(capacity) * size_of::<u32>()
    }

    fn stride(capacity: usize) -> usize {
        capacity + 64 / size_of::<u32>()
    }

    /// How many buffers there are.
    pub fn rows(&self) -> usize {
        self.counts.len()
    }

    /// Begins to put words in.
    pub fn filling(&mut self) -> Filling<'_> {
        let FillBuffers { words, counts, capacity, stride } = self;
        Filling { words: words.numbers_mut(), counts, capacity: *capacity, stride: *stride }
    }

    /// Takes what is in all fill buffers, one after another.
    pub fn take_all(&mut self, each: impl FnMut(usize, &[u32])) {
        self.take_rows(0..self.counts.len(), each);
    }

    /// Takes what is in some fill buffers, one after another.
    pub fn take_rows(&mut self, rows: Range<usize>, mut each: impl FnMut(usize, &[u32])) {
        let mut filling = self.filling();
        for row in rows {
            match filling.take(row) {
                [] => {}
                words => each(row, words),
            }
        }
    }
}

impl Filling<'_> {
    /// Puts a word into a fill buffer. Whether the fill buffer is full: it is emptied before the next.
    #[inline(always)]
    pub fn push(&mut self, row: usize, word: u32) -> bool {
        let count = self.counts[row] as usize;
        self.counts[row] = count as u32 + 1;
        self.words[row * self.stride + count] = word;
        count + 1 == self.capacity
    }

    /// Takes what is in a fill buffer, which is empty then.
    pub fn take(&mut self, row: usize) -> &[u32] {
        let count = std::mem::take(&mut self.counts[row]) as usize;
        &self.words[row * self.stride..][..count]
    }
}
