//! The spectra that every channel has, filled from a fill buffer of its hits.
//!
//! ```text
//!  words of one channel ─► 256 places each: energy │ keV │ plane ─► asked for ─► one more in each
//!                           └ of what the cuts keep, or of the rest
//! ```
//! A hit is counted once, as kept or as one of the rest; all that was received is both together, and is added up by who reads.

use thalweg_data::simd::{Wide, whole_part_long, widest};

use super::axis::kev_compared;
use super::catalogue::{Block, Catalogue, Standard};
use super::fill_buffers::Word;
use super::history::History;
use super::store::{Store, Totals};
use crate::channels::Calibrations;

/// Hits at a time: their places are a KiB.
const CHUNK: usize = 256;
/// The place of what is not counted in a bin, and of what lies below and above an axis.
const NOWHERE: u32 = u32::MAX;
const BELOW: u32 = u32::MAX - 1;
const ABOVE: u32 = u32::MAX - 2;

/// The way in which the standard spectra are filled.
#[derive(Debug)]
pub(super) struct StandardFiller {
    energy: Pair,
    kev: Option<Pair>,
    plane: Option<Pair>,
    shape: Shape,
    calibrations: Calibrations,
}

/// The spectra of one kind, of the rest and of what the cuts keep; without cuts nothing is kept, and both are the same.
#[derive(Clone, Copy, Debug)]
struct Pair([Block; 2]);

/// How numbers become bins.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    energy_shift: u32,
    plane_shift: u32,
    log2_columns: u32,
    bins_per_kev: f64,
    kev_bins: u32,
}

impl Pair {
    /// The first bins of one channel, and from the rest's to the kept ones'.
    fn bins(self, row: usize) -> Bins {
        let [rest, kept] = self.0.map(|block| block.range(row).start as u32);
        Bins { rest, to_kept: kept - rest }
    }

    fn totals(self, row: usize, store: &Store) -> [&Totals; 2] {
        self.0.map(|block| &store.totals[block.first + row])
    }
}

#[derive(Clone, Copy)]
struct Bins {
    rest: u32,
    to_kept: u32,
}

impl Bins {
    #[inline(always)]
    fn place(self, word: Word, bin: u32) -> u32 {
        self.rest + word.is_kept() * self.to_kept + bin
    }
}

impl StandardFiller {
    /// For the spectra of a catalogue, if it has any of these.
    pub fn new(catalogue: &Catalogue, calibrations: Calibrations) -> Option<StandardFiller> {
        let received = catalogue.received?;
        let axis = |block: Block, axis: usize| &catalogue.spectra[block.first].axes[axis];
        let pair = |of: fn(&Standard) -> Option<Block>| {
            let rest = of(&received)?;
            Some(Pair([rest, catalogue.kept.as_ref().and_then(of).unwrap_or(rest)]))
        };
        // Powers of two that divide all that 16 bits can say.
        let shift = |bins: u32| 16 - bins.trailing_zeros();
        let mut shape = Shape { energy_shift: shift(axis(received.energy, 0).bins), ..Shape::default() };
        if let Some(block) = received.plane {
            shape.plane_shift = shift(axis(block, 0).bins);
            shape.log2_columns = axis(block, 0).bins.trailing_zeros();
        }
        if let Some(block) = received.kev {
            (shape.bins_per_kev, shape.kev_bins) = (axis(block, 0).scale(), axis(block, 0).bins);
        }
        Some(StandardFiller {
            energy: pair(|standard| Some(standard.energy))?,
            kev: pair(|standard| standard.kev),
            plane: pair(|standard| standard.plane),
            shape,
            calibrations,
        })
    }

    /// Counts by other calibrations from now on.
    pub fn set_calibrations(&mut self, calibrations: &Calibrations) {
        self.calibrations.clone_from(calibrations);
    }

    /// Counts the hits of the channel in this row of the map; how many of them the cuts keep.
    pub fn count(&self, row: usize, words: &[u32], store: &Store, history: &History) -> u64 {
        history.add_hits(row, words.len() as u64);
        let kev = self.kev.filter(|_| self.calibrations.has(row));
        // One spectrum after the other: the bins of each stay in the first-level cache while it is filled.
        self.count_energies(row, words, store);
        if let Some(pair) = kev {
            self.count_kev(pair, row, words, store);
        }
        if let Some(pair) = self.plane {
            self.count_planes(pair, row, words, store);
        }
        let counts = widest(CountWords(words));
        counts.enter(counts.energy, self.energy.totals(row, store));
        if let Some(pair) = kev {
            counts.enter(counts.energy, pair.totals(row, store));
        }
        if let Some(pair) = self.plane {
            let totals = pair.totals(row, store);
            counts.enter(counts.shape, totals);
            let [rest, kept] = counts.beside;
            Totals::add(&totals[0].beside, u64::from(rest));
            Totals::add(&totals[1].beside, u64::from(kept));
        }
        u64::from(counts.kept)
    }

    fn count_energies(&self, row: usize, words: &[u32], store: &Store) {
        let mut places = [0; CHUNK];
        for words in words.chunks(CHUNK) {
            widest(EnergyPlaces { words, bins: self.energy.bins(row), shape: self.shape, to: &mut places });
            store.count_all(&places[..words.len()], |_, _| {});
        }
    }

    fn count_kev(&self, pair: Pair, row: usize, words: &[u32], store: &Store) {
        let mut places = [0; CHUNK];
        for words in words.chunks(CHUNK) {
            let (calibrations, shape) = (&self.calibrations, self.shape);
            widest(KevPlaces { words, bins: pair.bins(row), shape, calibrations, row, to: &mut places });
            store.count_all(&places[..words.len()], |index, place| {
                let totals = pair.totals(row, store)[Word(words[index]).is_kept() as usize];
                match place {
                    BELOW => Totals::add(&totals.below, 1),
                    ABOVE => Totals::add(&totals.above, 1),
                    _ => {}
                }
            });
        }
    }

    /// Nearly every bin is on a cache line of its own, which is asked for one chunk ahead.
    fn count_planes(&self, pair: Pair, row: usize, words: &[u32], store: &Store) {
        let (mut places, mut before, mut count_before) = ([0; CHUNK], [0; CHUNK], 0);
        for words in words.chunks(CHUNK) {
            widest(PlanePlaces { words, bins: pair.bins(row), shape: self.shape, to: &mut places });
            store.expect(&places[..words.len()]);
            store.count_all(&before[..count_before], |_, _| {});
            (before, count_before) = (places, words.len());
        }
        store.count_all(&before[..count_before], |_, _| {});
    }
}

/// How many words say what, of the rest and of those that are kept.
#[derive(Clone, Copy, Default)]
struct WordCounts {
    energy: [u32; 2],
    shape: [u32; 2],
    beside: [u32; 2],
    /// Kept by the cuts, whatever they have.
    kept: u32,
}

impl WordCounts {
    fn enter(&self, [of_rest, of_kept]: [u32; 2], [rest, kept]: [&Totals; 2]) {
        Totals::add(&rest.entries, u64::from(of_rest));
        Totals::add(&kept.entries, u64::from(of_kept));
    }
}

struct CountWords<'w>(&'w [u32]);

impl Wide for CountWords<'_> {
    type Output = WordCounts;

    #[inline(always)]
    fn run(self) -> WordCounts {
        let mut sums = [0u32; 7];
        for word in self.0 {
            let bits = *word >> 28;
            let (kept, energy, shape, inside) = (bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3);
            let beside = shape & (inside ^ 1);
            sums[0] += energy;
            sums[1] += energy & kept;
            sums[2] += shape;
            sums[3] += shape & kept;
            sums[4] += beside;
            sums[5] += beside & kept;
            sums[6] += kept;
        }
        let split = |index: usize| [sums[index] - sums[index + 1], sums[index + 1]];
        WordCounts { energy: split(0), shape: split(2), beside: split(4), kept: sums[6] }
    }
}

struct EnergyPlaces<'w> {
    words: &'w [u32],
    bins: Bins,
    shape: Shape,
    to: &'w mut [u32; CHUNK],
}

impl Wide for EnergyPlaces<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (to, word) in self.to.iter_mut().zip(self.words) {
            let word = Word(*word);
            let place = self.bins.place(word, u32::from(word.energy()) >> self.shape.energy_shift);
            *to = if word.has(Word::ENERGY) { place } else { NOWHERE };
        }
    }
}

struct KevPlaces<'w> {
    words: &'w [u32],
    bins: Bins,
    shape: Shape,
    calibrations: &'w Calibrations,
    row: usize,
    to: &'w mut [u32; CHUNK],
}

impl Wide for KevPlaces<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let place = |word: Word, kev: f64| {
            let bin = kev_compared(kev) * self.shape.bins_per_kev;
            let place = self.bins.place(word, whole_part_long(bin, self.shape.kev_bins));
            let place = if bin < f64::from(self.shape.kev_bins) { place } else { ABOVE };
            let place = if bin >= 0.0 { place } else { BELOW };
            if word.has(Word::ENERGY) { place } else { NOWHERE }
        };
        let rows = self.to.iter_mut().zip(self.words);
        match self.calibrations.lines().map(|lines| lines[self.row]) {
            Some(line) => {
                rows.for_each(|(to, word)| *to = place(Word(*word), line.kev(Word(*word).energy())))
            }
            None => rows.for_each(|(to, word)| {
                *to = place(Word(*word), self.calibrations.kev(self.row, Word(*word).energy()));
            }),
        }
    }
}

struct PlanePlaces<'w> {
    words: &'w [u32],
    bins: Bins,
    shape: Shape,
    to: &'w mut [u32; CHUNK],
}

impl Wide for PlanePlaces<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (to, word) in self.to.iter_mut().zip(self.words) {
            let word = Word(*word);
            let column = u32::from(word.energy()) >> self.shape.plane_shift;
            let place = self.bins.place(word, (word.row() << self.shape.log2_columns) + column);
            *to = if word.has(Word::SHAPE | Word::INSIDE) { place } else { NOWHERE };
        }
    }
}
