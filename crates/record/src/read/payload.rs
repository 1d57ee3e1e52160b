//! The bytes that a view column names.
//!
//! ```text
//!  view { length, the bytes or where they lie } ──► checked against its batch ──► bytes, read where they are wanted
//! ```

use super::table_reader::{BatchHead, ReadAt, TableReader};
use crate::error::RecordError;
use crate::ipc::{INLINE_BYTES, MOST_BUFFER_BYTES};
use crate::settings::Compression;

/// One row's view, as it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View(pub [u8; 16]);

impl View {
    /// Bytes of the value, as promised; [`Payloads::load`] has checked that they are there.
    pub fn length(&self) -> usize {
        self.number(0) as usize
    }

    fn buffer(&self) -> usize {
        self.number(8) as usize
    }

    fn offset(&self) -> usize {
        self.number(12) as usize
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }
}

/// The buffers behind a batch's view column: in the file, or in memory where they are compressed or all are wanted.
#[derive(Debug)]
pub(crate) struct Payloads {
    head: BatchHead,
    first: usize,
    in_memory: Option<Vec<Vec<u8>>>,
}

impl Payloads {
    /// The buffers behind `views`, the values of the view column `column`; `whole` reads them at once. Every view is
    /// checked.
    pub fn load<R: ReadAt>(
        reader: &TableReader<R>,
        head: BatchHead,
        column: usize,
        views: impl Iterator<Item = View>,
        whole: bool,
    ) -> Result<Payloads, RecordError> {
        let first = reader.first_buffer(column + 1);
        let mut in_memory = None;
        if whole || head.compression() != Compression::None {
            let buffers = first..head.buffer_count();
            let places = buffers.clone().filter_map(|index| head.buffer_place(index));
            let on_file = places.fold(0u64, |sum, (_, length)| sum.saturating_add(length));
            if on_file > head.body_length() {
                return Err(reader.damaged(head.offset(), "buffers that lie over each other"));
            }
            let read = buffers.map(|index| reader.buffer(&head, index, MOST_BUFFER_BYTES));
            in_memory = Some(read.collect::<Result<_, _>>()?);
        }
        let payloads = Payloads { head, first, in_memory };
        for view in views {
            if view.length() > INLINE_BYTES && payloads.place(view).is_none() {
                return Err(reader.damaged(payloads.head.offset(), "a payload outside its buffer"));
            }
        }
        Ok(payloads)
    }

    /// Which buffer, and where in it, when the whole value lies there.
    fn place(&self, view: View) -> Option<(usize, usize)> {
        let length = match &self.in_memory {
            None => self.head.buffer_place(self.first.checked_add(view.buffer())?)?.1,
            Some(buffers) => buffers.get(view.buffer())?.len() as u64,
        };
        let end = view.offset() as u64 + view.length() as u64;
        (end <= length).then_some((view.buffer(), view.offset()))
    }

    /// Copies a value, from byte `from` on, into `into`.
    pub fn copy<R: ReadAt>(
        &self,
        reader: &TableReader<R>,
        view: View,
        from: usize,
        into: &mut [u8],
    ) -> Result<(), RecordError> {
        let outside = || reader.damaged(self.head.offset(), "a payload outside its buffer");
        if from.checked_add(into.len()).is_none_or(|end| end > view.length()) {
            return Err(outside());
        }
        if view.length() <= INLINE_BYTES {
            into.copy_from_slice(&view.0[4 + from..4 + from + into.len()]);
            return Ok(());
        }
        let (buffer, offset) = self.place(view).ok_or_else(outside)?;
        if let Some(buffers) = &self.in_memory {
            into.copy_from_slice(&buffers[buffer][offset + from..offset + from + into.len()]);
            return Ok(());
        }
        let (start, _) = self.head.buffer_place(self.first + buffer).ok_or_else(outside)?;
        reader.read_into(start + (offset + from) as u64, into)
    }
}
