//! Compresses batch bodies with LZ4 or Zstandard.
//!
//! ```text
//!  buffer ──► [ length before: i64, little-endian │ LZ4 frame or Zstandard frame ]
//!             [ -1                                │ the bytes as they were ]      when that is not smaller
//! ```
//! A buffer of no bytes stays one.

use std::fmt;
use std::io::{self, Read, Write};

use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
use zstd::zstd_safe::{CCtx, CParameter};

use super::MOST_BUFFER_BYTES;
use super::columns::{Batch, Buffers, Shape, length_of};
use crate::settings::Compression;

/// A block of LZ4 and its result stay in the cache of a core.
const LZ4_BLOCK: BlockSize = BlockSize::Max256KB;
/// Level of Zstandard: live data want the fastest.
const ZSTD_LEVEL: i32 = 1;

/// A batch whose buffers are compressed.
#[derive(Debug)]
pub(crate) struct Compressed {
    shape: Shape,
    buffers: Vec<Vec<u8>>,
}

impl Batch for Compressed {
    fn shape(&self) -> Shape {
        self.shape.clone()
    }

    fn buffers<'a>(&'a self, into: &mut Buffers<'a>) {
        into.extend(self.buffers.iter().map(|buffer| &buffer[..]));
    }
}

/// A codec that is set up once and compresses many buffers. What comes out depends on nothing that it has compressed before.
pub(crate) struct Compressor(Codec);

enum Codec {
    None,
    Lz4(Box<FrameEncoder<Vec<u8>>>),
    /// And the parts of a buffer, gathered: in one call the codec copies nothing itself.
    Zstd(Box<CCtx<'static>>, Vec<u8>),
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compressor(…)")
    }
}

impl Compressor {
    /// Sets up the codec.
    pub fn new(compression: Compression) -> Compressor {
        Compressor(match compression {
            Compression::None => Codec::None,
            Compression::Lz4 => {
                let info = FrameInfo::new().block_size(LZ4_BLOCK);
                Codec::Lz4(Box::new(FrameEncoder::with_frame_info(info, Vec::new())))
            }
            Compression::Zstd => {
                let mut context = CCtx::create();
                context
                    .set_parameter(CParameter::CompressionLevel(ZSTD_LEVEL))
                    .expect("the library has this level");
                Codec::Zstd(Box::new(context), Vec::new())
            }
        })
    }

    /// Compresses every buffer of `batch`, into the memory of one that is not needed any more.
    pub fn batch(&mut self, batch: &dyn Batch, spent: Option<Compressed>) -> Compressed {
        let mut spent = spent.map_or(Vec::new(), |spent| spent.buffers).into_iter();
        let plain = Buffers::of(batch);
        let buffers = plain.each().map(|parts| self.compress(parts, spent.next().unwrap_or_default()));
        Compressed { shape: batch.shape(), buffers: buffers.collect() }
    }

    /// Compresses a buffer, which lies in parts, into the memory of `into`.
    pub fn compress(&mut self, parts: &[&[u8]], mut into: Vec<u8>) -> Vec<u8> {
        let plain_length = length_of(parts);
        into.clear();
        if plain_length == 0 {
            return into;
        }
        into.reserve(8 + plain_length);
        into.extend_from_slice(&(plain_length as i64).to_le_bytes());
        let mut packed = match &mut self.0 {
            Codec::None => into,
            Codec::Lz4(encoder) => lz4(encoder, parts, into),
            Codec::Zstd(context, gathered) => zstandard(context, gathered, parts, into),
        };
        if packed.len() <= 8 || packed.len() >= 8 + plain_length {
            packed.clear();
            packed.extend_from_slice(&(-1i64).to_le_bytes());
            parts.iter().for_each(|part| packed.extend_from_slice(part));
        }
        packed
    }
}

/// Adds a frame to `into`; nothing if the codec fails.
fn lz4(encoder: &mut FrameEncoder<Vec<u8>>, parts: &[&[u8]], into: Vec<u8>) -> Vec<u8> {
    let before = into.len();
    *encoder.get_mut() = into;
    let written = parts.iter().try_for_each(|part| encoder.write_all(part));
    let is_whole = written.is_ok() && encoder.try_finish().is_ok();
    let mut into = std::mem::take(encoder.get_mut());
    if !is_whole {
        into.truncate(before);
    }
    into
}

/// As [`lz4`].
fn zstandard(
    context: &mut CCtx<'static>,
    gathered: &mut Vec<u8>,
    parts: &[&[u8]],
    mut into: Vec<u8>,
) -> Vec<u8> {
    let plain = match parts {
        [whole] => whole,
        _ => {
            gathered.clear();
            parts.iter().for_each(|part| gathered.extend_from_slice(part));
            &gathered[..]
        }
    };
    let before = into.len();
    into.resize(before + zstd::zstd_safe::compress_bound(plain.len()), 0);
    let length = context.compress2(&mut into[before..], plain).unwrap_or(0);
    into.truncate(before + length);
    into
}

/// The bytes before compression, at most `most` of them. Memory grows with what comes out, never with what is promised.
///
/// # Errors
/// When the frame is damaged, or what comes out is not as long as promised.
pub(crate) fn decompress(buffer: &[u8], compression: Compression, most: u64) -> io::Result<Vec<u8>> {
    let Some((length, packed)) = buffer.split_first_chunk::<8>() else {
        return if buffer.is_empty() {
            Ok(Vec::new())
        } else {
            Err(damaged("a compressed buffer without a length"))
        };
    };
    let length = i64::from_le_bytes(*length);
    if length == -1 {
        return Ok(packed.to_vec());
    }
    let promised = u64::try_from(length).ok().filter(|length| *length <= most.min(MOST_BUFFER_BYTES));
    let promised = promised.ok_or_else(|| damaged("a compressed buffer with an impossible length"))?;
    let mut bytes = Vec::new();
    match compression {
        Compression::None => return Err(damaged("a compressed buffer without a codec")),
        Compression::Lz4 => {
            lz4_flex::frame::FrameDecoder::new(packed).take(promised + 1).read_to_end(&mut bytes)?
        }
        Compression::Zstd => {
            zstd::stream::read::Decoder::with_buffer(packed)?.take(promised + 1).read_to_end(&mut bytes)?
        }
    };
    if bytes.len() as u64 != promised {
        return Err(damaged("a compressed buffer that is not as long as it says"));
    }
    Ok(bytes)
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_comes_back() {
        let runs: Vec<u8> = (0..10_000u32).map(|index| (index / 100) as u8).collect();
        let noise: Vec<u8> =
            (0..1000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for compression in [Compression::Lz4, Compression::Zstd] {
            let mut compressor = Compressor::new(compression);
            for bytes in [&runs[..], &noise[..], &[7], &[]] {
                let (head, tail) = bytes.split_at(bytes.len() / 3);
                for parts in [&[bytes][..], &[head, &[], tail]] {
                    let packed = compressor.compress(parts, Vec::new());
                    assert!(packed.len() <= bytes.len() + 8);
                    assert_eq!(decompress(&packed, compression, 1 << 20).expect("own frame"), bytes);
                }
            }
            assert!(compressor.compress(&[&runs], Vec::new()).len() < runs.len() / 4);
        }
    }

    #[test]
    fn what_comes_out_depends_neither_on_parts_nor_on_what_was_compressed_before() {
        let bytes: Vec<u8> =
            (0..700_000u32).map(|index| ((index / 7).wrapping_mul(index) % 251) as u8).collect();
        for compression in [Compression::Lz4, Compression::Zstd] {
            let mut compressor = Compressor::new(compression);
            let fresh = Compressor::new(compression).compress(&[&bytes], Vec::new());
            for cut in [0, 1, 65_536, 300_000, 699_999] {
                let (head, tail) = bytes.split_at(cut);
                let spent = compressor.compress(&[&bytes[cut / 2..]], Vec::new());
                assert!(compressor.compress(&[head, tail], spent) == fresh, "{compression:?}, cut at {cut}");
            }
        }
    }

    #[test]
    fn promises_are_checked() {
        let mut packed = Compressor::new(Compression::Zstd).compress(&[&[5; 1000]], Vec::new());
        packed[0] ^= 1;
        assert!(decompress(&packed, Compression::Zstd, 1 << 20).is_err());
        assert!(decompress(&[1, 2, 3], Compression::Lz4, 1 << 20).is_err());
        assert!(decompress(&i64::MAX.to_le_bytes(), Compression::Lz4, u64::MAX).is_err());
    }
}
