//! How the data of a source arrive, on which the meaning of a gap depends.

use serde::Serialize;

/// How the data of a source arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// In datagrams, which the network may lose, duplicate and reorder.
    Datagrams,
    /// In a stream, which loses nothing between its ends.
    Stream,
    /// Not known.
    #[default]
    Unknown,
}
