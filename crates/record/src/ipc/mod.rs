//! Arrow IPC streams, written by us so that batches are never copied, carry a checksum and appear at once or not at all.
//!
//! ```text
//!  file:  schema ┊ prefix metadata body ┊ prefix metadata body ┊ end-of-stream
//!                   8 B     └ crc32c over both └ buffers, each padded to 64 B
//! ```
//! A table with columns of words has their dictionaries between its schema and its first batch.
//!
//! The checksum: key `crc32c` of the message's custom metadata, eight lower-case hexadecimal digits of the CRC-32C over
//! the metadata (flatbuffer and its padding, with these eight digits taken as `0`), then the body as it lies in the file
//! (buffers, compressed if they are, and their padding). The 8-byte prefix is not covered; damage there breaks the
//! framing and is found so.

pub(crate) mod columns;
pub(crate) mod compress;
pub mod file;
pub(crate) mod message;
pub(crate) mod workers;

pub use file::TableFile;

/// What every message begins with, before the length of its metadata.
pub(crate) const CONTINUATION: [u8; 4] = [0xFF; 4];
/// What ends a stream: a message without metadata.
pub(crate) const END_OF_STREAM: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];
/// Buffers and messages start at multiples of this, so that a mapped file can be used in place with wide instructions.
pub(crate) const ALIGNMENT: usize = 64;
/// Bytes of padding behind `length` bytes.
pub(crate) const fn padding(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT) - length
}
/// Longest value of a view column that lies in its view.
pub(crate) const INLINE_BYTES: usize = 12;
/// Largest gap between two slices that are written as one extent: a new extent would cost about as much.
pub(crate) const MOST_GAP: usize = 256;
/// Padding to borrow from.
pub(crate) const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];
/// Most rows that a batch of ours may have; a reader refuses more before it reserves memory.
pub(crate) const MOST_ROWS: u64 = 1 << 26;
/// Most bytes of one buffer, as it lies in the file and unpacked.
pub(crate) const MOST_BUFFER_BYTES: u64 = 1 << 30;
/// Most bytes of a message's metadata.
pub(crate) const MOST_METADATA_BYTES: u64 = 1 << 26;
