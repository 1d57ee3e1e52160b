//! What the standard spectra count of each hit: made while the hit is in the cache for another reason, and half as long.
//!
//! ```text
//!  hits, pass ─► WordMaker ─► one word for each ══► Filler
//! ```

use thalweg_data::simd::{Wide, whole_part, widest};
use thalweg_data::{Flags, Hit};

use super::fill_buffers::Word;

/// The channel of a hit, and what is counted of it.
///
/// ```text
///  63    48 47      32 31             0
///  | zero  | channel  |     word       |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitWord(u64);

impl HitWord {
    #[inline(always)]
    pub(super) fn channel(self) -> u16 {
        (self.0 >> 32) as u16
    }

    #[inline(always)]
    pub(super) fn word(self) -> u32 {
        self.0 as u32
    }

    /// Another answer to whether it is kept.
    #[inline(always)]
    pub fn set_kept(&mut self, is_kept: bool) {
        let kept = u64::from(Word::KEPT);
        self.0 = if is_kept { self.0 | kept } else { self.0 & !kept };
    }
}

/// Makes the words of hits.
#[derive(Clone, Copy, Debug)]
pub struct WordMaker {
    /// Rows of each plane; 0 of none.
    plane_rows: u32,
}

impl WordMaker {
    pub(super) fn new(plane_rows: u32) -> WordMaker {
        WordMaker { plane_rows }
    }

    /// Appends the words of some hits; `pass` says which of them the cuts keep, `None` when there are no cuts.
    pub fn append(self, hits: &[Hit], pass: Option<&[u8]>, words: &mut Vec<HitWord>) {
        let first = words.len();
        words.resize(first + hits.len(), HitWord::default());
        widest(WriteWords { hits, pass, plane_rows: self.plane_rows, words: &mut words[first..] });
    }
}

struct WriteWords<'h> {
    hits: &'h [Hit],
    pass: Option<&'h [u8]>,
    plane_rows: u32,
    words: &'h mut [HitWord],
}

impl Wide for WriteWords<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let WriteWords { hits, pass, plane_rows, words } = self;
        match pass {
            Some(pass) => {
                let rows = words.iter_mut().zip(hits.iter().zip(pass));
                rows.for_each(|(word, (hit, pass))| {
                    *word = word_of(hit, u32::from(*pass != 0) * Word::KEPT, plane_rows);
                });
            }
            None => words.iter_mut().zip(hits).for_each(|(word, hit)| *word = word_of(hit, 0, plane_rows)),
        }
    }
}

/// Without a branch, since what is in the data cannot be foreseen.
#[inline(always)]
fn word_of(hit: &Hit, kept: u32, plane_rows: u32) -> HitWord {
    let has_energy = hit.flags.0 & (Flags::NO_ENERGY | Flags::FAKE).0 == 0;
    let has_shape = has_energy & !hit.flags.has(Flags::NO_ENERGY_SHORT) & (hit.energy != 0);
    let (energy, rows) = (f32::from(hit.energy), plane_rows as f32);
    let place = (energy - f32::from(hit.energy_short)) / energy * rows;
    let inside = (place >= 0.0) & (place < rows);
    let row = whole_part(place, plane_rows);
    let bit = |is_set: bool, bit: u32| u32::from(is_set) * bit;
    let bits = kept | bit(has_energy, Word::ENERGY) | bit(has_shape, Word::SHAPE) | bit(inside, Word::INSIDE);
    HitWord(u64::from(hit.channel) << 32 | u64::from(Word::new(hit.energy, row, bits).0))
}
