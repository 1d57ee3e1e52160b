//! How the data of a source come: what a gap means depends on it.

use serde::Serialize;

/// How the data of a source come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// In datagrams, which the network may lose, double and swap.
    Datagrams,
    /// In a stream, of which nothing is lost between its ends.
    Stream,
    /// Not known here.
    #[default]
    Unknown,
}
