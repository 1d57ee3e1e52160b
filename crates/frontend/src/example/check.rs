//! Fuzz target of the family.

use super::{emulate, settings::Settings};
use crate::check::{joined, received, sent, split};
use crate::format::FuzzTarget;

/// Fuzz targets of the family.
pub(super) static FUZZ: &[FuzzTarget] = &[FuzzTarget {
    name: "example",
    seeds: || vec![joined(sent(&emulate::Settings::default(), 20).0.iter().map(Vec::as_slice))],
    check: |bytes| received(&Settings::default(), split(bytes)).assert_closed(),
}];
