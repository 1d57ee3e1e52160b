//! Shared or per source.
