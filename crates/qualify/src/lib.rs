//! What a host and a switch can do, found before a run depends on it.

pub mod host;
