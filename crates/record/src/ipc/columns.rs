//! Columns in memory: what a batch is written from.
//!
//! ```text
//!  push_u64, push_list, … row by row ──► Columns ──► nodes and buffers in Arrow's order
//! ```

use crate::table::{Column, Kind, Table};

/// The shape of a batch beside its bytes: what the message's metadata says.
#[derive(Debug, Default, Clone)]
pub(crate) struct Shape {
    /// Rows of the batch.
    pub rows: usize,
    /// Per column, depth first: length and number of nulls.
    pub nodes: Vec<(usize, usize)>,
    /// Per view column: how many buffers its bytes lie in.
    pub variadic: Vec<i64>,
}

/// Something that can be written as a batch.
pub(crate) trait Batch {
    /// Its shape.
    fn shape(&self) -> Shape;
    /// Appends its buffers, in Arrow's order.
    fn buffers<'a>(&'a self, into: &mut Buffers<'a>);
}

/// The buffers of a batch where they lie in memory. A buffer may lie in many parts: they follow each other in the file.
#[derive(Debug, Default)]
pub(crate) struct Buffers<'a> {
    parts: Vec<&'a [u8]>,
    /// Where each buffer's parts end.
    ends: Vec<usize>,
}

impl<'a> Buffers<'a> {
    /// The buffers of `batch`.
    pub fn of(batch: &'a dyn Batch) -> Buffers<'a> {
        let mut buffers = Buffers::default();
        batch.buffers(&mut buffers);
        buffers
    }

    /// Appends a buffer that lies in one part.
    pub fn push(&mut self, bytes: &'a [u8]) {
        self.gather([bytes]);
    }

    /// Appends buffers that lie in one part each.
    pub fn extend(&mut self, buffers: impl IntoIterator<Item = &'a [u8]>) {
        buffers.into_iter().for_each(|bytes| self.push(bytes));
    }

    /// Appends one buffer of many parts.
    pub fn gather(&mut self, parts: impl IntoIterator<Item = &'a [u8]>) {
        self.parts.extend(parts);
        self.ends.push(self.parts.len());
    }

    /// The parts of each buffer.
    pub fn each(&self) -> impl Iterator<Item = &[&'a [u8]]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.parts[start..*end])
    }

    /// The bytes of each buffer.
    pub fn lengths(&self) -> Vec<usize> {
        self.each().map(length_of).collect()
    }
}

/// Bytes of all parts.
pub(crate) fn length_of(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// One column's bytes.
#[derive(Debug)]
enum Data {
    Fixed(Vec<u8>),
    Bits(Vec<u8>),
    /// Numbers that a row may leave out.
    Optional {
        present: Vec<u8>,
        values: Vec<u8>,
        absent: usize,
    },
    Text {
        offsets: Vec<u8>,
        letters: Vec<u8>,
    },
    List {
        offsets: Vec<u8>,
        items: Reused,
        count: usize,
    },
}

/// Bytes that are written once more for each batch, and not zeroed in between: samples are many.
#[derive(Debug, Default)]
struct Reused {
    memory: Vec<u8>,
    used: usize,
}

impl Reused {
    fn bytes(&self) -> &[u8] {
        &self.memory[..self.used]
    }

    /// The next bytes, with whatever was in them before.
    fn next(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.used;
        self.used += bytes;
        if self.memory.len() < self.used {
            self.memory.resize(self.used, 0);
        }
        &mut self.memory[start..self.used]
    }
}

/// Columns that are filled row by row; for tables with few rows per second, or large rows.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: &'static [Column],
    rows: usize,
    data: Vec<Data>,
}

impl Columns {
    /// Empty columns of a table. Of view columns they hold the views.
    pub fn new(table: Table) -> Columns {
        Columns::of(table.columns())
    }

    /// The same of these columns.
    pub fn of(columns: &'static [Column]) -> Columns {
        let data = columns
            .iter()
            .map(|column| match column.kind {
                Kind::Bool => Data::Bits(Vec::new()),
                Kind::Text => Data::Text { offsets: 0i32.to_le_bytes().to_vec(), letters: Vec::new() },
                _ if column.nullable => Data::Optional { present: Vec::new(), values: Vec::new(), absent: 0 },
                kind if kind.is_list() => {
                    Data::List { offsets: 0i32.to_le_bytes().to_vec(), items: Reused::default(), count: 0 }
                }
                _ => Data::Fixed(Vec::new()),
            })
            .collect();
        Columns { columns, rows: 0, data }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes so far.
    pub fn byte_count(&self) -> usize {
        self.data
            .iter()
            .map(|data| match data {
                Data::Fixed(bytes) | Data::Bits(bytes) => bytes.len(),
                Data::Optional { present, values, .. } => present.len() + values.len(),
                Data::Text { offsets, letters } => offsets.len() + letters.len(),
                Data::List { offsets, items, .. } => offsets.len() + items.used,
            })
            .sum()
    }

    /// Appends the bytes of one value, little-endian.
    #[inline]
    pub fn push<const N: usize>(&mut self, column: usize, value: [u8; N]) {
        debug_assert_eq!(self.columns[column].kind.item_bytes(), N);
        match &mut self.data[column] {
            Data::Fixed(bytes) => bytes.extend_from_slice(&value),
            Data::Optional { .. } => self.push_optional(column, Some(value)),
            _ => {}
        }
    }

    /// Appends the bytes of one value that may be absent, little-endian.
    pub fn push_optional<const N: usize>(&mut self, column: usize, value: Option<[u8; N]>) {
        let row = self.rows;
        if let Data::Optional { present, values, absent } = &mut self.data[column] {
            push_bit_to(present, row, value.is_some());
            values.extend_from_slice(&value.unwrap_or([0; N]));
            *absent += usize::from(value.is_none());
        }
    }

    /// Appends words.
    ///
    /// # Panics
    /// When a batch has more than 2 GiB of them.
    pub fn push_text(&mut self, column: usize, text: &str) {
        if let Data::Text { offsets, letters } = &mut self.data[column] {
            letters.extend_from_slice(text.as_bytes());
            let end = i32::try_from(letters.len()).expect("a batch of words is far below 2 GiB");
            offsets.extend_from_slice(&end.to_le_bytes());
        }
    }

    /// Appends a bit.
    pub fn push_bit(&mut self, column: usize, bit: bool) {
        let row = self.rows;
        if let Data::Bits(bytes) = &mut self.data[column] {
            push_bit_to(bytes, row, bit);
        }
    }

    /// Whether `count` more items fit behind 32-bit offsets.
    pub fn list_has_capacity(&self, column: usize, count: usize) -> bool {
        match &self.data[column] {
            Data::List { count: held, .. } => held + count <= i32::MAX as usize,
            _ => false,
        }
    }

    /// Appends a list of `count` items. `write` fills all of the bytes given to it, which hold those of an earlier list.
    ///
    /// # Panics
    /// When there was no space ([`Columns::list_has_capacity`]).
    pub fn push_list(&mut self, column: usize, count: usize, write: impl FnOnce(&mut [u8])) {
        let item = self.columns[column].kind.item_bytes();
        if let Data::List { offsets, items, count: held } = &mut self.data[column] {
            *held += count;
            let end = i32::try_from(*held).expect("room for the list was asked for");
            write(items.next(count * item));
            offsets.extend_from_slice(&end.to_le_bytes());
        }
    }

    /// Ends a row: every column has got its value.
    pub fn end_row(&mut self) {
        self.rows += 1;
    }

    /// Empties the columns, keeps their memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        for data in &mut self.data {
            match data {
                Data::Fixed(bytes) | Data::Bits(bytes) => bytes.clear(),
                Data::Optional { present, values, absent } => {
                    present.clear();
                    values.clear();
                    *absent = 0;
                }
                Data::Text { offsets, letters } => {
                    offsets.truncate(4);
                    letters.clear();
                }
                Data::List { offsets, items, count } => {
                    offsets.truncate(4);
                    items.used = 0;
                    *count = 0;
                }
            }
        }
    }
}

fn push_bit_to(bits: &mut Vec<u8>, row: usize, bit: bool) {
    if row.is_multiple_of(8) {
        bits.push(0);
    }
    bits[row / 8] |= u8::from(bit) << (row % 8);
}

impl Batch for Columns {
    fn shape(&self) -> Shape {
        let mut shape = Shape { rows: self.rows, ..Shape::default() };
        for data in &self.data {
            let absent = if let Data::Optional { absent, .. } = data { *absent } else { 0 };
            shape.nodes.push((self.rows, absent));
            if let Data::List { count, .. } = data {
                shape.nodes.push((*count, 0));
            }
        }
        shape
    }

    fn buffers<'a>(&'a self, into: &mut Buffers<'a>) {
        for data in &self.data {
            into.push(if let Data::Optional { present, .. } = data { present } else { &[] });
            match data {
                Data::Fixed(bytes) | Data::Bits(bytes) | Data::Optional { values: bytes, .. } => {
                    into.push(bytes)
                }
                Data::Text { offsets, letters } => into.extend([&offsets[..], &letters[..]]),
                Data::List { offsets, items, .. } => into.extend([&offsets[..], &[], items.bytes()]),
            }
        }
    }
}
