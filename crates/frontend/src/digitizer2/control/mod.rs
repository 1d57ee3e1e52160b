//! Control protocol.
