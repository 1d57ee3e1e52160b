//! Events out of fragments, sans-I/O: bytes and time come in, events come out; no socket is opened and no clock read.
//!
//! ```text
//!  Fragments ─► Builder ─► Events
//! ```
