//! Payload that lies scattered over blocks becomes one buffer of a batch, without being copied.
//!
//! ```text
//!  fragment's slices ──► Gather::place ──► view { length, first bytes, extent, place in its block }
//!  seal:  | extent of block 7 | extent of block 9 | … | chunks |     views ──► { length, first bytes, buffer 0, offset }
//! ```
//! Fragments of one block in one batch are written as one extent from the first to the last of them, in whatever order
//! they come: fragments of consecutive triggers lie next to each other where they were received, while rows are in the
//! order of events. Bytes between them are written, too, and no view names them; where more than an eighth would be
//! such bytes, the extent is split at its gaps. The slices of a fragment that do not touch in memory are laid side by
//! side behind the extents.

use std::collections::HashMap;

use thalweg_data::{Lease, Leases, Slice, SourceId};

use crate::ipc::{INLINE_BYTES, MOST_GAP};

/// An extent is not split for the sake of so few bytes.
const SMALL_WASTE_BYTES: u32 = 4096;
/// Stands for an extent's number where a fragment lies among the chunks.
const CHUNKS: u32 = u32::MAX;

/// A view of Arrow's binary view layout: length, then the bytes themselves when they are few, else their first four,
/// buffer and offset. All numbers are little-endian 32-bit.
pub(crate) type View = [u8; 16];

/// Bytes of one block that are written together, and the right to read them.
#[derive(Debug)]
struct Extent {
    slice: Slice,
    lease: Lease,
    /// Bytes of it that views name.
    named: u32,
    /// Where it starts in the buffer.
    start: u32,
}

/// Which bytes a batch writes, and the right to read them.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    extents: Vec<Extent>,
    /// Per source: the number of its newest extent, plus 1.
    newest: Vec<u32>,
    /// Per block: the number of its extent. Asked when a source goes on to another block.
    by_block: HashMap<u32, u32>,
    chunks: Vec<Slice>,
    chunks_bytes: u32,
    chunks_start: u32,
    /// For the chunks.
    leases: Leases,
    named_bytes: usize,
    /// For splitting: extent, offset in the block, length, row.
    scattered: Vec<(u32, u32, u32, u32)>,
}

impl Gather {
    /// Takes a fragment of `source`; its view is complete after `seal`. The caller keeps all fragments of a batch
    /// together below 1 GiB.
    pub fn place(&mut self, source: SourceId, slices: &[Slice], leases: &Leases) -> View {
        let Some(slice) = joined(slices) else { return self.place_chunks(slices, leases) };
        self.named_bytes += slice.length as usize;
        if slice.length as usize <= INLINE_BYTES {
            return inline(leases.bytes(slice));
        }
        let extent = self.extent_for(source, slice, leases);
        view(slice.length, &[0; 4], extent, slice.offset)
    }

    /// Bytes that views name.
    pub fn named_bytes(&self) -> usize {
        self.named_bytes
    }

    /// Blocks on loan.
    pub fn blocks(&self) -> usize {
        self.by_block.len() + self.leases.len()
    }

    /// Lays the extents end to end and completes the views, one per row. The first bytes of each payload are read here, where the
    /// processor fetches many at a time.
    pub fn seal(&mut self, views: &mut [View]) {
        if self.extents.iter().any(Extent::is_sparse) {
            self.split(views);
        }
        let mut end = 0;
        for extent in &mut self.extents {
            extent.start = end;
            end += extent.slice.length;
        }
        self.chunks_start = end;
        for view in views {
            if number(view, 0) as usize <= INLINE_BYTES {
                continue;
            }
            let offset = match number(view, 8) {
                CHUNKS => self.chunks_start + number(view, 12),
                extent => {
                    let extent = &self.extents[extent as usize];
                    let offset = number(view, 12);
                    let first = extent.lease.bytes(Slice { offset, length: 4, ..extent.slice });
                    view[4..8].copy_from_slice(first);
                    extent.start + offset - extent.slice.offset
                }
            };
            view[8..12].fill(0);
            view[12..].copy_from_slice(&offset.to_le_bytes());
        }
    }

    /// Whether there is a buffer at all.
    pub fn has_buffer(&self) -> bool {
        !self.extents.is_empty() || !self.chunks.is_empty()
    }

    /// The parts of the buffer, in order. Only after `seal`.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let extents = self.extents.iter().filter(|extent| extent.slice.length > 0);
        let extents = extents.map(|extent| extent.lease.bytes(extent.slice));
        extents.chain(self.chunks.iter().map(|slice| self.leases.bytes(*slice)))
    }

    /// Forgets all, gives the blocks back, keeps the memory.
    pub fn clear(&mut self) {
        self.extents.clear();
        self.newest.clear();
        self.by_block.clear();
        self.chunks.clear();
        self.chunks_bytes = 0;
        self.leases.clear();
        self.named_bytes = 0;
    }

    /// The extent of the slice's block, made to hold the slice.
    fn extent_for(&mut self, source: SourceId, slice: Slice, leases: &Leases) -> u32 {
        if self.newest.len() <= source.index() {
            self.newest.resize(source.index() + 1, 0);
        }
        let newest = self.newest[source.index()].checked_sub(1);
        let newest = newest.filter(|newest| self.extents[*newest as usize].slice.block == slice.block);
        let extent = match newest {
            Some(extent) => extent,
            None => *self.by_block.entry(slice.block.number()).or_insert_with(|| {
                let lease = leases.find(slice.block).expect("a slice travels with its lease");
                self.extents.push(Extent::of(slice, lease));
                self.extents.len() as u32 - 1
            }),
        };
        self.newest[source.index()] = extent + 1;
        self.extents[extent as usize].take_in(slice);
        extent
    }

    /// A fragment in several places: side by side behind the extents.
    fn place_chunks(&mut self, slices: &[Slice], leases: &Leases) -> View {
        let length: u32 = slices.iter().map(|slice| slice.length).sum();
        self.named_bytes += length as usize;
        let mut first = [0; INLINE_BYTES];
        let bytes = slices.iter().flat_map(|slice| leases.bytes(*slice).iter().take(INLINE_BYTES));
        first.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
        if length as usize <= INLINE_BYTES {
            return inline(&first[..length as usize]);
        }
        for slice in slices.iter().filter(|slice| slice.length > 0) {
            self.leases.add_for(*slice, leases);
            match self.chunks.last_mut().filter(|last| touch(last, slice)) {
                Some(last) => last.length += slice.length,
                None => self.chunks.push(slice.tagged(0)),
            }
        }
        let start = self.chunks_bytes;
        self.chunks_bytes += length;
        view(length, &first[..4], CHUNKS, start)
    }

    /// Splits extents that hold much that no view names. Their rows are sorted by place: a batch's worth of numbers.
    fn split(&mut self, views: &mut [View]) {
        self.scattered.clear();
        for (row, view) in views.iter().enumerate() {
            let (length, extent) = (number(view, 0), number(view, 8));
            if length as usize > INLINE_BYTES && extent != CHUNKS && self.extents[extent as usize].is_sparse()
            {
                self.scattered.push((extent, number(view, 12), length, row as u32));
            }
        }
        self.scattered.sort_unstable();
        let mut whole = None;
        for (extent, offset, length, row) in self.scattered.iter().copied() {
            let sparse = &self.extents[extent as usize];
            let slice = Slice { offset, length, ..sparse.slice };
            let reached = self.extents.last().map_or(0, |last| last.slice.end() + MOST_GAP);
            if whole != Some(extent) || offset as usize > reached {
                self.extents.push(Extent::of(slice, &sparse.lease));
                whole = Some(extent);
            }
            let newest = self.extents.len() - 1;
            self.extents[newest].take_in(slice);
            views[row as usize][8..12].copy_from_slice(&(newest as u32).to_le_bytes());
        }
        for (extent, ..) in &self.scattered {
            self.extents[*extent as usize].slice.length = 0;
        }
    }
}

impl Extent {
    /// One that begins with `slice`, which it does not yet take in.
    fn of(slice: Slice, lease: &Lease) -> Extent {
        Extent { slice: slice.tagged(0), lease: lease.clone(), named: 0, start: 0 }
    }

    fn take_in(&mut self, slice: Slice) {
        let end = self.slice.end().max(slice.end()) as u32;
        self.slice.offset = self.slice.offset.min(slice.offset);
        self.slice.length = end - self.slice.offset;
        self.named = self.named.saturating_add(slice.length);
    }

    fn is_sparse(&self) -> bool {
        let waste = self.slice.length.saturating_sub(self.named);
        waste > SMALL_WASTE_BYTES && waste > self.named / 8
    }
}

/// The one slice that all of them make, when each begins where the one before ends.
fn joined(slices: &[Slice]) -> Option<Slice> {
    let (first, rest) = slices.split_first()?;
    rest.iter().try_fold(*first, |sum, slice| {
        touch(&sum, slice).then(|| Slice { length: sum.length + slice.length, ..sum })
    })
}

fn touch(one: &Slice, next: &Slice) -> bool {
    one.block == next.block && one.end() == next.offset as usize
}

fn inline(bytes: &[u8]) -> View {
    let mut view = [0; 16];
    view[0] = bytes.len() as u8;
    view[4..4 + bytes.len()].copy_from_slice(bytes);
    view
}

fn view(length: u32, first: &[u8], buffer: u32, offset: u32) -> View {
    let mut view = [0; 16];
    view[..4].copy_from_slice(&length.to_le_bytes());
    view[4..8].copy_from_slice(first);
    view[8..12].copy_from_slice(&buffer.to_le_bytes());
    view[12..].copy_from_slice(&offset.to_le_bytes());
    view
}

fn number(view: &View, at: usize) -> u32 {
    u32::from_le_bytes([view[at], view[at + 1], view[at + 2], view[at + 3]])
}

#[cfg(test)]
mod tests {
    use thalweg_data::Pool;

    use super::*;

    /// What a reader sees: each row's bytes out of the buffer.
    fn read(gather: &Gather, views: &[View]) -> Vec<Vec<u8>> {
        let buffer: Vec<u8> = gather.parts().flatten().copied().collect();
        let bytes = |view: &View| match number(view, 0) as usize {
            length @ ..=INLINE_BYTES => view[4..4 + length].to_vec(),
            length => {
                let bytes = &buffer[number(view, 12) as usize..][..length];
                assert_eq!((&view[4..8], number(view, 8)), (&bytes[..4], 0));
                bytes.to_vec()
            }
        };
        views.iter().map(bytes).collect()
    }

    /// One block of 64 kB whose bytes give their position, cut into slices of `length`.
    fn slices(length: usize) -> (Vec<Slice>, Leases) {
        let mut block = Pool::new(1, 1 << 16).expect("small").take().expect("free");
        let bytes: Vec<u8> = (0..1u32 << 16).map(|index| (index ^ ((index >> 8) * 31)) as u8).collect();
        let slices = bytes.chunks(length).map(|chunk| block.append(chunk).expect("fits")).collect();
        let mut leases = Leases::default();
        leases.add(block.lease());
        (slices, leases)
    }

    #[test]
    fn fragments_in_any_order_of_one_block_are_one_part() {
        let (slices, leases) = slices(400);
        let mut gather = Gather::default();
        let order = || (0..100).map(|index| (index * 37) % 100);
        let mut views: Vec<View> = order()
            .map(|index| gather.place(SourceId(index as u16 % 7), &[slices[index]], &leases))
            .collect();
        gather.seal(&mut views);
        assert_eq!(gather.parts().count(), 1);
        let wanted: Vec<_> = order().map(|index| leases.bytes(slices[index]).to_vec()).collect();
        assert_eq!(read(&gather, &views), wanted);
        assert_eq!((gather.blocks(), gather.named_bytes()), (1, 40_000));
    }

    #[test]
    fn what_is_far_apart_is_written_without_what_lies_between() {
        let (slices, leases) = slices(400);
        let mut gather = Gather::default();
        let chosen: Vec<usize> = (0..100).rev().filter(|index| index / 10 % 2 == 0).collect();
        let mut views: Vec<View> =
            chosen.iter().map(|index| gather.place(SourceId(0), &[slices[*index]], &leases)).collect();
        gather.seal(&mut views);
        assert_eq!(gather.parts().count(), 5);
        assert_eq!(gather.parts().map(<[u8]>::len).sum::<usize>(), 5 * 10 * 400);
        let wanted: Vec<_> = chosen.iter().map(|index| leases.bytes(slices[*index]).to_vec()).collect();
        assert_eq!(read(&gather, &views), wanted);
    }

    #[test]
    fn slices_that_touch_are_one_and_others_lie_side_by_side() {
        let (slices, leases) = slices(8);
        let mut gather = Gather::default();
        let chains: [&[Slice]; 5] = [
            &slices[0..4],
            &[slices[10], slices[20], slices[21]],
            &[],
            &[slices[30], slices[40].part(0, 3).expect("inside")],
            &[slices[50], slices[40]],
        ];
        let mut views: Vec<View> =
            chains.iter().map(|chain| gather.place(SourceId(3), chain, &leases)).collect();
        gather.seal(&mut views);
        assert_eq!(gather.parts().count(), 1 + 2 + 2);
        let wanted: [Vec<u8>; 5] =
            chains.map(|chain| chain.iter().flat_map(|slice| leases.bytes(*slice).to_vec()).collect());
        assert_eq!(read(&gather, &views), wanted);
        gather.clear();
        assert!(!gather.has_buffer() && gather.blocks() == 0);
    }
}
