//! Compresses batch bodies with LZ4 or Zstandard.
//!
//! ```text
//!  buffer ──► [ length before: i64, little-endian │ LZ4 frame or Zstandard frame ]
//!             [ -1                                │ the bytes as they were ]      when that is not smaller
//! ```
//! A buffer of no bytes stays one.

use std::io::{self, Read, Write};

use super::MOST_BUFFER_BYTES;
use super::columns::{Batch, Buffers, Shape, length_of};
use crate::settings::Compression;

/// Level of Zstandard: live data want the fastest.
const ZSTD_LEVEL: i32 = 1;

/// A batch whose buffers are compressed.
#[derive(Debug)]
pub(crate) struct Compressed {
    shape: Shape,
    buffers: Vec<Vec<u8>>,
}

impl Compressed {
    /// Compresses every buffer of `batch`.
    pub fn of(batch: &dyn Batch, compression: Compression) -> Compressed {
        let buffers = Buffers::of(batch).each().map(|parts| compress(parts, compression)).collect();
        Compressed { shape: batch.shape(), buffers }
    }
}

impl Batch for Compressed {
    fn shape(&self) -> Shape {
        self.shape.clone()
    }

    fn buffers<'a>(&'a self, into: &mut Buffers<'a>) {
        into.extend(self.buffers.iter().map(|buffer| &buffer[..]));
    }
}

/// Compresses a buffer, part by part: nothing is gathered before.
pub(crate) fn compress(parts: &[&[u8]], compression: Compression) -> Vec<u8> {
    let plain_length = length_of(parts);
    if plain_length == 0 {
        return Vec::new();
    }
    let with_length = |length: i64| {
        let mut buffer = Vec::with_capacity(8 + plain_length);
        buffer.extend_from_slice(&length.to_le_bytes());
        buffer
    };
    let packed = match compression {
        Compression::None => None,
        Compression::Lz4 => lz4(parts, with_length(plain_length as i64)),
        Compression::Zstd => zstandard(parts, plain_length, with_length(plain_length as i64)),
    };
    packed.filter(|packed| packed.len() < 8 + plain_length).unwrap_or_else(|| {
        let mut buffer = with_length(-1);
        parts.iter().for_each(|part| buffer.extend_from_slice(part));
        buffer
    })
}

fn lz4(parts: &[&[u8]], into: Vec<u8>) -> Option<Vec<u8>> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(into);
    parts.iter().try_for_each(|part| encoder.write_all(part)).ok()?;
    encoder.finish().ok()
}

fn zstandard(parts: &[&[u8]], plain_length: usize, into: Vec<u8>) -> Option<Vec<u8>> {
    let mut encoder = zstd::stream::write::Encoder::new(into, ZSTD_LEVEL).ok()?;
    encoder.set_pledged_src_size(Some(plain_length as u64)).ok()?;
    encoder.include_contentsize(true).ok()?;
    parts.iter().try_for_each(|part| encoder.write_all(part)).ok()?;
    encoder.finish().ok()
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
            for bytes in [&runs[..], &noise[..], &[7], &[]] {
                let (head, tail) = bytes.split_at(bytes.len() / 3);
                for parts in [&[bytes][..], &[head, &[], tail]] {
                    let packed = compress(parts, compression);
                    assert!(packed.len() <= bytes.len() + 8);
                    assert_eq!(decompress(&packed, compression, 1 << 20).expect("own frame"), bytes);
                }
            }
            assert!(compress(&[&runs], compression).len() < runs.len() / 4);
        }
    }

    #[test]
    fn promises_are_checked() {
        let mut packed = compress(&[&[5; 1000]], Compression::Zstd);
        packed[0] ^= 1;
        assert!(decompress(&packed, Compression::Zstd, 1 << 20).is_err());
        assert!(decompress(&[1, 2, 3], Compression::Lz4, 1 << 20).is_err());
        assert!(decompress(&i64::MAX.to_le_bytes(), Compression::Lz4, u64::MAX).is_err());
    }
}
