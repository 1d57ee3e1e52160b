//! Hits taken apart into their fields: what makes columns of them.
//!
//! ```text
//!  [ time chan energy short flags ][ time … ]  ──►  [ time time … ][ chan chan … ][ energy … ][ short … ][ flags … ]
//! ```
//! A transposition of 16-byte rows, which compilers do not find: of plain loops they make one load and one store per field. With AVX-512
//! sixteen hits are eight permutations, with AVX2 eight hits are fourteen shuffles; both are held against the plain loop by a test.

use crate::hit::{Flags, Hit};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512, Wide};

/// Where the fields go, little-endian: as many of each as there are hits.
#[derive(Debug)]
pub struct HitFields<'to> {
    /// Times, picoseconds.
    pub time_ps: &'to mut [[u8; 8]],
    /// Channels.
    pub channel: &'to mut [[u8; 2]],
    /// Energies.
    pub energy: &'to mut [[u8; 2]],
    /// Energies of the short gate.
    pub energy_short: &'to mut [[u8; 2]],
    /// Flags.
    pub flags: &'to mut [[u8; 2]],
}

impl HitFields<'_> {
    /// Fills the fields from hits; returns all flags that occur.
    ///
    /// # Panics
    /// When a field has not as many places as there are hits.
    pub fn fill(self, hits: &[Hit]) -> Flags {
        let lengths = [self.channel.len(), self.energy.len(), self.energy_short.len(), self.flags.len()];
        assert!(
            self.time_ps.len() == hits.len() && lengths == [hits.len(); 4],
            "one place in each field for each hit"
        );
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(instructions) = Avx512::detect() {
                return instructions.run(wide::By16 { hits, to: self });
            }
            if let Some(instructions) = Avx2::detect() {
                return instructions.run(wide::By8 { hits, to: self });
            }
        }
        self.fill_from(0, hits)
    }

    /// The plain loop, for the hits from `first` on.
    #[inline(always)]
    fn fill_from(self, first: usize, hits: &[Hit]) -> Flags {
        let mut seen = Flags::NONE;
        for (row, hit) in hits.iter().enumerate().skip(first) {
            self.time_ps[row] = hit.time_ps.to_le_bytes();
            self.channel[row] = hit.channel.to_le_bytes();
            self.energy[row] = hit.energy.to_le_bytes();
            self.energy_short[row] = hit.energy_short.to_le_bytes();
            self.flags[row] = hit.flags.0.to_le_bytes();
            seen |= hit.flags;
        }
        seen
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::*;

    /// Sixteen hits at a time, with AVX-512. Run by [`Avx512`] only, which says that the processor has it.
    pub struct By16<'hits, 'to> {
        pub hits: &'hits [Hit],
        pub to: HitFields<'to>,
    }

    /// Eight hits at a time, with AVX2. Run by [`Avx2`] only, which says that the processor has it.
    pub struct By8<'hits, 'to> {
        pub hits: &'hits [Hit],
        pub to: HitFields<'to>,
    }

    impl Wide for By16<'_, '_> {
        type Output = Flags;

        #[inline(always)]
        fn run(self) -> Flags {
            let By16 { hits, to } = self;
            let whole = hits.len() / 16 * 16;
            // SAFETY: the processor has AVX-512 (F, BW, DQ, VL), since `Avx512` runs this. Every load is of 64 bytes within 16 hits of 16
            // bytes at `row`, every store of the 16 fields at `row` to places that `fill` has counted; none needs to be aligned.
            let seen = unsafe {
                let times = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
                let rests = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
                let (first_two, last_two) = (every_fourth_word(0), every_fourth_word(2));
                let mut seen = _mm512_setzero_si512();
                for row in (0..whole).step_by(16) {
                    let at = hits.as_ptr().add(row);
                    let load = |hit: usize| _mm512_loadu_si512(at.add(hit).cast());
                    let (a, b, c, d) = (load(0), load(4), load(8), load(12));
                    let time_ps: *mut __m512i = to.time_ps.as_mut_ptr().add(row).cast();
                    _mm512_storeu_si512(time_ps, _mm512_permutex2var_epi64(a, times, b));
                    _mm512_storeu_si512(time_ps.add(1), _mm512_permutex2var_epi64(c, times, d));
                    let low = _mm512_permutex2var_epi64(a, rests, b);
                    let high = _mm512_permutex2var_epi64(c, rests, d);
                    seen = _mm512_or_si512(seen, _mm512_or_si512(low, high));
                    let two = _mm512_permutex2var_epi16(low, first_two, high);
                    store_16(to.channel, row, _mm512_castsi512_si256(two));
                    store_16(to.energy, row, _mm512_extracti64x4_epi64(two, 1));
                    let two = _mm512_permutex2var_epi16(low, last_two, high);
                    store_16(to.energy_short, row, _mm512_castsi512_si256(two));
                    store_16(to.flags, row, _mm512_extracti64x4_epi64(two, 1));
                }
                _mm512_reduce_or_epi64(seen)
            };
            Flags((seen as u64 >> 48) as u16) | to.fill_from(whole, hits)
        }
    }

    /// Of sixteen words of 64 bits in two registers: their 16-bit words `first` and, behind these, `first + 1`.
    #[inline(always)]
    unsafe fn every_fourth_word(first: u16) -> __m512i {
        let places: [u16; 32] =
            std::array::from_fn(|place| first + place as u16 / 16 + place as u16 % 16 * 4);
        // SAFETY: 64 bytes are there; the processor has AVX-512, as for whoever calls this.
        unsafe { _mm512_loadu_si512(places.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn store_16(to: &mut [[u8; 2]], row: usize, fields: __m256i) {
        // SAFETY: whoever calls this has 16 places from `row` on, and the instructions.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().add(row).cast(), fields) }
    }

    impl Wide for By8<'_, '_> {
        type Output = Flags;

        #[inline(always)]
        fn run(self) -> Flags {
            let By8 { hits, to } = self;
            let whole = hits.len() / 8 * 8;
            // SAFETY: the processor has AVX2, since `Avx2` runs this. Every load is of 32 bytes within 8 hits of 16 bytes at `row`, every
            // store of the 8 fields at `row` to places that `fill` has counted; none needs to be aligned.
            let seen = unsafe {
                // Of two hits' rests, the two values of each field side by side.
                let pairs = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                    0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15,
                ));
                let halves = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                let mut seen = _mm256_setzero_si256();
                for row in (0..whole).step_by(8) {
                    let at = hits.as_ptr().add(row);
                    let load = |hit: usize| _mm256_loadu_si256(at.add(hit).cast());
                    let (a, b, c, d) = (load(0), load(2), load(4), load(6));
                    let in_order = |mixed| _mm256_permute4x64_epi64(mixed, 0b11_01_10_00);
                    let time_ps: *mut __m256i = to.time_ps.as_mut_ptr().add(row).cast();
                    _mm256_storeu_si256(time_ps, in_order(_mm256_unpacklo_epi64(a, b)));
                    _mm256_storeu_si256(time_ps.add(1), in_order(_mm256_unpacklo_epi64(c, d)));
                    let (low, high) =
                        (in_order(_mm256_unpackhi_epi64(a, b)), in_order(_mm256_unpackhi_epi64(c, d)));
                    seen = _mm256_or_si256(seen, _mm256_or_si256(low, high));
                    let (low, high) = (_mm256_shuffle_epi8(low, pairs), _mm256_shuffle_epi8(high, pairs));
                    let two = _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi32(low, high), halves);
                    store_8(to.channel, row, _mm256_castsi256_si128(two));
                    store_8(to.energy, row, _mm256_extracti128_si256(two, 1));
                    let two = _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi32(low, high), halves);
                    store_8(to.energy_short, row, _mm256_castsi256_si128(two));
                    store_8(to.flags, row, _mm256_extracti128_si256(two, 1));
                }
                let half = _mm_or_si128(_mm256_castsi256_si128(seen), _mm256_extracti128_si256(seen, 1));
                _mm_cvtsi128_si64(_mm_or_si128(half, _mm_unpackhi_epi64(half, half)))
            };
            Flags((seen as u64 >> 48) as u16) | to.fill_from(whole, hits)
        }
    }

    #[inline(always)]
    unsafe fn store_8(to: &mut [[u8; 2]], row: usize, fields: __m128i) {
        // SAFETY: whoever calls this has 8 places from `row` on, and the instructions.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().add(row).cast(), fields) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Memory for the fields of so many hits, with a margin behind that must stay as it is.
    struct Memory {
        time_ps: Vec<[u8; 8]>,
        words: [Vec<[u8; 2]>; 4],
        hits: usize,
    }

    const MARGIN: usize = 40;

    impl Memory {
        fn of(hits: usize) -> Memory {
            Memory {
                time_ps: vec![[0xAA; 8]; hits + MARGIN],
                words: std::array::from_fn(|_| vec![[0xAA; 2]; hits + MARGIN]),
                hits,
            }
        }

        fn fields(&mut self) -> HitFields<'_> {
            let hits = self.hits;
            let [channel, energy, energy_short, flags] =
                self.words.each_mut().map(|words| &mut words[..hits]);
            HitFields { time_ps: &mut self.time_ps[..hits], channel, energy, energy_short, flags }
        }

        fn hits(&self) -> Vec<Hit> {
            assert!(self.time_ps[self.hits..].iter().all(|bytes| *bytes == [0xAA; 8]));
            assert!(
                self.words.iter().all(|words| words[self.hits..].iter().all(|bytes| *bytes == [0xAA; 2]))
            );
            let word = |field: usize, row: usize| u16::from_le_bytes(self.words[field][row]);
            let hit = |row: usize| Hit {
                time_ps: i64::from_le_bytes(self.time_ps[row]),
                channel: word(0, row),
                energy: word(1, row),
                energy_short: word(2, row),
                flags: Flags(word(3, row)),
            };
            (0..self.hits).map(hit).collect()
        }
    }

    fn any_hit() -> impl Strategy<Value = Hit> {
        any::<(i64, u16, u16, u16, u16)>().prop_map(|(time_ps, channel, energy, energy_short, flags)| Hit {
            time_ps,
            channel,
            energy,
            energy_short,
            flags: Flags(flags),
        })
    }

    proptest! {
        #[test]
        fn fields_are_those_of_the_hits_however_wide(hits in prop::collection::vec(any_hit(), 0..100)) {
            let seen = hits.iter().fold(Flags::NONE, |seen, hit| seen | hit.flags);
            let check = |fill: &dyn Fn(HitFields<'_>) -> Flags| {
                let mut memory = Memory::of(hits.len());
                (fill(memory.fields()), memory.hits()) == (seen, hits.clone())
            };
            prop_assert!(check(&|to| to.fill(&hits)) && check(&|to| to.fill_from(0, &hits)));
            #[cfg(target_arch = "x86_64")]
            {
                // Where the processor has both, the narrower one is not chosen by `fill`.
                let narrow = Avx2::detect();
                let is_same = narrow.is_none_or(|wide| check(&|to| wide.run(wide::By8 { hits: &hits, to })));
                prop_assert!(is_same);
            }
        }
    }

    #[test]
    #[should_panic(expected = "one place in each field for each hit")]
    fn too_short_a_field_is_refused() {
        let mut memory = Memory::of(20);
        let mut fields = memory.fields();
        fields.flags = &mut fields.flags[..19];
        fields.fill(&[Hit::default(); 20]);
    }
}
