//! Boards without a decoder of their own: packets in datagrams or in a stream, whose headers the configuration
//! describes.
//!
//! ```text
//!  description (TOML) ─► Settings ─► Layout, compiled once
//!                                      │
//!  datagrams · stream ─► GenericUnpack ┴► packets ─► GenericDecode ─► counters, and a hit per packet on request
//!                              └ gaps, duplicates, unexpected senders, wrong constants, bad lengths
//! ```
//! This gives a lab's own board loss accounting and raw recording without any code. Hits *inside* the payload are not
//! supported: they need a decoder.
//!
//! The description of RECBE boards, as TOML:
//! ```toml
#![doc = include_str!("../../descriptions/recbe.toml")]
//! ```

mod boards;
#[cfg(any(test, feature = "harness"))]
mod check;
mod decode;
pub mod emit;
pub mod emulate;
mod entry;
mod layout;
mod number;
mod numbering;
mod packets;
#[cfg(any(test, feature = "harness"))]
mod seeds;
mod settings;
mod split;
#[cfg(test)]
mod tests;
mod time;
mod unpack;

pub use decode::GenericDecode;
pub use entry::FORMAT;
pub use layout::{Head, Layout};
pub use number::Number;
pub use settings::{
    Accept, ByteOrder, Check, Field, HitsPer, Length, NamedBy, PacketFragments, PacketHits, Parts, Payload,
    Role, Scope, Sequence, Settings, SettingsError, Timestamp,
};
pub use split::GenericSplitter;
pub use unpack::GenericUnpack;
