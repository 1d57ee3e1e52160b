//! What the description of a generic source says: the header's fields by name, then the roles they play.
//!
//! ```text
//!  [source.field]                              the header, as the board's manual tabulates it
//!  buffer_number = { offset = 6, width = 2 }
//!
//!  [source.sequence]                           what thalweg does with it
//!  field = "buffer_number"
//! ```
//! A field without a role may be described, too: it is kept in the raw bytes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time_origin::TimeOrigin;

/// Settings of a source with `format = "generic"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Byte order of all fields that do not state their own.
    pub byte_order: ByteOrder,
    /// The packets follow each other in a TCP stream or file, instead of each filling a datagram. Needs `length`.
    #[serde(default)]
    pub stream: bool,
    /// Bytes of the header. Where the payload starts, unless `payload` says otherwise; needed without `payload`.
    pub header_bytes: Option<usize>,
    /// The header's fields, by name.
    pub field: BTreeMap<String, Field>,
    /// The field whose value decides whether a packet is ours, as a packet type.
    pub accept: Option<Accept>,
    /// Constants that every packet has; a packet with another is counted as `wrong_constant`.
    #[serde(default)]
    pub check: Vec<Check>,
    /// The fields that together name the part of the source (module, device) that sent the packet. Without any, the
    /// source has one part: its sender.
    pub part: Option<Parts>,
    /// The counter that shows what is missing.
    pub sequence: Option<Sequence>,
    /// The field that numbers triggers, frames or events.
    pub trigger: Option<Role>,
    /// The time of the packet.
    pub timestamp: Option<Timestamp>,
    /// What is time 0.
    #[serde(default)]
    pub time_origin: TimeOrigin,
    /// How long a packet is. Without it, as long as its datagram.
    pub length: Option<Length>,
    /// Where the payload starts, when not behind `header_bytes`.
    pub payload: Option<Payload>,
    /// The field with the run's number.
    pub run: Option<Role>,
    /// The field with status bits.
    pub status: Option<Role>,
    /// Hits to make of the packets.
    pub hits: Option<PacketHits>,
    /// Fragments to make of the packets: the boards are triggered, and events are built of what they send.
    pub fragments: Option<PacketFragments>,
}

/// Order of the bytes of a field, or of its 16-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ByteOrder {
    /// Lowest first.
    Little,
    /// Highest first.
    Big,
}

/// Where a number lies in the header. Its value is `(bytes & mask) >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// First byte, from the start of the packet.
    pub offset: usize,
    /// Bytes, 1 to 8.
    pub width: usize,
    /// Order of the bytes, when not the description's.
    pub byte_order: Option<ByteOrder>,
    /// Order of the 16-bit words, when not that of the bytes; `width` is then even.
    pub word_order: Option<ByteOrder>,
    /// The bits that count; without it, all.
    pub mask: Option<u64>,
    /// Places to shift right behind the mask.
    #[serde(default)]
    pub shift: u32,
}

/// A field in a role that needs nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Name of the field.
    pub field: String,
}

/// Which packets are ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Accept {
    /// Name of the field.
    pub field: String,
    /// Values of packets to read; others are counted as `wrong_constant`.
    pub values: Vec<u64>,
    /// Values of packets that are known and left out, as replies to commands; counted as filtered.
    #[serde(default)]
    pub ignore: Vec<u64>,
}

/// A constant of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Name of the field.
    pub field: String,
    /// Its value in every packet.
    pub equals: u64,
}

/// What distinguishes the parts of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Names of the fields: at most 64 bits together.
    pub fields: Vec<String>,
    /// Most parts that are kept apart, 1 to 1024. Packets of further ones are counted as `unexpected_sender`.
    #[serde(default = "default_parts")]
    pub limit: usize,
}

fn default_parts() -> usize {
    64
}

/// A counter that shows what is missing, of each part of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Name of the field.
    pub field: String,
    /// What it counts.
    #[serde(default)]
    pub scope: Scope,
    /// With `scope = "frame"`: packets of each frame.
    pub packets_per_frame: Option<u32>,
    /// With `scope = "frame"`: whether trigger numbers follow each other without holes, so that a number never seen is
    /// a frame lost whole.
    #[serde(default = "yes")]
    pub every_trigger: bool,
    /// How far a packet may come behind later ones and still count as there: in packets, or in frames with
    /// `scope = "frame"`. A gap is counted when it leaves this window. 1 to 4096.
    #[serde(default = "default_window")]
    pub window: usize,
    /// Jumps beyond this (in packets or frames) are believed when the next packet confirms them, and then start the
    /// count anew. At most half of what the counter can count; the default is that or 65536.
    pub largest_gap: Option<u64>,
}

fn yes() -> bool {
    true
}

fn default_window() -> usize {
    32
}

/// What a sequence counter counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Packets of the part, on and on; it wraps at the end of its bits.
    #[default]
    Source,
    /// Packets of one frame, from 0; frames are distinguished by the trigger number.
    Frame,
}

/// The time of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timestamp {
    /// Name of the field. Its counter may begin anywhere; it is extended over its wraps by the times of arrival.
    pub field: String,
    /// Length of one count, picoseconds.
    pub tick_ps: f64,
}

/// How long a packet is: by a field, or fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// Name of the field.
    pub field: Option<String>,
    /// Bytes that one count of the field stands for.
    #[serde(default = "one")]
    pub unit_bytes: usize,
    /// Whether the field counts the header, too.
    #[serde(default)]
    pub includes_header: bool,
    /// Instead of a field: bytes of every payload.
    pub payload_bytes: Option<usize>,
    /// Longest packet with its header; a longer one is counted as `bad_length`.
    #[serde(default = "default_limit")]
    pub limit_bytes: usize,
    /// Datagrams may be longer than their packet; the rest is padding.
    #[serde(default)]
    pub padding: bool,
}

fn one() -> usize {
    1
}

fn default_limit() -> usize {
    Length::LIMIT_BYTES
}

impl Length {
    /// Longest packet unless configured, bytes.
    pub const LIMIT_BYTES: usize = 65_536;
}

/// Where the payload starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// Name of the field with the header's length.
    pub offset_field: String,
    /// Bytes that one count of the field stands for.
    #[serde(default = "one")]
    pub unit_bytes: usize,
}

/// Hits made of packets, so that a stream without a decoder of its own can be ordered and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketHits {
    /// What becomes a hit.
    pub per: HitsPer,
    /// Name of the field with the channel; without it, the first of the `part`'s fields, or channel 0.
    pub channel: Option<String>,
    /// Number of channels; a packet with a higher one makes no hit and is lost as `bad_channel`.
    #[serde(default = "default_channels")]
    pub channels: u16,
    /// Channel of the experiment that channel 0 becomes.
    #[serde(default)]
    pub first_channel: u16,
    /// Added to every time of this source, picoseconds.
    #[serde(default)]
    pub time_offset_ps: i64,
}

/// What becomes a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HitsPer {
    /// Each packet: its time and its part of the source.
    Packet,
}

fn default_channels() -> u16 {
    256
}

/// What says which board sent a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedBy {
    /// The number in the `part`'s fields; any other than the configured ones is refused.
    Header,
    /// The address that sent it: boards stand in the URL in the order of their numbers, as in
    /// `udp://0.0.0.0:5000?from=10.0.1.{1..200}`.
    Sender,
    /// The port or connection: all that comes is of one board.
    #[default]
    Connection,
}

/// Fragments made of packets, so that triggered boards without a decoder of their own are built into events. Needs `trigger`; with a
/// `sequence` of `scope = "frame"` the packets of a frame become one fragment, else each packet is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PacketFragments {
    /// Boards behind one address or connection.
    pub boards: u16,
    /// What says which board sent a packet.
    pub named_by: NamedBy,
    /// With `named_by = "header"`: number of the first board, as it sends it; the others follow.
    pub first_board: u64,
    /// Whether a fragment is recorded with the header of its (first) packet, or is the payload alone.
    pub keep_header: bool,
    /// Of fragments in several packets: how many of one board may be incomplete at a time. The oldest gives way.
    pub open_fragments: u8,
    /// Of fragments in several packets: how long the rest is waited for, milliseconds.
    pub reassembly_ms: u32,
}

impl Default for PacketFragments {
    fn default() -> PacketFragments {
        PacketFragments {
            boards: 1,
            named_by: NamedBy::default(),
            first_board: 0,
            keep_header: true,
            open_fragments: 4,
            reassembly_ms: 100,
        }
    }
}

/// A description that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A role names a field that is not described.
    #[error(
        "`{role}` names the field `{name}`, which is not under [source.field]: describe it there, or use one of {known}"
    )]
    NoSuchField {
        /// The role's key.
        role: &'static str,
        /// The name it gave.
        name: String,
        /// Those that are described.
        known: String,
    },
    /// A field that cannot be read.
    #[error("field `{name}`: {message}")]
    Field {
        /// The field.
        name: String,
        /// What is wrong, and what would do.
        message: String,
    },
    /// Settings that do not go together, or a number out of range.
    #[error("`{key}`: {message}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong, and what would do.
        message: String,
    },
}

impl Settings {
    /// Channels of the experiment that this source takes; 0 when it makes no hits.
    pub fn channel_count(&self) -> usize {
        self.hits.as_ref().map_or(0, |hits| usize::from(hits.channels))
    }

    /// Where its channels start.
    pub fn first_channel(&self) -> u16 {
        self.hits.as_ref().map_or(0, |hits| hits.first_channel)
    }
}
