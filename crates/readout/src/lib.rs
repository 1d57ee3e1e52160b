//! Placeholder.

pub mod faults;
