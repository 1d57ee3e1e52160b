//! Fragments become rows here: their columns, and their bytes where they were received.
//!
//! ```text
//!  Fragment, its slices ──► trigger · source · ticks · view { length, extent, place }
//!                    └────► Gather: the blocks that are written, seal ──► views { length, first bytes, offset }
//! ```
//! Columns are filled one after the other, for many fragments at a time. No byte of a payload is read before `seal`: the fragments of an
//! event lie in as many blocks, which are in no cache, and reading them one by one would be a wait each.

use thalweg_data::{Fragment, Leases, Slice};

use crate::gather::{Gather, View};
use crate::ipc::columns::{Batch, Buffers, Shape};

/// Bytes of a row beside its payload.
pub(crate) const ROW_BYTES: u64 = 34;

/// The rows of the table `fragments`.
#[derive(Debug, Default)]
pub(crate) struct FragmentColumns {
    trigger: Vec<[u8; 8]>,
    source: Vec<[u8; 2]>,
    ticks: Vec<[u8; 8]>,
    payload: Vec<View>,
    gather: Gather,
}

impl FragmentColumns {
    /// Appends fragments; `slices` are those of all of them, in order.
    ///
    /// # Panics
    /// When there are fewer slices than the fragments have.
    pub fn append(&mut self, fragments: &[Fragment], mut slices: &[Slice], leases: &Leases) {
        self.trigger.extend(fragments.iter().map(|fragment| fragment.trigger.to_le_bytes()));
        self.source.extend(fragments.iter().map(|fragment| fragment.source.0.to_le_bytes()));
        self.ticks.extend(fragments.iter().map(|fragment| fragment.ticks.to_le_bytes()));
        let FragmentColumns { payload, gather, .. } = self;
        payload.extend(fragments.iter().map(|fragment| {
            let (own, later) = slices.split_at(usize::from(fragment.slices));
            slices = later;
            gather.place(fragment.source, own, leases)
        }));
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.payload.len()
    }

    /// Bytes of payload so far.
    pub fn payload_bytes(&self) -> usize {
        self.gather.named_bytes()
    }

    /// Blocks on loan.
    pub fn blocks(&self) -> usize {
        self.gather.blocks()
    }

    /// Completes the views: call once, when the last fragment is in.
    pub fn seal(&mut self) {
        self.gather.seal(&mut self.payload);
    }

    /// Gives the blocks back, keeps the rows: they have been compressed.
    pub fn release(&mut self) {
        self.gather.clear();
    }

    /// Empties the columns, keeps their memory.
    pub fn clear(&mut self) {
        self.trigger.clear();
        self.source.clear();
        self.ticks.clear();
        self.payload.clear();
        self.gather.clear();
    }
}

impl Batch for FragmentColumns {
    fn shape(&self) -> Shape {
        let rows = self.rows();
        Shape { rows, nodes: vec![(rows, 0); 4], variadic: vec![i64::from(self.gather.has_buffer())] }
    }

    fn buffers<'a>(&'a self, into: &mut Buffers<'a>) {
        into.extend([&[], self.trigger.as_flattened()]);
        into.extend([&[], self.source.as_flattened()]);
        into.extend([&[], self.ticks.as_flattened()]);
        into.extend([&[], self.payload.as_flattened()]);
        if self.gather.has_buffer() {
            into.gather(self.gather.parts());
        }
    }
}
