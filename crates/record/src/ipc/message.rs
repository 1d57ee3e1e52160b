//! The metadata of messages: schema, dictionary and record batch, built with arrow-ipc's generated builders.
//!
//! ```text
//!  Table ──► framed schema message, and those of its dictionaries
//!       Shape, lengths of buffers ──► metadata with a place for its checksum
//! ```

use arrow_ipc::{
    BodyCompressionBuilder, BodyCompressionMethod, Buffer, CompressionType, DictionaryBatchBuilder,
    FieldNode, KeyValueBuilder, MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder,
};
use arrow_schema::Schema;
use flatbuffers::{FlatBufferBuilder, WIPOffset};

use super::columns::Shape;
use super::{ALIGNMENT, CONTINUATION, ZEROS, padding};
use crate::settings::Compression;
use crate::table::{Column, Table, dictionaries};

/// Key of the checksum in a message's custom metadata.
pub(crate) const CHECKSUM_KEY: &str = "crc32c";
/// What stands in the checksum's place while it is computed.
pub(crate) const CHECKSUM_BLANK: &str = "00000000";
/// Key of the number of the batch within its table.
pub(crate) const BATCH_KEY: &str = "batch";
/// Key of the number of the batch's first row within its table.
pub(crate) const FIRST_ROW_KEY: &str = "first_row";

/// A record batch's metadata, ready to be completed by its checksum.
#[derive(Debug)]
pub(crate) struct BatchMetadata {
    /// The flatbuffer and its padding: with the prefix a multiple of [`ALIGNMENT`].
    pub bytes: Vec<u8>,
    /// Where the checksum's digits lie in `bytes`.
    pub checksum_at: usize,
}

/// All that comes before the first batch of a table with these columns: its schema and its dictionaries. A schema numbers these from 0 on.
pub(crate) fn opening(table: Table, columns: &[Column], metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = schema_message(&table.schema(columns, metadata));
    for (number, words) in (0..).zip(dictionaries(columns)) {
        bytes.extend(dictionary_message(number, &words));
    }
    bytes
}

fn schema_message(schema: &Schema) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let mut dictionaries = arrow_ipc::writer::DictionaryTracker::new(true);
    let header = arrow_ipc::convert::IpcSchemaEncoder::new()
        .with_dictionary_tracker(&mut dictionaries)
        .schema_to_fb_offset(&mut builder, schema)
        .as_union_value();
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_bodyLength(0);
    message.add_header(header);
    let root = message.finish();
    builder.finish(root, None);
    let bytes = padded(builder.finished_data());
    [&prefix(bytes.len())[..], &bytes].concat()
}

/// The message that gives a dictionary of this number: strings as offsets and bytes.
fn dictionary_message(number: i64, words: &[&str]) -> Vec<u8> {
    let ends = words.iter().scan(0, |end, word| {
        *end += word.len() as i32;
        Some(*end)
    });
    let offsets: Vec<u8> = std::iter::once(0).chain(ends).flat_map(i32::to_le_bytes).collect();
    let letters = words.concat().into_bytes();
    let mut builder = FlatBufferBuilder::new();
    let (buffers, body_length) = places(&[0, offsets.len(), letters.len()]);
    let buffers = builder.create_vector(&buffers);
    let nodes = builder.create_vector(&[FieldNode::new(words.len() as i64, 0)]);
    let mut batch = RecordBatchBuilder::new(&mut builder);
    batch.add_length(words.len() as i64);
    batch.add_nodes(nodes);
    batch.add_buffers(buffers);
    let data = batch.finish();
    let mut dictionary = DictionaryBatchBuilder::new(&mut builder);
    dictionary.add_id(number);
    dictionary.add_data(data);
    let header = dictionary.finish().as_union_value();
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::DictionaryBatch);
    message.add_bodyLength(body_length);
    message.add_header(header);
    let root = message.finish();
    builder.finish(root, None);
    let metadata = padded(builder.finished_data());
    let mut bytes = [&prefix(metadata.len())[..], &metadata].concat();
    for buffer in [offsets, letters] {
        bytes.extend_from_slice(&buffer);
        bytes.extend_from_slice(&ZEROS[..padding(buffer.len())]);
    }
    bytes
}

/// The 8 bytes before `metadata_length` bytes of metadata.
pub(crate) fn prefix(metadata_length: usize) -> [u8; 8] {
    let length = u32::try_from(metadata_length).expect("metadata is far below 4 GiB").to_le_bytes();
    let mut prefix = [0; 8];
    prefix[..4].copy_from_slice(&CONTINUATION);
    prefix[4..].copy_from_slice(&length);
    prefix
}

/// The metadata of a batch whose buffers have these lengths in the file.
pub(crate) fn batch_metadata(
    shape: &Shape,
    lengths: &[usize],
    compression: Compression,
    custom: &[(&str, &str)],
) -> BatchMetadata {
    let mut builder = FlatBufferBuilder::new();
    let (buffers, body_length) = places(lengths);
    let nodes: Vec<FieldNode> =
        shape.nodes.iter().map(|(length, nulls)| FieldNode::new(*length as i64, *nulls as i64)).collect();
    let (nodes, buffers) = (builder.create_vector(&nodes), builder.create_vector(&buffers));
    let variadic = (!shape.variadic.is_empty()).then(|| builder.create_vector(&shape.variadic));
    let compression = body_compression(&mut builder, compression);
    let mut batch = RecordBatchBuilder::new(&mut builder);
    batch.add_length(shape.rows as i64);
    batch.add_nodes(nodes);
    batch.add_buffers(buffers);
    if let Some(compression) = compression {
        batch.add_compression(compression);
    }
    if let Some(variadic) = variadic {
        batch.add_variadicBufferCounts(variadic);
    }
    let header = batch.finish().as_union_value();
    let with_checksum: Vec<(&str, &str)> =
        custom.iter().copied().chain([(CHECKSUM_KEY, CHECKSUM_BLANK)]).collect();
    let pairs: Vec<_> = with_checksum.iter().map(|pair| key_value(&mut builder, *pair)).collect();
    let pairs = builder.create_vector(&pairs);
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::RecordBatch);
    message.add_bodyLength(body_length);
    message.add_header(header);
    message.add_custom_metadata(pairs);
    let root = message.finish();
    builder.finish(root, None);
    let bytes = padded(builder.finished_data());
    let checksum_at = checksum_place(&bytes).expect("the checksum was put into the metadata just now");
    BatchMetadata { bytes, checksum_at }
}

/// Where the checksum's eight digits lie in a message's metadata.
pub(crate) fn checksum_place(metadata: &[u8]) -> Option<usize> {
    let message = arrow_ipc::root_as_message(metadata).ok()?;
    let value = message
        .custom_metadata()?
        .iter()
        .find(|pair| pair.key() == Some(CHECKSUM_KEY))
        .and_then(|pair| pair.value())?;
    let place = (value.as_ptr() as usize).checked_sub(metadata.as_ptr() as usize)?;
    (value.len() == CHECKSUM_BLANK.len() && place + value.len() <= metadata.len()).then_some(place)
}

fn places(lengths: &[usize]) -> (Vec<Buffer>, i64) {
    let mut offset = 0;
    let buffers = lengths
        .iter()
        .map(|length| {
            let buffer = Buffer::new(offset as i64, *length as i64);
            offset += length + padding(*length);
            buffer
        })
        .collect();
    (buffers, offset as i64)
}

fn body_compression<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    compression: Compression,
) -> Option<WIPOffset<arrow_ipc::BodyCompression<'a>>> {
    let codec = match compression {
        Compression::None => return None,
        Compression::Lz4 => CompressionType::LZ4_FRAME,
        Compression::Zstd => CompressionType::ZSTD,
    };
    let mut compression = BodyCompressionBuilder::new(builder);
    compression.add_codec(codec);
    compression.add_method(BodyCompressionMethod::BUFFER);
    Some(compression.finish())
}

fn key_value<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    (key, value): (&str, &str),
) -> WIPOffset<arrow_ipc::KeyValue<'a>> {
    let (key, value) = (builder.create_string(key), builder.create_string(value));
    let mut pair = KeyValueBuilder::new(builder);
    pair.add_key(key);
    pair.add_value(value);
    pair.finish()
}

/// The flatbuffer, padded so that what follows it and an 8-byte prefix is aligned.
fn padded(flatbuffer: &[u8]) -> Vec<u8> {
    let mut bytes = flatbuffer.to_vec();
    bytes.resize((bytes.len() + 8).next_multiple_of(ALIGNMENT) - 8, 0);
    bytes
}
