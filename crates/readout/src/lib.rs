//! Placeholder.

pub mod faults;
pub mod pcap;
