//! Settings of a generic source: the fields of the header by name, then their roles.
//!
//! ```text
//!  [source.field]                              the header, as the board's manual tabulates it
//!  buffer_number = { offset = 6, width = 2 }
//!
//!  [source.sequence]                           how thalweg uses it
//!  field = "buffer_number"
//! ```
//! A field may also be described without a role: it is kept in the raw bytes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time_origin::TimeOrigin;

/// Settings of a source with `format = "generic"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Byte order of all fields that do not set their own.
    pub byte_order: ByteOrder,
    /// The packets follow each other in a TCP stream or file; otherwise each fills a datagram. Needs `length`.
    #[serde(default)]
    pub stream: bool,
    /// Length of the header in bytes. The payload starts behind it, unless `payload` is given; required without
    /// `payload`.
    pub header_bytes: Option<usize>,
    /// The header's fields, by name.
    pub field: BTreeMap<String, Field>,
    /// The field, such as a packet type, whose value selects the packets to read.
    pub accept: Option<Accept>,
    /// Constants of every packet; a packet with another value is counted as `wrong_constant`.
    #[serde(default)]
    pub check: Vec<Check>,
    /// The fields that together name the part of the source (module, device) that sent the packet. Without them, the
    /// whole source is one part.
    pub part: Option<Parts>,
    /// The counter that shows missing packets.
    pub sequence: Option<Sequence>,
    /// The field that numbers triggers, frames or events.
    pub trigger: Option<Role>,
    /// The time of the packet.
    pub timestamp: Option<Timestamp>,
    /// The time that becomes 0.
    #[serde(default)]
    pub time_origin: TimeOrigin,
    /// The length of a packet. Without it, a packet is as long as its datagram.
    pub length: Option<Length>,
    /// Where the payload starts, if not behind `header_bytes`.
    pub payload: Option<Payload>,
    /// The field with the run number.
    pub run: Option<Role>,
    /// The field with status bits.
    pub status: Option<Role>,
    /// Makes hits of the packets.
    pub hits: Option<PacketHits>,
    /// Makes fragments of the packets: the boards are triggered, and events are built from their fragments.
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

/// Position of a number in the header. Its value is `(bytes & mask) >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Offset of the first byte, from the start of the packet.
    pub offset: usize,
    /// Length in bytes, 1 to 8.
    pub width: usize,
    /// Order of the bytes, if it differs from that of the description.
    pub byte_order: Option<ByteOrder>,
    /// Order of the 16-bit words, if it differs from that of the bytes; `width` must then be even.
    pub word_order: Option<ByteOrder>,
    /// The bits to use; all by default.
    pub mask: Option<u64>,
    /// Bits to shift right after the mask is applied.
    #[serde(default)]
    pub shift: u32,
}

/// A role that needs only a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Name of the field.
    pub field: String,
}

/// Selects the packets to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Accept {
    /// Name of the field.
    pub field: String,
    /// Values of packets to read; others are counted as `wrong_constant`.
    pub values: Vec<u64>,
    /// Values of known packets that are left out, such as replies to commands; counted as filtered.
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

/// The fields that distinguish the parts of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Names of the fields: together at most 64 bits.
    pub fields: Vec<String>,
    /// Most parts to distinguish, 1 to 1024. Packets of further parts are counted as `unexpected_sender`.
    #[serde(default = "default_parts")]
    pub limit: usize,
}

fn default_parts() -> usize {
    64
}

/// A counter that shows missing packets of each part of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Name of the field.
    pub field: String,
    /// What it counts.
    #[serde(default)]
    pub scope: Scope,
    /// With `scope = "frame"`: number of packets of each frame.
    pub packets_per_frame: Option<u32>,
    /// With `scope = "frame"`: whether trigger numbers have no holes, so that a number without packets is a lost frame.
    #[serde(default = "yes")]
    pub every_trigger: bool,
    /// How far a packet may be behind later ones and still be accepted: in packets, or in frames with `scope =
    /// "frame"`. A gap is counted when it leaves this window. 1 to 4096.
    #[serde(default = "default_window")]
    pub window: usize,
    /// Jumps beyond this (in packets or frames) must be confirmed by the next packet, or, of numbers with holes, by more
    /// packets or frames than `window`, 16 at least, without any of the old count between them; then they restart the
    /// count. So do jumps back by more than `window`; those into numbers that were just counted need 512 packets, and more packets
    /// or frames than `window`, without any of the old count between them, since packets that come late or again follow
    /// each other, too; where they go to 0 or to the start of the count, 16 that follow each other. Numbers within `window` that come again
    /// are copies; where 512 of them come from 0 or the start of the count on, and none of the old count between them,
    /// or the first two of the count more than half a second later, the counter was restarted. At most half of the counter's range; the default is that or 65536.
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
    /// All packets of the part; it wraps at the end of its bits.
    #[default]
    Source,
    /// The packets of one frame, from 0; the trigger number distinguishes frames.
    Frame,
}

/// The time of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timestamp {
    /// Name of the field. Its counter may start at any value; it is extended over its wraps by the times of arrival.
    pub field: String,
    /// Length of one count in picoseconds.
    pub tick_ps: f64,
}

/// The length of a packet: from a field, or fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// Name of the field.
    pub field: Option<String>,
    /// Bytes per count of the field.
    #[serde(default = "one")]
    pub unit_bytes: usize,
    /// Whether the length of the field includes the header.
    #[serde(default)]
    pub includes_header: bool,
    /// Fixed length of every payload in bytes, instead of a field.
    pub payload_bytes: Option<usize>,
    /// Longest packet in bytes, with its header; a longer one is counted as `bad_length`. Without it 65536.
    pub limit_bytes: Option<usize>,
    /// Datagrams may be longer than their packet; the rest is padding.
    #[serde(default)]
    pub padding: bool,
}

fn one() -> usize {
    1
}

impl Length {
    /// The longest packet in bytes, as configured or by default.
    pub fn limit(&self) -> usize {
        self.limit_bytes.unwrap_or(65_536)
    }
}

/// Where the payload starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// Name of the field with the header's length.
    pub offset_field: String,
    /// Bytes per count of the field.
    #[serde(default = "one")]
    pub unit_bytes: usize,
}

/// Makes hits of packets, so that a stream without a decoder of its own can be ordered and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketHits {
    /// What becomes a hit.
    pub per: HitsPer,
    /// Name of the field with the channel; without it, the first field of `part`, or channel 0.
    pub channel: Option<String>,
    /// Number of channels; a packet with a higher channel makes no hit and is lost as `bad_channel`.
    #[serde(default = "default_channels")]
    pub channels: u16,
    /// The experiment's channel for channel 0 of this source.
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

/// Identifies the board that sent a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedBy {
    /// The number in the fields of `part`; other numbers than the configured ones are refused.
    Header,
    /// The address of the sender: the URL lists the boards in the order of their numbers, as in
    /// `udp://0.0.0.0:5000?from=10.0.1.{1..200}`.
    Sender,
    /// The port or connection: one board sends all its data.
    #[default]
    Connection,
}

/// Makes fragments of packets, so that events are built from triggered boards without a decoder of their own. Needs
/// `trigger`; with a `sequence` of `scope = "frame"` the packets of a frame become one fragment, otherwise each packet
/// is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PacketFragments {
    /// Number of boards behind one address or connection.
    pub boards: u16,
    /// Identifies the board that sent a packet.
    pub named_by: NamedBy,
    /// With `named_by = "header"`: number of the first board in its packets; the other boards have the next numbers.
    pub first_board: u64,
    /// Whether a fragment is recorded with the header of its (first) packet, or as payload alone.
    pub keep_header: bool,
    /// For fragments in several packets: most incomplete fragments of one board. When it is exceeded, the oldest is
    /// given up.
    pub open_fragments: u8,
    /// For fragments in several packets: how long to wait for the remaining packets, in milliseconds.
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
    /// A role uses a field that is not described.
    #[error(
        "`{role}` uses the field `{name}`, which is not under [source.field]: describe it there, or use one of {known}"
    )]
    NoSuchField {
        /// The key of the role.
        role: &'static str,
        /// The name of the field that it uses.
        name: String,
        /// The fields that are described.
        known: String,
    },
    /// A field that cannot be read.
    #[error("field `{name}`: {message}")]
    Field {
        /// The field.
        name: String,
        /// What is wrong, and what to write instead.
        message: String,
    },
    /// Keys that exclude each other, or a value out of range.
    #[error("`{key}`: {message}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong, and what to write instead.
        message: String,
    },
}

impl Settings {
    /// Number of the experiment's channels that this source has; 0 if it makes no hits.
    pub fn channel_count(&self) -> usize {
        self.hits.as_ref().map_or(0, |hits| usize::from(hits.channels))
    }

    /// The first of its channels.
    pub fn first_channel(&self) -> u16 {
        self.hits.as_ref().map_or(0, |hits| hits.first_channel)
    }
}
