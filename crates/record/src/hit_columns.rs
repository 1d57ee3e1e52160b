//! Hits become columns here, once.
//!
//! ```text
//!  [ time chan energy short flags ][ time … ]  ──►  [ time time … ][ chan chan … ][ energy … ][ short … ][ flags … ]
//! ```
//! Values that a format did not send become nulls; the bitmap that says so is made only for batches that have any.

use thalweg_data::hit_fields::HitFields;
use thalweg_data::{Flags, Hit};

use crate::ipc::columns::{Batch, Buffers, Shape};

/// Bytes that a hit takes as columns, bitmaps included.
pub(crate) const BYTES_PER_HIT: u64 = 17;
/// Hits per chunk from which those are taken that pass: 4 KiB.
const CHUNK_HITS: usize = 256;

/// The columns of the table `hits`.
#[derive(Debug, Default)]
pub(crate) struct HitColumns {
    rows: usize,
    // Each is as long as the longest batch so far; `rows` says how much of it counts. So nothing is zeroed again.
    time_ps: Vec<[u8; 8]>,
    channel: Vec<[u8; 2]>,
    energy: Vec<[u8; 2]>,
    energy_short: Vec<[u8; 2]>,
    flags: Vec<[u8; 2]>,
    /// All flags that occur.
    seen: Flags,
    energy_validity: Validity,
    energy_short_validity: Validity,
}

/// Which rows say something: one bit each. Empty when all do.
#[derive(Debug, Default)]
struct Validity {
    bits: Vec<u8>,
    nulls: usize,
}

impl HitColumns {
    /// Columns with memory for `rows` hits.
    pub fn with_capacity(rows: usize) -> HitColumns {
        let mut columns = HitColumns::default();
        columns.reserve(rows);
        columns
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Empties the columns, keeps their memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.seen = Flags::NONE;
        self.energy_validity.clear();
        self.energy_short_validity.clear();
    }

    fn reserve(&mut self, rows: usize) {
        if self.time_ps.len() < rows {
            self.time_ps.resize(rows, [0; 8]);
            for column in [&mut self.channel, &mut self.energy, &mut self.energy_short, &mut self.flags] {
                column.resize(rows, [0; 2]);
            }
        }
    }

    /// Appends hits.
    pub fn append(&mut self, hits: &[Hit]) {
        let rows = self.rows..self.rows + hits.len();
        self.reserve(rows.end);
        self.rows = rows.end;
        let fields = HitFields {
            time_ps: &mut self.time_ps[rows.clone()],
            channel: &mut self.channel[rows.clone()],
            energy: &mut self.energy[rows.clone()],
            energy_short: &mut self.energy_short[rows.clone()],
            flags: &mut self.flags[rows],
        };
        self.seen |= fields.fill(hits);
    }

    /// Appends those hits whose verdict is not 0.
    pub fn append_passing(&mut self, hits: &[Hit], pass: &[u8]) {
        let mut passing = [Hit::default(); CHUNK_HITS];
        for (chunk, pass) in hits.chunks(CHUNK_HITS).zip(pass.chunks(CHUNK_HITS)) {
            let mut count = 0;
            for (hit, pass) in chunk.iter().zip(pass) {
                // Written in any case, and written over by the next one: no branch that cannot be foretold.
                passing[count] = *hit;
                count += usize::from(*pass != 0);
            }
            self.append(&passing[..count]);
        }
    }

    /// Makes the bitmaps: call once, when the last hit is in.
    pub fn seal(&mut self) {
        let flags = &self.flags[..self.rows];
        self.energy_validity.set(flags, self.seen, Flags::NO_ENERGY);
        self.energy_short_validity.set(flags, self.seen, Flags::NO_ENERGY_SHORT);
    }
}

impl Validity {
    fn clear(&mut self) {
        self.bits.clear();
        self.nulls = 0;
    }

    fn set(&mut self, flags: &[[u8; 2]], seen: Flags, absent: Flags) {
        self.clear();
        if !seen.has(absent) {
            return;
        }
        let bit = |flags: &[u8; 2]| u8::from(u16::from_le_bytes(*flags) & absent.0 == 0);
        let byte = |eight: &[[u8; 2]]| {
            eight.iter().enumerate().fold(0, |byte, (place, flags)| byte | bit(flags) << place)
        };
        self.bits.extend(flags.chunks(8).map(byte));
        let valid: u32 = self.bits.iter().map(|byte| byte.count_ones()).sum();
        self.nulls = flags.len() - valid as usize;
    }
}

impl Batch for HitColumns {
    fn shape(&self) -> Shape {
        let nulls = [0, 0, self.energy_validity.nulls, self.energy_short_validity.nulls, 0];
        Shape {
            rows: self.rows,
            nodes: nulls.into_iter().map(|nulls| (self.rows, nulls)).collect(),
            variadic: Vec::new(),
        }
    }

    fn buffers<'a>(&'a self, into: &mut Buffers<'a>) {
        let rows = self.rows;
        into.extend([&[], self.time_ps[..rows].as_flattened()]);
        into.extend([&[], self.channel[..rows].as_flattened()]);
        into.extend([&self.energy_validity.bits[..], self.energy[..rows].as_flattened()]);
        into.extend([&self.energy_short_validity.bits[..], self.energy_short[..rows].as_flattened()]);
        into.extend([&[], self.flags[..rows].as_flattened()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(index: usize) -> Hit {
        let flags = if index.is_multiple_of(3) { Flags::NO_ENERGY_SHORT } else { Flags::PILE_UP };
        Hit {
            time_ps: index as i64 * 1000 - 5,
            channel: index as u16,
            energy: (index * 7) as u16,
            energy_short: (index * 3) as u16,
            flags,
        }
    }

    #[test]
    fn bitmaps_are_made_only_where_something_is_absent() {
        let hits: Vec<Hit> = (0..1000).map(hit).collect();
        let mut columns = HitColumns::with_capacity(10);
        columns.append(&hits[..300]);
        columns.append(&hits[300..]);
        columns.seal();
        let buffers = Buffers::of(&columns);
        assert_eq!(buffers.lengths(), [0, 8000, 0, 2000, 0, 2000, 125, 2000, 0, 2000]);
        assert_eq!(columns.shape().nodes[3], (1000, 334));
        let part = |buffer: usize| buffers.each().nth(buffer).expect("there are ten")[0];
        assert_eq!(part(6)[0], 0b1011_0110);
        assert_eq!(part(1)[8 * 999..], 998_995i64.to_le_bytes());
    }

    #[test]
    fn cleared_columns_forget() {
        let mut columns = HitColumns::with_capacity(10);
        columns.append(&[hit(0)]);
        columns.seal();
        columns.clear();
        columns.append(&[hit(1)]);
        columns.seal();
        assert_eq!(columns.shape().nodes[3], (1, 0));
    }
}
