//! Where the messages of a table's file end, whatever its columns are: for programs that copy whole batches and read none.
//!
//! ```text
//!  file, offset ─► prefix ─► length of the metadata ─► metadata ─► length of the body ─► end of the message
//!                     └ of the end-of-stream marker: no message
//! ```
//! Of a file that is being written the answer is good for ever: bytes before the marker do not change.

use std::io;

use super::table_reader::ReadAt;
use crate::ipc::{CONTINUATION, END_OF_STREAM, MOST_METADATA_BYTES};

/// Bytes of the end-of-stream marker, and of what stands in its place before a message.
pub const MARKER_BYTES: u64 = END_OF_STREAM.len() as u64;
/// What ends a table's file.
pub const MARKER: [u8; MARKER_BYTES as usize] = END_OF_STREAM;

/// A message of a table's file, by its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSpan {
    /// Where it ends.
    pub end: u64,
    /// The rows that it has; `None` of a message that is no batch of rows.
    pub rows: Option<u64>,
}

/// The message that begins at `offset`; `None` at the end-of-stream marker. Nothing but the message's metadata is read.
///
/// # Errors
/// When no message is there, or the bytes do not hold all of it, or the system fails.
pub fn message_at(bytes: &impl ReadAt, offset: u64) -> io::Result<Option<MessageSpan>> {
    let mut prefix = [0; MARKER_BYTES as usize];
    bytes.read_at(&mut prefix, offset)?;
    message_behind(prefix, bytes, offset)
}

/// Where the message ends that begins at `offset`; `None` at the end-of-stream marker.
///
/// # Errors
/// As of [`message_at`].
pub fn message_end(bytes: &impl ReadAt, offset: u64) -> io::Result<Option<u64>> {
    Ok(message_at(bytes, offset)?.map(|message| message.end))
}

/// As [`message_at`], of a message whose first bytes are not in place yet.
///
/// # Errors
/// As of [`message_at`].
pub fn message_behind(
    prefix: [u8; MARKER_BYTES as usize],
    bytes: &impl ReadAt,
    offset: u64,
) -> io::Result<Option<MessageSpan>> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{what} at byte {offset}"));
    let (start, length) = prefix.split_at(CONTINUATION.len());
    if start != CONTINUATION {
        return Err(bad("no message of an Arrow stream"));
    }
    let metadata_bytes = u64::from(u32::from_le_bytes(length.try_into().expect("half of eight bytes")));
    if metadata_bytes == 0 {
        return Ok(None);
    }
    let (body_at, file_bytes) = (offset + MARKER_BYTES + metadata_bytes, bytes.length()?);
    if metadata_bytes > MOST_METADATA_BYTES || body_at > file_bytes {
        return Err(bad("a message without its metadata"));
    }
    let mut metadata = vec![0; metadata_bytes as usize];
    bytes.read_at(&mut metadata, offset + MARKER_BYTES)?;
    let message =
        arrow_ipc::root_as_message(&metadata).map_err(|_| bad("a message whose metadata is damaged"))?;
    let body_bytes = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
    let batch = message.header_as_record_batch();
    let rows = batch.map(|batch| u64::try_from(batch.length()).unwrap_or_default());
    match body_bytes <= file_bytes - body_at {
        true => Ok(Some(MessageSpan { end: body_at + body_bytes, rows })),
        false => Err(bad("a message that the file does not hold to its end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::message::opening;
    use crate::table::Table;

    #[test]
    fn the_messages_of_a_stream_are_walked_up_to_its_marker() {
        let schema = opening(Table::Hits, Table::Hits.columns(), &[]);
        let file = [&schema[..], &MARKER].concat();
        let end = message_end(&&file[..], 0).expect("a schema");
        assert_eq!(end, Some(schema.len() as u64));
        assert_eq!(message_end(&&file[..], schema.len() as u64).expect("a marker"), None);
    }

    #[test]
    fn what_is_no_message_is_an_error_and_never_more_memory_than_the_file_has() {
        let schema = opening(Table::Hits, Table::Hits.columns(), &[]);
        let cut = &schema[..schema.len() - 1];
        assert!(message_end(&cut, 0).is_err());
        assert!(message_end(&&schema[8..], 0).is_err());
        let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 3];
        assert!(message_end(&&huge[..], 0).is_err());
        assert!(message_end(&&schema[..], u64::MAX).is_err());
    }
}
