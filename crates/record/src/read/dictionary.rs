//! The dictionary of a column of words.
//!
//! ```text
//!  message behind the schema ──► words, which must be those that this version writes, or the first of them
//! ```

use arrow_ipc::{Message, MessageHeader};

use super::table_reader::{ReadAt, TableReader};
use crate::error::RecordError;

/// Most bytes of a dictionary's offsets, or of its letters.
const MOST_BYTES: u64 = 64 * 1024;

/// Reads the message at `offset`, of which `metadata` is given: a schema's dictionary of this number. Returns how many words it has and
/// where the next message begins.
///
/// # Errors
/// When the words are not the first of `known`.
pub(super) fn read_dictionary<R: ReadAt>(
    reader: &TableReader<R>,
    offset: u64,
    metadata: &[u8],
    (number, known): (i64, &[&str]),
) -> Result<(usize, u64), RecordError> {
    let bad = || reader.damaged(offset, "a dictionary that cannot be read");
    let message = arrow_ipc::root_as_message(metadata).map_err(|_| bad())?;
    let body_at = offset + 8 + metadata.len() as u64;
    let body_length = u64::try_from(message.bodyLength()).map_err(|_| bad())?;
    let (count, offsets, letters) = buffers_of(&message, number, body_length).ok_or_else(bad)?;
    let read = |(at, length): (u64, u64)| reader.read(body_at + at, length as usize);
    let (offsets, letters) = (read(offsets)?, read(letters)?);
    let offsets: Vec<usize> =
        offsets.as_chunks::<4>().0.iter().map(|offset| u32::from_le_bytes(*offset) as usize).collect();
    if offsets.len() <= count || count > known.len() {
        return Err(bad());
    }
    for (word, place) in known.iter().zip(offsets[..=count].windows(2)) {
        if letters.get(place[0]..place[1]) != Some(word.as_bytes()) {
            return Err(reader.damaged(offset, format!("other words than `{}`", known.join("`, `"))));
        }
    }
    Ok((count, body_at + body_length))
}

type Place = (u64, u64);

/// Number of words, and place and length of their offsets and of their letters.
fn buffers_of(message: &Message<'_>, number: i64, body_length: u64) -> Option<(usize, Place, Place)> {
    let dictionary = message.header_as_dictionary_batch()?;
    let data = dictionary.data()?;
    let buffers = data.buffers().filter(|buffers| buffers.len() == 3)?;
    let place = |index: usize| {
        let (at, length) = (buffers.get(index).offset(), buffers.get(index).length());
        let (at, length) = (u64::try_from(at).ok()?, u64::try_from(length).ok()?);
        (length <= MOST_BYTES && at.checked_add(length)? <= body_length).then_some((at, length))
    };
    let plain = message.header_type() == MessageHeader::DictionaryBatch
        && dictionary.id() == number
        && !dictionary.isDelta()
        && data.compression().is_none();
    let count = usize::try_from(data.length()).ok()?;
    Some((count, place(1)?, place(2)?)).filter(|_| plain)
}
