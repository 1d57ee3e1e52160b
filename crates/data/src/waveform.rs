//! Decodes samples from the words in which a board sent them.
//!
//! ```text
//!  Extra ─ chain of slices ─► bytes as received ─► Samples { analog 1, analog 2, digital }
//! ```
//! A waveform stays where it was received until its samples are needed: the recorder reads each once, the page
//! the few that it draws. The layouts are those of CAEN's x27xx boards (PSD/PHA with two probes, Open DPP and
//! scope packed) and plain little-endian arrays.

use crate::hit::{Extra, Layout};
use crate::pool::Leases;
use crate::simd::{Wide, widest};
use crate::slice::Slice;

/// A number that holds a sample.
pub trait Sample: Copy + Default {
    /// The sample, or its lowest bits.
    fn of(value: i32) -> Self;
}

/// Holds every sample.
impl Sample for i32 {
    #[inline(always)]
    fn of(value: i32) -> i32 {
        value
    }
}

/// The 16 bits of a sample that has no more: of an unsigned one, those of the `u16`.
impl Sample for i16 {
    #[inline(always)]
    fn of(value: i32) -> i16 {
        value as i16
    }
}

/// The samples of one waveform, of any kind. The value is reused for the next one.
pub type Samples = SamplesOf<i32>;

/// The samples of one waveform as numbers of a kind that holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplesOf<T> {
    /// First or only analog probe.
    pub analog_1: Vec<T>,
    /// Second analog probe; empty if the layout has none.
    pub analog_2: Vec<T>,
    /// Digital probes 1–4 in bits 0–3; empty if the layout has none.
    pub digital: Vec<u8>,
}

impl<T: Sample> SamplesOf<T> {
    fn clear(&mut self) {
        self.analog_1.clear();
        self.analog_2.clear();
        self.digital.clear();
    }

    /// Replaces the content by the samples of `extra`. Their chain is in `slices`, and `leases` gives the right to read their bytes.
    /// Bytes after the last whole word are ignored.
    pub fn read(&mut self, extra: &Extra, slices: &[Slice], leases: &Leases) {
        let chain = chain_of(extra, slices);
        match joined_if_split(chain, leases) {
            None => self.read_parts(extra, chain.iter().map(|slice| leases.bytes(*slice))),
            Some(bytes) => self.read_parts(extra, [&bytes[..]].into_iter()),
        }
    }

    fn read_parts<'a>(&mut self, extra: &Extra, parts: impl Iterator<Item = &'a [u8]> + Clone) {
        if extra.layout == Layout::DualProbe {
            return self.dual_probe(parts, extra.info);
        }
        self.clear();
        match extra.layout {
            Layout::None | Layout::DualProbe => {}
            Layout::Packed => self.interleaved(parts, 1, 0),
            Layout::Interleaved => {
                self.interleaved(parts, (extra.info >> 16 & 0xFFFF) as usize, (extra.info & 0xFF) as usize);
            }
            Layout::Plain => parts.for_each(|bytes| {
                let samples = bytes.as_chunks::<2>().0.iter();
                self.analog_1.extend(samples.map(|pair| T::of(u16::from_le_bytes(*pair).into())));
            }),
        }
    }

    fn dual_probe<'a>(&mut self, chain: impl Iterator<Item = &'a [u8]> + Clone, info: u64) {
        let (first, second) = (Analog::from_info(info), Analog::from_info(info >> 6));
        // Vectors that already have this length are not zeroed first: every element is written below.
        let samples = chain.clone().map(|bytes| bytes.len() / 8 * 2).sum();
        self.analog_1.resize(samples, T::default());
        self.analog_2.resize(samples, T::default());
        self.digital.resize(samples, 0);
        let mut done = 0;
        for bytes in chain {
            let words = bytes.as_chunks::<8>().0;
            let range = done..done + 2 * words.len();
            done = range.end;
            let to = DualProbe {
                analog_1: &mut self.analog_1[range.clone()],
                analog_2: &mut self.analog_2[range.clone()],
                digital: &mut self.digital[range],
            };
            widest(Expand { words, first, second, to });
        }
    }

    /// Takes every `stride`-th word, beginning with word `first`.
    fn interleaved<'a>(
        &mut self,
        chain: impl Iterator<Item = &'a [u8]> + Clone,
        stride: usize,
        first: usize,
    ) {
        let stride = stride.max(1);
        let all: usize = chain.clone().map(|bytes| bytes.len() / 8).sum();
        self.analog_1.resize(all.saturating_sub(first).div_ceil(stride) * 4, T::default());
        let mut to = self.analog_1.as_chunks_mut::<4>().0.iter_mut();
        let mut skip = first;
        for bytes in chain {
            let words = bytes.as_chunks::<8>().0;
            let own = words.get(skip..).unwrap_or(&[]).iter().step_by(stride);
            let taken = own.len();
            own.zip(to.by_ref()).for_each(|(word, to)| *to = four_samples(*word).map(T::of));
            skip = skip + taken * stride - words.len();
        }
    }
}

fn chain_of<'s>(extra: &Extra, slices: &'s [Slice]) -> &'s [Slice] {
    let first = extra.samples_first as usize;
    slices.get(first..first + usize::from(extra.samples_count)).unwrap_or(&[])
}

/// All bytes of a chain in which a word of 8 bytes lies in two slices, as in a stream whose packets may begin anywhere; `None` of any
/// other.
pub fn joined_if_split(chain: &[Slice], leases: &Leases) -> Option<Vec<u8>> {
    let is_split = chain.iter().any(|slice| !slice.length.is_multiple_of(8));
    is_split.then(|| chain.iter().flat_map(|slice| leases.bytes(*slice)).copied().collect())
}

/// The samples of all channels of a scope record, which a board sends word by word in turn. The value is reused for the next one.
///
/// Channel by channel, [`SamplesOf::read`] touches every cache line of a record of 64 channels 64 times; this touches it once.
#[derive(Clone, Debug, Default)]
pub struct ChannelsOfRecord {
    words: Vec<[u8; 8]>,
    samples: Vec<[i16; 4]>,
    words_each: usize,
}

/// Rows and channels that are turned together: a cache line of each.
const TILE: usize = 8;

impl ChannelsOfRecord {
    /// Replaces the content by the record that `extra`, of the layout [`Layout::Interleaved`], refers to. Words behind the last one that
    /// all channels have are ignored.
    pub fn read(&mut self, extra: &Extra, slices: &[Slice], leases: &Leases) {
        let chain = chain_of(extra, slices);
        self.words.clear();
        match joined_if_split(chain, leases) {
            None => chain
                .iter()
                .for_each(|slice| self.words.extend_from_slice(leases.bytes(*slice).as_chunks().0)),
            Some(bytes) => self.words.extend_from_slice(bytes.as_chunks().0),
        }
        self.turn(((extra.info >> 16 & 0xFFFF) as usize).max(1));
    }

    /// The samples of a channel, by its place in the record: 16 bits, as of a `u16`.
    pub fn channel(&self, index: usize) -> &[i16] {
        let own = self.samples.get(index * self.words_each..(index + 1) * self.words_each);
        own.unwrap_or(&[]).as_flattened()
    }

    fn turn(&mut self, channels: usize) {
        let rows = self.words.len() / channels;
        self.words_each = rows;
        self.samples.resize(rows * channels, [0; 4]);
        for row in (0..rows).step_by(TILE) {
            for channel in (0..channels).step_by(TILE) {
                let (height, width) = (TILE.min(rows - row), TILE.min(channels - channel));
                for column in channel..channel + width {
                    let to = &mut self.samples[column * rows + row..][..height];
                    let from = self.words[row * channels + column..].iter().step_by(channels);
                    to.iter_mut().zip(from).for_each(|(to, word)| *to = four_samples(*word).map(i16::of));
                }
            }
        }
    }
}

/// The output for the samples of both probes; all three have the same length.
struct DualProbe<'a, T> {
    analog_1: &'a mut [T],
    analog_2: &'a mut [T],
    digital: &'a mut [u8],
}

/// The work of separating the samples of two probes.
struct Expand<'a, T> {
    words: &'a [[u8; 8]],
    first: Analog,
    second: Analog,
    to: DualProbe<'a, T>,
}

impl<T: Sample> Wide for Expand<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        expand(self.words, self.first, self.second, self.to);
    }
}

/// Number of words that are separated together. For a fixed number, the compiler makes vector instructions.
const TOGETHER: usize = 8;
const SAMPLES: usize = 2 * TOGETHER;
/// How far ahead of the current words memory is prefetched, bytes: as much as is separated during one access to memory, about 250 ns.
#[cfg(target_arch = "x86_64")]
const AHEAD_BYTES: usize = 6144;

#[inline(always)]
fn expand<T: Sample>(words: &[[u8; 8]], first: Analog, second: Analog, to: DualProbe<'_, T>) {
    let DualProbe { analog_1, analog_2, digital } = to;
    let many = words.as_chunks::<TOGETHER>().0;
    let outputs = analog_1.as_chunks_mut().0.iter_mut().zip(analog_2.as_chunks_mut().0);
    for ((words, (one, two)), digital) in many.iter().zip(outputs).zip(digital.as_chunks_mut().0) {
        expect_soon(words);
        expand_block(words, first, second, one, two, digital);
    }
    // The last block overlaps the one before it. Fewer words than one block are padded, and the output is truncated.
    if let (Some(words), Some(one), Some(two), Some(digital)) =
        (words.last_chunk(), analog_1.last_chunk_mut(), analog_2.last_chunk_mut(), digital.last_chunk_mut())
    {
        return expand_block(words, first, second, one, two, digital);
    }
    let (mut block, mut one, mut two, mut probes) =
        ([[0; 8]; TOGETHER], [T::default(); SAMPLES], [T::default(); SAMPLES], [0; SAMPLES]);
    block[..words.len()].copy_from_slice(words);
    expand_block(&block, first, second, &mut one, &mut two, &mut probes);
    analog_1.copy_from_slice(&one[..analog_1.len()]);
    analog_2.copy_from_slice(&two[..analog_2.len()]);
    digital.copy_from_slice(&probes[..digital.len()]);
}

/// Prefetches the memory some waveforms ahead: waveforms usually follow each other in memory, and the processor's own
/// prefetcher starts over at every page and at every header between them.
#[inline(always)]
fn expect_soon(words: &[[u8; 8]; TOGETHER]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that cannot fault, whatever the address; the instruction is in every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().cast::<i8>().wrapping_add(AHEAD_BYTES));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}

#[inline(always)]
fn expand_block<T: Sample>(
    words: &[[u8; 8]; TOGETHER],
    first: Analog,
    second: Analog,
    analog_1: &mut [T; SAMPLES],
    analog_2: &mut [T; SAMPLES],
    digital: &mut [u8; SAMPLES],
) {
    let mut samples = [0u32; SAMPLES];
    for (pair, word) in samples.as_chunks_mut::<2>().0.iter_mut().zip(words) {
        let word = u64::from_be_bytes(*word);
        *pair = [word as u32, (word >> 32) as u32];
    }
    for index in 0..SAMPLES {
        analog_1[index] = T::of(first.value(samples[index]));
        analog_2[index] = T::of(second.value(samples[index] >> 16));
        digital[index] = digital_probes(samples[index]);
    }
}

#[inline(always)]
fn digital_probes(sample: u32) -> u8 {
    (sample >> 14 & 0b11 | sample >> 28 & 0b1100) as u8
}

#[inline]
fn four_samples(word: [u8; 8]) -> [i32; 4] {
    let word = u64::from_be_bytes(word);
    [word, word >> 16, word >> 32, word >> 48].map(|sample| i32::from(sample as u16))
}

/// How one analog probe's 14 bits become a value (caen-digitizer2, wave info).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Analog {
    /// The sign bit of a signed probe, 0 of an unsigned one.
    sign: i32,
    /// The factor as a power of two.
    shift: u32,
}

impl Analog {
    fn from_info(info: u64) -> Analog {
        Analog {
            sign: if info >> 3 & 1 == 1 { 0x2000 } else { 0 },
            shift: [0, 2, 3, 4][(info >> 4 & 0b11) as usize],
        }
    }

    #[inline(always)]
    fn value(self, sample: u32) -> i32 {
        let raw = (sample & 0x3FFF) as i32;
        // Flipping the sign bit and then subtracting it extends the sign to the upper bits.
        ((raw ^ self.sign) - self.sign) << self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dual_probe_words_are_decoded_as_in_the_worked_example() {
        // Probe 1 signed x1: -1, 2, -3, 4; probe 2 unsigned x4: 1, 2, 3, 4; digital 1 = 1,0,0,0; 4 = 0,0,0,1.
        let bytes = [0x0002_0002_0001_7fff_u64, 0x8004_0004_0003_3ffd].map(u64::to_be_bytes).concat();
        let mut samples = Samples::default();
        samples.dual_probe([bytes.as_slice()].into_iter(), 0x0003_2321_0488);
        assert_eq!(samples.analog_1, [-1, 2, -3, 4]);
        assert_eq!(samples.analog_2, [4, 8, 12, 16]);
        assert_eq!(samples.digital, [1, 0, 0, 8]);
    }

    #[test]
    fn dual_probe_blocks_equal_single_samples() {
        let words: Vec<u64> = (0..100u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let mut samples = Samples::default();
        // Probe 1 signed x8, probe 2 unsigned x16; in three slices, one of them short.
        samples.dual_probe(
            [&bytes[..27 * 8], &bytes[27 * 8..29 * 8], &bytes[29 * 8..]].into_iter(),
            0b110000_101000,
        );
        assert_eq!(samples.analog_1.len(), 200);
        for (index, sample) in words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]).enumerate() {
            let signed = ((sample << 18) as i32) >> 18;
            assert_eq!(samples.analog_1[index], signed * 8);
            assert_eq!(samples.analog_2[index], (sample >> 16 & 0x3FFF) as i32 * 16);
            let digital =
                (sample >> 14 & 1) | (sample >> 15 & 1) << 1 | (sample >> 30 & 1) << 2 | (sample >> 31) << 3;
            assert_eq!(u32::from(samples.digital[index]), digital);
        }
    }

    #[test]
    fn samples_of_16_bits_are_those_of_32() {
        let bytes: Vec<u8> =
            (0..100u64).flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()).collect();
        let (mut wide, mut narrow) = (Samples::default(), SamplesOf::<i16>::default());
        wide.interleaved([&bytes[..]].into_iter(), 3, 2);
        narrow.interleaved([&bytes[..]].into_iter(), 3, 2);
        assert!(
            narrow.analog_1.iter().map(|sample| i32::from(*sample as u16)).eq(wide.analog_1.iter().copied())
        );
        // Probe 1 signed x1, probe 2 unsigned x1.
        wide.dual_probe([&bytes[..]].into_iter(), 0b1000);
        narrow.dual_probe([&bytes[..]].into_iter(), 0b1000);
        assert!(narrow.analog_1.iter().map(|sample| i32::from(*sample)).eq(wide.analog_1.iter().copied()));
        assert!(narrow.analog_2.iter().map(|sample| i32::from(*sample)).eq(wide.analog_2.iter().copied()));
        assert_eq!(narrow.digital, wide.digital);
    }

    #[test]
    fn words_that_lie_in_two_slices_are_read() {
        let pool = crate::Pool::new(1, 4096).expect("small");
        let mut writer = pool.take().expect("free");
        let whole = writer.append(&[0, 4, 0, 3, 0, 2, 0, 1, 0, 8, 0, 7, 0, 6, 0, 5]).expect("fits");
        let mut leases = Leases::default();
        leases.add(writer.lease());
        let extra = |count| Extra {
            layout: crate::hit::Layout::Packed,
            samples_count: count,
            ..Extra::of(&crate::Hit::default(), crate::SourceId(0))
        };
        let part = |start, length| whole.part(start, length).expect("inside");
        let mut samples = Samples::default();
        for chain in [&[whole][..], &[part(0, 8), part(8, 8)], &[part(0, 5), part(5, 11)]] {
            samples.read(&extra(chain.len() as u16), chain, &leases);
            assert_eq!(samples.analog_1, [1, 2, 3, 4, 5, 6, 7, 8]);
        }
        assert!(joined_if_split(&[part(0, 8), part(8, 8)], &leases).is_none());
        assert_eq!(joined_if_split(&[part(3, 5), part(8, 3)], &leases).map(|bytes| bytes.len()), Some(8));
    }

    #[test]
    fn all_channels_of_a_record_are_those_read_one_by_one() {
        for (channels, rows) in [(1, 5), (3, 1), (8, 8), (11, 19), (64, 33)] {
            let words =
                (0..channels * rows).map(|n| (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
            let mut record = ChannelsOfRecord { words: words.collect(), ..ChannelsOfRecord::default() };
            let bytes = record.words.as_flattened().to_vec();
            record.turn(channels);
            let mut samples = SamplesOf::<i16>::default();
            for channel in 0..channels {
                samples.interleaved([&bytes[..]].into_iter(), channels, channel);
                assert_eq!(record.channel(channel), samples.analog_1, "{channel} of {channels}");
            }
            assert!(record.channel(channels).is_empty());
        }
    }

    #[test]
    fn interleaved_channels_are_separated_across_slices() {
        let bytes: Vec<u8> =
            (0u64..6).flat_map(|word| (word * 0x0001_0001_0001_0001).to_be_bytes()).collect();
        let mut samples = Samples::default();
        samples.interleaved([&bytes[..24], &bytes[24..]].into_iter(), 2, 1);
        assert_eq!(samples.analog_1, [1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5]);
        // A slice that has no word of the channel, and channels of different lengths.
        samples.interleaved([&bytes[..8], &bytes[8..16], &bytes[16..]].into_iter(), 4, 1);
        assert_eq!(samples.analog_1, [1, 1, 1, 1, 5, 5, 5, 5]);
        samples.interleaved([&bytes[..8], &bytes[8..16]].into_iter(), 4, 3);
        assert!(samples.analog_1.is_empty());
    }
}
